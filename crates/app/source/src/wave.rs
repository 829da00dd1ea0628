//! Test waveforms of any type, rate and number of channels.
//!
//! Sample `n` is a function of `n` alone (except noise, which is also a function of its seed), so a day of a sine
//! ends in phase to the bit. The phases of channels are spread over one turn, so that they can be distinguished.

use core::fmt;
use core::str::FromStr;
use std::f64::consts::TAU;
use std::num::NonZeroU64;

use sample::{Dtype, Schema, SchemaError, StreamName};
use units::{Random, SampleRate};

use crate::numbers::{numbered_channels, push_f64};
use crate::piece::samples_at_once;
use crate::{Description, Piece, Source, SourceError, Timing};

/// Number of levels of a staircase.
const STEPS: f64 = 8.0;
/// Ratio of the highest and the lowest frequency of a chirp.
const CHIRP_FACTOR: f64 = 10.0;
/// Duration of a chirp, in turns of its lowest frequency.
const CHIRP_TURNS: f64 = 10.0;

/// Shape of a waveform.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A sine.
    Sine,
    /// A sine whose frequency rises tenfold, repeatedly.
    Chirp,
    /// A staircase of eight levels.
    Steps,
    /// Uniform noise.
    Noise,
    /// A rise from the lowest to the highest value, then a drop.
    Ramp,
}

impl Shape {
    /// All shapes.
    pub const ALL: [Self; 5] = [Self::Sine, Self::Chirp, Self::Steps, Self::Noise, Self::Ramp];

    /// Returns the name, as used on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sine => "sine",
            Self::Chirp => "chirp",
            Self::Steps => "steps",
            Self::Noise => "noise",
            Self::Ramp => "ramp",
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Error: the text is not the name of a waveform.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is not a waveform; choose sine, chirp, steps, noise or ramp")]
pub struct UnknownShape(pub String);

impl FromStr for Shape {
    type Err = UnknownShape;

    fn from_str(name: &str) -> Result<Self, UnknownShape> {
        let found = Self::ALL.into_iter().find(|shape| shape.name() == name);
        found.ok_or_else(|| UnknownShape(name.to_owned()))
    }
}

/// Options of a waveform.
#[derive(Clone, PartialEq, Debug)]
pub struct WaveOptions {
    /// Name of the stream.
    pub name: StreamName,
    /// Shape of the waveform.
    pub shape: Shape,
    /// Samples per second.
    pub rate: SampleRate,
    /// Number of channels.
    pub channels: usize,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Frequency in turns per second; by default a hundredth of the rate, at most 1 Hz.
    pub frequency_hz: Option<f64>,
    /// Highest value; by default 1 for floats and full scale for integers.
    pub amplitude: Option<f64>,
    /// Seed of noise.
    pub seed: u64,
    /// Number of samples; without end by default.
    pub samples: Option<u64>,
}

/// Reason why a waveform cannot be made.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaveError {
    /// The frequency is too high for the rate.
    #[error(
        "invalid frequency {frequency_hz} Hz: it must be above 0 and at most half the rate of {rate} samples per second"
    )]
    Frequency {
        /// Requested frequency.
        frequency_hz: f64,
        /// Sample rate.
        rate: SampleRate,
    },
    /// The amplitude is invalid.
    #[error("invalid amplitude {0}: it must be a finite number above 0")]
    Amplitude(f64),
    /// The schema is not supported.
    #[error(transparent)]
    Schema(#[from] SchemaError),
}

/// Waveform being generated.
pub struct Wave {
    description: Description,
    shape: Shape,
    /// Turns per sample in units of 2⁻⁶⁴ turns, so that multiplying by the index wraps as phases do.
    step: u64,
    amplitude: f64,
    /// Middle of the type's range: zero, except for unsigned integers.
    middle: f64,
    seed: u64,
    noise: Random,
    next_index: u64,
    buffer: Vec<u8>,
}

impl WaveOptions {
    /// Creates options with defaults: one channel of `f4`.
    #[must_use]
    pub const fn new(name: StreamName, shape: Shape, rate: SampleRate) -> Self {
        Self {
            name,
            shape,
            rate,
            channels: 1,
            dtype: Dtype::F4,
            frequency_hz: None,
            amplitude: None,
            seed: 0,
            samples: None,
        }
    }

