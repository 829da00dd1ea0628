//! Tallies: the publisher's running totals, and the newest ranges that it could not send.
//!
//! Totals are cumulative since the epoch began, so that any tally repairs the loss of all earlier ones. Ranges list
//! numbers and positions exactly, but only the newest fit.

use core::ops::Range;
use core::time::Duration;

use ledger::Stage;
use serde::Serialize;
use zerocopy::{FromBytes, IntoBytes};

use crate::extension::{self, ExtensionType, MAX_NONCES, Nonce};
use crate::header::{self, Kind, Numbered, Sealed};
use crate::layout::{self, RangeRecord};
use crate::malformed::{BufferTooSmall, Reason};
use crate::relayed::{
    Inherited, MAX_INHERITED, MAX_UPSTREAM_BYTES, ORIGIN_BYTES, Origin, UpstreamHop, inherited_bytes,
    relayed_bytes,
};
use crate::secured::secured_bytes;

/// Maximum number of ranges in one tally, withheld and skipped together: with them a tally still fits into the
/// default datagram, and 16 new ones call for the next tally, so that each is sent twice.
pub const MAX_RANGES: usize = 32;
/// Size of a tally's header. Units: bytes.
pub const TALLY_HEADER_BYTES: usize = layout::Tally::SIZE_BYTES;

/// Maximum size of a statement in a tally: it shares the header with all nonces and the extension that secures the
/// tally. Units: bytes.
pub const MAX_TALLY_STATEMENT_BYTES: usize =
    (MAX_PLAIN_HEADER_BYTES - TALLY_HEADER_BYTES - nonces_bytes(MAX_NONCES))
        - layout::ExtensionHead::SIZE_BYTES;

/// Maximum size of a tally's header before it is secured.
const MAX_PLAIN_HEADER_BYTES: usize =
    header::MAX_HEADER_BYTES - (secured_bytes(Kind::Tally) - keys::TAG_BYTES);

// The hops of the longest chain, the outcomes before them, the origin and all nonces fit into one header, beside the extension that secures it.
const _: () = assert!(
    TALLY_HEADER_BYTES
        + ORIGIN_BYTES
        + extension::padded_bytes(MAX_UPSTREAM_BYTES)
        + nonces_bytes(MAX_NONCES)
        + inherited_bytes(MAX_INHERITED)
        <= MAX_PLAIN_HEADER_BYTES
);

const WITHHELD_STAGES: [Stage; 5] =
    [Stage::Injected, Stage::SenderSocket, Stage::SenderIp, Stage::SenderQdisc, Stage::SenderNic];
const SKIPPED_STAGES: [Stage; 3] = [Stage::Source, Stage::PublisherQueue, Stage::PublisherPaused];

/// The publisher's running totals.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    /// The tally's own number, and the horizon as its position.
    pub head: Numbered,
    /// True if the epoch ends with this number.
    pub last: bool,
    /// True if samples are skipped as `publisher_paused` until a reader is heard.
    pub paused: bool,
    /// True if kernel drops on the publisher's host are seen and reported to the publisher: a datagram that
    /// neither host dropped was lost between them.
    pub watched: bool,
    /// Maximum time until the next tally.
    pub next_tally: Duration,
    /// Number of readers whose reports the publisher receives.
    pub readers: u32,
    /// Interval of each reader's reports, which keeps all of them within the budget.
    pub report_interval: Duration,
    /// The totals since the epoch began.
    pub totals: Totals,
    /// The newest ranges of numbers that were never sent; all below `head.number`, oldest first.
    pub withheld: Vec<Withheld>,
    /// The newest ranges of positions lost before they were numbered; all below the horizon, oldest first.
    pub skipped: Vec<Skipped>,
    /// Nonces that readers asked to be repeated; at most [`MAX_NONCES`].
    pub nonces: Vec<Nonce>,
    /// The publisher's signed statement of digests, of at most [`MAX_TALLY_STATEMENT_BYTES`]; empty: none.
    pub statement: Vec<u8>,
    /// Origin of relayed samples.
    pub origin: Option<Origin>,
    /// The hops before that of the origin, from the stream's publisher on, of at most [`MAX_UPSTREAM_BYTES`]; empty:
    /// not told.
    pub upstream: Vec<UpstreamHop>,
}

