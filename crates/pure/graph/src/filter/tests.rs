//! Filters against the analytic prototype, against the past that they do not know, and on broken streams.

use core::f64::consts::PI;

use num_complex::Complex64;
use sample::{Channel, Schema};
use units::{Epoch, Random, RangeSet, SampleRate};

use super::*;
use crate::Hole;
use crate::scene::{Stream, floats};

const EPOCH: Epoch = Epoch { start_ns: 1, incarnation: 1 };

fn rate(hz: u32) -> SampleRate {
    SampleRate::hz(hz).unwrap()
}

/// Returns a filter of any kind for 1,000 samples per second, whose edges and bands are above `least` Hz.
fn any_response(random: &mut Random, least: f64) -> Response {
    let low = least + random.unit() * (300.0 - least);
    let high = low + least + random.unit() * (490.0 - low - least);
    match random.below(4) {
        0 => Response::Lowpass(low),
        1 => Response::Highpass(low),
        2 => Response::Bandpass([low, high]),
        _ => Response::Notch([low, high]),
    }
}

fn any_order(random: &mut Random) -> u32 {
    2 + 2 * random.below(4) as u32
}

/// Filters values that begin after an endless past of zeros.
fn run(design: &Design, values: &mut [f64]) {
    for section in &design.sections {
        section.run(&mut [0.0; 2], values);
    }
}

fn impulse_response(design: &Design, samples: usize) -> Vec<f64> {
    let mut values = vec![0.0; samples];
    values[0] = 1.0;
    run(design, &mut values);
    values
}

/// Returns the magnitude at a frequency: that of the Butterworth prototype after the bilinear transform, whose
/// edges are prewarped.
fn analytic(response: Response, order: u32, hz: f64, rate_hz: f64) -> f64 {
    let warp = |hz: f64| (PI * hz / rate_hz).tan();
    let (low, high) = response.edges();
    let (w, low, high) = (warp(hz), warp(low), warp(high));
    let prototype = match response {
        Response::Lowpass(_) => w / low,
        Response::Highpass(_) => low / w,
        Response::Bandpass(_) => (w * w - low * high) / (w * (high - low)),
        Response::Notch(_) => w * (high - low) / (low * high - w * w),
    };
    1.0 / (1.0 + prototype.powi(2 * order as i32)).sqrt()
}

fn magnitude(impulse_response: &[f64], hz: f64, rate_hz: f64) -> f64 {
    let turn = |n: usize| Complex64::cis(-2.0 * PI * (hz / rate_hz * n as f64).fract());
    let sum: Complex64 = impulse_response.iter().enumerate().map(|(n, value)| turn(n) * *value).sum();
    sum.norm()
}

/// Returns the number of samples after which the impulse response adds no more than `rest`, by adding it up.
fn measured_settling(impulse_response: &[f64], rest: f64) -> usize {
    let mut sum = 0.0;
    let is_rest = |value: &&f64| {
        sum += value.abs();
        sum <= rest
    };
    impulse_response.len() - impulse_response.iter().rev().take_while(is_rest).count()
}

#[test]
fn the_response_is_the_prewarped_butterworth_prototype() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (response, order) = (any_response(&mut random, 1.0), any_order(&mut random));
        let design = response.design(order, rate(1_000)).unwrap();
        // What comes after six times the settling is far below the tolerance.
        let impulse = impulse_response(&design, 6 * design.settling as usize);
        let (low, high) = response.edges();
        let anywhere = (0..5).map(|_| 500.0 * random.unit());
        for hz in anywhere.chain([0.0, low, high, (low * high).sqrt(), 500.0]) {
            let (is, expected) = (magnitude(&impulse, hz, 1e3), analytic(response, order, hz, 1e3));
            let difference = (is - expected).abs();
            assert!(
                difference < 1e-6,
                "seed {seed}: {response}, order {order}: {is}, not {expected}, at {hz} Hz"
            );
        }
    }
}

