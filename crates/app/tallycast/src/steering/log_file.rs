//! The log on disk: segments appended in groups, recovered at the start, locked by their one writer.
//!
//! The newest segment has the name of the log, closed ones that name and the number of their first record behind it. A
//! segment begins with a checkpoint, so a restart reads the last ones alone ([`LogFile::open`]); `verify.rs` reads all.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use std::sync::Arc;

use ::steer::{HEAD_SUBJECT, Head, Log, LogError, Mark, Record, Recovery};
use keyring::Keyring;
use sample::StreamName;
use units::WallTime;

use super::SteeringError;
use super::verify::signed_count;

/// Size from which on another segment begins: some 25,000 commands, which a restart reads in a tenth of a second.
/// Units: bytes.
const SEGMENT_BYTES: u64 = 8 << 20;

/// The log of an app, open for appending.
pub(super) struct LogFile {
    app: StreamName,
    path: PathBuf,
    file: File,
    head: Head,
    /// Number of the first record of the newest segment.
    first: u64,
    /// Size of the whole frames of the newest segment.
    bytes: u64,
    segment_bytes: u64,
    /// Size from which on another segment is begun; more than `segment_bytes` after that failed.
    closes_at: u64,
    /// What the log says so far: the checkpoint of another segment.
    logged: Recovery,
    signed: Option<SignedHeads>,
}

/// The file beside the log with its signed head.
struct SignedHeads {
    keyring: Arc<Keyring>,
    path: PathBuf,
}

/// A segment that is written and has not taken its place.
struct Fresh {
    file: File,
    head: Head,
    bytes: u64,
}

/// Returns the path of an app's log: `$XDG_STATE_HOME/tallycast/steer/APP.log`.
#[must_use]
pub fn default_log(app: &StreamName) -> PathBuf {
    let folder = sys::folders::state().unwrap_or_else(|| PathBuf::from("/var/lib"));
    folder.join("tallycast/steer").join(format!("{app}.log"))
}

/// Returns the files of a log in the order of their records, the newest segment last; that one may not exist.
///
/// # Errors
/// If its folder cannot be read.
pub(super) fn segments(log: &Path) -> io::Result<Vec<PathBuf>> {
    let name = log.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let mut closed = Vec::new();
    for entry in folder_of(log).read_dir()? {
        let path = entry?.path();
        let found = path.file_name().and_then(|it| it.to_str()).and_then(|it| it.strip_prefix(&name));
        let number = found.and_then(|rest| rest.strip_prefix('.')).filter(|it| it.len() == CLOSED_DIGITS);
        closed.extend(number.and_then(|it| it.parse::<u64>().ok()).map(|number| (number, path)));
    }
    closed.sort();
    let mut paths: Vec<PathBuf> = closed.into_iter().map(|(_, path)| path).collect();
    // A crash may leave the newest segment with both of its names.
    let newest = log.metadata().ok();
    paths.retain(|path| newest.as_ref().is_none_or(|newest| !is_same(path, newest)));
    paths.push(log.to_owned());
    Ok(paths)
}

/// Digits of the number in the name of a closed segment.
const CLOSED_DIGITS: usize = 20;
/// Last part of the name of a segment that has not taken its place.
const FRESH: &str = "new";

fn closed_path(log: &Path, first: u64) -> PathBuf {
    beside(log, &format!("{first:0CLOSED_DIGITS$}"))
}

