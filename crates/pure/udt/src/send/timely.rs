//! Live messages: they leave and are repaired while they can arrive in time, and are given up when they cannot.
//!
//! A message that is not sent, or is known to be missing, is given up as soon as it cannot arrive by its deadline: half a
//! round trip before it. One in flight then may still arrive, and is given up when its answer is overdue. The peer is
//! told of contiguous messages by one notice; it reports missing packets until it is told, so that a lost notice is
//! repeated by its report, or by the probe of the tail.
//!
//! While the link is down, nothing is repaired: one new message after another tries the path. Source of the times:
//! `docs/protocol/udt.md`, "Live messages".

use core::ops::{Range, RangeInclusive};
use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};

use congestion::RoundTrip;
use units::{Instant, RangeSet};

use super::buffer::Slot;
use super::{Leaving, SendSide};
use crate::Terms;

/// Time after which the newest packet is repeated, beyond the round trip: the peer answers within a millisecond.
const PROBE_MARGIN: Duration = Duration::from_millis(2);
/// Number of probes without growing intervals, then the longest interval.
const STEADY_PROBES: u32 = 8;
const LONGEST_PROBE: Duration = Duration::from_secs(1);
/// Time after which the answer to a message that arrived at its deadline is overdue, beyond the round trip: two
/// acknowledging intervals.
const LATE_ANSWER: Duration = Duration::from_millis(20);
/// Time for which notices gather that the peer does not wait for: half a round trip, within these limits.
const LEAST_GATHERING: Duration = Duration::from_millis(5);
const MOST_GATHERING: Duration = Duration::from_millis(100);
/// Minimum silence of a link that is down, and the number of round trips.
const LEAST_SILENCE: Duration = Duration::from_millis(250);
const SILENT_ROUND_TRIPS: u32 = 3;
/// Maximum interval of the messages that try a link that is down.
const MOST_TRY_INTERVAL: Duration = Duration::from_millis(50);
/// Time whose packets are queued at most: what is queued can be neither ordered nor withdrawn any more.
const QUEUED_PS: u64 = 1_000_000_000;
const LEAST_QUEUED: u64 = 2;
/// Maximum number of missing packets, from the oldest on, of which the one with the highest priority is repaired first.
const MAX_COMPARED: usize = 256;

/// State of live messages.
#[derive(Debug)]
pub(crate) struct Timely {
    /// Messages with a deadline that can still be met.
    pending: BTreeSet<Due>,
    /// Messages in flight whose deadline cannot be met by another transmission.
    flying: BTreeSet<Due>,
    /// Packets given up and not acknowledged.
    given_up: RangeSet,
    /// Those of which the peer is still to be told, and when: at once if it has reported them.
    untold: RangeSet,
    tells_at: Option<Instant>,
    /// Number of packets given up so far.
    given_up_count: u64,
    expired: VecDeque<Expired>,
    /// True once any message had a priority.
    has_priorities: bool,
    one_way: Duration,
    round_trip: Duration,
    link: Link,
    /// Time of the next probe of the tail, and the number of probes without an answer.
    probe_at: Option<Instant>,
    probes: u32,
}

/// A message that was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Expired {
    pub(crate) tag: u64,
    pub(crate) was_sent: bool,
}

/// A message with its deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Due {
    deadline: Instant,
    first: u64,
    last: u64,
}

/// State of the link, by the peer's answers.
#[derive(Clone, Copy, Debug)]
enum Link {
    /// `since` is the time of the oldest packet that waits for an answer, or of the last packet from the peer.
    Up { since: Option<Instant> },
    /// A message may leave if `may_try`, and at `tries_at` another one.
    Down { tries_at: Instant, may_try: bool },
}

/// What time has brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// The link is down now.
    WentDown,
    /// It is down, and is tried again.
    Tries,
}

