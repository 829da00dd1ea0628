//! Files of a span: every sample with its index, or columns, and the holes between them.

use std::net::SocketAddr;

use serde_json::Value;
use support::wait_until;

use crate::scene::{Answer, Feed, bus, get, has_data, listed, monitor};

/// Returns the answer to an export of `lab/x` in a span.
fn export(address: SocketAddr, from: i64, to: i64, more: &str) -> Answer {
    get(address, &format!("/api/export?stream=lab/x&channel=x&from={from}&to={to}&{more}"))
}

/// Returns the span of which live memory has samples, with more than 1,500 of them.
fn span(address: SocketAddr) -> (i64, i64) {
    let stream = listed(address, "lab/x", |stream| {
        let count = |field: &str| stream[field].as_u64().unwrap();
        has_data(stream) && count("next_index") > count("first_index") + 1_500
    });
    let newest = stream["newest_ns"].as_i64().unwrap();
    (newest - 1_000_000_000, newest + 1)
}

#[test]
fn every_index_of_an_export_is_a_row_or_in_a_hole() {
    let bus = bus();
    let monitor = monitor(&bus);
    let feed = Feed::start(&bus, "lab/x", 0.3, |index| index as f64);
    let address = monitor.address();
    let (from, to) = span(address);
    // Holes are told as soon as they are known: wait until the stream lost something in the span.
    let text = wait_until("an export with a hole between its rows", || {
        let answer = export(address, from, to, "format=csv");
        assert_eq!(answer.status, 200);
        let text = String::from_utf8(answer.body).unwrap();
        text.contains("\n# hole: ").then_some(text)
    });
    let (mut next, mut rows, mut holes) = (None, 0, 0);
    for line in text.lines().filter(|line| !line.starts_with("# ") || line.starts_with("# hole: ")) {
        if let Some(hole) = line.strip_prefix("# hole: ") {
            let words: Vec<&str> = hole.split([' ', ',']).collect();
            let [samples, first]: [u64; 2] = [words[0], words[4]].map(|word| word.parse().unwrap());
            assert!(next.is_none_or(|next| next == first), "{line}");
            next = Some(first + samples);
            holes += 1;
        } else if let Ok([index, time, value]) = <[&str; 3]>::try_from(line.split(',').collect::<Vec<_>>())
            && index != "index"
        {
            let index: u64 = index.parse().unwrap();
            assert!(next.is_none_or(|next| next == index), "{line}");
            assert_eq!(value.parse(), Ok(index as f64));
            assert!((from..to).contains(&time.parse().unwrap()));
            next = Some(index + 1);
            rows += 1;
        }
    }
    assert!(rows > 100 && holes > 0, "{rows} rows, {holes} holes");
    let head = ["# stream: lab/x\n", "# time_scale: UTC, ", "# epoch: ", "\nindex,time_ns,x [V]\n"];
    assert!(head.iter().all(|part| text.contains(part)), "{text}");
    drop(feed);
}

#[test]
fn columns_are_those_of_a_range_and_requests_without_sense_are_refused_by_name() {
    let bus = bus();
    let monitor = monitor(&bus);
    let feed = Feed::start(&bus, "lab/x", 0.0, |index| index as f64);
    let address = monitor.address();
    let (from, to) = span(address);
    let columns = export(address, from, to, "format=csv&values=columns&points=10");
    let text = String::from_utf8(columns.body).unwrap();
    let row = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
    let rows: Vec<_> = text.lines().filter(row).collect();
    let range: Value =
        get(address, &format!("/api/range?stream=lab/x&channel=x&from={from}&to={to}&points=10")).json();
    let drawn = range["columns"].as_array().unwrap();
    assert_eq!(rows.len(), drawn.len());
    for (row, column) in rows.iter().zip(drawn) {
        let cells: Vec<f64> = row.split(',').map(|cell| cell.parse().unwrap()).collect();
        assert_eq!([column[2].as_f64(), column[3].as_f64()], [Some(cells[2]), Some(cells[3])]);
    }
    assert!(text.contains("\nfrom_ns,to_ns,x min [V],x max [V],x samples,x missing_samples\n"), "{text}");
    let parquet = export(address, from, to, "format=parquet");
    assert_eq!((parquet.status, &parquet.body[..4]), (200, &b"PAR1"[..]));

    let refused = |more: &str, status: u16, words: &str| {
        let answer = get(address, &format!("/api/export?{more}"));
        let said = answer.json();
        assert_eq!(answer.status, status, "{said}");
        assert!(said["error"].as_str().unwrap().contains(words), "{said}");
    };
    let times = format!("from={from}&to={to}");
    refused(&format!("stream=lab/x&channel=x&{times}&format=xls"), 400, "format=xls");
    refused(&format!("stream=lab/x&channel=x&{times}&format=csv&values=all"), 400, "values=all");
    refused(&format!("stream=lab/x&{times}&format=csv"), 400, "`channel` is missing");
    refused("stream=lab/x&channel=x&format=csv&from=5&to=5", 400, "ends before it begins");
    refused(&format!("stream=lab/y&channel=x&{times}&format=csv"), 404, "unknown stream");
    refused(&format!("stream=lab/x&channel=y&{times}&format=csv"), 404, "no channel `y`");
    let many = "channel=x&".repeat(101);
    refused(&format!("stream=lab/x&{many}{times}&format=csv"), 400, "at most 100 channels");
    drop(feed);
}
