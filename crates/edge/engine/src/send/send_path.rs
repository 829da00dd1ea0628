//! The send path of one publisher: from its ring through the machine to the socket.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use cast::Sender;
use cast::send::{Input, Output, ReaderReport, SenderConfig, SenderEvent};
use ledger::{DropNotice, Stage};
use ring::{Read, Reader};
use sample::StreamName;
use sys::{
    Buffer, Interface, Loopback, MAX_TRAIN_BYTES, Origin, Outcome, PathError, Refusal, SendOptions,
    SendSocket, clock, header_bytes, path_mtu,
};
use units::{Epoch, Instant, Random, StreamId, WallTime};
use wire::{Announcement, Datagram, DescriptionError, Numbered, Predecessor, Report, Request};

use super::departures::Departures;
use super::error::SendError;
use super::publication_config::{PublicationConfig, SocketFull};
use super::publication_shared::PublicationShared;
use super::samples::Samples;
use crate::record::{BlockRecord, Record};

/// Interval at which a publisher announces its stream.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(1);
/// Interval before the second announcement, twice that before the third, and so on: a reader that
/// starts in the same moment may just have missed the first.
const FIRST_ANNOUNCE_INTERVAL: Duration = Duration::from_millis(100);
/// Random spread of announcements, a tenth either way, so that many publishers do not announce at
/// the same time.
const ANNOUNCE_SPREAD: f64 = 0.2;
/// Interval at which totals and readers are reported to the publisher's thread.
const STATUS_INTERVAL: Duration = Duration::from_millis(100);
/// Default TTL of multicast: it stays in the local network.
const MULTICAST_TTL: u8 = 1;
/// Maximum number of trains that one publisher sends in a duty cycle, so that the others send too.
const MAX_TRAINS_PER_DUTY_CYCLE: usize = 8;
/// Maximum number of polls in a publisher's own thread: one train, and a check for more.
const MAX_INLINE_TRAINS: usize = 2;
/// Maximum number of destinations to which a publisher sends inline.
const MAX_QUICK_DESTINATIONS: usize = 4;
/// Maximum length of a run of dropped datagrams: more than a publisher sends between two checks.
const MAX_NUMBERS_PER_NOTICE: usize = 1 << 20;
/// Maximum time that datagrams wait for a send buffer that does not drain: then the device is
/// stuck, and not merely slow.
const MAX_HELD: Duration = Duration::from_secs(5);

/// The agent's settings that a send path needs.
pub(super) struct Surroundings {
    pub(super) interface: Option<Interface>,
    pub(super) ttl: Option<u8>,
    /// The stream's previous epoch, if it was one of this agent's.
    pub(super) predecessor: Option<Predecessor>,
}

/// One publisher's path from its ring to the network.
pub(super) struct SendPath {
    machine: Sender,
    reader: Reader,
    record: Vec<u8>,
    socket: SendSocket,
    destinations: Vec<SocketAddr>,
    shared: Arc<PublicationShared>,
    announcement: Announcement,
    /// `None` where there is no multicast.
    next_announcement: Option<Instant>,
    announce_interval: Duration,
    random: Random,
    next_status: Instant,
    next_index: u64,
    elements_per_sample: u64,
    sample_bytes: usize,
    /// The ring's totals as expected before the next record.
    totals: [u64; 2],
    /// Fill of the ring, in bytes, at or below which a waiting publisher continues.
    enough_room_bytes: u64,
    /// Buffer for a train.
    train: Vec<u8>,
    departures: Departures,
    /// Numbers that were refused, until they are passed to the machine.
    refused: Vec<Refused>,
    /// The settings with which the socket is opened.
    egress: Egress,
    /// Parts of `train` that found it full and wait, and since when.
    held: Vec<Part>,
    held_since: Instant,
    /// True if held datagrams were given up, and nothing has been sent since.
    gave_up: bool,
    /// True if the agent's poller reports when the socket has room.
    pub(super) is_watched: bool,
    /// True if the publisher's thread polled it since the agent last did: the next deadline has
    /// changed.
    was_polled_inline: bool,
    injection: f64,
    warned: Vec<Stage>,
    /// True once the warning was logged that more readers report than are counted.
    warned_of_readers: bool,
    path_errors: Vec<PathError>,
    /// Device by which datagrams leave, if it was configured.
    device: Option<u32>,
}

