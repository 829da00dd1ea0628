//! Inline sending: while the agent sleeps, samples are sent by the publisher's own thread.
//!
//! Waking the agent takes longer than sending a datagram, and the agent has to fetch the contents
//! of the ring from another processor's cache. The agent sends instead in two cases: a publisher
//! soon writes few samples again, so that the agent finds several writes and makes trains of them;
//! or there are many samples, which fill trains without waiting, unless the publisher waits for its
//! network anyway when there is no room.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use sys::clock;
use units::Instant;

use super::guarded_send_path::GuardedSendPath;
use super::publication_config::SocketFull;
use super::samples::Samples;
use super::send_path::{Polled, SendPath};
use crate::waker::AgentWaker;

/// Size above which the agent sends while the publisher takes its next samples, unless the
/// publisher waits for room.
const MAX_BYTES: usize = 16 * 1024;
/// Interval between writes below which sending would delay the publisher; waking the agent takes
/// about as long.
const MIN_PAUSE: Duration = Duration::from_micros(10);

/// A publisher's handle of its own send path, which ends with the agent, not with this handle.
pub(super) struct InlineSender {
    send_path: Weak<GuardedSendPath>,
    announce_to: Option<SocketAddr>,
    /// True if the publisher waits for its network when there is no room.
    waits_anyway: bool,
    last_sent: Instant,
}

impl InlineSender {
    pub(super) fn new(
        send_path: &Arc<GuardedSendPath>,
        announce_to: Option<SocketAddr>,
        socket: SocketFull,
    ) -> Self {
        let waits_anyway = socket == SocketFull::Wait;
        Self { send_path: Arc::downgrade(send_path), announce_to, waits_anyway, last_sent: Instant::ORIGIN }
    }

    /// Sends samples that are in no ring; returns how many bytes were sent. The rest must go
    /// through the ring to the agent, which must be woken for it.
    pub(super) fn send(&mut self, samples: &Samples<'_>, waker: &AgentWaker) -> usize {
        let announce_to = self.announce_to;
        let act = |send_path: &mut SendPath, now| {
            let (taken, polled) = send_path.poll_with(now, announce_to, samples);
            (taken > 0).then_some((taken, polled))
        };
        let Some((taken, polled)) = self.try_poll(samples.bytes.len(), waker, act) else { return 0 };
        if taken == samples.bytes.len() {
            self.leave(&polled, waker);
        }
        taken
    }

    /// Sends samples that were just written to the ring, or makes sure that the agent does.
    pub(super) fn send_written(&mut self, samples: &Samples<'_>, waker: &AgentWaker) {
        let announce_to = self.announce_to;
        let act = |send_path: &mut SendPath, now| match send_path.poll_with(now, announce_to, samples) {
            // Other samples wait before them.
            (0, _) if send_path.is_long_work(MAX_BYTES) => None,
            (0, _) => Some(send_path.poll_inline(now, announce_to)),
            (taken, polled) => Some(if taken == samples.bytes.len() { polled } else { Polled::Busy }),
        };
        match self.try_poll(samples.bytes.len(), waker, act) {
            Some(polled) => self.leave(&polled, waker),
            None => waker.wake(),
        }
    }

    /// Calls `act` with the send path if the publisher may send `size_bytes` bytes inline; `None`
    /// if it did not send.
    fn try_poll<T>(
        &mut self,
        size_bytes: usize,
        waker: &AgentWaker,
        act: impl FnOnce(&mut SendPath, Instant) -> Option<T>,
    ) -> Option<T> {
        waker.sleeps_until()?;
        let is_long = size_bytes > MAX_BYTES;
        let is_for_agent =
            if is_long { !self.waits_anyway } else { clock::monotonic() < self.last_sent + MIN_PAUSE };
        if is_for_agent {
            return None;
        }
        let had = self.send_path.upgrade()?.with(|send_path| {
            // After the send path is locked: the agent may have polled it before.
            let now = clock::monotonic();
            act(send_path, now).map(|had| (had, now))
        });
        let (had, now) = had.ok()??;
        self.last_sent = now;
        Some(had)
    }

    /// Wakes the agent unless nothing is due before its own deadline.
    fn leave(&self, polled: &Polled, waker: &AgentWaker) {
        let has_messages = self.send_path.upgrade().is_some_and(|send_path| send_path.has_messages());
        // An agent that has woken up since sees before it sleeps again that the send path was
        // polled.
        let in_time = |due: Option<Instant>| {
            waker.sleeps_until().is_none_or(|until| due.is_none_or(|due| until <= due))
        };
        if has_messages || !matches!(polled, Polled::Until(due) if in_time(*due)) {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests;
