//! Any bytes as the parts of a description, in any order, with parts missing, duplicated and damaged.
//!
//! The first eight bytes determine how the rest, the content, is cut and how its parts are changed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use units::{Epoch, StreamId};
use wire::{
    Datagram, Description, DescriptorAssembler, DescriptorPart, MAX_DESCRIPTION_BYTES, Numbered, stream_id,
};

/// Maximum number of parts tried for one content.
const STEPS: u16 = 64;

fuzz_target!(|input: &[u8]| {
    let Some((&[parts, first, stride, damaged, ..], content)) = input.split_first_chunk::<8>() else {
        return;
    };
    if content.is_empty() || content.len() > MAX_DESCRIPTION_BYTES {
        return;
    }
    let head = head(content);
    let parts = usize::from(parts).clamp(1, content.len());
    let parts = content.len().div_ceil(content.len().div_ceil(parts));
    let chunks: Vec<_> = content.chunks(content.len().div_ceil(parts)).collect();
    let mut assembler = DescriptorAssembler::new();
    for step in 0..STEPS {
        let index = usize::from(u16::from(first) + step * u16::from(stride)) % chunks.len();
        let mut bytes = chunks[index].to_vec();
        if step == u16::from(damaged) {
            bytes[0] ^= 1;
        }
        let part = DescriptorPart {
            head,
            part: u16::try_from(index).expect("at most 255 parts"),
            parts: u16::try_from(chunks.len()).expect("at most 255 parts"),
            content_bytes: u32::try_from(content.len()).expect("at most 256 KiB"),
            content_crc: crc32c(content),
            predecessor: None,
            addresses: &[],
            origin: None,
            deadline: None,
            bytes: &bytes,
        };
        let mut datagram = vec![0; 128 + bytes.len()];
        let size = part.encode(&mut datagram).expect("room for header and part");
        assert_eq!(Datagram::decode(&datagram[..size]), Ok(Datagram::Descriptor(part)));
        if let Ok(Some(description)) = assembler.accept(&part) {
            // An accepted description equals the one sent, independent of damage to parts.
            assert_eq!(Ok(description), Description::decode(content));
        }
    }
});

/// Returns the header that a publisher of this content would use, if it is a description at all.
fn head(content: &[u8]) -> Numbered {
    let (stream, elements_per_sample) = Description::decode(content).map_or((StreamId(0), 1), |described| {
        (stream_id(&described.name, &described.schema), described.schema.elements_per_sample())
    });
    let epoch = Epoch { start_ns: 1, incarnation: 2 };
    Numbered { stream, epoch, number: 3, first_index: 4, element_offset: 0, elements_per_sample }
}

/// CRC-32C bit by bit: small, slow, and not the one under test.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(crc & 1)))
    })
}