/// The settings with which a send path's socket is opened, and opened again when its interface has
/// changed.
struct Egress {
    options: SendOptions,
    unicast_ttl: Option<u8>,
    /// Handling of datagrams that find the send buffer full.
    socket_full: SocketFull,
}

/// Datagrams of the current train, one behind the other.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Part {
    destination: usize,
    /// The number of the first.
    first: u64,
    /// Range of their bytes in the train.
    bytes: Range<usize>,
    segment_bytes: usize,
}

/// A datagram that was not sent.
#[derive(Clone, Copy)]
struct Refused {
    destination: usize,
    number: u64,
    size_bytes: usize,
    why: Refusal,
}

/// Remaining work after a poll.
pub(super) enum Polled {
    /// There is more to do immediately.
    Busy,
    /// Nothing is due before this time.
    Until(Option<Instant>),
    /// The epoch is over.
    Finished,
}

impl SendPath {
    pub(super) fn open(
        config: &PublicationConfig,
        reader: Reader,
        shared: Arc<PublicationShared>,
        with: &Surroundings,
        now: Instant,
    ) -> Result<Self, SendError> {
        let first = *config.destinations.first().ok_or(SendError::NoDestination)?;
        if config.destinations.iter().any(|other| other.is_ipv4() != first.is_ipv4()) {
            return Err(SendError::MixedDestinations);
        }
        let egress = Egress {
            options: SendOptions {
                destination: first,
                interface: with.interface.clone(),
                ttl: with.ttl.unwrap_or(MULTICAST_TTL),
                loopback: Loopback::On,
                buffer_bytes: config.send_buffer_bytes,
                techniques: config.techniques,
            },
            unicast_ttl: with.ttl,
            socket_full: config.socket_full,
        };
        let socket = egress.open(&config.destinations, &config.description.name)?;
        let device = egress.device();
        let schema = &config.description.schema;
        let machine = machine(config, fitting_bytes(config, with), with.predecessor, now)?;
        let announcement = Announcement {
            stream: machine.next_head().stream,
            epoch: config.epoch,
            name: config.description.name.clone(),
            group: first,
            report_port: config.description.report_port,
            dtype: schema.dtype,
            rate: schema.rate,
            channels: u32::try_from(schema.channels.len()).expect("a checked schema"),
            elements_per_sample: schema.elements_per_sample(),
            station: config.description.station.clone(),
            period: ANNOUNCE_INTERVAL,
        };
        Ok(Self {
            enough_room_bytes: reader.capacity_bytes() / 2,
            train: vec![0; machine.train_bytes()],
            departures: Departures::default(),
            refused: Vec::new(),
            egress,
            held: Vec::new(),
            held_since: now,
            gave_up: false,
            is_watched: false,
            was_polled_inline: false,
            machine,
            reader,
            record: Vec::new(),
            socket,
            destinations: config.destinations.clone(),
            shared,
            announcement,
            next_announcement: Some(now),
            announce_interval: FIRST_ANNOUNCE_INTERVAL,
            random: Random::for_purpose(config.epoch.incarnation, "announcements"),
            next_status: now,
            next_index: 0,
            elements_per_sample: u64::from(schema.elements_per_sample()),
            sample_bytes: schema.sample_bytes(),
            totals: [0, 0],
            injection: 0.0,
            warned: Vec::new(),
            warned_of_readers: false,
            path_errors: Vec::new(),
            device,
        })
    }

    pub(super) const fn stream(&self) -> StreamId {
        self.announcement.stream
    }

    /// Returns the send buffer that the kernel granted.
    pub(super) const fn granted_buffer(&self) -> Buffer {
        self.socket.granted_buffer()
    }

    pub(super) const fn epoch(&self) -> Epoch {
        self.announcement.epoch
    }

    /// Returns the readers that report, with their last reports.
    pub(super) fn readers(&self) -> Vec<ReaderReport> {
        self.machine.readers().cloned().collect()
    }

    /// Returns whether datagrams wait for room in the socket's send buffer.
    pub(super) const fn waits_for_socket(&self) -> bool {
        !self.held.is_empty()
    }

    pub(super) const fn socket(&self) -> &SendSocket {
        &self.socket
    }

