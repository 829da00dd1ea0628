//! Network namespaces: entering one, and creating ones that stand for hosts of their own.
//!
//! They are created and removed with the command `ip`, by root only. Their names contain the process that created
//! them, so that the next [`Namespace::create`] removes those of killed processes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Directory in which `ip netns` keeps its named namespaces.
const NAMED: &str = "/run/netns";
/// Prefix of the names of created namespaces.
const PREFIX: &str = "tallycast-";
/// Prefix length of the addresses at the ends of a cable.
const PREFIX_LENGTH: u8 = 24;

/// A network namespace of this process with its loopback interface up. Dropping it removes it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

/// A thread's stay in a namespace. Dropping it returns the thread.
#[derive(Debug)]
pub struct Stay {
    origin: File,
    /// Only the thread that entered can return: a pointer is not [`Send`].
    _thread: PhantomData<*const ()>,
}

/// Reason why a network namespace cannot be created, set up or entered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// There is no namespace of that name.
    #[error(
        "there is no network namespace {name}\ncreate it with: sudo ip netns add {name} && sudo ip -n {name} link set lo up"
    )]
    NotFound {
        /// Name asked for.
        name: String,
    },
    /// Entering it requires root.
    #[error("this user may not enter network namespace {name}\nrun it as root")]
    NotPermitted {
        /// Name asked for.
        name: String,
    },
    /// Any other error on entering it.
    #[error("network namespace {name} cannot be entered")]
    System {
        /// Name asked for.
        name: String,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
    /// A command is not installed.
    #[error(
        "the command `{program}` cannot be started: {source}\ninstall it with: sudo apt install iproute2"
    )]
    NoCommand {
        /// Name of the command.
        program: String,
        /// Error of the system.
        source: io::Error,
    },
    /// Creating one requires root.
    #[error("only root can create network namespaces: {0}\nrun the same command with sudo")]
    NotCreatable(String),
    /// A command failed for another reason.
    #[error("`{command}` failed: {said}")]
    Failed {
        /// The command line.
        command: String,
        /// Output of the command.
        said: String,
    },
}

impl Namespace {
    /// Creates a namespace whose name begins with `label`, and removes those of killed processes.
    ///
    /// # Errors
    /// [`NamespaceError`]; what was created until then is removed.
    pub fn create(label: &str) -> Result<Self, NamespaceError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        remove_leftovers();
        let (start, number) = (start_of("self").unwrap_or_default(), COUNT.fetch_add(1, Ordering::Relaxed));
        let name = format!("{PREFIX}{label}-{}-{start}-{number}", process::id());
        run(&format!("ip netns add {name}"))?;
        let namespace = Self { name };
        namespace.run("ip link set lo up")?;
        Ok(namespace)
    }

    /// Creates two namespaces and a cable between them, with an interface of the same name at both ends.
    ///
    /// # Errors
    /// [`NamespaceError`]; what was created until then is removed.
    pub fn pair(
        labels: [&str; 2],
        interface: &str,
        addresses: [Ipv4Addr; 2],
        mtu_bytes: Option<u32>,
    ) -> Result<[Self; 2], NamespaceError> {
        let ends = [Self::create(labels[0])?, Self::create(labels[1])?];
        ends[0].connect(interface, &ends[1], interface)?;
        for (end, address) in ends.iter().zip(addresses) {
            if let Some(mtu) = mtu_bytes {
                end.run(&format!("ip link set {interface} mtu {mtu}"))?;
            }
            end.run(&format!("ip address add {address}/{PREFIX_LENGTH} dev {interface}"))?;
            end.run(&format!("ip link set {interface} up"))?;
        }
        Ok(ends)
    }

    /// Lays a cable to another namespace: creates an interface at each end, both still down.
    ///
    /// # Errors
    /// [`NamespaceError`], in particular if an interface has one of the names already.
    pub fn connect(&self, interface: &str, other: &Self, peer: &str) -> Result<(), NamespaceError> {
        self.run(&format!("ip link add {interface} type veth peer name {peer} netns {}", other.name))
            .map(drop)
    }

    /// Returns the name by which `ip netns` knows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a command that runs a program in it, with its own view of `/sys`.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Runs a command of words separated by blanks in it, and returns its output.
    ///
    /// # Errors
    /// [`NamespaceError`] if the command is not installed, or fails.
    pub fn run(&self, command: &str) -> Result<String, NamespaceError> {
        self.inside(|| run(command))?
    }

    /// Runs `act` on a thread of its own in it, as [`in_namespace`] does.
    ///
    /// # Errors
    /// [`NamespaceError`] if it cannot be entered.
    pub fn inside<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
        in_namespace(&self.name, act)
    }

    /// Moves this thread, and those that it starts, into it.
    ///
    /// # Errors
    /// [`NamespaceError`] if it cannot be entered.
    pub fn enter(&self) -> Result<Stay, NamespaceError> {
        let enter = || {
            let origin = File::open("/proc/thread-self/ns/net")?;
            move_into(&path_of(&self.name))?;
            Ok(Stay { origin, _thread: PhantomData })
        };
        enter().map_err(|source| not_entered(&self.name, source))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // One that cannot be removed now is removed by the next process that creates one.
        let _ = run(&format!("ip netns delete {}", self.name));
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        // Failing leaves this thread in the namespace, which matters only to a program that continues.
        let _ = move_into_link_name_space(self.origin.as_fd(), Some(LinkNameSpaceType::Network));
    }
}

