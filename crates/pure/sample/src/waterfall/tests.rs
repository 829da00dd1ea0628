//! Every column is the maximum of its samples, whatever blocks they came in.

use std::collections::BTreeMap;
use std::sync::Arc;

use units::{Random, RangeSet};

use super::*;
use crate::{Channel, Dtype, SampleBuffer};

const START_NS: i64 = 1_795_262_400_000_000_000;

/// A stream of one channel in `f32`.
struct Stream {
    schema: Arc<Schema>,
    period_ns: i64,
}

impl Stream {
    fn new(rate_hz: u32, shape: &[u32]) -> Self {
        let channel = Channel::new("spectrum", "V").with_shape(shape).with_scale(2.0, 1.0);
        let rate = SampleRate::hz(rate_hz).unwrap();
        let schema = Arc::new(Schema::new(Dtype::F4, rate, vec![channel]).unwrap());
        Self { schema, period_ns: 1_000_000_000 / i64::from(rate_hz) }
    }

    fn time_of(&self, index: u64) -> i64 {
        START_NS + index as i64 * self.period_ns
    }

    fn block(&self, first_index: u64, samples: &[Vec<f32>], missing: RangeSet) -> Block {
        let bytes: Vec<u8> = samples.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
        Block {
            stream: Arc::new("lab/spectrum".parse().unwrap()),
            schema: Arc::clone(&self.schema),
            epoch: Epoch { start_ns: 1, incarnation: 1 },
            first_index,
            t0: WallTime::from_nanos(self.time_of(first_index)),
            samples: samples.len() as u64,
            data: SampleBuffer::from_bytes(&bytes),
            missing,
        }
    }
}

/// What a column must hold: present, expected, bins.
type Expected = BTreeMap<i64, (u64, u64, Vec<f32>)>;

/// Finds the maxima sample by sample; `None`: it never arrived.
fn expected(stream: &Stream, samples: &[Option<Vec<f32>>], width_ns: u64, block: usize) -> Expected {
    let mut columns = Expected::new();
    for (index, sample) in (0..).zip(samples) {
        let number = stream.time_of(index).div_euclid(width_ns as i64);
        let column = columns.entry(number).or_default();
        column.1 += 1;
        let Some(sample) = sample else { continue };
        column.0 += 1;
        let bins = sample.chunks(block).map(|elements| {
            let numbers = elements.iter().filter(|value| !value.is_nan());
            numbers.map(|value| value * 2.0 + 1.0).reduce(f32::max).unwrap_or(f32::NAN)
        });
        let bins: Vec<f32> = bins.collect();
        column.2 = if column.2.is_empty() {
            bins
        } else {
            column.2.iter().zip(&bins).map(|(a, b)| a.max(*b)).collect()
        };
    }
    columns
}

fn told(columns: &[WaterfallColumn]) -> Vec<(i64, u64, u64, Vec<u32>)> {
    let bits = |bins: &[f32]| bins.iter().map(|bin| bin.to_bits()).collect();
    columns.iter().map(|it| (it.number, it.present, it.expected, bits(&it.bins))).collect()
}

fn told_of(columns: Expected) -> Vec<(i64, u64, u64, Vec<u32>)> {
    let bits = |bins: Vec<f32>| bins.iter().map(|bin| bin.to_bits()).collect();
    columns.into_iter().map(|(number, (present, due, bins))| (number, present, due, bits(bins))).collect()
}

/// Random spectra with values that are no numbers, in which runs of samples are missing; the last one arrives.
fn random_samples(random: &mut Random, count: usize, elements: usize) -> Vec<Option<Vec<f32>>> {
    let mut lost = 0;
    let sample = |random: &mut Random| {
        let value = |random: &mut Random| {
            if random.chance(0.1) { f32::NAN } else { random.below(1_000) as f32 / 8.0 - 50.0 }
        };
        (0..elements).map(|_| value(random)).collect()
    };
    let mut samples: Vec<Option<Vec<f32>>> = Vec::new();
    for _ in 0..count {
        if random.chance(0.05) {
            lost = random.below(40);
        }
        samples.push(if lost == 0 { Some(sample(random)) } else { None });
        lost = lost.saturating_sub(1);
    }
    (samples[0], samples[count - 1]) = (Some(sample(random)), Some(sample(random)));
    samples
}

