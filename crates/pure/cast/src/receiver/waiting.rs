//! Waiting readers: if this reader waited for a stream before an epoch of it began, the epoch's account begins with
//! sample 0, and samples of the beginning that did not arrive count as missing.
//!
//! Clocks of two hosts are compared only where there is no other evidence, and then the samples' own rate has to
//! agree.
//!
//! Source: `docs/protocol/account.md`, rule 16.

use core::time::Duration;
use std::collections::VecDeque;

use sample::Schema;
use units::{Epoch, Instant, RangeSet, SampleRate, WallTime};
use wire::{Numbered, Predecessor, Waiting};

use super::plausible::{Plausibility, Verdict};

/// Time after which a reader has received announcements or tallies of every existing epoch: they are sent at least
/// every second.
const HEARD_OF_ALL: Duration = Duration::from_millis(2_500);
/// Maximum lead over this host's clock of the start of an epoch that began while this reader was waiting.
const CLOCKS_APART: Duration = Duration::from_secs(2);
/// Maximum number of runs of numbers from before the description that are remembered; further ones are not
/// attributed.
pub(super) const MAX_EARLY_RUNS: usize = 1_024;
/// Maximum number of epochs of a stream that are remembered; only forged datagrams name more.
const MAX_EPOCHS: usize = 8;

/// Start of a reader's wait for streams, by both clocks of its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitsSince {
    /// Time by the monotonic clock.
    pub since: Instant,
    /// Wall time at that moment.
    pub wall: WallTime,
}

impl WaitsSince {
    /// Returns the wait of the same reader for a stream that it selected only at `now`.
    pub(super) fn restarted_at(self, now: Instant) -> Self {
        Self { since: now, wall: self.wall_at(now) }
    }

    /// Returns whether the reader was waiting when an epoch began.
    ///
    /// `heard` is the time of the epoch's first datagram; `first_index` and `rate` give its age by its samples.
    pub(super) fn preceded(
        self,
        now: Instant,
        epoch: Epoch,
        heard: Instant,
        first_index: u64,
        rate: SampleRate,
    ) -> bool {
        // A burst is ahead of the rate.
        let is_as_young = || rate.duration_of(first_index) <= now.since(self.since) + CLOCKS_APART;
        heard.since(self.since) >= HEARD_OF_ALL || is_as_young() && self.is_within(now, epoch)
    }

    /// Returns whether the epoch's stated start is within this wait.
    fn is_within(self, now: Instant, epoch: Epoch) -> bool {
        let Ok(start_ns) = i64::try_from(epoch.start_ns) else { return false };
        let latest = self.wall_at(now).as_nanos().saturating_add(nanos(CLOCKS_APART));
        (self.wall.as_nanos()..=latest).contains(&start_ns)
    }

    /// Returns the wall time at a moment, as if the clock had never been set since.
    pub(super) fn wall_at(self, now: Instant) -> WallTime {
        WallTime::from_nanos(self.wall.as_nanos().saturating_add(nanos(now.since(self.since))))
    }
}

/// State of the beginnings of one stream's epochs.
#[derive(Debug)]
pub(super) struct Beginnings {
    waiting: Option<WaitsSince>,
    /// Known epochs, in the order of their first datagrams.
    heard: VecDeque<Heard>,
}

/// A known epoch.
#[derive(Debug)]
struct Heard {
    epoch: Epoch,
    /// Time of its first datagram.
    first: Instant,
    /// True once an account of it was opened.
    has_begun: bool,
    /// True if it is not awaited: it came while another epoch was current, or began before the reader waited.
    is_passed_over: bool,
    /// Numbers of datagrams that came before an account could begin, mostly for lack of the description.
    early: RangeSet,
    /// The lowest of its samples. A forged datagram can give any value.
    lowest: Option<Lowest>,
    /// Judge of the datagrams at which an account may begin, created on first use.
    plausibility: Option<Plausibility>,
    /// Position of its first element, once it is known; of a stream that was not relayed 0.
    start: Option<u64>,
}

/// The lowest sample of which a datagram came.
#[derive(Clone, Copy, Debug)]
struct Lowest {
    index: u64,
    /// When the first of its datagrams came.
    at: Instant,
    /// The highest number among them.
    number: u64,
}

impl Beginnings {
    pub(super) const fn new(waiting: Option<WaitsSince>) -> Self {
        Self { waiting, heard: VecDeque::new() }
    }

