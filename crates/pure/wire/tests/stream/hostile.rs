//! Datagrams of a faulty peer, an attacker or a broken cable: refused with a reason, never believed, never a panic.

use proptest::prelude::*;
use sample::{Dtype, MAX_ELEMENTS_PER_SAMPLE};
use units::{Epoch, StreamId, WallTime};
use wire::{Clock, DATA_HEADER_BYTES, Data, Datagram, Kind, Malformed, Numbered, Reason};

use crate::any;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_datagram_cut_short_anywhere_is_refused(bytes in any::datagram()) {
        let header_bytes = header_bytes(&bytes);
        let head = Datagram::decode(&bytes).unwrap().head().copied();
        for size in 0..bytes.len() {
            let malformed = Datagram::decode(&bytes[..size]).unwrap_err();
            if size < header_bytes {
                prop_assert_eq!(malformed, Malformed { reason: Reason::TooShort(size), head: None });
            } else {
                prop_assert_eq!(malformed, Malformed { reason: Reason::Length, head });
            }
        }
    }

    #[test]
    fn a_datagram_with_a_byte_too_many_is_refused(mut bytes in any::datagram()) {
        bytes.push(0);
        prop_assert_eq!(Datagram::decode(&bytes).unwrap_err().reason, Reason::Length);
    }

    #[test]
    fn every_single_bit_of_the_header_is_guarded(bytes in any::datagram()) {
        for bit in 0..header_bytes(&bytes) * 8 {
            let malformed = Datagram::decode(&flipped(&bytes, bit)).unwrap_err();
            prop_assert_eq!(malformed.head, None, "bit {}: a damaged header names no number", bit);
        }
    }

    #[test]
    fn every_single_bit_of_a_control_payload_is_guarded(bytes in any::datagram()) {
        let datagram = Datagram::decode(&bytes).unwrap();
        let head = datagram.head().copied();
        if !matches!(datagram, Datagram::Data(_)) {
            for bit in header_bytes(&bytes) * 8..bytes.len() * 8 {
                let malformed = Datagram::decode(&flipped(&bytes, bit)).unwrap_err();
                prop_assert_eq!(malformed, Malformed { reason: Reason::PayloadCrc, head });
            }
        }
    }

    #[test]
    fn a_sealed_header_with_any_content_never_panics(
        bytes in any::datagram(),
        at in 0..248_usize,
        noise in any::<[u8; 8]>(),
    ) {
        // The forger knows the protocol: both checksums are correct, only the meaning is broken.
        let mut forged = bytes;
        let header_bytes = header_bytes(&forged);
        let at = at % (header_bytes - 8);
        forged[at..at + 8].copy_from_slice(&noise);
        reseal(&mut forged);
        if let Ok(datagram) = Datagram::decode(&forged) {
            let again = any::encoded(&datagram);
            let reread = Datagram::decode(&again);
            prop_assert_eq!(reread.as_ref(), Ok(&datagram));
            // At most an unknown extension was lost.
            prop_assert!(again == forged || again.len() < forged.len());
            if let Datagram::Report(report) = datagram {
                // All claimed counts can be added up.
                let _ = (report.datagrams.check(), report.elements.check());
            }
        }
    }

    #[test]
    fn noise_is_refused(noise in prop::collection::vec(any::<u8>(), 0..2_000)) {
        prop_assert!(Datagram::decode(&noise).is_err());
    }
}

#[test]
fn unknown_extensions_are_dropped_by_number() {
    let bytes = encoded(&data());
    let with = |change: fn(&mut Vec<u8>)| {
        let mut forged = bytes.clone();
        change(&mut forged);
        reseal(&mut forged);
        Datagram::decode(&forged).unwrap_err()
    };
    let head = Some(head());
    assert_eq!(with(|bytes| bytes[4] = 1), Malformed { reason: Reason::Flags(1), head });
    assert_eq!(with(|bytes| bytes[3] = 0x80), Malformed { reason: Reason::Kind(0x80), head });
    assert_eq!(with(|bytes| bytes[3] = 7), Malformed { reason: Reason::Kind(7), head: None });
    assert_eq!(with(|bytes| bytes[2] = 2), Malformed { reason: Reason::Version(2), head: None });
    assert_eq!(with(|bytes| bytes[0] = 0), Malformed { reason: Reason::Magic(0x4300), head: None });
}

#[test]
fn a_longer_header_with_a_flag_still_names_its_number() {
    let mut bytes = encoded(&data());
    bytes[4] = 1;
    bytes[6..8].copy_from_slice(&88_u16.to_le_bytes());
    bytes.splice(DATA_HEADER_BYTES..DATA_HEADER_BYTES, [7; 8]);
    reseal(&mut bytes);
    let malformed = Malformed { reason: Reason::Flags(1), head: Some(head()) };
    assert_eq!(Datagram::decode(&bytes), Err(malformed));
    // Without the flag the eight bytes are an extension, whose length exceeds the header.
    bytes[4] = 0;
    reseal(&mut bytes);
    let malformed = Malformed { reason: Reason::Field("extensions"), head: Some(head()) };
    assert_eq!(Datagram::decode(&bytes), Err(malformed));
}

#[test]
fn sizes_of_headers_are_multiples_of_eight_within_bounds() {
    let with = |header_bytes: u16| {
        let mut bytes = encoded(&data());
        bytes.resize(1_200, 0);
        bytes[6..8].copy_from_slice(&header_bytes.to_le_bytes());
        reseal(&mut bytes);
        Datagram::decode(&bytes).unwrap_err().reason
    };
    for refused in [0, 32, 39, 41, 84, 1_028, 1_032, u16::MAX - 7] {
        assert_eq!(with(refused), Reason::Field("header_bytes"), "{refused}");
    }
    // A group header of 40 bytes has no number in it; the other sizes are checked before that.
    for accepted_so_far in [40, 64, 256, 264, 1_024] {
        assert_eq!(with(accepted_so_far), Reason::Length, "{accepted_so_far}");
    }
}

