//! Path of one stream to the disk: columns, segment, gap map, account and counters.
//!
//! The law of this hop, checked after every step in debug builds:
//! `accepted = stored + archive_write + unacknowledged`, in elements.

use core::ops::Range;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ledger::{GapKind, HopCounts, StageCounts};
use proof::Grid;
use sample::{Block, StreamName};
use serde_json::{Value, json};
use tallycast::{StreamGap, StreamInfo};
use units::{Epoch, Instant, RangeSet, WallTime};

use super::accounts::make_room;
use super::gap_file::GapFile;
use super::outage::Outage;
use super::statement_file::StatementFile;
use super::{Progress, identity_of};
use crate::columns::Columns;
use crate::error::ArchiveError;
use crate::folders::{ACCOUNT, ClosedSegment, DESCRIPTION, GAPS, RunName, epoch_folder, segment_of};
use crate::gaps::{GapKey, GapRecord, Line, Mended, Origin, Session};
use crate::recovery::{Resumable, recover_epoch};
use crate::segment::{Birth, SegmentWriter};
use crate::stamped::stamp;
use crate::store::{Appendable, Store, StoreError, read_whole, replace, set_aside};
use crate::told::Files;
use crate::version::VERSION;
use crate::{Description, DescriptionError};

/// Number of statements that a publisher may make beyond one for each interval of what was recorded: those about
/// samples that were lost. Units: each at most 664 bytes, twice that in the file.
const SPARE_STATEMENTS: u64 = 1_024;

/// Time in which nothing could be recorded.
struct Absence {
    kind: GapKind,
    why: &'static str,
    /// Absence without an end that an earlier recorder left.
    open: Option<GapKey>,
}

const NO_RECORDER: Absence =
    Absence { kind: GapKind::ReaderAbsent, why: "no recorder was listening", open: None };
const NO_RELAY: Absence =
    Absence { kind: GapKind::PublisherAbsent, why: "the relay was started again", open: None };

/// Maximum number of relays whose gaps are still settled after another has taken their place.
const MAX_HOPS_BEFORE: usize = 64;

/// Cause why something could not be written.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) cause: String,
    pub(super) full: bool,
}

impl<E: Into<ArchiveError>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        // The cause becomes evidence in the gap map, where a remedy would be out of place.
        Self { full: error.is_no_space(), cause: error.first_line() }
    }
}

/// Elements, each counted in one place.
#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    accepted: u64,
    stored: u64,
    archive_write: u64,
}

/// Next thing to be written before samples of a session can be stored; each variant includes the following ones.
enum Owed {
    /// The folder with its description, and the gap map; or an existing gap map with the size of its intact lines.
    GapMap {
        found_bytes: Option<u64>,
    },
    /// The last account of this recorder's previous session.
    Account(Value),
    /// The line of the session in the gap map.
    Line,
    /// The free name for its account.
    Room,
    Nothing,
}

pub(super) struct StreamRecorder {
    description: Arc<Description>,
    folder: PathBuf,
    session: u32,
    /// Epoch under which the stream is published now: of a relayed one, the relay's.
    hop_epoch: Epoch,
    /// Sessions of the relays before, by their epochs: their gaps may still be settled. The oldest are dropped.
    hops_before: BTreeMap<Epoch, u32>,
    /// Positions before this one were accepted, or counted, before the session began.
    session_position: u64,
    /// Missing positions behind the last accepted sample.
    declared: RangeSet,
    /// Name of the reader.
    reader: String,
    owed: Owed,
    columns: Columns,
    segment: Option<SegmentWriter>,
    segment_began: Instant,
    next_segment: u32,
    /// Number of the last segment with stored samples; 0 if there is none.
    last_segment: u32,
    gaps: GapFile,
    next_gap: u64,
    statements: StatementFile,
    first_index: u64,
    accepted_index: u64,
    stored_index: u64,
    /// Index and time of a known sample.
    anchor: (u64, WallTime),
    /// Positions accepted but not yet stored.
    unacknowledged: RangeSet,
    outage: Outage,
    counters: Counters,
    /// True if the last write failed; reported once until one succeeds.
    failing: bool,
    last_cause: String,
    account: Value,
    account_changed: bool,
    /// True if the account is written with the next commit, before its time.
    account_due: bool,
    account_written: Instant,
    ended: bool,
    /// Counters when this session began: they continue across sessions, while each account covers one session.
    counters_before: Counters,
    /// Changes to the files by other programs while they were written, each repaired.
    faults: Vec<String>,
}

