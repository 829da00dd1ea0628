//! Sizes of datagrams, and the number of elements in one.

use core::net::IpAddr;

use sample::Dtype;

use crate::DATA_HEADER_BYTES;

/// UDP payload of an IPv4 packet on Ethernet: 1,500 bytes less the headers of IPv4 and UDP.
pub const DATAGRAM_BYTES_IPV4: usize = 1_472;
/// UDP payload of an IPv6 packet on Ethernet: 1,500 bytes less the headers of IPv6 and UDP.
pub const DATAGRAM_BYTES_IPV6: usize = 1_452;
/// UDP payload that every Internet path carries: 576 bytes (RFC 1122 §3.3.3) less the headers of IPv4 and UDP.
pub const MIN_DATAGRAM_BYTES: usize = 548;
/// Minimum size of data datagrams: the header and a few elements. All other datagrams of a publisher take up to
/// [`MIN_DATAGRAM_BYTES`] regardless.
pub const MIN_DATA_BYTES: usize = 100;
/// Maximum UDP payload over IPv4: 65,535 bytes less both headers.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;

/// Returns whether an address is within the site, where links carry whole Ethernet frames: loopback, private (RFC 1918,
/// RFC 4193), link-local (RFC 3927, RFC 4291 §2.5.6) or a group.
///
/// Paths to other addresses are only known to carry [`MIN_DATAGRAM_BYTES`], 1,232 bytes over IPv6 (RFC 8200 §5).
#[must_use]
pub const fn is_within_site(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            address.is_loopback() || address.is_private() || address.is_link_local() || address.is_multicast()
        }
        IpAddr::V6(address) => {
            let is_site = address.is_unique_local() || address.is_unicast_link_local();
            address.is_loopback() || is_site || address.is_multicast()
        }
    }
}

/// Division of a stream's samples into datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fit {
    /// Up to this many whole samples in one datagram.
    Samples(u32),
    /// One sample does not fit: pieces of up to this many elements of it.
    Pieces(u32),
}

impl Fit {
    /// Returns the maximum number of elements in one datagram.
    #[must_use]
    pub const fn elements(self, elements_per_sample: u32) -> u32 {
        match self {
            Self::Samples(samples) => samples * elements_per_sample,
            Self::Pieces(elements) => elements,
        }
    }
}

/// Returns the division of a stream's samples into datagrams of at most `datagram_bytes`.
///
/// # Panics
/// If `datagram_bytes` is not within [`MIN_DATA_BYTES`]..=[`MAX_DATAGRAM_BYTES`], or a sample has no
/// elements: configuration and schema were checked before.
#[must_use]
pub fn max_elements(datagram_bytes: usize, dtype: Dtype, elements_per_sample: u32) -> Fit {
    assert!(
        (MIN_DATA_BYTES..=MAX_DATAGRAM_BYTES).contains(&datagram_bytes),
        "a datagram of {datagram_bytes} bytes is outside {MIN_DATA_BYTES}..={MAX_DATAGRAM_BYTES}"
    );
    let room = (datagram_bytes - DATA_HEADER_BYTES) / dtype.size_bytes();
    let elements = u32::try_from(room).expect("a datagram has less than 65,508 elements");
    match elements / elements_per_sample {
        0 => Fit::Pieces(elements),
        samples => Fit::Samples(samples),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_whole_until_one_does_not_fit() {
        // 1,472 − 80 bytes hold 348 floats of four bytes.
        assert_eq!(max_elements(DATAGRAM_BYTES_IPV4, Dtype::F4, 1), Fit::Samples(348));
        assert_eq!(max_elements(DATAGRAM_BYTES_IPV4, Dtype::F4, 100), Fit::Samples(3));
        assert_eq!(max_elements(DATAGRAM_BYTES_IPV4, Dtype::F4, 348), Fit::Samples(1));
        assert_eq!(max_elements(DATAGRAM_BYTES_IPV4, Dtype::F4, 349), Fit::Pieces(348));
    }

    #[test]
    fn every_dtype_has_room_in_the_smallest_datagram() {
        for dtype in Dtype::ALL {
            let elements = max_elements(MIN_DATAGRAM_BYTES, dtype, 1).elements(1) as usize;
            let used = DATA_HEADER_BYTES + elements * dtype.size_bytes();
            assert!(used <= MIN_DATAGRAM_BYTES && used + dtype.size_bytes() > MIN_DATAGRAM_BYTES, "{dtype}");
        }
    }

    #[test]
    fn the_largest_datagram_is_the_limit() {
        assert_eq!(max_elements(MAX_DATAGRAM_BYTES, Dtype::U8, u32::MAX), Fit::Pieces(65_427));
        let beyond = || max_elements(MAX_DATAGRAM_BYTES + 1, Dtype::U8, 1);
        assert!(std::panic::catch_unwind(beyond).is_err());
        let below = || max_elements(MIN_DATA_BYTES - 1, Dtype::U8, 1);
        assert!(std::panic::catch_unwind(below).is_err());
    }
}
