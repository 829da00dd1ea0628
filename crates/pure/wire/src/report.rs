//! Reports: a reader's account, sent to the publisher.
//!
//! The rows are cumulative, so that the latest report replaces all earlier ones and a lost one costs nothing. They
//! inform the publisher only: no settlement depends on them.

use core::time::Duration;

use ledger::{AccountState, NetworkRows, ReaderRows, Stage, StageCounts};
use units::{Epoch, ReaderId, StreamId};
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

use crate::extension::{self, ExtensionType, Waiting};
use crate::header::{self, Kind, Sealed};
use crate::layout::{self, Common, StageRecord};
use crate::malformed::{BufferTooSmall, Reason};
use crate::{tally, text};

/// Maximum length of a reader's name: reports share a small budget. Units: bytes.
pub const MAX_READER_NAME_BYTES: usize = 32;

/// The states of an account, by their codes.
pub(crate) const STATES: [AccountState; 4] =
    [AccountState::Open, AccountState::Closed, AccountState::Cut, AccountState::Unconfirmed];

const HEADER_BYTES: usize = layout::Report::SIZE_BYTES;

/// A reader's account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The stream.
    pub stream: StreamId,
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// The reader.
    pub reader: ReaderId,
    /// The reader's name, at most [`MAX_READER_NAME_BYTES`] long.
    pub name: String,
    /// State of the account.
    pub state: AccountState,
    /// Age of the rows when the report was sent.
    pub age: Duration,
    /// Size of the reader's socket receive buffer in the kernel, including the kernel's overhead; 0 if unknown.
    pub receive_buffer_bytes: u32,
    /// The network counters. As decoded, they may not balance, but they can be added up.
    pub datagrams: NetworkRows,
    /// The reader counters; as decoded, they may not balance, but they can be added up.
    pub elements: ReaderRows,
    /// Start and kind of the reader's wait.
    pub waiting: Option<Waiting>,
}

impl Report {
    /// Writes the datagram to the start of `out` and returns its size.
    ///
    /// A name that is too long is truncated between two characters.
    ///
    /// # Errors
    /// [`BufferTooSmall`] if `out` is shorter than the datagram.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let name = text::cut(&self.name, MAX_READER_NAME_BYTES).as_bytes();
        let (datagram_stages, element_stages) =
            (self.datagrams.lost.nonzero().count(), self.elements.lost.nonzero().count());
        let records_bytes = (datagram_stages + element_stages) * StageRecord::SIZE_BYTES;
        let waiting = self.waiting.map(Waiting::value);
        let extension_bytes = extension::size_bytes(waiting.as_ref());
        let header_bytes = HEADER_BYTES + extension_bytes;
        let out = header::place(out, header_bytes + name.len() + records_bytes)?;
        extension::put(&mut out[HEADER_BYTES..], ExtensionType::Waiting, waiting.as_ref());
        let (name_place, places) = out[header_bytes..].split_at_mut(name.len());
        name_place.copy_from_slice(name);
        let lost = self.datagrams.lost.nonzero().chain(self.elements.lost.nonzero());
        for ((stage, count), place) in lost.zip(places.chunks_exact_mut(StageRecord::SIZE_BYTES)) {
            let record = StageRecord { count: count.into(), stage: stage.code() };
            record.write_to(place).expect("the place of one record");
        }
        let mut header = self.header(header_bytes, name.len() + records_bytes);
        header.name_bytes = count(name.len());
        header.datagram_stages = count(datagram_stages);
        header.element_stages = count(element_stages);
        header.payload_crc = header::crc32c(&out[header_bytes..]).into();
        header::seal_extended(header, extension_bytes, out);
        Ok(out.len())
    }

    pub(crate) fn read(sealed: &Sealed<'_>) -> Result<Self, Reason> {
        let (header, extensions): (&layout::Report, _) = sealed.extended()?;
        let payload = sealed.checked_payload(header.payload_crc.get())?;
        let (name, records) =
            payload.split_at_checked(usize::from(header.name_bytes)).ok_or(Reason::Length)?;
        let records = <[StageRecord]>::ref_from_bytes(records).map_err(|_| Reason::Length)?;
        if records.len() != usize::from(header.datagram_stages) + usize::from(header.element_stages) {
            return Err(Reason::Length);
        }
        let (datagrams, elements) = records.split_at(usize::from(header.datagram_stages));
        Ok(Self {
            stream: sealed.common.stream(),
            epoch: sealed.common.epoch(),
            reader: ReaderId(header.reader.get()),
            name: text::read(name, MAX_READER_NAME_BYTES, "name")?,
            state: *STATES.get(usize::from(header.state)).ok_or(Reason::Field("state"))?,
            age: Duration::from_nanos(header.age_ns.get()),
            receive_buffer_bytes: header.receive_buffer_bytes.get(),
            datagrams: header.datagrams(datagrams)?,
            elements: header.elements(elements)?,
            waiting: extensions.value(ExtensionType::Waiting).map(Waiting::read).transpose()?,
        })
    }

    fn header(&self, header_bytes: usize, payload_bytes: usize) -> layout::Report {
        let Self { datagrams, elements, .. } = self;
        layout::Report {
            common: Common::new(Kind::Report, header_bytes, payload_bytes, self.stream, self.epoch),
            reader: self.reader.0.into(),
            age_ns: tally::nanos(self.age).into(),
            payload_crc: 0.into(),
            state: state_code(self.state),
            name_bytes: 0,
            datagram_stages: 0,
            element_stages: 0,
            datagrams_first: datagrams.first.into(),
            datagrams_next: datagrams.next.into(),
            datagrams_received: datagrams.received.into(),
            datagrams_unexplained: datagrams.unexplained.into(),
            datagrams_unsettled: datagrams.unsettled.into(),
            datagrams_in_flight: datagrams.in_flight.into(),
            datagrams_duplicates: datagrams.duplicates.into(),
            datagrams_before_join: datagrams.before_join.into(),
            elements_first: elements.first.into(),
            elements_next: elements.next.into(),
            elements_delivered: elements.delivered.into(),
            elements_unexplained: elements.unexplained.into(),
            elements_unsettled: elements.unsettled.into(),
            elements_in_flight: elements.in_flight.into(),
            elements_per_sample: elements.per_sample.into(),
            receive_buffer_bytes: self.receive_buffer_bytes.into(),
        }
    }
}