/// Outcome of all samples and datagrams of a publisher.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Totals {
    /// Outcome of the samples.
    pub samples: SampleTotals,
    /// Outcome of the numbered datagrams.
    pub datagrams: DatagramTotals,
}

/// Outcome of the samples since the epoch began, by index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SampleTotals {
    /// The index span so far.
    pub offered: u64,
    /// Samples that went into numbered datagrams.
    pub numbered: u64,
    /// Samples missing in the source.
    pub source: u64,
    /// Samples over which the ring lapped the sender.
    pub publisher_queue: u64,
    /// Samples not sent because no remote reader was heard.
    pub publisher_paused: u64,
    /// Samples that still wait for a number.
    pub queued: u64,
}

/// Outcome of the numbered datagrams below the tally's own number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DatagramTotals {
    /// Withheld as injected loss.
    pub injected: u64,
    /// Refused by the socket.
    pub sender_socket: u64,
    /// Refused by firewall, route or neighbour.
    pub sender_ip: u64,
    /// Dropped by the queue discipline.
    pub sender_qdisc: u64,
    /// Not sent by the network card.
    pub sender_nic: u64,
    /// Bytes of the datagrams that were sent.
    pub bytes: u64,
}

/// Assigned numbers that never left the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Withheld {
    /// The numbers; not empty.
    pub numbers: Range<u64>,
    /// `Injected`, `SenderSocket`, `SenderIp`, `SenderQdisc` or `SenderNic`.
    pub stage: Stage,
}

/// Positions that never got a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// The positions; not empty.
    pub positions: Range<u64>,
    /// `Source`, `PublisherQueue` or `PublisherPaused`.
    pub stage: Stage,
    /// Outcome on an earlier hop, only of stage `Source` in a relayed stream, and only of the newest
    /// [`MAX_INHERITED`] ranges of a tally; `None`: not told.
    pub inherited: Option<Inherited>,
}

impl Totals {
    /// Adds the totals of another epoch.
    pub const fn add(&mut self, other: &Self) {
        let Self { samples, datagrams } = self;
        let to = &other.samples;
        samples.offered = samples.offered.saturating_add(to.offered);
        samples.numbered = samples.numbered.saturating_add(to.numbered);
        samples.source = samples.source.saturating_add(to.source);
        samples.publisher_queue = samples.publisher_queue.saturating_add(to.publisher_queue);
        samples.publisher_paused = samples.publisher_paused.saturating_add(to.publisher_paused);
        samples.queued = samples.queued.saturating_add(to.queued);
        let to = &other.datagrams;
        datagrams.injected = datagrams.injected.saturating_add(to.injected);
        datagrams.sender_socket = datagrams.sender_socket.saturating_add(to.sender_socket);
        datagrams.sender_ip = datagrams.sender_ip.saturating_add(to.sender_ip);
        datagrams.sender_qdisc = datagrams.sender_qdisc.saturating_add(to.sender_qdisc);
        datagrams.sender_nic = datagrams.sender_nic.saturating_add(to.sender_nic);
        datagrams.bytes = datagrams.bytes.saturating_add(to.bytes);
    }
}

impl SampleTotals {
    /// Returns whether `offered = numbered + source + publisher_queue + publisher_paused + queued` (rule 3).
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        let parts = [self.numbered, self.source, self.publisher_queue, self.publisher_paused, self.queued];
        parts.into_iter().map(u128::from).sum::<u128>() == u128::from(self.offered)
    }
}

impl DatagramTotals {
    /// Counts the numbers that never left.
    #[must_use]
    pub fn withheld(&self) -> u64 {
        let stages = [self.injected, self.sender_socket, self.sender_ip, self.sender_qdisc, self.sender_nic];
        stages.into_iter().fold(0, u64::saturating_add)
    }
}

impl Tally {
    /// Returns the number of ranges that fit into a tally of at most `datagram_bytes`.
    #[must_use]
    pub const fn ranges_that_fit(datagram_bytes: usize) -> usize {
        let fit = datagram_bytes.saturating_sub(TALLY_HEADER_BYTES) / RangeRecord::SIZE_BYTES;
        if fit < MAX_RANGES { fit } else { MAX_RANGES }
    }

