//! State of one of the two hosts of a measurement: the machine, and the measured interface.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sys::Interface;

use crate::host::Host;

/// Maximum size of an IP packet, even if an interface takes larger ones, such as the loopback interface's
/// 65,536.
const LARGEST_PACKET_BYTES: u32 = 65_535;

/// A host that takes part in a measurement.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostState {
    /// The machine.
    pub host: Host,
    /// Identifier of this boot of this machine, by which two ends on one host are recognised; empty where the
    /// kernel does not report it.
    pub boot_id: String,
    /// The largest send buffer without privilege (`net.core.wmem_max`).
    pub wmem_max_bytes: Option<u64>,
    /// The default congestion control of connections.
    pub congestion_control: Option<String>,
    /// The interface with the measured address; null if none has it.
    pub interface: Option<Link>,
    /// The largest packet that reaches the other end unfragmented, as far as this host knows: a narrower link
    /// further along the path that has not answered yet is not included. Null where there is no other end, or
    /// the kernel does not report it.
    pub path_mtu_bytes: Option<u32>,
}

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Name of the interface.
    pub name: String,
    /// Maximum size of a packet.
    pub mtu_bytes: u32,
    /// The offloads that are switched on, named as in `ethtool -k`; null where the driver does not report them.
    pub offloads: Option<Vec<String>>,
}

impl HostState {
    /// Reads the state of this host, for measurements over `address`.
    #[must_use]
    pub fn look(address: IpAddr) -> Self {
        let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        Self {
            host: Host::look(),
            boot_id: read("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
            wmem_max_bytes: sys::host::send_buffer_limit().ok(),
            congestion_control: read("/proc/sys/net/ipv4/tcp_congestion_control"),
            interface: Link::of(address),
            path_mtu_bytes: None,
        }
    }

    /// Reads the state of this host, for measurements from one of its addresses to another end.
    #[must_use]
    pub fn look_towards(address: IpAddr, peer: SocketAddr) -> Self {
        let path_mtu = sys::path_mtu(peer, None).ok();
        let path_mtu_bytes = path_mtu.and_then(|mtu| u32::try_from(mtu).ok());
        Self { path_mtu_bytes, ..Self::look(address) }
    }

    /// Returns whether the other is the same host.
    #[must_use]
    pub fn is_same_host(&self, other: &Self) -> bool {
        !self.boot_id.is_empty() && self.boot_id == other.boot_id
    }

    /// Describes in a line what a figure of this host depends on.
    #[must_use]
    pub fn in_words(&self) -> String {
        let Host { kernel, machine, cpu, cpus, load_1min, .. } = &self.host;
        let cpu = if cpu.is_empty() { "unnamed" } else { cpu };
        let load = load_1min.map_or("unknown".to_owned(), |load| format!("{load:.2}"));
        let link = self.interface.as_ref().map_or("interface unknown".to_owned(), |link| {
            let path = self.path_mtu_bytes.filter(|mtu| *mtu < link.mtu_bytes.min(LARGEST_PACKET_BYTES));
            link.in_words(&path.map_or_else(String::new, |mtu| format!(", {mtu} on the path")))
        });
        format!("{kernel} {machine}, {cpus} CPUs ({cpu}), load {load}, {link}")
    }
}

impl Link {
    /// Returns the interface that has an address; `None` if none has it.
    pub(crate) fn of(address: IpAddr) -> Option<Self> {
        let found = Interface::all().ok()?.into_iter().find(|it| it.addresses.contains(&address))?;
        let offloads = found.offloads().ok();
        Some(Self { name: found.name, mtu_bytes: found.mtu, offloads })
    }

    /// Describes the interface, with what is known of the path behind it.
    pub(crate) fn in_words(&self, path: &str) -> String {
        let offloads = self.offloads.as_ref().map_or("not told".to_owned(), |names| match &names[..] {
            [] => "none".to_owned(),
            names => names.join(" "),
        });
        format!("{} MTU {}{path} (offloads {offloads})", self.name, self.mtu_bytes)
    }
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
        let link = state.interface.clone().unwrap();
        let towards = HostState::look_towards(Ipv4Addr::LOCALHOST.into(), (Ipv4Addr::LOCALHOST, 9).into());
        let whole = link.mtu_bytes.min(LARGEST_PACKET_BYTES);
        assert_eq!(towards.path_mtu_bytes, Some(whole), "the interface is all of the way");
        assert!(!towards.in_words().contains("on the path"), "{}", towards.in_words());
        let other = HostState { boot_id: "another".to_owned(), ..state.clone() };
        assert!(!state.is_same_host(&other));
    }
    #[test]
    fn a_path_that_is_narrower_than_its_interface_and_offloads_are_said() {
        let words = |offloads: Option<&[&str]>, path_mtu_bytes| {
            let offloads = offloads.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            let link = Link { name: "eth7".to_owned(), mtu_bytes: 9_000, offloads };
            let state = HostState::look(Ipv4Addr::LOCALHOST.into());
            HostState { interface: Some(link), path_mtu_bytes, ..state }.in_words()
        };
        let offloads: &[&str] = &["rx-gro", "tx-udp-segmentation"];
        let said = words(Some(offloads), Some(1_500));
        assert!(
            said.ends_with("eth7 MTU 9000, 1500 on the path (offloads rx-gro tx-udp-segmentation)"),
            "{said}"
        );
        assert!(words(Some(&[]), Some(9_000)).ends_with("eth7 MTU 9000 (offloads none)"));
        assert!(words(None, None).ends_with("eth7 MTU 9000 (offloads not told)"));
    }
}
