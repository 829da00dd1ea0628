//! Arbitrary valid datagrams, for property tests: one strategy for each kind.

use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU8;
use core::time::Duration;

use ledger::{AccountState, NetworkRows, Outcome, ReaderRows, Stage, StageCounts};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use sample::{Channel, Dtype, MAX_ELEMENTS_PER_SAMPLE, Schema, UnknownEntries};
use units::{Epoch, ReaderId, SampleRate, StreamId, WallTime};
use wire::{
    Announcement, Clock, Data, DataOrigin, Datagram, DatagramTotals, Deadline, Description,
    DescriptorExtensions, DescriptorParts, Fit, Inherited, MAX_HEADER_BYTES, MAX_HOPS, MAX_NONCES,
    MAX_TALLY_STATEMENT_BYTES, Nonce, Numbered, Origin, Predecessor, Report, Request, SampleTotals, Skipped,
    Tally, Totals, UpstreamHop, Waiting, Wanted, Withheld, max_elements, stream_id,
};

/// Room in the header of a tally for extensions of later versions.
const UNKNOWN_BYTES: usize = 256;

/// Size limits at which every kind is tried: the minimum, the two defaults, and beyond.
const DATAGRAM_BYTES: [usize; 4] = [548, 1_452, 1_472, 8_972];

/// Any datagram of any kind, encoded.
pub(crate) fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let control = prop_oneof![
        tally().prop_map(Datagram::Tally),
        report().prop_map(|report| Datagram::Report(Box::new(report))),
        announcement().prop_map(Datagram::Announcement),
        request().prop_map(Datagram::Request),
    ];
    prop_oneof![
        slice().prop_map(|slice| slice.encoded()),
        control.prop_map(|datagram| encoded(&datagram)),
        (numbered_with_predecessor(), description(), addresses(), relayed(), any::<prop::sample::Index>())
            .prop_map(|((head, predecessor), description, addresses, (origin, deadline), index)| {
                let origin = origin.map(|origin| origin.of(&head));
                let extensions =
                    DescriptorExtensions { predecessor, addresses: &addresses, origin, deadline };
                let parts = DescriptorParts::with_extensions(&description, &extensions, 548).unwrap();
                let index = u16::try_from(index.index(usize::from(parts.count()))).unwrap();
                encoded(&Datagram::Descriptor(parts.part(index, head).unwrap()))
            }),
    ]
}

/// Encodes into a buffer that holds the largest datagram.
pub(crate) fn encoded(datagram: &Datagram<'_>) -> Vec<u8> {
    let mut buffer = vec![0; 16_384];
    let size = datagram.encode(&mut buffer).unwrap();
    buffer.truncate(size);
    buffer
}

/// A data datagram that owns its payload.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    head: Numbered,
    t0: WallTime,
    clock: Clock,
    dtype: Dtype,
    origin: Option<DataOrigin>,
    payload: Vec<u8>,
}

impl Slice {
    pub(crate) fn data(&self) -> Data<'_> {
        let element_count = u32::try_from(self.payload.len() / self.dtype.size_bytes()).unwrap();
        let Self { head, t0, clock, dtype, ref origin, ref payload } = *self;
        Data { head, t0, clock, dtype, element_count, origin: origin.as_ref(), payload }
    }

    pub(crate) fn encoded(&self) -> Vec<u8> {
        encoded(&Datagram::Data(self.data()))
    }
}

/// Whole samples or a piece of one, as full as a sender may make it.
pub(crate) fn slice() -> impl Strategy<Value = Slice> {
    let limit = prop::sample::select(&DATAGRAM_BYTES[..]);
    let parts = (numbered(), any::<i64>(), any::<u8>(), prop::sample::select(&Dtype::ALL[..]), limit);
    (parts, relayed(), any::<u32>(), any::<u8>()).prop_map(|(parts, (origin, _), count, fill)| {
        let (head, t0, clock, dtype, limit) = parts;
        let per_sample = head.elements_per_sample;
        let (element_offset, element_count) = match max_elements(limit, dtype, per_sample) {
            Fit::Samples(most) => (0, (1 + count % most) * per_sample),
            Fit::Pieces(most) => {
                let left = per_sample - head.element_offset;
                (head.element_offset, 1 + count % most.min(left))
            }
        };
        let head = Numbered { element_offset, ..head };
        let payload = vec![fill; element_count as usize * dtype.size_bytes()];
        let age = (fill > 7).then(|| Duration::from_millis(count.into()));
        let origin = origin.map(|origin| DataOrigin::new(origin.of(&head), age));
        let (t0, clock) = (WallTime::from_nanos(t0), Clock::from_code(clock));
        Slice { head, t0, clock, dtype, origin, payload }
    })
}

