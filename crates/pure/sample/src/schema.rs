//! Schema of a stream: channels, dtype, rate, labels.

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use units::{SampleRate, serde_as_text};

use crate::Dtype;

/// The most elements one sample may have: a 16-bit colour camera of 8,192 × 8,192 fits.
pub const MAX_ELEMENTS_PER_SAMPLE: u32 = 1 << 28;
/// Maximum number of channels of a stream, so that a descriptor fits in one datagram.
pub const MAX_CHANNELS: usize = 4_096;
/// The longest stream name in bytes.
pub const MAX_NAME_BYTES: usize = 200;

/// Label for the origin of sample times; `own`: the publisher gives each time.
pub const TIMES_LABEL: &str = "times";
/// See [`TIMES_LABEL`].
pub const OWN_TIMES: &str = "own";
/// Label of the priority that a stream has on the links of relays whose settings do not name it: 0 to 255.
pub const PRIORITY_LABEL: &str = "priority";

/// A stream's name: a path such as `w7x/ecrh/power`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamName(String);

/// Entries of a stream or channel from a later version, by key, each in its encoded form: not interpreted, but kept,
/// so that the stream's identity is the same wherever the schema is encoded again.
pub type UnknownEntries = BTreeMap<u32, Vec<u8>>;

/// Layout and meaning of a stream's samples.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Schema {
    /// The type of every element.
    pub dtype: Dtype,
    /// Number of samples per second.
    pub rate: SampleRate,
    /// The channels, in the order of their elements in a sample.
    pub channels: Vec<Channel>,
    /// Free text about the stream: station, device, run.
    pub labels: BTreeMap<String, String>,
    /// See [`UnknownEntries`].
    pub unknown: UnknownEntries,
}

/// Schema as it is read.
#[derive(Deserialize)]
struct Unchecked {
    dtype: Dtype,
    rate: SampleRate,
    channels: Vec<Channel>,
    labels: BTreeMap<String, String>,
}

/// One channel of a stream.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Channel {
    /// The channel's name, unique within the stream.
    pub name: String,
    /// Unit of the value after scaling; empty if it has none.
    pub unit: String,
    /// The shape of one sample of this channel, row-major; empty for a single value.
    pub shape: Vec<u32>,
    /// Value = element × `scale` + `offset`.
    pub scale: f64,
    /// See `scale`.
    pub offset: f64,
    /// See [`UnknownEntries`].
    #[serde(skip)]
    pub unknown: UnknownEntries,
}

/// Error in a name or a schema.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// An invalid stream name.
    #[error(
        "invalid stream name `{0}`; write words of letters, digits, `_`, `-` and `.` with `/` between them, \
         {MAX_NAME_BYTES} bytes at most"
    )]
    Name(String),
    /// A stream without channels, or with more than the wire can describe.
    #[error("a stream has 1 to {MAX_CHANNELS} channels, not {0}")]
    ChannelCount(usize),
    /// Two channels of one name.
    #[error("two channels are named `{0}`")]
    DuplicateChannel(String),
    /// A shape with an extent of zero, or too many elements in one sample.
    #[error("a sample has 1 to {MAX_ELEMENTS_PER_SAMPLE} elements; channel `{0}` exceeds that")]
    Shape(String),
    /// A scale of zero or one that is not a finite number.
    #[error("the scale and offset of channel `{0}` must be finite, and the scale not zero")]
    Scale(String),
}

impl StreamName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for StreamName {
    type Err = SchemaError;

