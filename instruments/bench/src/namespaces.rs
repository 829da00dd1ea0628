//! Two network namespaces with a cable between them: they stand for two hosts where there is no second machine.
//!
//! Created and removed with the command `ip`, by root only. Their names contain the process that created them,
//! so that the leftovers of a killed one are removed by the next.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::child::Program;
use crate::local_server::{LocalServer, LocalServerError};

const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 84, 7, 1);
const CLIENT_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 84, 7, 2);
const PREFIX_LENGTH: u8 = 24;

/// The end of the cable in either namespace.
const INTERFACE: &str = "bench0";
/// Prefix of the namespaces' names, followed by the process and its start time.
const NAME: &str = "tallycast-bench-";
/// Folder in which `ip netns` keeps namespaces by name.
const FOLDER: &str = "/run/netns";

/// Settings of the cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cable {
    /// MTU of the cable; by default the system's, 1,500.
    pub mtu_bytes: Option<u32>,
}

/// Two namespaces. Dropping them removes them.
#[derive(Debug)]
pub struct Namespaces {
    server: Namespace,
    client: Namespace,
}

/// A thread's stay in a namespace. Dropping it returns the thread.
#[derive(Debug)]
pub struct Stay {
    origin: File,
}

/// Reasons why there are no namespaces.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// The command is not installed.
    #[error(
        "the command `{program}` cannot be started: {source}\ninstall it with: sudo apt install iproute2"
    )]
    NoCommand {
        /// Name of the command.
        program: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// The user lacks the privilege.
    #[error("only root can create network namespaces: {0}\nrun the same command with sudo")]
    NotAllowed(String),
    /// Any other failure of the command.
    #[error("`{command}` failed: {said}")]
    Failed {
        /// The command line.
        command: String,
        /// Output of the command.
        said: String,
    },
    /// The namespace cannot be entered.
    #[error("namespace {name} cannot be entered: {source}\nrun the same command with sudo")]
    Enter {
        /// Name of the namespace.
        name: String,
        /// Error of the system.
        source: io::Error,
    },
}

#[derive(Debug)]
struct Namespace(String);

impl Namespaces {
    /// Creates both, with a cable between them, and removes the leftovers of killed benches.
    ///
    /// # Errors
    /// [`NamespaceError`]; everything created until then is removed.
    pub fn make(cable: Cable) -> Result<Self, NamespaceError> {
        remove_leftovers();
        let owner = format!("{NAME}{}-{}", std::process::id(), start_of("self").unwrap_or_default());
        let server = Namespace::make(format!("{owner}-server"))?;
        let client = Namespace::make(format!("{owner}-client"))?;
        let peer = ["peer", "name", INTERFACE, "netns", &client.0];
        ip(&[&["-n", &server.0, "link", "add", INTERFACE, "type", "veth"][..], &peer].concat())?;
        server.set_up(SERVER_ADDRESS, cable)?;
        client.set_up(CLIENT_ADDRESS, cable)?;
        Ok(Self { server, client })
    }

    /// Adds a delay to the cable, the same in each direction.
    ///
    /// # Errors
    /// [`NamespaceError`], above all where this kernel has no `netem`; there is no delay then.
    pub fn delay(&self, each_way: Duration) -> Result<(), NamespaceError> {
        let delay = format!("{}us", each_way.as_micros());
        // Room for the packets in flight at 10 Gbit/s in packets of 1,500 bytes, several times over.
        let netem = ["root", "netem", "delay", &delay, "limit", "100000"];
        [&self.server, &self.client].into_iter().try_for_each(|end| {
            run("tc", &[&["-n", &end.0, "qdisc", "add", "dev", INTERFACE][..], &netem].concat())
        })
    }

