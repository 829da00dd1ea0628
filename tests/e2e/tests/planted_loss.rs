//! A sine of which five percent of the datagrams are withheld: all readers report the same holes, and the data that
//! arrived equals the input, bit for bit.
//!
//! `web/test/page/figure4.test.ts` tests how the page draws it.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use std::f64::consts::TAU;
use std::fs;
use std::ops::Range;
use std::path::Path;

use e2e::{Accounts, Command, get_json, private_bus_from_now, wait_until};
use serde_json::Value;

const STREAM: &str = "figure4/sine";
/// Sample rate: two channels at this rate are some 200 datagrams a second.
const RATE_HZ: f64 = 20_000.0;
const FREQUENCY_HZ: f64 = 50.0;
/// Number of samples: five seconds are some 1,000 datagrams, of which some 50 are withheld; the readers may take
/// three seconds to join.
const SAMPLES: u64 = 100_000;
const SAMPLE_BYTES: usize = 8;
/// Minimum number of holes: even the unluckiest draw withholds more in two seconds (mean 20, deviation 4.4).
const LEAST_HOLES: usize = 5;
const NPY_HEADER_BYTES: usize = 128;

#[test]
fn archive_and_readers_tell_the_same_holes_and_the_rest_is_the_input_bit_for_bit() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), private_bus_from_now());
    let (root, file) = (folder.path().join("archive"), folder.path().join("sine.npy"));
    let (root, file) = (root.to_str().unwrap(), file.to_str().unwrap());
    let input = sine();
    fs::write(file, npy(&input)).unwrap();

    let start = |arguments: &[&str]| Command::start_here(&[arguments, &["--json", "--bus", &bus]].concat());
    let monitor = start(&["monitor", STREAM, "--listen", "127.0.0.1:0", "--patience", "20s"]);
    let address = monitor.wait_for_event("listening")["address"].as_str().unwrap().to_owned();
    let recorder = start(&["record", STREAM, "--run", "figure4", "--root", root, "--until-end"]);
    let reader = start(&["sub", STREAM, "--values", "--until-end", "--reader", "desk"]);
    let publisher = start(&["pub", STREAM, "--file", file, "--rate", "20k", "--loss", "5%"]);
    let (totals, status) = publisher.finish();
    assert!(status.success(), "{totals:?}");
    assert_eq!(totals[0]["samples"]["offered"].as_u64(), Some(SAMPLES), "{totals:?}");

    let heard = reader.finish().0;
    let at_reader = planted_losses(&heard);
    let at_recorder = planted_losses(&recorder.finish().0);
    let at_server = wait_until("the monitor server to settle everything", || {
        let account = get_json(&address, &format!("/api/account?stream={STREAM}"));
        let gaps = format!("/api/gaps?stream={STREAM}&limit=4096");
        (account["state"] == "closed").then(|| get_json(&address, &gaps))
    });
    let at_monitor = planted_losses(&monitor.interrupt().0);

    // Readers join one after the other; the part that all of them received begins with the last join.
    let accounts = [&at_reader, &at_recorder, &at_monitor];
    let since = accounts.map(|it| it.first("elements")).into_iter().max().unwrap();
    let map = holes(at_reader.gaps(), since);
    assert!(map.len() >= LEAST_HOLES, "{map:?}");
    for (who, accounts) in ["reader", "recorder", "monitor"].into_iter().zip(accounts) {
        assert_eq!(accounts.next("elements"), SAMPLES, "{accounts}");
        assert_eq!(holes(accounts.gaps(), since), map, "as the {who} tells it");
    }
    assert_eq!(holes(at_server.as_array().unwrap(), since), map, "as the monitor server tells it");
    assert_eq!(holes(&query(root, &["--gaps"]), since), map, "as the archive tells it");

    let missing: u64 = holes(at_reader.gaps(), 0).iter().map(|hole| hole.end - hole.start).sum();
    assert_eq!(compare_heard(&heard, &input), SAMPLES - at_reader.first("elements") - missing);
    compare_export(root, folder.path(), &input, &at_recorder);
}

/// Returns the input: two channels of `f4`, half a turn apart.
fn sine() -> Vec<u8> {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a few thousand samples"
    )]
    let sample = |index: u64| {
        let value = (TAU * FREQUENCY_HZ * index as f64 / RATE_HZ).sin() as f32;
        [value, -value]
    };
    (0..SAMPLES).flat_map(sample).flat_map(f32::to_le_bytes).collect()
}