impl StreamRecorder {
    /// Begins recording a stream, continuing an earlier recorder's if there is one. Nothing is written yet:
    /// [`Self::settle`] does that.
    ///
    /// # Errors
    /// [`ArchiveError::SchemaChanged`] if an earlier recorder had another schema.
    pub(super) fn new(
        run: &RunName,
        reader: &str,
        info: &StreamInfo,
        found: Option<&Resumable>,
        now: Instant,
    ) -> Result<Self, ArchiveError> {
        let first_index = info.first_index;
        let description = Arc::new(Description {
            name: Arc::clone(&info.name),
            epoch: identity_of(info),
            schema: Arc::clone(&info.schema),
            station: info.station.clone(),
        });
        let folder = epoch_folder(run, &description.name, description.epoch);
        let mut stream = Self {
            columns: Columns::new(Arc::clone(&description)),
            session: 1,
            hop_epoch: info.epoch,
            hops_before: BTreeMap::new(),
            session_position: 0,
            declared: RangeSet::new(),
            reader: reader.to_owned(),
            owed: Owed::GapMap { found_bytes: None },
            segment: None,
            segment_began: now,
            next_segment: 1,
            last_segment: 0,
            gaps: GapFile::waiting(&folder, &description),
            next_gap: 0,
            statements: StatementFile::default(),
            first_index,
            accepted_index: first_index,
            stored_index: first_index,
            anchor: (first_index, WallTime::default()),
            unacknowledged: RangeSet::new(),
            outage: Outage::default(),
            counters: Counters::default(),
            failing: false,
            last_cause: String::new(),
            account: Value::Null,
            account_changed: true,
            account_due: false,
            account_written: now,
            ended: false,
            counters_before: Counters::default(),
            faults: Vec::new(),
            description,
            folder,
        };
        if let Some(found) = found {
            stream.go_on_behind(found)?;
        }
        Ok(stream)
    }

    /// Continues the recording of an earlier recorder.
    fn go_on_behind(&mut self, found: &Resumable) -> Result<(), ArchiveError> {
        if found.description.schema != self.description.schema {
            return Err(ArchiveError::SchemaChanged(self.description.name.to_string()));
        }
        self.owed = Owed::GapMap { found_bytes: Some(found.gap_bytes) };
        self.session = found.session + 1;
        self.gaps.renumber(self.session);
        self.next_segment = found.next_segment;
        self.last_segment = found.last_segment;
        self.next_gap = self.next_gap.max(found.next_gap);
        if self.anchor.1 == WallTime::default() {
            self.anchor = (found.stored_index, found.stored_until);
        }
        let absence = Absence { open: found.open_absence, ..NO_RECORDER };
        self.note_absence(found.stored_index..self.first_index, &found.declared, absence);
        self.pass_over(found.stored_index, &found.declared);
        self.stored_index = self.stored_index.max(found.stored_index);
        Ok(())
    }

    /// Writes everything that must be on the disk before samples of a session can be stored. If it fails, the written
    /// part stays, and the next call continues from there.
    ///
    /// # Errors
    /// [`ArchiveError::SchemaChanged`]; the error of the disk.
    pub(super) fn settle(&mut self, store: &dyn Store) -> Result<(), ArchiveError> {
        self.replace_gap_map(store)?;
        if let Owed::GapMap { found_bytes: None } = self.owed
            && let Some(found) = Self::settle_in(store, &self.folder, &self.description)?
        {
            self.go_on_behind(&found)?;
        }
        if let Owed::GapMap { found_bytes } = self.owed {
            let gaps = match found_bytes {
                Some(bytes) => GapFile::resume(store, &self.folder, &self.description, bytes)?,
                None => GapFile::create(store, &self.folder, &self.description)?,
            };
            let waiting = core::mem::replace(&mut self.gaps, gaps);
            self.gaps.take_over(waiting);
            self.owed = Owed::Line;
        }
        if let Owed::Account(last) = &self.owed {
            replace(store, &self.folder.join(ACCOUNT), stamp(last).as_bytes())?;
            self.owed = Owed::Line;
        }
        if matches!(self.owed, Owed::Line) {
            self.gaps.write_lines(&[self.session_line()])?;
            self.gaps.write()?;
            self.gaps.sync()?;
            self.owed = Owed::Room;
        }
        if matches!(self.owed, Owed::Room) {
            make_room(store, &self.folder, self.session)?;
            store.sync_folder(&self.folder)?;
            self.owed = Owed::Nothing;
        }
        Ok(())
    }

