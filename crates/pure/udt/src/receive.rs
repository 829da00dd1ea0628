//! The receiving side of a connection: received packets, missing packets, and the reports on both.

pub(crate) mod acks;
mod arrival;
pub(crate) mod buffer;
mod gaps;

use core::ops::Range;
use core::time::Duration;

use congestion::{AckPolicy, Incoming, LossReports};
use units::Instant;
use wire::udt::{Data, LossListWriter, MessageNumber};

use acks::{Acknowledging, Acks};
use arrival::ArrivalRates;
use buffer::{Placed, ReceiveBuffer};
use gaps::Gaps;

use crate::Repair;
use crate::round_trip::RoundTripEstimate;
use crate::size_search;

/// Number of parts of the buffer after each of which the peer is sent its free space: a timer of 10 ms alone would
/// limit the rate to one buffer in that time.
const WINDOW_PARTS: u32 = 8;

/// The receiving side.
#[derive(Debug)]
pub(crate) struct ReceiveSide {
    pub(crate) buffer: ReceiveBuffer,
    acks: Acks,
    gaps: Gaps,
    repair: Repair,
    reports: LossReports,
    rates: ArrivalRates,
    /// Size of a full packet agreed by both ends. Units: bytes.
    packet_bytes: u32,
    /// Bytes that a layer below adds to each packet.
    enclosing_bytes: u32,
    /// Maximum size of a loss report as a packet. Units: bytes.
    report_bytes: u32,
    /// True if the peer was told that there is hardly any room.
    told_full: bool,
    /// Arrival of the newest packet without a gap before it; `None` if it had waited for a missing one.
    newest_arrived: Option<Instant>,
    /// Arrival of the packet with the highest number.
    highest_arrived: Option<Instant>,
}

/// Result of a received packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    pub(crate) placed: Placed,
    /// Number of packets before it that are newly missing.
    pub(crate) newly_missing: u64,
}

/// An acknowledgement to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AckToSend {
    /// Its own number; `None` for a light one.
    pub(crate) number: Option<u32>,
    pub(crate) next: u64,
    /// Received end, if packets before it are missing; only in a light one.
    pub(crate) seen: Option<u64>,
    /// Time since the arrival of the newest packet before that, or before `next`.
    pub(crate) age: Option<Duration>,
    pub(crate) window_packets: u32,
    /// Arrival rate and capacity, in packets per second.
    pub(crate) rates: Option<(u32, u32)>,
}

impl AckToSend {
    /// Returns the age in its wire encoding: 0 if unknown.
    pub(crate) fn age_word(&self) -> u32 {
        self.age.map_or(0, |age| {
            u32::try_from(age.as_micros()).map_or(u32::MAX, |micros| micros.saturating_add(1))
        })
    }
}

impl ReceiveSide {
    pub(crate) fn new(
        buffer: ReceiveBuffer,
        (packet_bytes, enclosing_bytes): (u32, u32),
        origin: u64,
        now: Instant,
    ) -> Self {
        Self {
            buffer,
            acks: Acks::new(origin, now),
            gaps: Gaps::new(Repair::Patient),
            repair: Repair::Patient,
            reports: LossReports::AtOnce,
            rates: ArrivalRates::new(),
            packet_bytes,
            enclosing_bytes,
            report_bytes: packet_bytes,
            told_full: false,
            newest_arrived: None,
            highest_arrived: None,
        }
    }

    /// Reports and acknowledges as this kind of repair demands.
    #[must_use]
    pub(crate) fn repaired(mut self, repair: Repair) -> Self {
        self.repair = repair;
        self.gaps = Gaps::new(repair);
        self.acks.hurry_light(repair);
        self
    }

    /// Sets the maximum size of a loss report to that of a packet which the path carries.
    pub(crate) const fn set_report_bytes(&mut self, packet_bytes: u32) {
        self.report_bytes = packet_bytes;
    }

    pub(crate) fn obey(&mut self, policy: AckPolicy) {
        if policy.reports != self.reports {
            // Reporting of missing packets starts now, or stops.
            self.gaps = Gaps::new(self.repair);
            self.reports = policy.reports;
            let missing: Vec<_> = self.buffer.missing().iter().collect();
            missing.into_iter().for_each(|range| self.open_gap(range));
        }
        self.acks.obey(policy);
    }

    fn open_gap(&mut self, range: Range<u64>) {
        if self.reports == LossReports::AtOnce {
            self.gaps.open(range);
        }
    }

