//! Counters of the writer.

use serde::{Deserialize, Serialize};
use units::Instant;

use super::schedule::{Callback, Schedule};

/// Writer's side of a run in progress.
#[derive(Clone, Debug)]
pub struct Sending {
    schedule: Schedule,
    sent: Sent,
}

/// Counts of what a writer has sent.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Sent {
    /// Cycles whose pieces were all handed to the transport, accepted or refused.
    pub cycles: u64,
    /// Pieces handed to the transport.
    pub handed: u64,
    /// Pieces the transport refused.
    pub refused: u64,
    /// Callbacks after each cycle.
    pub callback: Callback,
}

impl Sending {
    /// Begins to count.
    #[must_use]
    pub fn new(schedule: Schedule) -> Self {
        Self { schedule, sent: Sent::default() }
    }

    /// Returns the next cycle to send; `None` after the last.
    #[must_use]
    pub fn next_cycle(&self) -> Option<u32> {
        u32::try_from(self.sent.cycles).ok().filter(|cycle| *cycle < self.schedule.cycles)
    }

    /// Counts the next cycle, of whose `handed` pieces the transport refused `refused`; `now` is its callback.
    pub fn count(&mut self, handed: u64, refused: u64, now: Instant) {
        if let Some(cycle) = self.next_cycle() {
            self.sent.cycles += 1;
            self.sent.handed += handed;
            self.sent.refused += refused;
            self.sent.callback.count(&self.schedule, cycle, now);
        }
    }

    /// Returns the counts so far.
    #[must_use]
    pub const fn sent(&self) -> &Sent {
        &self.sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn a_writer_counts_its_cycles_and_no_more() {
        let schedule = Schedule { start: Instant::ORIGIN, cycle_time: Duration::from_nanos(10), cycles: 2 };
        let mut sending = Sending::new(schedule);
        for (cycle, now) in [(Some(0), 10), (Some(1), 21), (None, 30)] {
            assert_eq!(sending.next_cycle(), cycle);
            sending.count(3, 1, Instant::from_nanos(now));
        }
        let callback = Callback { count: 2, late: 1, least_slack_ns: Some(-1) };
        assert_eq!(*sending.sent(), Sent { cycles: 2, handed: 6, refused: 2, callback });
    }
}