prop_compose! {
    /// A head anywhere in a stream of small or huge samples.
    pub(crate) fn numbered()(
        stream in any::<u64>(),
        epoch in epoch(),
        number in 0..u64::MAX,
        first_index in 0..u64::MAX >> 30,
        elements_per_sample in prop_oneof![1..64_u32, 1..=MAX_ELEMENTS_PER_SAMPLE],
        offset in any::<u32>(),
    ) -> Numbered {
        let element_offset = offset % elements_per_sample;
        Numbered { stream: StreamId(stream), epoch, number, first_index, element_offset, elements_per_sample }
    }
}

prop_compose! {
    /// A head, and an earlier epoch where there can be one.
    fn numbered_with_predecessor()(
        head in numbered(),
        is_known in any::<bool>(),
        (back, incarnation, next_number, is_final) in any::<(u64, u64, u64, bool)>(),
    ) -> (Numbered, Option<Predecessor>) {
        let start_ns = head.epoch.start_ns.checked_sub(1 + back % head.epoch.start_ns.max(1));
        let predecessor = start_ns.filter(|_| is_known).map(|start_ns| Predecessor {
            epoch: Epoch { start_ns, incarnation },
            next_number,
            next_index: head.first_index,
            element_offset: head.element_offset,
            is_final,
        });
        (head, predecessor)
    }
}

/// Addresses, some of them invalid as a source, and more than can be listed.
fn addresses() -> impl Strategy<Value = Vec<IpAddr>> {
    prop_oneof![Just(Vec::new()), vec(any::<IpAddr>(), 0..12)]
}

/// What is random in the origin of a datagram.
#[derive(Clone, Copy, Debug)]
struct Hop {
    start_ns: u64,
    incarnation: u64,
    hop: u8,
}

impl Hop {
    /// Returns an origin of another epoch than the datagram's.
    fn of(self, head: &Numbered) -> Origin {
        let incarnation = head.epoch.incarnation.wrapping_add(self.incarnation.max(1));
        let hop = NonZeroU8::new(self.hop).expect("hops of origins begin with 1");
        Origin { epoch: Epoch { start_ns: self.start_ns, incarnation }, hop }
    }
}

/// An origin and a deadline, or none.
fn relayed() -> impl Strategy<Value = (Option<Hop>, Option<Deadline>)> {
    let hop = (any::<u64>(), any::<u64>(), 1..=8_u8);
    let hop = hop.prop_map(|(start_ns, incarnation, hop)| Hop { start_ns, incarnation, hop });
    let deadline = (1..u64::MAX, any::<u8>())
        .prop_map(|(nanos, priority)| Deadline { end_to_end: Duration::from_nanos(nanos), priority });
    (prop::option::of(hop), prop::option::of(deadline))
}

prop_compose! {
    /// A hop with losses of any stages, which can be added up over all hops.
    fn upstream_hop()(
        station in "[a-zö0-9-]{0,16}",
        lost in stage_counts(),
        unexplained in 0..u64::MAX >> 8,
    ) -> UpstreamHop {
        UpstreamHop { station, lost, unexplained }
    }
}

/// An outcome of any stage, or none.
fn outcome() -> impl Strategy<Value = Outcome> {
    let lost = prop::sample::select(&Stage::ALL[..]).prop_map(Outcome::Lost);
    prop_oneof![lost, Just(Outcome::Unexplained), Just(Outcome::Unsettled)]
}

/// The waiting state of a reader, or none.
fn waiting() -> impl Strategy<Value = Option<Waiting>> {
    any::<Option<(i64, bool, Option<u64>)>>().prop_map(|waiting| {
        waiting.map(|(since, from_beginning, deadline)| Waiting {
            since: WallTime::from_nanos(since),
            from_beginning,
            deadline: deadline.map(|nanos| Duration::from_nanos(nanos.max(1))),
        })
    })
}

prop_compose! {
    fn epoch()(start_ns in any::<u64>(), incarnation in any::<u64>()) -> Epoch {
        Epoch { start_ns, incarnation }
    }
}

prop_compose! {
    fn totals()(samples in any::<[u64; 6]>(), datagrams in any::<[u64; 6]>()) -> Totals {
        let [offered, numbered, source, publisher_queue, publisher_paused, queued] = samples;
        let samples =
            SampleTotals { offered, numbered, source, publisher_queue, publisher_paused, queued };
        let [injected, sender_socket, sender_ip, sender_qdisc, sender_nic, bytes] = datagrams;
        let datagrams =
            DatagramTotals { injected, sender_socket, sender_ip, sender_qdisc, sender_nic, bytes };
        Totals { samples, datagrams }
    }
}

