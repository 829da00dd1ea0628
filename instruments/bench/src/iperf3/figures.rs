//! Amounts, rates and losses of streams and of their sums, in an interval or at the end, with iperf3's names.

use std::fmt;

use serde::Serialize;
use serde_with::skip_serializing_none;
use units::text;

use super::parameters::{Flow, Place};
use crate::report::number::per_second;

/// Figures of a stream or a sum: always a subset of these.
#[skip_serializing_none]
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(super) struct Figures {
    /// The stream; of a sum its first one.
    #[serde(skip)]
    pub(super) place: Place,
    /// Descriptor of the socket on this side.
    pub(super) socket: Option<i32>,
    /// Start, since the test, or its omitted part, began. Units: seconds.
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) seconds: f64,
    pub(super) bytes: u64,
    pub(super) bits_per_second: f64,
    /// Segments that the sender's kernel sent again, where it reports them.
    pub(super) retransmits: Option<u64>,
    pub(super) snd_cwnd: Option<u64>,
    pub(super) rtt: Option<u32>,
    pub(super) rttvar: Option<u32>,
    pub(super) pmtu: Option<u32>,
    pub(super) max_snd_cwnd: Option<u64>,
    pub(super) max_rtt: Option<u32>,
    pub(super) min_rtt: Option<u32>,
    pub(super) mean_rtt: Option<u32>,
    /// Smoothed difference of transit times; of a sum the mean.
    pub(super) jitter_ms: Option<f64>,
    /// Datagrams that became missing, less those that arrived late after all.
    pub(super) lost_packets: Option<i64>,
    /// Datagrams sent; of a receiver in an interval those that arrived or are missing.
    pub(super) packets: Option<u64>,
    pub(super) lost_percent: Option<f64>,
    pub(super) out_of_order: Option<u64>,
    /// True if the figures at the end leave this interval out.
    pub(super) omitted: Option<bool>,
    /// True if this side sends.
    pub(super) sender: bool,
}

/// Figures of all streams in an interval.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Interval {
    pub(super) streams: Vec<Figures>,
    pub(super) sum: Figures,
    pub(super) sum_bidir_reverse: Option<Figures>,
}

impl Figures {
    /// Sets time, amount and rate.
    pub(super) fn carrying(self, bytes: u64, (start, end): (f64, f64)) -> Self {
        let seconds = end - start;
        let bits_per_second = per_second(bytes, seconds) * 8.0;
        Self { start, end, seconds, bytes, bits_per_second, ..self }
    }

    /// Sets the number of datagrams, and what became of them.
    pub(super) fn losing(self, lost: i64, packets: u64, jitter_ms: f64) -> Self {
        let percent = if packets == 0 { 0.0 } else { lost as f64 / packets as f64 * 100.0 };
        Self {
            jitter_ms: Some(jitter_ms),
            lost_packets: Some(lost),
            packets: Some(packets),
            lost_percent: Some(percent),
            ..self
        }
    }

    /// Returns the sum over streams of one direction; `None` if there are none.
    fn sum(streams: &[&Self]) -> Option<Self> {
        let first = **streams.first()?;
        let total =
            |of: fn(&Self) -> Option<u64>| streams.iter().filter_map(|it| of(it)).reduce(|a, b| a + b);
        let end = streams.iter().map(|it| it.end).fold(first.end, f64::max);
        let sum = Self {
            place: first.place,
            retransmits: total(|it| it.retransmits),
            packets: total(|it| it.packets),
            out_of_order: total(|it| it.out_of_order),
            omitted: first.omitted,
            sender: first.sender,
            ..Self::default()
        };
        let sum = sum.carrying(streams.iter().map(|it| it.bytes).sum(), (first.start, end));
        let jitters_ms = streams.iter().filter_map(|it| it.jitter_ms).sum::<f64>();
        let lost = streams.iter().filter_map(|it| it.lost_packets).reduce(|a, b| a.saturating_add(b));
        Some(match (lost, sum.packets) {
            (Some(lost), Some(packets)) => sum.losing(lost, packets, jitters_ms / streams.len() as f64),
            _ => sum,
        })
    }

    /// Returns the sums over the streams of each direction: one, or the client's own and the other.
    pub(super) fn sums<'a>(streams: impl Iterator<Item = &'a Self> + Clone) -> (Self, Option<Self>) {
        let of =
            |flow: Flow| Self::sum(&streams.clone().filter(|it| it.place.flow == flow).collect::<Vec<_>>());
        match (of(Flow::ToServer), of(Flow::ToClient)) {
            (Some(own), other) => (own, other),
            (None, only) => (only.unwrap_or_default(), None),
        }
    }

    /// Returns amount and rate in words.
    pub(super) fn rate(&self) -> String {
        format!("{:>12} {:>14}", text::size(self.bytes as f64), text::rate(self.bits_per_second))
    }

    /// Returns the loss of datagrams in words; empty if it is not known.
    pub(super) fn loss(&self) -> String {
        let Self { lost_packets: Some(lost), packets: Some(packets), .. } = self else {
            return String::new();
        };
        let (percent, jitter) = (self.lost_percent.unwrap_or(0.0), self.jitter_ms.unwrap_or(0.0));
        format!("lost {lost}/{packets} datagrams ({percent:.3} %), jitter {jitter:.3} ms")
    }
}

/// Begins a line: stream, time, amount and rate.
impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "[{:3}] {:6.2}-{:<6.2} s {}", self.place.id, self.start, self.end, self.rate())
    }
}

impl Interval {
    pub(super) fn of(streams: Vec<Figures>) -> Self {
        let (sum, sum_bidir_reverse) = Figures::sums(streams.iter());
        Self { streams, sum, sum_bidir_reverse }
    }
}

/// A line for each stream. Every rate comes with its loss or retransmissions.
impl fmt::Display for Interval {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, stream) in self.streams.iter().enumerate() {
            let outcome = match (stream.packets, stream.sender) {
                (None, true) => format!("sent, {} segments again", stream.retransmits.unwrap_or(0)),
                (None, false) => "received".to_owned(),
                (Some(packets), true) => {
                    format!("sent, {packets} datagrams; the receiver reports the loss at the end")
                }
                (Some(_), false) => format!("received, {}", stream.loss()),
            };
            let omitted = if stream.omitted == Some(true) { " (omitted)" } else { "" };
            let end = if index + 1 < self.streams.len() { "\n" } else { "" };
            write!(formatter, "{stream} {outcome}{omitted}{end}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_nothing_is_nothing() {
        let percent = |lost, packets| Figures::default().losing(lost, packets, 0.0).lost_percent;
        assert_eq!((percent(1, 8), percent(0, 0)), (Some(12.5), Some(0.0)));
    }

    #[test]
    fn a_direction_has_a_sum_of_its_own() {
        let stream = |id, flow, bytes| {
            let place = Place { id, flow };
            Figures { place, sender: flow == Flow::ToServer, ..Figures::default() }
                .carrying(bytes, (1.0, 3.0))
        };
        let (up, down) = (Flow::ToServer, Flow::ToClient);
        let streams = [stream(1, up, 100), stream(3, up, 300), stream(4, down, 5).losing(1, 10, 0.5)];
        let (own, other) = Figures::sums(streams.iter());
        assert_eq!((own.bytes, own.bits_per_second, own.packets), (400, 1_600.0, None));
        assert_eq!(other, Some(streams[2]));
        assert_eq!(Figures::sums(streams[2..].iter()), (streams[2], None));
    }
}
