//! The report of a run of the emulator.

use core::time::Duration;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::account::Account;
use crate::police::Lateness;

/// The report of a run of the emulator.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Report {
    /// How long it ran.
    pub elapsed: Duration,
    /// The direction from clients to the target, or from the first namespace to the second.
    pub forward: Way,
    /// The opposite direction.
    pub reverse: Way,
    /// How many clients a relay had.
    pub clients: u64,
    /// Datagrams of clients beyond the bound, which a relay did not take in.
    pub turned_away: u64,
    /// How long the emulator's thread ran on a processor.
    pub ran: Duration,
    /// How long it could have run and had no processor.
    pub waited: Duration,
}

/// The report of one direction.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Way {
    /// What became of everything.
    pub account: Account,
    /// How late it was handed on.
    pub lateness: Lateness,
    /// What the kernel dropped before the emulator could read it; a train counts once.
    pub unseen: u64,
    /// What the far device dropped after it was handed on, between namespaces.
    pub undelivered: u64,
}

/// What the thread of an emulator shares with whoever watches it.
#[derive(Debug, Default)]
pub struct Watch {
    stop: AtomicBool,
    accounts: Mutex<[Account; 2]>,
}

impl Watch {
    /// Ends the run, within a tenth of a second.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns the accounts of both directions as they were at most a tenth of a second ago.
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
    /// Returns what the emulator took of a processor for each datagram that it took in; `None` if it took none.
    #[must_use]
    pub fn cost(&self) -> Option<Duration> {
        let taken = self.forward.account.taken + self.reverse.account.taken;
        self.ran.checked_div(u32::try_from(taken).unwrap_or(u32::MAX))
    }
}
