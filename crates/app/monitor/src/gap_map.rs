//! Missing data of a stream in time order: the newest gaps, kept in live memory.
//!
//! Pages draw gaps by overlap with their window, so the map answers ranges of time. It is bounded: gaps older than
//! its newest ones are served from the archive. Start with [`KnownGap`].

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ledger::{GapKind, HopCounts, Stage, StageCounts};
use serde_json::{Value, json};
use tallycast::{Schema, StreamGap};
use units::{Epoch, WallTime};
use wire::{GapCause, Inherited, PageGap};

/// The newest gaps kept of a stream: two hours of one a second, at about 300 bytes each.
const MAX_GAPS: usize = 8_192;
/// Time increases from gap to gap; a larger step back means that the clock was set.
const SET_BACK_NS: i64 = 1_000_000_000;

/// A missing run of samples with its stages and what they rest on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownGap {
    /// Names the gap within its account.
    pub id: u64,
    /// Number of the reader's account within the epoch; 0 if the gap is known only from an archive.
    pub join: u32,
    /// Kind of absence; `Missing` if data were lost.
    pub kind: GapKind,
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// Time at which its first sample was due.
    pub from: WallTime,
    /// Time at which the first sample behind it was due.
    pub to: WallTime,
    /// Index of its first sample.
    pub first_index: u64,
    /// Its length in samples.
    pub samples: u64,
    /// Position of its first element: index × elements per sample + element of the sample.
    pub first_element: u64,
    /// Numbers of the missing datagrams; empty if the elements never had one.
    pub numbers: Range<u64>,
    /// Elements lost, by stage.
    pub lost: StageCounts,
    /// Of those lost at stage `source` of a relayed stream, the hop and stage at which they were; empty for others.
    pub hops: HopCounts,
    /// Elements without evidence in time.
    pub unexplained: u64,
    /// Elements still waiting for evidence.
    pub unsettled: u64,
    /// Elements of a time without recorder or publisher: not lost, but missing.
    pub absent: u64,
    /// True for an absence that has not ended; `to` is then the end of the requested range.
    pub open_ended: bool,
    /// True if the counts were apportioned instead of known individually.
    pub apportioned: bool,
    /// Evidence for the stages, as text for users.
    pub evidence: Vec<String>,
}

impl From<&StreamGap> for KnownGap {
    fn from(gap: &StreamGap) -> Self {
        let is_absence = gap.gap.kind != GapKind::Missing;
        Self {
            id: gap.gap.id,
            join: gap.join,
            kind: gap.gap.kind,
            epoch: gap.epoch,
            from: gap.t0,
            to: gap.t1,
            first_index: gap.first_index(),
            samples: gap.samples(),
            first_element: gap.gap.positions.start,
            numbers: gap.gap.numbers.clone(),
            lost: gap.gap.lost,
            hops: gap.gap.inherited.clone(),
            unexplained: gap.gap.unexplained,
            unsettled: gap.gap.unsettled,
            absent: if is_absence { gap.gap.len() } else { 0 },
            open_ended: false,
            apportioned: gap.gap.apportioned,
            evidence: gap.gap.evidence.iter().map(ToString::to_string).collect(),
        }
    }
}