#[test]
fn the_ends_of_numbers_and_positions_are_the_limit() {
    let last = Numbered { number: u64::MAX - 1, ..head() };
    assert!(forged(&Data { head: last, ..data() }, 40, &(u64::MAX - 1).to_le_bytes()).is_ok());
    let beyond = forged(&data(), 40, &u64::MAX.to_le_bytes());
    assert_eq!(beyond, Err(Malformed { reason: Reason::Field("number"), head: None }));

    // With two elements a sample, 2⁶³ − 3 is the last index whose four elements end within 64 bits.
    let last_index = u64::MAX / 2 - 2;
    assert!(forged(&data(), 48, &last_index.to_le_bytes()).is_ok());
    let past_the_end = forged(&data(), 48, &(last_index + 1).to_le_bytes()).unwrap_err();
    assert_eq!(past_the_end.reason, Reason::Field("first_index"));
    let overflow = forged(&data(), 48, &u64::MAX.to_le_bytes());
    assert_eq!(overflow, Err(Malformed { reason: Reason::Field("first_index"), head: None }));
}

#[test]
fn samples_have_one_to_two_to_the_28_elements() {
    for (elements, accepted) in [(0, false), (1, true), (MAX_ELEMENTS_PER_SAMPLE, true)] {
        assert_eq!(forged(&data(), 60, &elements.to_le_bytes()).is_ok(), accepted, "{elements}");
    }
    let beyond = forged(&data(), 60, &(MAX_ELEMENTS_PER_SAMPLE + 1).to_le_bytes());
    assert_eq!(beyond, Err(Malformed { reason: Reason::Field("elements_per_sample"), head: None }));
}

#[test]
fn a_slice_is_whole_samples_or_a_piece_of_one() {
    let with = |offset: u32, per_sample: u32| {
        let position = [offset.to_le_bytes(), per_sample.to_le_bytes()].concat();
        forged(&data(), 56, &position).map(|_| ()).map_err(|malformed| malformed.reason)
    };
    // The slice has four elements.
    assert_eq!(with(0, 4), Ok(()));
    assert_eq!(with(0, 2), Ok(()));
    assert_eq!(with(0, 100), Ok(()));
    assert_eq!(with(96, 100), Ok(()));
    assert_eq!(with(97, 100), Err(Reason::Field("element_count")), "a piece ends with its sample");
    assert_eq!(with(0, 3), Err(Reason::Field("element_count")), "one sample and a third");
    assert_eq!(with(1, 2), Err(Reason::Field("element_count")), "halves of three samples");
    assert_eq!(with(2, 2), Err(Reason::Field("element_offset")), "that is the next sample");
}

#[test]
fn counts_and_sizes_must_agree() {
    let reason = |at, bytes: &[u8]| forged(&data(), at, bytes).unwrap_err().reason;
    assert_eq!(reason(72, &6_u32.to_le_bytes()), Reason::Length);
    assert_eq!(reason(72, &0_u32.to_le_bytes()), Reason::Field("element_count"));
    assert_eq!(reason(72, &u32::MAX.to_le_bytes()), Reason::Field("element_count"));
    assert_eq!(reason(72, &(u32::MAX - 1).to_le_bytes()), Reason::Length);
    assert_eq!(reason(76, &[Dtype::F4.code()]), Reason::Length);
    assert_eq!(reason(76, &[13]), Reason::Field("dtype"));
    assert_eq!(reason(78, &[1]), Reason::Field("reserved"));
    assert!(matches!(forged(&data(), 77, &[5]), Ok(Datagram::Data(Data { clock: Clock::Other(5), .. }))));
}

#[test]
fn every_kind_has_a_code_of_its_own() {
    for code in 0..=u8::MAX {
        assert_eq!(Kind::from_code(code).map(Kind::code), (1..=6).contains(&code).then_some(code));
    }
}

fn head() -> Numbered {
    Numbered {
        stream: StreamId(1),
        epoch: Epoch { start_ns: 2, incarnation: 3 },
        number: 4,
        first_index: 5,
        element_offset: 0,
        elements_per_sample: 2,
    }
}

/// Four elements of two bytes: two samples.
fn data() -> Data<'static> {
    Data {
        head: head(),
        t0: WallTime::from_nanos(6),
        clock: Clock::System,
        dtype: Dtype::I16,
        element_count: 4,
        origin: None,
        payload: &[0; 8],
    }
}

fn encoded(data: &Data<'_>) -> Vec<u8> {
    any::encoded(&Datagram::Data(*data))
}

/// Overwrites a field of a data datagram, seals it again and reads it.
fn forged(data: &Data<'_>, at: usize, field: &[u8]) -> Result<Datagram<'static>, Malformed> {
    let mut bytes = encoded(data);
    bytes[at..at + field.len()].copy_from_slice(field);
    reseal(&mut bytes);
    Datagram::decode(bytes.leak())
}

fn flipped(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

fn header_bytes(bytes: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([bytes[6], bytes[7]]))
}

/// Computes the header CRC of the present header, as far as it exists.
fn reseal(bytes: &mut [u8]) {
    let header_bytes = header_bytes(bytes).min(bytes.len());
    if header_bytes >= 12 {
        bytes[8..12].fill(0);
        let crc = crc_fast::crc32_iscsi(&bytes[..header_bytes]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    }
}
