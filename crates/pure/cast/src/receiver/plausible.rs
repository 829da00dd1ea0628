//! Plausibility of numbers and positions: a damaged or forged header must not move the horizon.
//!
//! Source: `docs/protocol/account.md`, rule 5.

use core::time::Duration;

use sample::Schema;
use units::Instant;
use wire::{DATA_HEADER_BYTES, MAX_DATAGRAM_BYTES, MIN_DATA_BYTES, Numbered};

/// Largest jump that is believed at once.
pub(super) const MAX_JUMP: u64 = 65_536;
/// Largest believed jump, as a multiple of what the stream can have sent during the silence.
const SILENCE_FACTOR: f64 = 4.0;
/// Maximum rate of tallies and descriptors. Units: datagrams per second.
const CONTROL_PER_SECOND: f64 = 32.0;

/// Judges numbers and positions by what the stream can have sent.
#[derive(Clone, Debug)]
pub(super) struct Plausibility {
    samples_per_second: f64,
    datagrams_per_second: f64,
    /// Maximum number of samples in one datagram.
    samples_per_datagram: u64,
    last: Instant,
    /// Number of accepted datagrams: the account rests on the first alone until the second.
    accepted: u64,
    /// An implausible jump that waits for confirmation by a second datagram.
    suspect: Option<(u64, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Plausible,
    /// Implausible until a second datagram agrees.
    Suspicious,
    /// Agrees with the previous implausible datagram.
    Confirmed,
    /// Agrees with another one that the account, which rests on a single datagram, began at the wrong place.
    Elsewhere,
}

impl Plausibility {
    pub(super) fn new(schema: &Schema, now: Instant) -> Self {
        let samples_per_second = schema.rate.as_hz();
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let per_sample =
            (schema.sample_bytes() as f64 / (MIN_DATA_BYTES - DATA_HEADER_BYTES) as f64).max(1.0);
        let datagrams_per_second = samples_per_second * per_sample + CONTROL_PER_SECOND;
        let payload_bytes = MAX_DATAGRAM_BYTES - DATA_HEADER_BYTES;
        let samples_per_datagram = (payload_bytes / schema.sample_bytes()).max(1) as u64;
        let (last, accepted, suspect) = (now, 0, None);
        Self { samples_per_second, datagrams_per_second, samples_per_datagram, last, accepted, suspect }
    }

    /// Records accepted datagrams.
    pub(super) const fn heard(&mut self, now: Instant, datagrams: u64) {
        self.last = now;
        self.accepted += datagrams;
        self.suspect = None;
    }

    /// Returns whether an epoch can have come this far beyond its horizon (numbers and elements) by `now`.
    pub(super) fn can_have_reached(
        &self,
        now: Instant,
        beyond: (u64, u64),
        elements_per_sample: u32,
    ) -> bool {
        let silence = now.since(self.last);
        let samples = beyond.1 / u64::from(elements_per_sample);
        beyond.0 <= reach(self.datagrams_per_second, silence)
            && samples <= reach(self.samples_per_second, silence)
    }

