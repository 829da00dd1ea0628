//! Layout of the hook's output: `struct run` of `hook.bpf.c`, and copies of packets after it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use diagnose::Profile;

/// Similar drops of one processor, as the hook writes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Number of the run on its processor; 0 for a drop that belongs to none.
    pub serial: u64,
    pub(crate) serial_again: u64,
    pub(crate) location: u64,
    pub(crate) cookie: u64,
    pub(crate) stream: u64,
    pub(crate) incarnation: u64,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) reason: u32,
    pub(crate) namespace: u32,
    pub(crate) device: u32,
    pub(crate) flags: u32,
    pub(crate) begin_ns: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) ip_id: u32,
    pub(crate) gso_bytes: u16,
    pub(crate) gso_segments: u16,
    pub(crate) cpu: u32,
    pub(crate) payload_at: u32,
}

/// Size of `struct run`.
pub(crate) const RUN_BYTES: usize = 144;

impl Run {
    const IS_INCOMING: u32 = 1;
    const IS_FRAGMENT: u32 = 2;
    const IS_LATER: u32 = 4;
    const IS_NUMBERED: u32 = 8;

    pub(crate) const fn is_incoming(&self) -> bool {
        self.flags & Self::IS_INCOMING != 0
    }

    pub(crate) const fn is_fragment(&self) -> bool {
        self.flags & Self::IS_FRAGMENT != 0
    }

    pub(crate) const fn is_later_fragment(&self) -> bool {
        self.flags & Self::IS_LATER != 0
    }

    pub(crate) const fn is_numbered(&self) -> bool {
        self.flags & Self::IS_NUMBERED != 0
    }

    /// Returns whether it was read while the hook was writing it.
    pub(crate) const fn is_torn(&self) -> bool {
        self.serial != self.serial_again
    }

    pub(crate) const fn count(&self) -> u64 {
        self.last.wrapping_sub(self.first).saturating_add(1)
    }

    const fn with_number(self, stream: u64, incarnation: u64, number: u64) -> Self {
        Self {
            stream,
            incarnation,
            first: number,
            last: number,
            flags: self.flags | Self::IS_NUMBERED,
            ..self
        }
    }
}

/// Reads a run; `None` if there are too few bytes.
#[must_use]
pub fn read_run(bytes: &[u8]) -> Option<Run> {
    let bytes: &[u8; RUN_BYTES] = bytes.first_chunk()?;
    let quarter = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let half = |at: usize| u32::from(quarter(at)) | u32::from(quarter(at + 2)) << 16;
    let word = |at: usize| u64::from(half(at)) | u64::from(half(at + 4)) << 32;
    let address = |at: usize, port_at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&bytes[at..at + 16]);
        SocketAddr::new(IpAddr::V6(Ipv6Addr::from(octets)).to_canonical(), quarter(port_at))
    };
    Some(Run {
        serial: word(0),
        location: word(8),
        cookie: word(16),
        stream: word(24),
        incarnation: word(32),
        source: address(40, 84),
        destination: address(56, 86),
        reason: half(72),
        namespace: half(76),
        device: half(80),
        flags: half(88),
        begin_ns: word(96),
        first: word(104),
        last: word(112),
        ip_id: half(120),
        gso_bytes: quarter(124),
        gso_segments: quarter(126),
        cpu: half(128),
        payload_at: half(132),
        serial_again: word(136),
    })
}

/// Reads the datagrams of a packet that the hook copied: one, or all of a train.
///
/// Datagrams without a number in any profile form one run.
#[must_use]
pub fn read_copy(bytes: &[u8], profiles: &[Profile]) -> Vec<Run> {
    let Some(run) = read_run(bytes) else { return Vec::new() };
    let packet = &bytes[RUN_BYTES..];
    let segments = usize::from(run.gso_segments.max(1));
    let payload = |index: usize| packet.get(run.payload_at as usize + index * usize::from(run.gso_bytes)..);
    let named = |index: usize| {
        let payload = payload(index)?;
        let named = profiles.iter().find_map(|profile| profile.read(payload))?;
        Some(run.with_number(named.stream, named.incarnation, named.number))
    };
    let runs: Vec<Run> = (0..segments).filter_map(named).collect();
    let unnamed = segments - runs.len();
    let rest = (unnamed > 0).then(|| Run { first: 0, last: unnamed as u64 - 1, ..run });
    runs.into_iter().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a copied train of `segments` RTP packets of `segment_bytes`, numbered from 7, behind 42 bytes of
    /// headers.
    fn train(segments: u16, segment_bytes: u16) -> Vec<u8> {
        let mut bytes = vec![0; RUN_BYTES];
        bytes[124..126].copy_from_slice(&segment_bytes.to_le_bytes());
        bytes[126..128].copy_from_slice(&segments.to_le_bytes());
        bytes[132..136].copy_from_slice(&42_u32.to_le_bytes());
        bytes.extend([0; 42]);
        for number in 7..7 + segments {
            let mut packet = vec![0; usize::from(segment_bytes)];
            packet[0] = 0x80;
            packet[2..4].copy_from_slice(&number.to_be_bytes());
            bytes.extend(packet);
        }
        bytes
    }

    fn numbers(bytes: &[u8]) -> Vec<(bool, u64, u64)> {
        let runs = read_copy(bytes, &[Profile::RTP]);
        runs.iter().map(|run| (run.is_numbered(), run.first, run.last)).collect()
    }

    #[test]
    fn every_datagram_of_a_train_has_its_number() {
        assert_eq!(numbers(&train(3, 100)), [(true, 7, 7), (true, 8, 8), (true, 9, 9)]);
    }

    #[test]
    fn what_is_cut_off_a_copy_is_counted_without_a_number() {
        let bytes = train(4, 100);
        assert_eq!(
            numbers(&bytes[..bytes.len() - 150]),
            [(true, 7, 7), (true, 8, 8), (true, 9, 9), (false, 0, 0)]
        );
        assert_eq!(numbers(&bytes[..RUN_BYTES]), [(false, 0, 3)]);
        assert_eq!(numbers(&bytes[..RUN_BYTES - 1]), []);
    }

    #[test]
    fn addresses_of_ipv4_are_seen_as_such() {
        let mut bytes = [0; RUN_BYTES];
        bytes[50..56].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
        bytes[84..86].copy_from_slice(&4_000_u16.to_le_bytes());
        bytes[56] = 0xfd;
        let run = read_run(&bytes).unwrap();
        assert_eq!(
            (run.source, run.destination),
            ("10.0.0.1:4000".parse().unwrap(), "[fd00::]:0".parse().unwrap())
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let runs = read_copy(&bytes, &[Profile::TALLYCAST, Profile::RTP]);
            prop_assert!(runs.len() <= usize::from(u16::MAX) + 1);
            for run in runs {
                prop_assert!(run.count() >= 1);
            }
        }
    }
}
