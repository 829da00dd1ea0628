//! Datagrams from a source to readers, over loopback and a veth pair: datagrams and bits per second, losses, the
//! highest loss-free rate, processor time per datagram on each side, delays.
//!
//! The reference is `limit`, the same datagrams through bare sockets ([`limit`]). Measured alternately with it in every
//! run are `tallycast`, a stream from publisher to subscriber, and other tools: `iperf3`, `nuttcp`, `sockperf`, and the
//! kernel's TCP. A case is named `place/size/calls`, such as `loopback/1472B/gso`; cases of multicast say so.
//!
//! `--json` prints rows as objects; `--quick` takes fewer and shorter runs, for trying; `--only TEXT` takes the cases
//! whose names contain it.

mod contest;
mod iperf3;
mod latency;
mod limit;
mod nuttcp;
mod peer;
mod search;
mod standing;
mod stream_latency;
mod tallycast;

use std::cell::{Cell, RefCell};

use anyhow::{Context, Result, bail};
use peers::Report;
use peers::interrupt::Interrupt;
use peers::place::{ETHERNET_MTU, Place};

use contest::{Contestant, measure};
use limit::{Addressing, Calls, Limit};
use standing::Standing;

/// Size of a datagram that fills an Ethernet frame. Units: bytes.
const FRAME_BYTES: usize = 1_472;
/// Sizes of datagrams that Ethernet carries unfragmented. Units: bytes.
const SIZES: [usize; 4] = [1, 100, 548, FRAME_BYTES];
/// Smallest datagram with room for a stream's header and samples. Units: bytes.
const SMALLEST_STREAM_BYTES: usize = 100;
/// Size of a datagram that needs jumbo frames. Units: bytes.
const JUMBO_BYTES: usize = 8_972;
const JUMBO_MTU: u16 = 9_000;
/// Longest train of a stream. Units: datagrams.
const STREAM_TRAIN: usize = 16;
/// Longest train of the kernel. Units: datagrams.
const MAX_TRAIN: usize = 64;
const MAX_TRAIN_BYTES: usize = 65_507;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--role") {
        return play(&arguments[at + 1..]);
    }
    let bench = Bench::prepare(&arguments)?;
    let loopback = Place::loopback()?;
    for datagram_bytes in SIZES.into_iter().chain([JUMBO_BYTES]) {
        bench.measure_size(&loopback, datagram_bytes)?;
    }
    latency::measure(&bench, &loopback)?;
    bench.measure_veth("veth", ETHERNET_MTU, &SIZES)?;
    bench.measure_veth("veth9000", JUMBO_MTU, &[JUMBO_BYTES])
}

/// State shared by all cases.
struct Bench {
    report: Report,
    interrupt: Interrupt,
    /// Number of runs per figure.
    runs: usize,
    /// Duration of each run.
    seconds: f64,
    /// Text that the names of measured cases contain.
    only: String,
    /// Receive buffer size in the last note.
    granted_bytes: Cell<usize>,
    /// Peers already reported as not installed.
    absent: RefCell<Vec<&'static str>>,
}

impl Bench {
    fn prepare(arguments: &[String]) -> Result<Self> {
        let report = Report::from_arguments("net");
        let quick = arguments.iter().any(|argument| argument == "--quick");
        let (runs, seconds) = if quick { (2, 0.1) } else { (5, 0.2) };
        let only = arguments.iter().position(|argument| argument == "--only");
        let only = only.and_then(|at| arguments.get(at + 1)).cloned().unwrap_or_default();
        report.note(&format!(
            "medians of {runs} runs of {seconds} s (smallest – largest), the systems in turn; ratios within each run"
        ));
        if quick {
            report.note("quick: too few runs to be quoted");
        }
        report.note(&standing::describe()?);
        let interrupt = Interrupt::watch()?;
        Ok(Self {
            report,
            interrupt,
            runs,
            seconds,
            only,
            granted_bytes: Cell::new(0),
            absent: RefCell::new(Vec::new()),
        })
    }

    fn leaves_out(&self, case: &str) -> bool {
        !case.contains(&self.only)
    }

    /// Reports progress on standard error.
    fn progress(&self, what: &str) {
        eprintln!("net: {what}");
    }

    /// Reports the granted receive buffer if it has changed.
    fn say_granted(&self, granted_bytes: usize) {
        if self.granted_bytes.replace(granted_bytes) != granted_bytes {
            let (asked, granted) = (limit::BUFFER_BYTES >> 20, granted_bytes as f64 / f64::from(1 << 20));
            self.report.note(&format!(
                "receive buffers: {asked} MiB requested, which the kernel doubles; {granted:.2} MiB granted"
            ));
        }
    }

    fn measure_veth(&self, name: &'static str, mtu: u16, sizes: &[usize]) -> Result<()> {
        match Place::veth(name, mtu)? {
            Ok(place) => {
                sizes.iter().try_for_each(|size| self.measure_size(&place, *size))?;
                if mtu == ETHERNET_MTU { latency::measure(self, &place) } else { Ok(()) }
            }
            Err(reason) => {
                self.report.note(&format!("{name}: not measured: {reason}"));
                Ok(())
            }
        }
    }

