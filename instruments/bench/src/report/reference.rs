//! Published figures beside ours: every number that a document prints, or the reason why it has none here.
//!
//! As text a table of them fits 80 columns: figures of one object stand below its name, and remarks below the table. A
//! page and CSV have one row for each figure.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;
use units::text;

use super::document::{Section, TEXT_WIDTH};
use super::table::{Columns, Table, Value, plain};
use super::{Names, Row, value_text};

/// Beginning of the remark on a published number without one of ours.
pub(crate) const NOT_HERE: &str = "no figure here: ";

/// Metrics whose name adds nothing to that of the object.
const SELF_EVIDENT: [&str; 4] = ["setting", "size", "share", "duration"];

/// A published figure, as reference for ours.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReferenceFigure {
    /// The measured object, as the paper names it.
    pub what: String,
    /// The metric, such as `bits_per_second`.
    pub metric: String,
    /// Unit of the metric.
    pub unit: String,
    /// The published figure; null where there is none.
    #[schemars(with = "Option<Number>")]
    pub source: Option<f64>,
    /// Median and spread here; null where it was not measured.
    pub here: Option<Row>,
    /// Reason why the two cannot be compared, or why there is none here; empty if there is no remark.
    pub remark: String,
}

impl ReferenceFigure {
    /// Returns a published figure, without one of ours.
    pub(crate) fn new(what: String, metric: &str, unit: &str, source: Option<f64>) -> Self {
        let (metric, unit) = (metric.to_owned(), unit.to_owned());
        Self { what, metric, unit, source, here: None, remark: String::new() }
    }

    /// Returns a number that a document prints, without one of ours.
    pub(crate) fn printed(what: &str, metric: &str, unit: &str, source: f64) -> Self {
        Self::new(what.to_owned(), metric, unit, Some(source))
    }

    /// Returns one of our figures, for which none is published.
    pub(crate) fn of_row(row: &Row, remark: String) -> Self {
        let here = Some(row.clone());
        Self { here, remark, ..Self::new(row.case.clone(), &row.metric, &row.unit, None) }
    }

    /// Compares a published setting with ours.
    pub(crate) fn setting(what: &str, unit: &str, source: f64, here: f64) -> Self {
        Self::printed(what, "setting", unit, source).beside(&[here])
    }

    /// Compares a published setting of the kernel, such as `net.core.rmem_max`, with that of this host: `index` is its
    /// number among several in one line.
    pub(crate) fn kernel_setting(name: &str, index: usize, unit: &str, source: f64) -> Self {
        let values = sys::host::sysctl_numbers(name).unwrap_or_default();
        let here: Vec<f64> = values.get(index).map(|value| *value as f64).into_iter().collect();
        Self::printed(name, "setting", unit, source).beside(&here).or("this kernel does not tell it")
    }

    /// Adds our figure: the median of values; none if there are none.
    pub(crate) fn beside(self, values: &[f64]) -> Self {
        let names = Names { bench: "reproduce", case: &self.what, system: "this host" };
        let here = Row::of(names, &self.metric, &self.unit, values);
        Self { here, ..self }
    }

    /// Adds a remark.
    pub(crate) fn remarked(self, remark: &str) -> Self {
        Self { remark: remark.to_owned(), ..self }
    }

    /// Adds the reason why there is no figure here, if there is none.
    pub(crate) fn or(self, why: &str) -> Self {
        if self.here.is_some() { self } else { Self { remark: format!("{NOT_HERE}{why}"), ..self } }
    }

    /// Writes figures for people.
    pub(crate) fn section(table: &[Self]) -> Section {
        Section::figures("Published figures, and those of this host", table)
    }

    /// Writes figures as CSV.
    pub(crate) fn to_csv(table: &[Self]) -> String {
        columns().to_csv(table)
    }

    fn quantity(&self, value: Option<f64>) -> Option<Value> {
        value.map(|value| Value::Quantity(value, self.unit.clone()))
    }

    /// Returns the published number as it is printed, with its unit.
    fn source_text(&self) -> Option<String> {
        self.source.map(|value| printed_text(value, &self.unit))
    }

    /// Returns the extremes of our repeats, if there are several.
    fn range_text(&self) -> String {
        let Some(Row { min, max, .. }) = self.here.as_ref().filter(|row| row.min < row.max) else {
            return String::new();
        };
        if self.unit == "bit/s" {
            return text::rate_range(*min, *max);
        }
        let [least, most] = [min, max].map(|value| value_text(*value, &self.unit));
        match (least.split_once(' '), most.split_once(' ')) {
            (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} – {most}"),
            _ => format!("{least} – {most}"),
        }
    }
}

/// Returns a number in full, with commas between its thousands, in its unit.
fn printed_text(value: f64, unit: &str) -> String {
    let (value, unit) = match unit {
        "bit/s" if value >= 1e9 => (value / 1e9, "Gbit/s"),
        "bit/s" if value >= 1e6 => (value / 1e6, "Mbit/s"),
        "bit/s" if value >= 1e3 => (value / 1e3, "kbit/s"),
        "1/s" => (value, "/s"),
        unit => (value, unit),
    };
    let digits = value.to_string();
    let (whole, rest) = digits.find('.').map_or((&digits[..], ""), |point| digits.split_at(point));
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), text::grouped);
    format!("{whole}{rest} {unit}").trim_end().to_owned()
}

