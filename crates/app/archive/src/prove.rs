//! Proof of a recording: its samples compared with the statements stored beside them.
//!
//! Needs the laboratory's public key, and neither the publisher nor the network. Whether the files fit together is a
//! question of [`Archive::verify`]; this asks whether they are what the publisher numbered. Start with
//! [`Archive::prove`].

use core::ops::Range;

use keys::PublicKey;
use ledger::{GapKind, Stage};
use proof::{Claims, Judge, Judged, Refused, Statement, StatementError, Verdict};
use sample::Block;
use units::{RangeSet, WallTime};

use crate::catalogue::{Archive, Recording};
use crate::error::ArchiveError;
use crate::feed::Piece;
use crate::gaps::GapRecord;
use crate::reasons::Reasons;
use crate::statements::Statements;
use crate::wanted::Wanted;

/// Who must have signed.
#[derive(Clone, Debug)]
pub struct Signatory {
    /// Public key of the laboratory that certified the station.
    pub authority: PublicKey,
    /// Name of the station; otherwise the one that the recording names, or that of the first statement.
    pub station: Option<String>,
}

/// Verdict about intervals of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ruling {
    /// Intervals, positions and verdict.
    pub judged: Judged,
    /// Of an incomplete one: missing elements by reason, from the gap map.
    pub reasons: Reasons,
}

/// Sum of the verdicts about a recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Proof {
    /// Station that signed; `None` without a valid statement.
    pub station: Option<String>,
    /// Number of valid statements.
    pub statements: u64,
    /// Number of refused statements.
    pub refused: u64,
    /// Why statements were refused, each reason once, and faults of their file.
    pub faults: Vec<String>,
    /// True if the end of the epoch is stated: then nothing can be missing behind the last interval.
    pub is_end_stated: bool,
    /// Number of proven intervals.
    pub proven: u64,
    /// Number of incomplete intervals.
    pub incomplete: u64,
    /// Number of contradicted intervals.
    pub contradicted: u64,
    /// Number of intervals without a statement about them.
    pub unsigned: u64,
}

impl Proof {
    /// Returns whether everything recorded is proven, and every statement is valid.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.proven > 0
            && self.incomplete + self.contradicted + self.unsigned + self.refused == 0
            && self.faults.is_empty()
    }

    fn count(&mut self, judged: &Judged) {
        let count = judged.intervals.end - judged.intervals.start;
        match judged.verdict {
            Verdict::Proven => self.proven += count,
            Verdict::Incomplete { .. } => self.incomplete += count,
            Verdict::Contradicted { .. } => self.contradicted += count,
            Verdict::Unsigned(_) => self.unsigned += count,
        }
    }
}

impl Archive {
    /// Compares a recording with its statements; `told` receives the verdicts in the order of the stream.
    ///
    /// Cost: reads and hashes every stored byte once, verifies two signatures a statement.
    ///
    /// # Errors
    /// [`ArchiveError::Later`]; the error of the disk. Without a valid statement there are no verdicts.
    pub fn prove(
        &self,
        recording: &Recording,
        signatory: &Signatory,
        told: &mut dyn FnMut(Ruling),
    ) -> Result<Proof, ArchiveError> {
        self.prove_within(recording, signatory, Wanted::ALL.times, told)
    }

    /// Compares a recording with its statements like [`Self::prove`]; only intervals with something from this range of
    /// time are told and counted. All are judged, because lost statements are bridged from both sides.
    ///
    /// # Errors
    /// Those of [`Self::prove`].
    pub fn prove_within(
        &self,
        recording: &Recording,
        signatory: &Signatory,
        times: Range<WallTime>,
        told: &mut dyn FnMut(Ruling),
    ) -> Result<Proof, ArchiveError> {
        let asked = self.positions_within(recording, times)?;
        let description = &recording.description;
        let found = Statements::read(self.store(), &recording.contents.folder, description)?;
        let station = signatory.station.clone().or_else(|| station_of(recording, &found));
        let (name, schema) = (&description.name, &description.schema);
        let mut claims = Claims::new(name, schema, description.epoch, signatory.authority, station);
        found.lines.iter().for_each(|statement| claims.add(statement));
        let mut proof = Proof {
            station: claims.station().filter(|_| claims.accepted() > 0).map(str::to_owned),
            statements: claims.accepted(),
            refused: claims.refused_count(),
            faults: found.faults.iter().cloned().chain(reasons_of(&claims)).collect(),
            is_end_stated: claims.end().is_some(),
            ..Proof::default()
        };
        self.judge(recording, &claims, &mut |ruling| {
            let positions = &ruling.judged.positions;
            if positions.start < asked.end && asked.start < positions.end {
                proof.count(&ruling.judged);
                told(ruling);
            }
        })?;
        Ok(proof)
    }