    /// Returns whether the agent must poll it before it sleeps.
    pub(super) fn needs_poll(&self) -> bool {
        self.was_polled_inline || self.has_input()
    }

    /// Returns whether the publisher has written samples or changed its state since the last poll,
    /// and this can be handled now.
    pub(super) fn has_input(&self) -> bool {
        if self.waits_for_socket() {
            return false;
        }
        let has_samples = self.reader.lag_bytes() > 0 || self.shared.is_closed();
        (self.machine.wants_samples() && has_samples)
            || self.shared.injection().to_bits() != self.injection.to_bits()
    }

    pub(super) fn on_report(&mut self, now: Instant, report: &Report, from: IpAddr, size_bytes: usize) {
        self.machine.handle(now, Input::Report { report, from, size_bytes });
        self.warn_of_made_up_readers();
        self.drain(now);
    }

    /// Returns the stream, and this epoch as the next one's predecessor.
    pub(super) fn as_predecessor(&self) -> (StreamId, Predecessor) {
        (self.announcement.stream, self.machine.as_predecessor())
    }

    pub(super) fn on_request(&mut self, now: Instant, request: &Request) {
        self.machine.handle(now, Input::Request(request));
        self.drain(now);
    }

    /// Sets whether a drop reporter sees all drops on this host: the tallies carry it.
    pub(super) fn on_watched(&mut self, now: Instant, watched: bool) {
        self.machine.handle(now, Input::Watched(watched));
        self.drain(now);
    }

    /// Counts datagrams as lost that the socket accepted and the kernel freed before they left the
    /// host.
    pub(super) fn on_drop(&mut self, now: Instant, notice: &DropNotice) {
        let destination = self.destinations.iter().position(|known| *known == notice.destination);
        let Some(destination) = destination.filter(|_| notice.incarnation == self.epoch().incarnation) else {
            return;
        };
        let stage = notice.stage;
        self.warn_once(stage, &format!("kfree_skb {}", notice.reason));
        for number in notice.numbers.clone().take(MAX_NUMBERS_PER_NOTICE) {
            // Its bytes were sent, though in vain.
            self.machine.handle(now, Input::Refused { destination, number, stage, size_bytes: 0 });
        }
        self.drain(now);
    }

    /// Passes to the machine, for its readers, the possible source addresses of datagrams.
    pub(super) fn on_addresses(&mut self, now: Instant, addresses: &[IpAddr]) {
        self.machine.handle(now, Input::Addresses(addresses));
        self.drain(now);
    }

    /// Opens the socket again for an interface that has returned, or has other addresses: the old
    /// socket keeps a number and a source address that no longer exist. Without a pinned interface,
    /// only if its source is no address of this host any more.
    pub(super) fn on_interface(&mut self, interface: Option<&Interface>) {
        let is_of_use = match interface {
            Some(interface) => self.egress.is_another(interface),
            None => self.socket.has_lost_its_source(),
        };
        if !is_of_use {
            return;
        }
        let before = self.egress.options.interface.clone();
        self.egress.options.interface = interface.cloned().or_else(|| before.clone());
        match self.egress.open(&self.destinations, &self.announcement.name) {
            Ok(socket) => {
                // The poller forgets a socket that is closed.
                (self.socket, self.is_watched) = (socket, false);
                self.device = self.egress.device();
            }
            // The next change is another attempt.
            Err(error) => {
                self.egress.options.interface = before;
                tracing::warn!("stream `{}` is not sent: {error}", self.announcement.name);
            }
        }
    }

    /// Sends all that is due now, within bounds that leave the other publishers their share.
    pub(super) fn poll(&mut self, now: Instant, announce_to: Option<SocketAddr>) -> Polled {
        self.was_polled_inline = false;
        self.announce(now, announce_to);
        self.send_what_is_due(now, MAX_TRAINS_PER_DUTY_CYCLE)
    }

    /// Returns whether a poll would delay a publisher: more than `max_bytes` bytes wait, or there
    /// are many destinations.
    pub(super) fn is_long_work(&self, max_bytes: usize) -> bool {
        self.reader.lag_bytes() > 2 * max_bytes as u64 || self.destinations.len() > MAX_QUICK_DESTINATIONS
    }

