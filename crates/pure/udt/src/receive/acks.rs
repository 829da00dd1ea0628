//! Acknowledgements: their times and their contents, and the samples from their answers.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use congestion::{AckPolicy, RoundTrip};
use units::Instant;

use crate::Repair;

/// Minimum number of acknowledgements in a round trip of continuous arrivals: windows smaller than the arrivals in
/// the interval of full ones would stall for the rest of it.
const IN_A_ROUND_TRIP: u32 = 32;

/// Minimum interval of light acknowledgements: within a host or a room they would cost more than they bring.
const LEAST_LIGHT_INTERVAL: Duration = Duration::from_millis(1);

/// Maximum number of unanswered acknowledgements that are remembered.
const MEMORY: usize = 1_024;

/// Kind of acknowledgement to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acknowledging {
    /// Light: only the number of the next packet.
    Light,
    /// Full, with a number of its own.
    Full {
        /// The acknowledgement's number.
        number: u32,
        /// True if the rates are included, at most once in the interval.
        with_rates: bool,
    },
}

/// Schedules acknowledgements.
#[derive(Debug)]
pub(crate) struct Acks {
    policy: AckPolicy,
    /// Next packet by the latest full acknowledgement.
    told: u64,
    /// Received end known to the peer, even with packets missing before it.
    seen: u64,
    told_at: Instant,
    rates_at: Option<Instant>,
    repeats: u32,
    number: u32,
    packets: u32,
    packets_since_light: u32,
    /// Due time of the next full one: set on arrivals.
    due: Option<Instant>,
    /// Due time of the next light one: set on arrivals.
    light_due: Option<Instant>,
    light_interval: Duration,
    is_live: bool,
    /// Time of the latest acknowledgement, light or full, and its next packet.
    known_at: Instant,
    known: u64,
    /// Time of the next repetition: set until the answer.
    again_at: Option<Instant>,
    is_urgent: bool,
    unanswered: VecDeque<(u32, u64, Instant)>,
}

impl Acks {
    pub(crate) const fn new(origin: u64, now: Instant) -> Self {
        Self {
            policy: AckPolicy::UDT,
            told: origin,
            seen: origin,
            told_at: now,
            rates_at: None,
            repeats: 0,
            number: 0,
            packets: 0,
            packets_since_light: 0,
            due: None,
            light_due: None,
            light_interval: AckPolicy::UDT.every,
            is_live: false,
            known_at: now,
            known: origin,
            again_at: None,
            is_urgent: false,
            unanswered: VecDeque::new(),
        }
    }

    pub(crate) fn obey(&mut self, policy: AckPolicy) {
        self.policy = AckPolicy { every: policy.every.min(congestion::ACK_INTERVAL), ..policy };
    }

    /// Adopts the round trip, once it is known.
    pub(crate) fn follow(&mut self, round_trip: &RoundTrip) {
        if round_trip.latest.is_some() && !self.is_live {
            self.light_interval = (round_trip.smoothed / IN_A_ROUND_TRIP).max(LEAST_LIGHT_INTERVAL);
        }
    }

    /// Records arrived packets, duplicates included; an odd-sized one ends its sender's burst.
    pub(crate) fn arrive(&mut self, now: Instant, packets: u32, is_odd_sized: bool) {
        self.packets += packets;
        self.packets_since_light += packets;
        self.is_urgent |= is_odd_sized;
        if self.due.is_none() {
            self.due = Some(now.max(self.told_at + self.policy.every));
        }
        if self.light_due.is_none() {
            self.light_due = Some(now.max(self.known_at + self.light_interval));
        }
    }

    /// Records a duplicate of an acknowledged packet: the acknowledgement may have been lost.
    pub(crate) fn arrive_again(&mut self, now: Instant) {
        let at = now.max(self.told_at + self.policy.every);
        self.again_at = Instant::earlier(self.again_at, Some(at));
    }

    /// Tells a sender of live messages each millisecond what has arrived: it probes its tail shortly after a round trip.
    pub(crate) const fn hurry_light(&mut self, repair: Repair) {
        self.is_live = matches!(repair, Repair::Timely);
        if self.is_live {
            self.light_interval = LEAST_LIGHT_INTERVAL;
        }
    }

    /// Records a duplicate of a packet behind a hole: the acknowledgement that told of it may have been lost.
    pub(crate) const fn see_again(&mut self) {
        self.seen = 0;
    }

