//! A connection: a sending side, a receiving side, and the control that paces them.

mod congestion_link;

use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use congestion::{
    AckKind, CongestionControl, LossSource, Lost, Message as ControlMessage, Received, Resized, Sent,
};
use units::{Instant, Random};
use wire::udt::{
    Ack, Body, Control, Data, LossList, MessageNumber, Progress, Sequence, SocketId, SocketType,
};

use crate::config::SocketConfig;
use crate::expiry::{Expiry, Silent};
use crate::handshake::Agreed;
use crate::pmtu_black_hole::{PmtuBlackHoleDetector, Suspicion};
use crate::receive::buffer::{Placed, ReceiveBuffer};
use crate::receive::{AckToSend, ReceiveSide};
use crate::round_trip::RoundTripEstimate;
use crate::send::timely::{Change, Expired};
use crate::send::{AckNews, AckOutcome, Leaving, Losses, Seen, SendSide, TailLoss};
use crate::size_search::SizeSearch;
use crate::stats::Stats;
use crate::{Arrival, CloseReason, Event, SendError, Terms};
use congestion_link::{CongestionLink, View};

/// Maximum number of control packets that wait to be sent; the peer repeats requests that get no answer.
const MAX_OUTBOX: usize = 256;

/// Maximum number of ranges in a message between controls: more than one packet of bits can hold.
const MAX_RANGES: usize = 65_536;

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: SocketId,
    pub(crate) address: SocketAddr,
    pub(crate) peer_first: Sequence,
    opened_at: Instant,
    /// Time of its last turn.
    seen_at: Instant,
    /// Time of the last packet from the peer.
    heard_at: Instant,
    kind: SocketType,
    sending: SendSide,
    receiving: ReceiveSide,
    round_trip: RoundTripEstimate,
    expiry: Expiry,
    link: CongestionLink,
    size_search: SizeSearch,
    pmtu_black_hole: PmtuBlackHoleDetector,
    outbox: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
    state: State,
    was_readable: bool,
    wants_room: bool,
    /// True if there was room for a live message, as its owner knows.
    had_room: bool,
    stats: Stats,
    linger: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// A listener has answered the peer's handshake; `until` limits the wait for the peer's first packet to the
    /// socket.
    HalfOpen {
        until: Instant,
    },
    Open,
    /// Queued data are sent until the deadline.
    Closing {
        until: Instant,
    },
    /// The shutdown packet is being sent.
    Ended {
        reason: CloseReason,
    },
}

/// Role of an end in the connection setup, which determines when the connection is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// This end contacted its peer and received its answer: both know of the connection.
    Seeker,
    /// A listener's end: the peer has not yet confirmed that it received the answer.
    Accepting,
}

/// Time for which a listener keeps a connection without any packet since the handshake. A client of libudt has a
/// connect timeout of 3 s and sends a keep-alive after 0.3 s of silence, then again: 5 s suffice on a path with a
/// round trip of 2 s that loses the first of them.
/// that loses the first of them.
pub(crate) const HALF_OPEN: Duration = Duration::from_secs(5);

/// A step of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Send a control packet.
    Control(Vec<u8>),
    /// Send this range in segments of this size.
    Train(Range<usize>, usize),
    Event(Event),
    /// Nothing to do before this time.
    Idle(Option<Instant>),
}

/// Returns the number of a connection's first packet: far enough from zero that no earlier number is negative.
pub(crate) fn origin(first: Sequence) -> u64 {
    Sequence::COUNT + u64::from(first.word())
}

