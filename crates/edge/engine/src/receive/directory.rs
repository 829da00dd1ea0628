//! Directory of the streams that are announced, and which of them are selected.
//!
//! An announcement proves nothing, so announcements of one stream by several addresses are kept
//! separately: a forged one, of however late an epoch, leads readers to one more group at most and
//! hides nothing.
//!
//! Streams announce themselves every second, so a repeated announcement must cost little however many streams and patterns
//! there are: names are matched when a stream or a pattern is new.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use cast::receive::{StatedDeadlines, WaitsSince};
use sample::{Selection, StreamName, StreamPattern};
use units::{Instant, StreamId};
use wire::Announcement;

/// Number of its periods after which an announcement that was not repeated is out of date.
const SILENT_PERIODS: u32 = 5;
/// Longest period that is accepted: publishers announce themselves every second.
const MAX_PERIOD: Duration = Duration::from_secs(10);
/// Maximum number of announcements kept: a bus has some hundreds.
const MAX_ANNOUNCED: usize = 16_384;
/// Maximum number of announcements of one address, so that one host leaves room for the streams of
/// the others.
const MAX_ANNOUNCED_PER_SOURCE: usize = MAX_ANNOUNCED / 4;

/// The lowest of all addresses.
const LOWEST: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// A stream that was announced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announced {
    /// The announcement.
    pub announcement: Announcement,
    /// Address of the announcing host.
    pub from: SocketAddr,
    /// Time of the last announcement.
    pub heard: Instant,
}

/// A stream, and an address that announces it.
type Key = (StreamId, IpAddr);

/// Announcement of a stream by one address.
struct Kept {
    announced: Announced,
    /// Time of its first announcement.
    since: Instant,
    choice: Choice,
}

/// Result of matching a stream's name with the selected patterns.
#[derive(Clone, Copy, Default)]
struct Choice {
    is_selected: bool,
    /// Time since which a reader has waited for the stream.
    waits: Option<WaitsSince>,
}

/// Announced streams, and the patterns that select among them.
pub(super) struct Directory {
    announced: BTreeMap<Key, Kept>,
    /// Selected streams that were announced, or selected, since the last call of [`Self::take_news`].
    news: BTreeSet<Key>,
    /// Number of streams that each address announces.
    sources: BTreeMap<IpAddr, usize>,
    /// True once the warning was logged that there are more streams than are kept.
    warned: bool,
    selection: Selection,
    selected_patterns: Vec<Selected>,
    /// What readers in other processes of this host state, whose streams this agent receives.
    stated_on_host: Vec<(StreamPattern, Duration)>,
    /// Number of names that were matched with a pattern.
    #[cfg(test)]
    matched: u64,
}

/// A selected pattern.
pub(super) struct Selected {
    pub(super) pattern: StreamPattern,
    /// Time since which a reader waits for it, if one does.
    pub(super) since: Option<WaitsSince>,
    /// Age up to which samples are of use to the reader.
    pub(super) deadline: Option<Duration>,
}

impl Directory {
    pub(super) const fn new() -> Self {
        Self {
            announced: BTreeMap::new(),
            news: BTreeSet::new(),
            sources: BTreeMap::new(),
            warned: false,
            selection: Selection::none(),
            selected_patterns: Vec::new(),
            stated_on_host: Vec::new(),
            #[cfg(test)]
            matched: 0,
        }
    }

    /// Takes an announcement.
    pub(super) fn heard(&mut self, now: Instant, announcement: Announcement, from: SocketAddr) {
        let key = (announcement.stream, from.ip());
        let known = self.announced.get(&key).filter(|known| !is_old(&known.announced, now));
        // Of two epochs at one address the later one counts, as for the data.
        if known.is_some_and(|known| known.announced.announcement.epoch > announcement.epoch) {
            return;
        }
        let since = known.map_or(now, |known| known.since);
        let same_name = known.filter(|known| known.announced.announcement.name == announcement.name);
        let choice = same_name.map(|known| known.choice);
        let is_new = !self.announced.contains_key(&key);
        if is_new && !self.has_room(from) {
            self.forget_old(now);
        }
        if is_new && !self.has_room(from) {
            if !std::mem::replace(&mut self.warned, true) {
                tracing::warn!(
                    "too many streams are announced; one of the ignored ones is announced by {from}"
                );
            }
            return;
        }
        let choice = choice.unwrap_or_else(|| self.choose(&announcement.name));
        let announced = Announced { announcement, from, heard: now };
        self.announced.insert(key, Kept { announced, since, choice });
        if is_new {
            *self.sources.entry(from.ip()).or_default() += 1;
        }
        if choice.is_selected {
            self.news.insert(key);
        }
    }

