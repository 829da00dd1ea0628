//! Any list of extensions after the header of any kind of datagram: skipped, read, or refused.
#![no_main]

use core::num::NonZeroU8;
use core::time::Duration;

use ledger::{AccountState, NetworkRows, ReaderRows};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use units::{Epoch, ReaderId, SampleRate, StreamId, WallTime};
use wire::{
    Announcement, Clock, Data, DataOrigin, Datagram, DescriptorPart, ExtensionType, MAX_HEADER_BYTES,
    Numbered, Origin, Reason, Report, Request, Tally, Totals, Wanted,
};

/// An extension as an attacker writes it.
#[derive(Debug, Arbitrary)]
struct Item<'a> {
    code: u8,
    flags: u8,
    value: &'a [u8],
    /// Claimed length, if not the actual one.
    claimed: Option<u16>,
    /// Padding byte, if not zero.
    padding: Option<u8>,
}

#[derive(Debug, Arbitrary)]
struct Forged<'a> {
    kind: u8,
    /// Hop of a relayed stream, if it is one: the list then follows an origin.
    hop: u8,
    items: Vec<Item<'a>>,
    /// Eight-byte units after the list, which make it incomplete.
    tail: u8,
}

fuzz_target!(|forged: Forged<'_>| {
    let origin = origin(forged.hop);
    let data_origin = origin.map(|origin| DataOrigin::new(origin, None));
    let plain = plain(forged.kind, origin, data_origin.as_ref());
    let mut buffer = vec![0; 2_048];
    let size = plain.encode(&mut buffer).expect("room");
    let header_bytes = usize::from(u16::from_le_bytes([buffer[6], buffer[7]]));
    let list = listed(&forged);
    if header_bytes + list.len() > MAX_HEADER_BYTES {
        return;
    }
    let mut bytes = [&buffer[..header_bytes], &list, &buffer[header_bytes..size]].concat();
    let header_bytes = header_bytes + list.len();
    bytes[6..8].copy_from_slice(&u16::try_from(header_bytes).expect("at most 1,024").to_le_bytes());
    bytes[8..12].fill(0);
    let crc = crc32c(&bytes[..header_bytes]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    match Datagram::decode(&bytes) {
        Ok(read) => {
            assert_eq!(read.head(), plain.head());
            let mut again = vec![0; bytes.len()];
            let size = read.encode(&mut again).expect("no longer than it came");
            assert_eq!(Datagram::decode(&again[..size]).as_ref(), Ok(&read));
            assert!(size < bytes.len() || again == bytes);
        }
        Err(malformed) => {
            // Checksums and sizes are valid: only the list can be malformed, and the number stays readable.
            assert!(matches!(malformed.reason, Reason::Extension(_) | Reason::Field(_)), "{malformed:?}");
            assert_eq!(malformed.head.as_ref(), plain.head());
        }
    }
    if is_harmless(&forged) {
        assert_eq!(Datagram::decode(&bytes).as_ref(), Ok(&plain));
    }
});

/// Returns whether the list is complete and in order, and has only unknown types that are not critical.
fn is_harmless(forged: &Forged<'_>) -> bool {
    let is_plain = |item: &Item<'_>| {
        let length = item.value.len();
        let is_named = ExtensionType::ALL.iter().any(|of_type| of_type.code() == item.code);
        let is_whole = item.claimed.is_none_or(|claimed| usize::from(claimed) == length);
        let is_padded = item.padding.is_none_or(|padding| padding == 0) || (4 + length).is_multiple_of(8);
        item.code != 0 && !is_named && item.flags & 1 == 0 && is_whole && is_padded
    };
    let is_ascending = forged.items.is_sorted_by(|before, after| before.code < after.code);
    forged.tail % 8 == 0 && is_ascending && forged.items.iter().all(is_plain)
}

fn listed(forged: &Forged<'_>) -> Vec<u8> {
    let mut list = Vec::new();
    for Item { code, flags, value, claimed, padding } in &forged.items {
        let value = &value[..value.len().min(MAX_HEADER_BYTES)];
        let length = claimed.unwrap_or(u16::try_from(value.len()).expect("at most 1,024"));
        list.extend([*code, *flags]);
        list.extend(length.to_le_bytes());
        list.extend(value);
        list.resize(list.len().next_multiple_of(8), padding.unwrap_or(0));
    }
    list.resize(list.len() + usize::from(forged.tail % 8) * 8, 0);
    list
}

/// The origin of a stream that was relayed, on one of the permitted hops.
fn origin(hop: u8) -> Option<Origin> {
    let epoch = Epoch { start_ns: 900, incarnation: 8 };
    NonZeroU8::new(hop % 9).map(|hop| Origin { epoch, hop })
}

/// A datagram of any kind without extensions but the origin.
fn plain(kind: u8, origin: Option<Origin>, data_origin: Option<&DataOrigin>) -> Datagram<'_> {
    let epoch = Epoch { start_ns: 1_000, incarnation: 2 };
    let stream = StreamId(3);
    let head =
        Numbered { stream, epoch, number: 4, first_index: 5, element_offset: 0, elements_per_sample: 2 };
    let second = Duration::from_secs(1);
    match kind % 6 {
        0 => Datagram::Data(Data {
            head,
            t0: WallTime::from_nanos(6),
            clock: Clock::System,
            dtype: sample::Dtype::U8,
            element_count: 4,
            origin: data_origin,
            payload: &[1, 2, 3, 4],
        }),
        1 => Datagram::Tally(Tally {
            head,
            last: false,
            paused: false,
            watched: false,
            next_tally: second,
            readers: 1,
            report_interval: second,
            totals: Totals::default(),
            withheld: Vec::new(),
            skipped: Vec::new(),
            nonces: Vec::new(),
            statement: Vec::new(),
            origin,
            upstream: Vec::new(),
        }),
        2 => Datagram::Descriptor(DescriptorPart {
            head,
            part: 0,
            parts: 1,
            content_bytes: 3,
            content_crc: 0,
            predecessor: None,
            addresses: &[],
            origin,
            deadline: None,
            bytes: &[1, 2, 3],
        }),
        3 => Datagram::Report(Box::new(Report {
            stream,
            epoch,
            reader: ReaderId(7),
            name: "reader".to_owned(),
            state: AccountState::Open,
            age: second,
            receive_buffer_bytes: 0,
            datagrams: NetworkRows::default(),
            elements: ReaderRows::default(),
            waiting: None,
        })),
        4 => Datagram::Announcement(Announcement {
            stream,
            epoch,
            name: "a".parse().expect("a name"),
            group: ([239, 84, 0, 1], 7_400).into(),
            report_port: 0,
            dtype: sample::Dtype::U8,
            rate: SampleRate::hz(1).expect("a rate"),
            channels: 1,
            elements_per_sample: 1,
            station: String::new(),
            period: second,
        }),
        _ => Datagram::Request(Request {
            nonce: None,
            stream,
            epoch,
            reader: ReaderId(7),
            what: Wanted::Data,
            waiting: None,
        }),
    }
}

/// CRC-32C bit by bit: small, slow, and not the one under test.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(crc & 1)))
    })
}
