//! Descriptions: their encoding, their limits, and their transfer in descriptor datagrams.

use core::net::IpAddr;
use core::num::NonZeroU8;
use core::time::Duration;

use proptest::prelude::*;
use sample::{Channel, Dtype, Schema, SchemaError, UnknownEntries};
use units::{Epoch, SampleRate, StreamId};
use wire::{
    Datagram, Deadline, Description, DescriptionError, DescriptorAssembler, DescriptorError,
    DescriptorExtensions, DescriptorParts, MAX_ADDRESSES, MAX_DESCRIPTION_BYTES, MAX_DESCRIPTOR_PARTS,
    MAX_LABELS, MAX_SHAPE_EXTENTS, MAX_STATION_BYTES, MAX_TEXT_BYTES, MAX_UNIT_BYTES, MIN_DATAGRAM_BYTES,
    MIN_DESCRIPTOR_PART_BYTES, Numbered, Origin, Predecessor, stream_id,
};

use crate::any;

proptest! {
    #[test]
    fn descriptions_come_back_as_they_were_sent(description in any::description()) {
        let bytes = description.encode().unwrap();
        prop_assert_eq!(Description::decode(&bytes), Ok(description));
    }

    #[test]
    fn a_description_cut_short_anywhere_is_refused(description in any::description()) {
        let bytes = description.encode().unwrap();
        for size in 0..bytes.len() {
            prop_assert!(Description::decode(&bytes[..size]).is_err());
        }
    }

    #[test]
    fn noise_is_not_a_description(noise in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Description::decode(&noise).is_err());
    }

    #[test]
    fn a_damaged_description_is_refused_or_still_makes_sense(
        description in any::description(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = description.encode().unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(read) = Description::decode(&bytes) {
            prop_assert_eq!(Description::decode(&read.encode().unwrap()), Ok(read));
        }
    }

    #[test]
    fn parts_in_any_order_and_twice_make_one_description(
        description in any::description(),
        order in any::<u64>(),
    ) {
        let head = any::head_of(&description);
        let parts = DescriptorParts::new(&description, MIN_DATAGRAM_BYTES).unwrap();
        let mut assembler = DescriptorAssembler::new();
        let mut made = Vec::new();
        let count = u64::from(parts.count());
        for step in 0..3 * count {
            // Three rounds, each begun elsewhere and one of them backwards.
            let index = (step + order % count * (step / count)) % count;
            let index = if step / count == 1 { count - 1 - index } else { index };
            let part = parts.part(u16::try_from(index).unwrap(), head).unwrap();
            let bytes = any::encoded(&Datagram::Descriptor(part));
            prop_assert!(bytes.len() <= MIN_DATAGRAM_BYTES);
            let Ok(Datagram::Descriptor(read)) = Datagram::decode(&bytes) else { panic!("a descriptor") };
            made.extend(assembler.accept(&read).unwrap());
        }
        prop_assert_eq!(made, [description]);
        prop_assert_eq!(parts.part(parts.count(), head), None);
    }
}

#[test]
fn a_description_says_whether_there_is_proof_and_earlier_readers_keep_the_entry() {
    let channels = vec![Channel::new("u", "V")];
    let schema = Schema::new(Dtype::U16, SampleRate::hz(10).unwrap(), channels).unwrap();
    let (name, station, unknown) = ("lab/u".parse().unwrap(), String::new(), UnknownEntries::new());
    let mut description = Description { name, schema, report_port: 0, station, unknown };
    assert!(!description.has_proof());
    description.put_proof();
    let bytes = description.encode().unwrap();
    assert_eq!(bytes[bytes.len() - 2..], [5, 0xf5], "key 5, true");
    let read = Description::decode(&bytes).unwrap();
    assert!(read.has_proof() && read.unknown.contains_key(&5));
}