    /// Records that the stream is selected again only since `now`.
    pub(super) fn wanted_from(&mut self, now: Instant) {
        self.waiting = self.waiting.map(|waiting| waiting.restarted_at(now));
        self.heard.clear();
    }

    /// Records a sign of an epoch.
    pub(super) fn heard(&mut self, epoch: Epoch, now: Instant) {
        if self.of(epoch).is_none() {
            if self.heard.len() == MAX_EPOCHS {
                self.heard.pop_front();
            }
            self.heard.push_back(Heard {
                epoch,
                first: now,
                has_begun: false,
                is_passed_over: false,
                early: RangeSet::new(),
                lowest: None,
                plausibility: None,
                start: None,
            });
        }
    }

    /// Records a datagram of an epoch, which shows how far the epoch has come.
    pub(super) fn heard_datagram(&mut self, head: &Numbered, now: Instant) {
        self.heard(head.epoch, now);
        let Some(heard) = self.of_mut(head.epoch) else { return };
        let (index, number) = (head.first_index, head.number);
        match &mut heard.lowest {
            Some(lowest) if lowest.index < index => {}
            Some(lowest) if lowest.index == index => lowest.number = lowest.number.max(number),
            lowest => *lowest = Some(Lowest { index, at: now, number }),
        }
    }

    /// Returns the first number behind the datagrams of a sample that began before the first whole one, at `start`: of
    /// those nothing was offered to the reader.
    pub(super) fn first_number(&self, head: &Numbered, start: u64) -> u64 {
        let lowest = self.of(head.epoch).and_then(|heard| heard.lowest);
        let first_index = start / u64::from(head.elements_per_sample);
        let before = lowest.filter(|lowest| lowest.index < first_index && lowest.number < head.number);
        before.map_or(0, |lowest| lowest.number + 1)
    }

    /// Records at which position an epoch of a relayed stream began; returns whether that is news.
    pub(super) fn starts_at(&mut self, epoch: Epoch, position: u64) -> bool {
        let unknown = self.of_mut(epoch).filter(|heard| heard.start.is_none());
        unknown.is_some_and(|heard| heard.start.replace(position).is_none())
    }

    /// Returns the position at which an epoch of a relayed stream began, if it is known.
    pub(super) fn start(&self, epoch: Epoch) -> Option<u64> {
        self.of(epoch)?.start
    }

    /// Records that its successor's report opens no account for an epoch.
    pub(super) fn pass_over(&mut self, epoch: Epoch) {
        if let Some(heard) = self.of_mut(epoch) {
            heard.is_passed_over = true;
        }
    }

    /// Records a datagram that came before an account could begin.
    pub(super) fn came_too_early(&mut self, epoch: Epoch, number: u64) {
        if let Some(heard) = self.of_mut(epoch)
            && heard.early.range_count() < MAX_EARLY_RUNS
        {
            heard.early.insert(number..number.saturating_add(1));
        }
    }

    /// Returns whether the reader waits for the beginning of an epoch.
    pub(super) fn awaits(&self, epoch: Epoch) -> bool {
        self.waiting.is_some() && self.of(epoch).is_none_or(|heard| !heard.has_begun)
    }

    /// Returns the waiting state that the reader's requests and reports carry, with the deadline it states.
    pub(super) fn waiting_state(&self, deadline: Option<Duration>) -> Option<Waiting> {
        match (self.waiting, deadline) {
            (Some(waiting), deadline) => {
                Some(Waiting { since: waiting.wall, from_beginning: true, deadline })
            }
            (None, Some(_)) => Some(stated(deadline)),
            (None, None) => None,
        }
    }

    /// Judges whether an epoch that the reader waited for can have come this far since then from its start.
    pub(super) fn judge(&mut self, head: &Numbered, start: u64, schema: &Schema, now: Instant) -> Verdict {
        let Some(since) = self.waiting.filter(|_| self.waited_for(head, start, schema.rate, now)) else {
            return Verdict::Plausible;
        };
        let Some(heard) = self.of_mut(head.epoch) else { return Verdict::Plausible };
        let plausibility = heard.plausibility.get_or_insert_with(|| Plausibility::new(schema, since.since));
        plausibility.judge(now, head, (0, start))
    }

