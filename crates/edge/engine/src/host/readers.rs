//! Readers of this host as its publishers see them: which streams they wait for, and which rings
//! they read.
//!
//! Each reader shows its *presence*: a ring without records whose ledger page lists the patterns it
//! waits for and the rings it reads. This costs a publisher nothing while it publishes. A publisher
//! reads these rings when it is asked for the number of readers, and once more when it ends: for a
//! reader that waited and has not found the ring yet, the ring is *left* under a name of that
//! reader, which reads it and removes the name. When too many rings wait already, a ring without
//! samples is left instead, which reports how many samples there were.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ring::Writer;
use ring::shared::{self, CreateError, OpenError, Trusted};
use sample::StreamPattern;
use units::StreamId;
use wire::Description;

use super::{HostRing, HostRingError, HostRings, HostStream, PREFIX, RingName, RingWriter};
use crate::bytes::{Cursor, Put};

/// Size of a presence page: some thousand rings. A reader may read more; those are not shown.
const PAGE_BYTES: usize = 1 << 16;
/// Part of the file names that marks readers' presence.
const PRESENCE: &str = "reader";
/// Extension of the names under which rings are left.
const LEFT_EXTENSION: &str = "left";
/// Maximum number of rings with samples that wait for one reader, so that a stopped reader does not
/// fill the memory.
const MAX_LEFT: usize = 64;
/// Maximum memory that these rings hold; one ring is left in any case.
const MAX_LEFT_BYTES: u64 = 1 << 28;
/// Maximum number of rings that wait for one reader, with or without samples.
const MAX_TOLD: usize = 1_024;
/// In place of a file's number: the deadline of the ring before. No file has this number, and readers of before such
/// deadlines take the entry for another ring.
const STATED: u64 = u64::MAX;
/// Part of the name of a ring without samples until it is left.
const NOTE: &str = "note";
/// Size of a ring without samples: beginning, gap and end of an account.
const NOTE_BYTES: usize = 4_096;

/// The presence of one reader; dropping it removes it, and the rings that were left for it.
pub struct ReaderPresence {
    writer: Writer,
    rings: HostRings,
    number: u64,
    shown: Vec<u8>,
}

/// A reader's presence as read by a publisher, and its owner.
struct HostReader {
    number: u64,
    ownership: (u32, u32),
    waits_for: Vec<StreamPattern>,
    reads: Vec<RingRead>,
    name: String,
}

/// A ring that a reader reads, and the age up to which its samples are of use to the reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingRead {
    /// The stream.
    pub stream: StreamId,
    /// Number of the ring's file.
    pub file_number: u64,
    /// The age, if the reader states one.
    pub deadline: Option<Duration>,
}

/// A reader of a ring, and the age up to which samples are of use to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingReader {
    /// Its own number.
    pub number: u64,
    /// Its name.
    pub name: String,
    /// The age, if it states one.
    pub deadline: Option<Duration>,
}

/// Ring of a publisher that has ended, as it was left for a reader; a later one has a later name.
pub struct LeftRing {
    path: PathBuf,
    /// Number that distinguishes its file from others.
    pub file_number: u64,
    trusted: Trusted,
}

/// Outcome for the readers that had not found a ring yet when its publisher ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waiting {
    /// Number of readers that were left the ring.
    pub left: usize,
    /// Number of readers with too many rings waiting, which were left a ring without samples.
    pub told: usize,
    /// Number of readers for which not even that was possible.
    pub missed: usize,
}

