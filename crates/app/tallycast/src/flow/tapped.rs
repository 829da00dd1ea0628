//! A flow that hands over the records of its ring as they are, without assembling samples.

use std::sync::Arc;
use std::time::Instant;

use engine::record::BlockRecord;
use ledger::Gap;
use units::Epoch;

use super::Flow;
use crate::assembly::Piece;
use crate::reader_epoch::ReaderEpoch;
use crate::tap::{Elements, TapBeginning, TapRecord, Tapped};

/// Form in which a flow hands over the elements of its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handing {
    /// As blocks of whole samples.
    Blocks,
    /// As such blocks, the large ones left in the ring.
    BlocksInRing,
    /// As records.
    Records,
}

/// Records that wait to be taken by a tap.
#[derive(Default)]
pub(super) struct Records {
    list: Vec<Tapped>,
    /// Size of their elements since [`Flow::count_tapped`] was called.
    size_bytes: usize,
    /// Moment when a record was found after the ring had been read to its end.
    busy_since: Option<Instant>,
}

impl Flow {
    /// Sets the form in which elements are handed over, before anything is read.
    pub(crate) fn hand_over_as(&mut self, handing: Handing) {
        self.leaves_blocks = handing == Handing::BlocksInRing;
        self.tapped = (handing == Handing::Records).then(Records::default);
    }

    /// Returns the records read since the last call.
    pub(crate) fn take_records(&mut self) -> impl Iterator<Item = Tapped> + '_ {
        self.tapped.iter_mut().flat_map(|records| records.list.drain(..))
    }

    /// Returns whether records are handed over rather than blocks.
    pub(super) const fn is_tapped(&self) -> bool {
        self.tapped.is_some()
    }

    /// Returns the size of the elements that were handed over as records since the last call.
    pub(super) fn count_tapped(&mut self) -> usize {
        self.tapped.as_mut().map_or(0, |records| std::mem::take(&mut records.size_bytes))
    }

    /// Notes that the ring was read to its end.
    pub(super) fn rest(&mut self) {
        if let Some(records) = &mut self.tapped {
            records.busy_since = None;
        }
    }

    /// Hands over a record, if a tap reads this flow.
    pub(super) fn tap(&mut self, epoch: Epoch, record: impl FnOnce() -> TapRecord) {
        let stream = self.stream();
        if let Some(records) = &mut self.tapped {
            records.list.push(Tapped { stream, epoch, record: record() });
        }
    }

    /// Hands over the elements that a block record holds behind its `piece`'s position.
    pub(super) fn tap_elements(&mut self, block: &BlockRecord<'_>, piece: Piece) {
        let stream = self.stream();
        let Some(records) = &mut self.tapped else { return };
        let now = Instant::now();
        let since = *records.busy_since.get_or_insert(now);
        let bytes = block.payload[block.payload.len() - piece.size_bytes..].to_vec();
        records.size_bytes += bytes.len();
        let Piece { position, t0, .. } = piece;
        let elements =
            Elements { position, t0, clock: block.clock, born: block.born, bytes, residence: now - since };
        records.list.push(Tapped { stream, epoch: block.epoch, record: TapRecord::Elements(elements) });
    }

    pub(super) fn tap_beginning(&mut self, epoch: Epoch, reader_epoch: &ReaderEpoch) {
        let beginning = TapBeginning {
            description: Arc::clone(&self.subscription.description),
            origin: reader_epoch.origin,
            join: reader_epoch.join,
            first_position: reader_epoch.hop.next_position(),
        };
        self.tap(epoch, || TapRecord::Began(beginning));
    }

    pub(super) fn tap_gap(&mut self, epoch: Epoch, gap: &Gap) {
        self.tap(epoch, || TapRecord::Gap(gap.clone()));
    }
}
