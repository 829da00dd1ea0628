//! Checksum of the archive's own files: CRC-32C.

/// Returns the CRC-32C (Castagnoli, as in iSCSI, RFC 3720 §12.1) of the concatenated `parts`.
pub(crate) fn crc32c<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    u32::try_from(digest.finalize()).expect("a 32-bit checksum")
}

/// Returns the CRC-32C of two concatenated parts from their checksums `first` and `second`; the second part has
/// `second_bytes`.
pub(crate) fn joined(first: u32, second: u32, second_bytes: u64) -> u32 {
    let algorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;
    let both = crc_fast::checksum_combine(algorithm, first.into(), second.into(), second_bytes);
    u32::try_from(both).expect("a 32-bit checksum")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_check_value_comes_out() {
        assert_eq!(crc32c([&b"1234"[..], b"56789"]), 0xe306_9283);
    }

    #[test]
    fn checksums_of_parts_are_joined() {
        let (first, second) = (crc32c([&b"1234"[..]]), crc32c([&b"56789"[..]]));
        assert_eq!(joined(first, second, 5), 0xe306_9283);
        assert_eq!(joined(first, crc32c([]), 0), first);
    }
}
