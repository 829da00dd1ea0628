//! Search for the packet size that a path carries, by padded probes: packetization layer path MTU discovery for
//! datagrams (RFC 8899).
//!
//! Data begin in packets that every path carries, so the first ones arrive whatever the path is. Meanwhile
//! acknowledgements are sent that are padded to a candidate size. A peer answers every full acknowledgement, libudt's
//! ignore what follows its words, and a lost probe delays no data (RFC 8899 §4.1). The largest candidate comes first:
//! on most paths it arrives, and one round trip suffices.
//!
//! Probing ends with the first answer, or with the smallest candidate. A path that becomes narrower later is a black
//! hole, which `pmtu_black_hole` detects.

use core::net::IpAddr;
use core::time::Duration;

use units::Instant;

use crate::config::{FirstSize, IPV6_EXTRA_BYTES, SocketConfig, payload_bytes};

/// Minimum reassembly size of IPv4, and the largest packet for distant networks without knowledge of the path
/// (RFC 791 §3.1, RFC 1122 §3.3.3): 548 bytes of UDP payload.
const BASE_IPV4: u32 = 576;
/// Minimum MTU of IPv6 (RFC 8200 §5).
const BASE_IPV6: u32 = 1_280;
/// MTUs of links and tunnels: jumbo frames, FDDI, Ethernet, PPPoE (RFC 2516), common tunnels, the minimum of IPv6.
const COMMON: [u32; 6] = [9_000, 4_352, 1_500, 1_492, 1_400, 1_280];
/// Maximum number of probes of one size (`MAX_PROBES`, RFC 8899 §5.1.2).
const MOST_PROBES: u32 = 3;
/// Minimum time for the answer to a probe (`PROBE_TIMER`, RFC 8899 §5.1.1).
const LEAST_WAIT: Duration = Duration::from_secs(1);

/// The confirmed packet size, and the candidates above it. Units: bytes, in UDT's counting of headers.
#[derive(Debug)]
pub(crate) struct SizeSearch {
    confirmed: u32,
    /// Sizes to probe, the next one last.
    candidates: Vec<u32>,
    /// Number of probes of the current candidate so far.
    probes: u32,
    /// Time at which the current probe counts as lost.
    due: Option<Instant>,
    /// Number and size of each probe.
    asked: Vec<(u32, u32)>,
}

impl SizeSearch {
    /// Starts with the size for this peer, of at most `agreed_bytes`.
    pub(crate) fn new(config: &SocketConfig, peer: IpAddr, agreed_bytes: u32) -> Self {
        let is_probed = match config.first_size {
            FirstSize::ByPeer => !wire::is_within_site(peer),
            FirstSize::Probed => true,
            FirstSize::Agreed => false,
        };
        let (base, extra) =
            if peer.to_canonical().is_ipv6() { (BASE_IPV6, IPV6_EXTRA_BYTES) } else { (BASE_IPV4, 0) };
        let extra = extra + config.enclosing_bytes;
        let base = base - extra;
        if !is_probed || agreed_bytes <= base {
            return Self::settled(agreed_bytes);
        }
        let common = COMMON.map(|bytes| bytes - extra);
        let below = common.into_iter().filter(|bytes| (base + 1..agreed_bytes).contains(bytes));
        let mut candidates: Vec<u32> = core::iter::once(agreed_bytes).chain(below).collect();
        candidates.reverse();
        Self { candidates, ..Self::settled(base) }
    }

    const fn settled(confirmed: u32) -> Self {
        Self { confirmed, candidates: Vec::new(), probes: 0, due: None, asked: Vec::new() }
    }

    /// Returns the size of full packets now.
    pub(crate) const fn packet_bytes(&self) -> u32 {
        self.confirmed
    }

    /// Returns whether the answer to the first probe may still come: it is not worth queueing much in small packets.
    pub(crate) const fn is_beginning(&self) -> bool {
        !self.candidates.is_empty() && self.asked.len() < 2
    }

    /// Returns the size of the probe to send now, if one is due; `patience` is the time in which answers come.
    pub(crate) fn poll(&mut self, now: Instant, patience: Duration) -> Option<u32> {
        if self.due.is_some_and(|due| due > now) {
            return None;
        }
        if self.probes == MOST_PROBES {
            self.candidates.pop();
            (self.probes, self.due) = (0, None);
        }
        let candidate = *self.candidates.last()?;
        self.probes += 1;
        self.due = Some(now + patience.max(LEAST_WAIT));
        Some(candidate)
    }

    /// Records the number of a probe.
    pub(crate) fn asked(&mut self, number: u32, packet_bytes: u32) {
        self.asked.push((number, packet_bytes));
    }

    /// Records an answer; returns the new size if it confirms a larger one. Late answers count, too.
    pub(crate) fn answered(&mut self, number: u32) -> Option<u32> {
        let (_, size) = *self.asked.iter().find(|(asked, _)| *asked == number)?;
        if size <= self.confirmed {
            return None;
        }
        *self = Self { asked: core::mem::take(&mut self.asked), ..Self::settled(size) };
        Some(size)
    }

