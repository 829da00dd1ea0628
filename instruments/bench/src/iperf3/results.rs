//! The results that both sides exchange after a test, as JSON of iperf3's shape.
//!
//! Unknown keys are ignored, missing ones are zero: other versions have more or fewer. `retransmits` is -1
//! where the number is unknown, which iperf 3.12 writes as 18446744073709551615.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Number;

use super::error::ProtocolError;

/// Results of one side.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Results {
    pub(super) cpu_util_total: f64,
    pub(super) cpu_util_user: f64,
    pub(super) cpu_util_system: f64,
    /// Code of retransmissions: 1 if this side sends and knows their number, 0 if it does not, -1 for a
    /// receiver.
    #[serde(deserialize_with = "signed", serialize_with = "as_signed")]
    pub(super) sender_has_retransmits: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) congestion_used: Option<String>,
    pub(super) streams: Vec<StreamResults>,
}

/// Results of one side for a stream that it sent or received.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StreamResults {
    #[serde(deserialize_with = "whole")]
    pub(super) id: u64,
    #[serde(deserialize_with = "whole")]
    pub(super) bytes: u64,
    #[serde(deserialize_with = "signed", serialize_with = "as_signed")]
    pub(super) retransmits: Option<u64>,
    /// Smoothed jitter. Units: seconds.
    pub(super) jitter: f64,
    /// Datagrams that the receiver missed.
    #[serde(deserialize_with = "whole")]
    pub(super) errors: u64,
    /// Of a sender, the datagrams sent; of a receiver, the highest number seen.
    #[serde(deserialize_with = "whole")]
    pub(super) packets: u64,
    /// Start of the stream. Units: seconds since the test began.
    pub(super) start_time: f64,
    pub(super) end_time: f64,
}

impl Results {
    pub(super) fn parse(text: &[u8]) -> Result<Self, ProtocolError> {
        serde_json::from_slice(text).map_err(|source| ProtocolError::Json { what: "results", source })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts become JSON")
    }

    /// Returns the results of a stream.
    pub(super) fn stream(&self, id: u32) -> Option<&StreamResults> {
        self.streams.iter().find(|stream| stream.id == u64::from(id))
    }
}

/// Maximum count that is accepted: all numbers of JavaScript up to it are exact, no test comes near, and the
/// sum over all streams of a test fits.
pub(super) const MOST: u64 = 1 << 53;

/// Reads a count that may be written as a number with a point or an exponent.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(to_count(&Number::deserialize(deserializer)?))
}

/// Returns a number as a count; what is none is 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, as is meant")]
pub(super) fn to_count(number: &Number) -> u64 {
    number.as_u64().unwrap_or_else(|| number.as_f64().map_or(0, |number| number as u64)).min(MOST)
}

/// Reads a count that is negative, or negative and wrapped, where it is unknown.
fn signed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let number = Number::deserialize(deserializer)?;
    Ok(number.as_u64().filter(|count| *count <= MOST))
}

#[expect(clippy::ref_option, reason = "the shape that serde calls")]
fn as_signed<S: Serializer>(count: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(count.map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Written by iperf 3.12, the server of a test over UDP.
    const OBSERVED: &str = r#"{"cpu_util_total":1.2015051276885635,"cpu_util_user":1.2014096488958355,"cpu_util_system":0,"sender_has_retransmits":18446744073709551615,"streams":[{"id":1,"bytes":124400,"retransmits":18446744073709551615,"jitter":6.16497272852709e-05,"errors":0,"packets":1244,"start_time":0,"end_time":1.047328}]}"#;

    #[test]
    fn results_of_another_program_are_read() {
        let results = Results::parse(OBSERVED.as_bytes()).unwrap();
        let stream = results.stream(1).unwrap();
        assert_eq!((stream.bytes, stream.packets, stream.retransmits), (124_400, 1_244, None));
        assert!((stream.jitter - 6.164_972_728_527_09e-5).abs() < 1e-12);
        assert_eq!(results.sender_has_retransmits, None);
        assert_eq!(results.stream(3), None);
    }

    #[test]
    fn what_is_unknown_or_odd_does_no_harm() {
        let results =
            Results::parse(br#"{"news":[1],"streams":[{"id":1.0,"bytes":1e6,"packets":-4}]}"#).unwrap();
        assert_eq!(results.streams[0].bytes, 1_000_000);
        assert_eq!(results.streams[0].packets, 0);
        for bad in ["", "[]", "{\"streams\":1}", "{\"streams\":[{\"id\":\"x\"}]}", "\u{0}"] {
            assert!(Results::parse(bad.as_bytes()).is_err() || bad == "[]", "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Results::parse(&text);
        }

        #[test]
        fn what_we_write_we_read(bytes in 0..=MOST, retransmits in prop::option::of(0..=MOST), id in 0..300_u64) {
            let stream = StreamResults { id, bytes, retransmits, ..StreamResults::default() };
            let results = Results { streams: vec![stream], ..Results::default() };
            prop_assert_eq!(Results::parse(&results.to_bytes()).unwrap(), results);
        }
    }
}
