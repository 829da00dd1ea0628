//! Reports of other readers, also of other hosts, to publishers of this host.

use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tallycast::{HeardReport, ReaderRows};

use super::snapshots::per_second;
use super::state::{Field, Table};
use super::{Line, lost_of};

/// A reader according to its last report.
#[derive(Clone, Debug)]
pub(super) struct OtherReader {
    name: String,
    from: SocketAddr,
    /// Between its last two reports.
    samples_per_s: Option<f64>,
    /// Samples that were published to its knowledge and that it neither has nor misses.
    lag_samples: u64,
    age: Duration,
    state: &'static str,
    elements: ReaderRows,
}

impl OtherReader {
    pub(super) fn of(heard: &HeardReport, age: Duration) -> Self {
        let elements = heard.report.elements;
        let per_sample = u64::from(elements.per_sample.max(1));
        Self {
            name: heard.report.name.clone(),
            from: heard.from,
            samples_per_s: heard.elements_per_s().map(|rate| rate / f64::from(elements.per_sample.max(1))),
            lag_samples: elements.in_flight / per_sample,
            age,
            state: heard.report.state.name(),
            elements,
        }
    }

    pub(super) fn object(&self) -> Value {
        let Self { name, from, samples_per_s, lag_samples, age, state, elements } = self;
        json!({
            "reader": name, "from": from.to_string(), "state": state, "samples_per_s": samples_per_s,
            "lag_samples": lag_samples, "age_ns": u64::try_from(age.as_nanos()).unwrap_or(u64::MAX),
            "delivered": elements.delivered, "lost": elements.lost, "unexplained": elements.unexplained,
            "unsettled": elements.unsettled, "in_flight": elements.in_flight,
        })
    }
}

/// Returns the panel of all readers of all streams.
pub(super) fn table(lines: &[Line]) -> Table {
    let of_line = |line: &Line| {
        let stream = line.account.stream.as_str().to_owned();
        line.readers.iter().map(move |reader| row(&stream, reader)).collect::<Vec<_>>()
    };
    Table {
        heads: &["STREAM", "READER", "SAMPLES/S", "LAG", "AGE", "LOST"],
        rows: lines.iter().flat_map(of_line).collect(),
    }
}

fn row(stream: &str, reader: &OtherReader) -> Vec<Field> {
    let age = reader.age.as_secs_f64();
    vec![
        Field::text(stream),
        Field::text(format!("{}@{}", reader.name, reader.from.ip())),
        reader.samples_per_s.map_or_else(|| Field::number("?", -1.0), per_second),
        Field::number(reader.lag_samples.to_string(), reader.lag_samples as f64),
        Field::number(format!("{age:.1} s"), age),
        Field::number(lost_of(&reader.elements), reader.elements.missing() as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tallycast::{Stage, StageCounts};

    fn reader(samples_per_s: Option<f64>) -> OtherReader {
        let lost = StageCounts::of(Stage::ReceiverSocketBuffer, 6);
        let elements = ReaderRows {
            next: 10,
            per_sample: 2,
            delivered: 10,
            lost,
            in_flight: 4,
            ..ReaderRows::default()
        };
        OtherReader {
            name: "desk".to_owned(),
            from: "10.84.0.2:9".parse().unwrap(),
            samples_per_s,
            lag_samples: 2,
            age: Duration::from_millis(1_250),
            state: "open",
            elements,
        }
    }

    #[test]
    fn a_row_says_who_how_fast_how_late_how_long_ago_and_what_was_lost() {
        let row = row("lab/wave", &reader(Some(5.5)));
        let texts: Vec<_> = row.iter().map(|field| field.text.as_str()).collect();
        assert_eq!(
            texts,
            ["lab/wave", "desk@10.84.0.2", "5.5", "2", "1.2 s", "6 receiver_socket_buffer"],
            "in the order of the heads"
        );
        assert_eq!(super::row("lab/wave", &reader(None))[2].text, "?", "one report is no rate");
        assert_eq!(table(&[]).heads.len(), row.len());
    }

    #[test]
    fn the_object_has_all_counters_of_the_reader() {
        let object = reader(None).object();
        let sum: u64 = ["delivered", "unexplained", "unsettled", "in_flight"]
            .map(|row| object[row].as_u64().unwrap())
            .iter()
            .sum();
        assert_eq!(sum + object["lost"]["receiver_socket_buffer"].as_u64().unwrap(), 20);
        assert_eq!((&object["samples_per_s"], &object["state"]), (&Value::Null, &json!("open")));
    }
}
