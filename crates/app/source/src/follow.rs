//! CSV files that grow, are truncated, or are replaced by another of the same name.
//!
//! [`CsvFollower`] reads the bytes written so far and never waits: its user decides when to read again, and how a
//! possible loss appears in a stream. For files that are complete: [`CsvTable`](crate::CsvTable).

mod tail;

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sample::{Channel, Dtype};

use crate::csv::TextOptions;
use crate::{ColumnError, HeadError, NanPolicy, TimeColumn, TimeUnit};
use tail::Tail;

/// Maximum size of one read.
const PIECE_BYTES: usize = 1 << 20;
/// Number of bytes before the position that are compared, to verify that it is still the same file.
const TRACE_BYTES: usize = 256;

/// Options of a followed file.
#[derive(Clone, PartialEq, Debug)]
pub struct FollowOptions {
    /// Type of the elements.
    pub dtype: Dtype,
    /// Column of the time.
    pub time: TimeColumn,
    /// Unit of the time; by default as its heading, its name or its first cell says.
    pub time_unit: Option<TimeUnit>,
    /// Time zone of local times, by its name in the system's database; by default that of the host.
    pub time_zone: Option<String>,
    /// Number of lines at the beginning that are passed over.
    pub skip: u64,
    /// Columns of the channels; by default all except the time.
    pub columns: Vec<String>,
    /// Unit of channels without one.
    pub unit: String,
    /// Policy for values that are not finite numbers.
    pub nan: NanPolicy,
}

/// Place in a file at which reading begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Begin {
    /// The first line.
    Beginning,
    /// The last line that is complete.
    Now,
    /// The mark of an earlier follower, if it is still the same file.
    Mark(Mark),
}

/// Position in a file, to continue there later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Number of bytes in completed lines.
    pub position: u64,
    /// The bytes before it.
    pub trace: Vec<u8>,
    /// Lines that told the layout, up to the first row.
    pub header: Option<String>,
}

/// News of a followed file.
#[derive(Clone, PartialEq, Debug)]
pub enum Followed {
    /// How a table is laid out, as it was decided from its first lines.
    Decided(String),
    /// Rows that were completed.
    Rows(Rows),
    /// A line that is no row, and why.
    Refused(String),
    /// Rows may be missing before the next, and why.
    Away(String),
    /// No rows are missing since the file was away.
    Back,
}

/// Rows with the same columns.
#[derive(Clone, PartialEq, Debug)]
pub struct Rows {
    /// Channels, by name and unit.
    pub channels: Arc<[Channel]>,
    /// Number of rows.
    pub count: usize,
    /// Little-endian elements.
    ///
    /// Shape: `[count][channels]`.
    pub elements: Vec<u8>,
    /// Time of each row, as given in the table; empty without a time column.
    ///
    /// Units: nanoseconds.
    pub times_ns: Vec<i64>,
}

/// Error that ends following.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// The columns cannot be chosen as requested.
    #[error(transparent)]
    Columns(#[from] ColumnError),
    /// The first lines give no layout.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A line has no end.
    #[error("a line is longer than 1 MiB\ncheck that it is a text file")]
    LongLine,
    /// The file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl FollowOptions {
    fn text(&self) -> TextOptions {
        TextOptions {
            skip: self.skip,
            time: self.time.clone(),
            time_unit: self.time_unit,
            time_zone: self.time_zone.clone(),
            columns: self.columns.clone(),
            // Streams of bridges have been published under these names; those of `pub --file` are ch0, ch1, ….
            unnamed: "channel",
        }
    }
}

/// A CSV file by its name.
#[derive(Debug)]
pub struct CsvFollower {
    path: PathBuf,
    options: FollowOptions,
    /// Place at which the first file of this name begins.
    begin: Begin,
    open: Option<Open>,
    /// File of this name before the one that is open: a program may write to it until it opens the new one.
    former: Option<Former>,
    tail: Tail,
    is_absent: bool,
    rotations: u64,
    truncations: u64,
}

/// File that was read to its end.
#[derive(Debug)]
struct Former {
    open: Open,
    size_bytes: u64,
}

/// File that is open.
#[derive(Debug)]
struct Open {
    file: File,
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    /// Number of bytes read, including an incomplete last line.
    position: u64,
    /// The bytes before it.
    trace: Vec<u8>,
}

impl CsvFollower {
    /// Follows a file, which need not exist yet.
    #[must_use]
    pub fn new(path: &Path, options: FollowOptions, begin: Begin) -> Self {
        let tail = Tail::new(options.clone());
        let (open, former, is_absent, rotations, truncations) = (None, None, false, 0, 0);
        Self { path: path.to_owned(), options, begin, open, former, tail, is_absent, rotations, truncations }
    }

