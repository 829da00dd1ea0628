//! Names of folders and files in an archive: how to write, parse and list them.

use std::path::{Path, PathBuf};

use sample::StreamName;
use units::Epoch;

use crate::store::{Store, StoreError};

/// Maximum length of a folder name that we make, in bytes; file systems allow 255.
const MAX_FOLDER_BYTES: usize = 240;

/// Name of a run: one word of letters, digits, `_`, `-` and `.`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RunName(String);

/// Error: the text is not a valid run name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid run name `{0}`; write one word of letters, digits, `_`, `-` and `.`, 200 bytes at most")]
pub struct RunNameError(pub String);

impl RunName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl core::str::FromStr for RunName {
    type Err = RunNameError;

    fn from_str(text: &str) -> Result<Self, RunNameError> {
        // A run name is a stream name of one word: safe folder names are decided in one place.
        match text.parse::<StreamName>() {
            Ok(_) if !text.contains('/') => Ok(Self(text.to_owned())),
            _ => Err(RunNameError(text.to_owned())),
        }
    }
}

impl core::fmt::Display for RunName {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.pad(&self.0)
    }
}

/// Segment to which nothing will be added.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClosedSegment {
    /// Folder of its epoch, relative to the archive.
    pub folder: PathBuf,
    /// Number of the segment in its epoch.
    pub number: u32,
}

/// Files of a segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum SegmentFile {
    /// Arrow IPC stream.
    Arrow,
    /// Index of the Arrow stream.
    Index,
    /// Parquet file that replaces both.
    Parquet,
}

const SUFFIXES: [(SegmentFile, &str); 3] =
    [(SegmentFile::Arrow, "arrows"), (SegmentFile::Index, "index"), (SegmentFile::Parquet, "parquet")];

/// Returns the folder of a run.
pub(crate) fn run_folder(run: &RunName) -> PathBuf {
    PathBuf::from(format!("run={run}"))
}

/// Parses the name of a run's folder.
pub(crate) fn run_of(folder: &str) -> Option<RunName> {
    folder.strip_prefix("run=")?.parse().ok()
}

/// Returns the folder of a stream in a run.
///
/// The slashes of the name are percent-encoded, as DuckDB and Arrow read Hive partitions. A name that becomes too
/// long is cut and made unique by a checksum; `stream.json` always has the whole name.
#[must_use]
pub fn stream_folder(run: &RunName, stream: &StreamName) -> PathBuf {
    let mut escaped = stream.as_str().replace('/', "%2F");
    if escaped.len() > MAX_FOLDER_BYTES {
        let crc = crate::checksum::crc32c([stream.as_str().as_bytes()]);
        let keep = (0..=MAX_FOLDER_BYTES - 20).rev().find(|&at| escaped.is_char_boundary(at)).unwrap_or(0);
        escaped = format!("{}~{crc:08x}", &escaped[..keep]);
    }
    run_folder(run).join(format!("stream={escaped}"))
}

/// Returns the folder of one epoch of a stream in a run.
pub(crate) fn epoch_folder(run: &RunName, stream: &StreamName, epoch: Epoch) -> PathBuf {
    stream_folder(run, stream).join(format!("epoch={epoch}"))
}

/// Returns the path of a segment's file.
pub(crate) fn segment_path(folder: &Path, number: u32, file: SegmentFile) -> PathBuf {
    let suffix = SUFFIXES.iter().find(|(kind, _)| *kind == file).map_or("", |(_, suffix)| suffix);
    match number.checked_sub(REFILLS) {
        Some(number) => folder.join(format!("refill-{number:06}.{suffix}")),
        None => folder.join(format!("segment-{number:06}.{suffix}")),
    }
}

/// Number from which the segments of refills count: their batches are bound to it, so that a refill is not taken for
/// another segment under whatever name.
pub(crate) const REFILLS: u32 = 1 << 31;

/// Returns the file that makes a refill valid.
pub(crate) fn refill_note(number: u32) -> String {
    format!("refill-{:06}.json", number.saturating_sub(REFILLS))
}

/// Parses the name of a refill's file: `None` in place of the kind for its note.
pub(crate) fn refill_of(name: &str) -> Option<(u32, Option<SegmentFile>)> {
    let (number, suffix) = name.strip_prefix("refill-")?.split_once('.')?;
    let number = number.parse::<u32>().ok()?.checked_add(REFILLS)?;
    if suffix == "json" {
        return Some((number, None));
    }
    let file = SUFFIXES.iter().find(|(_, known)| *known == suffix)?.0;
    Some((number, Some(file)))
}

