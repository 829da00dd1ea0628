//! The publisher's end of its ring: it writes samples, and reads the state that the agent reports.
//!
//! The ring is the hub: readers of this host read the same records from shared memory as the
//! sending agent does. A publication may have both, or either.

pub(super) mod relayed;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ledger::{AccountState, Evidence, EvidenceSource, Gap, GapKind, HopCounts, Stage, StageCounts, Unit};
use ring::{Guard, Pulse, RecordTooLarge, Writer};
use units::{Epoch, WallTime};
use wire::{Clock, Description, Origin, SampleTotals, Totals};

use super::error::SendError;
use super::inline_send::InlineSender;
use super::proving::Proving;
use super::publication_config::PublicationConfig;
use super::publication_shared::{PublicationShared, PublicationStatus};
use super::samples::Samples;
use crate::host::pulse::Beat;
use crate::host::{HostRings, RingName, RingReader, RingWriter, Waiting};
use crate::ledger_page::{LedgerPage, write_page};
use crate::record::{BLOCK_HEAD_BYTES, BlockRecord, Record, block_head, kind};
use crate::waker::AgentWaker;
use relayed::Relaying;

/// The publisher's end: dropping it ends the epoch with a final tally.
pub struct Publication {
    writer: Option<Writer>,
    /// The agent that sends to the network, if there is one.
    link: Option<Link>,
    /// The ring in shared memory, if readers of this host read it too.
    host: Option<OnHost>,
    page: LedgerPage,
    scratch: Vec<u8>,
    epoch: Epoch,
    clock: Clock,
    elements_per_sample: u64,
    sample_bytes: usize,
    /// Maximum number of bytes of samples in one record, whole samples.
    record_bytes: usize,
    next_index: u64,
    /// Signed statements about the samples, if the stream has them.
    proving: Option<Box<Proving>>,
    /// Cumulative elements written and skipped, which every record carries.
    totals: [u64; 2],
    /// What only a relayed stream has.
    relaying: Option<Box<Relaying>>,
    /// The process that opened it.
    home: sys::Home,
}

/// The ring as readers of this host find it.
struct OnHost {
    rings: HostRings,
    ring: RingName,
    description: Description,
    /// Shows readers that this process runs; absent if it has no thread for that.
    _beat: Option<Beat>,
}

/// The sending agent as the publisher knows it.
pub(super) struct Link {
    pub(super) guard: Guard,
    pub(super) shared: Arc<PublicationShared>,
    pub(super) waker: AgentWaker,
    pub(super) inline_sender: Option<InlineSender>,
}

/// Maximum size of a record, unless one sample is larger.
const MAX_RECORD_BYTES: usize = 64 * 1024;
/// Divisor of the largest record that fits, so that a ring of any size holds many records.
const RECORD_SHARE: usize = 4;

/// Size that holds the records of a stream's beginning, holes and end.
const MIN_RING_BYTES: usize = 512;

/// Returns the size of the smallest ring that holds a sample.
pub(super) const fn min_ring_bytes(sample_bytes: usize) -> usize {
    // The largest record is half of the ring; it has a head, and a ring header that is smaller.
    let for_a_sample = 2 * (sample_bytes + 2 * BLOCK_HEAD_BYTES);
    if for_a_sample < MIN_RING_BYTES { MIN_RING_BYTES } else { for_a_sample }
}

