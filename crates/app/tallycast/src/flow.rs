//! One stream from a ring to a subscriber: blocks, gaps, and the account.
//!
//! Records come in the order of the stream, each with its epoch and with the elements that the epoch had
//! delivered and missing before. So a reader that was lapped counts the difference at the next record of the
//! epoch, and asks the bridge for the stages of what was missing there.

mod aged;
mod dated;
mod end;
mod horizon;
mod host;
mod resumed;
mod tapped;
#[cfg(test)]
mod tests;
mod viewed;

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::record::{BlockRecord, Record, kind};
use engine::{EpochOnPage, ReceiveAgent, Subscription};
use ledger::{Account, AccountState, Gap, Hop, NetworkRows};
use ring::{Read, Reader};
use sample::{Block, SparePool, StreamName};
use units::{Epoch, StreamId};
use wire::Origin;

use crate::assembly::{Assembly, Piece, RecordBuffer};
use crate::event::{Event, StreamAccount, StreamInfo, StreamStatement};
use crate::host_view::Reach;
use crate::reader_epoch::{ReaderEpoch, Times};
use crate::tap::TapRecord;
use aged::Ageing;
use horizon::{Beats, ToldHorizon};
use host::HostEnd;
pub(crate) use resumed::Rest;
pub(crate) use tapped::Handing;
use tapped::Records;

/// Maximum number of records that one stream yields in a poll, so that the others are read too.
const MAX_RECORDS_PER_POLL: usize = 256;
/// Maximum number of bytes of samples that it yields in a poll: a small piece may complete a large sample.
const MAX_BYTES_PER_POLL: usize = 1 << 20;
/// Maximum number of epochs kept: only the newest can still have records.
const MAX_EPOCHS: usize = 8;

/// Listing of an account's gaps, of which there are thousands after large losses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GapList {
    Full,
    Empty,
}

/// Requests of a flow to the ledger behind its ring.
pub(crate) trait Bridge: Send + Sync {
    /// Returns the newest epochs of a stream, over all their accounts; `None` if they are not available now.
    fn epochs_of(&self, stream: StreamId) -> Option<Vec<EpochOnPage>>;
}

impl Bridge for ReceiveAgent {
    fn epochs_of(&self, stream: StreamId) -> Option<Vec<EpochOnPage>> {
        Some(Self::epochs_of(self, stream))
    }
}

/// One stream as read by one subscriber.
pub(crate) struct Flow {
    pub(crate) subscription: Subscription,
    pub(crate) name: Arc<StreamName>,
    schema: Arc<sample::Schema>,
    bridge: Arc<dyn Bridge>,
    reach: Reach,
    /// The host end, if the ring belongs to another process.
    host: Option<HostEnd>,
    /// True if the stream had another reach before: the data in between are this reader's absence.
    resumed: bool,
    /// True if the reader waited before the ring was created: nothing in it came before this reader.
    waited: bool,
    /// The epoch that this reader had last by the previous flow, until an account follows it here.
    followed: Option<Epoch>,
    reader: Reader,
    record: RecordBuffer,
    current: Option<Epoch>,
    epochs: BTreeMap<Epoch, ReaderEpoch>,
    assembly: Option<Assembly>,
    /// Buffers that the blocks of all epochs return.
    spare: SparePool,
    blocks: Vec<Block>,
    /// True if the bridge must be asked about records that the ring overwrote.
    ask_bridge: bool,
    /// True if large blocks are left in the ring.
    leaves_blocks: bool,
    ageing: Ageing,
    /// Newest horizon in the ring that was not taken.
    told_horizon: Option<ToldHorizon>,
    beats: Beats,
    /// Records for a tap, which gets no blocks.
    tapped: Option<Records>,
    pub(crate) closed: bool,
    /// True if the ring contains records that no writer of this version writes.
    pub(crate) is_broken: bool,
}

/// Position of an epoch's flow at a record.
#[derive(Clone, Copy)]
struct Place {
    epoch: Epoch,
    /// Elements that the epoch had delivered and missing before.
    totals: [u64; 2],
    /// Position of the record's first element.
    position: u64,
}

impl Flow {
    /// Reads a stream from the oldest record in its ring.
    pub(crate) fn new(subscription: Subscription, bridge: Arc<dyn Bridge>) -> Self {
        let reader = subscription.ring.reader_at_oldest();
        Self::with_reader(subscription, bridge, reader)
    }