    /// Sends a train or two from the publisher's own thread. Work that needs the agent's poller is
    /// left to the agent, which sees that there was a poll.
    pub(super) fn poll_inline(&mut self, now: Instant, announce_to: Option<SocketAddr>) -> Polled {
        self.was_polled_inline = true;
        self.announce(now, announce_to);
        let polled = self.send_what_is_due(now, MAX_INLINE_TRAINS);
        self.left_to_agent(polled)
    }

    /// Sends all trains that are due from the publisher's own thread, with samples that it passes
    /// directly; returns how many bytes of them were taken: none where others wait before them.
    pub(super) fn poll_with(
        &mut self,
        now: Instant,
        announce_to: Option<SocketAddr>,
        samples: &Samples<'_>,
    ) -> (usize, Polled) {
        self.was_polled_inline = true;
        let are_next = match samples.ring_position {
            Some(position) => position == self.reader.position(),
            None => self.reader.lag_bytes() == 0,
        };
        if !are_next || self.destinations.len() > MAX_QUICK_DESTINATIONS {
            return (0, Polled::Busy);
        }
        self.announce(now, announce_to);
        self.follow_injection(now);
        let (first_index, mut now, mut rest) = (self.next_index, now, samples.bytes);
        let mut is_there = true;
        let idle = loop {
            while is_there && !rest.is_empty() && self.wants_samples() {
                is_there = samples.ring_position.is_none() || self.passes_over_record(now);
                if !is_there {
                    break;
                }
                let (part, behind) = rest.split_at(rest.len().min(samples.part_bytes));
                self.take_samples(now, samples.rate.time_of(self.next_index, first_index, samples.t0), part);
                rest = behind;
            }
            self.machine.handle(now, Input::Backlog(rest.len()));
            let idle = self.step(now);
            if let Some(deadline) = idle
                && (!is_there || rest.is_empty() || !self.wants_samples())
            {
                break deadline;
            }
            now = clock::monotonic();
        };
        let polled = self.end_poll(now, Some(idle));
        (samples.bytes.len() - rest.len(), self.left_to_agent(polled))
    }

    /// Returns the remaining work after an inline poll: the agent's poller is needed while the
    /// socket is full.
    fn left_to_agent(&self, polled: Polled) -> Polled {
        if self.waits_for_socket() { Polled::Busy } else { polled }
    }

    fn send_what_is_due(&mut self, now: Instant, max_trains: usize) -> Polled {
        self.follow_injection(now);
        let mut idle = None;
        for _ in 0..max_trains {
            // Before every train, so that as many datagrams as possible are ready for it.
            let fed = self.feed(now);
            idle = self.step(now);
            // Also when nothing was read: a closed ring still has to be handled.
            if !fed && idle.is_some() {
                break;
            }
        }
        self.end_poll(now, idle)
    }

    /// Returns the remaining work after a poll that left the machine idle until a deadline, or
    /// busy.
    #[expect(clippy::option_option, reason = "there may be no deadline")]
    fn end_poll(&mut self, now: Instant, idle: Option<Option<Instant>>) -> Polled {
        self.tell_status(now);
        if self.machine.is_finished() {
            return Polled::Finished;
        }
        match idle {
            Some(deadline) if !self.has_input() && deadline.is_none_or(|deadline| deadline > now) => {
                Polled::Until(Instant::earlier(deadline, self.next_announcement))
            }
            _ => Polled::Busy,
        }
    }

    /// Returns whether samples may be passed to the machine: it first sends those that it has.
    fn wants_samples(&self) -> bool {
        self.machine.wants_samples() && !self.waits_for_socket()
    }

    /// Passes over a record whose samples the publisher has passed directly; returns whether it was
    /// still in the ring.
    fn passes_over_record(&mut self, now: Instant) -> bool {
        match self.reader.look() {
            Ok(_) => {
                self.reader.skip();
                true
            }
            // The ring is so small that the samples do not fit into it.
            Err(Read::Lapped { totals }) => {
                self.lapped(now, totals);
                false
            }
            // The next poll handles the error.
            Err(_) => false,
        }
    }

