//! Report of a run of the emulator.

use core::time::Duration;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::account::Account;
use crate::police::Lateness;

/// Report of a run of the emulator.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Report {
    /// Duration of the run.
    pub elapsed: Duration,
    /// Direction from clients to the target, or from the first namespace to the second.
    pub forward: Way,
    /// Opposite direction.
    pub reverse: Way,
    /// Number of clients of a relay.
    pub clients: u64,
    /// Datagrams of clients beyond the maximum, which a relay did not accept.
    pub turned_away: u64,
    /// Processor time of the emulator's thread.
    pub ran: Duration,
    /// Time the thread was ready to run but had no processor.
    pub waited: Duration,
}

/// Report of one direction.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct Way {
    /// Outcome of every datagram.
    #[serde(flatten)]
    pub account: Account,
    /// Lateness of forwarding.
    #[serde(rename = "late")]
    pub lateness: Lateness,
    /// Datagrams the kernel dropped before the emulator could read them; a train counts once.
    pub unseen: u64,
    /// Datagrams the far device dropped after they were forwarded, between namespaces.
    pub undelivered: u64,
}

/// State shared between an emulator's thread and its observers.
#[derive(Debug, Default)]
pub struct Watch {
    stop: AtomicBool,
    accounts: Mutex<[Account; 2]>,
}

impl Watch {
    /// Stops the run within a tenth of a second.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns the accounts of both directions, at most a tenth of a second old.
    #[must_use]
    pub fn accounts(&self) -> [Account; 2] {
        *self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn show(&self, accounts: [Account; 2]) {
        *self.accounts.lock().unwrap_or_else(PoisonError::into_inner) = accounts;
    }
}

impl Report {
    /// Returns the emulator's processor time per datagram taken in; `None` if there was none.
    #[must_use]
    pub fn cost(&self) -> Option<Duration> {
        let taken = self.forward.account.taken + self.reverse.account.taken;
        self.ran.checked_div(u32::try_from(taken).unwrap_or(u32::MAX))
    }
}