impl ReaderPresence {
    /// Shows the patterns the reader waits for, the rings it reads, and the age up to which samples
    /// of most of them are of use to it; false if not all of it fits on the page.
    pub fn show(
        &mut self,
        waits_for: &[StreamPattern],
        reads: &[RingRead],
        deadline: Option<Duration>,
    ) -> bool {
        let mut page = Vec::new();
        let fits = waits_for.iter().filter(|pattern| pattern.as_str().len() <= usize::from(u8::MAX));
        page.u64(fits.clone().count() as u64);
        fits.clone().for_each(|pattern| page.text(pattern.as_str()));
        let mut room = self.writer.page_bytes().saturating_sub(page.len() + 8) / 16;
        let mut shown = 0;
        for read in reads {
            let own = read.deadline.filter(|_| read.deadline != deadline);
            let Some(left) = room.checked_sub(1 + usize::from(own.is_some())) else { break };
            (room, shown) = (left, shown + 1);
            page.u64(read.stream.0);
            page.u64(read.file_number);
            if let Some(own) = own {
                page.u64(nanos(own));
                page.u64(STATED);
            }
        }
        // Half of a ring's entry: readers of before deadlines leave it unread.
        if let Some(deadline) = deadline {
            page.u64(nanos(deadline));
        }
        let is_shown = page == self.shown || self.writer.set_page(&page).is_ok();
        if is_shown {
            self.shown = page;
        }
        is_shown && fits.count() == waits_for.len() && shown == reads.len()
    }

    /// Returns the rings that were left for this reader, the oldest first.
    #[must_use]
    pub fn left(&self) -> Vec<LeftRing> {
        let ring = |path: PathBuf| {
            let file_number = fs::symlink_metadata(&path).ok()?.ino();
            Some(LeftRing { path, file_number, trusted: self.rings.trusted })
        };
        self.rings.left_for(self.number).into_iter().filter_map(ring).collect()
    }
}

impl Drop for ReaderPresence {
    fn drop(&mut self) {
        // Rings that this user may not remove are swept later.
        for left in self.left() {
            left.take_away();
        }
    }
}

impl LeftRing {
    /// Inspects the ring; its publisher may have ended.
    ///
    /// # Errors
    /// [`HostRingError`] if this process cannot read it.
    pub fn look(&self) -> Result<HostRing, HostRingError> {
        HostRing::of(shared::look(&self.path)?, RingWriter::Publisher, self.trusted, &self.path)
    }

    /// Removes its name: it was read, or is not needed. False if this user may not: then the next
    /// publisher of the ring's own user does, if the reader [shows](ReaderPresence::show) it as
    /// read.
    pub fn take_away(&self) -> bool {
        fs::remove_file(&self.path).map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |()| true)
    }
}

impl HostStream {
    /// Returns the number that distinguishes the ring's file from others, also of the same name.
    #[must_use]
    pub fn file_number(&self) -> Option<u64> {
        self.liveness.file_number().ok()
    }
}

impl HostRings {
    /// Shows publishers of this host that there is a reader; `number` is the reader's own.
    ///
    /// # Errors
    /// [`CreateError`] if its presence cannot be created.
    pub fn show_reader(&self, number: u64, name: &str) -> Result<ReaderPresence, CreateError> {
        let mut options = self.options(0, PAGE_BYTES);
        options.label = name.as_bytes().to_vec();
        let writer = shared::create(&self.presence_path(number), &options)?;
        Ok(ReaderPresence { writer, rings: self.clone(), number, shown: Vec::new() })
    }

    /// Returns how many readers of this host read a ring.
    ///
    /// Cost: a few system calls for every reader of this host.
    #[must_use]
    pub fn readers_of(&self, name: &RingName) -> usize {
        self.ring_readers(name).len()
    }

    /// Returns the readers of this host that read a ring.
    ///
    /// Cost: a few system calls for every reader of this host.
    #[must_use]
    pub fn ring_readers(&self, name: &RingName) -> Vec<RingReader> {
        let Some(file_number) = self.file_number(name) else { return Vec::new() };
        let of_ring = |reader: HostReader| {
            let deadline = reader.read(name.stream, file_number)?.deadline;
            Some(RingReader { number: reader.number, name: reader.name, deadline })
        };
        let mut readers: Vec<_> = self.readers().into_iter().filter_map(of_ring).collect();
        // Files come in any order.
        readers.sort_by_key(|reader| reader.number);
        readers
    }

