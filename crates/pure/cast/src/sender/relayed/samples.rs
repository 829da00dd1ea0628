//! Outcome of whole samples whose elements pass one after the other.
//!
//! A sample of which any element was numbered counts as numbered; another one in the stage of its last element. What
//! is missing inside a sample is told by ranges, and by the counts of the hops before.

use ledger::Stage;
use wire::SampleTotals;

/// Outcome of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ElementOutcome {
    Numbered,
    /// Skipped in this stage.
    Skipped(Stage),
}

/// Counts samples by their outcome.
#[derive(Clone, Debug)]
pub(super) struct SampleOutcomes {
    per_sample: u64,
    position: u64,
    /// Outcome of the elements of a sample that is not complete.
    open: Option<ElementOutcome>,
    totals: SampleTotals,
}

impl SampleOutcomes {
    /// Begins at a position: all below it was missing in the source.
    pub(super) fn new(elements_per_sample: u32, first_position: u64) -> Self {
        let (per_sample, totals) = (u64::from(elements_per_sample), SampleTotals::default());
        let mut outcomes = Self { per_sample, position: 0, open: None, totals };
        outcomes.pass(first_position, ElementOutcome::Skipped(Stage::Source));
        outcomes
    }

    /// Counts the next elements.
    pub(super) fn pass(&mut self, elements: u64, outcome: ElementOutcome) {
        if elements == 0 {
            return;
        }
        let before = self.position / self.per_sample;
        self.position += elements;
        let completed = self.position / self.per_sample - before;
        let open =
            if self.open == Some(ElementOutcome::Numbered) { ElementOutcome::Numbered } else { outcome };
        if completed == 0 {
            self.open = Some(open);
            return;
        }
        self.count(open, 1);
        self.count(outcome, completed - 1);
        self.open = (!self.position.is_multiple_of(self.per_sample)).then_some(outcome);
    }

    /// Counts the last sample although it is not complete.
    pub(super) fn close(&mut self) {
        if let Some(outcome) = self.open.take() {
            self.count(outcome, 1);
        }
    }

    /// Returns the outcome of all samples that begin below a position.
    pub(super) fn totals(&self, next_position: u64) -> SampleTotals {
        let SampleTotals { numbered, source, publisher_queue, publisher_paused, .. } = self.totals;
        let offered = next_position.div_ceil(self.per_sample);
        let queued = offered - numbered - source - publisher_queue - publisher_paused;
        SampleTotals { offered, queued, ..self.totals }
    }

    fn count(&mut self, outcome: ElementOutcome, samples: u64) {
        let total = match outcome {
            ElementOutcome::Numbered => &mut self.totals.numbered,
            ElementOutcome::Skipped(Stage::PublisherQueue) => &mut self.totals.publisher_queue,
            ElementOutcome::Skipped(Stage::PublisherPaused) => &mut self.totals.publisher_paused,
            ElementOutcome::Skipped(_) => &mut self.totals.source,
        };
        *total += samples;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: ElementOutcome = ElementOutcome::Skipped(Stage::Source);
    const QUEUE: ElementOutcome = ElementOutcome::Skipped(Stage::PublisherQueue);

    /// Returns numbered, source and queued samples of ten elements after these passed, of `offered` elements.
    fn outcome(first: u64, passed: &[(u64, ElementOutcome)], offered: u64) -> (u64, u64, u64) {
        let mut outcomes = SampleOutcomes::new(10, first);
        passed.iter().for_each(|&(elements, outcome)| outcomes.pass(elements, outcome));
        let totals = outcomes.totals(offered);
        assert!(totals.is_balanced(), "{totals:?}");
        (totals.numbered, totals.source, totals.queued)
    }

    #[test]
    fn a_sample_of_which_any_element_was_numbered_is_numbered() {
        assert_eq!(outcome(0, &[(3, SOURCE), (1, ElementOutcome::Numbered), (6, SOURCE)], 10), (1, 0, 0));
        assert_eq!(outcome(0, &[(9, SOURCE), (2, ElementOutcome::Numbered), (19, SOURCE)], 30), (2, 1, 0));
        assert_eq!(outcome(0, &[(40, ElementOutcome::Numbered)], 45), (4, 0, 1));
        assert_eq!(outcome(0, &[(4, QUEUE), (6, SOURCE)], 10), (0, 1, 0), "the stage of its last element");
    }

    #[test]
    fn samples_below_the_first_position_are_missing_in_the_source() {
        assert_eq!(outcome(30, &[], 30), (0, 3, 0));
        assert_eq!(outcome(34, &[], 34), (0, 3, 1), "a sample that has begun waits for its rest");
        assert_eq!(outcome(34, &[(6, ElementOutcome::Numbered)], 40), (1, 3, 0));
    }

    #[test]
    fn the_last_sample_counts_once_the_stream_is_over() {
        let mut outcomes = SampleOutcomes::new(10, 0);
        outcomes.pass(14, ElementOutcome::Numbered);
        assert_eq!(outcomes.totals(14).queued, 1);
        outcomes.close();
        let totals = outcomes.totals(14);
        assert_eq!((totals.offered, totals.numbered, totals.queued), (2, 2, 0));
    }
}
