//! Butterworth filters designed as sections of second order, and the time that they need to settle.
//!
//! The poles of the analog prototype (Butterworth 1930) are moved to the wanted band while still analog, and the bilinear
//! transform with prewarped edges makes them digital (Oppenheim and Schafer, Discrete-Time Signal Processing, §7.1). Each
//! pair of poles is one section, a trapezoidal state-variable filter (Zavalishin 2012, The Art of VA Filter Design, §4):
//! its coefficients are those of the analog section, so that low edges lose no digits to poles next to z = 1, as they
//! do in direct forms.

use core::f64::consts::PI;
use core::fmt;

use num_complex::Complex64;
use serde::{Deserialize, Serialize};
use units::SampleRate;

/// Highest order of a filter's prototype.
pub const MAX_ORDER: u32 = 8;
/// Lowest edge and narrowest band, and smallest distance of an edge from half the rate, in fractions of the rate: below it
/// the filter takes millions of samples to settle.
const MIN_FRACTION: f64 = 1e-6;
/// Largest error of a settled value, in fractions of the greatest distance of an unknown past from the first value.
const SETTLED: f64 = 1e-3;

/// Frequencies that a filter passes. Units: hertz.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Response {
    /// Those below the edge.
    Lowpass(f64),
    /// Those above the edge.
    Highpass(f64),
    /// Those between the edges.
    Bandpass([f64; 2]),
    /// Those outside the edges.
    Notch([f64; 2]),
}

/// Reason why a filter cannot be.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// An order that is not offered.
    #[error("the order of a filter is 2, 4, 6 or 8, not {0}")]
    Order(u32),
    /// An edge that is zero, negative or not finite.
    #[error("the edge of a filter is a frequency above 0 Hz, not {0} Hz")]
    Edge(f64),
    /// Edges of a band in the wrong order.
    #[error("the lower edge of a band comes first, and below the upper: [{low}, {high}] is no band")]
    Band {
        /// First edge. Units: hertz.
        low: f64,
        /// Second edge. Units: hertz.
        high: f64,
    },
    /// An edge that the rate does not allow.
    #[error(
        "the edge {edge} Hz must be below half the rate, and the stream has {rate} samples per second; lower the edge"
    )]
    Nyquist {
        /// The edge. Units: hertz.
        edge: f64,
        /// The stream's rate.
        rate: SampleRate,
    },
    /// An edge or a band that is too low or too narrow for the rate.
    #[error(
        "{width} Hz is less than a millionth of the stream's {rate} samples per second, too little for an edge or a \
         band; raise it, or reduce the stream before"
    )]
    Narrow {
        /// The edge, or the width of the band. Units: hertz.
        width: f64,
        /// The stream's rate.
        rate: SampleRate,
    },
}

/// A filter for one rate.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Design {
    pub(super) sections: Vec<Section>,
    /// Samples until a value is settled, see [`settling`].
    pub(super) settling: u64,
}

/// Two poles and two zeros: a state-variable filter whose output is a sum of its input and its two integrators.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Section {
    /// Feedback of the integrators: 1 / (1 + g (g + k)), and this × g and × g².
    feedback: [f64; 3],
    /// Weights of the input, of the band-pass output and of the low-pass output.
    weights: [f64; 3],
}

/// State of a section: both integrators.
pub(super) type State = [f64; 2];

/// A pair of analog poles with the zeros of its section, in the plane s = (z − 1) / (z + 1).
struct Pair {
    /// The pole of positive or negative imaginary part; the other is its conjugate.
    pole: Complex64,
    /// The numerator: coefficients of s², s and 1.
    numerator: [f64; 3],
}

impl Response {
    /// Checks everything that the rate does not decide.
    pub(super) fn check(self) -> Result<(), FilterError> {
        let (low, high) = self.edges();
        for edge in [low, high] {
            if !(edge.is_finite() && edge > 0.0) {
                return Err(FilterError::Edge(edge));
            }
        }
        match self {
            Self::Bandpass(_) | Self::Notch(_) if low >= high => Err(FilterError::Band { low, high }),
            _ => Ok(()),
        }
    }

    /// Designs the filter of a checked order for a stream of this rate.
    pub(super) fn design(self, order: u32, rate: SampleRate) -> Result<Design, FilterError> {
        self.check()?;
        let (low, high) = self.edges();
        let smallest = MIN_FRACTION * rate.as_hz();
        if high > rate.as_hz() / 2.0 - smallest {
            return Err(FilterError::Nyquist { edge: high, rate });
        }
        let width = if low < high { low.min(high - low) } else { low };
        if width < smallest {
            return Err(FilterError::Narrow { width, rate });
        }
        let pairs = self.pairs(order, rate.as_hz());
        let sections = pairs.iter().map(Pair::section).collect();
        Ok(Design { sections, settling: settling(&pairs) })
    }

    /// Returns lower and upper edge, the same if there is one.
    pub(super) const fn edges(self) -> (f64, f64) {
        match self {
            Self::Lowpass(edge) | Self::Highpass(edge) => (edge, edge),
            Self::Bandpass([low, high]) | Self::Notch([low, high]) => (low, high),
        }
    }

