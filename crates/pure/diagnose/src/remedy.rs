//! Remedies, and how they are undone.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize, Serializer};

use crate::fix::tunables;

/// Remedy against a loss.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remedy {
    /// Description of the change, as text.
    pub what: String,
    /// Change of this host that this program can make; `None` where a person or another program has to do it.
    pub change: Option<Change>,
    /// Commands by which a person makes and undoes it.
    pub by_command: Option<ByCommand>,
}

/// Commands for changes that this program does not make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ByCommand {
    /// Command that makes the change.
    pub command: String,
    /// Command that restores the current state.
    pub undo: String,
}

/// Change of this host that can be undone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Change {
    /// A number of `sysctl`.
    Sysctl {
        /// Dotted name.
        name: String,
        /// New value.
        value: u64,
        /// Current value; `None` where it cannot be read, and then it cannot be undone.
        before: Option<u64>,
    },
    /// Several numbers of `sysctl` that are set together.
    SysctlNumbers {
        /// Dotted name of the setting.
        name: String,
        /// New values.
        values: Vec<u64>,
        /// Current values.
        before: Vec<u64>,
    },
    /// Receive buffer of an open socket of a running program.
    ReceiveBuffer {
        /// Cookie of the socket.
        cookie: u64,
        /// Address that it is bound to.
        local: SocketAddr,
        /// Process that has it open.
        pid: u32,
        /// New size, as requested: the kernel doubles it.
        asked_bytes: u64,
        /// Current size, as requested.
        before_bytes: u64,
    },
    /// Limit of a queue discipline.
    QueueLimit {
        /// Device that it belongs to.
        device: String,
        /// `pfifo`, `tbf`, ….
        #[serde(rename = "discipline")]
        kind: String,
        /// Number of the discipline.
        handle: u32,
        /// Number of its parent: the root, or the class of another one.
        parent: u32,
        /// New limit, in packets or bytes depending on its kind.
        limit: u32,
        /// Current limit.
        before: u32,
    },
    /// Transmit queue of a device in packets, and the ring of a TUN device (`txqueuelen`).
    TransmitQueue {
        /// Name of the device.
        device: String,
        /// New length in packets.
        packets: u32,
        /// Current length in packets.
        before: u32,
    },
    /// Nice value of a process's threads: they get a processor before ordinary threads, and after those of real time.
    Niceness {
        /// Pid of the process.
        pid: u32,
        /// Start time in the kernel's ticks: another process may have its pid by now.
        started: u64,
        /// New nice value.
        nice: i32,
        /// Current nice values of its threads; more urgent ones are not changed.
        before: Vec<ThreadNice>,
    },
    /// Real-time priority of a process: it runs before all others without one.
    Priority {
        /// Pid of the process.
        pid: u32,
    },
}

/// Nice value of a thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
pub struct ThreadNice {
    /// Number of the thread.
    pub tid: u32,
    /// Nice value, from -20, the most urgent, to 19.
    pub nice: i32,
}

/// An array in the order of the fields, which is also how it is read.
impl Serialize for ThreadNice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.tid, self.nice).serialize(serializer)
    }
}

impl Change {
    /// Returns the command that makes the change.
    #[must_use]
    pub fn command(&self) -> String {
        match self {
            Self::Sysctl { name, value, .. } => format!("sysctl -w {name}={value}"),
            Self::SysctlNumbers { name, values, .. } => numbers_command(name, values),
            Self::ReceiveBuffer { local, .. } => format!("tallycast doctor fix --port {}", local.port()),
            Self::QueueLimit { kind, .. } if kind == TOKEN_BUCKET => FIX.to_owned(),
            Self::QueueLimit { device, kind, handle, parent, limit, .. } => {
                format!("{} {limit}", queue_command(device, kind, *handle, *parent))
            }
            Self::TransmitQueue { device, packets, .. } => {
                format!("ip link set dev {device} txqueuelen {packets}")
            }
            Self::Niceness { pid, .. } => format!("tallycast doctor fix --pid {pid}"),
            Self::Priority { pid } => format!("chrt --all-tasks --fifo --pid 10 {pid}"),
        }
    }

    /// Returns the subject of the change, independent of its value.
    #[must_use]
    pub fn subject(&self) -> Subject {
        match self {
            Self::Sysctl { name, .. } | Self::SysctlNumbers { name, .. } => Subject::Sysctl(name.clone()),
            Self::ReceiveBuffer { cookie, .. } => Subject::ReceiveBuffer(*cookie),
            Self::QueueLimit { device, handle, .. } => Subject::QueueLimit(device.clone(), *handle),
            Self::TransmitQueue { device, .. } => Subject::TransmitQueue(device.clone()),
            Self::Niceness { pid, .. } => Subject::Niceness(*pid),
            Self::Priority { pid } => Subject::Priority(*pid),
        }
    }

