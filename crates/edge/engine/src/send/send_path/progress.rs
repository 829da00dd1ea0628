//! The progress that a send path reports to its publisher: totals, readers, and what is wrong with
//! them.

use std::sync::Arc;
use std::time::Duration;

use cast::Sender;
use cast::send::StatementStats;
use sample::StreamName;
use units::{Epoch, Instant};

use crate::send::departures::Departures;
use crate::send::publication_shared::PublicationShared;

/// Interval at which totals and readers are reported to the publisher's thread.
const STATUS_INTERVAL: Duration = Duration::from_millis(100);

/// Reports to one publisher.
pub(super) struct Progress {
    stream: StreamName,
    publisher: Arc<PublicationShared>,
    next: Instant,
    departures: Departures,
    /// True if readers are asked for their deadlines.
    is_relayed: bool,
    /// True once the warning was logged that more readers report than are counted.
    warned_of_readers: bool,
    /// True once the warning was logged that datagrams have no room for statements.
    warned_of_statements: bool,
}

impl Progress {
    pub(super) fn new(
        stream: StreamName,
        publisher: Arc<PublicationShared>,
        is_relayed: bool,
        now: Instant,
    ) -> Self {
        Self {
            stream,
            publisher,
            next: now,
            departures: Departures::default(),
            is_relayed,
            warned_of_readers: false,
            warned_of_statements: false,
        }
    }

    /// Returns whether the publisher's status is to be reported.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    pub(super) fn report(&mut self, now: Instant, machine: &Sender) {
        self.next = now + STATUS_INTERVAL;
        let (totals, readers) = (machine.totals(), machine.reader_count());
        let (reports, statements) = (machine.report_stats(), machine.statement_stats());
        self.check_statements(statements);
        let (paused, departures) = (machine.is_paused(now), self.departures);
        let deadlines = self.is_relayed.then(|| machine.reader_deadlines(now));
        self.publisher.update(|status| {
            status.totals = totals;
            status.departures = departures;
            status.readers = readers;
            if let Some(deadlines) = deadlines.filter(|deadlines| *deadlines != *status.reader_deadlines) {
                status.reader_deadlines = Arc::new(deadlines);
            }
            status.reports = reports;
            status.statements = statements;
            status.paused = paused;
        });
    }

    /// Ends the publication: no publisher waits for this send path any more.
    pub(super) fn end(&self) {
        self.publisher.end();
    }

    /// Notes that a train of `datagrams` datagrams has left.
    pub(super) fn train_left(&mut self, now: Instant, datagrams: u64) {
        self.departures.left(now, datagrams);
    }

    pub(super) fn two_publishers(&self, other: Epoch) {
        tracing::warn!(
            "another publisher sends the stream `{}` too (its epoch began at {} ns); stop one of them or rename it",
            self.stream,
            other.start_ns
        );
        self.publisher.update(|status| status.two_publishers = Some(other));
    }

    /// Warns once if statements do not fit into the datagrams of a path that is narrower than the bus allows.
    fn check_statements(&mut self, statements: StatementStats) {
        if statements.too_large > 0 && !std::mem::replace(&mut self.warned_of_statements, true) {
            tracing::warn!(
                "datagrams of stream `{}` are too small for its signed statements: recordings of other hosts are \
                 unsigned there\n\
                 raise the MTU of every link of the path, or record on this host",
                self.stream
            );
        }
    }

    /// Warns once if more readers report than are counted.
    pub(super) fn check_readers(&mut self, machine: &Sender) {
        let stats = machine.report_stats();
        let unheard = stats.too_many + stats.displaced + stats.borrowed;
        if unheard > 0 && !std::mem::replace(&mut self.warned_of_readers, true) {
            tracing::warn!(
                "more readers report on stream `{}` than are counted: many use one address, or some are forged",
                self.stream
            );
        }
    }
}
