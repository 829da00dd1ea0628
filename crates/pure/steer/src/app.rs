//! The app's side of steering: takes commands, decides at step boundaries, answers.
//!
//! Nothing here does I/O. After every input the caller polls: [`App::poll`] gives records to write and answers to
//! send, [`App::poll_effect`] what to apply. [`App::written`] says which records are on disk; an effect is handed out
//! only when its intent is there, an answer only when its outcome is there. The law of [`Totals`] is checked after
//! every input.

mod authority;
mod decide;
mod kept;
mod memory;
mod permission;
mod recovery;
mod step;

use std::collections::{BTreeMap, VecDeque};

use access::{Policy, Principal};
use sample::StreamName;
use units::{Epoch, Instant};

pub use decide::Question;
pub use kept::{Kept, NotKept};
pub use memory::MAX_REMEMBERED;
pub(crate) use recovery::MAX_LAST;
pub use recovery::{MAX_RECOVERED, Recovery, Standing};

use crate::lease::Leases;
use crate::parameter::{Parameter, ParameterError};
use crate::record::{LeaseChange, Record};
use crate::switch::Switches;
use crate::{Answer, CommandId, Listed, Needs, Rule, SessionId, Totals, Value};
use memory::Memory;

/// Maximum number of commands that wait or are under way.
pub const MAX_OUTSTANDING: usize = 1_024;
/// Maximum number of records that wait for the disk; beyond it commands are refused and only counted.
pub const MAX_UNWRITTEN: u64 = 8_192;
/// Maximum number of open sessions.
pub const MAX_SESSIONS: usize = 256;
/// Maximum number of parameters.
pub const MAX_PARAMETERS: usize = 1_024;

/// Identity and rules of an app.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the app's stream, such as `sim/engine`; parameter `gain` is `sim/engine/gain` in the rules of access.
    pub app: StreamName,
    /// Epoch of its stream.
    pub epoch: Epoch,
    /// Rules of access; what none of them allows is refused.
    pub policy: Policy,
}

/// A parameter, and how it stands when the app starts.
#[derive(Clone, PartialEq, Debug)]
pub struct Declared {
    /// The parameter.
    pub parameter: Parameter,
    /// Its value, as the app read it back.
    pub value: Value,
}

/// The app's side of steering.
#[derive(Debug)]
pub struct App {
    config: Config,
    parameters: Vec<Held>,
    by_name: BTreeMap<String, usize>,
    sessions: BTreeMap<SessionId, Session>,
    /// Sessions of this run that were closed, newest last.
    closed: VecDeque<SessionId>,
    leases: Leases,
    switches: Switches,
    memory: Memory,
    /// Commands that wait, in the order of their arrival.
    waiting: VecDeque<CommandId>,
    /// Commands that the app was told to apply.
    acting: Vec<CommandId>,
    /// Commands with a deadline up to here are refused as `full`: one of them was, and is not remembered.
    full_until: Option<Instant>,
    totals: Totals,
    /// Refusals that no record tells yet.
    omitted: BTreeMap<Rule, u64>,
    next_record: u64,
    written: u64,
    /// Answers that leave when the record of this number is on disk.
    unreleased: VecDeque<(u64, SessionId, CommandId, Answer)>,
    outputs: VecDeque<Output>,
    effects: VecDeque<Effect>,
}

/// What the app's host does: write, or send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// Append this record to the log, in the order of the numbers.
    Write {
        /// Number of the record in this run, from 0.
        number: u64,
        /// The record.
        record: Record,
    },
    /// Send this answer.
    Answer {
        /// Session of the command.
        session: SessionId,
        /// The command.
        id: CommandId,
        /// What became of it.
        answer: Answer,
    },
}

/// A change that the app applies now, before its next step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effect {
    /// The command.
    pub id: CommandId,
    /// Name of the parameter.
    pub parameter: String,
    /// The new value.
    pub value: Value,
    /// Revision that the parameter has with it. An app that keeps values over a restart keeps it with them.
    pub revision: u64,
    /// Index of the first sample in which the change is.
    pub index: u64,
}

/// What the app says of an effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Done {
    /// It is applied, and the value was read back.
    Applied {
        /// The value that was read back.
        readback: Value,
    },
    /// It is not applied, for certain.
    Failed {
        /// Reason in the app's words.
        reason: String,
    },
    /// It may be applied or not.
    Unknown,
}