    /// Begins a new gap map if the file was removed and its folder was not: losing a small file is no reason to stop
    /// storing.
    fn replace_gap_map(&mut self, store: &dyn Store) -> Result<(), ArchiveError> {
        if self.is_waiting() || self.gaps.check_place().is_ok() {
            return Ok(());
        }
        let path = self.folder.join(GAPS);
        let is_folder_ours = read_whole(store, &self.folder.join(DESCRIPTION))
            .is_ok_and(|found| Description::decode(&found).is_ok_and(|found| found == *self.description));
        let kept_as = match store.open(&path) {
            Err(StoreError::NotFound(_)) if is_folder_ours => None,
            Err(StoreError::Misplaced { .. }) if is_folder_ours => Some(set_aside(store, &path)?),
            // Another folder, or none, in the place of the epoch's: the next write reports it.
            _ => return Ok(()),
        };
        self.gaps.take_back();
        let gaps = GapFile::create(store, &self.folder, &self.description)?;
        let taken = core::mem::replace(&mut self.gaps, gaps);
        self.gaps.take_over(taken);
        let cause = format!("{} was removed while it was recorded, and is started again", path.display());
        let mended = Mended { file: GAPS.to_owned(), kept_as, cause: cause.clone() };
        self.gaps.write_lines(&[self.session_line(), Line::Mended(mended)])?;
        store.sync_folder(&self.folder)?;
        self.faults.push(cause);
        Ok(())
    }

    fn session_line(&self) -> Line {
        let (number, first_index) = (self.session, self.first_index);
        Line::Session(Session { number, first_index, reader: self.reader.clone() })
    }

    /// Returns the changes of the files while they were written, each once.
    pub(super) fn take_faults(&mut self) -> Vec<String> {
        let fault = self.gaps.take_fault().map(|error| ArchiveError::from(error).first_line());
        self.faults.extend(fault);
        core::mem::take(&mut self.faults)
    }

    /// Returns whether the start of the session is not written yet.
    pub(super) const fn is_waiting(&self) -> bool {
        !matches!(self.owed, Owed::Nothing)
    }

    /// Creates the folder of an epoch, with its description. An existing folder had no readable description and could
    /// not be recovered before; now it can.
    fn settle_in(
        store: &dyn Store,
        folder: &Path,
        description: &Description,
    ) -> Result<Option<Resumable>, ArchiveError> {
        store.make_folder(folder)?;
        let left = store.list(folder)?;
        let (path, text) = (folder.join(DESCRIPTION), stamp(&description.to_json()));
        let is_there = |name: &str| left.iter().any(|left| left == name);
        let written = read_whole(store, &path).unwrap_or_default();
        if let Err(cause @ DescriptionError::Version(_)) = Description::decode(&written) {
            return Err(ArchiveError::Description { path, cause });
        }
        // It may be our own, from a start that the disk stored only in part.
        let is_written = written == text.as_bytes();
        if !is_written {
            if is_there(DESCRIPTION) {
                set_aside(store, &path)?;
            }
            replace(store, &path, text.as_bytes())?;
        }
        let is_old =
            is_there(GAPS) || is_there(ACCOUNT) || left.iter().any(|name| segment_of(name).is_some());
        if is_old { recover_epoch(store, folder) } else { Ok(None) }
    }

    /// Continues after the same reader joined the same epoch again: the span between is its absence. While the
    /// session before is not written yet, both become one, so that the waiting data do not grow.
    pub(super) fn rejoin(&mut self, hop_epoch: Epoch, first_index: u64) {
        let is_other_hop = hop_epoch != self.hop_epoch;
        if is_other_hop {
            self.hops_before.insert(self.hop_epoch, self.session);
            if self.hops_before.len() > MAX_HOPS_BEFORE {
                self.hops_before.pop_first();
            }
            self.hop_epoch = hop_epoch;
        }
        if !self.is_waiting() {
            self.owed = Owed::Account(self.account_as(self.end_state()));
            self.session += 1;
            self.first_index = first_index;
            self.counters_before = self.counters;
        }
        self.ended = false;
        self.account = Value::Null;
        self.account_changed = true;
        let declared = core::mem::take(&mut self.declared);
        let absence = if is_other_hop { NO_RELAY } else { NO_RECORDER };
        self.note_absence(self.accepted_index..first_index, &declared, absence);
        let accepted_index = self.accepted_index;
        self.accepted_index = accepted_index.max(first_index);
        self.pass_over(accepted_index, &declared);
    }