#[test]
fn low_edges_and_narrow_bands_lose_no_digits() {
    for (response, order) in [
        (Response::Lowpass(1.0), 8),
        (Response::Highpass(1.0), 4),
        (Response::Notch([49.0, 51.0]), 2),
        (Response::Bandpass([49_990.0, 49_999.0]), 4),
    ] {
        let design = response.design(order, rate(100_000)).unwrap();
        let impulse = impulse_response(&design, 4 * design.settling as usize);
        let (low, high) = response.edges();
        for hz in [low, high, (low * high).sqrt(), low * 0.9, low * 1.1] {
            let (is, expected) = (magnitude(&impulse, hz, 1e5), analytic(response, order, hz, 1e5));
            assert!((is - expected).abs() < 1e-6, "{response}: {is}, not {expected}, at {hz} Hz");
        }
    }
}

#[test]
fn settling_is_enough_and_not_much_more() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (response, order) = (any_response(&mut random, 1.0), any_order(&mut random));
        let design = response.design(order, rate(1_000)).unwrap();
        let settling = design.settling as usize;
        let measured = measured_settling(&impulse_response(&design, 6 * settling), 1e-3);
        assert!(
            measured <= settling && settling <= 2 * measured + 8,
            "seed {seed}: {response}, order {order}: {settling} for {measured}"
        );
    }
}

/// Returns the output sample by sample, `None` in holes, and checks that its runs follow each other.
fn samples(filter: &mut Filter, width: usize) -> Vec<Option<Vec<f64>>> {
    let mut samples = Vec::new();
    while let Some(output) = filter.poll() {
        match output {
            Output::Samples { first_index, samples: count, data, .. } => {
                assert_eq!(first_index, samples.len() as u64);
                let values = floats(&data);
                assert_eq!(values.len(), count as usize * width);
                samples.extend(values.chunks(width).map(|sample| Some(sample.to_vec())));
            }
            Output::Hole { first_index, samples: count, .. } => {
                assert_eq!(first_index, samples.len() as u64);
                samples.extend((0..count).map(|_| None));
            }
        }
    }
    let totals = filter.totals();
    assert_eq!(totals.offered, samples.len() as u64);
    assert_eq!(totals.delivered, samples.iter().flatten().count() as u64);
    assert_eq!(totals.offered, totals.delivered + totals.source);
    samples
}

#[test]
fn no_past_moves_a_settled_value_by_more_than_a_thousandth_of_its_distance() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let (response, order) = (any_response(&mut random, 5.0), any_order(&mut random));
        let design = response.design(order, rate(1_000)).unwrap();
        let settling = design.settling as usize;
        let impulse = impulse_response(&design, 5 * settling);
        // The past that is worst for the first settled value: each value adds to the error.
        let future: Vec<f64> = (0..=settling).map(|_| 7.0 + random.unit()).collect();
        let worst = impulse[settling + 1..].iter().map(|it| future[0] + it.signum());
        let mut known: Vec<f64> = worst.rev().chain(future.iter().copied()).collect();
        run(&design, &mut known);
        let mut filter = Filter::new(response, order).unwrap();
        let stream = Stream::new("lab/a", "1000");
        filter.handle(0, Input::Block(&stream.block(0, &future))).unwrap();
        let begun = samples(&mut filter, 1);
        assert!(begun[..settling].iter().all(Option::is_none));
        let error = (begun[settling].as_ref().unwrap()[0] - known.last().unwrap()).abs();
        // Before the worst past come zeros: too far away to matter, but not for the last digit of the limit.
        assert!(error < 1.1e-3, "seed {seed}: {response}, order {order}: {error}");
    }
}

