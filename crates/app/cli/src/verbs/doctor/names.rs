//! Names of streams: datagrams carry only numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tallycast::{Node, StreamName, StreamPattern};

use crate::settings::Sources;

/// Stream names, from announcements on the bus and from this host's memory.
pub(super) struct Names<'s> {
    sources: &'s Sources,
    /// Patterns of the requested streams; empty for all.
    patterns: Vec<StreamPattern>,
    /// Listener for announcements, opened with the first requested name; `None` also if the bus cannot be joined.
    node: Option<Node>,
    was_opened: bool,
    known: BTreeMap<u64, StreamName>,
}

/// As often as publishers announce themselves, and a little more.
const FIRST_PATIENCE: Duration = Duration::from_millis(1_200);

impl<'s> Names<'s> {
    pub(super) const fn new(sources: &'s Sources, patterns: Vec<StreamPattern>) -> Self {
        Self { sources, patterns, node: None, was_opened: false, known: BTreeMap::new() }
    }

    /// Returns whether only some streams are requested.
    pub(super) const fn are_wanted(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Listens for one announcement interval, if names are requested.
    pub(super) fn learn_first(&mut self) -> anyhow::Result<()> {
        if self.are_wanted() {
            self.was_opened = true;
            let node = self.sources.load()?.node()?;
            node.streams(FIRST_PATIENCE)?;
            self.node = Some(node);
            self.learn();
        }
        Ok(())
    }

    /// Reads the announcements received meanwhile.
    pub(super) fn learn(&mut self) {
        if !std::mem::replace(&mut self.was_opened, true) {
            // Without names there are numbers: no reason to stop.
            self.node = self.sources.load().and_then(|settings| settings.node()).ok();
        }
        let Some(node) = &self.node else { return };
        let announced = node.streams(Duration::ZERO).unwrap_or_default().into_iter();
        self.known.extend(announced.map(|it| (it.announcement.stream.0, it.announcement.name)));
        let on_host = node.streams_on_host().into_iter();
        self.known.extend(on_host.map(|it| (it.stream.0, it.description.name.clone())));
    }

    pub(super) fn of(&self, stream: u64) -> Option<&str> {
        self.known.get(&stream).map(StreamName::as_str)
    }

    /// Returns the requested streams that are known so far.
    pub(super) fn wanted(&self) -> BTreeSet<u64> {
        let matches = |name: &StreamName| self.patterns.iter().any(|pattern| pattern.matches(name));
        self.known.iter().filter(|(_, name)| matches(name)).map(|(id, _)| *id).collect()
    }
}
