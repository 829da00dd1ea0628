//! One stream on its way from the receiving agent's ring to a subscriber: blocks, gaps, and the account.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use engine::Inlet;
use engine::record::{BlockRecord, Record};
use ledger::{
    Account, AccountState, Evidence, EvidenceSource, Gap, GapKind, Leg, NetworkRows, Stage, StageCounts, Unit,
};
use ring::{Read, Reader};
use sample::{Block, StreamName};
use units::{Epoch, StreamId, WallTime};

use crate::assembly::Assembly;
use crate::event::{Event, StreamAccount, StreamGap, StreamInfo};

/// How many records one stream gives before the others have their turn.
const MAX_RECORDS_PER_TURN: usize = 256;
/// The most gaps an account lists one by one; the totals keep the rest.
const MAX_GAPS: usize = 8_192;
/// Gaps that the ring made are numbered apart from those of the receiving socket.
const FIRST_LAP_ID: u64 = 1 << 63;

/// Whether an account lists its gaps one by one, which are thousands where much was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GapList {
    Full,
    Empty,
}

/// One stream on its way to one subscriber.
pub(crate) struct Flow {
    pub(crate) inlet: Inlet,
    pub(crate) name: Arc<StreamName>,
    schema: Arc<sample::Schema>,
    reader: Reader,
    record: Vec<u8>,
    current: Option<Epoch>,
    lives: BTreeMap<Epoch, Life>,
    assembly: Option<Assembly>,
    blocks: Vec<Block>,
    lapped: bool,
    next_lap_id: u64,
    pub(crate) closed: bool,
}

/// One epoch as this subscriber reads it.
struct Life {
    leg: Leg,
    gaps: BTreeMap<u64, Gap>,
    datagrams: Option<NetworkRows>,
    /// A sample's index and time, from which other times are computed.
    anchor: (u64, WallTime),
    ended: bool,
}

impl Flow {
    pub(crate) fn new(inlet: Inlet) -> Self {
        let reader = inlet.ring.reader_at_oldest();
        Self {
            name: Arc::new(inlet.description.name.clone()),
            schema: Arc::new(inlet.description.schema.clone()),
            inlet,
            reader,
            record: Vec::new(),
            current: None,
            lives: BTreeMap::new(),
            assembly: None,
            blocks: Vec::new(),
            lapped: false,
            next_lap_id: FIRST_LAP_ID,
            closed: false,
        }
    }

    pub(crate) const fn stream(&self) -> StreamId {
        self.inlet.stream
    }

    /// Tells whether there is something to read.
    pub(crate) fn is_ready(&self) -> bool {
        !self.closed && self.reader.lag_bytes() > 0
    }

    /// Reads on, within bounds; what there is to tell goes into `events`.
    pub(crate) fn pump(&mut self, reader_name: &str, events: &mut Vec<Event>) {
        for _ in 0..MAX_RECORDS_PER_TURN {
            let mut record = std::mem::take(&mut self.record);
            let read = self.reader.read(&mut record);
            match read {
                Read::Record { kind, totals } => match Record::decode(kind, &record) {
                    Ok(content) => self.take(content, totals, reader_name, events),
                    Err(error) => tracing::error!("stream `{}`: {error}", self.name),
                },
                Read::Lapped { .. } => self.lapped = true,
                Read::Empty => {}
                Read::Closed => self.close(reader_name, events),
            }
            self.record = record;
            if matches!(read, Read::Empty | Read::Closed) {
                break;
            }
        }
        if let Some(assembly) = &mut self.assembly
            && self.reader.lag_bytes() == 0
        {
            assembly.pause(&mut self.blocks);
        }
        self.hand_over(events);
    }

    /// Returns the accounts of the epochs that are still open here.
    pub(crate) fn accounts(&self, reader_name: &str, gaps: GapList) -> Vec<StreamAccount> {
        let open = self.lives.iter().filter(|(_, life)| !life.ended);
        open.map(|(epoch, life)| self.account(*epoch, life, reader_name, gaps)).collect()
    }

    /// Returns the account of an epoch that has ended as it stands, while news of it may come.
    pub(crate) fn ended_account(&self, epoch: Epoch, reader_name: &str) -> Option<StreamAccount> {
        let life = self.lives.get(&epoch).filter(|life| life.ended)?;
        Some(self.account(epoch, life, reader_name, GapList::Full))
    }

    fn take(&mut self, record: Record<'_>, totals: [u64; 2], reader_name: &str, events: &mut Vec<Event>) {
        match record {
            Record::Began { epoch, first_index } => {
                self.begin(epoch, totals, first_index, reader_name, events)
            }
            Record::Block(block) => self.on_block(&block, totals, reader_name, events),
            Record::Gap(epoch, gap) => self.on_gap(epoch, gap, totals, reader_name, events),
            Record::Settled(epoch, gap) => self.on_settled(epoch, gap, events),
            Record::Ended { epoch, state, datagrams } => {
                self.on_ended(epoch, state, datagrams, reader_name, events);
            }
            Record::TwoPublishers { other, .. } => {
                tracing::warn!(
                    "two publishers send the stream `{}`; the other's life began at {} ns",
                    self.name,
                    other.start_ns
                );
            }
        }
    }