    /// Returns the positions of what is recorded within a range of time, its gaps included.
    fn positions_within(
        &self,
        recording: &Recording,
        times: Range<WallTime>,
    ) -> Result<Range<u64>, ArchiveError> {
        if times == Wanted::ALL.times {
            return Ok(0..u64::MAX);
        }
        let per_sample = u64::from(recording.description.schema.elements_per_sample());
        let (mut start, mut end) = (u64::MAX, 0);
        let mut add = |positions: Range<u64>| {
            (start, end) = (start.min(positions.start), end.max(positions.end));
        };
        for piece in self.epoch(recording, times) {
            match piece? {
                Piece::Epoch(_) => {}
                Piece::Hole(hole) => hole.gaps.iter().for_each(|gap| add(gap.positions.clone())),
                Piece::Block(block) => {
                    add(block.first_index * per_sample..block.next_index() * per_sample);
                }
            }
        }
        Ok(start..end)
    }

    fn judge(
        &self,
        recording: &Recording,
        claims: &Claims,
        told: &mut dyn FnMut(Ruling),
    ) -> Result<(), ArchiveError> {
        let per_sample = u64::from(recording.description.schema.elements_per_sample());
        let unnumbered = recording.gaps.iter().filter(|gap| is_unnumbered(gap));
        let unnumbered: RangeSet = unnumbered.map(|gap| gap.positions.clone()).collect();
        let Some(mut judge) = Judge::new(claims, recording.first_index * per_sample, unnumbered) else {
            return Ok(());
        };
        let mut gaps: Vec<GapRecord> = recording.gaps.to_vec();
        for piece in self.epoch(recording, Wanted::ALL.times) {
            match piece? {
                Piece::Epoch(_) => {}
                Piece::Hole(hole) => gaps.extend(hole.gaps.into_iter().filter(GapRecord::is_damage)),
                Piece::Block(block) => {
                    for (positions, bytes) in present(&block) {
                        judge.take(positions.start, bytes, &mut |it| told(ruling(it, &gaps)));
                    }
                }
            }
        }
        let stored = recording.stored_index * per_sample;
        let end = gaps.iter().map(|gap| gap.positions.end).fold(stored, u64::max);
        judge.finish(end, &mut |it| told(ruling(it, &gaps)));
        Ok(())
    }
}

/// Returns why statements were refused, each reason once: a wrong key refuses them all.
fn reasons_of(claims: &Claims) -> Vec<String> {
    let mut reasons: Vec<(&StatementError, u64, u64)> = Vec::new();
    for Refused { number, cause } in claims.refused() {
        match reasons.iter_mut().find(|(told, ..)| *told == cause) {
            Some((_, _, count)) => *count += 1,
            None => reasons.push((cause, *number, 1)),
        }
    }
    let text = |(cause, first, count): (&StatementError, u64, u64)| match count {
        1 => format!("statement {first}: {cause}"),
        _ => format!("{count} statements, first number {first}: {cause}"),
    };
    reasons.into_iter().map(text).collect()
}

/// Returns the station that the recording names, if it signed anything.
fn station_of(recording: &Recording, found: &Statements) -> Option<String> {
    let named = &recording.description.station;
    let signed = found.lines.iter().filter_map(|line| Statement::decode(line).ok());
    signed.map(|it| it.certificate.name).find(|name| name == named)
}

/// Returns whether a gap is wholly of samples that were never published, as far as the account knows: what the source
/// lost is no part of what was signed, and what the publisher's queue lost is.
fn is_unnumbered(gap: &GapRecord) -> bool {
    let before = gap.lost[Stage::Source];
    let is_exact = gap.kind == GapKind::Missing && !gap.apportioned;
    is_exact && before > 0 && gap.unexplained + gap.unsettled == 0 && before == gap.lost.total()
}

/// Returns the runs of elements of a block that arrived, by their positions, with their bytes.
fn present(block: &Block) -> Vec<(Range<u64>, &[u8])> {
    let per_sample = u64::from(block.schema.elements_per_sample());
    let size = block.schema.dtype.size_bytes();
    let mut present: RangeSet = core::iter::once(0..block.samples * per_sample).collect();
    present.remove_all(block.missing.iter());
    let base = block.first_index * per_sample;
    let run = |run: Range<u64>| {
        let bytes = &block.data.as_bytes()[run.start as usize * size..run.end as usize * size];
        (base + run.start..base + run.end, bytes)
    };
    present.iter().map(run).collect()
}

fn ruling(judged: Judged, gaps: &[GapRecord]) -> Ruling {
    let mut reasons = Reasons::default();
    if let Verdict::Incomplete { missing, .. } = &judged.verdict {
        missing.iter().for_each(|range| reasons.add(&Reasons::of(&range, gaps)));
    }
    Ruling { judged, reasons }
}