    /// Creates the waveform.
    ///
    /// # Errors
    /// Every variant of [`WaveError`].
    pub fn open(&self) -> Result<Wave, WaveError> {
        let rate_hz = self.rate.as_hz();
        let frequency_hz = self.frequency_hz.unwrap_or((rate_hz / 100.0).min(1.0));
        if !(frequency_hz > 0.0 && frequency_hz <= rate_hz / 2.0) {
            return Err(WaveError::Frequency { frequency_hz, rate: self.rate });
        }
        let (full_scale, middle) = range_of(self.dtype);
        let amplitude = self.amplitude.unwrap_or(full_scale);
        if !(amplitude.is_finite() && amplitude > 0.0) {
            return Err(WaveError::Amplitude(amplitude));
        }
        let schema = Schema::new(self.dtype, self.rate, numbered_channels(self.channels))?;
        let description =
            Description { name: self.name.clone(), schema, timing: Timing::OnDemand, samples: self.samples };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most half of 2⁶⁴")]
        let step = (frequency_hz / rate_hz * 2_f64.powi(64)) as u64;
        let noise = Random::for_purpose(self.seed, "noise");
        Ok(Wave {
            description,
            shape: self.shape,
            step,
            amplitude,
            middle,
            seed: self.seed,
            noise,
            next_index: 0,
            buffer: Vec::new(),
        })
    }
}

impl Wave {
    /// Appends the samples from `next_index` on.
    fn append(&mut self, count: u64) {
        let (dtype, channels) =
            (self.description.schema.dtype, self.description.schema.channels.len() as u64);
        let spread = u64::MAX / channels;
        // A chirp has a longer period with a phase law of its own; the others have one turn per period.
        let step = if self.shape == Shape::Chirp { chirp_step(self.step) } else { self.step };
        for index in self.next_index..self.next_index + count {
            let phase = step.wrapping_mul(index);
            for channel in 0..channels {
                let value = match self.shape {
                    Shape::Noise => self.noise.unit().mul_add(2.0, -1.0),
                    shape => shape_at(shape, turns(phase.wrapping_add(spread.wrapping_mul(channel)))),
                };
                let scaled = value.mul_add(self.amplitude, self.middle);
                push_value(scaled, dtype, &mut self.buffer);
            }
        }
        self.next_index += count;
    }
}

impl Source for Wave {
    fn description(&self) -> &Description {
        &self.description
    }

    fn next(&mut self, at_most: NonZeroU64) -> Result<Piece<'_>, SourceError> {
        let left = self.description.samples.unwrap_or(u64::MAX) - self.next_index;
        let count = samples_at_once(at_most, self.description.schema.sample_bytes()) as u64;
        self.buffer.clear();
        self.append(count.min(left));
        Ok(if self.buffer.is_empty() { Piece::End } else { Piece::Samples(&self.buffer) })
    }

    fn rewind(&mut self) -> Result<(), SourceError> {
        self.next_index = 0;
        self.noise = Random::for_purpose(self.seed, "noise");
        Ok(())
    }
}

/// Returns a phase in turns, `[0, 1)`.
fn turns(phase: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exactly what an f64 holds")]
    let bits = (phase >> 11) as f64;
    bits / 9_007_199_254_740_992.0
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a fraction of 2⁶⁴"
)]
fn chirp_step(step: u64) -> u64 {
    (step as f64 / CHIRP_TURNS) as u64
}

/// Returns the value, −1 to 1, at a phase of the period.
fn shape_at(shape: Shape, turns: f64) -> f64 {
    match shape {
        Shape::Sine => (turns * TAU).sin(),
        // The integral of a frequency that rises from 1 to CHIRP_FACTOR over CHIRP_TURNS.
        Shape::Chirp => {
            let passed = ((CHIRP_FACTOR - 1.0) * turns / 2.0 + 1.0) * turns * CHIRP_TURNS;
            (passed * TAU).sin()
        }
        Shape::Steps => (turns * STEPS).floor() / (STEPS - 1.0) * 2.0 - 1.0,
        Shape::Ramp | Shape::Noise => turns.mul_add(2.0, -1.0),
    }
}

/// Appends floats directly: they are the case that must be fast.
fn push_value(value: f64, dtype: Dtype, out: &mut Vec<u8>) {
    #[expect(clippy::cast_possible_truncation, reason = "what an f4 is")]
    match dtype {
        Dtype::F4 => out.extend_from_slice(&(value as f32).to_le_bytes()),
        Dtype::F8 => out.extend_from_slice(&value.to_le_bytes()),
        Dtype::Bool => out.push(u8::from(value >= 0.0)),
        _ => push_f64(value, dtype, out),
    }
}