impl Timely {
    pub(super) fn new() -> Self {
        Self {
            pending: BTreeSet::new(),
            flying: BTreeSet::new(),
            given_up: RangeSet::new(),
            untold: RangeSet::new(),
            tells_at: None,
            given_up_count: 0,
            expired: VecDeque::new(),
            has_priorities: false,
            one_way: Duration::ZERO,
            round_trip: RoundTrip::UNKNOWN.smoothed,
            link: Link::Up { since: None },
            probe_at: None,
            probes: 0,
        }
    }

    pub(crate) const fn is_down(&self) -> bool {
        matches!(self.link, Link::Down { .. })
    }

    pub(super) const fn given_up_count(&self) -> u64 {
        self.given_up_count
    }

    /// Returns the number of packets in a range that are given up and not acknowledged.
    pub(super) fn given_up_in(&self, range: Range<u64>) -> u64 {
        if self.given_up.is_empty() { 0 } else { self.given_up.count_in(range) }
    }

    /// Records that packets are acknowledged.
    pub(super) fn release(&mut self, range: Range<u64>) {
        self.given_up.remove(range.clone());
        self.untold.remove(range);
    }

    /// Records that all packets were answered, or that some of them were.
    pub(super) const fn answered(&mut self, is_all: bool) {
        self.probes = 0;
        if is_all {
            self.probe_at = None;
            if let Link::Up { since } = &mut self.link {
                *since = None;
            }
        }
    }

    /// Separates the packets of a reported range that can be repaired from those that were given up: the peer is told
    /// of those again.
    pub(super) fn repairable(&mut self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut rest = Vec::new();
        let mut from = range.start;
        let given_up: Vec<Range<u64>> = self.given_up.intersection(range.clone()).collect();
        for known in given_up {
            rest.push(from..known.start);
            from = known.end;
            self.untold.insert(known);
            self.tells_at = Some(Instant::ORIGIN);
        }
        rest.push(from..range.end);
        rest.retain(|range| !range.is_empty());
        rest
    }

    /// Records that packets, or a notice of them, leave.
    pub(super) fn sent(&mut self, now: Instant) {
        let growth = 1 << self.probes.saturating_sub(STEADY_PROBES).min(10);
        let wait = (self.round_trip + PROBE_MARGIN) * growth;
        self.probe_at = Some(now + wait.min(LONGEST_PROBE.max(self.round_trip + PROBE_MARGIN)));
    }

    fn wait_for_answer(&mut self, now: Instant) {
        if let Link::Up { since } = &mut self.link {
            since.get_or_insert(now);
        }
    }

    fn silence(&self) -> Duration {
        (self.round_trip * SILENT_ROUND_TRIPS).max(LEAST_SILENCE)
    }

    fn is_late(&self, now: Instant, slot: &Slot) -> bool {
        slot.terms.deadline.is_some_and(|deadline| deadline <= now + self.one_way)
    }

    fn deadline(&self) -> Option<Instant> {
        let link = match self.link {
            Link::Up { since } => since.map(|since| since + self.silence()),
            Link::Down { tries_at, .. } => Some(tries_at),
        };
        let pending = self.pending.first().map(|due| due.deadline - self.one_way);
        let flying = self.flying.first().map(|due| due.deadline + self.round_trip + LATE_ANSWER);
        let probe = self.probe_at.filter(|_| !self.is_down());
        let notice = self.tells_at.filter(|_| !self.is_down());
        [link, pending, flying, probe, notice].into_iter().fold(None, Instant::earlier)
    }
}

impl SendSide {
    /// Returns whether a message of these terms can still arrive in time.
    pub(crate) fn can_arrive(&self, now: Instant, deadline: Option<Instant>) -> bool {
        let one_way = self.timely.as_ref().map(|timely| timely.one_way);
        one_way.zip(deadline).is_none_or(|(one_way, deadline)| deadline > now + one_way)
    }

