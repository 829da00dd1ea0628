//! A run: flows that share a path for a given time.

use core::time::Duration;
use std::sync::Arc;

use congestion::{Factory, UnknownControl, named};
use sim::{CrossTraffic, Link, LostBy, Network, NodeId, Port, SiteId, Trunk, WIRE_OVERHEAD_BYTES};
use udt::{SocketConfig, SocketType};
use units::Instant;

use crate::Hosts;
use crate::outcome::{FlowOutcome, Outcome, Packets};
use crate::part::Part;

/// Number of points of a curve over time.
const SAMPLES: u32 = 200;
/// Queue samples per point.
const LOOKS_A_SAMPLE: u32 = 20;
/// IPv4 and UDP headers. Units: bytes.
const HEADER_BYTES: u64 = 28;
/// UDT header. Units: bytes.
const UDT_HEADER_BYTES: u64 = 16;

/// Path between senders and receivers.
#[derive(Clone, PartialEq, Debug)]
pub struct Path {
    /// Rate of the bottleneck, with all headers and the Ethernet frame. Units: bits per second.
    pub rate_bits_per_s: u64,
    /// Round-trip time without queueing.
    pub round_trip: Duration,
    /// Queue capacity before the bottleneck. Units: bytes on the wire.
    pub queue_bytes: u64,
    /// Loss probability of each packet behind the bottleneck, in the direction of the receiver.
    pub loss: f64,
    /// Packets to lose by their number at the bottleneck, counted from 0.
    pub lost: Vec<u64>,
    /// Largest packet, with the IP header. Units: bytes.
    pub packet_bytes: u32,
    /// Cross traffic through the bottleneck.
    pub others: Option<CrossTraffic>,
}

/// A flow that sends data.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Name in results.
    pub name: String,
    /// Factory of its congestion control.
    pub control: Arc<dyn Factory>,
    /// Additional round-trip time beyond the path's.
    pub further: Duration,
    /// Start time of the flow.
    pub starts: Duration,
}

/// Flows on a path, for a given time.
#[derive(Clone, Debug)]
pub struct Run {
    /// Path that the flows share.
    pub path: Path,
    /// Flows of the run.
    pub flows: Vec<Flow>,
    /// Duration of the run.
    pub duration: Duration,
    /// Time at the beginning that is excluded from the means.
    pub warm_up: Duration,
    /// Behaviour of the hosts.
    pub hosts: Hosts,
    /// Seed of all random decisions.
    pub seed: u64,
}

impl Path {
    /// Creates a path with packets of 1,500 bytes and a queue of one bandwidth-delay product.
    #[must_use]
    pub fn new(rate_bits_per_s: u64, round_trip: Duration) -> Self {
        let mut path = Self {
            rate_bits_per_s,
            round_trip,
            queue_bytes: 0,
            loss: 0.0,
            lost: Vec::new(),
            packet_bytes: 1_500,
            others: None,
        };
        path.queue_bytes = path.queue_of(1.0);
        path
    }

    /// Returns a queue of `round_trips` bandwidth-delay products, but at least 64 packets: a train must fit even if
    /// the product is tiny. Units: bytes on the wire.
    #[must_use]
    pub fn queue_of(&self, round_trips: f64) -> u64 {
        let bytes = self.flight_bytes() as f64 * round_trips;
        (bytes as u64).max(64 * self.wire_bytes())
    }

    /// Returns the bandwidth-delay product. Units: bytes on the wire.
    #[must_use]
    pub fn flight_bytes(&self) -> u64 {
        let bits = u128::from(self.rate_bits_per_s) * self.round_trip.as_nanos() / 1_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }

    /// Returns the maximum total goodput of all flows: payload of full packets. Units: bits per second.
    #[must_use]
    pub fn ceiling_bits_per_s(&self) -> f64 {
        let payload = u64::from(self.packet_bytes) - HEADER_BYTES - UDT_HEADER_BYTES;
        self.rate_bits_per_s as f64 * payload as f64 / self.wire_bytes() as f64
    }

