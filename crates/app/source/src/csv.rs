//! Text tables: how a file, a growing file or standard input is laid out, and its rows.
//!
//! [`Head`] decides from the first lines, one after the other: separator, header row, unit row, first row of values, time
//! column and its unit. The [`Layout`] it returns reads every later line. It makes no difference whether the lines come
//! from a complete file, from one that grows, or from a pipe. Instruments that need more than the general rules are
//! in `instruments`; times of day and dates in `clock`.

mod cell;
mod clock;
mod fields;
mod head;
mod instruments;
mod layout;
mod lines;

pub(crate) use clock::Zone;
pub use clock::{TimeError, TimeUnit};
pub use head::HeadError;
pub(crate) use head::{Head, TextOptions};
pub(crate) use layout::{Layout, Place, RowError};
pub(crate) use lines::{LineError, MARK, TextLines, is_passed_over};
