//! Resampling against sines at the instants of the output, and on broken streams.

use core::f64::consts::TAU;

use sample::{Channel, Dtype};
use units::{Epoch, Random, RangeSet};

use super::*;
use crate::Hole;
use crate::scene::{Row, Stream, feed_broken, rows};

/// Rates of input and output, up and down, with simple and with large terms.
const RATES: [(&str, &str); 9] = [
    ("1000", "500"),
    ("1000", "2000"),
    ("1000", "100"),
    ("44100", "48000"),
    ("48000", "44100"),
    ("1000", "1000/3"),
    ("1000/7", "360"),
    ("1000", "999"),
    ("1000", "1000"),
];

fn rate(text: &str) -> SampleRate {
    text.parse().unwrap()
}

fn ratio(input: &str, output: &str) -> Ratio {
    Ratio::new(rate(input), rate(output)).unwrap()
}

/// Returns the output of one run of values that begins with index 0.
fn resampled(input: &str, output: &str, value: impl Fn(u64) -> f64, samples: u64) -> Vec<Row> {
    let mut resample = Resample::new(rate(output));
    let values: Vec<f64> = (0..samples).map(value).collect();
    resample.handle(0, Input::Block(&Stream::new("lab/a", input).block(0, &values))).unwrap();
    rows(&mut resample)
}

/// Returns how many samples of the input suffice for some hundred samples of the output.
fn enough(input: &str, output: &str) -> u64 {
    300 + (300.0 / ratio(input, output).as_f64()) as u64
}

#[test]
fn what_passes_is_the_same_signal_at_the_instants_of_the_output() {
    let mut random = Random::new(1);
    for (input, output) in RATES {
        let slower = rate(input).as_hz().min(rate(output).as_hz());
        for share in [0.0, 0.01, 0.1, 0.25, 0.399] {
            let (hz, phase) = (share * slower, TAU * random.unit());
            let at = |seconds: f64| (TAU * hz * seconds + phase).sin();
            let in_hz = rate(input).as_hz();
            let rows = resampled(input, output, |it| at(it as f64 / in_hz), enough(input, output));
            let mut compared = 0;
            for (number, row) in
                rows.iter().enumerate().filter_map(|(it, (_, row))| Some((it, row.as_ref()?)))
            {
                let expected = at(number as f64 / rate(output).as_hz());
                let error = (row[0] - expected).abs();
                assert!(error < 2e-5, "{input} to {output}: {error} at {hz} Hz, sample {number}");
                compared += 1;
            }
            assert!(compared > 100, "{input} to {output}: {compared}");
        }
    }
}

#[test]
fn what_would_be_an_alias_is_98_db_weaker() {
    for (input, output) in RATES.into_iter().filter(|(input, output)| ratio(input, output).as_f64() < 1.0) {
        let (in_hz, out_hz) = (rate(input).as_hz(), rate(output).as_hz());
        for share in [0.5, 0.501, 0.6, 1.0, 1.3] {
            let hz = share * out_hz;
            if hz > in_hz / 2.0 {
                continue;
            }
            let sine = |it: u64| (TAU * hz * it as f64 / in_hz + 0.7).sin();
            let rows = resampled(input, output, sine, enough(input, output));
            let greatest = rows.iter().flat_map(|(_, row)| row).map(|row| row[0].abs()).fold(0.0, f64::max);
            assert!(greatest < 1.26e-5, "{input} to {output}: {greatest} at {hz} Hz");
        }
    }
}

#[test]
fn images_of_a_faster_output_are_98_db_weaker() {
    // A sine near half the rate of the input, and its image behind it, at four times the rate.
    let rows = resampled("1000", "4000", |it| (TAU * 0.4 * it as f64).sin(), 1_000);
    let values: Vec<f64> = rows.iter().filter_map(|(_, row)| Some(row.as_ref()?[0])).take(2_000).collect();
    let amplitude = |hz: f64| {
        // The sums of a Hann window keep the two apart.
        let n = values.len() as f64;
        let weight = |it: usize| (core::f64::consts::PI * it as f64 / n).sin().powi(2);
        let part = |of: fn(f64) -> f64| -> f64 {
            let terms = values.iter().enumerate();
            terms.map(|(it, value)| weight(it) * value * of(TAU * hz * it as f64 / 4e3)).sum()
        };
        part(f64::sin).hypot(part(f64::cos)) * 4.0 / n
    };
    assert!((amplitude(400.0) - 1.0).abs() < 1e-4);
    for image in [600.0, 1_400.0, 1_600.0] {
        assert!(amplitude(image) < 1.26e-5, "{} at {image} Hz", amplitude(image));
    }
}

