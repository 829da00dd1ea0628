//! Published measurements reproduced: every measurement that the conclusions rest on, the published figures as
//! reference for ours, and each conclusion compared with the results here.
//!
//! The object that `bench reproduce --json` prints; its form is published as
//! `docs/reference/formats/bench-reproduce.schema.json`.

use std::fmt;
use std::net::IpAddr;

use drawing::Chart;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sys::clock;

use super::conclusion::{Conclusion, Grid, citation};
use super::document::{Document, Report, Section, forms};
use super::{ReferenceFigure, Row, State, Watch};
use crate::control::{Patience, ServerAt, program_version};
use crate::host::{self, Host};
use crate::sweep;

/// The two ends between which a measurement is reproduced.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// The server.
    pub server: ServerAt<'a>,
    /// This host's address, which all traffic uses; none for the system's choice.
    pub from: Option<IpAddr>,
}

/// Returns the rows, the noise and the state of a report.
type ResultsOf<R> = fn(&R) -> (&[Row], Vec<String>, State);

/// Report of `tallycast bench reproduce --json` for a document with several measurements. No number is NaN.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reproduction {
    /// Name of this format.
    #[schemars(extend("const" = Self::FORMAT))]
    pub format: String,
    /// Version of this format.
    #[schemars(extend("const" = Self::VERSION))]
    pub version: u32,
    /// Number of the document.
    pub document: String,
    /// Share of the published grid.
    pub grid: Grid,
    /// UTC, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Version of this program.
    pub tallycast: String,
    /// State of this host at the beginning.
    pub host: Host,
    /// Every measurement, in the order of measuring.
    pub parts: Vec<Part>,
    /// The published figures and ours.
    pub table: Vec<ReferenceFigure>,
    /// Each conclusion of the document.
    pub conclusions: Vec<Conclusion>,
    /// End time: UTC, in nanoseconds since 1970.
    pub end_time_ns: i64,
    /// Completeness of the measurements.
    pub state: State,
    /// Tasks ready to run, averaged over the last minute.
    pub load_1min: Option<f64>,
    /// Notes.
    pub notes: Vec<String>,
    /// Figures for people; not part of the JSON.
    #[serde(skip)]
    pub(crate) charts: Vec<Chart>,
}

/// One measurement of a reproduction.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Name of the measurement.
    pub name: String,
    /// Result of the measurement.
    pub outcome: PartOutcome,
}

/// Result of a measurement.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case", deny_unknown_fields)]
pub enum PartOutcome {
    /// The measurement was made.
    Measured {
        /// The report of its test, in its own form.
        #[schemars(with = "Map<String, Value>")]
        report: Value,
        /// Median and spread.
        rows: Vec<Row>,
        /// Reasons why the measurement is unreliable; empty if undisturbed.
        noise: Vec<String>,
    },
    /// The measurement was not tried, or failed.
    Skipped {
        /// The cause, and the remedy.
        reason: String,
    },
}

impl Reproduction {
    /// Format name of the object.
    pub const FORMAT: &str = "tallycast.bench.reproduce";
    /// Version of the format; an incompatible change raises it.
    pub const VERSION: u32 = 1;

    /// Begins a reproduction without measurements.
    #[must_use]
    pub fn begin(document: &str, grid: Grid) -> Self {
        let time_ns = clock::wall().as_nanos();
        Self {
            format: Self::FORMAT.to_owned(),
            version: Self::VERSION,
            document: document.to_owned(),
            grid,
            time_ns,
            tallycast: program_version().to_owned(),
            host: Host::look(),
            parts: Vec::new(),
            table: Vec::new(),
            conclusions: Vec::new(),
            end_time_ns: time_ns,
            state: State::Complete,
            load_1min: None,
            notes: Vec::new(),
            charts: Vec::new(),
        }
    }

    /// Adds the report of a test.
    ///
    /// # Panics
    /// If the report cannot be serialised: a defect of the test.
    pub fn measured(&mut self, name: &str, report: &impl Serialize, rows: &[Row], noise: &[String]) {
        let report = serde_json::to_value(report).expect("a report is plain data");
        let outcome = PartOutcome::Measured { report, rows: rows.to_vec(), noise: noise.to_vec() };
        self.parts.push(Part { name: name.to_owned(), outcome });
    }

    /// Adds reasons why the newest measurement is unreliable.
    pub(crate) fn disturb(&mut self, more: &[String]) {
        if let Some(Part { outcome: PartOutcome::Measured { noise, .. }, .. }) = self.parts.last_mut() {
            noise.extend_from_slice(more);
        }
    }