    /// Passes samples to the machine that are in no ring, or not to be read from there.
    fn take_samples(&mut self, now: Instant, t0: WallTime, bytes: &[u8]) {
        let (first_index, samples) = (self.next_index, (bytes.len() / self.sample_bytes) as u64);
        self.next_index += samples;
        self.totals[0] += samples * self.elements_per_sample;
        self.machine.handle(now, Input::Samples { first_index, t0, bytes });
    }

    fn announce(&mut self, now: Instant, to: Option<SocketAddr>) {
        let Some(to) = to else {
            self.next_announcement = None;
            return;
        };
        if self.next_announcement.is_some_and(|due| now < due) {
            return;
        }
        let spread = 1.0 + ANNOUNCE_SPREAD * (self.random.unit() - 0.5);
        self.next_announcement = Some(now + self.announce_interval.mul_f64(spread));
        self.announce_interval = (self.announce_interval * 2).min(ANNOUNCE_INTERVAL);
        let mut datagram = [0; wire::MIN_DATAGRAM_BYTES];
        if let Ok(size_bytes) = self.announcement.encode(&mut datagram) {
            // An announcement that was not sent is repeated in a second: nothing to count.
            let _ = self.socket.send_batch(&[&datagram[..size_bytes]], to);
        }
    }

    fn follow_injection(&mut self, now: Instant) {
        let requested = self.shared.injection();
        if requested.to_bits() != self.injection.to_bits() {
            self.injection = requested;
            self.machine.handle(now, Input::Inject(requested));
            self.drain(now);
        }
    }

    /// Moves records from the ring into the machine; returns whether there were any.
    fn feed(&mut self, now: Instant) -> bool {
        let mut fed = false;
        while self.machine.wants_samples() {
            match self.reader.read(&mut self.record) {
                Read::Empty => break,
                Read::Closed => {
                    self.machine.handle(now, Input::Finish);
                    return false;
                }
                Read::Broken => {
                    tracing::error!(
                        "stream `{}` ends: the ring between publisher and network is damaged",
                        self.announcement.name
                    );
                    self.machine.handle(now, Input::Finish);
                    return false;
                }
                Read::Lapped { totals } => self.lapped(now, totals),
                Read::Record { kind, totals } => self.read(now, kind, totals),
            }
            fed = true;
        }
        let backlog_bytes = self.reader.lag_bytes();
        if fed && backlog_bytes <= self.enough_room_bytes {
            self.shared.there_is_room();
        }
        self.machine.handle(now, Input::Backlog(usize::try_from(backlog_bytes).unwrap_or(usize::MAX)));
        fed
    }

    fn read(&mut self, now: Instant, record_kind: u16, totals: [u64; 2]) {
        self.totals = totals;
        match Record::decode(record_kind, &self.record) {
            Ok(Record::Block(BlockRecord { t0, payload, .. })) => {
                let (first_index, start) = (self.next_index, self.record.len() - payload.len());
                let samples = (payload.len() / self.sample_bytes) as u64;
                self.next_index += samples;
                self.totals[0] += samples * self.elements_per_sample;
                let buffer = &mut self.record;
                self.machine.handle(now, Input::SamplesIn { first_index, t0, buffer, start });
            }
            Ok(Record::Gap(_, gap)) => {
                self.totals[1] += gap.len();
                self.skip(now, gap.len() / self.elements_per_sample, Stage::Source);
            }
            // Beginning and end are for readers; the machine has its own.
            Ok(Record::Began { .. } | Record::Ended { .. }) => {}
            Ok(Record::Settled(..) | Record::TwoPublishers { .. }) | Err(_) => {
                debug_assert!(false, "a publisher writes nothing else");
            }
        }
    }

    /// Counts samples that the ring overwrote before they were sent.
    fn lapped(&mut self, now: Instant, totals: [u64; 2]) {
        let [written, skipped] = totals;
        let lost = (written - self.totals[0]) / self.elements_per_sample;
        let holes = (skipped - self.totals[1]) / self.elements_per_sample;
        self.totals = totals;
        self.warn_once(Stage::PublisherQueue, "the publisher outran its network: samples were taken back");
        self.skip(now, lost, Stage::PublisherQueue);
        self.skip(now, holes, Stage::Source);
    }

    fn skip(&mut self, now: Instant, samples: u64, stage: Stage) {
        if samples > 0 {
            let first_index = self.next_index;
            self.next_index += samples;
            self.machine.handle(now, Input::Skipped { first_index, samples, stage });
        }
    }

