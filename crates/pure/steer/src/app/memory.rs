//! Memory of commands by their ids: the reason why a repeated command has no second effect.
//!
//! The memory is bounded. An id is forgotten only when its deadline has passed and its answer has left; the latest
//! deadline forgotten is remembered, so that the app knows of which ids it cannot speak.

use std::collections::{BTreeMap, VecDeque};

use units::{Epoch, Instant};

use crate::command::Fingerprint;
use crate::{Answer, Command, CommandId, SessionId};

/// Maximum number of ids that an app remembers: those of 1,000 commands a second for 16 s.
pub const MAX_REMEMBERED: usize = 16_384;

/// Remembered commands.
#[derive(Debug, Default)]
pub(super) struct Memory {
    entries: BTreeMap<CommandId, Entry>,
    /// Ids in the order of their arrival.
    order: VecDeque<CommandId>,
    /// Latest deadline that was forgotten.
    forgotten_until: Option<Instant>,
    /// Whether any command was forgotten, of this run or an earlier one.
    has_forgotten: bool,
}

/// One remembered command.
#[derive(Debug)]
pub(super) struct Entry {
    /// Digest of the command; none of an id that was only asked for.
    pub(super) fingerprint: Option<Fingerprint>,
    /// Its deadline; none of a command of an earlier run, whose clock was another one.
    pub(super) valid_until: Option<Instant>,
    /// What became of it.
    pub(super) state: State,
}

/// State of a remembered command.
#[derive(Debug)]
pub(super) enum State {
    /// It waits for its intent to be on disk, and for a step boundary.
    Waiting {
        /// The command.
        command: Box<Command>,
        /// Number of the record of its intent.
        record: u64,
    },
    /// The app was told to apply it.
    Acting {
        /// Position of its parameter.
        parameter: usize,
        /// Session of the command.
        session: SessionId,
        /// Epoch of the boundary.
        epoch: Epoch,
        /// Index of the boundary.
        index: u64,
        /// Revision that it makes.
        revision: u64,
    },
    /// It is decided, and the answer leaves when the record is on disk.
    Decided {
        /// The answer.
        answer: Answer,
        /// Number of the record of its outcome.
        record: u64,
    },
    /// Its sender asked for it before it arrived: it will be refused.
    Asked,
}

impl Memory {
    /// Makes the memory of a run that follows another one.
    pub(super) fn of_earlier_run(has_forgotten: bool) -> Self {
        Self { has_forgotten, ..Self::default() }
    }

    pub(super) fn find(&self, id: CommandId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    pub(super) fn find_mut(&mut self, id: CommandId) -> Option<&mut Entry> {
        self.entries.get_mut(&id)
    }

    /// Remembers a new id. The caller has made room.
    pub(super) fn insert(&mut self, id: CommandId, entry: Entry) {
        let before = self.entries.insert(id, entry);
        assert!(before.is_none(), "only an unknown id is inserted");
        self.order.push_back(id);
    }

    /// Makes room for one id; false if every id must still be remembered.
    ///
    /// Units: `written` is the number of records on disk.
    pub(super) fn make_room(&mut self, now: Instant, written: u64) -> bool {
        while self.entries.len() >= MAX_REMEMBERED {
            let Some(oldest) = self.order.front() else { return false };
            let entry = &self.entries[oldest];
            let is_over = entry.valid_until.is_none_or(|deadline| deadline < now);
            let is_told = match &entry.state {
                State::Waiting { .. } | State::Acting { .. } => false,
                State::Decided { record, .. } => *record < written,
                State::Asked => true,
            };
            if !(is_over && is_told) {
                return false;
            }
            self.forgotten_until = self.forgotten_until.max(entry.valid_until);
            self.has_forgotten = true;
            let oldest = self.order.pop_front().expect("there is a first id");
            self.entries.remove(&oldest);
        }
        true
    }

    /// Returns whether an unknown id with this deadline, on the clock of this run, may be one that was forgotten.
    pub(super) fn may_have_forgotten(&self, valid_until: Instant) -> bool {
        self.forgotten_until >= Some(valid_until)
    }

    /// Returns whether any id was forgotten.
    pub(super) const fn has_forgotten(&self) -> bool {
        self.has_forgotten
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
