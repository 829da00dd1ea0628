//! Heads of a log that others than its app have seen, and whether a later run goes on from them.
//!
//! An app cannot notice that an earlier log was put back together with its earlier head. Others can: a log only grows, so
//! a run begins behind every head that earlier runs have told. Answers tell the head of the log, and the first answer to a
//! command leaves once its intent is on disk: a sender that has it knows of a later run that forgot the command.

use units::Epoch;

use crate::{LogError, Mark};

/// Heads of one app's log that were seen, by the run of the app; a run is an epoch of the stream of its commands.
///
/// The heads of one run may come in any order, also behind those of the next run. Memory: two runs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Seen {
    latest: Option<Run>,
    /// The run before it, and its newest head.
    before: Option<(Epoch, Mark)>,
    broken: Option<Break>,
    /// Number of runs that did not go on from what was seen.
    breaks: u64,
}

/// A run, and what was seen of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    epoch: Epoch,
    /// Head with which it began, once it is known.
    began: Option<Mark>,
    /// Number of records before the first one that was seen.
    earliest: u64,
    newest: Mark,
}

/// A run that began with another log than the one that was seen before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Break {
    /// The run.
    pub run: Epoch,
    /// Number of records with which it began, or at most that.
    pub found: u64,
    /// Number of records that were seen before.
    pub seen: u64,
}

impl Break {
    /// Returns what is wrong with the log.
    #[must_use]
    pub const fn error(&self) -> LogError {
        if self.found < self.seen {
            LogError::Earlier { found: self.found, seen: self.seen }
        } else {
            LogError::Replaced(self.seen.saturating_sub(1))
        }
    }
}

impl Seen {
    /// Takes the head with which a run began. Returns the break if this shows one.
    pub fn began(&mut self, run: Epoch, head: Mark) -> Option<Break> {
        self.take(Run { epoch: run, began: Some(head), earliest: head.count, newest: head })
    }

    /// Takes the head behind a record that a run has told of. Returns the break if this shows one.
    pub fn published(&mut self, run: Epoch, head: Mark) -> Option<Break> {
        let earliest = head.count.saturating_sub(1);
        self.take(Run { epoch: run, began: None, earliest, newest: head })
    }

    /// Returns the latest run.
    #[must_use]
    pub fn run(&self) -> Option<Epoch> {
        self.latest.map(|run| run.epoch)
    }

    /// Returns the newest head of the latest run.
    #[must_use]
    pub fn newest(&self) -> Option<Mark> {
        self.latest.map(|run| run.newest)
    }

    /// Returns the latest run that began with another log than the one that was seen before it.
    #[must_use]
    pub const fn broken(&self) -> Option<Break> {
        self.broken
    }

    /// Returns the number of runs that began with another log than the one that was seen before them.
    #[must_use]
    pub const fn breaks(&self) -> u64 {
        self.breaks
    }

    /// Returns whether all runs after this one went on from what was seen: then they know what it knew.
    #[must_use]
    pub fn is_whole_since(&self, run: Epoch) -> bool {
        self.broken.is_none_or(|it| it.run <= run)
    }

    fn take(&mut self, seen: Run) -> Option<Break> {
        match &mut self.latest {
            Some(latest) if latest.epoch == seen.epoch => {
                latest.began = latest.began.or(seen.began);
                latest.earliest = latest.earliest.min(seen.earliest);
                latest.newest = later(latest.newest, seen.newest);
            }
            Some(latest) if latest.epoch > seen.epoch => match &mut self.before {
                Some((epoch, newest)) if *epoch == seen.epoch => *newest = later(*newest, seen.newest),
                Some((epoch, _)) if *epoch > seen.epoch => return None,
                before => *before = Some((seen.epoch, seen.newest)),
            },
            latest => {
                self.before = latest.map(|run| (run.epoch, run.newest));
                *latest = Some(seen);
            }
        }
        self.judge()
    }

    /// Compares the beginning of the latest run with the end of the one before.
    fn judge(&mut self) -> Option<Break> {
        let (run, (_, seen)) = (self.latest?, self.before?);
        let found = run.began.map_or(run.earliest, |began| began.count);
        if seen.count < found || seen.count == found && run.began.is_none_or(|began| began == seen) {
            return None;
        }
        let broken = Break { run: run.epoch, found, seen: seen.count };
        let is_known = self.broken.is_some_and(|it| it.run == run.epoch);
        self.breaks += u64::from(!is_known);
        self.broken = Some(broken);
        (!is_known).then_some(broken)
    }
}

fn later(one: Mark, other: Mark) -> Mark {
    if other.count > one.count { other } else { one }
}
