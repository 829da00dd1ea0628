//! Conditions of one direction of the path, in the values that people give.
//!
//! [`Conditions::link`] converts them into a link of the virtual network.

use core::ops::Range;
use core::time::Duration;

use sim::{Bursts, Corruption, Link, Order};
use units::Instant;

/// Size of the IPv4 and UDP headers of a packet: [`Conditions::largest_packet_bytes`] includes them, the machine
/// does not. Source: RFC 791 without options, RFC 768.
pub(crate) const HEADER_BYTES: usize = 28;

/// Minimum default queue before a bottleneck: ten full Ethernet packets. Units: bytes.
const LEAST_QUEUE_BYTES: u64 = 15_380;
/// Minimum drain time of the default queue.
const LEAST_QUEUE_TIME: Duration = Duration::from_millis(10);

/// Effects of one direction of the path on the datagrams that enter it. The default has none.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Conditions {
    /// Rate of the bottleneck, with all headers down to Ethernet; unlimited if absent.
    pub rate_bits_per_s: Option<u64>,
    /// Drop-tail queue before it; if absent, what the rate carries in twice the delay, 10 ms at least.
    pub queue_bytes: Option<u64>,
    /// One-way delay.
    pub delay: Duration,
    /// Maximum additional delay, uniformly distributed.
    pub jitter: Duration,
    /// Order of datagrams under jitter.
    pub order: Order,
    /// Probability of the independent loss of each datagram.
    pub loss: f64,
    /// Burst losses: their share of all datagrams, and their mean length in datagrams.
    pub bursts: Option<(f64, f64)>,
    /// Numbers of datagrams to lose, counted from 0.
    pub placed: Vec<u64>,
    /// Probability that a datagram is held back, and by how much.
    pub reorder: Option<(f64, Duration)>,
    /// Probability of a second copy, and its delay after the first.
    pub duplicate: Option<(f64, Duration)>,
    /// Probability of a flipped bit, which a checksum finds.
    pub corruption: f64,
    /// Largest packet that passes, with IP and UDP headers; larger ones vanish without an ICMP message.
    pub largest_packet_bytes: Option<usize>,
    /// Outages in which nothing passes, relative to the start.
    pub outages: Vec<Range<Duration>>,
}

/// Reason why conditions are invalid.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionsError {
    /// A probability outside 0 to 1.
    #[error("{0} is not a probability from 0 to 1")]
    Probability(f64),
    /// Burst losses out of range.
    #[error(
        "burst loss of {share} with a mean length of {mean} is out of range\ngive a share below 1 and a length of at least 1, such as 1%:4"
    )]
    Bursts {
        /// Share of datagrams lost.
        share: f64,
        /// Mean length of a burst. Units: datagrams.
        mean: f64,
    },
    /// A rate of zero.
    #[error("a rate of 0 bit/s lets nothing through\nuse an outage for a time without traffic")]
    NoRate,
    /// A queue without a rate.
    #[error("a queue of {0} bytes needs a rate\ngive a rate too")]
    QueueWithoutRate(u64),
    /// An outage that ends before it begins.
    #[error("an outage from {from:?} to {to:?} has no duration")]
    Outage {
        /// Start of the outage.
        from: Duration,
        /// End of the outage.
        to: Duration,
    },
}

impl Conditions {
    /// Creates the link of the virtual network with these conditions.
    ///
    /// # Errors
    /// [`ConditionsError`] names the invalid condition.
    pub fn link(&self) -> Result<Link, ConditionsError> {
        self.check()?;
        let mut link = Link::ideal().delay(self.delay);
        if let Some(rate) = self.rate_bits_per_s {
            link = link.rate(rate, self.queue_bytes.unwrap_or_else(|| self.usual_queue_bytes(rate)));
        }
        if !self.jitter.is_zero() {
            link = link.jitter(self.jitter, self.order);
        }
        if self.loss > 0.0 {
            link = link.loss(self.loss);
        }
        if let Some((share, mean)) = self.bursts {
            link = link.bursts(Bursts::of(share, mean));
        }
        if !self.placed.is_empty() {
            link = link.lose(self.placed.clone());
        }
        if let Some((probability, by)) = self.reorder {
            link = link.reorder(probability, by);
        }
        if let Some((probability, after)) = self.duplicate {
            link = link.duplicate(probability, after);
        }
        if self.corruption > 0.0 {
            link = link.corrupt(self.corruption, Corruption::Dropped);
        }
        if let Some(bytes) = self.largest_packet_bytes {
            link = link.mtu(bytes.saturating_sub(HEADER_BYTES));
        }
        let at = |time| Instant::ORIGIN + time;
        Ok(self.outages.iter().fold(link, |link, span| link.outage(at(span.start)..at(span.end))))
    }