    /// Returns the room for a statement in a tally of at most `datagram_bytes` beside other extensions of
    /// [`relayed_bytes`], and this many nonces and ranges.
    #[must_use]
    pub const fn room_for_statement(
        datagram_bytes: usize,
        relayed_bytes: usize,
        nonces: usize,
        ranges: usize,
    ) -> usize {
        let others = TALLY_HEADER_BYTES + relayed_bytes + nonces_bytes(nonces);
        let in_datagram = datagram_bytes.saturating_sub(others + ranges * RangeRecord::SIZE_BYTES);
        let in_header = MAX_PLAIN_HEADER_BYTES.saturating_sub(others);
        let room = value_bytes(if in_datagram < in_header { in_datagram } else { in_header });
        if room < MAX_TALLY_STATEMENT_BYTES { room } else { MAX_TALLY_STATEMENT_BYTES }
    }

    /// Returns the room for the hops in a tally of at most `datagram_bytes`, beside its origin, all nonces and the
    /// outcomes of inherited ranges, without ranges or a statement.
    #[must_use]
    pub const fn room_for_upstream(datagram_bytes: usize) -> usize {
        let others =
            TALLY_HEADER_BYTES + ORIGIN_BYTES + nonces_bytes(MAX_NONCES) + inherited_bytes(MAX_INHERITED);
        let in_header = datagram_bytes < MAX_PLAIN_HEADER_BYTES;
        let limit = if in_header { datagram_bytes } else { MAX_PLAIN_HEADER_BYTES };
        value_bytes(limit.saturating_sub(others))
    }

