//! What the folders of an archive looked like when their holes were searched: only one that has changed is read again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Want;
use crate::catalogue::Attended;
use crate::folders::{ACCOUNT, GAPS};
use crate::stamped;
use crate::store::{Store, StoreError, read_whole};

/// What each epoch missed when it was read last.
#[derive(Default)]
pub(super) struct Looks {
    epochs: BTreeMap<PathBuf, (FolderLook, Want)>,
}

/// Look of an epoch's folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FolderLook {
    /// Its files: segments, refills and accounts of earlier recorders come and go under names of their own.
    names: Vec<String>,
    /// While a recorder is at work: the state in its account, and the size of its gap map. Nothing else adds to a file.
    attended: Option<(String, u64)>,
}

impl FolderLook {
    /// Looks at a folder.
    ///
    /// # Errors
    /// The error of the disk.
    pub(super) fn of(store: &dyn Store, folder: &Path, attended: Attended) -> Result<Self, StoreError> {
        let attended = match attended {
            Attended::No => None,
            Attended::Yes => {
                let account = match read_whole(store, &folder.join(ACCOUNT)) {
                    Ok(bytes) => {
                        stamped::read(&bytes).map_or(Value::Null, |account| account["state"].clone())
                    }
                    Err(StoreError::NotFound(_)) => Value::Null,
                    Err(error) => return Err(error),
                };
                let gaps = match store.open(&folder.join(GAPS)) {
                    Ok(gaps) => gaps.size_bytes()?,
                    Err(StoreError::NotFound(_)) => 0,
                    Err(error) => return Err(error),
                };
                Some((account.to_string(), gaps))
            }
        };
        Ok(Self { names: store.list(folder)?, attended })
    }
}

impl Looks {
    /// Takes what an epoch missed, if its folder looks as it did then.
    pub(super) fn take(&mut self, folder: &Path, look: &FolderLook) -> Option<Want> {
        let (before, want) = self.epochs.remove(folder)?;
        (before == *look).then_some(want)
    }

    /// Keeps what an epoch misses.
    pub(super) fn keep(&mut self, look: FolderLook, want: Want) {
        self.epochs.insert(want.folder().to_owned(), (look, want));
    }
}