    /// Takes nothing that was accepted or declared missing before: a relay that starts again may send, or tell of, what
    /// an earlier one had sent already.
    fn pass_over(&mut self, accepted_index: u64, declared: &RangeSet) {
        let declared = declared.iter().last().map_or(0, |range| range.end / self.per_sample());
        let known = accepted_index.max(declared);
        self.session_position = known * self.per_sample();
        self.accepted_index = self.accepted_index.max(known);
    }

    /// Records the span in which nothing could be recorded, except the part that was declared missing before.
    fn note_absence(&mut self, samples: Range<u64>, declared: &RangeSet, absence: Absence) {
        let Absence { kind, why, mut open } = absence;
        let (per_sample, from, to) = (self.per_sample(), samples.start, samples.end);
        let mut absent: RangeSet = core::iter::once(from * per_sample..to.max(from) * per_sample).collect();
        for range in declared.iter() {
            absent.remove(range);
        }
        let mut ranges: Vec<Range<u64>> = absent.iter().collect();
        if ranges.is_empty() && open.is_some() {
            // The earlier recorder left an absence without an end; its end is known now: the same point.
            ranges.push(from * per_sample..from * per_sample);
        }
        for positions in ranges {
            let key = open.take().unwrap_or_else(|| self.new_key());
            let (t0, t1) = self.times_of(&positions);
            self.note(GapRecord {
                key,
                kind,
                positions,
                numbers: 0..0,
                lost: StageCounts::default(),
                inherited: HopCounts::default(),
                unexplained: 0,
                unsettled: 0,
                apportioned: false,
                t0,
                t1: Some(t1),
                evidence: vec![why.to_owned()],
            });
        }
    }

    /// Moves a block into the columns, except samples that were accepted before.
    pub(super) fn accept(&mut self, block: &Block) {
        self.end_outage();
        let skipped = self.enter(block);
        if skipped < block.samples {
            self.columns.append(block, skipped);
        }
        self.check();
    }

    /// Counts a block as given up: there is no space for it.
    pub(super) fn refuse(&mut self, block: &Block) {
        self.enter(block);
        self.lose_unacknowledged();
        self.check();
    }

    /// Counts a block as accepted; returns the number of its samples that were accepted before.
    fn enter(&mut self, block: &Block) -> u64 {
        let per_sample = self.per_sample();
        let skipped = self.accepted_index.saturating_sub(block.first_index).min(block.samples);
        let base = block.first_index * per_sample;
        let mut added =
            self.unacknowledged.insert(base + skipped * per_sample..base + block.samples * per_sample);
        for missing in block.missing.intersection(skipped * per_sample..block.samples * per_sample) {
            added -= self.unacknowledged.remove(base + missing.start..base + missing.end);
        }
        self.counters.accepted += added;
        if skipped < block.samples {
            self.anchor = (block.first_index, block.t0);
            self.accepted_index = block.next_index();
            self.account_changed = true;
        }
        skipped
    }

    pub(super) fn note_gap(&mut self, gap: &StreamGap) {
        let StreamGap { epoch, gap, t0, t1, .. } = gap;
        if gap.kind == GapKind::ReaderAbsent {
            return; // Recorded when this reader joined again.
        }
        let Some(session) = self.session_of(*epoch) else { return };
        let is_new = session == self.session;
        if is_new && !gap.positions.is_empty() && gap.positions.end <= self.session_position {
            return; // Stored, or counted, before this relay told of it again.
        }
        if is_new {
            self.declared.insert(gap.positions.clone());
            self.declared.remove(0..self.accepted_index * self.per_sample());
        }
        self.note(GapRecord {
            key: GapKey { session, origin: Origin::Reader, id: gap.id },
            kind: gap.kind,
            positions: gap.positions.clone(),
            numbers: gap.numbers.clone(),
            lost: gap.lost,
            inherited: gap.inherited.clone(),
            unexplained: gap.unexplained,
            unsettled: gap.unsettled,
            // Part of it may be stored already.
            apportioned: gap.apportioned || is_new && gap.positions.start < self.session_position,
            t0: *t0,
            t1: Some(*t1),
            evidence: gap.evidence.iter().map(ToString::to_string).collect(),
        });
    }