    /// Leaves a ring, which is about to lose its name, for the readers that wait for the stream and
    /// have not found it; where too many wait already, leaves one into which `tell` writes the end
    /// of the account.
    pub fn leave_for_waiting(
        &self,
        name: &RingName,
        description: &Description,
        tell: impl FnOnce(&mut Writer),
    ) -> Waiting {
        let mut waiting = Waiting::default();
        let path = self.path(name);
        let Some(file_number) = self.file_number(name) else { return waiting };
        let mut untold = Vec::new();
        for reader in self.readers() {
            let waits = reader.waits_for.iter().any(|pattern| pattern.matches(&description.name));
            if !waits || !self.is_trusted_by(&reader) || reader.read(name.stream, file_number).is_some() {
                continue;
            }
            self.take_away_read(&reader);
            if self.has_room(&path, reader.number) && self.leave(&path, reader.number) {
                waiting.left += 1;
            } else {
                untold.push(reader.number);
            }
        }
        if !untold.is_empty() {
            waiting.told = self.leave_note(&untold, name, description, tell);
            waiting.missed = untold.len() - waiting.told;
        }
        waiting
    }

    /// Returns whether a reader trusts rings of this user, as far as its presence shows: a reader
    /// of another user must be in the bus's group.
    fn is_trusted_by(&self, reader: &HostReader) -> bool {
        let user = sys::process::user();
        let (owner, group) = reader.ownership;
        [0, owner].contains(&user) || self.trusted.group == Some(group)
    }

    /// Removes the names of rings that a reader has read and may not remove, as in a directory like
    /// `/tmp`.
    fn take_away_read(&self, reader: &HostReader) {
        for path in self.left_for(reader.number) {
            let file_number = fs::symlink_metadata(&path).map(|metadata| metadata.ino());
            if file_number.is_ok_and(|it| reader.reads.iter().any(|read| read.file_number == it)) {
                let _ = fs::remove_file(&path);
            }
        }
    }

    /// Returns whether a ring with samples may be left for a reader.
    fn has_room(&self, ring: &Path, reader: u64) -> bool {
        let there = self.left_for(reader);
        let size_bytes = |path: &Path| fs::symlink_metadata(path).map_or(0, |it| it.len());
        let held: u64 = there.iter().map(|path| size_bytes(path)).sum();
        there.is_empty() || there.len() < MAX_LEFT && held + size_bytes(ring) <= MAX_LEFT_BYTES
    }

    /// Leaves a ring without samples for these readers; returns how many of them have it.
    fn leave_note(
        &self,
        readers: &[u64],
        name: &RingName,
        description: &Description,
        tell: impl FnOnce(&mut Writer),
    ) -> usize {
        let mut options = self.options(NOTE_BYTES, 0);
        options.label = description.encode().unwrap_or_default();
        let file = format!("{}{:016x}.{NOTE}-{}", self.prefix(), name.stream.0, std::process::id());
        let path = self.directory.join(format!("{file}.{}", shared::RING_EXTENSION));
        let mut note = match shared::create(&path, &options) {
            Ok(note) => note,
            Err(error) => {
                tracing::debug!("readers of this host are not told of a stream that has ended: {error}");
                return 0;
            }
        };
        tell(&mut note);
        readers.iter().filter(|reader| self.leave(&path, **reader)).count()
    }

    /// Links a ring under another name, which the reader removes; returns whether that succeeded.
    fn leave(&self, ring: &Path, reader: u64) -> bool {
        let there = self.left_for(reader);
        if there.len() >= MAX_TOLD {
            return false;
        }
        let last = there.last().and_then(|path| path.file_stem()?.to_str()?.rsplit('.').next()?.parse().ok());
        let first = last.map_or(0, |last: u64| last + 1);
        // Other publishers may leave theirs at the same time.
        (first..first + MAX_TOLD as u64)
            .map(|count| fs::hard_link(ring, self.left_path(reader, count)))
            .find(|left| !matches!(left, Err(error) if error.kind() == io::ErrorKind::AlreadyExists))
            .is_some_and(|left| left.is_ok())
    }

    /// Returns the names under which rings were left for a reader, the oldest first.
    fn left_for(&self, reader: u64) -> Vec<PathBuf> {
        let prefix = format!("{}{reader:016x}.", self.prefix());
        let is_left = |file: &str| file.starts_with(&prefix) && file.ends_with(&format!(".{LEFT_EXTENSION}"));
        let mut files: Vec<String> = self.files().into_iter().filter(|file| is_left(file)).collect();
        files.sort();
        files.into_iter().map(|file| self.directory.join(file)).collect()
    }