    /// Watches the packets queued last.
    pub(crate) fn watch(&mut self, terms: &Terms, numbers: RangeInclusive<u64>) {
        let Some(timely) = &mut self.timely else { return };
        timely.has_priorities |= terms.priority > 0;
        let Some(deadline) = terms.deadline else { return };
        timely.pending.insert(Due { deadline, first: *numbers.start(), last: *numbers.end() });
        // Acknowledged messages stay until their deadlines: at most as many as others are queued.
        if timely.pending.len() as u64 > 2 * self.buffer.capacity() {
            let first = self.buffer.first();
            timely.pending.retain(|due| due.last >= first);
        }
    }

    /// Returns the number of packets that may be queued: what leaves within a millisecond.
    pub(crate) fn timely_room(&self, timely: &Timely) -> u64 {
        let queued = self.buffer.end() - self.buffer.next();
        match timely.link {
            Link::Down { may_try, .. } => {
                u64::from(may_try && queued == 0 && self.buffer.next() < self.limit)
            }
            Link::Up { .. } => {
                let paced = self.pacer.within(QUEUED_PS).unwrap_or(u64::MAX);
                let most = paced.clamp(LEAST_QUEUED, u64::from(self.max_train.max(2)));
                let window = u64::from(self.window_packets.saturating_sub(self.in_flight()));
                let window = window.min(self.limit.saturating_sub(self.buffer.next()));
                most.min(window).min(self.buffer.free() + queued).saturating_sub(queued)
            }
        }
    }

    /// Records a packet from the peer; returns whether the link was down.
    pub(crate) fn hear_packet(&mut self, now: Instant) -> bool {
        let is_unanswered = self.buffer.next() > self.seen_to;
        let Some(timely) = &mut self.timely else { return false };
        let was_down = timely.is_down();
        timely.link = Link::Up { since: is_unanswered.then_some(now) };
        if was_down {
            timely.probes = 0;
            timely.sent(now);
            // The messages that tried the link left without their turn.
            self.pacer.forgive(now);
        }
        was_down
    }

    /// Returns the next message that was given up, for its owner.
    pub(crate) fn next_expired(&mut self) -> Option<Expired> {
        self.timely.as_mut()?.expired.pop_front()
    }

    /// Gives up what can no longer arrive in time, and watches link and tail.
    pub(crate) fn keep_time(&mut self, now: Instant, round_trip: &RoundTrip) -> Option<Change> {
        let timely = self.timely.as_mut()?;
        timely.round_trip = round_trip.smoothed;
        timely.one_way = if round_trip.latest.is_some() { round_trip.smoothed / 2 } else { Duration::ZERO };
        self.expire(now);
        let change = self.watch_link(now);
        self.probe_tail(now);
        change
    }

    fn expire(&mut self, now: Instant) {
        while let Some(timely) = &mut self.timely
            && let Some(due) = timely.pending.first().copied()
            && due.deadline <= now + timely.one_way
        {
            timely.pending.remove(&due);
            if due.last < self.buffer.first() {
                continue;
            }
            let is_missing = self.lost.intersection(due.first..due.last + 1).next().is_some();
            if is_missing {
                // The peer waits for the packet, or for the notice.
                timely.tells_at = Some(now);
            }
            if is_missing || due.last >= self.buffer.next() {
                self.give_up_message(now, due.first, due.last);
            } else {
                timely.flying.insert(due);
            }
        }
        while let Some(timely) = &mut self.timely
            && let Some(due) = timely.flying.first().copied()
            && due.deadline + timely.round_trip + LATE_ANSWER <= now
        {
            timely.flying.remove(&due);
            let has_arrived = due.last < self.buffer.first()
                || due.last < self.seen_to
                    && self.resent.intersection(due.first..due.last + 1).next().is_none();
            if !has_arrived {
                self.give_up_message(now, due.first, due.last);
            }
        }
    }