#[test]
fn a_constant_needs_no_time_to_settle() {
    let stream = Stream::new("lab/a", "1000");
    for (response, level) in [
        (Response::Lowpass(10.0), 300.0),
        (Response::Highpass(10.0), 0.0),
        (Response::Bandpass([10.0, 20.0]), 0.0),
        (Response::Notch([49.0, 51.0]), 300.0),
    ] {
        let mut filter = Filter::new(response, 4).unwrap();
        filter.handle(0, Input::Block(&stream.block(0, &[300.0; 10_000]))).unwrap();
        let values: Vec<_> = samples(&mut filter, 1).into_iter().flatten().collect();
        assert!(
            !values.is_empty() && values.iter().all(|value| (value[0] - level).abs() < 1e-9),
            "{response}"
        );
    }
}

/// Makes a block of two channels of `i2`, the second of two elements.
fn wide_block(epoch: Epoch, first_index: u64, samples: u64, missing: RangeSet) -> Block {
    let channels = vec![Channel::new("a", "V").with_scale(0.5, 1.0), Channel::new("b", "A").with_shape([2])];
    let schema = Arc::new(Schema::new(Dtype::I16, rate(1_000), channels).unwrap());
    let elements = (first_index * 3..(first_index + samples) * 3).map(|it| (it * it % 997) as i16);
    let bytes: Vec<u8> = elements.flat_map(i16::to_le_bytes).collect();
    Block {
        stream: Arc::new("lab/x".parse().unwrap()),
        t0: schema.rate.time_of(first_index, 0, WallTime::from_nanos(epoch.start_ns as i64)),
        schema,
        epoch,
        first_index,
        samples,
        data: SampleBuffer::from_bytes(&bytes),
        missing,
    }
}

/// Returns what a filter gives for one run without a hole.
fn alone(response: Response, order: u32, first_index: u64, count: u64) -> Vec<Option<Vec<f64>>> {
    let mut filter = Filter::new(response, order).unwrap();
    filter.handle(0, Input::Block(&wide_block(EPOCH, first_index, count, RangeSet::new()))).unwrap();
    samples(&mut filter, 3)
}

#[test]
fn every_run_between_holes_is_filtered_as_if_it_were_alone() {
    let mut delivered = 0;
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let (response, order) = (any_response(&mut random, 50.0), any_order(&mut random));
        let mut filter = Filter::new(response, order).unwrap();
        // Runs of whole samples, and the holes between them.
        let (mut runs, mut holes) = (Vec::<core::ops::Range<u64>>::new(), 0);
        let start = random.below(5);
        let mut index = start;
        for number in 0..12 {
            if number > 0 && random.chance(0.3) {
                index += random.below(4);
            }
            let count = 1 + random.below(80);
            let broken = random.chance(0.2).then(|| random.below(count * 3));
            let block = wide_block(EPOCH, index, count, broken.map(|it| it..it + 1).into_iter().collect());
            filter.handle(0, Input::Block(&block)).unwrap();
            if random.chance(0.1) {
                filter.handle(0, Input::Block(&block)).unwrap();
            }
            for sample in (index..index + count).filter(|it| broken.map(|at| index + at / 3) != Some(*it)) {
                match runs.last_mut() {
                    Some(run) if run.end == sample => run.end += 1,
                    _ => runs.push(sample..sample + 1),
                }
            }
            index += count;
        }
        let mut expected = Vec::new();
        for run in &runs {
            holes += run.start - start - expected.len() as u64;
            expected.resize((run.start - start) as usize, None);
            expected.extend(alone(response, order, run.start, run.end - run.start));
        }
        expected.resize((index - start) as usize, None);
        assert_eq!(samples(&mut filter, 3), expected, "seed {seed}: {response}, order {order}");
        assert!(filter.totals().source >= holes);
        delivered += filter.totals().delivered;
    }
    assert!(delivered > 10_000, "{delivered}");
}