    /// Returns the readers of this host whose presence this user may read.
    fn readers(&self) -> Vec<HostReader> {
        let prefix = self.prefix();
        let number = |file: &str| {
            let rest = file.strip_prefix(&prefix)?.strip_suffix(shared::RING_EXTENSION)?.strip_suffix('.')?;
            let number = rest.strip_suffix(PRESENCE)?.strip_suffix('.')?;
            (number.len() == 16).then(|| u64::from_str_radix(number, 16).ok())?
        };
        let numbers = self.files().into_iter().filter_map(|file| number(&file));
        numbers.filter_map(|number| self.reader(number)).collect()
    }

    fn reader(&self, number: u64) -> Option<HostReader> {
        let found = shared::look(&self.presence_path(number)).ok()?;
        if !found.liveness().writer_is_alive() {
            return None;
        }
        let ownership = (found.owner(), found.group());
        let name = String::from_utf8_lossy(found.label()).into_owned();
        let mut page = Vec::new();
        if !found.open().ok()?.ring().page(&mut page) {
            return None;
        }
        let mut cursor = Cursor::new(&page);
        let mut waits_for = Vec::new();
        for _ in 0..cursor.u64().unwrap_or(0) {
            waits_for.extend(cursor.text()?.parse::<StreamPattern>());
        }
        let (mut reads, mut deadline) = (Vec::<RingRead>::new(), None);
        while let Some(first) = cursor.u64() {
            let stated = Some(Duration::from_nanos(first)).filter(|deadline| !deadline.is_zero());
            match cursor.u64() {
                Some(STATED) => reads.iter_mut().last().into_iter().for_each(|read| read.deadline = stated),
                Some(file_number) => {
                    reads.push(RingRead { stream: StreamId(first), file_number, deadline: None });
                }
                None => deadline = stated,
            }
        }
        reads.iter_mut().for_each(|read| read.deadline = read.deadline.or(deadline));
        Some(HostReader { number, ownership, waits_for, reads, name })
    }

    /// Removes the rings left for readers that have ended.
    pub(super) fn sweep_left(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let Some(presence) = presence_of_left(&path) else { continue };
            let is_gone = match shared::look(&presence) {
                Ok(found) => !found.liveness().writer_is_alive(),
                Err(error) => matches!(error, OpenError::Missing(_)),
            };
            if is_gone {
                let _ = fs::remove_file(&path);
            }
        }
    }

    fn presence_path(&self, number: u64) -> PathBuf {
        self.directory.join(format!("{}{number:016x}.{PRESENCE}.{}", self.prefix(), shared::RING_EXTENSION))
    }

    fn left_path(&self, number: u64, count: u64) -> PathBuf {
        // Fixed number of digits, so that names sort like counts.
        self.directory.join(format!("{}{number:016x}.{count:020}.{LEFT_EXTENSION}", self.prefix()))
    }
}

