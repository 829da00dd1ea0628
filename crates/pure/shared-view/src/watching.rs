//! Followers of documents: who they are, what they may do, and what they were told.

use std::fmt;
use std::time::Duration;

use units::Instant;

use crate::ViewName;

/// Least time between two lists of watchers that a follower is told: many who come at one time are told at once.
pub const PRESENCE_INTERVAL: Duration = Duration::from_millis(250);

/// A follower's number, which no other connection of this server has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WatcherId(pub u64);

impl fmt::Display for WatcherId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "w{}", self.0)
    }
}

/// Right of a follower to edit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    /// It may edit and present.
    Allowed,
    /// It may not, because of the rule that the text names.
    Denied(String),
}

/// A request to follow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Following {
    /// Number of the connection.
    pub watcher: WatcherId,
    /// The user's name, if it has signed in.
    pub user: Option<String>,
    /// Whether its visitor may edit; one that came by a read-only link may not in any case.
    pub write: Write,
}

/// One follower.
#[derive(Debug)]
pub(crate) struct Watcher {
    pub(crate) view: ViewName,
    pub(crate) user: Option<String>,
    pub(crate) write: Write,
    pub(crate) is_read_only: bool,
    pub(crate) is_gone: bool,
    pub(crate) told: Told,
}

/// What a follower was told so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    /// Revision of the document.
    pub(crate) revision: Option<u64>,
    /// State of the list of watchers.
    pub(crate) presence: Option<u64>,
    /// State of the presentation in the last list.
    pub(crate) presentation: u64,
    /// Time of the last list.
    pub(crate) presence_at: Option<Instant>,
    /// Number of the last notice.
    pub(crate) notice: u64,
}

impl Watcher {
    /// Returns the name by which others know it.
    pub(crate) fn name(&self, id: WatcherId) -> String {
        self.user.clone().unwrap_or_else(|| id.to_string())
    }
}
