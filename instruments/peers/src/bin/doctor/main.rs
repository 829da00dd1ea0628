//! Cost of `tallycast doctor watch` on a host that receives datagrams: rates and processor time without it, with
//! counters, with drop events, and with checkpoints, in turn.
//!
//! Datagrams of 100 bytes go over the loopback interface of a network namespace: at 500,000 a second without loss
//! and with a firewall that drops one in ten, and at full speed; also in trains. Options: [`Bench`]. Root only.

use anyhow::{Context, Result, ensure};
use peers::place::{ETHERNET_MTU, Place, Side};
use peers::{Bench, Extent, Server};
use serde_json::Value;
use sys::processor_time::Ticks;

/// A kind of traffic.
struct Case {
    name: &'static str,
    /// Rate, as for `tallycast bench -b`.
    rate: &'static str,
    is_lossy: bool,
    in_trains: bool,
}

const CASES: [Case; 5] = [
    Case { name: "500k/no-loss", rate: "500000pps", is_lossy: false, in_trains: false },
    Case { name: "500k/10%-lost", rate: "500000pps", is_lossy: true, in_trains: false },
    Case { name: "500k/trains", rate: "500000pps", is_lossy: false, in_trains: true },
    Case { name: "unpaced/no-loss", rate: "0", is_lossy: false, in_trains: false },
    Case { name: "unpaced/trains", rate: "0", is_lossy: false, in_trains: true },
];

/// Modes of the doctor with their options.
const MODES: [(&str, Option<&[&str]>); 4] = [
    ("none", None),
    ("counters", Some(&["--no-events"])),
    ("events", Some(&["--profile", PROFILE])),
    ("checkpoints", Some(&["--profile", PROFILE, "--checkpoints"])),
];

/// Position of flow and number in the bench's own datagrams (`probe::flow`).
const PROFILE: &str = "stream=4:8,number=12:8,order=big";

/// Rules that drop one in ten datagrams of that size on input.
const RULES: &str = "table inet lossy { chain in { type filter hook input priority 0; \
                     udp length 108 numgen inc mod 10 3 drop; }; }";

fn main() -> Result<()> {
    let bench = Bench::begin("doctor", Extent { runs: 5, seconds: 3.0 }, Extent { runs: 1, seconds: 1.0 })?;
    let Extent { runs, seconds } = bench.extent;
    bench.introduce(&format!(
        "medians of {runs} runs of {seconds} s (smallest – largest), the modes in turn; busy: of all processors together, in seconds a second"
    ));
    let place = Place::veth(&bench, "doctor", ETHERNET_MTU)?.context("the doctor needs root")?;
    for kind in &CASES {
        let Some(case) = bench.case(kind.name.to_owned()) else { continue };
        let taken = case.in_turn(&mut MODES.clone(), |options| measure(&bench, &place, kind, *options))?;
        let rows = |metric, unit, figure: fn(&Taken) -> f64| {
            taken.iter().for_each(|it| case.row(it.system, metric, unit, it.runs.iter().map(figure)));
        };
        rows("sent", "/s", |it| it.sent);
        rows("received", "/s", |it| it.received);
        rows("busy", "s/s", |it| it.busy);
    }
    Ok(())
}

/// Figures of one run.
struct Taken {
    /// Datagrams per second.
    sent: f64,
    received: f64,
    /// Processor seconds per second, of all processors together.
    busy: f64,
}

fn measure(bench: &Bench, place: &Place, case: &Case, watching: Option<&[&str]>) -> Result<Taken> {
    let rules = format!("flush ruleset; {}", if case.is_lossy { RULES } else { "" });
    let status = place.command(Side::Reader, "nft").arg(rules).status().context("cannot start nft")?;
    ensure!(status.success(), "nft rejected the rules: {status}");
    let command = || Ok::<_, anyhow::Error>(place.command(Side::Reader, bench.command()?));
    let watch =
        |options| Server::start(command()?.args(["doctor", "watch", "--json"]).args(options), "watching");
    let _watch = watching.map(watch).transpose()?;
    let before = busy_seconds()?;
    let seconds = bench.extent.seconds.to_string();
    let output = command()?
        .args(["bench", "-u", "-b", case.rate, "-l", "100", "-t", &seconds, "--repeat", "1", "--json"])
        .args(["--gso", "--gro"].iter().filter(|_| case.in_trains))
        .output()
        .context("cannot start the bench")?;
    let busy = busy_seconds()? - before;
    let said: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        format!("unexpected output of the bench: {}", String::from_utf8_lossy(&output.stderr))
    })?;
    let (mut sent, mut received, mut all) = (0.0, 0.0, 0.0);
    for interval in said["intervals"].as_array().context("no intervals")? {
        let value = |side: &str, name: &str| interval[side][name].as_f64().unwrap_or(0.0);
        sent += value("sum_sent", "packets");
        // As in iperf3, the receiver's packets include the lost ones.
        received += value("sum_received", "packets") - value("sum_received", "lost_packets");
        all += value("sum_sent", "seconds");
    }
    ensure!(all > 0.0, "the bench measured no time");
    let lost = 1.0 - received / sent;
    ensure!(!case.is_lossy || lost > 0.09, "expected a loss of 0.1, measured {lost:.3}");
    Ok(Taken { sent: sent / all, received: received / all, busy: busy / all })
}

/// Returns the busy time of all processors. Units: seconds.
fn busy_seconds() -> Result<f64> {
    Ok(Ticks::of_all().context("cannot read /proc/stat")?.work().as_secs_f64())
}