    /// Returns the time of the next probe, once one was sent.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due.filter(|_| !self.candidates.is_empty())
    }
}

/// Returns whether packets with this payload are full ones of a peer that searches: they end no burst.
pub(crate) fn is_searched(payload: usize, enclosing_bytes: u32) -> bool {
    let of_size = |bytes: u32| {
        let bytes = bytes - enclosing_bytes;
        payload_bytes(bytes) == payload || payload_bytes(bytes - IPV6_EXTRA_BYTES) == payload
    };
    of_size(BASE_IPV4) || COMMON.into_iter().any(of_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(100);

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn starting(first_size: FirstSize) -> SocketConfig {
        SocketConfig { first_size, ..SocketConfig::new(wire::udt::SocketType::Stream) }
    }

    fn first(peer: &str, agreed_bytes: u32) -> u32 {
        SizeSearch::new(&starting(FirstSize::ByPeer), peer.parse().unwrap(), agreed_bytes).packet_bytes()
    }

    #[test]
    fn packets_to_the_internet_begin_with_548_bytes_and_those_of_a_site_with_the_agreed_size() {
        let udp_payload = |peer| first(peer, 1_500) - 28;
        for peer in ["8.8.8.8", "192.0.2.1", "100.64.0.1", "172.32.0.1", "::ffff:8.8.8.8"] {
            assert_eq!(udp_payload(peer), 548, "{peer}");
        }
        for peer in ["127.0.0.1", "10.1.2.3", "172.31.0.1", "192.168.1.1", "169.254.0.1", "::1", "fd00::1"] {
            assert_eq!(udp_payload(peer), 1_472, "{peer}");
        }
        assert_eq!(udp_payload("fe80::1"), 1_472);
        // UDT counts 20 bytes of the IPv6 header too few.
        assert_eq!(first("2001:db8::1", 1_480) + IPV6_EXTRA_BYTES, BASE_IPV6);
        assert_eq!(first("8.8.8.8", 400), 400, "less is agreed");
    }

    #[test]
    fn a_layer_below_makes_no_first_packet_larger() {
        let config = SocketConfig { enclosing_bytes: 32, ..starting(FirstSize::ByPeer) };
        let first = |peer: &str| SizeSearch::new(&config, peer.parse().unwrap(), 1_400).packet_bytes();
        assert_eq!(
            [first("8.8.8.8"), first("2001:db8::1")],
            [BASE_IPV4 - 32, BASE_IPV6 - IPV6_EXTRA_BYTES - 32]
        );
        let announced = crate::config::announced_bytes(&config, "8.8.8.8".parse().unwrap());
        assert_eq!(announced, 1_500 - 32);
    }

    #[test]
    fn sizes_of_the_search_end_no_burst_and_others_do() {
        assert!(
            [576, 1_492, 1_280, 1_260].map(payload_bytes).into_iter().all(|payload| is_searched(payload, 0))
        );
        assert!(
            [544, 1_460, 1_248, 1_228].map(payload_bytes).into_iter().all(|payload| is_searched(payload, 32))
        );
        assert!([1, 531, 533, 1_000].into_iter().all(|payload| !is_searched(payload, 0)));
    }

    #[test]
    fn the_largest_size_is_probed_first_and_an_answer_ends_the_search() {
        let mut search = SizeSearch::new(&starting(FirstSize::Probed), "10.0.0.1".parse().unwrap(), 1_500);
        assert_eq!((search.deadline(), search.poll(at(5), PATIENCE)), (None, Some(1_500)));
        search.asked(7, 1_500);
        assert_eq!((search.poll(at(5), PATIENCE), search.deadline()), (None, Some(at(6))));
        assert_eq!(search.answered(8), None, "the answer to another acknowledgement");
        assert_eq!(search.answered(7), Some(1_500));
        assert_eq!(
            (search.packet_bytes(), search.poll(at(99), PATIENCE), search.deadline()),
            (1_500, None, None)
        );
        assert_eq!(search.answered(7), None, "said twice");
    }

    #[test]
    fn each_size_is_probed_three_times_and_the_base_stays_if_none_arrives() {
        let mut search = SizeSearch::new(&starting(FirstSize::Probed), "10.0.0.1".parse().unwrap(), 1_500);
        let mut probed = Vec::new();
        for second in 0..20 {
            if let Some(size) = search.poll(at(second), PATIENCE) {
                search.asked(u32::try_from(second).unwrap(), size);
                probed.push(size);
            }
        }
        let expected: Vec<u32> =
            [1_500, 1_492, 1_400, 1_280].into_iter().flat_map(|size| [size; 3]).collect();
        assert_eq!(probed, expected);
        assert_eq!((search.packet_bytes(), search.deadline()), (BASE_IPV4, None));
        assert_eq!(search.answered(6), Some(1_400), "an answer that comes late is one");
        assert_eq!(search.answered(9), None, "and a smaller size is no news");
    }
}
