//! Live memory of one stream: envelopes of its elements, its gaps, its account, how it fares.
//!
//! Written by the intake in the order of the stream, read by viewers, under a short lock, see [`crate::history`]. Time
//! is an argument. Start with [`StreamMemory`].

pub(crate) mod newest;
mod pace;
pub(crate) mod pictures;
pub(crate) mod waterfalls;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sample::{Block, Envelope, EnvelopeConfig, Schema};
use tallycast::{AccountState, StreamAccount, StreamGap, StreamInfo};
use units::{Epoch, WallTime};

use crate::clock::Moment;
use crate::gap_map::{GapMap, KnownGap};
use newest::Newest;
use pace::{LagMeter, LossHours, RateMeter};
use pictures::{PictureBudget, Pictures};
use waterfalls::{WaterfallBudget, Waterfalls};

/// Maximum number of elements that are remembered from the beginning of a stream: the first of each channel.
const MAX_EAGER_ELEMENTS: usize = 64;
/// Maximum number of further elements, remembered from the first request on.
const MAX_ASKED_ELEMENTS: usize = 64;
/// Maximum number of envelopes of all streams; a full one takes 3.3 MB.
const MAX_ENVELOPES: usize = 4_096;
/// Maximum number of gaps before the first block, whose time is unknown until then.
const MAX_TIMELESS_GAPS: usize = 1_024;
/// Data that lag behind the clock by more than this were recorded earlier; their live edge lags with them.
pub(crate) const RECORDED_LAG_NS: i64 = 5_000_000_000;
/// A view that follows ends where data are expected, if it is at most this long: a longer one shows all but the last
/// moments anyway, and would jump back after every stall.
const SHORT_VIEW_NS: i64 = 500_000_000;
/// A twentieth of a short view may be empty.
const EMPTY_SHARE: i64 = 20;
/// Data are stale if none arrived for this long, or for a number of periods if that is longer.
const STALE: Duration = Duration::from_secs(3);
const STALE_PERIODS: u64 = 5;
/// A stream is losing for so long after its last loss was settled.
const LOSING: Duration = Duration::from_secs(10);

/// State of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Health {
    Ok,
    Losing,
    Stale,
    Ended,
}

impl Health {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Losing => "losing",
            Self::Stale => "stale",
            Self::Ended => "ended",
        }
    }
}

/// Recent data of a stream.
#[derive(Debug)]
pub(crate) struct StreamMemory {
    pub(crate) info: Arc<StreamInfo>,
    pub(crate) gaps: GapMap,
    pub(crate) account: Option<StreamAccount>,
    envelopes: BTreeMap<usize, Envelope>,
    /// Whole samples of the channels that pages show as pictures.
    pub(crate) pictures: Pictures,
    /// The newest sample, whole.
    pub(crate) newest_sample: Newest,
    pub(crate) waterfalls: Waterfalls,
    budget: Budget,
    timeless: Vec<StreamGap>,
    /// Time of the oldest sample received.
    first: Option<WallTime>,
    /// The newest sample's time, and one behind its index.
    newest: Option<(WallTime, u64)>,
    arrived: Instant,
    /// Delay of the newest sample relative to the clock when it arrived.
    lag_ns: i64,
    lag: LagMeter,
    ended: bool,
    rate: RateMeter,
    losses: LossHours,
}

impl StreamMemory {
    pub(crate) fn new(info: Arc<StreamInfo>, budget: Budget, now: Moment) -> Self {
        let schema = &info.schema;
        let first = |channel| schema.channel_elements(channel).start;
        let eager: Vec<usize> = (0..schema.channels.len().min(MAX_EAGER_ELEMENTS)).map(first).collect();
        let pictures = Pictures::new(schema, budget.pictures.clone());
        let waterfalls = Waterfalls::new(schema, budget.waterfalls.clone());
        let mut memory = Self {
            info,
            gaps: GapMap::default(),
            account: None,
            envelopes: BTreeMap::new(),
            pictures,
            newest_sample: Newest::new(&budget.pictures),
            waterfalls,
            budget,
            timeless: Vec::new(),
            first: None,
            newest: None,
            arrived: now.steady,
            lag_ns: 0,
            lag: LagMeter::default(),
            ended: false,
            rate: RateMeter::default(),
            losses: LossHours::default(),
        };
        for element in eager {
            memory.remember(element);
        }
        memory
    }

