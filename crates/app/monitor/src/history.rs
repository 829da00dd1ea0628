//! Live memory of all streams: written by the intake, read by viewers and requests.
//!
//! Every stream has its own short lock, held for one block or one trace of a frame. A separate counter rises with every
//! change, so that viewers detect changes without a lock. Start with [`History`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use sample::{Block, StreamName};
use tallycast::{StreamAccount, StreamGap, StreamInfo, UnauthenticCounts};

use crate::clock::Moment;
use crate::memory::{Budget, StreamMemory};
use crate::totals::Totals;
use crate::unauthentic::{Doubts, UnauthenticTotals};

/// The most streams remembered: twenty times what a bus is tested with.
const MAX_STREAMS: usize = 4_096;
/// Accounts of ended epochs that are kept.
const MAX_ENDED: usize = 4_096;

/// Live memory of all streams.
#[derive(Debug, Default)]
pub(crate) struct History {
    streams: RwLock<BTreeMap<String, Arc<StreamSlot>>>,
    ended: Mutex<VecDeque<StreamAccount>>,
    budget: Budget,
}

/// One stream's memory behind its lock.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    memory: Mutex<StreamMemory>,
    totals: Mutex<Totals>,
    unauthentic: Mutex<UnauthenticTotals>,
    changes: AtomicU64,
    /// Elements that left a viewer's window before they were shown, summed over all viewers.
    lost_in_browsers: AtomicU64,
}

impl StreamSlot {
    fn new(memory: StreamMemory) -> Self {
        Self {
            memory: Mutex::new(memory),
            totals: Mutex::default(),
            unauthentic: Mutex::default(),
            changes: AtomicU64::new(0),
            lost_in_browsers: AtomicU64::new(0),
        }
    }

    /// Returns the memory; hold it briefly, because the intake waits meanwhile.
    pub(crate) fn memory(&self) -> MutexGuard<'_, StreamMemory> {
        // A reader that panicked has not modified it: it is still consistent.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the totals over all epochs, for metrics.
    pub(crate) fn totals(&self) -> MutexGuard<'_, Totals> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a receiver's counts of datagrams in its name that were not authentic.
    fn doubts_are(&self, doubts: Doubts) {
        self.unauthentic.lock().unwrap_or_else(PoisonError::into_inner).take(doubts);
    }

    /// Returns how many datagrams in its name were not authentic, over all epochs.
    pub(crate) fn unauthentic(&self) -> UnauthenticCounts {
        self.doubts().unauthentic
    }

    /// Returns how many of its epochs began although their publishers did not answer.
    pub(crate) fn unconfirmed_epochs(&self) -> u64 {
        self.doubts().unconfirmed_epochs
    }

    fn doubts(&self) -> Doubts {
        self.unauthentic.lock().unwrap_or_else(PoisonError::into_inner).sum()
    }

    /// Returns a number that rises with every change of what is drawn.
    pub(crate) fn changes(&self) -> u64 {
        // Pairs with the release in `change`: a viewer that sees the number sees the change under the lock anyway.
        self.changes.load(Ordering::Acquire)
    }

    /// Counts elements that a viewer was never shown: stage `browser`.
    pub(crate) fn lost_in_browser(&self, elements: u64) {
        // A count that nothing else is read by: no ordering is needed.
        self.lost_in_browsers.fetch_add(elements, Ordering::Relaxed);
    }

    /// Returns how many elements viewers were never shown, all viewers together.
    pub(crate) fn lost_in_browsers(&self) -> u64 {
        self.lost_in_browsers.load(Ordering::Relaxed)
    }

    fn change(&self, change: impl FnOnce(&mut StreamMemory)) {
        change(&mut self.memory());
        self.changes.fetch_add(1, Ordering::Release);
    }
}

impl History {
    /// Returns a stream's memory.
    pub(crate) fn stream(&self, name: &str) -> Option<Arc<StreamSlot>> {
        self.read().get(name).cloned()
    }

    /// Returns all streams in the order of their names.
    pub(crate) fn streams(&self) -> Vec<Arc<StreamSlot>> {
        self.read().values().cloned().collect()
    }

