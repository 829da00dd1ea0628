//! What the intake, the requests and the viewers of one monitor have in common.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use sample::StreamPattern;
use tallycast::PortStatus;
use tokio::sync::{Semaphore, watch};
use units::WallTime;

use crate::catalogue::Catalogue;
use crate::config::InjectControl;
use crate::derived::DerivedStatus;
use crate::history::History;
use crate::http::HostGate;
use crate::intake::Command;
use crate::operators::{OperatorBoard, OperatorStatus, lock};
use crate::refusals::Refusals;
use crate::stored::HistoryStore;

/// The most viewers at one time: a control room and everybody at home.
pub(crate) const MAX_VIEWERS: usize = 256;
/// The most reads of the store at one time: the disk and the processors have other work.
const MAX_STORE_READS: usize = 2;

/// What the parts of one monitor have in common.
pub(crate) struct Shared {
    pub(crate) history: History,
    pub(crate) catalogue: Catalogue,
    pub(crate) store: Option<Arc<dyn HistoryStore>>,
    pub(crate) store_reads: Arc<Semaphore>,
    pub(crate) inject: Option<Arc<dyn InjectControl>>,
    pub(crate) started: WallTime,
    pub(crate) gate: HostGate,
    pub(crate) stopping: watch::Sender<bool>,
    pub(crate) viewers: Viewers,
    pub(crate) refusals: Refusals,
    commands: Sender<Command>,
    patterns: Mutex<Vec<StreamPattern>>,
    derived: Mutex<Vec<DerivedStatus>>,
    pub(crate) operators: OperatorBoard,
    ports: Mutex<Vec<PortStatus>>,
    listening: AtomicBool,
}

/// What a monitor is made of, beside what begins empty.
pub(crate) struct Parts {
    pub(crate) store: Option<Arc<dyn HistoryStore>>,
    pub(crate) inject: Option<Arc<dyn InjectControl>>,
    pub(crate) started: WallTime,
    pub(crate) gate: HostGate,
    pub(crate) commands: Sender<Command>,
    pub(crate) patterns: Vec<StreamPattern>,
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
            refusals: Refusals::default(),
            commands: parts.commands,
            patterns: Mutex::new(parts.patterns),
            derived: Mutex::default(),
            operators: OperatorBoard::default(),
            ports: Mutex::default(),
            listening: AtomicBool::new(false),
        }
    }

    /// Hands a command to the intake; `false` if that has ended.
    pub(crate) fn command(&self, command: Command) -> bool {
        self.commands.send(command).is_ok()
    }

    /// Returns the patterns that people joined.
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

    /// Returns what the receiving sockets have to tell of themselves, as of a moment ago.
    pub(crate) fn ports(&self) -> Vec<PortStatus> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_ports(&self, ports: Vec<PortStatus>) {
        *self.ports.lock().unwrap_or_else(PoisonError::into_inner) = ports;
    }

    /// Tells whether the intake listens to the bus.
    pub(crate) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }

    /// Notes whether the intake listens; a flag for people, nothing is ordered by it.
    pub(crate) fn intake_is(&self, listening: bool) {
        self.listening.store(listening, Ordering::Relaxed);
    }
}

/// Counts of all viewers; nothing is ordered by them.
#[derive(Debug, Default)]
pub(crate) struct Viewers {
    open: AtomicUsize,
    next: AtomicU64,
    counts: [AtomicU64; 2],
}

/// A viewer's place; given back when dropped.
pub(crate) struct Seat {
    pub(crate) number: u64,
    shared: Arc<Shared>,
    counted: [u64; 2],
}

impl Viewers {
    /// Returns how many viewers there are.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Returns the frames sent and the frames dropped of all viewers ever.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [0, 1].map(|place| self.counts[place].load(Ordering::Relaxed))
    }
}

impl Seat {
    /// Takes a place, if there is one.
    pub(crate) fn take(shared: &Arc<Shared>) -> Option<Self> {
        let open = &shared.viewers.open;
        let free = |open: usize| (open < MAX_VIEWERS).then_some(open + 1);
        open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok()?;
        let number = shared.viewers.next.fetch_add(1, Ordering::Relaxed);
        Some(Self { number, shared: Arc::clone(shared), counted: [0; 2] })
    }

    /// Adds what is new in a viewer's own counts.
    pub(crate) fn count(&mut self, counts: [u64; 2]) {
        for ((all, before), now) in self.shared.viewers.counts.iter().zip(&mut self.counted).zip(counts) {
            all.fetch_add(now.saturating_sub(*before), Ordering::Relaxed);
            *before = now;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.viewers.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn there_are_so_many_seats_and_one_that_is_left_is_free_again() {
        let (commands, _orders) = channel();
        let address = "127.0.0.1:7480".parse().unwrap();
        let shared = Arc::new(Shared::new(Parts {
            store: None,
            inject: None,
            started: WallTime::default(),
            gate: HostGate::new(address, []),
            commands,
            patterns: Vec::new(),
        }));
        let mut seats: Vec<_> = (0..MAX_VIEWERS).map(|_| Seat::take(&shared).unwrap()).collect();
        assert!(Seat::take(&shared).is_none());
        let left = seats.pop().unwrap().number;
        assert!(Seat::take(&shared).unwrap().number > left, "a number is nobody else's again");
        drop(seats);
        assert_eq!(shared.viewers.open(), 0);
    }
}
