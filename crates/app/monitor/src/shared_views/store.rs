//! Files of shared views: one per document, written whole; one that cannot be read is kept aside.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use shared_view::{Document, MAX_DOCUMENT_BYTES, Unsaved, ViewName};
use sys::private_file::{self, Privacy};

/// End of the name of a document's file.
const SUFFIX: &str = ".json";
/// The largest file: a document, and the revisions of its fields.
const MAX_FILE_BYTES: usize = 4 * MAX_DOCUMENT_BYTES;

/// The folder of documents; none if they end with the monitor.
#[derive(Debug)]
pub(super) struct Store {
    folder: Option<PathBuf>,
    /// One writer at a time: an older content never replaces a newer one.
    writing: Mutex<()>,
    is_failing: AtomicBool,
    failed_writes: AtomicU64,
    left_out_files: u64,
}

impl Store {
    /// Opens the folder, which is made when something is written, and hands every document to `restore`, which returns whether there
    /// was room for it.
    pub(super) fn open(folder: Option<PathBuf>, mut restore: impl FnMut(Document) -> bool) -> Self {
        let mut left_out_files = 0;
        match folder.as_deref().map(|folder| (folder, files_of(folder))) {
            None => {}
            Some((folder, Err(error))) => {
                tracing::warn!(
                    "shared views in {} cannot be read: {error}\nset XDG_STATE_HOME to a folder that this user may write, and start again",
                    folder.display()
                );
            }
            Some((folder, Ok(files))) => {
                for name in files {
                    let path = path_of(folder, &name);
                    let restored = read(&path, name).and_then(|document| {
                        if restore(document) {
                            Ok(())
                        } else {
                            Err("there are too many shared views".to_owned())
                        }
                    });
                    if let Err(why) = restored {
                        left_out_files += 1;
                        keep_aside(&path, &why);
                    }
                }
            }
        }
        Self {
            folder,
            writing: Mutex::default(),
            is_failing: AtomicBool::new(false),
            failed_writes: AtomicU64::new(0),
            left_out_files,
        }
    }

    /// Writes what `take` returns; `take_back` is told what could not be written. Returns the first failure in words.
    pub(super) fn write(
        &self,
        take: impl FnOnce() -> Vec<Unsaved>,
        mut take_back: impl FnMut(ViewName),
    ) -> Result<(), String> {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let unsaved = take();
        let Some(folder) = &self.folder else { return Ok(()) };
        if unsaved.is_empty() {
            return Ok(());
        }
        // If it cannot be made, the files say why not.
        drop(DirBuilder::new().recursive(true).mode(0o700).create(folder));
        let mut first = Ok(());
        for Unsaved { name, content } in unsaved {
            if let Err(why) = write_one(&path_of(folder, &name), content.as_deref()) {
                // A count that nothing else is read by: no ordering is needed.
                self.failed_writes.fetch_add(1, Ordering::Relaxed);
                take_back(name);
                first = first.and(Err(why));
            }
        }
        match &first {
            Ok(()) => self.is_failing.store(false, Ordering::Relaxed),
            // Once until it works again.
            Err(why) if !self.is_failing.swap(true, Ordering::Relaxed) => tracing::warn!(
                "shared views cannot be written: {why}\nmake room on the disk: they are in memory, and written again every 5 s"
            ),
            Err(_) => {}
        }
        first
    }

    pub(super) const fn is_on_disk(&self) -> bool {
        self.folder.is_some()
    }

    pub(super) fn failed_writes(&self) -> u64 {
        self.failed_writes.load(Ordering::Relaxed)
    }

    pub(super) const fn left_out_files(&self) -> u64 {
        self.left_out_files
    }
}

fn path_of(folder: &Path, name: &ViewName) -> PathBuf {
    folder.join(format!("{name}{SUFFIX}"))
}

/// Returns the names of the documents in a folder; none if there is no folder.
fn files_of(folder: &Path) -> io::Result<Vec<ViewName>> {
    let mut names = Vec::new();
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
        entries => entries?,
    };
    for entry in entries {
        let file = entry?.file_name();
        let name = file.to_str().and_then(|file| file.strip_suffix(SUFFIX));
        // Others are not documents: files kept aside, and those that a crash left half written.
        names.extend(name.and_then(|name| name.parse().ok()));
    }
    names.sort();
    Ok(names)
}

/// Reads a document; returns in words why it cannot be used.
fn read(path: &Path, name: ViewName) -> Result<Document, String> {
    let text = private_file::read(path, Privacy::Secret, MAX_FILE_BYTES).map_err(|error| words(&error))?;
    let text = text.ok_or("it is gone")?;
    Document::from_json(name, text.as_bytes()).map_err(|error| words(&error))
}