    /// Writes the datagram to the start of `out` and returns its size.
    ///
    /// The length of `out` is the limit of the datagram. Extensions come first; ranges beyond the limit are omitted,
    /// the oldest (the first of each list) first; each list keeps at least half of the room if it needs it.
    ///
    /// # Errors
    /// [`BufferTooSmall`] if `out` is shorter than the header with its extensions.
    ///
    /// # Panics
    /// In debug builds, if [`crate::Datagram::decode`] would refuse the ranges or extensions.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, BufferTooSmall> {
        debug_assert_eq!(self.check(), Ok(()), "ranges that their own readers would refuse: {self:?}");
        let most_bytes = self.extension_bytes();
        let (withheld, skipped) = self.newest(Self::ranges_that_fit(out.len().saturating_sub(most_bytes)));
        let inherited = Inherited::list_value(skipped);
        let extension_bytes = most_bytes - Inherited::room_bytes(&self.skipped)
            + extension::size_bytes(extension::listed(&inherited));
        let header_bytes = TALLY_HEADER_BYTES + extension_bytes;
        let payload_bytes = (withheld.len() + skipped.len()) * RangeRecord::SIZE_BYTES;
        let out = header::place(out, header_bytes + payload_bytes)?;
        self.put_extensions(&inherited, &mut out[TALLY_HEADER_BYTES..header_bytes]);
        let withheld_records = withheld.iter().map(|range| RangeRecord::new(&range.numbers, range.stage));
        let skipped_records = skipped.iter().map(|range| RangeRecord::new(&range.positions, range.stage));
        let places = out[header_bytes..].chunks_exact_mut(RangeRecord::SIZE_BYTES);
        for (record, place) in withheld_records.chain(skipped_records).zip(places) {
            record.write_to(place).expect("the place of one record");
        }
        let mut header = self.header(header_bytes, payload_bytes);
        header.withheld_count = count(withheld.len());
        header.skipped_count = count(skipped.len());
        header.payload_crc = header::crc32c(&out[header_bytes..]).into();
        header::seal_extended(header, extension_bytes, out);
        Ok(out.len())
    }

    /// Returns the size of the extensions if no range is omitted.
    fn extension_bytes(&self) -> usize {
        relayed_bytes(self.origin, &self.upstream, &self.skipped)
            + extension::size_bytes(extension::listed(&self.statement))
            + extension::size_bytes(extension::listed(&self.nonces))
    }

    fn put_extensions(&self, inherited: &[u8], place: &mut [u8]) {
        let origin = self.origin.map(Origin::value);
        let upstream = UpstreamHop::list_value(&self.upstream);
        let taken = extension::put(place, ExtensionType::Origin, origin.as_ref());
        let place = &mut place[taken..];
        let taken = extension::put(place, ExtensionType::Upstream, extension::listed(&upstream));
        let place = &mut place[taken..];
        let taken = extension::put(place, ExtensionType::Proof, extension::listed(&self.statement));
        let place = &mut place[taken..];
        let taken = extension::put(place, ExtensionType::Nonces, extension::listed(&self.nonces));
        extension::put(&mut place[taken..], ExtensionType::Inherited, extension::listed(inherited));
    }

    pub(crate) fn read(sealed: &Sealed<'_>) -> Result<Self, Reason> {
        let (header, extensions): (&layout::Tally, _) = sealed.extended()?;
        let payload = sealed.checked_payload(header.payload_crc.get())?;
        let (withheld_count, skipped_count) =
            (usize::from(header.withheld_count.get()), usize::from(header.skipped_count.get()));
        if withheld_count + skipped_count > MAX_RANGES {
            return Err(Reason::Field("withheld_count"));
        }
        let records = <[RangeRecord]>::ref_from_bytes(payload).map_err(|_| Reason::Length)?;
        if records.len() != withheld_count + skipped_count {
            return Err(Reason::Length);
        }
        if header.reserved != 0 {
            return Err(Reason::Field("reserved"));
        }
        let (withheld, skipped) = records.split_at(withheld_count);
        let nonces = extensions.value(ExtensionType::Nonces).map(|value| Nonce::read_list(value, MAX_NONCES));
        let upstream = extensions.value(ExtensionType::Upstream).map(UpstreamHop::read_list);
        let mut skipped = skipped.iter().map(Skipped::read).collect::<Result<Vec<_>, _>>()?;
        if let Some(value) = extensions.value(ExtensionType::Inherited) {
            Inherited::read_list(value, &mut skipped)?;
        }
        let tally = Self {
            head: sealed.numbered()?,
            last: flag(header.last, "last")?,
            paused: flag(header.paused, "paused")?,
            watched: flag(header.watched, "watched")?,
            next_tally: Duration::from_nanos(header.next_tally_ns.get()),
            readers: header.readers.get(),
            report_interval: Duration::from_nanos(header.report_interval_ns.get()),
            totals: Totals::read(header),
            withheld: withheld.iter().map(Withheld::read).collect::<Result<_, _>>()?,
            skipped,
            nonces: nonces.transpose()?.unwrap_or_default().to_vec(),
            statement: extensions.value(ExtensionType::Proof).unwrap_or_default().to_vec(),
            origin: Origin::among(&extensions)?,
            upstream: upstream.transpose()?.unwrap_or_default(),
        };
        tally.check().map(|()| tally)
    }

    fn header(&self, header_bytes: usize, payload_bytes: usize) -> layout::Tally {
        let Totals { samples, datagrams } = &self.totals;
        layout::Tally {
            group: self.head.group(Kind::Tally, header_bytes, payload_bytes),
            payload_crc: 0.into(),
            withheld_count: 0.into(),
            skipped_count: 0.into(),
            next_tally_ns: nanos(self.next_tally).into(),
            report_interval_ns: nanos(self.report_interval).into(),
            readers: self.readers.into(),
            last: u8::from(self.last),
            paused: u8::from(self.paused),
            watched: u8::from(self.watched),
            reserved: 0,
            samples_offered: samples.offered.into(),
            samples_numbered: samples.numbered.into(),
            samples_source: samples.source.into(),
            samples_publisher_queue: samples.publisher_queue.into(),
            samples_publisher_paused: samples.publisher_paused.into(),
            samples_queued: samples.queued.into(),
            datagrams_injected: datagrams.injected.into(),
            datagrams_sender_socket: datagrams.sender_socket.into(),
            datagrams_sender_ip: datagrams.sender_ip.into(),
            datagrams_sender_qdisc: datagrams.sender_qdisc.into(),
            datagrams_sender_nic: datagrams.sender_nic.into(),
            sent_bytes: datagrams.bytes.into(),
        }
    }

    /// Returns the newest ranges of each list, at most `room` of them together.
    fn newest(&self, room: usize) -> (&[Withheld], &[Skipped]) {
        let skipped_room = (room / 2).max(room - self.withheld.len().min(room));
        let skipped_kept = self.skipped.len().min(skipped_room);
        let withheld_kept = self.withheld.len().min(room - skipped_kept);
        let skipped = &self.skipped[self.skipped.len() - skipped_kept..];
        (&self.withheld[self.withheld.len() - withheld_kept..], skipped)
    }

    /// Checks that every range is below the number or the horizon, and of a permitted stage, and that the extensions
    /// are of this stream and leave room for the one that secures the tally.
    fn check(&self) -> Result<(), Reason> {
        let below = |range: &Range<u64>, limit: u64| !range.is_empty() && range.end <= limit;
        if !self.withheld.iter().all(|range| below(&range.numbers, self.head.number)) {
            return Err(Reason::Field("withheld"));
        }
        if !self.skipped.iter().all(|range| below(&range.positions, self.head.position())) {
            return Err(Reason::Field("skipped"));
        }
        let stages_fit = self.withheld.iter().all(|range| WITHHELD_STAGES.contains(&range.stage))
            && self.skipped.iter().all(|range| SKIPPED_STAGES.contains(&range.stage));
        if !stages_fit {
            return Err(Reason::Field("stage"));
        }
        self.origin.map_or(Ok(()), |origin| origin.check(&self.head))?;
        UpstreamHop::check_list(&self.upstream, self.origin)?;
        Inherited::check_list(&self.skipped, self.origin)?;
        if self.nonces.len() > MAX_NONCES {
            return Err(Reason::Field("nonces"));
        }
        let header_bytes = TALLY_HEADER_BYTES + self.extension_bytes();
        if self.statement.len() > MAX_TALLY_STATEMENT_BYTES || header_bytes > MAX_PLAIN_HEADER_BYTES {
            return Err(Reason::Field("proof"));
        }
        Ok(())
    }
}

