//! Tables of a report: one list of columns for each, from which text, page and CSV are written.

use std::fmt;

use drawing::{Column as Head, Page};
use units::text;

use super::document::{TEXT_WIDTH, write_hanging};
use super::value_text;

/// Indentation of a warning below its row.
const BELOW: &str = "      ";
/// Least width of words that stand in place of cells.
const LEAST_WIDTH: usize = 30;

/// A value of a cell. CSV has it in full, people see it rounded.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    /// No value: the cell is empty.
    Nothing,
    /// A whole number.
    Whole(i128),
    /// A number.
    Number(f64),
    /// A number in a unit of its own.
    Quantity(f64, String),
    /// Words.
    Words(String),
    /// For people, words instead of this value and all that follow it.
    Rest(String),
}

/// A column: its name in CSV, its heading for people, and its value.
struct Column<R> {
    /// Name in CSV; none if CSV does not have the column.
    key: Option<&'static str>,
    /// Heading for people; none if they do not see the column.
    head: Option<Head>,
    /// Writes a number for people.
    shown: fn(f64) -> String,
    value: Box<dyn Fn(&R) -> Value>,
}

/// The columns of a table whose rows are made from values `R`.
pub(crate) struct Columns<R>(Vec<Column<R>>);

/// A table for people.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Table {
    heads: Vec<Head>,
    rows: Vec<Vec<String>>,
}

impl<R> Columns<R> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a column of numbers for people, which `shown` writes.
    pub(crate) fn number<V: Into<Value>>(
        self,
        heading: &'static str,
        shown: fn(f64) -> String,
        value: impl Fn(&R) -> V + 'static,
    ) -> Self {
        self.with(None, Some(Head::Number(heading)), shown, value)
    }

    /// Adds a column of numbers for people, and with its key for CSV.
    pub(crate) fn shared<V: Into<Value>>(
        self,
        heading: &'static str,
        key: &'static str,
        shown: fn(f64) -> String,
        value: impl Fn(&R) -> V + 'static,
    ) -> Self {
        self.with(Some(key), Some(Head::Number(heading)), shown, value)
    }

    /// Adds a column of words for people.
    pub(crate) fn words<V: Into<Value>>(
        self,
        heading: &'static str,
        value: impl Fn(&R) -> V + 'static,
    ) -> Self {
        self.with(None, Some(Head::Word(heading)), plain, value)
    }

    /// Adds a column of words for people, and with its key for CSV.
    pub(crate) fn shared_words<V: Into<Value>>(
        self,
        heading: &'static str,
        key: &'static str,
        value: impl Fn(&R) -> V + 'static,
    ) -> Self {
        self.with(Some(key), Some(Head::Word(heading)), plain, value)
    }

    /// Adds a column of warnings for people.
    pub(crate) fn warning<V: Into<Value>>(self, value: impl Fn(&R) -> V + 'static) -> Self {
        self.with(None, Some(Head::Warning("")), plain, value)
    }

    /// Adds a column of CSV.
    pub(crate) fn csv<V: Into<Value>>(self, key: &'static str, value: impl Fn(&R) -> V + 'static) -> Self {
        self.with(Some(key), None, plain, value)
    }

    fn with<V: Into<Value>>(
        mut self,
        key: Option<&'static str>,
        head: Option<Head>,
        shown: fn(f64) -> String,
        value: impl Fn(&R) -> V + 'static,
    ) -> Self {
        let value = Box::new(move |row: &R| value(row).into());
        self.0.push(Column { key, head, shown, value });
        self
    }

    /// Writes rows for people.
    pub(crate) fn table(&self, rows: impl IntoIterator<Item = R>) -> Table {
        let heads = self.0.iter().filter_map(|column| column.head).collect();
        Table { heads, rows: rows.into_iter().map(|row| self.cells(&row)).collect() }
    }

    fn cells(&self, row: &R) -> Vec<String> {
        let mut cells = Vec::new();
        for column in self.0.iter().filter(|column| column.head.is_some()) {
            match (column.value)(row) {
                Value::Rest(words) => {
                    cells.push(words);
                    break;
                }
                value => cells.push(value.for_people(column.shown)),
            }
        }
        cells
    }

    /// Writes rows as CSV (RFC 4180, with line feeds), with a header.
    pub(crate) fn to_csv(&self, rows: impl IntoIterator<Item = R>) -> String {
        let columns = || self.0.iter().filter_map(|column| Some((column.key?, &column.value)));
        let mut writer = csv::Writer::from_writer(Vec::new());
        let mut write = |cells: Vec<String>| writer.write_record(cells).expect("memory takes every record");
        write(columns().map(|(key, _)| key.to_owned()).collect());
        rows.into_iter().for_each(|row| write(columns().map(|(_, value)| value(&row).in_full()).collect()));
        let bytes = writer.into_inner().expect("memory takes every record");
        String::from_utf8(bytes).expect("cells are text")
    }
}

