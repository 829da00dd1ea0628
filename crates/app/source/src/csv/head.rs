//! First lines of a table: where its rows begin, and what names and separates its columns.
//!
//! The first line of which every cell is a value is a row. The line above it names the columns if it has as many fields
//! and none is a number; if those are units, the names are one line higher. All lines before are the instrument's own and
//! passed over. A line of numbers names nothing: pass over one with `--skip`.

use std::borrow::Cow;

use sample::Channel;

use super::cell::{has_decimal_comma, is_value};
use super::clock::{TimeError, TimeUnit};
use super::fields::{Separator, filled};
use super::instruments;
use super::layout::{Found, Layout};
use super::lines::is_passed_over;
use crate::columns::is_time;
use crate::numbers::{headings, is_unit};
use crate::{ColumnError, FileOptions, TimeColumn};

/// Maximum number of lines before the first row: those of instruments are about 30.
const MAX_LINES: usize = 1_000;

/// What the user says of a table's text.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct TextOptions {
    /// Number of lines at the beginning that are passed over.
    pub(crate) skip: u64,
    pub(crate) time: TimeColumn,
    pub(crate) time_unit: Option<TimeUnit>,
    pub(crate) time_zone: Option<String>,
    pub(crate) columns: Vec<String>,
    /// Name, before its number, of a column that has none.
    pub(crate) unnamed: &'static str,
}

impl From<&FileOptions> for TextOptions {
    fn from(options: &FileOptions) -> Self {
        Self {
            skip: options.skip,
            time: options.time.clone(),
            time_unit: options.time_unit,
            time_zone: options.time_zone.clone(),
            columns: options.columns.clone(),
            unnamed: "ch",
        }
    }
}

/// Reason why the first lines give no layout.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeadError {
    /// The header row has more or fewer fields than the rows.
    #[error("line {line} has {found} fields, expected {expected} as in the header row, line {header}")]
    Ragged {
        /// Number of the line, from 1.
        line: u64,
        /// Number of its fields.
        found: usize,
        /// Number of the header row, from 1.
        header: u64,
        /// Number of fields in the header row.
        expected: usize,
    },
    /// Commas may separate fields or be decimal signs.
    #[error(
        "line {line}: it is open whether the comma separates two values or is a decimal sign\n\
         pass over the line above, if it is a title, with --skip; else write decimal points"
    )]
    Commas {
        /// Number of the line, from 1.
        line: u64,
    },
    /// The file has several recordings.
    #[error(
        "the file has {0} segments, each with times of its own\nexport each segment to a file of its own"
    )]
    Segments(String),
    /// A line is not UTF-8.
    #[error(
        "line {line} is not UTF-8 text\nconvert the file with iconv -t UTF-8 -f LATIN1, or -f UTF-16 from Windows"
    )]
    Encoding {
        /// Number of the line, from 1.
        line: u64,
    },
    /// The columns cannot be chosen as requested.
    #[error(transparent)]
    Columns(#[from] ColumnError),
    /// The time of the first row cannot be read.
    #[error("line {line}: {source}")]
    Time {
        /// Number of the line, from 1.
        line: u64,
        /// Error of the time.
        source: TimeError,
    },
}

/// Lines before the layout is known.
#[derive(Debug)]
pub(crate) struct Head {
    options: TextOptions,
    lines: Vec<Line>,
    foreign_line: Option<u64>,
}

/// Line that is neither blank nor a comment.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Number, from 1.
    pub(crate) number: u64,
    pub(crate) text: String,
}

impl Head {
    pub(crate) const fn new(options: TextOptions) -> Self {
        Self { options, lines: Vec::new(), foreign_line: None }
    }

