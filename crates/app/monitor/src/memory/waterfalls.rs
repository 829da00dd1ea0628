//! Vectors over time in live memory, for waterfalls.
//!
//! Of streams of spectra they are kept from the beginning, so that a page that opens sees what was before; of other
//! channels from the first request on, until an hour after the last one. Start with [`Waterfalls`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sample::{Block, Schema, Waterfall, WaterfallConfig};

use super::pictures::Bytes;
use crate::clock::Moment;

/// Maximum size of the waterfalls of all streams: a dozen that have lasted for days.
const MAX_BYTES: usize = 256 << 20;
/// Maximum number of channels of a stream whose waterfalls are kept before a page asks for them.
const MAX_UNASKED: usize = 8;
/// A channel that no view asked for during this time is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);
/// Label of a stream of spectra: the distance of two bins.
const SPECTRUM_LABEL: &str = "spectrum_bin_hz";

/// Waterfalls of a stream, by channel and matrix.
#[derive(Debug)]
pub(crate) struct Waterfalls {
    kept: BTreeMap<(usize, u32), KeptWaterfall>,
    schema: Arc<Schema>,
    budget: WaterfallBudget,
}

/// One waterfall.
#[derive(Debug)]
pub(crate) struct KeptWaterfall {
    pub(crate) waterfall: Waterfall,
    /// Number among all that were ever made: its columns are comparable only with its own.
    pub(crate) number: u64,
    /// True if its columns are fewer than usual because other waterfalls take the memory.
    pub(crate) is_short: bool,
    bytes: usize,
    /// Time of the last request; `None` if it is kept for ever.
    asked: Option<Instant>,
}

/// Memory that waterfalls of all streams may still take.
#[derive(Clone, Debug)]
pub(crate) struct WaterfallBudget {
    bytes: Bytes,
    made: Arc<AtomicU64>,
}

impl Default for WaterfallBudget {
    fn default() -> Self {
        Self { bytes: Bytes::new(MAX_BYTES), made: Arc::default() }
    }
}

impl Waterfalls {
    pub(super) fn new(schema: &Arc<Schema>, budget: WaterfallBudget) -> Self {
        let mut waterfalls = Self { kept: BTreeMap::new(), schema: Arc::clone(schema), budget };
        if schema.labels.contains_key(SPECTRUM_LABEL) {
            let is_vector = |channel: &usize| schema.channel_elements(*channel).len() > 1;
            for channel in (0..schema.channels.len()).filter(is_vector).take(MAX_UNASKED) {
                waterfalls.keep(channel, 0, None);
            }
        }
        waterfalls
    }

    /// Returns the waterfall of a channel's matrix, and keeps it from now on.
    pub(crate) fn ask(&mut self, channel: usize, plane: u32, now: Moment) -> &KeptWaterfall {
        self.keep(channel, plane, Some(now.steady))
    }

    /// Returns the number of waterfalls that are kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    fn keep(&mut self, channel: usize, plane: u32, asked: Option<Instant>) -> &KeptWaterfall {
        let kept = self.kept.entry((channel, plane)).or_insert_with(|| KeptWaterfall {
            waterfall: Waterfall::new(&self.schema, channel, plane, WaterfallConfig::default()),
            // A count that nothing else is read by: no ordering is needed.
            number: 1 + self.budget.made.fetch_add(1, Ordering::Relaxed),
            is_short: false,
            bytes: 0,
            asked,
        });
        kept.asked = kept.asked.and(asked);
        kept
    }

    /// Takes the samples of a block.
    pub(super) fn push(&mut self, block: &Block, now: Moment) {
        let budget = &self.budget.bytes;
        self.kept.retain(|_, kept| {
            let silent = |asked| now.steady.saturating_duration_since(asked) > FORGOTTEN_AFTER;
            let forgotten = kept.asked.is_some_and(silent);
            if forgotten {
                budget.give_back(kept.bytes);
            }
            !forgotten
        });
        self.kept.values_mut().for_each(|kept| kept.push(block, budget));
    }
}

