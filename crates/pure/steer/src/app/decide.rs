//! Arrival of a command, and questions about an id.

use units::Instant;

use super::memory::{Entry, State};
use super::{App, MAX_OUTSTANDING, MAX_UNWRITTEN, Output};
use crate::command::{MAX_NAME_BYTES, MAX_REASON_BYTES, MAX_VALIDITY};
use crate::record::{Record, shortened};
use crate::{Answer, Command, CommandId, Reply, Rule, SessionId};

/// A question about an id, with what its sender knows of the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Question {
    /// The id.
    pub id: CommandId,
    /// Session in which the command was sent.
    pub session: SessionId,
    /// Deadline of the command.
    pub valid_until: Instant,
}

impl App {
    /// Takes a command. Its answer leaves when it is on disk; a repeated command gets the same answer.
    pub fn command(&mut self, now: Instant, command: Command) {
        let fingerprint = Some(command.fingerprint());
        match self.memory.find(command.id) {
            None => self.first(now, command),
            Some(entry) if entry.fingerprint == fingerprint => self.repeat(&command),
            Some(Entry { state: State::Asked, .. }) => {
                let (id, answer) = (command.id, Answer::Refused { rule: Rule::Withdrawn });
                let record = self.attempt(command, answer.clone());
                let entry = self.memory.find_mut(id).expect("it was found above");
                // A refusal that no record tells needs no memory: the id stays withdrawn.
                if let Some(record) = record {
                    entry.fingerprint = fingerprint;
                    entry.state = State::Decided { answer, record };
                }
            }
            Some(_) => {
                self.attempt(command, Answer::Refused { rule: Rule::IdReused });
            }
        }
        self.check_law();
    }

    /// Answers a question of an open session about an id. An id that never arrived is withdrawn: should the command
    /// still arrive, it is refused.
    ///
    /// Returns `None` if there is no answer yet: the caller asks again later.
    pub fn ask(&mut self, now: Instant, asker: SessionId, question: &Question) -> Option<Reply> {
        self.sessions.get(&asker)?;
        if let Some(entry) = self.memory.find(question.id) {
            return match &entry.state {
                State::Waiting { record, .. } => {
                    (*record < self.written).then_some(Reply::Known(Answer::Accepted))
                }
                State::Acting { .. } => Some(Reply::Known(Answer::Accepted)),
                State::Decided { answer, record } => {
                    (*record < self.written).then(|| Reply::Known(answer.clone()))
                }
                State::Asked => Some(Reply::NeverSeen),
            };
        }
        let is_open = self.sessions.contains_key(&question.session);
        if !is_open && !self.closed.contains(&question.session) {
            let is_known = !self.memory.has_forgotten();
            return Some(if is_known { Reply::NeverSeen } else { Reply::Forgotten });
        }
        if self.memory.may_have_forgotten(question.valid_until) {
            return Some(Reply::Forgotten);
        }
        if is_open && question.valid_until >= now {
            return self.withdraw(now, asker, question);
        }
        Some(Reply::NeverSeen)
    }

    /// Withdraws a command that did not arrive; only its own session may.
    fn withdraw(&mut self, now: Instant, asker: SessionId, question: &Question) -> Option<Reply> {
        if asker != question.session {
            return None;
        }
        if question.valid_until > now + MAX_VALIDITY {
            self.sessions.get_mut(&asker)?.is_clock_wrong = true;
            return Some(Reply::NeverSeen);
        }
        if !self.memory.make_room(now, self.written) {
            return None;
        }
        let entry = Entry { fingerprint: None, valid_until: Some(question.valid_until), state: State::Asked };
        self.memory.insert(question.id, entry);
        Some(Reply::NeverSeen)
    }

    /// Takes a command whose id is unknown.
    fn first(&mut self, now: Instant, command: Command) {
        match self.hurdle(now, &command) {
            Some(answer) => {
                self.attempt(command, answer);
            }
            None => match self.permitted(now, &command) {
                Err(rule) => self.refuse_remembered(command, rule),
                Ok(_) => self.admit(command),
            },
        }
    }

