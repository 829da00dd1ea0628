//! Spectra against the sums that define them, and on broken streams.

use core::f64::consts::{PI, TAU};

use num_complex::Complex64;
use units::{Epoch, Random, RangeSet, SampleRate};

use super::*;
use crate::Hole;
use crate::scene::{Row, Stream, feed_broken, rows};

const WINDOWS: [SpectralWindow; 4] = [
    SpectralWindow::Hann,
    SpectralWindow::Rectangular,
    SpectralWindow::BlackmanHarris,
    SpectralWindow::Flattop,
];

fn config(samples: u32, overlap: f64, window: SpectralWindow, scale: SpectrumScale) -> SpectrumConfig {
    SpectrumConfig { samples, overlap, window, scale, average: 1 }
}

/// Returns the spectra of one run of values at 1,000 samples per second.
fn spectra(config: SpectrumConfig, values: &[f64]) -> Vec<Vec<f64>> {
    let mut spectrum = Spectrum::new(config).unwrap();
    let stream = Stream::new("lab/a", "1000");
    spectrum.handle(0, Input::Block(&stream.block(0, values))).unwrap();
    rows(&mut spectrum).into_iter().filter_map(|(_, row)| row).collect()
}

fn any_window(random: &mut Random) -> SpectralWindow {
    WINDOWS[random.below(4) as usize]
}

fn noise(random: &mut Random, samples: u64) -> Vec<f64> {
    (0..samples).map(|_| 6.0 * random.unit() - 2.0).collect()
}

/// Returns the density by its definition, term by term.
fn defined(window: SpectralWindow, values: &[f64], rate_hz: f64) -> Vec<f64> {
    let (n, weights) = (values.len(), window.weights(values.len()));
    let squares: f64 = weights.iter().map(|it| it * it).sum();
    let density = |bin: usize| {
        let turn = |index: usize| Complex64::cis(-TAU * ((bin * index) % n) as f64 / n as f64);
        let sum: Complex64 = (0..n).map(|index| turn(index) * values[index] * weights[index]).sum();
        let sides = if bin == 0 || 2 * bin == n { 1.0 } else { 2.0 };
        sides * sum.norm_sqr() / (rate_hz * squares)
    };
    (0..=n / 2).map(density).collect()
}

fn assert_close(is: &[f64], expected: &[f64], what: &str) {
    assert_eq!(is.len(), expected.len(), "{what}");
    let all: f64 = expected.iter().sum();
    for (bin, (is, expected)) in is.iter().zip(expected).enumerate() {
        assert!((is - expected).abs() < 1e-12 * (1.0 + all), "{what}: {is}, not {expected}, in bin {bin}");
    }
}

#[test]
fn a_density_is_what_its_definition_says_for_every_length() {
    let mut random = Random::new(1);
    for samples in (2..100).chain([127, 128, 243, 500]) {
        let window = any_window(&mut random);
        let values = noise(&mut random, samples);
        let is = spectra(config(samples as u32, 0.0, window, SpectrumScale::Density), &values);
        assert_close(&is[0], &defined(window, &values, 1e3), &format!("{samples} samples, {window:?}"));
    }
}

#[test]
fn the_density_over_all_bins_is_the_weighted_mean_square() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let (samples, window) = (2 + random.below(400), any_window(&mut random));
        let values = noise(&mut random, samples);
        let is = spectra(config(samples as u32, 0.0, window, SpectrumScale::Density), &values);
        let power: f64 = is[0].iter().sum::<f64>() * 1e3 / samples as f64;
        let weights = window.weights(samples as usize);
        let squares: f64 = weights.iter().map(|it| it * it).sum();
        let weighted: f64 = values.iter().zip(&weights).map(|(x, w)| (x * w).powi(2)).sum();
        let expected = weighted / squares;
        assert!((power / expected - 1.0).abs() < 1e-11, "seed {seed}: {power}, not {expected}");
    }
}

