//! Description of its stream in the metadata of an archive's table.
//!
//! Only the archive writes it, and other tools may have changed the columns since: users of the description must
//! check that a column still matches its channel. The JSON is that of `stream.json`, drawn in
//! `docs/reference/formats/archive.md`.

use std::collections::BTreeMap;

use parquet::file::metadata::FileMetaData;
use sample::{Channel, Dtype, Schema};
use serde::Deserialize;
use serde::de::Error as _;
use units::SampleRate;

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

#[derive(Deserialize)]
struct Described {
    dtype: String,
    rate: Fraction,
    channels: Vec<DescribedChannel>,
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Fraction {
    numerator: u32,
    denominator: u32,
}

#[derive(Deserialize)]
struct DescribedChannel {
    name: String,
    unit: String,
    shape: Vec<u32>,
    scale: f64,
    offset: f64,
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
    Ok(Some(serde_json::from_str::<Described>(text)?.schema()?))
}

impl Described {
    fn schema(self) -> Result<Schema, serde_json::Error> {
        let dtype: Dtype = self.dtype.parse().map_err(serde_json::Error::custom)?;
        let Fraction { numerator, denominator } = self.rate;
        let rate = SampleRate::new(numerator, denominator).map_err(serde_json::Error::custom)?;
        let channels = self.channels.into_iter().map(DescribedChannel::channel).collect();
        let schema = Schema::new(dtype, rate, channels).map_err(serde_json::Error::custom)?;
        Ok(Schema { labels: self.labels, ..schema })
    }
}

impl DescribedChannel {
    fn channel(self) -> Channel {
        Channel::new(self.name, self.unit).with_shape(self.shape).with_scale(self.scale, self.offset)
    }
}
