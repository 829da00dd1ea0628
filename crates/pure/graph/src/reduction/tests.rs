//! Windows reduced to their statistics, and what holes do to them.

use super::*;
use crate::Hole;
use crate::scene::{Stream, floats};
use units::Random;

fn drain(reduction: &mut Reduction) -> Vec<Output> {
    core::iter::from_fn(|| reduction.poll()).collect()
}

/// Rows of the output by index; `None` within holes.
fn rows(outputs: &[Output], width: usize) -> Vec<Option<Vec<f64>>> {
    let mut rows = Vec::new();
    for output in outputs {
        match output {
            Output::Samples { first_index, samples, data, .. } => {
                assert_eq!(*first_index, rows.len() as u64);
                rows.extend(floats(data).chunks(width).map(|row| Some(row.to_vec())));
                assert_eq!(rows.len() as u64, first_index + samples);
            }
            Output::Hole { first_index, samples, .. } => {
                assert_eq!(*first_index, rows.len() as u64);
                rows.extend((0..*samples).map(|_| None));
            }
        }
    }
    rows
}

#[test]
fn extremes_and_means_are_those_of_each_window() {
    let stream = Stream::new("lab/a", "8");
    let all = vec![Statistic::Min, Statistic::Max, Statistic::Mean, Statistic::Rms, Statistic::N];
    let mut reduction = Reduction::new(4, all).unwrap();
    let values = [3.0, -4.0, 0.0, 5.0, 1.0, f64::NAN, 1.0, 1.0];
    reduction.handle(0, Input::Block(&stream.block(0, &values))).unwrap();
    let outputs = drain(&mut reduction);
    let expected = [vec![-4.0, 5.0, 1.0, 12.5_f64.sqrt(), 4.0], vec![1.0, 1.0, 1.0, 1.0, 3.0]];
    assert_eq!(rows(&outputs, 5), expected.map(Some));
    let schema = reduction.schema().unwrap();
    let names: Vec<&str> = schema.channels.iter().map(|channel| channel.name.as_str()).collect();
    assert_eq!(names, ["x.min", "x.max", "x.mean", "x.rms", "x.n"]);
    assert_eq!((&*schema.channels[0].unit, &*schema.channels[4].unit), ("V", ""));
    assert_eq!(schema.rate, "2".parse().unwrap());
}

#[test]
fn thinning_equals_the_plain_extremes_however_blocks_are_cut() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let stream = Stream::new("lab/a", "1k");
        let samples = 2 + random.below(9);
        let mut plain: Vec<Option<f64>> = vec![Some(0.5)];
        let mut reduction = Reduction::thin(samples as u32).unwrap();
        reduction.handle(0, Input::Block(&stream.block(0, &[0.5]))).unwrap();
        while plain.len() < 300 {
            if random.chance(0.4) {
                plain.extend((0..random.below(30)).map(|_| None));
            }
            let first = plain.len() as u64;
            let values: Vec<f64> = (0..1 + random.below(20)).map(|_| random.unit()).collect();
            plain.extend(values.iter().copied().map(Some));
            reduction.handle(0, Input::Block(&stream.block(first, &values))).unwrap();
        }
        let finished = plain.len() / samples as usize;
        let reduced = rows(&drain(&mut reduction), 4);
        assert_eq!(reduced.len(), finished, "seed {seed}");
        for (row, window) in reduced.iter().zip(plain.chunks(samples as usize)) {
            let present: Vec<f64> = window.iter().filter_map(|value| *value).collect();
            let is_thinned = |row: &[f64]| {
                let min = present.iter().copied().fold(f64::INFINITY, f64::min);
                let max = present.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let n = present.len() as f64;
                let mean = present.iter().sum::<f64>() / n;
                [row[0], row[1], row[3]] == [min, max, n] && (row[2] - mean).abs() < 1e-12
            };
            assert!(row.as_ref().map_or(present.is_empty(), |row| is_thinned(row)), "seed {seed}: {row:?}");
        }
    }
}

#[test]
fn a_window_without_samples_inherits_its_stage() {
    let stream = Stream::new("lab/a", "1k");
    let mut reduction = Reduction::thin(10).unwrap();
    reduction.handle(0, Input::Block(&stream.block(0, &[1.0; 10]))).unwrap();
    let hole = Hole { epoch: stream.epoch, positions: 10..45, stage: Some(Stage::Network) };
    reduction.handle(0, Input::Hole(&hole)).unwrap();
    reduction.handle(0, Input::Block(&stream.block(45, &[2.0; 5]))).unwrap();
    let outputs = drain(&mut reduction);
    let reduced = rows(&outputs, 4);
    assert_eq!(reduced[1..4], [None, None, None]);
    assert_eq!(reduced[4], Some(vec![2.0, 2.0, 2.0, 5.0]));
    for output in &outputs {
        if let Output::Hole { inherited, .. } = output {
            assert_eq!(inherited.stage, Some(Stage::Network));
        }
    }
}

#[test]
fn a_restart_is_a_hole_of_at_least_one_window() {
    let mut stream = Stream::new("lab/a", "1k");
    let mut reduction = Reduction::thin(2).unwrap();
    reduction.handle(0, Input::Block(&stream.block(0, &[1.0; 3]))).unwrap();
    stream.epoch.start_ns = 2;
    stream.anchor = stream.anchor.offset(20_000_000);
    reduction.handle(0, Input::Block(&stream.block(0, &[2.0; 2]))).unwrap();
    let reduced = rows(&drain(&mut reduction), 4);
    assert_eq!(reduced[..2], [Some(vec![1.0, 1.0, 1.0, 2.0]), Some(vec![1.0, 1.0, 1.0, 1.0])]);
    assert_eq!(reduced[2..10], [const { None }; 8]);
    assert_eq!(reduced[10], Some(vec![2.0, 2.0, 2.0, 2.0]));
}

#[test]
fn the_end_puts_out_the_window_that_was_begun() {
    let stream = Stream::new("lab/a", "1k");
    let mut reduction = Reduction::thin(4).unwrap();
    reduction.handle(0, Input::Block(&stream.block(0, &[1.0, 2.0]))).unwrap();
    assert!(reduction.poll().is_none());
    reduction.handle(0, Input::Ended).unwrap();
    assert_eq!(rows(&drain(&mut reduction), 4), [Some(vec![1.0, 2.0, 1.5, 2.0])]);
    // Nothing was begun since.
    reduction.handle(0, Input::Ended).unwrap();
    assert!(reduction.poll().is_none());
    assert_eq!(reduction.totals().offered, 1);
}

#[test]
fn a_reduction_of_nothing_is_refused() {
    assert!(Reduction::thin(1).is_err());
    assert!(Reduction::new(2, vec![]).is_err());
    let slow = Stream::new("lab/a", "1/4000000000");
    let mut reduction = Reduction::thin(2).unwrap();
    let error = reduction.handle(0, Input::Block(&slow.block(0, &[1.0]))).unwrap_err();
    assert!(matches!(error, InputError::Rate { .. }));
}