    /// Executes the machine's outputs until it is idle.
    fn drain(&mut self, now: Instant) {
        while self.step(now).is_none() {}
    }

    /// Executes the machine's next output; returns its deadline if there is none.
    #[expect(clippy::option_option, reason = "there may be no deadline")]
    fn step(&mut self, now: Instant) -> Option<Option<Instant>> {
        if self.waits_for_socket() && !self.send_held(now) {
            return Some(Some(self.held_since + MAX_HELD));
        }
        match self.machine.poll(now, &mut self.train) {
            Output::Transmit { destinations, numbers, segment_bytes, size_bytes } => {
                for destination in destinations {
                    let (first, bytes) = (numbers.start, 0..size_bytes);
                    self.send(&Part { destination, first, bytes, segment_bytes });
                }
                self.held_since = now;
                self.departures.left(clock::monotonic(), numbers.end - numbers.start);
                self.tell_refusals(now);
            }
            Output::Event(SenderEvent::TwoPublishers { other }) => self.two_publishers(other),
            Output::Event(SenderEvent::Finished) => {}
            Output::Idle { deadline } => return Some(deadline),
        }
        None
    }

    /// Sends datagrams that waited for room in the send buffer; returns whether all of them were
    /// sent or given up.
    fn send_held(&mut self, now: Instant) -> bool {
        let waited = std::mem::take(&mut self.held);
        waited.iter().for_each(|part| self.send(part));
        if self.held != waited {
            self.held_since = now;
        } else if now >= self.held_since + MAX_HELD {
            self.give_up_held();
        }
        self.tell_refusals(now);
        !self.waits_for_socket()
    }

    /// Counts datagrams as lost that waited too long.
    fn give_up_held(&mut self) {
        self.gave_up = true;
        for Part { destination, first, bytes, segment_bytes } in std::mem::take(&mut self.held) {
            let sizes = self.train[bytes].chunks(segment_bytes).map(<[u8]>::len);
            let why = Refusal::SocketFull;
            let refused = (first..).zip(sizes).map(|(number, size_bytes)| Refused {
                destination,
                number,
                size_bytes,
                why,
            });
            self.refused.extend(refused);
        }
    }

    /// Sends a part of the train to its destination.
    fn send(&mut self, part: &Part) {
        let Part { destination, first, segment_bytes, .. } = *part;
        let bytes = &self.train[part.bytes.clone()];
        // A publisher that ends over a stuck device does not wait again for every train.
        let waits = self.egress.socket_full == SocketFull::Wait && !(self.gave_up && self.shared.is_closed());
        let outcomes = self.socket.send_train(bytes, segment_bytes, self.destinations[destination]);
        let starts = (part.bytes.start..).step_by(segment_bytes);
        for (((number, datagram), start), outcome) in
            (first..).zip(bytes.chunks(segment_bytes)).zip(starts).zip(outcomes)
        {
            let Outcome::Refused(why) = *outcome else {
                self.gave_up = false;
                continue;
            };
            if why == Refusal::SocketFull && waits {
                hold(&mut self.held, Part { first: number, bytes: start..start + datagram.len(), ..*part });
            } else {
                self.refused.push(Refused { destination, number, size_bytes: datagram.len(), why });
            }
        }
        if let Some(error) = self.socket.take_end_of_trains() {
            tracing::info!(
                "stream `{}` is sent datagram by datagram: this path does not support trains ({error})",
                self.announcement.name
            );
        }
    }

    fn tell_refusals(&mut self, now: Instant) {
        let mut refused = std::mem::take(&mut self.refused);
        for Refused { destination, number, size_bytes, why } in refused.drain(..) {
            let stage = stage_of(why);
            if why == Refusal::QueueDiscipline && !self.warned.contains(&stage) {
                // The queue discipline may have been set since this stream began.
                keep_trains_whole(&mut self.socket, self.device, &self.announcement.name);
            }
            self.warn_once(stage, &why.to_string());
            self.machine.handle(now, Input::Refused { destination, number, stage, size_bytes });
        }
        self.refused = refused;
        if self.socket.met_path_errors() {
            self.follow_path_errors(now);
        }
    }