    /// Begins another epoch of the publisher; the memory is kept if the schema is the same.
    pub(crate) fn begin(&mut self, info: Arc<StreamInfo>, now: Moment) {
        if *self.info.schema != *info.schema {
            *self = Self::new(info, self.budget.clone(), now);
            return;
        }
        self.info = info;
        self.account = None;
        self.ended = false;
        self.timeless.clear();
    }

    /// Returns whether `epoch` is the current one.
    fn is_current(&self, epoch: Epoch) -> bool {
        self.info.epoch == epoch
    }

    pub(crate) fn block(&mut self, block: &Block, now: Moment) {
        if !self.is_current(block.epoch) || *block.schema != *self.info.schema || block.samples == 0 {
            return;
        }
        self.envelopes.values_mut().for_each(|envelope| envelope.push(block));
        self.pictures.push(block, now);
        self.newest_sample.push(block, now);
        self.waterfalls.push(block, now);
        self.first.get_or_insert(block.t0);
        let newest = block.time_of(block.next_index() - 1);
        let before = self.newest.map_or(newest, |(before, _)| before);
        let age_ns = now.wall.nanos_since(before);
        // Longer is a stall, not the way in which data arrive.
        if age_ns.saturating_sub(self.usual_lag_ns()) <= RECORDED_LAG_NS {
            self.lag.take(age_ns, now.steady);
        }
        self.newest = Some((newest, block.next_index()));
        if self.age(now) > self.patience() {
            self.rate = RateMeter::default();
        }
        self.arrived = now.steady;
        self.lag_ns = now.wall.nanos_since(newest);
        self.ended = false;
        self.rate.take(block.samples, now.steady);
        for gap in std::mem::take(&mut self.timeless) {
            let mut known = KnownGap::from(&gap);
            known.from = block.time_of(known.first_index);
            known.to = block.time_of(known.first_index + known.samples);
            self.take_gap(known, now);
        }
    }

    /// Adds or updates a gap.
    pub(crate) fn gap(&mut self, gap: &StreamGap, now: Moment) {
        let stands_alone = self.is_current(gap.epoch) && self.newest.is_none();
        if gap.gap.is_empty() {
            return;
        }
        if stands_alone {
            self.timeless.retain(|known| known.gap.id != gap.gap.id);
            if self.timeless.len() < MAX_TIMELESS_GAPS {
                self.timeless.push(gap.clone());
            }
            return;
        }
        self.take_gap(KnownGap::from(gap), now);
    }

    /// Returns the time from which live memory has all gaps; `None` before the first sample.
    pub(crate) fn gaps_since(&self) -> Option<WallTime> {
        let first = self.first?;
        Some(
            self.gaps
                .forgotten_before()
                .unwrap_or_else(|| self.gaps.oldest().map_or(first, |it| it.min(first))),
        )
    }

    /// Returns the time of the newest sample received.
    pub(crate) fn newest_time(&self) -> Option<WallTime> {
        self.newest.map(|(time, _)| time)
    }

    /// Takes the present state of the account.
    pub(crate) fn account_is(&mut self, account: StreamAccount) {
        if self.is_current(account.epoch) {
            self.account = Some(account);
        }
    }

    pub(crate) fn end(&mut self, account: StreamAccount) {
        if self.is_current(account.epoch) {
            self.ended = true;
            self.account = Some(account);
        }
    }

    /// Returns the envelope of an element, if it is remembered.
    pub(crate) fn envelope(&self, element: usize) -> Option<&Envelope> {
        self.envelopes.get(&element)
    }

    /// Remembers an element from now on if there is room; returns whether it is remembered.
    pub(crate) fn remember(&mut self, element: usize) -> bool {
        if self.envelopes.contains_key(&element) {
            return true;
        }
        let room = self.envelopes.len() < MAX_EAGER_ELEMENTS + MAX_ASKED_ELEMENTS;
        let envelope = Envelope::new(&self.info.schema, element, EnvelopeConfig::default());
        let Some(envelope) = envelope.filter(|_| room && self.budget.take()) else { return false };
        self.envelopes.insert(element, envelope);
        true
    }

