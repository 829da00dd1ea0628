//! The ratio of two rates, and the interpolating low-pass that goes from one to the other.
//!
//! Every sample of the output is a sum of input samples around its own instant, weighted by a sinc that a Kaiser window ends
//! (Kaiser 1974; Oppenheim and Schafer, Discrete-Time Signal Processing, §7.5 and §4.6). Weights are symmetric about the
//! instant, so nothing is delayed. Instants lie between two input samples at as many different places as the ratio has
//! phases; each has its weights, whose sum is one.

use core::cell::OnceCell;
use core::f64::consts::PI;

use units::{SampleRate, WallTime};

/// Largest term of the ratio of both rates in lowest terms; there are 64 weights or fewer for each unit of it.
pub const MAX_RATIO_TERM: u32 = 1 << 15;
/// How many times faster the output may be: so many samples may become of each in a block.
pub const MAX_FASTER: u32 = 64;
/// Samples of the slower rate that count on each side of an instant.
const REACH: f64 = 32.0;
/// Middle of the transition, in fractions of the slower rate. It ends at one half, where aliases begin.
const CUTOFF: f64 = 0.45;
/// End of the frequencies that pass, in fractions of the slower rate.
pub(super) const PASSED: f64 = 0.4;
/// Parameter of the Kaiser window for 99 dB, which the reach and the transition allow: 0.1102 (99 − 8.7).
const BETA: f64 = 9.951;

/// Rate of the output over that of the input, in lowest terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ratio {
    pub(super) up: u64,
    pub(super) down: u64,
    /// Rate of the input.
    input: SampleRate,
}

/// Where an instant is among the samples of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The last sample that is not after it.
    pub(super) index: u64,
    /// Distance from that sample, in periods of the input over `up`.
    pub(super) phase: u64,
}

/// Weights of the input samples around an instant.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    /// Samples before the last one that is not after the instant, and samples after it.
    pub(super) before: u64,
    pub(super) after: u64,
    ratio: Ratio,
    /// Shape: `[phases][before + 1 + after]`. Computed when they are needed first: there may be two million.
    weights: OnceCell<Vec<f64>>,
}

impl Ratio {
    /// Returns the ratio, `None` if a term is too large or the output too fast.
    pub(super) fn new(input: SampleRate, output: SampleRate) -> Option<Self> {
        let up = u64::from(output.numerator()) * u64::from(input.denominator());
        let down = u64::from(output.denominator()) * u64::from(input.numerator());
        let divisor = greatest_common_divisor(up, down);
        let (up, down) = (up / divisor, down / divisor);
        let fits = up.max(down) <= u64::from(MAX_RATIO_TERM) && up <= u64::from(MAX_FASTER) * down;
        fits.then_some(Self { up, down, input })
    }

    /// Returns how many times faster the output is.
    pub(super) fn as_f64(self) -> f64 {
        self.up as f64 / self.down as f64
    }

    /// Returns the number of output samples whose instants are before input sample `index`.
    pub(super) fn outputs_before(self, index: u64) -> u64 {
        let outputs = (u128::from(index) * u128::from(self.up)).div_ceil(u128::from(self.down));
        u64::try_from(outputs).unwrap_or(u64::MAX)
    }

    /// Returns the place of the instant of output sample `output`.
    pub(super) fn place(self, output: u64) -> Place {
        let place = u128::from(output) * u128::from(self.down);
        let (index, phase) = (place / u128::from(self.up), place % u128::from(self.up));
        Place { index: u64::try_from(index).unwrap_or(u64::MAX), phase: phase as u64 }
    }

    /// Returns the place of the next output sample.
    pub(super) const fn after(self, place: Place) -> Place {
        let phase = place.phase + self.down;
        Place { index: place.index + phase / self.up, phase: phase % self.up }
    }

    /// Returns the instant of output sample `output`, rounded down to the nanosecond, when input sample `index` was at `time`.
    pub(super) fn time_of(self, output: u64, index: u64, time: WallTime) -> WallTime {
        let steps = i128::from(output) * i128::from(self.down) - i128::from(index) * i128::from(self.up);
        let nanos = steps.saturating_mul(i128::from(self.input.denominator()) * 1_000_000_000);
        let nanos = nanos.div_euclid(i128::from(self.up) * i128::from(self.input.numerator()));
        let clamped = nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        time.offset(i64::try_from(clamped).expect("clamped to the range of i64"))
    }
}

impl Kernel {
    /// Makes the kernel of a ratio; that of equal rates passes on every sample as it is.
    pub(super) fn new(ratio: Ratio) -> Self {
        let after = Self::side(ratio);
        Self { before: after.saturating_sub(1), after, ratio, weights: OnceCell::new() }
    }

    fn weights(&self) -> Vec<f64> {
        let Self { before, after, ratio, .. } = *self;
        if ratio.up == ratio.down {
            return vec![1.0];
        }
        // In samples of the input: period of the slower rate, and with it the reach.
        let slower = (1.0 / ratio.as_f64()).max(1.0);
        let reach = REACH * slower;
        let mut weights = Vec::with_capacity((ratio.up * (before + 1 + after)) as usize);
        for phase in 0..ratio.up {
            let instant = before as f64 + phase as f64 / ratio.up as f64;
            let distances = (0..=before + after).map(|index| index as f64 - instant);
            let begin = weights.len();
            weights.extend(
                distances.map(|distance| sinc(2.0 * CUTOFF * distance / slower) * kaiser(distance / reach)),
            );
            let sum: f64 = weights[begin..].iter().sum();
            weights[begin..].iter_mut().for_each(|weight| *weight /= sum);
        }
        weights
    }

    /// Returns the number of input samples that count on the later side of an instant.
    pub(super) fn side(ratio: Ratio) -> u64 {
        if ratio.up == ratio.down {
            return 0;
        }
        (REACH as u64 * ratio.down.max(ratio.up)).div_ceil(ratio.up)
    }

    /// Returns the number of weights of a phase.
    pub(super) const fn width(&self) -> usize {
        (self.before + 1 + self.after) as usize
    }

    /// Returns the weights of a phase.
    pub(super) fn of(&self, phase: u64) -> &[f64] {
        &self.weights.get_or_init(|| self.weights())[phase as usize * self.width()..][..self.width()]
    }
}

/// Returns the weighted sum, NaN if a value is not finite.
pub(super) fn weighted(weights: &[f64], values: &[f64]) -> f64 {
    // Four sums at once, which do not wait for each other.
    let (weights, last_weights) = weights.as_chunks::<4>();
    let (values, last_values) = values.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (weights, values) in weights.iter().zip(values) {
        for ((sum, weight), value) in sums.iter_mut().zip(weights).zip(values) {
            *sum += weight * value;
        }
    }
    let last: f64 = last_weights.iter().zip(last_values).map(|(weight, value)| weight * value).sum();
    let sum = sums.iter().sum::<f64>() + last;
    if sum.is_finite() { sum } else { f64::NAN }
}

/// Returns sin(πx) / (πx).
fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { (PI * x).sin() / (PI * x) }
}

/// Returns the Kaiser window at a place between −1 and 1, and zero beyond; in the middle it is I₀(β).
fn kaiser(place: f64) -> f64 {
    if place.abs() >= 1.0 { 0.0 } else { bessel_i0(BETA * (1.0 - place * place).sqrt()) }
}

/// Returns the modified Bessel function of the first kind and order zero, by its power series (DLMF 10.25.2).
fn bessel_i0(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while term > sum * f64::EPSILON {
        term *= quarter / (k * k);
        sum += term;
        k += 1.0;
    }
    sum
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
