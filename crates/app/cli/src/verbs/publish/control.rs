//! The switch for planted loss at run time: a small file with a probability, written by the monitor server.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tallycast::Publisher;

use crate::quantity::Probability;

/// Interval at which the file is read: soon enough for a user who pressed a switch.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Follows the file.
pub(crate) struct InjectControl {
    path: PathBuf,
    said: Option<Probability>,
    next_look: Instant,
}

impl InjectControl {
    /// Begins to follow a file, which need not be there yet.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), said: None, next_look: Instant::now() }
    }

    /// Returns the time until the file is due to be read.
    pub(crate) fn due_in(&self) -> Duration {
        self.next_look.saturating_duration_since(Instant::now())
    }

    /// Reads the file if it is due, and applies changes to the publisher.
    pub(crate) fn follow(&mut self, publisher: &mut Publisher) {
        if Instant::now() < self.next_look {
            return;
        }
        self.next_look = Instant::now() + POLL_INTERVAL;
        // A missing or half-written file is ignored.
        let said = std::fs::read_to_string(&self.path).ok().and_then(|text| text.trim().parse().ok());
        if said.is_some() && said != self.said {
            self.said = said;
            publisher.set_injection(said.unwrap_or_default().0);
        }
    }
}
