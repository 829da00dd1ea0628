//! Parts common to the reports of all tests, so that a table of several needs no knowledge of any.
//!
//! [`Start`] has the time, hosts and settings; [`State`] the outcome, [`End`] also the notes; a [`Row`] is the
//! median of repeats; the resources that each end [used](Used) show whether the figures are reliable. Each test
//! has its columns, from which `table` and `document` write the other [forms](Forms) of a report. A
//! [`Reproduction`] compares the figures and [conclusions](Conclusion) of a paper with ours.
//!
//! Not here: the figures and texts of each test.

mod conclusion;
mod course;
mod document;
mod envelope;
pub(crate) mod noise;
pub(crate) mod number;
mod reference;
mod reproduction;
mod row;
pub(crate) mod table;
mod times;
mod used;
mod watch;

pub(crate) use conclusion::Comparisons;
pub use conclusion::{Agreement, Conclusion, Grid};
pub(crate) use course::Course;
pub(crate) use document::{Document, Report, Section, forms};
pub use drawing::Forms;
pub use envelope::{End, Endpoint, Start, State, Timestamp};
pub use reference::ReferenceFigure;
pub(crate) use reference::{NO_CARD, PrintedHost};
pub use reproduction::{Ends, Part, PartOutcome, Reproduction};
pub use row::Row;
pub(crate) use row::{Metric, Names, value_text};
pub(crate) use table::Columns;
pub use times::Times;
pub(crate) use used::Meter;
pub use used::Used;
pub(crate) use watch::PartOf;
pub use watch::Watch;

#[cfg(test)]
pub(crate) use reference::tests::check_printed;
#[cfg(test)]
pub(crate) use reproduction::tests::check_against_schema;

/// Reads a report that is stored with the golden files of its forms.
#[cfg(test)]
pub(crate) fn stored<R: serde::de::DeserializeOwned>(name: &str) -> R {
    let path = format!("{}/tests/forms/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}
