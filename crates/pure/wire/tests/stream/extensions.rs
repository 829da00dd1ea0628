//! Lists of extensions behind the headers of every kind: skipped, read, or refused by their type.

use core::net::IpAddr;
use core::num::NonZeroU8;
use core::time::Duration;

use ledger::{Cause, Outcome, Stage, StageCounts};
use proptest::prelude::*;
use units::{Epoch, ReaderId, StreamId, WallTime};
use wire::{
    Data, DataOrigin, Datagram, Deadline, DescriptorExtensions, DescriptorParts, ExtensionType, Inherited,
    MAX_ADDRESSES, MAX_HEADER_BYTES, MAX_STATION_BYTES, MAX_TALLY_STATEMENT_BYTES, MAX_UPSTREAM_BYTES,
    Malformed, Nonce, Numbered, ORIGIN_BYTES, Origin, Predecessor, Reason, Request, Skipped, Tally, Totals,
    UpstreamHop, Waiting, Wanted,
};

use crate::any;

/// An extension in its encoded parts: type, flags, value.
type Item = (u8, u8, Vec<u8>);

/// Types that no version of the protocol has assigned.
const UNNAMED: core::ops::RangeInclusive<u8> = 12..=255;

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

#[test]
fn data_name_their_origin_and_are_longer_by_it_alone() {
    let plain = encoded(&Datagram::Data(data()));
    let origin = DataOrigin::new(ORIGIN, None);
    let data_of_it = Data { origin: Some(&origin), ..data() };
    let relayed = encoded(&Datagram::Data(data_of_it));
    assert_eq!(relayed, with(&plain, &listed(&[(5, 0, origin_of(&ORIGIN))])));
    assert_eq!((plain.len(), relayed.len()), (84, 84 + ORIGIN_BYTES));
    assert_eq!(Data::decode(&relayed), Some(data_of_it));
    assert_eq!(data_of_it.encoded_bytes(), relayed.len());
}

#[test]
fn an_age_is_rounded_up_and_never_said_to_be_less_than_it_is() {
    let told = |age: Option<Duration>| {
        let origin = DataOrigin::new(ORIGIN, age);
        let relayed = encoded(&Datagram::Data(Data { origin: Some(&origin), ..data() }));
        let read = Data::decode(&relayed).and_then(|data| data.origin).expect("of a relay");
        assert_eq!(read.origin(), ORIGIN);
        read.age()
    };
    assert_eq!(told(None), None);
    for (us, ms) in [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (51_200, 52), (65_534_001, 65_535)] {
        assert_eq!(told(Some(Duration::from_micros(us))), Some(Duration::from_millis(ms)), "{us} us");
    }
    assert_eq!(told(Some(Duration::MAX)), Some(DataOrigin::MAX_AGE));
}

#[test]
fn an_origin_is_of_another_epoch_and_at_most_eight_hops_away() {
    let plains =
        [encoded(&Datagram::Data(data())), encoded(&Datagram::Tally(tally())), descriptor(None, &[])];
    for plain in plains {
        let reason = |value: Vec<u8>| is_read(&with(&plain, &listed(&[(5, 0, value)])));
        let refused = Err(Reason::Field("origin"));
        let changed = |at: usize, byte: u8| {
            let mut value = origin_of(&ORIGIN);
            value[at] = byte;
            value
        };
        assert_eq!(reason(origin_of(&ORIGIN)), Ok(()));
        for (hop, is_hop) in [(0, false), (1, true), (8, true), (9, false), (255, false)] {
            assert_eq!(reason(changed(16, hop)), if is_hop { Ok(()) } else { refused }, "hop {hop}");
        }
        assert_eq!(reason(changed(17, 1)), refused, "reserved");
        for at in [18, 19] {
            let expected = if plain[3] == 1 { Ok(()) } else { refused };
            assert_eq!(reason(changed(at, 1)), expected, "only data have an age");
        }
        assert_eq!(reason(origin_of(&Origin { epoch: head().epoch, ..ORIGIN })), refused, "its own epoch");
        let later = Epoch { start_ns: u64::MAX, ..head().epoch };
        assert_eq!(reason(origin_of(&Origin { epoch: later, ..ORIGIN })), Ok(()), "clocks differ");
        assert_eq!(reason(origin_of(&ORIGIN)[..19].to_vec()), refused, "too short");
        assert_eq!(reason([origin_of(&ORIGIN), vec![0]].concat()), refused, "too long");
    }
}

