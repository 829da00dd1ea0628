//! One account for each recorder of an epoch: the last in `account.json`, those before it beside it.

use std::path::Path;

use serde_json::Value;

use crate::folders::{ACCOUNT, earlier_account};
use crate::store::{Store, StoreError, read_whole};

/// Makes room for the account of a session: what another one left is kept under that one's number.
///
/// # Errors
/// What the disk says.
pub(crate) fn make_room(store: &dyn Store, folder: &Path, session: u32) -> Result<(), StoreError> {
    let bytes = match read_whole(store, &folder.join(ACCOUNT)) {
        Ok(bytes) => bytes,
        Err(StoreError::NotFound(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    let found: Option<Value> = serde_json::from_slice(&bytes).ok();
    let other = found.and_then(|account| u32::try_from(account["session"].as_u64()?).ok());
    match other.filter(|other| *other != session) {
        Some(other) => store.rename(&folder.join(ACCOUNT), &folder.join(earlier_account(other))),
        None => Ok(()),
    }
}