/// Returns the path of another file of a log.
fn beside(log: &Path, suffix: &str) -> PathBuf {
    let mut name = log.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

fn folder_of(log: &Path) -> &Path {
    log.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn is_same(path: &Path, file: &Metadata) -> bool {
    path.metadata().is_ok_and(|it| (it.dev(), it.ino()) == (file.dev(), file.ino()))
}

impl LogFile {
    /// Opens the log, or creates it, and gathers what it says; a frame that was torn by a crash is cut off.
    ///
    /// It reads the newest segment, and of the closed ones as many as have the ids that an app remembers.
    pub(super) fn open(
        app: &StreamName,
        path: &Path,
        keyring: Option<Arc<Keyring>>,
    ) -> Result<(Self, Recovery), SteeringError> {
        let failed = |error| SteeringError::LogFile { path: path.to_owned(), error };
        DirBuilder::new().recursive(true).mode(0o700).create(folder_of(path)).map_err(failed)?;
        let mut file = open_to_write(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) if file.metadata().is_ok_and(|it| is_same(path, &it)) => {}
            // Or the other process has closed this segment meanwhile.
            Ok(()) | Err(TryLockError::WouldBlock) => {
                return Err(SteeringError::LogInUse { path: path.to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut newest = Vec::new();
        file.read_to_end(&mut newest).map_err(failed)?;
        let first = first_of(&newest);
        let mut closed = segments(path).map_err(failed)?;
        closed.pop();
        let mut read = vec![newest];
        let (log, recovery) = loop {
            let damaged = |error| SteeringError::Log { path: path.to_owned(), error };
            let log = Log::recover(app, &read).map_err(damaged)?;
            let mut recovery = Recovery::default();
            log.entries.iter().for_each(|entry| recovery.record(&entry.record));
            match closed.pop() {
                Some(before) if !recovery.knows_enough() => {
                    let bytes = std::fs::read(&before);
                    let bytes = bytes.map_err(|error| SteeringError::LogFile { path: before, error })?;
                    read.insert(0, bytes);
                }
                _ => break (log, recovery),
            }
        };
        if keyring.is_some()
            && let Some(signed) = signed_count(path).filter(|signed| *signed > log.head.count)
        {
            let error = LogError::CutOff { found: log.head.count, signed };
            return Err(SteeringError::Log { path: path.to_owned(), error });
        }
        // One that a crash left before it took its place; nothing in it is of the log.
        let _ = std::fs::remove_file(beside(path, FRESH));
        let whole = log.whole_bytes as u64;
        file.set_len(whole).and_then(|()| file.seek(SeekFrom::Start(whole))).map_err(failed)?;
        let log = Self {
            app: app.clone(),
            path: path.to_owned(),
            file,
            head: log.head,
            first: first.unwrap_or(log.head.count),
            bytes: whole,
            segment_bytes: SEGMENT_BYTES,
            closes_at: SEGMENT_BYTES,
            logged: recovery.clone(),
            signed: keyring.map(|keyring| SignedHeads { keyring, path: head_path(path) }),
        };
        Ok((log, recovery))
    }

    /// Returns the head of the log as its stream tells it.
    pub(super) fn head(&self) -> Mark {
        self.head.mark()
    }

    /// Appends records, and returns the log's marks behind each when they are on disk. On an error none of them is in the
    /// log.
    pub(super) fn append(&mut self, records: &[(WallTime, Record)]) -> io::Result<Vec<Mark>> {
        if self.bytes >= self.closes_at
            && let Err(error) = self.begin_segment()
        {
            tracing::warn!("the log of commands goes on in one file, which makes a restart slow: {error}");
            self.closes_at = self.bytes + self.segment_bytes;
        }
        let mut head = self.head;
        let (mut frames, mut marks) = (Vec::new(), Vec::with_capacity(records.len()));
        for (time, record) in records {
            frames.extend(head.append(*time, record));
            marks.push(head.mark());
        }
        let written = self.file.write_all(&frames).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            self.file.set_len(self.bytes)?;
            self.file.seek(SeekFrom::Start(self.bytes))?;
            return Err(error);
        }
        (self.head, self.bytes) = (head, self.bytes + frames.len() as u64);
        records.iter().for_each(|(_, record)| self.logged.record(record));
        if let Some(signed) = &self.signed
            && let Err(error) = signed.write(head)
        {
            tracing::warn!("the signed head of the log of commands cannot be written: {error}");
        }
        Ok(marks)
    }

    /// Closes the newest segment and begins another one. A crash between two of the steps leaves the log as it was before
    /// the first, or as it is behind the last one.
    fn begin_segment(&mut self) -> io::Result<()> {
        let fresh = self.write_segment()?;
        self.name_closed()?;
        self.replace(fresh)
    }

    /// Writes the checkpoint, which is on disk then, but not yet of the log.
    fn write_segment(&self) -> io::Result<Fresh> {
        let now = sys::clock::wall();
        let mut head = self.head;
        let checkpoint = self.logged.checkpoint(&self.app, head);
        let frames: Vec<u8> = checkpoint.iter().flat_map(|record| head.append(now, record)).collect();
        let path = beside(&self.path, FRESH);
        let mut file = open_to_write(&path)?;
        file.try_lock().map_err(io::Error::from)?;
        file.set_len(0)?;
        file.write_all(&frames)?;
        file.sync_all()?;
        Ok(Fresh { file, head, bytes: frames.len() as u64 })
    }

    /// Gives the segment that ends its second name.
    fn name_closed(&self) -> io::Result<()> {
        let closed = closed_path(&self.path, self.first);
        match std::fs::hard_link(&self.path, &closed) {
            // A crash left it with both names, and it was continued.
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists
                    && is_same(&closed, &self.file.metadata()?) =>
            {
                Ok(())
            }
            linked => linked,
        }
    }

    /// Lets the other segment take the place of the one that ends.
    fn replace(&mut self, fresh: Fresh) -> io::Result<()> {
        std::fs::rename(beside(&self.path, FRESH), &self.path)?;
        let Fresh { file, head, bytes } = fresh;
        self.first = self.head.count;
        (self.file, self.head, self.bytes) = (file, head, bytes);
        self.closes_at = bytes + self.segment_bytes;
        File::open(folder_of(&self.path))?.sync_all()
    }
}

fn open_to_write(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Returns the number of the first record of a segment; none if it has none.
fn first_of(segment: &[u8]) -> Option<u64> {
    segment.get(4..)?.first_chunk().map(|number| u64::from_le_bytes(*number))
}

impl SignedHeads {
    /// Replaces the signed head. A crash leaves an earlier one, which is a head of the log, too.
    fn write(&self, head: Head) -> io::Result<()> {
        let station = Arc::clone(&self.keyring.membership().station);
        let signature = station.sign(HEAD_SUBJECT, &head.signed_bytes());
        let certificate = station.certificate().to_bytes();
        let bytes = [&head.signed_bytes()[..], &signature.0, &certificate].concat();
        let fresh = self.path.with_extension("head.new");
        std::fs::write(&fresh, bytes)?;
        std::fs::rename(&fresh, &self.path)
    }
}

/// Returns the path of the signed head beside a log.
pub(super) fn head_path(log: &Path) -> PathBuf {
    log.with_extension("head")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::steer::Rule;

    fn app() -> StreamName {
        "sim/engine".parse().unwrap()
    }

    fn record(count: u64) -> (WallTime, Record) {
        (WallTime::from_nanos(7), Record::Omitted { refused: vec![(Rule::Full, count)] })
    }

    fn open(path: &Path) -> LogFile {
        LogFile::open(&app(), path, None).unwrap().0
    }

    /// Returns the records of all segments but those of checkpoints; every byte is verified.
    fn records(path: &Path) -> Vec<Record> {
        let segments: Vec<_> = segments(path).unwrap().iter().map(|it| std::fs::read(it).unwrap()).collect();
        let log = Log::verify(&app(), &segments, None, |_, _| true).unwrap();
        let is_of_app = |record: &Record| !matches!(record, Record::Checkpoint { .. });
        log.entries.into_iter().map(|entry| entry.record).filter(is_of_app).collect()
    }

    /// Returns a folder in memory, and the path of a log in it.
    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::Builder::new().prefix("tallycast-log-").tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("sim/engine.log");
        (folder, path)
    }

    #[test]
    fn a_record_that_cannot_be_written_is_not_in_the_log_and_may_be_written_later() {
        let (_folder, path) = folder();
        let mut log = open(&path);
        log.append(&[record(1)]).unwrap();
        let writable = std::mem::replace(&mut log.file, File::open(&path).unwrap());
        assert!(log.append(&[record(2)]).is_err(), "the file is open for reading alone");
        log.file = writable;
        log.append(&[record(2)]).unwrap();
        assert_eq!(records(&path), [record(1).1, record(2).1]);
    }

    #[test]
    fn a_log_is_continued_behind_its_last_whole_frame_and_has_one_writer() {
        let (_folder, path) = folder();
        let mut log = open(&path);
        log.append(&[record(1), record(2)]).unwrap();
        assert!(matches!(LogFile::open(&app(), &path, None), Err(SteeringError::LogInUse { .. })));
        drop(log);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], &whole[..30]].concat()).unwrap();
        open(&path).append(&[record(3)]).unwrap();
        assert_eq!(records(&path).len(), 3);
        let mut changed = std::fs::read(&path).unwrap();
        changed[25] ^= 1;
        std::fs::write(&path, changed).unwrap();
        assert!(matches!(LogFile::open(&app(), &path, None), Err(SteeringError::Log { .. })));
    }

    #[test]
    fn a_log_grows_by_segments_that_are_one_chain_and_totals_go_on_from_the_last_alone() {
        let (_folder, path) = folder();
        let mut log = open(&path);
        (log.segment_bytes, log.closes_at) = (200, 200);
        for count in 1..=20 {
            log.append(&[record(count)]).unwrap();
        }
        assert!(matches!(LogFile::open(&app(), &path, None), Err(SteeringError::LogInUse { .. })));
        drop(log);
        let paths = segments(&path).unwrap();
        assert!(paths.len() > 3, "{paths:?}");
        assert_eq!(records(&path), (1..=20).map(|count| record(count).1).collect::<Vec<_>>());
        // What a restart cannot use may be put elsewhere; the whole log then shows what is missing.
        for closed in &paths[..paths.len() - 1] {
            std::fs::remove_file(closed).unwrap();
        }
        let (mut log, recovery) = LogFile::open(&app(), &path, None).unwrap();
        let checkpoint = &recovery.checkpoint(&app(), log.head)[0];
        assert!(matches!(checkpoint, Record::Checkpoint { totals, .. } if totals.refused == 210));
        log.append(&[record(21)]).unwrap();
        let newest = [std::fs::read(&path).unwrap()];
        let verified = Log::verify(&app(), &newest, None, |_, _| true);
        assert!(matches!(verified, Err(LogError::Missing { expected: 0, .. })), "{verified:?}");
    }

    #[test]
    fn a_missing_segment_between_others_is_found_at_the_start() {
        let (_folder, path) = folder();
        let mut log = open(&path);
        (log.segment_bytes, log.closes_at) = (200, 200);
        (1..=20).for_each(|count| drop(log.append(&[record(count)]).unwrap()));
        drop(log);
        let paths = segments(&path).unwrap();
        std::fs::remove_file(&paths[paths.len() - 2]).unwrap();
        let opened = LogFile::open(&app(), &path, None).map(drop);
        assert!(
            matches!(opened, Err(SteeringError::Log { error: LogError::Missing { .. }, .. })),
            "{opened:?}"
        );
    }

    #[test]
    fn a_crash_at_each_step_of_another_segment_leaves_a_whole_log() {
        for steps in 0..=4 {
            let (_folder, path) = folder();
            let mut log = open(&path);
            (1..=3).for_each(|count| drop(log.append(&[record(count)]).unwrap()));
            // The process is killed after so many steps; in the middle of the first one, half of it is on disk.
            if steps == 0 {
                std::fs::write(beside(&path, FRESH), [7; 30]).unwrap();
            }
            if steps >= 1 {
                let fresh = log.write_segment().unwrap();
                if steps >= 2 {
                    log.name_closed().unwrap();
                }
                if steps >= 3 {
                    log.replace(fresh).unwrap();
                }
            }
            if steps == 4 {
                log.append(&[record(4)]).unwrap();
            }
            drop(log);
            let count = if steps == 4 { 4 } else { 3 };
            assert_eq!(records(&path).len(), count, "{steps} steps, before the restart");
            let mut log = open(&path);
            log.append(&[record(5)]).unwrap();
            // The next one finds no remains of this one.
            log.begin_segment().unwrap();
            log.append(&[record(6)]).unwrap();
            drop(log);
            assert_eq!(records(&path).len(), count + 2, "{steps} steps");
            let files = std::fs::read_dir(path.parent().unwrap()).unwrap().count();
            assert_eq!(files, segments(&path).unwrap().len(), "{steps} steps leave nothing else");
        }
    }
}