    /// Reads the next part of the file; appends the news, and returns whether there was something to read.
    ///
    /// # Errors
    /// [`FollowError`]: the table cannot be read at all.
    pub fn read(&mut self, out: &mut Vec<Followed>) -> Result<bool, FollowError> {
        if self.open.is_none() && !self.find(out)? {
            return Ok(false);
        }
        self.watch_former(out)?;
        Ok(self.read_on(out)? || self.follow_name(out)?)
    }

    /// Reads the next part of the file that is open, also if another has its name by now; appends the news, and returns
    /// whether there was something to read.
    ///
    /// # Errors
    /// [`FollowError`]: the table cannot be read at all.
    pub fn read_rest(&mut self, out: &mut Vec<Followed>) -> Result<bool, FollowError> {
        self.read_on(out)
    }

    /// Returns the position behind the last complete line; `None` without a file.
    ///
    /// # Errors
    /// [`FollowError::Io`]: the file cannot be read.
    pub fn mark(&self) -> Result<Option<Mark>, FollowError> {
        let Some(open) = &self.open else { return Ok(None) };
        let (position, header) = (self.tail.position(), self.tail.header());
        Ok(Some(Mark { position, trace: open.before(position)?, header }))
    }

    /// Returns the number of bytes in the completed lines of the current file.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.tail.position()
    }

    /// Returns the number of bytes of an incomplete last line.
    #[must_use]
    pub fn partial_bytes(&self) -> usize {
        self.tail.partial_bytes()
    }

    /// Returns how often another file took the name.
    #[must_use]
    pub const fn rotations(&self) -> u64 {
        self.rotations
    }

    /// Returns how often the file was truncated.
    #[must_use]
    pub const fn truncations(&self) -> u64 {
        self.truncations
    }

    /// Opens the file, if there is one.
    fn find(&mut self, out: &mut Vec<Followed>) -> Result<bool, FollowError> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) => {
                if !std::mem::replace(&mut self.is_absent, true) {
                    out.push(Followed::Away(format!("{}: {error}; waiting for it", self.path.display())));
                }
                return Ok(false);
            }
        };
        if std::mem::take(&mut self.is_absent) {
            // The previous file was read to its end: while there was no file, nothing was written.
            out.push(Followed::Back);
        }
        let open = Open::new(file, &self.path)?;
        let size_bytes = open.size_bytes()?;
        let from = match std::mem::replace(&mut self.begin, Begin::Beginning) {
            Begin::Beginning => None,
            Begin::Now => open.last_line(size_bytes, &self.options)?,
            Begin::Mark(mark) if open.has(&mark, size_bytes)? => Some((mark.position, mark.header)),
            Begin::Mark(_) => {
                let text = "the file is a different one: reading it from the beginning";
                out.push(Followed::Away(text.to_owned()));
                None
            }
        };
        self.begin_file(open, from)?;
        Ok(true)
    }

    fn begin_file(&mut self, mut open: Open, from: Option<(u64, Option<String>)>) -> Result<(), FollowError> {
        self.tail = Tail::new(self.options.clone());
        if let Some((position, header)) = from {
            self.tail.skip_to(position, header.as_deref())?;
            (open.position, open.trace) = (position, open.before(position)?);
        }
        self.open = Some(open);
        Ok(())
    }

    /// Reads the next part of the open file.
    fn read_on(&mut self, out: &mut Vec<Followed>) -> Result<bool, FollowError> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let size_bytes = open.size_bytes()?;
        if size_bytes < open.position || (size_bytes > open.position && !open.is_same()?) {
            self.begin_again(out);
            return Ok(true);
        }
        if size_bytes == open.position {
            return Ok(false);
        }
        let piece = open.read_next()?;
        self.tail.feed(&piece, out)?;
        Ok(true)
    }

    fn begin_again(&mut self, out: &mut Vec<Followed>) {
        self.truncations += 1;
        self.drop_partial(out);
        let path = self.path.display();
        out.push(Followed::Away(format!("{path} was truncated; the rows added before that are unknown")));
        self.tail = Tail::new(self.options.clone());
        if let Some(open) = &mut self.open {
            (open.position, open.trace) = (0, Vec::new());
        }
    }

    /// Opens another file if it has the name by now; the old one has been read to its end.
    fn follow_name(&mut self, out: &mut Vec<Followed>) -> Result<bool, FollowError> {
        // A file without a name may still grow, and one of this name may come.
        let Ok(about) = self.path.metadata() else { return Ok(false) };
        if self.open.as_ref().is_some_and(|open| open.identity == (about.dev(), about.ino())) {
            return Ok(false);
        }
        // Until the first row of the new file, the program may not have opened it yet. Then its last rows in the old one.
        if !self.has_next_begun()? {
            return Ok(false);
        }
        if self.read_on(out)? {
            return Ok(true);
        }
        self.rotations += 1;
        self.drop_partial(out);
        self.former = self.open.take().map(|open| Former { size_bytes: open.position, open });
        self.find(out)
    }

    /// Returns whether the file that has the name by now has a row, or first lines that give no layout: the error is told
    /// when it is read.
    fn has_next_begun(&self) -> Result<bool, FollowError> {
        let Ok(file) = File::open(&self.path) else { return Ok(false) };
        let head = Open::new(file, &self.path)?.read_at(0, PIECE_BYTES)?;
        Ok(tail::header_of(&head, &self.options).map_or(true, |(_, is_known)| is_known))
    }

    /// Tells if rows were written to the former file although another has its name: they are not read.
    fn watch_former(&mut self, out: &mut Vec<Followed>) -> Result<(), FollowError> {
        let Some(former) = &mut self.former else { return Ok(()) };
        let size_bytes = former.open.size_bytes()?;
        if size_bytes > former.size_bytes {
            former.size_bytes = size_bytes;
            let path = self.path.display();
            out.push(Followed::Away(format!(
                "rows were written to a former {path} after the first of the next"
            )));
        }
        Ok(())
    }

    fn drop_partial(&self, out: &mut Vec<Followed>) {
        if self.tail.partial_bytes() > 0 {
            out.push(Followed::Refused("the last line is incomplete at the end of the file".to_owned()));
        }
    }
}

