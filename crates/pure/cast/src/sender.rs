//! The sending side of a stream: numbers samples, cuts them into datagrams, reports its own losses.
//!
//! Pass samples in the order of their index to [`Sender::handle`]; after every input, call [`Sender::poll`] until it
//! is idle. The sender owns neither clock nor socket: datagrams to send are returned as [`Output::Transmit`],
//! datagrams that a socket refused are passed back as [`Input::Refused`].
//!
//! It is composed of a [queue](queue) of samples, a [pacer](pacing), a log of the numbers withheld from each
//! [destination](destination), a [clock for tallies](tally_clock), a [carousel](carousel) of the description's parts,
//! the table of [readers](readers) and the [demand](demand); the sender itself only decides which is next.
//!
//! Source: `docs/protocol/stream.md`, "Sending".

mod backlog;
mod beginning;
mod carousel;
mod demand;
mod destination;
mod echoes;
mod interface;
mod pacing;
mod patience;
mod queue;
mod reader_deadlines;
mod readers;
mod relayed;
mod securing;
mod sources;
mod stating;
mod tally_clock;

use core::cmp::Ordering;
use core::net::IpAddr;
use core::ops::Range;
use core::time::Duration;

use ledger::Stage;
use units::{Epoch, Instant, Random};
use wire::{
    DATA_HEADER_BYTES, Data, DataEncoder, DescriptionError, DescriptorExtensions, DescriptorParts, Fit, Kind,
    MAX_RANGES, MIN_DATA_BYTES, MIN_DATAGRAM_BYTES, Numbered, ORIGIN_BYTES, Predecessor, Request,
    SECURED_DATA_BYTES, SampleTotals, Skipped, Tally, Totals, Wanted, secured_bytes,
};

pub use beginning::Beginning;
use beginning::{Hears, Hold};
use carousel::Carousel;
use demand::Demand;
pub use demand::Sending;
use destination::Destination;
use echoes::Echoes;
pub use interface::{Input, Output, SenderConfig, SenderEvent};
use pacing::Pacer;
pub use pacing::{DEFAULT_TRAIN, Limits, Pacing};
use queue::{Next, Queue, Slice};
use reader_deadlines::Asked;
pub use reader_deadlines::{ReaderDeadlines, StatedDeadline};
use readers::{Arrived, Readers};
pub(crate) use readers::{MAX_REPORT_INTERVAL, MIN_REPORT_INTERVAL};
pub use readers::{ReaderReport, ReportStats};
use relayed::Relaying;
pub use relayed::{ElementTimes, Relayed};
pub use securing::{MAX_SECURED_DESTINATIONS, SenderSecurity};
use securing::{Securing, room_before};
pub use stating::StatementStats;
use stating::Stating;
use tally_clock::TallyClock;
pub(crate) use tally_clock::{FIRST_INTERVAL, MAX_INTERVAL};

/// Maximum time that small blocks wait for more samples before they are sent.
pub const DEFAULT_LINGER: Duration = Duration::from_millis(5);
/// Number of final tallies, sent under one number: no later datagram could repair its loss. Each tells what is known
/// by then.
const FINAL_TALLIES: u32 = 5;
/// Pause between final tallies, so that one burst of loss does not take them all.
const FINAL_TALLY_PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of bytes queued in the machine itself; the rest stays in the ring, where lapped samples are
/// counted.
const QUEUE_BYTES: usize = 64 * 1024;

/// Reason why no datagram is larger than its buffer.
const FITS: &str = "everything was cut to the datagram's size";

/// The sending side of a stream.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    head: Numbered,
    next_number: u64,
    /// Lowest start of the next data datagram; the position of tallies and descriptors.
    horizon: u64,
    next_index: u64,
    samples: SampleTotals,
    queue: Queue,
    /// What a relayed stream has in place of `next_index`, `samples` and `queue`.
    relaying: Option<Box<Relaying>>,
    /// Bytes of a data datagram around its elements.
    overhead_bytes: usize,
    encoder: DataEncoder,
    pacer: Pacer,
    destinations: Vec<Destination>,
    skipped: Vec<Skipped>,
    tallies: TallyClock,
    stating: Stating,
    descriptor: DescriptorParts,
    /// Addresses for the next descriptor.
    new_addresses: Option<Vec<IpAddr>>,
    /// Addresses in the present descriptor.
    addresses: Vec<IpAddr>,
    carousel: Carousel,
    readers: Readers,
    asked: Asked,
    echoes: Echoes,
    demand: Demand,
    /// The beginning of the epoch, while it is held.
    hold: Option<Hold>,
    injection: Injection,
    /// Keys of a secured stream.
    securing: Option<Securing>,
    /// True while a secured stream has no secret to send with.
    is_withholding: bool,
    /// True if a reporter sees what the kernel drops on this host.
    watched: bool,
    current: Option<Step>,
    phase: Phase,
    final_number: Option<u64>,
    two_publishers: Option<Epoch>,
    told_two_publishers: bool,
}