/// Error of the app's own code.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// The session is open already, or was.
    #[error("session {0} was opened before\ndraw a new session id for each connection")]
    SessionUsed(SessionId),
    /// Too many sessions.
    #[error("the app has {MAX_SESSIONS} sessions, the most it can have\nclose one that is not used")]
    TooManySessions,
    /// No parameter of this name.
    #[error("the app has no parameter `{0}`")]
    NoParameter(String),
    /// The value is not one that the parameter can have.
    #[error("the value read back from parameter `{0}` has another dtype or shape than the parameter")]
    Readback(String),
    /// No effect of this id is under way.
    #[error("command {0} is not under way at this app")]
    NotActing(CommandId),
}

/// A parameter and its present state.
#[derive(Debug)]
struct Held {
    parameter: Parameter,
    /// Name in the rules of access.
    path: StreamName,
    value: Value,
    /// False after an uncertain command, until the app has read the value back.
    is_read: bool,
    revision: u64,
    busy: Busy,
}

/// Whether a parameter can be changed. A second change waits until the outcome of the first is on disk, so that after
/// a restart at most one change is in doubt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Busy {
    Free,
    Acting,
    /// The outcome is in this record.
    Recording(u64),
}

#[derive(Debug)]
struct Session {
    principal: Principal,
    /// Whether it sent a deadline that was too far ahead: its idea of the app's clock is wrong.
    is_clock_wrong: bool,
}

impl App {
    /// Starts an app that has no log yet.
    ///
    /// # Errors
    /// [`ParameterError`] of the first declaration that is not sound.
    pub fn new(config: Config, declared: Vec<Declared>) -> Result<Self, ParameterError> {
        if declared.len() > MAX_PARAMETERS {
            return Err(ParameterError::TooMany(MAX_PARAMETERS));
        }
        let mut parameters = Vec::with_capacity(declared.len());
        let mut by_name = BTreeMap::new();
        for (position, Declared { parameter, value }) in declared.into_iter().enumerate() {
            parameter.validate()?;
            let name = parameter.name.clone();
            parameter.check(&value).map_err(|rule| ParameterError::Begins { name: name.clone(), rule })?;
            let path = format!("{}/{name}", config.app).parse();
            let path = path.map_err(|_| ParameterError::Name(name.clone()))?;
            if by_name.insert(name.clone(), position).is_some() {
                return Err(ParameterError::Duplicate(name));
            }
            parameters.push(Held { parameter, path, value, is_read: true, revision: 0, busy: Busy::Free });
        }
        let began = Record::Began { app: config.app.clone(), epoch: config.epoch };
        let mut app = Self {
            config,
            parameters,
            by_name,
            sessions: BTreeMap::new(),
            closed: VecDeque::new(),
            leases: Leases::default(),
            switches: Switches::default(),
            memory: Memory::default(),
            waiting: VecDeque::new(),
            acting: Vec::new(),
            full_until: None,
            totals: Totals::default(),
            omitted: BTreeMap::new(),
            next_record: 0,
            written: 0,
            unreleased: VecDeque::new(),
            outputs: VecDeque::new(),
            effects: VecDeque::new(),
        };
        app.write(began);
        Ok(app)
    }

    /// Opens the session of an authenticated connection.
    ///
    /// # Errors
    /// `SessionUsed` and `TooManySessions` of [`AppError`].
    pub fn open(&mut self, session: SessionId, principal: Principal) -> Result<(), AppError> {
        if self.sessions.contains_key(&session) || self.closed.contains(&session) {
            return Err(AppError::SessionUsed(session));
        }
        if self.sessions.len() >= MAX_SESSIONS {
            return Err(AppError::TooManySessions);
        }
        self.sessions.insert(session, Session { principal, is_clock_wrong: false });
        Ok(())
    }

    /// Closes a session: its leases are released, and its commands that wait will be refused at the next step.
    pub fn close(&mut self, session: SessionId) {
        for group in self.leases.release_all(session) {
            self.record_lease(&group, session, LeaseChange::Released);
        }
        if self.sessions.remove(&session).is_some() {
            self.closed.push_back(session);
            if self.closed.len() > MAX_SESSIONS {
                self.closed.pop_front();
            }
        }
    }

