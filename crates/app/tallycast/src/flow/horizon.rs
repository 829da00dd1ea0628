//! The horizon of a flow: how far its stream is known although no samples come.
//!
//! Behind the network the ring carries it, for each tally without samples. The ring of a publisher on this host has no
//! tallies; everything that was written is in it, so a reader at its end knows that there was nothing more, as long as the
//! publisher's process runs: that is told by the [beats](ring::Ring::pulse) of the ring.

use std::sync::Arc;
use std::time::Duration;

use units::{Epoch, Instant};

use super::Flow;
use crate::event::StreamHorizon;
use crate::host_view::Reach;

/// Time since the last beat of a ring after which its publisher's process may be stopped: one beat may be late.
const BEATS_WITHIN: Duration = engine::BEAT_INTERVAL.saturating_mul(2);

/// The beats of a publisher's ring as one reader sees them.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Beats {
    /// The count, and the time at which it was found to have changed.
    newest: Option<(u64, Instant)>,
}

impl Beats {
    /// Takes the ring's count at `now`; returns whether the publisher's process runs, as far as is known.
    fn look(&mut self, now: Instant, count: u64) -> bool {
        match self.newest {
            // A publisher of an earlier version does not count.
            Some((known, at)) if known == count => count == 0 || now.since(at) <= BEATS_WITHIN,
            Some(_) | None => {
                self.newest = Some((count, now));
                true
            }
        }
    }
}

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
    ///
    /// `now` was read before: what a publisher on this host had written by then is found in its ring.
    pub(crate) fn take_horizon(&mut self, now: Instant) -> Option<StreamHorizon> {
        if self.closed || self.is_tapped() {
            return None;
        }
        if self.reach != Reach::Shm {
            return self.told_horizon.take().and_then(|told| self.horizon(told));
        }
        let is_running = self.beats.look(now, self.subscription.ring.pulse());
        let epoch = self.current.filter(|_| is_running && !self.reader.has_more())?;
        let position = self.epochs.get(&epoch)?.hop.next_position();
        self.horizon(ToldHorizon { epoch, position, at: now, is_idle: true })
    }

    /// Returns a horizon of an open account.
    fn horizon(&self, told: ToldHorizon) -> Option<StreamHorizon> {
        let ToldHorizon { epoch, position, at, is_idle } = told;
        let origin = self.epochs.get(&epoch).filter(|reader_epoch| !reader_epoch.ended)?.origin;
        let next_index = position / u64::from(self.schema.elements_per_sample());
        Some(StreamHorizon { stream: Arc::clone(&self.name), epoch, origin, next_index, at, is_idle })
    }
}