#[test]
fn what_the_samples_mean_is_part_of_the_identity() {
    let plain = description();
    let id = |description: &Description| stream_id(&description.name, &description.schema);
    let mut other = plain.clone();
    other.schema.dtype = Dtype::F8;
    assert_ne!(id(&other), id(&plain));
    let mut other = plain.clone();
    other.schema.labels.insert("run".to_owned(), "8".to_owned());
    assert_ne!(id(&other), id(&plain));
    // Its origin is not.
    let other = Description { station: "elsewhere".to_owned(), report_port: 9, ..plain.clone() };
    assert_eq!(id(&other), id(&plain));
}

#[test]
fn a_description_of_another_stream_is_not_believed() {
    let description = description();
    let parts = DescriptorParts::new(&description, 1_472).unwrap();
    let sent = Numbered { stream: StreamId(7), ..any::head_of(&description) };
    let error = DescriptorAssembler::new().accept(&parts.part(0, sent).unwrap()).unwrap_err();
    let described = any::head_of(&description).stream;
    assert_eq!(error, DescriptorError::Stream { described, sent: sent.stream });
}

#[test]
fn a_description_of_another_shape_is_not_believed() {
    let description = description();
    let parts = DescriptorParts::new(&description, 1_472).unwrap();
    let head = Numbered { elements_per_sample: 2, ..any::head_of(&description) };
    let error = DescriptorAssembler::new().accept(&parts.part(0, head).unwrap()).unwrap_err();
    assert_eq!(error, DescriptorError::ElementsPerSample { described: 1, sent: 2 });
}

#[test]
fn a_forged_part_costs_one_round() {
    let description = wide(100);
    let head = any::head_of(&description);
    let parts = DescriptorParts::new(&description, MIN_DATAGRAM_BYTES).unwrap();
    assert!(parts.count() > 2);
    let mut assembler = DescriptorAssembler::new();
    let genuine = parts.part(0, head).unwrap();
    let forged = vec![0; genuine.bytes.len()];
    assembler.accept(&wire::DescriptorPart { bytes: &forged, ..genuine }).unwrap();
    let first_round: Vec<_> =
        (1..parts.count()).map(|index| assembler.accept(&parts.part(index, head).unwrap())).collect();
    assert_eq!(first_round.last(), Some(&Err(DescriptorError::Checksum)));
    let mut second_round =
        (0..parts.count()).filter_map(|index| assembler.accept(&parts.part(index, head).unwrap()).unwrap());
    assert_eq!(second_round.next(), Some(description));
}

#[test]
fn a_new_epoch_begins_a_new_description() {
    let description = wide(100);
    let head = any::head_of(&description);
    let parts = DescriptorParts::new(&description, MIN_DATAGRAM_BYTES).unwrap();
    let mut assembler = DescriptorAssembler::new();
    assembler.accept(&parts.part(0, head).unwrap()).unwrap();
    let next = Numbered { epoch: Epoch { start_ns: 9, incarnation: 9 }, ..head };
    let made: Vec<_> = (1..parts.count())
        .chain(0..1)
        .map(|index| assembler.accept(&parts.part(index, next).unwrap()).unwrap())
        .collect();
    assert_eq!(made.iter().flatten().count(), 1);
    assert!(made.last().unwrap().is_some(), "the part of the old epoch did not count");
}

