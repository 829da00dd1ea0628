//! Which streams are announced, and which of them are wanted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use sample::{StreamName, StreamPattern};
use units::{Instant, StreamId};
use wire::Announcement;

/// An announcement that was not repeated for so many of its periods is out of date.
const SILENT_PERIODS: u32 = 5;
/// The longest period that is believed.
const MAX_PERIOD: Duration = Duration::from_secs(60);
/// The most announcements kept: a bus has some hundreds.
const MAX_ANNOUNCED: usize = 16_384;

/// A stream that was announced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announced {
    /// What was announced.
    pub announcement: Announcement,
    /// By which host.
    pub from: SocketAddr,
    /// When it was heard last.
    pub heard: Instant,
}

/// A wish for streams.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// The patterns, each as often as it was asked for.
    patterns: Vec<StreamPattern>,
}

/// Announced streams and wishes.
pub(super) struct Directory {
    announced: BTreeMap<StreamId, Announced>,
    selection: Selection,
}

impl Directory {
    pub(super) const fn new() -> Self {
        Self { announced: BTreeMap::new(), selection: Selection { patterns: Vec::new() } }
    }

    /// Takes an announcement in; tells whether the stream is wanted.
    pub(super) fn heard(&mut self, now: Instant, announcement: Announcement, from: SocketAddr) -> bool {
        let wanted = self.selection.wants(&announcement.name);
        let known = self.announced.get(&announcement.stream);
        // Of two lives the later one counts, as for the data.
        if known.is_some_and(|known| known.announcement.epoch > announcement.epoch && !is_old(known, now)) {
            return false;
        }
        if known.is_some() || self.announced.len() < MAX_ANNOUNCED {
            self.announced.insert(announcement.stream, Announced { announcement, from, heard: now });
        }
        wanted
    }

    pub(super) fn select(&mut self, pattern: StreamPattern) {
        self.selection.patterns.push(pattern);
    }

    /// Takes back one wish.
    pub(super) fn deselect(&mut self, pattern: &StreamPattern) {
        if let Some(index) = self.selection.patterns.iter().position(|known| known == pattern) {
            self.selection.patterns.remove(index);
        }
    }

    pub(super) fn wants(&self, name: &StreamName) -> bool {
        self.selection.wants(name)
    }

    /// Returns the announced streams that are wanted.
    pub(super) fn wanted(&self) -> impl Iterator<Item = &Announced> {
        self.announced.values().filter(|announced| self.wants(&announced.announcement.name))
    }

    /// Returns the announcements that are not out of date.
    pub(super) fn current(&mut self, now: Instant) -> Vec<Announced> {
        self.announced.retain(|_, announced| !is_old(announced, now));
        self.announced.values().cloned().collect()
    }
}

impl Selection {
    fn wants(&self, name: &StreamName) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(name))
    }
}

fn is_old(announced: &Announced, now: Instant) -> bool {
    now.since(announced.heard) > announced.announcement.period.min(MAX_PERIOD) * SILENT_PERIODS
}
