//! The kernel's counters of datagrams along their path, under their common names: those that
//! `nstat` prints, and the columns of `/proc/net/softnet_stat` and `/proc/net/dev`; and its
//! counters of what keeps programs from reading them.
//!
//! The `nstat` counters are of this process's network namespace; `softnet_…` and the latter are of
//! the whole host. Reading takes no privilege. Counters of drivers are in `device_counters`,
//! current levels in `levels`.

use std::collections::BTreeMap;
use std::fs;

use crate::host::levels;
use crate::host::processor_time::{each_in, net_rx_in};

/// Counters by name. They grow; those of a processor or a device restart when it returns, and a
/// processor's wrap at 2³².
///
/// - `UdpRcvbufErrors`, `Udp6RcvbufErrors`, `IpReasmFails`, `TcpExtIPReversePathFilter`, …: `/proc/net/snmp`, `snmp6`, `netstat`
/// - `softnet_processed/cpu0`, `softnet_dropped/cpu0`, `softnet_time_squeeze/cpu0`: `/proc/net/softnet_stat`
/// - `rx_drop/eth0`, `tx_errs/eth0`, …: `/proc/net/dev`
/// - `NET_RX/cpu0`: `/proc/softirqs`, how often a processor polled for received packets; wraps at
///   2³²
/// - `stat:irq/cpu0`, `stat:softirq/cpu0`: `/proc/stat`, in ticks of 10 ms
///
/// And of [`read_waits`]:
///
/// - `pressure:io_some_us`, `pressure:memory_some_us`: `/proc/pressure`, time for which some task
///   waited for a disk, or for memory
/// - `pswpin`, `pswpout`: `/proc/vmstat`, pages read from swap and written to it
pub type Counters = BTreeMap<String, u64>;

/// Reads all readable counters; also returns the files that cannot be read.
#[must_use]
pub fn read() -> (Counters, Vec<&'static str>) {
    let (mut counters, mut unread) = (Counters::new(), Vec::new());
    for (file, parse) in FILES {
        match fs::read_to_string(file) {
            Ok(text) => parse(&text, &mut counters),
            // A host without IPv6 has no IPv6 counters.
            Err(_) if *file == SNMP6 => {}
            Err(_) => unread.push(*file),
        }
    }
    (counters, unread)
}

/// Adds the time for which tasks waited for disks and memory, if the kernel counts it (PSI).
pub fn read_waits(counters: &mut Counters) {
    for (file, parse) in WAITS {
        parse(&fs::read_to_string(file).unwrap_or_default(), counters);
    }
}

/// Parses a text as each of the files.
pub(crate) fn parse_all(text: &str, counters: &mut Counters) {
    FILES.iter().chain(WAITS).for_each(|(_, parse)| parse(text, counters));
}

type Parse = fn(&str, &mut Counters);

const SNMP6: &str = "/proc/self/net/snmp6";
const SOFTNET: &str = "/proc/net/softnet_stat";
const DEVICES: &str = "/proc/self/net/dev";
/// Files in reading order: the device counts drops of a backlog too, so the backlog's count is read
/// last and never exceeds what is known of the device.
const FILES: &[(&str, Parse)] = &[
    ("/proc/stat", parse_processor_time),
    ("/proc/softirqs", parse_softirqs),
    ("/proc/self/net/snmp", parse_pairs_of_lines),
    ("/proc/self/net/netstat", parse_pairs_of_lines),
    (SNMP6, parse_lines),
    (DEVICES, parse_devices),
    (SOFTNET, parse_softnet),
];

/// Files that matter only if a task is blocked.
const WAITS: &[(&str, Parse)] = &[
    ("/proc/pressure/io", |text, counters| parse_pressure("pressure:io_some_us", text, counters)),
    ("/proc/pressure/memory", |text, counters| parse_pressure("pressure:memory_some_us", text, counters)),
    ("/proc/vmstat", parse_swap),
];

/// Returns the number of packets that each processor received, of any namespace and protocol; wraps
/// at 2³².
///
/// # Errors
/// If the kernel does not report it.
pub fn received_by_processors() -> std::io::Result<Vec<u32>> {
    let mut counters = Counters::new();
    parse_softnet(&fs::read_to_string(SOFTNET)?, &mut counters);
    let received = counters.into_iter().filter(|(name, _)| name.starts_with("softnet_processed"));
    Ok(received.map(|(_, count)| (count & u64::from(u32::MAX)) as u32).collect())
}

/// Parses a line of names and a line of counts for each protocol (`proc_net(5)`).
fn parse_pairs_of_lines(text: &str, counters: &mut Counters) {
    let mut lines = text.lines();
    while let Some((names, counts)) = lines.next().zip(lines.next()) {
        let Some((protocol, names)) = names.split_once(':') else { continue };
        let counts = counts.strip_prefix(protocol).and_then(|rest| rest.strip_prefix(':'));
        let names = names.split_whitespace();
        for (name, count) in names.zip(counts.unwrap_or_default().split_whitespace()) {
            // Some fields are not counts: `MaxConn` is −1 where there is no limit.
            if let Ok(count) = count.parse() {
                counters.insert(format!("{protocol}{name}"), count);
            }
        }
    }
}