impl KnownGap {
    /// Returns how many elements were lost, explained or not.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.lost.total() + self.unexplained + self.unsettled
    }

    /// Returns whether it is only a time without recorder or publisher.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        self.kind != GapKind::Missing
    }

    /// Returns the part of an absence within a span of time.
    #[must_use]
    pub(crate) fn within(&self, span: Range<WallTime>, schema: &Schema) -> Self {
        let (from, to) = (self.from.max(span.start), self.to.min(span.end));
        if (from, to) == (self.from, self.to) {
            return self.clone();
        }
        let samples_in = |from: WallTime, to: WallTime| {
            let nanos = u64::try_from(to.nanos_since(from)).unwrap_or(0);
            schema.rate.samples_in(Duration::from_nanos(nanos))
        };
        let passed = samples_in(self.from, from).min(self.samples);
        let samples = samples_in(from, to).min(self.samples - passed);
        let per_sample = u64::from(schema.elements_per_sample());
        Self {
            from,
            to,
            first_index: self.first_index + passed,
            first_element: self.first_element + passed * per_sample,
            samples,
            absent: samples * per_sample,
            open_ended: self.open_ended && to == self.to,
            apportioned: true,
            ..self.clone()
        }
    }

    /// Returns the number of elements finally lost on the path: neither unsettled nor a hole of the source.
    #[must_use]
    pub fn lost_on_the_way(&self) -> u64 {
        self.lost.total() - self.lost[Stage::Source] + self.unexplained
    }

    /// Returns the cause of most of it.
    #[must_use]
    pub fn cause(&self) -> GapCause {
        let leading = self.lost.nonzero().max_by(|(a, x), (b, y)| x.cmp(y).then(b.cmp(a)));
        match leading {
            Some((stage, count)) if count >= self.unexplained.max(self.unsettled).max(self.absent) => {
                GapCause::Stage(stage)
            }
            _ if self.is_absence() || self.absent > self.unexplained.max(self.unsettled) => GapCause::Absent,
            _ if self.unsettled >= self.unexplained && self.unsettled > 0 => GapCause::Unsettled,
            _ => GapCause::Unexplained,
        }
    }

    /// Returns the gap in the form of a page frame.
    #[must_use]
    pub fn page_gap(&self) -> PageGap {
        let unknown =
            [self.unexplained, self.unsettled, self.absent].into_iter().filter(|count| *count > 0).count();
        let cause = self.cause();
        let leading = || self.hops.shares().max_by(|a, b| a.count.cmp(&b.count).then(b.hop.cmp(&a.hop)));
        let inherited = leading().filter(|_| cause == GapCause::Stage(Stage::Source));
        PageGap {
            from: self.from,
            to: self.to,
            lost_elements: self.missing() + self.absent,
            cause,
            apportioned: self.apportioned,
            several_stages: self.lost.nonzero().count() + unknown > 1 || self.hops.shares().count() > 1,
            inherited: inherited.map(|share| Inherited {
                hop: share.hop,
                outcome: share.outcome,
                cause: None,
            }),
            first_index: self.first_index,
            samples: self.samples,
        }
    }

    /// Returns the gap as `docs/reference/formats/account.md` has it, with its times.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut json = json!({
            "id": self.id,
            "kind": self.kind,
            "from_ns": self.from,
            "to_ns": self.to,
            "first_index": self.first_index,
            "samples": self.samples,
            "first_element": self.first_element,
            "elements": self.missing() + self.absent,
            "numbers": [self.numbers.start, self.numbers.end],
            "lost": self.lost,
            "unexplained": self.unexplained,
            "unsettled": self.unsettled,
            "reader_absent": self.absent,
            "open_ended": self.open_ended,
            "settled": self.unsettled == 0,
            "apportioned": self.apportioned,
            "evidence": self.evidence,
        });
        if !self.hops.is_empty() {
            json["hops"] = json!(self.hops);
        }
        json
    }

    /// Returns what gaps are ordered by.
    const fn key(&self) -> (Epoch, u64) {
        (self.epoch, self.first_index)
    }

    /// Merges a later gap, for a frame without room for both.
    fn join(&mut self, later: &Self) {
        self.to = self.to.max(later.to);
        self.samples += later.samples;
        self.lost.add(&later.lost);
        self.hops.add_all(&later.hops);
        self.unexplained += later.unexplained;
        self.unsettled += later.unsettled;
        self.absent += later.absent;
        if self.kind != later.kind {
            self.kind = GapKind::Missing;
        }
        self.apportioned |= later.apportioned;
    }
}

/// Joins neighbours until at most `limit` gaps are left; their counts are preserved.
#[must_use]
pub(crate) fn joined(gaps: &[Arc<KnownGap>], limit: usize) -> Vec<PageGap> {
    let together = gaps.len().div_ceil(limit.max(1)).max(1);
    let join = |neighbours: &[Arc<KnownGap>]| {
        let (first, later) = neighbours.split_first().expect("a chunk holds something");
        if later.is_empty() {
            return first.page_gap();
        }
        let mut whole = KnownGap { evidence: Vec::new(), ..(**first).clone() };
        later.iter().for_each(|gap| whole.join(gap));
        whole.page_gap()
    };
    gaps.chunks(together).map(join).collect()
}