    /// Reads a stream from now on.
    pub(crate) fn from_now(subscription: Subscription, bridge: Arc<dyn Bridge>) -> Self {
        let reader = subscription.ring.reader_at_head();
        Self::with_reader(subscription, bridge, reader)
    }

    fn with_reader(subscription: Subscription, bridge: Arc<dyn Bridge>, reader: Reader) -> Self {
        Self {
            name: Arc::new(subscription.description.name.clone()),
            schema: Arc::new(subscription.description.schema.clone()),
            subscription,
            bridge,
            reach: Reach::Udp,
            host: None,
            resumed: false,
            waited: false,
            followed: None,
            reader,
            record: RecordBuffer::default(),
            current: None,
            epochs: BTreeMap::new(),
            assembly: None,
            spare: SparePool::default(),
            blocks: Vec::new(),
            ask_bridge: false,
            leaves_blocks: false,
            ageing: Ageing::default(),
            told_horizon: None,
            beats: Beats::default(),
            tapped: None,
            closed: false,
            is_broken: false,
        }
    }

    /// Returns the reach of the data.
    pub(crate) const fn reach(&self) -> Reach {
        self.reach
    }

    pub(crate) const fn stream(&self) -> StreamId {
        self.subscription.stream
    }

    /// Returns whether there is something to read.
    pub(crate) fn is_ready(&mut self) -> bool {
        // The end of a ring that another process has closed must be read.
        let told = self.host.is_some() && self.subscription.ring.is_closed();
        !self.closed && (self.reader.has_more() || told)
    }

    /// Reads within bounds, and appends events to `events`. Returns how many bytes of samples that is.
    pub(crate) fn pump(&mut self, reader_name: &str, events: &mut Vec<Event>) -> usize {
        let mut bytes = 0;
        if self.closed {
            return bytes;
        }
        for _ in 0..MAX_RECORDS_PER_POLL {
            let goes_on = self.read_record(reader_name, events);
            bytes += self.hand_over(events) + self.count_tapped();
            // Records in the ring become old while blocks wait to be delivered.
            if !goes_on || bytes >= MAX_BYTES_PER_POLL || self.leaves_blocks && !events.is_empty() {
                break;
            }
        }
        if let Some(assembly) = &mut self.assembly
            && !self.reader.has_more()
        {
            assembly.pause(&mut self.blocks);
        }
        bytes += self.hand_over(events);
        if std::mem::take(&mut self.ask_bridge) {
            self.consult(events);
        }
        self.cut_overdue(reader_name, events);
        bytes
    }

    /// Leaves a stream that others still read: reads what its ring contains by now, and cuts open accounts.
    pub(crate) fn leave(&mut self, reader_name: &str, events: &mut Vec<Event>) {
        let end = self.reader.position() + self.reader.lag_bytes();
        while !self.closed && self.reader.position() < end && self.is_ready() {
            self.pump(reader_name, events);
        }
        self.close(reader_name, events);
    }

    /// Returns the accounts of the epochs that are still open here.
    pub(crate) fn accounts(&self, reader_name: &str, gaps: GapList) -> Vec<StreamAccount> {
        let open = self.epochs.iter().filter(|(_, reader_epoch)| !reader_epoch.ended);
        open.map(|(epoch, reader_epoch)| self.account(*epoch, reader_epoch, reader_name, gaps)).collect()
    }

    /// Returns the current account of an epoch that has ended, while updates of it may come.
    pub(crate) fn ended_account(&self, epoch: Epoch, join: u32, reader_name: &str) -> Option<StreamAccount> {
        let reader_epoch =
            self.epochs.get(&epoch).filter(|reader_epoch| reader_epoch.ended && reader_epoch.join == join)?;
        Some(self.account(epoch, reader_epoch, reader_name, GapList::Full))
    }

    /// Reads one record; returns whether there may be more.
    fn read_record(&mut self, reader_name: &str, events: &mut Vec<Event>) -> bool {
        if self.leaves_blocks
            && let Some(read) = self.leave_block(reader_name, events)
        {
            return self.on_other(read, reader_name, events);
        }
        let mut record = std::mem::take(&mut self.record);
        let read = record.read_from(&mut self.reader, &self.spare);
        match read {
            Read::Record { kind, .. } if kind::is_later(kind) => {}
            Read::Record { kind, totals } => match record.decode(&self.schema, kind, totals) {
                Ok(Record::Block(block)) => match self.on_block(block, totals, reader_name, events) {
                    Some(piece) if self.is_tapped() => self.tap_elements(&block, piece),
                    Some(piece) => {
                        if let Some(assembly) = &mut self.assembly {
                            assembly.record(piece, &mut record, &mut self.blocks);
                        }
                    }
                    None => {}
                },
                Ok(content) => self.take(content, totals, reader_name, events),
                // The ring of another process may contain anything.
                Err(error) => self.break_off(&error, reader_name, events),
            },
            Read::Lapped { .. } | Read::Empty | Read::Closed | Read::Broken => {}
        }
        self.record = record;
        self.on_other(read, reader_name, events)
    }

