//! Recorded signals against `data/README.md`: counts, rates, units, first values, holes.
//!
//! Signals that are not shipped are tested if they were fetched; the others are reported as skipped.

use std::num::NonZeroU64;

use source::{HoleKind, Piece, Source, Timing, signals};

/// Content of a signal.
struct Found {
    description: source::Description,
    bytes: Vec<u8>,
    /// Number of samples before a hole, and in it.
    holes: Vec<(u64, u64)>,
}

/// Reads a signal to its end; `None` if it was not fetched.
fn read(name: &str) -> Option<Found> {
    let signal = signals::find(name).expect("a name of the catalogue");
    if !signal.is_present() {
        println!("SKIPPED: the signal `{name}` is not here; bring it with `cargo xtask data`");
        return None;
    }
    let mut source = signal.open().expect("a signal that is here can be opened");
    let description = source.description().clone();
    let sample_bytes = description.schema.sample_bytes();
    let (mut bytes, mut holes) = (Vec::new(), Vec::new());
    loop {
        match source.next(NonZeroU64::MAX).expect("a whole file") {
            Piece::Samples(run) => bytes.extend_from_slice(run),
            Piece::Timed { .. } => panic!("a recorded signal has a rate, no times of its own"),
            Piece::Hole { samples, why: HoleKind::Recording } => {
                holes.push(((bytes.len() / sample_bytes) as u64, samples));
            }
            Piece::Hole { why, .. } => panic!("a recording has no hole of kind {why:?}"),
            Piece::End => break,
        }
    }
    let missing: u64 = holes.iter().map(|(_, samples)| samples).sum();
    assert_eq!(description.samples, Some((bytes.len() / sample_bytes) as u64 + missing));
    Some(Found { description, bytes, holes })
}

impl Found {
    /// Returns rate, units, and the number of samples present.
    fn summary(&self) -> (String, Vec<&str>, usize) {
        let schema = &self.description.schema;
        let units = schema.channels.iter().map(|channel| channel.unit.as_str()).collect();
        (schema.rate.to_string(), units, self.bytes.len() / schema.sample_bytes())
    }

    /// Returns the first values of the first channel, scaled.
    fn first(&self, count: usize) -> Vec<f64> {
        let schema = &self.description.schema;
        let (size, channel) = (schema.dtype.size_bytes(), &schema.channels[0]);
        let samples = self.bytes.chunks(schema.sample_bytes()).take(count);
        samples
            .map(|sample| schema.dtype.to_f64(&sample[..size]).mul_add(channel.scale, channel.offset))
            .collect()
    }

    fn start_ns(&self) -> Option<i64> {
        match self.description.timing {
            Timing::Recorded { start } => start.map(units::WallTime::as_nanos),
            other => panic!("a recording is not {other:?}"),
        }
    }
}

#[test]
fn the_electrocardiogram_is_five_minutes_in_millivolts() {
    let ecg = read("ecg").expect("it is shipped");
    assert_eq!(ecg.summary(), ("360".into(), vec!["mV"], 108_000));
    let expected = [-0.245, -0.215, -0.185, -0.175, -0.17];
    assert!(ecg.first(5).iter().zip(expected).all(|(value, expected)| (value - expected).abs() < 1e-12));
    assert_eq!(ecg.holes, []);
    let values = ecg.first(108_000);
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    assert!((lowest + 3.485).abs() < 1e-12 && (highest - 3.65).abs() < 1e-12, "{lowest} to {highest} mV");
    assert_eq!(ecg.description.schema.labels["licence"], "ODC-By-1.0");
}

#[test]
fn the_chime_is_a_second_of_stereo() {
    let chime = read("chime").expect("it is shipped");
    assert_eq!(chime.summary(), ("44100".into(), vec!["FS", "FS"], 48_022));
    assert_eq!(chime.description.schema.labels["licence"], "CC-BY-3.0");
}

#[test]
fn the_seismogram_with_gaps_keeps_them() {
    let Some(seismo) = read("seismo-gaps") else { return };
    assert_eq!(seismo.summary(), ("200".into(), vec!["counts"], 52_728));
    assert_eq!(seismo.first(4), [-363.0, -382.0, -388.0, -420.0]);
    assert_eq!(seismo.holes, [(412, 412), (1_236, 412), (2_060, 824)]);
    assert_eq!(seismo.start_ns(), Some(1_199_145_599_915_000_000));
}

#[test]
fn the_earthquake_has_three_components() {
    let Some(seismo) = read("seismo") else { return };
    assert_eq!(seismo.summary(), ("100".into(), vec!["counts"; 3], 3_000));
    assert_eq!(seismo.start_ns(), Some(1_251_073_203_000_000_000));
    assert_eq!(seismo.first(1), [0.0]);
}

#[test]
fn the_slow_and_the_fast_signals_are_whole() {
    if let Some(infrasound) = read("infrasound") {
        assert_eq!(infrasound.summary(), ("20".into(), vec!["counts"], 9_201));
        assert_eq!(infrasound.first(2), [144_977.0, 144_956.0]);
        assert_eq!(infrasound.start_ns(), Some(1_604_102_400_000_000_000));
    }
    if let Some(long) = read("seismo-long") {
        assert_eq!(long.summary(), ("100".into(), vec!["counts"], 32_768));
        assert_eq!(long.first(2), [-528.0, -526.0]);
    }
    if let Some(sound) = read("sound") {
        assert_eq!(sound.summary(), ("48000".into(), vec!["FS", "FS"], 294_128));
    }
}

#[test]
fn a_name_that_is_not_there_is_answered_with_those_that_are() {
    let error = signals::open("egg").err().expect("there is no egg").to_string();
    assert!(error.contains("`egg`") && error.contains("ecg, chime, seismo"), "{error}");
}

#[test]
fn every_stream_name_of_the_catalogue_is_one() {
    for signal in signals::CATALOGUE {
        assert!(signal.stream.parse::<sample::StreamName>().is_ok(), "{}", signal.stream);
    }
}