impl Value {
    fn for_people(self, shown: fn(f64) -> String) -> String {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
            Self::Whole(number) => shown(number as f64),
            Self::Number(number) => shown(number),
            Self::Quantity(number, unit) => value_text(number, &unit),
            other => other.in_full(),
        }
    }

    fn in_full(self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Whole(number) => number.to_string(),
            Self::Number(number) | Self::Quantity(number, _) => number.to_string(),
            Self::Words(words) | Self::Rest(words) => words,
        }
    }
}

macro_rules! whole {
    ($($number:ty)*) => {
        $(impl From<$number> for Value {
            fn from(number: $number) -> Self {
                Self::Whole(number as i128)
            }
        })*
    };
}

whole! { u8 u32 u64 usize i64 }

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(words: &str) -> Self {
        Self::Words(words.to_owned())
    }
}

impl From<String> for Value {
    fn from(words: String) -> Self {
        Self::Words(words)
    }
}

impl<V: Into<Self>> From<Option<V>> for Value {
    fn from(value: Option<V>) -> Self {
        value.map_or(Self::Nothing, Into::into)
    }
}

/// Writes a number in full, for a column.
pub(crate) fn plain(number: f64) -> String {
    number.to_string()
}

/// Writes a number with a fixed count of decimals, for a column.
pub(crate) fn decimals<const COUNT: usize>(number: f64) -> String {
    format!("{number:.COUNT$}")
}

/// Writes the index of a run or repeat as people count, from 1.
pub(crate) fn ordinal(index: f64) -> String {
    (index + 1.0).to_string()
}

impl fmt::Display for Table {
    /// Writes the table as text: every column as wide as its widest cell, columns without any value left out, warnings
    /// below their row where they do not fit behind it. Of a table too wide for the text the names in its first columns
    /// stand in a line above the rows that have them in common, if that makes it fit.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.heads.len()).map(|index| self.width(index)).collect();
        let heads: Vec<String> = self.heads.iter().map(|head| in_capitals(head.heading())).collect();
        // Only names stand above: figures are compared down their column.
        let names = self.heads.iter().take_while(|head| matches!(head, Head::Word(_))).count();
        let above = (0..=names).find(|above| self.fits(&widths, *above)).unwrap_or(0);
        let mut last: &[String] = &[];
        for row in std::iter::once(&heads).chain(&self.rows) {
            let (first, rest) = row.split_at(above.min(row.len() - 1));
            if !first.is_empty() && first != last {
                writeln!(formatter, "{}", first.join("  ").trim_end())?;
            }
            last = first;
            self.write_row(formatter, rest, &widths, first.len())?;
        }
        Ok(())
    }
}

impl Table {
    pub(crate) const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn add_to(&self, page: &mut Page) {
        page.table(&self.heads, self.rows.iter().cloned());
    }

    /// Returns the width of a column; 0 if it has no value.
    fn width(&self, index: usize) -> usize {
        let is_rest = |row: &&Vec<String>| index + 1 == row.len() && row.len() < self.heads.len();
        let cells = self.rows.iter().filter(|row| !is_rest(row)).filter_map(|row| row.get(index));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        if widest == 0 { 0 } else { widest.max(self.heads[index].heading().chars().count()) }
    }

    /// Returns whether rows fit the text if this number of columns stands above them.
    fn fits(&self, widths: &[usize], above: usize) -> bool {
        let shown = widths.iter().zip(&self.heads).skip(above);
        let shown = shown.filter(|(width, head)| **width > 0 && !matches!(head, Head::Warning(_)));
        let columns: usize = shown.map(|(width, _)| width + 2).sum();
        columns + if above > 0 { 2 } else { 0 } <= TEXT_WIDTH + 2
    }

