//! When to acknowledge, with what, and what an answer to it says.

use core::time::Duration;
use std::collections::VecDeque;

use congestion::AckPolicy;
use units::Instant;

/// How many acknowledgements are remembered until they are answered.
const MEMORY: usize = 1_024;

/// What is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acknowledging {
    /// Only the number.
    Light,
    /// With this number of its own.
    Full {
        /// The acknowledgement's number.
        number: u32,
        /// The rates are told at most once in the interval.
        with_rates: bool,
    },
}

/// Keeps the times of acknowledging.
#[derive(Debug)]
pub(crate) struct Acks {
    policy: AckPolicy,
    /// The newest that was told in a full acknowledgement, and when.
    told: u64,
    told_at: Instant,
    rates_at: Option<Instant>,
    repeats: u32,
    number: u32,
    packets: u32,
    packets_since_light: u32,
    /// When the next is due: set when something arrives.
    due: Option<Instant>,
    /// When the last is sent again: set until it is answered.
    again_at: Option<Instant>,
    is_urgent: bool,
    unanswered: VecDeque<(u32, u64, Instant)>,
}

impl Acks {
    pub(crate) const fn new(origin: u64, now: Instant) -> Self {
        Self {
            policy: AckPolicy::UDT,
            told: origin,
            told_at: now,
            rates_at: None,
            repeats: 0,
            number: 0,
            packets: 0,
            packets_since_light: 0,
            due: None,
            again_at: None,
            is_urgent: false,
            unanswered: VecDeque::new(),
        }
    }

    pub(crate) fn obey(&mut self, policy: AckPolicy) {
        self.policy = AckPolicy { every: policy.every.min(congestion::ACK_INTERVAL), ..policy };
    }

    /// Takes note of packets that arrived, duplicates included; an odd-sized one ends what its sender had to say.
    pub(crate) fn arrive(&mut self, now: Instant, packets: u32, is_odd_sized: bool) {
        self.packets += packets;
        self.packets_since_light += packets;
        self.is_urgent |= is_odd_sized;
        if self.due.is_none() {
            self.due = Some(now.max(self.told_at + self.policy.every));
        }
    }

    /// Takes note that a packet came again that is acknowledged: the acknowledgement may not have arrived.
    pub(crate) fn arrive_again(&mut self, now: Instant) {
        let at = now.max(self.told_at + self.policy.every);
        self.again_at = Instant::earlier(self.again_at, Some(at));
    }

    /// Takes note that there is room again, which the peer must know.
    pub(crate) const fn hurry(&mut self) {
        self.is_urgent = true;
    }

    /// Returns what is to be sent now that everything before `next` is here; after `most_packets` the peer must learn
    /// how much room there is.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        next: u64,
        most_packets: u32,
        patience: Duration,
    ) -> Option<Acknowledging> {
        let after = self.policy.after_packets.map_or(most_packets, |after| after.min(most_packets));
        let is_counted = self.packets >= after.max(1);
        let has_come = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if self.is_urgent || is_counted || has_come(self.due) {
            (self.packets, self.packets_since_light, self.due) = (0, 0, None);
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
        let is_light = self.packets_since_light >= self.policy.light_after_packets.max(1) && next > self.told;
        if is_light {
            self.packets_since_light = 0;
            return Some(Acknowledging::Light);
        }
        None
    }

    /// Returns when to come back.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        Instant::earlier(self.due, self.again_at)
    }

    /// Takes the peer's answer; returns how long it took, if the acknowledgement is remembered.
    pub(crate) fn answered(&mut self, now: Instant, number: u32) -> Option<Duration> {
        let at = self.unanswered.iter().position(|(known, ..)| *known == number)?;
        let (_, next, sent_at) = self.unanswered.drain(..=at).next_back()?;
        if next == self.told {
            self.again_at = None;
        }
        Some(now.since(sent_at)).filter(|time| !time.is_zero())
    }

    /// Tells what is known, in full.
    pub(crate) fn tell(&mut self, now: Instant, next: u64, patience: Duration) -> Acknowledging {
        self.number = if self.number == 0x7fff_ffff { 0 } else { self.number + 1 };
        (self.told, self.told_at) = (next, now);
        if self.unanswered.len() == MEMORY {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back((self.number, next, now));
        // Until it is answered it may have been lost; ever more seldom while there is no answer.
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
        assert_eq!(acks.poll(at(1), 63, 1_000, PATIENCE), None);
        acks.arrive(at(2), 1, false);
        assert_eq!(acks.poll(at(2), 64, 1_000, PATIENCE), Some(Acknowledging::Light));
        assert_eq!(acks.poll(at(3), 64, 1_000, PATIENCE), None);
        assert_eq!(acks.deadline(), Some(at(10)));
        assert_eq!(acks.poll(at(10), 64, 1_000, PATIENCE), full(1, true));
        assert_eq!(acks.answered(at(31), 1), Some(Duration::from_millis(21)));
        assert_eq!((acks.deadline(), acks.poll(at(60), 64, 1_000, PATIENCE)), (None, None));
    }

    #[test]
    fn an_odd_sized_packet_is_acknowledged_at_once() {
        let mut acks = Acks::new(0, at(0));
        acks.arrive(at(1), 1, true);
        assert_eq!(acks.poll(at(1), 1, 1_000, PATIENCE), full(1, true));
        acks.arrive(at(2), 1, true);
        assert_eq!(acks.poll(at(2), 2, 1_000, PATIENCE), full(2, false));
    }

    #[test]
    fn what_is_not_answered_is_repeated_ever_more_seldom() {
        let mut acks = Acks::new(0, at(0));
        acks.arrive(at(1), 1, true);
        acks.poll(at(1), 1, 1_000, PATIENCE);
        let mut times = Vec::new();
        for _ in 0..3 {
            let now = acks.deadline().unwrap();
            assert!(matches!(acks.poll(now, 1, 1_000, PATIENCE), Some(Acknowledging::Full { .. })));
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
        acks.poll(at(1), 1, 1_000, Duration::from_secs(5));
        // Not at once: packets that come twice are usual.
        acks.arrive_again(at(2));
        assert_eq!(acks.poll(at(10), 1, 1_000, PATIENCE), None);
        assert_eq!(acks.deadline(), Some(at(11)));
        assert_eq!(acks.poll(at(11), 1, 1_000, PATIENCE), full(2, true));
        // Nor is the answer to it the end of that, if it comes again all the same.
        assert_eq!(acks.answered(at(12), 2), Some(Duration::from_millis(1)));
        acks.arrive_again(at(40));
        assert_eq!(acks.poll(at(40), 1, 1_000, PATIENCE), full(3, true));
    }

    #[test]
    fn a_part_of_the_window_is_acknowledged_with_what_is_left_of_it() {
        let mut acks = Acks::new(0, at(0));
        acks.arrive(at(1), 24, false);
        assert_eq!(acks.poll(at(1), 24, 24, PATIENCE), full(1, true));
        acks.arrive(at(2), 23, false);
        assert_eq!(acks.poll(at(2), 47, 24, PATIENCE), None);
    }

    #[test]
    fn what_cannot_be_moved_by_a_hole_is_not_told_again() {
        let mut acks = Acks::new(0, at(0));
        acks.arrive(at(1), 100, false);
        assert_eq!(acks.poll(at(1), 0, 1_000, PATIENCE), None);
        assert_eq!(acks.poll(at(10), 0, 1_000, PATIENCE), None);
        assert_eq!(acks.deadline(), None);
    }
}
