//! Golden datagrams: the bytes of one datagram of each kind, field by field, which must not change.
//!
//! A file that differs is a change of the protocol: it needs a new version, or the file is wrong. The failing test
//! prints the expected content.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::num::NonZeroU8;
use core::time::Duration;
use std::sync::LazyLock;

use ledger::{AccountState, NetworkRows, Outcome, ReaderRows, Stage, StageCounts};
use sample::{Channel, Dtype, Schema, StreamName};
use units::{Epoch, ReaderId, SampleRate, StreamId, WallTime};

use crate::layout;
use crate::{
    Announcement, Clock, Data, DataOrigin, Datagram, DatagramTotals, Deadline, Description,
    DescriptorExtensions, DescriptorParts, ExtensionType, Inherited, Kind, Nonce, Numbered, Origin,
    Predecessor, Reason, Report, Request, SampleTotals, Skipped, Tally, Totals, UpstreamHop, Waiting, Wanted,
    Withheld, stream_id,
};

macro_rules! golden {
    ($($test:ident: $file:literal = $datagram:expr;)+) => {$(
        #[test]
        fn $test() {
            let file = include_str!(concat!("../../../../docs/protocol/golden/", $file));
            check($file, file, &$datagram);
        }
    )+};
}

golden! {
    whole_samples_keep_their_bytes: "stream-data.hex" = Datagram::Data(data());
    a_piece_of_a_sample_keeps_its_bytes: "stream-data-piece.hex" = Datagram::Data(piece());
    a_tally_keeps_its_bytes: "stream-tally.hex" = Datagram::Tally(tally());
    a_final_tally_keeps_its_bytes: "stream-tally-final.hex" = Datagram::Tally(final_tally());
    a_descriptor_keeps_its_bytes: "stream-descriptor.hex" = Datagram::Descriptor(parts().part(0, head()).unwrap());
    a_report_keeps_its_bytes: "stream-report.hex" = Datagram::Report(Box::new(report()));
    an_ipv4_announcement_keeps_its_bytes: "stream-announcement-ipv4.hex" =
        Datagram::Announcement(announcement("239.84.18.52:7400"));
    an_ipv6_announcement_keeps_its_bytes: "stream-announcement-ipv6.hex" =
        Datagram::Announcement(announcement("[ff15::5443:0:1234]:7400"));
    a_tally_of_a_paused_publisher_keeps_its_bytes: "stream-tally-paused.hex" = Datagram::Tally(paused_tally());
    a_request_keeps_its_bytes: "stream-request.hex" = Datagram::Request(request());
    a_request_for_data_keeps_its_bytes: "stream-request-data.hex" =
        Datagram::Request(Request { what: Wanted::Data, ..request() });
    a_descriptor_with_a_predecessor_keeps_its_bytes: "stream-descriptor-predecessor.hex" =
        Datagram::Descriptor(parts_with(&preceded()).part(0, head()).unwrap());
    a_descriptor_with_addresses_keeps_its_bytes: "stream-descriptor-addresses.hex" =
        Datagram::Descriptor(parts_with(&addressed()).part(0, head()).unwrap());
    a_descriptor_with_predecessor_and_addresses_keeps_its_bytes: "stream-descriptor-extended.hex" =
        Datagram::Descriptor(parts_with(&extended_descriptor()).part(0, head()).unwrap());
    a_descriptor_with_an_origin_keeps_its_bytes: "stream-descriptor-origin.hex" =
        Datagram::Descriptor(parts_with(&originated()).part(0, head()).unwrap());
    a_descriptor_with_a_deadline_keeps_its_bytes: "stream-descriptor-deadline.hex" =
        Datagram::Descriptor(parts_with(&limited()).part(0, head()).unwrap());
    a_descriptor_with_all_extensions_keeps_its_bytes: "stream-descriptor-relayed.hex" =
        Datagram::Descriptor(parts_with(&relayed_descriptor()).part(0, head()).unwrap());
    a_report_of_a_waiting_reader_keeps_its_bytes: "stream-report-waiting.hex" =
        Datagram::Report(Box::new(Report { waiting: Some(waiting()), ..report() }));
    a_request_of_a_waiting_reader_keeps_its_bytes: "stream-request-waiting.hex" =
        Datagram::Request(Request { waiting: Some(waiting()), what: Wanted::Data, ..request() });
    a_request_with_a_nonce_keeps_its_bytes: "stream-request-nonce.hex" =
        Datagram::Request(Request { nonce: Some(Nonce::new(7)), ..request() });
    a_tally_with_nonces_keeps_its_bytes: "stream-tally-nonces.hex" =
        Datagram::Tally(Tally { nonces: vec![Nonce::new(7), Nonce::new(u64::MAX - 1)], ..tally() });
    a_tally_with_a_statement_keeps_its_bytes: "stream-tally-statement.hex" =
        Datagram::Tally(Tally { statement: b"a statement is opaque here".to_vec(), ..tally() });
    data_with_an_origin_keep_their_bytes: "stream-data-origin.hex" =
        Datagram::Data(Data { origin: Some(&OF_UNKNOWN_AGE), ..data() });
    data_with_an_age_keep_their_bytes: "stream-data-age.hex" =
        Datagram::Data(Data { origin: Some(&AGED), ..data() });
    a_tally_with_an_origin_keeps_its_bytes: "stream-tally-origin.hex" =
        Datagram::Tally(Tally { origin: Some(origin()), ..tally() });
    a_tally_with_hops_before_it_keeps_its_bytes: "stream-tally-upstream.hex" =
        Datagram::Tally(Tally { origin: Some(origin()), upstream: upstream(), ..tally() });
    a_tally_with_inherited_ranges_keeps_its_bytes: "stream-tally-inherited.hex" =
        Datagram::Tally(Tally { origin: Some(origin()), skipped: inherited(), ..tally() });
    a_tally_with_all_extensions_keeps_its_bytes: "stream-tally-relayed.hex" =
        Datagram::Tally(Tally {
            origin: Some(origin()),
            upstream: upstream(),
            skipped: inherited(),
            ..extended_tally()
        });
    a_tally_with_statement_and_nonces_keeps_its_bytes: "stream-tally-extended.hex" =
        Datagram::Tally(extended_tally());
}

