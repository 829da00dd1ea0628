//! Loop of `fix`: a remedy is applied, measured against live traffic, and kept only if it helped; and its undo.
//!
//! [`fix`] decides; a [`FixUser`] sees its steps, consents to changes, and ends it. Each change is in the [`Journal`]
//! before it is made.

mod attempts;
mod step;
mod traffic;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use diagnose::{Change, Place, Plan, Proof};
use sys::clock;

use crate::change::{self, ChangeError};
use crate::{Entry, Journal, JournalError, Wanted};
use attempts::Attempts;
pub use step::FixStep;
use traffic::Traffic;

/// Options of [`fix`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FixOptions {
    /// Sockets whose losses are to be fixed.
    pub wanted: Wanted,
    /// Length of the measurement, before and after a change.
    pub window: Duration,
    /// File of the journal.
    pub journal: PathBuf,
}

/// User of [`fix`]: sees its steps and consents to its changes.
pub trait FixUser {
    /// Error of the user, which ends the loop.
    type Error: From<FixError>;

    /// Takes a step.
    ///
    /// # Errors
    /// The user's own: nothing further is done.
    fn step(&mut self, step: &FixStep<'_>) -> Result<(), Self::Error>;

    /// Returns whether the change of the last plan may be made, and traffic watched again.
    ///
    /// # Errors
    /// The user's own: nothing further is done.
    fn consents(&mut self, change: &Change) -> Result<bool, Self::Error>;

    /// Waits at most for `time`; returns whether to continue.
    fn wait(&mut self, time: Duration) -> bool;

    /// Notifies the user that a measurement begins.
    fn on_begin(&mut self) {}

    /// Notifies the user that a measurement has ended, also if it has failed.
    ///
    /// # Errors
    /// The user's own: nothing further is done.
    fn on_end(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Result of [`fix`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FixOutcome {
    /// Nothing was lost, or the changes helped.
    Fixed,
    /// Losses without an effective change remain.
    LossesRemain,
}

/// Reason why [`fix`] or [`undo`] has ended early.
#[derive(Debug, thiserror::Error)]
pub enum FixError {
    /// The kernel does not list its sockets.
    #[error(transparent)]
    Watch(#[from] io::Error),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A change could not be made.
    #[error("nothing was changed: {change} could not be set")]
    NotMade {
        /// Description of the change.
        change: String,
        /// Reason.
        source: ChangeError,
    },
    /// A change that did not help is still in effect.
    #[error("it did not help and could not be undone: {command}")]
    NotTakenBack {
        /// Command that would undo it.
        command: String,
        /// Reason.
        source: ChangeError,
    },
    /// A change of the journal is still in effect.
    #[error("it is still there: {command}")]
    NotUndone {
        /// Command that made it.
        command: String,
        /// Reason.
        source: ChangeError,
    },
}

/// Watches for losses, and fixes them with the user's consent, the largest first.
///
/// # Errors
/// The user's own, and [`FixError`].
pub fn fix<U: FixUser>(options: FixOptions, user: &mut U) -> Result<FixOutcome, U::Error> {
    let FixOptions { wanted, window, journal } = options;
    let is_everything = wanted.is_everything();
    let mut traffic = Traffic::begin(wanted, window)?;
    user.step(&FixStep::Watching { sockets: traffic.sockets(), window })?;
    let mut seen = traffic.watch(user)?;
    if seen.plans.is_empty() {
        user.step(&FixStep::NothingLost { before: &seen.window })?;
        return Ok(FixOutcome::Fixed);
    }
    let mut journal = Journal::open(&journal).map_err(FixError::from)?;
    let mut attempts = Attempts::default();
    // A change may show its effect elsewhere: each is judged by the latest observation.
    while let Some((plan, change)) = attempts.next(&seen.plans) {
        user.step(&FixStep::Plan { plan: &plan, change: change.as_ref(), before: &seen.window })?;
        let change = match change {
            // A request to end, also during the question, keeps the host as it is.
            Some(change) if user.consents(&change)? && user.wait(Duration::ZERO) => change,
            _ => {
                attempts.leave(&plan, left_alone(&plan, is_everything));
                continue;
            }
        };
        let number = make(&mut journal, &change)?;
        traffic.begin_anew()?;
        let after = traffic.watch(user)?;
        let (before, measured) = (seen.window_of(&plan), after.window_of(&plan));
        // A measurement that was cut short proves nothing.
        let proof = if traffic.is_over() { Proof::NoTraffic } else { Proof::of(&before, &measured) };
        match proof {
            Proof::Helped => attempts.leave(&plan, FixOutcome::Fixed),
            Proof::DidNotHelp | Proof::NoTraffic => take_back(&mut journal, number, &change)?,
        }
        user.step(&FixStep::Proof {
            plan: &plan,
            change: &change,
            before: &before,
            after: &measured,
            proof,
        })?;
        seen = after;
        if traffic.is_over() {
            break;
        }
    }
    Ok(attempts.outcome())
}

/// Returns the outcome of a loss against which nothing is done: losses counted beyond the chosen sockets may belong
/// to others.
const fn left_alone(plan: &Plan, is_everything: bool) -> FixOutcome {
    let is_ours = is_everything || matches!(plan.place, Place::Socket { .. });
    if is_ours { FixOutcome::LossesRemain } else { FixOutcome::Fixed }
}

/// Writes a change to the journal and makes it; returns its number there.
fn make(journal: &mut Journal, change: &Change) -> Result<u64, FixError> {
    let number = journal.begin(clock::wall(), change)?;
    if let Err(source) = change::apply(change) {
        journal.end(clock::wall(), number)?;
        return Err(FixError::NotMade { change: change.to_string(), source });
    }
    Ok(number)
}

fn take_back(journal: &mut Journal, number: u64, change: &Change) -> Result<(), FixError> {
    match change::take_back(change) {
        // A closed socket has taken its buffer with it.
        Ok(()) | Err(ChangeError::Gone) => Ok(journal.end(clock::wall(), number)?),
        Err(source) => Err(FixError::NotTakenBack { command: undo_text(change), source }),
    }
}

/// Returns the command that undoes a change.
fn undo_text(change: &Change) -> String {
    change.undo().unwrap_or_else(|| "by hand".to_owned())
}

/// Result of [`undo`].
#[derive(Debug)]
pub enum Undone {
    /// The setting has its previous value.
    Restored,
    /// Its subject no longer exists: a closed socket has taken its buffer with it.
    Gone(ChangeError),
    /// It was changed by others since, and is left alone.
    LeftAlone(ChangeError),
}

impl fmt::Display for Undone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restored => out.write_str("undone"),
            Self::Gone(reason) | Self::LeftAlone(reason) => reason.fmt(out),
        }
    }
}

/// Undoes a change of the journal, and records that.
///
/// # Errors
/// [`FixError`], if it is still in effect, or the journal cannot be written.
pub fn undo(journal: &mut Journal, entry: &Entry) -> Result<Undone, FixError> {
    let undone = match change::take_back(&entry.change) {
        Ok(()) => Undone::Restored,
        Err(error @ ChangeError::Gone) => Undone::Gone(error),
        Err(error @ ChangeError::ChangedSince { .. }) => Undone::LeftAlone(error),
        Err(source) => return Err(FixError::NotUndone { command: entry.change.command(), source }),
    };
    journal.end(clock::wall(), entry.number)?;
    Ok(undone)
}
