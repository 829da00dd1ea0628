//! From `pub` to `sub`: the received samples are those sent, and the account has the rest.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};
use source::{Piece, Shape, Source, WaveOptions};
use support::ports::{private_bus, private_bus_from_now};
use support::wait_until;

use crate::accounts::{Accounts, count};
use crate::program::{Running, command, run, run_with};
use crate::reaches::{host_bus, memory};

fn is_event(line: &Value, event: &str) -> bool {
    line["event"] == json!(event)
}

/// Publishes a waveform until a reader has enough samples; returns the publisher's totals and the reader's lines.
fn publish_and_read(publish: &[&str], read: &[&str], samples: u64) -> (Value, Vec<Value>) {
    let bus = private_bus_from_now();
    let shared = ["--json", "--bus", &bus];
    let reader = Running::start(&[&["sub", "test/*", "--until-end"], read, &shared].concat());
    let publisher = Running::start(&[&["pub", "test/wave"], publish, &shared].concat());
    let mut seen = 0;
    let mut lines = reader.lines_until(|line| {
        seen += line["samples"].as_u64().filter(|_| is_event(line, "block")).unwrap_or(0);
        seen >= samples
    });
    publisher.signal(Signal::INT);
    let (status, totals) = publisher.wait();
    assert!(status.success(), "{status}");
    let (status, rest) = reader.wait();
    assert!(status.success(), "{status}: {rest:?}");
    lines.extend(rest);
    (totals.into_iter().next().unwrap(), lines)
}

#[test]
fn on_demand_nothing_goes_out_before_a_reader_is_heard() {
    let bus = private_bus();
    let shared = ["--json", "--bus", &bus];
    let publish = ["pub", "test/wave", "--wave", "sine", "--rate", "20k", "--send", "on_demand"];
    let publisher = Running::start(&[&publish, &shared[..]].concat());
    // A reader that only lists streams does not subscribe to them.
    wait_until("the announcement", || {
        (!run(&[&["ls"], &shared[..]].concat()).stdout.is_empty()).then_some(())
    });
    let reader = Running::start(&[&["sub", "test/*", "--until-end"], &shared[..]].concat());
    let mut seen = 0;
    let mut lines = reader.lines_until(|line| {
        seen += line["samples"].as_u64().filter(|_| is_event(line, "block")).unwrap_or(0);
        seen >= 10_000
    });
    publisher.signal(Signal::INT);
    let (status, totals) = publisher.wait();
    assert!(status.success(), "{status}");
    lines.extend(reader.wait().1);
    let (samples, accounts) = (&totals[0]["samples"], Accounts::whole(&lines));
    assert!(count(&samples["publisher_paused"]) > 0, "{samples}");
    let accounted_for = count(&samples["numbered"]) + count(&samples["publisher_paused"]);
    assert_eq!(accounted_for, count(&samples["offered"]), "{samples}");
    let paused = accounts.lost().get("publisher_paused").copied().unwrap_or(0);
    assert_eq!(accounts.delivered() + paused, accounts.next() - accounts.first());
}

#[test]
fn a_published_waveform_is_read_and_its_account_closes() {
    let publish = ["--wave", "sine", "--rate", "20k", "--channels", "2"];
    let (totals, lines) = publish_and_read(&publish, &["--reader", "desk"], 20_000);
    let accounts = Accounts::whole(&lines);
    let account = accounts.last();
    assert_eq!(account["reader"], "desk");
    assert_eq!(account["stream"], "test/wave");
    assert_eq!(account["elements"]["per_sample"], 2);
    assert_eq!(account["elements"]["next"], totals["samples"]["offered"]);
    assert_eq!(totals["samples"]["queued"], 0);
    let departures = &totals["departures"];
    let intervals = departures["intervals"].as_array().unwrap();
    let counted: u64 = intervals.iter().map(|interval| count(&interval["count"])).sum();
    assert_eq!(counted + 1, count(&departures["trains"]), "{departures}");
    // Every number once; the final tally also under one, and its four repeats may leave after the totals were told.
    let numbers = count(&account["datagrams"]["next"]);
    assert!((numbers..=numbers + 4).contains(&count(&departures["datagrams"])), "{departures}");
    let (reports, readers) = (&totals["reports"], totals["readers"].as_array().unwrap());
    assert!(count(&reports["taken"]) >= readers.len() as u64, "{reports}");
    assert_eq!(count(&reports["foreign"]) + count(&reports["borrowed"]), 0, "{reports}");
    let began = &lines[0];
    assert!(is_event(began, "began"), "{began}");
    assert_eq!(began["schema"]["dtype"], "f4");
    assert_eq!(began["schema"]["rate"], json!({"numerator": 20_000, "denominator": 1}));
}

