//! State that a publisher and its send path share in addition to the ring: the publisher's requests
//! one way, the send path's progress the other.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cast::send::{ReaderDeadlines, ReportStats, StatementStats};
use ring::Doorbell;
use ring::sync::{AtomicU64, Ordering};
use units::Epoch;
use wire::Totals;

use super::departures::Departures;

/// Shared state of one publication.
pub(super) struct PublicationShared {
    status: Mutex<PublicationStatus>,
    finished: Condvar,
    /// The probability of injected loss, as the bits of an `f64`.
    injection: AtomicU64,
    /// 1 once no more samples come.
    closed: AtomicU64,
    /// 1 once the ring has no reader any more.
    ended: AtomicU64,
    /// Rings when there is room in the ring again.
    room: Doorbell,
}

/// The state of a publication as the agent last reported it.
#[derive(Clone, Debug, Default)]
pub struct PublicationStatus {
    /// Outcome of all samples so far.
    pub totals: Totals,
    /// Intervals between trains.
    pub departures: Departures,
    /// Number of readers that report; [`SendAgent::readers`](super::SendAgent::readers) returns
    /// their reports.
    pub readers: u32,
    /// Deadlines that these readers state; known for relayed streams only.
    pub reader_deadlines: Arc<ReaderDeadlines>,
    /// Counters of received reports.
    pub reports: ReportStats,
    /// Counters of signed statements.
    pub statements: StatementStats,
    /// True while no reader is heard: samples are counted as `publisher_paused` and not sent.
    pub paused: bool,
    /// Another epoch of this stream that continues.
    pub two_publishers: Option<Epoch>,
    /// True once the epoch is over: the final tally was sent, or the agent has ended early.
    pub finished: bool,
}

impl PublicationShared {
    pub(super) fn new() -> Self {
        let status = Mutex::new(PublicationStatus::default());
        let (closed, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        let injection = AtomicU64::new(0.0_f64.to_bits());
        Self { status, finished: Condvar::new(), injection, closed, ended, room: Doorbell::new() }
    }

    /// Requests that data datagrams are withheld with this probability.
    pub(super) fn inject(&self, probability: f64) {
        self.injection.store(probability.to_bits(), Ordering::Relaxed);
    }

    pub(super) fn injection(&self) -> f64 {
        f64::from_bits(self.injection.load(Ordering::Relaxed))
    }

    /// Marks the ring as closed: no more samples come.
    pub(super) fn close(&self) {
        self.closed.store(1, Ordering::Relaxed);
    }

    /// Returns whether the publisher has closed its ring.
    pub(super) fn is_closed(&self) -> bool {
        // Relaxed: the waker's fences are between this and its counterpart, as for the ring's own
        // head.
        self.closed.load(Ordering::Relaxed) != 0
    }

    /// Marks the ring as having no reader any more; threads that wait for the end wait no longer.
    pub(super) fn end(&self) {
        // Relaxed: a publisher that sees it a sample later has lost nothing that would have been
        // kept.
        self.ended.store(1, Ordering::Relaxed);
        self.room.ring();
        self.update(|status| status.finished = true);
    }

    /// Returns whether the ring has no reader any more.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed) != 0
    }

    /// Waits until there is room in the ring or no reader for it, but not longer than `timeout`.
    pub(super) fn wait_for_room(&self, timeout: Duration, has_room: impl Fn() -> bool) {
        self.room.wait_until(timeout, || (has_room() || self.has_ended()).then_some(()));
    }

    /// Wakes a publisher that waits for room.
    pub(super) fn there_is_room(&self) {
        self.room.ring();
    }

    /// Changes the status under its lock, and wakes threads that wait for the end.
    pub(super) fn update(&self, change: impl FnOnce(&mut PublicationStatus)) {
        let mut status = self.status();
        change(&mut status);
        if status.finished {
            self.finished.notify_all();
        }
    }

    pub(super) fn status(&self) -> MutexGuard<'_, PublicationStatus> {
        // A status is plain numbers: a panic leaves no partial update.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the send path has ended.
    pub(super) fn wait_until_finished(&self) {
        let mut status = self.status();
        while !status.finished {
            status = self.finished.wait(status).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