    /// Starts a server in one of them.
    ///
    /// # Errors
    /// As for [`LocalServer::start`].
    pub fn start_server(&self, program: &Program) -> Result<LocalServer, LocalServerError> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.server.0]).arg(&program.path).args(&program.arguments);
        LocalServer::start_by(command, program, SERVER_ADDRESS.into())
    }

    /// Moves this thread, and those that it starts, into the other one.
    ///
    /// # Errors
    /// [`NamespaceError::Enter`].
    pub fn enter(&self) -> Result<Stay, NamespaceError> {
        let name = &self.client.0;
        let enter = || {
            let origin = File::open("/proc/thread-self/ns/net")?;
            let target = File::open(Path::new(FOLDER).join(name))?;
            move_into_link_name_space(target.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(Stay { origin })
        };
        enter().map_err(|source| NamespaceError::Enter { name: name.clone(), source })
    }

    /// Returns the client's address.
    #[must_use]
    pub const fn client_address(&self) -> IpAddr {
        IpAddr::V4(CLIENT_ADDRESS)
    }
}

impl Namespace {
    fn make(name: String) -> Result<Self, NamespaceError> {
        ip(&["netns", "add", &name])?;
        Ok(Self(name))
    }

    fn set_up(&self, address: Ipv4Addr, cable: Cable) -> Result<(), NamespaceError> {
        if let Some(mtu) = cable.mtu_bytes {
            ip(&["-n", &self.0, "link", "set", INTERFACE, "mtu", &mtu.to_string()])?;
        }
        let address = format!("{address}/{PREFIX_LENGTH}");
        ip(&["-n", &self.0, "address", "add", &address, "dev", INTERFACE])?;
        ip(&["-n", &self.0, "link", "set", INTERFACE, "up"])?;
        ip(&["-n", &self.0, "link", "set", "lo", "up"])
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Anything that cannot be removed now is removed by the next bench.
        let _ = ip(&["netns", "delete", &self.0]);
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        // Failing leaves this thread in the namespace, which matters only to a program that continues.
        let _ = move_into_link_name_space(self.origin.as_fd(), Some(LinkNameSpaceType::Network));
    }
}

fn ip(arguments: &[&str]) -> Result<(), NamespaceError> {
    run("ip", arguments)
}

fn run(program: &'static str, arguments: &[&str]) -> Result<(), NamespaceError> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|source| NamespaceError::NoCommand { program, source })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let is_forbidden = ["not permitted", "Permission denied"].iter().any(|words| said.contains(words));
    Err(if is_forbidden {
        NamespaceError::NotAllowed(said)
    } else {
        NamespaceError::Failed { command: format!("{program} {}", arguments.join(" ")), said }
    })
}

/// Removes the namespaces of benches that no longer run.
fn remove_leftovers() {
    let names = fs::read_dir(FOLDER)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    for name in names.filter(|name| is_leftover(name, start_of)) {
        drop(Namespace(name));
    }
}

/// Returns whether a namespace is of a bench whose process is gone; `start_of` returns the start time of a
/// running process.
fn is_leftover(name: &str, start_of: impl Fn(&str) -> Option<String>) -> bool {
    let Some(owner) = name.strip_prefix(NAME) else { return false };
    let mut words = owner.split('-');
    let (Some(process), Some(start)) = (words.next(), words.next()) else { return false };
    start_of(process).is_none_or(|began| began != start)
}

/// Returns the start time of a process, in the kernel's ticks since boot.
fn start_of(process: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Source: proc_pid_stat(5): the 22nd field; the second, in brackets, may contain blanks.
    let (_, behind_name) = stat.rsplit_once(')')?;
    behind_name.split_whitespace().nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_of_benches_that_are_gone_are_left_over() {
        let running = |process: &str| (process == "7").then(|| "100".to_owned());
        assert!(!is_leftover("tallycast-bench-7-100-server", running));
        assert!(is_leftover("tallycast-bench-7-99-server", running), "another process has its number now");
        assert!(is_leftover("tallycast-bench-8-100-client", running));
        for foreign in ["lab", "tallycast-bench-", "tallycast-bench-8"] {
            assert!(!is_leftover(foreign, running), "{foreign}");
        }
    }

    #[test]
    fn a_process_knows_when_it_began() {
        assert!(start_of("self").unwrap().parse::<u64>().is_ok());
        assert_eq!(start_of("self"), start_of(&std::process::id().to_string()));
        assert_eq!(start_of("0"), None);
    }
}
