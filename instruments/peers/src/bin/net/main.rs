//! Datagrams from a source to readers, over loopback and a veth pair: datagrams and bits per second, losses, the
//! highest loss-free rate, processor time per datagram on each side, delays to a reader and to the page, and a ring
//! writer's cost for its readers.
//!
//! The reference is `limit`, the same datagrams through bare sockets ([`limit`]). Measured alternately with it in every
//! run are `tallycast`, a stream from publisher to subscriber, and other tools: `iperf3`, `nuttcp`, `sockperf`, and the
//! kernel's TCP. A case is named `place/size/calls`, such as `loopback/1472B/gso`; cases of multicast say so. Streams
//! with default options have cases of their own ([`default_stream`]), beside `plain`; streams with keys are compared
//! with clear ones ([`secured`]), and publishers that sign with those that do not ([`proof`]).
//!
//! Publisher and reader are processes (this program starts itself again in either role), so that each side's CPU time
//! is its own. Options: [`Bench`].

mod contest;
mod default_stream;
mod iperf3;
mod latency;
mod limit;
mod nuttcp;
mod page;
mod peer;
mod proof;
mod ring_writer;
mod search;
mod secured;
mod stream;
mod stream_latency;

use anyhow::Result;
use peers::place::{ETHERNET_MTU, Place};
use peers::process::{Role, plays};
use peers::{Bench, Extent, Standing};

use contest::{Contestant, measure};
use limit::{Addressing, Calls, Limit};
use stream::{Content, Stream};

/// Size of a datagram that fills an Ethernet frame. Units: bytes.
const FRAME_BYTES: usize = wire::DATAGRAM_BYTES_IPV4;
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
    let is_role = plays(&[
        Role::new("limit-source", limit::source),
        Role::new("limit-reader", limit::reader),
        Role::new("limit-ping", limit::ping),
        Role::new("limit-pong", limit::pong),
        Role::new("aead", secured::aead),
        Role::new("stream-source", stream::source),
        Role::new("stream-reader", stream::reader),
        Role::new("stream-ping", stream_latency::ping),
        Role::new("stream-pong", stream_latency::pong),
    ])?;
    if is_role {
        return Ok(());
    }
    let bench = Bench::begin("net", Extent { runs: 5, seconds: 0.2 }, Extent { runs: 2, seconds: 0.1 })?;
    let Extent { runs, seconds } = bench.extent;
    bench.introduce(&format!(
        "medians of {runs} runs of {seconds} s (smallest – largest), the systems in turn; ratios within each run"
    ));
    bench.note(&Standing::describe()?);
    ring_writer::measure(&bench);
    let loopback = Place::loopback()?;
    measure_sizes(&bench, &loopback, &SIZES)?;
    measure_sizes(&bench, &loopback, &[JUMBO_BYTES])?;
    measure_streams(&bench, &loopback)?;
    if let Some(veth) = Place::veth(&bench, "veth", ETHERNET_MTU)? {
        measure_sizes(&bench, &veth, &SIZES)?;
        measure_streams(&bench, &veth)?;
    }
    if let Some(veth) = Place::veth(&bench, "veth9000", JUMBO_MTU)? {
        measure_sizes(&bench, &veth, &[JUMBO_BYTES])?;
    }
    page::measure(&bench)
}

fn measure_streams(bench: &Bench, place: &Place) -> Result<()> {
    latency::measure(bench, place)?;
    secured::measure(bench, place)?;
    proof::measure(bench, place)?;
    default_stream::measure(bench, place)
}

fn measure_sizes(bench: &Bench, place: &Place, sizes: &[usize]) -> Result<()> {
    for datagram_bytes in sizes.iter().copied() {
        for calls in calls_for(datagram_bytes) {
            let case = format!("{}/{datagram_bytes}B/{}", place.name, name_of(calls));
            measure_case(bench, place, Addressing::Unicast, (datagram_bytes, calls), case.clone())?;
            if [100, FRAME_BYTES].contains(&datagram_bytes) && name_of(calls) == "gso" {
                for readers in [1, 3] {
                    let (addressing, case) =
                        (Addressing::Multicast { readers }, format!("{case}/multicast-{readers}"));
                    measure_case(bench, place, addressing, (datagram_bytes, calls), case)?;
                }
            }
        }
    }
    Ok(())
}

fn measure_case(
    bench: &Bench,
    place: &Place,
    addressing: Addressing,
    (datagram_bytes, calls): (usize, Calls),
    case: String,
) -> Result<()> {
    let Some(case) = bench.case(case) else { return Ok(()) };
    let mut contestants: Vec<Box<dyn Contestant + '_>> =
        vec![Box::new(Limit::new(place, addressing, datagram_bytes, calls))];
    if name_of(calls) == "gso" && datagram_bytes >= SMALLEST_STREAM_BYTES {
        contestants.push(Box::new(Stream::start(place, addressing, datagram_bytes, Content::Trains)?));
    }
    if addressing == Addressing::Unicast {
        contestants.extend(peers(bench, place, datagram_bytes, calls));
    }
    measure(bench, &case, contestants)
}

/// Returns the peers that take part: peers that send one datagram per call if the limit does, and at the size of an
/// Ethernet frame, where streams are compared with them, also if the limit sends trains.
fn peers<'a>(
    bench: &Bench,
    place: &'a Place,
    datagram_bytes: usize,
    calls: Calls,
) -> Vec<Box<dyn Contestant + 'a>> {
    let is_frame = datagram_bytes == FRAME_BYTES;
    let mut peers: Vec<Box<dyn Contestant + 'a>> = Vec::new();
    let fits_iperf3 = datagram_bytes >= iperf3::SMALLEST_BYTES;
    if calls == Calls::Plain && fits_iperf3 && peer::is_there(bench, iperf3::PROGRAM) {
        peers.push(Box::new(iperf3::Udp { place, datagram_bytes, is_searched: is_frame }));
    }
    if is_frame && name_of(calls) == "gso" {
        if peer::is_there(bench, nuttcp::PROGRAM) {
            peers.push(Box::new(nuttcp::Udp { place, datagram_bytes }));
        }
        if peer::is_there(bench, iperf3::PROGRAM) {
            peers.push(Box::new(iperf3::Tcp { place, datagram_bytes }));
        }
    }
    peers
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