#[test]
fn the_power_of_a_sine_on_a_bin_is_half_its_squared_amplitude() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (samples, window) = (32 + random.below(500), any_window(&mut random));
        // Five terms reach four bins: from there on neither 0 Hz nor half the rate is near.
        let bin = 5 + random.below(samples / 2 - 10);
        let (amplitude, phase, mean) = (0.1 + 9.0 * random.unit(), TAU * random.unit(), 3.0);
        let angle = |index: u64| TAU * ((bin * index) % samples) as f64 / samples as f64 + phase;
        let values: Vec<f64> = (0..samples).map(|it| mean + amplitude * angle(it).sin()).collect();
        let is = spectra(config(samples as u32, 0.0, window, SpectrumScale::Power), &values);
        let read = (2.0 * is[0][bin as usize]).sqrt();
        assert!((read / amplitude - 1.0).abs() < 1e-10, "seed {seed}: {read}, not {amplitude}, {window:?}");
        assert!((is[0][0] / (mean * mean) - 1.0).abs() < 1e-10, "seed {seed}: mean, {window:?}");
    }
}

#[test]
fn a_sine_between_two_bins_reads_low_by_the_stated_loss() {
    for (window, loss_db) in WINDOWS.into_iter().zip([1.42, 3.92, 0.83, 0.01]) {
        let values: Vec<f64> =
            (0..4096).map(|it| (TAU * 1000.5 / 4096.0 * f64::from(it) + 0.3).sin()).collect();
        let is = spectra(config(4096, 0.0, window, SpectrumScale::Power), &values);
        let read_db = 10.0 * (2.0 * is[0][1000].max(is[0][1001])).log10();
        assert!((read_db + loss_db).abs() < 0.01, "{window:?}: {read_db} dB");
    }
}

#[test]
fn white_noise_has_the_same_density_with_every_window() {
    for (seed, window) in WINDOWS.into_iter().enumerate() {
        let values = noise(&mut Random::new(seed as u64), 400_000);
        let averaged = SpectrumConfig { average: 200, ..config(256, 0.5, window, SpectrumScale::Density) };
        let all = spectra(averaged, &values);
        // A uniform distribution over 6 V has a variance of 3 V², here spread over 500 Hz. The mean of 1 V is in the first bins.
        let bins: Vec<f64> = all.iter().flat_map(|row| row[6..120].to_vec()).collect();
        let mean = bins.iter().sum::<f64>() / bins.len() as f64;
        assert!((mean / (3.0 / 500.0) - 1.0).abs() < 0.02, "{window:?}: {mean}");
    }
}

/// What becomes of the samples of one epoch: spectra from index 0 of it on, by definition.
fn expected(config: SpectrumConfig, stream: &Stream, first: u64, whole: &RangeSet, end: u64) -> Vec<Row> {
    let (length, step) = (u64::from(config.samples), u64::from(config.step()));
    let average = u64::from(config.average);
    let (distance, extent) = (step * average, step * (average - 1) + length);
    let mut all = Vec::new();
    for output in first.div_ceil(distance).. {
        let from = output * distance;
        let is_missing = |index: &u64| !whole.contains(*index);
        let row = if (from..(from + extent).min(end)).any(|index| is_missing(&index)) {
            None
        } else if from + extent > end {
            return all;
        } else {
            let mut sums = vec![0.0; config.samples as usize / 2 + 1];
            for segment in 0..average {
                let begin = from + segment * step;
                let values: Vec<f64> = (begin..begin + length).map(value).collect();
                let one = defined(config.window, &values, stream.schema.rate.as_hz());
                sums.iter_mut().zip(one).for_each(|(sum, it)| *sum += it / average as f64);
            }
            Some(sums)
        };
        all.push((stream.time_of(from), row));
    }
    unreachable!("the end comes first")
}

fn value(index: u64) -> f64 {
    ((index * index) % 97) as f64
}

fn assert_rows(is: &[Row], expected: &[Row], what: &str) {
    assert_eq!(is.len(), expected.len(), "{what}");
    for (number, ((time, row), (expected_time, expected_row))) in is.iter().zip(expected).enumerate() {
        let what = format!("{what}, sample {number}");
        assert_eq!(row.is_some(), expected_row.is_some(), "{what}");
        // Rounded down where its block, the grid and its run begin.
        assert!(time.nanos_since(*expected_time).abs() <= 3, "{what}: {time:?}, not {expected_time:?}");
        if let (Some(row), Some(expected)) = (row, expected_row) {
            assert_close(row, expected, &what);
        }
    }
}

