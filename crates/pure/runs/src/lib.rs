//! Runs of an experiment: stretches of time with an id and labels, such as a shot or a program.
//!
//! An [`Event`] says that a run started or stopped; [`Runs`] computes the runs from events that come in any order, from any
//! host, some of them twice and some never. Begin with [`Runs::take`] and [`Runs::list`]. Archive runs, the folders in which
//! recordings are, are not these: see the glossary.

mod event;
mod find;
mod labels;
mod list;
mod run_id;

pub use event::{EVENT_BYTES, Event, EventError, What};
pub use find::{FindError, RunChoice, RunChoiceError};
pub use labels::{LabelError, Labels, MAX_LABEL_KEY_BYTES, MAX_LABEL_VALUE_BYTES, MAX_LABELS, parse_label};
pub use list::{Counts, End, Run, Runs, Stranger};
pub use run_id::{InvalidRunId, MAX_RUN_ID_BYTES, RunId};
