//! File of acknowledgements: JSON, replaced as a whole.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Acknowledged, Key};

/// Reason why acknowledgements cannot be read or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AlarmsError {
    /// The file cannot be read or written.
    #[error("acknowledged alarms in {path}: {cause}\nrepair its folder or permissions")]
    File {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        cause: io::Error,
    },
    /// The file is not one of a monitor.
    #[error(
        "acknowledged alarms in {path} cannot be read: {cause}\nmove the file away: all alarms are then unacknowledged"
    )]
    Content {
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        cause: serde_json::Error,
    },
}

/// Content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Acknowledgements ever made.
    pub(super) count: u64,
    alarms: Vec<KeptAlarm>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptAlarm {
    stream: String,
    channel: u32,
    #[serde(flatten)]
    acknowledged: Acknowledged,
}

impl Kept {
    pub(super) fn of(count: u64, acknowledged: &BTreeMap<Key, Acknowledged>) -> Self {
        let kept = |((stream, channel), acknowledged): (&Key, &Acknowledged)| KeptAlarm {
            stream: stream.clone(),
            channel: *channel,
            acknowledged: acknowledged.clone(),
        };
        Self { count, alarms: acknowledged.iter().map(kept).collect() }
    }

    pub(super) fn acknowledged(&self) -> BTreeMap<Key, Acknowledged> {
        self.alarms.iter().map(|it| ((it.stream.clone(), it.channel), it.acknowledged.clone())).collect()
    }

    /// Reads the file; one that is not there is empty.
    pub(super) fn read(path: &Path) -> Result<Self, AlarmsError> {
        match std::fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|cause| AlarmsError::Content { path: path.to_owned(), cause }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(cause) => Err(AlarmsError::File { path: path.to_owned(), cause }),
        }
    }

    /// Replaces the file; it is on disk once this returns.
    pub(super) fn write(&self, path: &Path) -> Result<(), AlarmsError> {
        let text = serde_json::to_vec_pretty(self).expect("plain numbers and text");
        let replace = || {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            folder.map_or(Ok(()), std::fs::create_dir_all)?;
            let draft = path.with_extension("draft");
            let mut file = File::create(&draft)?;
            file.write_all(&text)?;
            file.sync_all()?;
            std::fs::rename(&draft, path)?;
            folder.map_or(Ok(()), |folder| File::open(folder)?.sync_all())
        };
        replace().map_err(|cause| AlarmsError::File { path: path.to_owned(), cause })
    }
}
