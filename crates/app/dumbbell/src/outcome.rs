//! The outcome of a run.

use core::time::Duration;

use udt::Stats;

/// The outcome of a run. Means are over the time after the warm-up, counts over all of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// What all flows together could have got at most. Units: bits per second of payload.
    pub ceiling_bits_per_s: f64,
    /// How far apart the points of curves over time are.
    pub step: Duration,
    /// What each flow got, in the order of the run.
    pub flows: Vec<FlowOutcome>,
    /// How long a packet would have waited before the bottleneck, in the mean over time.
    pub mean_queue: Duration,
    /// And in all but the worst twentieth of the time.
    pub queue_p95: Duration,
    /// The same over time.
    pub queue_over_time: Vec<Duration>,
    /// What the senders sent, control packets included.
    pub sent_packets: u64,
    /// What of it the receivers read.
    pub delivered_packets: u64,
    /// What of it found the queue full.
    pub lost_in_queue_packets: u64,
    /// What else of it was lost.
    pub lost_on_the_way_packets: u64,
    /// What was still on its way at the end.
    pub in_flight_packets: u64,
}

/// What a flow got.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowOutcome {
    /// What it is called.
    pub name: String,
    /// What its receiver's application read. Units: bits per second of payload.
    pub goodput_bits_per_s: f64,
    /// The same over time.
    pub goodput_over_time: Vec<f64>,
    /// What it had on its way. Units: packets.
    pub window_over_time: Vec<u32>,
    /// What its sender's connection counted.
    pub stats: Stats,
}

impl Outcome {
    /// Returns what all flows got together. Units: bits per second of payload.
    #[must_use]
    pub fn goodput_bits_per_s(&self) -> f64 {
        self.flows.iter().map(|flow| flow.goodput_bits_per_s).sum()
    }

    /// Returns what they got of what they could have got.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        self.goodput_bits_per_s() / self.ceiling_bits_per_s
    }

    /// Returns how much was lost, wherever.
    #[must_use]
    pub const fn lost_packets(&self) -> u64 {
        self.lost_in_queue_packets + self.lost_on_the_way_packets
    }

    /// Returns which part of what was sent was lost.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.lost_packets() as f64 / self.sent_packets.max(1) as f64
    }

    /// Returns how evenly the flows shared.
    #[must_use]
    pub fn jain_index(&self) -> f64 {
        jain_index(self.flows.iter().map(|flow| flow.goodput_bits_per_s))
    }
}

/// Returns how even shares are: 1 if all are equal, 1/n if one of n has everything.
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
