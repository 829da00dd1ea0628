//! Histogram of durations in constant memory, with buckets that grow with the value.

use core::fmt;
use core::time::Duration;

/// Number of buckets of equal width between two powers of two: a value is known to about 3 %.
const BUCKETS_PER_OCTAVE: u64 = 32;
const SUB_BITS: u32 = BUCKETS_PER_OCTAVE.ilog2();
/// Total number of buckets: one each for values below 32, and 32 for every power of two above.
const BUCKETS: usize = (BUCKETS_PER_OCTAVE as usize) * (64 - SUB_BITS as usize + 1);

/// Counts of durations in buckets that grow with the value: exact below 32 ns, to about 3 % above.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], count: 0, max_ns: 0 }
    }
}

impl Histogram {
    /// Counts a duration.
    pub fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket_of(nanos)] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(nanos);
    }

    /// Returns the number of durations counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the largest duration, exactly; zero if the histogram is empty.
    #[must_use]
    pub const fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    /// Returns the duration that a share of the values does not exceed; zero if the histogram is
    /// empty.
    ///
    /// Units: `share` is 0 to 1; 0.5 asks for the median.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank within a count"
    )]
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = ((self.count as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return Duration::from_nanos(upper_edge(bucket).min(self.max_ns));
            }
        }
        Duration::ZERO
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (median, p99) = (self.quantile(0.5), self.quantile(0.99));
        let mut shown = formatter.debug_struct("Histogram");
        shown.field("count", &self.count).field("median", &median).field("p99", &p99);
        shown.field("max", &self.max()).finish_non_exhaustive()
    }
}

const fn bucket_of(nanos: u64) -> usize {
    if nanos < BUCKETS_PER_OCTAVE {
        return nanos as usize;
    }
    let shift = nanos.ilog2() - SUB_BITS;
    let within = (nanos >> shift) - BUCKETS_PER_OCTAVE;
    ((shift as u64 + 1) * BUCKETS_PER_OCTAVE + within) as usize
}

const fn upper_edge(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < BUCKETS_PER_OCTAVE {
        return bucket;
    }
    let shift = bucket / BUCKETS_PER_OCTAVE - 1;
    let first = (bucket % BUCKETS_PER_OCTAVE + BUCKETS_PER_OCTAVE) << shift;
    first + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_bucket_begins_where_the_one_before_ends() {
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(upper_edge(bucket)), bucket);
            if bucket + 1 < BUCKETS {
                assert_eq!(bucket_of(upper_edge(bucket) + 1), bucket + 1);
            }
        }
        assert_eq!(upper_edge(BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn quantiles_of_nothing_are_zero() {
        assert_eq!(
            (Histogram::default().quantile(0.5), Histogram::default().max()),
            (Duration::ZERO, Duration::ZERO)
        );
    }

    proptest! {
        #[test]
        fn quantiles_are_right_to_one_part_in_32(mut values in prop::collection::vec(any::<u32>(), 1..200)) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.record(Duration::from_nanos(u64::from(*value))));
            values.sort_unstable();
            prop_assert_eq!(histogram.max().as_nanos(), u128::from(*values.last().unwrap()));
            for share in [0.0, 0.5, 0.9, 0.99, 1.0] {
                let rank = ((values.len() as f64 * share).ceil() as usize).max(1);
                let exact = u64::from(values[rank - 1]);
                let told = histogram.quantile(share).as_nanos() as u64;
                prop_assert!(told >= exact && told <= exact + exact / 32 + 1, "{told} for {exact}");
            }
        }
    }
}