#[test]
fn every_segment_without_a_hole_is_computed_and_no_other() {
    let (mut delivered, mut source) = (0, 0);
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let config = SpectrumConfig {
            samples: 2 + random.below(30) as u32,
            overlap: 0.95 * random.unit(),
            window: any_window(&mut random),
            scale: SpectrumScale::Density,
            average: 1 + random.below(4) as u32,
        };
        let mut spectrum = Spectrum::new(config).unwrap();
        let mut stream = Stream::new("lab/a", ["1000", "1000/3", "44100"][random.below(3) as usize]);
        let mut due = None;
        for epoch in 0..3_u32 {
            stream.epoch = Epoch { start_ns: 1 + u64::from(epoch), incarnation: u64::from(epoch) + 1 };
            let first = random.below(200);
            let (whole, end) = feed_broken(&mut spectrum, &mut random, &stream, first, 8, value);
            let what = format!("seed {seed}, epoch {epoch}: {config:?}");
            let mut is = rows(&mut spectrum);
            let expected = expected(config, &stream, first, &whole, end);
            let begins = stream.time_of(first.div_ceil(distance(config)) * distance(config));
            if let Some(due) = due {
                let hz = spectrum.schema().unwrap().rate.as_hz();
                let seam = (begins.nanos_since(due) as f64 * hz / 1e9).round().max(1.0) as usize;
                assert!(is.drain(..seam).all(|(_, row)| row.is_none()), "{what}");
            }
            assert_rows(&is, &expected, &what);
            let outputs = first.div_ceil(distance(config)) + expected.len() as u64;
            due = Some(stream.time_of(outputs * distance(config)));
            // Never half a period of the output, where rounding would decide.
            let apart_ns = (0.287e9 / stream.schema.rate.as_hz()) as i64;
            stream.anchor = stream.time_of(end + random.below(500)).offset(apart_ns);
        }
        delivered += spectrum.totals().delivered;
        source += spectrum.totals().source;
    }
    assert!(delivered > 10_000 && source > 10_000, "{delivered}, {source}");
}

fn distance(config: SpectrumConfig) -> u64 {
    u64::from(config.step()) * u64::from(config.average)
}

#[test]
fn spectra_are_a_whole_number_of_their_periods_apart() {
    let mut random = Random::new(7);
    let stream = Stream::new("lab/a", "44100");
    let settings = config(30, 0.3, SpectralWindow::Hann, SpectrumScale::Density);
    let mut spectrum = Spectrum::new(settings).unwrap();
    let (mut index, mut begin) = (1_234, None);
    while index < 1_000_000 {
        let count = 1 + random.below(2_000);
        let block = stream.block(index, &vec![0.0; count as usize]);
        spectrum.handle(0, Input::Block(&block)).unwrap();
        index += count;
        while let Some(Output::Samples { first_index, t0, .. }) = spectrum.poll() {
            let begin = *begin.get_or_insert(t0);
            assert_eq!(t0, "2100".parse::<SampleRate>().unwrap().time_of(first_index, 0, begin));
        }
    }
}

#[test]
fn the_end_of_a_stream_and_a_jump_of_its_clock_leave_out_what_they_cut() {
    let config = config(10, 0.5, SpectralWindow::Hann, SpectrumScale::Power);
    let stream = Stream::new("lab/a", "1000");
    let whole = |rows: &[Row]| rows.iter().map(|(_, row)| row.is_some()).collect::<Vec<_>>();
    let mut ended = Spectrum::new(config).unwrap();
    ended.handle(0, Input::Block(&stream.block(0, &[1.0; 22]))).unwrap();
    assert_eq!(whole(&rows(&mut ended)), [true; 3]);
    ended.handle(0, Input::Ended).unwrap();
    assert_eq!(whole(&rows(&mut ended)), [false; 2]);

    let jump = |by_ns: i64| {
        let mut jumped = Spectrum::new(config).unwrap();
        jumped.handle(0, Input::Block(&stream.block(0, &[1.0; 22]))).unwrap();
        let mut late = stream.block(22, &[1.0; 22]);
        late.t0 = late.t0.offset(by_ns);
        jumped.handle(0, Input::Block(&late)).unwrap();
        rows(&mut jumped)
    };
    assert_eq!(whole(&jump(2_000_000)), [true; 7]);
    for by_ns in [2_000_001, -3_000_000] {
        let rows = jump(by_ns);
        assert_eq!(whole(&rows), [true, true, true, false, false, true, true]);
        assert_eq!((rows[4].0, rows[5].0), (stream.time_of(20), stream.time_of(25).offset(by_ns)));
    }
}