    /// Handles a result other than a record; returns whether there may be more.
    fn on_other(&mut self, read: Read, reader_name: &str, events: &mut Vec<Event>) -> bool {
        match read {
            Read::Record { .. } => {}
            Read::Empty => self.rest(),
            Read::Lapped { .. } => self.on_lapped(),
            Read::Closed => self.close(reader_name, events),
            Read::Broken => self.break_off(&"its ring was destroyed", reader_name, events),
        }
        !self.closed && !matches!(read, Read::Empty)
    }

    /// Leaves a ring that cannot be read any further.
    fn break_off(&mut self, why: &dyn std::fmt::Display, reader_name: &str, events: &mut Vec<Event>) {
        tracing::error!("leaving stream `{}`: {why}", self.name);
        self.is_broken = true;
        self.close(reader_name, events);
    }

    fn take(&mut self, record: Record<'_>, totals: [u64; 2], reader_name: &str, events: &mut Vec<Event>) {
        let per_sample = u64::from(self.schema.elements_per_sample());
        match record {
            Record::Began { epoch, first_index, origin } => {
                let at = Place { epoch, totals, position: first_index * per_sample };
                if !self.was_had(at) {
                    self.on_began(at, origin, reader_name, events);
                }
            }
            Record::Block(_) => unreachable!("blocks are counted before, and assembled where they lie"),
            Record::Gap(epoch, gap) => {
                let at = Place { epoch, totals, position: gap.positions.start };
                // A gap that extends beyond data that were received is left out as a whole: the rest is this
                // reader's absence.
                if !self.was_had(at) {
                    self.on_gap(at, gap, reader_name, events);
                }
            }
            Record::Settled(epoch, gap) => {
                self.catch_up(epoch, totals, events);
                let Some(reader_epoch) = self.epochs.get_mut(&epoch) else { return };
                let news = reader_epoch.learn(&[gap]);
                self.tell_settled(epoch, news, events);
            }
            Record::Ended { epoch, state, datagrams } => {
                self.catch_up(epoch, totals, events);
                self.on_ended(epoch, state, datagrams, reader_name, events);
            }
            Record::Statement(epoch, bytes) => {
                self.catch_up(epoch, totals, events);
                if self.epochs.contains_key(&epoch) {
                    self.tap(epoch, || TapRecord::Statement(bytes.to_vec()));
                    let (stream, bytes) = (Arc::clone(&self.name), bytes.to_vec());
                    events.push(Event::Statement(StreamStatement { stream, epoch, bytes }));
                }
            }
            Record::Upstream(epoch, hops) => {
                self.catch_up(epoch, totals, events);
                if let Some(reader_epoch) = self.epochs.get_mut(&epoch) {
                    reader_epoch.upstream.clone_from(&hops);
                    self.tap(epoch, || TapRecord::Upstream(hops));
                }
            }
            Record::Horizon { epoch, position, at, is_idle } => {
                self.catch_up(epoch, totals, events);
                self.told_horizon = Some(ToldHorizon { epoch, position, at, is_idle });
            }
            Record::TwoPublishers { other, .. } => {
                tracing::warn!(
                    "two publishers send the stream `{}`; the other's epoch began at {} ns",
                    self.name,
                    other.start_ns
                );
            }
        }
    }

    fn on_lapped(&mut self) {
        let mut others_open = false;
        for (epoch, reader_epoch) in &mut self.epochs {
            reader_epoch.lapped = true;
            others_open |= !reader_epoch.ended && self.current != Some(*epoch);
        }
        self.ask_bridge |= others_open;
    }