    /// Returns the newest sample's time and one behind its index.
    pub(crate) const fn newest(&self) -> Option<(WallTime, u64)> {
        self.newest
    }

    /// Returns the time since the newest sample arrived.
    pub(crate) fn age(&self, now: Moment) -> Duration {
        now.steady.saturating_duration_since(self.arrived)
    }

    /// Returns the time up to which this stream may have data: now, or as far behind as recorded data are.
    pub(crate) const fn edge(&self, now: Moment) -> WallTime {
        now.wall.offset(-self.usual_lag_ns())
    }

    /// Returns the end of a view of this length that follows this stream: its edge, or for a short view the time up to
    /// which data have always arrived lately. `None` if samples are so rare that no such view always shows one.
    pub(crate) fn steady_edge(&self, span_ns: i64, now: Moment) -> Option<WallTime> {
        let usual = self.usual_lag_ns();
        if span_ns > SHORT_VIEW_NS {
            return Some(now.wall.offset(-usual));
        }
        let period = i64::try_from(self.info.schema.rate.duration_of(1).as_nanos()).unwrap_or(i64::MAX);
        let steady =
            || now.wall.offset(-usual.max(self.lag.worst_ns().saturating_sub(span_ns / EMPTY_SHARE)));
        (span_ns >= period).then(steady)
    }

    /// Returns the delay of recorded data; live ones have none.
    const fn usual_lag_ns(&self) -> i64 {
        if self.lag_ns > RECORDED_LAG_NS || self.lag_ns < -RECORDED_LAG_NS { self.lag_ns } else { 0 }
    }

    pub(crate) fn samples_per_second(&self, now: Moment) -> f64 {
        if self.age(now) > self.patience() { 0.0 } else { self.rate.per_second() }
    }

    /// Returns the elements lost on the path within the last hour, without holes of the source.
    pub(crate) fn lost_last_hour(&self, now: Moment) -> u64 {
        self.losses.last_hour(now.steady)
    }

    pub(crate) fn state(&self) -> AccountState {
        self.account.as_ref().map_or(AccountState::Open, |account| account.account.state)
    }

    pub(crate) fn health(&self, now: Moment) -> Health {
        if self.ended && self.state() != AccountState::Unconfirmed {
            Health::Ended
        } else if self.ended || self.is_overdue(now) {
            Health::Stale
        } else if self
            .losses
            .newest()
            .is_some_and(|newest| now.steady.saturating_duration_since(newest) < LOSING)
        {
            Health::Losing
        } else {
            Health::Ok
        }
    }

    /// Returns whether data should have come by now. Events come when they happen.
    fn is_overdue(&self, now: Moment) -> bool {
        !self.info.schema.has_own_times() && self.age(now) > self.patience()
    }

    /// Returns the time without data after which a stream is stale.
    fn patience(&self) -> Duration {
        STALE.max(self.info.schema.rate.duration_of(STALE_PERIODS))
    }

    fn take_gap(&mut self, gap: KnownGap, now: Moment) {
        let lost = gap.lost_on_the_way();
        let before = self.gaps.take(gap).map_or(0, |before| before.lost_on_the_way());
        self.losses.take(lost.saturating_sub(before), now.steady);
    }
}

impl Drop for StreamMemory {
    fn drop(&mut self) {
        self.budget.give_back(self.envelopes.len());
    }
}

/// Number of further envelopes allowed, and the memory left for pictures and waterfalls, over all streams.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    envelopes: Arc<AtomicUsize>,
    pictures: PictureBudget,
    waterfalls: WaterfallBudget,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            envelopes: Arc::new(AtomicUsize::new(MAX_ENVELOPES)),
            pictures: PictureBudget::default(),
            waterfalls: WaterfallBudget::default(),
        }
    }
}