    fn check(&self) -> Result<(), ConditionsError> {
        let of_pairs =
            [self.reorder, self.duplicate].into_iter().flatten().map(|(probability, _)| probability);
        let mut probabilities = of_pairs.chain([self.loss, self.corruption]);
        if let Some(wrong) = probabilities.find(|it| !(0.0..=1.0).contains(it)) {
            return Err(ConditionsError::Probability(wrong));
        }
        if let Some((share, mean)) = self.bursts
            && !((0.0..1.0).contains(&share) && mean >= 1.0 && share / (1.0 - share) <= mean)
        {
            return Err(ConditionsError::Bursts { share, mean });
        }
        match (self.rate_bits_per_s, self.queue_bytes) {
            (Some(0), _) => return Err(ConditionsError::NoRate),
            (None, Some(bytes)) => return Err(ConditionsError::QueueWithoutRate(bytes)),
            _ => {}
        }
        let empty = self.outages.iter().find(|span| span.is_empty());
        empty.map_or(Ok(()), |span| Err(ConditionsError::Outage { from: span.start, to: span.end }))
    }

    /// Returns the default queue: a bandwidth-delay product, as far as one direction knows it. One flow needs it to
    /// keep the bottleneck busy.
    fn usual_queue_bytes(&self, rate_bits_per_s: u64) -> u64 {
        let nanos = (self.delay * 2).max(LEAST_QUEUE_TIME).as_nanos();
        let bytes = u128::from(rate_bits_per_s) * nanos / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX).max(LEAST_QUEUE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn conditions_become_the_link_that_does_them() {
        let conditions = Conditions {
            rate_bits_per_s: Some(100_000_000),
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(1),
            order: Order::Free,
            loss: 0.01,
            bursts: Some((0.5, 4.0)),
            placed: vec![42, 17],
            reorder: Some((0.1, Duration::from_millis(2))),
            duplicate: Some((0.2, Duration::ZERO)),
            corruption: 0.03,
            largest_packet_bytes: Some(1_500),
            outages: vec![SECOND..2 * SECOND],
            ..Conditions::default()
        };
        assert_eq!(
            conditions.link().unwrap().to_string(),
            "10ms, 100000000 bit/s with 250000 B of queue, at most 1472 B, jitter 1ms in any order, \
             reorder 0.1 by 2ms, loss 0.01, bursts begin 0.25 end 0.25 loss 1, lose ordinals [17, 42], \
             corrupt 0.03 dropped, duplicate 0.2 after 0ns, outage 1.000000000s to 2.000000000s"
        );
        assert_eq!(Conditions::default().link().unwrap().to_string(), "0ns");
    }

    #[test]
    fn a_queue_that_is_not_given_holds_a_round_trip_and_some_packets_at_least() {
        let queue = |rate, millis| {
            Conditions { delay: Duration::from_millis(millis), ..Conditions::default() }
                .usual_queue_bytes(rate)
        };
        assert_eq!(
            [queue(8_000_000, 100), queue(80_000_000, 0), queue(64_000, 0)],
            [200_000, 100_000, 15_380]
        );
    }

    #[test]
    fn what_no_link_does_is_refused() {
        let usual = Conditions::default;
        let refused = |conditions: Conditions| conditions.link().unwrap_err();
        assert_eq!(refused(Conditions { loss: 1.1, ..usual() }), ConditionsError::Probability(1.1));
        let reorder = Some((-0.1, SECOND));
        assert_eq!(refused(Conditions { reorder, ..usual() }), ConditionsError::Probability(-0.1));
        for bursts in [(1.0, 4.0), (0.1, 0.9), (0.9, 2.0)] {
            let refused = refused(Conditions { bursts: Some(bursts), ..usual() });
            assert_eq!(refused, ConditionsError::Bursts { share: bursts.0, mean: bursts.1 });
        }
        assert_eq!(refused(Conditions { rate_bits_per_s: Some(0), ..usual() }), ConditionsError::NoRate);
        let queue_bytes = Some(9);
        assert_eq!(refused(Conditions { queue_bytes, ..usual() }), ConditionsError::QueueWithoutRate(9));
        let outages = vec![SECOND..SECOND];
        assert!(matches!(refused(Conditions { outages, ..usual() }), ConditionsError::Outage { .. }));
    }
}
