//! Journal of the doctor's changes: written before each change, so that it can always be undone.
//!
//! Its entries are executed by a process with privileges. So only a journal of its own is trusted (`sys::trust`), and
//! only entries that the doctor can make.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use diagnose::{Change, Subject};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sys::trust::{self, Purpose, TrustError};
use units::WallTime;

/// Journal: a file of JSON objects, one per line, that is only ever appended to.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    entries: Vec<Entry>,
}

/// Change and its state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Number of the entry in the journal, from 1.
    pub number: u64,
    /// Time of the entry.
    pub at: WallTime,
    /// Change that was made.
    pub change: Change,
    /// True if it has been undone, or was not made.
    pub is_over: bool,
}

/// Line of the journal.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Undone { undone: u64, utc_ns: WallTime },
    Begun { change: u64, utc_ns: WallTime, what: Change },
}

/// Reason why the journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be opened or written.
    #[error(
        "the journal {path} cannot be used, and without it nothing is changed; `--journal FILE` names another"
    )]
    File {
        /// Path of the journal.
        path: PathBuf,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
    /// Another user could have written it.
    #[error("the journal {path} is not trusted, and nothing is done: {error}")]
    Distrusted {
        /// Path of the journal.
        path: PathBuf,
        /// Reason, with its remedy.
        error: TrustError,
    },
    /// A line names a setting that the doctor never changes.
    #[error(
        "line {line} of the journal {path} names {name}, which the doctor never changes: nothing is done\nfind out who wrote it, and take the line out"
    )]
    NotOurs {
        /// Path of the journal.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Name of the setting.
        name: String,
    },
    /// A line is no valid entry.
    #[error("line {line} of the journal {path} is invalid; examine it before you change anything")]
    Line {
        /// Path of the journal.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
    },
}

impl Journal {
    /// Returns the path of this user's journal: `$XDG_STATE_HOME/tallycast/doctor.jsonl`.
    #[must_use]
    pub fn default_path() -> PathBuf {
        let folder = sys::folders::state().unwrap_or_else(|| PathBuf::from("/var/lib"));
        folder.join("tallycast/doctor.jsonl")
    }

    /// Opens the journal, or creates it; it must be this user's own, or root's, and not writable by others.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let failed = |error| JournalError::File { path: path.to_owned(), error };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        let mut file = trust::open_trusted(path, Purpose::Append).map_err(|error| match error {
            TrustError::System { source, .. } => failed(source),
            error => JournalError::Distrusted { path: path.to_owned(), error },
        })?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let mut entries = Vec::new();
        let (whole, cut) = text.rsplit_once('\n').unwrap_or(("", &text));
        for (index, line) in whole.lines().enumerate() {
            read_line(line, &mut entries)
                .ok_or(JournalError::Line { path: path.to_owned(), line: index + 1 })?;
            if let Some(Subject::Sysctl(name)) = not_ours(entries.last()) {
                return Err(JournalError::NotOurs { path: path.to_owned(), line: index + 1, name });
            }
        }
        // The last write was interrupted, so its change was not made.
        if !cut.is_empty() {
            file.set_len((text.len() - cut.len()) as u64).map_err(failed)?;
        }
        Ok(Self { file, path: path.to_owned(), entries })
    }

    /// Returns the changes that have been made and not undone, in the order in which they were made.
    pub fn open_entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter().filter(|entry| !entry.is_over)
    }

    /// Records that a change is about to be made; returns its number.
    ///
    /// # Errors
    /// If it cannot be written to the disk: then the change must not be made.
    pub fn begin(&mut self, at: WallTime, change: &Change) -> Result<u64, JournalError> {
        let number = self.entries.last().map_or(0, |entry| entry.number) + 1;
        self.append(&Line::Begun { change: number, utc_ns: at, what: change.clone() })?;
        self.entries.push(Entry { number, at, change: change.clone(), is_over: false });
        Ok(number)
    }

    /// Records that a change was undone, or not made.
    ///
    /// # Errors
    /// If it cannot be written to the disk.
    pub fn end(&mut self, at: WallTime, number: u64) -> Result<(), JournalError> {
        self.append(&Line::Undone { undone: number, utc_ns: at })?;
        for entry in self.entries.iter_mut().filter(|entry| entry.number == number) {
            entry.is_over = true;
        }
        Ok(())
    }

    fn append(&mut self, line: &Line) -> Result<(), JournalError> {
        let write = || {
            let mut file = &self.file;
            file.write_all(format!("{}\n", json!(line)).as_bytes())?;
            file.sync_data()
        };
        write().map_err(|error| JournalError::File { path: self.path.clone(), error })
    }
}