#[derive(Debug)]
struct Injection {
    probability: f64,
    random: Random,
}

/// A tally or a part of the description that is being sent to the destinations.
#[derive(Clone, Debug)]
struct Step {
    number: u64,
    content: Content,
    destination: usize,
}

#[derive(Clone, Debug)]
enum Content {
    Tally { last: bool, paused: bool, next_tally: Duration },
    Descriptor { part: u16 },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Running,
    /// The last samples are sent.
    Flushing,
    /// The final tally is repeated under one number.
    Finishing {
        number: u64,
        left: u32,
        next: Instant,
    },
    /// Everything is sent; `told` once the event has been taken.
    Finished {
        told: bool,
    },
}

impl Sender {
    /// Creates a sender that begins its epoch at `now`.
    ///
    /// # Errors
    /// [`DescriptionError`] if the description does not fit into datagrams.
    ///
    /// # Panics
    /// If a secured stream has more than [`MAX_SECURED_DESTINATIONS`]: the caller refuses them with its settings. If the
    /// origin of a relayed stream has the sender's own epoch, or a hop beyond [`wire::MAX_HOPS`].
    pub fn new(mut config: SenderConfig, seed: u64, now: Instant) -> Result<Self, DescriptionError> {
        let schema = &config.description.schema;
        let per_sample = schema.elements_per_sample();
        let plain_bytes = config.datagram_bytes - added_bytes(&config);
        let fit = wire::max_elements(plain_bytes.max(MIN_DATA_BYTES), schema.dtype, per_sample);
        let dtype = schema.dtype;
        let head = Numbered {
            stream: wire::stream_id(&config.description.name, schema),
            epoch: config.epoch,
            number: 0,
            first_index: 0,
            element_offset: 0,
            elements_per_sample: per_sample,
        };
        let control_bytes = config.datagram_bytes.max(MIN_DATAGRAM_BYTES);
        let mut securing = config
            .security
            .as_ref()
            .map(|security| Securing::new(security, (head.stream, head.epoch), config.destinations, now));
        if let Some(securing) = &mut securing {
            securing.sign(now, &mut config.description);
        }
        let descriptor = descriptor(&config, &[])?;
        let bytes_per_second = wire_bytes_per_second(&config, fit);
        let carousel = Carousel::new(descriptor.count(), now);
        let paced_bytes_per_second = bytes_per_second + carousel.bytes_per_second(control_bytes);
        let relaying = Relaying::new(&config, fit);
        Ok(Self {
            head,
            next_number: 0,
            horizon: config.relayed.map_or(0, |relayed| relayed.first_position),
            next_index: 0,
            samples: SampleTotals::default(),
            queue: Queue::new(&config.description.schema, fit, config.linger),
            relaying,
            overhead_bytes: DATA_HEADER_BYTES + added_bytes(&config),
            encoder: DataEncoder::new(&head, dtype, config.clock, config.relayed.is_some()),
            pacer: Pacer::new(config.pacing, paced_bytes_per_second, config.datagram_bytes, now),
            destinations: vec![Destination::default(); config.destinations],
            skipped: Vec::new(),
            tallies: TallyClock::new(now),
            stating: Stating::default(),
            carousel,
            descriptor,
            new_addresses: None,
            addresses: Vec::new(),
            readers: Readers::new(bytes_per_second, now),
            asked: Asked::default(),
            echoes: Echoes::default(),
            demand: Demand::new(config.sending),
            hold: Hold::new(config.beginning, now),
            watched: false,
            securing,
            is_withholding: false,
            injection: Injection { probability: 0.0, random: Random::for_purpose(seed, "injection") },
            current: None,
            phase: Phase::Running,
            final_number: None,
            two_publishers: None,
            told_two_publishers: false,
            config,
        })
    }

