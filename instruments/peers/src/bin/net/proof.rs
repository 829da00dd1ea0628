//! A publisher that signs statements about its samples, beside one that encrypts alone.
//!
//! Both encrypt by the default suite; the signed one digests every byte in the thread that publishes, which here also
//! sends, and signs a statement for every mebibyte. Ratios are within each run.

use anyhow::Result;
use keys::Suite;
use peers::place::Place;
use peers::{Bench, ratios};

use crate::FRAME_BYTES;
use crate::contest::{Contestant, Repeat, Run, loss_free, measure_systems};
use crate::limit::Addressing;
use crate::secured::{Keys, PORTS_EACH};
use crate::stream::{Secured, Stream};

/// Systems, and whether they sign.
const SYSTEMS: [(&str, bool); 2] = [("unsigned", false), ("signed", true)];
/// Bytes of samples in a mebibyte.
const MEBIBYTE: f64 = (1 << 20) as f64;

/// Measures publishers without and with proof, to one reader.
pub(crate) fn measure(bench: &Bench, place: &Place) -> Result<()> {
    let Some(case) = bench.case(format!("{}/{FRAME_BYTES}B/proof", place.name)) else { return Ok(()) };
    let keys = Keys::make(Suite::default())?;
    let mut contestants: Vec<Box<dyn Contestant>> = Vec::new();
    for ((system, is_signed), above) in SYSTEMS.into_iter().zip((0..).step_by(PORTS_EACH.into())) {
        let secured = Secured { system, keys: &keys.path, is_signed, ports_above: above };
        contestants.push(Box::new(Stream::start_secured(place, Addressing::Unicast, FRAME_BYTES, secured)?));
    }
    let records = measure_systems(bench, &case, contestants)?;
    let [unsigned, signed] = &records[..] else { return Ok(()) };
    let [without, with] = [unsigned, signed].map(|record| loss_free(record, Run::datagrams_per_second));
    case.row(signed.system, "loss_free_to_unsigned", "x", ratios(&with, &without));
    let sample_bytes = (FRAME_BYTES - wire::DATA_HEADER_BYTES - wire::SECURED_DATA_BYTES) as f64;
    let cost = |repeat: &Repeat| repeat.unpaced.source_cpu_ns() * MEBIBYTE / sample_bytes / 1e6;
    let costs = signed.runs.iter().zip(&unsigned.runs).map(|(with, without)| cost(with) - cost(without));
    case.row(signed.system, "cpu_per_mebibyte", "ms", costs);
    Ok(())
}
