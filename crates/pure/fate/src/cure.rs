//! What helps, and how it is taken back.

use std::net::SocketAddr;

/// What helps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cure {
    /// What changes, in words.
    pub what: String,
    /// The change of this host that this program can make; `None` where a person or another program has to do it.
    pub change: Option<Change>,
    /// The commands by which a person makes it and takes it back.
    pub by_command: Option<ByCommand>,
}

/// What a person types, for changes that this program does not make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ByCommand {
    /// What changes it.
    pub command: String,
    /// What restores what is now.
    pub undo: String,
}

/// A change of this host that can be taken back.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Change {
    /// A number of `sysctl`.
    Sysctl {
        /// Its dotted name.
        name: String,
        /// What it shall be.
        value: u64,
        /// What it is now; `None` where it cannot be read, and then it cannot be taken back.
        before: Option<u64>,
    },
    /// The receive buffer of a socket that a program has open, while it runs.
    ReceiveBuffer {
        /// The socket.
        cookie: u64,
        /// Where it is bound.
        local: SocketAddr,
        /// The process that has it open.
        pid: u32,
        /// What it shall hold, as asked for: the kernel doubles it.
        asked_bytes: u64,
        /// What it was given until now, as asked for.
        before_bytes: u64,
    },
    /// A process runs before all others that have no priority.
    Priority {
        /// The process.
        pid: u32,
    },
}

impl Change {
    /// Returns the command that does it.
    #[must_use]
    pub fn command(&self) -> String {
        match self {
            Self::Sysctl { name, value, .. } => format!("sysctl -w {name}={value}"),
            Self::ReceiveBuffer { local, .. } => format!("tallycast doctor fix --port {}", local.port()),
            Self::Priority { pid } => format!("chrt --all-tasks --fifo --pid 10 {pid}"),
        }
    }

    /// Returns the command that restores what is now; `None` where that could not be read.
    #[must_use]
    pub fn undo(&self) -> Option<String> {
        match self {
            Self::Sysctl { name, before, .. } => before.map(|before| format!("sysctl -w {name}={before}")),
            Self::ReceiveBuffer { .. } => Some("tallycast doctor undo".to_owned()),
            Self::Priority { pid } => Some(format!("chrt --all-tasks --other --pid 0 {pid}")),
        }
    }
}

impl Cure {
    /// Returns the command, if the cure is one.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        let by_hand = || self.by_command.as_ref().map(|it| it.command.clone());
        self.change.as_ref().map(Change::command).or_else(by_hand)
    }

    /// Returns the command that takes it back, if there is one.
    #[must_use]
    pub fn undo(&self) -> Option<String> {
        let by_hand = self.by_command.as_ref().map(|it| it.undo.clone());
        self.change.as_ref().map_or(by_hand, Change::undo)
    }

    /// A cure that is nobody's command.
    pub(crate) fn by_hand(what: &str) -> Self {
        Self { what: what.to_owned(), change: None, by_command: None }
    }

    /// A cure that a person makes by a command, and takes back by another.
    pub(crate) fn by_command(what: &str, command: impl Into<String>, undo: impl Into<String>) -> Self {
        let by_command = Some(ByCommand { command: command.into(), undo: undo.into() });
        Self { by_command, ..Self::by_hand(what) }
    }

    /// A cure that this program can make.
    pub(crate) fn by_change(what: &str, change: Change) -> Self {
        Self { change: Some(change), ..Self::by_hand(what) }
    }

    /// A cure that sets a number of `sysctl`.
    pub(crate) fn by_sysctl(what: &str, name: &str, value: u64, before: Option<u64>) -> Self {
        Self::by_change(what, Change::Sysctl { name: name.to_owned(), value, before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_can_be_taken_back_if_it_is_known_what_was() {
        let sysctl = |before| Cure::by_sysctl("", "net.core.netdev_max_backlog", 6_000, before);
        let cure = sysctl(Some(3_000));
        assert_eq!(cure.command().as_deref(), Some("sysctl -w net.core.netdev_max_backlog=6000"));
        assert_eq!(cure.undo().as_deref(), Some("sysctl -w net.core.netdev_max_backlog=3000"));
        assert_eq!(sysctl(None).undo(), None);
        assert_eq!(Cure::by_hand("do it").command(), None);
        let by_command =
            Cure::by_command("a larger ring", "ethtool -G eth0 rx 512", "ethtool -G eth0 rx 256");
        assert_eq!(by_command.command().as_deref(), Some("ethtool -G eth0 rx 512"));
        assert_eq!(by_command.undo().as_deref(), Some("ethtool -G eth0 rx 256"));
    }
}
