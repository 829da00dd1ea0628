//! A flow from another process's ring: joined at its writer's position, ended when its writer was killed.

use std::sync::Arc;

use engine::record::{Record, kind};
use engine::{HostStream, RingName, RingWriter};
use ledger::AccountState;
use ring::shared::Liveness;
use ring::{Doorbell, Read};

use super::{Flow, Place};
use crate::event::Event;
use crate::host_view::{PageBridge, Reach};

/// State of a flow that reads another process's ring.
pub(super) struct HostEnd {
    doorbell: Arc<Doorbell>,
    liveness: Arc<Liveness>,
}

impl Flow {
    /// Reads a stream from another process's ring, from the oldest record in it.
    pub(crate) fn on_host(stream: HostStream) -> Self {
        let reader = stream.subscription.ring.reader_at_oldest();
        let bridge = Arc::new(PageBridge(stream.subscription.ring.clone()));
        let mut flow = Self::with_reader(stream.subscription, bridge, reader);
        flow.reach = Reach::of(stream.writer);
        flow.host = Some(HostEnd { doorbell: stream.doorbell, liveness: stream.liveness });
        flow
    }

    /// Marks this reader as having waited for everything in the ring: it reads from the oldest record, and
    /// overwritten records are its loss, from the beginning of the account.
    pub(crate) fn wait_for_beginning(&mut self) {
        self.waited = true;
    }

    /// Returns the number of the ring's file.
    pub(crate) fn file_number(&self) -> Option<u64> {
        self.host.as_ref()?.liveness.file_number().ok()
    }

    /// Joins another process's ring at the writer's position of a moment ago: reads up to there without
    /// events.
    pub(crate) fn join(&mut self, events: &mut Vec<Event>) {
        // A reader would never catch up with a writer that is as fast.
        let head = self.reader.position() + self.reader.lag_bytes();
        // In the middle of a sample, or before the first record of an account, the next record gives the
        // position.
        let here = self.read_until(head).filter(|at| self.is_at_sample(*at) && !self.was_had(*at));
        if let Some(at) = here {
            let hop = self.hop_at(at);
            let reader_epoch =
                self.epochs.get(&at.epoch).map(|reader_epoch| reader_epoch.succeeded_by(self.hop_at(at)));
            let reader_epoch = reader_epoch.unwrap_or_else(|| self.epoch_behind(at.epoch, hop));
            self.begin(at.epoch, reader_epoch, events);
        } else {
            // Data before that record, whatever reach they had, were not lost here.
            self.current = None;
        }
    }

    /// Reads up to a position in the ring without events; returns the stream's position there, if the last
    /// record gives it.
    pub(super) fn read_until(&mut self, end: u64) -> Option<Place> {
        let mut record = std::mem::take(&mut self.record);
        let mut here = None;
        while self.reader.position() < end {
            here = match record.read_from(&mut self.reader, &self.spare) {
                // It has no place among the samples.
                Read::Record { kind, .. } if has_no_place(kind) => continue,
                Read::Record { kind, totals } => {
                    let content = record.decode(&self.schema, kind, totals);
                    content.ok().and_then(|content| self.behind(&content, totals))
                }
                // Behind overwritten records, no earlier record gives the position.
                Read::Lapped { .. } => None,
                Read::Empty | Read::Closed | Read::Broken => break,
            };
        }
        self.record = record;
        here
    }

    /// Returns the position behind a record, `None` if no account is open there.
    fn behind(&self, record: &Record<'_>, totals: [u64; 2]) -> Option<Place> {
        let per_sample = u64::from(self.schema.elements_per_sample());
        let [delivered, missing] = totals;
        match record {
            Record::Began { epoch, first_index, .. } => {
                Some(Place { epoch: *epoch, totals, position: first_index * per_sample })
            }
            Record::Block(block) => {
                let elements = (block.payload.len() / self.schema.dtype.size_bytes()) as u64;
                let totals = [delivered + elements, missing];
                Some(Place { epoch: block.epoch, totals, position: block.position + elements })
            }
            Record::Gap(epoch, gap) => {
                let totals = [delivered, missing + gap.len()];
                Some(Place { epoch: *epoch, totals, position: gap.positions.end })
            }
            Record::Settled(..)
            | Record::Ended { .. }
            | Record::TwoPublishers { .. }
            | Record::Statement(..)
            | Record::Upstream(..)
            | Record::Horizon { .. } => None,
        }
    }

    /// Returns the name of the ring and its writer's liveness, if the ring cannot be read.
    pub(crate) fn broken_ring(&self) -> Option<(RingName, &Liveness)> {
        let host = self.host.as_ref().filter(|_| self.is_broken)?;
        let writer = if self.reach == Reach::Shm { RingWriter::Publisher } else { RingWriter::Agent };
        Some((RingName { stream: self.stream(), writer }, &host.liveness))
    }

    /// Returns the doorbell of another process's ring.
    pub(crate) fn doorbell(&self) -> Option<&Arc<Doorbell>> {
        self.host.as_ref().map(|host| &host.doorbell)
    }

    /// Ends open accounts if the other process was killed and everything it wrote was read.
    pub(crate) fn look_after_writer(&mut self, reader_name: &str, events: &mut Vec<Event>) {
        let Some(host) = self.host.as_ref().filter(|_| !self.closed) else { return };
        // Checked before the ring is: then all records of a dead writer are there when the ring is read.
        if host.liveness.writer_is_alive() || self.subscription.ring.is_closed() {
            return;
        }
        if self.is_ready() {
            let before = self.reader.position();
            self.pump(reader_name, events);
            // What cannot be read now never will be: the writer was killed while it wrote the only record to
            // resume at.
            if self.closed || self.reader.position() != before {
                return;
            }
        }
        self.closed = true;
        self.end_open(AccountState::Unconfirmed, reader_name, events);
    }
}

/// Returns whether records of this kind have no place among the samples.
const fn has_no_place(kind: u16) -> bool {
    matches!(kind, kind::STATEMENT | kind::UPSTREAM | kind::HORIZON) || kind::is_later(kind)
}
