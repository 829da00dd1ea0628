//! Receiving side of a flow: arrivals, missing datagrams so far, and jitter.

use units::Instant;

use super::account::{FlowAccount, FlowSent, FlowState};
use super::delay::Delays;
use super::stamp::{STAMP_BYTES, Stamp};
use super::window::{Seen, SeenNumbers};
use crate::Percentiles;
use ledger::{DropUnit, MAX_TRAIN, Stage, StageCounts};

/// Maximum distance of a number from all before it: hours of the fastest flow. A larger one is invalid.
const MOST_AHEAD: u64 = 1 << 36;

/// Identification of a flow's datagrams: by number, or by count alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Numbering {
    /// Datagrams carry their number.
    Stamped,
    /// Datagrams are too short for a number and can only be counted: losses are known at the end.
    Counted,
}

/// Drops that the kernel counted at a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SocketDrops {
    /// Number of drops.
    pub count: u64,
    /// Unit of each drop.
    pub unit: DropUnit,
}

/// Counters of one flow at its receiver.
#[derive(Clone, Debug)]
pub struct FlowReceiver {
    run: u32,
    flow: u32,
    numbering: Numbering,
    seen: SeenNumbers,
    /// One more than the highest number that arrived.
    received_end: u64,
    received: u64,
    bytes: u64,
    reordered: u64,
    duplicates: u64,
    late: u64,
    foreign: u64,
    jitter: Jitter,
    delays: Delays,
    /// The first delays, at most `most_delays`, for percentiles.
    each_delay_ns: Vec<u64>,
    most_delays: usize,
}

/// Arrival times of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Arrival at the host, by its kernel's time stamp: the basis of jitter.
    pub host: Instant,
    /// Arrival at the program that reads it: the end of its delay.
    pub reader: Instant,
}

/// Counts of a receiver so far.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FlowTotals {
    /// Datagrams that arrived, each counted once.
    pub received: u64,
    /// Payload bytes of those datagrams.
    pub bytes: u64,
    /// Numbers below the highest that have not arrived; falls when one comes late. `None` without numbers.
    pub lost: Option<u64>,
    /// Datagrams that arrived behind one with a higher number.
    pub reordered: u64,
    /// Datagrams that had arrived before.
    pub duplicates: u64,
    /// Datagrams too late to be told from duplicates: their loss remains in the account.
    pub late: u64,
    /// Datagrams that were not of this flow.
    pub foreign: u64,
    /// Interarrival jitter. Source: RFC 3550 §6.4.1. `None` without stamps, or if fewer than two arrived.
    pub jitter_ns: Option<f64>,
    /// Delays from sender to reader; empty without stamps.
    pub delays: Delays,
}

impl From<Instant> for Arrival {
    /// Uses the time at which a program read a datagram as its arrival, for want of a kernel time stamp.
    fn from(reader: Instant) -> Self {
        Self { host: reader, reader }
    }
}

impl From<u64> for SocketDrops {
    /// Takes a count as drops of single datagrams, as sockets without trains count them.
    fn from(count: u64) -> Self {
        Self::of_datagrams(count)
    }
}

impl SocketDrops {
    /// Returns drops of single datagrams.
    #[must_use]
    pub const fn of_datagrams(count: u64) -> Self {
        Self { count, unit: DropUnit::Datagram }
    }

    /// Returns drops of whole trains of datagrams.
    #[must_use]
    pub const fn of_trains(count: u64) -> Self {
        Self { count, unit: DropUnit::Train }
    }

    /// Returns the maximum number of missing datagrams that the drops explain, and the number of drops that match
    /// no missing datagram. The length of a dropped train is unknown: one missing datagram is enough to match it.
    fn explain(self, missing: u64) -> (u64, u64) {
        let at_most = match self.unit {
            DropUnit::Datagram => self.count,
            DropUnit::Train => self.count.saturating_mul(MAX_TRAIN),
        };
        (at_most.min(missing), self.count.saturating_sub(missing))
    }
}

impl Numbering {
    /// Returns the numbering that datagrams of this size have room for.
    #[must_use]
    pub const fn of_payload(payload_bytes: usize) -> Self {
        if payload_bytes < STAMP_BYTES { Self::Counted } else { Self::Stamped }
    }
}

impl FlowReceiver {
    /// Begins to count a flow.
    #[must_use]
    pub fn new(run: u32, flow: u32, numbering: Numbering) -> Self {
        Self {
            run,
            flow,
            numbering,
            seen: SeenNumbers::default(),
            received_end: 0,
            received: 0,
            bytes: 0,
            reordered: 0,
            duplicates: 0,
            late: 0,
            foreign: 0,
            jitter: Jitter::default(),
            delays: Delays::default(),
            each_delay_ns: Vec::new(),
            most_delays: 0,
        }
    }

