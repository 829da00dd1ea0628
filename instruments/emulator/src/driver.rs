//! Common parts of both drivers: their clock, their thread, and the interval of housekeeping.

use core::time::Duration;
use std::io;

use sys::process::ThreadTimes;
use sys::{clock, process, scheduling};
use units::Instant;

/// Interval at which a driver publishes its account and checks whether to stop: that request wakes no poller.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Settings of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Manner {
    /// Use of trains for reading and writing.
    pub trains: Trains,
    /// Maximum time a due datagram may wait to leave with others.
    pub merge: Duration,
    /// Priority (`SCHED_FIFO`) of the driver's thread.
    pub fifo: Option<u8>,
}

/// Use of trains for reading and writing; each datagram is judged on its own in any case.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Trains {
    /// Datagrams that are due together leave in one piece.
    #[default]
    Taken,
    /// Datagrams leave one at a time, for ends that measure the spacing of pairs.
    Split,
}

/// The driver's thread and its clock; the machine's time begins with zero on it.
pub(crate) struct Driver {
    began: Instant,
    times: Option<ThreadTimes>,
    next_look: Instant,
}

impl Driver {
    /// Prepares this thread: precise sleeps, and real-time priority if requested.
    ///
    /// # Errors
    /// If the priority is not permitted.
    pub(crate) fn begin(fifo: Option<u8>) -> io::Result<Self> {
        if let Some(priority) = fifo {
            scheduling::run_fifo(priority).map_err(|error| {
                let how = "run as root, allow it with `ulimit -r`, or do without a priority";
                io::Error::new(
                    error.kind(),
                    format!("real-time priority {priority} is refused: {error}\n{how}"),
                )
            })?;
        }
        // If this is not permitted, sleeps end later, which shows as lateness.
        let _ = clock::lower_timer_slack();
        let began = clock::monotonic();
        Ok(Self { began, times: process::this_thread().ok(), next_look: Instant::ORIGIN })
    }

    /// Returns the machine's time.
    pub(crate) fn now(&self) -> Instant {
        self.of_machine(clock::monotonic())
    }

    /// Converts a machine time to the system's clock.
    pub(crate) fn of_machine(&self, at: Instant) -> Instant {
        Instant::ORIGIN + at.since(self.began)
    }

    /// Returns the end of the next wait, on the system's clock: when a datagram is due, or at the next
    /// housekeeping.
    pub(crate) fn deadline(&self, due: Option<Instant>) -> Instant {
        let at = due.map_or(self.next_look, |due| due.min(self.next_look));
        self.began + at.since(Instant::ORIGIN)
    }

    /// Returns whether housekeeping is due.
    pub(crate) fn looks_up(&mut self, now: Instant) -> bool {
        let looks = now >= self.next_look;
        if looks {
            self.next_look = now + POLL_INTERVAL;
        }
        looks
    }

    /// Returns how long this thread has run, and how long it has waited for a processor, since it began.
    pub(crate) fn times(&self) -> (Duration, Duration) {
        let (Some(before), Ok(after)) = (self.times, process::this_thread()) else {
            return Default::default();
        };
        let since = |after: u64, before: u64| Duration::from_nanos(after.saturating_sub(before));
        (since(after.ran_ns, before.ran_ns), since(after.waited_ns, before.waited_ns))
    }
}
