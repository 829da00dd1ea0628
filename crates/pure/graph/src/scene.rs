//! Blocks for tests: streams of one channel on a steady clock, to be cut and disturbed.

use std::sync::Arc;

use sample::{Block, Channel, Dtype, SampleBuffer, Schema};
use units::{Epoch, RangeSet, WallTime};

/// A stream named `lab/NAME` with one channel `x`.
pub(crate) struct Stream {
    name: &'static str,
    schema: Arc<Schema>,
    pub(crate) epoch: Epoch,
    pub(crate) anchor: WallTime,
}

impl Stream {
    pub(crate) fn new(name: &'static str, rate: &str) -> Self {
        let schema = Schema::new(Dtype::F8, rate.parse().unwrap(), vec![Channel::new("x", "V")]).unwrap();
        let epoch = Epoch { start_ns: 1, incarnation: 1 };
        Self { name, schema: Arc::new(schema), epoch, anchor: WallTime::from_nanos(1_000_000_000) }
    }

    pub(crate) fn time_of(&self, index: u64) -> WallTime {
        self.schema.rate.time_of(index, 0, self.anchor)
    }

    pub(crate) fn block(&self, first_index: u64, values: &[f64]) -> Block {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Block {
            stream: Arc::new(self.name.parse().unwrap()),
            schema: self.schema.clone(),
            epoch: self.epoch,
            first_index,
            t0: self.time_of(first_index),
            samples: values.len() as u64,
            data: SampleBuffer::from_bytes(&bytes),
            missing: RangeSet::new(),
        }
    }
}

/// Returns the little-endian `f8` values of a buffer.
pub(crate) fn floats(data: &SampleBuffer) -> Vec<f64> {
    data.as_bytes().chunks_exact(8).map(|bytes| Dtype::F8.to_f64(bytes)).collect()
}
