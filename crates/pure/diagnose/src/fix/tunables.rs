//! Tunables of a host, read while losses are watched, and the changes of them that would help.
//!
//! A finding has the place of a loss; this module finds the queue of a device, the setting of a namespace or the
//! threads of a process behind it. Values follow from the largest loss in one snapshot, and have a bound: a reader
//! that needs more loses for another reason.

use std::collections::BTreeMap;

use ledger::Stage;

use crate::watch::buffer::DATAGRAM_BYTES;
use crate::watch::counters::sum;
use crate::watch::finding::Place;
use crate::{Change, ThreadNice};

/// State of everything that can be changed, at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tunables {
    /// Queue disciplines of the network namespace.
    pub queues: Vec<Queue>,
    /// Network devices of the namespace, by their names.
    pub devices: BTreeMap<String, Device>,
    /// `net.ipv4.conf.all.rp_filter`; `None` where it cannot be read.
    pub reverse_path_all: Option<u64>,
    /// Number of packets without a reverse path (`TcpExtIPReversePathFilter`).
    pub reverse_path_refused: u64,
    /// Reassembly of fragments: of IPv4, and of IPv6.
    pub reassembly: [Reassembly; 2],
    /// Memory limit of all UDP sockets of the host; `None` where it cannot be read, as in namespaces other than the
    /// first.
    pub udp_memory: Option<UdpMemory>,
    /// Processes that own sockets which lost for lack of a processor.
    pub processes: BTreeMap<u32, Threads>,
}

/// A queue discipline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Queue {
    /// Device that it belongs to.
    pub device: String,
    /// Number of the discipline; 0 for those that the kernel set up itself.
    pub handle: u32,
    /// Number of its parent: the root, or the class of another one.
    pub parent: u32,
    /// `pfifo`, `tbf`, ….
    pub kind: String,
    /// Number of dropped packets; wraps.
    pub drops: u32,
    /// Number of bytes sent.
    pub sent_bytes: u64,
    /// Number of packets sent; wraps.
    pub sent_packets: u32,
    /// Limit; `None` where it cannot be changed and undone.
    pub limit: Option<Limit>,
}

/// Limit of a queue discipline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Packets.
    Packets(u32),
    /// Bytes.
    Bytes(u32),
}

/// A network device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Device {
    /// Kind of device, where its driver reports it: `tun`, `veth`.
    pub kind: Option<String>,
    /// `txqueuelen`.
    pub queue_packets: u32,
    /// Number of packets received.
    pub received_packets: u64,
    /// Number of packets sent.
    pub sent_packets: u64,
    /// Number of outgoing packets dropped.
    pub sent_dropped: u64,
    /// `net.ipv4.conf.DEVICE.rp_filter`.
    pub reverse_path: Option<u64>,
}

/// Reassembly of fragments of one version of IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reassembly {
    /// Number of fragments received (`IpReasmReqds`).
    pub received: u64,
    /// Number of failures (`IpReasmFails`).
    pub failed: u64,
    /// Memory of waiting fragments, in bytes.
    pub memory_bytes: u64,
    /// Memory at which no fragment is accepted, in bytes: `net.ipv4.ipfrag_high_thresh`.
    pub high_bytes: Option<u64>,
}

/// Memory limit of all UDP sockets of the host together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UdpMemory {
    /// `net.ipv4.udp_mem`: low, pressure, high; nothing is accepted beyond the last.
    pub limit_pages: Vec<u64>,
    /// Memory of the host, in pages.
    pub host_pages: u64,
    /// Size of a page, in bytes.
    pub page_bytes: u64,
}

/// Threads of a process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Threads {
    /// Start time, in the kernel's ticks.
    pub started: u64,
    /// Threads in ordinary scheduling classes, where the nice value has an effect.
    pub ordinary: Vec<ThreadNice>,
}

