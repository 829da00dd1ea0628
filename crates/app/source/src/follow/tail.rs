//! Rows of a CSV file that grows: lines as they are completed. Bytes in, rows out.

use std::collections::HashSet;
use std::sync::Arc;

use sample::Channel;

use super::{FollowError, FollowOptions, Followed, Rows};
use crate::csv::{Head, Layout, MARK, TextOptions, is_passed_over};
use crate::{ColumnError, HeadError};

/// Maximum length of a line: longer ones are binary data, not lines.
const MAX_LINE_BYTES: usize = 1 << 20;

/// One file, from its beginning or from any line on.
#[derive(Debug)]
pub(super) struct Tail {
    options: FollowOptions,
    /// Start of an incomplete line.
    partial: Vec<u8>,
    head: Head,
    columns: Option<Columns>,
    /// Description of the layout, until it was said.
    unsaid: Option<String>,
    lines: u64,
    position: u64,
}

/// Reader of the rows.
#[derive(Debug)]
struct Columns {
    layout: Layout,
    channels: Arc<[Channel]>,
}

impl Tail {
    /// Begins a file.
    pub(super) fn new(options: FollowOptions) -> Self {
        let head = Head::new(options.text());
        Self { options, partial: Vec::new(), head, columns: None, unsaid: None, lines: 0, position: 0 }
    }

    /// Continues behind the part read before, of which `header` are the lines that told the layout.
    pub(super) fn skip_to(&mut self, position: u64, header: Option<&str>) -> Result<(), FollowError> {
        self.position = position;
        self.head = Head::new(TextOptions { skip: 0, ..self.options.text() });
        for line in header.unwrap_or_default().lines() {
            self.lines += 1;
            if let Some(layout) = self.head.take(self.lines, line.as_bytes())? {
                return self.begin(layout);
            }
        }
        Ok(())
    }

    /// Returns the number of bytes in completed lines.
    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of bytes of an incomplete last line.
    pub(super) fn partial_bytes(&self) -> usize {
        self.partial.len()
    }

    /// Returns the lines that told the layout.
    pub(super) fn header(&self) -> Option<String> {
        self.head.text()
    }

    /// Takes bytes; appends the rows and refusals of the lines that they complete.
    pub(super) fn feed(&mut self, data: &[u8], out: &mut Vec<Followed>) -> Result<(), FollowError> {
        self.partial.extend_from_slice(data);
        let whole_bytes = self.partial.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if self.partial.len() - whole_bytes > MAX_LINE_BYTES {
            return Err(FollowError::LongLine);
        }
        let rest = self.partial.split_off(whole_bytes);
        let whole = std::mem::replace(&mut self.partial, rest);
        let is_first = self.position == 0;
        self.position += whole_bytes as u64;
        let whole = whole.strip_prefix(MARK).filter(|_| is_first).unwrap_or(&whole);
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            self.lines += 1;
            if !is_passed_over(line) {
                self.take(line, out)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, line: &[u8], out: &mut Vec<Followed>) -> Result<(), FollowError> {
        if self.columns.is_none() {
            return self.decide(line, out);
        }
        out.extend(self.unsaid.take().map(Followed::Decided));
        let Ok(text) = str::from_utf8(line) else {
            out.push(Followed::Refused(format!("line {} is not UTF-8 text", self.lines)));
            return Ok(());
        };
        self.push(self.lines, text, out);
        Ok(())
    }

    /// Takes a line before the layout is known; with the line that tells it, all rows among those before.
    fn decide(&mut self, line: &[u8], out: &mut Vec<Followed>) -> Result<(), FollowError> {
        match self.head.take(self.lines, line) {
            Ok(None) => Ok(()),
            Ok(Some(layout)) => {
                let rows = self.head.rows(&layout);
                self.begin(layout)?;
                out.extend(self.unsaid.take().map(Followed::Decided));
                rows.for_each(|row| self.push(row.number, &row.text, out));
                Ok(())
            }
            Err(error @ HeadError::Ragged { .. }) => {
                out.push(Followed::Refused(error.to_string()));
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn begin(&mut self, layout: Layout) -> Result<(), FollowError> {
        let mut channels = layout.channels();
        for channel in channels.iter_mut().filter(|channel| channel.unit.is_empty()) {
            channel.unit.clone_from(&self.options.unit);
        }
        let mut names = HashSet::new();
        if let Some(twice) = channels.iter().find(|channel| !names.insert(channel.name.as_str())) {
            return Err(ColumnError::Twice(twice.name.clone()).into());
        }
        self.unsaid = Some(layout.said());
        self.columns = Some(Columns { layout, channels: channels.into() });
        Ok(())
    }

    fn push(&mut self, number: u64, line: &str, out: &mut Vec<Followed>) {
        let columns = self.columns.as_mut().expect("the layout is known");
        if !matches!(out.last(), Some(Followed::Rows(rows)) if Arc::ptr_eq(&rows.channels, &columns.channels))
        {
            out.push(Followed::Rows(Rows::new(Arc::clone(&columns.channels))));
        }
        let Some(Followed::Rows(rows)) = out.last_mut() else { unreachable!("pushed above") };
        let refused = columns.push(line, &self.options, rows).err();
        if rows.count == 0 {
            out.pop();
        }
        out.extend(refused.map(|why| Followed::Refused(format!("line {number}: {why}"))));
    }
}

impl Columns {
    /// Appends a row, or returns why the line is not one.
    fn push(&mut self, line: &str, options: &FollowOptions, rows: &mut Rows) -> Result<(), String> {
        let whole_bytes = rows.elements.len();
        let place = self.layout.read(line, (options.dtype, options.nan), &mut rows.elements);
        let place = place.map_err(|error| error.to_string())?;
        if rows.elements.len() == whole_bytes {
            return Err("a value is missing".to_owned());
        }
        let time = place.time_ns.map(i64::try_from).transpose();
        let time = time.inspect_err(|_| rows.elements.truncate(whole_bytes));
        rows.times_ns.extend(time.map_err(|_| "its time lies outside the years 1677 to 2262".to_owned())?);
        rows.count += 1;
        Ok(())
    }
}

impl Rows {
    const fn new(channels: Arc<[Channel]>) -> Self {
        Self { channels, count: 0, elements: Vec::new(), times_ns: Vec::new() }
    }
}

/// Returns the lines at the beginning of a file that tell its layout, and whether they do.
pub(super) fn header_of(head: &[u8], options: &FollowOptions) -> Result<(Option<String>, bool), FollowError> {
    let whole_bytes = head.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut tail = Tail::new(options.clone());
    let mut news = Vec::new();
    tail.feed(&head[..whole_bytes], &mut news)?;
    Ok((tail.header(), tail.columns.is_some()))
}
