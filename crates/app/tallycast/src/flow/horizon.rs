//! The horizon of a flow: how far its stream is known although no samples come.
//!
//! Behind the network the ring carries it, for each tally without samples. The ring of a publisher on this host has no
//! tallies; everything that was written is in it, so a reader at its end knows that there was nothing more.

use std::sync::Arc;

use sys::clock;
use units::{Epoch, Instant};

use super::Flow;
use crate::event::StreamHorizon;
use crate::host_view::Reach;

/// A horizon as the ring had it.
#[derive(Clone, Copy)]
pub(super) struct ToldHorizon {
    pub(super) epoch: Epoch,
    pub(super) position: u64,
    pub(super) at: Instant,
    pub(super) is_idle: bool,
}

impl Flow {
    /// Returns the newest horizon that was not taken yet. The events of all records before it are with the subscriber.
    pub(crate) fn take_horizon(&mut self) -> Option<StreamHorizon> {
        if self.closed || self.is_tapped() {
            return None;
        }
        if self.reach != Reach::Shm {
            return self.told_horizon.take().and_then(|told| self.horizon(told));
        }
        // Read before the ring is looked at: what was written by then is found there.
        let at = clock::monotonic();
        let epoch = self.current.filter(|_| !self.reader.has_more())?;
        let position = self.epochs.get(&epoch)?.hop.next_position();
        self.horizon(ToldHorizon { epoch, position, at, is_idle: true })
    }

    /// Returns a horizon of an open account.
    fn horizon(&self, told: ToldHorizon) -> Option<StreamHorizon> {
        let ToldHorizon { epoch, position, at, is_idle } = told;
        let origin = self.epochs.get(&epoch).filter(|reader_epoch| !reader_epoch.ended)?.origin;
        let next_index = position / u64::from(self.schema.elements_per_sample());
        Some(StreamHorizon { stream: Arc::clone(&self.name), epoch, origin, next_index, at, is_idle })
    }
}
