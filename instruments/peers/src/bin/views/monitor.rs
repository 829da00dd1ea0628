//! The monitor server under test, with publishers of what its pages show, and a document that they follow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};
use peers::place::Place;
use peers::{Bench, Monitor};
use serde_json::json;
use tallycast::{Dtype, Node, Publisher};

use crate::Shape;

/// Name of the document.
pub(crate) const DOCUMENT: &str = "bench";
/// Blocks of samples that are published a second.
const BLOCKS_PER_S: u32 = 100;

/// A monitor server; it and its publishers end with [`Self::end`].
pub(crate) struct Viewed {
    pub(crate) server: Monitor,
    stop: Arc<AtomicBool>,
    publishing: JoinHandle<Result<()>>,
}

impl Viewed {
    pub(crate) fn start(bench: &Bench, shape: Shape) -> Result<Self> {
        let place = Place::loopback()?;
        let bus = format!("udp://239.84.0.0:{}?iface={}", place.port, place.interface);
        let arguments = ["bench/**", "--pages-per-address", "256"];
        let server = Monitor::start(bench.command()?, &bus, &arguments)?;
        let node = Node::open(bus.parse()?)?;
        let channels = || (0..shape.traces_per_plot).map(|place| (format!("c{place}"), ""));
        let publishers = (0..shape.plots)
            .map(|plot| {
                let builder = node.publisher(stream_of(plot).as_str()).dtype(Dtype::F8).rate(shape.rate_hz);
                Ok(builder.channels(channels().map(|(name, unit)| (name, unit.to_owned()))).open()?)
            })
            .collect::<Result<Vec<_>>>()?;
        let stop = Arc::<AtomicBool>::default();
        let publishing = {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || publish(publishers, shape, &stop))
        };
        let document = json!({"fields": {"title": "Benchmark"}}).to_string();
        server.ask(&format!("PUT /api/views/{DOCUMENT}"), None, &document)?;
        Ok(Self { server, stop, publishing })
    }

    pub(crate) fn end(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.publishing.join().map_err(|_| anyhow!("the publishing thread panicked"))?
    }
}

/// Returns the stream that a plot shows.
pub(crate) fn stream_of(plot: usize) -> String {
    format!("bench/plot-{plot}")
}

/// Publishes sine waves, each channel's shifted against the one before.
fn publish(mut publishers: Vec<Publisher>, shape: Shape, stop: &AtomicBool) -> Result<()> {
    let Shape { traces_per_plot: channels, rate_hz, .. } = shape;
    let length = rate_hz / BLOCKS_PER_S;
    let start = sys::clock::monotonic();
    for block in 0_u32.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        sys::clock::sleep_until(start + Duration::from_secs(1) * block / BLOCKS_PER_S);
        let value = |sample: u32, channel: usize| {
            let second = f64::from(block * length + sample) / f64::from(rate_hz);
            (second * 6.0 + channel as f64).sin() + 0.1 * (second * 1_900.0).sin()
        };
        let samples: Vec<f64> =
            (0..length).flat_map(|sample| (0..channels).map(move |channel| value(sample, channel))).collect();
        for publisher in &mut publishers {
            publisher.send(&samples)?;
        }
    }
    Ok(())
}