/// Parses a name and its count on each line (the kernel's `snmp6_seq_show`).
fn parse_lines(text: &str, counters: &mut Counters) {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if let Some((name, Ok(count))) = words.next().zip(words.next().map(str::parse)) {
            counters.insert(name.to_owned(), count);
        }
    }
}

/// Parses a line of hexadecimal words for each processor (the kernel's `softnet_seq_show`): the
/// first counts received packets, the second drops of the full backlog, the third how often the
/// time for its packets ran out; the thirteenth is its number, since Linux 5.10.
fn parse_softnet(text: &str, counters: &mut Counters) {
    for (index, line) in text.lines().enumerate() {
        let words: Vec<u64> =
            line.split_whitespace().map_while(|word| u64::from_str_radix(word, 16).ok()).collect();
        let cpu = words.get(12).copied().unwrap_or(index as u64);
        const NAMES: [&str; 3] = ["softnet_processed", "softnet_dropped", "softnet_time_squeeze"];
        for (name, count) in NAMES.iter().zip(&words) {
            counters.insert(format!("{name}/cpu{cpu}"), *count);
        }
    }
}

/// Parses two lines of headings, then for each device its name and sixteen counts (`proc_net(5)`).
fn parse_devices(text: &str, counters: &mut Counters) {
    const COLUMNS: [(usize, &str); 8] = [
        (2, "rx_errs"),
        (3, "rx_drop"),
        (4, "rx_fifo"),
        (5, "rx_frame"),
        (10, "tx_errs"),
        (11, "tx_drop"),
        (12, "tx_fifo"),
        (14, "tx_carrier"),
    ];
    for line in text.lines().skip(2) {
        // The name of a device may have a colon, its counts have none.
        let Some((device, counts)) = line.rsplit_once(':') else { continue };
        let counts: Vec<u64> = counts.split_whitespace().map_while(|word| word.parse().ok()).collect();
        for (column, name) in COLUMNS {
            if let Some(count) = counts.get(column) {
                counters.insert(format!("{name}/{}", device.trim()), *count);
            }
        }
    }
}

/// Parses the time for which tasks waited, in microseconds (`Documentation/accounting/psi.rst`).
fn parse_pressure(name: &str, text: &str, counters: &mut Counters) {
    if let Some(Ok(total)) = levels::pressure(text, "total=").map(str::parse) {
        counters.insert(name.to_owned(), total);
    }
}

fn parse_swap(text: &str, counters: &mut Counters) {
    for line in text.lines().filter(|line| line.starts_with("pswp")) {
        if let Some((name @ ("pswpin" | "pswpout"), Ok(count))) =
            line.split_once(' ').map(|(name, count)| (name, count.trim().parse()))
        {
            counters.insert(name.to_owned(), count);
        }
    }
}

/// Parses the time of hard and soft interrupts, which keeps programs from running and is the
/// kernel's part of receiving.
fn parse_processor_time(text: &str, counters: &mut Counters) {
    for (number, ticks) in each_in(text) {
        for (class, ticks) in [("irq", ticks.irq), ("softirq", ticks.softirq)] {
            if ticks > 0 {
                counters.insert(format!("stat:{class}/cpu{number}"), ticks);
            }
        }
    }
}