    /// Opens the account of an epoch.
    fn begin(
        &mut self,
        epoch: Epoch,
        totals: [u64; 2],
        first_index: u64,
        reader_name: &str,
        events: &mut Vec<Event>,
    ) {
        if let Some(assembly) = &mut self.assembly {
            assembly.flush(&mut self.blocks);
        }
        self.hand_over(events);
        if std::mem::take(&mut self.lapped) {
            self.cut_current(reader_name, events);
        }
        // The same epoch begins anew when a publisher was silent for so long that its account had ended.
        if let Some(life) = self.lives.remove(&epoch).filter(|life| !life.ended) {
            events.push(Event::Ended(self.account(epoch, &life, reader_name, GapList::Full)));
        }
        let per_sample = self.schema.elements_per_sample();
        let leg = Leg::join(per_sample, totals, first_index * u64::from(per_sample));
        let anchor = (first_index, WallTime::default());
        let (gaps, datagrams) = (BTreeMap::new(), None);
        self.lives.insert(epoch, Life { leg, gaps, datagrams, anchor, ended: false });
        self.current = Some(epoch);
        self.assembly = Some(Assembly::new(Arc::clone(&self.name), Arc::clone(&self.schema), epoch));
        events.push(Event::Began(Arc::new(StreamInfo {
            name: Arc::clone(&self.name),
            id: self.stream(),
            epoch,
            schema: Arc::clone(&self.schema),
            station: self.inlet.description.station.clone(),
            first_index,
        })));
    }

    fn on_block(
        &mut self,
        block: &BlockRecord<'_>,
        totals: [u64; 2],
        reader_name: &str,
        events: &mut Vec<Event>,
    ) {
        let per_sample = u64::from(self.schema.elements_per_sample());
        let index = block.position / per_sample;
        if self.current != Some(block.epoch) {
            if !block.position.is_multiple_of(per_sample) {
                return; // A reader who comes in the middle of a sample begins with the next.
            }
            self.begin(block.epoch, totals, index, reader_name, events);
        }
        self.catch_up(totals, events);
        let Some(life) = self.current.and_then(|epoch| self.lives.get_mut(&epoch)) else { return };
        let elements = (block.payload.len() / self.schema.dtype.size_bytes()) as u64;
        life.leg.delivered(block.position..block.position + elements);
        life.anchor = (index, block.t0);
        if let Some(assembly) = &mut self.assembly {
            assembly.piece(block.position, block.t0, block.payload, &mut self.blocks);
        }
    }

    fn on_gap(
        &mut self,
        epoch: Epoch,
        gap: Gap,
        totals: [u64; 2],
        reader_name: &str,
        events: &mut Vec<Event>,
    ) {
        let per_sample = u64::from(self.schema.elements_per_sample());
        if self.current != Some(epoch) {
            if !gap.positions.start.is_multiple_of(per_sample) {
                return;
            }
            self.begin(epoch, totals, gap.positions.start / per_sample, reader_name, events);
        }
        self.catch_up(totals, events);
        if let Some(assembly) = &mut self.assembly {
            assembly.gap(&gap.positions, &mut self.blocks);
        }
        self.hand_over(events);
        let Some(life) = self.lives.get_mut(&epoch) else { return };
        life.leg.gap(&gap);
        let told = self.stream_gap(epoch, gap);
        self.remember(epoch, &told.gap);
        events.push(Event::Gap(told));
    }

    fn on_settled(&mut self, epoch: Epoch, gap: Gap, events: &mut Vec<Event>) {
        let Some(life) = self.lives.get_mut(&epoch) else { return };
        let before = life.leg.rows();
        life.leg.settled(&gap);
        // Gaps from before this reader joined are not its own.
        if life.gaps.contains_key(&gap.id) || life.leg.rows() != before {
            let told = self.stream_gap(epoch, gap);
            self.remember(epoch, &told.gap);
            events.push(Event::Settled(told));
        }
    }

    fn on_ended(
        &mut self,
        epoch: Epoch,
        state: AccountState,
        datagrams: NetworkRows,
        reader_name: &str,
        events: &mut Vec<Event>,
    ) {
        if self.current == Some(epoch) {
            if let Some(assembly) = &mut self.assembly {
                assembly.flush(&mut self.blocks);
            }
            self.hand_over(events);
        }
        let Some(life) = self.lives.get_mut(&epoch).filter(|life| !life.ended) else { return };
        life.datagrams = Some(datagrams);
        life.leg.end(&Account { state, datagrams: None, elements: life.leg.rows(), gaps: Vec::new() });
        self.end(epoch, reader_name, events);
    }