#[test]
fn a_constant_stays_itself_and_equal_rates_change_nothing() {
    for (input, output) in RATES {
        let rows = resampled(input, output, |_| 300.0, enough(input, output));
        let values: Vec<_> = rows.iter().flat_map(|(_, row)| row).collect();
        assert!(values.iter().all(|it| (it[0] - 300.0).abs() < 1e-10) && values.len() > 100);
    }
    let rows = resampled("1000", "1000", |it| it as f64, 50);
    assert!(rows.iter().enumerate().all(|(it, (_, row))| row.as_deref() == Some(&[it as f64])));
    assert_eq!(rows.len(), 50);
}

#[test]
fn a_faster_output_passes_every_sample_of_a_slow_signal_through() {
    let rows = resampled("1000", "3000", |it| (TAU * 0.01 * it as f64).cos(), 400);
    for (number, row) in rows.iter().enumerate().filter_map(|(it, (_, row))| Some((it, row.as_ref()?))) {
        assert!((row[0] - (TAU * 0.01 * number as f64 / 3.0).cos()).abs() < 2e-5);
    }
}

/// Returns, from the first instant of the output that is not before `first`, whether all samples around each arrived; up to
/// the first that is not decided.
fn expected(ratio: Ratio, first: u64, whole: &RangeSet, end: u64) -> Vec<bool> {
    let (up, down) = (ratio.up, ratio.down);
    // 32 periods of the slower rate in samples of the input.
    let reach = if up == down { 0 } else { (32 * up.max(down)).div_ceil(up) };
    let mut all = Vec::new();
    for output in (first * up).div_ceil(down).. {
        let place = output * down / up;
        if place >= end {
            return all;
        }
        let (from, to) = ((place + 1).checked_sub(reach.max(1)), place + reach);
        let arrived =
            |indices: core::ops::Range<u64>| whole.count_in(indices.clone()) == indices.end - indices.start;
        match from {
            Some(from) if arrived(from..(to + 1).min(end)) => {
                if to >= end {
                    return all;
                }
                all.push(true);
            }
            _ => all.push(false),
        }
    }
    unreachable!("the end comes first")
}

fn value(index: u64) -> f64 {
    (0.02 * index as f64).sin()
}

#[test]
fn every_sample_whose_filter_meets_no_hole_is_computed_and_no_other() {
    let (mut delivered, mut source) = (0, 0);
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (input, output) = RATES[random.below(RATES.len() as u64) as usize];
        let ratio = ratio(input, output);
        let mut resample = Resample::new(rate(output));
        let mut stream = Stream::new("lab/a", input);
        let mut due = None;
        for epoch in 0..3_u32 {
            stream.epoch = Epoch { start_ns: 1 + u64::from(epoch), incarnation: u64::from(epoch) + 1 };
            let first = random.below(300);
            let blocks = 10 + random.below(20);
            let (whole, end) = feed_broken(&mut resample, &mut random, &stream, first, blocks, value);
            let what = format!("seed {seed}, epoch {epoch}: {input} to {output}");
            let mut is = rows(&mut resample);
            let expected = expected(ratio, first, &whole, end);
            let outputs = ratio.outputs_before(first);
            let time_of = |output: u64| ratio.time_of(output, 0, stream.anchor);
            if let Some(due) = due {
                let periods = time_of(outputs).nanos_since(due) as f64 * rate(output).as_hz() / 1e9;
                let seam = is.drain(..periods.round().max(1.0) as usize);
                assert!(seam.into_iter().all(|(_, row)| row.is_none()), "{what}");
            }
            assert_eq!(is.iter().map(|(_, row)| row.is_some()).collect::<Vec<_>>(), expected, "{what}");
            for (number, (time, row)) in (outputs..).zip(&is) {
                assert!(time.nanos_since(time_of(number)).abs() <= 3, "{what}, sample {number}");
                let expected = value(0) + (0.02 * number as f64 * ratio.down as f64 / ratio.up as f64).sin();
                // The sine is below what passes unless the output is much slower.
                let is_close = |row: &Vec<f64>| (row[0] - expected).abs() < 2e-5;
                assert!(row.as_ref().is_none_or(is_close), "{what}, sample {number}: {row:?}");
            }
            due = Some(time_of(outputs + is.len() as u64));
            // Never half a period of the output, where rounding would decide.
            let apart_ns = (0.287e9 / stream.schema.rate.as_hz()) as i64;
            stream.anchor = stream.time_of(end + random.below(500)).offset(apart_ns);
        }
        delivered += resample.totals().delivered;
        source += resample.totals().source;
    }
    assert!(delivered > 50_000 && source > 50_000, "{delivered}, {source}");
}

