//! Settings of a stream before it is opened: its schema, its destinations, and the handling of a full queue.

use std::net::SocketAddr;
use std::time::Duration;

use cast::send::{Beginning, DEFAULT_LINGER, Pacing, Sending};
use engine::{Publication, PublicationConfig, SendError, SocketFull};
use ring::shared::CreateError;
use sample::{Channel, Dtype, Schema, SchemaError, StreamName};
use units::{RateError, SampleRate};
use wire::{Clock, Description};

use super::{EarlierEpochs, OnFull, Publisher};
use crate::host_view::Start;
use crate::node::{Node, NodeError};
use crate::sample_clock::SampleClock;
use crate::schedule::Schedule;
use crate::steady_clock::SteadyClock;
use crate::timeline::Timeline;

/// Time span of the stream that the ring between publisher and network holds, approximately.
const RING_TIME: Duration = Duration::from_secs(2);
const MIN_RING_BYTES: usize = 1 << 18;
const MAX_RING_BYTES: usize = 1 << 26;
/// Divisor of the ring size: while the beginning is kept, half of the ring may fill up; then it is sent,
/// before anything is overwritten.
pub(crate) const HELD_PART_OF_RING: usize = 2;

/// Settings of a stream before it is opened; created by [`Node::publisher`].
///
/// The names are those of the command line and of the glossary. Errors in the settings are returned by
/// [`PublisherBuilder::open`].
///
/// ```
/// # use tallycast::{Bus, Channel, Dtype, Node, OnFull};
/// # use std::time::Duration;
/// let node = Node::open("udp://239.84.0.0:7492?iface=lo".parse::<Bus>()?)?;
/// let mut publisher = node
///     .publisher("lab/probe")
///     .dtype(Dtype::F4)
///     .rate(1_000)
///     .channels([("current", "A"), ("voltage", "V")])
///     .label("device", "probe-1")
///     .on_full(OnFull::Block)
///     .patience(Duration::from_secs(1))
///     .linger(Duration::from_millis(2))
///     .open()?;
/// publisher.send(&[0.1_f32, 2.0, 0.2, 2.1])?; // Two samples of two channels.
/// assert_eq!(publisher.close().samples.numbered, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct PublisherBuilder {
    node: Node,
    name: String,
    dtype: Dtype,
    rate: Option<Result<SampleRate, RateError>>,
    channels: Vec<Channel>,
    labels: Vec<(String, String)>,
    clock: Clock,
    on_full: OnFull,
    patience: Option<Duration>,
    linger: Duration,
    pacing: Option<Pacing>,
    sending: Option<Sending>,
    to: Vec<SocketAddr>,
    start: Option<Start>,
    loss: f64,
    ring_bytes: Option<usize>,
    proof: bool,
}

impl PublisherBuilder {
    pub(crate) const fn new(node: Node, name: String) -> Self {
        Self {
            node,
            name,
            dtype: Dtype::F8,
            rate: None,
            channels: Vec::new(),
            labels: Vec::new(),
            clock: Clock::System,
            on_full: OnFull::Overwrite,
            patience: None,
            linger: DEFAULT_LINGER,
            pacing: None,
            sending: None,
            to: Vec::new(),
            start: None,
            loss: 0.0,
            ring_bytes: None,
            proof: false,
        }
    }

    /// Sets the type of every element; `f8` by default.
    #[must_use]
    pub const fn dtype(mut self, dtype: Dtype) -> Self {
        self.dtype = dtype;
        self
    }

    /// Sets the sample rate: `1_000`, `"48k"`, `"1000/3"`, or a [`SampleRate`].
    ///
    /// Units: samples per second.
    #[must_use]
    pub fn rate(mut self, rate: impl TryInto<SampleRate, Error: Into<RateError>>) -> Self {
        self.rate = Some(rate.try_into().map_err(Into::into));
        self
    }

    /// Adds a channel: a name and a unit such as `("current", "A")`, or a [`Channel`].
    ///
    /// A stream without any has one, called `value`, without unit.
    #[must_use]
    pub fn channel(mut self, channel: impl Into<Channel>) -> Self {
        self.channels.push(channel.into());
        self
    }

    /// Adds channels, in the order of their elements in a sample.
    #[must_use]
    pub fn channels<C: Into<Channel>>(mut self, channels: impl IntoIterator<Item = C>) -> Self {
        self.channels.extend(channels.into_iter().map(Into::into));
        self
    }

