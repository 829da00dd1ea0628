//! The envelope compared with the simplest correct model: all samples in a list.

use std::sync::Arc;

use super::*;
use crate::{Channel, Dtype, SampleBuffer};
use units::{Random, RangeSet, SampleRate};

const SMALL: EnvelopeConfig =
    EnvelopeConfig { tail_samples: 4_096, bucket_samples: 8, levels: 4, buckets_per_level: 4_096 };

/// One sample of the plain list: its time, and its value if it arrived.
type Plain = (WallTime, Option<f64>);

struct Scene {
    rate: SampleRate,
    schema: Arc<Schema>,
    epoch: Epoch,
    plain: Vec<Plain>,
    envelope: Envelope,
}

impl Scene {
    fn new(rate: &str, config: EnvelopeConfig) -> Self {
        let rate = rate.parse().unwrap();
        let schema = Schema::new(Dtype::F8, rate, vec![Channel::new("a", "V")]).unwrap();
        let envelope = Envelope::new(&schema, 0, config).unwrap();
        let epoch = Epoch { start_ns: 1, incarnation: 1 };
        Self { rate, schema: Arc::new(schema), epoch, plain: Vec::new(), envelope }
    }

    fn block(&self, first_index: u64, t0: WallTime, values: &[f64]) -> Block {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Block {
            stream: Arc::new("lab/probe".parse().unwrap()),
            schema: self.schema.clone(),
            epoch: self.epoch,
            first_index,
            t0,
            samples: values.len() as u64,
            data: SampleBuffer::from_bytes(&bytes),
            missing: RangeSet::new(),
        }
    }

    /// Pushes blocks of random lengths with random holes on one steady clock.
    fn fill(&mut self, random: &mut Random, samples: u64) {
        let anchor = WallTime::from_nanos(1_000_000_007);
        let mut index = self.plain.len() as u64;
        while (self.plain.len() as u64) < samples {
            if !self.plain.is_empty() && random.chance(0.3) {
                for _ in 0..1 + random.below(40) {
                    self.plain.push((self.rate.time_of(index, 0, anchor), None));
                    index += 1;
                }
            }
            let values: Vec<f64> = (0..1 + random.below(100)).map(|_| value(random)).collect();
            let mut block = self.block(index, self.rate.time_of(index, 0, anchor), &values);
            if random.chance(0.2) {
                let start = random.below(block.samples);
                block.missing.insert(start..(start + 1 + random.below(3)).min(block.samples));
            }
            for (place, value) in (0..).zip(&values) {
                let value = (!block.missing.contains(place)).then_some(*value);
                self.plain.push((self.rate.time_of(index, 0, anchor), value));
                index += 1;
            }
            self.envelope.push(&block);
        }
    }

    fn plain_columns(&self, grid: &ColumnGrid) -> Vec<Column> {
        let mut columns = grid.empty_columns();
        for (number, column) in (0..).zip(&mut columns) {
            let inside = |(time, _): &&Plain| (grid.edge(number)..grid.edge(number + 1)).contains(time);
            for (_, value) in self.plain.iter().filter(inside) {
                match value {
                    Some(value) => column.take(&[*value]),
                    None => column.expected += 1,
                }
            }
        }
        columns
    }
}

fn value(random: &mut Random) -> f64 {
    if random.chance(0.02) { f64::NAN } else { random.unit() * 20.0 - 10.0 }
}

fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

fn random_grid(random: &mut Random, plain: &[Plain]) -> ColumnGrid {
    let (start, end) = (plain[0].0, plain[plain.len() - 1].0);
    let span = end.nanos_since(start) as u64;
    let from = start.offset(random.below(span) as i64 - (span / 8) as i64);
    let count = 1 + random.below(90) as u32;
    ColumnGrid { from, column_ns: 1 + random.below(2 * span / u64::from(count)), count }
}