    fn on_began(&mut self, at: Place, origin: Option<Origin>, reader_name: &str, events: &mut Vec<Event>) {
        match self.epochs.get(&at.epoch) {
            // The ring overwrote the end of the account before: this reader's account continues.
            Some(reader_epoch) if self.goes_on(reader_epoch, at) => self.go_on(at, events),
            Some(reader_epoch) => {
                let next = ReaderEpoch::succeeded_by(reader_epoch, self.hop_at(at));
                self.cut(at.epoch, reader_name, events);
                self.begin(at.epoch, next, events);
            }
            None => {
                let reader_epoch = ReaderEpoch::new(self.hop_at(at)).of(origin);
                self.begin(at.epoch, reader_epoch, events);
            }
        }
    }

    /// Makes the epoch of a record the current one, with its account open and at the record's position; false
    /// if no account can begin here.
    fn enter(&mut self, at: Place, reader_name: &str, events: &mut Vec<Event>) -> bool {
        let Some(reader_epoch) = self.epochs.get(&at.epoch) else { return self.begin_behind(at, events) };
        if self.goes_on(reader_epoch, at) {
            self.go_on(at, events);
            return true;
        }
        // The ring overwrote the beginning of another account of the epoch. It follows the one before unless
        // another epoch was current at the bridge meanwhile.
        let follows =
            reader_epoch.ended && !self.resumed && reader_epoch.hop.leads_to(at.totals, at.position);
        let hop = reader_epoch.hop.continued().filter(|_| follows);
        let Some(hop) = hop.or_else(|| self.is_at_sample(at).then(|| self.hop_at(at))) else { return false };
        let next = reader_epoch.succeeded_by(hop);
        self.cut(at.epoch, reader_name, events);
        self.begin(at.epoch, next, events);
        self.overtaken(at, events);
        true
    }

    /// Returns whether the current account continues at this place, directly or behind overwritten records.
    fn goes_on(&self, reader_epoch: &ReaderEpoch, at: Place) -> bool {
        let is_here = if reader_epoch.lapped {
            reader_epoch.hop.leads_to(at.totals, at.position)
        } else {
            reader_epoch.hop.next_position() == at.position
        };
        is_here && !reader_epoch.ended && self.current == Some(at.epoch)
    }

    fn go_on(&mut self, at: Place, events: &mut Vec<Event>) {
        let Some(reader_epoch) = self.epochs.get_mut(&at.epoch).filter(|reader_epoch| reader_epoch.lapped)
        else {
            return;
        };
        reader_epoch.end_by = None;
        self.catch_up(at.epoch, at.totals, events);
    }

    /// Opens the account of an epoch whose beginning was not read: it is in the ring's history, or was
    /// overwritten.
    fn begin_behind(&mut self, at: Place, events: &mut Vec<Event>) -> bool {
        let head = at.totals.iter().try_fold(at.position, |position, total| position.checked_sub(*total));
        let head = head.map(|position| Place { totals: [0, 0], position, ..at });
        // A reader that has just joined did not lose what was before it; one that was already there did.
        let was_here = self.waited || self.current.is_some() && !self.resumed;
        let Some(head) = head.filter(|head| was_here && self.is_at_sample(*head)) else {
            if !self.is_at_sample(at) {
                return false; // The middle of a sample: the account begins with the next.
            }
            let reader_epoch = self.epoch_behind(at.epoch, self.hop_at(at));
            self.begin(at.epoch, reader_epoch, events);
            return true;
        };
        let reader_epoch = self.epoch_behind(at.epoch, self.hop_at(head));
        self.begin(at.epoch, reader_epoch, events);
        self.overtaken(at, events);
        true
    }

    /// Returns an epoch whose beginning was not read: the bridge knows its origin.
    fn epoch_behind(&self, epoch: Epoch, hop: Hop) -> ReaderEpoch {
        let on_page = self.bridge.epochs_of(self.stream()).unwrap_or_default();
        let origin = on_page.into_iter().find(|it| it.epoch == epoch).and_then(|it| it.origin);
        ReaderEpoch::new(hop).of(origin)
    }

    /// Counts as lost to the ring everything from the beginning of an account to here.
    fn overtaken(&mut self, at: Place, events: &mut Vec<Event>) {
        if let Some(reader_epoch) = self.epochs.get_mut(&at.epoch) {
            reader_epoch.lapped = true;
            self.catch_up(at.epoch, at.totals, events);
        }
    }