    /// Returns the state of the peer's packets, for the control.
    pub(crate) const fn incoming(&self) -> Incoming<'_> {
        Incoming {
            next: self.buffer.next(),
            received_end: self.buffer.received_end(),
            missing: self.buffer.missing(),
        }
    }

    /// Records packets that the kernel received as one, before each of them is taken.
    pub(crate) fn arrive(&mut self, arrived: Instant, first: u64, packets: u32) {
        self.rates.arrive(arrived, first, packets);
    }

    /// Takes a packet.
    pub(crate) fn take(&mut self, now: Instant, arrived: Instant, number: u64, data: &Data<'_>) -> Taken {
        let received_end = self.buffer.received_end();
        let placed = self.buffer.place(number, arrived, data);
        let is_full_sized = data.payload.len() == crate::config::payload_bytes(self.packet_bytes)
            || data.payload.len() == self.buffer.payload_bytes()
            || size_search::is_searched(data.payload.len(), self.enclosing_bytes);
        if placed != Placed::NoRoom {
            // The end of a message or a burst is acknowledged at once, unless something before it is missing.
            let is_last = number + 1 == self.buffer.next();
            if placed == Placed::New {
                self.note_arrival(number, is_last, arrived);
            }
            // Live messages have any size: the light acknowledgements of each millisecond suffice.
            let ends_burst = !is_full_sized && is_last && self.repair == Repair::Patient;
            self.acks.arrive(now, 1, ends_burst);
        }
        if placed == Placed::Duplicate && number < self.buffer.next() {
            self.acks.arrive_again(now);
        } else if placed == Placed::Duplicate && self.repair == Repair::Timely {
            self.acks.see_again();
        }
        let mut newly_missing = 0;
        if placed == Placed::New && number > received_end {
            newly_missing = number - received_end;
            self.open_gap(received_end..number);
        }
        Taken { placed, newly_missing }
    }

    fn note_arrival(&mut self, number: u64, is_last: bool, arrived: Instant) {
        if number < self.buffer.next() {
            self.newest_arrived = is_last.then_some(arrived);
        }
        if number + 1 == self.buffer.received_end() {
            self.highest_arrived = Some(arrived);
        }
    }

    /// Records that packets of a message were given up by the sender.
    ///
    /// libudt names one too many, the first of the next message. The last packet is therefore only believed when it
    /// is named alone, which libudt never does, and senders of this implementation do.
    pub(crate) fn give_up(&mut self, now: Instant, message: MessageNumber, first: u64, last: u64) {
        let received_end = self.buffer.received_end();
        let end = if first == last { last + 1 } else { last };
        if self.buffer.give_up(message, first..end) {
            if first > received_end {
                self.open_gap(received_end..first);
            }
            // The given-up packets did not arrive, and the delay of those behind them is unknown.
            self.newest_arrived = None;
            if self.buffer.received_end() > received_end {
                self.highest_arrived = None;
            }
            self.acks.arrive(now, 1, true);
        }
    }

    /// Records that the application read data; returns whether the peer waits for that, because it was told that
    /// there is no room.
    pub(crate) fn read(&mut self) -> bool {
        let is_awaited = self.told_full && !self.buffer.is_full();
        if is_awaited {
            self.acks.hurry();
        }
        is_awaited
    }

    /// Fills a report of missing packets; returns whether it has any.
    pub(crate) fn report(&mut self, now: Instant, round_trip: &RoundTripEstimate) -> Option<LossListWriter> {
        if !self.gaps.is_due(now) {
            return None;
        }
        let mut report = LossListWriter::new(self.report_bytes as usize);
        let missing = self.buffer.missing();
        let patience = match self.repair {
            Repair::Patient => round_trip.repair(),
            Repair::Timely => round_trip.timely_repair(),
        };
        self.gaps.poll(now, patience, missing, &mut report).then_some(report)
    }

    /// Returns the acknowledgement that is due.
    pub(crate) fn acknowledge(&mut self, now: Instant, round_trip: &RoundTripEstimate) -> Option<AckToSend> {
        // Packets that only probe for room are acknowledged when there is some: the peer then continues at once,
        // which a libudt sender does only if an acknowledgement advances.
        if self.told_full && self.buffer.is_full() {
            return None;
        }
        let next = self.buffer.next();
        let most_packets = self.buffer.packets() / WINDOW_PARTS;
        let received_end = self.buffer.received_end();
        self.acks.follow(&round_trip.view());
        let acknowledging = self.acks.poll(now, next..received_end, most_packets, round_trip.patience())?;
        Some(self.compose(now, acknowledging))
    }

    /// Returns an acknowledgement without new content: the peer answers it.
    pub(crate) fn ask(&mut self, now: Instant, round_trip: &RoundTripEstimate) -> AckToSend {
        let asking = self.acks.tell(now, self.buffer.next(), round_trip.patience());
        self.compose(now, asking)
    }

    fn compose(&mut self, now: Instant, acknowledging: Acknowledging) -> AckToSend {
        let (next, received_end) = (self.buffer.next(), self.buffer.received_end());
        let window_packets = u32::try_from(self.buffer.window()).unwrap_or(u32::MAX);
        let (number, with_rates, seen) = match acknowledging {
            Acknowledging::Light => {
                (None, false, Some(received_end).filter(|received_end| *received_end > next))
            }
            Acknowledging::Full { number, with_rates } => (Some(number), with_rates, None),
        };
        if number.is_some() {
            self.told_full = self.buffer.is_full();
        }
        let rates = with_rates.then(|| (self.rates.arrival(), self.rates.capacity()));
        let newest = if seen.is_some() { self.highest_arrived } else { self.newest_arrived };
        let age = newest.map(|arrived| now.since(arrived));
        AckToSend { number, next, seen, age, window_packets, rates }
    }

    /// Records the peer's answer to an acknowledgement.
    pub(crate) fn answered(&mut self, now: Instant, number: u32, round_trip: &mut RoundTripEstimate) {
        if let Some(sample) = self.acks.answered(now, number) {
            round_trip.sample(sample);
        }
    }

    /// Returns the time of the next call.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let acks = if self.told_full && self.buffer.is_full() { None } else { self.acks.deadline() };
        Instant::earlier(acks, self.gaps.deadline())
    }
}