    /// Returns whether the account that opens at this datagram has to begin with the epoch's first sample, which is at
    /// `start`.
    pub(super) fn waited_for(&self, head: &Numbered, start: u64, rate: SampleRate, now: Instant) -> bool {
        let heard = self.of(head.epoch).filter(|heard| !heard.has_begun);
        self.waiting.zip(heard).is_some_and(|(waiting, heard)| {
            let lowest = heard.lowest.map(|lowest| (lowest.index, lowest.at));
            let (first_index, at) = lowest.unwrap_or((head.first_index, now));
            let samples = first_index.saturating_sub(start / u64::from(head.elements_per_sample));
            waiting.preceded(at, heard.epoch, heard.first, samples, rate)
        })
    }

    /// Returns the start of the reader's wait, if an epoch without an account that its successor reports began after
    /// it.
    ///
    /// The reader waited for the successor; the age difference follows from the publisher's clock, from one start to
    /// the other, and from the number of the epoch's samples, which take no less time. Computed once: a successor
    /// that pauses only seems younger.
    pub(super) fn missed(
        &mut self,
        word: &Predecessor,
        successor: &Numbered,
        rate: SampleRate,
        now: Instant,
    ) -> Option<Instant> {
        let waiting = self.waiting?;
        let apart = Duration::from_nanos(successor.epoch.start_ns.checked_sub(word.epoch.start_ns)?);
        let lived = apart.max(rate.duration_of(word.next_index));
        let ago = lived.saturating_add(rate.duration_of(successor.first_index));
        self.heard(successor.epoch, now);
        let heard = self.of(successor.epoch)?.first;
        let waited = waiting.preceded(now, successor.epoch, heard, successor.first_index, rate);
        let is_known = self.of(word.epoch).is_some_and(|heard| heard.has_begun || heard.is_passed_over);
        if is_known || word.next_number == 0 {
            return None;
        }
        if waited && ago <= now.since(waiting.since) {
            return Some(waiting.since);
        }
        self.heard(word.epoch, now);
        self.pass_over(word.epoch);
        None
    }

    /// Records that an account of this epoch is opened; returns the numbers that came too early to be used.
    pub(super) fn begun(&mut self, epoch: Epoch) -> RangeSet {
        let Some(heard) = self.of_mut(epoch) else { return RangeSet::new() };
        heard.has_begun = true;
        core::mem::take(&mut heard.early)
    }

    /// Records that the account of this epoch rested on a single foreign datagram.
    pub(super) fn begins_again(&mut self, epoch: Epoch) {
        if let Some(heard) = self.of_mut(epoch) {
            heard.has_begun = false;
        }
    }

    fn of(&self, epoch: Epoch) -> Option<&Heard> {
        self.heard.iter().rfind(|heard| heard.epoch == epoch)
    }

    fn of_mut(&mut self, epoch: Epoch) -> Option<&mut Heard> {
        self.heard.iter_mut().rfind(|heard| heard.epoch == epoch)
    }
}