#[test]
fn times_are_exact_on_the_grid_of_the_output() {
    for (input, output) in RATES {
        let mut random = Random::new(3);
        let stream = Stream::new("lab/a", input);
        let mut resample = Resample::new(rate(output));
        let mut index = 0;
        while index < 200_000 {
            let count = 1 + random.below(5_000);
            let block = stream.block(index, &vec![0.0; count as usize]);
            resample.handle(0, Input::Block(&block)).unwrap();
            index += count;
            while let Some(run) = resample.poll() {
                let (Output::Samples { first_index, t0, .. } | Output::Hole { first_index, t0, .. }) = run;
                assert_eq!(t0, rate(output).time_of(first_index, 0, stream.anchor), "{input} to {output}");
            }
        }
        let due = rate(output).as_hz() / rate(input).as_hz() * index as f64;
        let offered = resample.totals().offered as f64;
        assert!(due - 40.0 * ratio(input, output).as_f64().max(1.0) <= offered && offered <= due + 1.0);
    }
}

#[test]
fn times_follow_a_clock_that_is_not_at_its_rate() {
    // Each block is a microsecond later than the rate says.
    let stream = Stream::new("lab/a", "1000");
    let mut resample = Resample::new(rate("250"));
    for number in 0..100 {
        let mut block = stream.block(number * 40, &[0.0; 40]);
        block.t0 = block.t0.offset(1_000 * number as i64);
        resample.handle(0, Input::Block(&block)).unwrap();
    }
    for (number, (time, _)) in rows(&mut resample).into_iter().enumerate() {
        let late_ns = time.nanos_since(stream.time_of(4 * number as u64));
        // The block that decides a sample is at most 128 samples and a block behind it.
        let block = number as i64 / 10;
        assert!((1_000 * block..=1_000 * (block + 5)).contains(&late_ns), "sample {number}: {late_ns}");
    }
}

#[test]
fn the_margin_beside_a_hole_is_part_of_it_with_its_stage() {
    let stream = Stream::new("lab/a", "1000");
    let mut resample = Resample::new(rate("500"));
    resample.handle(0, Input::Block(&stream.block(0, &[1.0; 1_000]))).unwrap();
    let hole = Hole { epoch: stream.epoch, positions: 1_000..1_003, stage: Some(Stage::Network) };
    resample.handle(0, Input::Hole(&hole)).unwrap();
    resample.handle(0, Input::Block(&stream.block(1_003, &[1.0; 997]))).unwrap();
    resample.handle(0, Input::Ended).unwrap();
    let runs: Vec<_> = core::iter::from_fn(|| resample.poll())
        .map(|output| match output {
            Output::Hole { t0, samples, inherited, .. } => (t0, samples, inherited.stage),
            Output::Samples { t0, samples, .. } => (t0, samples, None),
        })
        .collect();
    // The filter reaches over 64 samples of the input on each side.
    let expected = [
        (0, 32, Some(Stage::Source)),
        (64, 436, None),
        (936, 34, Some(Stage::Network)),
        (1_004, 31, Some(Stage::Network)),
        (1_066, 435, None),
        (1_936, 32, Some(Stage::Source)),
    ];
    assert_eq!(runs, expected.map(|(index, samples, stage)| (stream.time_of(index), samples, stage)));
}

#[test]
fn a_jump_of_the_clock_is_a_boundary() {
    let stream = Stream::new("lab/a", "1000");
    let jump = |by_ns: i64| {
        let mut resample = Resample::new(rate("500"));
        resample.handle(0, Input::Block(&stream.block(0, &[1.0; 1_000]))).unwrap();
        let mut late = stream.block(1_000, &[1.0; 1_000]);
        late.t0 = late.t0.offset(by_ns);
        resample.handle(0, Input::Block(&late)).unwrap();
        rows(&mut resample).iter().filter(|(_, row)| row.is_none()).count()
    };
    // 32 at the begin, and 32 on each side of the jump.
    assert_eq!((jump(2_000_000), jump(2_000_001), jump(-3_000_000)), (32, 96, 96));
}

