//! Facts for an audit, as the kernel shows them without privilege: of the host here, of its firewall and groups in
//! the modules below.

mod firewall;
mod groups;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

pub use firewall::read_rules;

use diagnose::audit::{
    Bridge, Card, Channels, Clock, Coalescing, Disk, Facts, Interface, Interrupt, Load, Offloads, Pause,
    Processors, Queue, Ring, Tcp, interface_setting,
};
use groups::Joined;
use sys::{CardSettings, Link, Qdisc, QdiscPlace, clock, counters, host, levels, process, processors};

/// Load that a host is audited for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wishes {
    /// Payload in bytes per second; `None` means the rate of the fastest link.
    pub bytes_per_second: Option<f64>,
    /// Longest time in which a reader does not read.
    pub longest_pause: Duration,
    /// Round-trip time to the other end, where it is known.
    pub round_trip: Option<Duration>,
}

/// Paths that may have an archive or a log.
const PATHS: [&str; 5] = ["/", "/var", "/home", "/tmp", "."];

/// Settings of `/proc/sys` that the audit reads; those of interfaces are added.
const SETTINGS: [&str; 12] = [
    "net.core.rmem_max",
    "net.core.rmem_default",
    "net.core.wmem_max",
    "net.core.netdev_max_backlog",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.ipv4.ipfrag_high_thresh",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_no_metrics_save",
];

fn bridges(interfaces: &[Interface], links: &[Link]) -> Vec<Bridge> {
    let (memberships, over_bridges) = (sys::memberships().unwrap_or_default(), sys::bridge_groups().ok());
    let joined = Joined { memberships: &memberships, over_bridges: over_bridges.as_ref() };
    groups::bridges(interfaces, links, &joined)
}

/// Reads the facts of this host; with `only`, of these interfaces.
pub(crate) fn facts(wishes: &Wishes, only: &BTreeSet<String>) -> Facts {
    let links = sys::links().unwrap_or_default();
    let interfaces = interfaces(only, &links);
    let of_interfaces = interfaces.iter().map(|it| interface_setting(&it.name, "rp_filter"));
    let names = SETTINGS.iter().map(|name| (*name).to_owned()).chain(of_interfaces);
    let mut settings: BTreeMap<String, u64> =
        names.filter_map(|name| Some((name.clone(), host::sysctl(&name).ok()?))).collect();
    let read = |path: &str| fs::read_to_string(path).ok();
    settings.extend(read("/proc/sys/net/ipv4/udp_mem").and_then(|text| udp_memory_limit(&text)));
    Facts {
        load: load(wishes, &interfaces),
        settings,
        counters: counters::read().0,
        uptime: read("/proc/uptime").and_then(|text| first_seconds(&text)),
        has_multicast_route: read("/proc/self/net/route").map(|text| has_multicast_route(&text)),
        tcp: tcp(),
        firewall: firewall::firewall(),
        bridges: bridges(&interfaces, &links),
        interfaces,
        udp_memory_pages: levels::read().get("UDP mem").copied(),
        clock: clock::discipline()
            .ok()
            .map(|(is_synchronised, max_error)| Clock { is_synchronised, max_error }),
        processors: processors(),
        governors: governors(),
        guest: guest(),
        swap_used_bytes: read("/proc/meminfo").and_then(|text| swap_used(&text)),
        disks: disks(),
        pressure: pressure("avg60="),
        waiting_for_disks_percent: pressure("avg10=").remove("io"),
        blocked: process::blocked().into_iter().map(|it| format!("{}[{}]", it.name, it.pid)).collect(),
    }
}

fn load(wishes: &Wishes, interfaces: &[Interface]) -> Load {
    let fastest = interfaces.iter().filter_map(|it| it.bits_per_second).max();
    let (bytes_per_second, origin) = match (wishes.bytes_per_second, fastest) {
        (Some(asked), _) => (asked, "as asked for"),
        (None, Some(bits)) => (bits as f64 / 8.0, "the rate of the fastest link"),
        // Most links of laboratories.
        (None, None) => (125e6, "assumed for a link of 1 Gbit/s, since no driver reports its rate"),
    };
    Load { bytes_per_second, origin, longest_pause: wishes.longest_pause, round_trip: wishes.round_trip }
}

