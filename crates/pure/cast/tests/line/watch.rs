//! A reader's events, checked as they arrive: every element exactly once, in order, bit for bit.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use cast::receive::Event;
use ledger::{Account, AccountState, Gap, HopCounts, StageCounts};
use units::{Epoch, Instant, StreamId};

use super::feed::fill;

/// One account as reported by events.
#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) stream: StreamId,
    pub(crate) epoch: Epoch,
    /// Number of the reader's inputs before it began.
    pub(crate) began: u64,
    per_sample: u64,
    pub(crate) first: u64,
    /// True if it begins with the first sample of its epoch, which is not sample 0 where a relay took the stream up.
    pub(crate) is_whole: bool,
    /// True if a relay publishes it: datagrams wait until it is known where that took the stream up.
    pub(crate) is_relayed: bool,
    /// Start of the next block or gap.
    cursor: u64,
    pub(crate) delivered: u64,
    pub(crate) gaps: BTreeMap<u64, Gap>,
    /// The final account, and the number of the reader's inputs before its end.
    pub(crate) ended: Option<(u64, Account)>,
    pub(crate) delays: Vec<AddedDelay>,
    /// Blocks whose bits differ from the source's.
    pub(crate) spoiled: u64,
    /// Times of the horizons that were told.
    pub(crate) horizons: Vec<Instant>,
}

/// Waiting time of a datagram between its arrival and its delivery.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct AddedDelay {
    pub(crate) nanos: u64,
    pub(crate) datagrams: u64,
}

/// All events of a reader.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) followed: Vec<Following>,
    pub(crate) two_publishers: Vec<(Epoch, Epoch)>,
    pub(crate) imposters: Vec<SocketAddr>,
    pub(crate) unknown_versions: Vec<(u8, SocketAddr)>,
    /// Statements of all epochs, in their order.
    pub(crate) statements: Vec<Vec<u8>>,
    /// True if the reader waited before any epoch began.
    pub(crate) waits: bool,
    /// True if it left the group in between.
    pub(crate) left: bool,
    /// First arrival of the data at a position, and the number of their datagram.
    arrivals: BTreeMap<(Epoch, u64), (Instant, u64)>,
    expected: Vec<u8>,
}

impl Watch {
    pub(crate) fn arrived(&mut self, epoch: Epoch, position: u64, now: Instant, datagram: u64) {
        self.arrivals.entry((epoch, position)).or_insert((now, datagram));
    }

    pub(crate) fn event(&mut self, now: Instant, so_far: (u64, u64), event: Event<'_>) {
        let (input, datagrams) = so_far;
        match event {
            Event::Began { stream, epoch, origin, description, first_index } => {
                let per_sample = u64::from(description.schema.elements_per_sample());
                let first = first_index * per_sample;
                // Where a relay took the stream up is the scene's.
                let is_relayed = origin.is_some();
                self.check_continuity(stream, epoch, if is_relayed { 0 } else { first });
                self.began(
                    stream,
                    (epoch, input),
                    per_sample,
                    (first, first == 0 || is_relayed && self.waits),
                );
                self.followed.last_mut().expect("it began").is_relayed = is_relayed;
            }
            Event::Block { stream, dtype, block } => {
                let (epoch, positions, size) = (block.epoch, block.positions(dtype), dtype.size_bytes());
                let payload = block.payload.pieces().collect::<Vec<_>>().concat();
                assert_eq!(payload.len() as u64, (positions.end - positions.start) * size as u64);
                self.expected.clear();
                self.expected.resize(payload.len(), 0);
                fill(epoch.incarnation, positions.start, size, &mut self.expected);
                let arrived = self.arrivals.remove(&(epoch, positions.start));
                let same = self.expected == payload;
                let following = self.following(stream, epoch);
                assert_eq!(positions.start, following.cursor, "a block out of its turn");
                following.spoiled += u64::from(!same);
                following.cursor = positions.end;
                following.delivered += positions.end - positions.start;
                let (at, then) = arrived.expect("nothing is delivered that did not arrive");
                let nanos = now.since(at).as_nanos() as u64;
                following.delays.push(AddedDelay { nanos, datagrams: datagrams - then });
            }
            Event::Gap { stream, epoch, gap } => {
                check_gap(&gap);
                let following = self.following(stream, epoch);
                assert_eq!(gap.positions.start, following.cursor, "a gap out of its turn");
                following.cursor = gap.positions.end;
                assert!(following.gaps.insert(gap.id, gap).is_none(), "a gap told twice");
            }
            Event::Settled { stream, epoch, gap } => {
                check_gap(&gap);
                let following = self.following(stream, epoch);
                let known = following.gaps.get_mut(&gap.id).expect("news of a gap that was told");
                assert_eq!((&known.positions, &known.numbers), (&gap.positions, &gap.numbers));
                *known = gap;
            }
            Event::Ended { stream, epoch, account } => {
                let following = self.following(stream, epoch);
                following.check_against(&account);
                assert!(account.closed(), "an account ends with nothing pending: {account:?}");
                assert_eq!(following.cursor, account.elements.next * following.per_sample);
                following.ended = Some((input, account));
            }
            Event::Statement { bytes, .. } => self.statements.push(bytes),
            Event::Upstream { .. } => {}
            Event::Horizon { stream, epoch, position, at, .. } => {
                let following = self.following(stream, epoch);
                assert_eq!(position, following.cursor, "a horizon that is not where the reader is");
                following.horizons.push(at);
            }
            Event::Imposter { imposter, .. } => self.imposters.push(imposter),
            Event::UnknownVersion { version, from } => self.unknown_versions.push((version, from)),
            Event::TwoPublishers { winner, other, .. } => self.two_publishers.push((winner, other)),
        }
    }