#[test]
fn a_value_that_is_no_number_spoils_the_samples_that_it_counts_for() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let rows = resampled("1000", "2000", |it| if it == 500 { bad } else { 1.0 }, 1_000);
        for (number, row) in rows.iter().enumerate().filter_map(|(it, (_, row))| Some((it, row.as_ref()?))) {
            let distance = (number as f64 / 2.0 - 500.0).abs();
            // Where the last weight is zero, NaN counts all the same.
            if distance != 32.0 {
                assert_eq!(row[0].is_nan(), distance < 32.0, "sample {number}");
            }
        }
    }
}

#[test]
fn channels_keep_shapes_and_units_and_narrow_types_stay_narrow() {
    let channels = vec![Channel::new("a", "V").with_scale(0.5, 1.0), Channel::new("b", "A").with_shape([2])];
    let mut block = Stream::new("lab/a", "1000").block(0, &[]);
    let bytes: Vec<u8> = (0..600).flat_map(|it| (it % 3 * 2_i16).to_le_bytes()).collect();
    (block.samples, block.data) = (200, SampleBuffer::from_bytes(&bytes));
    block.schema = Arc::new(Schema::new(Dtype::I16, rate("1000"), channels).unwrap());
    let mut resample = Resample::new(rate("2000"));
    resample.handle(0, Input::Block(&block)).unwrap();
    let schema = resample.schema().unwrap();
    assert_eq!((schema.dtype, schema.rate), (Dtype::F4, rate("2000")));
    let described: Vec<_> =
        schema.channels.iter().map(|it| (&*it.name, &*it.unit, &it.shape[..], it.scale, it.offset)).collect();
    assert_eq!(described, [("a", "V", &[][..], 1.0, 0.0), ("b", "A", &[2][..], 1.0, 0.0)]);
    assert_eq!(schema.labels[RESAMPLED_LABEL], "from 1000 samples per second, 0 to 400 Hz");
    assert_eq!(resample.passes(), 2.0);
    let samples = core::iter::from_fn(|| resample.poll()).filter_map(|output| match output {
        Output::Samples { data, .. } => Some(data),
        Output::Hole { .. } => None,
    });
    let values: Vec<f64> = samples
        .flat_map(|data| {
            let values: Vec<_> = data.as_bytes().chunks_exact(4).map(|it| Dtype::F4.to_f64(it)).collect();
            values
        })
        .collect();
    assert!(values.len() > 300);
    assert!(values.chunks(3).all(|row| row.iter().zip([1.0, 2.0, 4.0]).all(|(a, b)| (a - b).abs() < 1e-5)));
}

#[test]
fn what_cannot_be_is_refused_on_both_sides_of_every_limit() {
    let taken = |output: &str, change: &dyn Fn(&mut Schema)| {
        let mut block = Stream::new("lab/a", "1000").block(0, &[]);
        let mut schema = (*block.schema).clone();
        change(&mut schema);
        block.schema = Arc::new(schema);
        Resample::new(rate(output)).handle(0, Input::Block(&block))
    };
    let from = |input: &str, output: &str| taken(output, &|schema| schema.rate = rate(input));
    from("32768", "1").unwrap();
    from("512", "32767").unwrap();
    from("1", "64").unwrap();
    for (input, output) in [("32769", "1"), ("512", "32769"), ("1", "65"), ("4294967295", "1/4294967295")] {
        let error = from(input, output).unwrap_err().to_string();
        assert!(error.contains("cannot be resampled to") && error.contains("take two steps"), "{error}");
    }
    let wide = |elements| taken("2000", &|schema| schema.channels[0].shape = vec![elements]);
    wide(1 << 18).unwrap();
    assert!(matches!(wide((1 << 18) + 1), Err(InputError::Reach { values: 16_777_280, .. })));
    for dtype in Dtype::ALL {
        let is_real = !matches!(dtype, Dtype::C8 | Dtype::C16 | Dtype::Bool);
        assert_eq!(taken("500", &|schema| schema.dtype = dtype).is_ok(), is_real, "{dtype}");
    }
    let own = taken("500", &|schema| {
        schema.labels.insert(sample::TIMES_LABEL.to_owned(), sample::OWN_TIMES.to_owned());
    });
    assert!(matches!(own, Err(InputError::OwnTimes { .. })));
}
