//! The publisher's end of a relayed stream: elements at the positions of the stream's publisher, and what is missing.
//!
//! The ring has the same records as any publisher's, with the origin where the account begins, with hop and outcome of
//! what was missing on arrival, and with the hops before. Blocks may begin and end inside a sample.

mod holes;
#[cfg(test)]
mod tests;

use std::ops::Range;

use cast::send::{ElementTimes, Relayed};
use ledger::{
    Cause, Evidence, EvidenceSource, Gap, HopCounts, HopShare, MAX_POSITION, Outcome, Stage, StageCounts,
    Unit,
};
use ring::RecordTooLarge;
use units::SampleRate;
use wire::{MAX_TALLY_STATEMENT_BYTES, Origin, UpstreamHop};

use super::{MAX_RECORD_BYTES, Publication, RECORD_SHARE};
use crate::host::RingReader;
use crate::record::{BlockRecord, Record, block_head, kind};
use crate::send::publication_config::PublicationConfig;
use crate::send::publication_shared::PublicationStatus;
use holes::Holes;

/// Size of the smallest ring of a relayed stream: its records are pieces, and tell of up to eight hops.
pub(in crate::send) const MIN_RING_BYTES: usize = 1 << 14;

/// The publisher's end of a relayed stream: dropping it ends the epoch with a final tally.
///
/// Every element has its outcome: one written or inherited begins where the one before ended.
pub struct RelayedPublication {
    publication: Publication,
}

/// Reason why a relayed stream does not go on with what it was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayedError {
    /// It repeats or omits elements.
    #[error("positions {start} to {end} do not begin at {next}, where the stream ends")]
    Elsewhere {
        /// First position.
        start: u64,
        /// Position behind the last.
        end: u64,
        /// The expected first position.
        next: u64,
    },
    /// It lies beyond the largest position.
    #[error("position {0} is beyond {MAX_POSITION}")]
    Beyond(u64),
    /// The bytes are not whole elements, or there are none.
    #[error("{bytes} bytes are no elements of {element_bytes} bytes each")]
    Ragged {
        /// Number of bytes given.
        bytes: usize,
        /// Size of an element.
        element_bytes: usize,
    },
    /// Not every missing element has one outcome.
    #[error("{elements} missing elements have {outcomes} outcomes")]
    Outcomes {
        /// Number of positions.
        elements: u64,
        /// Number of outcomes.
        outcomes: u64,
    },
    /// It tells of hops that are not before the stream's own, or not of all of them.
    #[error("{given} hops are told of a stream on hop {hop}")]
    Hops {
        /// Number of hops given.
        given: usize,
        /// The stream's own hop.
        hop: u8,
    },
    /// The statement is too long for a tally.
    #[error("a statement of {0} bytes does not fit into a tally, which takes {MAX_TALLY_STATEMENT_BYTES}")]
    Statement(usize),
    /// The ring does not hold a record.
    #[error(transparent)]
    TooLarge(#[from] RecordTooLarge),
}

/// State that only a relayed publication has.
pub(super) struct Relaying {
    pub(super) origin: Origin,
    pub(super) first_position: u64,
    next_position: u64,
    rate: SampleRate,
    element_bytes: usize,
    /// Maximum size of a record's elements.
    piece_bytes: usize,
    holes: Holes,
}

impl Relaying {
    pub(super) fn new(config: &PublicationConfig, max_payload_bytes: usize) -> Option<Box<Self>> {
        let Relayed { origin, first_position } = config.relayed?;
        let element_bytes = config.description.schema.dtype.size_bytes();
        let piece_bytes = MAX_RECORD_BYTES.min(max_payload_bytes / RECORD_SHARE);
        Some(Box::new(Self {
            origin,
            first_position,
            next_position: first_position,
            rate: config.description.schema.rate,
            element_bytes,
            piece_bytes: piece_bytes / element_bytes * element_bytes,
            holes: Holes::default(),
        }))
    }

    /// Returns what was inherited since the stream began.
    pub(super) const fn inherited(&self) -> &HopCounts {
        self.holes.inherited()
    }

    /// Checks that these positions follow those before.
    fn check_follows(&self, positions: &Range<u64>) -> Result<(), RelayedError> {
        let (Range { start, end }, next) = (positions.clone(), self.next_position);
        if start != next || end <= start {
            return Err(RelayedError::Elsewhere { start, end, next });
        }
        if end > MAX_POSITION { Err(RelayedError::Beyond(end)) } else { Ok(()) }
    }