/// Returns the input as a NumPy file.
fn npy(data: &[u8]) -> Vec<u8> {
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend(u16::try_from(NPY_HEADER_BYTES - 10).unwrap().to_le_bytes());
    file.extend(format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({SAMPLES}, 2), }}").bytes());
    file.resize(NPY_HEADER_BYTES - 1, b' ');
    file.push(b'\n');
    file.extend(data);
    file
}

/// Returns the accounts among lines; they must be closed, and every loss must be planted.
fn planted_losses(lines: &[Value]) -> Accounts {
    let accounts = Accounts::of(lines);
    assert!(accounts.last()["state"] == "closed" && accounts.is_explained(), "{accounts}");
    assert!(accounts.lost("elements").keys().eq(["injected"]), "{accounts}");
    accounts
}

/// Returns the runs of missing samples from `since` on; adjacent ones are merged, independent of how they were
/// noticed.
fn holes<'v>(gaps: impl IntoIterator<Item = &'v Value>, since: u64) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for gap in gaps {
        let first = gap["first_index"].as_u64().unwrap();
        let end = first + gap["samples"].as_u64().unwrap();
        assert_eq!(gap["lost"].as_object().unwrap().keys().collect::<Vec<_>>(), ["injected"], "{gap}");
        match runs.last_mut() {
            Some(last) if last.end == first => last.end = end,
            _ if end > since => runs.push(first.max(since)..end),
            _ => {}
        }
    }
    runs
}

/// Returns the part of the input that begins with a given sample.
fn input_from(input: &[u8], index: u64, size_bytes: usize) -> &[u8] {
    let start = usize::try_from(index).unwrap() * SAMPLE_BYTES;
    &input[start..start + size_bytes]
}

/// Compares every sample that the reader printed with the input; returns their number.
fn compare_heard(heard: &[Value], input: &[u8]) -> u64 {
    let mut samples = 0;
    for block in heard.iter().filter(|line| line["event"] == "block") {
        let values = block["values"].as_array().unwrap().iter().flat_map(|sample| sample.as_array().unwrap());
        #[expect(clippy::cast_possible_truncation, reason = "what was printed is an f4")]
        let bytes: Vec<u8> =
            values.flat_map(|value| (value.as_f64().unwrap() as f32).to_le_bytes()).collect();
        let first = block["first_index"].as_u64().unwrap();
        assert_eq!(bytes, input_from(input, first, bytes.len()), "the block at {first}");
        samples += block["samples"].as_u64().unwrap();
    }
    samples
}

/// Compares the archive's export with the input; it contains everything that was delivered to the recorder.
fn compare_export(root: &str, folder: &Path, input: &[u8], accounts: &Accounts) {
    let file = folder.join("exported.npy");
    let exported = query(root, &["--export", "npy", file.to_str().unwrap()]).remove(0);
    assert_eq!(
        exported["samples"].as_u64().map(|samples| samples * 2),
        Some(accounts.sum("elements", "delivered"))
    );
    let (array, beside) = (fs::read(&file).unwrap(), fs::read(file.with_extension("json")).unwrap());
    let beside: Value = serde_json::from_slice(&beside).unwrap();
    let (mut data, mut samples) = (&array[NPY_HEADER_BYTES..], 0);
    for row in beside["rows"].as_array().unwrap() {
        assert_eq!(row["missing_elements"], Value::Array(Vec::new()), "datagrams hold whole samples");
        let count = row["samples"].as_u64().unwrap();
        let (run, rest) = data.split_at(usize::try_from(count).unwrap() * SAMPLE_BYTES);
        let first = row["first_index"].as_u64().unwrap();
        assert_eq!(run, input_from(input, first, run.len()), "the run at {first}");
        (data, samples) = (rest, samples + count);
    }
    assert!(data.is_empty());
    assert_eq!(exported["samples"].as_u64(), Some(samples));
}

/// Queries the archive.
fn query(root: &str, what: &[&str]) -> Vec<Value> {
    let (lines, status) =
        Command::start_here(&[&["query", root, STREAM], what, &["--json"]].concat()).finish();
    assert!(status.success(), "{lines:?}");
    lines
}
