//! Cancellation from outside: Ctrl-C, SIGTERM, or a parent that is gone.
//!
//! The first signal asks for an orderly end, in which accounts are still printed; the second ends at once. A child
//! process of this program also ends when its standard input closes, which the system does however the parent died.

use std::io::{self, Read};
use std::time::Duration;

use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use sys::Cancellation;
use units::text;

/// Exit code that a shell reports for a process ended by SIGINT.
const ENDED_BY_SIGNAL: i32 = 130;

/// End of a process of `demo` with it; a hidden option.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WithParent {
    /// End when standard input ends
    #[arg(long, hide = true)]
    with_parent: bool,
}

/// End of a reader among the processes of `demo`; hidden options.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct AsChild {
    #[command(flatten)]
    parent: WithParent,
    /// After a request to end, wait this long for the streams to end first
    #[arg(long, hide = true, value_parser = text::duration, default_value = "0s")]
    pub(crate) patience: Duration,
}

impl WithParent {
    /// Returns a token that signals cancel, and the end of the parent if there is one.
    pub(crate) fn cancellation(self) -> io::Result<Cancellation> {
        let cancellation = cancellation()?;
        if self.with_parent {
            cancel_with_parent(&cancellation)?;
        }
        Ok(cancellation)
    }
}

impl AsChild {
    /// Returns a token that signals cancel, and the end of the parent if there is one.
    pub(crate) fn cancellation(self) -> io::Result<Cancellation> {
        self.parent.cancellation()
    }
}

/// Begins to listen for signals; returns the token that the first one cancels.
pub(crate) fn cancellation() -> io::Result<Cancellation> {
    let cancellation = Cancellation::new()?;
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let cancelled = cancellation.clone();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            if cancelled.is_cancelled() {
                std::process::exit(ENDED_BY_SIGNAL);
            }
            cancelled.cancel();
        }
    })?;
    Ok(cancellation)
}

/// Cancels also when standard input closes: its other end is held by the parent.
pub(crate) fn cancel_with_parent(cancellation: &Cancellation) -> io::Result<()> {
    let cancelled = cancellation.clone();
    std::thread::Builder::new().name("parent".to_owned()).spawn(move || {
        let mut word = [0; 64];
        while matches!(io::stdin().read(&mut word), Ok(read) if read > 0) {}
        cancelled.cancel();
    })?;
    Ok(())
}