#[test]
fn with_planted_loss_what_arrives_is_bit_identical_and_the_rest_is_injected() {
    let publish = ["--wave", "chirp", "--rate", "50k", "--frequency", "5", "--loss", "5%"];
    let (totals, lines) = publish_and_read(&publish, &["--values"], 50_000);
    assert!(count(&totals["datagrams"]["injected"]) > 0, "{totals}");
    let accounts = Accounts::whole(&lines);
    assert_eq!(accounts.lost().into_keys().collect::<Vec<_>>(), ["injected"]);
    assert!(lines.iter().any(|line| is_event(line, "gap")));

    let read = values_by_index(&lines);
    let expected = chirp(accounts.next());
    for (index, value) in &read {
        let expected = expected[usize::try_from(*index).unwrap()];
        assert_eq!(value.to_bits(), expected.to_bits(), "sample {index}");
    }
    assert_eq!(accounts.delivered(), read.len() as u64);
    assert_eq!(accounts.next() - accounts.first() - read.len() as u64, accounts.lost()["injected"]);
}

/// Collects the values of all blocks; no sample may come twice.
fn values_by_index(lines: &[Value]) -> BTreeMap<u64, f32> {
    let mut read = BTreeMap::new();
    for block in lines.iter().filter(|line| is_event(line, "block")) {
        for (offset, sample) in block["values"].as_array().unwrap().iter().enumerate() {
            let index = count(&block["first_index"]) + offset as u64;
            #[expect(clippy::cast_possible_truncation, reason = "it was a single float when it was printed")]
            let value = sample[0].as_f64().unwrap() as f32;
            assert_eq!(read.insert(index, value), None, "sample {index} came twice");
        }
    }
    read
}

#[test]
fn a_thinned_stream_has_every_window_of_its_samples_and_its_account_closes() {
    let publish = ["--wave", "chirp", "--rate", "50k", "--frequency", "5", "--thin", "1ms"];
    let calibrate = ["--calibrate", "ch0=1000,0,mV"];
    let (totals, lines) = publish_and_read(&[&publish[..], &calibrate].concat(), &["--values"], 1_000);
    let accounts = Accounts::whole(&lines);
    assert_eq!(accounts.delivered(), 4 * (accounts.next() - accounts.first()), "nothing was lost");
    assert_eq!(totals["samples"]["offered"], json!(accounts.next()));
    let taken = count(&totals["taken_samples"]);
    assert_eq!(taken.div_ceil(50), accounts.next());
    let began = lines.iter().find(|line| is_event(line, "began")).unwrap();
    assert_eq!(began["schema"]["rate"], json!({"numerator": 1_000, "denominator": 1}));
    assert_eq!(began["schema"]["labels"]["thin"], "1ms");
    let channel = &began["schema"]["channels"][2];
    assert_eq!((&channel["name"], &channel["unit"]), (&json!("ch0.mean"), &json!("mV")));

    let expected = chirp(taken);
    let mut samples = 0;
    for block in lines.iter().filter(|line| is_event(line, "block")) {
        for (index, row) in (count(&block["first_index"])..).zip(block["values"].as_array().unwrap()) {
            let start = usize::try_from(index * 50).unwrap();
            let window = &expected[start..expected.len().min(start + 50)];
            let [min, max, mean, n] = [0, 1, 2, 3].map(|place| row[place].as_f64().unwrap());
            let extreme = |pick: fn(f32, f32) -> f32| window.iter().copied().reduce(pick).unwrap();
            let in_millivolts = |value: f32| f64::from(value) * 1e3;
            let is_near = |a: f64, b: f64| (a - b).abs() < 1e-3;
            assert!(is_near(min, in_millivolts(extreme(f32::min))), "window {index}: {row}");
            assert!(is_near(max, in_millivolts(extreme(f32::max))), "window {index}: {row}");
            let sum: f64 = window.iter().copied().map(in_millivolts).sum();
            assert!(is_near(mean, sum / window.len() as f64), "window {index}: {row}");
            assert_eq!(n, window.len() as f64);
            samples += window.len() as u64;
        }
    }
    // The reader came at any time: the windows that it did not miss have all samples from there on.
    assert_eq!(samples, taken - accounts.first() * 50);
}