fn interfaces(only: &BTreeSet<String>, links: &[Link]) -> Vec<Interface> {
    let wanted = |it: &sys::Interface| it.up && (only.is_empty() || only.contains(&it.name));
    let all = sys::Interface::all().unwrap_or_default().into_iter().filter(wanted);
    let of_system = |name: &str, file: &str| fs::read_to_string(format!("/sys/class/net/{name}/{file}")).ok();
    let (memberships, qdiscs) = (sys::memberships().ok(), sys::qdiscs().ok());
    let one = |it: sys::Interface| {
        let link = links.iter().find(|link| link.index == it.index);
        Interface {
            mtu: it.mtu,
            bits_per_second: of_system(&it.name, "speed").and_then(|text| link_speed(&text)),
            is_loopback: it.loopback,
            // Where links cannot be listed, it is assumed.
            takes_groups: link.is_none_or(|link| link.takes_groups),
            card: card(&it, link),
            is_bridged: link.is_some_and(|link| groups::bridge_of(link, links).is_some()),
            groups: memberships.as_ref().map(|all| groups::of(&it, all)),
            queue: link.and_then(|link| queue(link, qdiscs.as_deref())),
            interrupts: interrupts(&it, link),
            name: it.name,
        }
    };
    all.map(one).collect()
}

/// Reads the card of an interface; settings that its driver does not report are absent.
fn card(interface: &sys::Interface, link: Option<&Link>) -> Card {
    let words = |settings| interface.card_settings(settings).unwrap_or_default();
    Card {
        ring: Ring::from_words(&words(CardSettings::Rings)),
        coalescing: Coalescing::from_words(&words(CardSettings::Coalescing)),
        channels: Channels::from_words(&words(CardSettings::Channels)),
        pause: Pause::from_words(&words(CardSettings::Pause)),
        offloads: interface
            .offloads()
            .ok()
            .map(|names| Offloads::from_names(names.iter().map(String::as_str))),
        had_no_room: link.map(|link| link.had_no_room),
    }
}

/// Parses a link speed in Mbit/s; −1 where the driver does not know.
fn link_speed(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok().and_then(|megabits| megabits.checked_mul(1_000_000))
}

/// Parses three numbers of pages; the last is the limit.
fn udp_memory_limit(text: &str) -> Option<(String, u64)> {
    let limit = text.split_whitespace().nth(2)?.parse().ok()?;
    Some(("net.ipv4.udp_mem.max".to_owned(), limit))
}

fn first_seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.split_whitespace().next()?.parse().ok()?).ok()
}

/// Searches for 224.0.0.0/4 among routes: destination and mask in hexadecimal, in memory byte order.
fn has_multicast_route(text: &str) -> bool {
    text.lines().skip(1).any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(1) == Some(&"000000E0") && words.get(7) == Some(&"000000F0")
    })
}

/// Parses the used swap, in kB.
fn swap_used(text: &str) -> Option<u64> {
    let kilobytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    kilobytes("SwapTotal:")?.saturating_sub(kilobytes("SwapFree:")?).checked_mul(1_024)
}

/// Returns the queue of a link, with the drops of its root, which include all below it.
fn queue(link: &Link, qdiscs: Option<&[Qdisc]>) -> Option<Queue> {
    let is_root = |it: &&Qdisc| it.device == link.index && it.place() == QdiscPlace::Root;
    Some(Queue {
        discipline: link.queue_discipline.clone()?,
        packets: link.queue_packets,
        drops: qdiscs.map(|all| all.iter().find(is_root).map_or(0, |it| it.drops.into())),
    })
}

fn tcp() -> Tcp {
    let three = |name| host::sysctl_numbers(name).ok()?.try_into().ok();
    let text = |name| host::sysctl_text(name).ok();
    Tcp {
        receive_bytes: three("net.ipv4.tcp_rmem"),
        send_bytes: three("net.ipv4.tcp_wmem"),
        congestion_control: text("net.ipv4.tcp_congestion_control"),
        congestion_controls: text("net.ipv4.tcp_available_congestion_control"),
    }
}

fn processors() -> Option<Processors> {
    let (online, isolated) = (processors::online().ok()?, processors::isolated().ok()?);
    Some(Processors { online, isolated, without_ticks: processors::without_ticks() })
}

/// Returns the interrupts of an interface. Virtual links have a kind and no interrupts.
fn interrupts(interface: &sys::Interface, link: Option<&Link>) -> Option<Vec<Interrupt>> {
    if link.is_some_and(|link| link.kind.is_some()) {
        return Some(Vec::new());
    }
    let one = |it: processors::Interrupt| Interrupt {
        number: it.number,
        allowed: it.allowed,
        taken_by: it.taken_by,
    };
    processors::interrupts(interface).ok().map(|all| all.into_iter().map(one).collect())
}