    fn wire_bytes(&self) -> u64 {
        u64::from(self.packet_bytes) - HEADER_BYTES + WIRE_OVERHEAD_BYTES
    }

    fn trunk(&self) -> Trunk {
        let half = self.round_trip / 2;
        let mut down = Link::ideal().rate(self.rate_bits_per_s, self.queue_bytes).delay(half);
        if self.loss > 0.0 {
            down = down.loss(self.loss);
        }
        if !self.lost.is_empty() {
            down = down.lose(self.lost.clone());
        }
        if let Some(others) = self.others {
            down = down.cross_traffic(others);
        }
        Trunk { down, up: Link::ideal().delay(self.round_trip - half) }
    }
}

impl Flow {
    /// Creates a flow with a built-in control, with its options as `alpha=20&gamma=0.5`.
    ///
    /// # Errors
    /// If there is no such control, or it does not accept an option.
    pub fn named(name: &str, options: &str) -> Result<Self, UnknownControl> {
        Ok(Self::of(name, Arc::from(named(name, options)?)))
    }

    /// Creates a flow with a custom control.
    #[must_use]
    pub fn of(name: &str, control: Arc<dyn Factory>) -> Self {
        Self { name: name.to_owned(), control, further: Duration::ZERO, starts: Duration::ZERO }
    }
}

impl Run {
    /// Creates a run on ideal hosts, of which the first quarter is excluded from the means.
    #[must_use]
    pub fn new(path: Path, flows: Vec<Flow>, duration: Duration) -> Self {
        Self { path, flows, duration, warm_up: duration / 4, hosts: Hosts::Ideal, seed: 1 }
    }

    /// Plays the run, reporting the elapsed simulated time to `goes_on`; `None` if `goes_on` returns false.
    pub fn play(&self, mut goes_on: impl FnMut(Duration) -> bool) -> Option<Outcome> {
        let mut stage = Stage::set(self);
        let step = self.duration / SAMPLES;
        let mut samples = Samples::new(self.flows.len());
        let mut queue = Vec::new();
        for sample in 1..=SAMPLES {
            for look in 1..=LOOKS_A_SAMPLE {
                stage.network.run_until(Instant::ORIGIN + step * (sample - 1) + step * look / LOOKS_A_SAMPLE);
                queue.push(stage.network.trunk_queue(stage.site));
            }
            samples.take(&stage, step);
            if !goes_on(step * sample) {
                return None;
            }
        }
        Some(self.outcome(&stage, samples, &queue, step))
    }

    fn outcome(&self, stage: &Stage, samples: Samples, queue: &[Duration], step: Duration) -> Outcome {
        let first = (self.warm_up.as_nanos() / step.as_nanos().max(1)) as usize;
        let counted = first.min(SAMPLES as usize - 1)..SAMPLES as usize;
        let mean = |curve: &[f64]| curve[counted.clone()].iter().sum::<f64>() / counted.len() as f64;
        let flow = |(index, flow): (usize, &Flow)| FlowOutcome {
            name: flow.name.clone(),
            goodput_bits_per_s: mean(&samples.goodput[index]),
            goodput_over_time: samples.goodput[index].clone(),
            window_over_time: samples.window[index].clone(),
            stats: stage.network.node(stage.senders[index]).stats().unwrap_or_default(),
        };
        let looks = LOOKS_A_SAMPLE as usize;
        let counted_queue = &queue[counted.start * looks..];
        let mut sorted = counted_queue.to_vec();
        sorted.sort_unstable();
        let mut packets = Packets {
            sent: stage.senders.iter().map(|node| stage.network.sent_by(*node)).sum(),
            in_flight: stage.senders.iter().map(|node| stage.network.crossing(*node)).sum(),
            ..Packets::default()
        };
        let not_queue: Vec<LostBy> = LostBy::ALL.into_iter().filter(|by| *by != LostBy::Queue).collect();
        for node in &stage.receivers {
            let of_node = stage.network.log().counts(*node);
            packets.delivered += of_node.delivered;
            packets.lost_in_queue += of_node.lost(LostBy::Queue);
            packets.lost_on_the_way += not_queue.iter().map(|by| of_node.lost(*by)).sum::<u64>();
            packets.in_flight += of_node.in_flight + of_node.unread;
        }
        Outcome {
            ceiling_bits_per_s: self.path.ceiling_bits_per_s(),
            step,
            flows: self.flows.iter().enumerate().map(flow).collect(),
            mean_queue: counted_queue.iter().sum::<Duration>() / counted_queue.len() as u32,
            queue_p95: sorted[sorted.len() * 95 / 100],
            queue_over_time: queue
                .chunks(looks)
                .map(|chunk| chunk.iter().sum::<Duration>() / LOOKS_A_SAMPLE)
                .collect(),
            packets,
        }
    }

