//! The publisher's short way to the network: few samples for an agent that sleeps leave by the publisher's own thread.
//!
//! Waking the agent takes longer than sending a datagram. A publisher that writes again at once leaves the sending to
//! the agent, which then finds more than one write and makes trains of them.

use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::time::Duration;

use sys::clock;
use units::Instant;

use super::lane::{Lane, Turn};
use crate::bell::AgentBell;

/// More than this is work for the agent, while the publisher takes its next samples.
const MAX_BYTES: usize = 16 * 1024;
/// A publisher that writes again within this time would be held up by sending; waking the agent takes about as long.
const MIN_PAUSE: Duration = Duration::from_micros(10);

/// A lane as the agent and its publisher share it.
pub(super) type SharedLane = Arc<Mutex<Lane>>;

/// A publisher's hold on its own lane. The lane ends with its agent, not with this.
pub(super) struct ShortWay {
    lane: Weak<Mutex<Lane>>,
    taken: Instant,
}

impl ShortWay {
    pub(super) fn new(lane: &SharedLane) -> Self {
        Self { lane: Arc::downgrade(lane), taken: Instant::ORIGIN }
    }

    /// Sends what was just written if that is quickly done; tells whether the agent may sleep on.
    pub(super) fn take(&mut self, size_bytes: usize, bell: &AgentBell) -> bool {
        if size_bytes > MAX_BYTES || clock::monotonic() < self.taken + MIN_PAUSE {
            return false;
        }
        let Some(lane) = self.lane.upgrade() else { return true };
        let mut lane = match lane.try_lock() {
            Ok(lane) => lane,
            // The agent has it, or it is lost: both are the agent's business.
            Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => return false,
        };
        if lane.is_long_work(MAX_BYTES) {
            return false;
        }
        // Once the lane is held: the agent may have had a turn before.
        let now = clock::monotonic();
        self.taken = now;
        let turn = lane.turn_of_publisher(now);
        drop(lane);
        let Turn::Until(due) = turn else { return false };
        // An agent that has woken up since sees before it sleeps again that there was a turn.
        bell.sleeps_until().is_none_or(|until| due.is_none_or(|due| until <= due))
    }
}

#[cfg(test)]
mod tests;
