//! Two small meters: samples per second lately, and losses within the last hour.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Span over which the rate is measured: long enough for one sample per second to look steady.
const RATE_SPAN: Duration = Duration::from_secs(5);
/// Minimum span, so that a new stream does not seem faster than in its first half second.
const LEAST_SPAN: Duration = Duration::from_millis(500);
/// Arrivals closer together than this are counted as one.
const RATE_STEP: Duration = Duration::from_millis(250);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// Measures samples per second.
#[derive(Clone, Debug, Default)]
pub(super) struct RateMeter {
    /// Start of counting, and samples from then to the next entry.
    arrivals: VecDeque<(Instant, u64)>,
}

impl RateMeter {
    pub(super) fn take(&mut self, samples: u64, now: Instant) {
        match self.arrivals.back_mut() {
            Some((since, count)) if now - *since < RATE_STEP => *count += samples,
            _ => self.arrivals.push_back((now, samples)),
        }
        while self.arrivals.front().is_some_and(|(since, _)| now - *since > RATE_SPAN) {
            self.arrivals.pop_front();
        }
    }

    pub(super) fn per_second(&self, now: Instant) -> f64 {
        let recent = self.arrivals.iter().filter(|(since, _)| now - *since <= RATE_SPAN);
        let (mut total, mut first) = (0, None);
        for (since, samples) in recent {
            total += samples;
            first = first.or(Some(*since));
        }
        let Some(first) = first else { return 0.0 };
        total as f64 / (now - first).clamp(LEAST_SPAN, RATE_SPAN).as_secs_f64()
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

    #[test]
    fn a_steady_stream_shows_its_rate_and_silence_shows_none() {
        let (begin, mut meter) = (Instant::now(), RateMeter::default());
        for step in 0..100 {
            meter.take(100, begin + step * Duration::from_millis(100));
        }
        let rate = meter.per_second(begin + 2 * RATE_SPAN);
        assert!((rate - 1_000.0).abs() < 60.0, "{rate}");
        assert_eq!(meter.per_second(begin + MINUTE), 0.0);
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