    /// Gives up a message: what was sent of it counts as answered, the rest is passed over when it is its turn.
    fn give_up_message(&mut self, now: Instant, first: u64, last: u64) {
        let (next, first) = (self.buffer.next(), first.max(self.buffer.first()));
        if self.buffer.slot(last).is_given_up {
            return;
        }
        for number in first..=last {
            self.buffer.slot_mut(number).is_given_up = true;
        }
        let tag = self.buffer.slot(last).terms.tag;
        self.lost.remove(first..last + 1);
        self.resent.remove(first..last + 1);
        let Some(timely) = &mut self.timely else { return };
        timely.expired.push_back(Expired { tag, was_sent: last < next });
        timely.note_given_up(now, first..next.min(last + 1));
    }

    fn watch_link(&mut self, now: Instant) -> Option<Change> {
        let timely = self.timely.as_mut()?;
        let interval = timely.round_trip.min(MOST_TRY_INTERVAL);
        let silence = timely.silence();
        match &mut timely.link {
            Link::Up { since: Some(since) } if *since + silence <= now => {
                timely.link = Link::Down { tries_at: now + interval, may_try: false };
                self.hand_back(now);
                Some(Change::WentDown)
            }
            Link::Down { tries_at, may_try } if *tries_at <= now => {
                (*tries_at, *may_try) = (now + interval, true);
                Some(Change::Tries)
            }
            Link::Up { .. } | Link::Down { .. } => None,
        }
    }

    /// Gives queued messages back to their owner when the link goes down: newer ones are to try it.
    fn hand_back(&mut self, now: Instant) {
        let mut number = self.buffer.next();
        while number < self.buffer.end() {
            let slot = *self.buffer.slot(number);
            if slot.terms.deadline.is_some() {
                self.give_up_message(now, slot.first, slot.last);
            }
            number = slot.last + 1;
        }
    }

    fn probe_tail(&mut self, now: Instant) {
        let newest = self.buffer.next() - 1;
        let is_unanswered = self.buffer.next() > self.seen_to.max(self.buffer.first());
        let Some(timely) = &mut self.timely else { return };
        if timely.is_down() || timely.probe_at.is_none_or(|at| at > now) {
            return;
        }
        if !is_unanswered {
            timely.probe_at = None;
            return;
        }
        timely.probe_at = None;
        timely.probes += 1;
        if timely.given_up.contains(newest) {
            let known = timely.given_up.iter().next_back().unwrap_or(newest..newest + 1);
            timely.untold.insert(known);
            timely.tells_at = Some(now);
        } else if timely.is_late(now, self.buffer.slot(newest)) {
            // It can no longer arrive in time, and is given up when its answer is overdue.
            timely.sent(now);
        } else {
            self.lost.insert(newest..newest + 1);
            self.probed += 1;
        }
    }

    /// Returns the next packets to send, or the next notice.
    pub(super) fn poll_timely(&mut self, now: Instant) -> Option<Leaving> {
        self.pass_over_given_up(now);
        let repair = self.next_repair(now);
        if let Some(notice) = self.next_notice(now) {
            return Some(notice);
        }
        let timely = self.timely.as_ref()?;
        if timely.is_down() {
            return self.try_link(now);
        }
        let next = self.buffer.next();
        let train = self.ready_train();
        if let Some(first) = repair.filter(|repair| train == 0 || !self.is_behind_new(*repair)) {
            let most = self.run_of_lost_at(first);
            // Repairs do not wait for their turn, but those behind them wait for it.
            let count = self.pacer.allows_ahead(now, most, self.max_train);
            return (count > 0).then(|| self.leave_timely(now, first, count, true));
        }
        if !self.has_new() {
            self.note_application_limit();
        }
        if train == 0 {
            self.is_held = true;
            return None;
        }
        if core::mem::take(&mut self.is_held) {
            self.pacer.resume(now, train);
        }
        let count = self.pacer.allows(now, train);
        (count > 0).then(|| self.leave_timely(now, next, count, false))
    }