/// The newest gaps of a stream.
#[derive(Debug, Default)]
pub(crate) struct GapMap {
    /// In the order of epoch and index, which is that of time.
    gaps: VecDeque<Entry>,
    /// Position of each gap, because updates name only its account and its id.
    places: BTreeMap<(Epoch, u32, u64), u64>,
    forgotten_before: Option<WallTime>,
    /// Number of gaps and updates so far.
    changes: u64,
}

/// A gap, and the number of the change that added or updated it.
#[derive(Debug)]
struct Entry {
    gap: Arc<KnownGap>,
    change: u64,
}

impl GapMap {
    /// Adds or updates a gap; returns the previous version of it.
    pub(crate) fn take(&mut self, gap: KnownGap) -> Option<Arc<KnownGap>> {
        self.changes += 1;
        let change = self.changes;
        let name = (gap.epoch, gap.join, gap.id);
        let known = self.places.get(&name).map(|index| (gap.epoch, *index));
        if let Some(place) = known.and_then(|key| self.place_of(key, (gap.join, gap.id))) {
            let gap = Arc::new(gap);
            return Some(std::mem::replace(&mut self.gaps[place], Entry { gap, change }).gap);
        }
        if self.gaps.back().is_some_and(|last| last.gap.from.nanos_since(gap.from) > SET_BACK_NS) {
            *self = Self { changes: change, ..Self::default() };
        }
        self.places.insert(name, gap.first_index);
        let key = (gap.epoch, gap.first_index);
        let place = self.gaps.partition_point(|known| known.gap.key() <= key);
        self.gaps.insert(place, Entry { gap: Arc::new(gap), change });
        if self.gaps.len() > MAX_GAPS {
            self.forget_oldest();
        }
        None
    }

    /// Returns the gaps that overlap a range of time.
    pub(crate) fn within(&self, range: &Range<WallTime>) -> impl DoubleEndedIterator<Item = &Arc<KnownGap>> {
        self.entries(range).map(|entry| &entry.gap)
    }

    /// Returns a number that rises with every new or updated gap in a range of time; 0 without any.
    pub(crate) fn newest_change(&self, range: &Range<WallTime>) -> u64 {
        self.entries(range).map(|entry| entry.change).max().unwrap_or(0)
    }

    /// Returns the newest gaps, the newest last.
    pub(crate) fn newest(&self, limit: usize) -> impl Iterator<Item = &Arc<KnownGap>> {
        self.gaps.range(self.gaps.len().saturating_sub(limit)..).map(|entry| &entry.gap)
    }

    /// Returns the start of the oldest gap that is kept.
    pub(crate) fn oldest(&self) -> Option<WallTime> {
        self.gaps.front().map(|entry| entry.gap.from)
    }

    /// Returns the time before which gaps may have been dropped.
    pub(crate) const fn forgotten_before(&self) -> Option<WallTime> {
        self.forgotten_before
    }

    fn entries(&self, range: &Range<WallTime>) -> impl DoubleEndedIterator<Item = &Entry> {
        let first = self.gaps.partition_point(|entry| entry.gap.to <= range.start);
        let end = self.gaps.partition_point(|entry| entry.gap.from < range.end);
        self.gaps.range(first..end.max(first))
    }

    fn place_of(&self, key: (Epoch, u64), name: (u32, u64)) -> Option<usize> {
        let first = self.gaps.partition_point(|entry| entry.gap.key() < key);
        let same = self.gaps.range(first..).take_while(|entry| entry.gap.key() == key);
        let offset = same.into_iter().position(|entry| (entry.gap.join, entry.gap.id) == name)?;
        Some(first + offset)
    }

