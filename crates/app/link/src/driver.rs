//! What both drivers do alike: their clock, their thread, and when they look up from their work.

use core::time::Duration;
use std::io;

use sys::process::ThreadTimes;
use sys::{clock, process, scheduling};
use units::Instant;

/// How often a driver shows its account and looks whether to end.
const LOOK: Duration = Duration::from_millis(100);

/// How a driver works.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Manner {
    /// Whether datagrams are read and written in trains.
    pub trains: Trains,
    /// How long one that is due may wait for others to leave with.
    pub merge: Duration,
    /// The priority (`SCHED_FIFO`) of the driver's thread.
    pub fifo: Option<u8>,
}

/// Whether datagrams are read and written in trains, each judged on its own all the same.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Trains {
    /// Those that are due at once leave in one piece.
    #[default]
    Taken,
    /// One at a time, for ends that measure the spacing of pairs.
    Split,
}

/// The driver's thread and its clock, on which the machine's time begins with zero.
pub(crate) struct Driver {
    began: Instant,
    times: Option<ThreadTimes>,
    next_look: Instant,
}

impl Driver {
    /// Prepares this thread: its sleeps end in time, and it runs first where that is wanted.
    ///
    /// # Errors
    /// If the priority is not allowed.
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
        // Where that is forbidden sleeps end later, which lateness tells.
        let _ = clock::lower_timer_slack();
        let began = clock::monotonic();
        Ok(Self { began, times: process::this_thread().ok(), next_look: Instant::ORIGIN })
    }

    /// Returns the machine's time.
    pub(crate) fn now(&self) -> Instant {
        self.of_machine(clock::monotonic())
    }

    /// Returns a moment in the machine's time.
    pub(crate) fn of_machine(&self, at: Instant) -> Instant {
        Instant::ORIGIN + at.since(self.began)
    }

    /// Returns until when to wait, on the system's clock: for what is due, for the next look at the latest.
    pub(crate) fn deadline(&self, due: Option<Instant>) -> Instant {
        let at = due.map_or(self.next_look, |due| due.min(self.next_look));
        self.began + at.since(Instant::ORIGIN)
    }

    /// Tells whether it is time for a look.
    pub(crate) fn looks_up(&mut self, now: Instant) -> bool {
        let looks = now >= self.next_look;
        if looks {
            self.next_look = now + LOOK;
        }
        looks
    }

    /// Returns how long this thread has run, and waited for a processor, since it began.
    pub(crate) fn times(&self) -> (Duration, Duration) {
        let (Some(before), Ok(after)) = (self.times, process::this_thread()) else {
            return Default::default();
        };
        let since = |after: u64, before: u64| Duration::from_nanos(after.saturating_sub(before));
        (since(after.ran_ns, before.ran_ns), since(after.waited_ns, before.waited_ns))
    }
}