#[test]
fn every_hop_before_the_tallys_own_tells_its_station_and_losses() {
    let relayed = Tally { origin: Some(ORIGIN), upstream: hops(), ..tally() };
    let items = [(5, 0, origin_of(&ORIGIN)), (6, 0, upstream_of(&hops()))];
    let bytes = with(&encoded(&Datagram::Tally(tally())), &listed(&items));
    assert_eq!(encoded(&Datagram::Tally(relayed.clone())), bytes);
    assert_eq!(Datagram::decode(&bytes), Ok(Datagram::Tally(relayed)));
}

#[test]
fn upstream_losses_are_whole_in_order_and_can_be_added_up() {
    let plain = encoded(&Datagram::Tally(tally()));
    let read = |items: &[Item]| is_read(&with(&plain, &listed(items)));
    let of = |origin: &Origin, value: Vec<u8>| read(&[(5, 0, origin_of(origin)), (6, 0, value)]);
    let refused = Err(Reason::Field("upstream"));
    let value = upstream_of(&hops());
    assert_eq!(of(&ORIGIN, value.clone()), Ok(()));
    assert_eq!(read(&[(6, 0, value.clone())]), refused, "without an origin");
    assert_eq!(read(&[(5, 0, origin_of(&ORIGIN)), (6, 0, vec![])]), refused, "no hop");
    for hop in [1, 3] {
        let hop = NonZeroU8::new(hop).unwrap();
        assert_eq!(of(&Origin { hop, ..ORIGIN }, value.clone()), refused, "two hops before hop {hop}");
    }
    for size in 0..value.len() {
        assert_eq!(of(&ORIGIN, value[..size].to_vec()), refused, "cut at {size}");
    }
    assert_eq!(of(&ORIGIN, [&value[..], &[0]].concat()), refused, "a byte too many");
    let changed = |at: usize, byte: u8| {
        let mut value = value.clone();
        value[at] = byte;
        of(&ORIGIN, value)
    };
    // The first hop: 10 bytes of head, 4 of its name, then two records of 9 bytes.
    assert_eq!(changed(10, b'x'), Ok(()));
    assert_eq!(changed(10, 7), refused, "a control character");
    assert_eq!(changed(10, 0xff), refused, "not UTF-8");
    assert_eq!(changed(22, 8 + 1), Ok(()), "another stage");
    assert_eq!(changed(22, 21), refused, "one stage twice");
    assert_eq!(changed(22, 22), refused, "not in the order of the path");
    assert_eq!(changed(31, 25), refused, "a stage that does not exist");
    assert_eq!(changed(14, 0), refused, "no loss");
    assert_eq!(changed(7, 0xff), Ok(()));
    let mut most = hops();
    most[0].unexplained = u64::MAX - 12;
    assert_eq!(of(&ORIGIN, upstream_of(&most)), Ok(()));
    most[0].unexplained += 1;
    assert_eq!(of(&ORIGIN, upstream_of(&most)), refused, "more than fit 64 bits");
}

