//! The sender's side of a command: what it may conclude, and when it asks.
//!
//! A command is sent once. Without an answer in time the client asks for the id, and asks again until it has a final
//! answer; it never sends the command a second time, because the first one may be on its way or have had its effect.
//! A question about a command that did not arrive withdraws it, so that the answer is certain.

use core::time::Duration;

use units::Instant;

use crate::app::Question;
use crate::{Answer, Command, Reply, Rule};

/// Time between two questions. Units: of the client's own clock.
pub const ASK_INTERVAL: Duration = Duration::from_millis(200);
/// Number of questions after which a client gives up and says `uncertain`: a minute of them.
pub const MAX_QUESTIONS: u32 = 300;

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

/// What the client sends next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// The command, once.
    Command(Command),
    /// The question about its id.
    Question(Question),
}

/// One command at its sender.
#[derive(Debug)]
pub struct Client {
    question: Question,
    state: State,
}

#[derive(Debug)]
enum State {
    Fresh(Box<Command>),
    Sent { next_question: Instant, questions: u32 },
    Concluded(Conclusion),
}

impl Client {
    /// Makes the client of one command.
    #[must_use]
    pub fn new(command: Command) -> Self {
        let Command { id, session, valid_until, .. } = command;
        Self { question: Question { id, session, valid_until }, state: State::Fresh(Box::new(command)) }
    }

    /// Returns the message to send at `now`, on the client's own clock: first the command, later only questions.
    pub fn poll(&mut self, now: Instant) -> Option<Message> {
        match &mut self.state {
            State::Fresh(command) => {
                let command = (**command).clone();
                self.state = State::Sent { next_question: now + ASK_INTERVAL, questions: 0 };
                Some(Message::Command(command))
            }
            State::Sent { next_question, questions } if *next_question <= now => {
                if *questions == MAX_QUESTIONS {
                    self.state = State::Concluded(Conclusion::Uncertain);
                    return None;
                }
                *questions += 1;
                *next_question = now + ASK_INTERVAL;
                Some(Message::Question(self.question))
            }
            State::Sent { .. } | State::Concluded(_) => None,
        }
    }

    /// Returns the moment of the next question; none when there is a conclusion, or the command was not sent.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Sent { next_question, .. } => Some(*next_question),
            State::Fresh(_) | State::Concluded(_) => None,
        }
    }

    /// Takes an answer of the app. The first final one stands.
    pub fn answer(&mut self, answer: Answer) {
        if answer.is_final() {
            self.conclude(match answer {
                Answer::Uncertain | Answer::Refused { rule: Rule::Forgotten } => Conclusion::Uncertain,
                answer => Conclusion::Answered(answer),
            });
        }
    }

    /// Takes the reply to a question.
    pub fn reply(&mut self, reply: Reply) {
        match reply {
            Reply::Known(answer) => self.answer(answer),
            Reply::NeverSeen => self.conclude(Conclusion::NeverArrived),
            Reply::Forgotten => self.conclude(Conclusion::Uncertain),
        }
    }

    /// Returns the conclusion, once there is one.
    #[must_use]
    pub const fn conclusion(&self) -> Option<&Conclusion> {
        match &self.state {
            State::Concluded(conclusion) => Some(conclusion),
            State::Fresh(_) | State::Sent { .. } => None,
        }
    }

    fn conclude(&mut self, conclusion: Conclusion) {
        if matches!(self.state, State::Sent { .. }) {
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
}
