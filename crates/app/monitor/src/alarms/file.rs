//! File of acknowledgements: JSON, replaced as a whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sys::private_file::{self, FileError, Privacy};

use super::{Acknowledged, Key};

/// The largest file: 4,096 alarms with the longest names and reasons.
const MAX_BYTES: usize = 16 << 20;

/// Reason why acknowledgements cannot be read or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AlarmsError {
    /// The file cannot be read or written.
    #[error("acknowledged alarms: {0}")]
    File(#[source] FileError),
    /// The file is not one of a monitor.
    #[error("acknowledged alarms in {path} cannot be read: {cause}")]
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

    /// Reads the file; one that cannot be read is set aside, and nothing is acknowledged then.
    pub(super) fn restore(path: &Path) -> Result<Self, AlarmsError> {
        Self::read(path).or_else(|why| {
            let aside = private_file::set_aside(path).map_err(AlarmsError::File)?;
            tracing::warn!(
                "{why}\nall alarms are unacknowledged; the file is kept as {}: repair it there, and give it back its name",
                aside.display()
            );
            Ok(Self::default())
        })
    }

    /// Reads the file; one that is not there is empty.
    fn read(path: &Path) -> Result<Self, AlarmsError> {
        let text = private_file::read(path, Privacy::Open, MAX_BYTES).map_err(AlarmsError::File)?;
        let content = |cause| AlarmsError::Content { path: path.to_owned(), cause };
        text.map_or_else(|| Ok(Self::default()), |text| serde_json::from_str(&text).map_err(content))
    }

    /// Replaces the file; it is on disk once this returns.
    pub(super) fn write(&self, path: &Path) -> Result<(), AlarmsError> {
        let text = serde_json::to_string_pretty(self).expect("plain numbers and text");
        let failed = |source| FileError::System { action: "write", path: path.to_owned(), source };
        let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed);
        folder.and_then(|()| private_file::replace(path, &text)).map_err(AlarmsError::File)
    }
}
