//! A stream with default options over multicast, beside *plain* datagrams: the same ones through bare sockets, whose
//! reader sleeps in the receiving call itself, without trains, stream, account or ring. What a stream costs is the
//! ratio of the two.

use anyhow::Result;
use peers::place::Place;
use peers::{Bench, quantiles, ratios};

use crate::FRAME_BYTES;
use crate::contest::{Contestant, Pace, Run, loss_free, searched};
use crate::latency::{SHARES, rows};
use crate::limit::{Addressing, Limit};
use crate::stream::{Content, STAMP_BYTES, Stream, elements_per_datagram};

const ONE_READER: Addressing = Addressing::Multicast { readers: 1 };
/// Duration of a run, as a multiple of the other cases'.
const LONGER: f64 = 5.0;
/// Rate at which processor time is measured, easy for both sides.
const EASY: Option<f64> = Some(50_000.0);
/// Time stamps per second.
const STAMPS: Option<f64> = Some(1_000.0);

/// Stamps of a run whose delays are left out: a publisher holds its first samples until its readers have joined.
const HELD_STAMPS: usize = 500;

/// Measures rates, processor time and delays.
pub(crate) fn measure(bench: &Bench, place: &Place) -> Result<()> {
    measure_rates(bench, place)?;
    measure_delays(bench, place)
}

/// Measures the highest rate at which nothing is lost, and processor time per datagram on each side.
fn measure_rates(bench: &Bench, place: &Place) -> Result<()> {
    let Some(case) = bench.case(format!("{}/1472B", place.name)) else { return Ok(()) };
    let seconds = bench.extent.seconds * LONGER;
    let stream = Stream::start(place, ONE_READER, FRAME_BYTES, Content::Samples)?;
    let mut systems = searched(vec![Box::new(Limit::plain(place, FRAME_BYTES)), Box::new(stream)]);
    let best = case.in_turn(&mut systems, |it| it.repeat(bench, seconds))?;
    let easy =
        case.in_turn(&mut systems, |it| it.contestant.run(Pace { datagrams_per_second: EASY, seconds }))?;
    for (record, easy) in best.iter().zip(&easy) {
        let row = |metric, unit, values| case.row(record.system, metric, unit, values);
        row("loss_free_datagrams", "/s", loss_free(record, Run::datagrams_per_second));
        if record.system == "tallycast" {
            let elements = elements_per_datagram(FRAME_BYTES) as f64;
            row("loss_free_elements", "/s", loss_free(record, |run| run.datagrams_per_second() * elements));
        }
        let easy = |value: fn(&Run) -> f64| easy.runs.iter().map(|run| value(run) / 1e3).collect();
        row("cpu_source_50k", "us", easy(Run::source_cpu_ns));
        row("cpu_reader_50k", "us", easy(Run::reader_cpu_ns));
        // Without a loss-free rate there is no cost at it.
        let most = |value: fn(&Run) -> f64| {
            let found = record.runs.iter().filter_map(|repeat| repeat.loss_free.as_ref()?.as_ref());
            found.map(|run| value(run) / 1e3).collect()
        };
        row("cpu_source_max", "us", most(Run::source_cpu_ns));
        row("cpu_reader_max", "us", most(Run::reader_cpu_ns));
    }
    let [plain, stream] = [0, 1].map(|index| loss_free(&best[index], Run::datagrams_per_second));
    case.row("tallycast", "rate_to_plain", "x", ratios(&stream, &plain));
    Ok(())
}

/// Measures the delay of a sample on its path to a reader; of a stream both without linger and with the default.
fn measure_delays(bench: &Bench, place: &Place) -> Result<()> {
    let Some(case) = bench.case(format!("{}/one-way", place.name)) else { return Ok(()) };
    let seconds = bench.extent.seconds * LONGER * 2.0;
    let stream = |linger_ms| -> Result<Box<dyn Contestant>> {
        Ok(Box::new(Stream::start(place, ONE_READER, STAMP_BYTES, Content::Stamps { linger_ms })?))
    };
    let mut systems: [(_, Box<dyn Contestant>); 3] = [
        ("plain", Box::new(Limit::plain(place, STAMP_BYTES))),
        ("tallycast", stream(0)?),
        ("tallycast", stream(5)?),
    ];
    let taken = case.in_turn(&mut systems, |it| {
        let run = it.run(Pace { datagrams_per_second: STAMPS, seconds })?;
        Ok(quantiles(run.delays_us.into_iter().skip(HELD_STAMPS).collect(), SHARES))
    })?;
    for (taken, linger) in taken.iter().zip(["", "/linger-0ms", "/linger-5ms"]) {
        rows(&case.with(linger), taken.system, "us", &taken.runs);
    }
    Ok(())
}