#[test]
fn a_hole_names_the_stage_of_what_is_missing() {
    let mut spectrum = Spectrum::new(config(10, 0.0, SpectralWindow::Hann, SpectrumScale::Power)).unwrap();
    let stream = Stream::new("lab/a", "1000");
    spectrum.handle(0, Input::Block(&stream.block(0, &[1.0; 15]))).unwrap();
    let hole = Hole { epoch: stream.epoch, positions: 15..31, stage: Some(Stage::Network) };
    spectrum.handle(0, Input::Hole(&hole)).unwrap();
    spectrum.handle(0, Input::Block(&stream.block(31, &[1.0; 19]))).unwrap();
    let holes: Vec<_> = core::iter::from_fn(|| spectrum.poll())
        .filter_map(|output| match output {
            Output::Hole { samples, inherited, t0, .. } => Some((samples, inherited.stage, t0)),
            Output::Samples { .. } => None,
        })
        .collect();
    assert_eq!(holes, [(3, Some(Stage::Network), stream.time_of(10))]);
}

#[test]
fn a_value_that_is_no_number_spoils_the_spectra_that_it_belongs_to() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut values: Vec<f64> = (0..64).map(value).collect();
        values[20] = bad;
        let all = spectra(config(16, 0.5, SpectralWindow::Hann, SpectrumScale::Power), &values);
        for (number, row) in all.iter().enumerate() {
            // Segments begin 8 samples apart.
            let is_bad = (8 * number..8 * number + 16).contains(&20);
            assert!(row.iter().all(|it| it.is_nan() == is_bad), "segment {number}");
        }
    }
}

#[test]
fn a_channel_becomes_bins_in_its_unit_squared() {
    let channels =
        vec![Channel::new("a", "V").with_scale(0.5, 1.0), Channel::new("b", "m/s").with_shape([2, 3])];
    let mut schema = Schema::new(Dtype::I16, SampleRate::hz(1_000).unwrap(), channels).unwrap();
    schema.labels.insert("station".to_owned(), "north".to_owned());
    let mut block = Stream::new("lab/a", "1000").block(0, &[]);
    let values: Vec<i16> = (0..16 * 7).map(|it| if it % 7 == 0 { 4 } else { it % 7 }).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|it| it.to_le_bytes()).collect();
    (block.samples, block.data) = (16, SampleBuffer::from_bytes(&bytes));
    block.schema = Arc::new(schema);
    let settings = config(16, 0.7, SpectralWindow::BlackmanHarris, SpectrumScale::Power);
    let mut spectrum = Spectrum::new(SpectrumConfig { average: 1, ..settings }).unwrap();
    spectrum.handle(0, Input::Block(&block)).unwrap();
    let schema = spectrum.schema().unwrap();
    schema.check().unwrap();
    let described: Vec<_> = schema.channels.iter().map(|it| (&*it.name, &*it.unit, &it.shape[..])).collect();
    assert_eq!(described, [("a", "V²", &[9][..]), ("b", "(m/s)²", &[2, 3, 9][..])]);
    // Segments are 4.8 samples apart, to the nearest sample.
    assert_eq!((schema.dtype, schema.rate.to_string().as_str()), (Dtype::F8, "200"));
    let labels: Vec<_> = schema.labels.iter().map(|(label, value)| (&**label, &**value)).collect();
    assert_eq!(
        labels,
        [
            ("spectrum", "power"),
            ("spectrum_average", "1"),
            ("spectrum_bin_hz", "62.5"),
            ("spectrum_overlap", "0.6875"),
            ("spectrum_samples", "16"),
            ("spectrum_window", "blackman-harris"),
            ("station", "north"),
        ]
    );
    // The mean of each element is in its bin of 0 Hz.
    let row = rows(&mut spectrum).remove(0).1.unwrap();
    let means: Vec<f64> = row.chunks(9).map(|bins| bins[0].sqrt()).collect();
    assert_close(&means, &[3.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "means");
    assert!((spectrum.passes() - 16.0 / 5.0).abs() < 1e-12);
}

#[test]
fn units_are_squared_as_they_are_written() {
    let unit = |unit: &str| (SpectrumScale::Density.unit(unit), SpectrumScale::Power.unit(unit));
    for (of, density, power) in [
        ("V", "V²/Hz", "V²"),
        ("°C", "°C²/Hz", "°C²"),
        ("", "1/Hz", ""),
        ("m/s", "(m/s)²/Hz", "(m/s)²"),
        ("V²", "(V²)²/Hz", "(V²)²"),
    ] {
        assert_eq!(unit(of), (density.to_owned(), power.to_owned()));
    }
}