impl Budget {
    // A count that nothing else is read by: no ordering is needed.
    fn take(&self) -> bool {
        let take = |left: usize| left.checked_sub(1);
        self.envelopes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    fn give_back(&self, count: usize) {
        self.envelopes.fetch_add(count, Ordering::Relaxed);
    }
}

/// Returns the element of a sample that `name` denotes: a channel's first, or `name[i]` of one with many.
pub(crate) fn element_of(schema: &Schema, name: &str) -> Option<usize> {
    let start = |name: &str| {
        let channel = schema.channel_index(name)?;
        Some(schema.channel_elements(channel))
    };
    if let Some(elements) = start(name) {
        return Some(elements.start);
    }
    let (name, index) = name.strip_suffix(']')?.rsplit_once('[')?;
    let elements = start(name)?;
    let element = elements.start.checked_add(index.parse().ok()?)?;
    elements.contains(&element).then_some(element)
}

/// Returns the unit of an element's channel.
pub(crate) fn unit_of(schema: &Schema, element: usize) -> &str {
    let channel = (0..schema.channels.len()).find(|at| schema.channel_elements(*at).contains(&element));
    channel.map_or("", |at| schema.channels[at].unit.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{self, SECOND};
    use ledger::{Stage, StageCounts};
    use tallycast::{Channel, Dtype};

    fn at(seconds: f64) -> Moment {
        scene::moment(WallTime::from_nanos((seconds * SECOND as f64) as i64))
    }

    fn memory(now: Moment) -> StreamMemory {
        StreamMemory::new(Arc::new(scene::info("lab/x", 100)), Budget::default(), now)
    }

    #[test]
    fn a_name_with_brackets_chooses_an_element_of_an_array() {
        let channels = vec![
            Channel::new("t", "s"),
            Channel::new("image", "").with_shape([2, 3]),
            Channel::new("a[0]", ""),
        ];
        let schema = Schema::new(Dtype::U8, "1".parse().unwrap(), channels).unwrap();
        assert_eq!(element_of(&schema, "image"), Some(1));
        assert_eq!(element_of(&schema, "image[5]"), Some(6));
        assert_eq!(element_of(&schema, "image[6]"), None);
        assert_eq!(element_of(&schema, "a[0]"), Some(7));
        assert_eq!(element_of(&schema, "t[1]"), None);
        assert_eq!(element_of(&schema, "image[-1]"), None);
        assert_eq!(unit_of(&schema, 0), "s");
    }

    #[test]
    fn a_gap_before_the_first_block_gets_its_time_from_it() {
        let mut memory = memory(at(10.0));
        memory.gap(&scene::gap(&memory.info, 0, 0..50, StageCounts::of(Stage::Network, 50)), at(10.0));
        assert_eq!(memory.gaps.newest(9).count(), 0);
        memory.block(&scene::block(&memory.info, 50, &[0.0; 10]), at(10.1));
        let known = memory.gaps.newest(9).next().unwrap();
        assert_eq!((known.from, known.samples), (scene::time_of(&memory.info, 0), 50));
    }

    #[test]
    fn health_follows_losses_silence_and_the_end() {
        let mut memory = memory(at(1.0));
        memory.block(&scene::block(&memory.info, 0, &[0.0; 10]), at(1.0));
        assert_eq!(memory.health(at(1.1)), Health::Ok);
        memory.gap(&scene::gap(&memory.info, 1, 10..20, StageCounts::of(Stage::Source, 10)), at(1.2));
        assert_eq!(memory.health(at(1.2)), Health::Ok, "a hole of the source is no loss");
        memory.gap(&scene::gap(&memory.info, 2, 20..30, StageCounts::of(Stage::Injected, 10)), at(1.3));
        assert_eq!(memory.health(at(1.3)), Health::Losing);
        assert_eq!(memory.lost_last_hour(at(2.0)), 10);
        assert_eq!(memory.health(at(9.0)), Health::Stale);
        memory.end(scene::account(&memory.info, AccountState::Closed));
        assert_eq!(memory.health(at(9.0)), Health::Ended);
    }

    #[test]
    fn a_stream_of_events_is_not_stale_because_nothing_happens() {
        let mut memory = memory(at(1.0));
        let mut schema = (*memory.info.schema).clone();
        schema.labels.insert(sample::TIMES_LABEL.to_owned(), sample::OWN_TIMES.to_owned());
        memory.info = Arc::new(StreamInfo { schema: Arc::new(schema), ..(*memory.info).clone() });
        memory.block(&scene::block(&memory.info, 0, &[0.0; 10]), at(1.0));
        assert_eq!(memory.health(at(900.0)), Health::Ok);
        memory.end(scene::account(&memory.info, AccountState::Unconfirmed));
        assert_eq!(memory.health(at(900.0)), Health::Stale, "its publisher is gone");
    }

    #[test]
    fn a_clock_that_is_set_back_an_hour_changes_neither_age_nor_rate_nor_losses() {
        let mut memory = memory(at(4_000.0));
        for step in 0..40 {
            memory
                .block(&scene::block(&memory.info, 100 * step, &[0.0; 100]), at(4_000.0 + step as f64 / 4.0));
        }
        memory.gap(
            &scene::gap(&memory.info, 1, 4_000..4_010, StageCounts::of(Stage::Injected, 10)),
            at(4_010.0),
        );
        let set_back = |seconds| Moment { wall: at(seconds - 3_600.0).wall, ..at(seconds) };
        assert_eq!(memory.age(set_back(4_011.0)), memory.age(at(4_011.0)));
        assert_eq!(memory.samples_per_second(set_back(4_011.0)), memory.samples_per_second(at(4_011.0)));
        assert_eq!(memory.health(set_back(4_011.0)), Health::Losing);
        assert_eq!(memory.health(set_back(4_100.0)), Health::Stale);
        assert_eq!(memory.lost_last_hour(set_back(4_100.0)), 10);
    }

    #[test]
    fn recorded_data_have_their_own_edge() {
        let mut memory = memory(at(1_000.0));
        memory.block(&scene::block(&memory.info, 0, &[0.0]), at(1_000.0));
        let newest = memory.newest().unwrap().0;
        assert_eq!(memory.edge(at(1_000.0)), newest);
        assert_eq!(memory.edge(at(1_001.0)), newest.offset(SECOND));
    }

    #[test]
    fn a_short_view_ends_where_data_have_always_arrived_lately() {
        // 1 kHz in blocks of 50 ms, each of which arrives 10 ms after its last sample.
        let mut memory = StreamMemory::new(Arc::new(scene::info("lab/x", 1_000)), Budget::default(), at(0.0));
        let clock = scene::time_of(&memory.info, 0).as_nanos();
        let at = |millis: i64| scene::moment(WallTime::from_nanos(clock + millis * 1_000_000));
        for block in 0..60 {
            let ends = i64::try_from(block * 50).unwrap() + 49;
            memory.block(&scene::block(&memory.info, block * 50, &[0.0; 50]), at(ends + 10));
        }
        let newest = memory.newest().unwrap().0;
        for (span_ns, after_ms) in [(1_000_000, 0), (1_000_000, 49), (10_000_000, 49), (100_000_000, 49)] {
            let now = at(2_999 + 10 + after_ms);
            let edge = memory.steady_edge(span_ns, now).unwrap();
            let empty = edge.nanos_since(newest);
            assert!(empty <= span_ns / EMPTY_SHARE, "{empty} ns of {span_ns} are empty after {after_ms} ms");
            assert!(now.wall.nanos_since(edge) <= 60_000_000, "no later than the data");
        }
        assert_eq!(memory.steady_edge(10 * SECOND, at(3_010)), Some(at(3_010).wall));
        assert_eq!(memory.steady_edge(999_999, at(3_010)), None, "shorter than a period");
    }

    #[test]
    fn elements_are_remembered_up_to_a_bound() {
        let channel = Channel::new("image", "").with_shape([64, 64]);
        let schema = Schema::new(Dtype::U8, "1".parse().unwrap(), vec![channel]).unwrap();
        let info = StreamInfo { schema: Arc::new(schema), ..scene::info("lab/camera", 1) };
        let mut memory = StreamMemory::new(Arc::new(info), Budget::default(), at(0.0));
        let room = MAX_EAGER_ELEMENTS + MAX_ASKED_ELEMENTS;
        assert_eq!((0..4_096).filter(|element| memory.remember(*element)).count(), room);
    }
}