impl HostReader {
    fn read(&self, stream: StreamId, file_number: u64) -> Option<&RingRead> {
        self.reads.iter().find(|read| (read.stream, read.file_number) == (stream, file_number))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the presence file of the reader for which a ring was left, on any bus; `None` for any other file.
fn presence_of_left(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?.strip_suffix(LEFT_EXTENSION)?.strip_suffix('.')?;
    let (before, _count) = name.rsplit_once('.')?;
    before
        .starts_with(PREFIX)
        .then(|| path.with_file_name(format!("{before}.{PRESENCE}.{}", shared::RING_EXTENSION)))
}

#[cfg(test)]
mod tests {
    use ring::Read;

    use super::super::tests::{description, rings};
    use super::*;

    fn pattern(text: &str) -> StreamPattern {
        text.parse().unwrap()
    }

    const fn read(stream: StreamId, file_number: u64) -> RingRead {
        RingRead { stream, file_number, deadline: None }
    }

    /// Lists the files in a directory by the last parts of their names.
    fn files(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut words: Vec<String> = entries
            .map(name)
            .map(|name| name.rsplitn(3, '.').take(2).collect::<Vec<_>>().join("."))
            .collect();
        words.sort();
        words
    }

    #[test]
    fn readers_of_a_ring_state_their_deadlines_and_those_without_have_none() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (rings, (stream, description)) = (rings(directory.path()), description());
        let name = RingName { stream, writer: RingWriter::Publisher };
        let _ring = rings.create(stream, RingWriter::Publisher, &description, 4096).unwrap();
        let file = rings.open(&name).unwrap().file_number().unwrap();
        let [mut first, mut second] = [1, 2].map(|number| rings.show_reader(number, "desk").unwrap());
        let deadline = Some(Duration::from_millis(300));
        assert!(
            first.show(&[], &[read(stream, file)], deadline) && second.show(&[], &[read(stream, file)], None)
        );
        let reader = |number, deadline| RingReader { number, name: "desk".to_owned(), deadline };
        assert_eq!(rings.ring_readers(&name), [reader(1, deadline), reader(2, None)]);
        let longer = Some(Duration::from_secs(3));
        let reads = [read(StreamId(7), 1), RingRead { deadline: longer, ..read(stream, file) }];
        assert!(second.show(&[], &reads, None) && first.show(&[], &reads, deadline));
        assert_eq!(rings.ring_readers(&name), [reader(1, longer), reader(2, longer)]);
        let others = [RingRead { deadline: longer, ..read(StreamId(7), 1) }, read(stream, file)];
        assert!(second.show(&[], &others, None) && first.show(&[], &others, deadline));
        assert_eq!(rings.ring_readers(&name), [reader(1, deadline), reader(2, None)], "of another ring");
        drop(first);
        assert_eq!(rings.ring_readers(&name), [reader(2, None)]);
    }

    #[test]
    fn readers_are_counted_by_the_ring_that_they_read() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (rings, (stream, description)) = (rings(directory.path()), description());
        let name = RingName { stream, writer: RingWriter::Publisher };
        let ring = rings.create(stream, RingWriter::Publisher, &description, 4096).unwrap();
        let file = rings.open(&name).unwrap().file_number().unwrap();
        let [mut first, mut second] = [1, 2].map(|number| rings.show_reader(number, "desk").unwrap());
        assert_eq!(rings.readers_of(&name), 0, "they are there, and read nothing yet");
        assert!(
            first.show(&[], &[read(stream, file)], None) && second.show(&[], &[read(stream, file + 1)], None)
        );
        assert_eq!(rings.readers_of(&name), 1, "another ring of that name is another ring");
        assert!(second.show(&[], &[read(StreamId(7), 1), read(stream, file)], None));
        assert_eq!(rings.readers_of(&name), 2);
        drop(first);
        assert_eq!(rings.readers_of(&name), 1);
        drop((second, ring));
        assert!(files(directory.path()).is_empty());
    }

