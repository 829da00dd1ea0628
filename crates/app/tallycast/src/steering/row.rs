//! The stream `steer/APP`: one sample per record of the log, so that archives and pages have every command.
//!
//! Layout: `docs/protocol/steering.md`, "The stream".

use std::collections::BTreeMap;

use ::steer::{Answer, Applied, Mark, Record, Value};
use sample::Channel;

/// Prefix of the names of these streams.
pub const STREAM_PREFIX: &str = "steer/";
/// Label with the UDP port at which the app takes commands.
pub const PORT_LABEL: &str = "steer.port";
/// Label with the public key of the app's connections, hexadecimal; absent if they are in the clear.
pub const KEY_LABEL: &str = "steer.key";
/// Prefix of the labels with the names of the parameters, in their order: `steer.parameter.000`.
pub const PARAMETER_LABEL: &str = "steer.parameter.";

/// Channels with the number of records of the log and a part of the last digest: [`Mark`].
pub const MARK_CHANNELS: [&str; 2] = ["log_records", "log_digest"];
/// Channels of a record.
const RECORD_CHANNELS: [&str; 8] =
    ["record", "kind", "outcome", "rule", "parameter", "value", "revision", "index"];

/// One sample of the stream; NaN where the record has no such number.
pub(super) type Row = [f64; RECORD_CHANNELS.len() + MARK_CHANNELS.len()];

/// Returns the channels of the stream.
pub(super) fn channels() -> impl Iterator<Item = Channel> {
    RECORD_CHANNELS.into_iter().chain(MARK_CHANNELS).map(|name| Channel::new(name, ""))
}

/// Returns the row of a record that is number `number` of its run, with the log behind it.
pub(super) fn row(number: u64, record: &Record, mark: Mark, places: &BTreeMap<String, usize>) -> Row {
    let mut row = [0.0; RECORD_CHANNELS.len() + MARK_CHANNELS.len()];
    let (of_record, of_log) = row.split_at_mut(RECORD_CHANNELS.len());
    of_record.copy_from_slice(&of_record_alone(number, record, places));
    of_log.copy_from_slice(&[exact(mark.count), exact(mark.digest)]);
    row
}

fn of_record_alone(
    number: u64,
    record: &Record,
    places: &BTreeMap<String, usize>,
) -> [f64; RECORD_CHANNELS.len()] {
    const NONE: f64 = f64::NAN;
    let place = |name: &str| places.get(name).map_or(NONE, |place| exact(*place as u64));
    let number = exact(number);
    match record {
        Record::Began { .. } => [number, 0.0, NONE, NONE, NONE, NONE, NONE, NONE],
        Record::Intent { command, .. } => {
            [number, 1.0, 0.0, NONE, place(&command.parameter), first(&command.value), NONE, NONE]
        }
        Record::Attempt { command, answer, .. } => {
            let [outcome, rule] = answered(answer);
            [number, 2.0, outcome, rule, place(&command.parameter), first(&command.value), NONE, NONE]
        }
        Record::Outcome { parameter, revision, answer, .. } => {
            let [outcome, rule] = answered(answer);
            let (value, index) = match answer {
                Answer::Applied(Applied { readback, index, .. }) => (first(readback), exact(*index)),
                _ => (NONE, NONE),
            };
            [number, 3.0, outcome, rule, place(parameter), value, exact(*revision), index]
        }
        Record::Lease { .. } => [number, 4.0, NONE, NONE, NONE, NONE, NONE, NONE],
        Record::Switch { is_on, .. } => [number, 5.0, NONE, NONE, NONE, f64::from(*is_on), NONE, NONE],
        Record::Omitted { refused } => {
            let count = refused.iter().map(|(_, count)| count).sum();
            [number, 6.0, NONE, NONE, NONE, exact(count), NONE, NONE]
        }
        _ => [number, NONE, NONE, NONE, NONE, NONE, NONE, NONE],
    }
}

fn answered(answer: &Answer) -> [f64; 2] {
    let rule = match answer {
        Answer::Refused { rule } => f64::from(rule.code()),
        _ => f64::NAN,
    };
    [f64::from(answer.code()), rule]
}

/// Returns the first element as a number; of a complex one its real part.
fn first(value: &Value) -> f64 {
    value.numbers().next().map_or(f64::NAN, ::steer::Number::to_f64)
}

/// Returns a count as a number: exact below 2⁵³.
#[expect(clippy::cast_precision_loss, reason = "documented")]
const fn exact(count: u64) -> f64 {
    count as f64
}