    /// Keeps the first `most` delays, for their percentiles. Cost: 8 bytes each.
    #[must_use]
    pub fn keeping_delays(self, most: usize) -> Self {
        Self { most_delays: most, ..self }
    }

    /// Summarises the delays that were kept; `None` if there are none. Cost: sorts them.
    pub fn delay_percentiles(&mut self) -> Option<Percentiles> {
        Percentiles::of(&mut self.each_delay_ns)
    }

    /// Counts a datagram.
    pub fn accept(&mut self, arrival: impl Into<Arrival>, datagram: &[u8]) {
        let arrival = arrival.into();
        match self.numbering {
            Numbering::Counted if datagram.len() < STAMP_BYTES => self.count(datagram),
            Numbering::Counted => self.foreign += 1,
            Numbering::Stamped => match Stamp::read(datagram) {
                Some(stamp) if self.is_of_this_flow(&stamp) => self.accept_stamped(arrival, datagram, &stamp),
                _ => self.foreign += 1,
            },
        }
    }

    /// Adds datagrams that were counted elsewhere: by several threads at one socket, or by other processes.
    ///
    /// # Panics
    /// If this flow's datagrams are numbered: a count does not identify them.
    pub fn add_counted(&mut self, datagrams: u64, bytes: u64) {
        assert!(self.numbering == Numbering::Counted, "numbered datagrams are taken one by one");
        self.received += datagrams;
        self.bytes += bytes;
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn totals(&self) -> FlowTotals {
        let is_numbered = self.numbering == Numbering::Stamped;
        FlowTotals {
            received: self.received,
            bytes: self.bytes,
            lost: is_numbered.then(|| self.seen.unseen_below(self.received_end)),
            reordered: self.reordered,
            duplicates: self.duplicates,
            late: self.late,
            foreign: self.foreign,
            jitter_ns: self.jitter.nanos(),
            delays: self.delays,
        }
    }

    /// Returns the number of datagrams that arrived, each counted once. Cost: none, unlike
    /// [`totals`](Self::totals).
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Returns whether everything that was sent has arrived.
    #[must_use]
    pub fn has_all(&self, sent: &FlowSent) -> bool {
        self.received + sent.refused.total() >= sent.numbered
    }

    /// Closes the account with the sender's counters and the drops that the kernel counted at this socket.
    ///
    /// `sent` is `None` if the sender vanished: then the account extends to the highest number that arrived.
    #[must_use]
    pub fn close(&self, sent: Option<&FlowSent>, socket_drops: impl Into<SocketDrops>) -> FlowAccount {
        let numbered = sent.map_or(self.received_end.max(self.received), |sent| sent.numbered);
        let missing = match self.numbering {
            Numbering::Stamped => self.seen.unseen_below(numbered),
            Numbering::Counted => numbered.saturating_sub(self.received),
        };
        let mut evidence = sent.map_or(StageCounts::default(), |sent| sent.refused);
        evidence[Stage::Late] += self.late;
        let mut unattributed = missing;
        let mut lost = StageCounts::default();
        for (stage, count) in evidence.nonzero() {
            lost[stage] = count.min(unattributed);
            unattributed -= lost[stage];
        }
        let (dropped, unmatched) = socket_drops.into().explain(unattributed);
        lost[Stage::ReceiverSocketBuffer] += dropped;
        let state = if sent.is_some() { FlowState::Closed } else { FlowState::Unconfirmed };
        FlowAccount {
            state,
            sent: numbered,
            received: self.received,
            lost,
            unexplained: unattributed - dropped,
            duplicates: self.duplicates,
            unmatched,
        }
    }

    fn is_of_this_flow(&self, stamp: &Stamp) -> bool {
        stamp.run == self.run
            && stamp.flow == self.flow
            && stamp.number < self.received_end.saturating_add(MOST_AHEAD)
    }

    fn accept_stamped(&mut self, arrival: Arrival, datagram: &[u8], stamp: &Stamp) {
        match self.seen.mark(stamp.number) {
            Seen::First => {
                self.count(datagram);
                self.jitter.take(arrival.host, stamp.sent);
                let delay_ns = self.delays.take(stamp.sent, arrival.reader);
                self.each_delay_ns.extend(delay_ns.filter(|_| self.each_delay_ns.len() < self.most_delays));
                if stamp.number < self.received_end {
                    self.reordered += 1;
                }
                self.received_end = self.received_end.max(stamp.number + 1);
            }
            Seen::Again => self.duplicates += 1,
            Seen::Unknown => self.late += 1,
        }
    }

    const fn count(&mut self, datagram: &[u8]) {
        self.received += 1;
        self.bytes += datagram.len() as u64;
    }
}

/// Mean deviation of the transit time, as in RTP.
///
/// Source: RFC 3550 §6.4.1 and A.8: `J += (|D| − J) / 16`, where `D` is the difference of the transit times of two
/// successive datagrams. The clocks of both hosts may differ: only their drift between two datagrams matters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jitter {
    transit_before_ns: Option<i128>,
    /// `None` until two datagrams have arrived.
    nanos: Option<f64>,
}