    /// Adds notes, each once.
    pub(crate) fn note_all(&mut self, notes: &[String]) {
        for note in notes {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
    }

    /// Adds a measurement that could not be made.
    pub fn skipped(&mut self, name: &str, reason: String) {
        self.parts.push(Part { name: name.to_owned(), outcome: PartOutcome::Skipped { reason } });
    }

    /// Adds the outcome of a measurement, with the rows, noise and state of its report; returns the report, or `None` if
    /// the measurement failed, which breaks the reproduction off.
    pub(crate) fn take<R: Serialize>(
        &mut self,
        name: &str,
        outcome: Result<R, impl fmt::Display>,
        of: ResultsOf<R>,
    ) -> Option<R> {
        match outcome {
            Ok(report) => {
                let (rows, noise, state) = of(&report);
                self.measured(name, &report, rows, &noise);
                if state == State::BrokenOff {
                    self.state = state;
                }
                Some(report)
            }
            Err(reason) => {
                self.skipped(name, reason.to_string());
                self.state = State::BrokenOff;
                None
            }
        }
    }

    /// Measures rates between two ends, and adds the outcome as [`take`](Self::take) does.
    pub(crate) fn take_sweep(
        &mut self,
        name: &str,
        options: &sweep::Options,
        ends: Ends<'_>,
        watch: &mut dyn Watch,
    ) -> Option<sweep::Report> {
        let outcome = sweep::measure(options, ends.server, ends.from, Patience::default(), watch);
        let report = self.take(name, outcome, |report| (&report.rows, report.noise(), report.end.state))?;
        self.note_all(&report.end.notes);
        Some(report)
    }

    /// Ends the reproduction; it is broken off if one of its measurements was.
    #[must_use]
    pub fn end(mut self, was_interrupted: bool) -> Self {
        self.end_time_ns = clock::wall().as_nanos();
        self.load_1min = host::load();
        self.state = State::of(self.state == State::BrokenOff, was_interrupted);
        self
    }

    /// Returns the number of measurements, and of noisy ones among them.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let noises = || self.parts.iter().filter_map(Part::noise);
        (noises().count(), noises().filter(|noise| !noise.is_empty()).count())
    }

    /// Returns a text with the number of unreliable measurements, for a picture without room for their names.
    fn noise_in_short(&self) -> Option<String> {
        let (measured, noisy) = self.counts();
        (noisy > 0).then(|| format!("{noisy} of {measured} measurements, which the report names"))
    }

    fn noise(&self) -> Vec<String> {
        let parts = self.parts.iter().filter_map(|part| Some((part, part.noise()?)));
        parts.flat_map(|(part, noise)| noise.iter().map(|noise| format!("{}: {noise}", part.name))).collect()
    }
}

impl Part {
    fn noise(&self) -> Option<&[String]> {
        match &self.outcome {
            PartOutcome::Measured { noise, .. } => Some(noise),
            PartOutcome::Skipped { .. } => None,
        }
    }

    fn rows(&self) -> Option<&[Row]> {
        match &self.outcome {
            PartOutcome::Measured { rows, .. } => Some(rows),
            PartOutcome::Skipped { .. } => None,
        }
    }

    fn why_not(&self) -> Option<String> {
        match &self.outcome {
            PartOutcome::Measured { .. } => None,
            PartOutcome::Skipped { reason } => Some(format!("{} was not measured: {reason}", self.name)),
        }
    }
}

forms!(Reproduction);

impl Report for Reproduction {
    fn document(&self) -> Document {
        let title = format!("Reproduction of {}", citation(&self.document));
        let medians = |part: &Part| Some(Row::medians(part.rows()?, "").headed(&part.name).on_page());
        let mut sections = vec![
            ReferenceFigure::section(&self.table),
            Section::lines("Not measured", self.parts.iter().filter_map(Part::why_not).collect()),
            Section::conclusions(&self.document, &self.conclusions),
        ];
        sections.extend(self.parts.iter().filter_map(medians));
        let short = "this was a short run: --full measures as long as the paper did";
        let short = (self.grid == Grid::Short).then(|| short.to_owned());
        Document {
            heading: title.clone(),
            title,
            circumstances: self.host.in_words(self.load_1min),
            noise: self.noise(),
            noise_in_short: self.noise_in_short(),
            charts: self.charts.clone(),
            sections,
            notes: self.notes.iter().cloned().chain(short).collect(),
            missing: self.state.in_words(),
            ..Document::default()
        }
    }

    fn csv(&self) -> String {
        ReferenceFigure::to_csv(&self.table)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Checks a reproduction against its published form, and the reports of its parts against theirs
    /// (`of_parts`).
    pub(crate) fn check_against_schema(it: &Reproduction, of_parts: &str) {
        let value = serde_json::to_value(it).unwrap();
        assert_eq!(published::check("bench-reproduce", &value), Ok(()));
        for part in &it.parts {
            if let PartOutcome::Measured { report, .. } = &part.outcome {
                assert_eq!(published::check(of_parts, report), Ok(()), "{}", part.name);
            }
        }
        // Figures are for people, and not part of the JSON.
        let without_figures = Reproduction { charts: Vec::new(), ..it.clone() };
        assert!(
            serde_json::from_value::<Reproduction>(value).unwrap() == without_figures,
            "it comes back whole"
        );
    }
}