    /// Returns the answer to a command that is decided without being remembered: should it be repeated, it is decided
    /// alike, or not at all.
    fn hurdle(&mut self, now: Instant, command: &Command) -> Option<Answer> {
        let refused = |rule| Some(Answer::Refused { rule });
        let Some(session) = self.sessions.get_mut(&command.session) else { return refused(Rule::Session) };
        if session.is_clock_wrong || command.valid_until > now + MAX_VALIDITY {
            session.is_clock_wrong = true;
            return refused(Rule::Clock);
        }
        if command.parameter.len() > MAX_NAME_BYTES || command.reason.len() > MAX_REASON_BYTES {
            return refused(Rule::Text);
        }
        if self.memory.may_have_forgotten(command.valid_until) {
            return refused(Rule::Forgotten);
        }
        let is_congested = self.next_record - self.written >= MAX_UNWRITTEN;
        if command.valid_until < now && !is_congested {
            return Some(Answer::Expired);
        }
        let is_full = self.full_until >= Some(command.valid_until)
            || self.waiting.len() + self.acting.len() >= MAX_OUTSTANDING
            || is_congested
            || !self.memory.make_room(now, self.written);
        if is_full {
            self.full_until = self.full_until.max(Some(command.valid_until));
            return refused(Rule::Full);
        }
        None
    }

    /// Records a command that is decided at once, and returns the record's number; none if too many records wait for
    /// the disk: then the refusal is counted in the next record of those omitted, and answered at once.
    fn attempt(&mut self, command: Command, answer: Answer) -> Option<u64> {
        self.totals.attempt(&answer);
        let (session, id) = (command.session, command.id);
        if self.next_record - self.written >= MAX_UNWRITTEN {
            let Answer::Refused { rule } = answer else { unreachable!("only refusals are omitted") };
            *self.omitted.entry(rule).or_default() += 1;
            self.outputs.push_back(Output::Answer { session, id, answer });
            return None;
        }
        let by = self.sender(session);
        let record = self.write(Record::Attempt { command: shortened(command), by, answer: answer.clone() });
        self.unreleased.push_back((record, session, id, answer));
        Some(record)
    }

    /// Refuses a command that might be accepted if it were repeated later.
    fn refuse_remembered(&mut self, command: Command, rule: Rule) {
        let (id, fingerprint) = (command.id, Some(command.fingerprint()));
        let valid_until = Some(command.valid_until);
        let answer = Answer::Refused { rule };
        let record = self.attempt(command, answer.clone()).expect("there is room for the record");
        self.memory.insert(id, Entry { fingerprint, valid_until, state: State::Decided { answer, record } });
    }

    fn admit(&mut self, command: Command) {
        let (id, session, valid_until) = (command.id, command.session, Some(command.valid_until));
        let fingerprint = Some(command.fingerprint());
        let by = self.sender(session);
        let record = self.write(Record::Intent { command: command.clone(), by });
        self.totals.intent();
        self.unreleased.push_back((record, session, id, Answer::Accepted));
        let state = State::Waiting { command: Box::new(command), record };
        self.memory.insert(id, Entry { fingerprint, valid_until, state });
        self.waiting.push_back(id);
    }

    /// Answers a repeated command as before; an answer that is not on disk yet follows by itself.
    fn repeat(&mut self, command: &Command) {
        self.totals.repeated += 1;
        let (session, id) = (command.session, command.id);
        let entry = self.memory.find(id).expect("it was found by the caller");
        let answer = match &entry.state {
            State::Waiting { record, .. } if *record < self.written => Answer::Accepted,
            State::Acting { .. } => Answer::Accepted,
            State::Decided { answer, record } if *record < self.written => answer.clone(),
            State::Waiting { .. } | State::Decided { .. } | State::Asked => return,
        };
        self.outputs.push_back(Output::Answer { session, id, answer });
    }

    /// Returns the sender of a session's commands as the access file names it.
    pub(super) fn sender(&self, session: SessionId) -> String {
        self.sessions.get(&session).map_or_else(String::new, |it| it.principal.to_string())
    }
}
