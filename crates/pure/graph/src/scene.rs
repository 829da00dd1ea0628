//! Blocks for tests: streams of one channel on a steady clock, to be cut and disturbed, and one that is.

use std::sync::Arc;

use sample::{Block, Channel, Dtype, SampleBuffer, Schema};
use units::{Epoch, Random, RangeSet, WallTime};

use crate::{Input, Operator, Output};

/// A stream named `lab/NAME` with one channel `x`.
pub(crate) struct Stream {
    name: &'static str,
    pub(crate) schema: Arc<Schema>,
    pub(crate) epoch: Epoch,
    pub(crate) anchor: WallTime,
}

impl Stream {
    pub(crate) fn new(name: &'static str, rate: &str) -> Self {
        let schema = Schema::new(Dtype::F8, rate.parse().unwrap(), vec![Channel::new("x", "V")]).unwrap();
        let epoch = Epoch { start_ns: 1, incarnation: 1 };
        Self { name, schema: Arc::new(schema), epoch, anchor: WallTime::from_nanos(1_000_000_000) }
    }

    pub(crate) fn time_of(&self, index: u64) -> WallTime {
        self.schema.rate.time_of(index, 0, self.anchor)
    }

    pub(crate) fn block(&self, first_index: u64, values: &[f64]) -> Block {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Block {
            stream: Arc::new(self.name.parse().unwrap()),
            schema: self.schema.clone(),
            epoch: self.epoch,
            first_index,
            t0: self.time_of(first_index),
            samples: values.len() as u64,
            data: SampleBuffer::from_bytes(&bytes),
            missing: RangeSet::new(),
        }
    }
}

/// Returns the little-endian `f8` values of a buffer.
pub(crate) fn floats(data: &SampleBuffer) -> Vec<f64> {
    data.as_bytes().chunks_exact(8).map(|bytes| Dtype::F8.to_f64(bytes)).collect()
}

/// A sample of an output: its time, and its values if it is not in a hole.
pub(crate) type Row = (WallTime, Option<Vec<f64>>);

/// Returns the samples that an operator has decided, and checks that its runs follow each other and its account closes.
pub(crate) fn rows(operator: &mut dyn Operator) -> Vec<Row> {
    let (mut rows, before) = (Vec::<Row>::new(), operator.totals());
    while let Some(output) = operator.poll() {
        let schema = operator.schema().unwrap();
        let (first, t0, count, values) = match output {
            Output::Samples { first_index, t0, samples, data } => {
                (first_index, t0, samples, Some(floats(&data)))
            }
            Output::Hole { first_index, t0, samples, .. } => (first_index, t0, samples, None),
        };
        assert_eq!(first, before.offered + rows.len() as u64);
        let width = schema.elements_per_sample() as usize;
        assert!(values.as_ref().is_none_or(|values| values.len() == count as usize * width));
        rows.extend((0..count).map(|number| {
            let row = values.as_ref().map(|values| values[number as usize * width..][..width].to_vec());
            (schema.rate.time_of(number, 0, t0), row)
        }));
    }
    let totals = operator.totals();
    let delivered = rows.iter().filter(|(_, row)| row.is_some()).count() as u64;
    assert_eq!(totals.offered - before.offered, rows.len() as u64);
    assert_eq!(totals.delivered - before.delivered, delivered);
    assert_eq!(totals.offered, totals.delivered + totals.source);
    rows
}