/// Makes the publisher's waveform.
fn chirp(samples: u64) -> Vec<f32> {
    let options = WaveOptions {
        frequency_hz: Some(5.0),
        samples: Some(samples),
        ..WaveOptions::new("test/wave".parse().unwrap(), Shape::Chirp, "50k".parse().unwrap())
    };
    let mut wave = options.open().unwrap();
    let mut values = Vec::new();
    while let Piece::Samples(bytes) = wave.next(NonZeroU64::MAX).unwrap() {
        values.extend(bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())));
    }
    values
}

#[test]
fn a_reader_that_is_interrupted_still_prints_its_account() {
    // Within one host, where a delayed publisher does not count as silent.
    let memory = memory();
    let bus = host_bus(&memory);
    let publisher = Running::start(&["pub", "test/wave", "--wave", "ramp", "--rate", "20k", "--bus", &bus]);
    let reader = Running::start(&["sub", "**", "--json", "--bus", &bus]);
    let mut lines = reader.lines_until(|line| is_event(line, "block"));
    reader.signal(Signal::INT);
    let (status, rest) = reader.wait();
    assert!(status.success(), "{status}");
    lines.extend(rest);
    let account = lines.last().unwrap();
    assert!(is_event(account, "account"), "{account}");
    assert_eq!(account["state"], "cut");
    assert_eq!(account["balanced"], json!(true));
    // Delivered samples were printed, to the last one.
    let printed: u64 =
        lines.iter().filter(|line| is_event(line, "block")).map(|it| count(&it["samples"])).sum();
    assert_eq!(count(&account["elements"]["delivered"]), printed);
    publisher.signal(Signal::TERM);
    assert!(publisher.wait().0.success());
}

#[test]
fn lines_of_standard_input_become_samples() {
    let bus = private_bus_from_now();
    let reader = Running::start(&["sub", "lab/*", "--json", "--values", "--until-end", "--bus", &bus]);
    let publish = [
        "pub", "lab/adc", "--stdin", "lines", "--rate", "100", "--dtype", "i16", "--unit", "mV", "--bus",
        &bus,
    ];
    let mut publisher = Running::start(&publish);
    publisher.write("current, voltage\n1, -2\n");
    let began = reader.lines_until(|line| is_event(line, "began"));
    let channels = &began.last().unwrap()["schema"]["channels"];
    assert_eq!(channels[0]["name"], "current");
    assert_eq!(channels[1]["unit"], "mV");
    publisher.write("3, -4\n");
    publisher.close_input();
    assert!(publisher.wait().0.success());
    let (status, lines) = reader.wait();
    assert!(status.success(), "{status}");
    let values: Vec<&Value> = lines.iter().filter_map(|line| line["values"].as_array()).flatten().collect();
    assert_eq!(values.last(), Some(&&json!([3, -4])), "{lines:?}");
}

#[test]
fn a_file_reaches_a_reader_that_is_there_from_its_first_sample() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), private_bus());
    let path = folder.path().join("short.csv");
    let rows: String = (0..200).map(|row| format!("{row}\n")).collect();
    std::fs::write(&path, format!("a\n{rows}")).unwrap();
    let reader = Running::start(&["sub", "lab/*", "--json", "--values", "--until-end", "--bus", &bus]);
    let file = ["--file", path.to_str().unwrap(), "--rate", "1k", "--wait", "1h"];
    let publisher = Running::start(&[&["pub", "lab/short"], &file[..], &["--json", "--bus", &bus]].concat());
    assert!(publisher.wait().0.success());
    let (status, lines) = reader.wait();
    assert!(status.success(), "{status}: {lines:?}");
    let accounts = Accounts::whole(&lines);
    assert_eq!((accounts.first(), accounts.delivered()), (0, 200));
    let values: Vec<f64> = lines
        .iter()
        .filter_map(|line| line["values"].as_array())
        .flatten()
        .map(|it| it[0].as_f64().unwrap())
        .collect();
    assert_eq!(values, (0..200).map(f64::from).collect::<Vec<_>>());
}

