//! The streams of a tap, by the numbers that the near end has for them, and its inputs from their records.

use std::collections::BTreeMap;
use std::sync::Arc;

use ledger::{AccountState, Gap, GapKind, HopCounts, HopShare, Outcome, Stage};
use relay::{Began, Elements, NearInput};
use tallycast::{Epoch, StreamId, StreamName, TapBeginning, TapRecord, Tapped};
use units::Instant;
use wire::Description;

/// Maximum number of streams, and of records of each, that wait for a list of stations: it comes ten times a second.
const MAX_EARLY: usize = 4_096;

/// Streams of a tap, each epoch under a number of its own.
#[derive(Default)]
pub(crate) struct Streams {
    known: BTreeMap<(StreamId, Epoch), Stream>,
    /// Names of the streams that the near end still has, by number.
    names: BTreeMap<u16, String>,
    next: u16,
    /// Relayed streams that wait for the list of their stations.
    early: BTreeMap<(StreamId, Epoch), Early>,
    /// Epochs that are not sent, because all numbers are used.
    turned_away: u64,
}

/// A stream's epoch.
struct Stream {
    slot: u16,
    description: Arc<Description>,
    /// One behind the last position that the near end has as input.
    next_position: u64,
    /// Hop from whose bus it is read.
    hop: u8,
    /// Time at which the newest elements so far were published.
    last_born: Instant,
}

/// A relayed stream whose list of stations is not known yet.
struct Early {
    beginning: TapBeginning,
    records: Vec<Tapped>,
}

