//! A run of consecutive samples in the reader's own memory.

use std::sync::Arc;

use units::{Epoch, RangeSet, WallTime};
use zerocopy::FromBytes;

use crate::{Element, SampleBuffer, Schema, StreamName};

/// A run of consecutive samples, passed as a unit.
///
/// Shape: `[samples, elements per sample]`, row-major; the elements of a sample are those of its channels
/// in order, as given by [`Schema::channel_elements`].
#[derive(Clone, Debug)]
pub struct Block {
    /// The stream's name.
    pub stream: Arc<StreamName>,
    /// Schema of the samples.
    pub schema: Arc<Schema>,
    /// Publisher's epoch that this belongs to.
    pub epoch: Epoch,
    /// Index of the first sample since the epoch began.
    pub first_index: u64,
    /// Time of the first sample.
    pub t0: WallTime,
    /// Number of samples.
    pub samples: u64,
    /// Samples, little-endian. Empty for a reader of views, whose samples stay in the ring: [`SampleBuffer::foreign`].
    pub data: SampleBuffer,
    /// Elements of this block that never arrived, counted from its first element; empty for a complete block.
    ///
    /// Only samples that were cut over several datagrams can be partial; missing elements read as zero.
    pub missing: RangeSet,
}

/// Error for reading a block as another type than its own.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the stream's elements are {actual}, not {asked}")]
pub struct WrongElement {
    /// Dtype of the stream.
    pub actual: crate::Dtype,
    /// Dtype that was requested.
    pub asked: crate::Dtype,
}

impl Block {
    /// Returns the elements in place.
    ///
    /// Shape: `[samples, elements per sample]`, row-major, `len == samples * elements_per_sample`.
    ///
    /// # Errors
    /// [`WrongElement`] if the stream's dtype is another one.
    pub fn elements<E: Element>(&self) -> Result<&[E], WrongElement> {
        if self.schema.dtype != E::DTYPE {
            return Err(WrongElement { actual: self.schema.dtype, asked: E::DTYPE });
        }
        Ok(<[E]>::ref_from_bytes(self.data.as_bytes()).expect("whole elements, aligned to eight bytes"))
    }

    /// Returns one element as a scaled value in its channel's unit.
    ///
    /// # Panics
    /// If `sample` or `element` is beyond the block.
    #[must_use]
    pub fn value(&self, sample: usize, element: usize, channel: usize) -> f64 {
        let size = self.schema.dtype.size_bytes();
        let start = sample * self.schema.sample_bytes() + element * size;
        let raw = self.schema.dtype.to_f64(&self.data.as_bytes()[start..start + size]);
        let channel = &self.schema.channels[channel];
        raw.mul_add(channel.scale, channel.offset)
    }

    /// Returns the time of sample `index` (counted since the epoch began).
    #[must_use]
    pub fn time_of(&self, index: u64) -> WallTime {
        self.schema.rate.time_of(index, self.first_index, self.t0)
    }

    /// Returns the index one behind the last sample.
    #[must_use]
    pub const fn next_index(&self) -> u64 {
        self.first_index + self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Channel, Dtype};
    use units::SampleRate;

    fn block(bytes: &[u8]) -> Block {
        let channels = vec![Channel::new("a", "V").with_scale(2.0, 1.0), Channel::new("b", "A")];
        Block {
            stream: Arc::new("lab/probe".parse().unwrap()),
            schema: Arc::new(Schema::new(Dtype::I16, SampleRate::hz(4).unwrap(), channels).unwrap()),
            epoch: Epoch { start_ns: 0, incarnation: 0 },
            first_index: 8,
            t0: WallTime::from_nanos(1_000),
            samples: (bytes.len() / 4) as u64,
            data: SampleBuffer::from_bytes(bytes),
            missing: RangeSet::new(),
        }
    }

    #[test]
    fn elements_are_read_in_place_and_only_as_what_they_are() {
        let block = block(&[1, 0, 2, 0, 3, 0, 4, 0]);
        assert_eq!(block.elements::<i16>().unwrap(), [1, 2, 3, 4]);
        let asked = WrongElement { actual: Dtype::I16, asked: Dtype::F4 };
        assert_eq!(block.elements::<f32>(), Err(asked));
    }

    #[test]
    fn values_are_scaled_by_their_channel() {
        let block = block(&[1, 0, 2, 0, 3, 0, 4, 0]);
        assert_eq!(block.value(1, 0, 0), 7.0);
        assert_eq!(block.value(1, 1, 1), 4.0);
        assert_eq!(block.time_of(9), WallTime::from_nanos(250_001_000));
    }
}