/// Golden datagrams of a later version: those that this version reads, and those that it drops.
macro_rules! later {
    ($($test:ident: $file:literal = $extensions:ident behind $datagram:expr => $read:expr;)+) => {$(
        #[test]
        fn $test() {
            let file = include_str!(concat!("../../../../docs/protocol/golden/", $file));
            let expected = annotated(&extended(&$datagram, &$extensions));
            assert!(file == expected, "docs/protocol/golden/{} should say:\n{expected}", $file);
            let bytes = bytes_of(file);
            let read: fn(&Datagram<'_>) -> Option<Reason> = $read;
            let decoded = Datagram::decode(&bytes).map_err(|malformed| malformed.reason);
            match read(&$datagram) {
                None => assert_eq!(decoded.as_ref(), Ok(&$datagram)),
                Some(reason) => assert_eq!(decoded, Err(reason)),
            }
        }
    )+};
}

/// Three bytes of an unassigned type, and one of a kind that it does not belong to.
const UNKNOWN: [(u8, u8, &[u8]); 2] = [(8, 0, &[]), (200, 0, &[1, 2, 3])];
/// An unassigned type marked as critical.
const CRITICAL: [(u8, u8, &[u8]); 1] = [(200, 1, &[1, 2, 3])];

later! {
    data_of_a_later_version_are_read: "stream-data-later.hex" =
        UNKNOWN behind Datagram::Data(data()) => |_| None;
    a_tally_of_a_later_version_is_read: "stream-tally-later.hex" =
        UNKNOWN behind Datagram::Tally(tally()) => |_| None;
    a_descriptor_of_a_later_version_is_read: "stream-descriptor-later.hex" =
        UNKNOWN behind Datagram::Descriptor(parts_with(&preceded()).part(0, head()).unwrap()) => |_| None;
    a_report_of_a_later_version_is_read: "stream-report-later.hex" =
        UNKNOWN behind Datagram::Report(Box::new(report())) => |_| None;
    an_announcement_of_a_later_version_is_read: "stream-announcement-later.hex" =
        UNKNOWN behind Datagram::Announcement(announcement("239.84.18.52:7400")) => |_| None;
    a_request_of_a_later_version_is_read: "stream-request-later.hex" =
        UNKNOWN behind Datagram::Request(request()) => |_| None;
    data_with_an_unknown_critical_extension_are_dropped: "stream-data-critical.hex" =
        CRITICAL behind Datagram::Data(data()) => |_| Some(Reason::Extension(200));
}

/// Returns the plain golden datagrams, with and without extensions, by the names of their files.
pub(crate) fn examples() -> Vec<(&'static str, Vec<u8>)> {
    macro_rules! of {
        ($($name:literal),+) => {
            vec![$(($name, bytes_of(include_str!(concat!("../../../../docs/protocol/golden/stream-", $name, ".hex"))))),+]
        };
    }
    of![
        "data",
        "data-piece",
        "data-origin",
        "data-age",
        "tally-nonces",
        "tally-relayed",
        "descriptor-extended",
        "descriptor-relayed",
        "report-waiting",
        "announcement-ipv6",
        "request-nonce"
    ]
}

/// Compares the golden secured datagrams with the plain ones of the same names, secured.
#[test]
fn secured_datagrams_keep_their_bytes() {
    macro_rules! golden {
        ($($name:literal),+) => {
            [$(($name, include_str!(concat!("../../../../docs/protocol/golden/stream-", $name, "-secured.hex")))),+]
        };
    }
    let files = golden![
        "data",
        "data-origin",
        "tally-nonces",
        "tally-relayed",
        "descriptor-extended",
        "descriptor-relayed",
        "report-waiting",
        "announcement-ipv6",
        "request-nonce"
    ];
    let mut wrong = Vec::new();
    for (name, file) in files {
        let (_, plain) = examples().into_iter().find(|(example, _)| *example == name).unwrap();
        let expected = annotated(&crate::secured::tests::secured(&plain, keys::Suite::Aes256Gcm));
        if file != expected {
            wrong.push(format!("docs/protocol/golden/stream-{name}-secured.hex should say:\n{expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_identity_of_a_stream_never_changes() {
    let described = description();
    assert_eq!(stream_id(&described.name, &described.schema), stream());
}

/// Compares a file with a datagram, and the datagram with the decoded file.
fn check(name: &str, file: &str, datagram: &Datagram<'_>) {
    let mut buffer = [0; 1_452];
    let size = datagram.encode(&mut buffer).unwrap();
    let expected = annotated(&buffer[..size]);
    assert!(file == expected, "docs/protocol/golden/{name} should say:\n{expected}");
    let bytes = bytes_of(file);
    assert_eq!(Datagram::decode(&bytes).as_ref(), Ok(datagram));
}

fn bytes_of(file: &str) -> Vec<u8> {
    file.lines()
        .flat_map(|line| line.split('#').next().unwrap().split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

/// Encodes a datagram and appends extensions by the page's rules, independently of the encoder.
fn extended(datagram: &Datagram<'_>, extensions: &[(u8, u8, &[u8])]) -> Vec<u8> {
    let mut buffer = [0; 1_452];
    let size = datagram.encode(&mut buffer).unwrap();
    let header_bytes = usize::from(u16::from_le_bytes([buffer[6], buffer[7]]));
    let mut list = Vec::new();
    for (code, flags, value) in extensions {
        list.extend([*code, *flags, u8::try_from(value.len()).unwrap(), 0]);
        list.extend_from_slice(value);
        list.resize(list.len().next_multiple_of(8), 0);
    }
    let mut bytes = [&buffer[..header_bytes], &list, &buffer[header_bytes..size]].concat();
    let header_bytes = header_bytes + list.len();
    bytes[6..8].copy_from_slice(&u16::try_from(header_bytes).unwrap().to_le_bytes());
    bytes[8..12].fill(0);
    let crc = crc_fast::crc32_iscsi(&bytes[..header_bytes]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Formats a datagram as hexadecimal bytes, one field a line, followed by its name.
fn annotated(bytes: &[u8]) -> String {
    let kind = Kind::from_code(bytes[3]).unwrap();
    let own = match kind {
        Kind::Data => layout::Data::FIELDS,
        Kind::Tally => layout::Tally::FIELDS,
        Kind::Descriptor => layout::Descriptor::FIELDS,
        Kind::Report => layout::Report::FIELDS,
        Kind::Announcement => layout::Announcement::FIELDS,
        Kind::Request => layout::Request::FIELDS,
    };
    let group = if kind.is_numbered() { layout::Group::FIELDS } else { &[] };
    let fields = [layout::Common::FIELDS, group, own].concat();
    let own_bytes = fields.last().map(|(offset, size, _)| offset + size).unwrap();
    let header_bytes = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
    let line = |offset: usize, bytes: &[u8], name: &str| {
        let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:<48}# {offset:>4} {name}\n", hex.join(" "))
    };
    let header = fields.iter().map(|&(offset, size, name)| line(offset, &bytes[offset..offset + size], name));
    let (mut extensions, mut at) = (Vec::new(), own_bytes);
    while at < header_bytes {
        let length = usize::from(u16::from_le_bytes([bytes[at + 2], bytes[at + 3]]));
        let of_type = ExtensionType::ALL.into_iter().find(|of_type| of_type.code() == bytes[at]);
        let name = of_type.map_or("unknown", ExtensionType::name);
        extensions.push(line(at, &bytes[at..at + 4], &format!("extension {name}")));
        let end = (at + 4 + length).next_multiple_of(8);
        let value = bytes[at + 4..end].chunks(16).enumerate();
        extensions.extend(value.map(|(index, chunk)| line(at + 4 + 16 * index, chunk, name)));
        at = end;
    }
    let payload = bytes[header_bytes..].chunks(16).enumerate();
    let payload = payload.map(|(index, chunk)| line(header_bytes + 16 * index, chunk, "payload"));
    header.chain(extensions).chain(payload).collect()
}

fn stream() -> StreamId {
    StreamId(0x89ad_cf1e_1ebd_af13)
}

fn epoch() -> Epoch {
    Epoch { start_ns: 1_764_000_000_000_000_000, incarnation: 0x0123_4567_89ab_cdef }
}

fn head() -> Numbered {
    Numbered {
        stream: stream(),
        epoch: epoch(),
        number: 1_000,
        first_index: 36_000,
        element_offset: 0,
        elements_per_sample: 2,
    }
}

fn data() -> Data<'static> {
    Data {
        head: head(),
        t0: WallTime::from_nanos(1_764_000_100_000_000_000),
        clock: Clock::Ptp,
        dtype: Dtype::I16,
        element_count: 4,
        origin: None,
        payload: &[1, 0, 2, 0, 0xff, 0xff, 0xfe, 0xff],
    }
}

fn piece() -> Data<'static> {
    let head = Numbered { element_offset: 7, elements_per_sample: 1_000_000, ..head() };
    let t0 = WallTime::from_nanos(-1);
    let payload = &[0, 0, 0x80, 0x3f, 0, 0, 0, 0x40];
    let (clock, dtype) = (Clock::Recorded, Dtype::F4);
    Data { head, t0, clock, dtype, element_count: 2, origin: None, payload }
}

fn tally() -> Tally {
    let samples = SampleTotals {
        offered: 36_020,
        numbered: 35_900,
        source: 60,
        publisher_queue: 30,
        publisher_paused: 10,
        queued: 20,
    };
    let datagrams = DatagramTotals {
        injected: 9,
        sender_socket: 1,
        sender_ip: 0,
        sender_qdisc: 2,
        sender_nic: 4,
        bytes: 1_300_000,
    };
    Tally {
        head: head(),
        last: false,
        paused: false,
        watched: true,
        next_tally: Duration::from_millis(100),
        readers: 3,
        report_interval: Duration::from_secs(1),
        totals: Totals { samples, datagrams },
        withheld: vec![
            Withheld { numbers: 990..999, stage: Stage::Injected },
            Withheld { numbers: 999..1_000, stage: Stage::SenderSocket },
        ],
        skipped: vec![Skipped { positions: 71_000..71_120, stage: Stage::Source, inherited: None }],
        nonces: Vec::new(),
        statement: Vec::new(),
        origin: None,
        upstream: Vec::new(),
    }
}

fn extended_tally() -> Tally {
    Tally { statement: vec![1; 3], nonces: vec![Nonce::new(7)], ..tally() }
}

static OF_UNKNOWN_AGE: LazyLock<DataOrigin> = LazyLock::new(|| DataOrigin::new(origin(), None));
static AGED: LazyLock<DataOrigin> =
    LazyLock::new(|| DataOrigin::new(origin(), Some(Duration::from_micros(51_200))));

fn origin() -> Origin {
    let epoch = Epoch { start_ns: 1_763_990_000_000_000_000, incarnation: 0x1122_3344_5566_7788 };
    Origin { epoch, hop: NonZeroU8::new(2).unwrap() }
}

fn upstream() -> Vec<UpstreamHop> {
    let mut bus = StageCounts::of(Stage::Network, 40);
    bus[Stage::ReceiverSocketBuffer] = 6;
    let between = StageCounts::of(Stage::Deadline, 1_200);
    vec![
        UpstreamHop { station: "daq-3".to_owned(), lost: bus, unexplained: 2 },
        UpstreamHop { station: "gate-north".to_owned(), lost: between, unexplained: 0 },
    ]
}

fn inherited() -> Vec<Skipped> {
    let skipped = |positions, inherited| Skipped { positions, stage: Stage::Source, inherited };
    let on = |hop, outcome| Some(Inherited { hop, outcome, cause: None });
    vec![
        skipped(71_000..71_120, None),
        skipped(71_200..71_240, on(0, Outcome::Lost(Stage::ReaderLag))),
        skipped(71_300..71_301, on(1, Outcome::Unsettled)),
        skipped(71_400..71_402, on(1, Outcome::Unexplained)),
    ]
}

fn paused_tally() -> Tally {
    Tally { paused: true, withheld: Vec::new(), ..tally() }
}

fn final_tally() -> Tally {
    Tally { last: true, next_tally: Duration::ZERO, withheld: Vec::new(), skipped: Vec::new(), ..tally() }
}

fn name() -> StreamName {
    "w7x/ecrh/power".parse().unwrap()
}

fn description() -> Description {
    let channels =
        vec![Channel::new("forward", "kW").with_scale(0.25, -3.0), Channel::new("reflected", "kW")];
    let mut schema = Schema::new(Dtype::I16, SampleRate::new(1_000, 3).unwrap(), channels).unwrap();
    schema.labels = [("device", "gyrotron A1"), ("run", "20261121.7")]
        .into_iter()
        .map(|(label, value)| (label.to_owned(), value.to_owned()))
        .collect();
    let (station, unknown) = ("daq-3".to_owned(), sample::UnknownEntries::new());
    Description { name: name(), schema, report_port: 7_401, station, unknown }
}

fn parts() -> DescriptorParts {
    DescriptorParts::new(&description(), 1_452).unwrap()
}

fn parts_with(extensions: &DescriptorExtensions<'_>) -> DescriptorParts {
    DescriptorParts::with_extensions(&description(), extensions, 1_452).unwrap()
}

fn preceded() -> DescriptorExtensions<'static> {
    DescriptorExtensions { predecessor: Some(predecessor()), ..DescriptorExtensions::default() }
}

fn addressed() -> DescriptorExtensions<'static> {
    DescriptorExtensions { addresses: &ADDRESSES, ..DescriptorExtensions::default() }
}

fn originated() -> DescriptorExtensions<'static> {
    DescriptorExtensions { origin: Some(origin()), ..DescriptorExtensions::default() }
}

fn limited() -> DescriptorExtensions<'static> {
    let deadline = Deadline { end_to_end: Duration::from_secs(1), priority: 5 };
    DescriptorExtensions { deadline: Some(deadline), ..DescriptorExtensions::default() }
}

fn extended_descriptor() -> DescriptorExtensions<'static> {
    DescriptorExtensions { addresses: &ADDRESSES, ..preceded() }
}

fn relayed_descriptor() -> DescriptorExtensions<'static> {
    DescriptorExtensions { origin: Some(origin()), deadline: limited().deadline, ..extended_descriptor() }
}

