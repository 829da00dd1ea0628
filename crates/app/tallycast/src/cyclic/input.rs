//! An input of a running app: a subscriber that is emptied once per cycle.

use std::time::Duration;

use cyclic::{Freshness, News, Take};
use sample::{Block, Dtype, SampleBuffer};
use units::WallTime;

use super::app::{AppError, InputOf};
use crate::event::{Event, StreamAccount};
use crate::node::Node;
use crate::subscriber::Subscriber;

/// An app that was kept from its inputs reads at most so many pieces of news per cycle, so that it comes back to its work.
const MAX_EVENTS_PER_CYCLE: usize = 65_536;

/// An input of a running app.
pub(super) struct InputPort {
    subscriber: Subscriber,
    take: Take,
    pub(super) dtype: Dtype,
    pub(super) freshness: Freshness,
    pub(super) news: News,
    pub(super) newest: Option<Newest>,
    /// The samples of this cycle, oldest first: indices with times, and elements.
    pub(super) marks: Vec<(u64, WallTime)>,
    pub(super) all: SampleBuffer,
    sample_bytes: usize,
    warned_of_dtype: bool,
}

/// The newest sample that has come.
pub(super) struct Newest {
    pub(super) index: u64,
    pub(super) time: WallTime,
    pub(super) elements: SampleBuffer,
}

impl InputPort {
    pub(super) fn open(node: &Node, app: &str, plan: &InputOf) -> Result<Self, AppError> {
        Ok(Self {
            subscriber: node.subscriber(plan.stream.as_str()).reader(reader_name(app)).open()?,
            take: plan.take,
            dtype: plan.dtype,
            freshness: Freshness::Missed,
            news: News::default(),
            newest: None,
            marks: Vec::new(),
            all: SampleBuffer::default(),
            sample_bytes: 0,
            warned_of_dtype: false,
        })
    }

    /// Takes what has come since the last cycle; returns how far apart the samples of a stream are that was joined.
    pub(super) fn look(&mut self) -> Option<Duration> {
        self.marks.clear();
        self.all.clear();
        self.news = News { newest: self.news.newest, ..News::default() };
        let mut period = None;
        for _ in 0..MAX_EVENTS_PER_CYCLE {
            match self.subscriber.next(Duration::ZERO) {
                None => break,
                Some(Event::Began(info)) => period = Some(info.schema.rate.duration_of(1)),
                Some(Event::Block(block)) => self.take(&block),
                Some(Event::Gap(gap)) => self.news.lost_elements += gap.gap.len(),
                Some(Event::Settled(_) | Event::Ended(_)) => {}
            }
        }
        self.news.newest = self.newest.as_ref().map(|newest| newest.time);
        period
    }

    pub(super) fn close(self) -> Vec<StreamAccount> {
        self.subscriber.close()
    }

    fn take(&mut self, block: &Block) {
        if block.schema.dtype != self.dtype {
            self.refuse(block);
            return;
        }
        let per_sample = u64::from(block.schema.elements_per_sample());
        let sample_bytes = block.schema.sample_bytes();
        let samples = block.data.as_bytes().chunks_exact(sample_bytes).zip(0_u64..);
        // What came in part is no sample that a function could use; its rest is counted as lost.
        let whole =
            samples.filter(|(_, at)| block.missing.count_in(at * per_sample..(at + 1) * per_sample) == 0);
        for (bytes, at) in whole {
            self.news.samples += 1;
            let (index, time) = (block.first_index + at, block.time_of(block.first_index + at));
            if self.take == Take::Newest || self.sample_bytes != sample_bytes {
                self.marks.clear();
                self.all.clear();
                self.sample_bytes = sample_bytes;
            }
            self.marks.push((index, time));
            self.all.extend_from_bytes(bytes);
            let newest =
                self.newest.get_or_insert_with(|| Newest { index, time, elements: SampleBuffer::default() });
            (newest.index, newest.time) = (index, time);
            newest.elements.clear();
            newest.elements.extend_from_bytes(bytes);
        }
    }

    fn refuse(&mut self, block: &Block) {
        if !std::mem::replace(&mut self.warned_of_dtype, true) {
            tracing::warn!(
                "the input `{}` is not read: its elements are {}, not {}\npublish them so, or declare the input so",
                block.stream,
                block.schema.dtype,
                self.dtype
            );
        }
    }
}

/// Returns the end of an app's name: a reader's has a limit, and the last words tell apps apart.
pub(super) fn reader_name(app: &str) -> &str {
    let first = app.len().saturating_sub(wire::MAX_READER_NAME_BYTES);
    let first = (first..=app.len()).find(|at| app.is_char_boundary(*at)).unwrap_or(app.len());
    &app[first..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_is_named_by_the_end_of_its_apps_name() {
        assert_eq!(reader_name("vehicle/body"), "vehicle/body");
        let (fits, too_long) = ("x".repeat(32), format!("a{}", "x".repeat(32)));
        assert_eq!((reader_name(&fits), reader_name(&too_long)), (&*fits, &*fits));
        let wide = "µ".repeat(17);
        assert_eq!(reader_name(&wide), "µ".repeat(16), "no character is cut");
        let odd = format!("{}x", "µ".repeat(16));
        assert_eq!(reader_name(&odd).len(), 31);
    }
}
