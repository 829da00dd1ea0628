//! Outcome of a run.

use core::iter::Sum;
use core::time::Duration;

use serde::Serialize;
use udt::Stats;

/// Outcome of a run. Means are over the time after the warm-up, counts over all of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Maximum total goodput of all flows. Units: bits per second of payload.
    pub ceiling_bits_per_s: f64,
    /// Time between the points of curves over time.
    pub step: Duration,
    /// Outcome of each flow, in the order of the run.
    pub flows: Vec<FlowOutcome>,
    /// Queueing delay of a packet at the bottleneck, mean over time.
    pub mean_queue: Duration,
    /// 95th percentile of the queueing delay over time.
    pub queue_p95: Duration,
    /// Queueing delay over time.
    pub queue_over_time: Vec<Duration>,
    /// Outcome of everything that was sent.
    pub packets: Packets,
}

/// Outcome of sent packets. Units: packets, control packets included.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Packets {
    /// Sent by the senders.
    pub sent: u64,
    /// Read by the receivers.
    pub delivered: u64,
    /// Lost at the full queue.
    pub lost_in_queue: u64,
    /// Lost elsewhere on the path.
    pub lost_on_the_way: u64,
    /// In flight at the end.
    pub in_flight: u64,
}

/// Outcome of a flow.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowOutcome {
    /// Name of the flow.
    pub name: String,
    /// Goodput at the receiver's application. Units: bits per second of payload.
    pub goodput_bits_per_s: f64,
    /// Goodput over time. Units: bits per second of payload.
    pub goodput_over_time: Vec<f64>,
    /// Packets in flight over time.
    pub window_over_time: Vec<u32>,
    /// Statistics of the sender's connection.
    pub stats: Stats,
}

impl Outcome {
    /// Returns the total goodput of all flows. Units: bits per second of payload.
    #[must_use]
    pub fn goodput_bits_per_s(&self) -> f64 {
        self.flows.iter().map(|flow| flow.goodput_bits_per_s).sum()
    }

    /// Returns the total goodput as a share of the maximum.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.goodput_bits_per_s() / self.ceiling_bits_per_s
    }

    /// Returns the share of sent packets that was lost.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.packets.lost() as f64 / self.packets.sent.max(1) as f64
    }

    /// Returns the fairness among the flows.
    #[must_use]
    pub fn jain_index(&self) -> f64 {
        jain_index(self.flows.iter().map(|flow| flow.goodput_bits_per_s))
    }
}

impl Packets {
    /// Returns the number of packets lost anywhere.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost_in_queue + self.lost_on_the_way
    }

    /// Returns whether the account closes: sent = delivered + lost + in flight.
    #[must_use]
    pub const fn balance(&self) -> bool {
        self.sent == self.delivered + self.lost() + self.in_flight
    }
}

impl Sum for Packets {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            sent: sum.sent + one.sent,
            delivered: sum.delivered + one.delivered,
            lost_in_queue: sum.lost_in_queue + one.lost_in_queue,
            lost_on_the_way: sum.lost_on_the_way + one.lost_on_the_way,
            in_flight: sum.in_flight + one.in_flight,
        })
    }
}

/// Returns Jain's fairness index of shares: 1 if all are equal, 1/n if one of n has everything.
///
/// Source: Jain, Chiu and Hawe, DEC technical report 301, 1984.
#[must_use]
pub fn jain_index(shares: impl IntoIterator<Item = f64>) -> f64 {
    let (count, sum, squares) = shares.into_iter().fold((0.0, 0.0, 0.0), |(count, sum, squares), share| {
        (count + 1.0, sum + share, squares + share * share)
    });
    if squares == 0.0 { 1.0 } else { sum * sum / (count * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_one_for_equal_shares_and_the_inverse_of_their_number_for_one_who_has_all() {
        assert_eq!(jain_index([3.0; 5]), 1.0);
        assert_eq!(jain_index([9.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain_index([0.0, 0.0]), 1.0, "nobody has anything");
    }
}
