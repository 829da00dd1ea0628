//! Keeping events while their commands have ended: for readers that come later.

use std::time::Duration;

use sample::Block;
use sys::clock;
use units::Instant;

use super::{Event, RunError, Runs, Speaker, events_in, stream_name};
use crate::node::Node;

/// Number of ended runs that are said to a reader that comes later; open ones are said always.
const ENDED_RUNS: usize = 16;
/// Interval at which a keeper looks for readers that came: their arrival wakes no publisher.
const LOOK: Duration = Duration::from_millis(250);
/// Interval at which open runs are said again: a reader may come in the moment in which another one leaves, and their
/// number is then the same. Commands listen for longer than that.
const AGAIN: Duration = Duration::from_secs(2);
/// The most events in memory, about 100 MB; an experiment has two for each run.
const MAX_EVENTS: u64 = 100_000;

/// What was heard of runs.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// The runs.
    pub runs: Runs,
    /// Number of samples that are no events.
    pub malformed: u64,
    /// Number of events left out because 100,000 are known already.
    pub left_out: u64,
}

/// Keeps the events that a process hears, and says them again to each reader that comes later.
///
/// It has no thread: its process passes on the blocks that it reads, and calls [`tend`](Self::tend) several times a second.
/// Its stream begins with the first event, so that a bus without runs has no stream of them.
pub struct Keeper {
    node: Node,
    name: String,
    heard: Heard,
    speaker: Option<Speaker>,
    readers: usize,
    next_look: Instant,
    next_again: Instant,
}

impl Heard {
    /// Takes the events of a block; returns those that are new.
    pub fn take(&mut self, block: &Block) -> Vec<Event> {
        let mut new = Vec::new();
        for event in events_in(block) {
            match event {
                Ok(_) if self.runs.len() >= MAX_EVENTS => self.left_out += 1,
                Ok(event) if self.runs.take(event.clone()) => new.push(event),
                Ok(_) => {}
                Err(error) => {
                    self.malformed += 1;
                    tracing::debug!("stream {}: {error}", block.stream);
                }
            }
        }
        new
    }
}

impl Keeper {
    /// Returns a keeper that knows no run yet; `role` is what its process does, a word in the name of its stream.
    #[must_use]
    pub fn new(node: &Node, role: &str) -> Self {
        let (next_look, next_again) = (clock::monotonic(), clock::monotonic() + AGAIN);
        let name = format!("{}/{role}-{}", stream_name(node), std::process::id());
        Self {
            node: node.clone(),
            name,
            heard: Heard::default(),
            speaker: None,
            readers: 0,
            next_look,
            next_again,
        }
    }

    /// Takes the events of a block, and says those that are new; returns whether there were any.
    ///
    /// # Errors
    /// [`RunError`] if the keeper's stream cannot be opened; the events are known nevertheless.
    pub fn take(&mut self, block: &Block) -> Result<bool, RunError> {
        let new = self.heard.take(block);
        self.say(&new)?;
        Ok(!new.is_empty())
    }

    /// Says the open runs and the newest others if a reader came, and the open ones every two seconds.
    ///
    /// # Errors
    /// [`RunError`] if the keeper's stream does not take them.
    pub fn tend(&mut self) -> Result<(), RunError> {
        let now = clock::monotonic();
        let Some(speaker) = &self.speaker else { return Ok(()) };
        if now < self.next_look {
            return Ok(());
        }
        self.next_look = now + LOOK;
        let readers = speaker.publisher.reader_count();
        let has_more = readers > self.readers;
        self.readers = readers;
        let is_again = readers > 0 && now >= self.next_again;
        if !has_more && !is_again {
            return Ok(());
        }
        self.next_again = now + AGAIN;
        self.say(&self.heard.runs.to_repeat(if has_more { ENDED_RUNS } else { 0 }))
    }

    /// Returns what was heard.
    #[must_use]
    pub const fn heard(&self) -> &Heard {
        &self.heard
    }

    fn say(&mut self, events: &[Event]) -> Result<(), RunError> {
        if events.is_empty() {
            return Ok(());
        }
        let speaker = match &mut self.speaker {
            Some(speaker) => speaker,
            empty => empty.insert(Speaker::open(&self.node, &self.name)?),
        };
        events.iter().try_for_each(|event| speaker.say(&event.to_bytes()?))
    }
}
