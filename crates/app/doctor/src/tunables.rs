//! Tunables of this host, as they are at this moment.

use std::collections::{BTreeMap, BTreeSet};

use diagnose::tunables::{Device, Limit, Queue, Reassembly, Threads, Tunables, UdpMemory};
use diagnose::{ThreadNice, tunables};
use sys::counters::{self, Counters};
use sys::{Link, QdiscLimit, host, levels, process};

/// Reads the tunables of this host, and the threads of these processes; those that this user may not see are left
/// out.
///
/// Cost: about half a millisecond, and a file for each thread.
#[must_use]
pub fn tunables(pids: &BTreeSet<u32>) -> Tunables {
    let links = sys::links().unwrap_or_default();
    let names: BTreeMap<u32, &str> = links.iter().map(|link| (link.index, &*link.name)).collect();
    let (counted, _) = counters::read();
    let queues = sys::qdiscs().unwrap_or_default().into_iter();
    Tunables {
        queues: queues.filter_map(|queue| Some(read_queue(names.get(&queue.device)?, queue))).collect(),
        devices: links.iter().map(|link| (link.name.clone(), device(link))).collect(),
        reverse_path_all: reverse_path("all"),
        reverse_path_refused: counted.get("TcpExtIPReversePathFilter").copied().unwrap_or(0),
        reassembly: fragments(&counted),
        udp_memory: udp_memory(),
        processes: pids.iter().filter_map(|pid| Some((*pid, threads(*pid)?))).collect(),
    }
}

fn read_queue(device: &str, queue: sys::Qdisc) -> Queue {
    let limit = queue.limit.map(|limit| match limit {
        QdiscLimit::Packets(packets) => Limit::Packets(packets),
        QdiscLimit::Bytes { bytes, .. } => Limit::Bytes(bytes),
    });
    Queue {
        device: device.to_owned(),
        handle: queue.handle,
        parent: queue.parent,
        kind: queue.kind,
        drops: queue.drops,
        sent_bytes: queue.sent_bytes,
        sent_packets: queue.sent_packets,
        limit,
    }
}

fn device(link: &Link) -> Device {
    Device {
        kind: link.kind.clone(),
        queue_packets: link.queue_packets,
        received_packets: link.received_packets,
        sent_packets: link.sent_packets,
        sent_dropped: link.sent_dropped,
        reverse_path: reverse_path(&link.name),
    }
}

fn reverse_path(device: &str) -> Option<u64> {
    host::sysctl(&tunables::device_setting("net.ipv4.conf", device, "rp_filter")).ok()
}

fn fragments(counted: &Counters) -> [Reassembly; 2] {
    let levels = levels::read();
    let count = |name: &str| counted.get(name).copied().unwrap_or(0);
    let of = |protocol: &str, memory: &str, limit: &str| Reassembly {
        received: count(&format!("{protocol}ReasmReqds")),
        failed: count(&format!("{protocol}ReasmFails")),
        memory_bytes: levels.get(memory).copied().unwrap_or(0),
        high_bytes: levels.get(limit).copied(),
    };
    let [v4, v6] = tunables::FRAGMENT_MEMORY;
    [of("Ip", "FRAG memory", v4), of("Ip6", "FRAG6 memory", v6)]
}

fn udp_memory() -> Option<UdpMemory> {
    let limit_pages = host::sysctl_numbers(tunables::UDP_MEMORY).ok()?;
    let (host_pages, page_bytes) = host::memory_pages().ok()?;
    Some(UdpMemory { limit_pages, host_pages, page_bytes })
}

fn threads(pid: u32) -> Option<Threads> {
    let of_all = process::priorities(pid).ok()?.into_iter().filter(|thread| thread.is_ordinary);
    let ordinary = of_all.map(|thread| ThreadNice { tid: thread.tid, nice: thread.nice }).collect();
    Some(Threads { started: process::started(pid).ok()?, ordinary })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_shows_what_can_be_changed() {
        let own = std::process::id();
        let seen = tunables(&[own].into());
        assert!(seen.devices["lo"].queue_packets > 0);
        assert!(seen.reverse_path_all.is_some() && seen.devices["lo"].reverse_path.is_some());
        assert!(seen.reassembly[0].high_bytes.is_some_and(|bytes| bytes > 0));
        // Namespaces other than the first do not have the setting.
        assert!(seen.udp_memory.is_none_or(|it| it.limit_pages.len() == 3 && it.host_pages > 0));
        let threads = &seen.processes[&own];
        assert!(threads.started > 0 && threads.ordinary.iter().any(|thread| thread.tid == own));
        assert_eq!(tunables(&[u32::MAX].into()).processes, BTreeMap::new());
    }
}
