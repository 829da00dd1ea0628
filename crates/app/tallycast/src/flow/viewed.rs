//! Blocks that stay in the ring, for readers that asked for views and know the consequences.

use std::sync::Arc;

use engine::record::{BLOCK_HEAD_BYTES, BlockRecord, kind, whole_block};
use ring::{Kept, Read};
use sample::{Block, Foreign, SampleBuffer};
use units::RangeSet;

use super::{Flow, Place};
use crate::assembly::{Assembly, MIN_RECORD_BYTES, Piece};
use crate::event::Event;

/// The samples of a block in the memory of its ring.
struct InRing(Kept);

impl Foreign for InRing {
    fn address(&self) -> *const u8 {
        self.0.address().wrapping_add(BLOCK_HEAD_BYTES)
    }

    fn is_valid(&self) -> bool {
        self.0.still_valid()
    }
}

impl std::fmt::Debug for InRing {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "InRing({} bytes)", self.0.payload_bytes() - BLOCK_HEAD_BYTES)
    }
}

/// The head of a block, the location of its payload, and the totals before it.
type LeftBlock = (BlockRecord<'static>, Kept, [u64; 2]);

impl Flow {
    /// Delivers the next record without a copy, if it is a block of whole samples and large enough to be a
    /// block alone; returns the result, `None` for a record that is to be read like any other.
    pub(super) fn leave_block(&mut self, reader_name: &str, events: &mut Vec<Event>) -> Option<Read> {
        if self.is_aged() {
            return None;
        }
        let is_between_samples = self.assembly.as_ref().is_none_or(Assembly::is_whole);
        if self.resumed || !is_between_samples {
            return None;
        }
        let (block, kept, totals) = match self.look_at_block() {
            Ok(found) => found?,
            Err(other) => return Some(other),
        };
        // Once the cursor has moved, a writer that overtakes this reader costs it nothing of this record.
        let before = self.reader.position();
        self.reader.skip();
        if self.reader.position() == before {
            return None;
        }
        let at = Place { epoch: block.epoch, totals, position: block.position };
        if !self.was_had(at) && self.enter(at, reader_name, events) {
            self.flush(events);
            let size_bytes = kept.payload_bytes() - BLOCK_HEAD_BYTES;
            let piece = Piece { position: block.position, t0: block.t0, size_bytes };
            if self.count_delivered(block.epoch, piece, events).is_some() {
                self.blocks.push(self.left_block(&block, size_bytes, kept));
                self.hand_over(events);
            }
        }
        Some(Read::Record { kind: kind::BLOCK, totals })
    }

    /// Reads the next record in place; `None` if it is not to be left in the ring.
    fn look_at_block(&mut self) -> Result<Option<LeftBlock>, Read> {
        let view = self.reader.look()?;
        let mut head = [0; BLOCK_HEAD_BYTES];
        let payload_bytes = view.payload_bytes().saturating_sub(BLOCK_HEAD_BYTES);
        let is_large = view.kind() == kind::BLOCK && payload_bytes >= MIN_RECORD_BYTES;
        if !is_large || !view.copy_start(&mut head) {
            return Ok(None);
        }
        let (block, totals) = (whole_block(&self.schema, head, payload_bytes), view.totals());
        Ok(block.zip(view.keep()).map(|(block, kept)| (block, kept, totals)))
    }

    fn left_block(&self, block: &BlockRecord<'_>, size_bytes: usize, kept: Kept) -> Block {
        Block {
            stream: Arc::clone(&self.name),
            schema: Arc::clone(&self.schema),
            epoch: block.epoch,
            first_index: block.position / u64::from(self.schema.elements_per_sample()),
            t0: block.t0,
            samples: (size_bytes / self.schema.sample_bytes()) as u64,
            data: SampleBuffer::left_in(Arc::new(InRing(kept))),
            missing: RangeSet::new(),
        }
    }
}
