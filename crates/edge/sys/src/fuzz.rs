//! Parsers of the kernel's bytes and texts, for the fuzzers: for any input they end, and return no
//! more items than it can hold.

use std::collections::BTreeMap;

use crate::host::counters::{self, Counters};
use crate::host::{device_counters, groups, levels, process, processors};
use crate::netlink::{links, qdisc, read_answer, udp_sockets};

/// Parses bytes as a netlink datagram of each part of the kernel; returns the numbers of links,
/// queue disciplines and sockets in it.
#[must_use]
pub fn read_netlink(answer: &[u8]) -> [usize; 3] {
    let (mut all_links, mut all_qdiscs, mut all_sockets) = (Vec::new(), Vec::new(), Vec::new());
    // Items read before an error remain.
    let _ = read_answer(answer, &mut |kind, body| links::take(kind, body, &mut all_links));
    let _ = read_answer(answer, &mut |kind, body| qdisc::take(kind, body, &mut all_qdiscs));
    let _ = read_answer(answer, &mut |kind, body| udp_sockets::take(kind, body, &mut all_sockets));
    [all_links.len(), all_qdiscs.len(), all_sockets.len()]
}

/// Parses a text as each file of `/proc` and `/sys` that this crate reads; returns the total number
/// of items.
#[must_use]
pub fn read_text(text: &str) -> usize {
    let mut counted = Counters::new();
    counters::parse_all(text, &mut counted);
    let mut memberships = BTreeMap::new();
    groups::parse_igmp(text, &mut memberships);
    groups::parse_igmp6(text, &mut memberships);
    let joined: usize = memberships.values().map(|it| it.groups.len() + 1).sum();
    let set = processors::parse_set(text).unwrap_or_default();
    let interrupts = processors::named_interrupts(text, "eth0");
    let _ = (process::parse_schedstat(text), process::parse_state(text), process::socket_inode(text));
    let _ = (links::tells_of_queriers(text), process::parse_priority(1, text));
    let _ = (process::parse_major_faults(text), levels::pressure(text, "total="));
    let taken = processors::counts_of_interrupts(text, |_| Some("eth0"));
    let mut stand = levels::Levels::new();
    levels::parse_all(text, &mut stand);
    let names = device_counters::names_in(text.as_bytes());
    assert!(names.len() <= text.len() / 32);
    counted.len() + joined + set.len() + interrupts.len() + taken.len() + stand.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Random;

    /// The kernel's formats, in one text: each parser finds its own, and must cope with the
    /// others'.
    const TEXT: &str = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
        4\teth0      :     2      V2\n\t\t\t\t010054EF     1 0:00000000\t\t1\n\
        4    eth0            ff020000000000000000000000000001     1 0000000C 0\n\
        Udp: InDatagrams RcvbufErrors\nUdp: 7 9\nUdp6InErrors                    \t8\n\
        16a2a4e9 0000d57e 00000003 0 0 0 0 0 0 0 0 00000000 00000001\n\
        \x20 eth0: 100 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n\
        \x2034:        663          0 PCI-MSIX-0000:00:05.0   1-edge      eth0-rx-0\n12 34 5\n7 (a) b (c)) D 1 2\n0-3,8\n";

    #[test]
    fn no_text_is_too_strange() {
        assert!(read_text(TEXT) > 20);
        let mut random = Random::new(17);
        for _ in 0..10_000 {
            let mut bytes = TEXT.as_bytes().to_vec();
            for _ in 0..random.below(8) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(4) {
                    0 => bytes[at] = random.below(128) as u8,
                    1 => bytes[at] = b"0123456789abcdefV:,-()\t\n "[random.below(25) as usize],
                    2 => drop(bytes.drain(at..bytes.len().min(at + 1 + random.below(9) as usize))),
                    _ => bytes.insert(at, b"9-,:\n\tV("[random.below(8) as usize]),
                }
            }
            // The longest list of processors results from the shortest text.
            let text = String::from_utf8(bytes).expect("ASCII");
            assert!(read_text(&text) <= text.len() * 4 + 8_192);
            assert!(text.lines().map(read_text).max() <= Some(8_192 + text.len()));
        }
    }

    #[test]
    fn no_answer_is_too_strange() {
        let mut random = Random::new(23);
        // Messages of each kind, of any length that fits, full of nested attributes of any kind.
        for _ in 0..20_000 {
            let mut answer = Vec::new();
            for _ in 0..=random.below(3) {
                let kind: u16 = [16, 36, 20, 2, 3][random.below(5) as usize];
                let mut body = vec![0; [16, 20, 72][random.below(3) as usize]];
                body[0] = [0, 2, 10][random.below(3) as usize];
                for _ in 0..random.below(12) {
                    body.extend((random.below(24) as u16).to_ne_bytes());
                    body.extend(
                        ([3, 7, 18, 23, 1, 2, 25, 47][random.below(8) as usize] as u16).to_ne_bytes(),
                    );
                    body.extend((0..random.below(20)).map(|at| (at * random.below(256)) as u8));
                }
                answer.extend((16 + body.len() as u32 - random.below(3) as u32).to_ne_bytes());
                answer.extend(kind.to_ne_bytes());
                answer.extend([0; 10]);
                answer.extend(body);
                answer.resize(answer.len().next_multiple_of(4), 0);
            }
            answer.truncate(random.below(answer.len() as u64 + 8) as usize);
            let found = read_netlink(&answer);
            assert!(found.iter().sum::<usize>() <= answer.len() / 16);
        }
        let mut answer = vec![255; 4_096];
        assert_eq!(read_netlink(&answer), [0; 3]);
        answer.fill(0);
        assert_eq!(read_netlink(&answer), [0; 3]);
    }
}