    /// Opens an account of an epoch, which is the current one from now on.
    fn begin(&mut self, epoch: Epoch, mut reader_epoch: ReaderEpoch, events: &mut Vec<Event>) {
        self.flush(events);
        let before = self.current.or(self.followed.take());
        reader_epoch.follows = before.and_then(|before| Some((before, self.epochs.get(&before)?.join)));
        let (first_index, join) = (reader_epoch.hop.rows().first, reader_epoch.join);
        let origin = reader_epoch.origin;
        let absence = self.absence_of_reader(epoch, &reader_epoch);
        self.tap_beginning(epoch, &reader_epoch);
        self.epochs.insert(epoch, reader_epoch);
        self.current = Some(epoch);
        // Some of the earlier epochs may have ended where this reader was lapped.
        self.ask_bridge |= self
            .epochs
            .iter()
            .any(|(other, reader_epoch)| *other != epoch && reader_epoch.lapped && !reader_epoch.ended);
        self.assembly = (!self.is_tapped()).then(|| {
            Assembly::new(Arc::clone(&self.name), Arc::clone(&self.schema), epoch, self.spare.clone())
        });
        events.push(Event::Began(Arc::new(StreamInfo {
            name: Arc::clone(&self.name),
            id: self.stream(),
            epoch,
            origin,
            schema: Arc::clone(&self.schema),
            station: self.subscription.description.station.clone(),
            first_index,
            join,
        })));
        if let Some(gap) = absence {
            self.tell_absence(epoch, gap, events);
        }
    }

    /// Counts a block; returns the part of it that is to be delivered.
    fn on_block(
        &mut self,
        block: BlockRecord<'_>,
        totals: [u64; 2],
        reader_name: &str,
        events: &mut Vec<Event>,
    ) -> Option<Piece> {
        let (at, block) = self.news_of(block, totals)?;
        if !self.enter(at, reader_name, events) {
            return None;
        }
        let piece = Piece { position: block.position, t0: block.t0, size_bytes: block.payload.len() };
        let piece = self.leave_out_old(&block, at, piece, events)?;
        self.count_delivered(block.epoch, piece, events)?;
        Some(piece)
    }

    /// Counts elements as delivered, in the current account of their epoch.
    fn count_delivered(&mut self, epoch: Epoch, piece: Piece, events: &mut Vec<Event>) -> Option<()> {
        let elements = (piece.size_bytes / self.schema.dtype.size_bytes()) as u64;
        self.note_time(epoch, piece, events);
        let reader_epoch = self.epochs.get_mut(&epoch)?;
        reader_epoch.hop.delivered(piece.position..piece.position + elements);
        Some(())
    }

    /// Learns when samples were taken.
    fn note_time(&mut self, epoch: Epoch, piece: Piece, events: &mut Vec<Event>) {
        let index = piece.position / u64::from(self.schema.elements_per_sample());
        let Some(reader_epoch) = self.epochs.get_mut(&epoch) else { return };
        match reader_epoch.is_at(index, piece.t0, self.schema.rate) {
            Times::GoOn => {}
            Times::First => self.tell_untimed(epoch, events),
            Times::Changed => self.correct_end(epoch, piece.position, events),
        }
    }

    fn on_gap(&mut self, at: Place, gap: Gap, reader_name: &str, events: &mut Vec<Event>) {
        // The rest of a replaced epoch is reported after its successor has begun.
        let is_left_over = self.current.is_some_and(|current| at.epoch < current);
        if is_left_over {
            self.catch_up(at.epoch, at.totals, events);
            let fits = |reader_epoch: &&mut ReaderEpoch| {
                !reader_epoch.ended && reader_epoch.hop.next_position() == at.position
            };
            let Some(reader_epoch) = self.epochs.get_mut(&at.epoch).filter(fits) else { return };
            let told = reader_epoch.hop.gap(gap).clone();
            return self.tell_gap(at.epoch, told, events);
        }
        if !self.enter(at, reader_name, events) {
            return;
        }
        if let Some(assembly) = &mut self.assembly {
            assembly.gap(&gap.positions, &mut self.blocks);
        }
        self.hand_over(events);
        let Some(reader_epoch) = self.epochs.get_mut(&at.epoch) else { return };
        let told = reader_epoch.hop.gap(gap).clone();
        self.tell_gap(at.epoch, told, events);
    }

