//! Any bytes as a datagram: refused with a reason, or encoded to the same bytes again, without unknown extensions.
//!
//! A fuzzer cannot guess checksums, so each input is also tried with the right ones inserted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::Datagram;

fuzz_target!(|bytes: &[u8]| {
    judge(bytes);
    let mut sealed = bytes.to_vec();
    if seal(&mut sealed).is_some() {
        judge(&sealed);
    }
});

fn judge(bytes: &[u8]) {
    let Ok(datagram) = Datagram::decode(bytes) else { return };
    let mut again = vec![0; bytes.len()];
    let size = datagram.encode(&mut again).expect("no longer than it came");
    again.truncate(size);
    assert_eq!(Datagram::decode(&again).as_ref(), Ok(&datagram));
    // It has lost unknown extensions, or nothing.
    assert!(size < bytes.len() || again == bytes);
    if let Datagram::Report(report) = datagram {
        // Any counts of a reader can be added up without a panic, even if they do not balance.
        let _ = (report.datagrams.check(), report.elements.check());
    }
}

/// Inserts the fields that `docs/protocol/stream.md` requires before others are read; nothing if there is no room.
fn seal(bytes: &mut [u8]) -> Option<()> {
    bytes.get_mut(..3)?.copy_from_slice(&[0x54, 0x43, 1]);
    bytes.get_mut(4..6)?.fill(0);
    // Up to 15 times eight bytes of extensions.
    let extension_bytes = usize::from(bytes.get(6)? % 16) * 8;
    let (header_bytes, payload_crc) = match bytes[3] % 6 + 1 {
        1 => (80, None),
        2 => (192, Some(64)),
        3 => (80, Some(64)),
        4 => (184, Some(56)),
        5 => (96, Some(48)),
        _ => (56, None),
    };
    let header_bytes = header_bytes + extension_bytes;
    bytes[3] = bytes[3] % 6 + 1;
    let (header, payload) = bytes.split_at_mut_checked(header_bytes)?;
    header[6..8].copy_from_slice(&u16::try_from(header_bytes).ok()?.to_le_bytes());
    header[12..16].copy_from_slice(&u32::try_from(payload.len()).ok()?.to_le_bytes());
    if let Some(at) = payload_crc {
        header[at..at + 4].copy_from_slice(&crc32c(payload).to_le_bytes());
    }
    header[8..12].fill(0);
    let crc = crc32c(header);
    header[8..12].copy_from_slice(&crc.to_le_bytes());
    Some(())
}

/// CRC-32C bit by bit: small, slow, and not the one under test.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(crc & 1)))
    })
}
