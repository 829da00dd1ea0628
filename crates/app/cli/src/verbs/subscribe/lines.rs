//! Events of a subscriber as JSON, one object per line.

use serde_json::{Number, Value, json};
use tallycast::{Block, Dtype, Event, StreamInfo, stream_gap_json};

/// Returns an event as one object: `began`, `block`, `gap`, `settled`, `statement` or `ended`.
pub(crate) fn event_json(event: &Event, with_values: bool) -> Value {
    match event {
        Event::Began(info) => began_json(info),
        Event::Block(block) => block_json(block, with_values),
        Event::Gap(gap) => named("gap", stream_gap_json(gap)),
        Event::Settled(gap) => named("settled", stream_gap_json(gap)),
        Event::Statement(statement) => json!({
            "event": "statement",
            "stream": statement.stream.as_str(),
            "epoch": statement.epoch.to_string(),
            "bytes": statement.bytes.len(),
        }),
        Event::Ended(account) => json!({
            "event": "ended",
            "stream": account.stream.as_str(),
            "epoch": account.epoch.to_string(),
            "state": account.account.state.name(),
        }),
    }
}

/// Adds the event's name to an object.
pub(crate) fn named(event: &str, mut object: Value) -> Value {
    object["event"] = json!(event);
    object
}

fn began_json(info: &StreamInfo) -> Value {
    json!({
        "event": "began",
        "stream": info.name.as_str(),
        "epoch": info.epoch.to_string(),
        "station": info.station,
        "first_index": info.first_index,
        "schema": info.schema,
    })
}

fn block_json(block: &Block, with_values: bool) -> Value {
    let mut object = json!({
        "event": "block",
        "stream": block.stream.as_str(),
        "epoch": block.epoch.to_string(),
        "first_index": block.first_index,
        "t0_ns": block.t0.as_nanos(),
        "samples": block.samples,
    });
    if !block.missing.is_empty() {
        object["missing_elements"] =
            block.missing.iter().map(|range| json!([range.start, range.end])).collect();
    }
    if with_values {
        let samples = block.data.as_bytes().chunks_exact(block.schema.sample_bytes());
        object["values"] = samples.map(|sample| elements_json(block.schema.dtype, sample)).collect();
    }
    object
}

/// Returns the elements of a sample unscaled: scale and offset are in the schema.
///
/// Complex ones are pairs; what JSON has no number for is null.
fn elements_json(dtype: Dtype, sample: &[u8]) -> Value {
    let elements = sample.chunks_exact(dtype.size_bytes());
    match dtype {
        Dtype::Bool => elements.map(|bytes| json!(bytes[0] != 0)).collect(),
        Dtype::C8 => elements.map(|pair| elements_json(Dtype::F4, pair)).collect(),
        Dtype::C16 => elements.map(|pair| elements_json(Dtype::F8, pair)).collect(),
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => {
            elements.map(|bytes| json!(unsigned(bytes))).collect()
        }
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => {
            elements.map(|bytes| json!(signed(bytes))).collect()
        }
        Dtype::F4 | Dtype::F8 => elements
            .map(|bytes| Number::from_f64(dtype.to_f64(bytes)).map_or(Value::Null, Value::Number))
            .collect(),
    }
}

fn unsigned(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn signed(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * u32::try_from(bytes.len()).expect("an element is small");
    (unsigned(bytes) << unused).cast_signed() >> unused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_printed_as_they_are() {
        assert_eq!(elements_json(Dtype::I16, &[0xff, 0xff, 0x01, 0x00]), json!([-1, 1]));
        assert_eq!(elements_json(Dtype::U64, &[0xff; 8]), json!([u64::MAX]));
        assert_eq!(elements_json(Dtype::I64, &i64::MIN.to_le_bytes()), json!([i64::MIN]));
        assert_eq!(elements_json(Dtype::Bool, &[0, 1]), json!([false, true]));
        assert_eq!(elements_json(Dtype::F8, &f64::NAN.to_le_bytes()), json!([null]));
        let pair: Vec<u8> = [1.5_f32, -2.0].iter().flat_map(|part| part.to_le_bytes()).collect();
        assert_eq!(elements_json(Dtype::C8, &pair), json!([[1.5, -2.0]]));
    }
}