    /// Takes dtype, rate, channels and labels from a schema.
    #[must_use]
    pub fn schema(mut self, schema: &Schema) -> Self {
        self.dtype = schema.dtype;
        self.rate = Some(Ok(schema.rate));
        self.channels.clone_from(&schema.channels);
        self.labels = schema.labels.clone().into_iter().collect();
        self
    }

    /// Adds a label to the stream.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((key.into(), value.into()));
        self
    }

    /// Declares that each sample has a time of its own, which readers get to the nanosecond; the rate is then
    /// the expected one, for queues and budgets.
    ///
    /// Cost: samples whose times do not follow the rate are sent one per datagram.
    #[must_use]
    pub fn own_times(self) -> Self {
        self.label(sample::TIMES_LABEL, sample::OWN_TIMES)
    }

    /// Sets the clock from which times are read; the system's clock by default.
    #[must_use]
    pub const fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the handling of samples for which there is no room.
    #[must_use]
    pub const fn on_full(mut self, on_full: OnFull) -> Self {
        self.on_full = on_full;
        self
    }

    /// Sets how long a publisher with [`OnFull::Block`] waits for room; without limit by default.
    ///
    /// After that it refuses the rest with [`StillFull`](crate::PublishError::StillFull).
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Sets how long small blocks wait to be sent together, 5 ms by default; zero means not at all.
    #[must_use]
    pub const fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// Sets how datagrams are spread over time; the bus's setting by default.
    #[must_use]
    pub const fn pacing(mut self, pacing: Pacing) -> Self {
        self.pacing = Some(pacing);
        self
    }

    /// Sets whether data are sent while no reader is heard; the bus's setting by default.
    ///
    /// With [`Sending::OnDemand`] they are sent only while a reader is heard; samples published meanwhile are
    /// lost in stage `publisher_paused`.
    #[must_use]
    pub const fn sending(mut self, sending: Sending) -> Self {
        self.sending = Some(sending);
        self
    }

    /// Sends to this address instead of the bus's group; more addresses get copies.
    #[must_use]
    pub fn to(mut self, address: SocketAddr) -> Self {
        self.to.push(address);
        self
    }

    /// Sets when the first samples are sent to the network: when waiting readers have joined, within half a
    /// second, or immediately. The bus's setting by default.
    #[must_use]
    pub const fn start(mut self, start: Start) -> Self {
        self.start = Some(start);
        self
    }

    /// Withholds data datagrams with this probability, 0 to 1: planted loss, of stage `injected`. Such a
    /// stream is sent over the network alone, also to readers of this host.
    #[must_use]
    pub const fn loss(mut self, probability: f64) -> Self {
        self.loss = probability;
        self
    }

    /// Signs statements about the samples: whoever records the stream can prove later, with the laboratory's public
    /// key alone, what is as it was published, what is missing, and what was changed. Needs a bus with keys, whose option
    /// `proof=on` says it for all publishers.
    ///
    /// Cost: about 1 ms of this thread for each mebibyte, and one more datagram for it.
    #[must_use]
    pub const fn proof(mut self) -> Self {
        self.proof = true;
        self
    }

    /// Sets the size of the queue between publisher and network. Units: bytes.
    #[must_use]
    pub const fn queue_bytes(mut self, bytes: usize) -> Self {
        self.ring_bytes = Some(bytes);
        self
    }

    /// Opens the stream: its epoch begins.
    ///
    /// # Errors
    /// [`NodeError`] if name, rate or schema are not valid or a socket cannot be opened.
    pub fn open(self) -> Result<Publisher, NodeError> {
        let name: StreamName = self.name.parse()?;
        let rate = self.rate.ok_or(NodeError::NoRate)??;
        let mut schema = Schema::new(self.dtype, rate, channels_of(self.channels)?)?;
        schema.labels = self.labels.into_iter().collect();
        let stream = wire::stream_id(&name, &schema);
        let epoch = self.node.new_epoch(stream);
        let (bus, pinned) = (self.node.bus(), !self.to.is_empty());
        if pinned && !bus.has_network() {
            return Err(NodeError::NoNetwork(Box::new(bus.clone())));
        }
        if !bus.has_network() && (self.loss > 0.0 || self.sending == Some(Sending::OnDemand)) {
            return Err(NodeError::NoDatagrams(Box::new(bus.clone())));
        }
        let is_proof = self.proof || bus.proof;
        let proof = is_proof.then(|| self.node.keyring().ok_or(NodeError::ProofNeedsKeys)).transpose()?;
        let destinations = if pinned { self.to } else { vec![bus.group(stream)] };
        let datagram_bytes = bus.datagram_bytes_to(&destinations);
        let sending = self.sending.unwrap_or(self.node.bus().sending);
        let start = self.start.unwrap_or(self.node.bus().start);
        let ring_bytes = self.ring_bytes.unwrap_or_else(|| ring_bytes(&schema));
        let mut config = PublicationConfig {
            description: Description {
                name: name.clone(),
                schema: schema.clone(),
                report_port: 0,
                station: self.node.station().to_owned(),
                unknown: sample::UnknownEntries::new(),
            },
            epoch,
            clock: self.clock,
            destinations,
            datagram_bytes,
            linger: self.linger,
            pacing: self.pacing.unwrap_or_else(|| self.node.bus().tuning.pacing()),
            sending,
            beginning: if start == Start::Now
                || pinned
                || sending == Sending::OnDemand
                || matches!(self.pacing, Some(Pacing::Unlimited { .. }))
            {
                Beginning::Now
            } else {
                Beginning::Held { most_bytes: ring_bytes / HELD_PART_OF_RING }
            },
            ring_bytes,
            proof,
            relayed: None,
            deadline: None,
            // An explicit address means that data are sent there, and planted loss of datagrams must be
            // visible to readers.
            host: self.node.host_rings().filter(|_| !pinned && self.loss == 0.0),
            send_buffer_bytes: self.node.bus().send_buffer_bytes,
            techniques: self.node.bus().tuning.sending,
            socket_full: match self.on_full {
                OnFull::Block => SocketFull::Wait,
                OnFull::Overwrite | OnFull::Error => SocketFull::Lose,
            },
        };
        if config.proof.is_some() {
            config.description.put_proof();
        }
        let publication = open_publication(&self.node, &config)?;
        if self.loss > 0.0 {
            publication.inject(self.loss);
        }
        Ok(Publisher {
            publication: Some(publication),
            config,
            loss: self.loss,
            node: self.node,
            name,
            on_full: self.on_full,
            patience: self.patience,
            host_clock: SteadyClock::new(),
            sample_clock: SampleClock::default(),
            timeline: Timeline::default(),
            schedule: Schedule::new(schema.rate),
            earlier: EarlierEpochs::default(),
            schema,
        })
    }
}

