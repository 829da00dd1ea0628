//! State shared by the intake, the requests and the viewers of one monitor.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sample::StreamPattern;
use tallycast::{PortStatus, UnjoinedStreams};
use tokio::sync::{Semaphore, watch};
use units::WallTime;

use crate::catalogue::Catalogue;
use crate::config::{InjectControl, MAX_PAGES};
use crate::connections::{Slots, Source, TurnedAway};
use crate::derived::DerivedStatus;
use crate::history::History;
use crate::http::HostGate;
use crate::intake::Command;
use crate::operators::{OperatorBoard, OperatorStatus, lock};
use crate::refusals::Refusals;
use crate::stored::HistoryStore;

/// The most reads of the store at one time: the disk and the processors have other work.
const MAX_STORE_READS: usize = 2;

/// State shared by the parts of one monitor.
pub(crate) struct Shared {
    pub(crate) history: History,
    pub(crate) catalogue: Catalogue,
    pub(crate) store: Option<Arc<dyn HistoryStore>>,
    pub(crate) store_reads: Arc<Semaphore>,
    pub(crate) inject: Option<Arc<dyn InjectControl>>,
    pub(crate) started: WallTime,
    pub(crate) gate: HostGate,
    /// True once the monitor stops. A channel rather than a [`sys::Cancellation`], since tasks wait for it.
    pub(crate) stopping: watch::Sender<bool>,
    pub(crate) viewers: Viewers,
    pub(crate) slots: Arc<Slots>,
    pub(crate) refusals: Refusals,
    commands: Sender<Command>,
    patterns: Mutex<Vec<StreamPattern>>,
    derived: Mutex<Vec<DerivedStatus>>,
    pub(crate) operators: OperatorBoard,
    ports: Mutex<Vec<PortStatus>>,
    rings_distrusted: AtomicU64,
    unjoined: Mutex<UnjoinedStreams>,
    listening: AtomicBool,
}

/// Initial parts of a monitor, apart from those that begin empty.
pub(crate) struct Parts {
    pub(crate) store: Option<Arc<dyn HistoryStore>>,
    pub(crate) inject: Option<Arc<dyn InjectControl>>,
    pub(crate) started: WallTime,
    pub(crate) gate: HostGate,
    pub(crate) commands: Sender<Command>,
    pub(crate) patterns: Vec<StreamPattern>,
    pub(crate) slots: Arc<Slots>,
}

impl Shared {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            history: History::default(),
            catalogue: Catalogue::default(),
            store: parts.store,
            store_reads: Arc::new(Semaphore::new(MAX_STORE_READS)),
            inject: parts.inject,
            started: parts.started,
            gate: parts.gate,
            stopping: watch::Sender::new(false),
            viewers: Viewers::default(),
            slots: parts.slots,
            refusals: Refusals::default(),
            commands: parts.commands,
            patterns: Mutex::new(parts.patterns),
            derived: Mutex::default(),
            operators: OperatorBoard::default(),
            ports: Mutex::default(),
            rings_distrusted: AtomicU64::new(0),
            unjoined: Mutex::default(),
            listening: AtomicBool::new(false),
        }
    }

    /// Hands a command to the intake; `false` if that has ended.
    pub(crate) fn command(&self, command: Command) -> bool {
        self.commands.send(command).is_ok()
    }

    /// Returns the patterns that users joined.
    pub(crate) fn patterns(&self) -> Vec<StreamPattern> {
        self.patterns.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Joins a pattern unless it is joined already.
    pub(crate) fn join(&self, pattern: StreamPattern) {
        let mut patterns = self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        if !patterns.contains(&pattern) {
            self.command(Command::Join(pattern.clone()));
            patterns.push(pattern);
        }
    }

    /// Leaves a pattern; `false` if it was not joined.
    pub(crate) fn leave(&self, pattern: &StreamPattern) -> bool {
        let mut patterns = self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        let place = patterns.iter().position(|known| known == pattern);
        if let Some(place) = place {
            self.command(Command::Leave(patterns.remove(place)));
        }
        place.is_some()
    }

    pub(crate) fn derived(&self) -> Vec<DerivedStatus> {
        self.derived.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns how the operators fare, as of a moment ago.
    pub(crate) fn operators(&self) -> Vec<OperatorStatus> {
        lock(&self.operators).clone()
    }

    pub(crate) fn set_derived(&self, derived: Vec<DerivedStatus>) {
        *self.derived.lock().unwrap_or_else(PoisonError::into_inner) = derived;
    }

    /// Returns the recent statistics of the receiving sockets.
    pub(crate) fn ports(&self) -> Vec<PortStatus> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_ports(&self, ports: Vec<PortStatus>) {
        *self.ports.lock().unwrap_or_else(PoisonError::into_inner) = ports;
    }

    /// Returns the number of requested rings of this host that were not trusted.
    pub(crate) fn rings_distrusted(&self) -> u64 {
        self.rings_distrusted.load(Ordering::Relaxed)
    }

    pub(crate) fn set_rings_distrusted(&self, count: u64) {
        self.rings_distrusted.store(count, Ordering::Relaxed);
    }

    /// Returns the streams that could not be joined, and what became of announcements that were not followed, as of a moment ago.
    pub(crate) fn unjoined(&self) -> UnjoinedStreams {
        self.unjoined.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_unjoined(&self, unjoined: UnjoinedStreams) {
        *self.unjoined.lock().unwrap_or_else(PoisonError::into_inner) = unjoined;
    }

    /// Returns whether the intake listens to the bus.
    pub(crate) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }

    /// Records whether the intake listens; a flag for display that orders nothing.
    pub(crate) fn intake_is(&self, listening: bool) {
        self.listening.store(listening, Ordering::Relaxed);
    }
}

/// Counts of all viewers; nothing is ordered by them.
#[derive(Debug, Default)]
pub(crate) struct Viewers {
    open: Mutex<BTreeMap<Source, usize>>,
    next: AtomicU64,
    counts: [AtomicU64; 2],
}

/// A viewer's slot; released on drop.
pub(crate) struct ViewerSlot {
    pub(crate) number: u64,
    pub(crate) source: Source,
    shared: Arc<Shared>,
    counted: [u64; 2],
}

impl Viewers {
    /// Returns how many viewers there are.
    pub(crate) fn open(&self) -> usize {
        self.by_source().values().sum()
    }

    fn by_source(&self) -> MutexGuard<'_, BTreeMap<Source, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the frames sent and the frames dropped, over all viewers.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [0, 1].map(|place| self.counts[place].load(Ordering::Relaxed))
    }
}

