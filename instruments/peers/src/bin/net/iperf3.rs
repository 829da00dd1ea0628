//! `iperf3`: datagrams, one per call, and the kernel's TCP.

use anyhow::{Context, Result};
use peers::Server;
use peers::place::{Place, Side};
use serde::Deserialize;

use crate::contest::{Contestant, Pace, Run};
use crate::limit::BUFFER_BYTES;
use crate::peer;

pub(crate) const PROGRAM: &str = "iperf3";

/// Minimum datagram size of iperf3. Units: bytes.
pub(crate) const SMALLEST_BYTES: usize = 16;

/// Duration of a run: iperf3 runs for whole seconds.
const SECONDS: u64 = 1;
/// Block size of TCP writes: the program's default. Units: bytes.
const TCP_BLOCK_BYTES: usize = 128 << 10;

/// Datagrams by iperf3.
pub(crate) struct Udp<'a> {
    pub(crate) place: &'a Place,
    pub(crate) datagram_bytes: usize,
    /// True if its loss-free rate is searched for: its runs are long.
    pub(crate) is_searched: bool,
}

/// A byte stream over the kernel's TCP. Its datagrams are counted as bytes divided by the datagram size.
pub(crate) struct Tcp<'a> {
    pub(crate) place: &'a Place,
    pub(crate) datagram_bytes: usize,
}

/// Final report of iperf3, as far as it is used here.
#[derive(Deserialize)]
struct Said {
    end: End,
}

#[derive(Deserialize)]
struct End {
    /// Sum for datagrams.
    sum: Option<Sum>,
    /// Sum for TCP.
    sum_received: Option<Sum>,
    cpu_utilization_percent: Utilization,
}

#[derive(Deserialize)]
struct Sum {
    seconds: f64,
    bytes: u64,
    #[serde(default)]
    packets: u64,
    #[serde(default)]
    lost_packets: i64,
}

#[derive(Deserialize)]
struct Utilization {
    host_total: f64,
    remote_total: f64,
}

impl Utilization {
    /// Returns the times of a run, without its counts.
    fn over(&self, seconds: f64) -> Run {
        let [source_cpu_s, reader_cpu_s] =
            [self.host_total, self.remote_total].map(|percent| percent / 100.0 * seconds);
        Run { seconds, source_cpu_s, reader_cpu_s, ..Run::default() }
    }
}

impl Contestant for Udp<'_> {
    fn system(&self) -> &'static str {
        PROGRAM
    }

    fn is_paced(&self) -> bool {
        self.is_searched
    }

    fn run(&mut self, pace: Pace) -> Result<Run> {
        let bits_per_second =
            pace.datagrams_per_second.map_or(0.0, |rate| rate * self.datagram_bytes as f64 * 8.0);
        let (length, rate) = (self.datagram_bytes.to_string(), format!("{bits_per_second:.0}"));
        let end = run(self.place, &["--udp", "--length", &length, "--bitrate", &rate])?;
        let sum = end.sum.context("iperf3 reported no sum of datagrams")?;
        let lost = u64::try_from(sum.lost_packets).unwrap_or(0);
        let received = sum.packets.checked_sub(lost).context("iperf3 lost more than it sent")?;
        let datagram_bytes = self.datagram_bytes;
        Ok(Run {
            datagram_bytes,
            sent: sum.packets,
            received,
            ..end.cpu_utilization_percent.over(sum.seconds)
        })
    }
}

impl Contestant for Tcp<'_> {
    fn system(&self) -> &'static str {
        "tcp"
    }

    fn is_paced(&self) -> bool {
        false
    }

    fn run(&mut self, _pace: Pace) -> Result<Run> {
        let end = run(self.place, &["--length", &TCP_BLOCK_BYTES.to_string()])?;
        let sum = end.sum_received.context("iperf3 reported no sum of bytes")?;
        let pieces = sum.bytes / self.datagram_bytes as u64;
        let datagram_bytes = self.datagram_bytes;
        Ok(Run {
            datagram_bytes,
            sent: pieces,
            received: pieces,
            ..end.cpu_utilization_percent.over(sum.seconds)
        })
    }
}

/// Runs a server and a client with these arguments.
fn run(place: &Place, arguments: &[&str]) -> Result<End> {
    let port = peer::port(place).to_string();
    let mut serve = peer::command(place, Side::Reader, PROGRAM)?;
    serve.args(["--server", "--one-off", "--forceflush", "--port", &port]);
    let _server = Server::start(&mut serve, "Server listening")?;
    let mut call = peer::command(place, Side::Source, PROGRAM)?;
    call.args(["--client", &place.reader.to_string(), "--port", &port, "--json"]);
    call.args(["--time", &SECONDS.to_string()]).args(arguments);
    if arguments.contains(&"--udp") {
        call.args(["--window", &BUFFER_BYTES.to_string()]);
    }
    let said = peer::output(call)?;
    let said: Said =
        serde_json::from_str(&said).with_context(|| format!("unexpected output of iperf3: {said}"))?;
    Ok(said.end)
}
