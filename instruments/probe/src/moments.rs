//! Mean and standard deviation of repeats, for comparison with documents that state those.

/// Mean of repeats and their deviation from it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Moments {
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of a sample (n − 1); `None` for a single value.
    pub standard_deviation: Option<f64>,
}

impl Moments {
    /// Returns the moments of values; `None` if there are no values, or one is not a number.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "there are few repeats")]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let standard_deviation = (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        Some(Self { mean, standard_deviation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_does_not_say_how_far_others_lie() {
        assert_eq!(Moments::of(&[3.0]), Some(Moments { mean: 3.0, standard_deviation: None }));
        assert_eq!(Moments::of(&[]), None);
        assert_eq!(Moments::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        let it = Moments::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!(it.mean, 5.0);
        assert!((it.standard_deviation.unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
    }
}
