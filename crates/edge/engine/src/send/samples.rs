//! Samples on their way from the publisher's thread to its send path, beside the ring.

use units::{SampleRate, WallTime};

/// Samples that their publisher holds.
#[derive(Clone, Copy)]
pub(super) struct Samples<'a> {
    /// Time at which the first was taken.
    pub(super) t0: WallTime,
    pub(super) rate: SampleRate,
    pub(super) bytes: &'a [u8],
    /// Maximum number of bytes passed in one part, whole samples; as many as a record has.
    pub(super) part_bytes: usize,
    /// Position of their records in the ring, if they are there too.
    pub(super) ring_position: Option<u64>,
}
