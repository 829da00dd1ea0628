//! Minimum sizes of a recording's other files, from its account.
//!
//! A file that is shorter, or missing, is damaged, even if it is intact by its own checksums. Start with
//! [`Told::of`].

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::Description;
use crate::error::ArchiveError;
use crate::folders::ACCOUNT;
use crate::stamped;
use crate::store::{Store, StoreError, read_whole};

/// Account of the last recorder of an epoch, and its statements about the other files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// The account; null if there is none, or it cannot be read.
    pub(crate) account: Value,
    /// Index one behind the last stored sample.
    pub(crate) stored_index: Option<u64>,
    /// Number of the last segment with stored samples.
    pub(crate) last_segment: Option<u32>,
    /// Durable size of the gap map, in bytes.
    pub(crate) gap_bytes: Option<u64>,
    /// Fault of the account itself, as text.
    pub(crate) fault: Option<String>,
}

/// Statements of an account about the other files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Files {
    pub(crate) last_segment: u32,
    pub(crate) gap_bytes: u64,
}

impl Told {
    /// Reads the account of an epoch's last recorder.
    ///
    /// # Errors
    /// [`ArchiveError::Later`]; the error of the disk.
    pub(crate) fn of(
        store: &dyn Store,
        folder: &Path,
        description: &Description,
    ) -> Result<Self, ArchiveError> {
        let (account, fault) = read_account(store, &folder.join(ACCOUNT), description)?;
        let files = &account["files"];
        Ok(Self {
            stored_index: account["stored_index"].as_u64(),
            last_segment: files["last_segment"].as_u64().and_then(|number| u32::try_from(number).ok()),
            gap_bytes: files["gap_bytes"].as_u64(),
            account,
            fault,
        })
    }
}

/// Reads an account; null if there is none. Returns with it its fault, if it has one.
///
/// # Errors
/// [`ArchiveError::Later`]; the error of the disk.
pub(crate) fn read_account(
    store: &dyn Store,
    path: &Path,
    description: &Description,
) -> Result<(Value, Option<String>), ArchiveError> {
    let bytes = match read_whole(store, path) {
        Ok(bytes) => bytes,
        Err(StoreError::NotFound(_)) => return Ok((Value::Null, None)),
        Err(error) if error.is_damage() => {
            let said = error.to_string().lines().next().unwrap_or_default().to_owned();
            return Ok((Value::Null, Some(said)));
        }
        Err(error) => return Err(error.into()),
    };
    let fault = |what: &str| Ok((Value::Null, Some(format!("{}: {what}", path.display()))));
    let Ok(account) = stamped::read(&bytes) else { return fault("the account is damaged") };
    ArchiveError::reject_later(path, account["version"].as_u64())?;
    let is_ours =
        account["stream"] == description.name.as_str() && account["epoch"] == description.epoch.to_string();
    match is_ours {
        true => Ok((account, None)),
        false => fault("the account belongs to another stream or epoch"),
    }
}
