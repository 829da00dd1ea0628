//! The host's own counts of UDP: what `netstat -su` prints. The kernel counts the two versions of IP apart.

use std::fs;
use std::net::IpAddr;

/// The counts of this process's network namespace, of IPv4 and of IPv6.
const OF_IPV4: &str = "/proc/self/net/snmp";
const OF_IPV6: &str = "/proc/self/net/snmp6";

/// Looks at how many datagrams of this host found the receive buffer of their socket full (`RcvbufErrors`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct RcvbufErrors {
    is_ipv6: bool,
    before: Option<u64>,
}

impl RcvbufErrors {
    /// Begins to look at datagrams of the same version of IP as an address.
    pub(crate) fn begin(address: IpAddr) -> Self {
        // A datagram from an IPv4 host is counted as one also where it comes to a socket of IPv6.
        let is_ipv6 = address.to_canonical().is_ipv6();
        Self { is_ipv6, before: read(is_ipv6) }
    }

    /// Returns how many did since, whoever's sockets they were for; `None` where the kernel does not say.
    pub(crate) fn since(&self) -> Option<u64> {
        read(self.is_ipv6)?.checked_sub(self.before?)
    }
}

fn read(is_ipv6: bool) -> Option<u64> {
    if is_ipv6 {
        count_of_ipv6(&fs::read_to_string(OF_IPV6).ok()?, "Udp6RcvbufErrors")
    } else {
        count_of_ipv4(&fs::read_to_string(OF_IPV4).ok()?, "RcvbufErrors")
    }
}

/// Source: `proc_net(5)`: for each protocol a line of names, then one of counts.
fn count_of_ipv4(snmp: &str, name: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let place = lines.next()?.split_whitespace().position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(place)?.parse().ok()
}

/// Source: the kernel's `snmp6_seq_show_item`: a name and its count on each line.
fn count_of_ipv6(snmp6: &str, name: &str) -> Option<u64> {
    let mut lines = snmp6.lines().map(str::split_whitespace);
    lines.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()?.parse().ok()))?
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn a_count_is_found_by_its_name() {
        let snmp = "Tcp: InErrs RcvbufErrors\nTcp: 1 2\nUdp: InDatagrams InErrors RcvbufErrors\nUdp: 7 8 9\n\
                    UdpLite: RcvbufErrors\nUdpLite: 5\n";
        assert_eq!(count_of_ipv4(snmp, "RcvbufErrors"), Some(9));
        assert_eq!(count_of_ipv4(snmp, "NoSuch"), None);
        assert_eq!(count_of_ipv4("Udp: A\n", "A"), None);
        let snmp6 = "Udp6InErrors                    \t8\nUdp6RcvbufErrors                \t9\nUdpLite6RcvbufErrors\t5\nUdp6Cut\n";
        assert_eq!(count_of_ipv6(snmp6, "Udp6RcvbufErrors"), Some(9));
        assert_eq!(count_of_ipv6(snmp6, "RcvbufErrors"), None);
        assert_eq!(count_of_ipv6(snmp6, "Udp6Cut"), None);
    }

    #[test]
    fn this_host_counts() {
        let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        assert!(RcvbufErrors::begin(Ipv4Addr::LOCALHOST.into()).since().is_some());
        assert!(!RcvbufErrors::begin(mapped.into()).is_ipv6);
        if fs::exists(OF_IPV6).unwrap() {
            assert!(RcvbufErrors::begin(Ipv6Addr::LOCALHOST.into()).since().is_some());
        } else {
            eprintln!("SKIPPED: this kernel has no IPv6");
        }
    }
}