fn governors() -> Vec<String> {
    let entries = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("cpufreq/scaling_governor")).ok();
    let each: BTreeSet<String> = entries.filter_map(of).map(|text| text.trim().to_owned()).collect();
    each.into_iter().collect()
}

fn guest() -> Option<String> {
    let has_file = |path: &str| Path::new(path).exists();
    let is_container =
        has_file("/.dockerenv") || has_file("/run/.containerenv") || has_file("/run/systemd/container");
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let is_machine = processors.lines().any(|line| line.starts_with("flags") && line.contains(" hypervisor"));
    match (is_container, is_machine) {
        (true, true) => Some("a container on a virtual machine".to_owned()),
        (true, false) => Some("a container".to_owned()),
        (false, true) => Some("a virtual machine".to_owned()),
        (false, false) => None,
    }
}

/// Returns the disks of the paths, each once.
fn disks() -> Vec<Disk> {
    let mut seen = BTreeSet::new();
    let of = |path: &&str| {
        let stat = rustix::fs::statvfs(*path).ok()?;
        let (blocks, free) = (stat.f_blocks, stat.f_bavail);
        // Of the blocks available to users: the rest is reserved for root.
        let used = blocks.saturating_sub(stat.f_bfree);
        let is_new = blocks > 0 && seen.insert((stat.f_fsid, blocks, free));
        is_new
            .then(|| Disk { path: (*path).to_owned(), used_share: used as f64 / (used + free).max(1) as f64 })
    };
    PATHS.iter().filter_map(of).collect()
}

/// Returns the share of time in which a task waited, for each resource.
fn pressure(time: &str) -> BTreeMap<String, f64> {
    let of = |what: &str| {
        let text = fs::read_to_string(format!("/proc/pressure/{what}")).ok()?;
        Some((what.to_owned(), average(&text, time)?))
    };
    ["cpu", "io", "memory"].into_iter().filter_map(of).collect()
}

/// Parses `some avg10=0.02 avg60=0.37 …`.
fn average(text: &str, time: &str) -> Option<f64> {
    levels::pressure(text, time)?.parse().ok()
}

/// Parses a text as each of the kernel's formats that are read here, for the fuzzers.
pub fn read_text(text: &str) {
    let _ = (link_speed(text), udp_memory_limit(text), first_seconds(text));
    let _ = (has_multicast_route(text), swap_used(text), average(text, "avg10="));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_the_kernel_are_read() {
        assert_eq!(link_speed("1000\n"), Some(1_000_000_000));
        assert_eq!(link_speed("-1\n"), None);
        assert_eq!(udp_memory_limit("1\t2\t3\n"), Some(("net.ipv4.udp_mem.max".to_owned(), 3)));
        assert_eq!(first_seconds("12.5 3.0\n"), Some(Duration::from_millis(12_500)));
        let head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n";
        assert!(has_multicast_route(&format!(
            "{head}eth0\t000000E0\t00000000\t0001\t0\t0\t0\t000000F0\t0\n"
        )));
        assert!(!has_multicast_route(&format!(
            "{head}eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\n"
        )));
        assert_eq!(swap_used("SwapTotal:  10 kB\nSwapFree:  4 kB\n"), Some(6_144));
        let waited = "some avg10=0.02 avg60=0.37 avg300=0.35 total=1\n";
        assert_eq!((average(waited, "avg60="), average(waited, "avg10=")), (Some(0.37), Some(0.02)));
    }

    #[test]
    fn what_is_no_such_text_says_nothing() {
        for text in ["", "\n", "x", "UDP:", "UDP: mem", "some avg60=", "SwapTotal: x kB", "Iface\nx"] {
            assert_eq!((udp_memory_limit(text), first_seconds(text)), (None, None));
            assert_eq!(
                (swap_used(text), average(text, "avg60="), has_multicast_route(text)),
                (None, None, false)
            );
        }
    }

    #[test]
    fn this_host_is_seen() {
        let wishes = Wishes {
            bytes_per_second: Some(1e6),
            longest_pause: Duration::from_millis(10),
            round_trip: None,
        };
        let facts = facts(&wishes, &BTreeSet::new());
        assert!(facts.settings.contains_key("net.core.rmem_max") && facts.uptime.is_some());
        assert!(facts.interfaces.iter().any(|it| it.is_loopback) && !facts.disks.is_empty());
    }
}