    /// Books what the ring took back, once a record tells where reading goes on.
    fn catch_up(&mut self, totals: [u64; 2], events: &mut Vec<Event>) {
        if !std::mem::take(&mut self.lapped) {
            return;
        }
        let Some(epoch) = self.current else { return };
        let Some(life) = self.lives.get_mut(&epoch) else { return };
        let before = life.leg.rows();
        let positions = life.leg.lapped(totals);
        if positions.is_empty() {
            return;
        }
        let lag = life.leg.rows().lost[Stage::ReaderLag] - before.lost[Stage::ReaderLag];
        if let Some(assembly) = &mut self.assembly {
            assembly.gap(&positions, &mut self.blocks);
        }
        self.hand_over(events);
        let told = self.stream_gap(epoch, lap_gap(self.next_lap_id, positions, lag));
        self.next_lap_id += 1;
        self.remember(epoch, &told.gap);
        events.push(Event::Gap(told));
    }

    /// Ends the present epoch because the ring has gone on to another one meanwhile.
    fn cut_current(&mut self, reader_name: &str, events: &mut Vec<Event>) {
        let Some(epoch) = self.current.take() else { return };
        if let Some(life) = self.lives.get_mut(&epoch).filter(|life| !life.ended) {
            life.leg.cut();
            self.end(epoch, reader_name, events);
        }
    }

    /// Ends what is open here: the ring was closed, or is left although others still read it.
    pub(crate) fn close(&mut self, reader_name: &str, events: &mut Vec<Event>) {
        self.closed = true;
        if let Some(assembly) = &mut self.assembly {
            assembly.flush(&mut self.blocks);
        }
        self.hand_over(events);
        let open: Vec<_> =
            self.lives.iter().filter(|(_, life)| !life.ended).map(|(epoch, _)| *epoch).collect();
        for epoch in open {
            if let Some(life) = self.lives.get_mut(&epoch) {
                life.leg.cut();
            }
            self.end(epoch, reader_name, events);
        }
    }

    fn end(&mut self, epoch: Epoch, reader_name: &str, events: &mut Vec<Event>) {
        let Some(mut life) = self.lives.remove(&epoch) else { return };
        life.ended = true;
        events.push(Event::Ended(self.account(epoch, &life, reader_name, GapList::Full)));
        self.lives.insert(epoch, life);
        // Only the newest epochs can still be spoken of.
        while self.lives.len() > 8 {
            self.lives.pop_first();
        }
    }

    fn hand_over(&mut self, events: &mut Vec<Event>) {
        events.extend(self.blocks.drain(..).map(Event::Block));
    }

    fn remember(&mut self, epoch: Epoch, gap: &Gap) {
        let Some(life) = self.lives.get_mut(&epoch) else { return };
        life.gaps.insert(gap.id, gap.clone());
        if life.gaps.len() > MAX_GAPS {
            life.gaps.pop_first();
        }
    }

    fn stream_gap(&self, epoch: Epoch, gap: Gap) -> StreamGap {
        let per_sample = u64::from(self.schema.elements_per_sample());
        let anchor = self.lives.get(&epoch).map_or((0, WallTime::default()), |life| life.anchor);
        let time = |index: u64| self.schema.rate.time_of(index, anchor.0, anchor.1);
        StreamGap {
            stream: Arc::clone(&self.name),
            epoch,
            elements_per_sample: self.schema.elements_per_sample(),
            t0: time(gap.positions.start / per_sample),
            t1: time(gap.positions.end.div_ceil(per_sample)),
            gap,
        }
    }

    fn account(&self, epoch: Epoch, life: &Life, reader_name: &str, gaps: GapList) -> StreamAccount {
        let gaps = match gaps {
            GapList::Full => life.gaps.values().cloned().collect(),
            GapList::Empty => Vec::new(),
        };
        let account =
            Account { state: life.leg.state(), datagrams: life.datagrams, elements: life.leg.rows(), gaps };
        StreamAccount {
            stream: Arc::clone(&self.name),
            id: self.stream(),
            epoch,
            reader: reader_name.to_owned(),
            leg: "udp",
            account,
            reclassified: Vec::new(),
            port: None,
            age: None,
        }
    }
}

/// Makes the gap of a reader that was lapped: what had been delivered is its lag, the rest was missing anyway.
fn lap_gap(id: u64, positions: Range<u64>, lag: u64) -> Gap {
    let missing = positions.end - positions.start;
    let line = Evidence {
        stage: Stage::ReaderLag,
        count: lag,
        unit: Unit::Elements,
        source: EvidenceSource::RingTotals,
    };
    Gap {
        id,
        kind: GapKind::Missing,
        positions,
        numbers: 0..0,
        lost: StageCounts::of(Stage::ReaderLag, lag),
        unexplained: 0,
        unsettled: missing - lag,
        apportioned: missing > lag,
        evidence: vec![line],
    }
}
