//! The sending side of a connection: the next packets to send, those in flight, and those lost.
//!
//! Window and pace are inputs, computed elsewhere. Losses come from the peer's reports, from the tail probe (the
//! newest packets stay unanswered) and from the timeout (all of them do).

pub(crate) mod buffer;
mod busy;
mod pacer;
mod rate;
mod tail;
pub(crate) mod timely;

use core::ops::Range;
use core::time::Duration;

use congestion::{AckKind, Acked, Effective, Flight, RateSample, Retransmission};
use units::{Instant, RangeSet};
use wire::udt::{MessageNumber, PROBE_INTERVAL};

use buffer::SendBuffer;
use busy::Busy;
use pacer::Pacer;
use rate::{InFlight, RateSampler};
use tail::{Tail, TailAction};
use timely::Timely;

use crate::receive::buffer::LEAST_WINDOW;
use crate::round_trip::RoundTripEstimate;
use crate::{Repair, SocketConfig};

/// Maximum bytes of segments that a kernel takes in one call.
const MAX_TRAIN_BYTES: usize = 65_507;

/// Number of packets without a probe pair after which a train is cut for one: trains otherwise end anywhere.
const TRAIN_PROBE_INTERVAL: u64 = 256;

/// The sending side.
#[derive(Debug)]
pub(crate) struct SendSide {
    pub(crate) buffer: SendBuffer,
    /// Number of the connection's first packet.
    origin: u64,
    /// Lost, and not yet sent again.
    lost: RangeSet,
    /// Sent again, and not yet acknowledged.
    resent: RangeSet,
    /// After a timeout: number of packets counted as lost that may be sent again before the peer answers.
    unanswered_room: Option<u32>,
    /// Packets before it have arrived unless they are lost: the peer reports holes in their order.
    seen_to: u64,
    pacer: Pacer,
    sampler: RateSampler,
    busy: Busy,
    tail: Tail,
    /// First packet that may not be sent: acknowledged plus the peer's window.
    limit: u64,
    max_window: u32,
    window_packets: u32,
    /// Maximum train of the kernel and the socket's owner.
    allowed_train: u32,
    /// Maximum train of the control.
    max_train: u32,
    packet_bytes: u32,
    /// First packet not acknowledged in full: on a shutdown, a libudt peer discards packets that only a light
    /// acknowledgement covers.
    confirmed_to: u64,
    /// First packet whose loss begins a new epoch.
    epoch_end: u64,
    /// First packet whose acknowledgement ends the round.
    round_end: u64,
    is_application_limited: bool,
    /// True if there was nothing to send, or no room for it in the window.
    is_held: bool,
    /// True if the next packet is the second of a probe pair.
    completes_pair: bool,
    /// First packet from which on a train is cut for a probe pair.
    next_probe: u64,
    /// State of [`Repair::Timely`].
    pub(crate) timely: Option<Box<Timely>>,
    /// Number of probes of the tail with it.
    pub(crate) probed: u64,
}

/// Packets to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Leaving {
    /// Consecutive packets with the location of their bytes.
    Train { first: u64, packets: u32, is_retransmission: bool },
    /// Notice that a message is given up, for its unacknowledged packets.
    GivenUp { first: u64, last: u64, was_sent: bool, is_news: bool },
}

/// Content of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckNews {
    /// One more than the last packet that arrived without a gap.
    pub(crate) to: u64,
    /// Received end, though packets before it are missing.
    pub(crate) seen: Option<u64>,
    pub(crate) kind: AckKind,
    /// The peer's free space from there on. Units: packets.
    pub(crate) window: Option<u32>,
    /// Arrival of the peer's answer, less its delay at the peer; `None` if it gives no sample of the path.
    pub(crate) answered: Option<Instant>,
    /// Time after which an answer to packets in flight counts as lost.
    pub(crate) patience: Duration,
}

/// Result of an acknowledgement.
#[derive(Debug)]
pub(crate) enum AckOutcome {
    /// Accepted.
    Taken { acked: Acked, has_room: bool },
    /// Refused: it acknowledges packets that were never sent, so it is forged or broken.
    Impossible,
}

/// Result of a loss report.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Losses {
    pub(crate) ranges: Vec<Range<u64>>,
    pub(crate) newly: u32,
    pub(crate) begins_epoch: bool,
    pub(crate) seen: Seen,
}

/// Samples of the path from newly arrived packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) round_trip: Option<Duration>,
    pub(crate) rate: Option<RateSample>,
}

