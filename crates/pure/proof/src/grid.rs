//! Intervals of a stream and their leaves: aligned ranges of positions, the same for a whole epoch.
//!
//! A position counts elements since the epoch began, as in gaps. Every statement names its grid, so that another
//! choice here changes nothing about what was signed before.

use core::ops::Range;
use core::time::Duration;

use sample::Schema;

/// Size of a leaf's elements, unless a second of the stream is smaller. Units: bytes.
///
/// A leaf is what a gap leaves unproven beside it: about 95 datagrams of the default size.
pub const LEAF_BYTES: usize = 128 << 10;
/// Maximum number of leaves in an interval: together 1 MiB; their digests have 256 bytes, so that a statement of
/// three intervals fits into a default datagram.
pub const MAX_LEAVES: usize = 8;

/// Division of positions into intervals and leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid {
    /// Elements in one leaf.
    leaf_elements: u32,
    /// Leaves in one interval.
    leaves: u8,
}

impl Grid {
    /// Returns the grid for a stream: intervals of 1 MiB, or of one second where that is less.
    ///
    /// Leaves consist of whole samples, except where one sample is larger than a leaf.
    #[must_use]
    pub fn of(schema: &Schema) -> Self {
        let (sample_bytes, element_bytes) = (schema.sample_bytes(), schema.dtype.size_bytes());
        let per_sample = u64::from(schema.elements_per_sample());
        let second = schema.rate.samples_in(Duration::from_secs(1)).max(1);
        let leaf_elements = match (LEAF_BYTES / sample_bytes) as u64 {
            0 => (LEAF_BYTES / element_bytes) as u64,
            samples => samples.min(second) * per_sample,
        };
        let leaves = (second.saturating_mul(per_sample) / leaf_elements).clamp(1, MAX_LEAVES as u64);
        Self {
            leaf_elements: u32::try_from(leaf_elements).expect("a leaf has at most 128 Ki elements"),
            leaves: u8::try_from(leaves).expect("at most eight"),
        }
    }

    /// Returns the grid of a statement; `None` if none has such sizes.
    #[must_use]
    pub const fn from_sizes(leaf_elements: u32, leaves: u8) -> Option<Self> {
        let fits = leaf_elements as usize <= LEAF_BYTES && leaves as usize <= MAX_LEAVES;
        if fits && leaf_elements > 0 && leaves > 0 { Some(Self { leaf_elements, leaves }) } else { None }
    }

    /// Returns the elements in one leaf.
    #[must_use]
    pub const fn leaf_elements(self) -> u32 {
        self.leaf_elements
    }

    /// Returns the number of leaves in one interval.
    #[must_use]
    pub const fn leaves(self) -> usize {
        self.leaves as usize
    }

    /// Returns the elements in one interval.
    #[must_use]
    pub const fn interval_elements(self) -> u64 {
        self.leaf_elements as u64 * self.leaves as u64
    }

    /// Returns the interval of a position.
    #[must_use]
    pub const fn interval_of(self, position: u64) -> u64 {
        position / self.interval_elements()
    }

    /// Returns the positions of some intervals.
    #[must_use]
    pub const fn positions(self, intervals: &Range<u64>) -> Range<u64> {
        let size = self.interval_elements();
        intervals.start.saturating_mul(size)..intervals.end.saturating_mul(size)
    }

    /// Returns the positions of a leaf of an interval.
    #[must_use]
    pub const fn leaf_positions(self, interval: u64, leaf: usize) -> Range<u64> {
        let size = self.leaf_elements as u64;
        let start = interval.saturating_mul(self.interval_elements()).saturating_add(leaf as u64 * size);
        start..start.saturating_add(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::{Channel, Dtype};
    use units::SampleRate;

    fn grid(dtype: Dtype, rate: &str, shape: &[u32]) -> (u32, u8) {
        let channel = Channel::new("a", "").with_shape(shape);
        let grid = Grid::of(&Schema::new(dtype, rate.parse::<SampleRate>().unwrap(), vec![channel]).unwrap());
        (grid.leaf_elements, grid.leaves)
    }

    #[test]
    fn an_interval_is_a_mebibyte_or_a_second() {
        assert_eq!(grid(Dtype::F4, "1000000", &[]), (32_768, 8), "1 MiB of 4 MB/s");
        assert_eq!(grid(Dtype::F4, "100000", &[]), (32_768, 3), "393 kB of 400 kB/s");
        assert_eq!(grid(Dtype::F4, "1000", &[3]), (3_000, 1), "one second of 12 kB/s");
        assert_eq!(grid(Dtype::F4, "1/10", &[]), (1, 1), "a single sample");
    }

    #[test]
    fn leaves_are_whole_samples_unless_a_sample_is_larger() {
        assert_eq!(grid(Dtype::U8, "1000000", &[3_000]), (129_000, 8));
        assert_eq!(grid(Dtype::U16, "25", &[1_024, 1_024]), (65_536, 8), "16 leaves in one image");
        assert_eq!(grid(Dtype::U16, "1", &[300, 300]), (65_536, 1));
    }

    #[test]
    fn positions_lead_back_to_their_interval() {
        let grid = Grid::from_sizes(10, 3).unwrap();
        assert_eq!((grid.interval_of(29), grid.interval_of(30)), (0, 1));
        assert_eq!(grid.positions(&(1..3)), 30..90);
        assert_eq!(grid.leaf_positions(1, 2), 50..60);
        assert_eq!(Grid::from_sizes(0, 1), None);
        assert_eq!(Grid::from_sizes(1, 9), None);
        assert!(Grid::from_sizes(LEAF_BYTES as u32, 8).is_some());
        assert_eq!(Grid::from_sizes(LEAF_BYTES as u32 + 1, 8), None);
    }
}
