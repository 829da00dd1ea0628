//! The log on disk: appended in groups, recovered at the start, locked by its one writer.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use std::sync::Arc;

use ::steer::{HEAD_SUBJECT, Head, Log, Record, Recovery};
use keyring::Keyring;
use sample::StreamName;
use units::WallTime;

use super::SteeringError;

/// The log of an app, open for appending.
pub(super) struct LogFile {
    file: File,
    head: Head,
    /// Size of the whole frames.
    bytes: u64,
    signed: Option<SignedHeads>,
}

/// The file beside the log with its signed head.
struct SignedHeads {
    keyring: Arc<Keyring>,
    path: PathBuf,
}

/// Returns the path of an app's log: `$XDG_STATE_HOME/tallycast/steer/APP.log`.
#[must_use]
pub fn default_log(app: &StreamName) -> PathBuf {
    let folder = sys::folders::state().unwrap_or_else(|| PathBuf::from("/var/lib"));
    folder.join("tallycast/steer").join(format!("{app}.log"))
}

impl LogFile {
    /// Opens the log, or creates it, and gathers what it says; a frame that was torn by a crash is cut off.
    pub(super) fn open(
        app: &StreamName,
        path: &Path,
        keyring: Option<Arc<Keyring>>,
    ) -> Result<(Self, Recovery), SteeringError> {
        let failed = |error| SteeringError::LogFile { path: path.to_owned(), error };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SteeringError::LogInUse { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let log = Log::recover(app, &bytes);
        let log = log.map_err(|error| SteeringError::Log { path: path.to_owned(), error })?;
        let mut recovery = Recovery::default();
        log.entries.iter().for_each(|entry| recovery.record(&entry.record));
        let whole = log.whole_bytes as u64;
        file.set_len(whole).and_then(|()| file.seek(SeekFrom::Start(whole))).map_err(failed)?;
        let signed = keyring.map(|keyring| SignedHeads { keyring, path: head_path(path) });
        Ok((Self { file, head: log.head, bytes: whole, signed }, recovery))
    }

    /// Appends records, and returns when they are on disk. On an error none of them is in the log.
    pub(super) fn append(&mut self, records: &[(WallTime, Record)]) -> io::Result<()> {
        let mut head = self.head;
        let frames: Vec<u8> = records.iter().flat_map(|(time, record)| head.append(*time, record)).collect();
        let written = self.file.write_all(&frames).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            self.file.set_len(self.bytes)?;
            self.file.seek(SeekFrom::Start(self.bytes))?;
            return Err(error);
        }
        (self.head, self.bytes) = (head, self.bytes + frames.len() as u64);
        if let Some(signed) = &self.signed
            && let Err(error) = signed.write(head)
        {
            tracing::warn!("the signed head of the log of commands cannot be written: {error}");
        }
        Ok(())
    }
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

    fn record(count: u64) -> (WallTime, Record) {
        (WallTime::from_nanos(7), Record::Omitted { refused: vec![(Rule::Full, count)] })
    }

    #[test]
    fn a_record_that_cannot_be_written_is_not_in_the_log_and_may_be_written_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.log");
        let app: StreamName = "sim/engine".parse().unwrap();
        let (mut log, _) = LogFile::open(&app, &path, None).unwrap();
        log.append(&[record(1)]).unwrap();
        let writable = std::mem::replace(&mut log.file, File::open(&path).unwrap());
        assert!(log.append(&[record(2)]).is_err(), "the file is open for reading alone");
        log.file = writable;
        log.append(&[record(2)]).unwrap();
        let log = Log::verify(&app, &std::fs::read(&path).unwrap(), None, |_, _| true).unwrap();
        assert_eq!(log.entries.len(), 2);
    }

    #[test]
    fn a_log_is_continued_behind_its_last_whole_frame_and_has_one_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sim/engine.log");
        let app: StreamName = "sim/engine".parse().unwrap();
        let (mut log, _) = LogFile::open(&app, &path, None).unwrap();
        log.append(&[record(1), record(2)]).unwrap();
        assert!(matches!(LogFile::open(&app, &path, None), Err(SteeringError::LogInUse { .. })));
        drop(log);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], &whole[..30]].concat()).unwrap();
        let (mut log, _) = LogFile::open(&app, &path, None).unwrap();
        log.append(&[record(3)]).unwrap();
        drop(log);
        let bytes = std::fs::read(&path).unwrap();
        let log = Log::verify(&app, &bytes, None, |_, _| true).unwrap();
        assert_eq!(log.entries.len(), 3);
        let mut changed = bytes;
        changed[25] ^= 1;
        std::fs::write(&path, changed).unwrap();
        assert!(matches!(LogFile::open(&app, &path, None), Err(SteeringError::Log { .. })));
    }
}
