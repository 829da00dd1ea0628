//! Samples with times of their own, held until each is due.
//!
//! The distances between the times are kept, at the speed of playback; the first sample is due at once.

use std::time::Duration;

use units::WallTime;

use crate::Speed;

/// Samples that were read and are not yet due.
pub(crate) struct Held {
    speed: Speed,
    bytes: Vec<u8>,
    /// Playing time at which each sample is due.
    due: Vec<Duration>,
    given: usize,
    /// Recorded time of the first sample of this pass, and its playing time.
    first: Option<WallTime>,
    begun: Duration,
    last: Duration,
}

impl Held {
    pub(crate) fn new(speed: Speed) -> Self {
        let (bytes, due) = (Vec::new(), Vec::new());
        let (begun, last) = (Duration::ZERO, Duration::ZERO);
        Self { speed, bytes, due, given: 0, first: None, begun, last }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.given == self.due.len()
    }

    /// Takes the next samples, once there are no others.
    pub(crate) fn fill(&mut self, samples: &[u8], times: &[WallTime]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(samples);
        self.given = 0;
        self.due.clear();
        for time in times {
            let first = *self.first.get_or_insert(*time);
            let since = u64::try_from(time.nanos_since(first)).unwrap_or(0);
            self.due.push(self.begun + self.speed.playing_time(Duration::from_nanos(since)));
        }
        self.last = self.due.last().copied().unwrap_or(self.last);
    }

    /// Begins another pass, a while after the last sample.
    pub(crate) fn begin_anew(&mut self, pause: Duration) {
        self.begun = self.last + self.speed.playing_time(pause);
        self.first = None;
    }

    /// Returns the samples that are due after a playing time, with their own; or the time until there are some.
    pub(crate) fn due(&mut self, elapsed: Duration) -> Result<(&[u8], &[Duration]), Duration> {
        let given = self.given;
        let count = self.due[given..].iter().take_while(|due| **due <= elapsed).count();
        if count == 0 {
            return Err(self.due[given].saturating_sub(elapsed));
        }
        self.given += count;
        let size = self.bytes.len() / self.due.len();
        Ok((&self.bytes[given * size..self.given * size], &self.due[given..self.given]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn distances_are_kept_at_the_speed_of_playback() {
        let times = [5_000, 5_003, 5_503, 5_510].map(|millis| WallTime::from_nanos(millis * 1_000_000));
        let mut held = Held::new("2".parse().unwrap());
        held.fill(&[1, 2, 3, 4], &times);
        assert_eq!(held.due(ms(0)), Ok((&[1][..], &[ms(0)][..])));
        assert_eq!(held.due(ms(1)), Err(Duration::from_micros(500)));
        assert_eq!(
            held.due(ms(252)),
            Ok((&[2, 3][..], &[Duration::from_micros(1_500), Duration::from_micros(251_500)][..]))
        );
        assert!(!held.is_empty());
        assert_eq!(held.due(ms(255)), Ok((&[4][..], &[ms(255)][..])));
        assert!(held.is_empty());
        held.begin_anew(ms(10));
        held.fill(&[1], &times[..1]);
        assert_eq!(held.due(ms(259)), Err(ms(1)), "the seam takes a period");
    }
}
