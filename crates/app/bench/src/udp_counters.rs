//! The host's own counts of UDP: what `netstat -su` prints.

use std::fs;

/// The counts of this process's network namespace.
const FILE: &str = "/proc/self/net/snmp";

/// Looks at how many datagrams of this host found the receive buffer of their socket full (`RcvbufErrors`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct RcvbufErrors(Option<u64>);

impl RcvbufErrors {
    /// Begins to look.
    pub(crate) fn begin() -> Self {
        Self(read())
    }

    /// Returns how many did since, whoever's sockets they were for; `None` where the kernel does not say.
    pub(crate) fn since(&self) -> Option<u64> {
        read()?.checked_sub(self.0?)
    }
}

fn read() -> Option<u64> {
    udp_count(&fs::read_to_string(FILE).ok()?, "RcvbufErrors")
}

/// Source: `proc_net(5)`: for each protocol a line of names, then one of counts.
fn udp_count(snmp: &str, name: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let place = lines.next()?.split_whitespace().position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_found_by_its_name() {
        let snmp = "Tcp: InErrs RcvbufErrors\nTcp: 1 2\nUdp: InDatagrams InErrors RcvbufErrors\nUdp: 7 8 9\n\
                    UdpLite: RcvbufErrors\nUdpLite: 5\n";
        assert_eq!(udp_count(snmp, "RcvbufErrors"), Some(9));
        assert_eq!(udp_count(snmp, "NoSuch"), None);
        assert_eq!(udp_count("Udp: A\n", "A"), None);
    }

    #[test]
    fn this_host_counts() {
        assert!(RcvbufErrors::begin().since().is_some());
    }
}