impl Publication {
    pub(super) fn new(
        config: &PublicationConfig,
        writer: Writer,
        link: Option<Link>,
    ) -> Result<Self, SendError> {
        let proving = Proving::begin(config)?.map(Box::new);
        let schema = &config.description.schema;
        let sample_bytes = schema.sample_bytes();
        let relaying = Relaying::new(config, writer.max_payload_bytes());
        let per_sample = u64::from(schema.elements_per_sample());
        let host = config.host.clone().map(|rings| OnHost::new(rings, &config.description, writer.pulse()));
        let record_bytes = MAX_RECORD_BYTES.min(writer.max_payload_bytes() / RECORD_SHARE);
        let mut publication = Self {
            writer: Some(writer),
            link,
            host,
            page: LedgerPage::default(),
            scratch: Vec::new(),
            epoch: config.epoch,
            clock: config.clock,
            elements_per_sample: per_sample,
            sample_bytes,
            record_bytes: (record_bytes / sample_bytes).max(1) * sample_bytes,
            next_index: relaying.as_ref().map_or(0, |relaying| relaying.first_position / per_sample),
            proving,
            totals: [0, 0],
            relaying,
            home: sys::Home::here(),
        };
        let origin = publication.origin();
        publication.page.began(config.epoch, origin);
        publication.write_page();
        let began = Record::Began { epoch: config.epoch, first_index: publication.next_index, origin };
        publication.put_record(&began).expect("the smallest ring holds it");
        Ok(publication)
    }

    /// Lets the publisher send few samples inline from now on instead of waking the agent for them.
    pub(super) fn allow_inline_send(&mut self, inline_sender: InlineSender) {
        if let Some(link) = &mut self.link {
            link.inline_sender = Some(inline_sender);
        }
    }

    #[cfg(test)]
    pub(super) fn link_mut(&mut self) -> &mut Link {
        self.link.as_mut().expect("a publisher with a network")
    }

    /// Returns the index of the next sample.
    #[must_use]
    pub const fn next_index(&self) -> u64 {
        self.next_index
    }

    /// Returns whether writing `size_bytes` bytes now, in `calls` calls, would overwrite unsent
    /// samples.
    #[must_use]
    pub fn would_overwrite(&self, size_bytes: usize, calls: usize) -> bool {
        // Each call begins a record of its own, and may leave one that is not full.
        let of_calls = calls.saturating_sub(1).saturating_mul(self.ring_bytes(1));
        let of_proof = self.proving.as_ref().map_or(0, |proving| proving.ring_bytes(size_bytes));
        let with_heads = self.ring_bytes(size_bytes).saturating_add(of_calls).saturating_add(of_proof);
        let (Some(writer), Some(link)) = (&self.writer, &self.link) else { return false };
        writer.would_overwrite(&link.guard, with_heads)
    }

    /// Returns how many bytes of samples fit between publisher and agent when the ring is empty.
    #[must_use]
    pub fn max_block_bytes(&self) -> usize {
        let spared = self.writer.as_ref().map_or(0, Writer::spared_bytes);
        let spared = usize::try_from(spared).unwrap_or(usize::MAX);
        let of_proof = self.proving.as_ref().map_or(0, |proving| proving.ring_bytes(spared));
        let records = spared.saturating_sub(of_proof) / self.ring_bytes(self.record_bytes);
        records.max(1) * self.record_bytes
    }

    /// Waits until `size_bytes` bytes of samples overwrite no unsent sample, but not longer than
    /// `timeout`; returns whether that is so. Does not wait for a network that has ended.
    ///
    /// A waiting publisher continues when half of the ring is free, so that it does not wake up for
    /// every train.
    #[must_use]
    pub fn wait_for_room(&self, size_bytes: usize, timeout: Duration) -> bool {
        let has_room = || !self.would_overwrite(size_bytes, 1);
        let Some(link) = &self.link else { return has_room() };
        link.shared.wait_for_room(timeout, has_room);
        has_room()
    }

    /// Returns whether this is a forked child of the process that opened it: ring, numbers and nonces are the parent's,
    /// and its agent is not here.
    #[must_use]
    pub fn is_of_parent(&self) -> bool {
        !self.home.is_here()
    }