/// Returns the default amplitude and the middle of a type's range.
fn range_of(dtype: Dtype) -> (f64, f64) {
    let signed = |bits: i32| (2_f64.powi(bits - 1) - 1.0, 0.0);
    let unsigned = |bits: i32| ((2_f64.powi(bits) - 1.0) / 2.0, (2_f64.powi(bits) - 1.0) / 2.0);
    match dtype {
        Dtype::I8 => signed(8),
        Dtype::I16 => signed(16),
        Dtype::I32 => signed(32),
        Dtype::I64 => signed(64),
        Dtype::U8 => unsigned(8),
        Dtype::U16 => unsigned(16),
        Dtype::U32 => unsigned(32),
        Dtype::U64 => unsigned(64),
        Dtype::F4 | Dtype::F8 | Dtype::C8 | Dtype::C16 | Dtype::Bool => (1.0, 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::piece::testing::{drain, floats, plenty};

    fn options(shape: Shape, rate: &str) -> WaveOptions {
        WaveOptions::new("test".parse().unwrap(), shape, rate.parse().unwrap())
    }

    fn values(options: &WaveOptions) -> Vec<f64> {
        let mut wave = options.open().unwrap();
        let (bytes, _) = drain(&mut wave).unwrap();
        floats(&wave, &bytes)
    }

    #[test]
    fn a_sine_goes_up_first_and_its_channels_are_spread() {
        let sine = WaveOptions {
            frequency_hz: Some(1.0),
            dtype: Dtype::F8,
            channels: 2,
            samples: Some(4),
            ..options(Shape::Sine, "4")
        };
        let expected = [0.0, 0.0, 1.0, -1.0, 0.0, 0.0, -1.0, 1.0];
        assert!(values(&sine).iter().zip(expected).all(|(value, expected)| (value - expected).abs() < 1e-12));
    }

    #[test]
    fn a_year_at_a_million_samples_does_not_drift() {
        let mut wave = options(Shape::Sine, "1M").open().unwrap();
        wave.next_index = 31_536_000 * 1_000_000;
        let Piece::Samples(bytes) = wave.next(NonZeroU64::MIN).unwrap() else { panic!("a wave has samples") };
        assert!(Dtype::F4.to_f64(bytes).abs() < 1e-4);
    }

    #[test]
    fn every_type_is_filled_to_its_ends_and_not_beyond() {
        for dtype in Dtype::ALL {
            let ramp = WaveOptions {
                dtype,
                frequency_hz: Some(1.0),
                samples: Some(1_000),
                ..options(Shape::Steps, "1000")
            };
            let values = values(&ramp);
            let (full_scale, middle) = range_of(dtype);
            let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
            let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let expected = match dtype {
                Dtype::Bool => (0.0, 1.0),
                // A complex number is read as its magnitude.
                Dtype::C8 | Dtype::C16 => (1.0 / 7.0, 1.0),
                _ => (middle - full_scale, middle + full_scale),
            };
            assert!((lowest - expected.0).abs() <= full_scale * 1e-6, "{dtype} {lowest}");
            assert!((highest - expected.1).abs() <= full_scale * 1e-6, "{dtype} {highest}");
        }
    }

    #[test]
    fn noise_repeats_with_its_seed() {
        let noise = |seed| values(&WaveOptions { seed, samples: Some(100), ..options(Shape::Noise, "10") });
        assert_eq!(noise(7), noise(7));
        assert_ne!(noise(7), noise(8));
        let mut wave = WaveOptions { samples: Some(5), ..options(Shape::Noise, "10") }.open().unwrap();
        let first = drain(&mut wave).unwrap();
        wave.rewind().unwrap();
        assert_eq!(drain(&mut wave).unwrap(), first);
    }

    #[test]
    fn a_chirp_begins_slowly_and_ends_fast() {
        let chirp =
            WaveOptions { frequency_hz: Some(1.0), samples: Some(10_000), ..options(Shape::Chirp, "1000") };
        let values = values(&chirp);
        let crossings = |part: &[f64]| part.windows(2).filter(|pair| pair[0] < 0.0 && pair[1] >= 0.0).count();
        let (early, late) = (crossings(&values[..1_000]), crossings(&values[9_000..]));
        assert!((1..=2).contains(&early), "{early} turns in the first second");
        assert!((9..=10).contains(&late), "{late} turns in the last second");
    }

    #[test]
    fn what_cannot_be_shown_is_refused() {
        let fast = WaveOptions { frequency_hz: Some(6.0), ..options(Shape::Sine, "10") };
        assert!(matches!(fast.open(), Err(WaveError::Frequency { .. })));
        let limit = WaveOptions { frequency_hz: Some(5.0), ..options(Shape::Sine, "10") };
        assert!(limit.open().is_ok());
        let flat = WaveOptions { amplitude: Some(0.0), ..options(Shape::Sine, "10") };
        assert!(matches!(flat.open(), Err(WaveError::Amplitude(_))));
        let none = WaveOptions { channels: 0, ..options(Shape::Sine, "10") };
        assert!(matches!(none.open(), Err(WaveError::Schema(_))));
        assert!("square".parse::<Shape>().unwrap_err().to_string().contains("chirp"));
    }

    #[test]
    fn pieces_are_as_large_as_asked_for() {
        let mut wave = options(Shape::Sine, "1M").open().unwrap();
        let Piece::Samples(bytes) = wave.next(NonZeroU64::new(5_000).unwrap()).unwrap() else {
            panic!("samples")
        };
        assert_eq!(bytes.len(), 20_000);
        let Piece::Samples(bytes) = wave.next(plenty()).unwrap() else { panic!("samples") };
        assert_eq!(bytes.len(), crate::MAX_PIECE_BYTES);
    }
}