    /// Writes the cells of a row behind those that stand above it.
    fn write_row(
        &self,
        formatter: &mut fmt::Formatter<'_>,
        cells: &[String],
        widths: &[usize],
        above: usize,
    ) -> fmt::Result {
        let (mut line, mut below) = (if above > 0 { "  " } else { "" }.to_owned(), "");
        for (index, cell) in (above..).zip(cells) {
            let width = widths[index];
            let is_rest = index + 1 == above + cells.len() && index + 1 < widths.len();
            let gap = if line.trim().is_empty() { "" } else { "  " };
            let begin = line.chars().count() + gap.len();
            line += &match self.heads[index] {
                _ if is_rest => {
                    let head = " ".repeat(begin);
                    let lines = text::hanging(&head, cell, TEXT_WIDTH.max(begin + LEAST_WIDTH));
                    format!("{gap}{}", lines.trim_start())
                }
                _ if width == 0 => continue,
                Head::Number(_) => format!("{gap}{cell:>width$}"),
                Head::Warning(_) if begin + cell.chars().count() > TEXT_WIDTH => {
                    below = cell;
                    continue;
                }
                Head::Word(_) | Head::Warning(_) => format!("{gap}{cell:width$}"),
            };
        }
        writeln!(formatter, "{}", line.trim_end())?;
        if below.is_empty() { Ok(()) } else { write_hanging(formatter, BELOW, below) }
    }
}

/// Returns a heading with its words in capitals; symbols, units and percentiles stay.
fn in_capitals(heading: &str) -> String {
    let is_word =
        |word: &str| word.chars().all(|letter| letter.is_ascii_alphabetic() || "',".contains(letter));
    let words = heading.split(' ');
    let words = words.map(|word| if is_word(word) { word.to_ascii_uppercase() } else { word.to_owned() });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Columns<(u32, Option<f64>, &'static str)> {
        Columns::<(u32, Option<f64>, &str)>::new()
            .shared("run", "run", ordinal, |it| it.0)
            .number("p50 [µs]", decimals::<1>, |it| match it.1 {
                Some(time) => Value::Number(time),
                None => Value::Rest("lost\nby noon".to_owned()),
            })
            .csv("p50_us", |it| it.1)
            .shared_words("remark", "remark", |it| it.2)
            .warning(|_| "")
    }

    #[test]
    fn csv_has_values_in_full_and_words_stay_in_their_cell() {
        let rows = [(0, Some(1.25), "plain words"), (1, None, "a, b"), (2, None, "say \"so\"\n")];
        let text = "run,p50_us,remark\n0,1.25,plain words\n1,,\"a, b\"\n2,,\"say \"\"so\"\"\n\"\n";
        assert_eq!(columns().to_csv(rows), text);
        assert_eq!(columns().to_csv([]), "run,p50_us,remark\n");
    }

    #[test]
    fn a_table_too_wide_for_the_text_has_its_first_names_above_the_rows_with_them() {
        let wide = "a name of thirty-five letters or so";
        let columns = Columns::<(&str, u32)>::new()
            .words("what", |it| it.0)
            .number("first", plain, |it| it.1)
            .words("second", move |_| wide)
            .words("third", |it| "x".repeat(it.1 as usize));
        let table = columns.table([(wide, 1), (wide, 2), ("short", 3)]).to_string();
        let lines = [
            "WHAT".to_owned(),
            format!("  FIRST  {:35}  THIRD", "SECOND"),
            wide.to_owned(),
            format!("      1  {wide}  x"),
            format!("      2  {wide}  xx"),
            "short".to_owned(),
            format!("      3  {wide}  xxx"),
        ];
        assert_eq!(table.lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn people_see_rounded_values_in_columns_as_wide_as_they_need() {
        let table = columns().table([(0, Some(1.25), "fine"), (9, None, "")]);
        assert_eq!(
            table.to_string(),
            "RUN  p50 [µs]  REMARK\n  1       1.2  fine\n 10  lost\n     by noon\n"
        );
        assert_eq!(table.rows[1], ["10", "lost\nby noon"]);
    }
}