#[test]
fn the_longest_list_of_hops_is_the_limit() {
    let origin = Origin { hop: NonZeroU8::new(8).unwrap(), ..ORIGIN };
    let hop = |station_bytes: usize, stages: usize| {
        let mut lost = StageCounts::default();
        Stage::ALL[..stages].iter().for_each(|stage| lost[*stage] = 1);
        UpstreamHop { station: "s".repeat(station_bytes), lost, unexplained: 0 }
    };
    let of = |hops: &[UpstreamHop]| {
        let items = [(5, 0, origin_of(&origin)), (6, 0, upstream_of(hops))];
        is_read(&with(&encoded(&Datagram::Tally(tally())), &listed(&items)))
    };
    let mut hops = vec![hop(MAX_STATION_BYTES, 0); 7];
    hops.push(hop(63 - 8, 4));
    assert_eq!(upstream_of(&hops).len(), MAX_UPSTREAM_BYTES);
    assert_eq!(of(&hops), Ok(()));
    hops[7] = hop(63 - 7, 4);
    assert_eq!(of(&hops), Err(Reason::Field("upstream")), "a byte beyond the limit");
    hops[7] = hop(64, 0);
    assert_eq!(of(&hops), Err(Reason::Field("upstream")), "a name beyond its limit");
    hops.iter_mut().for_each(|it| *it = hop(1, 0));
    hops.push(hop(1, 0));
    assert_eq!(of(&hops), Err(Reason::Field("upstream")), "nine hops");
}

#[test]
fn the_extensions_of_a_tally_leave_room_for_the_one_that_secures_it() {
    // 1,024 less 16 of `secured`, the tally's 192, the origin's 24, the upstream's 56 and 136 of sixteen nonces.
    let room = Tally::room_for_statement(
        MAX_HEADER_BYTES,
        wire::relayed_bytes(Some(ORIGIN), &hops(), &[]),
        wire::MAX_NONCES,
        0,
    );
    assert_eq!(room, 600 - 4);
    let nonces = vec![Nonce::new(1); wire::MAX_NONCES];
    let of = |statement: usize| {
        let items = [
            (5, 0, origin_of(&ORIGIN)),
            (6, 0, upstream_of(&hops())),
            (7, 0, vec![1; statement]),
            (10, 0, 1_u64.to_le_bytes().repeat(wire::MAX_NONCES)),
        ];
        is_read(&with(&encoded(&Datagram::Tally(tally())), &listed(&items)))
    };
    assert_eq!(of(room), Ok(()));
    assert_eq!(of(room + 1), Err(Reason::Field("proof")));
    let statement = vec![1; room];
    let longest = Tally { origin: Some(ORIGIN), upstream: hops(), nonces, statement, ..tally() };
    assert_eq!(encoded(&Datagram::Tally(longest)).len(), MAX_HEADER_BYTES - 16);
    let alone = Tally::room_for_statement(MAX_HEADER_BYTES, 0, wire::MAX_NONCES, 0);
    assert_eq!(alone, MAX_TALLY_STATEMENT_BYTES);
    // 548 less 392, in units of 8, and the head.
    assert_eq!(Tally::room_for_upstream(548), 152 - 4);
    assert_eq!((Tally::room_for_upstream(0), Tally::room_for_upstream(9_000)), (0, MAX_UPSTREAM_BYTES));
}