impl Connection {
    pub(crate) fn new(
        config: &SocketConfig,
        (side, address): (Side, SocketAddr),
        agreed: &Agreed,
        now: Instant,
        random: Random,
    ) -> Self {
        let state = match side {
            Side::Seeker => State::Open,
            Side::Accepting => State::HalfOpen { until: now + HALF_OPEN },
        };
        let packet_bytes = agreed.packet_bytes;
        let (own, theirs) = (origin(agreed.own_first), origin(agreed.peer_first));
        let taken_bytes = crate::config::payload_bytes(agreed.taken_bytes);
        let buffer =
            ReceiveBuffer::new(config.socket_type, config.receive_buffer_packets, taken_bytes, theirs);
        let mut connection = Self {
            peer: agreed.peer,
            address,
            peer_first: agreed.peer_first,
            opened_at: now,
            seen_at: now,
            heard_at: now,
            kind: config.socket_type,
            sending: SendSide::new(config, packet_bytes, own, agreed.window_packets, now),
            receiving: ReceiveSide::new(buffer, (packet_bytes, config.enclosing_bytes), theirs, now)
                .repaired(config.repair),
            round_trip: RoundTripEstimate::new(),
            expiry: Expiry::new(config.silence, now),
            link: CongestionLink::new(config, packet_bytes, agreed.window_packets, random),
            size_search: SizeSearch::new(config, address.ip(), packet_bytes),
            pmtu_black_hole: PmtuBlackHoleDetector::default(),
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            state,
            was_readable: false,
            wants_room: false,
            had_room: true,
            stats: Stats::default(),
            linger: config.linger,
        };
        connection.obey_size(connection.size_search.packet_bytes());
        connection.consult(now, |control, environment| control.on_start(environment));
        connection
    }