    /// Counts datagrams as lost that the socket accepted and the network reported as undeliverable.
    fn follow_path_errors(&mut self, now: Instant) {
        let mut errors = std::mem::take(&mut self.path_errors);
        if let Err(error) = self.socket.drain_error_queue(&mut errors) {
            tracing::debug!("stream `{}`: the error queue cannot be read: {error}", self.announcement.name);
        }
        for error in errors.drain(..) {
            let to = error.destination;
            let destination = self.destinations.iter().position(|known| Some(*known) == to);
            let Some((destination, head)) = destination.zip(own_head(&error)) else { continue };
            if head.stream != self.announcement.stream || head.epoch != self.announcement.epoch {
                continue;
            }
            self.warn_once(Stage::SenderIp, &error.to_string());
            // Its bytes were sent, though in vain.
            let (number, stage, size_bytes) = (head.number, Stage::SenderIp, 0);
            self.machine.handle(now, Input::Refused { destination, number, stage, size_bytes });
        }
        self.path_errors = errors;
    }

    fn two_publishers(&mut self, other: Epoch) {
        tracing::warn!(
            "another publisher sends the stream `{}` too (its epoch began at {} ns); stop one of them or rename it",
            self.announcement.name,
            other.start_ns
        );
        self.shared.update(|status| status.two_publishers = Some(other));
    }

    fn tell_status(&mut self, now: Instant) {
        if now < self.next_status && !self.machine.is_finished() {
            return;
        }
        self.next_status = now + STATUS_INTERVAL;
        self.follow_path_errors(now);
        let (totals, readers) = (self.machine.totals(), self.machine.reader_count());
        let reports = self.machine.report_stats();
        let (paused, departures) = (self.machine.is_paused(now), self.departures);
        self.shared.update(|status| {
            status.totals = totals;
            status.departures = departures;
            status.readers = readers;
            status.reports = reports;
            status.paused = paused;
        });
    }

    fn warn_of_made_up_readers(&mut self) {
        let stats = self.machine.report_stats();
        let unheard = stats.too_many + stats.displaced + stats.borrowed;
        if unheard > 0 && !std::mem::replace(&mut self.warned_of_readers, true) {
            tracing::warn!(
                "more readers report on stream `{}` than are counted: many use one address, or some are forged",
                self.announcement.name
            );
        }
    }

    fn warn_once(&mut self, stage: Stage, why: &str) {
        if !self.warned.contains(&stage) {
            self.warned.push(stage);
            tracing::warn!("stream `{}` loses datagrams in stage {stage}: {why}", self.announcement.name);
        }
    }
}

#[cfg(test)]
impl SendPath {
    /// Returns how much of the ring has been read, and how much is unread.
    pub(super) const fn read_bytes(&self) -> u64 {
        self.reader.position()
    }

    pub(super) fn waiting_bytes(&self) -> u64 {
        self.reader.lag_bytes()
    }
}