#[test]
fn outcomes_of_inherited_ranges_belong_to_the_newest_ranges_of_the_list() {
    let range =
        |start: u64, inherited| Skipped { positions: start..start + 5, stage: Stage::Source, inherited };
    let on = |hop, outcome| Some(Inherited { hop, outcome, cause: None });
    let skipped = vec![
        range(0, None),
        range(5, on(0, Outcome::Lost(Stage::Network))),
        range(10, None),
        range(15, on(1, Outcome::Unsettled)),
        range(20, on(1, Outcome::Unexplained)),
    ];
    let plain = |skipped: &[Skipped]| {
        let skipped = skipped.iter().map(|it| Skipped { inherited: None, ..it.clone() }).collect();
        encoded(&Datagram::Tally(Tally { head: far(), skipped, ..tally() }))
    };
    let network = Stage::Network.code();
    let value = vec![0, network, 255, 0, 1, 254, 1, 255];
    let newest = with(&plain(&skipped), &listed(&[(5, 0, origin_of(&ORIGIN)), (11, 0, value.clone())]));
    let told = Tally { head: far(), origin: Some(ORIGIN), skipped: skipped.clone(), ..tally() };
    assert_eq!(Datagram::decode(&newest), Ok(Datagram::Tally(told.clone())));
    let all = [&[255, 0], &value[..]].concat();
    let all = with(&plain(&skipped), &listed(&[(5, 0, origin_of(&ORIGIN)), (11, 0, all)]));
    assert_eq!(encoded(&Datagram::Tally(told)), all);

    let read = |value: Vec<u8>| {
        is_read(&with(&plain(&skipped), &listed(&[(5, 0, origin_of(&ORIGIN)), (11, 0, value)])))
    };
    let refused = Err(Reason::Field("inherited"));
    assert_eq!(read(value.clone()), Ok(()));
    assert_eq!(read(vec![]), refused, "no outcome");
    assert_eq!(read(value[..7].to_vec()), refused, "half a record");
    assert_eq!(read(vec![255, 0, 255, 0]), refused, "nothing told");
    assert_eq!(read([0, network].repeat(5)), Ok(()));
    assert_eq!(read([0, network].repeat(6)), refused, "more outcomes than ranges");
    assert_eq!(read(vec![2, network]), refused, "of the tally's own hop");
    assert_eq!(read(vec![1, 25]), refused, "a stage that does not exist");
    assert_eq!(read([&[0, network][..], &[255, 1]].concat()), refused, "an outcome without a hop");
    let clear = with(&plain(&skipped), &listed(&[(11, 0, value)]));
    assert_eq!(is_read(&clear), refused, "without an origin");
    let mut paused = skipped;
    paused[4].stage = Stage::PublisherPaused;
    let bytes = with(&plain(&paused), &listed(&[(5, 0, origin_of(&ORIGIN)), (11, 0, vec![0, network])]));
    assert_eq!(is_read(&bytes), refused, "skipped by this publisher");
}

#[test]
fn ranges_that_a_link_gave_up_are_told_with_the_cause() {
    let of = |cause: Cause| Skipped {
        positions: 5 * cause as u64..5 * cause as u64 + 1,
        stage: Stage::Source,
        inherited: Some(Inherited { hop: 1, outcome: Outcome::Lost(Stage::Deadline), cause: Some(cause) }),
    };
    let skipped = Cause::ALL.map(of).to_vec();
    let told = Tally { head: far(), origin: Some(ORIGIN), skipped: skipped.clone(), ..tally() };
    let plain = skipped.into_iter().map(|it| Skipped { inherited: None, ..it }).collect();
    let plain = encoded(&Datagram::Tally(Tally { head: far(), skipped: plain, ..tally() }));
    let value = vec![1, 250, 1, 251, 1, 252, 1, 253];
    let bytes = with(&plain, &listed(&[(5, 0, origin_of(&ORIGIN)), (11, 0, value)]));
    assert_eq!(encoded(&Datagram::Tally(told.clone())), bytes);
    assert_eq!(Datagram::decode(&bytes), Ok(Datagram::Tally(told)));
}

#[test]
fn sixteen_outcomes_of_inherited_ranges_are_the_limit() {
    let inherited = Some(Inherited { hop: 0, outcome: Outcome::Unexplained, cause: None });
    let range = |start: u64| Skipped { positions: start..start + 1, stage: Stage::Source, inherited };
    let skipped: Vec<_> = (0..17).map(range).collect();
    let tally = Tally { head: far(), origin: Some(ORIGIN), skipped: skipped.clone(), ..tally() };
    let bytes = encoded(&Datagram::Tally(tally.clone()));
    let Ok(Datagram::Tally(read)) = Datagram::decode(&bytes) else { panic!("a tally") };
    assert_eq!(read.skipped[0], Skipped { inherited: None, ..skipped[0].clone() }, "the oldest is not told");
    assert_eq!(read.skipped[1..], skipped[1..]);
    let plain = skipped.iter().map(|it| Skipped { inherited: None, ..it.clone() }).collect();
    let plain = encoded(&Datagram::Tally(Tally { origin: None, skipped: plain, ..tally }));
    let of = |count: usize| {
        is_read(&with(&plain, &listed(&[(5, 0, origin_of(&ORIGIN)), (11, 0, [0, 255].repeat(count))])))
    };
    assert_eq!(of(16), Ok(()));
    assert_eq!(of(17), Err(Reason::Field("inherited")));
}

