//! Current values that may rise and fall: the memory that datagrams are kept in, its limit, and
//! other limits of receiving.

use std::collections::BTreeMap;
use std::fs;

use crate::host::sysctl_numbers;

/// Values by name.
///
/// - `UDP mem`, `FRAG memory`, `FRAG6 memory`: `/proc/net/sockstat` and `sockstat6`; the first is
///   of the whole host and in pages, the others of this network namespace and in bytes
/// - `net.ipv4.udp_mem`, `net.ipv4.ipfrag_high_thresh`, `net.ipv6.ip6frag_high_thresh`: their
///   limits
/// - `net.core.netdev_budget`, `net.core.netdev_budget_usecs`: the work of a softirq in one round,
///   if this network namespace has them
pub type Levels = BTreeMap<String, u64>;

/// Reads all readable values.
#[must_use]
pub fn read() -> Levels {
    let mut levels = Levels::new();
    for file in ["/proc/self/net/sockstat", "/proc/self/net/sockstat6"] {
        parse_all(&fs::read_to_string(file).unwrap_or_default(), &mut levels);
    }
    for name in LIMITS {
        // The last of three numbers of pages is the limit.
        let limit = sysctl_numbers(name).ok().and_then(|numbers| numbers.last().copied());
        levels.extend(limit.map(|limit| (name.to_owned(), limit)));
    }
    levels
}

const LIMITS: [&str; 5] = [
    "net.ipv4.udp_mem",
    "net.ipv4.ipfrag_high_thresh",
    "net.ipv6.ip6frag_high_thresh",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
];
/// Protocols and the kernel's names of the memory that they use.
const IN_USE: [(&str, &str); 3] = [("UDP", "mem"), ("FRAG", "memory"), ("FRAG6", "memory")];

/// Parses lines such as `UDP: inuse 3 mem 12`: a protocol, and then names and numbers in turn.
pub(crate) fn parse_all(text: &str, levels: &mut Levels) {
    for (protocol, rest) in text.lines().filter_map(|line| line.split_once(':')) {
        let Some((_, name)) = IN_USE.iter().find(|(it, _)| *it == protocol) else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let pair = words.chunks_exact(2).find(|pair| pair[0] == *name);
        if let Some(Ok(number)) = pair.map(|pair| pair[1].parse()) {
            levels.insert(format!("{protocol} {name}"), number);
        }
    }
}

/// Returns a value of the waiting times of some tasks: `some avg10=0.02 … total=7`
/// (`Documentation/accounting/psi.rst`).
#[must_use]
pub fn pressure<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_datagrams_and_of_fragments_is_read() {
        let text = "sockets: used 20\nTCP: inuse 1 orphan 0 tw 0 alloc 1 mem 82\nUDP: inuse 3 mem 12\nUDPLITE: inuse 0\n\
                    FRAG: inuse 2 memory 4096\nFRAG6: inuse 1 memory 8192\nUDP: mem x\nFRAG: memory\n";
        let mut levels = Levels::new();
        parse_all(text, &mut levels);
        let expected = [("FRAG memory", 4_096), ("FRAG6 memory", 8_192), ("UDP mem", 12)];
        assert_eq!(levels, expected.map(|(name, number)| (name.to_owned(), number)).into());
    }

    #[test]
    fn what_some_waited_for_is_told_by_its_name() {
        let text = "full avg10=9.00 total=1\nsome avg10=0.02 avg60=0.37 avg300=0.35 total=7\n";
        assert_eq!((pressure(text, "avg60="), pressure(text, "total=")), (Some("0.37"), Some("7")));
        assert_eq!((pressure(text, "avg1="), pressure("", "total=")), (None, None));
    }

    #[test]
    fn this_host_has_memory_for_datagrams() {
        let levels = read();
        let number = |name: &str| levels.get(name).copied();
        assert!(number("UDP mem").unwrap() <= 2 * number("net.ipv4.udp_mem").unwrap());
        assert!(number("FRAG memory").is_some() && number("net.ipv4.ipfrag_high_thresh").is_some());
    }
}
