//! The rate of an output: a number of samples per second, or a fraction as text.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use units::SampleRate;

/// Samples per second, as files have them: `1000`, `0.5`, `"48k"`, `"1000/3"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutputRate(pub SampleRate);

impl Serialize for OutputRate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.denominator() {
            1 => serializer.serialize_u32(self.0.numerator()),
            _ => serializer.collect_str(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for OutputRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "samples per second (1000, 0.5) or a fraction of them (\"1000/3\")")]
        enum Written {
            Whole(u32),
            Decimal(f64),
            Text(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Whole(number) => number.to_string(),
            // The shortest digits that are this number: those of the file.
            Written::Decimal(number) => number.to_string(),
            Written::Text(text) => text,
        };
        text.parse().map(Self).map_err(Error::custom)
    }
}
