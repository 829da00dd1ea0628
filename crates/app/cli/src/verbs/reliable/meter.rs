//! Progress of one transfer: written by the thread that moves the data, read by the one that shows it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tallycast::udt::{Connection, Stats};
use transfer::Notice;
use units::text;

/// Progress of one transfer, over all its connections.
#[derive(Debug)]
pub(crate) struct Meter {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The streams of the connection; none while there is none.
    streams: Vec<Arc<Connection>>,
    /// Statistics of the closed connections.
    last_stats: Option<Stats>,
    began: Instant,
    /// Time at which data last arrived or left.
    news: Instant,
    /// True once the other end has answered with its missing parts over this connection.
    is_answered: bool,
    /// Data carried by the connection at the last check.
    carried: u64,
    /// Total size offered, if known. Units: bytes.
    total_bytes: Option<u64>,
    /// Size already present at the receiver. Units: bytes.
    done_bytes: u64,
    /// Size moved. Units: bytes.
    moved_bytes: u64,
    /// Files that were begun and not finished.
    begun: BTreeSet<String>,
    /// True once the invalid values of the congestion control were reported.
    is_absurdity_told: bool,
    /// Base of the rate: time, and the size moved by then.
    last: (Instant, u64),
}

/// Progress at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    total_bytes: Option<u64>,
    done_bytes: u64,
    bits_per_s: f64,
    stats: Option<Stats>,
}