    /// Handles one input.
    ///
    /// # Panics
    /// If sample indices go back or samples are not whole: the caller's ring keeps their order. So do positions of a
    /// relayed stream, which takes elements where others take samples: each must have been passed in, or be told as
    /// missing, before the next. If causes are not as many as the elements missing, or not of earlier hops.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Samples { first_index, t0, bytes } => {
                if self.wants(now, first_index, bytes) {
                    self.queue.push_samples(now, first_index, t0, bytes);
                }
            }
            Input::SamplesIn { first_index, t0, buffer, start } => {
                if self.wants(now, first_index, &buffer[start..]) {
                    self.queue.push_buffer(now, first_index, t0, buffer, start);
                }
            }
            Input::Skipped { first_index, samples, stage } => {
                self.on_span(first_index, samples);
                self.queue.push_hole(first_index, samples, stage);
            }
            Input::Elements { position, times, bytes } => self.on_elements(now, position, times, bytes),
            Input::SkippedElements { positions, stage } => self.on_skipped_elements(positions, stage),
            Input::Inherited { positions, shares, cause } => self.on_inherited(&positions, shares, cause),
            Input::Settled { positions, shares } => self.on_settled(&positions, shares),
            Input::Upstream(hops) => self.on_upstream(hops),
            Input::Statement(statement) => {
                self.stating.add(statement);
                self.tallies.statement_added();
            }
            Input::Addresses(addresses) => {
                self.new_addresses = Some(addresses.to_vec());
                self.carousel.hurry(now);
            }
            Input::Backlog(bytes) => self.pacer.waiting(now, bytes + self.waiting_bytes()),
            Input::Refused { destination, number, stage, size_bytes } => {
                self.destinations[destination].totals.bytes -= size_bytes as u64;
                // One copy of the final tally is enough, and no later number could report its loss. Numbers not yet
                // assigned come from forged answers of the network.
                if self.final_number != Some(number) && number < self.next_number {
                    self.withhold(destination, number, stage);
                }
            }
            Input::Report { report, from, size_bytes } => {
                let next_number = self.next_number;
                self.on_report(now, Arrived { report, from, size_bytes, next_number });
            }
            Input::Request(request) => self.on_request(now, request),
            Input::Membership { membership, wall } => {
                if let Some(securing) = &mut self.securing {
                    securing.adopt(now, membership, wall);
                }
            }
            Input::Watched(watched) => self.watched = watched,
            Input::Inject(probability) => self.injection.probability = probability,
            Input::Finish if self.phase == Phase::Running => self.phase = Phase::Flushing,
            Input::Finish | Input::Advance => {}
        }
        self.readers.sweep(now);
    }

    /// Returns the next output; datagrams to transmit are written to the start of `buffer`, as many as it holds and a
    /// train may have.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Sender::min_buffer_bytes`].
    pub fn poll(&mut self, now: Instant, buffer: &mut [u8]) -> Output {
        loop {
            if let Some(step) = self.current.take() {
                return self.transmit(step, buffer);
            }
            if let Some(other) = self.two_publishers.take_if(|_| !self.told_two_publishers) {
                self.told_two_publishers = true;
                return Output::Event(SenderEvent::TwoPublishers { other });
            }
            if let Some(output) = self.next_step(now, buffer) {
                return output;
            }
        }
    }

    /// Returns the size of the largest single datagram.
    #[must_use]
    pub fn min_buffer_bytes(&self) -> usize {
        self.config.datagram_bytes.max(MIN_DATAGRAM_BYTES)
    }

    /// Returns the size of the longest train.
    #[must_use]
    pub fn train_bytes(&self) -> usize {
        self.min_buffer_bytes().max(self.config.datagram_bytes * self.pacer.max_train())
    }

    /// Returns whether samples may be passed now; otherwise they stay in the ring.
    #[must_use]
    pub fn wants_samples(&self) -> bool {
        // Without a secret they are counted, and not kept.
        self.phase == Phase::Running && (self.is_withholding || self.waiting_bytes() < QUEUE_BYTES)
    }

    /// Returns whether nothing is sent because the stream is secured and no secret is of use.
    #[must_use]
    pub const fn is_withholding(&self) -> bool {
        self.is_withholding
    }

    /// Returns whether the final tally has left for every destination; it is repeated until [`Self::is_finished`].
    #[must_use]
    pub const fn has_told_end(&self) -> bool {
        match self.phase {
            Phase::Running | Phase::Flushing => false,
            Phase::Finishing { left, .. } => left < FINAL_TALLIES && self.current.is_none(),
            Phase::Finished { .. } => true,
        }
    }

    /// Returns whether the epoch is over.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        matches!(self.phase, Phase::Finished { .. })
    }

    /// Returns the totals as in the first destination's tally.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals_of(0)
    }

    /// Returns the identity and the number and position of the next datagram.
    #[must_use]
    pub fn next_head(&self) -> Numbered {
        self.head.at(self.next_number, self.horizon)
    }

    /// Returns the predecessor record of this epoch for its successor.
    #[must_use]
    pub fn as_predecessor(&self) -> Predecessor {
        let Numbered { epoch, number, first_index, element_offset, .. } = self.next_head();
        Predecessor {
            epoch,
            next_number: number,
            next_index: first_index,
            element_offset,
            is_final: self.has_told_end(),
        }
    }

    /// Returns whether data are paused until a reader is heard.
    #[must_use]
    pub fn is_paused(&self, now: Instant) -> bool {
        self.demand.is_paused(now, self.readers.count())
    }

    /// Returns the readers that report, with their latest reports.
    pub fn readers(&self) -> impl Iterator<Item = &ReaderReport> {
        self.readers.iter()
    }

    /// Returns the deadlines that the readers state.
    ///
    /// Cost: looks at every reader.
    #[must_use]
    pub fn reader_deadlines(&self, now: Instant) -> ReaderDeadlines {
        self.asked.with_reports(now, &self.readers)
    }

    /// Returns the counters of received reports.
    #[must_use]
    pub const fn report_stats(&self) -> ReportStats {
        self.readers.stats()
    }

    /// Returns the counters of signed statements.
    #[must_use]
    pub const fn statement_stats(&self) -> StatementStats {
        self.stating.stats()
    }

    /// Returns the number of readers that report.
    #[must_use]
    pub fn reader_count(&self) -> u32 {
        self.readers.count()
    }

    /// Returns the number of bytes of samples that have not left yet.
    fn waiting_bytes(&self) -> usize {
        self.relaying.as_ref().map_or_else(|| self.queue.waiting_bytes(), |it| it.waiting_bytes())
    }

    /// Counts samples; returns whether any of them are to be sent.
    fn wants(&mut self, now: Instant, first_index: u64, bytes: &[u8]) -> bool {
        let sample_bytes = self.queue.sample_bytes();
        assert!(bytes.len().is_multiple_of(sample_bytes), "samples are whole");
        if bytes.is_empty() {
            return false;
        }
        let samples = (bytes.len() / sample_bytes) as u64;
        self.on_span(first_index, samples);
        let is_paused = self.is_paused(now) || self.withholds(now);
        if is_paused {
            self.queue.push_hole(first_index, samples, Stage::PublisherPaused);
        }
        !is_paused
    }

    /// Counts an index span; skipped samples were lost before they reached the sender.
    fn on_span(&mut self, first_index: u64, samples: u64) {
        assert_eq!(first_index, self.next_index, "the caller accounts for every index");
        assert!(self.relaying.is_none(), "a relay accounts for every position");
        self.next_index += samples;
        self.samples.offered += samples;
    }

    fn on_report(&mut self, now: Instant, arrived: Arrived<'_>) {
        let report = arrived.report;
        if report.stream != self.head.stream {
            return self.readers.foreign();
        }
        // After a restart, readers without a datagram of this epoch still report on its predecessor.
        let is_rival = match report.epoch.cmp(&self.head.epoch) {
            Ordering::Less => self.readers.knows(report.reader),
            Ordering::Equal => false,
            Ordering::Greater => true,
        };
        if is_rival {
            self.two_publishers = Some(report.epoch);
        }
        if report.epoch != self.head.epoch {
            return self.readers.foreign();
        }
        if self.readers.heard(now, arrived) {
            self.tallies.reader_added();
        }
        self.pacer.smallest_buffer(self.readers.smallest_buffer());
    }

    fn on_request(&mut self, now: Instant, request: &Request) {
        self.demand.asked(now);
        self.carousel.hurry(now);
        if request.nonce.is_some_and(|nonce| self.echoes.asked(nonce)) {
            self.tallies.nonce_added();
        }
        let waiting = request.waiting.filter(|_| request.epoch == self.head.epoch);
        if let Some(deadline) = waiting.and_then(|it| it.deadline) {
            self.asked.heard(now, request.reader, deadline);
        }
        let waits = waiting.is_some_and(|it| it.from_beginning);
        if let Some(hold) = self.hold.as_mut().filter(|_| waits) {
            let hears = match request.what {
                Wanted::Descriptor => Hears::Announcements,
                Wanted::Data => Hears::Group,
            };
            hold.asked(request.reader, hears);
        }
    }

    fn withhold(&mut self, destination: usize, number: u64, stage: Stage) {
        if self.destinations[destination].withhold(number, stage) {
            self.tallies.range_added();
        }
    }

    /// Returns whether a secured stream has no secret to send with now.
    fn withholds(&mut self, now: Instant) -> bool {
        let Some(securing) = &mut self.securing else { return false };
        self.is_withholding = !securing.may_send(now);
        self.is_withholding
    }

    /// Decides the next step while nothing may be sent: samples that come are skipped, those cut already wait for a
    /// secret, and an epoch ends untold.
    fn next_unsent(&mut self, now: Instant) -> Option<Output> {
        match self.phase {
            Phase::Running if self.relaying.is_some() => return self.next_relayed_unsent(now),
            Phase::Running => match self.queue.next(now, false) {
                Next::Hole { first_index, samples, stage } => self.skip(first_index, samples, stage),
                // The next membership brings a secret.
                Next::Slice(_) | Next::Wait(_) | Next::Empty => return Some(Output::Idle { deadline: None }),
            },
            Phase::Flushing | Phase::Finishing { .. } => self.phase = Phase::Finished { told: false },
            Phase::Finished { .. } => unreachable!("an epoch that is over sends nothing"),
        }
        None
    }

    /// Decides the next step; `None` if a step was done that has no output.
    fn next_step(&mut self, now: Instant, buffer: &mut [u8]) -> Option<Output> {
        if !self.is_finished() && self.withholds(now) {
            return self.next_unsent(now);
        }
        match self.phase {
            Phase::Finished { told: true } => return Some(Output::Idle { deadline: None }),
            Phase::Finished { told: false } => {
                self.phase = Phase::Finished { told: true };
                return Some(Output::Event(SenderEvent::Finished));
            }
            Phase::Finishing { number, left, next } => {
                return self.repeat_final_tally(now, number, left, next);
            }
            Phase::Running | Phase::Flushing => {}
        }
        if self.carousel.due() <= now {
            self.begin_descriptor(now);
            return None;
        }
        if self.tallies.due() <= now {
            self.begin_tally(now, false);
            return None;
        }
        let flush = self.phase == Phase::Flushing;
        let timer = self.tallies.due().min(self.carousel.due());
        if !self.carousel.is_open() {
            return Some(Output::Idle { deadline: Some(timer) });
        }
        if let Some(until) = self.held_until(now) {
            let timer = self.tallies.due().min(self.carousel.due());
            return Some(Output::Idle { deadline: Some(until.min(timer)) });
        }
        if self.relaying.is_some() {
            return self.next_relayed(now, timer, buffer);
        }
        match self.queue.next(now, flush) {
            Next::Hole { first_index, samples, stage } => self.skip(first_index, samples, stage),
            Next::Slice(slice) => {
                let ready = self.pacer.ready_at();
                if ready > now {
                    return Some(Output::Idle { deadline: Some(ready.min(timer)) });
                }
                return self.data_train::<false>(now, slice, buffer);
            }
            Next::Wait(until) => return Some(Output::Idle { deadline: Some(until.min(timer)) }),
            Next::Empty if flush => self.begin_final_tally(now),
            Next::Empty => return Some(Output::Idle { deadline: Some(timer) }),
        }
        None
    }

    /// Begins the final tally, or another one before it if one cannot tell everything that is left.
    fn begin_final_tally(&mut self, now: Instant) {
        if !self.stating.fits_one_tally(self.statement_room(true)) {
            return self.begin_tally(now, false);
        }
        let number = self.next_number;
        self.final_number = Some(number);
        self.phase = Phase::Finishing { number, left: FINAL_TALLIES, next: now };
    }

    /// Returns until when the beginning of the epoch is held, `None` once it is released.
    fn held_until(&mut self, now: Instant) -> Option<Instant> {
        let hold = self.hold.as_ref()?;
        let until = hold.until(now, self.pacer.waiting_bytes());
        if until.is_some() && hold.misses_a_reader() {
            // The description has to be received first.
            self.carousel.hurry(now);
        }
        if until.is_none() {
            self.pacer.was_held(now, hold.held_for(now));
            self.hold = None;
        }
        until
    }

    /// Lists these addresses of the publisher from now on.
    fn list(&mut self, now: Instant, addresses: &[IpAddr]) {
        // A renewed certificate may be longer than there is room for: then the signature before it is repeated.
        let Ok(listed) = descriptor(&self.config, addresses) else { return };
        self.descriptor = listed;
        if self.descriptor.count() != self.carousel.parts() {
            self.carousel.begin_again(self.descriptor.count(), now);
        }
    }

    fn begin_descriptor(&mut self, now: Instant) {
        if let Some(securing) = &mut self.securing {
            securing.renew(now);
            // Readers assemble the parts of one signature.
            if self.carousel.is_at_start() && securing.sign(now, &mut self.config.description) {
                let addresses = self.addresses.clone();
                self.new_addresses.get_or_insert(addresses);
            }
        }
        if let Some(addresses) = self.new_addresses.take() {
            self.list(now, &addresses);
            self.addresses = addresses;
        }
        self.pacer.spend(now, self.min_buffer_bytes(), 0);
        let part = self.carousel.take(now);
        self.begin(Content::Descriptor { part });
    }

    fn begin_tally(&mut self, now: Instant, last: bool) {
        if let Some(securing) = &mut self.securing {
            securing.renew(now);
        }
        self.readers.told(now, self.tallies.is_crowd());
        if self.relaying.is_none() {
            self.stating.begin_tally(self.statement_room(true), self.statement_room(false), last);
            self.echoes.begin_tally(wire::MAX_NONCES);
        } else {
            self.share_relayed_tally(last);
        }
        let next_tally = self.tallies.told(now);
        if self.echoes.waits() {
            self.tallies.nonce_added();
        }
        if self.stating.is_due() {
            self.tallies.statement_added();
        }
        let paused = self.is_paused(now);
        self.begin(Content::Tally { last, paused, next_tally });
    }

    fn repeat_final_tally(&mut self, now: Instant, number: u64, left: u32, next: Instant) -> Option<Output> {
        if left == 0 {
            self.phase = Phase::Finished { told: false };
            return None;
        }
        if now < next {
            return Some(Output::Idle { deadline: Some(next) });
        }
        self.phase = Phase::Finishing { number, left: left - 1, next: now + FINAL_TALLY_PAUSE };
        if left == FINAL_TALLIES {
            self.begin_tally(now, true);
        } else {
            if self.relaying.is_none() {
                self.echoes.begin_repeated_tally(wire::MAX_NONCES);
            } else {
                self.share_repeated_relayed_tally();
            }
            let paused = self.is_paused(now);
            let content = Content::Tally { last: true, paused, next_tally: Duration::ZERO };
            self.current = Some(Step { number, content, destination: 0 });
        }
        None
    }

    /// Writes a train of data that begins with `slice`; `None` if that one is withheld.
    ///
    /// The train ends where its datagrams would differ in size, where one is withheld, and at the pacer's limit.
    fn data_train<const RELAYED: bool>(
        &mut self,
        now: Instant,
        mut slice: Slice,
        buffer: &mut [u8],
    ) -> Option<Output> {
        let flush = self.phase == Phase::Flushing;
        let segment_bytes = self.data_bytes(&slice);
        let room = self.pacer.train(now, segment_bytes).min(self.tallies.untold_room());
        let room = room.min(buffer.len() / segment_bytes);
        let first_number = self.next_number;
        let (mut size_bytes, mut sample_bytes) = (0, 0);
        loop {
            let number = self.next_number;
            self.next_number += 1;
            let element_bytes = self.data_bytes(&slice) - self.overhead_bytes;
            sample_bytes += element_bytes;
            if self.is_withheld() {
                self.take_slice::<RELAYED>(&slice);
                for destination in 0..self.destinations.len() {
                    self.withhold(destination, number, Stage::Injected);
                }
                break;
            }
            size_bytes += self.encode_data::<RELAYED>(now, number, &slice, &mut buffer[size_bytes..]);
            self.take_slice::<RELAYED>(&slice);
            let is_full = size_bytes % segment_bytes == 0 && size_bytes / segment_bytes < room;
            match self.next_slice::<RELAYED>(now, flush) {
                Some(next) if is_full && self.data_bytes(&next) <= segment_bytes => slice = next,
                _ => break,
            }
        }
        self.tallies.data_left(now);
        let datagrams = size_bytes.div_ceil(segment_bytes);
        // Withheld datagrams use their send time, too: injected loss does not make the others faster.
        self.pacer.spend(now, sample_bytes + datagrams.max(1) * self.overhead_bytes, sample_bytes);
        if size_bytes == 0 {
            return None;
        }
        for destination in &mut self.destinations {
            destination.totals.bytes += size_bytes as u64;
        }
        let numbers = first_number..first_number + datagrams as u64;
        Some(Output::Transmit {
            destinations: 0..self.destinations.len(),
            numbers,
            segment_bytes,
            size_bytes,
        })
    }

    /// Returns the size of the datagram that carries a slice.
    fn data_bytes(&self, slice: &Slice) -> usize {
        let element_bytes = self.config.description.schema.dtype.size_bytes();
        self.overhead_bytes + slice.element_count as usize * element_bytes
    }

    /// Draws whether to inject a loss here.
    fn is_withheld(&mut self) -> bool {
        let Injection { probability, random } = &mut self.injection;
        *probability > 0.0 && random.chance(*probability)
    }

    fn encode_data<const RELAYED: bool>(
        &mut self,
        now: Instant,
        number: u64,
        slice: &Slice,
        buffer: &mut [u8],
    ) -> usize {
        let Slice { first_index, element_offset, element_count, t0 } = *slice;
        let head = Numbered { number, first_index, element_offset, ..self.head };
        let dtype = self.config.description.schema.dtype;
        let (origin, clock, payload) = match &mut self.relaying {
            Some(relaying) if RELAYED => {
                let clock = relaying.clock();
                self.encoder.set_clock(clock);
                (Some(relaying.data_origin(now)), clock, relaying.payload(slice))
            }
            _ => (None, self.config.clock, self.queue.payload(slice)),
        };
        let data = Data { head, t0, clock, dtype, element_count, origin: origin.as_ref(), payload };
        let room = if self.securing.is_some() { room_before(Kind::Data) } else { 0 };
        let encoded = self.encoder.encode(&data, &mut buffer[room..]);
        let plain_bytes = encoded.expect(FITS);
        let Some(securing) = &self.securing else { return plain_bytes };
        let size_bytes = plain_bytes + secured_bytes(Kind::Data);
        securing.secure(Kind::Data, number, 0, &mut buffer[..size_bytes]);
        size_bytes
    }

    /// Assigns the next number to a datagram.
    fn begin(&mut self, content: Content) {
        self.current = Some(Step { number: self.next_number, content, destination: 0 });
        self.next_number += 1;
    }

    fn next_slice<const RELAYED: bool>(&self, now: Instant, flush: bool) -> Option<Slice> {
        if RELAYED {
            return self.relaying.as_ref().and_then(|relaying| relaying.next_slice(now, flush));
        }
        match self.queue.next(now, flush) {
            Next::Slice(slice) => Some(slice),
            Next::Hole { .. } | Next::Wait(_) | Next::Empty => None,
        }
    }

    fn take_slice<const RELAYED: bool>(&mut self, slice: &Slice) {
        if RELAYED {
            self.horizon = self.relaying().take_slice(slice);
            return;
        }
        self.samples.numbered += self.queue.take_slice(slice);
        let start = self.position(slice.first_index) + u64::from(slice.element_offset);
        self.horizon = start + u64::from(slice.element_count);
    }

    /// Skips samples that never get a number.
    fn skip(&mut self, first_index: u64, samples: u64, stage: Stage) {
        self.queue.take_hole();
        match stage {
            Stage::Source => self.samples.source += samples,
            Stage::PublisherQueue => self.samples.publisher_queue += samples,
            Stage::PublisherPaused => self.samples.publisher_paused += samples,
            other => unreachable!("samples are not lost in stage {other} before they are numbered"),
        }
        let positions = self.position(first_index)..self.position(first_index + samples);
        self.horizon = positions.end;
        let grown = self.skipped.last_mut();
        let grown = grown.filter(|last| last.stage == stage && last.positions.end == positions.start);
        // A paused block does not call for a tally: readers that join learn of the pause from the next one.
        if grown.is_none() || stage != Stage::PublisherPaused {
            self.tallies.range_added();
        }
        if let Some(last) = grown {
            last.positions.end = positions.end;
            return;
        }
        if self.skipped.len() == MAX_RANGES {
            self.skipped.remove(0);
        }
        self.skipped.push(Skipped { positions, stage, inherited: None });
    }

    const fn position(&self, index: u64) -> u64 {
        index * self.head.elements_per_sample as u64
    }

    /// Writes a control datagram: for one destination, continuing with the next, or one for all.
    fn transmit(&mut self, step: Step, buffer: &mut [u8]) -> Output {
        let size_bytes = self.encode(&step, buffer);
        let Step { number, content, destination } = step;
        let destinations = match content {
            Content::Tally { .. } => destination..destination + 1,
            Content::Descriptor { .. } => 0..self.destinations.len(),
        };
        for destination in &mut self.destinations[destinations.clone()] {
            destination.totals.bytes += size_bytes as u64;
        }
        if destinations.end < self.destinations.len() {
            self.current = Some(Step { number, content, destination: destinations.end });
        }
        let numbers = number..number + 1;
        Output::Transmit { destinations, numbers, segment_bytes: size_bytes, size_bytes }
    }

    /// Encodes a tally or descriptor, and secures it.
    fn encode(&mut self, step: &Step, buffer: &mut [u8]) -> usize {
        let buffer = &mut buffer[..self.min_buffer_bytes()];
        let head = self.head.at(step.number, self.horizon);
        match &step.content {
            Content::Tally { last, paused, next_tally } => {
                let tally = self.tally(head, *next_tally, step.destination);
                self.encode_tally(Tally { last: *last, paused: *paused, ..tally }, step.destination, buffer)
            }
            Content::Descriptor { part } => {
                let part = self.descriptor.part(*part, head).expect("parts are counted");
                let room = self.room(Kind::Descriptor, buffer.len());
                let plain_bytes = part.encode(&mut buffer[room]).expect(FITS);
                let Some(securing) = &self.securing else { return plain_bytes };
                let size_bytes = plain_bytes + secured_bytes(Kind::Descriptor);
                securing.secure(Kind::Descriptor, step.number, 0, &mut buffer[..size_bytes]);
                size_bytes
            }
        }
    }

    /// Encodes a tally for one destination, and secures it. No secured number has two contents: a final tally is
    /// repeated byte for byte, or revised if there is more to tell.
    fn encode_tally(&mut self, tally: Tally, destination: usize, buffer: &mut [u8]) -> usize {
        let room = self.room(Kind::Tally, buffer.len());
        let Some(securing) = &mut self.securing else {
            return tally.encode(&mut buffer[room]).expect(FITS);
        };
        if tally.last
            && let Some(bytes) = securing.final_tally(destination, &tally)
        {
            buffer[..bytes.len()].copy_from_slice(bytes);
            return bytes.len();
        }
        let size_bytes = tally.encode(&mut buffer[room]).expect(FITS) + secured_bytes(Kind::Tally);
        let bytes = &mut buffer[..size_bytes];
        if tally.last {
            securing.secure_final_tally(destination, tally, bytes);
        } else {
            securing.secure(Kind::Tally, tally.head.number, destination, bytes);
        }
        size_bytes
    }

    /// Returns the place of a plain tally or descriptor in a buffer of this size.
    fn room(&self, kind: Kind, buffer_bytes: usize) -> Range<usize> {
        let secured = |bytes| if self.securing.is_some() { bytes } else { 0 };
        secured(room_before(kind))..buffer_bytes - secured(secured_bytes(kind) - room_before(kind))
    }

    fn tally(&self, head: Numbered, next_tally: Duration, destination: usize) -> Tally {
        let relaying = self.relaying.as_ref();
        Tally {
            head,
            last: false,
            paused: false,
            watched: self.watched,
            next_tally,
            readers: self.readers.count(),
            report_interval: self.readers.report_interval(),
            totals: self.totals_of(destination),
            withheld: self.destinations[destination].withheld.clone(),
            skipped: relaying.map_or_else(|| self.skipped.clone(), |it| it.ranges.listed().to_vec()),
            nonces: self.echoes.told().to_vec(),
            statement: self.stating.told().to_vec(),
            origin: relaying.map(|it| it.origin),
            upstream: relaying.map_or_else(Vec::new, |it| it.told_upstream().to_vec()),
        }
    }

    /// Returns the room for a statement in the next tally; beside the ranges that no tally had yet, or without any.
    fn statement_room(&self, with_ranges: bool) -> usize {
        let secured = self.secured_tally_bytes();
        let ranges = if with_ranges { self.tallies.untold_ranges() } else { 0 };
        if self.relaying.is_some() {
            return self.relayed_statement_room(ranges);
        }
        let relayed = wire::relayed_bytes(None, &[], &[]);
        Tally::room_for_statement(self.min_buffer_bytes() - secured, relayed, wire::MAX_NONCES, ranges)
    }

    /// Returns the bytes that security adds to a tally.
    const fn secured_tally_bytes(&self) -> usize {
        if self.securing.is_some() { secured_bytes(Kind::Tally) } else { 0 }
    }

    fn totals_of(&self, destination: usize) -> Totals {
        let samples = match &self.relaying {
            Some(relaying) => relaying.totals(),
            None => SampleTotals { queued: self.queue.queued_samples(), ..self.samples },
        };
        Totals { samples, datagrams: self.destinations[destination].totals }
    }
}

