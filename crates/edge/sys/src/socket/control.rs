//! Data that the kernel returns with a datagram: its sender's address and its control messages.
//!
//! Read from plain bytes, without unsafe code; layouts are those of Linux' `socket.h` and `in.h`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use nix::libc;
use units::WallTime;

use crate::raw::{CONTROL_BYTES, NAME_BYTES};

const WORD_BYTES: usize = size_of::<usize>();
/// Size of `struct cmsghdr`: a `size_t` length that includes itself, `int` level, `int` type.
const HEADER_BYTES: usize = WORD_BYTES + 8;

// A timestamp, a drop counter and the size of a train's segments, with their headers.
const _: () = assert!(3 * HEADER_BYTES + 2 * WORD_BYTES + 16 <= CONTROL_BYTES);

/// Contents of the control messages of one datagram, or one train.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) kernel_time: Option<WallTime>,
    pub(crate) drops: Option<u32>,
    /// Size of every datagram but the last, if the kernel joined several (`UDP_GRO`).
    pub(crate) segment_bytes: Option<usize>,
}

/// Reads the known control messages, skips others, and stops at a truncated one.
pub(crate) fn read_control(mut bytes: &[u8]) -> Evidence {
    let mut evidence = Evidence::default();
    while let Some((level, kind, data, rest)) = next_message(bytes) {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => evidence.kernel_time = read_time(data),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                evidence.drops = data.first_chunk().map(|drops| u32::from_ne_bytes(*drops));
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                let size = data.first_chunk().map(|size| i32::from_ne_bytes(*size));
                evidence.segment_bytes =
                    size.and_then(|size| usize::try_from(size).ok()).filter(|it| *it > 0);
            }
            _ => {}
        }
        bytes = rest;
    }
    evidence
}

fn next_message(bytes: &[u8]) -> Option<(i32, i32, &[u8], &[u8])> {
    let header = bytes.get(..HEADER_BYTES)?;
    let len = usize::from_ne_bytes(*header.first_chunk()?);
    let level = i32::from_ne_bytes(*header[WORD_BYTES..].first_chunk()?);
    let kind = i32::from_ne_bytes(*header[WORD_BYTES + 4..].first_chunk()?);
    let data = bytes.get(HEADER_BYTES..len)?;
    let next = len.next_multiple_of(WORD_BYTES).min(bytes.len());
    Some((level, kind, data, &bytes[next..]))
}

/// Reads a `struct timespec` of two `long`.
fn read_time(data: &[u8]) -> Option<WallTime> {
    let seconds = isize::from_ne_bytes(*data.first_chunk()?);
    let nanos = isize::from_ne_bytes(*data.get(WORD_BYTES..)?.first_chunk()?);
    let (seconds, nanos) = (i64::try_from(seconds).ok()?, i64::try_from(nanos).ok()?);
    Some(WallTime::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos)))
}

/// Reads a `sockaddr_in` or `sockaddr_in6`.
pub(crate) fn read_address(name: &[u8; NAME_BYTES]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*name.first_chunk()?));
    let port = u16::from_be_bytes(*name[2..].first_chunk()?);
    match family {
        libc::AF_INET => {
            let ip = Ipv4Addr::from(*name[4..].first_chunk::<4>()?);
            Some(SocketAddrV4::new(ip, port).into())
        }
        libc::AF_INET6 => {
            let flow = u32::from_be_bytes(*name[4..].first_chunk()?);
            let ip = Ipv6Addr::from(*name[8..].first_chunk::<16>()?);
            let scope = u32::from_ne_bytes(*name[24..].first_chunk()?);
            Some(SocketAddrV6::new(ip, port, flow, scope).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER_BYTES + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(WORD_BYTES), 0);
        bytes
    }

    fn time_and_drops() -> Vec<u8> {
        let mut time = 3_isize.to_ne_bytes().to_vec();
        time.extend(7_isize.to_ne_bytes());
        let mut bytes = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &time);
        bytes.extend(message(libc::SOL_IP, libc::IP_TTL, &[1; 4]));
        bytes.extend(message(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &42_u32.to_ne_bytes()));
        bytes
    }

    #[test]
    fn time_and_drops_are_found_among_other_messages() {
        let evidence = read_control(&time_and_drops());
        let kernel_time = Some(WallTime::from_nanos(3_000_000_007));
        let expected = Evidence { kernel_time, drops: Some(42), segment_bytes: None };
        assert_eq!(evidence, expected);
        assert_eq!(read_control(&[]), Evidence::default());
    }

    #[test]
    fn control_cut_off_anywhere_or_with_any_length_is_read_without_a_panic() {
        let whole = time_and_drops();
        for cut in 0..whole.len() {
            read_control(&whole[..cut]);
        }
        for len in 0..=255 {
            let mut bytes = whole.clone();
            bytes[0] = len;
            read_control(&bytes);
        }
    }

    #[test]
    fn addresses_of_both_versions_are_read() {
        let mut name = [0; NAME_BYTES];
        name[..2].copy_from_slice(&2_u16.to_ne_bytes());
        name[2..8].copy_from_slice(&[0x1c, 0xe8, 127, 0, 0, 1]);
        assert_eq!(read_address(&name), Some("127.0.0.1:7400".parse().unwrap()));
        name[..2].copy_from_slice(&10_u16.to_ne_bytes());
        name[4..].fill(0);
        name[23] = 1;
        assert_eq!(read_address(&name), Some("[::1]:7400".parse().unwrap()));
        assert_eq!(read_address(&[0; NAME_BYTES]), None);
    }
}