    /// Takes the next line; returns the layout once it is known.
    ///
    /// # Errors
    /// [`HeadError`]. After [`HeadError::Ragged`] the line is forgotten, and the next may be given.
    pub(crate) fn take(&mut self, number: u64, line: &[u8]) -> Result<Option<Layout>, HeadError> {
        if number <= self.options.skip || is_passed_over(line) {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(line);
        if matches!(text, Cow::Owned(_)) {
            self.foreign_line.get_or_insert(number);
        }
        self.lines.push(Line { number, text: text.trim_end_matches(['\r', '\n']).to_owned() });
        let decided = self.decide();
        if decided.is_err() {
            self.lines.pop();
        }
        match decided? {
            None if self.lines.len() >= MAX_LINES => self.finish(),
            decided => Ok(decided),
        }
    }

    /// Returns the layout of a text without a line that is certainly a row: the first names the columns.
    ///
    /// `None` if there is no line for a row.
    pub(crate) fn finish(&self) -> Result<Option<Layout>, HeadError> {
        if instruments::claims(&self.lines) {
            return self.by_instrument(true);
        }
        if let Some(line) = self.foreign_line {
            return Err(HeadError::Encoding { line });
        }
        let [names, row, ..] = &self.lines[..] else { return Ok(None) };
        let found = self.found(most_frequent(&names.text), (Some(names), None), row);
        self.layout(found, row)
    }

    /// Returns the lines of values among those taken, the first of which told the layout.
    pub(crate) fn rows(&self, layout: &Layout) -> impl Iterator<Item = Line> + use<> {
        let first_row = layout.found.first_row;
        self.lines.clone().into_iter().filter(move |line| line.number >= first_row)
    }

    /// Returns the lines taken, which tell the layout again.
    pub(crate) fn text(&self) -> Option<String> {
        let texts: Vec<&str> = self.lines.iter().map(|line| line.text.as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    fn decide(&self) -> Result<Option<Layout>, HeadError> {
        if instruments::claims(&self.lines) {
            return self.by_instrument(false);
        }
        self.by_rule()
    }

    fn by_instrument(&self, is_whole: bool) -> Result<Option<Layout>, HeadError> {
        let Some((found, row)) = instruments::read(&self.lines, is_whole) else { return Ok(None) };
        self.layout(found, row)
    }

    fn by_rule(&self) -> Result<Option<Layout>, HeadError> {
        let (row, above) = self.lines.split_last().expect("a line was taken");
        instruments::check(above)?;
        let Some(separator) = separator_of(row, above.last())? else { return Ok(None) };
        let names = names_of(separator, row, above)?;
        let row = if names.0.is_none() { broken_row(separator, row, above).unwrap_or(row) } else { row };
        let mut found = self.found(separator, names, row);
        instruments::add_units(above, &mut found.headings);
        if found.headings.len() == 1 {
            found.rate = instruments::stated_rate(above);
        }
        self.layout(found, row)
    }

    fn found(&self, separator: Separator, names: (Option<&Line>, Option<&Line>), row: &Line) -> Found {
        let (header, unit) = names;
        let fields =
            |line: &Line| separator.split(&line.text).into_iter().map(Cow::into_owned).collect::<Vec<_>>();
        let count = filled(&separator.split(&header.unwrap_or(row).text)).max(1);
        let numbered = |index| Channel::new(format!("{}{index}", self.options.unnamed), "");
        let headings = header.map_or_else(
            || (0..count).map(numbered).collect(),
            |header| named(&fields(header)[..count], &unit.map(fields).unwrap_or_default()),
        );
        Found {
            instrument: instruments::name(&self.lines),
            separator,
            header_line: header.map(|line| line.number),
            unit_line: unit.map(|line| line.number),
            first_row: row.number,
            headings,
            rate: None,
            index: None,
            left_out: Vec::new(),
        }
    }

    /// Makes the layout; refuses names and units in another encoding, which would be changed.
    fn layout(&self, found: Found, row: &Line) -> Result<Option<Layout>, HeadError> {
        let mut lines = self.lines.iter().filter(|line| line.text.contains(char::REPLACEMENT_CHARACTER));
        let is_read = |line: &&Line| [found.header_line, found.unit_line].contains(&Some(line.number));
        if let Some(line) = lines.find(is_read) {
            return Err(HeadError::Encoding { line: line.number });
        }
        let mut first = found.separator.split(&row.text);
        first.resize(first.len().max(found.headings.len()), Cow::Borrowed(""));
        Layout::new(found, &first, &self.options).map(Some)
    }
}

/// Returns what separates the fields of a row; `None` if the line is none.
///
/// It is the separator by which the header row has as many fields, else the one that gives most; blanks only where no
/// other separates.
fn separator_of(row: &Line, above: Option<&Line>) -> Result<Option<Separator>, HeadError> {
    let of = |separator: Separator| {
        let fields = separator.split(&row.text);
        let count = filled(&fields);
        // A comma in the line above separates there, so that it is no decimal sign here.
        let divides_above =
            |above: &Line| separator == Separator::Comma || count > 1 || !above.text.contains(',');
        let agrees =
            above.is_some_and(|above| divides_above(above) && names_fields(separator, above, &fields));
        let is_clean = fields.iter().any(|cell| is_value(cell))
            && fields.iter().all(|cell| cell.is_empty() || is_value(cell));
        let is_row = is_clean || (agrees && count > 1 && is_value(&fields[0]));
        let separates = count > 1 && separator != Separator::Blanks;
        is_row.then_some((agrees, separates, count, separator))
    };
    // Of equals the last is the greatest.
    let best = Separator::ALL
        .into_iter()
        .rev()
        .filter_map(of)
        .max_by_key(|(agrees, separates, count, _)| (*agrees, *separates, *count));
    if let (Some((true, _, 1, _)), Some((false, true, ..))) = (best, of(Separator::Comma))
        && has_decimal_comma(row.text.trim())
    {
        return Err(HeadError::Commas { line: row.number });
    }
    Ok(best.map(|(.., separator)| separator))
}

/// Returns the header row and the row of units above a row.
fn names_of<'a>(
    separator: Separator,
    row: &Line,
    above: &'a [Line],
) -> Result<(Option<&'a Line>, Option<&'a Line>), HeadError> {
    let Some((last, before)) = above.split_last() else { return Ok((None, None)) };
    let fields = separator.split(&row.text);
    let names = |line: &&Line| names_fields(separator, line, &fields);
    if names(&last) {
        let is_units = separator.split(&last.text).iter().all(|text| text.is_empty() || is_unit(bare(text)));
        let higher = before.last().filter(names).filter(|_| is_units);
        return Ok(higher.map_or((Some(last), None), |higher| (Some(higher), Some(last))));
    }
    let texts = separator.split(&last.text);
    let (found, expected) = (filled(&fields), filled(&texts));
    if found > 1 && expected > 1 && are_names(&texts) {
        return Err(HeadError::Ragged { line: row.number, found, header: last.number, expected });
    }
    Ok((None, None))
}

/// Returns whether a line names the columns of a row.
fn names_fields(separator: Separator, line: &Line, row: &[Cow<'_, str>]) -> bool {
    let texts = separator.split(&line.text);
    are_names(&texts) && (filled(row)..=row.len()).contains(&filled(&texts))
}

/// Returns whether no field is a value, or the first is the name of times: columns may be named by numbers.
fn are_names(texts: &[Cow<'_, str>]) -> bool {
    let is_time = texts.first().is_some_and(|first| is_time(&crate::numbers::heading(first, 0)));
    filled(texts) > 0 && (is_time || !texts.iter().any(|text| is_value(text)))
}

/// Returns the only line above, if it is a row too, with a word in place of a value: reading it tells which.
fn broken_row<'a>(separator: Separator, row: &Line, above: &'a [Line]) -> Option<&'a Line> {
    let [only] = above else { return None };
    let fields = separator.split(&only.text);
    let is_as_long = filled(&fields) == filled(&separator.split(&row.text));
    (is_as_long && fields.iter().any(|cell| is_value(cell))).then_some(only)
}

/// Returns the channels of a header row and its units.
pub(super) fn named(names: &[String], units: &[String]) -> Vec<Channel> {
    let mut channels = headings(names.iter().map(String::as_str));
    for (channel, unit) in channels.iter_mut().zip(units).filter(|(channel, _)| channel.unit.is_empty()) {
        bare(unit).clone_into(&mut channel.unit);
    }
    channels
}

/// Returns a unit without its brackets.
fn bare(unit: &str) -> &str {
    let within = |open, close| unit.strip_prefix(open)?.strip_suffix(close);
    within('[', ']').or_else(|| within('(', ')')).unwrap_or(unit).trim()
}

/// Returns the most frequent separator of a line of words.
fn most_frequent(line: &str) -> Separator {
    let separators = [Separator::Tab, Separator::Semicolon, Separator::Comma].into_iter();
    separators.max_by_key(|separator| separator.split(line).len()).expect("there are three")
}