    /// Checks that these positions have one outcome each, on hops before the stream's own.
    fn check_outcomes(&self, positions: &Range<u64>, shares: &HopCounts) -> Result<(), RelayedError> {
        let (elements, outcomes) = (positions.end.saturating_sub(positions.start), shares.total());
        if elements != outcomes || elements == 0 {
            return Err(RelayedError::Outcomes { elements, outcomes });
        }
        let (given, hop) = (shares.hops().len(), self.origin.hop.get());
        if given > usize::from(hop) { Err(RelayedError::Hops { given, hop }) } else { Ok(()) }
    }
}

impl RelayedPublication {
    pub(in crate::send) const fn over(publication: Publication) -> Self {
        Self { publication }
    }

    /// Returns the position of the next element.
    #[must_use]
    pub fn next_position(&self) -> u64 {
        self.relaying().next_position
    }

    /// Writes elements with their times.
    ///
    /// # Errors
    /// [`RelayedError`] if they do not follow those before; nothing is written then.
    pub fn write(
        &mut self,
        position: u64,
        ElementTimes { t0, clock, born }: ElementTimes,
        bytes: &[u8],
    ) -> Result<(), RelayedError> {
        let Relaying { element_bytes, piece_bytes, rate, .. } = *self.relaying();
        if bytes.is_empty() || !bytes.len().is_multiple_of(element_bytes) {
            return Err(RelayedError::Ragged { bytes: bytes.len(), element_bytes });
        }
        let end = position.saturating_add((bytes.len() / element_bytes) as u64);
        self.relaying().check_follows(&(position..end))?;
        let (per_sample, sample_bytes) =
            (self.publication.elements_per_sample, self.publication.sample_bytes);
        let (mut at, mut rest) = (position, bytes);
        while !rest.is_empty() {
            // Whole samples, or a piece of one.
            let offset = at % per_sample;
            let whole_bytes = rest.len().min(piece_bytes) / sample_bytes * sample_bytes;
            let size_bytes = if offset == 0 && whole_bytes > 0 {
                whole_bytes
            } else {
                let to_end = usize::try_from(per_sample - offset).unwrap_or(usize::MAX);
                rest.len().min(piece_bytes).min(to_end.saturating_mul(element_bytes))
            };
            let (payload, behind) = rest.split_at(size_bytes);
            let t0 = rate.time_of(at / per_sample, position / per_sample, t0);
            let epoch = self.publication.epoch;
            let block = BlockRecord { epoch, position: at, t0, clock, born, payload };
            self.publication.put(kind::BLOCK, &[&block_head(&block), payload])?;
            (at, rest) = (at + (size_bytes / element_bytes) as u64, behind);
            self.publication.pass_to(at, 0);
        }
        self.publication.wake_all();
        Ok(())
    }

    /// Writes a hole: elements that were missing when they arrived, with their outcomes on the hops before, and why the link
    /// before gave up those that it lost at stage `deadline`.
    ///
    /// # Errors
    /// [`RelayedError`] if they do not follow those before, or not each has an outcome; nothing is written then.
    pub fn inherit(
        &mut self,
        positions: Range<u64>,
        shares: &HopCounts,
        cause: Option<Cause>,
    ) -> Result<(), RelayedError> {
        let relaying = self.relaying();
        relaying.check_follows(&positions)?;
        relaying.check_outcomes(&positions, shares)?;
        self.publication.put_inherited(positions, shares, cause)?;
        self.publication.wake_all();
        Ok(())
    }

    /// Writes new outcomes of elements that were inherited; of those in no hole of the newest nothing is told.
    ///
    /// # Errors
    /// [`RelayedError`] if not each has an outcome; nothing is written then.
    pub fn settle(&mut self, positions: &Range<u64>, shares: &HopCounts) -> Result<(), RelayedError> {
        let relaying = self.relaying_mut();
        relaying.check_outcomes(positions, shares)?;
        let news = relaying.holes.settle(positions, shares);
        for (positions, shares) in news {
            let gap = inherited_gap(positions, shares);
            self.publication.page.gap(self.publication.epoch, &gap);
            self.publication.put_record(&Record::Settled(self.publication.epoch, gap))?;
        }
        self.publication.wake_all();
        Ok(())
    }

    /// Writes the hops before this stream's own with their losses since the origin epoch began.
    ///
    /// # Errors
    /// [`RelayedError`] if not all of these hops are told; nothing is written then.
    pub fn tell_upstream(&mut self, hops: Vec<UpstreamHop>) -> Result<(), RelayedError> {
        let hop = self.relaying().origin.hop.get();
        if hops.len() != usize::from(hop) {
            return Err(RelayedError::Hops { given: hops.len(), hop });
        }
        self.publication.put_record(&Record::Upstream(self.publication.epoch, hops))?;
        self.publication.wake_all();
        Ok(())
    }

