//! Runs of the experiment as an archive has them: from the recorded events, whatever archive run they are in.
//!
//! Begin with [`Archive::experiment_runs`]; a run selects a range of time, and everything that takes one takes a run.

use core::ops::Range;

use tallycast::runs::{self, EventError, FindError, Run, RunChoice, Runs};
use units::WallTime;

use crate::catalogue::{Archive, StreamEntry};
use crate::error::ArchiveError;
use crate::feed::Piece;
use crate::moment::{Moment, MomentError};

/// Runs of an experiment, and what could not be read of them.
#[derive(Clone, Debug, Default)]
pub struct ExperimentRuns {
    /// The runs.
    pub runs: Runs,
    /// Number of samples that are no events.
    pub malformed: u64,
    /// Number of samples of their streams that are missing: starts and stops may be among them.
    pub missing: u64,
}

/// Reason why no run was selected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// No such run.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The moment that chooses among runs of one id cannot be read.
    #[error(transparent)]
    Moment(#[from] MomentError),
    /// The moment that chooses among runs of one id is relative.
    #[error("`{0}` names no moment: which run it belongs to is asked for\nwrite ID@2026-11-21T20:15:00Z")]
    Relative(String),
}

impl Archive {
    /// Returns the runs of the experiment whose events were recorded, in all archive runs.
    ///
    /// Cost: reads the streams of events whole, a sample for each event.
    ///
    /// # Errors
    /// [`ArchiveError`] if the disk fails.
    pub fn experiment_runs(&self) -> Result<ExperimentRuns, ArchiveError> {
        let mut found = ExperimentRuns::default();
        for run in self.runs()? {
            for entry in self.survey(&run)?.0 {
                found.read(self, &entry)?;
            }
        }
        Ok(found)
    }
}

impl ExperimentRuns {
    /// Reads a stream if it has events of runs.
    ///
    /// # Errors
    /// [`ArchiveError`] if the disk fails.
    pub fn read(&mut self, archive: &Archive, entry: &StreamEntry) -> Result<(), ArchiveError> {
        if !entry.name.as_str().starts_with(runs::STREAM_PREFIX) {
            return Ok(());
        }
        let always = WallTime::from_nanos(i64::MIN)..WallTime::from_nanos(i64::MAX);
        for piece in archive.range(entry, always) {
            match piece? {
                Piece::Epoch(_) => {}
                Piece::Hole(hole) => self.missing += hole.samples,
                Piece::Block(block) => runs::events_in(&block).for_each(|event| self.take(event)),
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Result<runs::Event, EventError>) {
        match event {
            Ok(event) => _ = self.runs.take(event),
            Err(_) => self.malformed += 1,
        }
    }
}

/// Returns the run that is meant.
///
/// # Errors
/// [`SelectError`] if there is none, or several.
pub fn select_run(runs: &Runs, choice: &RunChoice) -> Result<Run, SelectError> {
    let at = choice.at.as_deref().map(|text| match text.parse()? {
        Moment::At(time) => Ok(time),
        Moment::AfterStart(_) | Moment::BeforeEnd(_) => Err(SelectError::Relative(text.to_owned())),
    });
    Ok(runs.find(&choice.id, at.transpose()?)?)
}

/// Returns the range of time of a run; of an open one up to `known_end`, the end of what is recorded.
///
/// A moment `+10s` is then 10 s after the run's start, and `-30s` is 30 s before its end.
#[must_use]
pub fn run_range(run: &Run, known_end: WallTime) -> Range<WallTime> {
    run.start..run.end_time().unwrap_or_else(|| known_end.max(run.start))
}

#[cfg(test)]
mod tests;