impl SendSide {
    pub(crate) fn new(
        config: &SocketConfig,
        packet_bytes: u32,
        origin: u64,
        window: u32,
        now: Instant,
    ) -> Self {
        let payload_bytes = crate::config::payload_bytes(packet_bytes);
        let mut buffer = SendBuffer::new(config.send_buffer_packets, payload_bytes, origin);
        let first_message = config.first_message.map(MessageNumber::from_word);
        buffer.number_from(first_message.unwrap_or(MessageNumber::FIRST));
        let fit = u32::try_from(MAX_TRAIN_BYTES / buffer.slot_bytes()).unwrap_or(u32::MAX);
        let allowed_train = config.max_train_packets.clamp(1, fit.max(1));
        Self {
            allowed_train,
            max_train: allowed_train,
            buffer,
            origin,
            lost: RangeSet::new(),
            resent: RangeSet::new(),
            unanswered_room: None,
            seen_to: origin,
            pacer: Pacer::new(config.max_burst),
            sampler: RateSampler::new(now),
            busy: Busy::default(),
            tail: Tail::new(RoundTripEstimate::new().patience()),
            limit: origin + u64::from(window),
            max_window: window,
            window_packets: 1,
            packet_bytes,
            confirmed_to: origin,
            epoch_end: origin,
            round_end: origin,
            is_application_limited: true,
            is_held: false,
            completes_pair: false,
            next_probe: origin,
            timely: (config.repair == Repair::Timely).then(|| Box::new(Timely::new())),
            probed: 0,
        }
    }

    /// Applies a control's policy.
    pub(crate) fn obey(&mut self, now: Instant, effective: &Effective, burst_packets: u32) {
        self.window_packets = effective.window_packets;
        self.pacer.set_spacing(now, effective.spacing_ps);
        self.max_train = self.allowed_train.min(burst_packets.max(1));
    }

    /// Applies a control's own timeout.
    pub(crate) fn obey_timeout(&mut self, timeout: Option<Duration>) {
        self.tail.obey(timeout);
    }

    /// Changes the size of full packets, at most to the agreed one.
    pub(crate) fn set_packet_bytes(&mut self, packet_bytes: u32) {
        self.packet_bytes = packet_bytes;
        self.buffer.set_payload_bytes(crate::config::payload_bytes(packet_bytes));
    }

    pub(crate) const fn packet_bytes(&self) -> u32 {
        self.packet_bytes
    }

    /// Returns whether the oldest unanswered packet is a full one.
    pub(crate) fn is_stuck_on_full_packet(&self) -> bool {
        let first = self.buffer.first();
        first < self.buffer.next() && self.buffer.slot(first).payload_bytes == self.buffer.payload_bytes()
    }

    /// Returns the number of packets in flight, as far as it can be known: acknowledgements give only the first hole,
    /// loss reports also show which packets arrived before each hole.
    pub(crate) fn in_flight(&self) -> u32 {
        let unseen = self.buffer.next() - self.seen_to;
        let lost_unseen = if self.lost.is_empty() { 0 } else { self.lost.count_in(self.seen_to..u64::MAX) };
        let given_up = self.timely.as_ref().map_or(0, |it| it.given_up_in(self.seen_to..u64::MAX));
        u32::try_from(unseen - lost_unseen - given_up + self.resent.len()).unwrap_or(u32::MAX)
    }

    /// Returns whether all queued data are acknowledged in full.
    pub(crate) const fn is_flushed(&self) -> bool {
        self.buffer.is_empty() && self.confirmed_to >= self.buffer.next()
    }

    /// Returns the number of packets that the peer takes beyond those it has acknowledged.
    pub(crate) fn peer_window(&self) -> u32 {
        u32::try_from(self.limit.saturating_sub(self.buffer.first())).unwrap_or(u32::MAX)
    }

    /// Returns the time during which packets were unanswered.
    pub(crate) fn busy(&self) -> Duration {
        self.busy.time()
    }

    pub(crate) fn flight(&self) -> Flight {
        Flight {
            next: self.buffer.next(),
            acked_to: self.buffer.first(),
            in_flight: self.in_flight(),
            is_application_limited: self.is_application_limited,
            packet_bytes: self.packet_bytes,
            max_window_packets: self.max_window,
        }
    }

    /// Returns whether the peer's buffer is full: packets in flight are then only probes for room.
    pub(crate) const fn is_held_by_peer(&self) -> bool {
        // The peer may withdraw room that it offered, and then acknowledge beyond it.
        self.limit.saturating_sub(self.buffer.first()) <= LEAST_WINDOW && self.buffer.next() >= self.limit
    }