/// Splits the description, with the publisher's predecessor and addresses, into parts.
fn descriptor(config: &SenderConfig, addresses: &[IpAddr]) -> Result<DescriptorParts, DescriptionError> {
    let secured_bytes = if config.security.is_some() { secured_bytes(Kind::Descriptor) } else { 0 };
    let control_bytes = config.datagram_bytes.max(MIN_DATAGRAM_BYTES) - secured_bytes;
    let SenderConfig { predecessor, deadline, relayed, .. } = *config;
    let origin = relayed.map(|relayed| relayed.origin);
    let extensions = DescriptorExtensions { predecessor, addresses, origin, deadline };
    DescriptorParts::with_extensions(&config.description, &extensions, control_bytes)
}

/// Returns the bytes that security and the origin of relayed samples add to a data datagram.
const fn added_bytes(config: &SenderConfig) -> usize {
    let secured = if config.security.is_some() { SECURED_DATA_BYTES } else { 0 };
    secured + if config.relayed.is_some() { ORIGIN_BYTES } else { 0 }
}

/// Returns the stream's rate on the wire at its own sample rate, headers included.
fn wire_bytes_per_second(config: &SenderConfig, fit: Fit) -> f64 {
    let schema = &config.description.schema;
    let elements = f64::from(schema.elements_per_sample());
    #[expect(clippy::cast_precision_loss, reason = "sizes are small")]
    let payload = elements * schema.dtype.size_bytes() as f64;
    let per_datagram = f64::from(fit.elements(schema.elements_per_sample()));
    #[expect(clippy::cast_precision_loss, reason = "sizes are small")]
    let headers = elements / per_datagram * (DATA_HEADER_BYTES + added_bytes(config)) as f64;
    schema.rate.as_hz() * (payload + headers)
}
