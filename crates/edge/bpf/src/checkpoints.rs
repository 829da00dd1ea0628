//! The checkpoints in the kernel: loaded, drained, and the counts of what they could not see.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use aya::maps::{HashMap, MapData, PerCpuArray, RingBuf};
use aya::{Btf, Ebpf, EbpfLoader};
use diagnose::{Checkpoint, Jump, Passage, Passed, Profile, Way};
use units::Instant;

use crate::btf::Types;
use crate::error::HookError;
use crate::object::{Filter, attach, missed_calls, refused, sum_of, with_function};
use crate::symbols::Symbols;

/// Counts of what checkpoints could not see or report since they were loaded; if they are not zero, reported
/// holes may be false.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Overlooked {
    /// Datagrams of trains that could not be read.
    pub unread: u64,
    /// Holes that there was no room to report.
    pub unreported: u64,
    /// Calls that the kernel skipped, because one was already running.
    pub missed_calls: u64,
}

/// Programs at checkpoints in the kernel; dropping them unloads them.
pub struct Checkpoints {
    kernel: Ebpf,
    gaps: RingBuf<MapData>,
    flows: HashMap<MapData, [u8; FLOW_BYTES], [u8; PASSED_BYTES]>,
    counts: PerCpuArray<MapData, u64>,
    profiles: Vec<Profile>,
}

/// Sizes of `struct flow`, `struct passed` and `struct gap` of `checkpoints.bpf.c`.
const FLOW_BYTES: usize = 64;
const PASSED_BYTES: usize = 32;
const GAP_BYTES: usize = 96;

/// Programs, each at its checkpoint; the checkpoint's place in the list is its number in the kernel.
const PROGRAMS: [(&str, Checkpoint); 3] = [
    ("on_queue", Checkpoint::Queue),
    ("on_transmit", Checkpoint::Transmit),
    ("on_receive", Checkpoint::Receive),
];

/// `enum count` of `checkpoints.bpf.c`.
#[derive(Clone, Copy)]
enum Count {
    Received = 0,
    Unread = 1,
    Unreported = 2,
}

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/checkpoints.bpf.o"));

/// Placeholder for the function's number in the object.
const DYNPTR_FROM_SKB: u32 = 0x7a11_ca57;

impl Checkpoints {
    /// Loads the programs: from now on they see datagrams to these ports (none means every port), of these
    /// protocols.
    ///
    /// # Errors
    /// [`HookError`]: usually a lack of permission.
    pub fn load(ports: &[u16], profiles: &[Profile]) -> Result<Self, HookError> {
        let filter = Filter::new(ports, profiles)?;
        let types = std::fs::read("/sys/kernel/btf/vmlinux").map_err(HookError::NoTypes)?;
        let types = Types::parse(&types).ok_or(HookError::TypesNotUnderstood)?;
        let reads_trains = types.function("bpf_dynptr_from_skb");
        let object = reads_trains.and_then(|number| with_function(OBJECT, DYNPTR_FROM_SKB, number));
        let has_dynptr = u32::from(object.is_some());
        let symbols = Symbols::parse(&std::fs::read_to_string("/proc/kallsyms").unwrap_or_default());
        let bridge = symbols.address("br_handle_frame").unwrap_or(0);
        let btf = Btf::from_sys_fs().map_err(|_| HookError::TypesNotUnderstood)?;
        let mut loader = EbpfLoader::new();
        filter.set(&mut loader);
        let mut kernel = loader
            .btf(Some(&btf))
            .override_global("HAS_DYNPTR", &has_dynptr, true)
            .override_global("BRIDGE", &bridge, true)
            .load(object.as_deref().unwrap_or(OBJECT))
            .map_err(|error| refused(&error))?;
        for (program, checkpoint) in PROGRAMS {
            attach(&mut kernel, program, checkpoint.tracepoint(), &btf)?;
        }
        let mut take = |name: &str| {
            kernel.take_map(name).ok_or_else(|| HookError::Refused(format!("it has no map {name}")))
        };
        Ok(Self {
            gaps: RingBuf::try_from(take("GAPS")?).map_err(|error| refused(&error))?,
            flows: HashMap::try_from(take("FLOWS")?).map_err(|error| refused(&error))?,
            counts: PerCpuArray::try_from(take("COUNTS")?).map_err(|error| refused(&error))?,
            profiles: profiles.to_vec(),
            kernel,
        })
    }

    /// Appends the jumps since the last call.
    pub fn drain(&mut self, jumps: &mut Vec<(Instant, Passage, Jump)>) {
        while let Some(bytes) = self.gaps.next() {
            jumps.extend(read_gap(&bytes, &self.profiles));
        }
    }

    /// Returns what has passed each checkpoint so far.
    #[must_use]
    pub fn passed(&self) -> BTreeMap<Passage, Passed> {
        // A flow that is replaced meanwhile is left out, and is there the next time.
        let flows = self.flows.iter().filter_map(Result::ok);
        flows.filter_map(|(flow, passed)| Some((read_flow(&flow)?, read_passed(&passed)))).collect()
    }

    /// Returns the number of received packets, of any namespace and protocol, as the kernel counts them
    /// (`softnet_processed`), or more. If the kernel counted more, packets were not seen.
    ///
    /// # Errors
    /// If the kernel does not return its counts.
    pub fn received(&self) -> io::Result<u64> {
        sum_of(&self.counts, Count::Received as u32)
    }

