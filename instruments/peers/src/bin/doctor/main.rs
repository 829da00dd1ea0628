//! Cost of `tallycast doctor watch` on a host that receives datagrams: rates and processor time without it, with
//! counters, with drop events, and with checkpoints, in turn.
//!
//! Datagrams of 100 bytes go over the loopback interface of a network namespace: at 500,000 a second without loss
//! and with a firewall that drops one in ten, and at full speed; also in trains. `--json` prints rows as objects;
//! `--quick` takes fewer and shorter runs, for trying; `--only TEXT` takes the cases whose names contain it. Root
//! only.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use peers::interrupt::Interrupt;
use peers::place::{ETHERNET_MTU, Place, Side};
use peers::{Report, Row};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let command = value("--command").context("--command PATH: `cargo xtask bench doctor` passes its path")?;
    let only = value("--only").unwrap_or_default();
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let (runs, seconds) = if is_quick { (1, "1") } else { (5, "3") };
    let report = Report::from_arguments("doctor");
    report.note(&format!(
        "medians of {runs} runs of {seconds} s (smallest – largest), the modes in turn; busy: of all processors together, in seconds a second"
    ));
    let interrupt = Interrupt::watch()?;
    let place = Place::veth("doctor", ETHERNET_MTU)?.map_err(|reason| anyhow::anyhow!(reason))?;
    for case in CASES.iter().filter(|case| case.name.contains(&only)) {
        let mut taken: Vec<Vec<Taken>> = MODES.iter().map(|_| Vec::new()).collect();
        for run in 0..runs {
            eprintln!("doctor: {}, run {}", case.name, run + 1);
            for ((_, options), taken) in MODES.iter().zip(&mut taken) {
                interrupt.check()?;
                taken.push(measure(&place, &command, case, *options, seconds)?);
            }
        }
        let figures: [Figure; 3] = [
            ("sent", "/s", |it| it.sent),
            ("received", "/s", |it| it.received),
            ("busy", "s/s", |it| it.busy),
        ];
        for (metric, unit, figure) in figures {
            for ((system, _), taken) in MODES.iter().zip(&taken) {
                let runs: Vec<f64> = taken.iter().map(figure).collect();
                report.row(&Row { case: case.name, system, metric, unit, runs: &runs });
            }
        }
    }
    Ok(())
}

type Figure = (&'static str, &'static str, fn(&Taken) -> f64);

/// Figures of one run.
struct Taken {
    /// Datagrams per second.
    sent: f64,
    received: f64,
    /// Processor seconds per second, of all processors together.
    busy: f64,
}

fn measure(
    place: &Place,
    command: &str,
    case: &Case,
    watching: Option<&[&str]>,
    seconds: &str,
) -> Result<Taken> {
    let rules = format!("flush ruleset; {}", if case.is_lossy { RULES } else { "" });
    let status = place.command_of(Side::Reader, "nft").arg(rules).status().context("cannot start nft")?;
    ensure!(status.success(), "nft rejected the rules: {status}");
    let _watch = watching.map(|options| Watch::begin(place, command, options)).transpose()?;
    let before = busy_seconds()?;
    let output = place
        .command_of(Side::Reader, command)
        .args(["bench", "-u", "-b", case.rate, "-l", "100", "-t", seconds, "--repeat", "1", "--json"])
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

/// A running `doctor watch`; dropping it ends it.
struct Watch(Child);

impl Watch {
    fn begin(place: &Place, command: &str, options: &[&str]) -> Result<Self> {
        let mut watching: Command = place.command_of(Side::Reader, command);
        watching.args(["doctor", "watch", "--json"]).args(options);
        let mut child =
            watching.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
        let lines = BufReader::new(child.stdout.take().context("a pipe was asked for")?);
        let watch = Self(child);
        let mut lines = lines.lines();
        let Some(first) = lines.next().transpose()? else { bail!("the doctor printed nothing") };
        ensure!(first.contains("watching"), "unexpected output of the doctor: {first}");
        // Its output must be read, or it would block.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Ok(watch)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // An orderly end removes its files in shared memory.
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        let _ = pid.map(|pid| kill_process(pid, Signal::INT));
        let _ = self.0.wait();
    }
}

/// Returns the busy time of all processors. Units: seconds.
fn busy_seconds() -> Result<f64> {
    let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let line = text.lines().next().context("/proc/stat is empty")?;
    let times: Vec<f64> = line.split_whitespace().skip(1).filter_map(|time| time.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal (`proc_stat(5)`), in hundredths of a second.
    let busy = [0, 1, 2, 5, 6].iter().filter_map(|column| times.get(*column)).sum::<f64>();
    Ok(busy / 100.0)
}
