//! The switch for planted loss at run time: a small file with a probability, written by the monitor server.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tallycast::Publisher;

use crate::quantity::Probability;

/// How often the file is looked at: soon enough for a person who pressed a switch.
const LOOK: Duration = Duration::from_millis(100);

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

    /// Looks, if it is time, and tells the publisher what changed.
    pub(crate) fn follow(&mut self, publisher: &mut Publisher) {
        if Instant::now() < self.next_look {
            return;
        }
        self.next_look = Instant::now() + LOOK;
        // A file that is absent or half written says nothing.
        let said = std::fs::read_to_string(&self.path).ok().and_then(|text| text.trim().parse().ok());
        if said.is_some() && said != self.said {
            self.said = said;
            publisher.set_injection(said.unwrap_or_default().0);
        }
    }
}
