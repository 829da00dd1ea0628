//! One segment of values as its one-sided spectrum.
//!
//! Values are multiplied by a window and transformed; the squared magnitudes are scaled by the sums of the window (Heinzel,
//! Rüdiger and Schilling 2002, Spectrum and spectral density estimation by the discrete Fourier transform).

use core::f64::consts::TAU;
use core::fmt;
use std::sync::Arc;

use num_complex::Complex64;
use realfft::{RealFftPlanner, RealToComplex};
use serde::{Deserialize, Serialize};

/// Weights of a segment's values. All are periodic: the first value weighs as the one after the last would.
///
/// A sine between two bins reads low in both; by how much in power is the scalloping loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SpectralWindow {
    /// The von Hann window. Scalloping loss: 1.42 dB.
    #[default]
    Hann,
    /// No weights: best for whole periods. Scalloping loss: 3.92 dB.
    Rectangular,
    /// Four terms with side lobes below −92 dB (Harris 1978, table 1). Scalloping loss: 0.83 dB.
    BlackmanHarris,
    /// Five terms with a flat top, for amplitudes (D'Antona and Ferrero 2006, pp. 70–72). Scalloping loss: 0.01 dB.
    Flattop,
}

/// What the values of a spectrum are, with the unit of the input squared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpectrumScale {
    /// Power per hertz: the sum over all bins, times their width, is the mean square.
    #[default]
    Density,
    /// Power of a sine: one of amplitude A on a bin reads A² / 2 there.
    Power,
}

/// Transforms segments of one length.
#[derive(Clone)]
pub(super) struct Transform {
    weights: Vec<f64>,
    fourier: Arc<dyn RealToComplex<f64>>,
    /// Scale of the squared magnitudes; of those bins that stand for two frequencies twice that.
    factor: f64,
    weighted: Vec<f64>,
    transformed: Vec<Complex64>,
    scratch: Vec<Complex64>,
}

impl SpectralWindow {
    /// Returns the coefficients of cosines whose sum, with alternating signs, are the weights.
    const fn terms(self) -> &'static [f64] {
        match self {
            Self::Hann => &[0.5, 0.5],
            Self::Rectangular => &[1.0],
            Self::BlackmanHarris => &[0.358_75, 0.488_29, 0.141_28, 0.011_68],
            Self::Flattop => &[0.215_578_95, 0.416_631_58, 0.277_263_158, 0.083_578_947, 0.006_947_368],
        }
    }

    /// Returns its name, as files have it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hann => "hann",
            Self::Rectangular => "rectangular",
            Self::BlackmanHarris => "blackman-harris",
            Self::Flattop => "flattop",
        }
    }

    /// Returns the weights of a segment.
    pub(super) fn weights(self, samples: usize) -> Vec<f64> {
        let weight = |index: usize| {
            let turn = |term: usize| TAU * ((index * term) % samples) as f64 / samples as f64;
            let terms = self.terms().iter().enumerate();
            terms.map(|(term, it)| if term % 2 == 0 { *it } else { -it } * turn(term).cos()).sum()
        };
        (0..samples).map(weight).collect()
    }
}

impl SpectrumScale {
    /// Returns its name, as files have it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Density => "density",
            Self::Power => "power",
        }
    }

    /// Returns the unit of the spectrum of values in `unit`.
    pub(super) fn unit(self, unit: &str) -> String {
        let is_product = unit.contains(|it: char| !it.is_alphabetic() && !"°%".contains(it));
        let square = match unit {
            "" => String::new(),
            unit if is_product => format!("({unit})²"),
            unit => format!("{unit}²"),
        };
        match self {
            Self::Density if square.is_empty() => "1/Hz".to_owned(),
            Self::Density => format!("{square}/Hz"),
            Self::Power => square,
        }
    }
}

/// Returns the number of bins of a segment: frequencies from 0 to half the rate.
pub(super) const fn bins(samples: u32) -> u32 {
    samples / 2 + 1
}

impl Transform {
    pub(super) fn new(samples: u32, window: SpectralWindow, scale: SpectrumScale, rate_hz: f64) -> Self {
        let weights = window.weights(samples as usize);
        let factor = match scale {
            SpectrumScale::Density => 1.0 / (rate_hz * weights.iter().map(|it| it * it).sum::<f64>()),
            SpectrumScale::Power => weights.iter().sum::<f64>().powi(-2),
        };
        let fourier = RealFftPlanner::new().plan_fft_forward(samples as usize);
        Self {
            weighted: fourier.make_input_vec(),
            transformed: fourier.make_output_vec(),
            scratch: fourier.make_scratch_vec(),
            weights,
            fourier,
            factor,
        }
    }

    /// Adds the spectrum of a segment to `sums`; NaN to all of them if one of its values is not finite.
    ///
    /// # Panics
    /// If `segment` or `sums` have another length than this was made for.
    pub(super) fn add(&mut self, segment: &[f64], sums: &mut [f64]) {
        assert_eq!((segment.len(), sums.len()), (self.weights.len(), self.transformed.len()));
        if !segment.iter().all(|value| value.is_finite()) {
            sums.fill(f64::NAN);
            return;
        }
        for ((weighted, value), weight) in self.weighted.iter_mut().zip(segment).zip(&self.weights) {
            *weighted = value * weight;
        }
        let done =
            self.fourier.process_with_scratch(&mut self.weighted, &mut self.transformed, &mut self.scratch);
        done.expect("buffers made by the transform itself");
        // Frequency 0 and, of an even number of samples, half the rate have no negative twin.
        let twins = 1..segment.len().div_ceil(2);
        for (bin, (sum, value)) in sums.iter_mut().zip(&self.transformed).enumerate() {
            let factor = if twins.contains(&bin) { 2.0 * self.factor } else { self.factor };
            *sum += factor * value.norm_sqr();
        }
    }
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transform").field("samples", &self.weights.len()).finish_non_exhaustive()
    }
}
