//! Detection of a PMTU black hole: full packets vanish without an ICMP message, and small ones still arrive.
//!
//! Routers that drop oversized packets without an ICMP message, or whose message is dropped, leave a connection that
//! looks alive and carries nothing (RFC 2923 §2.1: a black hole). After a timeout the peer is therefore probed with a
//! small packet, an acknowledgement, which it answers. Answers to several of those in a row, and none to full packets
//! between them, distinguish a black hole from a path that loses everything, or much: on a lossy path a probe is
//! sometimes unanswered, and the count restarts.
//!
//! The packets in flight cannot be made smaller: each has its number and its bytes. So the owner is notified first,
//! and may allow fragmentation along the path; if that does not help the connection ends with a reason that says so.

use core::time::Duration;

use units::Instant;

/// Number of small packets answered in a row, each between two timeouts, before the owner is notified.
const SUSPICIOUS_ANSWERS: u32 = 3;
/// Number of small packets answered in a row before the connection ends.
const CERTAIN_ANSWERS: u32 = 6;
/// Minimum time from the first timeout to the end of the connection: a path may also lose much for a moment.
const CERTAIN_AFTER: Duration = Duration::from_secs(8);
/// Number of timeouts from which on the peer is probed: the first may be chance.
const ASKS_AFTER: u32 = 2;

/// Tracks the outcome of full packets and of small ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PmtuBlackHoleDetector {
    /// Timeouts since the last progress, and the time of the first.
    timeouts: u32,
    since: Option<Instant>,
    /// Number of the unanswered probe.
    asked: Option<u32>,
    /// Number of probes answered in a row.
    answers: u32,
    is_told: bool,
}

/// Action on a suspected black hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Suspicion {
    /// Notify the owner.
    Tell,
    /// End the connection.
    End,
}

impl PmtuBlackHoleDetector {
    /// Records that the peer acknowledged new packets.
    pub(crate) fn progress(&mut self) {
        *self = Self::default();
    }

    /// Records a timeout; returns whether to probe the peer with a small packet.
    pub(crate) fn timeout(&mut self, now: Instant) -> bool {
        self.timeouts += 1;
        self.since.get_or_insert(now);
        if self.asked.take().is_some() {
            self.answers = 0;
        }
        self.timeouts >= ASKS_AFTER
    }

    /// Records the number of the probe.
    pub(crate) const fn asked(&mut self, number: u32) {
        self.asked = Some(number);
    }

    /// Records the answer to a probe.
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

    /// Generates a timeout each second, and an answer to its probe or none.
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

    /// A path that loses much loses acknowledgements as well: no progress, and most probes answered.
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
