//! Which streams are announced, and which of them are wanted.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use cast::receive::WaitsSince;
use sample::{Selection, StreamName, StreamPattern};
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

/// Announced streams and wishes.
pub(super) struct Directory {
    announced: BTreeMap<StreamId, Announced>,
    selection: Selection,
    /// Since when each pattern of the selection is waited for.
    wishes: Vec<(StreamPattern, WaitsSince)>,
}

impl Directory {
    pub(super) const fn new() -> Self {
        Self { announced: BTreeMap::new(), selection: Selection::none(), wishes: Vec::new() }
    }

    /// Takes an announcement in; tells whether the stream is wanted.
    pub(super) fn heard(&mut self, now: Instant, announcement: Announcement, from: SocketAddr) -> bool {
        let wanted = self.selection.wants(&announcement.name);
        let known = self.announced.get(&announcement.stream);
        // Of two lives the later one counts, as for the data.
        if known.is_some_and(|known| known.announcement.epoch > announcement.epoch && !is_old(known, now)) {
            return false;
        }
        let known = known.is_some();
        if !known && self.announced.len() == MAX_ANNOUNCED {
            self.forget_old(now);
        }
        if known || self.announced.len() < MAX_ANNOUNCED {
            self.announced.insert(announcement.stream, Announced { announcement, from, heard: now });
        }
        wanted
    }

    pub(super) fn select(&mut self, pattern: StreamPattern, since: WaitsSince) {
        self.wishes.push((pattern.clone(), since));
        self.selection.add(pattern);
    }

    /// Takes back one wish.
    pub(super) fn deselect(&mut self, pattern: &StreamPattern) {
        // Of several who wish the same the last is as good as any: a wish that stays keeps the earliest time.
        if let Some(index) = self.wishes.iter().rposition(|(known, _)| known == pattern) {
            self.wishes.remove(index);
        }
        self.selection.remove(pattern);
    }

    pub(super) const fn selection(&self) -> &Selection {
        &self.selection
    }

    pub(super) fn wants(&self, name: &StreamName) -> bool {
        self.selection.wants(name)
    }

    /// Returns since when a stream has been waited for.
    pub(super) fn waits_since(&self, name: &StreamName) -> Option<WaitsSince> {
        let matching = self.wishes.iter().filter(|(pattern, _)| pattern.matches(name));
        matching.map(|(_, since)| *since).min_by_key(|it| it.since)
    }

    pub(super) fn is_announced(&self, stream: StreamId) -> bool {
        self.announced.contains_key(&stream)
    }

    /// Returns the announced streams that are wanted.
    pub(super) fn wanted(&self) -> impl Iterator<Item = &Announced> {
        self.announced.values().filter(|announced| self.wants(&announced.announcement.name))
    }

    /// Forgets the announcements that are out of date.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.announced.retain(|_, announced| !is_old(announced, now));
    }

    /// Returns the announcements that are not out of date.
    pub(super) fn current(&mut self, now: Instant) -> Vec<Announced> {
        self.forget_old(now);
        self.announced.values().cloned().collect()
    }
}

fn is_old(announced: &Announced, now: Instant) -> bool {
    now.since(announced.heard) > announced.announcement.period.min(MAX_PERIOD) * SILENT_PERIODS
}
