//! Outcome of whole samples whose elements pass one after the other.
//!
//! A sample of which any element was numbered counts as numbered, and so does one that several stages share: readers take
//! a sample in a stage for all its elements, at their positions. What is missing inside a sample is told by ranges, and by
//! the counts of the hops before.

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
    /// Outcome so far of the sample that is not complete; `None` if none has begun.
    open: Option<ElementOutcome>,
    totals: SampleTotals,
}

impl SampleOutcomes {
    /// Begins at a position: all below it was missing in the source.
    pub(super) fn new(elements_per_sample: u32, first_position: u64) -> Self {
        let mut outcomes = Self {
            per_sample: u64::from(elements_per_sample),
            position: 0,
            open: None,
            totals: SampleTotals::default(),
        };
        outcomes.pass(first_position, ElementOutcome::Skipped(Stage::Source));
        outcomes
    }

    /// Counts the next elements.
    pub(super) fn pass(&mut self, elements: u64, outcome: ElementOutcome) {
        let to_whole = self.position.next_multiple_of(self.per_sample) - self.position;
        self.position += elements;
        let first = elements.min(to_whole);
        self.open(first, outcome);
        if first > 0 && first == to_whole {
            self.complete();
        }
        let (whole, rest) = ((elements - first) / self.per_sample, (elements - first) % self.per_sample);
        *self.total(outcome) += whole;
        self.open(rest, outcome);
    }

    /// Counts the last sample although it is not complete.
    pub(super) fn close(&mut self) {
        if self.open.is_some() {
            self.open = Some(ElementOutcome::Numbered);
            self.complete();
        }
    }

    /// Returns the outcome of all samples that begin below a position.
    pub(super) fn totals(&self, next_position: u64) -> SampleTotals {
        let SampleTotals { numbered, source, publisher_queue, publisher_paused, .. } = self.totals;
        let offered = next_position.div_ceil(self.per_sample);
        let queued = offered - numbered - source - publisher_queue - publisher_paused;
        SampleTotals { offered, queued, ..self.totals }
    }

    /// Adds elements to the sample that is not complete.
    fn open(&mut self, elements: u64, outcome: ElementOutcome) {
        if elements > 0 {
            let is_shared = self.open.is_some_and(|open| open != outcome);
            self.open = Some(if is_shared { ElementOutcome::Numbered } else { outcome });
        }
    }

    fn complete(&mut self) {
        if let Some(outcome) = self.open.take() {
            *self.total(outcome) += 1;
        }
    }

    const fn total(&mut self, outcome: ElementOutcome) -> &mut u64 {
        match outcome {
            ElementOutcome::Numbered => &mut self.totals.numbered,
            ElementOutcome::Skipped(Stage::PublisherQueue) => &mut self.totals.publisher_queue,
            ElementOutcome::Skipped(Stage::PublisherPaused) => &mut self.totals.publisher_paused,
            ElementOutcome::Skipped(_) => &mut self.totals.source,
        }
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
    }

    #[test]
    fn a_sample_that_stages_share_counts_in_none_of_them() {
        assert_eq!(outcome(0, &[(4, QUEUE), (6, SOURCE)], 10), (1, 0, 0));
        assert_eq!(outcome(0, &[(4, SOURCE), (6, SOURCE)], 10), (0, 1, 0), "of one stage");
        assert_eq!(outcome(0, &[(4, SOURCE), (26, QUEUE)], 30), (1, 0, 0), "whole ones are counted at once");
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
        let mut outcomes = SampleOutcomes::new(10, 0);
        outcomes.pass(4, SOURCE);
        outcomes.close();
        assert_eq!(outcomes.totals(4).source, 0, "not all of it was lost there");
    }
}