impl Open {
    fn new(file: File, path: &Path) -> Result<Self, FollowError> {
        let mut open = Self { file, path: path.to_owned(), identity: (0, 0), position: 0, trace: Vec::new() };
        let about = open.file.metadata().map_err(|error| open.failed(error))?;
        open.identity = (about.dev(), about.ino());
        Ok(open)
    }

    fn failed(&self, source: io::Error) -> FollowError {
        FollowError::Io { path: self.path.clone(), source }
    }

    fn size_bytes(&self) -> Result<u64, FollowError> {
        let about = self.file.metadata().map_err(|error| self.failed(error))?;
        Ok(about.len())
    }

    /// Reads the next part.
    fn read_next(&mut self) -> Result<Vec<u8>, FollowError> {
        let piece = self.read_at(self.position, PIECE_BYTES)?;
        self.position += piece.len() as u64;
        self.trace.extend_from_slice(&piece);
        self.trace.drain(..self.trace.len().saturating_sub(TRACE_BYTES));
        Ok(piece)
    }

    /// Reads up to `most` bytes from a position.
    fn read_at(&self, position: u64, most: usize) -> Result<Vec<u8>, FollowError> {
        let mut bytes = vec![0; most];
        let count = self.file.read_at(&mut bytes, position).map_err(|error| self.failed(error))?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// Returns the bytes before a position that are compared later.
    fn before(&self, position: u64) -> Result<Vec<u8>, FollowError> {
        let count = TRACE_BYTES.min(usize::try_from(position).unwrap_or(usize::MAX));
        self.read_at(position - count as u64, count)
    }

    /// Returns whether the part that was read is still there: a truncated file may have grown again meanwhile.
    fn is_same(&self) -> Result<bool, FollowError> {
        let count = self.trace.len();
        Ok(self.read_at(self.position - count as u64, count)? == self.trace)
    }

    /// Returns whether the bytes before a mark are those of the file that it was made in.
    fn has(&self, mark: &Mark, size_bytes: u64) -> Result<bool, FollowError> {
        let count = mark.trace.len();
        let start = mark.position.checked_sub(count as u64).filter(|_| mark.position <= size_bytes);
        start.map_or(Ok(false), |start| Ok(self.read_at(start, count)? == mark.trace))
    }

    /// Returns the position of the last line that is complete, and the lines that tell the layout; `None` at the
    /// beginning.
    fn last_line(
        &self,
        size_bytes: u64,
        options: &FollowOptions,
    ) -> Result<Option<(u64, Option<String>)>, FollowError> {
        let last_at = size_bytes.saturating_sub(PIECE_BYTES as u64);
        let last = self.read_at(last_at, PIECE_BYTES)?;
        let newline = last.iter().rposition(|byte| *byte == b'\n');
        let (header, _) = tail::header_of(&self.read_at(0, PIECE_BYTES)?, options)?;
        Ok(newline.filter(|_| header.is_some()).map(|newline| (last_at + newline as u64 + 1, header)))
    }
}

#[cfg(test)]
mod tests;
