//! Errors of opening a socket, with remedies.

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::io::Errno;

use crate::host::interface::needs_link;

/// Reason why a socket could not be opened as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another program is bound to the address.
    #[error(
        "{address} is in use by another program\nchoose another port, or find the program with: ss -ulpn"
    )]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// The address belongs to no interface of this host.
    #[error(
        "{address} is not an address of this host\nuse one that `ip address` lists, or 0.0.0.0 or [::] for all"
    )]
    NotLocal {
        /// The address.
        address: SocketAddr,
    },
    /// This socket has joined as many groups as it may.
    #[error(
        "group {group} cannot be joined: the socket is a member of the maximum number of groups\n\
         raise the limit with: sudo sysctl -w {limit}",
        limit = if .group.is_ipv4() { "net.ipv4.igmp_max_memberships=256" } else { "net.core.optmem_max=1048576" }
    )]
    TooManyGroups {
        /// The group.
        group: IpAddr,
    },
    /// There is no interface to join the group on.
    #[error(
        "group {group} cannot be joined: no interface has a route to it\nname one, as in ?iface=eth0 or ?iface=lo"
    )]
    NoInterface {
        /// The group.
        group: IpAddr,
    },
    /// The kernel has no IPv6, or no IPv4.
    #[error("this host does not support the IP version of {address}\nuse an address of the other IP version")]
    NoProtocol {
        /// The address.
        address: SocketAddr,
    },
    /// The limit of open files is reached.
    #[error("no socket can be opened for {address}: {source}\n{MORE_DESCRIPTORS}")]
    NoDescriptors {
        /// The address.
        address: SocketAddr,
        /// Error of the kernel.
        source: io::Error,
    },
    /// Any other error.
    #[error("the kernel refused to {step} for {address}")]
    System {
        /// The step that failed.
        step: &'static str,
        /// The address.
        address: SocketAddr,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
}

/// Adds the failed step to an error.
pub(crate) trait Step<T> {
    fn step(self, step: &'static str, address: SocketAddr) -> Result<T, OpenError>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, step: &'static str, address: SocketAddr) -> Result<T, OpenError> {
        self.map_err(|error| {
            let source = error.into();
            match Errno::from_io_error(&source) {
                Some(Errno::ADDRINUSE) if step == BIND => OpenError::InUse { address },
                Some(Errno::ADDRNOTAVAIL) if step == BIND => OpenError::NotLocal { address },
                // IPv4 counts memberships; IPv6 takes them from the socket's memory for options.
                Some(Errno::NOBUFS | Errno::NOMEM) if step == JOIN => {
                    OpenError::TooManyGroups { group: address.ip() }
                }
                // A group of link scope is ambiguous without its link.
                Some(Errno::INVAL) if step == BIND && needs_link(address.ip()) => {
                    OpenError::NoInterface { group: address.ip() }
                }
                Some(Errno::NODEV) if step == JOIN => OpenError::NoInterface { group: address.ip() },
                Some(Errno::AFNOSUPPORT) => OpenError::NoProtocol { address },
                _ if is_out_of_descriptors(&source) => OpenError::NoDescriptors { address, source },
                _ => OpenError::System { step, address, source },
            }
        })
    }
}

/// Remedy when no more files can be opened.
pub const MORE_DESCRIPTORS: &str = "close some, or allow more before it starts: ulimit -n 65536; for the whole host: sudo sysctl -w fs.file-max=1000000";

/// Returns whether an error means that the limit of open files of this process or this host is
/// reached.
#[must_use]
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

pub(crate) const CREATE: &str = "open a socket";
pub(crate) const BIND: &str = "bind the socket";
pub(crate) const JOIN: &str = "join the group";
pub(crate) const CONFIGURE: &str = "configure the socket";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_groups_name_the_limit_of_their_own_protocol() {
        for (group, errno, limit) in [
            ("239.84.1.1:7400", Errno::NOBUFS, "net.ipv4.igmp_max_memberships"),
            ("[ff15::5443:0:1]:7400", Errno::NOMEM, "net.core.optmem_max"),
        ] {
            let refused: Result<(), OpenError> =
                Err::<(), io::Error>(errno.into()).step(JOIN, group.parse().expect("an address"));
            let said = refused.expect_err("it was refused").to_string();
            assert!(said.contains(limit), "{said}");
        }
    }
}