impl Drop for SendPath {
    /// Ends the publication, whether the epoch is over or the agent has failed: no publisher waits
    /// for this send path.
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl Egress {
    fn open(&self, destinations: &[SocketAddr], stream: &StreamName) -> Result<SendSocket, SendError> {
        let mut socket = SendSocket::open(&self.options)?;
        if self.socket_full == SocketFull::Wait {
            socket.stop_when_full();
        }
        keep_trains_whole(&mut socket, self.device(), stream);
        pin_unicast(&socket, destinations, self.options.interface.as_ref(), self.unicast_ttl)?;
        if let [only] = destinations
            && let Err(error) = socket.connect(*only)
        {
            tracing::debug!("each train looks its route to {only} up: {error}");
        }
        Ok(socket)
    }

    fn device(&self) -> Option<u32> {
        self.options.interface.as_ref().map(|interface| interface.index)
    }

    /// Returns whether an interface differs from that of this socket, and has an address to send
    /// from: a new interface has none for a moment.
    fn is_another(&self, interface: &Interface) -> bool {
        let is_v4 = self.options.destination.is_ipv4();
        let of_version = |interface: &Interface| -> Vec<IpAddr> {
            interface.addresses.iter().copied().filter(|address| address.is_ipv4() == is_v4).collect()
        };
        let known = self.options.interface.as_ref().map(|known| (known.index, of_version(known)));
        let addresses = of_version(interface);
        !addresses.is_empty() && known != Some((interface.index, addresses))
    }
}

/// Adds a datagram to those that wait: to the last part, if it continues there.
fn hold(held: &mut Vec<Part>, datagram: Part) {
    match held.last_mut() {
        Some(before)
            if before.destination == datagram.destination && before.bytes.end == datagram.bytes.start =>
        {
            before.bytes.end = datagram.bytes.end;
        }
        _ => held.push(datagram),
    }
}

/// Configures unicast with the interface and the TTL that were asked for, as multicast.
///
/// This host itself is reached only by its own interface.
fn pin_unicast(
    socket: &SendSocket,
    destinations: &[SocketAddr],
    interface: Option<&Interface>,
    ttl: Option<u8>,
) -> Result<(), SendError> {
    let mut hosts = destinations.iter().filter(|to| !to.ip().is_multicast() && !to.ip().is_loopback());
    if let Some(host) = hosts.next() {
        socket.pin_unicast(*host, interface, ttl)?;
    }
    Ok(())
}

/// Returns number and stream of a datagram that was returned, if enough of it is intact to be one
/// of this program.
fn own_head(error: &PathError) -> Option<Numbered> {
    // Errors of this host were already reported when the datagram was sent.
    if error.origin == Origin::Local {
        return None;
    }
    match Datagram::decode(error.returned()) {
        Ok(datagram) => datagram.head().copied(),
        // Returned datagrams are truncated; the header has a checksum of its own.
        Err(malformed) => malformed.head,
    }
}

/// Sends without trains where a queue discipline would segment them and silently drop some of their
/// datagrams: of the pinned device, or of any.
fn keep_trains_whole(socket: &mut SendSocket, device: Option<u32>, stream: &StreamName) {
    if !socket.techniques().gso {
        return;
    }
    // Where the kernel lists none, drops there are unexplained, like drops along the path.
    let all = sys::qdiscs().unwrap_or_default();
    if all.iter().any(|it| it.cuts_trains() && device.is_none_or(|device| device == it.device)) {
        tracing::debug!("stream `{stream}` is sent datagram by datagram: a queue discipline segments trains");
        socket.send_singly();
    }
}

fn stage_of(refusal: Refusal) -> Stage {
    match refusal {
        Refusal::QueueDiscipline => Stage::SenderQdisc,
        Refusal::SocketFull => Stage::SenderSocket,
        // Includes datagrams that are too large: the route determines that.
        _ => Stage::SenderIp,
    }
}

/// Returns how large datagrams may be to avoid fragmentation: the requested size, or that of the
/// narrowest path.
///
/// The requested size is kept for an unknown path; if its MTU is smaller, datagrams are sent in
/// fragments.
fn fitting_bytes(config: &PublicationConfig, with: &Surroundings) -> usize {
    let requested = config.datagram_bytes;
    let way = |to: &SocketAddr| Some((path_mtu(*to, with.interface.as_ref()).ok()?, *to));
    let Some((mtu, to)) = config.destinations.iter().filter_map(way).min() else { return requested };
    let fitting = mtu.saturating_sub(header_bytes(&to)).max(wire::MIN_DATA_BYTES);
    if fitting < requested {
        tracing::warn!(
            "stream `{}`: datagrams have {fitting} bytes, not {requested}: the path to {to} has an MTU of {mtu}\n\
             set it on the bus (mtu={mtu}), or raise the MTU of every link of the path",
            config.description.name
        );
    }
    requested.min(fitting)
}

fn machine(
    config: &PublicationConfig,
    datagram_bytes: usize,
    predecessor: Option<Predecessor>,
    now: Instant,
) -> Result<Sender, DescriptionError> {
    // A longer train would be sent in two, of which the second may be short.
    let train_in_one_piece = (MAX_TRAIN_BYTES / datagram_bytes).max(1);
    let sender = SenderConfig {
        description: config.description.clone(),
        epoch: config.epoch,
        datagram_bytes,
        linger: config.linger,
        clock: config.clock,
        destinations: config.destinations.len(),
        pacing: config.pacing.in_trains_of(train_in_one_piece),
        sending: config.sending,
        beginning: config.beginning,
        predecessor,
    };
    Sender::new(sender, config.epoch.incarnation, now)
}