#[test]
fn a_publisher_that_waits_for_its_first_line_can_be_ended() {
    let bus = private_bus();
    let waiting =
        ["pub", "lab/adc", "--stdin", "lines", "--rate", "10", "--duration", "500ms", "--bus", &bus];
    // Its standard input stays open and silent.
    assert!(Running::start(&waiting).wait().0.success());
}

#[test]
fn a_burst_of_lines_is_not_older_than_its_stream() {
    let bus = private_bus();
    let reader = Running::start(&["sub", "lab/*", "--json", "--until-end", "--bus", &bus]);
    let publish = ["pub", "lab/burst", "--stdin", "lines", "--rate", "10", "--wait", "1h", "--bus", &bus];
    let mut publisher = Running::start(&publish);
    let lines: String = (0..1_000).map(|line| format!("{line}\n")).collect();
    publisher.write(&lines);
    publisher.close_input();
    let began = reader.lines_until(|line| is_event(line, "began")).pop().unwrap();
    assert!(publisher.wait().0.success());
    let (status, lines) = reader.wait();
    assert!(status.success(), "{status}");
    let epoch_ns: i64 = began["epoch"].as_str().unwrap().split('-').next().unwrap().parse().unwrap();
    let mut newest = (0, epoch_ns);
    for block in lines.iter().filter(|line| is_event(line, "block")) {
        let (first, t0) = (count(&block["first_index"]), block["t0_ns"].as_i64().unwrap());
        assert_eq!(first, newest.0, "nothing is missing");
        assert!(t0 >= newest.1, "{t0} is before {}", newest.1);
        let samples = count(&block["samples"]);
        newest = (first + samples, t0 + i64::try_from(samples - 1).unwrap() * 100_000_000);
    }
    assert_eq!(newest.0, 1_000);
}

#[test]
fn a_reader_of_what_is_not_there_says_so() {
    let output = run(&["sub", "nosuch", "--duration", "100ms", "--bus", &private_bus()]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no stream matched") && said.contains("tallycast ls"), "{said}");
}

#[test]
fn a_publisher_whose_words_nobody_reads_does_its_work() {
    let bus = private_bus();
    let publish = ["pub", "test/wave", "--wave", "ramp", "--rate", "1k", "--count", "10", "--bus", &bus];
    assert_eq!(run_unheard(&publish), Some(0));
    assert_eq!(run_unheard(&["pub", "test/wave", "--wave", "ramp", "--bus", &bus]), Some(2));
}

#[test]
fn announced_streams_are_listed() {
    let bus = private_bus();
    let publisher = Running::start(&["pub", "--signal", "ecg", "--loop", "--bus", &bus]);
    // The first listing may precede the first announcement.
    let line: Value = wait_until("an announcement", || {
        let listed = run(&["ls", "--json", "--wait", "1500ms", "--bus", &bus]);
        assert!(listed.status.success());
        let text = String::from_utf8(listed.stdout).unwrap();
        text.lines().next().map(|line| serde_json::from_str(line).unwrap())
    });
    assert_eq!(line["stream"], "signal/ecg");
    assert_eq!(line["rate"]["numerator"], 360);
    wait_until("an announcement in a table", || {
        let table = run_with(&["ls"], &[("TALLYCAST_BUS", &bus)], "");
        String::from_utf8(table.stdout).unwrap().contains("signal/ecg").then_some(())
    });
    publisher.signal(Signal::INT);
    assert!(publisher.wait().0.success());
}

/// Runs the program to its end with a closed standard error; returns its exit code.
fn run_unheard(arguments: &[&str]) -> Option<i32> {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer).status();
    status.unwrap().code()
}