    /// Returns the sender's settings, with buffers so large that only the control limits the packets in flight.
    fn socket(&self, flow: &Flow) -> SocketConfig {
        let packets = (self.path.flight_bytes() + self.path.queue_bytes) / self.path.wire_bytes();
        let further = flow.further.as_secs_f64() * self.path.rate_bits_per_s as f64 / 8.0;
        let packets = packets + further as u64 / self.path.wire_bytes();
        let mut socket = SocketConfig::with(SocketType::Stream, Arc::clone(&flow.control));
        socket.packet_bytes = self.path.packet_bytes;
        socket.send_buffer_packets =
            u32::try_from(packets * 2).unwrap_or(u32::MAX).clamp(8_192, MAX_BUFFER_PACKETS);
        socket.receive_buffer_packets = socket.send_buffer_packets;
        socket
    }
}

/// Maximum buffer size: a larger one would exceed the memory of common machines.
const MAX_BUFFER_PACKETS: u32 = 1_000_000;

/// The network with all flows in it.
struct Stage {
    network: Network<Part>,
    site: SiteId,
    senders: Vec<NodeId>,
    receivers: Vec<NodeId>,
}

impl Stage {
    fn set(run: &Run) -> Self {
        let mut network = Network::counting(run.seed);
        let site = network.add_site("far", run.path.trunk());
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for (index, flow) in run.flows.iter().enumerate() {
            let config = run.socket(flow);
            let seed = run.seed << 16 | (index as u64) << 1;
            let receiver = Part::receiver(seed, config.clone());
            let port = Port { site: Some(site), host: run.hosts.receiver(), ..Port::default() };
            let receiver = network.add(&format!("to {}", flow.name), receiver, port);
            let starts = Instant::ORIGIN + flow.starts;
            let sender = Part::sender(seed + 1, config, receiver, starts);
            // All of the additional delay is on the sender's side, half of it in each direction.
            let cable = |delay| {
                if run.flows[index].further.is_zero() { Link::ideal() } else { Link::ideal().delay(delay) }
            };
            let port = Port {
                up: cable(flow.further / 2),
                down: cable(flow.further - flow.further / 2),
                host: run.hosts.sender(),
                site: None,
            };
            senders.push(network.add(&flow.name, sender, port));
            receivers.push(receiver);
        }
        Self { network, site, senders, receivers }
    }
}

/// The curves while they grow.
struct Samples {
    goodput: Vec<Vec<f64>>,
    window: Vec<Vec<u32>>,
    received_bytes: Vec<u64>,
}

impl Samples {
    fn new(flows: usize) -> Self {
        Self {
            goodput: vec![Vec::new(); flows],
            window: vec![Vec::new(); flows],
            received_bytes: vec![0; flows],
        }
    }

    fn take(&mut self, stage: &Stage, step: Duration) {
        for (index, (sender, receiver)) in stage.senders.iter().zip(&stage.receivers).enumerate() {
            let received = stage.network.node(*receiver).received_bytes();
            let bytes = received - core::mem::replace(&mut self.received_bytes[index], received);
            self.goodput[index].push(bytes as f64 * 8.0 / step.as_secs_f64());
            let stats = stage.network.node(*sender).stats();
            self.window[index].push(stats.map_or(0, |stats| stats.in_flight_packets));
        }
    }
}
