//! Setting a scene: streams of every shape, and the nodes around them.

use core::time::Duration;

use cast::send::{Beginning, DEFAULT_LINGER, Pacing, SenderConfig, Sending};
use ledger::{Account, LedgerConfig};
use sample::{Channel, Dtype, Schema};
use sim::{Network, NodeId, Port};
use units::{Epoch, Instant, SampleRate, WallTime};
use wire::{Announcement, Clock, DATAGRAM_BYTES_IPV4, Data, Description, Fit, Numbered};

use super::feed::{Feed, Holes};
use super::publisher::{Command, Publisher};
use super::reader::Reader;
use super::truth::{Truth, verify};
use super::{GROUP, PORT, Part, address};

/// Time after the last sample at which a publisher ends its epoch.
const FLUSH: Duration = Duration::from_millis(100);

/// The network with its nodes.
pub(crate) type Scene = Network<Part>;

/// Shape of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamShape {
    pub(crate) name: &'static str,
    pub(crate) dtype: Dtype,
    pub(crate) hz: u32,
    /// Elements of one sample.
    pub(crate) elements: u32,
    /// Samples handed over at once.
    pub(crate) block_samples: u64,
    pub(crate) linger: Duration,
    pub(crate) datagram_bytes: usize,
    pub(crate) sending: Sending,
    pub(crate) beginning: Beginning,
}

impl StreamShape {
    /// A stream of one datagram of ten values every millisecond.
    pub(crate) const PLAIN: Self = Self {
        name: "lab/probe",
        dtype: Dtype::F4,
        hz: 10_000,
        elements: 1,
        block_samples: 10,
        linger: Duration::ZERO,
        datagram_bytes: DATAGRAM_BYTES_IPV4,
        sending: Sending::Always,
        beginning: Beginning::Now,
    };

    pub(crate) fn config(&self, epoch: Epoch) -> SenderConfig {
        SenderConfig {
            description: description(self),
            epoch,
            datagram_bytes: self.datagram_bytes,
            linger: self.linger,
            clock: Clock::System,
            destinations: 1,
            pacing: Pacing::default(),
            sending: self.sending,
            beginning: self.beginning,
            predecessor: None,
            security: None,
            relayed: None,
            deadline: None,
        }
    }

    pub(crate) fn feed(&self, epoch: Epoch, span: core::ops::Range<Instant>, holes: Holes) -> Feed {
        Feed::new(description(self).schema, epoch.incarnation, self.block_samples, span, holes)
    }
}

impl Default for StreamShape {
    fn default() -> Self {
        Self { linger: DEFAULT_LINGER, ..Self::PLAIN }
    }
}

/// The first epoch of a publisher.
pub(crate) const EPOCH: Epoch = Epoch { start_ns: 1_000, incarnation: 11 };

/// Sets the simplest scene: a publisher, and one reader of all it sends.
pub(crate) fn watched(seed: u64, publisher: Publisher, port: Port) -> (Scene, NodeId) {
    watched_by(seed, publisher, reader(seed), port)
}

/// Sets the simplest scene with a given reader.
pub(crate) fn watched_by(seed: u64, publisher: Publisher, reader: Reader, port: Port) -> (Scene, NodeId) {
    let mut network = Network::new(seed);
    network.add("publisher", Part::Publisher(Box::new(publisher)), Port::default());
    let node = network.add("reader", Part::Reader(Box::new(reader)), port);
    network.join(node, GROUP);
    (network, node)
}

/// Runs a scene to `end` and returns a reader's accounts, compared with the log.
pub(crate) fn accounts(network: &mut Scene, node: NodeId, end: Instant) -> Vec<(Truth, Account)> {
    network.run_until(end);
    verify(network, node)
}

/// Describes a stream.
pub(crate) fn description(shape: &StreamShape) -> Description {
    let channel = match shape.elements {
        1 => Channel::new("value", "V"),
        many => Channel::new("value", "V").with_shape([many]),
    };
    let rate = SampleRate::hz(shape.hz).expect("a rate");
    Description {
        name: shape.name.parse().expect("a name"),
        schema: Schema::new(shape.dtype, rate, vec![channel]).expect("a schema"),
        report_port: PORT,
        station: "daq".to_owned(),
        unknown: sample::UnknownEntries::new(),
    }
}

/// Returns a publisher's announcement.
pub(crate) fn announcement(shape: &StreamShape, epoch: Epoch) -> Announcement {
    let Description { name, schema, report_port, station, .. } = description(shape);
    Announcement {
        stream: wire::stream_id(&name, &schema),
        epoch,
        name,
        group: address(NodeId(0)),
        report_port,
        dtype: schema.dtype,
        rate: schema.rate,
        channels: 1,
        elements_per_sample: schema.elements_per_sample(),
        station,
        period: Duration::from_secs(1),
    }
}

/// Creates a data datagram that the stream's publisher never sent: intact, with any number and index.
pub(crate) fn forged(shape: &StreamShape, epoch: Epoch, number: u64, first_index: u64) -> Vec<u8> {
    let description = description(shape);
    let fit = wire::max_elements(shape.datagram_bytes, shape.dtype, shape.elements);
    let element_count = if matches!(fit, Fit::Pieces(_)) { 1 } else { shape.elements };
    let head = Numbered {
        stream: wire::stream_id(&description.name, &description.schema),
        epoch,
        number,
        first_index,
        element_offset: 0,
        elements_per_sample: shape.elements,
    };
    let payload = vec![0; element_count as usize * shape.dtype.size_bytes()];
    let (t0, clock, dtype) = (WallTime::from_nanos(0), Clock::System, shape.dtype);
    let data = Data { head, t0, clock, dtype, element_count, origin: None, payload: &payload };
    let mut bytes = vec![0; data.encoded_bytes()];
    data.encode(&mut bytes).expect("a buffer of its size");
    bytes
}

/// Creates a publisher that is fed during `span`.
pub(crate) fn publisher(
    shape: &StreamShape,
    epoch: Epoch,
    span: core::ops::Range<Instant>,
    holes: Holes,
) -> Publisher {
    let (start, end) = (span.start, span.end);
    Publisher::new(shape.config(epoch), shape.feed(epoch, span, holes), epoch.incarnation, start)
        .told(end + FLUSH, Command::Finish)
}

/// Creates a reader.
pub(crate) fn reader(id: u64) -> Reader {
    Reader::new(id, LedgerConfig::default())
}