    /// Returns the number of new packets that can leave as one train, as far as the windows allow it.
    fn ready_train(&self) -> u32 {
        if !self.has_new() {
            return 0;
        }
        let room = u64::from(self.window_packets.saturating_sub(self.in_flight()));
        let room = room.min(self.limit.saturating_sub(self.buffer.next()));
        let most = u32::try_from(room).unwrap_or(u32::MAX).min(self.max_train);
        self.buffer.train(self.buffer.next(), most)
    }

    /// Returns the time of the next call for pending packets.
    pub(super) fn timely_deadline(&self, timely: &Timely) -> Option<Instant> {
        if timely.is_down() {
            return timely.deadline();
        }
        let has_new = self.ready_train() > 0;
        let new = has_new.then(|| self.pacer.next(1));
        let repair = self.most_urgent_missing().filter(|repair| !(has_new && self.is_behind_new(*repair)));
        let repair = repair.map(|_| self.pacer.next_ahead(self.max_train));
        [new, repair, timely.deadline()].into_iter().fold(None, Instant::earlier)
    }

    fn has_new(&self) -> bool {
        self.buffer.next() < self.buffer.end()
    }

    /// Sends the one message that tries the link.
    fn try_link(&mut self, now: Instant) -> Option<Leaving> {
        let next = self.buffer.next();
        let is_open = self.has_new() && next < self.limit;
        match &mut self.timely.as_mut()?.link {
            Link::Down { may_try, .. } if *may_try && is_open => *may_try = false,
            Link::Down { .. } | Link::Up { .. } => return None,
        }
        let count = self.buffer.train(next, 1);
        Some(self.leave_timely(now, next, count, false))
    }

    fn leave_timely(&mut self, now: Instant, first: u64, count: u32, is_retransmission: bool) -> Leaving {
        if let Some(timely) = &mut self.timely {
            timely.wait_for_answer(now);
            timely.sent(now);
        }
        self.leave(now, first, count, is_retransmission)
    }

    /// Passes over messages at the head of the queue that were given up before they were sent.
    fn pass_over_given_up(&mut self, now: Instant) {
        while self.has_new() {
            let slot = *self.buffer.slot(self.buffer.next());
            let range = self.buffer.next()..self.limit.min(slot.last + 1);
            if !slot.is_given_up || range.is_empty() {
                return;
            }
            self.buffer.advance(range.end - range.start);
            if let Some(timely) = &mut self.timely {
                timely.note_given_up(now, range);
            }
        }
    }

    /// Returns the next packet to be repaired, and gives up the missing ones that cannot arrive in time.
    fn next_repair(&mut self, now: Instant) -> Option<u64> {
        loop {
            let timely = self.timely.as_ref()?;
            let number = self.most_urgent_missing()?;
            let slot = *self.buffer.slot(number);
            if !timely.is_late(now, &slot) {
                return Some(number);
            }
            self.give_up_message(now, slot.first, slot.last);
            self.lost.remove(number..number + 1);
            if let Some(timely) = &mut self.timely {
                timely.tells_at = Some(now);
            }
        }
    }

    /// Returns the oldest of the missing packets with the highest priority.
    fn most_urgent_missing(&self) -> Option<u64> {
        let oldest = self.lost.first()?.start;
        if !self.has_priorities() {
            return Some(oldest);
        }
        let missing = self.lost.iter().flatten().take(MAX_COMPARED);
        missing.max_by_key(|number| (self.priority(*number), core::cmp::Reverse(*number)))
    }

    /// Returns whether a new message of a higher priority than that of a missing packet is queued.
    fn is_behind_new(&self, repair: u64) -> bool {
        let mut new = self.buffer.next()..self.buffer.end();
        self.has_priorities() && new.any(|number| self.priority(number) > self.priority(repair))
    }

    fn has_priorities(&self) -> bool {
        self.timely.as_ref().is_some_and(|timely| timely.has_priorities)
    }

    fn priority(&self, number: u64) -> u8 {
        self.buffer.slot(number).terms.priority
    }

