//! The run that a person means: `shot-17`, or `shot-17@2026-11-28T13:00:00Z` if several have this id.

use core::fmt;
use core::str::FromStr;

use units::WallTime;

use crate::{InvalidRunId, Run, RunId, Runs};

/// Choice of a run: by its id, and by a moment in it if several runs have this id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunChoice {
    /// The id.
    pub id: RunId,
    /// A moment in the run, as it was written.
    pub at: Option<String>,
}

/// Error in a choice.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(transparent)]
pub struct RunChoiceError(#[from] InvalidRunId);

/// Reason why no run was found.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// No run has this id.
    #[error("no run `{0}` is known\nlist the runs: tallycast run list")]
    Unknown(RunId),
    /// The start of the run is not known.
    #[error("run `{0}` was stopped, and its start is not known\nselect its time with absolute times instead")]
    NoStart(RunId),
    /// Several runs have this id.
    #[error(
        "{count} runs have the id `{id}`\nadd a moment in the one that is meant: {id}@TIME; tallycast run show {id} lists them"
    )]
    Several {
        /// The id.
        id: RunId,
        /// Number of its runs.
        count: usize,
    },
    /// No run of this id was open at the moment.
    #[error("no run `{0}` was open at that moment\nlist its runs: tallycast run show {0}")]
    NotThen(RunId),
}

impl FromStr for RunChoice {
    type Err = RunChoiceError;

    fn from_str(text: &str) -> Result<Self, RunChoiceError> {
        let (id, at) = text.split_once('@').map_or((text, None), |(id, at)| (id, Some(at.to_owned())));
        Ok(Self { id: id.parse()?, at })
    }
}

impl fmt::Display for RunChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some(at) => write!(formatter, "{}@{at}", self.id),
            None => write!(formatter, "{}", self.id),
        }
    }
}

impl Runs {
    /// Returns the only run of an id, or the one that was open at a moment.
    ///
    /// # Errors
    /// [`FindError`] if there is none, or several and no moment.
    pub fn find(&self, id: &RunId, at: Option<WallTime>) -> Result<Run, FindError> {
        let mut runs: Vec<Run> = self.list().into_iter().filter(|run| run.id == *id).collect();
        if runs.is_empty() {
            let is_stopped = self.strangers().iter().any(|it| it.id == *id);
            return Err(if is_stopped {
                FindError::NoStart(id.clone())
            } else {
                FindError::Unknown(id.clone())
            });
        }
        if let Some(at) = at {
            let run = runs.into_iter().find(|run| run.contains(at));
            return run.ok_or_else(|| FindError::NotThen(id.clone()));
        }
        match runs.len() {
            1 => Ok(runs.remove(0)),
            count => Err(FindError::Several { id: id.clone(), count }),
        }
    }
}