    /// Matches a name with all selected patterns.
    fn choose(&mut self, name: &StreamName) -> Choice {
        #[cfg(test)]
        {
            self.matched += self.selected_patterns.len() as u64;
        }
        let matching = self.selected_patterns.iter().filter(|it| it.pattern.matches(name));
        matching.fold(Choice::default(), |choice, it| choice.and(it.since))
    }

    /// Returns whether one more stream of an address is kept.
    fn has_room(&self, from: SocketAddr) -> bool {
        let of_source = self.sources.get(&from.ip()).copied().unwrap_or(0);
        self.announced.len() < MAX_ANNOUNCED && of_source < MAX_ANNOUNCED_PER_SOURCE
    }

    pub(super) fn select(&mut self, selected: Selected) {
        self.selection.add(selected.pattern.clone());
        for (key, kept) in &mut self.announced {
            #[cfg(test)]
            {
                self.matched += 1;
            }
            if selected.pattern.matches(&kept.announced.announcement.name) {
                kept.choice = kept.choice.and(selected.since);
                self.news.insert(*key);
            }
        }
        self.selected_patterns.push(selected);
    }

    /// Removes one selected pattern.
    pub(super) fn deselect(&mut self, pattern: &StreamPattern, deadline: Option<Duration>) {
        // Of several equal patterns the last is removed: the others keep the earliest time.
        let is_it = |known: &Selected| known.pattern == *pattern && known.deadline == deadline;
        if let Some(index) = self.selected_patterns.iter().rposition(is_it) {
            self.selected_patterns.remove(index);
        }
        self.selection.remove(pattern);
        let mut announced = std::mem::take(&mut self.announced);
        for kept in announced.values_mut() {
            let name = &kept.announced.announcement.name;
            if pattern.matches(name) {
                kept.choice = self.choose(name);
            }
        }
        self.announced = announced;
    }

    /// Returns the deadlines that readers state.
    pub(super) fn deadlines(&self) -> StatedDeadlines {
        let stated = |it: &Selected| Some((it.pattern.clone(), it.deadline?));
        let here = self.selected_patterns.iter().filter_map(stated);
        here.chain(self.stated_on_host.iter().cloned()).collect()
    }

    /// Takes what readers in other processes state now; returns whether that is news.
    pub(super) fn hear_host(&mut self, stated: Vec<(StreamPattern, Duration)>) -> bool {
        let is_news = self.stated_on_host != stated;
        self.stated_on_host = stated;
        is_news
    }

    pub(super) const fn selection(&self) -> &Selection {
        &self.selection
    }

    pub(super) fn selects(&self, name: &StreamName) -> bool {
        self.selection.wants(name)
    }

    /// Returns since when a reader has waited for a stream that an address announces.
    pub(super) fn waits_since(&self, stream: StreamId, address: IpAddr) -> Option<WaitsSince> {
        self.announced.get(&(stream, address))?.choice.waits
    }

    /// Returns the selected streams that were announced, or selected, since the last call.
    pub(super) fn take_news(&mut self) -> Vec<Announced> {
        let keys = std::mem::take(&mut self.news).into_iter();
        // Their patterns may have been deselected meanwhile.
        let kept = keys.filter_map(|key| self.announced.get(&key).filter(|kept| kept.choice.is_selected));
        kept.map(|kept| kept.announced.clone()).collect()
    }

    pub(super) fn is_announced(&self, stream: StreamId) -> bool {
        self.announced.range((stream, LOWEST)..).next().is_some_and(|((of, _), _)| *of == stream)
    }

    pub(super) fn is_announced_by(&self, stream: StreamId, address: IpAddr) -> bool {
        self.announced.contains_key(&(stream, address))
    }

    /// Returns the announcements of the selected streams, by any address.
    pub(super) fn selected(&self) -> impl Iterator<Item = &Announced> {
        self.announced.values().filter(|kept| kept.choice.is_selected).map(|kept| &kept.announced)
    }

    /// Forgets the announcements that are out of date.
    pub(super) fn forget_old(&mut self, now: Instant) {
        let before = self.announced.len();
        self.announced.retain(|_, kept| !is_old(&kept.announced, now));
        if self.announced.len() == before {
            return;
        }
        self.sources.clear();
        for (_, address) in self.announced.keys() {
            *self.sources.entry(*address).or_default() += 1;
        }
    }

