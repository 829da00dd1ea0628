//! An output of a running app: a publisher that sends at most one sample per cycle.

use std::time::Duration;

use cast::send::DEFAULT_LINGER;
use cyclic::Due;
use sample::{Dtype, Schema};
use units::Epoch;

use super::outcome::{AppError, OutputReport};
use crate::node::Node;
use crate::publisher::{PublishError, Publisher, PublisherBuilder};

/// A stream of one sample per cycle; the index of a sample is that of its cycle.
pub(super) struct OutputPort {
    publisher: Publisher,
    sample: Vec<u8>,
    written: bool,
}

impl OutputPort {
    /// Opens an output on which other apps depend: its samples are sent without linger.
    pub(super) fn open(node: &Node, stream: &str, schema: &Schema) -> Result<Self, AppError> {
        Self::open_with(node.publisher(stream).schema(schema).linger(Duration::ZERO))
    }

    /// Opens a status stream: that of a fast app is sent a few cycles at a time, because no observer reacts
    /// faster.
    pub(super) fn open_status(node: &Node, stream: &str, schema: &Schema) -> Result<Self, AppError> {
        let fast = schema.rate.duration_of(1) < DEFAULT_LINGER * 2;
        let linger = if fast { DEFAULT_LINGER } else { Duration::ZERO };
        Self::open_with(node.publisher(stream).schema(schema).linger(linger))
    }

    fn open_with(publisher: PublisherBuilder) -> Result<Self, AppError> {
        let publisher = publisher.open()?;
        Ok(Self { publisher, sample: Vec::new(), written: false })
    }

    pub(super) const fn dtype(&self) -> Dtype {
        self.publisher.schema().dtype
    }

    pub(super) const fn epoch(&self) -> Epoch {
        self.publisher.epoch()
    }

    /// Keeps the sample of this cycle.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), PublishError> {
        let sample_bytes = self.publisher.schema().sample_bytes();
        if bytes.len() != sample_bytes {
            return Err(PublishError::Ragged { bytes: bytes.len(), sample_bytes });
        }
        self.sample.clear();
        self.sample.extend_from_slice(bytes);
        self.written = true;
        Ok(())
    }

    /// Sends the sample of the cycle, if there is one.
    pub(super) fn send(&mut self, due: &Due) -> Result<(), PublishError> {
        if std::mem::take(&mut self.written) {
            self.skip_to(due.index)?;
            self.publisher.send_bytes_at(due.time, &self.sample)?;
        }
        Ok(())
    }

    /// Discards the sample of a cycle that failed.
    pub(super) const fn forget(&mut self) {
        self.written = false;
    }

    /// Records the cycles before this one as a hole.
    fn skip_to(&mut self, index: u64) -> Result<(), PublishError> {
        let behind = index.saturating_sub(self.publisher.next_index());
        self.publisher.skip(behind, ledger::Stage::Source)
    }

    /// Ends the stream before the cycle `next`.
    pub(super) fn close(mut self, next: u64) -> OutputReport {
        if let Err(error) = self.skip_to(next) {
            tracing::warn!("cannot publish the last hole of `{}`: {error}", self.publisher.name());
        }
        let (stream, epoch) = (self.publisher.name().clone(), self.publisher.epoch());
        OutputReport { stream, epoch, totals: self.publisher.close() }
    }
}
