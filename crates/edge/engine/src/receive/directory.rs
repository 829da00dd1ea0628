//! Which streams are announced, and which of them are wanted.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use cast::receive::WaitsSince;
use sample::{Selection, StreamName, StreamPattern};
use units::{Instant, StreamId};
use wire::Announcement;

/// An announcement that was not repeated for so many of its periods is out of date.
const SILENT_PERIODS: u32 = 5;
/// The longest period that is believed: publishers announce themselves every second.
const MAX_PERIOD: Duration = Duration::from_secs(10);
/// The most announcements kept: a bus has some hundreds.
const MAX_ANNOUNCED: usize = 16_384;
/// The most of one address: what one host makes up leaves room for the streams of the others.
const MAX_ANNOUNCED_PER_SOURCE: usize = MAX_ANNOUNCED / 4;

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
    /// How many of them each address announces.
    sources: BTreeMap<IpAddr, usize>,
    /// It was said that there are more than are kept.
    warned: bool,
    selection: Selection,
    /// Since when each pattern of the selection is waited for, if it is.
    wishes: Vec<(StreamPattern, Option<WaitsSince>)>,
}

impl Directory {
    pub(super) const fn new() -> Self {
        Self {
            announced: BTreeMap::new(),
            sources: BTreeMap::new(),
            warned: false,
            selection: Selection::none(),
            wishes: Vec::new(),
        }
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
        if !known && !self.has_room(from) {
            self.forget_old(now);
        }
        if !known && !self.has_room(from) {
            if !std::mem::replace(&mut self.warned, true) {
                tracing::warn!(
                    "more streams are announced than are kept; one of those left out is announced by {from}"
                );
            }
            return false;
        }
        let announced = Announced { announcement, from, heard: now };
        if let Some(before) = self.announced.insert(announced.announcement.stream, announced) {
            self.left(before.from);
        }
        *self.sources.entry(from.ip()).or_default() += 1;
        wanted
    }

    /// Tells whether one more stream of an address is kept.
    fn has_room(&self, from: SocketAddr) -> bool {
        let of_source = self.sources.get(&from.ip()).copied().unwrap_or(0);
        self.announced.len() < MAX_ANNOUNCED && of_source < MAX_ANNOUNCED_PER_SOURCE
    }

    /// Counts one stream of an address less.
    fn left(&mut self, from: SocketAddr) {
        if let Some(count) = self.sources.get_mut(&from.ip()) {
            *count -= 1;
            if *count == 0 {
                self.sources.remove(&from.ip());
            }
        }
    }

    pub(super) fn select(&mut self, pattern: StreamPattern, since: Option<WaitsSince>) {
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
        matching.filter_map(|(_, since)| *since).min_by_key(|it| it.since)
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
        let before = self.announced.len();
        self.announced.retain(|_, announced| !is_old(announced, now));
        if self.announced.len() == before {
            return;
        }
        self.sources.clear();
        for announced in self.announced.values() {
            *self.sources.entry(announced.from.ip()).or_default() += 1;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use sample::Dtype;
    use units::{Epoch, SampleRate};

    fn announcement(stream: u64) -> Announcement {
        Announcement {
            stream: StreamId(stream),
            epoch: Epoch { start_ns: 1, life: 1 },
            name: format!("lab/{stream}").parse().unwrap(),
            group: ([239, 84, 0, 1], 7_400).into(),
            report_port: 0,
            dtype: Dtype::F4,
            rate: SampleRate::hz(1).unwrap(),
            channels: 1,
            elements_per_sample: 1,
            station: String::new(),
            period: Duration::from_secs(60),
        }
    }

    #[test]
    fn what_one_address_makes_up_leaves_room_for_others_and_is_forgotten_in_less_than_a_minute() {
        let mut directory = Directory::new();
        let (forger, honest) = (([10, 0, 0, 66], 9).into(), ([10, 0, 0, 1], 9).into());
        for stream in 0..20_000 {
            directory.heard(Instant::ORIGIN, announcement(stream), forger);
        }
        directory.heard(Instant::ORIGIN, announcement(30_000), honest);
        assert_eq!((directory.announced.len(), directory.is_announced(StreamId(30_000))), (4_097, true));
        // Again and again is once.
        directory.heard(Instant::ORIGIN, announcement(7), forger);
        assert_eq!(directory.sources[&forger.ip()], 4_096);
        let later = Instant::ORIGIN + Duration::from_secs(51);
        directory.heard(later, announcement(30_000), honest);
        assert_eq!(directory.current(later).len(), 1, "a period of a minute is not believed");
        assert_eq!(directory.sources.len(), 1, "no memory is left behind");
    }
}