impl Meter {
    /// Begins to measure.
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        let state = State {
            streams: Vec::new(),
            last_stats: None,
            began: now,
            news: now,
            is_answered: false,
            carried: 0,
            total_bytes: None,
            done_bytes: 0,
            moved_bytes: 0,
            begun: BTreeSet::new(),
            is_absurdity_told: false,
            last: (now, 0),
        };
        Self { state: Mutex::new(state) }
    }

    /// Goes on over a connection of one or several streams.
    pub(crate) fn connected(&self, streams: &[Arc<Connection>]) {
        let mut state = self.state();
        state.streams = streams.to_vec();
        state.is_answered = false;
    }

    /// Lets go of the connection.
    pub(crate) fn part(&self) {
        let mut state = self.state();
        let stats = state.stats();
        state.streams.clear();
        state.last_stats = stats.or(state.last_stats);
    }

    /// Returns the statistics of the last connection, if still available.
    pub(crate) fn stats(&self) -> Option<Stats> {
        let state = self.state();
        state.stats().or(state.last_stats)
    }

    /// Counts what happens.
    pub(crate) fn notice(&self, notice: &Notice<'_>) {
        let mut state = self.state();
        // An offer does not show that the other end is alive; every other notice does.
        if !matches!(notice, Notice::Listed { .. }) {
            state.news = Instant::now();
            state.is_answered = true;
        }
        match notice {
            Notice::Listed { bytes, .. } => {
                let total = *state.total_bytes.get_or_insert(*bytes);
                state.done_bytes = total.saturating_sub(*bytes);
                state.begun.clear();
            }
            Notice::Began { path, from, .. } => {
                state.begun.insert((*path).to_owned());
                state.done_bytes += from;
            }
            Notice::Moved { bytes } => {
                state.done_bytes += bytes;
                state.moved_bytes += bytes;
            }
            Notice::Ended { path, bytes, .. } => {
                let is_begun = state.begun.remove(*path);
                state.done_bytes += if is_begun { 0 } else { *bytes };
            }
            _ => {}
        }
    }

    /// Counts what was moved of something that has no list.
    pub(crate) fn moved(&self, bytes: usize) {
        self.notice(&Notice::Moved { bytes: bytes as u64 });
    }

    /// Returns the number of invalid requests of the congestion control, the first time that there are any.
    pub(crate) fn take_absurdity(&self) -> Option<u64> {
        let count = self.stats().map_or(0, |stats| stats.absurd_policies);
        self.absurdity(count)
    }

    fn absurdity(&self, count: u64) -> Option<u64> {
        let is_news = count > 0 && !std::mem::replace(&mut self.state().is_absurdity_told, count > 0);
        is_news.then_some(count)
    }

    /// Returns a number that changes when the connection has carried something: data that arrived, or that were sent
    /// for the first time or acknowledged. Retransmissions do not change it. Until the other end has answered it
    /// stays unchanged: any UDT listener at the port acknowledges a greeting.
    pub(crate) fn carried(&self) -> u64 {
        let carried = self.stats().map_or(0, |stats| {
            stats.received_bytes.wrapping_add(stats.sent_bytes).wrapping_sub(stats.queued_bytes)
        });
        let mut state = self.state();
        let is_news = carried != std::mem::replace(&mut state.carried, carried);
        if is_news && state.is_answered {
            state.news = Instant::now();
        }
        carried
    }

    /// Returns the time since data last arrived or left.
    pub(crate) fn idle(&self) -> Duration {
        self.state().news.elapsed()
    }

    /// Returns what was moved, and how long that took. Units: bytes.
    pub(crate) fn sum(&self) -> (u64, Duration) {
        let state = self.state();
        (state.moved_bytes, state.began.elapsed())
    }

    /// Reads it; the rate is that since the last reading.
    #[expect(clippy::cast_precision_loss, reason = "a rate for display")]
    pub(crate) fn read(&self) -> Reading {
        let mut state = self.state();
        let stats = state.stats();
        // Data in the local send buffer have not been moved yet.
        let queued = stats.map_or(0, |stats| stats.queued_bytes);
        let moved = state.moved_bytes.saturating_sub(queued);
        let now = Instant::now();
        let (then, before) = std::mem::replace(&mut state.last, (now, moved));
        let seconds = (now - then).as_secs_f64().max(1e-3);
        let bits_per_s = moved.saturating_sub(before) as f64 * 8.0 / seconds;
        let done_bytes = state.done_bytes.saturating_sub(queued);
        let done_bytes = state.total_bytes.map_or(done_bytes, |total| done_bytes.min(total));
        Reading { total_bytes: state.total_bytes, done_bytes, bits_per_s, stats: stats.or(state.last_stats) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the statistics of all streams together.
    fn stats(&self) -> Option<Stats> {
        self.streams.iter().filter_map(|stream| stream.stats()).reduce(|one, other| both(&one, &other))
    }
}

/// Adds the counters of two streams; the round trip is the longer one.
fn both(one: &Stats, other: &Stats) -> Stats {
    Stats {
        sent_packets: one.sent_packets + other.sent_packets,
        sent_bytes: one.sent_bytes + other.sent_bytes,
        retransmitted_packets: one.retransmitted_packets + other.retransmitted_packets,
        lost_packets: one.lost_packets + other.lost_packets,
        received_packets: one.received_packets + other.received_packets,
        received_bytes: one.received_bytes + other.received_bytes,
        duplicate_packets: one.duplicate_packets + other.duplicate_packets,
        missing_packets: one.missing_packets + other.missing_packets,
        refused_packets: one.refused_packets + other.refused_packets,
        impossible_packets: one.impossible_packets + other.impossible_packets,
        timeouts: one.timeouts + other.timeouts,
        absurd_policies: one.absurd_policies + other.absurd_policies,
        queued_bytes: one.queued_bytes + other.queued_bytes,
        in_flight_packets: one.in_flight_packets + other.in_flight_packets,
        window_packets: one.window_packets.saturating_add(other.window_packets),
        round_trip: one.round_trip.max(other.round_trip),
        ..*one
    }
}

impl Reading {
    /// Adds another transfer, for a line that shows their sum.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            total_bytes: self.total_bytes.zip(other.total_bytes).map(|(one, two)| one + two),
            done_bytes: self.done_bytes + other.done_bytes,
            bits_per_s: self.bits_per_s + other.bits_per_s,
            stats: None,
        }
    }

    /// Formats it as text.
    pub(crate) fn text(&self) -> String {
        let mut told = text::decimal_size(self.done_bytes);
        if let Some(total) = self.total_bytes {
            told = format!("{told} of {}", text::decimal_size(total));
        }
        told = format!("{told}, {}", text::rate(self.bits_per_s));
        if let Some(stats) = &self.stats {
            let round_trip = text::seconds(stats.round_trip.as_secs_f64());
            told = format!("{told}, {:.3} % lost, RTT {round_trip}", loss(stats) * 100.0);
        }
        match self.left_s() {
            Some(left) => format!("{told}, {} left", text::waiting(left)),
            None => told,
        }
    }

    /// Formats it as JSON.
    pub(crate) fn to_json(self, peer: &str) -> Value {
        json!({
            "event": "progress",
            "peer": peer,
            "done_bytes": self.done_bytes,
            "total_bytes": self.total_bytes,
            "bits_per_second": self.bits_per_s.round(),
            "left_s": self.left_s().map(f64::round),
            "transport": self.stats.as_ref().map(transport_json),
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds for display")]
    fn left_s(&self) -> Option<f64> {
        let left_bytes = self.total_bytes?.saturating_sub(self.done_bytes);
        (self.bits_per_s > 0.0).then(|| left_bytes as f64 * 8.0 / self.bits_per_s)
    }
}

/// Returns the warning that a congestion control requests invalid values.
pub(crate) fn absurdity_text(count: u64) -> String {
    format!(
        "warning: the congestion control asked {count} times for what cannot be obeyed, such as a window of nothing: \
         it got the nearest that can\nlook at its options, or take another with cc="
    )
}

/// Returns the same warning as JSON.
pub(crate) fn absurdity_json(peer: &str, count: u64) -> Value {
    json!({"event": "absurd_control", "peer": peer, "absurd_policies": count})
}

/// Returns the share of lost packets, as seen at either end.
#[expect(clippy::cast_precision_loss, reason = "a ratio for display")]
fn loss(stats: &Stats) -> f64 {
    let new = stats.sent_packets - stats.retransmitted_packets;
    let all = (new + stats.received_packets).max(1);
    (stats.lost_packets + stats.missing_packets) as f64 / all as f64
}

/// Returns what the transport has done as JSON.
pub(crate) fn transport_json(stats: &Stats) -> Value {
    json!({
        "sent_packets": stats.sent_packets,
        "retransmitted_packets": stats.retransmitted_packets,
        "lost_packets": stats.lost_packets,
        "received_packets": stats.received_packets,
        "duplicate_packets": stats.duplicate_packets,
        "missing_packets": stats.missing_packets,
        "refused_packets": stats.refused_packets,
        "impossible_packets": stats.impossible_packets,
        "timeouts": stats.timeouts,
        "absurd_policies": stats.absurd_policies,
        "loss": loss(stats),
        "round_trip_ms": stats.round_trip.as_secs_f64() * 1e3,
        "in_flight_packets": stats.in_flight_packets,
        "window_packets": stats.window_packets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use transfer::Outcome;

    #[test]
    fn what_is_done_is_counted_once() {
        let meter = Meter::new();
        meter.notice(&Notice::Listed { entries: 3, bytes: 600 });
        meter.notice(&Notice::Began { path: "a", from: 50, bytes: 100 });
        meter.notice(&Notice::Moved { bytes: 50 });
        meter.notice(&Notice::Began { path: "b", from: 0, bytes: 300 });
        meter.notice(&Notice::Moved { bytes: 100 });
        meter.notice(&Notice::Ended { path: "a", bytes: 100, outcome: &Outcome::Delivered });
        meter.notice(&Notice::Ended { path: "c", bytes: 200, outcome: &Outcome::AlreadyThere });
        assert_eq!((meter.read().done_bytes, meter.sum().0), (400, 150));
        // Another connection: of the second file 100 bytes are there.
        meter.notice(&Notice::Listed { entries: 1, bytes: 300 });
        meter.notice(&Notice::Began { path: "b", from: 100, bytes: 300 });
        let reading = meter.read();
        assert_eq!((reading.done_bytes, reading.total_bytes), (400, Some(600)));
        assert!(reading.text().starts_with("400 B of 600 B, "), "{}", reading.text());
    }

    #[test]
    fn a_control_that_asks_for_nonsense_is_told_once() {
        let meter = Meter::new();
        assert_eq!(meter.take_absurdity(), None);
        assert_eq!([0, 0, 7, 9].map(|count| meter.absurdity(count)), [None, None, Some(7), None]);
        assert_eq!(
            absurdity_text(7),
            "warning: the congestion control asked 7 times for what cannot be obeyed, such as \
             a window of nothing: it got the nearest that can\nlook at its options, or take another with cc="
        );
    }
}
