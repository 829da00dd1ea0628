//! Requests of users to the intake: commands, and the patterns that they joined.

use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sample::StreamPattern;

use graph::Change;

use crate::kept_graph::Answer;

/// Request to the intake.
pub(crate) enum Command {
    Join(StreamPattern),
    Leave(StreamPattern),
    Graph(GraphRequest, Answer),
    /// Ends after every stream and the nodes that read it have ended, at the latest after this time.
    Finish(Duration),
}

/// Request to change the graph.
pub(crate) struct GraphRequest {
    pub(crate) change: Change,
    /// Revision that the change is of; any, if none is named.
    pub(crate) of: Option<u64>,
    /// Whether the change is checked alone.
    pub(crate) only_check: bool,
}

/// Channel of the commands to the intake, and the joined patterns.
pub(crate) struct Requests {
    commands: Sender<Command>,
    patterns: Mutex<Vec<StreamPattern>>,
}

impl Requests {
    pub(crate) const fn new(commands: Sender<Command>, patterns: Vec<StreamPattern>) -> Self {
        Self { commands, patterns: Mutex::new(patterns) }
    }

    /// Sends a command to the intake; returns `false` if that has ended.
    pub(crate) fn send(&self, command: Command) -> bool {
        self.commands.send(command).is_ok()
    }

    /// Returns the patterns that users joined.
    pub(crate) fn patterns(&self) -> Vec<StreamPattern> {
        self.patterns.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Joins a pattern unless it is joined already.
    pub(crate) fn join(&self, pattern: StreamPattern) {
        let mut patterns = self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        if !patterns.contains(&pattern) {
            self.send(Command::Join(pattern.clone()));
            patterns.push(pattern);
        }
    }

    /// Leaves a pattern; returns `false` if it was not joined.
    pub(crate) fn leave(&self, pattern: &StreamPattern) -> bool {
        let mut patterns = self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        let place = patterns.iter().position(|known| known == pattern);
        if let Some(place) = place {
            self.send(Command::Leave(patterns.remove(place)));
        }
        place.is_some()
    }
}