    /// Returns the streams whose announcements are not out of date; where several addresses
    /// announce one, the announcement of the address that has done so for the longest time.
    pub(super) fn current(&mut self, now: Instant) -> Vec<Announced> {
        self.forget_old(now);
        let mut streams: BTreeMap<StreamId, &Kept> = BTreeMap::new();
        for ((stream, _), kept) in &self.announced {
            let longest = streams.entry(*stream).or_insert(kept);
            if kept.since < longest.since {
                *longest = kept;
            }
        }
        streams.into_values().map(|kept| kept.announced.clone()).collect()
    }
}

impl Choice {
    /// Returns the result with one more pattern that matches, for which a reader has waited since then.
    fn and(self, since: Option<WaitsSince>) -> Self {
        let waits = [self.waits, since].into_iter().flatten().min_by_key(|it| it.since);
        Self { is_selected: true, waits }
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
            epoch: Epoch { start_ns: 1, incarnation: 1 },
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
        // A repeated announcement counts once.
        directory.heard(Instant::ORIGIN, announcement(7), forger);
        assert_eq!(directory.sources[&forger.ip()], 4_096);
        let later = Instant::ORIGIN + Duration::from_secs(51);
        directory.heard(later, announcement(30_000), honest);
        assert_eq!(directory.current(later).len(), 1, "a period of a minute is not believed");
        assert_eq!(directory.sources.len(), 1, "no memory is left behind");
    }

    #[test]
    fn what_another_address_announces_of_a_stream_hides_nothing() {
        let mut directory = Directory::new();
        let (forger, honest) = (([10, 0, 0, 66], 9).into(), ([10, 0, 0, 1], 9).into());
        let pattern = "lab/*".parse().unwrap();
        directory.select(Selected { pattern, since: None, deadline: None });
        let seconds = |count| Instant::ORIGIN + Duration::from_secs(count);
        let forged = |name: &str| Announcement {
            epoch: Epoch { start_ns: u64::MAX, incarnation: 9 },
            name: name.parse().unwrap(),
            group: ([239, 84, 9, 9], 7_400).into(),
            ..announcement(1)
        };
        // Before the stream begins: of a later epoch, at another group, by another name.
        for name in ["lab/1", "other/1"] {
            directory.heard(seconds(0), forged(name), forger);
            directory.heard(seconds(1), announcement(1), honest);
            assert!(directory.take_news().iter().any(|it| it.from == honest), "{name}");
            let groups: Vec<_> = directory.selected().map(|it| it.announcement.group).collect();
            assert!(groups.contains(&announcement(1).group), "{groups:?}");
            assert!(directory.is_announced(StreamId(1)) && !directory.is_announced(StreamId(2)));
        }
        // If the forger is first, the stream is still shown as it is, and remains when the forger
        // disappears.
        let mut directory = Directory::new();
        directory.heard(seconds(0), announcement(1), honest);
        directory.heard(seconds(1), forged("lab/1"), forger);
        directory.heard(seconds(2), announcement(1), honest);
        let shown = |directory: &mut Directory, at| {
            directory.current(at).into_iter().map(|it| it.from).collect::<Vec<_>>()
        };
        assert_eq!(shown(&mut directory, seconds(2)), [honest]);
        directory.heard(seconds(50), forged("lab/1"), forger);
        assert_eq!(shown(&mut directory, seconds(53)), [forger], "a publisher that has moved is found again");
        assert!(!directory.is_announced_by(StreamId(1), honest.ip()));
    }

    #[test]
    fn a_deadline_is_stated_until_the_reader_that_states_it_has_left() {
        let (mut directory, millis) = (Directory::new(), Duration::from_millis);
        let (pattern, name): (StreamPattern, StreamName) =
            ("lab/*".parse().unwrap(), "lab/1".parse().unwrap());
        for deadline in [Some(millis(900)), None, Some(millis(300))] {
            directory.select(Selected { pattern: pattern.clone(), since: None, deadline });
        }
        assert_eq!(directory.deadlines().of(&name), Some(millis(900)));
        directory.deselect(&pattern, Some(millis(900)));
        assert_eq!(directory.deadlines().of(&name), Some(millis(300)));
        directory.deselect(&pattern, Some(millis(300)));
        assert_eq!((directory.deadlines().of(&name), directory.selects(&name)), (None, true));
        let on_host = vec![("lab/1".parse().unwrap(), millis(700))];
        assert!(directory.hear_host(on_host.clone()) && !directory.hear_host(on_host));
        assert_eq!(directory.deadlines().of(&name), Some(millis(700)), "of a reader in another process");
        assert!(directory.hear_host(Vec::new()));
        assert_eq!(directory.deadlines().of(&name), None);
    }