    /// Returns whether a plan may make such a change: checked before a change from a file is undone.
    #[must_use]
    pub fn is_of_plans(&self) -> bool {
        match self {
            Self::Sysctl { name, .. } => tunables::is_number_of_plans(name),
            Self::SysctlNumbers { name, .. } => tunables::are_numbers_of_plans(name),
            // These apply to a socket, a queue, a device or a process, and to no setting.
            Self::ReceiveBuffer { .. }
            | Self::QueueLimit { .. }
            | Self::TransmitQueue { .. }
            | Self::Niceness { .. }
            | Self::Priority { .. } => true,
        }
    }

    /// Returns the command that restores the current state; `None` where that could not be read.
    #[must_use]
    pub fn undo(&self) -> Option<String> {
        match self {
            Self::Sysctl { name, before, .. } => before.map(|before| format!("sysctl -w {name}={before}")),
            Self::SysctlNumbers { name, before, .. } => Some(numbers_command(name, before)),
            Self::ReceiveBuffer { .. } | Self::Niceness { .. } => Some(UNDO.to_owned()),
            Self::QueueLimit { kind, .. } if kind == TOKEN_BUCKET => Some(UNDO.to_owned()),
            Self::QueueLimit { device, kind, handle, parent, before, .. } => {
                Some(format!("{} {before}", queue_command(device, kind, *handle, *parent)))
            }
            Self::TransmitQueue { device, before, .. } => {
                Some(format!("ip link set dev {device} txqueuelen {before}"))
            }
            Self::Priority { pid } => Some(format!("chrt --all-tasks --other --pid 0 {pid}")),
        }
    }
}

/// The old value and the new one, for a person.
impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sysctl { name, value, before: Some(before) } => {
                write!(out, "{name} from {before} to {value}")
            }
            Self::Sysctl { name, value, before: None } => write!(out, "{name} from ? to {value}"),
            Self::SysctlNumbers { name, values, before } => {
                write!(out, "{name} from {} to {}", numbers_text(before), numbers_text(values))
            }
            Self::ReceiveBuffer { local, pid, asked_bytes, before_bytes, .. } => write!(
                out,
                "the receive buffer of socket {local} of process {pid} from {before_bytes} to {asked_bytes} bytes"
            ),
            Self::QueueLimit { device, kind, handle, limit, before, .. } => {
                let unit = if matches!(&**kind, "tbf" | "bfifo") { "bytes" } else { "packets" };
                let handle = major(*handle);
                write!(out, "the limit of {kind} {handle}: before {device} from {before} to {limit} {unit}")
            }
            Self::TransmitQueue { device, packets, before } => {
                write!(out, "the queue of {device} (txqueuelen) from {before} to {packets} packets")
            }
            Self::Niceness { pid, nice, before, .. } => {
                let values: BTreeSet<i32> = before.iter().map(|it| it.nice).filter(|it| it > nice).collect();
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                write!(
                    out,
                    "the nice value of the threads of process {pid} from {} to {nice}",
                    values.join(", ")
                )
            }
            Self::Priority { .. } => out.write_str(&self.command()),
        }
    }
}

fn numbers_command(name: &str, numbers: &[u64]) -> String {
    format!("sysctl -w {name}=\"{}\"", numbers_text(numbers))
}

/// Returns numbers that are set together in the form of `sysctl`.
fn numbers_text(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

/// Kind of discipline for which `tc` needs rate and burst, too, which this change does not have.
const TOKEN_BUCKET: &str = "tbf";

fn queue_command(device: &str, kind: &str, handle: u32, parent: u32) -> String {
    const ROOT: u32 = u32::MAX;
    let parent = if parent == ROOT { "root".to_owned() } else { format!("parent {}", number(parent)) };
    format!("tc qdisc change dev {device} {parent} handle {}: {kind} limit", major(handle))
}

/// Command for changes that no other program makes and undoes.
const FIX: &str = "tallycast doctor fix";
const UNDO: &str = "tallycast doctor undo";

/// Subject of a change.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Subject {
    /// A number of `sysctl`, by its name.
    Sysctl(String),
    /// The receive buffer of a socket, by its cookie.
    ReceiveBuffer(u64),
    /// A queue discipline before a device, by its number.
    QueueLimit(String, u32),
    /// The queue of a device.
    TransmitQueue(String),
    /// The nice values of a process.
    Niceness(u32),
    /// The real-time priority of a process.
    Priority(u32),
}

/// Returns the number of a queue discipline without that of a class, as `tc` writes it.
fn major(handle: u32) -> String {
    format!("{:x}", handle >> 16)
}

/// Returns the number of a class as `tc` writes it.
fn number(class: u32) -> String {
    format!("{}:{:x}", major(class), class & 0xffff)
}

