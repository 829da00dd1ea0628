//! `tallycast lab`: controls compared in the virtual network, as text and as JSON.

use serde_json::Value;

use crate::measured::{Files, check_refusals};
use crate::program::run;

/// Runs the laboratory, which must find nothing to complain about; returns its standard output.
fn lab(arguments: &[&str]) -> String {
    let arguments = [&["lab"], arguments].concat();
    let output = run(&arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

const SHORT: [&str; 10] =
    ["--rate", "20m", "--rtt", "10ms", "--duration", "3s", "--seeds", "2", "--loss", "1e-3"];

#[test]
fn controls_are_compared_in_a_table_in_rows_and_in_files() {
    let (files, saved) = (Files::new(), tempfile::NamedTempFile::new().unwrap());
    let compare = ["compare", "--cc", "reno,fast?alpha=10&gamma=0.4", "--flows", "2"];
    let compare = [&compare[..], &SHORT].concat();
    let save = ["--save", saved.path().to_str().unwrap()];
    let table = lab(&[&compare[..], &files.options(), &save].concat());
    assert!(table.contains("20.0 Mbit/s, round-trip time 10ms") && table.contains("loss 0.10%"), "{table}");
    assert!(table.contains("\nfast?alpha=10&gamma=0.4\n"), "{table}");
    assert_eq!(files.check(1 + 2).matches("<svg").count(), 6);
    let saved: Value = serde_json::from_slice(&std::fs::read(saved).unwrap()).unwrap();
    assert_eq!(saved["conditions"]["seeds"], serde_json::json!([1, 2]));

    let rows = lab(&[&compare[..], &["--json"]].concat());
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (rows[0]["cc"].as_str(), rows[1]["options"].as_str()),
        (Some("reno"), Some("alpha=10&gamma=0.4"))
    );
    for (row, saved) in rows.iter().zip(saved["controls"].as_array().unwrap()) {
        let goodput = &row["goodput_bits_per_second"];
        assert!(goodput.as_f64().is_some_and(|bits| bits > 1e6 && bits < 20e6), "{row}");
        assert_eq!(goodput, &saved["goodput_bits_per_second"], "one seed, one result");
        let packets = |name: &str| row["packets"][name].as_u64().unwrap();
        let ended = packets("delivered") + packets("lost_in_queue") + packets("lost_on_the_way");
        assert_eq!(packets("sent"), ended + packets("in_flight"), "{row}");
        assert!(packets("lost_on_the_way") > 0, "{row}");
    }
}

#[test]
fn all_takes_every_control_that_is_built_in() {
    let mut arguments = vec!["compare", "--cc", "all", "--without-reno", "--json"];
    arguments.extend(["--rate", "10m", "--duration", "1s", "--seeds", "1"]);
    let rows = lab(&arguments);
    for cc in ["udt", "reno", "cubic", "bbr", "fixed", "rbudp"] {
        assert!(rows.contains(&format!("\"cc\":\"{cc}\"")), "{cc} in {rows}");
    }
    assert!(rows.contains("\"friendliness_to_reno\":null"), "{rows}");
}

#[test]
fn a_sweep_has_a_cell_for_each_loss_and_round_trip() {
    let rest =
        ["--losses", "0,1%", "--rtts", "5ms,50ms", "--rate", "10m", "--duration", "2s", "--seeds", "1"];
    let table = lab(&[&["sweep", "--cc", "reno,udt"][..], &rest].concat());
    assert!(table.contains("\nreno\n") && table.contains("\nudt\n") && table.contains("50ms"), "{table}");
    let rows = lab(&[&["sweep", "--cc", "reno,udt", "--json"][..], &rest].concat());
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 8);
    assert_eq!(rows[7]["round_trip_seconds"], 0.05);
}

#[test]
fn what_cannot_be_played_is_refused_with_a_way_out() {
    let refusals = [
        ("compare --cc turbo", "unknown congestion control `turbo`; known are"),
        ("compare --cc fast?beta=1", "unknown option `beta`"),
        ("compare --queue much", "write 64KiB, 5ms or 1bdp"),
        ("compare --mtu 40", "write --mtu from"),
        ("compare --rtt 0s", "write --rtt 100us"),
        ("compare --flows 0", "write --flows from 1"),
        ("compare --seeds 0", "write --seeds 1"),
        ("compare --duration 100ms", "write a longer --duration"),
        ("compare --warm-up 1h", "give a shorter --warm-up"),
        ("sweep --rtts 1", "a duration"),
        ("compare --html /nowhere/c.html", "name a file in a writable folder"),
    ];
    check_refusals("lab", &refusals);
}