    /// Returns whether it has ended and has no further output.
    pub(crate) fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended { .. }) && self.outbox.is_empty() && self.events.is_empty()
    }

    /// Returns whether its socket represents the peer: it neither closes nor has ended.
    pub(crate) fn stands(&self) -> bool {
        matches!(self.state, State::HalfOpen { .. } | State::Open)
    }

    /// Returns whether no packet has come from the peer since its handshake.
    pub(crate) fn is_half_open(&self) -> bool {
        matches!(self.state, State::HalfOpen { .. })
    }

    /// Returns the reason of its end, if it has ended.
    pub(crate) fn ended(&self) -> Option<CloseReason> {
        match self.state {
            State::Ended { reason } => Some(reason),
            State::HalfOpen { .. } | State::Open | State::Closing { .. } => None,
        }
    }

    /// Confirms to the listener at once that its answer arrived: until then it does not let the connection be
    /// accepted. libudt's clients confirm it by their first packet, or after 0.3 s of silence.
    pub(crate) fn show(&mut self) {
        self.tell(Body::KeepAlive);
    }

    /// Records that the peer repeats its handshake: the answer was lost, and the peer is alive.
    pub(crate) fn asked_again(&mut self, now: Instant) {
        if let State::HalfOpen { until } = &mut self.state {
            *until = now + HALF_OPEN;
        }
    }

    /// Ends because the peer restarted. The peer is not notified: its socket belongs to the new connection.
    pub(crate) fn replace(&mut self) {
        self.outbox.clear();
        self.end(CloseReason::Replaced);
    }

    /// Records a packet to the socket; returns whether it is the first, which opens the connection.
    pub(crate) fn opens(&mut self) -> bool {
        let is_half_open = self.is_half_open();
        if is_half_open {
            self.state = State::Open;
        }
        is_half_open
    }

    pub(crate) fn push_event(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(crate) fn stats(&self) -> Stats {
        let effective = self.link.effective();
        Stats {
            busy: self.sending.busy(),
            round_trip: self.round_trip.view().smoothed,
            age: self.seen_at.since(self.opened_at),
            peer_window_packets: self.sending.peer_window(),
            send_room_packets: u32::try_from(self.sending.buffer.free()).unwrap_or(u32::MAX),
            receive_room_packets: self.receiving.buffer.room(),
            in_flight_packets: self.sending.in_flight(),
            window_packets: effective.window_packets,
            spacing_ps: effective.spacing_ps,
            queued_bytes: self.sending.buffer.held_bytes(),
            peer_arrival_packets_per_s: self.link.peer.arrival_packets_per_s.unwrap_or(0.0),
            capacity_packets_per_s: self.link.peer.capacity_packets_per_s.unwrap_or(0.0),
            given_up_messages: self.receiving.buffer.messages_given_up(),
            absurd_policies: self.link.absurd_policies,
            ..self.stats
        }
    }

    // Calls of the application.

    /// Queues bytes of a stream; returns the number that fit.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<usize, SendError> {
        self.check_sending(SocketType::Stream)?;
        let taken = self.sending.buffer.push_stream(&bytes[..bytes.len().min(self.room_for_small())]);
        self.wants_room |= taken < bytes.len();
        Ok(taken)
    }

    /// Returns how many bytes of a stream may be queued in packets that may soon be larger.
    fn room_for_small(&self) -> usize {
        /// Number of packets that keep a path busy until the first probe is answered, as far as the initial windows of
        /// the controls allow it.
        const MOST_SMALL_PACKETS: u64 = 64;
        let buffer = &self.sending.buffer;
        let packets = MOST_SMALL_PACKETS.saturating_sub(buffer.end() - buffer.first());
        if self.size_search.is_beginning() {
            usize::try_from(packets).unwrap_or(usize::MAX).saturating_mul(buffer.payload_bytes())
        } else {
            usize::MAX
        }
    }

    /// Tells a writer that found no room that there is some.
    fn offer_room(&mut self) {
        if core::mem::take(&mut self.wants_room) {
            self.events.push_back(Event::Writable);
        }
    }

    /// Queues a message completely, or not at all.
    pub(crate) fn send_message(
        &mut self,
        now: Instant,
        bytes: &[u8],
        terms: Terms,
    ) -> Result<crate::Sent, SendError> {
        self.check_sending(SocketType::Datagram)?;
        if !self.sending.can_arrive(now, terms.deadline) {
            return Ok(crate::Sent::TooLate);
        }
        let (fits, ever_fits) = self.sending.buffer.fits(bytes.len());
        if !ever_fits {
            return Err(SendError::TooLong);
        }
        let fits = fits && (self.sending.timely.is_none() || self.room() > 0);
        if fits {
            let first = self.sending.buffer.end();
            self.sending.buffer.push(bytes, terms);
            self.sending.watch(&terms, first..=self.sending.buffer.end() - 1);
        }
        self.wants_room |= !fits;
        self.had_room = self.room() > 0;
        Ok(if fits { crate::Sent::Queued } else { crate::Sent::NoRoom })
    }

    /// Returns the number of messages of one packet that are taken now.
    pub(crate) fn room(&self) -> u32 {
        let free = match &self.sending.timely {
            None => self.sending.buffer.free(),
            Some(timely) => self.sending.timely_room(timely),
        };
        u32::try_from(free).unwrap_or(u32::MAX)
    }

    /// Returns the maximum size of a message that is one packet.
    pub(crate) const fn message_bytes(&self) -> usize {
        self.sending.buffer.payload_bytes()
    }

    pub(crate) fn is_link_up(&self) -> bool {
        self.sending.timely.as_ref().is_none_or(|timely| !timely.is_down())
    }

    pub(crate) const fn heard_at(&self) -> Instant {
        self.heard_at
    }

    /// Asks the peer for an answer, which comes at once.
    pub(crate) fn ask_for_answer(&mut self, now: Instant) {
        if self.stands() {
            self.question(now);
        }
    }

    /// Records a packet of any kind from the peer.
    fn heard(&mut self, now: Instant) {
        self.heard_at = now;
        self.expiry.heard(now);
        if self.sending.hear_packet(now) {
            self.events.push_back(Event::LinkUp);
        }
    }

    fn check_sending(&self, kind: SocketType) -> Result<(), SendError> {
        if self.state != State::Open {
            return Err(SendError::Closed);
        }
        if self.kind == kind { Ok(()) } else { Err(SendError::WrongType) }
    }

    /// Copies received bytes of a stream; returns their number, and whether the peer must be notified.
    pub(crate) fn receive(&mut self, out: &mut [u8]) -> (usize, bool) {
        if self.kind != SocketType::Stream {
            return (0, false);
        }
        let count = self.receiving.buffer.read_stream(out);
        self.was_readable = self.is_readable();
        (count, count > 0 && self.receiving.read())
    }

    /// Appends the next message to `out`; returns its times, and whether the peer must be notified.
    pub(crate) fn receive_message(&mut self, out: &mut Vec<u8>) -> Option<(Arrival, bool)> {
        let (first, last) = self.receiving.buffer.next_message()?;
        let arrival = self.receiving.buffer.take_message(first, last, out);
        self.was_readable = self.is_readable();
        Some((arrival, self.receiving.read()))
    }

    pub(crate) fn is_readable(&self) -> bool {
        match self.kind {
            SocketType::Stream => self.receiving.buffer.has_stream(),
            SocketType::Datagram => self.receiving.buffer.next_message().is_some(),
        }
    }

    /// Returns whether all queued data are acknowledged, and not only by a light acknowledgement.
    pub(crate) fn is_flushed(&self) -> bool {
        self.sending.is_flushed()
    }

    /// Notifies the peer that this application has failed.
    pub(crate) fn fail(&mut self, code: u32) {
        self.tell(Body::PeerError { code });
    }

    /// Sends queued data until the linger time has passed, and then ends.
    pub(crate) fn close(&mut self, now: Instant) {
        if self.stands() {
            self.state = State::Closing { until: now + self.linger };
        }
    }

    // Packets of the peer.

    /// Records packets that the kernel received as one, before each of them is taken.
    pub(crate) fn arrive(&mut self, arrived: Instant, first: &Data<'_>, packets: u32) {
        if let Some(number) = first.sequence.near(self.receiving.buffer.next()) {
            self.receiving.arrive(arrived, number, packets);
        }
    }

    pub(crate) fn receive_data(&mut self, now: Instant, arrived: Instant, data: &Data<'_>) {
        self.heard(now);
        let number = data.sequence.near(self.receiving.buffer.next());
        let Some(number) = number.filter(|number| *number >= origin(self.peer_first)) else {
            self.stats.impossible_packets += 1;
            return;
        };
        let taken = self.receiving.take(now, arrived, number, data);
        self.stats.missing_packets += taken.newly_missing;
        match taken.placed {
            Placed::New => {
                self.stats.received_packets += 1;
                self.stats.received_bytes += data.payload.len() as u64;
            }
            Placed::Duplicate => self.stats.duplicate_packets += 1,
            Placed::NoRoom => self.stats.refused_packets += 1,
        }
        let newly_missing = u32::try_from(taken.newly_missing).unwrap_or(u32::MAX);
        let bytes = (data.payload.len() + wire::udt::OVERHEAD_BYTES) as u64;
        self.link.note_received(Received { packets: 1, bytes, newly_missing, arrived });
        self.tell_readable();
    }

    pub(crate) fn receive_control(&mut self, now: Instant, arrived: Instant, control: &Control<'_>) {
        self.heard(now);
        match control.body {
            Body::Ack(ack) => self.receive_ack(now, answered(arrived, control.timestamp_us, &ack), &ack),
            Body::Nak(list) => self.receive_nak(now, arrived, list),
            Body::AckOfAck { number } => self.receive_answer(now, number),
            Body::DropMessage { message, first, last } => self.receive_drop(now, message, first, last),
            Body::Shutdown => self.end(CloseReason::ByPeer),
            Body::PeerError { code } => self.events.push_back(Event::PeerError { code }),
            Body::Custom { kind, words } => {
                let message = ControlMessage { kind, body: words.iter().collect() };
                self.consult(now, |control, environment| control.on_message(environment, &message));
                self.take_missing(now);
            }
            // Handshakes are handled by the endpoint; the others only show that the peer is alive.
            Body::Handshake(_)
            | Body::KeepAlive
            | Body::CongestionWarning
            | Body::NakWords(_)
            | Body::CustomWords { .. }
            | Body::Unknown { .. } => {}
        }
    }

    /// Takes an acknowledgement that would have arrived at `answered` if its newest packet had been answered at once.
    fn receive_ack(&mut self, now: Instant, answered: Option<Instant>, ack: &Ack) {
        self.stats.received_acks += 1;
        if let Some(progress) = ack.progress {
            // libudt repeats every acknowledgement that is not confirmed.
            self.tell(Body::AckOfAck { number: ack.number });
            self.round_trip.told(progress.round_trip_us, progress.variation_us);
            self.link.peer_says(&progress);
        }
        let Some(to) = ack.next.near(self.sending.buffer.next()) else {
            self.stats.impossible_packets += 1;
            return;
        };
        let kind = match ack.progress {
            None => AckKind::Light,
            Some(Progress { rates: None, .. }) => AckKind::Window,
            Some(_) => AckKind::Full,
        };
        let window = ack.progress.map(|progress| progress.window_packets);
        let seen = ack.seen.and_then(|seen| seen.near(self.sending.buffer.next()));
        let news = AckNews { to, seen, kind, window, answered, patience: self.round_trip.patience() };
        match self.sending.acknowledge(now, &news) {
            AckOutcome::Impossible => self.stats.impossible_packets += 1,
            AckOutcome::Taken { acked, has_room } => {
                if acked.newly > 0 {
                    self.pmtu_black_hole.progress();
                }
                if has_room
                    && self.wants_room
                    && self.sending.timely.is_none()
                    && self.sending.buffer.is_worth_filling()
                {
                    self.wants_room = false;
                    self.events.push_back(Event::Writable);
                }
                if let Some(sample) = acked.round_trip {
                    self.round_trip.measure(sample);
                }
                self.consult(now, |control, environment| control.on_ack(environment, &acked));
            }
        }
    }

    fn receive_answer(&mut self, now: Instant, number: u32) {
        self.receiving.answered(now, number, &mut self.round_trip);
        if let Some(packet_bytes) = self.size_search.answered(number) {
            self.enlarge(now, packet_bytes);
            self.offer_room();
        }
        let packet_bytes = self.sending.packet_bytes();
        match self.pmtu_black_hole.answered(now, number) {
            Some(Suspicion::Tell) => self.events.push_back(Event::PmtuBlackHole { packet_bytes }),
            Some(Suspicion::End) => self.shut_down(CloseReason::PmtuBlackHole { packet_bytes }),
            None => {}
        }
    }

    fn receive_nak(&mut self, now: Instant, arrived: Instant, list: LossList<'_>) {
        self.stats.received_naks += 1;
        let next = self.sending.buffer.next();
        let mut ranges = Vec::new();
        for (first, last) in list.ranges() {
            match (first.near(next), last.near(next)) {
                (Some(first), Some(last)) if first <= last && last < next => ranges.push(first..last + 1),
                _ => self.stats.impossible_packets += 1,
            }
        }
        let losses = self.sending.hear_of_losses(now, arrived, ranges);
        self.suffer(now, &losses, LossSource::Report);
    }

    /// Takes packets that the peer's control reports missing, as if its transport had reported them.
    fn take_missing(&mut self, now: Instant) {
        let next = self.sending.buffer.next();
        let mut ranges = Vec::new();
        while let Some(range) = self.link.poll_missing() {
            if range.end <= next && ranges.len() < MAX_RANGES {
                ranges.push(range);
            } else {
                self.stats.impossible_packets += 1;
            }
        }
        if !ranges.is_empty() {
            let losses = self.sending.hear_of_losses(now, now, ranges);
            self.suffer(now, &losses, LossSource::Report);
        }
    }

    fn receive_drop(&mut self, now: Instant, message: MessageNumber, first: Sequence, last: Sequence) {
        let near = self.receiving.buffer.next();
        match (first.near(near), last.near(near)) {
            (Some(first), Some(last)) if first <= last => {
                self.receiving.give_up(now, message, first, last);
                self.tell_readable();
            }
            _ => self.stats.impossible_packets += 1,
        }
    }

    fn suffer(&mut self, now: Instant, losses: &Losses, source: LossSource) {
        if losses.ranges.is_empty() {
            return;
        }
        self.stats.lost_packets += u64::from(losses.newly);
        let (ranges, newly, begins_epoch) = (&losses.ranges[..], losses.newly, losses.begins_epoch);
        let Seen { round_trip, rate } = losses.seen;
        let lost = Lost { ranges, newly, begins_epoch, source, round_trip, rate };
        self.consult(now, |control, environment| control.on_loss(environment, &lost));
    }

    // Output.

    /// Returns the next step; call it until it is idle.
    pub(crate) fn poll(&mut self, now: Instant) -> Step {
        if let Some(event) = self.events.pop_front() {
            return Step::Event(event);
        }
        if self.ended().is_some() {
            return self.outbox.pop_front().map_or(Step::Idle(None), Step::Control);
        }
        self.pass_time(now);
        if self.ended().is_some() {
            return self.poll(now);
        }
        self.queue_feedback(now);
        if let Some(bytes) = self.outbox.pop_front() {
            return Step::Control(bytes);
        }
        match self.sending.poll(now, self.link.retransmission()) {
            Some(Leaving::Train { first, packets, is_retransmission }) => {
                self.send_train(now, first, packets, is_retransmission)
            }
            Some(Leaving::GivenUp { first, last, was_sent, is_news }) => {
                self.tell_given_up(first, last, was_sent, is_news);
                self.poll(now)
            }
            None => {
                self.offer_live_room();
                self.note_expired();
                self.events.pop_front().map_or_else(|| Step::Idle(self.deadline()), Step::Event)
            }
        }
    }

    /// Tells the owner of live messages that there is room again.
    fn offer_live_room(&mut self) {
        if self.sending.timely.is_some() {
            let has_room = self.state == State::Open && self.room() > 0;
            if has_room && !core::mem::replace(&mut self.had_room, has_room) {
                self.events.push_back(Event::Writable);
            }
            self.had_room = has_room;
        }
    }

    fn note_expired(&mut self) {
        while let Some(Expired { tag, was_sent }) = self.sending.next_expired() {
            self.stats.expired_messages += 1;
            self.events.push_back(Event::Expired { tag, was_sent });
        }
    }

    /// Gives up live messages that are late, and watches their link.
    fn keep_time(&mut self, now: Instant) {
        match self.sending.keep_time(now, &self.round_trip.view()) {
            Some(Change::WentDown) => self.events.push_back(Event::LinkDown),
            Some(Change::Tries) => _ = self.question(now),
            None => {}
        }
        self.stats.tail_probes = self.stats.tail_probes.max(self.sending.probed);
    }

    pub(crate) fn train_bytes(&self, range: Range<usize>) -> &[u8] {
        self.sending.buffer.bytes(range)
    }

    fn pass_time(&mut self, now: Instant) {
        self.seen_at = now;
        if let State::Closing { until } = self.state
            && (self.is_flushed() || until <= now)
        {
            self.shut_down(if self.is_flushed() { CloseReason::Local } else { CloseReason::Unsent });
            return;
        }
        if let State::HalfOpen { until } = self.state
            && until <= now
        {
            return self.shut_down(CloseReason::Silent);
        }
        match self.expiry.advance(now, self.round_trip.patience()) {
            Some(Silent::Dead) => return self.shut_down(CloseReason::Silent),
            Some(Silent::Ask) if self.sending.in_flight() == 0 => self.tell(Body::KeepAlive),
            Some(Silent::Ask) | None => {}
        }
        self.keep_time(now);
        match self.sending.advance(now, self.link.retransmission()) {
            Some(TailLoss::Probe) => self.stats.tail_probes += 1,
            Some(TailLoss::Timeout(losses)) => {
                self.stats.timeouts += 1;
                self.stats.lost_packets += u64::from(losses.newly);
                self.consult(now, |control, environment| control.on_timeout(environment));
                self.sending.begin_again();
                if self.sending.is_stuck_on_full_packet() && self.pmtu_black_hole.timeout(now) {
                    self.ask(now);
                }
            }
            None => {}
        }
        self.probe_size(now);
        if self.link.takes_timer(now) {
            self.consult(now, |control, environment| control.on_timer(environment));
        }
        if let Some(received) = self.link.take_received() {
            self.consult(now, |control, environment| control.on_received(environment, &received));
        }
    }

    /// Sends a small packet to test whether those arrive.
    fn ask(&mut self, now: Instant) {
        let number = self.question(now);
        self.pmtu_black_hole.asked(number);
    }

    /// Sends a full acknowledgement, which the peer answers at once; returns its number.
    fn question(&mut self, now: Instant) -> u32 {
        let question = self.receiving.ask(now, &self.round_trip);
        self.stats.sent_acks += 1;
        self.tell(Body::Ack(self.ack_body(&question)));
        question.number.unwrap_or(0)
    }

    /// Sends a padded acknowledgement if the path may carry larger packets, and there is something to send in them.
    fn probe_size(&mut self, now: Instant) {
        if self.sending.buffer.is_empty() || self.outbox.len() == MAX_OUTBOX {
            return;
        }
        let Some(packet_bytes) = self.size_search.poll(now, self.round_trip.patience()) else { return };
        let question = self.receiving.ask(now, &self.round_trip);
        self.size_search.asked(question.number.unwrap_or(0), packet_bytes);
        if !self.size_search.is_beginning() {
            self.offer_room();
        }
        self.stats.sent_acks += 1;
        self.tell(Body::Ack(self.ack_body(&question)));
        if let Some(probe) = self.outbox.back_mut() {
            // Padding that is read as rates says that nothing was measured.
            probe.resize(crate::config::payload_bytes(packet_bytes) + wire::udt::HEADER_BYTES, 0);
        }
    }

    /// Makes full packets larger, and neither windows nor rates.
    fn enlarge(&mut self, now: Instant, packet_bytes: u32) {
        let resized = Resized { before_bytes: self.sending.packet_bytes(), after_bytes: packet_bytes };
        self.obey_size(packet_bytes);
        self.link.resize(&resized);
        self.consult(now, |control, environment| control.on_packet_size(environment, &resized));
    }

    /// Makes full packets as large as the path is known to carry.
    fn obey_size(&mut self, packet_bytes: u32) {
        self.sending.set_packet_bytes(packet_bytes);
        self.receiving.set_report_bytes(packet_bytes);
        self.link.keep_rate_with(packet_bytes);
    }

    /// Queues acknowledgements and loss reports: once for a batch, not once for a packet.
    fn queue_feedback(&mut self, now: Instant) {
        if let Some(report) = self.receiving.report(now, &self.round_trip) {
            self.stats.sent_naks += 1;
            self.tell(Body::NakWords(report.words()));
        }
        if let Some(ack) = self.receiving.acknowledge(now, &self.round_trip) {
            self.stats.sent_acks += 1;
            self.tell_at(ack.age_word(), Body::Ack(self.ack_body(&ack)));
        }
    }

    fn ack_body(&self, ack: &AckToSend) -> Ack {
        let (round_trip_us, variation_us) = self.round_trip.words();
        let AckToSend { window_packets, rates, .. } = *ack;
        let progress = ack.number.map(|_| Progress { round_trip_us, variation_us, window_packets, rates });
        let seen = ack.seen.map(Sequence::of);
        Ack { number: ack.number.unwrap_or(0), next: Sequence::of(ack.next), progress, seen }
    }

    fn send_train(&mut self, now: Instant, first: u64, packets: u32, is_retransmission: bool) -> Step {
        self.stats.sent_packets += u64::from(packets);
        let timestamp_us = self.clock_us(now);
        let range = self.sending.buffer.prepare(first, packets, timestamp_us, self.peer);
        if is_retransmission {
            self.stats.retransmitted_packets += u64::from(packets);
        } else {
            let headers = packets as usize * wire::udt::HEADER_BYTES;
            // A train's slots are contiguous, headers included.
            self.stats.sent_bytes += (range.len() - headers) as u64;
        }
        let sent = Sent { first, packets, is_retransmission };
        self.consult(now, |control, environment| control.on_sent(environment, &sent));
        Step::Train(range, self.sending.buffer.slot_bytes())
    }

    fn tell_given_up(&mut self, first: u64, last: u64, was_sent: bool, is_news: bool) {
        let slot = self.sending.buffer.slot(first);
        let (message, tag) = (slot.message.number, slot.terms.tag);
        let (first, last) = (Sequence::of(first), Sequence::of(last));
        self.tell(Body::DropMessage { message, first, last });
        if first != last {
            // The last packet is only believed alone: libudt's would be one too many.
            self.tell(Body::DropMessage { message, first: last, last });
        }
        if is_news {
            self.stats.expired_messages += 1;
            self.events.push_back(Event::Expired { tag, was_sent });
        }
    }

    fn tell_readable(&mut self) {
        if !self.was_readable && self.is_readable() {
            self.was_readable = true;
            self.events.push_back(Event::Readable);
        }
    }

    /// Sends a shutdown packet, and ends.
    pub(crate) fn shut_down(&mut self, reason: CloseReason) {
        self.tell(Body::Shutdown);
        self.end(reason);
    }

    fn end(&mut self, reason: CloseReason) {
        if self.ended().is_none() {
            self.state = State::Ended { reason };
            self.events.push_back(Event::Closed(reason));
        }
    }

    /// Queues a control packet without a timestamp, as libudt does.
    fn tell(&mut self, body: Body<'_>) {
        self.tell_at(0, body);
    }

    /// Queues a control packet with a word in the timestamp field.
    fn tell_at(&mut self, timestamp_us: u32, body: Body<'_>) {
        if self.outbox.len() == MAX_OUTBOX {
            self.stats.unsent_controls += 1;
            return;
        }
        let mut bytes = Vec::with_capacity(64);
        Control { timestamp_us, destination: self.peer, body }.write(&mut bytes);
        self.outbox.push_back(bytes);
    }

    fn deadline(&self) -> Option<Instant> {
        let sending = self.sending.deadline(self.link.retransmission());
        let closing = match self.state {
            State::Closing { until } | State::HalfOpen { until } => Some(until),
            State::Open | State::Ended { .. } => None,
        };
        let expiry = Some(self.expiry.deadline(self.round_trip.patience()));
        let probe = self.size_search.deadline().filter(|_| !self.sending.buffer.is_empty());
        [sending, self.receiving.deadline(), closing, expiry, self.link.timer(), probe]
            .into_iter()
            .fold(None, Instant::earlier)
    }

    #[expect(clippy::cast_possible_truncation, reason = "the wire's clock has 32 bits and wraps")]
    pub(crate) fn clock_us(&self, now: Instant) -> u32 {
        now.since(self.opened_at).as_micros() as u32
    }

    /// Notifies the control of an event, applies its policy, and queues its messages to the peer's control.
    fn consult(
        &mut self,
        now: Instant,
        ask: impl FnOnce(&mut dyn CongestionControl, &mut congestion::Environment<'_>),
    ) {
        let view = View {
            round_trip: self.round_trip.view(),
            flight: self.sending.flight(),
            incoming: self.receiving.incoming(),
        };
        let policy = self.link.consult(now, view, ask);
        self.sending.obey(now, &self.link.effective(), policy.burst_packets);
        self.sending.obey_timeout(self.link.timeout());
        self.receiving.obey(policy.acknowledge);
        for _ in 0..MAX_OUTBOX {
            let Some(message) = self.link.poll_message() else { break };
            if message.body.len() * 4 > self.sending.packet_bytes() as usize - wire::udt::OVERHEAD_BYTES {
                // The path does not carry it in one packet.
                self.link.absurd_policies += 1;
                continue;
            }
            self.tell(Body::CustomWords { kind: message.kind, words: &message.body });
        }
    }
}

/// Returns when an acknowledgement would have arrived without delay at its sender, by the word in its timestamp
/// field; `None` if it comes from this implementation and gives none. libudt never gives one, and is assumed to
/// answer at once.
fn answered(arrived: Instant, age_word: u32, ack: &Ack) -> Option<Instant> {
    match age_word.checked_sub(1) {
        Some(age_us) => Some(arrived - Duration::from_micros(age_us.into())),
        None if ack.seen.is_some() => None,
        None => Some(arrived),
    }
}