#[test]
fn columns_equal_those_of_the_plain_list_wherever_samples_are_kept() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let rates = ["360", "1000/3", "48k", "1M"];
        let mut scene = Scene::new(rates[random.below(4) as usize], SMALL);
        let samples = 100 + random.below(3_500);
        scene.fill(&mut random, samples);
        for _ in 0..20 {
            let grid = random_grid(&mut random, &scene.plain);
            let columns = scene.envelope.columns(&grid);
            for (column, plain) in columns.iter().zip(scene.plain_columns(&grid)) {
                assert!(column.exact, "seed {seed}");
                assert!(same(column.min, plain.min) && same(column.max, plain.max), "seed {seed}");
                let (mean, means) = (plain.mean, (column.mean, plain.mean));
                assert!(
                    same(column.mean, mean) || (column.mean - mean).abs() < 1e-9,
                    "seed {seed}: {means:?}"
                );
                let counts = (column.present, column.expected, column.not_a_number);
                assert_eq!(counts, (plain.present, plain.expected, plain.not_a_number), "seed {seed}");
            }
        }
    }
}

#[test]
fn values_that_differ_in_the_thirteenth_digit_stay_different_in_every_bucket() {
    let mut scene = Scene::new("1k", EnvelopeConfig { tail_samples: 16, ..SMALL });
    let values: Vec<f64> = (0..800).map(|sample| 499_654_096.6 + 0.001 * f64::from(sample / 8)).collect();
    let start = WallTime::from_nanos(0);
    let block = scene.block(0, start, &values);
    scene.envelope.push(&block);
    let grid = ColumnGrid { from: start, column_ns: 8_000_000, count: 100 };
    let columns = scene.envelope.columns(&grid);
    for (column, samples) in columns.iter().zip(values.chunks(8)) {
        assert_eq!((column.min, column.max, column.mean), (samples[0], samples[0], samples[0]));
    }
}

#[test]
fn a_mean_of_large_values_keeps_their_small_differences_in_every_level() {
    let mut scene = Scene::new("1k", EnvelopeConfig { tail_samples: 16, ..SMALL });
    let values: Vec<f64> = (0..4_096).map(|sample| 499_654_096.6 + 0.001 * f64::from(sample % 2)).collect();
    let start = WallTime::from_nanos(0);
    let block = scene.block(0, start, &values);
    scene.envelope.push(&block);
    for samples in [8, 64, 512, 2_048] {
        let grid = ColumnGrid { from: start, column_ns: samples * 1_000_000, count: 4_096 / samples as u32 };
        for column in scene.envelope.columns(&grid) {
            assert_eq!(column.present, samples);
            let error = column.mean - 499_654_096.600_5;
            assert!(error.abs() < 1e-6, "a thousandth of the difference: {error}");
        }
    }
}

#[test]
fn no_peak_is_lost_when_only_buckets_are_left() {
    let config = EnvelopeConfig { tail_samples: 64, ..SMALL };
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut scene = Scene::new("1k", config);
        scene.fill(&mut random, 8_000);
        for _ in 0..10 {
            let grid = random_grid(&mut random, &scene.plain);
            let (columns, plain) = (scene.envelope.columns(&grid), scene.plain_columns(&grid));
            // A bucket is 8 samples of 1 ms: a peak appears at most that far from its position.
            let reach = 8_000_000 / grid.column_ns as usize + 1;
            for (number, truth) in plain.iter().enumerate().filter(|(_, plain)| !plain.max.is_nan()) {
                let near = &columns[number.saturating_sub(reach)..(number + 1).min(columns.len())];
                assert!(near.iter().any(|column| column.max >= truth.max), "seed {seed}, column {number}");
                assert!(near.iter().any(|column| column.min <= truth.min), "seed {seed}, column {number}");
            }
            // Shown values were present: none come from outside the neighbourhood either.
            for (number, column) in columns.iter().enumerate().filter(|(_, column)| !column.max.is_nan()) {
                let from = grid.edge(number as u32).offset(-8_000_000);
                let to = grid.edge(number as u32 + 1).offset(8_000_000);
                let near = scene.plain.iter().filter(|(time, _)| (from..to).contains(time));
                assert!(near.clone().any(|(_, value)| value.is_some_and(|value| value == column.max)));
            }
        }
    }
}