    /// Returns the next notice to the peer: of contiguous messages of one packet each, or of one longer message.
    fn next_notice(&mut self, now: Instant) -> Option<Leaving> {
        let timely = self.timely.as_mut()?;
        if timely.is_down() || timely.tells_at.is_none_or(|at| at > now) {
            return None;
        }
        let Some(run) = timely.untold.first() else {
            timely.tells_at = None;
            return None;
        };
        let is_single = |number: u64| {
            let slot = self.buffer.slot(number);
            slot.first == slot.last
        };
        let end = if is_single(run.start) {
            (run.start..run.end).find(|number| !is_single(*number)).unwrap_or(run.end)
        } else {
            run.end.min(self.buffer.slot(run.start).last + 1)
        };
        timely.untold.remove(run.start..end);
        timely.sent(now);
        Some(Leaving::GivenUp { first: run.start, last: end - 1, was_sent: false, is_news: false })
    }

    fn run_of_lost_at(&self, first: u64) -> u32 {
        let run = self.lost.intersection(first..u64::MAX).next().map_or(0, |range| range.end - first);
        // Behind it others may be of a lower priority.
        let run = if self.has_priorities() { run.min(1) } else { run };
        self.buffer.train(first, u32::try_from(run).unwrap_or(u32::MAX).min(self.max_train))
    }
}

