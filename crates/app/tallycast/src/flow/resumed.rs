//! A stream that changes its reach: it continues behind the data received before, and nothing is reported
//! twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::record::BlockRecord;
use ledger::AccountState;
use sample::StreamName;
use units::Epoch;

use super::{Flow, Place};
use crate::host_view::Reach;
use crate::reader_epoch::ReaderEpoch;

/// State of a flow that has ended, kept for the next flow of the same stream.
pub(crate) struct Rest {
    pub(crate) name: Arc<StreamName>,
    pub(super) epochs: BTreeMap<Epoch, ReaderEpoch>,
    pub(super) current: Option<Epoch>,
    /// The epoch that the next account follows.
    followed: Option<Epoch>,
}

impl Flow {
    /// Continues with the state of another flow of the same stream, which has ended and had another reach.
    pub(crate) fn resume(&mut self, before: Rest) {
        (self.epochs, self.resumed) = (before.epochs, true);
        // A publisher's ring contains the current epoch, whatever its start is after a clock step.
        self.current = before.current.filter(|_| self.reach != Reach::Shm);
        self.followed = before.followed;
    }

    /// Returns the state to keep of a flow that has ended: neither its ring nor its writer's liveness.
    pub(crate) fn into_rest(self) -> Rest {
        let followed = self.current.or(self.followed);
        Rest { name: self.name, epochs: self.epochs, current: self.current, followed }
    }

    /// Returns whether no account is open and nothing is to be read: the stream may change its reach.
    pub(crate) fn is_idle(&mut self) -> bool {
        !self.is_ready() && self.epochs.values().all(|reader_epoch| reader_epoch.ended)
    }

    /// Returns the position up to which this reader received an epoch before, by another reach.
    fn had_until(&self, epoch: Epoch) -> u64 {
        let reader_epoch = self.epochs.get(&epoch).filter(|reader_epoch| reader_epoch.ended);
        let is_over =
            reader_epoch.is_some_and(|reader_epoch| reader_epoch.hop.state() == AccountState::Closed);
        let is_older = self.resumed && self.current.is_some_and(|current| epoch < current);
        if is_over || is_older {
            return u64::MAX;
        }
        reader_epoch.filter(|_| self.resumed).map_or(0, |reader_epoch| reader_epoch.hop.next_position())
    }

    pub(super) fn was_had(&self, at: Place) -> bool {
        at.position < self.had_until(at.epoch)
    }

    /// Returns the part of a block that this reader has not received, and its position; `None` if it received
    /// all of it.
    pub(super) fn news_of<'a>(
        &self,
        block: BlockRecord<'a>,
        totals: [u64; 2],
    ) -> Option<(Place, BlockRecord<'a>)> {
        let at = Place { epoch: block.epoch, totals, position: block.position };
        if !self.was_had(at) {
            return Some((at, block));
        }
        let had = self.had_until(block.epoch) - block.position;
        let bytes = usize::try_from(had).ok()?.checked_mul(self.schema.dtype.size_bytes())?;
        let payload = block.payload.get(bytes..).filter(|rest| !rest.is_empty())?;
        let per_sample = u64::from(self.schema.elements_per_sample());
        let position = block.position + had;
        let t0 = self.schema.rate.time_of(position / per_sample, block.position / per_sample, block.t0);
        let [delivered, missing] = totals;
        let at = Place { totals: [delivered + had, missing], position, ..at };
        Some((at, BlockRecord { position, t0, payload, ..block }))
    }
}