impl layout::Report {
    fn datagrams(&self, lost: &[StageRecord]) -> Result<NetworkRows, Reason> {
        let rows = NetworkRows {
            first: self.datagrams_first.get(),
            next: self.datagrams_next.get(),
            received: self.datagrams_received.get(),
            lost: stages(lost)?,
            unexplained: self.datagrams_unexplained.get(),
            unsettled: self.datagrams_unsettled.get(),
            in_flight: self.datagrams_in_flight.get(),
            duplicates: self.datagrams_duplicates.get(),
            before_join: self.datagrams_before_join.get(),
        };
        check_span(rows.first, rows.next, 1)?;
        let counts = [rows.received, rows.unexplained, rows.unsettled, rows.in_flight];
        check_sum(&counts, lost).map(|()| rows)
    }

    fn elements(&self, lost: &[StageRecord]) -> Result<ReaderRows, Reason> {
        let rows = ReaderRows {
            first: self.elements_first.get(),
            next: self.elements_next.get(),
            per_sample: self.elements_per_sample.get(),
            delivered: self.elements_delivered.get(),
            lost: stages(lost)?,
            unexplained: self.elements_unexplained.get(),
            unsettled: self.elements_unsettled.get(),
            in_flight: self.elements_in_flight.get(),
        };
        check_span(rows.first, rows.next, rows.per_sample)?;
        let counts = [rows.delivered, rows.unexplained, rows.unsettled, rows.in_flight];
        check_sum(&counts, lost).map(|()| rows)
    }
}

/// Checks that the left side of the law can be computed in 64 bits.
fn check_span(first: u64, next: u64, units: u32) -> Result<(), Reason> {
    let span = next.checked_sub(first).and_then(|steps| steps.checked_mul(u64::from(units)));
    span.map(|_| ()).ok_or(Reason::Field("next"))
}

/// Checks that the right side of the law can be computed in 64 bits.
fn check_sum(rows: &[u64], lost: &[StageRecord]) -> Result<(), Reason> {
    let lost = lost.iter().map(|record| record.count.get());
    let sum = rows.iter().copied().chain(lost).try_fold(0_u64, u64::checked_add);
    sum.map(|_| ()).ok_or(Reason::Field("count"))
}

/// Returns the state's code: its index in `STATES`.
fn state_code(state: AccountState) -> u8 {
    match state {
        AccountState::Open => 0,
        AccountState::Closed => 1,
        AccountState::Cut => 2,
        AccountState::Unconfirmed => 3,
    }
}

/// Reads the losses in one unit or on one hop: every stage once, in the order of the path, none of them empty.
pub(crate) fn stages(records: &[StageRecord]) -> Result<StageCounts, Reason> {
    let mut counts = StageCounts::default();
    if !records.is_sorted_by(|before, after| before.stage < after.stage) {
        return Err(Reason::Field("stage"));
    }
    for record in records {
        let stage = Stage::from_code(record.stage).ok_or(Reason::Field("stage"))?;
        if record.count == U64::ZERO {
            return Err(Reason::Field("count"));
        }
        counts[stage] = record.count.get();
    }
    Ok(counts)
}

fn count(small: usize) -> u8 {
    u8::try_from(small).expect("at most 32 bytes and 25 stages")
}