#[test]
fn the_largest_description_fits_into_the_smallest_datagrams() {
    let mut description = wide(4_096);
    for (index, channel) in description.schema.channels.iter_mut().enumerate() {
        channel.name = format!("{index:059}");
    }
    let spare = MAX_DESCRIPTION_BYTES - description.encode().unwrap().len();
    for channel in &mut description.schema.channels[..spare] {
        channel.name.push('x');
    }
    assert_eq!(description.encode().unwrap().len(), MAX_DESCRIPTION_BYTES);
    let parts = DescriptorParts::new(&description, MIN_DATAGRAM_BYTES).unwrap();
    assert_eq!(parts.count(), 561);
    // With the longest extensions there are more and smaller parts, and with those of later versions still more.
    let predecessor = Predecessor {
        epoch: Epoch { start_ns: 0, incarnation: 0 },
        next_number: 1,
        next_index: 1,
        element_offset: 0,
        is_final: false,
    };
    let addresses: Vec<_> = (1..=MAX_ADDRESSES as u32).map(|host| IpAddr::from(host.to_be_bytes())).collect();
    let epoch = Epoch { start_ns: 0, incarnation: 1 };
    let extensions = DescriptorExtensions {
        predecessor: Some(predecessor),
        addresses: &addresses,
        origin: Some(Origin { epoch, hop: NonZeroU8::MIN }),
        deadline: Some(Deadline { end_to_end: Duration::from_secs(1), priority: 1 }),
    };
    let parts = DescriptorParts::with_extensions(&description, &extensions, MIN_DATAGRAM_BYTES).unwrap();
    assert_eq!(parts.count(), 1_075);
    let mut assembler = DescriptorAssembler::new();
    let mut made = None;
    for index in 0..parts.count() {
        let bytes =
            any::encoded(&Datagram::Descriptor(parts.part(index, any::head_of(&description)).unwrap()));
        assert!(bytes.len() <= MIN_DATAGRAM_BYTES);
        let Ok(Datagram::Descriptor(read)) = Datagram::decode(&bytes) else { panic!("a descriptor") };
        assert_eq!((read.predecessor, read.addresses.len()), (Some(predecessor), MAX_ADDRESSES));
        assert_eq!((read.origin, read.deadline), (extensions.origin, extensions.deadline));
        made = assembler.accept(&read).unwrap();
    }
    assert_eq!(made, Some(description.clone()));
    assert_eq!(MAX_DESCRIPTOR_PARTS, MAX_DESCRIPTION_BYTES / MIN_DESCRIPTOR_PART_BYTES);

    description.schema.channels[0].name.push('x');
    assert_eq!(description.encode(), Err(DescriptionError::TooLarge(MAX_DESCRIPTION_BYTES + 1)));
}

/// Sets the length of one part of a description.
type SetLen = fn(&mut Description, usize);

#[test]
fn both_sides_of_every_limit_are_kept() {
    let limits: [(usize, SetLen); 6] = [
        (MAX_STATION_BYTES, |description, len| description.station = "s".repeat(len)),
        (MAX_TEXT_BYTES, |description, len| description.schema.channels[0].name = "n".repeat(len)),
        (MAX_UNIT_BYTES, |description, len| description.schema.channels[0].unit = "u".repeat(len)),
        (MAX_SHAPE_EXTENTS, |description, len| description.schema.channels[0].shape = vec![1; len]),
        (MAX_TEXT_BYTES, |description, len| {
            description.schema.labels.insert("label".to_owned(), "v".repeat(len));
        }),
        (MAX_LABELS, |description, len| {
            description.schema.labels = (0..len).map(|label| (label.to_string(), String::new())).collect();
        }),
    ];
    for (limit, set) in limits {
        let mut described = description();
        set(&mut described, limit);
        assert_eq!(Description::decode(&described.encode().unwrap()), Ok(described.clone()));
        set(&mut described, limit + 1);
        let Err(DescriptionError::Limit { actual, limit: named, .. }) = described.encode() else {
            panic!("{limit} + 1 was accepted")
        };
        assert_eq!((actual, named), (limit + 1, limit));
    }
}

#[test]
fn labels_that_command_a_terminal_are_refused() {
    let mut described = description();
    described.schema.channels[0].unit = "\u{1b}[2J".to_owned();
    assert_eq!(described.encode(), Err(DescriptionError::ControlCharacter("a channel's unit")));
}

/// A minimal description by hand: `{0: "a", 1: {0: 8, 1: [1, 1], 2: [{0: "c"}]}, 2: 0}`.
const MINIMAL: [u8; 20] = [
    0xa3, 0x00, 0x61, b'a', 0x01, 0xa3, 0x00, 0x08, 0x01, 0x82, 0x01, 0x01, 0x02, 0x81, 0xa1, 0x00, 0x61,
    b'c', 0x02, 0x00,
];