/// A head far enough in its epoch for ranges.
fn far() -> Numbered {
    Numbered { first_index: 1_000, ..head() }
}

#[test]
fn a_deadline_is_not_zero() {
    let plain = descriptor(None, &[]);
    let value = |nanos: u64, priority: u8, reserved: u8| {
        [&nanos.to_le_bytes()[..], &[priority, reserved, 0, 0]].concat()
    };
    let bytes = with(&plain, &listed(&[(9, 0, value(1_500_000_000, 7, 0))])).leak();
    let Ok(Datagram::Descriptor(part)) = Datagram::decode(bytes) else { panic!("a descriptor") };
    let deadline = Deadline { end_to_end: Duration::from_millis(1_500), priority: 7 };
    assert_eq!(part.deadline, Some(deadline));
    assert_eq!(encoded(&Datagram::Descriptor(part)), bytes);
    let reason = |value: Vec<u8>| is_read(&with(&plain, &listed(&[(9, 0, value)])));
    let refused = Err(Reason::Field("deadline"));
    assert_eq!(reason(value(1, 0, 0)), Ok(()));
    assert_eq!(reason(value(0, 7, 0)), refused);
    assert_eq!(reason(value(1, 7, 1)), refused, "reserved");
    assert_eq!(reason(value(1, 0, 0)[..11].to_vec()), refused, "too short");
}

/// The second hop after that of the stream's publisher.
const ORIGIN: Origin =
    Origin { epoch: Epoch { start_ns: 9, incarnation: 10 }, hop: NonZeroU8::new(2).expect("not 0") };

/// The hops before that of `ORIGIN`; they lost 12 elements, none of them unexplained.
fn hops() -> Vec<UpstreamHop> {
    let mut bus = StageCounts::of(Stage::Network, 5);
    bus[Stage::ReaderLag] = 3;
    let between = StageCounts::of(Stage::Deadline, 4);
    vec![
        UpstreamHop { station: "lab1".to_owned(), lost: bus, unexplained: 0 },
        UpstreamHop { station: String::new(), lost: between, unexplained: 0 },
    ]
}

/// Encodes the value by the page's table, independently of the encoder.
fn origin_of(origin: &Origin) -> Vec<u8> {
    let Epoch { start_ns, incarnation } = origin.epoch;
    [&start_ns.to_le_bytes()[..], &incarnation.to_le_bytes(), &[origin.hop.get(), 0, 0, 0]].concat()
}

/// Encodes the value by the page's tables, independently of the encoder.
fn upstream_of(hops: &[UpstreamHop]) -> Vec<u8> {
    let mut value = Vec::new();
    for hop in hops {
        value.extend(hop.unexplained.to_le_bytes());
        let counts = [hop.station.len(), hop.lost.nonzero().count()];
        value.extend(counts.map(|count| u8::try_from(count).unwrap()));
        value.extend(hop.station.as_bytes());
        for (stage, count) in hop.lost.nonzero() {
            value.extend(count.to_le_bytes());
            value.push(stage.code());
        }
    }
    value
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
        origin: None,
        payload: &[1, 2, 3, 4],
    }
}

fn tally() -> Tally {
    Tally {
        head: head(),
        last: false,
        paused: false,
        watched: false,
        next_tally: Duration::from_secs(1),
        readers: 1,
        report_interval: Duration::from_secs(1),
        totals: Totals::default(),
        withheld: Vec::new(),
        skipped: Vec::new(),
        nonces: Vec::new(),
        statement: Vec::new(),
        origin: None,
        upstream: Vec::new(),
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
    let extensions = DescriptorExtensions { predecessor, addresses, ..DescriptorExtensions::default() };
    let parts = DescriptorParts::with_extensions(&description, &extensions, 1_472).unwrap();
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
