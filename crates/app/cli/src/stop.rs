//! The request to end: Ctrl-C, SIGTERM, or a parent that is gone.
//!
//! The first signal asks for an orderly end, in which accounts are still printed; the second ends at once. A child
//! process of this program also ends when its standard input closes, which the system does however the parent died.

use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use units::text;

/// Exit code that a shell reports for a process ended by SIGINT.
const ENDED_BY_SIGNAL: i32 = 130;

/// End of a reader among the processes of `demo`; a hidden option.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct AsChild {
    /// End when standard input ends
    #[arg(long, hide = true)]
    with_parent: bool,
    /// After a request to end, wait this long for the streams to end first
    #[arg(long, hide = true, value_parser = text::duration, default_value = "0s")]
    pub(crate) patience: Duration,
}

impl AsChild {
    /// Begins to listen for signals, and to the parent if there is one.
    pub(crate) fn stop(self) -> std::io::Result<Stop> {
        let stop = Stop::on_signals()?;
        if self.with_parent {
            stop.with_parent()?;
        }
        Ok(stop)
    }
}

/// The request to end, shared by everything that waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    inner: Arc<(Mutex<bool>, Condvar)>,
}

impl Stop {
    /// Begins to listen for signals.
    pub(crate) fn on_signals() -> std::io::Result<Self> {
        let stop = Self::default();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let wish = stop.clone();
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for _ in signals.forever() {
                if wish.is_wanted() {
                    std::process::exit(ENDED_BY_SIGNAL);
                }
                wish.want();
            }
        })?;
        Ok(stop)
    }

    /// Also ends when standard input closes: its other end is held by the parent.
    pub(crate) fn with_parent(&self) -> std::io::Result<()> {
        let wish = self.clone();
        std::thread::Builder::new().name("parent".to_owned()).spawn(move || {
            let mut word = [0; 64];
            while matches!(std::io::stdin().read(&mut word), Ok(read) if read > 0) {}
            wish.want();
        })?;
        Ok(())
    }

    /// Wishes to end.
    pub(crate) fn want(&self) {
        *self.inner.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.inner.1.notify_all();
    }

    /// Returns whether the end is requested.
    pub(crate) fn is_wanted(&self) -> bool {
        *self.inner.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the request, at most this long; returns whether it was made.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let wanted = self.inner.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.inner.1.wait_timeout_while(wanted, at_most, |wanted| !*wanted);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Time at which something ends, if limited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// Begins to count now; `None` never ends.
    pub(crate) fn after(duration: Option<Duration>) -> Self {
        Self(duration.and_then(|duration| Instant::now().checked_add(duration)))
    }

    /// Returns the remaining time, at most `most`; zero once it has passed.
    pub(crate) fn left(self, most: Duration) -> Duration {
        self.0.map_or(most, |end| end.saturating_duration_since(Instant::now()).min(most))
    }

    /// Returns whether the time has passed.
    pub(crate) fn is_over(self) -> bool {
        self.left(Duration::MAX).is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_wakes_who_waits() {
        let stop = Stop::default();
        let wish = stop.clone();
        assert!(!stop.wait(Duration::ZERO));
        let waiter = std::thread::spawn(move || stop.wait(Duration::from_secs(600)));
        wish.want();
        assert!(waiter.join().unwrap());
        assert!(wish.is_wanted());
    }

    #[test]
    fn a_deadline_without_duration_is_never_over() {
        assert!(!Deadline::after(None).is_over());
        assert!(Deadline::after(Some(Duration::ZERO)).is_over());
    }
}