impl Remedy {
    /// Returns the command that applies it, if there is one.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        let by_hand = || self.by_command.as_ref().map(|it| it.command.clone());
        self.change.as_ref().map(Change::command).or_else(by_hand)
    }

    /// Returns the command that undoes it, if there is one.
    #[must_use]
    pub fn undo(&self) -> Option<String> {
        let by_hand = self.by_command.as_ref().map(|it| it.undo.clone());
        self.change.as_ref().map_or(by_hand, Change::undo)
    }

    /// Makes a remedy without a command.
    pub(crate) fn by_hand(what: &str) -> Self {
        Self { what: what.to_owned(), change: None, by_command: None }
    }

    /// Makes a remedy that a person applies by a command, and undoes by another.
    pub(crate) fn by_command(what: &str, command: impl Into<String>, undo: impl Into<String>) -> Self {
        let by_command = Some(ByCommand { command: command.into(), undo: undo.into() });
        Self { by_command, ..Self::by_hand(what) }
    }

    /// Makes a remedy that this program can apply.
    pub(crate) fn by_change(what: &str, change: Change) -> Self {
        Self { change: Some(change), ..Self::by_hand(what) }
    }

    /// Makes a remedy that sets a number of `sysctl`.
    pub(crate) fn by_sysctl(what: &str, name: &str, value: u64, before: Option<u64>) -> Self {
        Self::by_change(what, Change::Sysctl { name: name.to_owned(), value, before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_changed_by_commands_that_take_them_back_and_token_buckets_by_the_doctor() {
        let queue = |kind: &str, parent| Change::QueueLimit {
            device: "eth0".to_owned(),
            kind: kind.to_owned(),
            handle: 0x8002_0000,
            parent,
            limit: 64,
            before: 10,
        };
        let inner = queue("pfifo", 0x1_000a);
        assert_eq!(inner.command(), "tc qdisc change dev eth0 parent 1:a handle 8002: pfifo limit 64");
        let undo = inner.undo().unwrap();
        assert_eq!(undo, "tc qdisc change dev eth0 parent 1:a handle 8002: pfifo limit 10");
        let root = queue("bfifo", u32::MAX).command();
        assert_eq!(root, "tc qdisc change dev eth0 root handle 8002: bfifo limit 64");
        let bucket = queue("tbf", u32::MAX);
        assert_eq!(bucket.command(), "tallycast doctor fix");
        assert_eq!(bucket.undo().as_deref(), Some("tallycast doctor undo"));
        let ring = Change::TransmitQueue { device: "tun0".to_owned(), packets: 512, before: 100 };
        assert_eq!(ring.command(), "ip link set dev tun0 txqueuelen 512");
        assert_eq!(ring.undo().as_deref(), Some("ip link set dev tun0 txqueuelen 100"));
    }

    #[test]
    fn a_change_is_described_by_its_old_value_and_its_new_one() {
        let name = || "net.ipv4.udp_mem".to_owned();
        let nice = |tid, nice| ThreadNice { tid, nice };
        let told = [
            Change::Sysctl { name: name(), value: 2, before: Some(1) },
            Change::Sysctl { name: name(), value: 2, before: None },
            Change::SysctlNumbers { name: name(), values: vec![2, 4], before: vec![1, 2] },
            Change::Niceness {
                pid: 3,
                started: 0,
                nice: -10,
                before: vec![nice(3, 0), nice(4, -20), nice(5, 0)],
            },
            Change::Priority { pid: 3 },
        ];
        assert_eq!(
            told.map(|change| change.to_string()),
            [
                "net.ipv4.udp_mem from 1 to 2",
                "net.ipv4.udp_mem from ? to 2",
                "net.ipv4.udp_mem from 1 2 to 2 4",
                "the nice value of the threads of process 3 from 0 to -10",
                "chrt --all-tasks --fifo --pid 10 3",
            ]
        );
    }

    #[test]
    fn numbers_that_are_set_together_are_taken_back_together() {
        let (values, before) = (vec![20, 40, 60], vec![10, 20, 30]);
        let memory = Change::SysctlNumbers { name: "net.ipv4.udp_mem".to_owned(), values, before };
        assert_eq!(memory.command(), "sysctl -w net.ipv4.udp_mem=\"20 40 60\"");
        assert_eq!(memory.undo().as_deref(), Some("sysctl -w net.ipv4.udp_mem=\"10 20 30\""));
    }

    #[test]
    fn a_change_is_of_the_same_subject_whatever_it_sets() {
        let ring = |packets| Change::TransmitQueue { device: "tun0".to_owned(), packets, before: 100 };
        assert_eq!(ring(200).subject(), ring(300).subject());
        assert_ne!(Change::Priority { pid: 7 }.subject(), ring(200).subject());
    }

    #[test]
    fn a_change_can_be_taken_back_if_it_is_known_what_was() {
        let sysctl = |before| Remedy::by_sysctl("", "net.core.netdev_max_backlog", 6_000, before);
        let remedy = sysctl(Some(3_000));
        assert_eq!(remedy.command().as_deref(), Some("sysctl -w net.core.netdev_max_backlog=6000"));
        assert_eq!(remedy.undo().as_deref(), Some("sysctl -w net.core.netdev_max_backlog=3000"));
        assert_eq!(sysctl(None).undo(), None);
        assert_eq!(Remedy::by_hand("do it").command(), None);
        let by_command =
            Remedy::by_command("a larger ring", "ethtool -G eth0 rx 512", "ethtool -G eth0 rx 256");
        assert_eq!(by_command.command().as_deref(), Some("ethtool -G eth0 rx 512"));
        assert_eq!(by_command.undo().as_deref(), Some("ethtool -G eth0 rx 256"));
    }
}