fn columns<'a>() -> Columns<&'a ReferenceFigure> {
    Columns::<&ReferenceFigure>::new()
        .shared_words("what", "what", |it| it.what.as_str())
        .words("figure", |it| it.metric.replace('_', " "))
        .csv("metric", |it| it.metric.as_str())
        .csv("unit", |it| it.unit.as_str())
        .number("published", plain, |it| it.source_text())
        .csv("source", |it| it.source)
        .shared("here", "median", plain, |it| it.quantity(it.here.as_ref().map(|row| row.median)))
        .shared("least", "min", plain, |it| it.quantity(it.here.as_ref().map(|row| row.min)))
        .shared("most", "max", plain, |it| it.quantity(it.here.as_ref().map(|row| row.max)))
        .csv("runs", |it| it.here.as_ref().map(|row| row.runs))
        .shared_words("", "remark", |it| it.remark.as_str())
}

/// Figures for people.
#[derive(Debug)]
pub(crate) struct Figures(pub(crate) Vec<ReferenceFigure>);

impl Figures {
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the table for a page.
    pub(crate) fn table(&self) -> Table {
        columns().table(&self.0)
    }

    /// Returns the remarks, each once, in the order of the figures.
    fn remarks(&self) -> Vec<&str> {
        let mut remarks = Vec::new();
        for it in &self.0 {
            if !it.remark.is_empty() && !remarks.contains(&it.remark.as_str()) {
                remarks.push(it.remark.as_str());
            }
        }
        remarks
    }
}

/// A line of the text: label, published figure, ours, its range, and the number of its remark.
struct Line {
    label: String,
    cells: [String; 4],
}

impl Line {
    fn of(it: &ReferenceFigure, label: String, remarks: &[&str]) -> Self {
        let here = it.here.as_ref().map(|row| value_text(row.median, &row.unit));
        let mark = remarks.iter().position(|remark| *remark == it.remark);
        let mark = mark.map(|index| format!("[{}]", index + 1));
        let cells = [it.source_text(), here, Some(it.range_text()), mark].map(Option::unwrap_or_default);
        Self { label, cells }
    }
}

impl fmt::Display for Figures {
    /// Writes figures of one object below its name, and the remarks below the table.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remarks = self.remarks();
        let mut lines = vec![Line {
            label: "WHAT".to_owned(),
            cells: ["PUBLISHED", "HERE", "LEAST – MOST", ""].map(str::to_owned),
        }];
        for group in self.0.chunk_by(|a, b| a.what == b.what) {
            let words = |it: &ReferenceFigure| it.metric.replace('_', " ");
            if let [it] = group {
                let is_plain = SELF_EVIDENT.contains(&it.metric.as_str());
                let label = if is_plain { it.what.clone() } else { format!("{}, {}", it.what, words(it)) };
                lines.push(Line::of(it, label, &remarks));
                continue;
            }
            lines.push(Line { label: group[0].what.clone(), cells: Default::default() });
            lines.extend(group.iter().map(|it| Line::of(it, format!("  {}", words(it)), &remarks)));
        }
        let width = |index: usize| lines.iter().map(|it| it.cells[index].chars().count()).max().unwrap_or(0);
        let widths = [0, 1, 2, 3].map(width);
        let room = widths.iter().filter(|width| **width > 0).map(|width| width + 2).sum::<usize>();
        let room = TEXT_WIDTH.saturating_sub(room).max(20);
        let longest = lines.iter().map(|it| it.label.chars().count()).max().unwrap_or(0).min(room);
        for Line { label, cells } in &lines {
            let has_cells = cells.iter().any(|cell| !cell.is_empty());
            // The further parts of a long label are indented by two more.
            let indent = " ".repeat(2 + label.chars().take_while(|letter| *letter == ' ').count());
            let first = if has_cells { longest } else { TEXT_WIDTH };
            let parts = text::broken(label, first, longest.saturating_sub(indent.len()));
            for (index, part) in parts.iter().enumerate() {
                let mut line = format!("{}{part}", if index > 0 { &indent } else { "" });
                if index + 1 == parts.len() {
                    line = format!("{line:longest$}");
                    for (cell, width) in cells.iter().zip(widths).filter(|(_, width)| *width > 0) {
                        line += &format!("  {cell:>width$}");
                    }
                }
                writeln!(formatter, "{}", line.trim_end())?;
            }
        }
        for (index, remark) in remarks.iter().enumerate() {
            let head = format!("  {:<5}", format!("[{}]", index + 1));
            writeln!(formatter, "{}", text::hanging(&head, remark, TEXT_WIDTH))?;
        }
        Ok(())
    }
}

