//! Polls from the publisher's own thread: a train or two of what waits, or samples that it passes
//! directly. Work that needs the agent's poller is left to the agent, which sees that there was a
//! poll.

use std::net::SocketAddr;

use cast::send::Input;
use sys::clock;
use units::Instant;

use super::{Polled, SendPath};
use crate::send::samples::Samples;

/// Maximum number of polls in a publisher's own thread: one train, and a check for more.
const MAX_INLINE_TRAINS: usize = 2;
/// Maximum number of destinations to which a publisher sends inline.
const MAX_QUICK_DESTINATIONS: usize = 4;

impl SendPath {
    /// Returns whether a poll would delay a publisher: more than `max_bytes` bytes wait, or there
    /// are many destinations.
    pub(in crate::send) fn is_long_work(&self, max_bytes: usize) -> bool {
        self.intake.waiting_bytes() > 2 * max_bytes as u64 || self.has_many_destinations()
    }

    /// Sends a train or two of what waits in the ring.
    pub(in crate::send) fn poll_inline(&mut self, now: Instant, announce_to: Option<SocketAddr>) -> Polled {
        self.was_polled_inline = true;
        self.announcer.poll(now, announce_to, &mut self.egress);
        let polled = self.send_what_is_due(now, MAX_INLINE_TRAINS);
        self.left_to_agent(polled)
    }

    /// Sends all trains that are due, with samples that the publisher passes directly; returns how
    /// many bytes of them were taken: none where others wait before them.
    pub(in crate::send) fn poll_with(
        &mut self,
        now: Instant,
        announce_to: Option<SocketAddr>,
        samples: &Samples<'_>,
    ) -> (usize, Polled) {
        self.was_polled_inline = true;
        if !self.intake.are_next(samples) || self.has_many_destinations() {
            return (0, Polled::Busy);
        }
        self.announcer.poll(now, announce_to, &mut self.egress);
        self.follow_injection(now);
        let (first_index, mut now, mut rest) = (self.intake.next_index(), now, samples.bytes);
        let mut is_there = true;
        let idle = loop {
            while is_there && !rest.is_empty() && self.wants_samples() {
                is_there = samples.ring_position.is_none()
                    || self.intake.pass_over_record(now, &mut self.machine, &mut self.losses);
                if !is_there {
                    break;
                }
                let (part, behind) = rest.split_at(rest.len().min(samples.part_bytes));
                let t0 = samples.rate.time_of(self.intake.next_index(), first_index, samples.t0);
                self.intake.take_samples(now, t0, part, &mut self.machine);
                rest = behind;
            }
            self.machine.handle(now, Input::Backlog(rest.len()));
            let idle = self.step(now);
            if let Some(deadline) = idle
                && (!is_there || rest.is_empty() || !self.wants_samples())
            {
                break deadline;
            }
            now = clock::monotonic();
        };
        let polled = self.end_poll(now, Some(idle));
        (samples.bytes.len() - rest.len(), self.left_to_agent(polled))
    }

    /// Returns whether samples may be passed to the machine: it first sends those that it has.
    fn wants_samples(&self) -> bool {
        self.machine.wants_samples() && !self.outgoing.waits()
    }

    const fn has_many_destinations(&self) -> bool {
        self.egress.destinations() > MAX_QUICK_DESTINATIONS
    }

    /// Returns the remaining work after an inline poll: the agent's poller is needed while the
    /// socket is full.
    fn left_to_agent(&self, polled: Polled) -> Polled {
        if self.outgoing.waits() { Polled::Busy } else { polled }
    }
}