#[test]
fn a_restart_of_the_publisher_and_a_jump_of_its_clock_are_holes() {
    let filter = || Filter::new(Response::Lowpass(100.0), 2).unwrap();
    let expected = alone(Response::Lowpass(100.0), 2, 0, 60);
    let settling = expected.iter().take_while(|it| it.is_none()).count();
    let mut restarted = filter();
    let later = Epoch { start_ns: 62_000_001, incarnation: 2 };
    for epoch in [EPOCH, later] {
        restarted.handle(0, Input::Block(&wide_block(epoch, 0, 60, RangeSet::new()))).unwrap();
    }
    let both: Vec<_> = [&expected[..], &[None, None], &expected].concat();
    assert_eq!(samples(&mut restarted, 3), both);

    let jump = |by_ns: i64| {
        let mut jumped = filter();
        jumped.handle(0, Input::Block(&wide_block(EPOCH, 0, 60, RangeSet::new()))).unwrap();
        let mut late = wide_block(EPOCH, 60, 60, RangeSet::new());
        late.t0 = late.t0.offset(by_ns);
        jumped.handle(0, Input::Block(&late)).unwrap();
        samples(&mut jumped, 3).iter().filter(|it| it.is_none()).count()
    };
    assert_eq!((jump(2_000_000), jump(2_000_001), jump(-3_000_000)), (settling, 2 * settling, 2 * settling));
}

#[test]
fn settling_samples_have_the_stage_of_the_hole_before_them() {
    let stream = Stream::new("lab/a", "1000");
    let mut filter = Filter::new(Response::Lowpass(100.0), 2).unwrap();
    filter.handle(0, Input::Block(&stream.block(0, &[1.0; 100]))).unwrap();
    let hole = Hole { epoch: stream.epoch, positions: 100..103, stage: Some(Stage::Network) };
    filter.handle(0, Input::Hole(&hole)).unwrap();
    filter.handle(0, Input::Block(&stream.block(103, &[1.0; 100]))).unwrap();
    let settling: u64 = filter.schema().unwrap().labels[SETTLING_LABEL].parse().unwrap();
    let holes: Vec<_> = core::iter::from_fn(|| filter.poll())
        .filter_map(|output| match output {
            Output::Hole { samples, inherited, t0, .. } => Some((samples, inherited.stage, t0)),
            Output::Samples { .. } => None,
        })
        .collect();
    let expected = [
        (settling, Some(Stage::Source), stream.time_of(0)),
        (3, Some(Stage::Network), stream.time_of(100)),
        (settling, Some(Stage::Network), stream.time_of(103)),
    ];
    assert_eq!(holes, expected);
}

#[test]
fn a_value_that_is_no_number_costs_its_element_the_time_to_settle() {
    let response = Response::Lowpass(100.0);
    let design = response.design(2, rate(1_000)).unwrap();
    let settling = design.settling as usize;
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut values: Vec<f64> = (0..200).map(|it| f64::from(it * it % 97)).collect();
        values[90] = bad;
        let stream = Stream::new("lab/a", "1000");
        let mut filter = Filter::new(response, 2).unwrap();
        filter.handle(0, Input::Block(&stream.block(0, &values))).unwrap();
        let filtered: Vec<_> = samples(&mut filter, 1).into_iter().flatten().map(|it| it[0]).collect();
        let mut after = Filter::new(response, 2).unwrap();
        after.handle(0, Input::Block(&stream.block(91, &values[91..]))).unwrap();
        let after: Vec<_> = samples(&mut after, 1).into_iter().flatten().map(|it| it[0]).collect();
        let (before, rest) = filtered.split_at(90 - settling);
        let (nans, rest) = rest.split_at(settling + 1);
        assert!(before.iter().all(|it| it.is_finite()) && nans.iter().all(|it| it.is_nan()));
        assert_eq!(rest, after);
    }
}

#[test]
fn values_too_large_to_filter_do_not_spoil_what_follows() {
    let stream = Stream::new("lab/a", "1000");
    let mut filter = Filter::new(Response::Highpass(100.0), 8).unwrap();
    let huge: Vec<f64> = (0..100).map(|it| if it % 2 == 0 { f64::MAX } else { f64::MIN }).collect();
    filter.handle(0, Input::Block(&stream.block(0, &huge))).unwrap();
    filter.handle(0, Input::Block(&stream.block(100, &[1.0; 1_000]))).unwrap();
    let values = samples(&mut filter, 1);
    assert!(values.last().unwrap().as_ref().unwrap()[0].abs() < 1e-9);
}

