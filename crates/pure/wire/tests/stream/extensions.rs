//! Lists of extensions behind the headers of every kind: skipped, read, or refused by their type.

use core::net::IpAddr;

use proptest::prelude::*;
use units::{Epoch, ReaderId, StreamId, WallTime};
use wire::{
    Data, Datagram, DescriptorParts, ExtensionType, MAX_ADDRESSES, MAX_HEADER_BYTES, Malformed, Numbered,
    Predecessor, Reason, Request, Waiting, Wanted,
};

use crate::any;

/// An extension in its encoded parts: type, flags, value.
type Item = (u8, u8, Vec<u8>);

/// Types that no version of the protocol has assigned.
const UNNAMED: core::ops::RangeInclusive<u8> = 11..=255;

fn items(flags: impl Strategy<Value = u8> + Clone) -> impl Strategy<Value = Vec<Item>> {
    let value = prop::collection::vec(any::<u8>(), 0..40);
    prop::collection::btree_map(UNNAMED, (flags, value), 1..6)
        .prop_map(|items| items.into_iter().map(|(code, (flags, value))| (code, flags, value)).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn what_is_not_known_and_not_critical_is_passed_over(
        bytes in any::datagram(),
        items in items(any::<u8>().prop_map(|flags| flags & !1)),
    ) {
        let longer = with(&bytes, &listed(&items));
        prop_assert_eq!(Datagram::decode(&longer), Datagram::decode(&bytes));
    }

    #[test]
    fn what_is_not_known_but_critical_is_dropped_by_type_and_number(
        bytes in any::datagram(),
        mut items in items(Just(0)),
        critical in any::<prop::sample::Index>(),
    ) {
        let critical = critical.index(items.len());
        items[critical].1 = 1;
        let head = Datagram::decode(&bytes).unwrap().head().copied();
        let longer = with(&bytes, &listed(&items));
        let malformed = Malformed { reason: Reason::Extension(items[critical].0), head };
        prop_assert_eq!(Datagram::decode(&longer), Err(malformed));
    }

    #[test]
    fn a_list_of_anything_is_passed_over_or_refused(
        bytes in any::datagram(),
        list in prop::collection::vec(any::<u64>(), 1..20),
    ) {
        let list: Vec<u8> = list.into_iter().flat_map(u64::to_le_bytes).collect();
        let plain = Datagram::decode(&bytes).unwrap();
        match Datagram::decode(&with(&bytes, &list)) {
            Ok(read) => prop_assert_eq!(read.head(), plain.head()),
            Err(Malformed { reason, head }) => {
                prop_assert!(!matches!(reason, Reason::HeaderCrc | Reason::Length), "{:?}", reason);
                prop_assert_eq!(head.as_ref(), plain.head());
            }
        }
    }
}

#[test]
fn a_header_of_1024_bytes_is_read_and_a_longer_one_is_not() {
    let plain = encoded(&Datagram::Data(data()));
    let room = MAX_HEADER_BYTES - 80;
    let item = |size: usize| listed(&[(200, 0, vec![7; size - 4])]);
    assert_eq!(Datagram::decode(&with(&plain, &item(room))), Ok(Datagram::Data(data())));
    let reason = Datagram::decode(&with(&plain, &item(room + 8))).unwrap_err().reason;
    assert_eq!(reason, Reason::Field("header_bytes"));
}

#[test]
fn lists_that_are_not_whole_or_not_in_order_are_refused() {
    let plain = encoded(&Datagram::Data(data()));
    let reason = |list: &[u8]| is_read(&with(&plain, list));
    let refused = Err(Reason::Field("extensions"));
    assert_eq!(reason(&listed(&[(10, 0, vec![]), (11, 0, vec![])])), Ok(()));
    assert_eq!(reason(&listed(&[(11, 0, vec![]), (10, 0, vec![])])), refused, "not in order");
    assert_eq!(reason(&listed(&[(10, 0, vec![]), (10, 0, vec![])])), refused, "twice");
    assert_eq!(reason(&[0; 8]), refused, "type 0");
    assert_eq!(reason(&[10, 0, 4, 0, 1, 2, 3, 4]), Ok(()), "a value up to the end");
    assert_eq!(reason(&[10, 0, 5, 0, 1, 2, 3, 4]), refused, "a value beyond the end");
    assert_eq!(reason(&[10, 0, 3, 0, 1, 2, 3, 4]), refused, "a value that is not filled up with zeros");
    assert_eq!(reason(&[10, 0, 255, 255, 1, 2, 3, 4]), refused, "a value longer than all headers");
}

#[test]
fn a_known_type_has_its_flags_and_belongs_to_its_kind() {
    let plain = encoded(&Datagram::Request(request(None)));
    let value = encoded(&Datagram::Request(request(Some(WAITING))))[60..80].to_vec();
    let waiting = ExtensionType::Waiting.code();
    let read = |list: &[Item]| is_read(&with(&plain, &listed(list)));
    assert_eq!(read(&[(waiting, 0, value.clone())]), Ok(()));
    for flags in [1, 2, 0x80] {
        let reason = read(&[(waiting, flags, value.clone())]);
        assert_eq!(reason, Err(Reason::Field("extensions")), "{flags}");
    }
    // In a kind that it does not belong to it is an unknown type.
    let data_bytes = encoded(&Datagram::Data(data()));
    let passed = with(&data_bytes, &listed(&[(waiting, 0, vec![1])]));
    assert_eq!(Datagram::decode(&passed), Ok(Datagram::Data(data())));
    let critical = with(&data_bytes, &listed(&[(waiting, 1, vec![1])]));
    assert_eq!(Datagram::decode(&critical).unwrap_err().reason, Reason::Extension(waiting));
}

#[test]
fn every_field_of_a_value_is_judged() {
    let bytes = encoded(&Datagram::Request(request(Some(WAITING))));
    let reason = |at: usize, byte: u8| {
        let mut forged = bytes.clone();
        forged[at] = byte;
        reseal(&mut forged);
        is_read(&forged)
    };
    assert_eq!(reason(76, 0), Ok(()));
    assert_eq!(reason(76, 2), Err(Reason::Field("waiting")), "from_beginning is 0 or 1");
    assert_eq!(reason(79, 1), Err(Reason::Field("waiting")), "reserved");
    let short = with(&encoded(&Datagram::Request(request(None))), &listed(&[(4, 0, vec![0; 19])]));
    assert_eq!(Datagram::decode(&short).unwrap_err().reason, Reason::Field("waiting"));
}

#[test]
fn a_predecessor_began_earlier_and_has_a_position() {
    let reason = |predecessor: Predecessor| {
        let item = (2, 0, value_of(&predecessor));
        let plain = descriptor(None, &[]);
        is_read(&with(&plain, &listed(&[item])))
    };
    let refused = Err(Reason::Field("predecessor"));
    assert_eq!(reason(PREDECESSOR), Ok(()));
    assert_eq!(
        descriptor(Some(PREDECESSOR), &[]),
        with(&descriptor(None, &[]), &listed(&[(2, 0, value_of(&PREDECESSOR))]))
    );
    let epoch = Epoch { start_ns: 2, incarnation: 3 };
    assert_eq!(reason(Predecessor { epoch, ..PREDECESSOR }), refused, "the same epoch");
    let epoch = Epoch { start_ns: 3, incarnation: 0 };
    assert_eq!(reason(Predecessor { epoch, ..PREDECESSOR }), refused, "a later epoch");
    assert_eq!(reason(Predecessor { element_offset: 1, ..PREDECESSOR }), refused, "beyond its sample");
    assert_eq!(reason(Predecessor { next_number: u64::MAX, ..PREDECESSOR }), Ok(()));
}

#[test]
fn addresses_are_one_to_eight_that_can_be_sources() {
    let octets = |address: &str| match address.parse::<IpAddr>().unwrap() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    let reason = |addresses: &[[u8; 16]]| {
        let item = (3, 0, addresses.concat());
        let bytes = with(&descriptor(None, &[]), &listed(&[item])).leak();
        match Datagram::decode(bytes) {
            Ok(Datagram::Descriptor(part)) => {
                Ok(part.addresses.iter().map(|address| address.ip().to_string()).collect::<Vec<_>>())
            }
            other => Err(other.unwrap_err().reason),
        }
    };
    let refused = Err(Reason::Field("addresses"));
    let many: Vec<_> = (0..=MAX_ADDRESSES).map(|host| octets(&format!("10.0.0.{host}"))).collect();
    assert_eq!(
        reason(&[octets("10.0.0.1"), octets("fd00::1")]),
        Ok(vec!["10.0.0.1".into(), "fd00::1".into()])
    );
    assert_eq!(reason(&many[..MAX_ADDRESSES]).map(|read| read.len()), Ok(MAX_ADDRESSES));
    assert_eq!(reason(&many), refused, "nine");
    assert_eq!(reason(&[]), refused, "none");
    assert_eq!(reason(&[many[0], many[0]]), refused, "one twice");
    for address in ["0.0.0.0", "::", "239.1.1.1", "ff15::1"] {
        assert_eq!(reason(&[octets(address)]), refused, "{address}");
    }
    let short = with(&descriptor(None, &[]), &listed(&[(3, 0, vec![1; 15])]));
    assert_eq!(Datagram::decode(&short).unwrap_err().reason, Reason::Field("addresses"));
}

#[test]
fn a_publisher_tells_of_the_addresses_that_can_be_sources() {
    let told = ["10.0.0.1", "0.0.0.0", "239.1.1.1", "10.0.0.1", "fd00::1"].map(|it| it.parse().unwrap());
    let bytes = descriptor(None, &told);
    let Ok(Datagram::Descriptor(part)) = Datagram::decode(&bytes) else { panic!("a descriptor") };
    let read: Vec<_> = part.addresses.iter().map(|address| address.ip()).collect();
    assert_eq!(read, [told[0], told[4]]);
}

const PREDECESSOR: Predecessor = Predecessor {
    epoch: Epoch { start_ns: 2, incarnation: 2 },
    next_number: 9,
    next_index: 7,
    element_offset: 0,
    is_final: true,
};

const WAITING: Waiting = Waiting { since: WallTime::from_nanos(1), from_beginning: true, deadline: None };

/// Encodes the value by the page's table, independently of the encoder.
fn value_of(predecessor: &Predecessor) -> Vec<u8> {
    let mut value = Vec::new();
    value.extend(predecessor.epoch.start_ns.to_le_bytes());
    value.extend(predecessor.epoch.incarnation.to_le_bytes());
    value.extend(predecessor.next_number.to_le_bytes());
    value.extend(predecessor.next_index.to_le_bytes());
    value.extend(predecessor.element_offset.to_le_bytes());
    value.extend([u8::from(predecessor.is_final), 0, 0, 0]);
    value
}

fn head() -> Numbered {
    Numbered {
        stream: StreamId(1),
        epoch: Epoch { start_ns: 2, incarnation: 3 },
        number: 4,
        first_index: 5,
        element_offset: 0,
        elements_per_sample: 1,
    }
}

fn data() -> Data<'static> {
    Data {
        head: head(),
        t0: WallTime::from_nanos(6),
        clock: wire::Clock::System,
        dtype: sample::Dtype::U8,
        element_count: 4,
        payload: &[1, 2, 3, 4],
    }
}