/// Passes the samples that arrived in blocks of random lengths, some of them twice.
fn pass(random: &mut Random, stream: &Stream, samples: &[Option<Vec<f32>>], waterfall: &mut Waterfall) {
    let mut index = 0;
    while index < samples.len() {
        let most = 1 + random.below(20) as usize;
        let run: Vec<_> = samples[index..].iter().take(most).map_while(Clone::clone).collect();
        if run.is_empty() {
            index += 1;
            continue;
        }
        let block = stream.block(index as u64, &run, RangeSet::new());
        waterfall.push(&block);
        if random.chance(0.1) {
            waterfall.push(&block);
        }
        index += run.len();
    }
}

#[test]
fn a_column_is_the_maximum_of_its_samples_and_counts_those_missing() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let rate = [1, 7, 10, 400, 4_000][random.below(5) as usize];
        let elements = 1 + random.below(40) as u32;
        let (stream, most) = (Stream::new(rate, &[elements]), 1 + random.below(40) as u32);
        let samples = random_samples(&mut random, 300, elements as usize);
        let config = WaterfallConfig { bins: most, columns: 1 << 12 };
        let mut live = Waterfall::new(&stream.schema, 0, 0, config);
        pass(&mut random, &stream, &samples, &mut live);
        let reader = *live.reader();
        assert!(reader.bins() <= most);
        for step in 0..12 {
            let width = narrowest_column(stream.schema.rate) << step;
            let merged = 1 + random.below(4) as u32;
            let block = (reader.block() * merged) as usize;
            let wanted = told_of(expected(&stream, &samples, width, block));
            let all = wanted[0].0..wanted[wanted.len() - 1].0 + 1;
            assert_eq!(told(&live.columns(width, all.clone(), merged)), wanted, "seed {seed}, {width} ns");
            let mut stored = Waterfall::of_stretch(&stream.schema, reader, width, all.clone());
            pass(&mut random, &stream, &samples, &mut stored);
            let stored = stored.columns(width, all.clone(), merged);
            assert_eq!(told(&stored), wanted, "seed {seed}, {width} ns, of an archive");
            let part = all.start + 1..(all.start + 3).min(all.end);
            let within = wanted.iter().filter(|column| part.contains(&column.0)).cloned();
            assert_eq!(told(&live.columns(width, part.clone(), merged)), within.collect::<Vec<_>>());
        }
    }
}

#[test]
fn what_is_forgotten_of_narrow_columns_is_kept_in_wide_ones() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let stream = Stream::new(100, &[3]);
        let samples = random_samples(&mut random, 3_000, 3);
        let mut live = Waterfall::new(&stream.schema, 0, 0, WaterfallConfig { bins: 3, columns: 64 });
        pass(&mut random, &stream, &samples, &mut live);
        let end = stream.time_of(3_000);
        for _ in 0..50 {
            let from = WallTime::from_nanos(START_NS + random.below((end - START_NS) as u64) as i64);
            let asked = narrowest_column(stream.schema.rate) << random.below(10);
            let width = live.width_reaching(asked, from);
            assert!(width >= asked && width.is_power_of_two());
            let first = from.as_nanos().div_euclid(width as i64);
            // The window's first column may begin before what is kept.
            let numbers = first + 1..end.div_euclid(width as i64) + 1;
            let mut wanted = expected(&stream, &samples, width, 1);
            wanted.retain(|number, _| numbers.contains(number));
            assert_eq!(told(&live.columns(width, numbers, 1)), told_of(wanted), "seed {seed}");
        }
        assert!(live.size_bytes() <= 64 * 20 * 100, "bounded: {} bytes", live.size_bytes());
        let known = live.known_from(narrowest_column(stream.schema.rate)).unwrap();
        assert!(known.time.as_nanos() > START_NS, "narrow columns are forgotten");
        assert_eq!(live.known_from(1 << 40).map(|it| it.time), Some(WallTime::from_nanos(START_NS)));
    }
}