    /// Returns the analog sections.
    fn pairs(self, order: u32, rate_hz: f64) -> Vec<Pair> {
        let warp = |hz: f64| (PI * hz / rate_hz).tan();
        let (low, high) = self.edges();
        let (low, high) = (warp(low), warp(high));
        let (width, square) = (high - low, low * high);
        // Upper half of the prototype's poles, on the unit circle: 1 / p is the conjugate of p.
        let prototype = (0..order / 2)
            .map(|number| f64::from(2 * number + 1) * PI / f64::from(2 * order))
            .map(|angle| Complex64::new(-angle.sin(), angle.cos()));
        match self {
            Self::Lowpass(_) => {
                let pair = |pole| Pair { pole: pole * low, numerator: [0.0, 0.0, square] };
                prototype.map(pair).collect()
            }
            Self::Highpass(_) => {
                let pair = |pole: Complex64| Pair { pole: pole.conj() * low, numerator: [1.0, 0.0, 0.0] };
                prototype.map(pair).collect()
            }
            Self::Bandpass(_) => {
                let pair = |pole| Pair { pole, numerator: [0.0, width, 0.0] };
                prototype.flat_map(|pole| split(pole * width, square)).map(pair).collect()
            }
            Self::Notch(_) => {
                let pair = |pole| Pair { pole, numerator: [1.0, 0.0, square] };
                prototype.flat_map(|pole| split(pole.conj() * width, square)).map(pair).collect()
            }
        }
    }
}

/// As files have it, with the unit.
impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lowpass(edge) => write!(f, "lowpass {edge} Hz"),
            Self::Highpass(edge) => write!(f, "highpass {edge} Hz"),
            Self::Bandpass([low, high]) => write!(f, "bandpass {low} to {high} Hz"),
            Self::Notch([low, high]) => write!(f, "notch {low} to {high} Hz"),
        }
    }
}

/// Returns both roots of s² − `sum` s + `product` = 0, which are the two poles that one of the prototype becomes in a band.
fn split(sum: Complex64, product: f64) -> [Complex64; 2] {
    let half = sum / 2.0;
    let root = (half * half - product).sqrt();
    // The larger of both: the difference of the smaller would lose digits in a wide band.
    let larger = if (half.conj() * root).re >= 0.0 { half + root } else { half - root };
    [larger, product / larger]
}

impl Pair {
    fn section(&self) -> Section {
        // Denominator s² + k g s + g².
        let g = self.pole.norm();
        let k = -2.0 * self.pole.re / g;
        let first = 1.0 / (1.0 + g * (g + k));
        // The outputs of the integrators are g s and g² over the denominator; the input less k times the one, less the
        // other, is s².
        let [square, linear, constant] = self.numerator;
        let weights = [square, linear / g - square * k, constant / (g * g) - square];
        Section { feedback: [first, first * g, first * g * g], weights }
    }
}

impl Section {
    /// Returns the state after an endless past of the same `value`, and the output that belongs to it.
    pub(super) fn steady(&self, value: f64) -> (State, f64) {
        ([0.0, value], (self.weights[0] + self.weights[2]) * value)
    }

    /// Filters values in place.
    pub(super) fn run(&self, state: &mut State, values: &mut [f64]) {
        let ([a1, a2, a3], [input, band, low]) = (self.feedback, self.weights);
        let [mut first, mut second] = *state;
        for value in values {
            let difference = *value - second;
            let band_pass = a1 * first + a2 * difference;
            let low_pass = second + a2 * first + a3 * difference;
            first = 2.0 * band_pass - first;
            second = 2.0 * low_pass - second;
            *value = input * *value + band * band_pass + low * low_pass;
        }
        *state = [first, second];
    }
}

/// Returns the number of samples n after which the past no longer matters: the impulse response from n on sums up to no
/// more than [`SETTLED`], in magnitudes.
///
/// A filter that begins as if its first value had always been there then differs from one that knows the past by no more than
/// that fraction of the greatest distance of a past value from the first. The sum is bounded by the partial fractions of the response: a
/// pole z of residue R adds |R| |z|ⁿ⁻¹ / (1 − |z|).
fn settling(pairs: &[Pair]) -> u64 {
    // Residue and logarithm of the radius of one pole of each pair; its conjugate adds as much.
    let terms: Vec<(f64, f64)> =
        pairs.iter().map(|pair| (residue(pair, pairs), log_radius(pair.pole))).collect();
    let rest = |samples: u64| -> f64 {
        let term = |(residue, log): &(f64, f64)| {
            2.0 * residue * (log * (samples as f64 - 1.0)).exp() / -log.exp_m1()
        };
        terms.iter().map(term).sum()
    };
    // The smallest power of two that is enough, then the smallest number.
    let mut enough = 1;
    while rest(enough) > SETTLED {
        enough *= 2;
    }
    let mut short = enough / 2;
    while enough - short > 1 {
        let middle = short + (enough - short) / 2;
        *(if rest(middle) > SETTLED { &mut short } else { &mut enough }) = middle;
    }
    enough
}

/// Returns the magnitude of the residue in the plane of z at the pole of `of`.
fn residue(of: &Pair, pairs: &[Pair]) -> f64 {
    let s = of.pole;
    let at_pole = pairs.iter().fold(Complex64::new(1.0, 0.0), |product, pair| {
        let [square, linear, constant] = pair.numerator;
        let denominator =
            if core::ptr::eq(pair, of) { s - s.conj() } else { (s - pair.pole) * (s - pair.pole.conj()) };
        product * (s * s * square + s * linear + constant) / denominator
    });
    // dz / ds of z = (1 + s) / (1 − s).
    at_pole.norm() * 2.0 / (1.0 - s).norm_sqr()
}

/// Returns ln |z| of z = (1 + s) / (1 − s), negative in the left half plane.
fn log_radius(s: Complex64) -> f64 {
    (4.0 * s.re / (1.0 - s).norm_sqr()).ln_1p() / 2.0
}