    /// Returns the counts of what the checkpoints could not see or report.
    ///
    /// # Errors
    /// If the kernel does not return its counts.
    pub fn overlooked(&self) -> io::Result<Overlooked> {
        let missed = PROGRAMS.iter().map(|(program, _)| missed_calls(&self.kernel, program));
        Ok(Overlooked {
            unread: sum_of(&self.counts, Count::Unread as u32)?,
            unreported: sum_of(&self.counts, Count::Unreported as u32)?,
            missed_calls: missed.sum::<io::Result<u64>>()?,
        })
    }
}

impl core::fmt::Debug for Checkpoints {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Checkpoints").field("profiles", &self.profiles).finish_non_exhaustive()
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// Reads `struct flow`; `None` for an unknown checkpoint.
fn read_flow(bytes: &[u8]) -> Option<Passage> {
    let bytes: &[u8; FLOW_BYTES] = bytes.first_chunk()?;
    let address = |at: usize, port_at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&bytes[at..at + 16]);
        let port = u16::from_le_bytes([bytes[port_at], bytes[port_at + 1]]);
        SocketAddr::new(IpAddr::V6(Ipv6Addr::from(octets)).to_canonical(), port)
    };
    let places = word(bytes, 48);
    let (_, checkpoint) = PROGRAMS.get(usize::from(bytes[60]))?;
    Some(Passage {
        way: Way {
            source: address(16, 56),
            destination: address(32, 58),
            stream: word(bytes, 0),
            incarnation: word(bytes, 8),
        },
        checkpoint: *checkpoint,
        namespace: (places & u64::from(u32::MAX)) as u32,
        device: (places >> 32) as u32,
    })
}

fn read_passed(bytes: &[u8; PASSED_BYTES]) -> Passed {
    Passed { first: word(bytes, 0), next: word(bytes, 8), datagrams: word(bytes, 16) }
}

/// Reads `struct gap`: the skipped numbers, in two ranges where numbers wrapped in between, or late ones.
fn read_gap(bytes: &[u8], profiles: &[Profile]) -> Vec<(Instant, Passage, Jump)> {
    let Some(passage) = bytes.first_chunk::<GAP_BYTES>().and_then(|bytes| read_flow(bytes)) else {
        return Vec::new();
    };
    let (at, expected, first, end) = (word(bytes, 64), word(bytes, 72), word(bytes, 80), word(bytes, 88));
    let last = profiles.get(usize::from(bytes[61])).map_or(u64::MAX, Profile::last_number);
    let jumps = if first.wrapping_sub(expected) & last > last / 2 {
        vec![Jump::Late(first..end)]
    } else if expected <= first {
        vec![Jump::Over(expected..first)]
    } else {
        vec![Jump::Over(expected..last.saturating_add(1)), Jump::Over(0..first)]
    };
    let is_some = |jump: &Jump| match jump {
        Jump::Over(numbers) | Jump::Late(numbers) => !numbers.is_empty(),
    };
    jumps.into_iter().filter(is_some).map(|jump| (Instant::from_nanos(at), passage, jump)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a gap of a stream as the kernel writes it.
    fn gap(expected: u64, first: u64, end: u64) -> Vec<u8> {
        let mut bytes = vec![0; GAP_BYTES];
        bytes[0..8].copy_from_slice(&5_u64.to_le_bytes());
        bytes[8..16].copy_from_slice(&6_u64.to_le_bytes());
        bytes[26..32].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
        bytes[32] = 0xfd;
        bytes[48..52].copy_from_slice(&4_026_531_840_u32.to_le_bytes());
        bytes[52..56].copy_from_slice(&2_u32.to_le_bytes());
        bytes[56..58].copy_from_slice(&4_000_u16.to_le_bytes());
        bytes[58..60].copy_from_slice(&7_400_u16.to_le_bytes());
        bytes[60] = 2;
        for (at, number) in [(64, 99), (72, expected), (80, first), (88, end)] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    fn jumps(bytes: &[u8], profile: Profile) -> Vec<Jump> {
        read_gap(bytes, &[profile]).into_iter().map(|(_, _, jump)| jump).collect()
    }

    #[test]
    fn a_gap_says_where_it_is() {
        let [(at, passage, jump)] = &read_gap(&gap(3, 5, 6), &[Profile::TALLYCAST])[..] else {
            panic!("one jump");
        };
        let way = Way {
            source: "10.0.0.1:4000".parse().unwrap(),
            destination: "[fd00::]:7400".parse().unwrap(),
            stream: 5,
            incarnation: 6,
        };
        let expected = Passage { way, checkpoint: Checkpoint::Receive, namespace: 4_026_531_840, device: 2 };
        assert_eq!((*at, *passage, jump), (Instant::from_nanos(99), expected, &Jump::Over(3..5)));
    }

    #[test]
    fn numbers_that_come_after_all_are_late_and_numbers_wrap() {
        assert_eq!(jumps(&gap(9, 5, 7), Profile::TALLYCAST), [Jump::Late(5..7)]);
        assert_eq!(jumps(&gap(65_534, 2, 3), Profile::RTP), [Jump::Over(65_534..65_536), Jump::Over(0..2)]);
        assert_eq!(jumps(&gap(65_534, 0, 3), Profile::RTP), [Jump::Over(65_534..65_536)]);
        assert_eq!(jumps(&gap(2, 65_534, 65_535), Profile::RTP), [Jump::Late(65_534..65_535)]);
    }

    #[test]
    fn what_is_cut_off_or_of_no_checkpoint_says_nothing() {
        let mut bytes = gap(3, 5, 6);
        assert_eq!(jumps(&bytes[..GAP_BYTES - 1], Profile::RTP), []);
        bytes[60] = 3;
        assert_eq!(jumps(&bytes, Profile::RTP), []);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read_gap(&bytes, &[Profile::TALLYCAST, Profile::RTP]).len() <= 2);
        }
    }
}