    /// Returns the next packets to send.
    pub(crate) fn poll(&mut self, now: Instant, retransmission: Retransmission) -> Option<Leaving> {
        if self.timely.is_some() {
            return self.poll_timely(now);
        }
        if let Some(first) = self.first_lost(retransmission) {
            if self.is_expired(now, first) {
                return Some(self.give_up(now, first));
            }
            let most = self.room_for_retransmission();
            let count = self.pacer.allows(now, self.run_of_lost(first, most));
            return (count > 0).then(|| self.leave(now, first, count, true));
        }
        let next = self.buffer.next();
        if next == self.buffer.end() {
            self.note_application_limit();
            self.is_held = true;
            return None;
        }
        if self.is_expired(now, next) {
            return Some(self.give_up(now, next));
        }
        let room = self.window_packets.saturating_sub(self.in_flight());
        let room = u64::from(room).min(self.limit.saturating_sub(next));
        if room == 0 {
            self.is_held = true;
            return None;
        }
        let most = u32::try_from(room).unwrap_or(u32::MAX).min(self.max_train);
        let train = self.buffer.train(next, most);
        if core::mem::take(&mut self.is_held) {
            self.pacer.resume(now, train);
        }
        let allowed = self.allowed_new(now, next, train);
        let count = self.cut_for_probe(next, allowed);
        (count > 0).then(|| self.leave(now, next, count, false))
    }

    /// Returns the time of the next call for pending packets.
    ///
    /// A control that sends in rounds probes its tail itself.
    pub(crate) fn deadline(&self, retransmission: Retransmission) -> Option<Instant> {
        if let Some(timely) = &self.timely {
            return self.timely_deadline(timely);
        }
        let next = self.buffer.next();
        // Lost packets go first, and hold back new ones.
        let waits = if self.first_lost(retransmission).is_some() {
            self.room_for_retransmission() > 0
        } else {
            next < self.buffer.end() && next < self.limit && self.in_flight() < self.window_packets
        };
        let paced = waits.then(|| self.pacer.next(self.train_ahead()));
        let tail = self.tail.deadline().filter(|_| self.watches_tail(retransmission));
        Instant::earlier(paced, tail)
    }

    /// Handles an acknowledgement.
    pub(crate) fn acknowledge(&mut self, now: Instant, news: &AckNews) -> AckOutcome {
        let AckNews { to, seen, kind, window, answered, patience } = *news;
        if to > self.buffer.next() {
            return AckOutcome::Impossible;
        }
        let before = self.buffer.first();
        if kind != AckKind::Light {
            self.confirmed_to = self.confirmed_to.max(to);
        }
        if let Some(window) = window.filter(|_| to >= before) {
            self.limit = to + u64::from(window);
            self.max_window = self.max_window.max(window);
        }
        let newly = to.saturating_sub(before);
        // Packets that were never sent cannot have arrived.
        let seen = seen.filter(|seen| *seen > to && *seen <= self.buffer.next());
        // Arrivals already shown by a report of a hole or an earlier received end are not new.
        let newest = seen.unwrap_or(to).checked_sub(1).filter(|newest| *newest >= self.seen_to);
        // A packet that waited behind a hole gives no sample of the path.
        let is_straight = seen.is_some() || self.resent.count_in(before..to) == 0;
        self.lost.remove(before..to.max(before));
        self.resent.remove(before..to.max(before));
        if let Some(timely) = &mut self.timely {
            timely.release(before..to.max(before));
        }
        let told = if newly > 0 || newest.is_some() {
            self.see(now, newest, answered.filter(|_| is_straight))
        } else {
            Seen::default()
        };
        if newly > 0 {
            self.buffer.release(to);
            self.hear();
            let is_unanswered = self.buffer.first() < self.buffer.next();
            self.tail.progress(now, patience, is_unanswered);
            self.busy.note(now, is_unanswered);
        }
        if let Some(timely) = self.timely.as_mut().filter(|_| newly > 0 || newest.is_some()) {
            timely.answered(self.seen_to.max(self.buffer.first()) == self.buffer.next());
        }
        let ends_round = self.seen_to > self.round_end || newly > 0 && to == self.buffer.next();
        if ends_round {
            self.round_end = self.buffer.next();
        }
        let newly = u32::try_from(newly).unwrap_or(u32::MAX);
        let Seen { round_trip, rate } = told;
        AckOutcome::Taken {
            acked: Acked { to, newly, kind, round_trip, ends_round, rate },
            has_room: newly > 0,
        }
    }