    /// Judges a datagram against the horizon (number and position).
    ///
    /// The first implausible datagram has to wait; a second one with another number that agrees confirms both. Below
    /// the horizon everything is plausible, except while the account rests on a single datagram, which may be forged.
    pub(super) fn judge(&mut self, now: Instant, head: &Numbered, horizon: (u64, u64)) -> Verdict {
        let silence = now.since(self.last);
        let (number, position) = horizon;
        let per_sample = u64::from(head.elements_per_sample);
        let established = self.accepted > 1;
        let distance =
            |to: u64, from: u64| if established { to.saturating_sub(from) } else { to.abs_diff(from) };
        let numbers_jump = distance(head.number, number);
        let samples_jump = distance(head.position(), position) / per_sample;
        // The skipped datagrams carried samples, however short the silence was.
        let jumped_over = numbers_jump.saturating_mul(self.samples_per_datagram);
        let numbers_reach = reach(self.datagrams_per_second, silence);
        let samples_reach = reach(self.samples_per_second, silence).max(jumped_over);
        if numbers_jump <= numbers_reach && samples_jump <= samples_reach {
            return Verdict::Plausible;
        }
        let claim = (head.number, head.first_index);
        let near = |a: u64, b: u64| a.abs_diff(b) <= MAX_JUMP;
        // A source, or a full queue, may skip any number of samples; the datagram numbers then continue without a
        // gap.
        let only_skipped = near(head.number, number) && head.position() >= position;
        // A duplicate confirms nothing.
        let agrees =
            |(number, index): (u64, u64)| number != claim.0 && near(number, claim.0) && near(index, claim.1);
        match self.suspect.filter(|suspect| agrees(*suspect)) {
            Some(_) if established || only_skipped => Verdict::Confirmed,
            Some(_) => Verdict::Elsewhere,
            None => {
                self.suspect = Some(claim);
                Verdict::Suspicious
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float cast saturates")]
fn reach(per_second: f64, silence: Duration) -> u64 {
    MAX_JUMP.max((SILENCE_FACTOR * per_second * silence.as_secs_f64()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::{Channel, Dtype};
    use units::{Epoch, SampleRate, StreamId};

    fn head(number: u64, first_index: u64) -> Numbered {
        let (stream, epoch) = (StreamId(1), Epoch { start_ns: 1, incarnation: 1 });
        Numbered { stream, epoch, number, first_index, element_offset: 0, elements_per_sample: 1 }
    }

    fn judge_of(hz: u32) -> Plausibility {
        let channels = vec![Channel::new("a", "V")];
        let schema = Schema::new(Dtype::F4, SampleRate::hz(hz).unwrap(), channels).unwrap();
        let mut judge = Plausibility::new(&schema, Instant::ORIGIN);
        judge.heard(Instant::ORIGIN, 1);
        judge.heard(Instant::ORIGIN, 1);
        judge
    }

    #[test]
    fn a_jump_at_the_limit_is_believed_and_one_beyond_is_not() {
        let mut judge = judge_of(10);
        let at = |jump: u64| head(100 + jump, 100);
        assert_eq!(judge.judge(Instant::ORIGIN, &at(65_536), (100, 100)), Verdict::Plausible);
        assert_eq!(judge.judge(Instant::ORIGIN, &at(65_537), (100, 100)), Verdict::Suspicious);
    }

    #[test]
    fn samples_may_jump_as_far_as_the_datagrams_jumped_over_carried() {
        let mut judge = judge_of(10);
        let mut at = |numbers: u64, samples: u64| {
            judge.judge(Instant::ORIGIN, &head(100 + numbers, 100 + samples), (100, 100))
        };
        let fit = 65_427_u64 / 4;
        assert_eq!(at(340, 340 * 348), Verdict::Plausible, "a burst of datagrams of 1,472 bytes was lost");
        assert_eq!(at(340, 340 * fit), Verdict::Plausible);
        assert_eq!(at(340, 340 * fit + 1), Verdict::Suspicious, "more than the largest datagrams carry");
    }

    #[test]
    fn a_second_datagram_that_agrees_is_believed_and_one_that_does_not_is_not() {
        let mut judge = judge_of(10);
        let mut verdict = |number, index| judge.judge(Instant::ORIGIN, &head(number, index), (100, 100));
        assert_eq!(verdict(1 << 40, 100), Verdict::Suspicious);
        assert_eq!(verdict(1 << 50, 100), Verdict::Suspicious);
        assert_eq!(verdict(1 << 50, 100), Verdict::Suspicious, "a duplicate is no second opinion");
        assert_eq!(verdict((1 << 50) + 1, 101), Verdict::Confirmed);
        assert_eq!(verdict(101, 1 << 40), Verdict::Suspicious, "an index can be beyond belief too");
    }

    #[test]
    fn two_that_agree_overrule_a_single_first_one() {
        let mut judge = judge_of(10);
        judge.accepted = 1;
        let mut verdict = |number| judge.judge(Instant::ORIGIN, &head(number, 5), (1 << 60, 1 << 60));
        assert_eq!(verdict(7), Verdict::Suspicious);
        assert_eq!(verdict(8), Verdict::Elsewhere);
        judge.accepted = 2;
        assert_eq!(judge.judge(Instant::ORIGIN, &head(9, 5), (1 << 60, 1 << 60)), Verdict::Plausible);
    }

    #[test]
    fn a_skip_of_the_source_right_after_the_first_datagram_is_believed() {
        let mut judge = judge_of(10);
        judge.accepted = 1;
        let mut verdict = |number, index| judge.judge(Instant::ORIGIN, &head(number, index), (100, 100));
        assert_eq!(verdict(100, 200_000), Verdict::Suspicious);
        assert_eq!(verdict(101, 200_010), Verdict::Confirmed);
    }

    #[test]
    fn a_long_silence_makes_a_long_jump_credible() {
        let mut judge = judge_of(100_000);
        let second = Instant::ORIGIN + Duration::from_secs(1);
        assert_eq!(judge.judge(second, &head(400_000, 400_000), (0, 0)), Verdict::Plausible);
        assert_eq!(judge.judge(second, &head(500_000, 500_000), (0, 0)), Verdict::Suspicious);
    }
}