#[test]
fn the_output_describes_values_in_the_units_of_the_input() {
    let mut filter = Filter::new(Response::Bandpass([10.0, 20.0]), 4).unwrap();
    assert!(filter.schema().is_none());
    filter.handle(0, Input::Block(&wide_block(EPOCH, 0, 1, RangeSet::new()))).unwrap();
    let schema = filter.schema().unwrap();
    schema.check().unwrap();
    assert_eq!((schema.dtype, schema.rate), (Dtype::F8, rate(1_000)));
    let described: Vec<_> =
        schema.channels.iter().map(|it| (&*it.name, &*it.unit, it.scale, it.offset)).collect();
    assert_eq!(described, [("a", "V", 1.0, 0.0), ("b", "A", 1.0, 0.0)]);
    assert_eq!(schema.labels[FILTER_LABEL], "bandpass 10 to 20 Hz, order 4");
}

#[test]
fn filters_that_cannot_be_are_refused_on_both_sides_of_every_limit() {
    for order in [0, 1, 3, 5, 7, 9, 10] {
        assert_eq!(Filter::new(Response::Lowpass(1.0), order).unwrap_err(), FilterError::Order(order));
    }
    for order in [2, 4, 6, 8] {
        Filter::new(Response::Lowpass(1.0), order).unwrap();
    }
    for edge in [0.0, -1.0, f64::INFINITY] {
        for response in [Response::Lowpass(edge), Response::Highpass(edge), Response::Notch([1.0, edge])] {
            assert_eq!(Filter::new(response, 2).unwrap_err(), FilterError::Edge(edge));
        }
    }
    assert!(matches!(Filter::new(Response::Highpass(f64::NAN), 2), Err(FilterError::Edge(_))));
    assert!(matches!(Filter::new(Response::Bandpass([2.0, 2.0]), 2), Err(FilterError::Band { .. })));

    let at = |response: Response, hz| response.design(2, rate(hz));
    assert!(at(Response::Lowpass(499.9), 1_000).is_ok());
    assert!(matches!(at(Response::Lowpass(500.0), 1_000), Err(FilterError::Nyquist { .. })));
    assert!(matches!(at(Response::Notch([49.0, 51.0]), 100), Err(FilterError::Nyquist { .. })));
    assert!(at(Response::Highpass(1.0), 1_000_000).is_ok());
    assert!(matches!(at(Response::Highpass(0.9), 1_000_000), Err(FilterError::Narrow { .. })));
    assert!(at(Response::Notch([49.5, 50.5]), 1_000_000).is_ok());
    assert!(matches!(at(Response::Notch([49.6, 50.4]), 1_000_000), Err(FilterError::Narrow { .. })));
}

#[test]
fn streams_that_cannot_be_filtered_are_refused() {
    let refused = |change: &dyn Fn(&mut Schema)| {
        let mut block = wide_block(EPOCH, 0, 0, RangeSet::new());
        let mut schema = (*block.schema).clone();
        change(&mut schema);
        block.schema = Arc::new(schema);
        Filter::new(Response::Lowpass(1.0), 2).unwrap().handle(0, Input::Block(&block))
    };
    let wide = |elements| refused(&|schema| schema.channels[0].shape = vec![elements - 2]);
    assert!(wide(MAX_FILTERED_ELEMENTS).is_ok());
    assert!(matches!(wide(MAX_FILTERED_ELEMENTS + 1), Err(InputError::Wide { elements: 262_145, .. })));
    let own = refused(&|schema| {
        schema.labels.insert(sample::TIMES_LABEL.to_owned(), sample::OWN_TIMES.to_owned());
    });
    assert!(matches!(own, Err(InputError::OwnTimes { .. })));
    let slow = refused(&|schema| schema.rate = rate(2));
    assert!(matches!(slow, Err(InputError::Filter(FilterError::Nyquist { .. }))));
}
