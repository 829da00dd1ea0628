//! Choice of the sockets of a host that are watched.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use diagnose::{Finding, Place, Socket};
use serde::{Deserialize, Serialize};

/// Maximum number of ports in the kernel's programs.
const MAX_PORTS: usize = 8;

/// Sockets to be watched: those that have one of the ports, or belong to one of the processes; all of them if neither
/// is given.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Wanted {
    /// Ports they are bound to.
    pub ports: BTreeSet<u16>,
    /// Processes that have them open.
    pub pids: BTreeSet<u32>,
}

impl Wanted {
    /// Returns whether everything is watched.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.ports.is_empty() && self.pids.is_empty()
    }

    /// Returns the ports that the programs in the kernel watch; empty, which means all, where they are unknown or too
    /// many.
    pub(crate) fn few_ports(&self) -> Vec<u16> {
        // The ports of a process's sockets may change meanwhile.
        let is_of_few = self.pids.is_empty() && self.ports.len() <= MAX_PORTS;
        self.ports.iter().copied().filter(|_| is_of_few).collect()
    }

    fn has(&self, local: SocketAddr, pid: Option<u32>) -> bool {
        self.is_everything()
            || self.ports.contains(&local.port())
            || pid.is_some_and(|pid| self.pids.contains(&pid))
    }

    pub(crate) fn has_socket(&self, socket: &Socket) -> bool {
        self.has(socket.local, socket.owner.as_ref().map(|owner| owner.pid))
    }

    /// Returns whether a finding is of watched sockets; a counter of all sockets together may be.
    pub(crate) fn has_finding(&self, finding: &Finding) -> bool {
        let Place::Socket { local, owner, .. } = &finding.place else { return true };
        self.has(*local, owner.as_ref().map(|(pid, _)| *pid))
    }
}
