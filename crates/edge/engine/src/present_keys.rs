//! The keys of a secured bus as its agents use them: looked at again every second, with salts of their own.

use std::sync::Arc;
use std::time::Duration;

use keyring::Keyring;
use keys::{Membership, Salt};
use sys::clock;
use units::Instant;

/// Interval at which the file of keys is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// An agent's view of the keys.
pub(crate) struct PresentKeys {
    keyring: Option<Arc<Keyring>>,
    next_look: Instant,
}

impl PresentKeys {
    /// `None`: streams are clear.
    pub(crate) fn new(keyring: Option<Arc<Keyring>>) -> Self {
        Self { keyring, next_look: clock::monotonic() }
    }

    /// Returns the present membership of a secured bus.
    pub(crate) fn membership(&self) -> Option<Arc<Membership>> {
        self.keyring.as_ref().map(|keyring| keyring.membership())
    }

    /// Returns the present membership if it is time to adopt it, which also corrects UTC.
    pub(crate) fn look(&mut self, now: Instant) -> Option<Arc<Membership>> {
        let keyring = self.keyring.as_ref()?;
        if now < self.next_look {
            return None;
        }
        self.next_look = now + LOOK_INTERVAL;
        if let Err(error) = keyring.refresh(clock::wall()) {
            tracing::warn!("the keys stay as they are: {error}");
        }
        Some(keyring.membership())
    }
}

/// Draws a salt for one sender.
///
/// # Panics
/// If the system has no random bits.
pub(crate) fn draw_salt() -> Salt {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).expect("the system draws random bits for every process");
    Salt(bits)
}
