//! The extremes of columns, as f32 where that is exact and as f64 otherwise: a frame rounds nothing that a page could show.

use super::{MODE_COLUMNS, MODE_COLUMNS_F64, MODE_COLUMNS_F64_MEAN, MODE_COLUMNS_MEAN};

/// `[min, max]` of consecutive columns.
#[derive(Clone, PartialEq, Debug)]
pub enum Extremes {
    /// Values that f32 holds exactly.
    Single(Vec<[f32; 2]>),
    /// Values with more digits.
    Double(Vec<[f64; 2]>),
}

impl Extremes {
    /// Returns the shortest form that holds every value exactly.
    #[must_use]
    pub fn exact(extremes: Vec<[f64; 2]>) -> Self {
        let fits = |value: &f64| value.is_nan() || f64::from(*value as f32).to_bits() == value.to_bits();
        if extremes.iter().flatten().all(fits) { Self::rounded(&extremes) } else { Self::Double(extremes) }
    }

    /// Returns the values rounded to f32.
    #[must_use]
    pub fn rounded(extremes: &[[f64; 2]]) -> Self {
        Self::Single(extremes.iter().map(|pair| pair.map(|value| value as f32)).collect())
    }

    /// Returns every pair.
    #[must_use]
    pub fn to_vec(&self) -> Vec<[f64; 2]> {
        match self {
            Self::Single(pairs) => pairs.iter().map(|pair| pair.map(f64::from)).collect(),
            Self::Double(pairs) => pairs.clone(),
        }
    }

    /// Returns the number of columns.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Single(pairs) => pairs.len(),
            Self::Double(pairs) => pairs.len(),
        }
    }

    /// Returns whether there are no columns.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn size_bytes(&self) -> usize {
        match self {
            Self::Single(pairs) => size_of_val(pairs.as_slice()),
            Self::Double(pairs) => size_of_val(pairs.as_slice()),
        }
    }

    pub(super) const fn mode(&self, has_means: bool) -> u8 {
        match (self, has_means) {
            (Self::Single(_), false) => MODE_COLUMNS,
            (Self::Double(_), false) => MODE_COLUMNS_F64,
            (Self::Single(_), true) => MODE_COLUMNS_MEAN,
            (Self::Double(_), true) => MODE_COLUMNS_F64_MEAN,
        }
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Single(pairs) => bytes.extend(pairs.iter().flatten().flat_map(|value| value.to_le_bytes())),
            Self::Double(pairs) => bytes.extend(pairs.iter().flatten().flat_map(|value| value.to_le_bytes())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_doubles_only_where_a_single_would_round_one() {
        let single = vec![[f64::NAN, f64::NAN], [-0.5, 0.25], [0.0, f64::INFINITY]];
        assert!(matches!(Extremes::exact(single), Extremes::Single(pairs) if pairs[1] == [-0.5, 0.25]));
        let double = vec![[-0.5, 0.25], [499_654_096.6, 499_654_096.601]];
        assert_eq!(Extremes::exact(double.clone()).to_vec(), double);
        assert_eq!(Extremes::rounded(&double).to_vec()[1], [499_654_112.0; 2]);
    }
}