/// Feeds `blocks` blocks of a stream with missing blocks, missing samples and repeated blocks, each value that of its index.
///
/// Returns the indices that arrived whole, and one behind the last index.
pub(crate) fn feed_broken(
    operator: &mut dyn Operator,
    random: &mut Random,
    stream: &Stream,
    first_index: u64,
    blocks: u64,
    value: impl Fn(u64) -> f64,
) -> (RangeSet, u64) {
    let (mut whole, mut index) = (RangeSet::new(), first_index);
    for number in 0..blocks {
        if number > 0 && random.chance(0.2) {
            index += random.below(6);
        }
        let count = 1 + random.below(90);
        let values: Vec<f64> = (index..index + count).map(&value).collect();
        let mut block = stream.block(index, &values);
        let broken = random.chance(0.15).then(|| random.below(count));
        block.missing = broken.map(|it| it..it + 1).into_iter().collect();
        operator.handle(0, Input::Block(&block)).unwrap();
        if random.chance(0.1) {
            operator.handle(0, Input::Block(&block)).unwrap();
        }
        let cut = broken.unwrap_or(count);
        for run in [index..index + cut, index + cut + 1..index + count] {
            if !run.is_empty() {
                whole.insert(run);
            }
        }
        index += count;
    }
    (whole, index)
}

/// A stream `lab/x` of `f8` with channels `a`, `b` (of two values) and `c`, at 1 kHz, with holes, partial and repeated blocks,
/// and epochs.
pub(crate) struct Disturbed {
    pub(crate) blocks: Vec<Block>,
    /// Every sample of an epoch from the first that was seen to the last.
    pub(crate) truth: Vec<Truth>,
}

/// A sample as it was published.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Truth {
    pub(crate) epoch: Epoch,
    pub(crate) index: u64,
    pub(crate) time: WallTime,
    /// Of each element, `None` if it is missing.
    pub(crate) values: [Option<f64>; 4],
}

impl Truth {
    /// Returns the values of these elements if all are there.
    pub(crate) fn of(&self, elements: &[usize]) -> Option<Vec<f64>> {
        elements.iter().map(|element| self.values[*element]).collect()
    }
}

impl Disturbed {
    /// Makes a stream of these values.
    pub(crate) fn new(random: &mut Random, mut values: impl FnMut(&mut Random) -> [f64; 4]) -> Self {
        let channels =
            vec![Channel::new("a", "V"), Channel::new("b", "A").with_shape([2]), Channel::new("c", "K")];
        let schema = Arc::new(Schema::new(Dtype::F8, "1000".parse().unwrap(), channels).unwrap());
        let stream = Arc::new("lab/x".parse().unwrap());
        let (mut blocks, mut truth) = (Vec::<Block>::new(), Vec::new());
        let mut due = WallTime::from_nanos(1_000_000_000);
        for number in 0..1 + random.below(3) {
            let epoch =
                Epoch { start_ns: 1_700_000_000_000_000_001 + number, incarnation: random.next_u64() };
            let mut index = random.below(5);
            let anchor = due.offset(1_000_000 * (random.below(4) as i64 - index as i64));
            let time_of = |index| schema.rate.time_of(index, 0, anchor);
            for part in 0..1 + random.below(12) {
                if part > 0 && random.chance(0.3) {
                    for index in index..index + 1 + random.below(4) {
                        truth.push(Truth { epoch, index, time: time_of(index), values: [None; 4] });
                    }
                    index = truth.last().map_or(0, |missing| missing.index + 1);
                }
                let samples = 1 + random.below(20);
                let (first_index, mut data, mut missing) = (index, Vec::new(), RangeSet::new());
                for place in 0..samples {
                    let row = values(random);
                    data.extend(row.iter().flat_map(|value| value.to_le_bytes()));
                    let mut values = row.map(Some);
                    if random.chance(0.02) {
                        let element = random.below(4);
                        values[element as usize] = None;
                        missing.insert(place * 4 + element..place * 4 + element + 1);
                    }
                    truth.push(Truth { epoch, index, time: time_of(index), values });
                    index += 1;
                }
                blocks.push(Block {
                    stream: Arc::clone(&stream),
                    schema: Arc::clone(&schema),
                    epoch,
                    first_index,
                    t0: time_of(first_index),
                    samples,
                    data: SampleBuffer::from_bytes(&data),
                    missing,
                });
                if random.chance(0.1) {
                    blocks.push(blocks[random.below(blocks.len() as u64) as usize].clone());
                }
            }
            due = time_of(index);
        }
        Self { blocks, truth }
    }
}
