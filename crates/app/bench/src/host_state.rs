//! What is known of one of the two hosts of a measurement: the machine, and the way out of it that is measured.

use std::fs;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use sys::Interface;

use crate::host::Host;

/// A host that takes part in a measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostState {
    /// The machine.
    pub host: Host,
    /// What tells this start of this machine from every other, so that two ends on one host are known as such; empty
    /// where the kernel does not say.
    pub boot_id: String,
    /// The largest send buffer without privilege (`net.core.wmem_max`).
    pub wmem_max_bytes: Option<u64>,
    /// The congestion control of connections that ask for none.
    pub congestion_control: Option<String>,
    /// The interface with the address that is measured over; null if none has it.
    pub interface: Option<Link>,
}

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// The largest packet it takes.
    pub mtu_bytes: u32,
    /// The offloads that are switched on; null where they were not read.
    pub offloads: Option<Vec<String>>,
}

impl HostState {
    /// Looks at this host, as seen by whoever measures over `address`.
    #[must_use]
    pub fn look(address: IpAddr) -> Self {
        let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        Self {
            host: Host::look(),
            boot_id: read("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
            wmem_max_bytes: sys::host::send_buffer_limit().ok(),
            congestion_control: read("/proc/sys/net/ipv4/tcp_congestion_control"),
            interface: interface_of(address),
        }
    }

    /// Tells whether the other is the same host.
    #[must_use]
    pub fn is_same_host(&self, other: &Self) -> bool {
        !self.boot_id.is_empty() && self.boot_id == other.boot_id
    }

    /// Says in a line what a figure of this host depends on.
    #[must_use]
    pub fn in_words(&self) -> String {
        let Host { kernel, machine, cpu, cpus, load_1min, .. } = &self.host;
        let cpu = if cpu.is_empty() { "unnamed" } else { cpu };
        let load = load_1min.map_or("unknown".to_owned(), |load| format!("{load:.2}"));
        let link = self.interface.as_ref().map_or("interface unknown".to_owned(), |link| {
            let offloads = link.offloads.as_ref().map_or("not read".to_owned(), |names| names.join(" "));
            format!("{} MTU {} (offloads {offloads})", link.name, link.mtu_bytes)
        });
        format!("{kernel} {machine}, {cpus} CPUs ({cpu}), load {load}, {link}")
    }
}

fn interface_of(address: IpAddr) -> Option<Link> {
    let found = Interface::all().ok()?.into_iter().find(|it| it.addresses.contains(&address))?;
    Some(Link { name: found.name, mtu_bytes: found.mtu, offloads: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_loopback_interface_has_a_name_and_an_mtu() {
        let state = HostState::look(Ipv4Addr::LOCALHOST.into());
        assert_eq!(state.interface.as_ref().map(|link| link.name.as_str()), Some("lo"));
        assert!(state.in_words().contains("lo MTU "), "{}", state.in_words());
        assert!(state.is_same_host(&state));
        let other = HostState { boot_id: "another".to_owned(), ..state.clone() };
        assert!(!state.is_same_host(&other));
    }
}