/// Sets a file aside that cannot be used, so that no later document of its name replaces it.
fn keep_aside(path: &Path, why: &str) {
    match private_file::set_aside(path) {
        Ok(aside) => tracing::warn!(
            "the shared view {} is left out: {why}\nit is kept as {}; repair it there, and give it back its name",
            path.display(),
            aside.display()
        ),
        Err(error) => tracing::warn!(
            "the shared view {} is left out: {why}\nmove it away before a view of this name is saved: {}",
            path.display(),
            words(&error)
        ),
    }
}

fn write_one(path: &Path, content: Option<&str>) -> Result<(), String> {
    match content {
        Some(content) => private_file::replace(path, content).map_err(|error| words(&error)),
        None => match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("cannot remove {}: {error}", path.display()))
            }
            Ok(()) | Err(_) => Ok(()),
        },
    }
}

/// Returns an error and its cause as one line.
fn words(error: &dyn std::error::Error) -> String {
    let first = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let cause = error.source().map(|cause| format!(": {}", first(cause.to_string())));
    format!("{}{}", first(error.to_string()), cause.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use units::WallTime;

    use crate::shared_views::ViewBoard;
    use shared_view::{Condition, Edit};

    fn name(text: &str) -> ViewName {
        text.parse().unwrap()
    }

    fn put(board: &ViewBoard, text: &str) {
        let fields = serde_json::json!({"title": text}).as_object().unwrap().clone();
        board.put(&name(text), Edit::new(fields), Condition::Always, None).unwrap();
    }

    fn names(board: &ViewBoard) -> Vec<String> {
        board.views().list().into_iter().map(|it| it.name.to_string()).collect()
    }

    fn file_names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn documents_are_there_again_and_deleted_ones_are_not() {
        let files = tempfile::tempdir().unwrap();
        let folder = files.path().join("tallycast/views");
        let board = ViewBoard::open(Some(folder.clone()));
        ["rod", "heat"].iter().for_each(|name| put(&board, name));
        assert_eq!((board.save(), board.counts().unsaved), (Ok(()), 0));
        board.change(|views| views.delete(&name("heat"), Condition::Always)).unwrap();
        let before = board.views().document(&name("rod")).unwrap().to_json();
        board.save().unwrap();
        let board = ViewBoard::open(Some(folder.clone()));
        assert_eq!(board.views().document(&name("rod")).unwrap().to_json(), before);
        assert_eq!(
            (names(&board), file_names(&folder)),
            (vec!["rod".to_owned()], vec!["rod.json".to_owned()])
        );
    }

    #[test]
    fn a_damaged_file_is_kept_aside_under_a_name_of_its_own_every_time() {
        let files = tempfile::tempdir().unwrap();
        let folder = files.path().to_owned();
        for round in 1..=2 {
            private_file::replace(&folder.join("rod.json"), &format!("{{\"half\": {round}")).unwrap();
            let board = ViewBoard::open(Some(folder.clone()));
            assert_eq!((names(&board), board.counts().left_out_files), (Vec::new(), 1));
            put(&board, "rod");
            board.save().unwrap();
        }
        assert_eq!(file_names(&folder), ["rod.json", "rod.json.aside-1", "rod.json.aside-2"]);
        assert_eq!(fs::read_to_string(folder.join("rod.json.aside-1")).unwrap(), "{\"half\": 1");
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_written_later() {
        let files = tempfile::tempdir().unwrap();
        // A file where the folder is to be: no write can succeed, not even the superuser's.
        let folder = files.path().join("views");
        fs::write(&folder, "").unwrap();
        let board = ViewBoard::open(Some(folder.clone()));
        put(&board, "rod");
        let refused = board.save().unwrap_err();
        assert!(refused.starts_with("cannot write "), "{refused}");
        assert_eq!((board.counts().failed_writes, board.counts().unsaved), (1, 1));
        fs::remove_file(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        assert_eq!((board.save(), board.counts().unsaved), (Ok(()), 0));
        assert_eq!(names(&ViewBoard::open(Some(folder))), ["rod"]);
    }

    #[test]
    fn the_largest_document_fits_into_a_file() {
        let files = tempfile::tempdir().unwrap();
        let board = ViewBoard::open(Some(files.path().to_owned()));
        put(&board, "rod");
        // Small fields have the most revisions for their size.
        for first in (0..2_000).step_by(50) {
            let plots =
                (first..first + 50).map(|it| (format!("plot/{it:016}"), serde_json::json!({"panel": "x"})));
            let edit = Edit::new(plots.collect());
            let now = (WallTime::from_nanos(1), None);
            if board.change(|views| views.patch(&name("rod"), edit, Condition::Always, now)).is_err() {
                break;
            }
        }
        let before = board.views().document(&name("rod")).unwrap().to_json();
        assert!(before["fields"].to_string().len() > MAX_DOCUMENT_BYTES - 4_096);
        board.save().unwrap();
        let board = ViewBoard::open(Some(files.path().to_owned()));
        assert_eq!(board.views().document(&name("rod")).unwrap().to_json(), before);
    }
}