/// Runs `act` on a thread of its own in a network namespace: one that `ip netns` names, or a path
/// such as `/proc/7/ns/net`.
///
/// Descriptors that it opens belong to that namespace, and can be used from anywhere.
///
/// # Errors
/// [`NamespaceError`] if it cannot be entered.
///
/// # Panics
/// If `act` panics.
pub fn in_namespace<T: Send>(name: &str, act: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
    let enter = || move_into(&path_of(name)).map(|()| act());
    let entered = std::thread::scope(|scope| scope.spawn(enter).join());
    entered
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        .map_err(|source| not_entered(name, source))
}

fn path_of(name: &str) -> PathBuf {
    if name.contains('/') { PathBuf::from(name) } else { Path::new(NAMED).join(name) }
}

/// Moves this thread into a namespace.
fn move_into(path: &Path) -> io::Result<()> {
    let namespace = File::open(path)?;
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

fn not_entered(name: &str, source: io::Error) -> NamespaceError {
    let name = name.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => NamespaceError::NotFound { name },
        io::ErrorKind::PermissionDenied => NamespaceError::NotPermitted { name },
        _ => NamespaceError::System { name, source },
    }
}

/// Runs a command of words separated by blanks, and returns its output.
fn run(command: &str) -> Result<String, NamespaceError> {
    let mut words = command.split(' ');
    let program = words.next().unwrap_or_default();
    let output = Command::new(program).args(words).output();
    let output =
        output.map_err(|source| NamespaceError::NoCommand { program: program.to_owned(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let is_forbidden = ["not permitted", "Permission denied"].iter().any(|words| said.contains(words));
    Err(if is_forbidden {
        NamespaceError::NotCreatable(said)
    } else {
        NamespaceError::Failed { command: command.to_owned(), said }
    })
}

/// Removes the namespaces of processes that no longer run.
fn remove_leftovers() {
    let entries = fs::read_dir(NAMED).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_leftover(name, start_of)).for_each(|name| drop(Namespace { name }));
}

/// Returns whether a namespace is of a process that is gone; `start_of` returns the start time of a running process.
fn is_leftover(name: &str, start_of: impl Fn(&str) -> Option<String>) -> bool {
    let words: Vec<&str> = name.strip_prefix(PREFIX).into_iter().flat_map(|rest| rest.split('-')).collect();
    let [_, .., process, start, _] = words[..] else { return false };
    let is_number = |word: &str| word.parse::<u64>().is_ok();
    is_number(process) && is_number(start) && start_of(process).is_none_or(|began| began != start)
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
    fn a_namespace_that_is_not_there_is_told_with_the_way_to_make_it() {
        let said = in_namespace("no-such-namespace", || ()).unwrap_err().to_string();
        assert!(said.contains("ip netns add no-such-namespace"), "{said}");
        let error = in_namespace("/dev/null", || ()).unwrap_err();
        assert!(
            matches!(error, NamespaceError::System { .. } | NamespaceError::NotPermitted { .. }),
            "{error}"
        );
    }

    #[test]
    fn only_namespaces_of_processes_that_are_gone_are_left_over() {
        let running = |process: &str| (process == "7").then(|| "100".to_owned());
        assert!(!is_leftover("tallycast-bench-server-7-100-0", running));
        assert!(is_leftover("tallycast-bench-server-7-99-0", running), "another process has its number now");
        assert!(is_leftover("tallycast-bench-server-8-100-12", running));
        for foreign in ["another-7-99-0", "tallycast-7-99", "tallycast-", "tallycast-my-own-two-hosts"] {
            assert!(!is_leftover(foreign, running), "{foreign}");
        }
        assert!(start_of("self").is_some_and(|start| start.parse::<u64>().is_ok()));
    }

    #[test]
    fn namespaces_are_joined_entered_left_and_removed() {
        let addresses = [Ipv4Addr::new(10, 84, 7, 1), Ipv4Addr::new(10, 84, 7, 2)];
        let ends = Namespace::pair(["near", "far"], "cable0", addresses, Some(9_000));
        let Some([near, far]) = support::or_skip(ends) else { return };
        let interfaces = || crate::links().unwrap().into_iter().map(|link| link.name).collect::<Vec<_>>();
        let outside = interfaces();
        let stay = near.enter().unwrap();
        // Modules such as `ipip` give every namespace a device of theirs.
        let inside = interfaces();
        assert!(["lo", "cable0"].iter().all(|name| inside.iter().any(|it| it == name)), "{inside:?}");
        let server = std::net::TcpListener::bind((addresses[0], 0)).unwrap();
        let port = server.local_addr().unwrap().port();
        far.inside(|| std::net::TcpStream::connect((addresses[0], port))).unwrap().unwrap();
        drop(stay);
        assert_eq!(interfaces(), outside);
        assert!(near.run("ip link show no-such0").unwrap_err().to_string().contains("no-such0"));
        let name = near.name().to_owned();
        drop(near);
        assert!(matches!(in_namespace(&name, || ()), Err(NamespaceError::NotFound { .. })));
    }

    #[test]
    fn ones_own_namespace_is_one_too() {
        let outcome = in_namespace("/proc/self/ns/net", || crate::links().unwrap().len());
        match outcome {
            Ok(links) => assert_eq!(links, crate::links().unwrap().len()),
            Err(NamespaceError::NotPermitted { .. }) => println!("SKIPPED: only root may enter a namespace"),
            Err(error) => panic!("{error}"),
        }
    }
}
