//! Exact percentiles of many times, without binning.

/// A median and the tail behind it. Units: nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Percentiles {
    /// Number of times.
    pub count: u64,
    /// Shortest time.
    pub min_ns: u64,
    /// Median: half of the times are no longer.
    pub p50_ns: u64,
    /// 9 of 10 times are no longer.
    pub p90_ns: u64,
    /// 99 of 100 times are no longer.
    pub p99_ns: u64,
    /// 999 of 1,000 times are no longer.
    pub p999_ns: u64,
    /// Longest time.
    pub max_ns: u64,
    /// Mean, which a single long time can shift.
    pub mean_ns: f64,
}

impl Percentiles {
    /// Summarises times; `None` if there are none. Reorders the slice.
    ///
    /// A percentile is the nearest rank: the smallest time that the given share of times does not exceed
    /// (definition 1 of Hyndman and Fan, "Sample quantiles in statistical packages", The American Statistician 50,
    /// 1996). So each is a measured time, and with fewer than 1,000 times the last percentile is the longest.
    #[must_use]
    pub fn of(times_ns: &mut [u64]) -> Option<Self> {
        times_ns.sort_unstable();
        let (&min_ns, &max_ns) = (times_ns.first()?, times_ns.last()?);
        let rank = |per_mille: usize| times_ns[(times_ns.len() * per_mille).div_ceil(1_000) - 1];
        let sum: u128 = times_ns.iter().map(|time| u128::from(*time)).sum();
        #[expect(clippy::cast_precision_loss, reason = "a mean of times, of which three digits are shown")]
        let mean_ns = sum as f64 / times_ns.len() as f64;
        Some(Self {
            count: times_ns.len() as u64,
            min_ns,
            p50_ns: rank(500),
            p90_ns: rank(900),
            p99_ns: rank(990),
            p999_ns: rank(999),
            max_ns,
            mean_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_are_the_nearest_and_nothing_has_none() {
        let mut times: Vec<u64> = (1..=1_000).rev().collect();
        let it = Percentiles::of(&mut times).unwrap();
        assert_eq!(
            (it.min_ns, it.p50_ns, it.p90_ns, it.p99_ns, it.p999_ns, it.max_ns),
            (1, 500, 900, 990, 999, 1_000)
        );
        assert_eq!((it.count, it.mean_ns), (1_000, 500.5));
        let one = Percentiles::of(&mut [7]).unwrap();
        assert_eq!((one.min_ns, one.p50_ns, one.p999_ns, one.max_ns), (7, 7, 7, 7));
        assert_eq!(Percentiles::of(&mut []), None);
    }

    proptest! {
        #[test]
        fn a_percentile_is_a_time_that_so_many_do_not_exceed(
            mut times in prop::collection::vec(0_u64..1_000, 1..2_000),
        ) {
            let it = Percentiles::of(&mut times).unwrap();
            for (per_mille, value) in [(500, it.p50_ns), (900, it.p90_ns), (990, it.p99_ns), (999, it.p999_ns)] {
                prop_assert!(times.contains(&value));
                let within = times.iter().filter(|time| **time <= value).count();
                let below = times.iter().filter(|time| **time < value).count();
                prop_assert!(within * 1_000 >= times.len() * per_mille, "{value} at {per_mille}");
                prop_assert!(below * 1_000 < times.len() * per_mille, "{value} at {per_mille} is not the smallest");
            }
        }
    }
}
