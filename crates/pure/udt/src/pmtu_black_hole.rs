//! Detection of a PMTU black hole: full packets vanish without an ICMP message, and small ones still arrive.
//!
//! Routers that drop what is too large and do not say so, or whose word is dropped, leave a connection that looks alive
//! and carries nothing (RFC 2923 §2.1: a black hole). After a timeout the peer is therefore asked with a small packet,
//! an acknowledgement, which it answers. Answers to several of those in a row, and none to full packets between them, distinguish a
//! black hole from a path that loses everything, or much: there a question stays without an answer now and then, and the
//! counting begins anew.
//!
//! The packets in flight cannot be made smaller: each has its number and its bytes. So the owner is told first, who may
//! let packets be cut on their way; if that does not help the connection ends with a reason that says so.

use core::time::Duration;

use units::Instant;

/// So many small packets in a row are answered, each between two timeouts, before the owner is told …
const SUSPICIOUS_ANSWERS: u32 = 3;
/// … and so many before the connection ends …
const CERTAIN_ANSWERS: u32 = 6;
/// … which it does not sooner than this after the first timeout: a way may also lose much for a moment.
const CERTAIN_AFTER: Duration = Duration::from_secs(8);
/// The first timeout may be chance; from the next on the peer is asked.
const ASKS_AFTER: u32 = 2;

/// Watches what becomes of full packets and of small ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PmtuBlackHoleDetector {
    /// Timeouts since the last progress, and when the first was.
    timeouts: u32,
    since: Option<Instant>,
    /// The question that is not answered yet.
    asked: Option<u32>,
    /// Questions in a row that were answered.
    answers: u32,
    is_told: bool,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Suspicion {
    /// Tell the owner.
    Tell,
    /// End the connection.
    End,
}

impl PmtuBlackHoleDetector {
    /// Takes note that the peer acknowledged something new.
    pub(crate) fn progress(&mut self) {
        *self = Self::default();
    }

    /// Takes note of a timeout; tells whether to ask the peer with a small packet.
    pub(crate) fn timeout(&mut self, now: Instant) -> bool {
        self.timeouts += 1;
        self.since.get_or_insert(now);
        if self.asked.take().is_some() {
            self.answers = 0;
        }
        self.timeouts >= ASKS_AFTER
    }

    /// Takes note of the number of the question.
    pub(crate) const fn asked(&mut self, number: u32) {
        self.asked = Some(number);
    }

    /// Takes note that a question was answered.
    pub(crate) fn answered(&mut self, now: Instant, number: u32) -> Option<Suspicion> {
        if self.asked != Some(number) {
            return None;
        }
        self.asked = None;
        self.answers += 1;
        let lasted = self.since.map_or(Duration::ZERO, |since| now.since(since));
        if self.answers >= CERTAIN_ANSWERS && lasted >= CERTAIN_AFTER {
            return Some(Suspicion::End);
        }
        let is_news = self.answers >= SUSPICIOUS_ANSWERS && !core::mem::replace(&mut self.is_told, true);
        is_news.then_some(Suspicion::Tell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    /// Lets a timeout come each second, of which the question is answered or not.
    fn seconds(detector: &mut PmtuBlackHoleDetector, from: u64, answered: &[bool]) -> Vec<Option<Suspicion>> {
        let mut said = Vec::new();
        for (second, is_answered) in (from..).zip(answered) {
            let number = u32::try_from(second).unwrap();
            if detector.timeout(at(second)) {
                detector.asked(number);
                let answer = if *is_answered { number } else { number + 1_000 };
                said.push(detector.answered(at(second), answer));
                assert_eq!(detector.answered(at(second), 5_000_000), None, "nobody asked that");
            }
        }
        said
    }

    #[test]
    fn three_answers_are_told_and_six_in_eight_seconds_end_it() {
        let mut detector = PmtuBlackHoleDetector::default();
        let said = seconds(&mut detector, 0, &[true; 9]);
        let mut expected = vec![None; 8];
        (expected[2], expected[7]) = (Some(Suspicion::Tell), Some(Suspicion::End));
        assert_eq!(said, expected, "the first timeout asks nothing, the sixth answer comes too soon");
    }

    #[test]
    fn an_outage_is_no_black_hole() {
        let mut detector = PmtuBlackHoleDetector::default();
        assert!(seconds(&mut detector, 0, &[false; 100]).iter().all(Option::is_none));
    }

    /// A way that loses much loses acknowledgements as well: no progress, and most questions answered.
    #[test]
    fn a_path_that_loses_some_small_packets_is_no_black_hole() {
        let mut detector = PmtuBlackHoleDetector::default();
        let often = [true, true, true, true, true, false].repeat(20);
        let said = seconds(&mut detector, 0, &often);
        assert!(!said.contains(&Some(Suspicion::End)), "{said:?}");
    }

    #[test]
    fn progress_begins_anew() {
        let mut detector = PmtuBlackHoleDetector::default();
        seconds(&mut detector, 0, &[true; 7]);
        detector.progress();
        assert_eq!(seconds(&mut detector, 7, &[true; 3]), [None, None]);
    }
}
