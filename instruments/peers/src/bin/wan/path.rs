//! The long path: `tallycast link` as a relay in front of the far side.

use std::io::{BufRead, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use peers::Bench;
use peers::place::{Place, Side};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

/// Delay of a datagram behind its time by which a run's delays become invalid: a hundredth of the shortest one-way delay
/// of the cases is a tenth of a millisecond, which a shared machine does not keep; this is what its figures can bear.
const LATE: &str = "1ms";

/// Time that programs which hold every datagram until a set time take beyond it to deliver: of a hundred datagrams one takes
/// SRT 12 ms, RIST 5 ms.
///
/// Source: measured with both, on a busy host.
const DELIVERING: Duration = Duration::from_millis(15);

/// Conditions of a case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    /// Without queues, half in each direction.
    pub(crate) round_trip_ms: u32,
    /// In each direction.
    pub(crate) loss_percent: &'static str,
}

/// The emulator between the two sides; dropping it ends it.
pub(crate) struct Path {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

/// Report of the emulator on one run.
#[derive(Deserialize, Debug)]
pub(crate) struct Carried {
    /// Whether its times do not count.
    #[serde(rename = "is_void")]
    pub(crate) is_invalid: bool,
    there: Direction,
}

#[derive(Deserialize, Debug)]
struct Direction {
    taken: u64,
    taken_bytes: u64,
}

impl Conditions {
    /// Returns the name of the case.
    pub(crate) fn name(&self) -> String {
        let deadline_ms = self.deadline().as_millis();
        format!("rtt-{}ms/loss-{}%/deadline-{deadline_ms}ms", self.round_trip_ms, self.loss_percent)
    }

    /// Returns the one-way delay.
    pub(crate) fn one_way(&self) -> Duration {
        Duration::from_millis(self.round_trip_ms.into()) / 2
    }

    /// Returns the deadline from the source to the reader: time for two repairs, and a quarter of a round trip.
    pub(crate) fn deadline(&self) -> Duration {
        Duration::from_millis(self.round_trip_ms.into()) * 11 / 4
    }

    /// Returns the time for which a system holds every datagram beyond the one-way delay. Units: milliseconds.
    pub(crate) fn reserve_ms(&self) -> String {
        (self.deadline() - self.one_way() - DELIVERING).as_millis().to_string()
    }
}

impl Path {
    /// Starts the emulator on the far side, in front of `to`.
    pub(crate) fn start(
        bench: &Bench,
        place: &Place,
        conditions: &Conditions,
        [entry, to]: [u16; 2],
    ) -> Result<Self> {
        let mut command = place.command(Side::Reader, bench.command()?);
        let address = place.reader;
        command.args(["link", "--json", "--seed", "1", "--fifo", "20", "--late", LATE]);
        command.args(["--relay", &format!("{address}:{entry}"), "--to", &format!("{address}:{to}")]);
        command.args(["--delay", &format!("{}us", conditions.one_way().as_micros())]);
        command.args(["--loss", &format!("{}%", conditions.loss_percent)]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("cannot start tallycast link")?;
        let mut lines = BufReader::new(child.stdout.take().context("a pipe was asked for")?);
        let mut line = String::new();
        ensure!(lines.read_line(&mut line)? > 0, "tallycast link exited before it listened");
        Ok(Self { child, lines })
    }

    /// Ends the run; returns the report.
    pub(crate) fn end(mut self) -> Result<Carried> {
        self.stop();
        let mut report = String::new();
        self.lines.read_to_string(&mut report)?;
        serde_json::from_str(report.trim()).with_context(|| format!("no report of the link: {report}"))
    }

    fn stop(&self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        // An error means that it has exited already, and has written its report.
        let _ = pid.map(|pid| kill_process(pid, Signal::INT));
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.stop();
        let _ = self.child.wait();
    }
}

impl Carried {
    /// Returns the datagrams that entered the path towards the reader.
    pub(crate) const fn datagrams(&self) -> u64 {
        self.there.taken
    }

    /// Returns their payload.
    pub(crate) const fn bytes(&self) -> u64 {
        self.there.taken_bytes
    }
}