/// Names of the settings of [`Reassembly::high_bytes`].
pub const FRAGMENT_MEMORY: [&str; 2] = ["net.ipv4.ipfrag_high_thresh", "net.ipv6.ip6frag_high_thresh"];

/// Name of the setting of a processor's maximum backlog, in packets.
pub(crate) const BACKLOG: &str = "net.core.netdev_max_backlog";

/// Name of the setting of [`UdpMemory::limit_pages`].
pub const UDP_MEMORY: &str = "net.ipv4.udp_mem";
/// Divisor for the share of the host's memory that sockets are allowed at most: it is the kernel's, and is not
/// swapped.
const UDP_SHARE: u64 = 8;

/// Maximum length of a queue: at 10 Gbit/s it is a tenth of a second of full packets, at lower rates more.
const MOST_PACKETS: u64 = 100_000;
/// Maximum length of a queue in bytes.
const MOST_BYTES: u64 = 1 << 27;
/// Maximum memory for waiting fragments, in bytes.
const MOST_FRAGMENT_BYTES: u64 = 1 << 28;
/// Size of an Ethernet packet, used if the queue has sent none.
const PACKET_BYTES: u64 = 1_514;
/// Nice value of a starved reader: it runs before ordinary threads, and after those of real time: it cannot stall a
/// host.
const NICE: i32 = -10;

/// Snapshots of the tunables, in the order of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshots<'a>(pub(crate) &'a [Tunables]);