    #[test]
    fn of_two_epochs_at_one_address_the_later_one_counts() {
        let mut directory = Directory::new();
        let host = ([10, 0, 0, 1], 9).into();
        let later = Announcement { epoch: Epoch { start_ns: 2, incarnation: 2 }, ..announcement(1) };
        directory.heard(Instant::ORIGIN, later.clone(), host);
        directory.heard(Instant::ORIGIN, announcement(1), host);
        let current = directory.current(Instant::ORIGIN);
        assert_eq!(current.iter().map(|it| it.announcement.epoch).collect::<Vec<_>>(), [later.epoch]);
    }

    /// Returns the numbers of the streams that may be joined now.
    fn news(directory: &mut Directory) -> Vec<u64> {
        directory.take_news().into_iter().map(|it| it.announcement.stream.0).collect()
    }

    fn selected(pattern: &str, since: Option<u64>) -> Selected {
        let at =
            |nanos| WaitsSince { since: Instant::from_nanos(nanos), wall: units::WallTime::from_nanos(0) };
        Selected { pattern: pattern.parse().unwrap(), since: since.map(at), deadline: None }
    }

    #[test]
    fn an_announcement_that_is_repeated_costs_no_match_and_is_the_only_stream_to_look_at() {
        const STREAMS: u64 = 400;
        let (mut directory, host) = (Directory::new(), ([10, 0, 0, 1], 9).into());
        for stream in 0..STREAMS {
            directory.select(selected(&format!("lab/{stream}"), None));
        }
        for stream in 0..STREAMS {
            directory.heard(Instant::ORIGIN, announcement(stream), host);
        }
        assert_eq!(directory.matched, STREAMS * STREAMS, "every new name, with every pattern");
        assert_eq!(news(&mut directory).len() as u64, STREAMS);
        let before = directory.matched;
        for stream in 0..STREAMS {
            let epoch = Epoch { start_ns: 2, incarnation: 2 };
            directory.heard(Instant::ORIGIN, Announcement { epoch, ..announcement(stream) }, host);
            assert_eq!(news(&mut directory), [stream]);
        }
        assert_eq!(directory.matched, before);
        // A pattern that is new is matched with every name, once.
        directory.select(selected("lab/7", None));
        assert_eq!((news(&mut directory), directory.matched - before), (vec![7], STREAMS));
    }

    #[test]
    fn a_change_of_the_patterns_finds_what_matching_all_of_them_finds() {
        let names = ["a/x", "a/y", "b/x", "a/x/z"];
        let patterns = ["a/*", "**", "a/x", "b/x*", "a/**", "none"];
        for seed in 0..200 {
            let mut random = units::Random::new(seed);
            let mut draw = |below: usize| random.below(below as u64) as usize;
            let (mut directory, mut current) = (Directory::new(), Vec::new());
            let mut kept = BTreeMap::new();
            for step in 0..60 {
                let (kind, name, pattern) = (draw(3), draw(names.len()), draw(patterns.len()));
                let since = [None, Some(10), Some(20)][draw(3)];
                match kind {
                    0 => {
                        let name: StreamName = names[name].parse().unwrap();
                        let address = IpAddr::from([10, 0, 0, draw(2) as u8]);
                        let stream = StreamId(draw(3) as u64);
                        let of_name = Announcement { name: name.clone(), ..announcement(stream.0) };
                        directory.heard(Instant::ORIGIN, of_name, (address, 9).into());
                        kept.insert((stream, address), name);
                    }
                    1 => {
                        directory.select(selected(patterns[pattern], since));
                        current.push((patterns[pattern], since));
                    }
                    _ => {
                        directory.deselect(&patterns[pattern].parse().unwrap(), None);
                        let last = current.iter().rposition(|(it, _)| *it == patterns[pattern]);
                        last.map(|at| current.remove(at));
                    }
                }
                for (key, name) in &kept {
                    let matching =
                        current.iter().filter(|(it, _)| it.parse::<StreamPattern>().unwrap().matches(name));
                    let since: Vec<_> = matching.map(|(_, since)| *since).collect();
                    let choice = directory.announced[key].choice;
                    let found = (choice.is_selected, choice.waits.map(|it| it.since.as_nanos()));
                    let expected = (!since.is_empty(), since.into_iter().flatten().min());
                    assert_eq!(found, expected, "seed {seed}, step {step}, {name}");
                }
            }
        }
    }
}
