//! The mean of a column, as its place between the column's extremes: two bytes, finer than a pixel however high the column.

use super::{Input, PageFrameError, known, layout};

/// Place of a column's mean between its extremes, in steps of 1/65,534.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeanShare(u16);

impl MeanShare {
    /// A column whose mean is not known, or that is empty.
    pub const UNKNOWN: Self = Self(u16::MAX);
    /// Steps from one extreme to the other.
    const STEPS: f64 = 65_534.0;

    /// Returns the place of `mean` between the extremes, rounded to the nearest step.
    #[must_use]
    pub fn of(mean: f64, [min, max]: [f64; 2]) -> Self {
        let height = max - min;
        if !mean.is_finite() || !height.is_finite() {
            return Self::UNKNOWN;
        }
        let share = if height > 0.0 { ((mean - min) / height).clamp(0.0, 1.0) } else { 0.0 };
        Self((share * Self::STEPS).round() as u16)
    }

    /// Returns the mean, exact to half a step; `None` if it is not known.
    #[must_use]
    pub fn mean(self, [min, max]: [f64; 2]) -> Option<f64> {
        (self != Self::UNKNOWN).then(|| min + (max - min) * (f64::from(self.0) / Self::STEPS))
    }
}

/// Returns the bytes that the shares of so many columns take.
pub(super) const fn size_bytes(count: usize) -> usize {
    count.div_ceil(layout::MeanShares::COUNT) * size_of::<layout::MeanShares>()
}

pub(super) fn encode(shares: &[MeanShare], bytes: &mut Vec<u8>) {
    let end = bytes.len() + size_bytes(shares.len());
    bytes.extend(shares.iter().flat_map(|share| share.0.to_le_bytes()));
    bytes.resize(end, 0);
}

/// Reads the shares of so many columns, if the trace has any.
pub(super) fn decode(
    input: &mut Input<'_>,
    has_means: bool,
    count: usize,
) -> Result<Option<Vec<MeanShare>>, PageFrameError> {
    if !has_means {
        return Ok(None);
    }
    let groups = input.many::<layout::MeanShares>("means", count.div_ceil(layout::MeanShares::COUNT))?;
    let mut all = groups.iter().flat_map(|group| group.mean_shares).map(|share| share.get());
    let shares: Vec<_> = all.by_ref().take(count).map(MeanShare).collect();
    all.try_for_each(|unused| known("mean_shares", unused, unused == 0))?;
    Ok(Some(shares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_comes_back_to_half_a_step_and_the_extremes_exactly() {
        for (mean, extremes) in [
            (0.3, [-1.0, 1.0]),
            (499_654_096.600_3, [499_654_096.6, 499_654_096.601]),
            (1e300, [-1e307, 1e307]),
        ] {
            let step = (extremes[1] - extremes[0]) / MeanShare::STEPS;
            let back = MeanShare::of(mean, extremes).mean(extremes).unwrap();
            assert!((back - mean).abs() <= step * 0.500_1 + mean.abs() * f64::EPSILON, "{back} for {mean}");
        }
        for value in [-1.0, 0.25, 2.0] {
            assert_eq!(MeanShare::of(value, [value, 2.0]).mean([value, 2.0]), Some(value));
            assert_eq!(MeanShare::of(value, [-1.0, value]).mean([-1.0, value]), Some(value));
        }
    }

    #[test]
    fn a_column_without_a_finite_mean_has_none() {
        let infinite = [0.0, f64::INFINITY];
        for (mean, extremes) in [(f64::NAN, [f64::NAN; 2]), (f64::INFINITY, infinite), (1.0, infinite)] {
            assert_eq!(MeanShare::of(mean, extremes), MeanShare::UNKNOWN);
        }
        assert_eq!(MeanShare::of(0.0, [f64::MIN, f64::MAX]), MeanShare::UNKNOWN, "no double is so high");
        assert_eq!(MeanShare::UNKNOWN.mean([0.0, 1.0]), None);
    }
}
