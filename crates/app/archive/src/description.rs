//! Description of a stream's epoch: `stream.json` and the metadata of every segment.

use std::sync::Arc;

use sample::{Schema, StreamName};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use units::Epoch;

use crate::stamped;

const FORMAT: &str = "tallycast-stream";
/// The only version so far.
const VERSION: u64 = 1;

/// Name, schema and origin of a stream in one epoch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Description {
    /// Name of the stream.
    #[serde(rename = "stream")]
    pub name: Arc<StreamName>,
    /// Epoch of the publisher.
    pub epoch: Epoch,
    /// Schema of the samples.
    #[serde(flatten)]
    pub schema: Arc<Schema>,
    /// Station that publishes the stream.
    pub station: String,
}

/// Reason why `stream.json` cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// The file is no stream description, or its content was changed.
    #[error("this is not a tallycast stream description, or it is damaged")]
    Foreign,
    /// The description is that of another stream or epoch than the folder's.
    #[error("this describes stream {0} in epoch {1}, not what its folder is named after")]
    Stranger(String, Epoch),
    /// The file has a later version.
    #[error(
        "the stream description has format version {0}, this program reads up to {VERSION}\n\
         use a newer tallycast"
    )]
    Version(u64),
    /// A member is absent or out of its range.
    #[error(
        "the stream description is damaged: {0}\nrestore stream.json from the metadata of any segment in its folder"
    )]
    Member(String),
}

impl Description {
    /// Returns the description as a JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut object = json!(self);
        object["format"] = FORMAT.into();
        object["version"] = VERSION.into();
        object
    }

    /// Reads a description.
    ///
    /// # Errors
    /// Every variant of [`DescriptionError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DescriptionError> {
        let value = stamped::read(bytes).map_err(|_| DescriptionError::Foreign)?;
        if value.get("format").and_then(Value::as_str) != Some(FORMAT) {
            return Err(DescriptionError::Foreign);
        }
        match value.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            other => return Err(DescriptionError::Version(other.unwrap_or(0))),
        }
        Self::deserialize(value).map_err(|error| DescriptionError::Member(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::{Channel, Dtype};
    use units::SampleRate;

    fn description() -> Description {
        let image = Channel::new("image", "").with_shape([2, 3]).with_scale(0.1 + 0.2, -1e-300);
        let channels = vec![image, Channel::new("exposure, \"s\"", "µs")];
        let mut schema = Schema::new(Dtype::U16, SampleRate::new(1000, 3).unwrap(), channels).unwrap();
        schema.labels.insert("device".into(), "cam 1".into());
        Description {
            name: Arc::new("lab/camera".parse().unwrap()),
            epoch: Epoch { start_ns: u64::MAX, incarnation: u64::MAX },
            schema: Arc::new(schema),
            station: "daq-3".into(),
        }
    }

    #[test]
    fn a_description_comes_back_bit_for_bit() {
        let description = description();
        let text = serde_json::to_vec_pretty(&description.to_json()).unwrap();
        assert_eq!(Description::decode(&text), Ok(description));
    }

    #[test]
    fn a_description_is_written_byte_for_byte_as_ever() {
        let expected = r#"{"channels":[{"name":"image","offset":-1e-300,"scale":0.30000000000000004,"shape":[2,3],"unit":""},{"name":"exposure, \"s\"","offset":0.0,"scale":1.0,"shape":[],"unit":"µs"}],"dtype":"u16","elements_per_sample":7,"epoch":"18446744073709551615-ffffffffffffffff","format":"tallycast-stream","labels":{"device":"cam 1"},"rate":{"denominator":3,"numerator":1000},"station":"daq-3","stream":"lab/camera","version":1}"#;
        assert_eq!(description().to_json().to_string(), expected);
    }

    #[test]
    fn members_of_later_versions_are_ignored_and_values_out_of_range_refused() {
        let value = description().to_json();
        let mut later = value.clone();
        later["colour"] = json!([1]);
        later["rate"]["colour"] = 1.into();
        later["channels"][0]["colour"] = 1.into();
        assert_eq!(Description::decode(later.to_string().as_bytes()), Ok(description()));
        let mut unreduced = value.clone();
        unreduced["rate"] = json!({"numerator": 2000, "denominator": 6});
        assert_eq!(Description::decode(unreduced.to_string().as_bytes()), Ok(description()));
        for (member, bad) in [
            ("/stream", "a//b".into()),
            ("/epoch", "7".into()),
            ("/dtype", "f5".into()),
            ("/rate/numerator", 0.into()),
            ("/rate/denominator", (1_u64 << 32).into()),
            ("/channels/0/scale", 0.into()),
            ("/channels/0/shape/1", (-1).into()),
            ("/channels/1/name", "image".into()),
            ("/labels/device", 1.into()),
            ("/station", Value::Null),
        ] {
            let mut value = value.clone();
            *value.pointer_mut(member).unwrap() = bad;
            let refused = Description::decode(value.to_string().as_bytes()).unwrap_err();
            assert!(matches!(refused, DescriptionError::Member(_)), "{member}: {refused}");
        }
    }

    #[test]
    fn every_absent_member_is_named() {
        let value = description().to_json();
        for member in ["stream", "epoch", "dtype", "rate", "channels", "labels", "station"] {
            let mut value = value.clone();
            value.as_object_mut().unwrap().remove(member);
            let bytes = value.to_string().into_bytes();
            let message = format!("missing field `{member}`");
            assert_eq!(Description::decode(&bytes), Err(DescriptionError::Member(message)));
        }
        assert_eq!(Description::decode(b"{}"), Err(DescriptionError::Foreign));
        let mut later = value;
        later["version"] = 2.into();
        let later = later.to_string().into_bytes();
        assert_eq!(Description::decode(&later), Err(DescriptionError::Version(2)));
    }
}
