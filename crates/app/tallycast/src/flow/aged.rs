//! Samples that are too old for this reader when they come: lost at stage `deadline` on its own hop.
//!
//! A relay serves the longest deadline among its readers, so that those with a shorter one get samples that are of no use
//! to them. Of samples that no relay has passed on the age is not known: they are never too old.

use std::time::Duration;

use engine::record::BlockRecord;
use ledger::{EvidenceSource, Stage};
use sys::clock;
use units::Epoch;

use super::{Flow, Place};
use crate::assembly::Piece;
use crate::event::Event;

/// Number of records without a single useful sample after which the reader is told that its deadline is too short.
const HOPELESS: u32 = 32;
/// What a deadline needs beyond the age at which samples come.
const HAND_OVER: Duration = Duration::from_millis(2);

/// A reader's deadline, and how samples have met it.
#[derive(Default)]
pub(super) struct Ageing {
    deadline: Option<Duration>,
    /// Number of records that were too old as a whole, before the first that was not.
    hopeless: Option<u32>,
    /// The least age of any of them.
    youngest: Duration,
}

impl Flow {
    /// Sets the age from which samples are of no use, before anything is read.
    pub(crate) const fn set_deadline(&mut self, deadline: Option<Duration>) {
        self.ageing = Ageing { deadline, hopeless: Some(0), youngest: Duration::MAX };
    }

    /// Returns whether samples can be too old for this reader.
    pub(super) const fn is_aged(&self) -> bool {
        self.ageing.deadline.is_some()
    }

    /// Counts the samples at the beginning of a block that are too old; returns the rest of it.
    pub(super) fn leave_out_old(
        &mut self,
        block: &BlockRecord<'_>,
        at: Place,
        piece: Piece,
        events: &mut Vec<Event>,
    ) -> Option<Piece> {
        let Some(excess) = self.excess(block) else { return Some(piece) };
        let (late, rest) = self.divide(excess, piece);
        self.told_hopeless(block, rest.is_none());
        if late > 0 {
            let count = late / self.schema.dtype.size_bytes();
            self.count_too_old(block.epoch, at, (piece, count as u64), events);
        }
        rest
    }

    /// Returns by how much the first sample of a block is older than this reader's deadline, `None` if it has none or the
    /// age is not known.
    fn excess(&self, block: &BlockRecord<'_>) -> Option<Duration> {
        let deadline = self.ageing.deadline.filter(|_| !self.is_tapped())?;
        Some(clock::monotonic().since(block.born?).saturating_sub(deadline))
    }

    /// Divides a piece whose first sample is too old by `excess`: samples behind it are younger by a period each.
    pub(super) fn divide(&self, excess: Duration, piece: Piece) -> (usize, Option<Piece>) {
        if excess.is_zero() {
            return (0, Some(piece));
        }
        let element_bytes = self.schema.dtype.size_bytes();
        let per_sample = u64::from(self.schema.elements_per_sample());
        let first = piece.position / per_sample;
        let end = piece.position + (piece.size_bytes / element_bytes) as u64;
        // The first sample that is not older than the deadline.
        let samples = self.schema.rate.samples_in(excess);
        let exact = self.schema.rate.duration_of(samples) >= excess;
        let fresh = first.saturating_add(samples).saturating_add(u64::from(!exact));
        let position = fresh.saturating_mul(per_sample).min(end);
        let late = usize::try_from(position - piece.position).expect("elements in memory") * element_bytes;
        if position == end {
            return (piece.size_bytes, None);
        }
        let t0 = self.schema.rate.time_of(fresh, first, piece.t0);
        (late, Some(Piece { position, t0, size_bytes: piece.size_bytes - late }))
    }

    fn count_too_old(
        &mut self,
        epoch: Epoch,
        at: Place,
        (piece, count): (Piece, u64),
        events: &mut Vec<Event>,
    ) {
        self.note_time(epoch, piece, events);
        let Some(reader_epoch) = self.epochs.get_mut(&epoch) else { return };
        let [delivered, missing] = at.totals;
        let totals = [delivered.saturating_add(count), missing];
        let gap = reader_epoch.hop.lapped_as(totals, Stage::Deadline, EvidenceSource::TooOld).cloned();
        let Some(gap) = gap else { return };
        if let Some(assembly) = &mut self.assembly {
            assembly.gap(&gap.positions, &mut self.blocks);
        }
        self.hand_over(events);
        self.tell_gap(epoch, gap, events);
    }

    /// Says once that no sample comes in time.
    fn told_hopeless(&mut self, block: &BlockRecord<'_>, is_too_old: bool) {
        let Some(hopeless) = &mut self.ageing.hopeless else { return };
        if !is_too_old {
            self.ageing.hopeless = None;
            return;
        }
        *hopeless += 1;
        let age = block.born.map_or(Duration::MAX, |born| clock::monotonic().since(born));
        self.ageing.youngest = self.ageing.youngest.min(age);
        if *hopeless == HOPELESS {
            let (youngest, deadline) = (self.ageing.youngest, self.ageing.deadline.unwrap_or_default());
            tracing::warn!(
                "no sample of stream `{}` comes within the deadline of {deadline:?}: the youngest was {youngest:.1?} old\n\
                 a deadline must be at least the one-way delay + 2 ms = {:.1?}, and a round trip longer for each \
                 repair",
                self.name,
                youngest + HAND_OVER
            );
            self.ageing.hopeless = None;
        }
    }
}
