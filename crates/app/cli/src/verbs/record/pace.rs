//! Progress of a recording: its rate, its size, and when the disk will be full.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use units::text;

/// Time over which the rate is taken, so that single commits do not show in it.
const WINDOW: Duration = Duration::from_secs(10);

/// Bytes over the last seconds.
#[derive(Debug)]
pub(super) struct Pace(VecDeque<(Instant, u64)>);

/// A recording at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// Streams that are being recorded.
    pub(super) streams: usize,
    /// Size of the elements taken so far, without what the archive adds or compresses.
    pub(super) bytes: u64,
    pub(super) bytes_per_s: f64,
    /// Elements that never reached this reader.
    pub(super) missing: u64,
    /// Elements that could not be written.
    pub(super) not_written: u64,
    /// Space on the disk, if it can be asked for.
    pub(super) free_bytes: Option<u64>,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self(VecDeque::from([(now, 0)]))
    }

    /// Takes the bytes so far; returns how many were added per second.
    #[expect(clippy::cast_precision_loss, reason = "a rate for display")]
    pub(super) fn per_second(&mut self, now: Instant, bytes: u64) -> f64 {
        self.0.push_back((now, bytes));
        let is_old = |it: &(Instant, u64)| now.duration_since(it.0) >= WINDOW;
        while self.0.get(1).is_some_and(is_old) {
            self.0.pop_front();
        }
        let (since, before) = self.0[0];
        let seconds = now.duration_since(since).as_secs_f64();
        if seconds > 0.0 { bytes.saturating_sub(before) as f64 / seconds } else { 0.0 }
    }
}

impl Progress {
    /// Returns the time until the disk is full at this rate. Units: seconds.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn full_in_s(&self) -> Option<f64> {
        let free = self.free_bytes? as f64;
        (self.bytes_per_s > 0.0).then(|| free / self.bytes_per_s)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate for display")]
    pub(super) fn text(&self) -> String {
        let Self { bytes, bytes_per_s, missing, not_written, .. } = self;
        let mut parts = vec![
            text::counted(self.streams as u64, "stream"),
            format!("{}/s", text::decimal_size(*bytes_per_s as u64)),
            text::decimal_size(*bytes),
            if *missing == 0 { "nothing lost".to_owned() } else { format!("{missing} elements lost") },
        ];
        if *not_written > 0 {
            parts.push(format!("{not_written} not written"));
        }
        if let Some(free) = self.free_bytes {
            let full =
                self.full_in_s().map_or_else(String::new, |it| format!(", full in {}", text::waiting(it)));
            parts.push(format!("{} free{full}", text::decimal_size(free)));
        }
        parts.join(", ")
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "event": "progress",
            "streams": self.streams,
            "bytes": self.bytes,
            "bytes_per_s": self.bytes_per_s,
            "missing": self.missing,
            "lost": {"archive_write": self.not_written},
            "free_bytes": self.free_bytes,
            "full_in_s": self.full_in_s(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_ten_seconds() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pace = Pace::new(start);
        assert_eq!(pace.per_second(start, 0), 0.0, "no time has passed");
        assert_eq!(pace.per_second(at(1), 500), 500.0);
        assert_eq!(pace.per_second(at(10), 1_000), 100.0);
        assert_eq!(pace.per_second(at(20), 1_000), 0.0, "the beginning is forgotten");
    }

    #[test]
    fn progress_says_when_the_disk_is_full_if_that_can_be_known() {
        let mut progress = Progress {
            streams: 2,
            bytes: 45_100_000,
            bytes_per_s: 1_200_000.0,
            free_bytes: Some(12_960_000_000),
            ..Progress::default()
        };
        assert_eq!(
            progress.text(),
            "2 streams, 1.20 MB/s, 45.1 MB, nothing lost, 13.0 GB free, full in 3.0 h"
        );
        assert_eq!(progress.json()["full_in_s"], 10_800.0);
        progress = Progress { missing: 7, not_written: 3, bytes_per_s: 0.0, ..progress };
        assert!(
            progress.text().contains("7 elements lost, 3 not written") && !progress.text().contains("full")
        );
        progress.free_bytes = None;
        assert_eq!(progress.json()["full_in_s"], Value::Null);
        let widest = Progress {
            bytes: 9_990_000_000_000,
            free_bytes: Some(9_990_000_000_000),
            bytes_per_s: 1e9,
            ..Progress::default()
        };
        assert!(widest.text().chars().count() < 80, "{}", widest.text());
    }
}