    /// Opens an account: of a new stream, or of another epoch of a known one.
    pub(crate) fn begin(&self, info: &Arc<StreamInfo>, now: Moment) {
        if let Some(slot) = self.stream(info.name.as_str()) {
            slot.totals().begin(info.epoch);
            // Events of two epochs may come interleaved; the later epoch is shown.
            if slot.memory().info.epoch <= info.epoch {
                slot.change(|memory| memory.begin(Arc::clone(info), now));
            }
            return;
        }
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        if streams.len() >= MAX_STREAMS {
            tracing::warn!(
                "stream `{}` is not shown: the monitor keeps at most {MAX_STREAMS} streams; leave some patterns",
                info.name
            );
            return;
        }
        let memory = StreamMemory::new(Arc::clone(info), self.budget.clone(), now);
        let slot = StreamSlot::new(memory);
        slot.totals().begin(info.epoch);
        streams.insert(info.name.as_str().to_owned(), Arc::new(slot));
    }

    pub(crate) fn block(&self, block: &Block, now: Moment) {
        if let Some(slot) = self.stream(block.stream.as_str()) {
            slot.change(|memory| memory.block(block, now));
        }
    }

    pub(crate) fn gap(&self, gap: &StreamGap, now: Moment) {
        if let Some(slot) = self.stream(gap.stream.as_str()) {
            slot.change(|memory| memory.gap(gap, now));
        }
    }

    /// Takes the account of an ended epoch.
    pub(crate) fn end(&self, account: &StreamAccount) {
        if let Some(slot) = self.stream(account.stream.as_str()) {
            slot.totals().take(account);
            slot.change(|memory| memory.end(account.clone()));
        }
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.len() == MAX_ENDED {
            ended.pop_front();
        }
        ended.push_back(account.clone());
    }

    /// Takes the present state of the accounts.
    pub(crate) fn accounts_are(&self, accounts: Vec<StreamAccount>) {
        let mut doubts: BTreeMap<StreamName, Doubts> = BTreeMap::new();
        for account in accounts {
            // Only a receiver counts: accounts of rings have zeros, and a fall is another receiver. Accounts of one
            // receiver have the same counts, those that ended earlier ones.
            if account.port.is_some() {
                let StreamAccount { unauthentic, unconfirmed_epochs, .. } = account;
                let of_stream = doubts.entry(StreamName::clone(&account.stream)).or_default();
                *of_stream = of_stream.max(Doubts { unauthentic, unconfirmed_epochs });
            }
            if let Some(slot) = self.stream(account.stream.as_str()) {
                slot.totals().take(&account);
                slot.memory().account_is(account);
            }
        }
        for (stream, doubts) in doubts {
            if let Some(slot) = self.stream(stream.as_str()) {
                slot.doubts_are(doubts);
            }
        }
    }

    /// Takes a receiver's counts of datagrams that were not authentic.
    #[cfg(test)]
    pub(crate) fn unauthentic_is(&self, stream: &str, unauthentic: UnauthenticCounts) {
        if let Some(slot) = self.stream(stream) {
            slot.doubts_are(Doubts { unauthentic, unconfirmed_epochs: 0 });
        }
    }

    /// Returns every account: those of ended epochs, then the open ones.
    pub(crate) fn accounts(&self) -> Vec<StreamAccount> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let mut accounts: Vec<_> = ended.iter().cloned().collect();
        drop(ended);
        for slot in self.streams() {
            let account = slot.memory().account.clone();
            let known = |account: &StreamAccount| {
                let name = |of: &StreamAccount| (of.stream.clone(), of.epoch, of.join);
                accounts.iter().any(|other| name(other) == name(account))
            };
            if let Some(account) = account.filter(|account| !known(account)) {
                accounts.push(account);
            }
        }
        accounts
    }

    /// Drops the streams that `keep` rejects.
    pub(crate) fn retain(&self, keep: impl Fn(&StreamInfo) -> bool) {
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        streams.retain(|_, slot| keep(&slot.memory().info));
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<String, Arc<StreamSlot>>> {
        self.streams.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock, scene};
    use tallycast::AccountState;

    #[test]
    fn accounts_without_a_receiver_do_not_make_its_counts_fall() {
        let (history, info) = (History::default(), Arc::new(scene::info("lab/x", 100)));
        history.begin(&info, clock::now());
        let unauthentic = UnauthenticCounts { bad_tag: 7, ..UnauthenticCounts::default() };
        let of_ring = scene::account(&info, AccountState::Open);
        let received = StreamAccount {
            port: Some(scene::port()),
            unauthentic,
            unconfirmed_epochs: 2,
            ..of_ring.clone()
        };
        for account in [&received, &of_ring, &received] {
            history.accounts_are(vec![account.clone()]);
            let slot = history.stream("lab/x").unwrap();
            assert_eq!((slot.unauthentic().bad_tag, slot.unconfirmed_epochs()), (7, 2));
        }
    }
}