/// Returns the subject of an entry's change if the doctor never makes it.
fn not_ours(entry: Option<&Entry>) -> Option<Subject> {
    entry.filter(|entry| !entry.change.is_of_plans()).map(|entry| entry.change.subject())
}

fn read_line(line: &str, entries: &mut Vec<Entry>) -> Option<()> {
    match serde_json::from_str(line).ok()? {
        Line::Undone { undone, .. } => {
            entries.iter_mut().find(|entry| entry.number == undone)?.is_over = true;
        }
        Line::Begun { change, utc_ns, what } => {
            entries.push(Entry { number: change, at: utc_ns, change: what, is_over: false });
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use diagnose::ThreadNice;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn changes() -> [Change; 7] {
        let local = "[::1]:7400".parse().unwrap();
        [
            Change::Sysctl { name: "net.core.netdev_max_backlog".to_owned(), value: 2, before: Some(1) },
            Change::ReceiveBuffer { cookie: u64::MAX, local, pid: 7, asked_bytes: 9, before_bytes: 8 },
            Change::Priority { pid: 3 },
            Change::QueueLimit {
                device: "eth0".to_owned(),
                kind: "tbf".to_owned(),
                handle: 0x8001_0000,
                parent: u32::MAX,
                limit: 9,
                before: 8,
            },
            Change::TransmitQueue { device: "tun0".to_owned(), packets: 9, before: 8 },
            Change::Niceness {
                pid: 3,
                started: u64::MAX,
                nice: -10,
                before: vec![ThreadNice { tid: 3, nice: 0 }, ThreadNice { tid: 4, nice: -5 }],
            },
            Change::SysctlNumbers {
                name: "net.ipv4.udp_mem".to_owned(),
                values: vec![2, 4, 6],
                before: vec![1, 2, 3],
            },
        ]
    }

    #[test]
    fn what_was_written_down_is_read_again_and_what_was_taken_back_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/doctor.jsonl");
        let at = WallTime::from_nanos(5);
        let mut journal = Journal::open(&path).unwrap();
        let numbers: Vec<u64> = changes().iter().map(|change| journal.begin(at, change).unwrap()).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
        journal.end(at, 2).unwrap();
        let mut journal = Journal::open(&path).unwrap();
        let open: Vec<_> = journal.open_entries().map(|entry| entry.change.clone()).collect();
        assert_eq!(open, [&changes()[..1], &changes()[2..]].concat());
        assert_eq!(journal.begin(at, &changes()[1]).unwrap(), 8);
    }

    #[test]
    fn lines_are_written_byte_for_byte_as_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("doctor.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        for change in changes() {
            journal.begin(WallTime::from_nanos(5), &change).unwrap();
        }
        journal.end(WallTime::from_nanos(6), 2).unwrap();
        let expected = [
            r#"{"change":1,"utc_ns":5,"what":{"before":1,"kind":"sysctl","name":"net.core.netdev_max_backlog","value":2}}"#,
            r#"{"change":2,"utc_ns":5,"what":{"asked_bytes":9,"before_bytes":8,"cookie":18446744073709551615,"kind":"receive_buffer","local":"[::1]:7400","pid":7}}"#,
            r#"{"change":3,"utc_ns":5,"what":{"kind":"priority","pid":3}}"#,
            r#"{"change":4,"utc_ns":5,"what":{"before":8,"device":"eth0","discipline":"tbf","handle":2147549184,"kind":"queue_limit","limit":9,"parent":4294967295}}"#,
            r#"{"change":5,"utc_ns":5,"what":{"before":8,"device":"tun0","kind":"transmit_queue","packets":9}}"#,
            r#"{"change":6,"utc_ns":5,"what":{"before":[[3,0],[4,-5]],"kind":"niceness","nice":-10,"pid":3,"started":18446744073709551615}}"#,
            r#"{"change":7,"utc_ns":5,"what":{"before":[1,2,3],"kind":"sysctl_numbers","name":"net.ipv4.udp_mem","values":[2,4,6]}}"#,
            r#"{"undone":2,"utc_ns":6}"#,
        ];
        assert_eq!(fs::read_to_string(&path).unwrap(), expected.map(|line| format!("{line}\n")).concat());
    }

    #[test]
    fn a_journal_of_the_first_version_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("doctor.jsonl");
        let lines = [
            r#"{"change":1,"utc_ns":5,"what":{"before":1,"kind":"sysctl","name":"net.core.netdev_max_backlog","value":2}}"#,
            r#"{"change":2,"utc_ns":5,"what":{"asked_bytes":9,"before_bytes":8,"cookie":18446744073709551615,"kind":"receive_buffer","local":"[::1]:7400","pid":7}}"#,
            r#"{"change":3,"utc_ns":5,"what":{"kind":"priority","pid":3}}"#,
            r#"{"undone":1,"utc_ns":6}"#,
        ];
        fs::write(&path, lines.map(|line| format!("{line}\n")).concat()).unwrap();
        let journal = Journal::open(&path).unwrap();
        let open: Vec<_> = journal.open_entries().map(|entry| entry.change.clone()).collect();
        assert_eq!(open, changes()[1..3]);
    }

    #[test]
    fn a_line_that_was_cut_was_not_done_and_the_next_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("doctor.jsonl");
        fs::write(&path, "{\"change\":1,\"utc_ns\":0,\"what").unwrap();
        let at = WallTime::from_nanos(5);
        Journal::open(&path).unwrap().begin(at, &changes()[0]).unwrap();
        assert_eq!(Journal::open(&path).unwrap().open_entries().count(), 1);
    }

    #[test]
    fn a_journal_that_somebody_else_could_have_written_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("doctor.jsonl");
        Journal::open(&path).unwrap().begin(WallTime::from_nanos(5), &changes()[0]).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let error = Journal::open(&path).unwrap_err();
        assert!(matches!(error, JournalError::Distrusted { .. }), "{error}");
        assert!(error.to_string().ends_with(&format!("chmod go-w {}", path.display())), "{error}");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(Journal::open(&path).unwrap().open_entries().count(), 1);
        let (link, elsewhere) = (folder.path().join("link"), folder.path().join("elsewhere"));
        symlink(&elsewhere, &link).unwrap();
        assert!(matches!(Journal::open(&link), Err(JournalError::Distrusted { .. })));
        assert!(!elsewhere.exists(), "nothing is made through a link");
    }

    #[test]
    fn a_setting_that_the_doctor_never_changes_is_not_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("doctor.jsonl");
        for what in [
            r#"{"kind":"sysctl","name":"net.ipv4.ip_forward","value":0,"before":1}"#,
            r#"{"kind":"sysctl","name":"kernel/sysrq","value":0,"before":1}"#,
            r#"{"kind":"sysctl_numbers","name":"net.ipv4.tcp_mem","values":[1,2,3],"before":[4,5,6]}"#,
        ] {
            fs::write(&path, format!("{{\"change\":1,\"utc_ns\":0,\"what\":{what}}}\n")).unwrap();
            let error = Journal::open(&path).unwrap_err();
            assert!(matches!(error, JournalError::NotOurs { line: 1, .. }), "{what}: {error}");
        }
    }

    #[test]
    fn a_line_that_is_none_of_ours_stops_everything_until_somebody_looked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("doctor.jsonl");
        for text in ["nonsense\n", "{}\n", "{\"undone\":1,\"utc_ns\":0}\n"] {
            fs::write(&path, text).unwrap();
            let error = Journal::open(&path).unwrap_err();
            assert!(matches!(error, JournalError::Line { line: 1, .. }), "{text}: {error}");
        }
    }
}
