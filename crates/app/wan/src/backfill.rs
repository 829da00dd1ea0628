//! Backfill: holes of the far archive are filled from the near one, later, while live traffic goes on.
//!
//! The near end dials a second connection of the same port, whose control gives way to everything else, and answers
//! there ([`Supplier`]); the far end asks for what its archive misses and stores what comes ([`Fetcher`]). Both are
//! threads of their own: disks must not delay live samples. Their messages are in [`message`].

mod fetcher;
mod message;
mod supplier;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
/// Silence after which the other end counts as gone.
const SILENCE: Duration = Duration::from_secs(10);
/// Interval at which the far end looks for holes, and shows that it is there.
const LOOK: Duration = Duration::from_secs(1);
/// Size of the samples of an answer; a larger single sample is an answer of its own.
const ANSWER_BYTES: usize = 4 << 20;

/// Maximum number of errors that a state names, and of bytes of each: a state has to fit its board.
const MAX_ERRORS: usize = 16;
const MAX_ERROR_BYTES: usize = 400;

/// What a state says of a backfill.
#[derive(Debug, Default)]
struct Counters {
    samples: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
    missing: AtomicU64,
    ranges: AtomicU64,
    lacking: AtomicU64,
    /// Stream and reason, by the folder of the epoch or by another key; an empty path is the archive as a whole.
    errors: Mutex<BTreeMap<PathBuf, (String, String)>>,
}

impl Counters {
    fn state(&self) -> RelayBackfill {
        // Plain counters for display.
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        RelayBackfill {
            samples: of(&self.samples),
            bytes: of(&self.bytes),
            refused: of(&self.refused),
            missing: of(&self.missing),
            ranges: of(&self.ranges),
            lacking: of(&self.lacking),
            errors: errors.values().cloned().collect(),
        }
    }

    /// Counts samples that were stored or sent.
    fn add_blocks(&self, blocks: &[sample::Block]) {
        Self::add(&self.samples, blocks.iter().map(|block| block.samples).sum());
        Self::add(&self.bytes, size_bytes(blocks));
    }

    /// Remembers why holes are not filled, until they are again.
    fn fails(&self, place: &Path, stream: &str, reason: &str) {
        let line = reason.lines().next().unwrap_or_default();
        let end = (0..=line.len().min(MAX_ERROR_BYTES)).rev().find(|end| line.is_char_boundary(*end));
        let line = &line[..end.unwrap_or(0)];
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        if errors.len() < MAX_ERRORS || errors.contains_key(place) {
            errors.insert(place.to_owned(), (stream.to_owned(), line.to_owned()));
        }
    }

    /// Forgets why holes were not filled.
    fn works(&self, place: &Path) {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).remove(place);
    }

    fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// Returns the size of the samples.
fn size_bytes(blocks: &[sample::Block]) -> u64 {
    blocks.iter().map(|block| block.data.as_bytes().len() as u64).sum()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_names_what_fails_now_in_a_line_each_and_a_bounded_number_of_them() {
        let counters = Counters::default();
        counters.fails(Path::new("a"), "lab/a", "the disk is full\nfree some space");
        counters.fails(Path::new(""), "", &"ä".repeat(MAX_ERROR_BYTES));
        let errors = counters.state().errors;
        let [whole, of_stream] = &errors[..] else { panic!("{counters:?}") };
        assert_eq!(*of_stream, ("lab/a".to_owned(), "the disk is full".to_owned()));
        assert_eq!(*whole, (String::new(), "ä".repeat(MAX_ERROR_BYTES / 2)));
        counters.works(Path::new(""));
        counters.fails(Path::new("a"), "lab/a", "the disk fails");
        counters.works(Path::new("never failed"));
        assert_eq!(counters.state().errors, [("lab/a".to_owned(), "the disk fails".to_owned())]);
        (0..2 * MAX_ERRORS).for_each(|it| counters.fails(Path::new(&it.to_string()), "lab/b", "no"));
        assert_eq!(counters.state().errors.len(), MAX_ERRORS);
    }
}