impl Streams {
    /// Calls `hand` with the inputs that a record gives the near end.
    pub(crate) fn take(&mut self, now: Instant, tapped: Tapped, mut hand: impl FnMut(NearInput<'_>)) {
        let key = (tapped.stream, tapped.epoch);
        if let Some(early) = self.early.get_mut(&key) {
            let TapRecord::Upstream(hops) = &tapped.record else {
                if early.records.len() < MAX_EARLY {
                    early.records.push(tapped);
                }
                return;
            };
            let stations = hops.iter().map(|hop| hop.station.clone()).collect();
            let early = self.early.remove(&key).expect("it was there");
            self.begin(key, &early.beginning, stations, &mut hand);
            return early.records.into_iter().for_each(|tapped| self.say(now, &tapped, &mut hand));
        }
        self.say(now, &tapped, &mut hand);
    }

    fn say(&mut self, now: Instant, tapped: &Tapped, hand: &mut impl FnMut(NearInput<'_>)) {
        let key = (tapped.stream, tapped.epoch);
        match &tapped.record {
            // The next account of the epoch: samples between the two are counted when its records come.
            TapRecord::Began(_) if self.known.contains_key(&key) => {}
            TapRecord::Began(beginning) if beginning.origin.is_some() => {
                // The list of stations follows.
                let early = Early { beginning: beginning.clone(), records: Vec::new() };
                if self.early.len() < MAX_EARLY {
                    self.early.insert(key, early);
                }
            }
            TapRecord::Began(beginning) => self.begin(key, beginning, Vec::new(), hand),
            TapRecord::Upstream(_) => {}
            TapRecord::Elements(elements) => {
                let Some(stream) = self.known.get_mut(&key) else { return };
                let count = elements.bytes.len() / stream.description.schema.dtype.size_bytes();
                let positions = elements.position..elements.position + count as u64;
                stream.catch_up(positions.start, hand);
                stream.next_position = positions.end;
                // Records are read in bulk and handed over one by one: no later one is older.
                let born = elements.born.unwrap_or_else(|| now - elements.residence);
                stream.last_born = stream.last_born.max(born.min(now));
                let (slot, t0, clock) = (stream.slot, elements.t0, elements.clock);
                let (bytes, age) = (&elements.bytes[..], now.since(stream.last_born));
                hand(NearInput::Elements { slot, elements: Elements { positions, t0, clock, bytes, age } });
            }
            TapRecord::Gap(gap) => {
                let Some(stream) = self.known.get_mut(&key).filter(|_| gap.kind == GapKind::Missing) else {
                    return;
                };
                stream.catch_up(gap.positions.start, hand);
                stream.next_position = gap.positions.end;
                let (slot, positions) = (stream.slot, gap.positions.clone());
                hand(NearInput::Missing { slot, positions, shares: shares(gap, stream.hop) });
            }
            TapRecord::Settled(gap) => {
                let Some(stream) = self.known.get(&key).filter(|_| gap.kind == GapKind::Missing) else {
                    return;
                };
                let (slot, positions) = (stream.slot, gap.positions.clone());
                let shares = shares(gap, stream.hop);
                hand(match gap.apportioned && !gap.inherited.is_empty() {
                    true => NearInput::Estimated { slot, positions, shares },
                    false => NearInput::Settled { slot, positions, shares },
                });
            }
            TapRecord::Statement(bytes) => {
                let Some(stream) = self.known.get(&key) else { return };
                hand(NearInput::Statement { slot: stream.slot, bytes: bytes.clone() });
            }
            // An account that was cut, or whose publisher fell silent, may have a successor of the same epoch.
            TapRecord::Ended(AccountState::Closed) => self.end(key, hand),
            TapRecord::Ended(AccountState::Open | AccountState::Cut | AccountState::Unconfirmed) => {}
        }
    }

    /// Releases the number of a stream that the near end has closed or does not send.
    pub(crate) fn release(&mut self, slot: u16) {
        self.names.remove(&slot);
        self.known.retain(|_, stream| stream.slot != slot);
    }

    /// Returns the name of a stream.
    pub(crate) fn name(&self, slot: u16) -> Option<&str> {
        self.names.get(&slot).map(String::as_str)
    }

    /// Returns the streams that the near end has, by number and name.
    pub(crate) const fn names(&self) -> &BTreeMap<u16, String> {
        &self.names
    }

    /// Returns the number of epochs that were refused for lack of a number.
    pub(crate) const fn turned_away(&self) -> u64 {
        self.turned_away
    }

    fn begin(
        &mut self,
        key: (StreamId, Epoch),
        beginning: &TapBeginning,
        mut stations: Vec<String>,
        hand: &mut impl FnMut(NearInput<'_>),
    ) {
        // A publisher has one epoch at a time: those before can have no successor.
        let of_stream =
            self.known.range((key.0, Epoch { start_ns: 0, incarnation: 0 })..).map(|(key, _)| *key);
        let before: Vec<_> =
            of_stream.take_while(|(stream, epoch)| *stream == key.0 && *epoch < key.1).collect();
        before.into_iter().for_each(|before| self.end(before, hand));
        let Ok(description) = beginning.description.encode() else { return };
        let Some(slot) = self.free_number(&beginning.description.name) else {
            self.turned_away += 1;
            return;
        };
        let first_position = beginning.first_position;
        let hop = beginning.origin.map_or(0, |origin| origin.hop.get());
        let stream = Stream {
            slot,
            description: Arc::clone(&beginning.description),
            next_position: first_position,
            hop,
            last_born: Instant::ORIGIN,
        };
        self.known.insert(key, stream);
        let origin = beginning.origin.map_or(key.1, |origin| origin.epoch);
        if hop > 0 {
            stations.push(beginning.description.station.clone());
        }
        hand(NearInput::Began(Began { slot, description, origin, stations, first_position }));
    }

    fn end(&mut self, key: (StreamId, Epoch), hand: &mut impl FnMut(NearInput<'_>)) {
        if let Some(stream) = self.known.remove(&key) {
            hand(NearInput::Ended { slot: stream.slot });
        }
    }

    fn free_number(&mut self, name: &StreamName) -> Option<u16> {
        let mut all = (0..=u16::MAX).map(|step| self.next.wrapping_add(step));
        let free = all.find(|slot| !self.names.contains_key(slot))?;
        self.next = free.wrapping_add(1);
        self.names.insert(free, name.to_string());
        Some(free)
    }
}

impl Stream {
    /// Counts the elements between two accounts of the epoch, which this reader did not read, as unexplained.
    fn catch_up(&mut self, position: u64, hand: &mut impl FnMut(NearInput<'_>)) {
        let positions = self.next_position..position;
        if positions.is_empty() {
            return;
        }
        let mut shares = HopCounts::default();
        let count = positions.end - positions.start;
        shares.add(HopShare { hop: self.hop, outcome: Outcome::Unexplained, count });
        self.next_position = position;
        hand(NearInput::Missing { slot: self.slot, positions, shares });
    }
}

/// Returns hop and outcome of the elements of a gap that a reader on the bus of `hop` has.
fn shares(gap: &Gap, hop: u8) -> HopCounts {
    let mut shares = gap.inherited.clone();
    let is_inherited = |stage| stage == Stage::Source && !gap.inherited.is_empty();
    for (stage, count) in gap.lost.nonzero().filter(|(stage, _)| !is_inherited(*stage)) {
        shares.add(HopShare { hop, outcome: Outcome::Lost(stage), count });
    }
    for (outcome, count) in [(Outcome::Unexplained, gap.unexplained), (Outcome::Unsettled, gap.unsettled)] {
        if count > 0 {
            shares.add(HopShare { hop, outcome, count });
        }
    }
    shares
}

#[cfg(test)]
mod tests;
