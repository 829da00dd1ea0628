//! Backfill: holes of the far archive are filled from the near one, later, while live traffic goes on.
//!
//! The near end dials a second connection of the same port, whose control gives way to everything else, and answers
//! there ([`Supplier`]); the far end asks for what its archive misses and stores what comes ([`Fetcher`]). Both are
//! threads of their own: disks must not delay live samples. What travels is in [`message`].

mod fetcher;
mod message;
mod supplier;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::{ReliablePort, WaitError};
use sys::clock;
use tallycast::RelayBackfill;
use udt::{SocketConfig, SocketId};

pub(crate) use fetcher::Fetchers;
pub(crate) use message::is_greeting;
pub use supplier::Source;
pub(crate) use supplier::Supplier;

/// Time after which a call looks whether the relay is to end: blocking calls of a port cannot be woken for that.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time without a word after which the other end is taken for gone.
const SILENCE: Duration = Duration::from_secs(10);
/// Interval at which the far end says that it is there, and looks for holes.
const LOOK: Duration = Duration::from_secs(1);
/// Size of the samples of an answer; a larger single sample is an answer of its own.
const ANSWER_BYTES: usize = 4 << 20;

#[derive(Debug, Default)]
struct Counters {
    samples: AtomicU64,
    refused: AtomicU64,
    missing: AtomicU64,
}

impl Counters {
    fn state(&self) -> RelayBackfill {
        // Plain counters for display.
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RelayBackfill { samples: of(&self.samples), refused: of(&self.refused), missing: of(&self.missing) }
    }

    fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// Sends a message, waiting until there is room for it, as long as the other end takes anything.
fn send(
    port: &ReliablePort,
    socket: SocketId,
    message: &message::Message,
    is_over: impl Fn() -> bool,
) -> Result<(), WaitError> {
    let (bytes, end) = (message.encode(), clock::monotonic() + SILENCE);
    loop {
        match port.send_message(socket, &bytes, true, None, Some(POLL_INTERVAL)) {
            Err(WaitError::TimedOut) if clock::monotonic() < end && !is_over() => {}
            sent => return sent,
        }
    }
}

/// Returns the settings of the second connection: it uses what live samples leave, and adds at most 10 ms of delay.
fn yielding(config: &SocketConfig) -> SocketConfig {
    let control = tallycast::udt::congestion::named("ledbat", "target=10").expect("a built-in control");
    SocketConfig { congestion: Arc::from(control), ..config.clone() }
}