    /// Returns whether the agent has ended, so that samples are not sent any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.shared.has_ended())
    }

    /// Writes whole samples, the first of which was taken at `t0`.
    ///
    /// # Errors
    /// [`RecordTooLarge`] if one sample does not fit into the ring.
    ///
    /// # Panics
    /// If the bytes are not whole samples.
    pub fn write(
        &mut self,
        t0: WallTime,
        bytes: &[u8],
        rate: units::SampleRate,
    ) -> Result<(), RecordTooLarge> {
        assert!(bytes.len().is_multiple_of(self.sample_bytes), "samples are whole");
        let first_index = self.next_index;
        let written = self.write_samples(t0, bytes, rate);
        if let Some(proving) = &mut self.proving {
            let taken = (self.next_index - first_index) as usize * self.sample_bytes;
            proving.take(first_index * self.elements_per_sample, &bytes[..taken]);
            self.put_statements();
        }
        written
    }

    fn write_samples(
        &mut self,
        t0: WallTime,
        bytes: &[u8],
        rate: units::SampleRate,
    ) -> Result<(), RecordTooLarge> {
        let first_index = self.next_index;
        // Where other processes read the ring too, all samples go through it.
        let sent = if self.host.is_some() { 0 } else { self.send_by_itself(t0, bytes, rate) };
        let left = &bytes[sent..];
        if left.is_empty() {
            return Ok(());
        }
        let ring_position = self.writer.as_ref().map(Writer::head);
        for payload in left.chunks(self.record_bytes) {
            let t0 = rate.time_of(self.next_index, first_index, t0);
            let position = self.next_index * self.elements_per_sample;
            let block =
                BlockRecord { epoch: self.epoch, position, t0, clock: self.clock, born: None, payload };
            self.put(kind::BLOCK, &[&block_head(&block), payload])?;
            self.count(payload.len());
        }
        self.wake_readers();
        match &mut self.link {
            Some(Link { inline_sender: Some(sender), waker, .. }) if sent == 0 => {
                sender.send_written(
                    &Samples { t0, rate, bytes, part_bytes: self.record_bytes, ring_position },
                    waker,
                );
            }
            Some(Link { waker, .. }) => waker.wake(),
            None => {}
        }
        Ok(())
    }

    /// Sends samples that are in no ring, if the publisher may; returns how many bytes were sent.
    fn send_by_itself(&mut self, t0: WallTime, bytes: &[u8], rate: units::SampleRate) -> usize {
        let Some(Link { inline_sender: Some(sender), waker, .. }) = &mut self.link else { return 0 };
        let samples = Samples { t0, rate, bytes, part_bytes: self.record_bytes, ring_position: None };
        let sent = sender.send(&samples, waker);
        self.count(sent);
        sent
    }

    /// Counts samples that were written or sent.
    fn count(&mut self, size_bytes: usize) {
        let samples = (size_bytes / self.sample_bytes) as u64;
        self.next_index += samples;
        self.totals[0] += samples * self.elements_per_sample;
    }

    /// Writes a hole of the source.
    ///
    /// # Errors
    /// Never in a ring of the smallest size.
    pub fn skip(&mut self, samples: u64) -> Result<(), RecordTooLarge> {
        let (start, count) = (self.next_index * self.elements_per_sample, samples * self.elements_per_sample);
        let gap = source_gap(start..start + count);
        self.page.gap(self.epoch, &gap);
        self.put_record(&Record::Gap(self.epoch, gap))?;
        self.next_index += samples;
        self.totals[1] += count;
        if let Some(proving) = &mut self.proving {
            proving.pass(start + count);
            self.put_statements();
        }
        self.wake_all();
        Ok(())
    }

    /// Withholds data datagrams with this probability from now on.
    pub fn inject(&self, probability: f64) {
        if let Some(link) = &self.link {
            link.shared.inject(probability);
            link.waker.wake();
        }
    }

    /// Returns the state that the agent last reported; without a network, that of the ring.
    #[must_use]
    pub fn status(&self) -> PublicationStatus {
        // The parent's agent may have held the lock when the process was forked.
        let link = self.link.as_ref().filter(|_| !self.is_of_parent());
        link.map_or_else(|| self.local_status(), |link| link.shared.status().clone())
    }

    /// Returns how many readers read the ring in this host's memory.
    ///
    /// Cost: a few system calls for every reader of this host.
    #[must_use]
    pub fn readers_on_host(&self) -> usize {
        self.host.as_ref().map_or(0, |host| host.rings.readers_of(&host.ring))
    }

    /// Returns the readers that read the ring in this host's memory.
    ///
    /// Cost: a few system calls for every reader of this host.
    #[must_use]
    pub fn ring_readers(&self) -> Vec<RingReader> {
        self.host.as_ref().map_or_else(Vec::new, |host| host.rings.ring_readers(&host.ring))
    }

    /// Ends the epoch: all queued samples are sent, then the final tally; waits until that is done.
    #[must_use]
    pub fn finish(mut self) -> PublicationStatus {
        self.end();
        self.status()
    }

    /// Returns the state of a publisher without a network: all written samples are available to its
    /// readers.
    fn local_status(&self) -> PublicationStatus {
        let [numbered, source] = self.totals.map(|elements| elements / self.elements_per_sample);
        let samples = SampleTotals { offered: self.next_index, numbered, source, ..SampleTotals::default() };
        let totals = Totals { samples, ..Totals::default() };
        PublicationStatus { totals, finished: self.writer.is_none(), ..PublicationStatus::default() }
    }

    /// Writes the statements that are due behind the samples of which they speak.
    fn put_statements(&mut self) {
        let mut is_any = false;
        while let Some(statement) = self.proving.as_mut().and_then(|proving| proving.statement()) {
            let record = Record::Statement(self.epoch, &statement);
            self.put_record(&record).expect("a ring with proof holds statements");
            is_any = true;
        }
        if is_any {
            self.wake_all();
        }
    }

    /// Returns the size that `size_bytes` bytes of samples take in the ring.
    fn ring_bytes(&self, size_bytes: usize) -> usize {
        let records = size_bytes.div_ceil(self.record_bytes).max(1);
        // Each record has its head, and a ring header that is smaller than that.
        size_bytes + records * 2 * BLOCK_HEAD_BYTES
    }

    fn put(&mut self, kind: u16, parts: &[&[u8]]) -> Result<(), RecordTooLarge> {
        let writer = self.writer.as_mut().expect("a publication in use has its writer");
        writer.write(kind, self.totals, parts).map(|_| ())
    }

    fn put_record(&mut self, record: &Record<'_>) -> Result<(), RecordTooLarge> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let kind = record.encode(&mut scratch);
        let put = self.put(kind, &[&scratch]);
        self.scratch = scratch;
        put
    }

    fn write_page(&mut self) {
        if let Some(writer) = &mut self.writer {
            write_page(writer, &mut self.page, &mut self.scratch);
        }
    }

    /// Wakes the readers on this host that wait for samples, here and in other processes.
    fn wake_readers(&mut self) {
        self.write_page();
        if let Some(writer) = &self.writer {
            writer.ring_doorbell();
        }
    }

    /// Wakes the readers on this host, and the agent.
    fn wake_all(&mut self) {
        self.wake_readers();
        if let Some(link) = &self.link {
            link.waker.wake();
        }
    }

    fn origin(&self) -> Option<Origin> {
        self.relaying.as_ref().map(|relaying| relaying.origin)
    }

    fn end(&mut self) {
        if self.is_of_parent() {
            // Their ends would close the parent's ring and remove its file, or wait for an agent that is not here.
            std::mem::forget((self.writer.take(), self.link.take(), self.host.take()));
            return;
        }
        if self.writer.is_none() {
            return;
        }
        if let Some(proving) = &mut self.proving {
            proving.finish(self.next_index * self.elements_per_sample);
            self.put_statements();
        }
        self.complete_last_sample();
        let ended = Record::Ended { epoch: self.epoch, state: AccountState::Closed, datagrams: None };
        self.put_record(&ended).expect("the smallest ring holds it");
        self.page.ended(self.epoch);
        self.wake_all();
        if let Some(host) = &self.host {
            host.leave_for_waiting(|note| self.tell_end(note));
        }
        // Closes the ring, after which nothing follows.
        self.writer = None;
        let Some(link) = &self.link else { return };
        link.shared.close();
        link.waker.wake();
        link.shared.wait_until_finished();
    }

    /// Writes the end and the totals of the account into another ring, for a reader that is too
    /// late for the samples.
    fn tell_end(&self, note: &mut Writer) {
        let [numbered, source] = self.totals;
        let epoch = self.epoch;
        let relaying = self.relaying.as_deref();
        let first_position = relaying.map_or(0, |relaying| relaying.first_position);
        let first_index = first_position / self.elements_per_sample;
        let began = (Record::Began { epoch, first_index, origin: self.origin() }, [0, 0]);
        let missing = numbered + source;
        let lost = [(Stage::ReaderLag, numbered), (Stage::Source, source)];
        let inherited = relaying.map(Relaying::inherited);
        let gap = || Gap {
            inherited: inherited.cloned().unwrap_or_default(),
            ..lost_gap(first_position..first_position + missing, &lost)
        };
        let gap = (missing > 0).then(|| (Record::Gap(epoch, gap()), [0, 0]));
        let ended = Record::Ended { epoch, state: AccountState::Closed, datagrams: None };
        let records = [Some(began), gap, Some((ended, [0, missing]))];
        for (record, totals) in records.into_iter().flatten() {
            let mut bytes = Vec::new();
            let kind = record.encode(&mut bytes);
            note.write(kind, totals, &[&bytes]).expect("the smallest ring holds it");
        }
    }
}