#[test]
fn a_hole_is_a_column_without_samples_and_before_the_first_sample_nothing_is_due() {
    let stream = Stream::new(1, &[2]);
    let mut live = Waterfall::new(&stream.schema, 0, 0, WaterfallConfig::default());
    live.push(&stream.block(5, &[vec![1.0, 2.0]], RangeSet::new()));
    live.push(&stream.block(9, &[vec![3.0, f32::NAN]], RangeSet::new()));
    let width = 1_u64 << 30;
    let first = stream.time_of(5).div_euclid(1 << 30);
    let columns = live.columns(width, first - 100..first + 100, 1);
    let counts: Vec<_> = columns.iter().map(|it| (it.present, it.expected, it.bins.len())).collect();
    // Seconds are a little shorter than these columns.
    assert_eq!(counts.iter().map(|(present, _, _)| present).sum::<u64>(), 2);
    assert_eq!(counts.iter().map(|(_, due, _)| due).sum::<u64>(), 5);
    assert!(counts[1..counts.len() - 1].iter().all(|count| count.0 == 0 && count.2 == 0), "{counts:?}");
    assert!(columns[columns.len() - 1].bins[1].is_nan());
}

#[test]
fn elements_that_never_arrived_are_in_no_maximum_and_a_sample_without_any_is_missing() {
    let stream = Stream::new(1, &[2]);
    let mut live = Waterfall::new(&stream.schema, 0, 0, WaterfallConfig::default());
    let mut missing = RangeSet::new();
    missing.insert(1..4);
    live.push(&stream.block(0, &[vec![1.0, 9.0], vec![9.0, 9.0], vec![2.0, 0.0]], missing));
    let columns = live.columns(1 << 40, 0..i64::MAX, 1);
    assert_eq!((columns[0].present, columns[0].expected), (2, 3));
    assert_eq!(columns[0].bins[..], [5.0, 1.0]);
}

#[test]
fn a_matrix_has_the_maxima_of_its_rows_and_a_plane_is_chosen() {
    let stream = Stream::new(1, &[2, 2, 2]);
    let sample = vec![0.0, 1.0, 2.0, -1.0, 10.0, 11.0, 12.0, 9.0];
    for (plane, bins) in [(0, [5.0, 3.0]), (1, [25.0, 23.0]), (7, [25.0, 23.0])] {
        let mut live = Waterfall::new(&stream.schema, 0, plane, WaterfallConfig::default());
        live.push(&stream.block(0, std::slice::from_ref(&sample), RangeSet::new()));
        assert_eq!(live.columns(1 << 40, 0..i64::MAX, 1)[0].bins[..], bins);
    }
}

#[test]
fn an_epoch_and_a_clock_set_back_lose_no_sample_of_what_is_kept() {
    let stream = Stream::new(10, &[1]);
    let mut live = Waterfall::new(&stream.schema, 0, 0, WaterfallConfig::default());
    live.push(&stream.block(100, &[vec![1.0]], RangeSet::new()));
    let other = Epoch { start_ns: 2, incarnation: 2 };
    live.push(&Block { epoch: other, ..stream.block(40, &[vec![2.0]], RangeSet::new()) });
    let columns = live.columns(1 << 30, 0..i64::MAX, 1);
    assert_eq!(columns.iter().map(|it| (it.present, it.expected)).collect::<Vec<_>>(), [(1, 1); 2]);
    assert!(columns[0].number < columns[1].number);
}

