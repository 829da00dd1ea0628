//! The host's own counts of UDP, as `netstat -su` prints them. The kernel counts the two versions of IP
//! separately.

use std::net::IpAddr;

use sys::counters;

/// Meter of the host's datagrams that found the receive buffer of their socket full (`RcvbufErrors`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct RcvbufErrors {
    is_ipv6: bool,
    before: Option<u64>,
}

impl RcvbufErrors {
    /// Begins the measurement, for the IP version of an address.
    pub(crate) fn begin(address: IpAddr) -> Self {
        // A datagram from an IPv4 host is counted as IPv4 even if it arrives at an IPv6 socket.
        let is_ipv6 = address.to_canonical().is_ipv6();
        Self { is_ipv6, before: read(is_ipv6) }
    }

    /// Returns the growth since, for all sockets of the host; `None` where the kernel does not report it.
    pub(crate) fn since(&self) -> Option<u64> {
        read(self.is_ipv6)?.checked_sub(self.before?)
    }
}

fn read(is_ipv6: bool) -> Option<u64> {
    let (counters, _) = counters::read();
    counters.get(if is_ipv6 { "Udp6RcvbufErrors" } else { "UdpRcvbufErrors" }).copied()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn this_host_counts() {
        let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        assert!(RcvbufErrors::begin(Ipv4Addr::LOCALHOST.into()).since().is_some());
        assert!(!RcvbufErrors::begin(mapped.into()).is_ipv6);
        if std::fs::exists("/proc/self/net/snmp6").unwrap() {
            assert!(RcvbufErrors::begin(Ipv6Addr::LOCALHOST.into()).since().is_some());
        } else {
            eprintln!("SKIPPED: this kernel has no IPv6");
        }
    }
}