/// A host of a document: its numbers, as far as the document prints them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PrintedHost {
    pub(crate) name: &'static str,
    pub(crate) processors: Option<f64>,
    /// Units: GHz.
    pub(crate) clock_ghz: Option<f64>,
    /// Units: GB.
    pub(crate) memory_gb: Option<f64>,
    /// Units: Gbit/s.
    pub(crate) card_gbits: Option<f64>,
}

impl PrintedHost {
    /// Compares the host with this one.
    pub(crate) fn beside_this(&self) -> impl Iterator<Item = ReferenceFigure> {
        let &Self { name, processors, clock_ghz, memory_gb, card_gbits } = self;
        let values = |value: Option<f64>| value.into_iter().collect::<Vec<_>>();
        let line = |metric: &str, unit: &str, source: Option<f64>, here: Option<f64>, why: &str| {
            let line = ReferenceFigure::printed(name, metric, unit, source?);
            Some(line.beside(&values(here)).or(why))
        };
        let cpus = Some(f64::from(crate::host::cpus()));
        let clock = crate::processor::clock_mhz().map(|mhz| mhz / 1e3);
        let lines = [
            line("processors", "", processors, cpus, ""),
            line("clock", "GHz", clock_ghz, clock, "this kernel does not tell the clock"),
            line("memory", "GB", memory_gb, crate::host::memory_gb(), "this kernel does not tell the memory"),
            line("card", "bit/s", card_gbits.map(|it| it * 1e9), None, NO_CARD),
        ];
        lines.into_iter().flatten()
    }
}

/// Reason why a number of a network card has none here.
pub(crate) const NO_CARD: &str = "network cards are not examined";

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Checks that each number of a list stands in a table with our figure or a reason, and that the table has no
    /// published number that the list has not.
    ///
    /// The list has a line for each: place, number as printed, value, unit, object and metric, with tabs between. An
    /// object that ends in `…` is the beginning of its name.
    pub(crate) fn check_printed(list: &str, table: &[ReferenceFigure]) {
        let mut listed = vec![false; table.len()];
        for line in list.lines().filter(|line| !line.starts_with('#')) {
            let cells: Vec<&str> = line.split('\t').collect();
            let [_, _, value, unit, what, metric] = cells[..] else { panic!("six cells: {line}") };
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("a number: {line}"));
            let is_of = |it: &ReferenceFigure| match what.strip_suffix('…') {
                Some(beginning) => it.what.starts_with(beginning),
                None => it.what == what,
            };
            let is_it = |it: &ReferenceFigure| {
                let differs_by = it.source.map(|source| (source - value).abs());
                let is_equal = differs_by.is_some_and(|by| by <= value.abs() * 1e-9);
                is_of(it) && it.metric == metric && it.unit == unit && is_equal
            };
            let carries: Vec<usize> = (0..table.len()).filter(|index| is_it(&table[*index])).collect();
            assert!(!carries.is_empty(), "no row carries {line}");
            for index in carries {
                let it = &table[index];
                let has_reason = it.remark.len() > NOT_HERE.len() && it.remark.starts_with(NOT_HERE);
                assert!(it.here.is_some() || has_reason, "no figure here, and no reason: {it:?}");
                listed[index] = true;
            }
        }
        for (it, is_listed) in table.iter().zip(listed) {
            assert!(is_listed || it.source.is_none(), "the list does not have {it:?}");
        }
    }

    #[test]
    fn published_numbers_are_written_as_they_are_printed() {
        for (value, unit, text) in [
            (791_676.1, "1/s", "791,676.1 /s"),
            (514.361e6, "bit/s", "514.361 Mbit/s"),
            (1_346e6, "bit/s", "1.346 Gbit/s"),
            (112.9, "%", "112.9 %"),
            (33_554_432.0, "B", "33,554,432 B"),
            (0.062, "ms", "0.062 ms"),
            (2.0, "", "2"),
        ] {
            assert_eq!(printed_text(value, unit), text);
        }
    }

    #[test]
    fn text_fits_80_columns_and_remarks_stand_below_once() {
        let long = "an object whose name is so long that it does not fit beside its figures";
        let line = |what: &str, metric: &str| ReferenceFigure::printed(what, metric, "bit/s", 791_676.1);
        let figures = Figures(vec![
            line("1 B", "bits_per_second").beside(&[90e6, 100e6, 110e6]).remarked("a remark"),
            line("1 B", "peak").or("why not, which takes more than one line of 80 columns to say in full"),
            line(long, "setting").remarked("a remark"),
        ]);
        insta::assert_snapshot!(figures.to_string(), @"
        WHAT                               PUBLISHED        HERE       LEAST – MOST
        1 B
          bits per second            791.6761 kbit/s  100 Mbit/s  90.0 – 110 Mbit/s  [1]
          peak                       791.6761 kbit/s                                 [2]
        an object whose name is so
          long that it does not fit
          beside its figures         791.6761 kbit/s                                 [1]
          [1]  a remark
          [2]  no figure here: why not, which takes more than one line of 80 columns to
               say in full
        ");
        assert!(figures.to_string().lines().all(|line| line.chars().count() <= TEXT_WIDTH));
    }
}
