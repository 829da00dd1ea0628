//! Forked children: what was opened before a fork is the parent's, for its threads are not in the child.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::raw::fork;

/// Interval at which the end of a child is looked for: only tests wait for one.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The process that opened something.
///
/// Cost of a comparison: a load. A fork that goes around the C library (`clone`) is not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Home(u64);

/// A forked child.
#[derive(Debug)]
pub struct ForkedChild(Pid);

impl Home {
    /// Returns this process.
    #[must_use]
    pub fn here() -> Self {
        Self(fork::forks())
    }

    /// Returns whether this is the process, and no child of it.
    #[must_use]
    pub fn is_here(self) -> bool {
        // Whoever made it began to count.
        self.0 == fork::counted()
    }
}

impl ForkedChild {
    /// Runs a function in a forked child, which ends with the code that it returns, or 255 if it panics. For tests of
    /// what a program that forks meets.
    ///
    /// # Errors
    /// If the kernel has no process left.
    pub fn run(act: impl FnOnce() -> u8) -> io::Result<Self> {
        let pid = fork::child(act)?;
        Ok(Self(Pid::from_raw(pid).expect("a child has a number")))
    }

    /// Returns the code with which the child ended; `None` if it did not within `patience`: then it is killed.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn wait(self, patience: Duration) -> io::Result<Option<i32>> {
        let begun = Instant::now();
        loop {
            if let Some((_, status)) = waitpid(Some(self.0), WaitOptions::NOHANG)? {
                return Ok(status.exit_status());
            }
            if begun.elapsed() > patience {
                kill_process(self.0, Signal::KILL)?;
                waitpid(Some(self.0), WaitOptions::empty())?;
                return Ok(None);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_not_the_process_that_was_forked_and_its_parent_still_is() {
        let home = Home::here();
        let child =
            ForkedChild::run(|| u8::from(home.is_here()) + 2 * u8::from(!Home::here().is_here())).unwrap();
        assert_eq!(child.wait(Duration::from_secs(60)).unwrap(), Some(0));
        assert!(home.is_here());
    }

    #[test]
    fn a_child_that_does_not_end_is_killed() {
        let child = ForkedChild::run(|| {
            std::thread::sleep(Duration::from_secs(3_600));
            0
        });
        assert_eq!(child.unwrap().wait(Duration::ZERO).unwrap(), None);
    }
}