    /// Returns the next record to write or answer to send.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns the next change to apply; [`App::done`] tells its result before the next step.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Notes that the first `count` records of this run are on disk; their answers leave.
    pub fn written(&mut self, count: u64) {
        self.written = self.written.max(count.min(self.next_record));
        while self.unreleased.front().is_some_and(|(record, ..)| *record < self.written) {
            let (_, session, id, answer) = self.unreleased.pop_front().expect("there is a first answer");
            self.outputs.push_back(Output::Answer { session, id, answer });
        }
        if !self.omitted.is_empty() && self.next_record - self.written < MAX_UNWRITTEN / 2 {
            let refused = core::mem::take(&mut self.omitted).into_iter().collect();
            self.write(Record::Omitted { refused });
        }
        self.check_law();
    }

    /// Returns the present value and revision of a parameter.
    #[must_use]
    pub fn value(&self, parameter: &str) -> Option<(&Value, u64)> {
        let held = &self.parameters[*self.by_name.get(parameter)?];
        Some((&held.value, held.revision))
    }

    /// Returns the parameters in the order of their declaration.
    pub fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().map(|held| &held.parameter)
    }

    /// Returns a parameter as it stands at `now`.
    #[must_use]
    pub fn listed(&self, now: Instant, parameter: &str) -> Option<Listed> {
        let held = &self.parameters[*self.by_name.get(parameter)?];
        let holder = match &held.parameter.needs {
            Needs::Nothing => None,
            Needs::Lease { group } => self.lease_holder(now, group),
        };
        let (parameter, value) = (held.parameter.clone(), held.value.clone());
        Some(Listed { parameter, value, is_read: held.is_read, revision: held.revision, holder })
    }

    /// Returns whether a step has something to decide or to conclude: a command waits, or an effect is under way.
    #[must_use]
    pub fn needs_step(&self) -> bool {
        !self.waiting.is_empty() || !self.acting.is_empty()
    }

    /// Takes a value that the app read back by itself: of a device that others change too, or after an uncertain
    /// command. The revision rises if the value is another one.
    ///
    /// # Errors
    /// `NoParameter` and `Readback` of [`AppError`].
    pub fn read_back(&mut self, parameter: &str, value: Value) -> Result<(), AppError> {
        let position = self.by_name.get(parameter);
        let position = *position.ok_or_else(|| AppError::NoParameter(parameter.to_owned()))?;
        let held = &mut self.parameters[position];
        if !held.can_have(&value) {
            return Err(AppError::Readback(parameter.to_owned()));
        }
        held.is_read = true;
        if held.value != value && held.busy != Busy::Acting {
            held.revision += 1;
            held.value = value;
        }
        Ok(())
    }

    /// Returns the totals.
    #[must_use]
    pub const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Returns the number of ids that are remembered, at most [`MAX_REMEMBERED`].
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.memory.len()
    }

    /// Replaces the rules of access; commands that wait are decided by the new ones.
    pub fn set_policy(&mut self, policy: Policy) {
        self.config.policy = policy;
    }

    /// Puts a record into the log and returns its number.
    fn write(&mut self, record: Record) -> u64 {
        let number = self.next_record;
        self.next_record += 1;
        self.outputs.push_back(Output::Write { number, record });
        number
    }

    /// Returns the sender of a session, as the access file names it.
    #[must_use]
    pub fn principal(&self, session: SessionId) -> String {
        self.sender(session)
    }

    /// Returns the name of the app.
    #[must_use]
    pub const fn name(&self) -> &StreamName {
        &self.config.app
    }

    /// Returns the names of the parameters that need the lease of a group.
    pub fn members(&self, group: &str) -> impl Iterator<Item = &str> {
        let is_of =
            move |held: &&Held| matches!(&held.parameter.needs, Needs::Lease { group: of } if of == group);
        self.parameters.iter().filter(is_of).map(|held| held.parameter.name.as_str())
    }

    /// Returns the epoch of the app's stream.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.config.epoch
    }

    /// Compares the totals with the queues.
    ///
    /// # Panics
    /// If the law does not hold: then a command was counted twice or not at all.
    fn check_law(&self) {
        let outstanding = u64::try_from(self.waiting.len() + self.acting.len());
        let holds = self.totals.holds() && Ok(self.totals.pending) == outstanding;
        assert!(holds, "the law of commands does not hold: {:?}, {outstanding:?} outstanding", self.totals);
    }
}

impl Held {
    /// Returns whether a value that was read back has the parameter's dtype and shape; it may be out of range.
    fn can_have(&self, value: &Value) -> bool {
        value.dtype() == self.parameter.dtype && value.shape() == self.parameter.shape
    }
}

#[cfg(test)]
mod scene;
#[cfg(test)]
mod tests;