#[test]
fn a_hole_of_years_costs_no_more_than_the_columns_that_are_kept() {
    let stream = Stream::new(1_000, &[1]);
    let mut live = Waterfall::new(&stream.schema, 0, 0, WaterfallConfig { bins: 1, columns: 256 });
    live.push(&stream.block(0, &[vec![1.0]], RangeSet::new()));
    live.push(&stream.block(1_000 * 86_400 * 365 * 3, &[vec![1.0]], RangeSet::new()));
    let columns = live.columns(1 << 20, 0..i64::MAX, 1);
    assert!(columns.len() <= 256 && columns.iter().rev().skip(1).all(|it| it.present == 0));
    live.stop_growing();
    let before = live.size_bytes();
    live.push(&stream.block(1_000 * 86_400 * 365 * 4, &[vec![1.0]], RangeSet::new()));
    assert!(live.size_bytes() <= before);
}

#[test]
fn the_parts_before_and_behind_any_place_are_together_the_columns_of_the_whole() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let rate = [1, 7, 10, 400][random.below(4) as usize];
        let (stream, count) = (Stream::new(rate, &[3]), 300);
        let samples = random_samples(&mut random, count, 3);
        // Live memory begins with a block that arrives anywhere, and forgets narrow columns.
        let begin = 1 + random.below(count as u64 - 1) as usize;
        let config = WaterfallConfig { bins: 3, columns: [8, 64, 1 << 12][random.below(3) as usize] };
        let mut live = Waterfall::new(&stream.schema, 0, 0, config);
        let mut received = samples.clone();
        received[..begin].fill(None);
        pass(&mut random, &stream, &received, &mut live);
        let reader = *live.reader();
        for step in 0..12 {
            let width = narrowest_column(stream.schema.rate) << step;
            let Some(border) = live.known_from(width) else { continue };
            let wanted = told_of(expected(&stream, &samples, width, 1));
            let all = wanted[0].0..wanted[wanted.len() - 1].0 + 1;
            let mut stored =
                Waterfall::of_stretch(&stream.schema, reader, width, all.clone()).up_to(Some(border));
            // The archive may end with the last sample before, or have what came behind it, too.
            let mut recorded = samples.clone();
            if random.chance(0.5) {
                let from = recorded.len().min(border.index as usize);
                recorded[from..].fill(None);
            }
            pass(&mut random, &stream, &recorded, &mut stored);
            stored.finish();
            let mut columns: BTreeMap<i64, WaterfallColumn> =
                stored.columns(width, all.clone(), 1).into_iter().map(|it| (it.number, it)).collect();
            for column in live.columns(width, all.clone(), 1) {
                let number = column.number;
                columns.entry(number).and_modify(|older| older.merge(&column)).or_insert(column);
            }
            let columns: Vec<_> = columns.into_values().collect();
            assert_eq!(told(&columns), wanted, "seed {seed}, {width} ns, {border:?}");
        }
    }
}

#[test]
fn a_stretch_has_no_sample_behind_its_end_whatever_its_epoch() {
    let stream = Stream::new(10, &[1]);
    let epoch = Epoch { start_ns: 1, incarnation: 1 };
    let end = StreamPlace { epoch, index: 10, time: WallTime::from_nanos(stream.time_of(10)) };
    let reader = BinReader::new(&stream.schema, 0, 0, 1);
    let mut stretch = Waterfall::of_stretch(&stream.schema, reader, 1 << 40, 0..i64::MAX).up_to(Some(end));
    let samples = vec![vec![1.0]; 20];
    stretch.push(&stream.block(5, &samples, RangeSet::new()));
    let other = Epoch { start_ns: 2, incarnation: 2 };
    stretch.push(&Block { epoch: other, ..stream.block(8, &samples, RangeSet::new()) });
    let columns = stretch.columns(1 << 40, 0..i64::MAX, 1);
    assert_eq!((columns[0].present, columns[0].expected), (5 + 2, 5 + 2), "5 to 9, and 8 to 9");
}