fn request(waiting: Option<Waiting>) -> Request {
    Request {
        stream: StreamId(1),
        epoch: head().epoch,
        reader: ReaderId(7),
        what: Wanted::Data,
        waiting,
        nonce: None,
    }
}

fn descriptor(predecessor: Option<Predecessor>, addresses: &[IpAddr]) -> Vec<u8> {
    let channels = vec![sample::Channel::new("c", "")];
    let rate = units::SampleRate::hz(1).unwrap();
    let description = wire::Description {
        name: "a".parse().unwrap(),
        schema: sample::Schema::new(sample::Dtype::F4, rate, channels).unwrap(),
        report_port: 0,
        station: String::new(),
        unknown: sample::UnknownEntries::new(),
    };
    let parts = DescriptorParts::with_extensions(&description, predecessor, addresses, 1_472).unwrap();
    encoded(&Datagram::Descriptor(parts.part(0, head()).unwrap()))
}

fn is_read(bytes: &[u8]) -> Result<(), Reason> {
    Datagram::decode(bytes).map(|_| ()).map_err(|malformed| malformed.reason)
}

fn encoded(datagram: &Datagram<'_>) -> Vec<u8> {
    any::encoded(datagram)
}

/// Encodes a list by the page's table.
fn listed(items: &[Item]) -> Vec<u8> {
    let mut list = Vec::new();
    for (code, flags, value) in items {
        list.extend([*code, *flags]);
        list.extend(u16::try_from(value.len()).unwrap().to_le_bytes());
        list.extend(value);
        list.resize(list.len().next_multiple_of(8), 0);
    }
    list
}

/// Adds a list behind the header of a datagram, and behind its own extensions.
fn with(bytes: &[u8], list: &[u8]) -> Vec<u8> {
    let header_bytes = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
    let mut longer = [&bytes[..header_bytes], list, &bytes[header_bytes..]].concat();
    longer[6..8].copy_from_slice(&u16::try_from(header_bytes + list.len()).unwrap().to_le_bytes());
    reseal(&mut longer);
    longer
}

fn reseal(bytes: &mut [u8]) {
    let header_bytes = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
    bytes[8..12].fill(0);
    let crc = crc_fast::crc32_iscsi(&bytes[..header_bytes]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
}