#[test]
fn unknown_keys_are_kept_and_known_ones_must_be_there() {
    let described = description();
    assert_eq!(Description::decode(&MINIMAL), Ok(described.clone()));
    assert_eq!(described.encode().unwrap(), MINIMAL);

    // A fourth entry: key 9 with a nested list.
    let mut longer = MINIMAL.to_vec();
    longer[0] = 0xa4;
    longer.extend([0x09, 0x82, 0x01, 0x81, 0x02]);
    let unknown = UnknownEntries::from([(9, vec![0x82, 0x01, 0x81, 0x02])]);
    assert_eq!(Description::decode(&longer), Ok(Description { unknown, ..described }));

    let mut shorter = MINIMAL[..18].to_vec();
    shorter[0] = 0xa2;
    assert_eq!(Description::decode(&shorter), Err(DescriptionError::Missing("report port")));
}

#[test]
fn what_a_later_version_says_of_a_schema_stays_part_of_the_identity() {
    // A schema with key 7 and a channel with key 300: `{…, 1: {0: 8, 1: [1, 1], 2: [{0: "c", 300: "x"}], 7: true}, …}`.
    let later = [
        &[0xa3, 0x00, 0x61, b'a', 0x01, 0xa4, 0x00, 0x08, 0x01, 0x82, 0x01, 0x01, 0x02, 0x81, 0xa2, 0x00][..],
        &[0x61, b'c', 0x19, 0x01, 0x2c, 0x61, b'x', 0x07, 0xf5, 0x02, 0x00],
    ]
    .concat();
    let read = Description::decode(&later).unwrap();
    assert_eq!(read.encode().unwrap(), later);
    assert_eq!((read.schema.unknown.len(), read.schema.channels[0].unknown.len()), (1, 1));
    // Its publisher computed the identity from the encoded bytes: the name, a zero, the schema.
    let sent = StreamId(crc_fast::crc64_nvme(&[b"a\0", &later[5..25]].concat()));
    assert_eq!(stream_id(&read.name, &read.schema), sent);
    let mut plain = read.schema.clone();
    plain.unknown.clear();
    assert_ne!(stream_id(&read.name, &plain), sent);
}

#[test]
fn encodings_that_lie_are_refused() {
    let with = |at: usize, byte: u8| {
        let mut bytes = MINIMAL;
        bytes[at] = byte;
        Description::decode(&bytes).unwrap_err()
    };
    assert_eq!(with(0, 0xbf), DescriptionError::Cbor(0), "a map of indefinite length");
    assert_eq!(with(4, 0x00), DescriptionError::KeyOrder(5), "a key twice");
    assert_eq!(with(7, 13), DescriptionError::Dtype(13));
    assert_eq!(with(10, 0), DescriptionError::Rate(0, 1));
    assert_eq!(with(13, 0x80), DescriptionError::Cbor(14), "a map where a key should be");
    assert_eq!(with(16, 0x7f), DescriptionError::Cbor(16), "a text of indefinite length");
    assert_eq!(Description::decode(&[&MINIMAL[..], &[0]].concat()), Err(DescriptionError::Cbor(20)));

    // An array that claims 2³² channels takes no memory for them.
    let mut claiming = MINIMAL[..13].to_vec();
    claiming.extend([0x9b, 0, 0, 0, 1, 0, 0, 0, 0]);
    assert!(matches!(Description::decode(&claiming), Err(DescriptionError::Limit { .. })));

    let mut twice = wide(2);
    twice.schema.channels[1].name = twice.schema.channels[0].name.clone();
    let name = twice.schema.channels[0].name.clone();
    assert_eq!(twice.encode(), Err(DescriptionError::Schema(SchemaError::DuplicateChannel(name))));
}

fn description() -> Description {
    let schema = Schema::new(Dtype::F4, SampleRate::hz(1).unwrap(), vec![Channel::new("c", "")]).unwrap();
    let (station, unknown) = (String::new(), UnknownEntries::new());
    Description { name: "a".parse().unwrap(), schema, report_port: 0, station, unknown }
}

/// A description with this many channels.
fn wide(channels: usize) -> Description {
    let mut description = description();
    description.schema.channels =
        (0..channels).map(|index| Channel::new(format!("channel {index}"), "")).collect();
    description
}
