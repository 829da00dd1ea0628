//! The statistics of a window, by name.

use core::fmt;
use core::str::FromStr;

use units::serde_as_text;

/// A statistic of a window. NaN values are ignored, unless there are no others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statistic {
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The arithmetic mean.
    Mean,
    /// The root of the mean square.
    Rms,
    /// The standard deviation of the window's values: the root of their mean squared distance from the mean.
    Std,
    /// Number of the values that the others are of: samples that arrived and are not NaN.
    N,
    /// A quantile, interpolated between the two values beside it (definition 7 of Hyndman and Fan 1996).
    Quantile(Percent),
}

/// A percentage with up to three decimal places, from 0 to 100.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Percent(u32);

/// A word that names no statistic.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{0}` is not a statistic; write min, max, mean, rms, std, n, or a quantile by its percentage: q50 for the median"
)]
pub struct UnknownStatistic(String);

/// Thousandths in a percent.
const THOUSANDTHS: f64 = 1e3;

impl Statistic {
    const PLAIN: [(&'static str, Self); 6] = [
        ("min", Self::Min),
        ("max", Self::Max),
        ("mean", Self::Mean),
        ("rms", Self::Rms),
        ("std", Self::Std),
        ("n", Self::N),
    ];

    /// Returns whether it needs all values of the window at once.
    pub(super) const fn keeps_values(self) -> bool {
        matches!(self, Self::Quantile(_))
    }
}

impl Percent {
    /// Returns it as a share of one.
    #[must_use]
    pub fn as_share(self) -> f64 {
        f64::from(self.0) / (100.0 * THOUSANDTHS)
    }
}

/// Writes the suffix that is appended to a channel's name.
impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantile(Percent(thousandths)) => write!(f, "q{}", f64::from(*thousandths) / THOUSANDTHS),
            plain => {
                let (name, _) = Self::PLAIN.iter().find(|(_, it)| it == plain).expect("all are named");
                f.write_str(name)
            }
        }
    }
}

impl FromStr for Statistic {
    type Err = UnknownStatistic;

    fn from_str(text: &str) -> Result<Self, UnknownStatistic> {
        if let Some((_, plain)) = Self::PLAIN.iter().find(|(name, _)| *name == text) {
            return Ok(*plain);
        }
        let is_number = |digits: &&str| digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let percent = text.strip_prefix('q').filter(is_number).and_then(|digits| digits.parse::<f64>().ok());
        let thousandths = percent.map(|percent| percent * THOUSANDTHS);
        let is_exact = |it: &f64| (0.0..=100.0 * THOUSANDTHS).contains(it) && (it - it.round()).abs() < 1e-6;
        let known = thousandths.filter(is_exact).ok_or_else(|| UnknownStatistic(text.to_owned()))?;
        Ok(Self::Quantile(Percent(known.round() as u32)))
    }
}

serde_as_text!(Statistic);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statistic_is_written_as_it_is_read() {
        for text in ["min", "max", "mean", "rms", "std", "n", "q0", "q50", "q99.9", "q0.135", "q100"] {
            assert_eq!(text.parse::<Statistic>().unwrap().to_string(), text);
        }
        assert_eq!("q25".parse(), Ok(Statistic::Quantile(Percent(25_000))));
        for text in ["", "median", "q", "q101", "q-1", "q1e1", "qnan", "q50%", "q0.0001", "Min", "q1.2.3"] {
            let told = text.parse::<Statistic>().unwrap_err().to_string();
            assert!(told.starts_with(&format!("`{text}` is not a statistic; write min, max")), "{told}");
        }
    }
}