    fn began(
        &mut self,
        stream: StreamId,
        (epoch, began): (Epoch, u64),
        per_sample: u64,
        (first, is_whole): (u64, bool),
    ) {
        self.followed.push(Following {
            stream,
            epoch,
            began,
            per_sample,
            first,
            is_whole,
            is_relayed: false,
            cursor: first,
            delivered: 0,
            gaps: BTreeMap::new(),
            ended: None,
            delays: Vec::new(),
            spoiled: 0,
            horizons: Vec::new(),
        });
    }

    /// Checks rule 16: an account begins where the previous one of its epoch ended, or later if another publisher was
    /// current meanwhile; the first account of a reader that waits begins with the epoch's first sample.
    fn check_continuity(&self, stream: StreamId, epoch: Epoch, first: u64) {
        if self.left {
            return;
        }
        let mut before = self.followed.iter().rev().filter(|following| following.stream == stream);
        let last = before.next();
        let Some(same) = last.into_iter().chain(before).find(|following| following.epoch == epoch) else {
            let listened_to_a_later_one = last.is_some_and(|last| last.epoch > epoch);
            let waited = self.waits && !listened_to_a_later_one;
            assert!(!waited || first == 0, "the reader waited, and its account begins at {first}");
            return;
        };
        let Some((_, account)) = &same.ended else { panic!("one account of an epoch at a time") };
        let received = account.datagrams.map_or(0, |rows| rows.received);
        if account.state == AccountState::Cut && received <= 1 {
            return; // It rested on a foreign datagram.
        }
        let listened_elsewhere = last.is_some_and(|last| last.epoch != epoch);
        let follows = if listened_elsewhere { first >= same.cursor } else { first == same.cursor };
        assert!(follows, "an account up to {} is followed by one from {first} on", same.cursor);
    }

    fn following(&mut self, stream: StreamId, epoch: Epoch) -> &mut Following {
        let mut all = self.followed.iter_mut().rev();
        let found = all.find(|following| following.stream == stream && following.epoch == epoch);
        let found = found.expect("an account begins before its first event");
        assert!(found.ended.is_none(), "news of an account that has ended");
        found
    }
}

impl Following {
    /// Compares the reported events with an account of the same moment.
    pub(crate) fn check_against(&self, account: &Account) {
        assert_eq!(account.check(), Ok(()));
        let rows = &account.elements;
        assert_eq!(rows.first * self.per_sample, self.first, "the account begins where the events do");
        assert_eq!(rows.delivered, self.delivered, "what was handed over is what was counted");
        let mut lost = StageCounts::default();
        let (mut unexplained, mut unsettled) = (0, 0);
        for gap in self.gaps.values() {
            lost.add(&gap.lost);
            unexplained += gap.unexplained;
            unsettled += gap.unsettled;
        }
        assert_eq!((lost, unexplained, unsettled), (rows.lost, rows.unexplained, rows.unsettled), "gaps");
        let mut hops = HopCounts::default();
        self.gaps.values().for_each(|gap| hops.add_all(&gap.inherited));
        assert_eq!(hops, account.hops, "the hops of all gaps");
    }
}

fn check_gap(gap: &Gap) {
    assert!(!gap.is_empty(), "a gap without elements is nobody's news");
    assert_eq!(gap.check(), Ok(()), "{gap:?}");
}