#[test]
fn a_hole_as_long_as_a_bucket_shows_nothing_when_only_buckets_are_left() {
    let config = EnvelopeConfig { tail_samples: 64, ..SMALL };
    let mut seen = 0;
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut scene = Scene::new("1k", config);
        scene.fill(&mut random, 4_000);
        let (from, column_ns) = (scene.plain[100].0, 500_000 + random.below(4_000_000));
        let grid = ColumnGrid { from: from.offset(random.below(8_000_000) as i64), column_ns, count: 300 };
        let holes = scene.plain.chunk_by(|a, b| a.1.is_none() == b.1.is_none());
        let holes = holes.filter(|run| run[0].1.is_none() && run.len() >= 8);
        let holes: Vec<_> = holes.map(|run| run[0].0..run[run.len() - 1].0.offset(1_000_000)).collect();
        for (number, column) in (0..).zip(scene.envelope.columns(&grid)) {
            let (left, right) = (grid.edge(number), grid.edge(number + 1));
            if holes.iter().any(|hole| hole.start <= left && right <= hole.end) {
                assert!(column.max.is_nan() && column.present == 0, "seed {seed}, column {number}");
                seen += 1;
            }
        }
    }
    assert!(seen > 500, "{seen} columns were in holes");
}

#[test]
fn memory_is_bounded_and_the_oldest_goes_first() {
    let config = EnvelopeConfig { tail_samples: 10, bucket_samples: 4, levels: 2, buckets_per_level: 8 };
    let mut scene = Scene::new("1k", config);
    let t0 = WallTime::from_nanos(0);
    for index in 0..1_000_u64 {
        let block = scene.block(index, scene.rate.time_of(index, 0, t0), &[index as f64]);
        scene.envelope.push(&block);
    }
    assert_eq!(scene.envelope.points_from(), Some(WallTime::from_nanos(990_000_000)));
    // Eight buckets of 16 samples, the last of which ends behind sample 999.
    assert_eq!(scene.envelope.memory_from(), Some(WallTime::from_nanos(880_000_000)));
    let grid = ColumnGrid { from: t0, column_ns: 16_000_000, count: 63 };
    let columns = scene.envelope.columns(&grid);
    assert_eq!(columns[40].present, 0);
    assert!(!columns[40].exact);
    assert_eq!((columns[55].min, columns[55].max), (880.0, 895.0));
    assert_eq!((columns[62].min, columns[62].max), (992.0, 999.0));
}

#[test]
fn a_hole_longer_than_the_memory_is_a_hole_and_costs_nothing() {
    let mut scene = Scene::new("1k", SMALL);
    let t0 = WallTime::from_nanos(0);
    scene.envelope.push(&scene.block(0, t0, &[1.0]));
    let far = 1 << 40;
    scene.envelope.push(&scene.block(far, scene.rate.time_of(far, 0, t0), &[2.0, 3.0]));
    let end = scene.rate.time_of(far, 0, t0);
    let columns =
        scene.envelope.columns(&ColumnGrid { from: end.offset(-4_000_000), column_ns: 2_000_000, count: 3 });
    assert_eq!((columns[1].present, columns[1].expected), (0, 2));
    assert_eq!((columns[2].min, columns[2].max, columns[2].expected), (2.0, 3.0, 2));
}

#[test]
fn points_are_never_joined_across_a_hole() {
    let mut scene = Scene::new("1k", SMALL);
    let t0 = WallTime::from_nanos(0);
    scene.envelope.push(&scene.block(0, t0, &[1.0, 2.0]));
    scene.envelope.push(&scene.block(5, scene.rate.time_of(5, 0, t0), &[6.0]));
    let points = scene.envelope.points(t0, WallTime::from_nanos(10_000_000));
    let values: Vec<Option<f64>> = points.iter().map(|point| point.value).collect();
    assert_eq!(values, [Some(1.0), Some(2.0), None, Some(6.0)]);
    assert_eq!(points[2].time, WallTime::from_nanos(2_000_000));
    assert_eq!(scene.envelope.newest(), Some((WallTime::from_nanos(5_000_000), 6.0)));
}

#[test]
fn a_restart_of_the_publisher_is_a_hole_even_when_it_is_quick() {
    let mut scene = Scene::new("1k", SMALL);
    let t0 = WallTime::from_nanos(0);
    scene.envelope.push(&scene.block(7, t0, &[1.0, 2.0]));
    scene.epoch = Epoch { start_ns: 2, incarnation: 2 };
    scene.envelope.push(&scene.block(0, WallTime::from_nanos(3_000_000), &[3.0]));
    let values = |envelope: &Envelope| -> Vec<Option<f64>> {
        let points = envelope.points(t0, WallTime::from_nanos(10_000_000));
        points.iter().map(|point| point.value).collect()
    };
    assert_eq!(values(&scene.envelope), [Some(1.0), Some(2.0), None, Some(3.0)]);
}

