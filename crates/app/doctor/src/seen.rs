//! Losses between two snapshots, as a watcher or a replay reports them.

use std::io;
use std::time::Duration;

use diagnose::Losses;

/// Losses between two snapshots.
#[derive(Debug)]
pub struct Seen {
    /// Losses, of sockets only those that are watched.
    pub losses: Losses,
    /// Time since the snapshot before.
    pub time: Duration,
    /// Error that ended the event file, if there was one.
    pub recording_failed: Option<io::Error>,
}