/// Opens a stream's publication: to readers of this host, to the network, or both.
pub(super) fn open_publication(node: &Node, config: &PublicationConfig) -> Result<Publication, NodeError> {
    if !node.bus().has_network() {
        return Ok(engine::open_on_host(config)?);
    }
    let agent = node.send_agent()?;
    Ok(with_ring_or_without(config, |config| agent.open(config))?)
}

/// Opens a publication on the network; where the ring for readers of this host cannot be created, they receive it too.
pub(crate) fn with_ring_or_without<T>(
    config: &PublicationConfig,
    open: impl Fn(PublicationConfig) -> Result<T, SendError>,
) -> Result<T, SendError> {
    match open(config.clone()) {
        // Two publishers of one stream on one host are an error; a host without shared memory is not.
        Err(SendError::Ring(error)) if !matches!(error, CreateError::InUse { .. }) => {
            tracing::warn!(
                "{error}\nreaders on this host receive `{}` over the network",
                config.description.name
            );
            open(PublicationConfig { host: None, ..config.clone() })
        }
        opened => opened,
    }
}

/// Returns the channels; a stream without named channels has one, without unit.
fn channels_of(channels: Vec<Channel>) -> Result<Vec<Channel>, SchemaError> {
    Ok(if channels.is_empty() { vec![Channel::new("value", "")] } else { channels })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an estimate that is clamped"
)]
pub(crate) fn ring_bytes(schema: &Schema) -> usize {
    let bytes = schema.rate.as_hz() * (schema.sample_bytes() as f64 + 64.0) * RING_TIME.as_secs_f64();
    (bytes as usize).clamp(MIN_RING_BYTES, MAX_RING_BYTES).max(8 * schema.sample_bytes())
}