impl KeptWaterfall {
    fn push(&mut self, block: &Block, budget: &Bytes) {
        self.waterfall.push(block);
        let bytes = self.waterfall.size_bytes();
        if bytes <= self.bytes {
            budget.give_back(self.bytes - bytes);
            self.bytes = bytes;
        } else if budget.take(bytes - self.bytes) {
            self.bytes = bytes;
        } else if !self.is_short {
            self.waterfall.stop_growing();
            self.is_short = true;
        }
    }
}

impl Drop for Waterfalls {
    fn drop(&mut self) {
        self.budget.bytes.give_back(self.kept.values().map(|kept| kept.bytes).sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{self, SECOND};
    use sample::SampleBuffer;
    use tallycast::{Channel, Dtype};
    use units::WallTime;

    fn at(seconds: i64) -> Moment {
        scene::moment(WallTime::from_nanos(seconds * SECOND))
    }

    fn schema(is_spectrum: bool) -> Arc<Schema> {
        let channels = vec![Channel::new("t", "s"), Channel::new("x", "V").with_shape([4])];
        let mut schema = Schema::new(Dtype::U8, "10".parse().unwrap(), channels).unwrap();
        if is_spectrum {
            schema.labels.insert(SPECTRUM_LABEL.to_owned(), "1".to_owned());
        }
        Arc::new(schema)
    }

    fn block(schema: &Arc<Schema>, first_index: u64) -> Block {
        let plain = scene::block(&scene::info("lab/x", 10), first_index, &[0.0]);
        Block { schema: Arc::clone(schema), data: SampleBuffer::from_bytes(&[9, 1, 2, 3, 4]), ..plain }
    }

    fn present(kept: &KeptWaterfall) -> u64 {
        kept.waterfall.columns(1 << 40, i64::MIN..i64::MAX, 1).iter().map(|column| column.present).sum()
    }

    #[test]
    fn spectra_are_kept_from_the_beginning_and_others_from_the_first_request_on() {
        for (is_spectrum, before, forgotten) in [(true, 10, 21), (false, 0, 0)] {
            let (schema, budget) = (schema(is_spectrum), WaterfallBudget::default());
            let mut waterfalls = Waterfalls::new(&schema, budget.clone());
            (0..10).for_each(|index| waterfalls.push(&block(&schema, index), at(100)));
            assert_eq!(present(waterfalls.ask(1, 0, at(100))), before);
            (10..20).for_each(|index| waterfalls.push(&block(&schema, index), at(101)));
            let number = waterfalls.ask(1, 0, at(101)).number;
            assert_eq!(present(waterfalls.ask(1, 0, at(101))), before + 10);
            waterfalls.push(&block(&schema, 20), at(3_702));
            let kept = waterfalls.ask(1, 0, at(3_702));
            assert_eq!((present(kept), kept.number == number), (forgotten, is_spectrum));
            drop(waterfalls);
            assert!(budget.bytes.take(MAX_BYTES), "given back");
        }
    }

    #[test]
    fn a_channel_is_kept_for_as_long_as_it_is_asked_for() {
        let schema = schema(false);
        let mut waterfalls = Waterfalls::new(&schema, WaterfallBudget::default());
        for hour in 0..5 {
            waterfalls.ask(1, 0, at(3_000 * hour));
            waterfalls.push(&block(&schema, hour as u64), at(3_000 * hour));
        }
        assert_eq!(present(waterfalls.ask(1, 0, at(15_000))), 5);
    }

    #[test]
    fn without_memory_columns_are_fewer_and_that_is_said() {
        let (schema, budget) = (schema(true), WaterfallBudget::default());
        let mut waterfalls = Waterfalls::new(&schema, budget.clone());
        waterfalls.push(&block(&schema, 0), at(100));
        assert!(!waterfalls.ask(1, 0, at(100)).is_short);
        assert!(budget.bytes.take(MAX_BYTES - waterfalls.ask(1, 0, at(100)).bytes));
        (1..100).for_each(|index| waterfalls.push(&block(&schema, index), at(100)));
        let kept = waterfalls.ask(1, 0, at(100));
        assert!(kept.is_short);
        assert!(kept.waterfall.size_bytes() < 20 * 200, "{} bytes", kept.waterfall.size_bytes());
    }
}
