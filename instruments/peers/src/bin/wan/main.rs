//! Live data across a long path: delivered, late, and delays, of `tallycast relay` beside SRT and RIST.
//!
//! Two namespaces are joined by `tallycast link`, which delays both directions and drops some of their datagrams. A
//! source hands over datagrams at a constant rate in one of them, a reader takes them in the other, and both read one
//! monotonic clock. All systems get the same deadline, 2.75 round trips, in which a datagram can be sent again twice: SRT and
//! RIST hold every datagram until then, as they are made to.
//!
//! A run whose path is invalid by the emulator's own verdict is repeated; if it stays so, it keeps its counts and has no
//! delays. Cases are named `RTT/loss/deadline`. Options: [`Bench`].

mod datagrams;
mod path;
mod relay;
mod rist;
mod run;
mod srt;

use anyhow::Result;
use peers::place::{ETHERNET_MTU, Place};
use peers::process::{Role, plays};
use peers::{Bench, Extent};

use path::Conditions;
use run::System;

/// Round trips of the cases. Units: milliseconds.
const ROUND_TRIPS_MS: [u32; 3] = [20, 100, 200];
/// Losses of the cases, in each direction. Units: percent.
const LOSSES: [&str; 3] = ["0.1", "1", "5"];

fn main() -> Result<()> {
    let is_role = plays(&[
        Role::new("source", datagrams::source),
        Role::new("reader", datagrams::reader),
        Role::new("publisher", relay::publisher),
        Role::new("subscriber", relay::subscriber),
    ])?;
    if is_role {
        return Ok(());
    }
    let bench = Bench::begin("wan", Extent { runs: 3, seconds: 10.0 }, Extent { runs: 1, seconds: 3.0 })?;
    let Extent { runs, seconds } = bench.extent;
    bench.introduce(&format!(
        "medians of {runs} runs of {seconds} s at {} datagrams of {} bytes a second, the systems in turn",
        datagrams::RATE,
        datagrams::SIZE_BYTES
    ));
    let Some(place) = Place::veth(&bench, "wan", ETHERNET_MTU)? else { return Ok(()) };
    let grid = ROUND_TRIPS_MS.into_iter().flat_map(|round_trip| LOSSES.map(|loss| (round_trip, loss)));
    for (round_trip_ms, loss_percent) in grid {
        let conditions = Conditions { round_trip_ms, loss_percent };
        let Some(case) = bench.case(conditions.name()) else { continue };
        let mut systems: Vec<(&'static str, Box<dyn System>)> =
            vec![("tallycast", Box::new(relay::Relay::new(&bench)?))];
        if run::is_there(&bench, srt::PROGRAM, "srt-tools") {
            systems.push(("srt", Box::new(srt::Srt)));
        }
        if run::is_there(&bench, rist::SENDER, "rist-tools") {
            systems.push(("rist", Box::new(rist::Rist)));
        }
        let taken =
            case.in_turn(&mut systems, |system| run::run(&bench, &place, &conditions, system.as_mut()))?;
        taken.iter().for_each(|it| run::rows(&case, &bench, it));
    }
    Ok(())
}
