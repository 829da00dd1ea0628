//! A reader's samples by outcome: whole, partial, or missing.

use core::ops::Range;

use serde::Serialize;

use crate::Imbalance;

/// Samples since joining, by outcome.
///
/// Source: `docs/protocol/account.md`, rule 10.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SampleRows {
    /// Samples with every element delivered.
    pub whole: u64,
    /// Samples with some elements delivered and others missing.
    pub partial: u64,
    /// Samples without any element delivered.
    pub missing: u64,
    /// Samples whose end is still to come: at most one.
    pub pending: u64,
}

impl SampleRows {
    /// Checks the law `h − j = whole + partial + missing + pending` for the samples `h − j` since joining.
    ///
    /// # Errors
    /// [`Imbalance`] with both sides.
    pub fn check(&self, since_joining: u64) -> Result<(), Imbalance> {
        let counted = self.whole + self.partial + self.missing + self.pending;
        let imbalance = Imbalance { account: "sample", expected: since_joining, counted };
        if counted == since_joining { Ok(()) } else { Err(imbalance) }
    }
}

/// Outcome of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ElementOutcome {
    Delivered,
    Missing,
}

/// Counts samples as their elements are recorded, in the order of the stream and without a hole.
#[derive(Clone, Debug)]
pub(crate) struct SampleCounter {
    per_sample: u64,
    counted: SampleRows,
    /// Outcome so far of a sample that has begun and not ended.
    begun: Option<Begun>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Begun {
    All(ElementOutcome),
    Mixed,
}

impl SampleCounter {
    pub(crate) fn new(per_sample: u32) -> Self {
        Self { per_sample: u64::from(per_sample), counted: SampleRows::default(), begun: None }
    }

    pub(crate) fn rows(&self) -> SampleRows {
        SampleRows { pending: u64::from(self.begun.is_some()), ..self.counted }
    }

    /// Records the next elements.
    pub(crate) fn record(&mut self, positions: Range<u64>, outcome: ElementOutcome) {
        let mut at = positions.start;
        if let Some(begun) = self.begun {
            let end = at.next_multiple_of(self.per_sample);
            self.begun = Some(if begun == Begun::All(outcome) { begun } else { Begun::Mixed });
            if positions.end < end {
                return;
            }
            at = end;
            self.end_sample();
        }
        let samples = (positions.end - at) / self.per_sample;
        self.count(Begun::All(outcome), samples);
        if !positions.end.is_multiple_of(self.per_sample) {
            self.begun = Some(Begun::All(outcome));
        }
    }

    fn end_sample(&mut self) {
        if let Some(begun) = self.begun.take() {
            self.count(begun, 1);
        }
    }

    const fn count(&mut self, what: Begun, samples: u64) {
        match what {
            Begun::All(ElementOutcome::Delivered) => self.counted.whole += samples,
            Begun::All(ElementOutcome::Missing) => self.counted.missing += samples,
            Begun::Mixed => self.counted.partial += samples,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Random;

    #[test]
    fn a_sample_is_whole_partial_or_missing_and_one_may_be_pending() {
        let mut counter = SampleCounter::new(4);
        counter.record(8..18, ElementOutcome::Delivered);
        counter.record(18..22, ElementOutcome::Missing);
        counter.record(22..24, ElementOutcome::Delivered);
        counter.record(24..34, ElementOutcome::Missing);
        let rows = counter.rows();
        assert_eq!(rows, SampleRows { whole: 2, partial: 2, missing: 2, pending: 1 });
        assert_eq!(rows.check(7), Ok(()));
        assert!(rows.check(8).is_err());
    }

    #[test]
    fn counting_in_pieces_agrees_with_looking_at_every_sample() {
        let mut random = Random::new(5);
        for _ in 0..200 {
            let per_sample = 1 + random.below(5);
            let mut counter = SampleCounter::new(u32::try_from(per_sample).unwrap());
            let mut outcomes = Vec::new();
            while outcomes.len() < 100 {
                let start = outcomes.len() as u64;
                let outcome =
                    if random.chance(0.5) { ElementOutcome::Delivered } else { ElementOutcome::Missing };
                let len = 1 + random.below(9);
                counter.record(start..start + len, outcome);
                outcomes.resize(outcomes.len() + usize::try_from(len).unwrap(), outcome);
            }
            let mut expected = SampleRows::default();
            for sample in outcomes.chunks(usize::try_from(per_sample).unwrap()) {
                let came =
                    sample.iter().filter(|outcome| **outcome == ElementOutcome::Delivered).count() as u64;
                match (sample.len() as u64 == per_sample, came) {
                    (false, _) => expected.pending += 1,
                    (true, 0) => expected.missing += 1,
                    (true, came) if came == per_sample => expected.whole += 1,
                    (true, _) => expected.partial += 1,
                }
            }
            assert_eq!(counter.rows(), expected);
        }
    }
}
