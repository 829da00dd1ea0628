//! One run of a system over the path, and its rows.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use peers::place::{Place, Side};
use peers::process::Process;
use peers::{Bench, Case, Standing, Taken, quantiles};
use rustix::process::{Pid, Signal, kill_process};

use crate::datagrams::{Reading, Sending};
use crate::path::{Carried, Conditions, Path};

/// Time for the two programs of a system to find each other, and then its source: they print nothing when they have.
const MEETING: Duration = Duration::from_secs(2);

/// Runs of a system over an invalid path before its counts are kept without its times.
const ATTEMPTS: usize = 4;

/// A system that carries data.
pub(crate) trait System {
    /// Returns the roles of source and reader.
    fn roles(&self) -> [&'static str; 2] {
        ["source", "reader"]
    }

    /// Starts its programs on both sides.
    fn start(&mut self, place: &Place, conditions: &Conditions, ports: &Ports) -> Result<Programs>;
}

/// Ports of a run.
pub(crate) struct Ports {
    /// The near program takes datagrams here.
    pub(crate) accept: u16,
    /// The path begins here.
    pub(crate) entry: u16,
    /// The far program listens here.
    pub(crate) listen: u16,
    /// The far program delivers here.
    pub(crate) deliver: u16,
}

/// The programs of a system.
pub(crate) type Programs = Vec<Program>;

/// A program that runs until this is dropped.
pub(crate) struct Program(Child);

/// Outcome of a run.
pub(crate) struct Outcome {
    sent: u64,
    delays_us: Vec<f64>,
    deadline: Duration,
    carried: Carried,
}

/// Returns whether a program is installed, and notes how to install a missing one.
pub(crate) fn is_there(bench: &Bench, program: &str, package: &str) -> bool {
    let asked = Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if asked.is_err() {
        bench.note(&format!(
            "{program}: not measured: install it with: apt-get install --no-install-recommends {package}"
        ));
    }
    asked.is_ok()
}

/// Starts a program without input and output.
pub(crate) fn spawn(command: &mut Command) -> Result<Program> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.map(Program).with_context(|| format!("cannot start {}", command.get_program().display()))
}

/// Measures one run, again if its path was invalid.
pub(crate) fn run(
    bench: &Bench,
    place: &Place,
    conditions: &Conditions,
    system: &mut dyn System,
) -> Result<Outcome> {
    for _ in 1..ATTEMPTS {
        let outcome = run_once(bench, place, conditions, system)?;
        if !outcome.carried.is_invalid {
            return Ok(outcome);
        }
        bench.check()?;
        eprintln!("wan: the path was invalid; once more");
    }
    run_once(bench, place, conditions, system)
}

fn run_once(
    bench: &Bench,
    place: &Place,
    conditions: &Conditions,
    system: &mut dyn System,
) -> Result<Outcome> {
    let port = |above: u16| place.port.wrapping_add(above);
    let ports = Ports { accept: port(1), entry: port(2), listen: port(3), deliver: port(4) };
    let path = Path::start(bench, place, conditions, [ports.entry, ports.listen])?;
    let [source, reader] = system.roles();
    let reading = Reading { port: ports.deliver, bus_port: ports.accept };
    let mut reader = place.start(Side::Reader, reader, Standing::Reader { index: 0 }, &reading)?;
    reader.hear::<()>("ready")?;
    let programs = system.start(place, conditions, &ports)?;
    std::thread::sleep(MEETING);
    let sending = Sending { port: ports.accept, seconds: bench.extent.seconds };
    let mut source = place.start(Side::Source, source, Standing::Source, &sending)?;
    source.hear::<()>("ready")?;
    std::thread::sleep(MEETING);
    reader.go()?;
    source.go()?;
    let sent = heard(&mut source, "sent")?;
    let delays_us = heard(&mut reader, "delays")?;
    drop(programs);
    Ok(Outcome { sent, delays_us, deadline: conditions.deadline(), carried: path.end()? })
}

fn heard<T: serde::de::DeserializeOwned>(process: &mut Process, event: &str) -> Result<T> {
    process.hear(event).with_context(|| format!("waiting for `{event}`"))
}

/// Prints the rows of a system.
pub(crate) fn rows(case: &Case<'_>, bench: &Bench, taken: &Taken<Outcome>) {
    let row = |metric: &str, unit: &str, of: &dyn Fn(&Outcome) -> f64| {
        case.row(taken.system, metric, unit, taken.runs.iter().map(of));
    };
    row("delivered", "%", &|run| 100.0 * run.delays_us.len() as f64 / run.sent as f64);
    row("missing", "%", &|run| {
        100.0 * (run.sent.saturating_sub(run.delays_us.len() as u64)) as f64 / run.sent as f64
    });
    row("late", "%", &Outcome::late_percent);
    row("p50", "ms", &|run| run.delay_ms(0.5));
    row("p99", "ms", &|run| run.delay_ms(0.99));
    row("datagrams_per_datagram", "x", &|run| run.carried.datagrams() as f64 / run.sent as f64);
    row("bytes_per_byte", "x", &|run| {
        run.carried.bytes() as f64 / (run.sent as f64 * crate::datagrams::SIZE_BYTES as f64)
    });
    if taken.runs.iter().any(|run| run.carried.is_invalid) {
        bench.note("invalid runs of the path keep their counts; their times are left out");
    }
}

impl Outcome {
    /// Returns the share of the datagrams that were delivered after the deadline; not a number if times do not count.
    fn late_percent(&self) -> f64 {
        if self.carried.is_invalid {
            return f64::NAN;
        }
        let deadline_us = self.deadline.as_secs_f64() * 1e6;
        let late = self.delays_us.iter().filter(|delay| **delay > deadline_us).count();
        100.0 * late as f64 / self.sent as f64
    }

    /// Returns a quantile of the delays; not a number if there is none.
    fn delay_ms(&self, share: f64) -> f64 {
        if self.carried.is_invalid || self.delays_us.is_empty() {
            return f64::NAN;
        }
        let [delay_us] = quantiles(self.delays_us.clone(), [share]);
        delay_us / 1e3
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // An error means that it has exited.
        let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
        let _ = self.0.wait();
    }
}
