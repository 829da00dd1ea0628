//! Summary of repeats: median, quartiles, extremes.

/// Ratio from which two quantities count as different, and up to which as alike; repeats with a smaller spread
/// count as quiet.
const DIFFERENT: f64 = 1.1;

/// Five-number summary of repeated measurements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// Smallest value.
    pub min: f64,
    /// First quartile: a quarter of the values is below.
    pub lower_quartile: f64,
    /// Median: half of the values are below.
    pub median: f64,
    /// Third quartile: three quarters of the values are below.
    pub upper_quartile: f64,
    /// Largest value.
    pub max: f64,
    /// Number of values.
    pub count: usize,
}

/// Result of comparing repeats of one thing with those of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contrast {
    /// Larger, by more than the spread of both.
    More,
    /// Smaller, by more than the spread of both.
    Less,
    /// Equal to within a tenth, with a spread small enough to show a difference.
    Alike,
    /// Undecided: the spread is larger than a possible difference, or a single measurement has no known spread.
    Unclear,
}

impl Summary {
    /// Summarises values; `None` if there are none, or one is not a number.
    ///
    /// Quartiles between two values are interpolated linearly (definition 7 of Hyndman and Fan, "Sample quantiles
    /// in statistical packages", The American Statistician 50, 1996), as in R and NumPy.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            min: sorted[0],
            lower_quartile: quantile(&sorted, 1),
            median: quantile(&sorted, 2),
            upper_quartile: quantile(&sorted, 3),
            max: sorted[sorted.len() - 1],
            count: sorted.len(),
        })
    }

    /// Returns the distance of the extremes as a share of the median; `None` if the median is zero.
    #[must_use]
    pub fn spread(&self) -> Option<f64> {
        (self.median != 0.0).then(|| (self.max - self.min) / self.median.abs())
    }

    /// Compares repeats with others of the same non-negative quantity.
    ///
    /// They differ if their medians are at least a tenth apart and their middle halves do not overlap: one
    /// disturbed repeat of three neither creates nor hides a difference. They are alike if both middle halves fit
    /// within a tenth: widely spread repeats are no evidence that two things are the same.
    #[must_use]
    pub fn against(&self, other: &Self) -> Contrast {
        let is_more =
            |a: &Self, b: &Self| a.median > b.median * DIFFERENT && a.lower_quartile > b.upper_quartile;
        if self.count < 2 || other.count < 2 {
            Contrast::Unclear
        } else if is_more(self, other) {
            Contrast::More
        } else if is_more(other, self) {
            Contrast::Less
        } else if self.holds_within_a_tenth_with(other) {
            Contrast::Alike
        } else {
            Contrast::Unclear
        }
    }

    fn holds_within_a_tenth_with(&self, other: &Self) -> bool {
        let lowest = self.lower_quartile.min(other.lower_quartile);
        let highest = self.upper_quartile.max(other.upper_quartile);
        highest <= lowest * DIFFERENT
    }
}

/// Returns the quantile at `quarters` quarters of sorted values.
#[expect(clippy::cast_precision_loss, reason = "one, two or three quarters")]
fn quantile(sorted: &[f64], quarters: usize) -> f64 {
    let place = (sorted.len() - 1) * quarters;
    let (below, rest) = (place / 4, place % 4);
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * rest as f64 / 4.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_value_is_all_five_numbers() {
        let summary = Summary::of(&[7.0]).unwrap();
        assert_eq!((summary.min, summary.median, summary.max, summary.count), (7.0, 7.0, 7.0, 1));
        assert_eq!(summary.spread(), Some(0.0));
    }

    #[test]
    fn an_even_number_has_its_median_in_the_middle() {
        let summary = Summary::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((summary.lower_quartile, summary.median, summary.upper_quartile), (1.75, 2.5, 3.25));
    }

    #[test]
    fn nothing_and_no_number_have_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(Summary::of(&[f64::INFINITY]), None);
        assert_eq!(Summary::of(&[0.0]).unwrap().spread(), None);
    }

    #[test]
    fn repeats_differ_where_neither_their_medians_nor_their_middles_meet() {
        let of = |values: &[f64]| Summary::of(values).unwrap();
        let quiet = of(&[100.0, 101.0, 102.0]);
        assert_eq!(quiet.against(&of(&[80.0, 81.0, 82.0])), Contrast::More);
        assert_eq!(quiet.against(&of(&[120.0, 121.0, 122.0])), Contrast::Less);
        assert_eq!(quiet.against(&of(&[95.0, 96.0, 97.0])), Contrast::Alike, "less than a tenth apart");
        // One disturbed repeat of three.
        assert_eq!(quiet.against(&of(&[70.0, 81.0, 82.0])), Contrast::More);
    }

    #[test]
    fn repeats_that_spread_over_more_than_what_lies_between_them_say_neither() {
        let of = |values: &[f64]| Summary::of(values).unwrap();
        let wide = of(&[60.0, 100.0, 140.0]);
        assert_eq!(wide.against(&of(&[50.0, 85.0, 120.0])), Contrast::Unclear);
        assert_eq!(wide.against(&wide), Contrast::Unclear, "no evidence that it is the same again");
        assert_eq!(of(&[100.0]).against(&of(&[10.0, 10.0])), Contrast::Unclear, "one alone has no spread");
        let (nothing, some) = (of(&[0.0, 0.0]), of(&[0.0, 3.0]));
        assert_eq!(nothing.against(&nothing), Contrast::Alike);
        assert_eq!(nothing.against(&some), Contrast::Less);
        // Both sides of the limit: a tenth holds both middle halves, or just not.
        let (low, high) = (of(&[100.0, 100.0]), |value| of(&[value, value]));
        assert_eq!(low.against(&high(109.9)), Contrast::Alike);
        assert_eq!(low.against(&high(110.1)), Contrast::Less);
    }

    proptest! {
        #[test]
        fn whoever_is_more_is_what_the_other_is_less_than(
            a in prop::collection::vec(0.0_f64..1e9, 1..9),
            b in prop::collection::vec(0.0_f64..1e9, 1..9),
        ) {
            let (a, b) = (Summary::of(&a).unwrap(), Summary::of(&b).unwrap());
            let mirrored = match b.against(&a) {
                Contrast::More => Contrast::Less,
                Contrast::Less => Contrast::More,
                same => same,
            };
            prop_assert_eq!(a.against(&b), mirrored);
            prop_assert!(matches!(a.against(&a), Contrast::Alike | Contrast::Unclear));
        }

        #[test]
        fn the_five_numbers_stand_in_order(values in prop::collection::vec(-1e9_f64..1e9, 1..50)) {
            let it = Summary::of(&values).unwrap();
            let order = [it.min, it.lower_quartile, it.median, it.upper_quartile, it.max];
            prop_assert!(order.is_sorted(), "{order:?}");
        }
    }
}
