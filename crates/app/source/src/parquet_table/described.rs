//! Description of its stream in the metadata of an archive's table.
//!
//! Only the archive writes it, and other tools may have changed the columns since: users of the description must
//! check that a column still matches its channel. The JSON is that of `stream.json`, drawn in
//! `docs/reference/formats/archive.md`.

use parquet::file::metadata::FileMetaData;
use sample::Schema;
use serde::Deserialize;

use super::ParquetError;

/// Key of the description in the metadata.
const KEY: &str = "tallycast.description";
const FORMAT: &str = "tallycast-stream";
/// The only version so far.
const VERSION: u64 = 1;

#[derive(Deserialize)]
struct Head {
    format: String,
    version: u64,
}

/// Reads the schema of the table's stream; `None` if it is not from an archive.
pub(super) fn schema_of(metadata: &FileMetaData) -> Result<Option<Schema>, ParquetError> {
    let pairs = metadata.key_value_metadata().into_iter().flatten();
    let Some(text) = pairs.filter(|pair| pair.key == KEY).find_map(|pair| pair.value.as_deref()) else {
        return Ok(None);
    };
    let head: Head = serde_json::from_str(text)?;
    if head.format != FORMAT || head.version != VERSION {
        return Err(ParquetError::LaterDescription(head.version));
    }
    Ok(Some(serde_json::from_str(text)?))
}