    fn note(&mut self, gap: GapRecord) {
        if let Some(gives_way) = self.gaps.note(gap) {
            self.outage.add_gap(&gives_way);
        }
    }

    /// Returns the session in which a relay, or the publisher itself, was read.
    fn session_of(&self, epoch: Epoch) -> Option<u32> {
        if epoch == self.hop_epoch { Some(self.session) } else { self.hops_before.get(&epoch).copied() }
    }

    /// Returns whether a stream has the schema of the samples stored so far.
    pub(super) fn has_schema(&self, info: &StreamInfo) -> bool {
        info.schema == self.description.schema
    }

    pub(super) fn note_account(&mut self, epoch: Epoch, account: Value, ended: bool) {
        if epoch != self.hop_epoch {
            return; // That of a relay before: its session is over.
        }
        self.account = account;
        self.account_changed = true;
        self.ended |= ended;
    }

    /// Writes the pending samples as one batch.
    pub(super) fn write(&mut self, store: &dyn Store, now: Instant) -> Result<(), Failure> {
        let Some((batch, span)) = self.columns.finish()? else { return Ok(()) };
        let mut fault = None;
        if let Some(segment) = &mut self.segment {
            match segment.check() {
                Err(error) if !segment.has_staged() => fault = Some(ArchiveError::from(error).first_line()),
                checked => {
                    checked?;
                    return Ok(segment.write(&batch, span)?);
                }
            }
        }
        // A folder that was moved away gets no new files: neither at its new path nor in another folder of the same
        // name.
        self.gaps.check_place()?;
        // A segment that was changed is not repaired while it is recorded; new samples go to another segment.
        self.faults.extend(fault);
        self.segment.take().into_iter().for_each(SegmentWriter::give_up);
        let (number, session) = (self.next_segment, self.session);
        let birth = Birth { folder: &self.folder, description: &self.description, number, session };
        // A number is used once, even if creating the segment fails: its remains are not mistaken for another's.
        self.next_segment += 1;
        self.segment = Some(SegmentWriter::create(store, &birth, &batch, span)?);
        self.segment_began = now;
        Ok(())
    }

    pub(super) fn write_gaps(&mut self) -> Result<(), Failure> {
        if self.is_waiting() {
            return Ok(());
        }
        if self.ended {
            // Nothing follows that could determine its end.
            self.end_outage();
        }
        Ok(self.gaps.write()?)
    }

    pub(super) fn note_statement(&mut self, statement: &[u8]) {
        // Each statement ends an interval, or the epoch; anything beyond is a flood, and the archive must not grow by it.
        let schema = &self.description.schema;
        let positions = self.accepted_index.saturating_mul(u64::from(schema.elements_per_sample()));
        let intervals = positions / Grid::of(schema).interval_elements();
        let is_first = self.statements.refused() == 0;
        if !self.statements.note(statement, intervals.saturating_add(SPARE_STATEMENTS)) && is_first {
            self.faults.push(
                "more signed statements arrive than its publisher can make: the others are not stored"
                    .to_owned(),
            );
        }
    }

    /// Writes the waiting statements. If that fails they wait on: it is no reason to give up samples.
    pub(super) fn write_statements(&mut self, store: &dyn Store) {
        if self.is_waiting() || self.gaps.check_place().is_err() {
            return;
        }
        if let Err(error) = self.statements.write(store, &self.folder, &self.description) {
            self.faults.extend(self.statements.take_fault(&error));
        }
    }

