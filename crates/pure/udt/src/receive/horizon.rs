//! How far a receiver has come behind an open hole, told to those who asked.
//!
//! UDT's acknowledgements stand still at the first hole, and reports tell only of further ones: between them its sender
//! takes for in flight what has long arrived. Our own senders ask once they hear of a hole, and are then told, as often as
//! they would be acknowledged, up to where everything has arrived that was not reported. Libudt asks nobody, and takes the
//! question for a message between congestion controls, which it has none for.

use units::Instant;

use congestion::{ACK_INTERVAL, AckPolicy};

/// The sender's question, without a body: the extended type of a message between controls.
pub(crate) const QUESTION: u16 = 0xff00;
/// The answer: one word, the number behind the newest packet.
pub(crate) const ANSWER: u16 = 0xff01;
/// From here on extended types are the transport's own.
pub(crate) const FIRST_RESERVED: u16 = 0xff00;

/// How often a sender asks while nobody answers: a report or two may be lost, but not all.
const MOST_QUESTIONS: u32 = 16;

/// When a receiver tells of its horizon.
#[derive(Debug, Default)]
pub(crate) struct Horizon {
    is_asked: bool,
    told: u64,
    packets: u32,
    due: Option<Instant>,
}

/// When a sender asks for it.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    asked: u32,
    is_answered: bool,
}

impl Horizon {
    /// Takes note that the peer asked.
    pub(crate) const fn ask(&mut self) {
        self.is_asked = true;
    }

    /// Takes note of a packet that came while a hole is open.
    pub(crate) fn arrive(&mut self, now: Instant) {
        self.packets += 1;
        self.due = self.due.or(Some(now + ACK_INTERVAL));
    }

    /// Takes note that all holes are filled: acknowledgements say it all.
    pub(crate) const fn close(&mut self) {
        (self.packets, self.due) = (0, None);
    }

    /// Returns the horizon where it is to be told.
    pub(crate) fn poll(&mut self, now: Instant, horizon: u64) -> Option<u64> {
        let is_counted = self.packets >= AckPolicy::UDT.light_after_packets;
        if !is_counted && self.due.is_none_or(|due| due > now) {
            return None;
        }
        self.close();
        (self.is_asked && horizon > core::mem::replace(&mut self.told, horizon)).then_some(horizon)
    }

    /// Returns when to come back.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due.filter(|_| self.is_asked)
    }
}

impl Questions {
    /// Tells whether to ask, now that a hole was reported.
    pub(crate) const fn ask(&mut self) -> bool {
        let asks = !self.is_answered && self.asked < MOST_QUESTIONS;
        self.asked += asks as u32;
        asks
    }

    /// Takes note of an answer.
    pub(crate) const fn answer(&mut self) {
        self.is_answered = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn who_asked_is_told_each_ten_milliseconds_or_64_packets_while_a_hole_is_open() {
        let mut horizon = Horizon::default();
        horizon.arrive(at(0));
        assert_eq!((horizon.deadline(), horizon.poll(at(10), 100)), (None, None), "nobody asked");
        horizon.ask();
        horizon.arrive(at(11));
        assert_eq!((horizon.deadline(), horizon.poll(at(20), 101)), (Some(at(21)), None));
        assert_eq!(horizon.poll(at(21), 101), Some(101));
        (0..64).for_each(|_| horizon.arrive(at(22)));
        assert_eq!(horizon.poll(at(22), 165), Some(165));
        horizon.arrive(at(23));
        horizon.close();
        assert_eq!((horizon.deadline(), horizon.poll(at(40), 166)), (None, None));
    }

    #[test]
    fn a_sender_asks_until_it_is_answered_but_not_for_ever() {
        let mut questions = Questions::default();
        assert!(questions.ask() && questions.ask());
        questions.answer();
        assert!(!questions.ask());
        let mut questions = Questions::default();
        assert_eq!((0..100).filter(|_| questions.ask()).count(), 16);
    }
}