    fn from_str(name: &str) -> Result<Self, SchemaError> {
        let plain = |word: &str| {
            !word.is_empty()
                && word != "."
                && word != ".."
                && word.chars().all(|character| character.is_alphanumeric() || "_-.".contains(character))
        };
        if name.len() <= MAX_NAME_BYTES && name.split('/').all(plain) {
            Ok(Self(name.to_owned()))
        } else {
            Err(SchemaError::Name(name.to_owned()))
        }
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

serde_as_text!(StreamName);

impl fmt::Debug for StreamName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

impl Channel {
    /// Makes a channel of single values that need no scaling.
    #[must_use]
    pub fn new(name: impl Into<String>, unit: impl Into<String>) -> Self {
        let unknown = UnknownEntries::new();
        Self { name: name.into(), unit: unit.into(), shape: Vec::new(), scale: 1.0, offset: 0.0, unknown }
    }

    /// Makes a channel whose sample is an array, for instance an image of `[height, width]`.
    #[must_use]
    pub fn with_shape(mut self, shape: impl Into<Vec<u32>>) -> Self {
        self.shape = shape.into();
        self
    }

    /// Makes a channel whose values are element × `scale` + `offset`.
    #[must_use]
    pub fn with_scale(mut self, scale: f64, offset: f64) -> Self {
        self.scale = scale;
        self.offset = offset;
        self
    }

    /// Returns the elements of one sample of this channel, `None` beyond what a sample may have.
    #[must_use]
    pub fn elements(&self) -> Option<u32> {
        let product = self.shape.iter().try_fold(1_u32, |product, extent| product.checked_mul(*extent))?;
        (1..=MAX_ELEMENTS_PER_SAMPLE).contains(&product).then_some(product)
    }
}

/// A channel of single values: its name and its unit.
impl<N: Into<String>, U: Into<String>> From<(N, U)> for Channel {
    fn from((name, unit): (N, U)) -> Self {
        Self::new(name, unit)
    }
}

impl Schema {
    /// Makes a checked schema without labels.
    ///
    /// # Errors
    /// Every variant of [`SchemaError`] but `Name`.
    pub fn new(dtype: Dtype, rate: SampleRate, channels: Vec<Channel>) -> Result<Self, SchemaError> {
        let schema = Self { dtype, rate, channels, labels: BTreeMap::new(), unknown: BTreeMap::new() };
        schema.check()?;
        Ok(schema)
    }

    /// Checks what the wire and the readers rely on.
    ///
    /// # Errors
    /// Every variant of [`SchemaError`] but `Name`.
    pub fn check(&self) -> Result<(), SchemaError> {
        if self.channels.is_empty() || self.channels.len() > MAX_CHANNELS {
            return Err(SchemaError::ChannelCount(self.channels.len()));
        }
        let mut names = std::collections::BTreeSet::new();
        let mut total = 0_u64;
        for channel in &self.channels {
            if !names.insert(&channel.name) {
                return Err(SchemaError::DuplicateChannel(channel.name.clone()));
            }
            if !(channel.scale.is_finite() && channel.offset.is_finite() && channel.scale != 0.0) {
                return Err(SchemaError::Scale(channel.name.clone()));
            }
            total += channel.elements().map_or(u64::MAX / 2, u64::from);
            if total > u64::from(MAX_ELEMENTS_PER_SAMPLE) {
                return Err(SchemaError::Shape(channel.name.clone()));
            }
        }
        Ok(())
    }

    /// Returns how many elements one sample has over all channels.
    #[must_use]
    pub fn elements_per_sample(&self) -> u32 {
        self.channels.iter().map(|channel| channel.elements().expect("a checked schema")).sum()
    }

    /// Returns the size of one sample in bytes.
    #[must_use]
    pub fn sample_bytes(&self) -> usize {
        self.elements_per_sample() as usize * self.dtype.size_bytes()
    }

    /// Returns whether the publisher gives each sample's time, instead of a multiple of the period.
    #[must_use]
    pub fn has_own_times(&self) -> bool {
        self.labels.get(TIMES_LABEL).is_some_and(|how| how == OWN_TIMES)
    }

    /// Returns the maximum difference between a sample's time and the time predicted from the rate within a block.
    ///
    /// A block has one time, and readers compute the others from it: half a sample of error still identifies the
    /// sample. If samples have their own times, these must match exactly.
    #[must_use]
    pub fn time_tolerance(&self) -> Duration {
        // The times of both may have been rounded down to a nanosecond.
        let half_a_sample = (self.rate.duration_of(1) / 2).max(Duration::from_nanos(1));
        if self.has_own_times() { Duration::ZERO } else { half_a_sample }
    }

    /// Returns the index of the channel with this name.
    ///
    /// Cost: one pass over the channels.
    #[must_use]
    pub fn channel_index(&self, name: &str) -> Option<usize> {
        self.channels.iter().position(|channel| channel.name == name)
    }

    /// Returns the range of channel `index`'s elements within a sample.
    #[must_use]
    pub fn channel_elements(&self, index: usize) -> core::ops::Range<usize> {
        let len = |channel: &Channel| channel.elements().expect("a checked schema") as usize;
        let start = self.channels[..index].iter().map(len).sum();
        start..start + len(&self.channels[index])
    }
}

/// An object that also has the number of elements per sample, which readers would otherwise compute.
impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Schema", 5)?;
        object.serialize_field("dtype", &self.dtype)?;
        object.serialize_field("rate", &self.rate)?;
        object.serialize_field("elements_per_sample", &self.elements_per_sample())?;
        object.serialize_field("channels", &self.channels)?;
        object.serialize_field("labels", &self.labels)?;
        object.end()
    }
}