    fn forget_oldest(&mut self) {
        if let Some(Entry { gap: oldest, .. }) = self.gaps.pop_front() {
            self.places.remove(&(oldest.epoch, oldest.join, oldest.id));
            self.forgotten_before = Some(oldest.to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::{HopShare, Outcome};

    fn gap(id: u64, from_s: i64, lost: StageCounts, unsettled: u64) -> KnownGap {
        let time = |seconds: i64| WallTime::from_nanos(seconds * 1_000_000_000);
        KnownGap {
            id,
            join: 1,
            epoch: Epoch { start_ns: 1, incarnation: 1 },
            from: time(from_s),
            to: time(from_s + 1),
            first_index: u64::try_from(from_s).unwrap() * 10,
            samples: 10,
            first_element: u64::try_from(from_s).unwrap() * 10,
            numbers: 0..0,
            lost,
            hops: HopCounts::default(),
            unexplained: 0,
            unsettled,
            kind: GapKind::Missing,
            absent: 0,
            open_ended: false,
            apportioned: false,
            evidence: Vec::new(),
        }
    }

    #[test]
    fn accounts_of_one_epoch_count_their_gaps_anew_and_keep_them_all() {
        let mut map = GapMap::default();
        let lost = StageCounts::of(Stage::Network, 10);
        map.take(gap(0, 5, lost, 0));
        let second = KnownGap { join: 2, ..gap(0, 50, lost, 0) };
        assert!(map.take(second.clone()).is_none(), "it is not an update of the first");
        assert!(map.take(KnownGap { unsettled: 1, ..second }).is_some());
        let starts: Vec<_> = map.within(&range(0, 100)).map(|gap| gap.first_index).collect();
        assert_eq!(starts, [50, 500]);
    }

    fn range(from_s: i64, to_s: i64) -> Range<WallTime> {
        WallTime::from_nanos(from_s * 1_000_000_000)..WallTime::from_nanos(to_s * 1_000_000_000)
    }

    #[test]
    fn news_of_a_gap_replaces_what_was_known() {
        let mut map = GapMap::default();
        assert_eq!(map.take(gap(7, 5, StageCounts::default(), 10)), None);
        let settled = gap(7, 5, StageCounts::of(Stage::Injected, 10), 0);
        let before = map.take(settled.clone()).unwrap();
        assert_eq!(before.cause(), GapCause::Unsettled);
        let known: Vec<_> = map.within(&range(0, 100)).collect();
        assert_eq!(known, [&Arc::new(settled)]);
    }

    #[test]
    fn a_range_holds_the_gaps_that_overlap_it_and_no_others() {
        let mut map = GapMap::default();
        for second in [2, 4, 6, 8] {
            map.take(gap(second as u64, second, StageCounts::default(), 10));
        }
        let ids = |range| map.within(&range).map(|gap| gap.id).collect::<Vec<_>>();
        assert_eq!(ids(range(3, 6)), [4]);
        assert_eq!(ids(range(2, 7)), [2, 4, 6]);
        assert!(ids(range(9, 20)).is_empty());
    }

    #[test]
    fn news_of_a_gap_changes_the_ranges_that_hold_it_and_no_others() {
        let mut map = GapMap::default();
        map.take(gap(1, 5, StageCounts::default(), 10));
        map.take(gap(2, 20, StageCounts::default(), 10));
        let before = [range(0, 10), range(15, 30)].map(|range| map.newest_change(&range));
        map.take(gap(1, 5, StageCounts::of(Stage::Injected, 10), 0));
        let after = [range(0, 10), range(15, 30)].map(|range| map.newest_change(&range));
        assert!(after[0] > before[0] && after[1] == before[1]);
        assert_eq!(map.newest_change(&range(10, 15)), 0);
    }

    #[test]
    fn the_map_is_bounded_and_says_since_when() {
        let mut map = GapMap::default();
        for second in 0..=MAX_GAPS as i64 {
            map.take(gap(second as u64, second, StageCounts::default(), 1));
        }
        assert_eq!(map.newest(usize::MAX).count(), MAX_GAPS);
        assert_eq!(map.forgotten_before(), Some(WallTime::from_nanos(1_000_000_000)));
    }

    #[test]
    fn joined_neighbours_keep_their_counts() {
        let gaps: Vec<_> =
            (0..10).map(|at| Arc::new(gap(at, at as i64 * 2, StageCounts::of(Stage::Late, 3), 0))).collect();
        assert_eq!(joined(&gaps, 10).len(), 10);
        let few = joined(&gaps, 4);
        assert_eq!(few.len(), 4);
        assert_eq!(few.iter().map(|gap| gap.lost_elements).sum::<u64>(), 30);
        assert_eq!(few.iter().map(|gap| gap.samples).sum::<u64>(), 100);
    }

    #[test]
    fn a_gap_of_a_relayed_stream_names_the_hop_that_lost_most_of_it_also_when_joined() {
        let share = |hop, outcome, count| HopShare { hop, outcome, count };
        let hops: HopCounts =
            [share(0, Outcome::Unexplained, 2), share(1, Outcome::Lost(Stage::Deadline), 4)]
                .into_iter()
                .collect();
        let relayed = KnownGap { hops, ..gap(1, 1, StageCounts::of(Stage::Source, 6), 0) };
        let link = Some(Inherited { hop: 1, outcome: Outcome::Lost(Stage::Deadline), cause: None });
        assert_eq!((relayed.page_gap().inherited, relayed.page_gap().several_stages), (link, true));
        let mut here = relayed.clone();
        here.lost[Stage::Network] = 7;
        assert_eq!(here.page_gap().inherited, None, "most was lost on the reader's own hop");
        let hops: HopCounts = [share(0, Outcome::Lost(Stage::ReaderLag), 9)].into_iter().collect();
        let other = KnownGap { hops, ..gap(2, 3, StageCounts::of(Stage::Source, 9), 0) };
        let [both] = joined(&[Arc::new(relayed), Arc::new(other)], 1)[..] else { panic!("one is left") };
        assert_eq!(
            both.inherited,
            Some(Inherited { hop: 0, outcome: Outcome::Lost(Stage::ReaderLag), cause: None })
        );
    }

    #[test]
    fn the_cause_is_the_largest_share() {
        let mut several = gap(1, 1, StageCounts::of(Stage::Injected, 6), 4);
        assert_eq!(several.cause(), GapCause::Stage(Stage::Injected));
        assert!(several.page_gap().several_stages);
        several.unexplained = 7;
        assert_eq!(several.cause(), GapCause::Unexplained);
    }

    #[test]
    fn an_absence_is_no_loss_has_its_own_cause_and_can_be_told_in_part() {
        let absence =
            KnownGap { kind: GapKind::ReaderAbsent, absent: 20, ..gap(1, 10, StageCounts::default(), 0) };
        assert_eq!((absence.missing(), absence.lost_on_the_way(), absence.cause()), (0, 0, GapCause::Absent));
        assert_eq!((absence.page_gap().lost_elements, absence.page_gap().several_stages), (20, false));
        let json = absence.to_json();
        assert_eq!(
            (&json["kind"], &json["elements"], &json["reader_absent"], &json["unexplained"]),
            (&json!("reader_absent"), &json!(20), &json!(20), &json!(0))
        );
        let channels = vec![tallycast::Channel::new("a", "V"), tallycast::Channel::new("b", "V")];
        let schema = Schema::new(tallycast::Dtype::F8, units::SampleRate::hz(10).unwrap(), channels).unwrap();
        let time = |ms: i64| WallTime::from_nanos(ms * 1_000_000);
        let part = absence.within(time(10_300)..time(10_800), &schema);
        assert_eq!((part.first_index, part.samples, part.absent), (103, 5, 10));
        assert_eq!((part.from, part.to, part.apportioned), (time(10_300), time(10_800), true));
        assert_eq!(absence.within(time(0)..time(20_000), &schema), absence);
        let mostly_absent =
            KnownGap { absent: 30, kind: GapKind::Missing, ..gap(1, 1, StageCounts::of(Stage::Late, 6), 4) };
        assert_eq!(mostly_absent.cause(), GapCause::Absent);
    }

    #[test]
    fn a_clock_that_was_set_back_empties_the_map() {
        let mut map = GapMap::default();
        map.take(gap(1, 100, StageCounts::default(), 1));
        map.take(gap(2, 5, StageCounts::default(), 1));
        assert_eq!(map.within(&range(0, 1_000)).count(), 1);
    }
}