#[test]
fn a_clock_that_was_set_back_begins_the_memory_anew() {
    let mut scene = Scene::new("1k", SMALL);
    scene.envelope.push(&scene.block(0, WallTime::from_nanos(60_000_000_000), &[1.0, 2.0]));
    scene.epoch = Epoch { start_ns: 2, incarnation: 2 };
    let t0 = WallTime::from_nanos(50_000_000_000);
    scene.envelope.push(&scene.block(0, t0, &[3.0]));
    assert_eq!(scene.envelope.memory_from(), Some(t0));
    let columns = scene.envelope.columns(&ColumnGrid { from: t0, column_ns: 1_000_000, count: 1 });
    assert_eq!((columns[0].min, columns[0].present, columns[0].expected), (3.0, 1, 1));
    assert_eq!(scene.envelope.points(WallTime::from_nanos(0), t0.offset(1)).len(), 1);
}

#[test]
fn what_was_seen_already_is_passed_over() {
    let mut scene = Scene::new("1k", SMALL);
    let t0 = WallTime::from_nanos(0);
    scene.envelope.push(&scene.block(0, t0, &[1.0, 2.0, 3.0]));
    scene.envelope.push(&scene.block(1, scene.rate.time_of(1, 0, t0), &[9.0, 9.0, 4.0]));
    let columns = scene.envelope.columns(&ColumnGrid { from: t0, column_ns: 10_000_000, count: 1 });
    assert_eq!((columns[0].max, columns[0].present), (4.0, 4));
}

#[test]
fn blocks_of_an_archive_give_the_same_columns_as_the_live_memory() {
    let mut scene = Scene::new("1000/3", SMALL);
    let t0 = WallTime::from_nanos(123);
    let values: Vec<f64> = (0..900).map(|index| f64::from(index % 17)).collect();
    let blocks: Vec<Block> = values
        .chunks(70)
        .enumerate()
        .map(|(number, values)| {
            let index = number as u64 * 70;
            scene.block(index, scene.rate.time_of(index, 0, t0), values)
        })
        .collect();
    let grid = ColumnGrid { from: WallTime::from_nanos(55), column_ns: 13_777_777, count: 200 };
    let mut archived = grid.empty_columns();
    let reader = ElementReader::new(&scene.schema, 0).unwrap();
    for block in &blocks {
        scene.envelope.push(block);
        grid.add_block(&mut archived, block, reader);
    }
    for (live, archived) in scene.envelope.columns(&grid).iter().zip(&archived) {
        assert!(same(live.min, archived.min) && same(live.max, archived.max));
        assert!(same(live.mean, archived.mean) || (live.mean - archived.mean).abs() < 1e-9);
        assert_eq!((live.present, live.expected), (archived.present, archived.expected));
    }
}

#[test]
fn kept_samples_have_the_places_that_they_were_pushed_with() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut scene = Scene::new("1000", SMALL);
        scene.fill(&mut random, 6_000);
        let kept = scene.envelope.kept(WallTime::from_nanos(0), WallTime::from_nanos(i64::MAX / 2));
        let first = scene.plain.len() - SMALL.tail_samples;
        // NaN is a value.
        let pushed = (0..).zip(&scene.plain).skip(first).filter_map(|(index, (time, value))| {
            Some((Some((scene.epoch, index)), *time, (*value)?.to_bits()))
        });
        let written = kept.iter().map(|kept| (kept.place, kept.time, kept.value.to_bits()));
        assert!(written.eq(pushed), "seed {seed}");
        // Those of an epoch before are kept, without a place.
        scene.epoch = Epoch { start_ns: 2, incarnation: 1 };
        let later = kept.last().unwrap().time.offset(5_000_000_000);
        scene.envelope.push(&scene.block(70, later, &[1.0, 2.0]));
        let kept = scene.envelope.kept(later.offset(-10_000_000_000), later.offset(1_000_000_000));
        let places: Vec<_> = kept.iter().map(|kept| kept.place).collect();
        assert_eq!(places[places.len() - 2..], [Some((scene.epoch, 70)), Some((scene.epoch, 71))]);
        assert!(places.len() > 2 && places[..places.len() - 2].iter().all(Option::is_none), "seed {seed}");
    }
}