    #[test]
    fn a_ring_is_left_for_those_who_wait_for_its_stream_and_have_not_found_it() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (rings, (stream, description)) = (rings(directory.path()), description());
        let name = RingName { stream, writer: RingWriter::Publisher };
        let [mut waits, mut reads, mut other, mut from_now] =
            [1, 2, 3, 4].map(|number| rings.show_reader(number, "desk").unwrap());
        let mut made = Vec::new();
        for round in 1..=2 {
            let ring = rings.create(stream, RingWriter::Publisher, &description, 4096).unwrap();
            let file = rings.open(&name).unwrap().file_number().unwrap();
            waits.show(&[pattern("x/*"), pattern("lab/*")], &[], None);
            reads.show(&[pattern("lab/*")], &[read(stream, file)], None);
            other.show(&[pattern("x/*")], &[], None);
            from_now.show(&[], &[], None);
            let left = rings.leave_for_waiting(&name, &description, |_| unreachable!("there is room"));
            assert_eq!(left, Waiting { left: 1, ..Waiting::default() });
            drop(ring);
            made.push(file);
            assert_eq!(waits.left().len(), round);
        }
        assert!(reads.left().is_empty() && other.left().is_empty() && from_now.left().is_empty());
        assert!(rings.names().is_empty(), "they are no stream's rings any more");
        let left = waits.left();
        assert_eq!(left.iter().map(|ring| ring.file_number).collect::<Vec<_>>(), made, "the oldest first");
        let found = left[0].look().unwrap().open().unwrap();
        assert_eq!((found.subscription.stream, found.file_number()), (stream, Some(made[0])));
        assert!(found.subscription.ring.is_closed());
        assert!(left[0].take_away());
        assert_eq!(waits.left().len(), 1);
        drop((waits, reads, other, from_now));
        assert!(files(directory.path()).is_empty(), "what was left goes with its reader");
    }

    #[test]
    fn a_reader_that_never_takes_anything_is_left_only_so_much() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (rings, (stream, description)) = (rings(directory.path()), description());
        let name = RingName { stream, writer: RingWriter::Publisher };
        let mut reader = rings.show_reader(1, "desk").unwrap();
        reader.show(&[pattern("**")], &[], None);
        let leave = || {
            let _ring = rings.create(stream, RingWriter::Publisher, &description, 4096).unwrap();
            rings.leave_for_waiting(&name, &description, |note| {
                note.write(7, [8, 9], &[]).map(drop).unwrap();
            })
        };
        assert!((0..MAX_LEFT).all(|_| leave() == Waiting { left: 1, ..Waiting::default() }));
        assert!((MAX_LEFT..MAX_TOLD).all(|_| leave() == Waiting { told: 1, ..Waiting::default() }));
        assert_eq!(leave(), Waiting { missed: 1, ..Waiting::default() });
        let left = reader.left();
        let note = left[MAX_LEFT].look().unwrap().open().unwrap();
        assert_eq!(
            (note.subscription.stream, note.subscription.description.name.as_str()),
            (stream, "lab/probe")
        );
        let mut records = note.subscription.ring.reader_at_oldest();
        assert_eq!(records.read(&mut Vec::new()), Read::Record { kind: 7, totals: [8, 9] });
        assert!(note.subscription.ring.is_closed());
        // The reader has read it and may not remove it, so it is listed again.
        let read: Vec<_> = left[1..].iter().map(|left| read(stream, left.file_number)).collect();
        reader.show(&[pattern("**")], &read, None);
        assert_eq!(leave(), Waiting { left: 1, ..Waiting::default() });
        assert_eq!(reader.left().len(), 2);
    }

    #[test]
    fn what_was_left_for_a_killed_reader_is_swept_and_for_a_living_one_kept() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let (rings, (stream, description)) = (rings(directory.path()), description());
        let name = RingName { stream, writer: RingWriter::Publisher };
        let mut reader = rings.show_reader(1, "desk").unwrap();
        reader.show(&[pattern("**")], &[], None);
        let ring = rings.create(stream, RingWriter::Publisher, &description, 4096).unwrap();
        rings.leave_for_waiting(&name, &description, |_| ());
        // As after a kill: no reader has that number any more.
        fs::hard_link(&reader.left()[0].path, rings.left_path(9, 0)).unwrap();
        drop(ring);
        rings.sweep();
        assert_eq!(files(directory.path()), ["left.00000000000000000000", "ring.reader", "wait.reader"]);
        assert_eq!(reader.left().len(), 1);
    }

    #[test]
    fn more_rings_than_a_presence_page_holds_are_reported() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut reader = rings(directory.path()).show_reader(1, "desk").unwrap();
        // The page holds a count of patterns, and 16 bytes for each ring.
        let room = (PAGE_BYTES as u64 - 8) / 16;
        let mut reads: Vec<_> = (0..=room).map(|stream| read(StreamId(stream), stream)).collect();
        assert!(reader.show(&[], &reads[1..], None));
        assert!(!reader.show(&[], &reads, None));
        reads[2].deadline = Some(Duration::from_secs(3));
        assert!(reader.show(&[], &reads[2..], None), "a deadline takes the place of a ring");
        assert!(!reader.show(&[], &reads[1..], None));
    }
}