    /// Takes ranges that the peer reports missing; the packets before and between them have arrived.
    ///
    /// The report arrived at `answered`, or just now from the peer's control.
    pub(crate) fn hear_of_losses(
        &mut self,
        now: Instant,
        answered: Instant,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> Losses {
        let seen_before = self.seen_to;
        let mut losses = self.lose(ranges);
        // A report up to the newest packet shows nothing behind the hole: only an unusual peer sends one.
        let newest = (self.seen_to > seen_before).then(|| self.seen_to - 1);
        losses.seen = self.see(now, newest.filter(|newest| !self.lost.contains(*newest)), Some(answered));
        losses
    }

    /// Records the packets known to have arrived. If `newest` is the newest of them and was not known before, all of
    /// them arrived by now; an arrival that only fills holes does not date those behind them. Its answer arrived at
    /// `answered`, if that is a sample of the path.
    fn see(&mut self, now: Instant, newest: Option<u64>, answered: Option<Instant>) -> Seen {
        let Some(newest) = newest else {
            self.sampler.fill(self.arrived());
            return Seen::default();
        };
        self.seen_to = self.seen_to.max(newest + 1);
        let slot = self.buffer.slot(newest);
        if slot.is_given_up {
            // The peer skips it, but it may never have been sent, or never have arrived.
            self.sampler.fill(self.arrived());
            return Seen::default();
        }
        let sent_at = slot.mark.sent_at;
        let answered = answered.filter(|answered| slot.times == 1 && *answered > sent_at);
        Seen {
            round_trip: answered.map(|answered| answered.since(sent_at)),
            rate: self.sampler.deliver(now, self.arrived(), &slot.mark),
        }
    }

    /// Returns the number of packets known to have arrived.
    fn arrived(&self) -> u64 {
        let lost_unseen = if self.lost.is_empty() { 0 } else { self.lost.count_in(self.seen_to..u64::MAX) };
        let missing = self.lost.len() - lost_unseen + self.resent.len();
        let given_up = self.timely.as_ref().map_or(0, |timely| timely.given_up_count());
        (self.seen_to - self.origin).saturating_sub(missing + given_up)
    }

    /// Takes lost ranges; packets never sent or already acknowledged are omitted, and counted by the caller.
    pub(crate) fn lose(&mut self, ranges: impl IntoIterator<Item = Range<u64>>) -> Losses {
        let mut losses = Losses::default();
        for range in ranges {
            let range = range.start.max(self.buffer.first())..range.end.min(self.buffer.next());
            if range.is_empty() {
                continue;
            }
            let newly = self.insert_lost(range.clone());
            self.resent.remove(range.clone());
            self.seen_to = self.seen_to.max((range.end + 1).min(self.buffer.next()));
            losses.newly = losses.newly.saturating_add(u32::try_from(newly).unwrap_or(u32::MAX));
            losses.begins_epoch |= range.end > self.epoch_end;
            losses.ranges.push(range);
        }
        self.hear();
        if losses.begins_epoch {
            self.epoch_end = self.buffer.next();
        }
        self.sampler.lose(losses.newly.into());
        losses
    }

    /// Counts a range as lost, as far as it was not given up; returns the number of packets that were not.
    fn insert_lost(&mut self, range: Range<u64>) -> u64 {
        match &mut self.timely {
            None => self.lost.insert(range),
            Some(timely) => {
                let ranges = timely.repairable(range);
                ranges.into_iter().map(|range| self.lost.insert(range)).sum()
            }
        }
    }

    /// Advances time; returns the loss at the tail of the flight.
    pub(crate) fn advance(&mut self, now: Instant, retransmission: Retransmission) -> Option<TailLoss> {
        if self.timely.is_some() || !self.watches_tail(retransmission) {
            return None;
        }
        let unanswered = self.buffer.first()..self.buffer.next();
        let action = self.tail.advance(now)?;
        if retransmission != Retransmission::First {
            // The control repeats its packets; the notice of a given-up message must be repeated by the transport.
            self.repeat(unanswered.start);
            return Some(TailLoss::Probe);
        }
        if action == TailAction::Probe {
            // The newest packet: if it arrives, the peer sees every hole before it.
            self.repeat(unanswered.end - 1);
            return Some(TailLoss::Probe);
        }
        if self.is_held_by_peer() {
            // Nothing is lost: the peer's buffer is full, and one packet probes for room, also after a timeout whose
            // room is used up.
            self.repeat(unanswered.start);
            self.unanswered_room = self.unanswered_room.map(|room| room.max(1));
            return Some(TailLoss::Probe);
        }
        let losses = self.lose([unanswered]);
        Some(TailLoss::Timeout(losses))
    }

    /// Lets one window of packets counted as lost leave, after the control was notified of the timeout.
    pub(crate) const fn begin_again(&mut self) {
        self.unanswered_room = Some(self.window_packets);
    }

    /// Repeats a packet that may well have arrived, without reporting a loss.
    fn repeat(&mut self, number: u64) {
        self.lost.insert(number..number + 1);
        self.resent.remove(number..number + 1);
    }

    fn leave(&mut self, now: Instant, first: u64, packets: u32, is_retransmission: bool) -> Leaving {
        let numbers = first..first + u64::from(packets);
        if is_retransmission {
            self.lost.remove(numbers.clone());
            self.unanswered_room = self.unanswered_room.map(|room| room - packets);
            self.resent.insert(numbers.start..numbers.end.min(self.seen_to));
        } else {
            self.buffer.advance(packets.into());
        }
        let in_flight = self.in_flight();
        let mark = self.sampler.mark(now, packets, InFlight { all: in_flight, resent: self.resent.len() });
        for number in numbers.clone() {
            let slot = self.buffer.slot_mut(number);
            slot.mark = mark;
            slot.times += 1;
        }
        // The second of a pair left early, and those behind it wait for that: on average the pace is kept. In libudt
        // it takes no time, which makes every rate a sixteenth faster than intended.
        self.pacer.left(now, packets);
        self.completes_pair = !is_retransmission && (numbers.end - 1) % PROBE_INTERVAL == 0;
        if self.completes_pair {
            self.next_probe = numbers.end + TRAIN_PROBE_INTERVAL;
        }
        self.tail.sent(now);
        self.busy.note(now, true);
        self.is_application_limited = false;
        Leaving::Train { first, packets, is_retransmission }
    }

    /// Returns the number of new packets that may leave; the second of a probe pair need not wait.
    ///
    /// If packets leave in trains, the second is a train: alone it would measure the hosts' cost of a packet, not the
    /// capacity of the path.
    fn allowed_new(&mut self, now: Instant, next: u64, train: u32) -> u32 {
        let wants_pair = self.completes_pair && next % PROBE_INTERVAL == 1;
        if train == 0 || !wants_pair && now < self.pacer.next(train) {
            return 0;
        }
        let allowed = self.pacer.allows(now, train);
        if wants_pair { allowed.max(self.pacer.together(train)) } else { allowed }
    }

    /// Cuts a train so that it ends with the first of a probe pair, if the last pair is long ago, and so that the
    /// second of a pair is not the first of another: otherwise packets would leave early without end.
    fn cut_for_probe(&self, next: u64, count: u32) -> u32 {
        let Some(last) = (next + u64::from(count)).checked_sub(1).filter(|_| count > 1) else { return count };
        let beyond = last % PROBE_INTERVAL;
        if self.completes_pair {
            count - u32::from(beyond == 0)
        } else if next >= self.next_probe && beyond < u64::from(count) {
            count - u32::try_from(beyond).unwrap_or(0)
        } else {
            count
        }
    }

    fn first_lost(&self, retransmission: Retransmission) -> Option<u64> {
        let first = self.lost.first().map(|range| range.start)?;
        let may_leave = retransmission != Retransmission::Withheld || self.buffer.slot(first).is_given_up;
        may_leave.then_some(first)
    }

    /// Returns whether the transport watches for an answer to the tail of the flight: a control that sends in rounds
    /// does so itself, except for the notice of a given-up message.
    fn watches_tail(&self, retransmission: Retransmission) -> bool {
        let first = self.buffer.first();
        retransmission == Retransmission::First
            || first < self.buffer.next() && self.buffer.slot(first).is_given_up
    }

    /// Returns the number of lost packets that may leave. Packets that the peer reported lost have left the path, so
    /// as many may enter it again, regardless of the window; after a timeout nothing is known, and one window
    /// probes.
    fn room_for_retransmission(&self) -> u32 {
        self.unanswered_room.unwrap_or(u32::MAX).min(self.max_train)
    }

    /// Records an answer of the peer, after which a window may leave again.
    fn hear(&mut self) {
        self.unanswered_room =
            self.unanswered_room.filter(|_| !self.lost.is_empty()).map(|_| self.window_packets);
    }

    fn run_of_lost(&self, first: u64, most: u32) -> u32 {
        let run = self.lost.first().map_or(0, |range| range.end - first);
        self.buffer.train(first, u32::try_from(run).unwrap_or(u32::MAX).min(most))
    }

    /// Returns the number of packets that would leave together if they were due.
    fn train_ahead(&self) -> u32 {
        let room = self.window_packets.saturating_sub(self.in_flight());
        let queued = self.buffer.end() - self.buffer.next();
        room.min(u32::try_from(queued).unwrap_or(u32::MAX)).clamp(1, self.max_train)
    }

    fn note_application_limit(&mut self) {
        if !self.is_application_limited && self.in_flight() < self.window_packets {
            self.is_application_limited = true;
            let in_flight = self.in_flight();
            self.sampler.limit(in_flight);
        }
    }

    fn is_expired(&self, now: Instant, number: u64) -> bool {
        let slot = self.buffer.slot(number);
        slot.is_given_up || slot.terms.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Gives up the message of a packet: its unacknowledged packets count as sent and are not sent again.
    fn give_up(&mut self, now: Instant, number: u64) -> Leaving {
        let slot = *self.buffer.slot(number);
        let first = slot.first.max(self.buffer.first());
        for number in first..=slot.last {
            self.buffer.slot_mut(number).is_given_up = true;
        }
        self.lost.remove(first..slot.last + 1);
        self.resent.remove(first..slot.last + 1);
        let next = self.buffer.next();
        self.buffer.advance((slot.last + 1).saturating_sub(next));
        // The notice may be lost like a packet.
        self.tail.sent(now);
        Leaving::GivenUp { first, last: slot.last, was_sent: slot.last < next, is_news: !slot.is_given_up }
    }
}

/// Loss at the tail of a flight.
#[derive(Debug, PartialEq)]
pub(crate) enum TailLoss {
    /// One packet is sent again to provoke an answer.
    Probe,
    /// All packets count as lost.
    Timeout(Losses),
}

#[cfg(test)]
mod tests {
    use wire::udt::SocketType;

    use super::*;
    use crate::Terms;

    const ORIGIN: u64 = 10_000;
    const FIRST: Retransmission = Retransmission::First;

    /// Wherever trains begin, some of them end at a multiple of 16, and the next packets leave at once, as a train,
    /// which begins no further pair.
    #[test]
    fn trains_are_cut_for_probing_pairs() {
        for origin in ORIGIN..ORIGIN + 16 {
            let mut config = SocketConfig::new(SocketType::Stream);
            config.send_buffer_packets = 4_000;
            let mut side = SendSide::new(&config, 1_500, origin, 100_000, Instant::ORIGIN);
            let paced = Effective { window_packets: 100_000, spacing_ps: 1_000_000, was_absurd: false };
            side.obey(Instant::ORIGIN, &paced, u32::MAX);
            side.buffer.push_stream(&vec![7; 4_000 * 1_456]);
            let (mut now, mut pairs, mut began_pair) = (Instant::ORIGIN, 0, None);
            while let Some(deadline) = side.deadline(FIRST).filter(|_| side.buffer.next() < origin + 3_900) {
                now = now.max(deadline);
                while let Some(Leaving::Train { first, packets, .. }) = side.poll(now, FIRST) {
                    let completes = began_pair == Some((now, first));
                    assert!(began_pair.is_none() || completes, "a second that waits");
                    pairs += u32::from(completes);
                    let last = first + u64::from(packets) - 1;
                    let begins = last.is_multiple_of(PROBE_INTERVAL);
                    assert!(
                        !(begins && completes),
                        "packet {last} is the second of a pair and begins another"
                    );
                    began_pair = begins.then_some((now, last + 1));
                }
            }
            assert!((10..=30).contains(&pairs), "{pairs} pairs from {origin} on");
            // On average it keeps the pace: 3,900 packets at a microsecond each.
            let micros = now.since(Instant::ORIGIN).as_micros();
            assert!((3_800..=3_920).contains(&micros), "{micros} us");
        }
    }

    /// Packet 3 of ten is lost. The report shows at once that packet 4 has arrived, an acknowledgement only when
    /// packet 3 has finally arrived: it is then no new sample for packet 4.
    #[test]
    fn a_report_of_a_hole_tells_what_arrived_around_it() {
        let millis = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let config = SocketConfig::new(SocketType::Stream);
        let mut side = SendSide::new(&config, 1_500, ORIGIN, 100, millis(0));
        let paced = Effective { window_packets: 100, spacing_ps: 1_000_000_000, was_absurd: false };
        side.obey(millis(0), &paced, 1);
        side.buffer.push_stream(&[7; 10 * 1_456]);
        for now in 0..10 {
            assert!(side.poll(millis(now), FIRST).is_some(), "{now}");
        }
        let losses = side.hear_of_losses(millis(14), millis(14), [ORIGIN + 3..ORIGIN + 4]);
        assert_eq!(losses.seen.round_trip, Some(Duration::from_millis(10)));
        let rate = losses.seen.rate.unwrap();
        assert_eq!((rate.delivered, rate.interval, rate.lost), (4, Duration::from_millis(14), 1));
        assert!(side.poll(millis(14), FIRST).is_some(), "packet 3 leaves once more");
        let light = |now, to| AckNews {
            to,
            seen: None,
            kind: AckKind::Light,
            window: None,
            answered: Some(millis(now)),
            patience: Duration::from_millis(20),
        };
        let acked = |outcome| match outcome {
            AckOutcome::Taken { acked, .. } => acked,
            AckOutcome::Impossible => panic!("it was sent"),
        };
        let filled = acked(side.acknowledge(millis(24), &light(24, ORIGIN + 5)));
        assert_eq!((filled.newly, filled.round_trip), (5, None));
        assert_eq!(filled.rate, None, "when packets 5 to 9 came is not known yet");
        let rest = acked(side.acknowledge(millis(25), &light(25, ORIGIN + 10)));
        assert_eq!(rest.round_trip, Some(Duration::from_millis(16)));
        let rate = rest.rate.unwrap();
        assert_eq!((rate.delivered, rate.total_delivered, rate.lost), (10, 10, 1));
    }

    #[test]
    fn packets_of_probing_pairs_are_no_faster_than_the_pace_in_all() {
        let config = SocketConfig::new(SocketType::Stream);
        let mut side = SendSide::new(&config, 1_500, ORIGIN, 100_000, Instant::ORIGIN);
        let paced = Effective { window_packets: 100_000, spacing_ps: 1_000_000_000, was_absurd: false };
        side.obey(Instant::ORIGIN, &paced, 1);
        side.buffer.push_stream(&vec![7; 400 * 1_456]);
        let mut now = Instant::ORIGIN;
        while side.buffer.next() < ORIGIN + 321 {
            now = now.max(side.deadline(FIRST).expect("more is queued"));
            while side.poll(now, FIRST).is_some() {}
        }
        assert_eq!(now.since(Instant::ORIGIN).as_millis(), 320);
    }

    #[test]
    fn a_window_that_shrinks_below_what_is_acknowledged_is_a_full_buffer() {
        let config = SocketConfig::new(SocketType::Stream);
        let mut side = SendSide::new(&config, 1_500, ORIGIN, 100, Instant::ORIGIN);
        let open = Effective { window_packets: 100, spacing_ps: 0, was_absurd: false };
        side.obey(Instant::ORIGIN, &open, u32::MAX);
        side.buffer.push_stream(&[7; 4 * 1_456]);
        while side.poll(Instant::ORIGIN, FIRST).is_some() {}
        assert_eq!(side.buffer.next(), ORIGIN + 4);
        let patience = Duration::from_millis(10);
        let news = AckNews {
            to: ORIGIN + 1,
            kind: AckKind::Window,
            window: Some(0),
            answered: None,
            patience,
            seen: None,
        };
        side.acknowledge(Instant::ORIGIN, &news);
        let news = AckNews { to: ORIGIN + 3, kind: AckKind::Light, window: None, ..news };
        side.acknowledge(Instant::ORIGIN, &news);
        for _ in 0..5 {
            let now = side.tail.deadline().expect("a packet is unanswered");
            assert_eq!(side.advance(now, FIRST), Some(TailLoss::Probe));
            assert!(side.poll(now, FIRST).is_some(), "what asks for room leaves");
        }
    }

    #[test]
    fn what_arrived_behind_a_hole_is_not_in_flight_and_says_nothing_of_the_round_trip() {
        let config = SocketConfig::new(SocketType::Stream);
        let mut side = SendSide::new(&config, 1_500, ORIGIN, 100, Instant::ORIGIN);
        let open = Effective { window_packets: 100, spacing_ps: 0, was_absurd: false };
        side.obey(Instant::ORIGIN, &open, u32::MAX);
        side.buffer.push_stream(&[7; 20 * 1_456]);
        while side.poll(Instant::ORIGIN, FIRST).is_some() {}
        assert_eq!(side.in_flight(), 20);
        let at = |millis| Instant::ORIGIN + Duration::from_millis(millis);
        side.hear_of_losses(at(20), at(20), [ORIGIN + 4..ORIGIN + 5]);
        assert_eq!(side.in_flight(), 14, "up to the hole and the packet that showed it");
        let patience = Duration::from_millis(100);
        let light = AckNews {
            to: ORIGIN + 4,
            seen: Some(ORIGIN + 15),
            kind: AckKind::Light,
            window: None,
            answered: Some(at(20)),
            patience,
        };
        let mut take = |now, news: AckNews| match side.acknowledge(now, &news) {
            AckOutcome::Taken { acked, .. } => (acked.newly, acked.round_trip, side.in_flight()),
            AckOutcome::Impossible => panic!("it was sent"),
        };
        let round_trip = Some(Duration::from_millis(20));
        assert_eq!(take(at(25), light), (4, round_trip, 5), "it waited for 5 ms, and said so");
        assert_eq!(take(at(26), AckNews { seen: Some(ORIGIN + 9), ..light }), (0, None, 5), "no news");
        assert_eq!(take(at(26), AckNews { seen: Some(ORIGIN + 21), ..light }), (0, None, 5), "never sent");
        assert!(matches!(side.poll(at(30), FIRST), Some(Leaving::Train { is_retransmission: true, .. })));
        let mut take = |now, news: AckNews| match side.acknowledge(now, &news) {
            AckOutcome::Taken { acked, .. } => (acked.newly, acked.round_trip),
            AckOutcome::Impossible => panic!("it was sent"),
        };
        let filled = AckNews { to: ORIGIN + 18, seen: None, answered: Some(at(50)), ..light };
        assert_eq!(take(at(50), filled), (14, None), "they waited for the one that was sent again");
        assert_eq!(take(at(50), AckNews { to: ORIGIN + 20, ..filled }), (2, Some(Duration::from_millis(50))));
    }

    /// A message whose deadline passes before it is sent takes numbers and no time: its acknowledgement is no sample.
    #[test]
    fn what_was_given_up_unsent_is_no_sample_of_anything() {
        let config = SocketConfig::new(SocketType::Datagram);
        let mut side = SendSide::new(&config, 1_500, ORIGIN, 100, Instant::ORIGIN);
        let open = Effective { window_packets: 100, spacing_ps: 0, was_absurd: false };
        side.obey(Instant::ORIGIN, &open, u32::MAX);
        let at = |millis| Instant::ORIGIN + Duration::from_millis(millis);
        side.buffer.push(&[7; 1_000], Terms::default());
        assert!(matches!(side.poll(at(1_000), FIRST), Some(Leaving::Train { .. })));
        side.buffer.push(&[7; 1_000], Terms { deadline: Some(at(1_001)), ..Terms::default() });
        assert!(matches!(side.poll(at(1_002), FIRST), Some(Leaving::GivenUp { .. })));
        let news = AckNews {
            to: ORIGIN + 2,
            seen: None,
            kind: AckKind::Full,
            window: None,
            answered: Some(at(1_010)),
            patience: Duration::from_millis(100),
        };
        let AckOutcome::Taken { acked, .. } = side.acknowledge(at(1_010), &news) else {
            panic!("it was sent")
        };
        assert_eq!((acked.newly, acked.round_trip, acked.rate), (2, None, None));
        side.buffer.push(&[7; 1_000], Terms::default());
        assert!(side.poll(at(1_020), FIRST).is_some());
        let news = AckNews { to: ORIGIN + 3, answered: Some(at(1_040)), ..news };
        let AckOutcome::Taken { acked, .. } = side.acknowledge(at(1_040), &news) else {
            panic!("it was sent")
        };
        assert_eq!(acked.round_trip, Some(Duration::from_millis(20)));
        let interval = acked.rate.expect("it arrived").interval;
        assert!(interval < Duration::from_millis(100), "{interval:?}");
    }

    /// Seed 3291 of `tests/seeds.rs`: the notice was lost, and the control waited for packets that were not in
    /// flight.
    #[test]
    fn that_a_message_was_given_up_is_said_again_also_where_the_control_sends_in_rounds() {
        let config = SocketConfig::new(SocketType::Datagram);
        let mut side = SendSide::new(&config, 1_500, ORIGIN, 100, Instant::ORIGIN);
        let open = Effective { window_packets: 100, spacing_ps: 0, was_absurd: false };
        side.obey(Instant::ORIGIN, &open, u32::MAX);
        let withheld = Retransmission::Withheld;
        side.buffer.push(&[7; 1_000], Terms { deadline: Some(Instant::ORIGIN), ..Terms::default() });
        let now = Instant::ORIGIN + Duration::from_millis(1);
        assert!(matches!(side.poll(now, withheld), Some(Leaving::GivenUp { is_news: true, .. })));
        for _ in 0..3 {
            let now = side.deadline(withheld).expect("the peer has not answered");
            assert_eq!(side.advance(now, withheld), Some(TailLoss::Probe));
            assert!(matches!(side.poll(now, withheld), Some(Leaving::GivenUp { is_news: false, .. })));
        }
    }
}