/// Returns the extension that states a deadline and nothing else.
pub(super) const fn stated(deadline: Option<Duration>) -> Waiting {
    Waiting { since: WallTime::from_nanos(0), from_beginning: false, deadline }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL_S: u64 = 1_700_000_000;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// An epoch that claims to have begun this many milliseconds after the reader.
    fn epoch(millis: i64) -> Epoch {
        let start = i64::try_from(WALL_S).unwrap() * 1_000_000_000 + millis * 1_000_000;
        Epoch { start_ns: u64::try_from(start).unwrap(), incarnation: 1 }
    }

    /// Returns whether a reader that began at 10 s waited for an epoch of 1,000 samples per second.
    fn preceded(now_ms: u64, epoch_ms: i64, heard_ms: u64, first_index: u64) -> bool {
        let wall = WallTime::from_nanos(i64::try_from(WALL_S).unwrap() * 1_000_000_000);
        let waiting = WaitsSince { since: at(10_000), wall };
        let rate = SampleRate::hz(1_000).unwrap();
        waiting.preceded(at(10_000 + now_ms), epoch(epoch_ms), at(10_000 + heard_ms), first_index, rate)
    }

    #[test]
    fn what_is_heard_of_first_after_long_listening_began_meanwhile_whatever_its_clock_says() {
        assert!(preceded(2_600, -3_600_000, 2_500, 50));
        assert!(!preceded(2_600, -3_600_000, 2_499, 50), "it may have been there before");
    }

    #[test]
    fn after_short_listening_the_epochs_start_tells() {
        assert!(preceded(300, 100, 150, 50));
        assert!(preceded(300, 0, 150, 50), "both at once");
        assert!(!preceded(300, -1, 150, 50), "it was there before");
        assert!(preceded(300, 2_300, 150, 50), "its clock is a little ahead");
        assert!(!preceded(300, 2_301, 150, 50), "its clock is wrong: nothing is claimed");
    }

    #[test]
    fn samples_that_take_longer_than_the_reader_listened_began_before_it() {
        assert!(preceded(300, 100, 150, 2_300));
        assert!(!preceded(300, 100, 150, 2_301));
        assert!(preceded(3_000, 100, 2_500, 300_000), "but a recording is played as fast as one likes");
    }

    /// Returns whether a reader that has waited for ten seconds misses an epoch of 1,000 samples per second that
    /// began `apart_ms` before its successor and sent `sent` samples, once `since` samples of the successor have
    /// passed.
    fn is_missed(beginnings: &mut Beginnings, apart_ms: i64, sent: u64, since: u64) -> bool {
        let (epoch, rate) = (epoch(0), SampleRate::hz(1_000).unwrap());
        let word =
            Predecessor { epoch, next_number: sent, next_index: sent, element_offset: 0, is_final: true };
        let epoch =
            Epoch { start_ns: epoch.start_ns + u64::try_from(apart_ms * 1_000_000).unwrap(), incarnation: 2 };
        let successor = Numbered {
            stream: units::StreamId(1),
            epoch,
            number: 9,
            first_index: since,
            element_offset: 0,
            elements_per_sample: 1,
        };
        beginnings.missed(&word, &successor, rate, at(20_000)).is_some()
    }

    fn waiting_for_ten_seconds() -> Beginnings {
        Beginnings::new(Some(WaitsSince { since: at(10_000), wall: WallTime::default() }))
    }

    #[test]
    fn an_account_begins_behind_what_came_of_an_incomplete_first_sample() {
        let epoch = epoch(0);
        let head = |number, first_index, element_offset| {
            let (stream, elements_per_sample) = (units::StreamId(1), 3);
            Numbered { stream, epoch, number, first_index, element_offset, elements_per_sample }
        };
        let mut beginnings = waiting_for_ten_seconds();
        for (number, offset) in [(0, 1), (2, 2), (1, 1)] {
            beginnings.heard_datagram(&head(number, 1_000, offset), at(12_000));
        }
        beginnings.heard_datagram(&head(5, 1_010, 0), at(12_000));
        assert_eq!(beginnings.first_number(&head(5, 1_010, 0), 3_003), 3);
        assert_eq!(beginnings.first_number(&head(5, 1_010, 0), 3_000), 0, "nothing lies before it");
        assert_eq!(beginnings.first_number(&head(2, 1_010, 0), 3_003), 0, "that number was forged");
    }

    #[test]
    fn an_epoch_is_missed_if_it_began_while_the_reader_waited() {
        let is_missed =
            |apart_ms, sent, since| is_missed(&mut waiting_for_ten_seconds(), apart_ms, sent, since);
        assert!(is_missed(8_000, 50, 2_000));
        assert!(!is_missed(8_001, 50, 2_000), "by its publisher's clock before");
        assert!(is_missed(1, 8_000, 2_000));
        assert!(!is_missed(1, 8_001, 2_000), "its clock was set, and its samples take longer");
        assert!(!is_missed(8_000, 0, 0), "it sent nothing");
    }

    #[test]
    fn an_announced_epoch_is_missed_only_without_data_and_without_another_current_epoch() {
        let heard = || {
            let mut beginnings = waiting_for_ten_seconds();
            beginnings.heard(epoch(0), at(12_000));
            beginnings
        };
        assert!(is_missed(&mut heard(), 8_000, 50, 0));
        let mut held_back = heard();
        held_back.pass_over(epoch(0));
        assert!(!is_missed(&mut held_back, 8_000, 50, 0));
        let mut begun = heard();
        begun.begun(epoch(0));
        assert!(!is_missed(&mut begun, 8_000, 50, 0));
    }

    #[test]
    fn an_epoch_that_began_before_the_reader_is_not_missed_later() {
        let mut beginnings = waiting_for_ten_seconds();
        assert!(!is_missed(&mut beginnings, 8_001, 50, 2_000));
        assert!(!is_missed(&mut beginnings, 8_001, 50, 0), "a successor that pauses seems to be younger");
        let mut joined = waiting_for_ten_seconds();
        joined.waiting = Some(WaitsSince { since: at(18_000), wall: WallTime::default() });
        assert!(!is_missed(&mut joined, 1, 1, 0), "nor was its successor waited for");
    }
}