/// Returns the path of a segment's Arrow stream and index.
pub(crate) fn arrow_paths(folder: &Path, number: u32) -> [PathBuf; 2] {
    [SegmentFile::Arrow, SegmentFile::Index].map(|file| segment_path(folder, number, file))
}

/// Parses the name of a segment's file.
pub(crate) fn segment_of(name: &str) -> Option<(u32, SegmentFile)> {
    let (number, suffix) = name.strip_prefix("segment-")?.split_once('.')?;
    let file = SUFFIXES.iter().find(|(_, known)| *known == suffix)?.0;
    Some((number.parse().ok()?, file))
}

/// File with the schema, name and station of an epoch.
pub(crate) const DESCRIPTION: &str = "stream.json";
/// File of the gap map.
pub(crate) const GAPS: &str = "gaps.jsonl";
/// File of the signed statements.
pub(crate) const STATEMENTS: &str = "statements.jsonl";
/// File of the account.
pub(crate) const ACCOUNT: &str = "account.json";
/// Returns the file of a recorder's account after another recorder has continued the epoch.
pub(crate) fn earlier_account(session: u32) -> String {
    format!("account-{session:06}.json")
}

/// Parses the name of such a file.
pub(crate) fn earlier_account_of(name: &str) -> Option<u32> {
    name.strip_prefix("account-")?.strip_suffix(".json")?.parse().ok()
}

/// Lock file, in the root, held by the process that refills holes.
pub(crate) const REFILL_LOCK: &str = "refill.lock";
/// Lock file held by the run's recorder.
pub(crate) const LOCK: &str = "recorder.lock";

/// Path of something in the place of a folder, and why it cannot be read.
pub(crate) type Misplaced = (PathBuf, StoreError);

/// Returns the epoch folders of a run, and everything else found in their place.
pub(crate) fn epoch_folders(
    store: &dyn Store,
    run: &Path,
) -> Result<(Vec<PathBuf>, Vec<Misplaced>), StoreError> {
    let (mut folders, mut misplaced) = (Vec::new(), Vec::new());
    let mut list = |path: &Path, prefix: &str| -> Result<Vec<PathBuf>, StoreError> {
        match store.list(path) {
            Ok(names) => {
                let ours = names.into_iter().filter(|name| name.starts_with(prefix));
                Ok(ours.map(|name| path.join(name)).collect())
            }
            Err(error @ StoreError::Misplaced { .. }) => {
                misplaced.push((path.to_owned(), error));
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    };
    for stream in list(run, "stream=")? {
        folders.extend(list(&stream, "epoch=")?);
    }
    Ok((folders, misplaced))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_what_they_name() {
        let epoch = Epoch { start_ns: 12, incarnation: 0xab };
        let run: RunName = "shot-7".parse().unwrap();
        let folder = epoch_folder(&run, &"w7x/ecrh".parse().unwrap(), epoch);
        assert_eq!(folder, Path::new("run=shot-7/stream=w7x%2Fecrh/epoch=12-00000000000000ab"));
        assert_eq!(run_of("run=shot-7"), Some(run));
        assert_eq!("12-00000000000000ab".parse(), Ok(epoch));
        for (file, _) in SUFFIXES {
            let path = segment_path(Path::new("x"), 31, file);
            assert_eq!(segment_of(path.file_name().unwrap().to_str().unwrap()), Some((31, file)));
        }
        for (file, _) in SUFFIXES {
            let path = segment_path(Path::new("x"), REFILLS + 31, file);
            assert_eq!(path.extension(), segment_path(Path::new("x"), 31, file).extension());
            assert_eq!(
                refill_of(path.file_name().unwrap().to_str().unwrap()),
                Some((REFILLS + 31, Some(file)))
            );
        }
        assert_eq!(refill_of(&refill_note(REFILLS + 31)), Some((REFILLS + 31, None)));
        assert_eq!(refill_of("refill-4000000000.json"), None);
        assert_eq!(segment_of("segment-1.arrows.draft"), None);
        assert_eq!(earlier_account_of(&earlier_account(12)), Some(12));
        assert_eq!(earlier_account_of(ACCOUNT), None);
    }

    #[test]
    fn runs_are_single_words() {
        for name in ["", "a/b", "..", "a b"] {
            assert!(name.parse::<RunName>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn long_paths_stay_within_what_file_systems_take_and_stay_apart() {
        let run: RunName = "r".parse().unwrap();
        let epoch = Epoch { start_ns: 1, incarnation: 1 };
        let name = |last: &str| format!("{}{last}", "ä/".repeat(65)).parse::<StreamName>().unwrap();
        let [one, two] = [name("x"), name("y")].map(|name| epoch_folder(&run, &name, epoch));
        assert_ne!(one, two);
        assert!(one.iter().all(|part| part.len() <= 255));
    }
}
