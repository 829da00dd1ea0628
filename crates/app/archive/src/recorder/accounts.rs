//! One account for each recorder of an epoch: the last in `account.json`, earlier ones in numbered files.

use std::path::Path;

use crate::folders::{ACCOUNT, earlier_account};
use crate::stamped;
use crate::store::{Store, StoreError, read_whole, set_aside};

/// Makes room for the account of a session: the account of another one is renamed to that session's number.
///
/// # Errors
/// The error of the disk.
pub(crate) fn make_room(store: &dyn Store, folder: &Path, session: u32) -> Result<(), StoreError> {
    let bytes = match read_whole(store, &folder.join(ACCOUNT)) {
        Ok(bytes) => bytes,
        Err(StoreError::NotFound(_)) => return Ok(()),
        // An unreadable account is replaced when the new one is written.
        Err(error) if error.is_damage() => return Ok(()),
        Err(error) => return Err(error),
    };
    let Ok(found) = stamped::read(&bytes) else { return set_aside(store, &folder.join(ACCOUNT)).map(drop) };
    let other = found["session"].as_u64().and_then(|other| u32::try_from(other).ok());
    match other.filter(|other| *other != session) {
        Some(other) => {
            let path = folder.join(earlier_account(other));
            match store.open(&path) {
                Err(StoreError::NotFound(_)) => {}
                _ => drop(set_aside(store, &path)?),
            }
            store.rename(&folder.join(ACCOUNT), &path)
        }
        None => Ok(()),
    }
}