impl ViewerSlot {
    /// Takes a slot, if one is free and the source has less than its share; counts the refusal otherwise.
    pub(crate) fn take(shared: &Arc<Shared>, source: Source) -> Result<Self, TurnedAway> {
        let taken = Self::count_in(&mut shared.viewers.by_source(), shared, source);
        taken.inspect_err(|why| shared.slots.tally.turned_away(*why, &source))?;
        let number = shared.viewers.next.fetch_add(1, Ordering::Relaxed);
        Ok(Self { number, source, shared: Arc::clone(shared), counted: [0; 2] })
    }

    fn count_in(
        open: &mut BTreeMap<Source, usize>,
        shared: &Shared,
        source: Source,
    ) -> Result<(), TurnedAway> {
        if open.values().sum::<usize>() >= MAX_PAGES {
            return Err(TurnedAway::Pages);
        }
        let of_source = open.get(&source).copied().unwrap_or(0);
        if of_source >= shared.slots.bounds.pages_of_one_source {
            return Err(TurnedAway::SourcePages);
        }
        open.insert(source, of_source + 1);
        Ok(())
    }

    /// Adds what is new in a viewer's own counts.
    pub(crate) fn count(&mut self, counts: [u64; 2]) {
        for ((all, before), now) in self.shared.viewers.counts.iter().zip(&mut self.counted).zip(counts) {
            all.fetch_add(now.saturating_sub(*before), Ordering::Relaxed);
            *before = now;
        }
    }
}

impl Drop for ViewerSlot {
    fn drop(&mut self) {
        let mut open = self.shared.viewers.by_source();
        let left = open.get_mut(&self.source).expect("a slot that was taken is counted");
        *left -= 1;
        if *left == 0 {
            open.remove(&self.source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::Bounds;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn shared(pages_of_one_source: usize) -> Arc<Shared> {
        let (commands, _orders) = channel();
        let address = "127.0.0.1:7480".parse().unwrap();
        let bounds = Bounds::new(u64::MAX, pages_of_one_source, MAX_PAGES, Duration::from_secs(30));
        Arc::new(Shared::new(Parts {
            store: None,
            inject: None,
            started: WallTime::default(),
            gate: HostGate::new(address, []),
            commands,
            patterns: Vec::new(),
            slots: Arc::new(Slots::new(bounds)),
        }))
    }

    fn source(last: u8) -> Source {
        Source::of([192, 0, 2, last].into())
    }

    fn turned_away(shared: &Shared, why: TurnedAway) -> u64 {
        let counts = shared.slots.tally.turned_away_counts();
        counts.iter().find(|(reason, _)| *reason == why).unwrap().1
    }

    #[test]
    fn there_are_so_many_seats_and_one_that_is_left_is_free_again() {
        let shared = shared(MAX_PAGES);
        let mut seats: Vec<_> =
            (0..MAX_PAGES).map(|_| ViewerSlot::take(&shared, source(1)).unwrap()).collect();
        assert_eq!(ViewerSlot::take(&shared, source(2)).err(), Some(TurnedAway::Pages));
        let left = seats.pop().unwrap().number;
        let next = ViewerSlot::take(&shared, source(2)).unwrap();
        assert!(next.number > left, "a number is not reused");
        drop((seats, next));
        assert_eq!((shared.viewers.open(), turned_away(&shared, TurnedAway::Pages)), (0, 1));
    }

    #[test]
    fn one_address_has_its_share_of_the_seats_and_leaves_the_rest() {
        let shared = shared(2);
        let mut seats: Vec<_> = (0..2).map(|_| ViewerSlot::take(&shared, source(1)).unwrap()).collect();
        assert_eq!(ViewerSlot::take(&shared, source(1)).err(), Some(TurnedAway::SourcePages));
        assert!(ViewerSlot::take(&shared, source(2)).is_ok());
        seats.pop();
        assert!(ViewerSlot::take(&shared, source(1)).is_ok(), "a slot that was left is free");
        assert_eq!(turned_away(&shared, TurnedAway::SourcePages), 1);
    }
}
