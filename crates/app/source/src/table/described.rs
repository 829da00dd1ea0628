//! Description of its stream in the metadata of an archive's table.
//!
//! Only the archive writes it, and other tools may have changed the columns since: users of the description must
//! check that a column still matches its channel. The JSON is that of `stream.json`, drawn in
//! `docs/reference/formats/archive.md`.

use sample::Schema;
use serde::Deserialize;

use super::TableError;

/// Key of the description in the metadata.
pub(super) const KEY: &str = "tallycast.description";
const FORMAT: &str = "tallycast-stream";
/// The only version so far.
const VERSION: u64 = 1;

#[derive(Deserialize)]
struct Head {
    format: String,
    version: u64,
}

/// Reads the schema of a table's stream.
pub(super) fn schema_in(description: &str) -> Result<Schema, TableError> {
    let head: Head = serde_json::from_str(description)?;
    if head.format != FORMAT || head.version != VERSION {
        return Err(TableError::LaterDescription(head.version));
    }
    Ok(serde_json::from_str(description)?)
}