impl Snapshots<'_> {
    /// Returns changes that would help against losses at a stage and place, the most likely first.
    pub(crate) fn changes(self, stage: Stage, place: &Place, lost: u64) -> Vec<Change> {
        match (stage, place) {
            (Stage::SenderQdisc, Place::Device(device)) => self.longer_queue(device).into_iter().collect(),
            (Stage::SenderNic, Place::Device(device)) => self.longer_ring(device).into_iter().collect(),
            (Stage::ReceiverIp, Place::Namespace) => self.looser_reverse_path(),
            (Stage::ReceiverReassembly, Place::Namespace) => self.more_fragment_memory(),
            (Stage::ReceiverUdpMemory, _) => self.more_udp_memory(lost).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the traffic at the place where losses at a stage are counted, in the same unit; `None` where the
    /// datagrams delivered to readers are that count.
    pub(crate) fn passed(self, stage: Stage, place: &Place) -> Option<u64> {
        let rise = |of: &dyn Fn(&Tunables) -> u64| self.total(&|now, then| of(now).saturating_sub(of(then)));
        match (stage, place) {
            (Stage::SenderQdisc | Stage::SenderNic, Place::Device(device)) => {
                Some(rise(&|it| it.devices.get(device).map_or(0, |device| device.sent_packets)))
            }
            (Stage::ReceiverReassembly, Place::Namespace) => {
                let received = rise(&|it| sum(it.reassembly.iter().map(|it| it.received)));
                let failed = rise(&|it| sum(it.reassembly.iter().map(|it| it.failed)));
                Some(received.saturating_sub(failed))
            }
            _ => None,
        }
    }

    /// Returns a change that lets a process's threads run before others; `None` where they do so already, or cannot
    /// be seen.
    pub(crate) fn niceness(self, pid: u32) -> Option<Change> {
        let process = self.0.last()?.processes.get(&pid)?;
        let is_wanted = process.ordinary.iter().any(|thread| thread.nice > NICE);
        let (started, before) = (process.started, process.ordinary.clone());
        is_wanted.then_some(Change::Niceness { pid, started, nice: NICE, before })
    }

    /// Lengthens the queue that drops, which may be within another: outer ones count its drops, too.
    fn longer_queue(self, device: &str) -> Option<Change> {
        let last = self.0.last()?;
        let here = || last.queues.iter().filter(|queue| queue.device == device);
        let has_inner = |queue: &Queue| {
            here().any(|inner| queue.handle != 0 && major(inner.parent) == major(queue.handle))
        };
        let drops = |queue: &&Queue| self.total(&|now, then| rise_of(now, then, queue).drops);
        let leaf = here().filter(|queue| !has_inner(queue) && drops(queue) > 0).max_by_key(drops)?;
        // Its limit is the device's length.
        if leaf.kind == "pfifo_fast" {
            return self.transmit_queue(
                device,
                self.most(&|now, then| {
                    sum(here().filter(|it| it.kind == leaf.kind).map(|it| rise_of(now, then, it).drops))
                }),
            );
        }
        let (dropped, rise) = (
            self.most(&|now, then| rise_of(now, then, leaf).drops),
            self.0.first().map(|first| rise_of(last, first, leaf))?,
        );
        let (now, most, more) = match leaf.limit? {
            Limit::Packets(now) => (now, MOST_PACKETS, dropped),
            Limit::Bytes(now) => {
                let mean = rise.sent_bytes.checked_div(rise.sent_packets).unwrap_or(PACKET_BYTES);
                (now, MOST_BYTES, dropped.saturating_mul(mean))
            }
        };
        let limit = u32::try_from(larger(now.into(), more, most)?).ok()?;
        let Queue { device, kind, handle, parent, .. } = leaf.clone();
        Some(Change::QueueLimit { device, kind, handle, parent, limit, before: now })
    }

    /// Lengthens the ring of a TUN device, which has the length of its queue; a card's is set by its driver.
    fn longer_ring(self, device: &str) -> Option<Change> {
        let is_tun = self.0.last()?.devices.get(device)?.kind.as_deref() == Some("tun");
        let dropped = |now: &Tunables, then: &Tunables| {
            let of = |it: &Tunables| it.devices.get(device).map_or(0, |it| it.sent_dropped);
            of(now).saturating_sub(of(then))
        };
        is_tun.then(|| self.transmit_queue(device, self.most(&dropped))).flatten()
    }

    fn transmit_queue(self, device: &str, dropped: u64) -> Option<Change> {
        let before = self.0.last()?.devices.get(device)?.queue_packets;
        let packets = u32::try_from(larger(before.into(), dropped, MOST_PACKETS)?).ok()?;
        Some(Change::TransmitQueue { device: device.to_owned(), packets, before })
    }

    /// Loosens the reverse path filter: any way back is then accepted. The kernel uses the larger of two settings,
    /// the device's own and that of all.
    ///
    /// The counter is not per device: the one that received most comes first.
    fn looser_reverse_path(self) -> Vec<Change> {
        const STRICT: u64 = 1;
        const LOOSE: u64 = 2;
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else { return Vec::new() };
        let is_refused = last.reverse_path_refused > first.reverse_path_refused;
        let all = last.reverse_path_all.unwrap_or(0);
        let came = |name: &String| {
            let of = |it: &Tunables| it.devices.get(name).map_or(0, |device| device.received_packets);
            of(last).saturating_sub(of(first))
        };
        let mut strict: Vec<(&String, u64)> = last
            .devices
            .iter()
            .filter(|(name, _)| is_refused && came(name) > 0)
            .filter_map(|(name, device)| Some((name, device.reverse_path?)))
            .filter(|(_, own)| all.max(*own) == STRICT)
            .collect();
        strict.sort_by_key(|(name, _)| std::cmp::Reverse(came(name)));
        let change = |(name, before): (&String, u64)| {
            let name = device_setting("net.ipv4.conf", name, "rp_filter");
            Change::Sysctl { name, value: LOOSE, before: Some(before) }
        };
        strict.into_iter().map(change).collect()
    }

    /// Raises the memory for fragments if none are accepted because waiting ones hold too much; if they hold little,
    /// fragments are missing, and memory does not help.
    fn more_fragment_memory(self) -> Vec<Change> {
        let of = |(version, name): (usize, &&str)| {
            let at = |it: &Tunables| it.reassembly[version];
            let failed = self.most(&|now, then| at(now).failed.saturating_sub(at(then).failed));
            let high = at(self.0.last()?).high_bytes?;
            let held = self.0.iter().map(|it| at(it).memory_bytes).max()?;
            // Between two snapshots it may have held a little more.
            let is_short = failed > 0 && held >= high / 4 * 3;
            let value = larger(high, failed.saturating_mul(DATAGRAM_BYTES), MOST_FRAGMENT_BYTES)?;
            is_short.then(|| Change::Sysctl { name: (*name).to_owned(), value, before: Some(high) })
        };
        FRAGMENT_MEMORY.iter().enumerate().filter_map(of).collect()
    }

    /// Raises the memory of UDP, all three limits alike; namespaces other than the first do not have them.
    fn more_udp_memory(self, lost: u64) -> Option<Change> {
        let UdpMemory { limit_pages, host_pages, page_bytes } = self.0.last()?.udp_memory.clone()?;
        let now = *limit_pages.last()?;
        let more = lost.saturating_mul(DATAGRAM_BYTES).div_ceil(page_bytes.max(1));
        let most = larger(now, more, host_pages / UDP_SHARE)?;
        let scaled = |pages: &u64| u128::from(*pages) * u128::from(most) / u128::from(now.max(1));
        let values = limit_pages.iter().map(|pages| u64::try_from(scaled(pages)).unwrap_or(most)).collect();
        Some(Change::SysctlNumbers { name: UDP_MEMORY.to_owned(), values, before: limit_pages })
    }

    /// Returns the largest rise from one snapshot to the next.
    fn most(self, rise: &dyn Fn(&Tunables, &Tunables) -> u64) -> u64 {
        self.0.windows(2).map(|pair| rise(&pair[1], &pair[0])).max().unwrap_or(0)
    }

    fn total(self, rise: &dyn Fn(&Tunables, &Tunables) -> u64) -> u64 {
        sum(self.0.windows(2).map(|pair| rise(&pair[1], &pair[0])))
    }
}

/// Work of a queue between two snapshots.
#[derive(Default)]
struct Rise {
    drops: u64,
    sent_bytes: u64,
    sent_packets: u64,
}

fn rise_of(now: &Tunables, then: &Tunables, queue: &Queue) -> Rise {
    let is_it = |it: &&Queue| {
        (&it.device, &it.kind, it.handle, it.parent)
            == (&queue.device, &queue.kind, queue.handle, queue.parent)
    };
    let of = |snapshot: &Tunables| snapshot.queues.iter().find(is_it).cloned();
    // A new queue has no earlier counts.
    of(now).zip(of(then)).map_or_else(Rise::default, |(now, then)| Rise {
        // Counters that were reset, as by setting up the queue again, count nothing.
        drops: now.drops.saturating_sub(then.drops).into(),
        sent_bytes: now.sent_bytes.saturating_sub(then.sent_bytes),
        sent_packets: now.sent_packets.saturating_sub(then.sent_packets).into(),
    })
}

/// Returns the discipline's part of the number of a class.
const fn major(handle: u32) -> u32 {
    handle >> 16
}

/// Returns twice as much, or the sum of the current value and the loss, rounded up; `None` where that would not be
/// more.
fn larger(now: u64, lost: u64, most: u64) -> Option<u64> {
    let wanted = now.saturating_add(lost).max(now.saturating_mul(2)).max(1);
    let rounded = wanted.checked_next_power_of_two().unwrap_or(most).min(most);
    (rounded > now).then_some(rounded)
}

/// Returns whether a plan may set this number of `sysctl`: there are few, and no other is ever set or restored.
#[must_use]
pub fn is_number_of_plans(name: &str) -> bool {
    name == BACKLOG || FRAGMENT_MEMORY.contains(&name) || is_reverse_path(name)
}

/// Returns whether a plan may set these numbers of `sysctl`.
#[must_use]
pub fn are_numbers_of_plans(name: &str) -> bool {
    name == UDP_MEMORY
}

/// Returns whether it is `rp_filter` of one device, written as [`device_setting`] does.
fn is_reverse_path(name: &str) -> bool {
    let between = |start: &str, end: &str| name.strip_prefix(start)?.strip_suffix(end);
    let device = between("net.ipv4.conf.", ".rp_filter").or_else(|| between("net/ipv4/conf/", "/rp_filter"));
    device.is_some_and(|device| {
        let is_name = !device.is_empty() && !device.contains('/') && device.bytes().any(|it| it != b'.');
        is_name && device_setting("net.ipv4.conf", device, "rp_filter") == name
    })
}

/// Returns the `sysctl` name of a device's setting: with slashes if the device's name has a dot.
#[must_use]
pub fn device_setting(path: &str, device: &str, setting: &str) -> String {
    if device.contains('.') {
        format!("{}/{device}/{setting}", path.replace('.', "/"))
    } else {
        format!("{path}.{device}.{setting}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: u32 = u32::MAX;

    fn queue(kind: &str, handle: u32, parent: u32, drops: u32, limit: Option<Limit>) -> Queue {
        let (device, kind) = ("eth0".to_owned(), kind.to_owned());
        let sent = u64::from(drops);
        Queue { device, handle, parent, kind, drops, sent_bytes: 500 * sent, sent_packets: drops, limit }
    }

    fn with_queues(queues: &[Queue]) -> Tunables {
        let device = Device { queue_packets: 1_000, sent_packets: 7, ..Device::default() };
        Tunables {
            queues: queues.to_vec(),
            devices: BTreeMap::from([("eth0".to_owned(), device)]),
            ..Tunables::default()
        }
    }

    fn changes(stage: Stage, place: &Place, snapshots: &[Tunables]) -> Vec<Change> {
        Snapshots(snapshots).changes(stage, place, 1_000)
    }

    fn of_queues(snapshots: &[Vec<Queue>]) -> Vec<Change> {
        let snapshots: Vec<Tunables> = snapshots.iter().map(|queues| with_queues(queues)).collect();
        changes(Stage::SenderQdisc, &Place::Device("eth0".to_owned()), &snapshots)
    }

    fn limits(changes: &[Change]) -> Vec<(&str, u32, u32)> {
        let of = |change: &'_ Change| match change {
            Change::QueueLimit { kind, limit, before, .. } => {
                (["pfifo", "bfifo", "tbf"].into_iter().find(|it| it == kind).unwrap(), *limit, *before)
            }
            other => panic!("{other:?}"),
        };
        changes.iter().map(of).collect()
    }

    #[test]
    fn the_inner_queue_is_enlarged_by_what_it_dropped_in_one_snapshot() {
        let at = |outer, inner| {
            let limit = Some(Limit::Packets(10));
            vec![queue("htb", 0x1_0000, ROOT, outer, None), queue("pfifo", 0x2_0000, 0x1_0001, inner, limit)]
        };
        // The largest of 10, 90 and 40 in a snapshot is 90, plus the current ten, rounded up.
        let snapshots = [at(5, 5), at(15, 15), at(105, 105), at(145, 145)];
        assert_eq!(limits(&of_queues(&snapshots)), [("pfifo", 128, 10)]);
        assert_eq!(of_queues(&[at(5, 5), at(9, 5)]), [], "it is not the one within");
        assert_eq!(of_queues(&[at(5, 5)]), [], "nothing is known");
    }

    #[test]
    fn bytes_are_reckoned_by_the_packets_that_passed() {
        let at = |drops, limit| vec![queue("tbf", 0x1_0000, ROOT, drops, Some(Limit::Bytes(limit)))];
        assert_eq!(limits(&of_queues(&[at(0, 20_000), at(100, 20_000)])), [("tbf", 131_072, 20_000)]);
        assert_eq!(limits(&of_queues(&[at(0, 20_000), at(1, 20_000)])), [("tbf", 65_536, 20_000)], "twice");
        assert_eq!(of_queues(&[at(0, 1 << 27), at(100, 1 << 27)]), [], "as large as it gets");
    }

    #[test]
    fn a_queue_that_goes_by_its_device_is_enlarged_by_it_and_one_that_is_not_known_is_left_alone() {
        let at = |kind, drops| vec![queue(kind, 0, ROOT, drops, None)];
        let expected = Change::TransmitQueue { device: "eth0".to_owned(), packets: 2_048, before: 1_000 };
        assert_eq!(of_queues(&[at("pfifo_fast", 0), at("pfifo_fast", 5)]), [expected]);
        assert_eq!(of_queues(&[at("fq_codel", 0), at("fq_codel", 5)]), []);
        assert_eq!(of_queues(&[at("pfifo_fast", 5), at("pfifo_fast", 0)]), [], "it was set up again");
    }

    #[test]
    fn the_ring_of_a_tun_device_is_enlarged_and_no_other() {
        let place = Place::Device("tun0".to_owned());
        let of = |kind: &str| {
            let snapshot = |sent_dropped, sent_packets| {
                let kind = Some(kind.to_owned());
                let device =
                    Device { kind, queue_packets: 100, sent_dropped, sent_packets, ..Device::default() };
                Tunables { devices: BTreeMap::from([("tun0".to_owned(), device)]), ..Tunables::default() }
            };
            let snapshots = [snapshot(10, 5), snapshot(410, 25)];
            assert_eq!(Snapshots(&snapshots).passed(Stage::SenderNic, &place), Some(20));
            changes(Stage::SenderNic, &place, &snapshots)
        };
        let expected = Change::TransmitQueue { device: "tun0".to_owned(), packets: 512, before: 100 };
        assert_eq!(of("tun"), [expected]);
        assert_eq!(of("veth"), []);
    }

    #[test]
    fn a_strict_check_of_the_way_back_is_loosened_where_most_came() {
        let snapshot = |refused, came: u64, all| {
            let device = |share, own| Device {
                received_packets: came * share,
                reverse_path: Some(own),
                ..Device::default()
            };
            let devices = [
                ("a", device(1, 1)),
                ("b.7", device(3, 0)),
                ("c", device(9, 2)),
                ("idle", Device { reverse_path: Some(1), ..Device::default() }),
            ];
            let devices = devices.map(|(name, device)| (name.to_owned(), device));
            Tunables {
                devices: devices.into(),
                reverse_path_all: Some(all),
                reverse_path_refused: refused,
                ..Tunables::default()
            }
        };
        let of = |snapshots: &[Tunables]| changes(Stage::ReceiverIp, &Place::Namespace, snapshots);
        let loose =
            |name: &str, before| Change::Sysctl { name: name.to_owned(), value: 2, before: Some(before) };
        let (a, b) = ("net.ipv4.conf.a.rp_filter", "net/ipv4/conf/b.7/rp_filter");
        // All that are not loose are strict, and a device that received nothing is not the one.
        assert_eq!(of(&[snapshot(0, 0, 1), snapshot(5, 9, 1)]), [loose(b, 0), loose(a, 1)]);
        assert_eq!(of(&[snapshot(0, 0, 0), snapshot(5, 9, 0)]), [loose(a, 1)]);
        assert_eq!(of(&[snapshot(5, 0, 1), snapshot(5, 9, 1)]), [], "it was something else");
    }

    #[test]
    fn fragments_get_more_memory_where_they_hold_what_there_is() {
        let snapshot = |failed, memory_bytes| {
            let v6 = Reassembly { received: failed, failed, memory_bytes, high_bytes: Some(20_000) };
            Tunables { reassembly: [Reassembly { failed: 3, ..v6 }, v6], ..Tunables::default() }
        };
        let of = |held| {
            changes(Stage::ReceiverReassembly, &Place::Namespace, &[snapshot(0, 0), snapshot(50, held)])
        };
        let name = "net.ipv6.ip6frag_high_thresh".to_owned();
        // Fifty datagrams of 2,304 bytes.
        let expected = Change::Sysctl { name, value: 262_144, before: Some(20_000) };
        assert_eq!(of(15_000), [expected]);
        assert_eq!(of(14_999), [], "some are missing");
    }

    #[test]
    fn udp_gets_more_memory_and_never_more_than_an_eighth_of_the_hosts() {
        let of = |limit_pages: &[u64], host_pages| {
            let limit_pages = limit_pages.to_vec();
            let udp_memory = Some(UdpMemory { limit_pages, host_pages, page_bytes: 4_096 });
            let snapshot = Tunables { udp_memory, ..Tunables::default() };
            changes(Stage::ReceiverUdpMemory, &Place::Namespace, &[snapshot])
        };
        let to = |values: &[u64], before: &[u64]| {
            let (values, before) = (values.to_vec(), before.to_vec());
            [Change::SysctlNumbers { name: "net.ipv4.udp_mem".to_owned(), values, before }]
        };
        // A thousand datagrams of 2,304 bytes, plus the current 100 pages, rounded up.
        assert_eq!(of(&[50, 75, 100], 1 << 20), to(&[512, 768, 1_024], &[50, 75, 100]));
        assert_eq!(of(&[50, 75, 100], 1_600), to(&[100, 150, 200], &[50, 75, 100]));
        assert_eq!(of(&[50, 75, 200], 1_600), []);
        assert_eq!(of(&[], 1_600), []);
        assert_eq!(changes(Stage::ReceiverUdpMemory, &Place::Namespace, &[Tunables::default()]), []);
    }

    #[test]
    fn what_passed_is_counted_where_the_loss_is() {
        let device = Place::Device("eth0".to_owned());
        let snapshots = [with_queues(&[]), with_queues(&[])];
        assert_eq!(Snapshots(&snapshots).passed(Stage::SenderQdisc, &device), Some(0));
        assert_eq!(Snapshots(&snapshots).passed(Stage::ReceiverNic, &device), None);
        let fragments = |received, failed| {
            let v4 = Reassembly { received, failed, ..Reassembly::default() };
            Tunables { reassembly: [v4, Reassembly::default()], ..Tunables::default() }
        };
        let snapshots = [fragments(100, 0), fragments(200, 30)];
        assert_eq!(Snapshots(&snapshots).passed(Stage::ReceiverReassembly, &Place::Namespace), Some(70));
    }

    #[test]
    fn the_settings_that_a_plan_may_change_are_few_and_no_name_reaches_others() {
        let dotted = device_setting("net.ipv4.conf", "eth0", "rp_filter");
        let slashed = device_setting("net.ipv4.conf", "b.7", "rp_filter");
        for name in [BACKLOG, FRAGMENT_MEMORY[0], FRAGMENT_MEMORY[1], &dotted, &slashed] {
            assert!(is_number_of_plans(name), "{name}");
        }
        for name in [
            "net.ipv4.ip_forward",
            "net.core.rmem_max",
            "kernel.core_pattern",
            "kernel/sysrq",
            "net.ipv4.conf.eth0.forwarding",
            "net.ipv4.conf..rp_filter",
            "net/ipv4/conf/../rp_filter",
            "net/ipv4/conf/./rp_filter",
            "net/ipv4/conf/a/../b.c/rp_filter",
            "net.ipv4.conf.a/b.rp_filter",
            "net.ipv4.conf.a.b.rp_filter",
            "net/ipv4/conf/eth0/rp_filter",
            "net/core/netdev_max_backlog",
            UDP_MEMORY,
            "",
        ] {
            assert!(!is_number_of_plans(name), "{name}");
        }
        assert!(are_numbers_of_plans(UDP_MEMORY) && !are_numbers_of_plans("net.ipv4.tcp_mem"));
    }
}