impl TryFrom<Unchecked> for Schema {
    type Error = SchemaError;

    fn try_from(Unchecked { dtype, rate, channels, labels }: Unchecked) -> Result<Self, SchemaError> {
        Ok(Self { labels, ..Self::new(dtype, rate, channels)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_paths_of_words() {
        for name in ["ecg", "w7x/ecrh/power", "a-b/c_d/1.5", "größe/µ"] {
            assert!(name.parse::<StreamName>().is_ok(), "{name}");
        }
        for name in ["", "/a", "a/", "a//b", "a b", "../a", "a/..", "a\n", &"x".repeat(201)] {
            assert!(name.parse::<StreamName>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn channels_lie_one_behind_the_other() {
        let rate = SampleRate::hz(10).unwrap();
        let channels = vec![Channel::new("image", "").with_shape([2, 3]), Channel::new("exposure", "s")];
        let schema = Schema::new(Dtype::U16, rate, channels).unwrap();
        assert_eq!(schema.elements_per_sample(), 7);
        assert_eq!(schema.sample_bytes(), 14);
        assert_eq!(schema.channel_elements(1), 6..7);
    }

    #[test]
    fn times_hold_to_half_a_sample_or_are_the_samples_own() {
        let rate = SampleRate::hz(1_000).unwrap();
        let mut schema = Schema::new(Dtype::F4, rate, vec![Channel::new("a", "")]).unwrap();
        assert_eq!(schema.time_tolerance(), Duration::from_micros(500));
        schema.labels.insert(TIMES_LABEL.to_owned(), OWN_TIMES.to_owned());
        assert_eq!(schema.time_tolerance(), Duration::ZERO);
        schema.labels.insert(TIMES_LABEL.to_owned(), "zone".to_owned());
        assert!(!schema.has_own_times(), "a label like any other");
    }

    #[test]
    fn what_cannot_be_described_is_refused() {
        let rate = SampleRate::hz(10).unwrap();
        let make = |channels| Schema::new(Dtype::F4, rate, channels);
        assert_eq!(make(vec![]), Err(SchemaError::ChannelCount(0)));
        let twice = vec![Channel::new("a", ""), Channel::new("a", "")];
        assert_eq!(make(twice), Err(SchemaError::DuplicateChannel("a".into())));
        let flat = vec![Channel::new("a", "").with_shape([4, 0])];
        assert_eq!(make(flat), Err(SchemaError::Shape("a".into())));
        let huge = vec![Channel::new("a", "").with_shape([1 << 28]), Channel::new("b", "")];
        assert_eq!(make(huge), Err(SchemaError::Shape("b".into())));
        let flat = vec![Channel::new("a", "").with_scale(0.0, 0.0)];
        assert_eq!(make(flat), Err(SchemaError::Scale("a".into())));
    }
}
