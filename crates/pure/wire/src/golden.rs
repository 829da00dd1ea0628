//! Golden datagrams: the bytes of one datagram of each kind, field by field, as they must stay.
//!
//! A file that differs is a change of the protocol: it needs a new version, or the file is wrong. The failing
//! test prints what the file should say.

use core::net::SocketAddr;
use core::time::Duration;

use ledger::{AccountState, NetworkRows, ReaderRows, Stage, StageCounts};
use sample::{Channel, Dtype, Schema, StreamName};
use units::{Epoch, ReaderId, SampleRate, StreamId, WallTime};

use crate::layout;
use crate::{
    Announcement, Clock, Data, Datagram, DatagramTotals, Description, DescriptorParts, Kind, Numbered,
    Report, Request, SampleTotals, Skipped, Tally, Totals, Wanted, Withheld, stream_id,
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
}

#[test]
fn the_identity_of_a_stream_never_changes() {
    let described = description();
    assert_eq!(stream_id(&described.name, &described.schema), stream());
}

/// Compares a file with a datagram, and the datagram with what the file decodes to.
fn check(name: &str, file: &str, datagram: &Datagram<'_>) {
    let mut buffer = [0; 1_452];
    let size = datagram.encode(&mut buffer).unwrap();
    let expected = annotated(&buffer[..size]);
    assert!(file == expected, "docs/protocol/golden/{name} should say:\n{expected}");
    let bytes: Vec<u8> = file
        .lines()
        .flat_map(|line| line.split('#').next().unwrap().split_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    assert_eq!(Datagram::decode(&bytes).as_ref(), Ok(datagram));
}

/// Writes a datagram as hexadecimal bytes, one field a line, what it is called behind it.
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
    let header_bytes = fields.last().map(|(offset, size, _)| offset + size).unwrap();
    let line = |offset: usize, bytes: &[u8], name: &str| {
        let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:<48}# {offset:>4} {name}\n", hex.join(" "))
    };
    let header = fields.iter().map(|&(offset, size, name)| line(offset, &bytes[offset..offset + size], name));
    let payload = bytes[header_bytes..].chunks(16).enumerate();
    let payload = payload.map(|(index, chunk)| line(header_bytes + 16 * index, chunk, "payload"));
    header.chain(payload).collect()
}

fn stream() -> StreamId {
    StreamId(0x89ad_cf1e_1ebd_af13)
}

fn epoch() -> Epoch {
    Epoch { start_ns: 1_764_000_000_000_000_000, life: 0x0123_4567_89ab_cdef }
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
        payload: &[1, 0, 2, 0, 0xff, 0xff, 0xfe, 0xff],
    }
}

fn piece() -> Data<'static> {
    let head = Numbered { element_offset: 7, elements_per_sample: 1_000_000, ..head() };
    let t0 = WallTime::from_nanos(-1);
    let payload = &[0, 0, 0x80, 0x3f, 0, 0, 0, 0x40];
    Data { head, t0, clock: Clock::Recorded, dtype: Dtype::F4, element_count: 2, payload }
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
        skipped: vec![Skipped { positions: 71_000..71_120, stage: Stage::Source }],
    }
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
    Description { name: name(), schema, report_port: 7_401, station: "daq-3".to_owned() }
}

fn parts() -> DescriptorParts {
    DescriptorParts::new(&description(), 1_452).unwrap()
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
    Request { stream: stream(), epoch: epoch(), reader: ReaderId(0xfeed_f00d), what: Wanted::Descriptor }
}