fn predecessor() -> Predecessor {
    Predecessor {
        epoch: Epoch { start_ns: 1_763_900_000_000_000_000, incarnation: 0xfedc_ba98_7654_3210 },
        next_number: 2_000,
        next_index: 72_000,
        element_offset: 0,
        is_final: true,
    }
}

/// 10.4.1.7 and fd00:7::12.
const ADDRESSES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 4, 1, 7)), IpAddr::V6(Ipv6Addr::new(0xfd00, 7, 0, 0, 0, 0, 0, 0x12))];

fn waiting() -> Waiting {
    Waiting {
        since: WallTime::from_nanos(1_763_999_990_000_000_000),
        from_beginning: true,
        deadline: Some(Duration::from_millis(250)),
    }
}

fn report() -> Report {
    let mut lost = StageCounts::default();
    lost[Stage::Injected] = 9;
    lost[Stage::ReceiverSocketBuffer] = 20;
    let datagrams = NetworkRows {
        first: 40,
        next: 1_001,
        received: 925,
        lost,
        unexplained: 1,
        unsettled: 2,
        in_flight: 4,
        duplicates: 5,
        before_join: 6,
    };
    let elements = ReaderRows {
        first: 1_400,
        next: 36_000,
        per_sample: 2,
        delivered: 69_000,
        lost: StageCounts::of(Stage::ReaderLag, 100),
        unexplained: 30,
        unsettled: 40,
        in_flight: 30,
    };
    Report {
        stream: stream(),
        epoch: epoch(),
        reader: ReaderId(0xfeed_f00d),
        name: "control-room".to_owned(),
        state: AccountState::Open,
        age: Duration::from_millis(7),
        receive_buffer_bytes: 425_984,
        datagrams,
        elements,
        waiting: None,
    }
}

fn announcement(group: &str) -> Announcement {
    Announcement {
        stream: stream(),
        epoch: epoch(),
        name: name(),
        group: group.parse::<SocketAddr>().unwrap(),
        report_port: 7_401,
        dtype: Dtype::I16,
        rate: SampleRate::new(1_000, 3).unwrap(),
        channels: 2,
        elements_per_sample: 2,
        station: "daq-3".to_owned(),
        period: Duration::from_secs(1),
    }
}

fn request() -> Request {
    Request {
        stream: stream(),
        epoch: epoch(),
        reader: ReaderId(0xfeed_f00d),
        what: Wanted::Descriptor,
        waiting: None,
        nonce: None,
    }
}
