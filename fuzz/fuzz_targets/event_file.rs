//! Any bytes as an event file of the doctor: judged, or refused with the line.
//!
//! A fuzzer cannot guess JSON, so most inputs are changes to a valid file.
#![no_main]

use std::io::Cursor;

use doctor::{Losses, Replay, finding_json, unplaced_json};
use fuzz::spoil::Spoil;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const WHOLE: &[u8] = include_bytes!("../../crates/app/doctor/tests/events.jsonl");

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    whole: bool,
    bytes: &'a [u8],
    spoils: Vec<Spoil<'a>>,
}

fuzz_target!(|input: Input<'_>| {
    let mut file = if input.whole { WHOLE.to_vec() } else { input.bytes.to_vec() };
    input.spoils.iter().take(8).for_each(|spoil| spoil.apply(&mut file));
    let lines = file.split(|byte| *byte == b'\n').count();
    let Ok(mut replay) = Replay::read(Cursor::new(file)) else { return };
    let mut snapshots = 0;
    while let Ok(Some(seen)) = replay.next_snapshot() {
        snapshots += 1;
        tell(&seen.losses);
    }
    assert!(snapshots < lines, "{snapshots} snapshots are in {lines} lines");
    tell(&replay.finish());
});

fn tell(losses: &Losses) {
    for finding in &losses.findings {
        assert!(finding.count > 0, "{finding:?}");
        drop(finding_json(finding, losses.not_observed));
    }
    losses.unplaced.iter().for_each(|unplaced| drop(unplaced_json(unplaced)));
}
