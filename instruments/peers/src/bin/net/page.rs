//! Delay of a sample on its path to the page: from its publication to the arrival of the first frame of the real
//! monitor server that contains it.
//!
//! The values are the samples' numbers, and every frame names its newest value; so each frame shows which samples
//! it contains.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use peers::place::Place;
use peers::{Bench, Monitor, connect_page, quantiles};
use serde_json::json;
use tallycast::{Dtype, Node, Publisher};
use tungstenite::Message;
use units::Instant;
use wire::ViewFrame;

use crate::latency::{SHARES, rows};

const STREAM: &str = "bench/page";
const RATE_HZ: u32 = 1_000;
/// Number of samples in one run: five seconds.
const SAMPLES: usize = 5_000;
/// Number of samples within which a stream is listed and drawn; they are not measured.
const WARM_UP: usize = 3_000;

/// Publication time of each sample. Units: nanoseconds on the monotonic clock, 0 for not yet.
type Published = Arc<[AtomicU64]>;

pub(crate) fn measure(bench: &Bench) -> Result<()> {
    let Some(case) = bench.case("loopback/to-page".to_owned()) else { return Ok(()) };
    let Ok(command) = bench.command() else {
        bench.note("page: not measured: --command PATH names the tallycast to measure");
        return Ok(());
    };
    let place = Place::loopback()?;
    let bus = format!("udp://239.84.0.0:{}?iface={}", place.port, place.interface);
    let monitor = Monitor::start(command, &bus, &[STREAM])?;
    let node = Node::open(bus.parse()?)?;
    let publisher = node.publisher(STREAM).dtype(Dtype::F8).rate(RATE_HZ).channel(("x", "")).open()?;
    let samples = bench.extent.runs * SAMPLES;
    let published: Published = (0..WARM_UP + samples + SAMPLES).map(|_| AtomicU64::new(0)).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let publishing = {
        let (published, stop) = (Arc::clone(&published), Arc::clone(&stop));
        std::thread::spawn(move || publish(publisher, &published, &stop))
    };
    let delays = watch(monitor.address(), &published, samples, bench);
    stop.store(true, Ordering::Relaxed);
    publishing.join().map_err(|_| anyhow::anyhow!("the publishing thread panicked"))??;
    let runs: Vec<_> = delays?.chunks_exact(SAMPLES).map(|run| quantiles(run.to_vec(), SHARES)).collect();
    rows(&case, "tallycast", "ms", &runs);
    Ok(())
}

/// Publishes sample after sample, each with its number as its value.
fn publish(mut publisher: Publisher, published: &[AtomicU64], stop: &AtomicBool) -> Result<()> {
    let start = sys::clock::monotonic();
    for (number, time) in published.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        sys::clock::sleep_until(start + Duration::from_secs(number as u64) / RATE_HZ);
        // Release: a thread that receives the sample sees its time.
        time.store(sys::clock::monotonic().as_nanos(), Ordering::Release);
        publisher.send(&[number as f64])?;
    }
    Ok(())
}

/// Follows the stream as a page does; returns each sample's delay in milliseconds, without the warm-up.
fn watch(server: SocketAddr, published: &[AtomicU64], samples: usize, bench: &Bench) -> Result<Vec<f64>> {
    let mut socket = connect_page(server)?;
    let request = json!({
        "type": "view", "view": 1, "traces": [{"stream": STREAM, "channel": "x"}],
        "width_px": 800, "span_ns": 10_000_000_000_u64, "end_ns": null,
    });
    socket.send(Message::text(request.to_string()))?;
    let (mut delays, mut next) = (Vec::new(), 0);
    while delays.len() < samples {
        bench.check()?;
        let frame = match socket.read().context("the monitor server fell silent")? {
            Message::Binary(bytes) => ViewFrame::decode(&bytes)?,
            Message::Close(_) => bail!("the monitor server closed the connection"),
            _ => continue,
        };
        let now = sys::clock::monotonic();
        socket.send(Message::text(json!({"type": "shown", "frame": frame.frame}).to_string()))?;
        let newest = frame.traces.first().and_then(|trace| trace.newest);
        let shown = newest.map_or(0, |(_, number)| number as usize + 1);
        for (number, time) in published.iter().enumerate().take(shown).skip(next.max(WARM_UP)) {
            let sent = Instant::from_nanos(time.load(Ordering::Acquire));
            debug_assert!(sent > Instant::ORIGIN, "sample {number} was shown before it was published");
            delays.push(now.since(sent).as_secs_f64() * 1e3);
        }
        next = next.max(shown);
    }
    Ok(delays)
}
