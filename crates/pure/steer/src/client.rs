//! The sender's side of a command: what it may conclude, when it asks, and when it looks for another run of the app.
//!
//! A command is sent once. Without an answer in time the client asks for the id, and asks again until it has a final
//! answer; it never sends the command a second time, because the first one may be on its way or have had its effect.
//! A question about a command that did not arrive withdraws it, so that the answer is certain.
//!
//! The caller says when the run that was asked is [lost](Client::lost): the host refuses its port, its connection is
//! silent, or another run announces itself. The next run answers from the log; if none comes, the client is uncertain
//! after a few announcement intervals, not after a minute of questions to a dead process.

use core::time::Duration;

use units::Instant;

use crate::app::Question;
use crate::{Answer, Command, Reply, Rule};

/// Time between two questions, and between two looks for another run. Units: of the client's own clock.
pub const ASK_INTERVAL: Duration = Duration::from_millis(200);
/// Number of questions after which a client gives up and says `uncertain`: a minute of them.
pub const MAX_QUESTIONS: u32 = 300;
/// Time after the loss of a run in which another one may come: three intervals of announcements.
pub const NEXT_RUN_PATIENCE: Duration = Duration::from_secs(3);

/// What became of a command, as its sender knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Conclusion {
    /// The app's final answer.
    Answered(Answer),
    /// The command never arrived and has no effect.
    NeverArrived,
    /// No answer tells whether the command took effect: look it up in the log.
    Uncertain,
}

/// What the client does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Sends the command, once.
    Command(Command),
    /// Sends the question about its id.
    Question(Question),
    /// Connects to the run of the app that there is now, and says [`Client::reached`] if there is one.
    Connect,
}

/// One command at its sender.
#[derive(Debug)]
pub struct Client {
    question: Question,
    questions: u32,
    /// Whether the run that is asked has another log than the one that got the command.
    is_doubted: bool,
    /// Earliest moment of the next look for another run.
    next_look: Instant,
    state: State,
}

#[derive(Debug)]
enum State {
    Fresh(Box<Command>),
    Asking {
        next_question: Instant,
    },
    /// The run that was asked has ended, and no other is known.
    Looking {
        until: Instant,
    },
    Concluded(Conclusion),
}

impl Client {
    /// Makes the client of one command.
    #[must_use]
    pub fn new(command: Command) -> Self {
        let Command { id, session, valid_until, .. } = command;
        let question = Question { id, session, valid_until };
        let state = State::Fresh(Box::new(command));
        Self { question, questions: 0, is_doubted: false, next_look: Instant::ORIGIN, state }
    }

    /// Returns what to do at `now`, on the client's own clock: first the command is sent, later only questions.
    pub fn poll(&mut self, now: Instant) -> Option<Message> {
        match &mut self.state {
            State::Fresh(command) => {
                let command = (**command).clone();
                self.state = State::Asking { next_question: now + ASK_INTERVAL };
                Some(Message::Command(command))
            }
            State::Asking { next_question } if *next_question <= now => {
                if self.questions == MAX_QUESTIONS {
                    self.state = State::Concluded(Conclusion::Uncertain);
                    return None;
                }
                self.questions += 1;
                *next_question = now + ASK_INTERVAL;
                Some(Message::Question(self.question))
            }
            State::Looking { until } if *until <= now => {
                self.state = State::Concluded(Conclusion::Uncertain);
                None
            }
            State::Looking { .. } if self.next_look <= now => {
                self.next_look = now + ASK_INTERVAL;
                Some(Message::Connect)
            }
            State::Asking { .. } | State::Looking { .. } | State::Concluded(_) => None,
        }
    }