    fn measure_size(&self, place: &Place, datagram_bytes: usize) -> Result<()> {
        for calls in calls_for(datagram_bytes) {
            let case = format!("{}/{datagram_bytes}B/{}", place.name, name_of(calls));
            self.measure_case(place, Addressing::Unicast, datagram_bytes, calls, &case)?;
            if [100, FRAME_BYTES].contains(&datagram_bytes) && name_of(calls) == "gso" {
                for readers in [1, 3] {
                    let case = format!("{case}/multicast-{readers}");
                    self.measure_case(
                        place,
                        Addressing::Multicast { readers },
                        datagram_bytes,
                        calls,
                        &case,
                    )?;
                }
            }
        }
        Ok(())
    }

    fn measure_case(
        &self,
        place: &Place,
        addressing: Addressing,
        datagram_bytes: usize,
        calls: Calls,
        case: &str,
    ) -> Result<()> {
        if self.leaves_out(case) {
            return Ok(());
        }
        let mut contestants: Vec<Box<dyn Contestant + '_>> =
            vec![Box::new(Limit::new(place, addressing, datagram_bytes, calls))];
        if name_of(calls) == "gso" && datagram_bytes >= SMALLEST_STREAM_BYTES {
            contestants.push(Box::new(tallycast::Stream::start(place, addressing, datagram_bytes)?));
        }
        if addressing == Addressing::Unicast {
            contestants.extend(self.peers(place, datagram_bytes, calls));
        }
        measure(self, case, &mut contestants)
    }

    /// Returns the peers that take part: peers that send one datagram per call if the limit does, and at the size
    /// of an Ethernet frame, where streams are compared with them, also if the limit sends trains.
    fn peers<'a>(
        &self,
        place: &'a Place,
        datagram_bytes: usize,
        calls: Calls,
    ) -> Vec<Box<dyn Contestant + 'a>> {
        let is_frame = datagram_bytes == FRAME_BYTES;
        let mut peers: Vec<Box<dyn Contestant + 'a>> = Vec::new();
        let fits_iperf3 = datagram_bytes >= iperf3::SMALLEST_BYTES;
        if calls == Calls::Plain && fits_iperf3 && self.has_peer(iperf3::PROGRAM) {
            peers.push(Box::new(iperf3::Udp { place, datagram_bytes, is_searched: is_frame }));
        }
        if is_frame && name_of(calls) == "gso" {
            if self.has_peer(nuttcp::PROGRAM) {
                peers.push(Box::new(nuttcp::Udp { place, datagram_bytes }));
            }
            if self.has_peer(iperf3::PROGRAM) {
                peers.push(Box::new(iperf3::Tcp { place, datagram_bytes }));
            }
        }
        peers
    }

    /// Returns whether a peer is installed, and reports once how to install a missing one.
    fn has_peer(&self, program: &'static str) -> bool {
        let is_installed = peer::is_installed(program);
        let mut absent = self.absent.borrow_mut();
        if !is_installed && !absent.contains(&program) {
            absent.push(program);
            self.report.note(&format!(
                "{program}: not measured: install it with: apt-get install --no-install-recommends {program}"
            ));
        }
        is_installed
    }
}

/// Returns the system calls for datagrams of a size. Trains of a stream's length are a case of their own if longer
/// ones are possible.
fn calls_for(datagram_bytes: usize) -> Vec<Calls> {
    let longest = (MAX_TRAIN_BYTES / datagram_bytes).min(MAX_TRAIN);
    let mut calls = vec![Calls::Plain, Calls::Batched, Calls::Trains(longest)];
    if longest > STREAM_TRAIN {
        calls.insert(2, Calls::Trains(STREAM_TRAIN));
    }
    calls
}

/// Returns the name of the calls in case names.
const fn name_of(calls: Calls) -> &'static str {
    match calls {
        Calls::Plain => "plain",
        Calls::Batched => "mmsg",
        Calls::Trains(STREAM_TRAIN) => "gso16",
        Calls::Trains(_) => "gso",
    }
}

/// Runs one side of a measurement, on its processor.
fn play(arguments: &[String]) -> Result<()> {
    let [role, standing, order] = arguments else { bail!("a role needs a processor and an order") };
    standing.parse::<Standing>()?.take()?;
    match role.as_str() {
        "limit-source" => limit::source(order),
        "limit-reader" => limit::reader(order),
        "stream-source" => tallycast::source(order),
        "stream-reader" => tallycast::reader(order),
        "stream-ping" => stream_latency::ping(order),
        "stream-pong" => stream_latency::pong(order),
        "limit-ping" => limit::ping(order),
        "limit-pong" => limit::pong(order),
        other => bail!("unknown role `{other}`"),
    }
    .with_context(|| role.clone())
}