    fn on_ended(
        &mut self,
        epoch: Epoch,
        state: AccountState,
        datagrams: Option<NetworkRows>,
        reader_name: &str,
        events: &mut Vec<Event>,
    ) {
        if self.current == Some(epoch) {
            self.flush(events);
        }
        // The bridge has settled everything: gaps open here were settled in overwritten records.
        if self
            .epochs
            .get(&epoch)
            .is_some_and(|reader_epoch| !reader_epoch.ended && reader_epoch.hop.is_unsettled())
        {
            self.consult(events);
        }
        let Some(reader_epoch) = self.epochs.get_mut(&epoch).filter(|reader_epoch| !reader_epoch.ended)
        else {
            return;
        };
        reader_epoch.datagrams = datagrams;
        reader_epoch.end(state);
        self.tell_end(epoch, reader_name, events);
    }

    /// Counts elements of an epoch that the ring overwrote, at a record with these totals.
    fn catch_up(&mut self, epoch: Epoch, totals: [u64; 2], events: &mut Vec<Event>) {
        let Some(reader_epoch) =
            self.epochs.get_mut(&epoch).filter(|reader_epoch| reader_epoch.lapped && !reader_epoch.ended)
        else {
            return;
        };
        reader_epoch.lapped = false;
        let Some(gap) = reader_epoch.hop.lapped(totals).cloned() else { return };
        self.ask_bridge |= reader_epoch.hop.is_unsettled();
        if let Some(assembly) = &mut self.assembly
            && self.current == Some(epoch)
        {
            assembly.gap(&gap.positions, &mut self.blocks);
            self.hand_over(events);
        }
        self.tell_gap(epoch, gap, events);
    }

    /// Asks the bridge for the stages of the gaps where this reader was lapped, and for epochs that have ended there.
    fn consult(&mut self, events: &mut Vec<Event>) {
        let Some(known) = self.bridge.epochs_of(self.stream()) else {
            self.ask_bridge = true;
            return;
        };
        // Records that the bridge wrote before it answered are in the ring below this position.
        let head = self.reader.position() + self.reader.lag_bytes();
        let open: Vec<Epoch> =
            self.epochs.iter().filter(|(_, reader_epoch)| !reader_epoch.ended).map(|(it, _)| *it).collect();
        for epoch in open {
            let Some(reader_epoch) = self.epochs.get_mut(&epoch) else { continue };
            let on_page = known.iter().find(|it| it.epoch == epoch);
            if on_page.is_none_or(|it| it.ended) {
                reader_epoch.end_by = Some(head);
            }
            let news = on_page.map_or_else(Vec::new, |it| reader_epoch.learn(&it.gaps));
            self.tell_settled(epoch, news, events);
        }
    }

    /// Delivers all collected samples.
    fn flush(&mut self, events: &mut Vec<Event>) {
        if let Some(assembly) = &mut self.assembly {
            assembly.flush(&mut self.blocks);
        }
        self.hand_over(events);
    }

    /// Delivers whole blocks; returns their bytes.
    fn hand_over(&mut self, events: &mut Vec<Event>) -> usize {
        let bytes = self.blocks.iter().map(|block| block.data.as_bytes().len()).sum();
        events.extend(self.blocks.drain(..).map(Event::Block));
        bytes
    }

    fn is_at_sample(&self, at: Place) -> bool {
        at.position.is_multiple_of(u64::from(self.schema.elements_per_sample()))
    }

    fn hop_at(&self, at: Place) -> Hop {
        Hop::join(self.schema.elements_per_sample(), at.totals, at.position)
    }

    fn account(
        &self,
        epoch: Epoch,
        reader_epoch: &ReaderEpoch,
        reader_name: &str,
        gaps: GapList,
    ) -> StreamAccount {
        let gaps = match gaps {
            GapList::Full => reader_epoch.hop.gaps().cloned().collect(),
            GapList::Empty => Vec::new(),
        };
        let account = Account {
            state: reader_epoch.hop.state(),
            datagrams: reader_epoch.datagrams,
            elements: reader_epoch.hop.rows(),
            hops: reader_epoch.hop.inherited(),
            gaps,
        };
        StreamAccount {
            stream: Arc::clone(&self.name),
            id: self.stream(),
            epoch,
            origin: reader_epoch.origin,
            upstream: reader_epoch.upstream.clone(),
            join: reader_epoch.join,
            follows: reader_epoch.follows,
            reader: reader_name.to_owned(),
            reach: self.reach,
            account,
            samples: Some(reader_epoch.hop.samples()),
            reclassified: Vec::new(),
            settled_early: 0,
            port: None,
            age: None,
            unauthentic: crate::UnauthenticCounts::default(),
            unconfirmed_epochs: 0,
        }
    }
}
