//! Two small meters: samples per second lately, and losses within the last hour.

use std::collections::VecDeque;

use units::WallTime;

const SECOND_NS: i64 = 1_000_000_000;
/// The rate is that of the last so many seconds: long enough for one sample a second to look steady.
const RATE_SPAN_NS: i64 = 5 * SECOND_NS;
/// Arrivals closer together than this are counted as one.
const RATE_STEP_NS: i64 = SECOND_NS / 4;
const MINUTE_NS: i64 = 60 * SECOND_NS;
const MINUTES: i64 = 60;

/// Measures samples per second.
#[derive(Clone, Debug, Default)]
pub(super) struct RateMeter {
    /// When counting began, and samples since then up to the next entry.
    arrivals: VecDeque<(WallTime, u64)>,
}

impl RateMeter {
    pub(super) fn take(&mut self, samples: u64, now: WallTime) {
        match self.arrivals.back_mut() {
            Some((since, count)) if now.nanos_since(*since).unsigned_abs() < RATE_STEP_NS as u64 => {
                *count += samples;
            }
            _ => self.arrivals.push_back((now, samples)),
        }
        while self.arrivals.front().is_some_and(|(since, _)| now.nanos_since(*since) > RATE_SPAN_NS) {
            self.arrivals.pop_front();
        }
    }

    pub(super) fn per_second(&self, now: WallTime) -> f64 {
        let recent = self.arrivals.iter().filter(|(since, _)| now.nanos_since(*since) <= RATE_SPAN_NS);
        let (mut total, mut first) = (0, None);
        for (since, samples) in recent {
            total += samples;
            first = first.or(Some(*since));
        }
        let Some(first) = first else { return 0.0 };
        let span = now.nanos_since(first).clamp(SECOND_NS / 2, RATE_SPAN_NS);
        total as f64 * 1e9 / span as f64
    }
}

/// Counts losses by the minute.
#[derive(Clone, Debug, Default)]
pub(super) struct LossHours {
    minutes: VecDeque<(i64, u64)>,
    newest: Option<WallTime>,
}

impl LossHours {
    pub(super) fn take(&mut self, elements: u64, now: WallTime) {
        if elements == 0 {
            return;
        }
        self.newest = Some(now);
        let minute = now.as_nanos().div_euclid(MINUTE_NS);
        match self.minutes.back_mut() {
            Some((last, count)) if *last == minute => *count += elements,
            _ => self.minutes.push_back((minute, elements)),
        }
        while self.minutes.len() as i64 > MINUTES {
            self.minutes.pop_front();
        }
    }

    pub(super) fn last_hour(&self, now: WallTime) -> u64 {
        let oldest = now.as_nanos().div_euclid(MINUTE_NS) - MINUTES;
        self.minutes.iter().filter(|(minute, _)| *minute > oldest).map(|(_, count)| count).sum()
    }

    pub(super) const fn newest(&self) -> Option<WallTime> {
        self.newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> WallTime {
        WallTime::from_nanos(seconds * SECOND_NS)
    }

    #[test]
    fn a_steady_stream_shows_its_rate_and_silence_shows_none() {
        let mut meter = RateMeter::default();
        for step in 0..100 {
            meter.take(100, at(0).offset(step * SECOND_NS / 10));
        }
        let rate = meter.per_second(at(10));
        assert!((rate - 1_000.0).abs() < 60.0, "{rate}");
        assert_eq!(meter.per_second(at(60)), 0.0);
    }

    #[test]
    fn losses_are_forgotten_after_an_hour() {
        let mut losses = LossHours::default();
        losses.take(5, at(0));
        losses.take(7, at(1_800));
        assert_eq!(losses.last_hour(at(3_599)), 12);
        assert_eq!(losses.last_hour(at(3_600)), 7);
        assert_eq!(losses.last_hour(at(9_000)), 0);
    }
}