    /// Writes a signed statement of the stream's publisher, as it is.
    ///
    /// # Errors
    /// [`RelayedError`] if it is too long.
    pub fn state(&mut self, statement: &[u8]) -> Result<(), RelayedError> {
        if statement.len() > MAX_TALLY_STATEMENT_BYTES {
            return Err(RelayedError::Statement(statement.len()));
        }
        self.publication.put_record(&Record::Statement(self.publication.epoch, statement))?;
        self.publication.wake_all();
        Ok(())
    }

    /// Returns whether the agent has ended, so that elements are not sent any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.publication.has_ended()
    }

    /// Withholds data datagrams with this probability from now on.
    pub fn inject(&self, probability: f64) {
        self.publication.inject(probability);
    }

    /// Returns the state that the agent last reported; without a network, that of the ring.
    #[must_use]
    pub fn status(&self) -> PublicationStatus {
        self.publication.status()
    }

    /// Returns how many readers read the ring in this host's memory.
    #[must_use]
    pub fn readers_on_host(&self) -> usize {
        self.publication.readers_on_host()
    }

    /// Returns the readers that read the ring in this host's memory.
    #[must_use]
    pub fn ring_readers(&self) -> Vec<RingReader> {
        self.publication.ring_readers()
    }

    /// Ends the epoch: all queued elements are sent, then the final tally; waits until that is done.
    #[must_use]
    pub fn finish(self) -> PublicationStatus {
        self.publication.finish()
    }

    fn relaying(&self) -> &Relaying {
        self.publication.relaying.as_deref().expect("it was opened with an origin")
    }

    fn relaying_mut(&mut self) -> &mut Relaying {
        self.publication.relaying.as_deref_mut().expect("it was opened with an origin")
    }
}

impl Publication {
    /// Counts elements up to a position, of which so many were missing.
    fn pass_to(&mut self, position: u64, missing: u64) {
        let relaying = self.relaying.as_mut().expect("only a relay writes pieces");
        let passed = position - std::mem::replace(&mut relaying.next_position, position);
        self.totals[0] += passed - missing;
        self.totals[1] += missing;
        self.next_index = position / self.elements_per_sample;
    }

    fn put_inherited(
        &mut self,
        positions: Range<u64>,
        shares: &HopCounts,
        cause: Option<Cause>,
    ) -> Result<(), RecordTooLarge> {
        let mut gap = inherited_gap(positions.clone(), shares.clone());
        gap.evidence.extend(cause.and_then(|cause| self.given_up(shares, cause)));
        self.page.gap(self.epoch, &gap);
        self.put_record(&Record::Gap(self.epoch, gap))?;
        self.pass_to(positions.end, positions.end - positions.start);
        self.relaying.as_mut().expect("only a relay inherits").holes.push(positions, shares);
        Ok(())
    }

    /// Returns the evidence of what the link before gave up.
    fn given_up(&self, shares: &HopCounts, cause: Cause) -> Option<Evidence> {
        let link = self.relaying.as_ref()?.origin.hop.get() - 1;
        let (stage, unit, source) = (Stage::Deadline, Unit::Elements, EvidenceSource::GivenUp(cause));
        let count = shares.rows(link).lost[stage];
        (count > 0).then_some(Evidence { stage, count, unit, source })
    }

    /// Completes the last sample of a relayed stream that ends inside one: its rest is lost, nobody knows where.
    pub(super) fn complete_last_sample(&mut self) {
        let Some(relaying) = &self.relaying else { return };
        let start = relaying.next_position;
        let end = start.next_multiple_of(self.elements_per_sample);
        if start == end {
            return;
        }
        let hop = relaying.origin.hop.get() - 1;
        let shares = [HopShare { hop, outcome: Outcome::Unexplained, count: end - start }];
        let shares = shares.into_iter().collect();
        self.put_inherited(start..end, &shares, None).expect("the smallest ring holds it");
    }
}

/// Returns a gap of elements that were lost before.
pub(super) fn inherited_gap(positions: Range<u64>, inherited: HopCounts) -> Gap {
    let (stage, count) = (Stage::Source, positions.end - positions.start);
    let (unit, source) = (Unit::Elements, EvidenceSource::TallyRange);
    Gap {
        lost: StageCounts::of(stage, count),
        inherited,
        unexplained: 0,
        evidence: vec![Evidence { stage, count, unit, source }],
        ..Gap::unexplained(positions)
    }
}