    /// Returns the moment of the next question or look; none when there is a conclusion, or the command was not sent.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Asking { next_question } => Some(*next_question),
            State::Looking { until } => Some(self.next_look.min(*until)),
            State::Fresh(_) | State::Concluded(_) => None,
        }
    }

    /// Notes that the run which was asked has ended, or that it cannot be reached. It may be wrong: then the same run is
    /// asked again.
    pub fn lost(&mut self, now: Instant) {
        if matches!(self.state, State::Asking { .. }) {
            self.next_look = self.next_look.max(now);
            self.state = State::Looking { until: now + NEXT_RUN_PATIENCE };
        }
    }

    /// Notes a connection to the run of the app that there is now: it is asked at once.
    pub fn reached(&mut self, now: Instant) {
        if matches!(self.state, State::Looking { .. }) {
            self.state = State::Asking { next_question: now };
        }
    }

    /// Notes that the run that is asked has another log than the one that got the command, as [`Seen`](crate::Seen) tells:
    /// what it says is uncertain, except that the command was applied.
    pub const fn doubt(&mut self) {
        self.is_doubted = true;
    }

    /// Takes an answer of the app. The first final one stands.
    pub fn answer(&mut self, answer: Answer) {
        if answer.is_final() {
            self.conclude(match answer {
                Answer::Applied(_) => Conclusion::Answered(answer),
                _ if self.is_doubted => Conclusion::Uncertain,
                Answer::Uncertain | Answer::Refused { rule: Rule::Forgotten } => Conclusion::Uncertain,
                answer => Conclusion::Answered(answer),
            });
        }
    }

    /// Takes the reply to a question.
    pub fn reply(&mut self, reply: Reply) {
        match reply {
            Reply::Known(answer) => self.answer(answer),
            Reply::NeverSeen if self.is_doubted => self.conclude(Conclusion::Uncertain),
            Reply::NeverSeen => self.conclude(Conclusion::NeverArrived),
            Reply::Forgotten => self.conclude(Conclusion::Uncertain),
        }
    }

    /// Returns the conclusion, once there is one.
    #[must_use]
    pub const fn conclusion(&self) -> Option<&Conclusion> {
        match &self.state {
            State::Concluded(conclusion) => Some(conclusion),
            State::Fresh(_) | State::Asking { .. } | State::Looking { .. } => None,
        }
    }

    fn conclude(&mut self, conclusion: Conclusion) {
        if matches!(self.state, State::Asking { .. } | State::Looking { .. }) {
            self.state = State::Concluded(conclusion);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CommandId, SessionId, Value};

    fn client() -> Client {
        Client::new(Command {
            id: CommandId(1),
            session: SessionId(1),
            parameter: "gain".to_owned(),
            if_revision: None,
            value: Value::scalar(1.0),
            valid_until: Instant::from_nanos(5),
            reason: String::new(),
        })
    }

    #[test]
    fn a_command_is_sent_once_and_then_only_asked_for() {
        let mut client = client();
        let mut now = Instant::from_nanos(1);
        assert!(matches!(client.poll(now), Some(Message::Command(_))));
        assert_eq!(client.poll(now), None);
        for _ in 0..MAX_QUESTIONS {
            now = client.deadline().unwrap();
            assert!(matches!(client.poll(now), Some(Message::Question(_))));
            client.answer(Answer::Accepted);
        }
        now = client.deadline().unwrap();
        assert_eq!((client.poll(now), client.conclusion()), (None, Some(&Conclusion::Uncertain)));
    }

    #[test]
    fn the_first_final_answer_stands() {
        let replies = [
            (Reply::Known(Answer::Expired), Conclusion::Answered(Answer::Expired)),
            (Reply::Known(Answer::Uncertain), Conclusion::Uncertain),
            (Reply::NeverSeen, Conclusion::NeverArrived),
            (Reply::Forgotten, Conclusion::Uncertain),
        ];
        for (reply, conclusion) in replies {
            let mut client = client();
            client.poll(Instant::ORIGIN);
            client.reply(reply);
            assert_eq!(client.conclusion(), Some(&conclusion));
            client.answer(Answer::Superseded);
            assert_eq!(client.conclusion(), Some(&conclusion));
            assert_eq!(client.poll(Instant::from_nanos(u64::MAX)), None);
        }
    }

    #[test]
    fn of_a_run_with_another_log_only_applied_is_believed() {
        let applied = crate::Applied {
            epoch: units::Epoch { start_ns: 1, incarnation: 1 },
            index: 1,
            revision: 1,
            readback: Value::scalar(1.0),
        };
        let failed = Answer::Failed { reason: String::new() };
        let replies = [
            (Reply::Known(Answer::Applied(applied.clone())), Conclusion::Answered(Answer::Applied(applied))),
            (Reply::Known(failed), Conclusion::Uncertain),
            (Reply::Known(Answer::Refused { rule: Rule::Session }), Conclusion::Uncertain),
            (Reply::NeverSeen, Conclusion::Uncertain),
        ];
        for (reply, conclusion) in replies {
            let mut client = client();
            client.poll(Instant::ORIGIN);
            client.doubt();
            client.reply(reply);
            assert_eq!(client.conclusion(), Some(&conclusion));
        }
    }

    #[test]
    fn a_client_whose_app_is_lost_is_uncertain_after_three_announcements_unless_another_run_answers() {
        let ms = |count: u64| Instant::from_nanos(count * 1_000_000);
        let mut client = client();
        client.poll(ms(0));
        client.lost(ms(200));
        let mut looks = 0;
        while client.conclusion().is_none() {
            let now = client.deadline().unwrap();
            looks += u32::from(client.poll(now) == Some(Message::Connect));
            assert!(now <= ms(200) + NEXT_RUN_PATIENCE);
        }
        assert_eq!((looks, client.conclusion()), (15, Some(&Conclusion::Uncertain)));

        let mut client = self::client();
        client.poll(ms(0));
        client.lost(ms(200));
        assert_eq!(client.poll(ms(200)), Some(Message::Connect));
        client.reached(ms(250));
        assert!(matches!(client.poll(ms(250)), Some(Message::Question(_))), "the next run is asked at once");
        client.reply(Reply::Known(Answer::Expired));
        assert_eq!(client.conclusion(), Some(&Conclusion::Answered(Answer::Expired)));
    }

    #[test]
    fn runs_that_are_lost_again_and_again_do_not_prolong_the_minute_of_questions() {
        let mut client = client();
        client.poll(Instant::ORIGIN);
        let mut questions = 0;
        while client.conclusion().is_none() {
            let now = client.deadline().unwrap();
            match client.poll(now) {
                Some(Message::Question(_)) => {
                    questions += 1;
                    client.lost(now);
                }
                Some(Message::Connect) => client.reached(now),
                Some(Message::Command(_)) => panic!("it was sent before"),
                None => {}
            }
        }
        assert_eq!((questions, client.conclusion()), (MAX_QUESTIONS, Some(&Conclusion::Uncertain)));
    }

    #[test]
    fn an_answer_that_comes_late_from_a_lost_run_counts() {
        let mut client = client();
        client.poll(Instant::ORIGIN);
        client.lost(Instant::ORIGIN);
        client.answer(Answer::Superseded);
        client.reached(Instant::ORIGIN);
        assert_eq!(client.conclusion(), Some(&Conclusion::Answered(Answer::Superseded)));
    }
}