prop_compose! {
    /// Ranges that end at `end` or before it.
    fn ranges(end: u64, stages: &'static [Stage])(
        ranges in vec((any::<u64>(), any::<u64>(), prop::sample::select(stages)), 0..=16),
    ) -> Vec<(core::ops::Range<u64>, Stage)> {
        let nonempty = ranges.into_iter().filter(|_| end > 0);
        nonempty.map(|(start, len, stage)| {
            let start = start % end;
            (start..start + 1 + len % (end - start), stage)
        }).collect()
    }
}

pub(crate) fn tally() -> impl Strategy<Value = Tally> {
    numbered().prop_flat_map(|head| {
        let withheld =
            [Stage::Injected, Stage::SenderSocket, Stage::SenderIp, Stage::SenderQdisc, Stage::SenderNic];
        let skipped = [Stage::Source, Stage::PublisherQueue, Stage::PublisherPaused];
        let withheld = ranges(head.number, Box::leak(Box::new(withheld)));
        let skipped = ranges(head.position(), Box::leak(Box::new(skipped)));
        let skipped = (skipped, vec((0..8_u8, outcome()), 16))
            .prop_map(|(ranges, outcomes)| ranges.into_iter().zip(outcomes).collect::<Vec<_>>());
        let scalars = (
            any::<[bool; 3]>(),
            any::<u64>(),
            any::<u32>(),
            any::<u64>(),
            totals(),
            vec(any::<u64>(), 0..=MAX_NONCES),
            vec(any::<u8>(), 0..=MAX_TALLY_STATEMENT_BYTES - UNKNOWN_BYTES),
        );
        let path = (relayed(), vec(upstream_hop(), MAX_HOPS), any::<bool>());
        (Just(head), scalars, withheld, skipped, path).prop_map(|(head, scalars, withheld, skipped, path)| {
            let (
                [last, paused, watched],
                next_tally,
                readers,
                report_interval,
                totals,
                nonces,
                mut statement,
            ) = scalars;
            let ((origin, _), mut upstream, is_told) = path;
            let origin = origin.map(|origin| origin.of(&head));
            upstream.truncate(origin.filter(|_| is_told).map_or(0, |origin| usize::from(origin.hop.get())));
            let limit = MAX_HEADER_BYTES - UNKNOWN_BYTES;
            assert!(UpstreamHop::fold(&mut upstream, Tally::room_for_upstream(limit)), "short names");
            let skipped = skipped.into_iter().map(|((positions, stage), (hop, outcome))| {
                let before = origin.map_or(0, |origin| origin.hop.get());
                let is_told = is_told && stage == Stage::Source && hop < before;
                let inherited = is_told.then_some(Inherited { hop, outcome, cause: None });
                Skipped { positions, stage, inherited }
            });
            let skipped: Vec<_> = skipped.collect();
            let relayed_bytes = wire::relayed_bytes(origin, &upstream, &skipped);
            statement.truncate(Tally::room_for_statement(limit, relayed_bytes, nonces.len(), 0));
            Tally {
                head,
                last,
                paused,
                watched,
                next_tally: Duration::from_nanos(next_tally),
                readers,
                report_interval: Duration::from_nanos(report_interval),
                totals,
                withheld: withheld.into_iter().map(|(numbers, stage)| Withheld { numbers, stage }).collect(),
                skipped,
                nonces: nonces.into_iter().map(Nonce::new).collect(),
                statement,
                origin,
                upstream,
            }
        })
    })
}

prop_compose! {
    fn stage_counts()(
        counts in btree_map(prop::sample::select(&Stage::ALL[..]), 1..u64::MAX >> 8, 0..=StageCounts::LEN),
    ) -> StageCounts {
        let mut lost = StageCounts::default();
        for (stage, count) in counts {
            lost[stage] = count;
        }
        lost
    }
}

prop_compose! {
    pub(crate) fn report()(
        (stream, reader, age) in any::<(u64, u64, u64)>(),
        epoch in epoch(),
        name in "[a-zäöü -]{0,16}",
        state in prop::sample::select(vec![
            AccountState::Open, AccountState::Closed, AccountState::Cut, AccountState::Unconfirmed,
        ]),
        receive_buffer_bytes in any::<u32>(),
        counts in any::<[u32; 14]>(),
        per_sample in 0..1_000_000_u32,
        network_lost in stage_counts(),
        reader_lost in stage_counts(),
        waiting in waiting(),
    ) -> Report {
        let counts = counts.map(u64::from);
        let datagrams = NetworkRows {
            first: counts[0],
            next: counts[0] + counts[1],
            received: counts[2],
            lost: network_lost,
            unexplained: counts[3],
            unsettled: counts[4],
            in_flight: counts[5],
            duplicates: counts[6],
            before_join: counts[7],
        };
        let elements = ReaderRows {
            first: counts[8],
            next: counts[8] + counts[9],
            per_sample,
            delivered: counts[10],
            lost: reader_lost,
            unexplained: counts[11],
            unsettled: counts[12],
            in_flight: counts[13],
        };
        let (stream, reader, age) = (StreamId(stream), ReaderId(reader), Duration::from_nanos(age));
        Report { stream, epoch, reader, name, state, age, receive_buffer_bytes, datagrams, elements, waiting }
    }
}