impl Totals {
    fn read(header: &layout::Tally) -> Self {
        let samples = SampleTotals {
            offered: header.samples_offered.get(),
            numbered: header.samples_numbered.get(),
            source: header.samples_source.get(),
            publisher_queue: header.samples_publisher_queue.get(),
            publisher_paused: header.samples_publisher_paused.get(),
            queued: header.samples_queued.get(),
        };
        let datagrams = DatagramTotals {
            injected: header.datagrams_injected.get(),
            sender_socket: header.datagrams_sender_socket.get(),
            sender_ip: header.datagrams_sender_ip.get(),
            sender_qdisc: header.datagrams_sender_qdisc.get(),
            sender_nic: header.datagrams_sender_nic.get(),
            bytes: header.sent_bytes.get(),
        };
        Self { samples, datagrams }
    }
}

impl Withheld {
    fn read(record: &RangeRecord) -> Result<Self, Reason> {
        record.read().map(|(numbers, stage)| Self { numbers, stage })
    }
}

impl Skipped {
    fn read(record: &RangeRecord) -> Result<Self, Reason> {
        record.read().map(|(positions, stage)| Self { positions, stage, inherited: None })
    }
}

impl RangeRecord {
    fn new(range: &Range<u64>, stage: Stage) -> Self {
        let count = range.end.saturating_sub(range.start).into();
        Self { start: range.start.into(), count, stage: stage.code(), reserved: [0; 3] }
    }

    fn read(&self) -> Result<(Range<u64>, Stage), Reason> {
        let start = self.start.get();
        let end = start.checked_add(self.count.get()).ok_or(Reason::Field("count"))?;
        if self.reserved != [0; 3] {
            return Err(Reason::Field("reserved"));
        }
        Ok((start..end, Stage::from_code(self.stage).ok_or(Reason::Field("stage"))?))
    }
}

/// Returns the size of this many nonces in a header. Units: bytes.
const fn nonces_bytes(nonces: usize) -> usize {
    if nonces == 0 { 0 } else { extension::padded_bytes(nonces * size_of::<Nonce>()) }
}

/// Returns the size of the longest value whose extension fits into this room. Units: bytes.
const fn value_bytes(room_bytes: usize) -> usize {
    // Padded to 8 bytes.
    (room_bytes / 8 * 8).saturating_sub(layout::ExtensionHead::SIZE_BYTES)
}

/// Returns a duration in its wire encoding: at most 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn count(ranges: usize) -> zerocopy::byteorder::little_endian::U16 {
    u16::try_from(ranges).expect("at most 32 ranges").into()
}

/// Reads a byte that is 0 or 1.
pub(crate) fn flag(code: u8, field: &'static str) -> Result<bool, Reason> {
    match code {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Reason::Field(field)),
    }
}
