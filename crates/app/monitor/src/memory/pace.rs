//! Three small meters: samples per second lately, the worst lag lately, and losses within the last hour.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Span over which the rate is measured: long enough for one sample per second to look steady.
const RATE_SPAN: Duration = Duration::from_secs(5);
/// Minimum time between two marks.
const RATE_STEP: Duration = Duration::from_millis(250);
/// Time within which samples that waited have arrived.
const CATCHING_UP: Duration = Duration::from_secs(1);
/// Span within which the worst lag is remembered.
const LAG_SPAN: Duration = Duration::from_secs(2);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// Measures samples per second between two arrivals, so that a stall and the burst behind it cancel out.
#[derive(Clone, Debug, Default)]
pub(super) struct RateMeter {
    /// Times of arrivals, each with the samples up to and including it: one at least [`RATE_SPAN`] before the newest
    /// arrival, and those behind it.
    marks: VecDeque<(Instant, u64)>,
    newest: Option<(Instant, u64)>,
    /// Time from which arrivals count: what waited until the beginning arrives at once.
    counts_from: Option<Instant>,
}

impl RateMeter {
    pub(super) fn take(&mut self, samples: u64, now: Instant) {
        let total = samples + self.newest.map_or(0, |(_, total)| total);
        self.newest = Some((now, total));
        if now < *self.counts_from.get_or_insert(now + CATCHING_UP) {
            self.marks.clear();
        }
        if self.marks.back().is_none_or(|(at, _)| now - *at >= RATE_STEP) {
            self.marks.push_back((now, total));
        }
        while self.marks.get(1).is_some_and(|(at, _)| now - *at >= RATE_SPAN) {
            self.marks.pop_front();
        }
    }

    /// Returns the rate up to the newest arrival; 0 while arrivals do not count yet.
    pub(super) fn per_second(&self) -> f64 {
        let (Some((from, before)), Some((to, total))) = (self.marks.front(), self.newest) else { return 0.0 };
        let span = (to - *from).as_secs_f64();
        if span > 0.0 { (total - before) as f64 / span } else { 0.0 }
    }
}

/// Measures the age that the newest sample reaches before the next ones arrive.
#[derive(Clone, Debug)]
pub(super) struct LagMeter {
    since: Option<Instant>,
    worst_ns: i64,
    /// The worst of the span before.
    before_ns: i64,
}

impl Default for LagMeter {
    fn default() -> Self {
        Self { since: None, worst_ns: i64::MIN, before_ns: i64::MIN }
    }
}

impl LagMeter {
    pub(super) fn take(&mut self, age_ns: i64, now: Instant) {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= LAG_SPAN) {
            (self.before_ns, self.worst_ns, self.since) = (self.worst_ns, age_ns, Some(now));
        }
        self.worst_ns = self.worst_ns.max(age_ns);
    }

    /// Returns the worst age; `i64::MIN` before the first.
    pub(super) fn worst_ns(&self) -> i64 {
        self.worst_ns.max(self.before_ns)
    }
}

/// Counts losses by the minute.
#[derive(Clone, Debug, Default)]
pub(super) struct LossHours {
    /// Start of a minute with losses, and the elements lost in it.
    minutes: VecDeque<(Instant, u64)>,
    newest: Option<Instant>,
}

impl LossHours {
    pub(super) fn take(&mut self, elements: u64, now: Instant) {
        if elements == 0 {
            return;
        }
        self.newest = Some(now);
        match self.minutes.back_mut() {
            Some((since, count)) if now - *since < MINUTE => *count += elements,
            _ => self.minutes.push_back((now, elements)),
        }
        while self.minutes.front().is_some_and(|(since, _)| now - *since >= HOUR) {
            self.minutes.pop_front();
        }
    }

    pub(super) fn last_hour(&self, now: Instant) -> u64 {
        self.minutes.iter().filter(|(since, _)| now - *since < HOUR).map(|(_, count)| count).sum()
    }

    pub(super) const fn newest(&self) -> Option<Instant> {
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    /// Arrivals of 100 samples every 100 ms; those during the stall come together at its end.
    fn with_a_stall(stall: Range<u32>) -> impl Iterator<Item = (Duration, u64)> {
        let time = |step: u32| step * Duration::from_millis(100);
        let late = u64::from(stall.end - stall.start) * 100;
        let end = stall.end;
        let samples = move |step| if step == end { 100 + late } else { 100 };
        (0..200).filter(move |step| !stall.contains(step)).map(move |step| (time(step), samples(step)))
    }

    #[test]
    fn a_steady_stream_shows_its_rate_whatever_the_stall() {
        for stall in [50..50, 50..70, 50..130, 1..2] {
            let (begin, mut meter) = (Instant::now(), RateMeter::default());
            for (at, samples) in with_a_stall(stall.clone()) {
                meter.take(samples, begin + at);
                let rate = meter.per_second();
                assert!(rate < 1_001.0, "{rate} at {at:?} behind a stall {stall:?}");
            }
            let rate = meter.per_second();
            assert!((rate - 1_000.0).abs() < 1.0, "{rate} at the end of {stall:?}");
        }
    }

    #[test]
    fn what_waited_for_the_beginning_is_no_rate() {
        let (begin, mut meter) = (Instant::now(), RateMeter::default());
        for step in 0..100_u32 {
            // Five seconds of data within the first half, then live.
            let samples = if step < 5 { 1_000 } else { 100 };
            meter.take(samples, begin + step * Duration::from_millis(100));
            assert!(meter.per_second() < 1_001.0, "{} at step {step}", meter.per_second());
        }
        assert!((meter.per_second() - 1_000.0).abs() < 1.0);
    }

    #[test]
    fn one_sample_in_ten_seconds_is_a_tenth_per_second() {
        let (begin, mut meter) = (Instant::now(), RateMeter::default());
        for step in 0..9 {
            meter.take(1, begin + step * Duration::from_secs(10));
        }
        assert_eq!(meter.per_second(), 0.1);
    }

    #[test]
    fn the_worst_lag_is_remembered_for_a_span_and_then_forgotten() {
        let (begin, mut lag) = (Instant::now(), LagMeter::default());
        lag.take(70, begin);
        lag.take(20, begin + LAG_SPAN);
        assert_eq!(lag.worst_ns(), 70);
        lag.take(30, begin + 2 * LAG_SPAN);
        assert_eq!(lag.worst_ns(), 30);
    }

    #[test]
    fn losses_are_forgotten_after_an_hour() {
        let (begin, mut losses) = (Instant::now(), LossHours::default());
        losses.take(5, begin);
        losses.take(7, begin + HOUR / 2);
        assert_eq!(losses.last_hour(begin + HOUR - MINUTE), 12);
        assert_eq!(losses.last_hour(begin + HOUR), 7);
        assert_eq!(losses.last_hour(begin + 2 * HOUR), 0);
    }
}