impl Timely {
    fn note_given_up(&mut self, now: Instant, range: Range<u64>) {
        if !range.is_empty() {
            let gathers = (self.round_trip / 2).clamp(LEAST_GATHERING, MOST_GATHERING);
            self.tells_at.get_or_insert(now + gathers);
            self.given_up_count += range.end - range.start;
            self.given_up.insert(range.clone());
            self.untold.insert(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use congestion::{Effective, Retransmission};
    use wire::udt::SocketType;

    use super::*;
    use crate::{Repair, SocketConfig};

    const ORIGIN: u64 = 10_000;
    const ROUND_TRIP: Duration = Duration::from_millis(20);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// Returns a side that sends a packet each 10 ms, and has queued messages with this deadline.
    fn side(messages: u64, deadline: Instant) -> SendSide {
        let config = SocketConfig { repair: Repair::Timely, ..SocketConfig::new(SocketType::Datagram) };
        let mut side = SendSide::new(&config, 1_500, ORIGIN, 100, Instant::ORIGIN);
        let paced = Effective { window_packets: 100, spacing_ps: 10_000_000_000, was_absurd: false };
        side.obey(Instant::ORIGIN, &paced, u32::MAX);
        (0..messages).for_each(|tag| queue(&mut side, tag, deadline));
        side
    }

    fn queue(side: &mut SendSide, tag: u64, deadline: Instant) {
        queue_with(side, Terms { deadline: Some(deadline), tag, ..Terms::default() });
    }

    fn queue_with(side: &mut SendSide, terms: Terms) {
        let number = side.buffer.end();
        side.buffer.push(&[7; 1_000], terms);
        side.watch(&terms, number..=number);
    }

    fn pass(side: &mut SendSide, now: Instant) {
        let known = RoundTrip { latest: Some(ROUND_TRIP), smoothed: ROUND_TRIP, ..RoundTrip::UNKNOWN };
        side.keep_time(now, &known);
    }

    /// Lets everything leave that may; returns the offsets of packets, and of the notices, negative.
    fn leave(side: &mut SendSide, now: Instant) -> Vec<i64> {
        pass(side, now);
        let offset = |number: u64| i64::try_from(number - ORIGIN).unwrap();
        let left = core::iter::from_fn(|| side.poll(now, Retransmission::First));
        left.map(|leaving| match leaving {
            Leaving::Train { first, packets: 1, .. } => offset(first),
            Leaving::GivenUp { first, last, .. } => -100 * offset(first) - offset(last),
            Leaving::Train { .. } => panic!("messages that are not full leave alone"),
        })
        .collect()
    }

    #[test]
    fn repairs_leave_before_their_turn_and_those_behind_them_wait() {
        let mut side = side(4, at(10_000));
        assert_eq!([0, 10, 20].map(|millis| leave(&mut side, at(millis))), [[0], [1], [2]]);
        side.hear_of_losses(at(21), at(21), [ORIGIN..ORIGIN + 2]);
        assert_eq!(leave(&mut side, at(21)), [0, 1], "oldest first");
        assert_eq!(leave(&mut side, at(49)), [0; 0]);
        assert_eq!(leave(&mut side, at(50)), [3], "it was due at 30 ms");
    }

    #[test]
    fn repairs_leave_behind_new_messages_of_a_higher_priority_and_the_highest_goes_first() {
        let mut side = side(0, at(10_000));
        let priorities = [1, 2, 1, 1, 2, 1];
        let terms =
            |priority: u8, tag| Terms { deadline: Some(at(10_000)), priority, tag, ..Terms::default() };
        (0..).zip(&priorities[..4]).for_each(|(tag, priority)| queue_with(&mut side, terms(*priority, tag)));
        assert_eq!([0, 10, 20, 30].map(|millis| leave(&mut side, at(millis))), [[0], [1], [2], [3]]);
        (4..).zip(&priorities[4..]).for_each(|(tag, priority)| queue_with(&mut side, terms(*priority, tag)));
        side.hear_of_losses(at(31), at(31), [ORIGIN..ORIGIN + 3]);
        assert_eq!(leave(&mut side, at(31)), [1], "as high as the highest that is new");
        assert_eq!(side.deadline(Retransmission::First), Some(at(50)), "the others wait with it");
        assert_eq!(leave(&mut side, at(50)), [4, 0, 2], "then they are before those like them, oldest first");
        assert_eq!(leave(&mut side, at(71)), [0; 0], "those behind them wait");
    }

    #[test]
    fn what_is_missing_is_given_up_when_it_cannot_arrive_and_what_flies_when_its_answer_is_overdue() {
        let mut side = side(3, at(60));
        assert_eq!([0, 10, 20].map(|millis| leave(&mut side, at(millis))), [[0], [1], [2]]);
        side.hear_of_losses(at(50), at(50), [ORIGIN..ORIGIN + 1]);
        assert_eq!(
            (leave(&mut side, at(50)), side.in_flight()),
            (vec![0; 1], 1),
            "half a round trip remains: none"
        );
        assert_eq!(side.next_expired(), Some(Expired { tag: 0, was_sent: true }));
        pass(&mut side, at(99));
        assert_eq!(side.next_expired(), None, "the answers to the others may still come");
        pass(&mut side, at(100));
        assert_eq!(side.next_expired(), Some(Expired { tag: 2, was_sent: true }));
        assert_eq!((side.next_expired(), side.in_flight()), (None, 0), "what is given up is not in flight");
    }

    #[test]
    fn a_link_that_is_down_is_tried_by_one_message_after_another() {
        let mut side = side(1, at(10_000));
        assert_eq!(leave(&mut side, at(0)), [0]);
        queue(&mut side, 1, at(10_000));
        let room = |side: &SendSide| side.timely_room(side.timely.as_ref().unwrap());
        assert!(room(&side) > 0);
        pass(&mut side, at(250));
        assert_eq!(side.next_expired(), Some(Expired { tag: 1, was_sent: false }), "it goes back");
        assert_eq!((room(&side), leave(&mut side, at(269))), (0, vec![]));
        pass(&mut side, at(270));
        assert_eq!((room(&side), side.next_expired()), (1, None), "a round trip later");
        queue(&mut side, 2, at(10_000));
        assert_eq!((leave(&mut side, at(270)), room(&side)), (vec![2], 0));
        assert_eq!(side.deadline(Retransmission::First), Some(at(290)));
        assert!(side.hear_packet(at(280)) && room(&side) > 1);
    }
}