fn parse_softirqs(text: &str, counters: &mut Counters) {
    let counts = net_rx_in(text).into_iter().filter(|(_, count)| *count > 0);
    counters.extend(counts.map(|(number, count)| (format!("NET_RX/cpu{number}"), count)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Random;

    fn parsed(parse: Parse, text: &str) -> Vec<(String, u64)> {
        let mut counters = Counters::new();
        parse(text, &mut counters);
        counters.into_iter().collect()
    }

    fn expected(counts: &[(&str, u64)]) -> Vec<(String, u64)> {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn protocols_have_pairs_of_lines() {
        let snmp = "Tcp: MaxConn InErrs\nTcp: -1 2\nUdp: InDatagrams RcvbufErrors\nUdp: 7 9\nUdpLite: X\n";
        let counts = [("TcpInErrs", 2), ("UdpInDatagrams", 7), ("UdpRcvbufErrors", 9)];
        assert_eq!(parsed(parse_pairs_of_lines, snmp), expected(&counts));
        assert_eq!(parsed(parse_pairs_of_lines, "Udp: A\nTcp: 1\n"), []);
    }

    #[test]
    fn version_6_has_a_line_for_each() {
        let snmp6 = "Udp6InErrors                    \t8\nUdp6RcvbufErrors\t9\nUdp6Cut\nUdp6Odd x\n";
        assert_eq!(parsed(parse_lines, snmp6), expected(&[("Udp6InErrors", 8), ("Udp6RcvbufErrors", 9)]));
    }

    #[test]
    fn processors_are_told_by_their_number() {
        let softnet =
            "16a2a4e9 0000d57e 00000003 0 0 0 0 0 0 0 0 00000000 00000001\n03363847 00000000 00000001\n";
        let counts = [
            ("softnet_dropped/cpu1", 0xd57e),
            ("softnet_processed/cpu1", 0x16a2_a4e9),
            ("softnet_time_squeeze/cpu1", 3),
        ];
        let lines: Vec<_> = softnet.lines().collect();
        assert_eq!(parsed(parse_softnet, lines[0]), expected(&counts));
        let old_kernel = format!("1 2 3\n{}\n", lines[1]);
        let counts = [
            ("softnet_dropped/cpu0", 2),
            ("softnet_dropped/cpu1", 0),
            ("softnet_processed/cpu0", 1),
            ("softnet_processed/cpu1", 0x0336_3847),
            ("softnet_time_squeeze/cpu0", 3),
            ("softnet_time_squeeze/cpu1", 1),
        ];
        assert_eq!(parsed(parse_softnet, &old_kernel), expected(&counts));
    }

    #[test]
    fn devices_are_told_by_their_name() {
        let dev = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes …\n\
                   eth0:1: 100 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n    lo: 1 2\n";
        let counts = [
            ("rx_drop/eth0:1", 3),
            ("rx_errs/eth0:1", 2),
            ("rx_fifo/eth0:1", 4),
            ("rx_frame/eth0:1", 5),
            ("tx_carrier/eth0:1", 14),
            ("tx_drop/eth0:1", 11),
            ("tx_errs/eth0:1", 10),
            ("tx_fifo/eth0:1", 12),
        ];
        assert_eq!(parsed(parse_devices, dev), expected(&counts));
    }

    #[test]
    fn processors_have_their_interrupts_and_their_time_for_them() {
        let softirqs = "          CPU0       CPU2\n  HI:   1  2\n NET_TX:  3  4\n NET_RX:  50  0\n";
        assert_eq!(parsed(parse_softirqs, softirqs), expected(&[("NET_RX/cpu0", 50)]));
        let stat = "cpu  30 10 15 150 2 1 12 0 0 0\ncpu0 20 10 5 100 0 1 10 0 0 0\ncpu2 10 0 10 50 2 0 2 0 0 0\nintr 7\n";
        let counts = [("stat:irq/cpu0", 1), ("stat:softirq/cpu0", 10), ("stat:softirq/cpu2", 2)];
        assert_eq!(parsed(parse_processor_time, stat), expected(&counts));
    }

    #[test]
    fn what_waits_for_disk_and_memory_is_told() {
        let mut counters = Counters::new();
        let text = "some avg10=0.02 avg60=0.37 avg300=0.35 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n";
        parse_pressure("pressure:io_some_us", text, &mut counters);
        parse_pressure("x", "some avg10=0.02", &mut counters);
        parse_pressure("x", "some total=-1", &mut counters);
        let vmstat = "pgpgin 7\npswpin 3\npswpout 0\npswpx 4\npswpin\npswpin x\n";
        parse_swap(vmstat, &mut counters);
        let counts = [("pressure:io_some_us", 1_234), ("pswpin", 3), ("pswpout", 0)];
        assert_eq!(counters.into_iter().collect::<Vec<_>>(), expected(&counts));
    }

    #[test]
    fn no_text_is_too_strange() {
        let whole = "Udp: A B\nUdp: 1 2\nUdp6X 9\n0a 0b 0c\nIn\nfa\n eth0: 1 2 3 4 5\n";
        let mut random = Random::new(11);
        for _ in 0..5_000 {
            let mut bytes = whole.as_bytes().to_vec();
            for _ in 0..random.below(8) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.below(128) as u8;
            }
            bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
            let text = String::from_utf8(bytes).unwrap();
            parse_all(&text, &mut Counters::new());
        }
    }

    #[test]
    fn the_backlogs_count_is_read_after_the_devices() {
        let index = |name| FILES.iter().position(|(file, _)| *file == name);
        assert!(index(DEVICES) < index(SOFTNET) && index(DEVICES).is_some());
    }

    #[test]
    fn this_host_counts() {
        let (counters, unread) = read();
        assert_eq!(unread, Vec::<&str>::new());
        for name in
            ["UdpRcvbufErrors", "UdpNoPorts", "IpReasmFails", "TcpExtIPReversePathFilter", "rx_drop/lo"]
        {
            assert!(counters.contains_key(name), "{name}");
        }
        assert!(counters.keys().any(|name| name.starts_with("softnet_dropped/cpu")));
    }
}
