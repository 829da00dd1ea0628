//! The highest rate at which nothing is lost, and processor time per datagram on each side.

use anyhow::Result;
use peers::interrupt::Interrupt;
use peers::place::Place;
use peers::{Report, Row};

use crate::RUNS;
use crate::peer::{Content, ELEMENTS, Order, Pair, Run};

/// Duration of each run.
const SECONDS: f64 = 1.0;
/// First rate of the search, which every machine reaches. Units: datagrams per second.
const FIRST: f64 = 20_000.0;
/// Step of the search: the figure is accurate to a tenth.
const STEP: f64 = 1.1;
/// Last rate of the search, more than a core can do. Units: datagrams per second.
const LAST: f64 = 4_000_000.0;
/// Rate at which processor time is measured, easy for both sides. Units: datagrams per second.
const EASY: f64 = 50_000.0;

/// Measures both pairs in turn, so that disturbances affect both.
pub(crate) fn measure(
    report: &Report,
    place: &Place,
    pairs: &mut [Pair; 2],
    interrupt: &Interrupt,
) -> Result<()> {
    let mut start = [FIRST; 2];
    let (mut best, mut easy) = ([const { Vec::new() }; 2], [const { Vec::new() }; 2]);
    for repeat in 0..RUNS {
        for (index, pair) in pairs.iter_mut().enumerate() {
            if repeat == 0 {
                start[index] = coarse(pair, interrupt)?;
            }
            let (rate, run) = highest_loss_free(pair, start[index], interrupt)?;
            start[index] = rate;
            best[index].push(run);
            easy[index].push(at(pair, EASY)?);
        }
    }
    let case = format!("{}/1472B", place.name);
    let print = |system, metric, unit, runs: &[Run], value: &dyn Fn(&Run) -> f64| {
        let runs: Vec<f64> = runs.iter().map(value).collect();
        report.row(&Row { case: &case, system, metric, unit, runs: &runs });
    };
    for (index, pair) in pairs.iter().enumerate() {
        let system = pair.system;
        print(system, "loss_free_datagrams", "/s", &best[index], &Run::datagrams_per_second);
        if system == "tallycast" {
            let elements = |run: &Run| run.datagrams_per_second() * ELEMENTS as f64;
            print(system, "loss_free_elements", "/s", &best[index], &elements);
        }
        print(system, "cpu_source_50k", "us", &easy[index], &|run| per_datagram(run, run.sent.cpu_s));
        print(system, "cpu_reader_50k", "us", &easy[index], &|run| per_datagram(run, run.received.cpu_s));
        print(system, "cpu_source_max", "us", &best[index], &|run| per_datagram(run, run.sent.cpu_s));
        print(system, "cpu_reader_max", "us", &best[index], &|run| per_datagram(run, run.received.cpu_s));
    }
    let ratio = |(plain, stream): (&Run, &Run)| stream.datagrams_per_second() / plain.datagrams_per_second();
    let ratios: Vec<f64> = best[0].iter().zip(&best[1]).map(ratio).collect();
    report.row(&Row { case: &case, system: "tallycast", metric: "rate_to_plain", unit: "x", runs: &ratios });
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a count of a short run")]
fn per_datagram(run: &Run, cpu_s: f64) -> f64 {
    cpu_s / run.received.datagrams as f64 * 1e6
}

/// Doubles the rate until something is lost; returns the last rate without loss.
fn coarse(pair: &mut Pair, interrupt: &Interrupt) -> Result<f64> {
    let mut rate = FIRST;
    while rate < LAST && loss_free(pair, rate * 2.0, interrupt)?.is_some() {
        rate *= 2.0;
    }
    Ok(rate)
}

/// Searches up or down from `start` for the highest rate at which a run loses nothing.
fn highest_loss_free(pair: &mut Pair, start: f64, interrupt: &Interrupt) -> Result<(f64, Run)> {
    let (mut rate, mut best) = (start, None);
    loop {
        match (loss_free(pair, rate, interrupt)?, best.take()) {
            (Some(run), _) if rate < LAST => best = Some((rate, run)),
            (Some(run), _) => return Ok((rate, run)),
            (None, Some(best)) => return Ok(best),
            (None, None) => {
                rate /= STEP;
                anyhow::ensure!(
                    rate > FIRST / 10.0,
                    "no rate above {rate:.0} datagrams a second is loss-free"
                );
                if let Some(run) = loss_free(pair, rate, interrupt)? {
                    return Ok((rate, run));
                }
                continue;
            }
        }
        rate *= STEP;
    }
}

/// Runs at a rate; `None` if something was lost or the source was too slow.
fn loss_free(pair: &mut Pair, rate: f64, interrupt: &Interrupt) -> Result<Option<Run>> {
    interrupt.check()?;
    let run = at(pair, rate)?;
    Ok((run.is_whole() && run.datagrams_per_second() >= rate * 0.95).then_some(run))
}

fn at(pair: &mut Pair, rate: f64) -> Result<Run> {
    pair.run(&Order { content: Content::Bulk { datagrams_per_second: rate }, seconds: SECONDS })
}