    /// Requests an acknowledgement of free space.
    pub(crate) const fn hurry(&mut self) {
        self.is_urgent = true;
    }

    /// Returns the acknowledgement that is due, with every packet before the start of `waiting` received and some
    /// packets in it missing; after `most_packets` the peer must be sent the free space.
    ///
    /// While a hole keeps an acknowledgement from advancing, light ones report the received end: otherwise the peer
    /// would count all of those packets as in flight, and wait.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        waiting: Range<u64>,
        most_packets: u32,
        patience: Duration,
    ) -> Option<Acknowledging> {
        let Range { start: next, end: received_end } = waiting;
        let after = self.policy.after_packets.map_or(most_packets, |after| after.min(most_packets));
        let is_counted = self.packets >= after.max(1);
        let has_come = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if self.is_urgent || is_counted || has_come(self.due) {
            (self.packets, self.due) = (0, None);
            let is_news = next != self.told || core::mem::take(&mut self.is_urgent);
            self.is_urgent = false;
            if is_news {
                self.repeats = 0;
                return Some(self.tell(now, next, patience));
            }
        }
        if has_come(self.again_at) {
            self.repeats = (self.repeats + 1).min(16);
            return Some(self.tell(now, next, patience));
        }
        if self.packets_since_light >= self.policy.light_after_packets.max(1) || has_come(self.light_due) {
            let is_news = next > self.known || received_end > next.max(self.seen);
            self.seen = self.seen.max(received_end);
            self.note_told(now, next);
            return is_news.then_some(Acknowledging::Light);
        }
        None
    }

    fn note_told(&mut self, now: Instant, next: u64) {
        (self.known, self.known_at) = (next, now);
        (self.packets_since_light, self.light_due) = (0, None);
    }

    /// Returns the time of the next call.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        [self.due, self.light_due, self.again_at].into_iter().fold(None, Instant::earlier)
    }

    /// Records the peer's answer; returns its delay if the acknowledgement is remembered.
    pub(crate) fn answered(&mut self, now: Instant, number: u32) -> Option<Duration> {
        let at = self.unanswered.iter().position(|(known, ..)| *known == number)?;
        let (_, next, sent_at) = self.unanswered.drain(..=at).next_back()?;
        if next == self.told {
            self.again_at = None;
        }
        Some(now.since(sent_at)).filter(|time| !time.is_zero())
    }

    /// Creates a full acknowledgement.
    pub(crate) fn tell(&mut self, now: Instant, next: u64, patience: Duration) -> Acknowledging {
        self.number = if self.number == 0x7fff_ffff { 0 } else { self.number + 1 };
        (self.told, self.told_at) = (next, now);
        self.note_told(now, next);
        if self.unanswered.len() == MEMORY {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back((self.number, next, now));
        // It may have been lost until it is answered; without an answer the repetitions become rarer.
        self.again_at = Some(now + patience * (self.repeats + 1));
        let with_rates = self.rates_at.is_none_or(|at| now.since(at) >= congestion::ACK_INTERVAL);
        if with_rates {
            self.rates_at = Some(now);
        }
        Acknowledging::Full { number: self.number, with_rates }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(40);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn full(number: u32, with_rates: bool) -> Option<Acknowledging> {
        Some(Acknowledging::Full { number, with_rates })
    }

    #[test]
    fn one_in_ten_milliseconds_and_a_light_one_each_64_packets() {
        let mut acks = Acks::new(0, at(0));
        acks.arrive(at(1), 63, false);
        assert_eq!(acks.poll(at(1), 63..63, 1_000, PATIENCE), None);
        acks.arrive(at(2), 1, false);
        assert_eq!(acks.poll(at(2), 64..64, 1_000, PATIENCE), Some(Acknowledging::Light));
        assert_eq!(acks.poll(at(3), 64..64, 1_000, PATIENCE), None);
        assert_eq!(acks.deadline(), Some(at(10)));
        assert_eq!(acks.poll(at(10), 64..64, 1_000, PATIENCE), full(1, true));
        assert_eq!(acks.answered(at(31), 1), Some(Duration::from_millis(21)));
        assert_eq!((acks.deadline(), acks.poll(at(60), 64..64, 1_000, PATIENCE)), (None, None));
    }

    #[test]
    fn a_round_trip_has_many_acknowledgements_but_not_more_than_one_in_a_millisecond() {
        for (round_trip_ms, light_at) in [(160, [5, 15]), (2, [1, 2])] {
            let mut acks = Acks::new(0, at(0));
            let smoothed = Duration::from_millis(round_trip_ms);
            acks.follow(&RoundTrip { latest: Some(smoothed), smoothed, ..RoundTrip::UNKNOWN });
            acks.arrive(at(0), 1, true);
            assert_eq!(acks.poll(at(0), 1..1, 1_000, PATIENCE), full(1, true));
            let mut told = Vec::new();
            for (tenth, next) in (1..160).zip(2..) {
                let now = Instant::from_nanos(tenth * 100_000);
                acks.arrive(now, 1, false);
                if acks.poll(now, next..next, 1_000, PATIENCE) == Some(Acknowledging::Light) {
                    told.push(now);
                }
            }
            assert_eq!(told[..2], light_at.map(at), "{round_trip_ms} ms; a full one comes at 10 ms");
        }
    }

    #[test]
    fn an_odd_sized_packet_is_acknowledged_at_once() {
        let mut acks = Acks::new(0, at(0));
        acks.arrive(at(1), 1, true);
        assert_eq!(acks.poll(at(1), 1..1, 1_000, PATIENCE), full(1, true));
        acks.arrive(at(2), 1, true);
        assert_eq!(acks.poll(at(2), 2..2, 1_000, PATIENCE), full(2, false));
    }

    #[test]
    fn what_is_not_answered_is_repeated_ever_more_seldom() {
        let mut acks = Acks::new(0, at(0));
        acks.arrive(at(1), 1, true);
        acks.poll(at(1), 1..1, 1_000, PATIENCE);
        let mut times = Vec::new();
        for _ in 0..3 {
            let now = acks.deadline().unwrap();
            assert!(matches!(acks.poll(now, 1..1, 1_000, PATIENCE), Some(Acknowledging::Full { .. })));
            times.push(now);
        }
        assert_eq!(times, [at(41), at(121), at(241)]);
        assert_eq!(acks.answered(at(300), 2), Some(Duration::from_millis(259)));
        assert_eq!(acks.answered(at(300), 1), None);
        assert_eq!(acks.answered(at(300), 9), None);
        assert_eq!(acks.deadline(), None);
    }

    #[test]
    fn a_packet_that_comes_again_is_acknowledged_again_however_late_that_would_be() {
        let mut acks = Acks::new(0, at(0));
        acks.arrive(at(1), 1, true);
        acks.poll(at(1), 1..1, 1_000, Duration::from_secs(5));
        // Not at once: duplicates are usual.
        acks.arrive_again(at(2));
        assert_eq!(acks.poll(at(10), 1..1, 1_000, PATIENCE), None);
        assert_eq!(acks.deadline(), Some(at(11)));
        assert_eq!(acks.poll(at(11), 1..1, 1_000, PATIENCE), full(2, true));
        // An answer does not prevent a repetition if the packet comes again.
        assert_eq!(acks.answered(at(12), 2), Some(Duration::from_millis(1)));
        acks.arrive_again(at(40));
        assert_eq!(acks.poll(at(40), 1..1, 1_000, PATIENCE), full(3, true));
    }

    #[test]
    fn a_part_of_the_window_is_acknowledged_with_what_is_left_of_it() {
        let mut acks = Acks::new(0, at(0));
        acks.arrive(at(1), 24, false);
        assert_eq!(acks.poll(at(1), 24..24, 24, PATIENCE), full(1, true));
        acks.arrive(at(2), 23, false);
        assert_eq!(acks.poll(at(2), 47..47, 24, PATIENCE), None);
    }

    #[test]
    fn what_arrived_behind_a_hole_is_told_lightly_and_once() {
        let mut acks = Acks::new(0, at(0));
        acks.arrive(at(1), 63, false);
        assert_eq!(acks.poll(at(1), 0..64, 1_000, PATIENCE), None);
        assert_eq!(acks.poll(at(10), 0..64, 1_000, PATIENCE), Some(Acknowledging::Light));
        assert_eq!((acks.deadline(), acks.poll(at(30), 0..64, 1_000, PATIENCE)), (None, None));
        acks.arrive(at(31), 64, false);
        assert_eq!(acks.poll(at(31), 0..128, 1_000, PATIENCE), Some(Acknowledging::Light));
        assert_eq!(acks.poll(at(40), 0..128, 1_000, PATIENCE), None);
        acks.arrive(at(51), 1, false);
        assert_eq!(acks.poll(at(51), 128..128, 1_000, PATIENCE), full(1, true));
    }
}