    pub(super) fn unsynced_data<'a>(&'a mut self, files: &mut Vec<&'a mut dyn Appendable>) {
        files.extend(self.segment.as_mut().filter(|segment| segment.has_staged()).map(SegmentWriter::data));
        files.extend(self.gaps.unsynced());
        files.extend(self.statements.unsynced());
    }

    pub(super) fn unsynced_index<'a>(&'a mut self, files: &mut Vec<&'a mut dyn Appendable>) {
        files.extend(self.segment.as_mut().filter(|segment| segment.has_staged()).map(SegmentWriter::index));
    }

    /// Writes the index entries after the first barrier: data and gap map are durable.
    pub(super) fn acknowledge(&mut self, store: &dyn Store) -> Result<(), Failure> {
        self.gaps.synced();
        self.statements.synced();
        let Some(segment) = self.segment.as_mut().filter(|segment| segment.has_staged()) else {
            return Ok(());
        };
        if core::mem::take(&mut segment.fresh) {
            store.sync_folder(&self.folder)?;
        }
        Ok(segment.acknowledge()?)
    }

    /// Checks that the written files of the stream are where they were created.
    pub(super) fn check_place(&mut self) -> Result<(), Failure> {
        if self.is_waiting() {
            return Ok(());
        }
        if let Some(segment) = self.segment.as_mut().filter(|segment| segment.has_staged()) {
            segment.check()?;
        }
        self.gaps.check_size();
        Ok(self.gaps.check_place()?)
    }

    pub(super) const fn stored(&self) -> u64 {
        self.counters.stored
    }

    /// Marks the staged samples as stored after the second barrier. Returns whether writing works again.
    pub(super) fn committed(&mut self) -> bool {
        let Some(segment) = self.segment.as_mut().filter(|segment| segment.has_staged()) else {
            return false;
        };
        segment.acknowledged();
        if core::mem::replace(&mut self.last_segment, segment.number()) != segment.number() {
            // A missing segment is detected by the account, so the account has each one at once.
            self.account_due = true;
        }
        self.stored_index = self.accepted_index;
        self.counters.stored += self.unacknowledged.len();
        self.unacknowledged = RangeSet::new();
        self.check();
        core::mem::take(&mut self.failing)
    }

    /// Closes the segment if it is large or old enough, or the stream has ended.
    pub(super) fn roll(
        &mut self,
        now: Instant,
        bytes: u64,
        age: Duration,
    ) -> Result<Option<ClosedSegment>, Failure> {
        let due = self.ended || now.since(self.segment_began) >= age;
        let full = |segment: &SegmentWriter| segment.written_bytes() >= bytes;
        if self.ended {
            self.columns = Columns::new(Arc::clone(&self.description));
        }
        match self.segment.take() {
            Some(segment) if due || full(&segment) => {
                let number = segment.close()?;
                Ok(Some(ClosedSegment { folder: self.folder.clone(), number }))
            }
            kept => {
                self.segment = kept;
                Ok(None)
            }
        }
    }

    /// Gives up everything that is not stored. Returns whether this is the first failure in a row.
    pub(super) fn give_up(&mut self, failure: &Failure) -> bool {
        if let Some(segment) = self.segment.take() {
            segment.give_up();
        }
        self.gaps.take_back();
        self.statements.take_back();
        self.give_up_pending(failure);
        // A full disk concerns the whole recorder, and is reported there.
        !failure.full && !core::mem::replace(&mut self.failing, true)
    }

    /// Gives up the samples that wait in memory, and the written ones that are not synced.
    pub(super) fn give_up_pending(&mut self, failure: &Failure) {
        if self.unacknowledged.is_empty() {
            return;
        }
        if let Some(segment) = self.segment.take() {
            segment.give_up();
        }
        if !failure.cause.is_empty() {
            self.last_cause.clone_from(&failure.cause);
        }
        self.columns.clear();
        self.lose_unacknowledged();
        self.check();
    }

    fn lose_unacknowledged(&mut self) {
        let lost = core::mem::take(&mut self.unacknowledged);
        self.counters.archive_write += lost.len();
        for range in lost.iter() {
            self.outage.add(range);
        }
        self.account_changed = true;
    }

    /// Turns elements that were given up into gaps once their end is known.
    fn end_outage(&mut self) {
        for loss in self.outage.take() {
            let (t0, t1) = self.times_of(&loss.positions);
            let gap = GapRecord {
                key: self.new_key(),
                kind: GapKind::Missing,
                positions: loss.positions,
                numbers: 0..0,
                lost: loss.lost,
                inherited: HopCounts::default(),
                unexplained: loss.unexplained,
                unsettled: 0,
                apportioned: loss.apportioned,
                t0,
                t1: Some(t1),
                evidence: (!self.last_cause.is_empty())
                    .then(|| self.last_cause.clone())
                    .into_iter()
                    .collect(),
            };
            self.note(gap);
        }
    }

    /// Stores the last gaps and account and closes the segment.
    pub(super) fn close(&mut self, store: &dyn Store) -> Result<Option<ClosedSegment>, ArchiveError> {
        self.settle(store)?;
        self.gaps.check_place()?;
        self.end_outage();
        self.gaps.settle_all();
        self.gaps.write()?;
        self.gaps.sync()?;
        self.statements.write(store, &self.folder, &self.description)?;
        self.statements.sync()?;
        let closed = match self.segment.take() {
            Some(segment) => Some(ClosedSegment { folder: self.folder.clone(), number: segment.close()? }),
            None => None,
        };
        self.replace_account(store, self.end_state())?;
        store.sync_folder(&self.folder)?;
        Ok(closed)
    }

    /// Writes the account next to the samples if it changed and is due.
    pub(super) fn write_account(
        &mut self,
        store: &dyn Store,
        now: Instant,
        interval: Duration,
    ) -> Result<(), Failure> {
        let due = self.ended || self.account_due || now.since(self.account_written) >= interval;
        if self.account_changed && due && !self.is_waiting() {
            // With an unsettled gap the recording is not closed: a recovery must still find it open.
            let over = self.ended && self.gaps.is_settled();
            self.replace_account(store, if over { self.end_state() } else { "open" })?;
            self.account_written = now;
            self.account_due = false;
        }
        Ok(())
    }

    /// Returns the state of the recording if it ends now: that of its reader's account, and cut if that is still
    /// open.
    fn end_state(&self) -> &'static str {
        if self.ended && self.account["state"] != "cut" { "closed" } else { "cut" }
    }

    fn replace_account(&mut self, store: &dyn Store, state: &str) -> Result<(), ArchiveError> {
        let account = self.account_as(state);
        replace(store, &self.folder.join(ACCOUNT), stamp(&account).as_bytes())?;
        self.account_changed = false;
        Ok(())
    }

    fn account_as(&self, state: &str) -> Value {
        let (counters, before) = (self.counters, self.counters_before);
        json!({
            "format": "tallycast-archive-account",
            "version": VERSION,
            "stream": self.description.name.as_str(),
            "epoch": self.description.epoch.to_string(),
            "session": self.session,
            "state": state,
            "files": Files { last_segment: self.last_segment, gap_bytes: self.gaps.synced_bytes() },
            "first_index": self.first_index,
            "accepted_index": self.accepted_index,
            "stored_index": self.stored_index,
            "elements": {
                "per_sample": self.per_sample(),
                "accepted": counters.accepted - before.accepted,
                "stored": counters.stored - before.stored,
                "lost": {"archive_write": counters.archive_write - before.archive_write},
                "pending": self.unacknowledged.len(),
            },
            "reader": self.account,
        })
    }

    pub(super) fn progress(&self) -> Progress {
        Progress {
            stream: self.name(),
            epoch: self.description.epoch,
            accepted_index: self.accepted_index,
            stored_index: self.stored_index,
            accepted: self.counters.accepted,
            stored: self.counters.stored,
            archive_write: self.counters.archive_write,
        }
    }

    /// Returns the size of one element.
    pub(super) fn element_bytes(&self) -> u64 {
        self.description.schema.dtype.size_bytes() as u64
    }

    pub(super) fn name(&self) -> Arc<StreamName> {
        Arc::clone(&self.description.name)
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.columns.size_bytes()
    }

    pub(super) fn staged_bytes(&self) -> u64 {
        self.segment.as_ref().map_or(0, SegmentWriter::staged_bytes)
    }

    /// Returns whether the epoch is over and nothing of it is pending.
    pub(super) fn is_finished(&self) -> bool {
        self.ended && self.unacknowledged.is_empty() && !self.account_changed
    }

    fn new_key(&mut self) -> GapKey {
        let id = self.next_gap;
        self.next_gap += 1;
        GapKey { session: self.session, origin: Origin::Archive, id }
    }

    fn times_of(&self, positions: &Range<u64>) -> (WallTime, WallTime) {
        let (index, time) = self.anchor;
        let at = |index_at| self.description.schema.rate.time_of(index_at, index, time);
        let per_sample = self.per_sample();
        (at(positions.start / per_sample), at(positions.end.div_ceil(per_sample)))
    }

    fn per_sample(&self) -> u64 {
        u64::from(self.description.schema.elements_per_sample())
    }

    fn check(&self) {
        let Counters { accepted, stored, archive_write } = self.counters;
        debug_assert_eq!(
            accepted,
            stored + archive_write + self.unacknowledged.len(),
            "the archive's counters do not balance"
        );
    }
}