impl Jitter {
    /// Takes a datagram's times, each by the clock of its own host.
    pub fn take(&mut self, arrival: Instant, sent: Instant) {
        let transit = i128::from(arrival.as_nanos()) - i128::from(sent.as_nanos());
        if let Some(before) = self.transit_before_ns.replace(transit) {
            #[expect(
                clippy::cast_precision_loss,
                reason = "differences of times on the way are far below 2^53 ns"
            )]
            let difference = (transit - before).unsigned_abs() as f64;
            let nanos = self.nanos.unwrap_or(0.0);
            self.nanos = Some(nanos + (difference - nanos) / 16.0);
        }
    }

    /// Returns the jitter; `None` until two datagrams have arrived. Units: nanoseconds.
    #[must_use]
    pub const fn nanos(&self) -> Option<f64> {
        self.nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u32 = 7;

    fn datagram(number: u64, sent_us: u64) -> [u8; 40] {
        let mut bytes = [0; 40];
        Stamp { run: RUN, flow: 1, number, sent: Instant::from_nanos(sent_us * 1_000) }.write(&mut bytes);
        bytes
    }

    fn at(nanos: u64) -> Arrival {
        Arrival { host: Instant::from_nanos(nanos), reader: Instant::from_nanos(nanos + 50) }
    }

    fn receiver() -> FlowReceiver {
        FlowReceiver::new(RUN, 1, Numbering::Stamped)
    }

    fn take(receiver: &mut FlowReceiver, numbers: &[u64]) {
        for number in numbers {
            receiver.accept(at(1), &datagram(*number, 0));
        }
    }

    fn sent(numbered: u64) -> FlowSent {
        FlowSent { numbered, ..FlowSent::default() }
    }

    #[test]
    fn loss_is_live_and_falls_when_a_straggler_comes() {
        let mut receiver = receiver();
        take(&mut receiver, &[0, 1, 4]);
        assert_eq!(receiver.totals().lost, Some(2));
        take(&mut receiver, &[3, 3]);
        let totals = receiver.totals();
        assert_eq!((totals.lost, totals.reordered, totals.duplicates, totals.received), (Some(1), 1, 1, 4));
        assert_eq!(totals.bytes, 4 * 40);
    }

    #[test]
    fn the_tail_is_missing_once_the_sender_has_spoken() {
        let mut receiver = receiver();
        take(&mut receiver, &[0, 1]);
        let account = receiver.close(Some(&sent(5)), SocketDrops::of_datagrams(0));
        assert_eq!((account.received, account.unexplained, account.check()), (2, 3, Ok(())));
        let cut = receiver.close(None, SocketDrops::of_datagrams(0));
        assert_eq!((cut.sent, cut.unexplained, cut.state), (2, 0, FlowState::Unconfirmed));
    }

    #[test]
    fn evidence_explains_no_more_than_is_missing() {
        let mut receiver = receiver();
        take(&mut receiver, &[0, 1, 2, 9]);
        let refused = StageCounts::of(Stage::SenderQdisc, 2);
        let account =
            receiver.close(Some(&FlowSent { numbered: 10, bytes: 0, refused }), SocketDrops::of_datagrams(9));
        assert_eq!(account.lost[Stage::SenderQdisc], 2);
        assert_eq!(account.lost[Stage::ReceiverSocketBuffer], 4);
        assert_eq!((account.unexplained, account.unmatched, account.check()), (0, 5, Ok(())));
    }

    #[test]
    fn a_train_that_was_dropped_explains_as_many_as_a_train_may_hold_and_one_is_enough_of_it() {
        let close = |numbered, trains| {
            let account = receiver().close(Some(&sent(numbered)), SocketDrops::of_trains(trains));
            assert_eq!(account.check(), Ok(()));
            (account.lost[Stage::ReceiverSocketBuffer], account.unexplained, account.unmatched)
        };
        assert_eq!(close(MAX_TRAIN, 1), (MAX_TRAIN, 0, 0));
        assert_eq!(close(MAX_TRAIN + 1, 1), (MAX_TRAIN, 1, 0));
        assert_eq!(close(1, 1), (1, 0, 0));
        assert_eq!(close(2, 3), (2, 0, 1));
    }

    #[test]
    fn what_is_of_another_run_flow_or_kind_is_not_counted() {
        let mut receiver = receiver();
        let mut other = datagram(0, 0);
        other[7] ^= 1;
        receiver.accept(at(0), &other);
        receiver.accept(at(0), b"hello");
        take(&mut receiver, &[u64::MAX, MOST_AHEAD]);
        assert_eq!((receiver.totals().foreign, receiver.totals().received), (4, 0));
        take(&mut receiver, &[MOST_AHEAD - 1]);
        assert_eq!((receiver.totals().received, receiver.totals().lost), (1, Some(MOST_AHEAD - 1)));
    }

    #[test]
    fn short_datagrams_are_counted() {
        let mut receiver = FlowReceiver::new(RUN, 1, Numbering::of_payload(0));
        receiver.accept(at(0), &[]);
        receiver.accept(at(0), &[]);
        assert_eq!((receiver.totals().received, receiver.totals().lost), (2, None));
        let account = receiver.close(Some(&sent(3)), SocketDrops::of_datagrams(1));
        assert_eq!((account.lost[Stage::ReceiverSocketBuffer], account.check()), (1, Ok(())));
        assert_eq!(Numbering::of_payload(STAMP_BYTES), Numbering::Stamped);
        assert_eq!(Numbering::of_payload(STAMP_BYTES - 1), Numbering::Counted);
    }

    #[test]
    fn what_others_counted_closes_one_account_and_too_much_of_it_breaks_the_law() {
        let mut receiver = FlowReceiver::new(RUN, 1, Numbering::Counted);
        receiver.add_counted(3, 3);
        receiver.add_counted(4, 4);
        let refused = StageCounts::of(Stage::SenderIp, 1);
        let account =
            receiver.close(Some(&FlowSent { numbered: 10, bytes: 9, refused }), SocketDrops::of_datagrams(1));
        assert_eq!((account.received, account.unexplained, account.check()), (7, 1, Ok(())));
        assert_eq!((account.lost[Stage::SenderIp], account.lost[Stage::ReceiverSocketBuffer]), (1, 1));
        receiver.add_counted(4, 4);
        assert!(
            receiver
                .close(Some(&FlowSent { numbered: 10, bytes: 9, refused }), SocketDrops::of_datagrams(1))
                .check()
                .is_err()
        );
    }

    #[test]
    fn more_arrivals_than_were_sent_break_the_law() {
        let mut receiver = FlowReceiver::new(RUN, 1, Numbering::Counted);
        receiver.accept(at(0), &[]);
        receiver.accept(at(0), &[]);
        assert!(receiver.close(Some(&sent(1)), SocketDrops::of_datagrams(0)).check().is_err());
    }

    #[test]
    fn a_delay_ends_where_the_datagram_is_read_and_counts_once() {
        let mut receiver = receiver();
        for number in [0, 1, 1] {
            receiver.accept(at(3_000), &datagram(number, 2));
        }
        assert_eq!(receiver.totals().delays, Delays { count: 2, sum_ns: 2 * 1_050 });
        assert_eq!(receiver.delay_percentiles(), None, "none was to be kept");
    }

    #[test]
    fn as_many_delays_are_kept_as_were_asked_for() {
        let mut receiver = receiver().keeping_delays(2);
        for (number, arrival_ns) in [(0, 2_000), (0, 2_500), (1, 3_000), (2, 9_000)] {
            receiver.accept(at(arrival_ns), &datagram(number, 1));
        }
        let delays = receiver.delay_percentiles().unwrap();
        assert_eq!((delays.count, delays.min_ns, delays.max_ns), (2, 1_050, 2_050));
    }

    #[test]
    fn jitter_follows_its_formula_whatever_the_clocks_say() {
        let mut receiver = receiver();
        let arrive = |receiver: &mut FlowReceiver, number, sent_us, arrival_us: u64| {
            receiver.accept(at(arrival_us * 1_000), &datagram(number, sent_us));
        };
        // The sender's clock is a second ahead.
        arrive(&mut receiver, 0, 1_000_000, 100);
        assert_eq!(receiver.totals().jitter_ns, None);
        arrive(&mut receiver, 1, 1_000_100, 216);
        assert_eq!(receiver.totals().jitter_ns, Some(1_000.0));
        arrive(&mut receiver, 2, 1_000_200, 316);
        assert_eq!(receiver.totals().jitter_ns, Some(1_000.0 - 1_000.0 / 16.0));
    }
}