impl OnHost {
    fn new(rings: HostRings, description: &Description, pulse: Pulse) -> Self {
        let stream = wire::stream_id(&description.name, &description.schema);
        let ring = RingName { stream, writer: RingWriter::Publisher };
        let beat = Beat::begin(pulse).inspect_err(|error| {
            tracing::warn!(
                "readers of this host cannot tell whether `{}` pauses or its process is stopped: no thread: {error}\n\
                 raise the limit on processes (ulimit -u)",
                description.name
            );
        });
        Self { rings, ring, description: description.clone(), _beat: beat.ok() }
    }

    /// Leaves the ring for readers that waited for the stream and have not found it yet.
    fn leave_for_waiting(&self, tell: impl FnOnce(&mut Writer)) {
        let Waiting { left, told, missed } =
            self.rings.leave_for_waiting(&self.ring, &self.description, tell);
        let stream = &self.description.name;
        if told + missed > 0 {
            tracing::warn!(
                "{} readers of this host wait for `{stream}`, had not found it when it ended, and have too many streams waiting: \
                 they miss its samples{}\n\
                 let them read, or keep the publisher open longer",
                told + missed,
                if missed > 0 {
                    format!(" ({missed} of them without notice)")
                } else {
                    ", and count them".to_owned()
                }
            );
        }
        tracing::debug!("the ring of `{stream}` is left for {left} readers");
    }
}

/// Gap of the source, as the publisher records it.
fn source_gap(positions: Range<u64>) -> Gap {
    let count = positions.end - positions.start;
    lost_gap(positions, &[(Stage::Source, count)])
}

/// Gap at these positions as the publisher knows it, with a count for each stage.
fn lost_gap(positions: Range<u64>, lost: &[(Stage, u64)]) -> Gap {
    let lost: Vec<(Stage, u64)> = lost.iter().copied().filter(|(_, count)| *count > 0).collect();
    let evidence = |(stage, count): &(Stage, u64)| {
        let source = if *stage == Stage::ReaderLag {
            EvidenceSource::RingTotals
        } else {
            EvidenceSource::SampleTotals
        };
        Evidence { stage: *stage, count: *count, unit: Unit::Elements, source }
    };
    let mut counts = StageCounts::default();
    lost.iter().for_each(|(stage, count)| counts[*stage] += count);
    Gap {
        id: positions.start,
        kind: GapKind::Missing,
        positions,
        numbers: 0..0,
        lost: counts,
        inherited: HopCounts::default(),
        unexplained: 0,
        unsettled: 0,
        apportioned: lost.len() > 1,
        evidence: lost.iter().map(evidence).collect(),
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        self.end();
    }
}