prop_compose! {
    fn rate()(numerator in 1..=u32::MAX, denominator in 1..=u32::MAX) -> SampleRate {
        SampleRate::new(numerator, denominator).unwrap()
    }
}

prop_compose! {
    pub(crate) fn announcement()(
        (stream, period, port, report_port) in any::<(u64, u64, u16, u16)>(),
        epoch in epoch(),
        name in "[a-z]{1,9}(/[a-zµ0-9_.-]{3,9}){0,3}",
        address in any::<IpAddr>().prop_filter("an address to send to", |address| !address.is_unspecified()),
        dtype in prop::sample::select(&Dtype::ALL[..]),
        rate in rate(),
        channels in 1..=4_096_u32,
        elements_per_sample in 1..=MAX_ELEMENTS_PER_SAMPLE,
        station in "[a-z0-9-]{0,63}",
    ) -> Announcement {
        Announcement {
            stream: StreamId(stream),
            epoch,
            name: name.parse().unwrap(),
            group: SocketAddr::new(address, port.max(1)),
            report_port,
            dtype,
            rate,
            channels,
            elements_per_sample,
            station,
            period: Duration::from_nanos(period),
        }
    }
}

prop_compose! {
    pub(crate) fn request()(
        stream in any::<u64>(),
        epoch in epoch(),
        reader in any::<u64>(),
        what in prop::sample::select(&[Wanted::Descriptor, Wanted::Data][..]),
        waiting in waiting(),
        nonce in prop::option::of(any::<u64>().prop_map(Nonce::new)),
    ) -> Request {
        Request { stream: StreamId(stream), epoch, reader: ReaderId(reader), what, waiting, nonce }
    }
}

prop_compose! {
    fn channel()(
        unit in "[a-zA-Zµ/²]{0,8}",
        shape in vec(1..8_u32, 0..4),
        scale in prop_oneof![Just(1.0), prop::num::f64::NORMAL],
        offset in prop_oneof![Just(0.0), prop::num::f64::NORMAL | prop::num::f64::ZERO],
    ) -> Channel {
        Channel { name: String::new(), unit, shape, scale, offset, unknown: UnknownEntries::new() }
    }
}

/// Entries of a later version, from `first` on: integers, texts, nested lists.
fn unknown(first: u32) -> impl Strategy<Value = UnknownEntries> {
    let value = prop_oneof![
        Just(vec![0x07]),
        Just(vec![0x62, b'h', b'i']),
        Just(vec![0x82, 0x01, 0x81, 0xa1, 0x00, 0xf6]),
        Just(vec![0xfb, 0x40, 0x09, 0x21, 0xfb, 0x54, 0x44, 0x2d, 0x18]),
    ];
    prop_oneof![Just(UnknownEntries::new()), btree_map(first..first + 300, value, 0..4)]
}

prop_compose! {
    pub(crate) fn description()(
        name in "[a-z]{1,9}(/[a-zµ0-9_.-]{3,9}){0,3}",
        dtype in prop::sample::select(&Dtype::ALL[..]),
        rate in rate(),
        mut channels in vec(channel(), 1..60),
        labels in btree_map("[a-zé]{0,40}", "[a-zé ]{0,40}", 0..8),
        report_port in any::<u16>(),
        station in "[a-z0-9-]{0,63}",
        later in (unknown(4), unknown(4), unknown(5)),
    ) -> Description {
        for (index, channel) in channels.iter_mut().enumerate() {
            channel.name = format!("channel {index}");
        }
        let mut schema = Schema::new(dtype, rate, channels).unwrap();
        schema.labels = labels;
        let unknown;
        (unknown, schema.unknown, schema.channels[0].unknown) = later;
        Description { name: name.parse().unwrap(), schema, report_port, station, unknown }
    }
}

/// The head of a datagram of the stream that `description` describes.
pub(crate) fn head_of(description: &Description) -> Numbered {
    Numbered {
        stream: stream_id(&description.name, &description.schema),
        epoch: Epoch { start_ns: 1, incarnation: 2 },
        number: 3,
        first_index: 4,
        element_offset: 0,
        elements_per_sample: description.schema.elements_per_sample(),
    }
}
