//! Counts of refusals: requests by their status, and messages of pages.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counts of what was refused.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// By status: there are few of them.
    requests: Mutex<BTreeMap<u16, u64>>,
    /// By the label of the reason: few, and one for each rule.
    visitors: Mutex<BTreeMap<String, u64>>,
    messages: AtomicU64,
}

impl Refusals {
    /// Counts a request that was refused with this status.
    pub(crate) fn request(&self, status: u16) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry(status).or_default() += 1;
    }

    /// Counts a refusal that was due to the visitor.
    pub(crate) fn visitor(&self, reason: &str) {
        let mut visitors = self.visitors.lock().unwrap_or_else(PoisonError::into_inner);
        *visitors.entry(reason.to_owned()).or_default() += 1;
    }

    /// Returns how many visitors were refused, by reason.
    pub(crate) fn visitors(&self) -> BTreeMap<String, u64> {
        self.visitors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts a message of a page that could not be followed.
    pub(crate) fn message(&self) {
        // A count that nothing else is read by: no ordering is needed.
        self.messages.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many requests were refused, by status.
    pub(crate) fn requests(&self) -> BTreeMap<u16, u64> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns how many messages of pages could not be followed.
    pub(crate) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }
}