#[test]
fn what_cannot_be_is_refused_on_both_sides_of_every_limit() {
    let made = |samples, overlap, average| {
        let config = config(samples, overlap, SpectralWindow::Hann, SpectrumScale::Density);
        Spectrum::new(SpectrumConfig { average, ..config })
    };
    for (samples, overlap, average) in
        [(2, 0.0, 1), (MAX_SEGMENT_SAMPLES, 0.999, 1), (2, 0.5, MAX_AVERAGED_SEGMENTS)]
    {
        made(samples, overlap, average).unwrap();
    }
    for samples in [0, 1, MAX_SEGMENT_SAMPLES + 1] {
        assert_eq!(made(samples, 0.5, 1).unwrap_err(), SpectrumError::Segment(samples));
    }
    for overlap in [-0.1, 1.0, f64::INFINITY] {
        assert_eq!(made(8, overlap, 1).unwrap_err(), SpectrumError::Overlap(overlap));
    }
    assert!(matches!(made(8, f64::NAN, 1), Err(SpectrumError::Overlap(_))));
    for average in [0, MAX_AVERAGED_SEGMENTS + 1] {
        assert_eq!(made(8, 0.5, average).unwrap_err(), SpectrumError::Average(average));
    }

    let taken = |samples, change: &dyn Fn(&mut Schema)| {
        let mut block = Stream::new("lab/a", "1000").block(0, &[]);
        let mut schema = (*block.schema).clone();
        change(&mut schema);
        block.schema = Arc::new(schema);
        made(samples, 0.0, 1).unwrap().handle(0, Input::Block(&block))
    };
    let wide = |elements| taken(1 << 12, &|schema| schema.channels[0].shape = vec![elements]);
    wide(1 << 12).unwrap();
    assert!(matches!(wide((1 << 12) + 1), Err(InputError::Segment { values: 16_781_312, .. })));
    let of = |dtype| taken(16, &|schema| schema.dtype = dtype);
    for dtype in Dtype::ALL {
        let is_real = !matches!(dtype, Dtype::C8 | Dtype::C16 | Dtype::Bool);
        assert_eq!(of(dtype).is_ok(), is_real, "{dtype}");
    }
    let error = of(Dtype::C8).unwrap_err().to_string();
    assert!(error.contains("are c8, and a spectrum needs integers or real numbers"), "{error}");
    let own = taken(16, &|schema| {
        schema.labels.insert(sample::TIMES_LABEL.to_owned(), sample::OWN_TIMES.to_owned());
    });
    assert!(matches!(own, Err(InputError::OwnTimes { .. })));
    let slow = taken(1 << 20, &|schema| schema.rate = SampleRate::new(1, 1 << 13).unwrap());
    assert!(matches!(slow, Err(InputError::Rate { .. })));
}

#[test]
fn a_restart_with_another_schema_is_refused_and_the_rest_goes_on() {
    let mut spectrum = Spectrum::new(config(8, 0.0, SpectralWindow::Hann, SpectrumScale::Density)).unwrap();
    let stream = Stream::new("lab/a", "1000");
    spectrum.handle(0, Input::Block(&stream.block(0, &[1.0; 12]))).unwrap();
    let mut faster = Stream::new("lab/a", "2000");
    faster.epoch = Epoch { start_ns: 2, incarnation: 2 };
    let error = spectrum.handle(0, Input::Block(&faster.block(0, &[1.0; 12]))).unwrap_err();
    assert!(error.is_restart());
    spectrum.handle(0, Input::Block(&stream.block(12, &[1.0; 4]))).unwrap();
    assert_eq!(rows(&mut spectrum).iter().filter(|(_, row)| row.is_some()).count(), 2);
}

#[test]
fn windows_are_periodic_and_symmetric() {
    for window in WINDOWS {
        for samples in [2, 3, 8, 9] {
            let weights = window.weights(samples);
            let mirrored = (1..samples).all(|it| (weights[it] - weights[samples - it]).abs() < 1e-12);
            assert!(mirrored, "{window:?}");
        }
    }
    let hann = SpectralWindow::Hann.weights(8);
    assert!((0..8).all(|it| (hann[it] - (PI * it as f64 / 8.0).sin().powi(2)).abs() < 1e-12));
}
