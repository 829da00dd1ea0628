//! One direction of one node's cable, described: what it does to the datagrams that enter it.
//!
//! A [`Link`] is a plain description that may be cloned for any number of nodes and printed; `path.rs` is
//! the machine that carries it out. The effects come in this order: outage, largest datagram, placed loss, drop-tail
//! queue with marks and serialisation shared with cross traffic, random loss, bursts, corruption, delay with jitter and
//! reordering, duplication.

use core::fmt;
use core::ops::Range;
use core::time::Duration;
use std::rc::Rc;

use units::Instant;

/// Size of a datagram on the wire beyond its payload, in bytes: UDP 8, IPv4 20, and Ethernet's header, checksum,
/// preamble and gap 38.
pub const WIRE_OVERHEAD_BYTES: u64 = 66;

/// One-way delay of [`Link::lan`]: a switch and two stacks.
const LAN_DELAY: Duration = Duration::from_micros(100);

/// Conditions of one direction of a node's cable.
#[derive(Clone, Debug, Default)]
pub struct Link {
    pub(crate) delay: Duration,
    pub(crate) delay_changes: Vec<(Instant, Duration)>,
    pub(crate) jitter: Option<Jitter>,
    pub(crate) reorder: Option<HeldBack>,
    pub(crate) loss: Option<f64>,
    pub(crate) bursts: Option<Bursts>,
    pub(crate) placed: Vec<Placed>,
    pub(crate) duplicates: Option<HeldBack>,
    pub(crate) corruption: Option<(f64, Corruption)>,
    pub(crate) bottleneck: Option<Bottleneck>,
    pub(crate) rate_changes: Vec<(Instant, u64)>,
    pub(crate) cross_traffic: Option<CrossTraffic>,
    pub(crate) mark_above_bytes: Option<u64>,
    pub(crate) mtu_changes: Vec<(Instant, usize)>,
    pub(crate) outages: Vec<Range<Instant>>,
}

/// Effect of jitter on the order of datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Order {
    /// Datagrams leave in the order in which they entered, as from a queue on the path.
    #[default]
    Kept,
    /// Each datagram has its own delay, as over several parallel paths.
    Free,
}

/// What is done with a corrupted datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Corruption {
    /// It is delivered with one bit flipped, as past a checksum that did not notice.
    Delivered,
    /// It is dropped, as by a checksum.
    Dropped,
}

/// Losses in bursts: a link that changes between a good state, which loses nothing, and a bad one.
///
/// The good state's own loss of the general model is [`Link::loss`].
/// Source: Gilbert, "Capacity of a burst-noise channel", BSTJ 39, 1960; Elliott, BSTJ 42, 1963.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bursts {
    /// Probability that a burst begins at a datagram.
    pub begin: f64,
    /// Probability that the burst is over at a datagram.
    pub end: f64,
    /// Probability that a datagram inside a burst is lost.
    pub loss: f64,
}

/// Cross traffic through a bottleneck: packets that take their share of queue and rate, and go nowhere.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CrossTraffic {
    /// Rate while it is on. Units: bits per second, with all headers.
    pub rate_bits_per_s: u64,
    /// The size of each packet with all headers. Units: bytes.
    pub packet_bytes: u64,
    /// Mean lengths of its random on and off times; `None` if it never pauses.
    pub pauses: Option<(Duration, Duration)>,
}

/// A datagram at the mouth of a link, for rules that place a loss.
#[derive(Clone, Copy, Debug)]
pub struct Passing<'a> {
    /// Number of datagrams that entered this link before it.
    pub ordinal: u64,
    /// Time at which it enters.
    pub at: Instant,
    /// Its payload.
    pub bytes: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Jitter {
    pub(crate) most: Duration,
    pub(crate) order: Order,
}

/// An effect that strikes with a probability and then costs some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldBack {
    pub(crate) probability: f64,
    pub(crate) by: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bottleneck {
    pub(crate) rate_bits_per_s: u64,
    pub(crate) queue_bytes: u64,
}

/// A named rule that loses what it matches.
#[derive(Clone)]
pub(crate) struct Placed {
    name: String,
    matches: Rc<dyn Fn(&Passing<'_>) -> bool>,
}

impl Link {
    /// Makes a link that delivers everything without delay.
    #[must_use]
    pub fn ideal() -> Self {
        Self::default()
    }

    /// Makes a link with a local network's delay of 100 µs, and nothing else.
    #[must_use]
    pub fn lan() -> Self {
        Self::ideal().delay(LAN_DELAY)
    }

    /// Sets the one-way delay.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Changes the delay from `at` on, like a change of path; datagrams on a shorter path overtake those on the
    /// longer one.
    #[must_use]
    pub fn delay_from(mut self, at: Instant, delay: Duration) -> Self {
        self.delay_changes.push((at, delay));
        self.delay_changes.sort_by_key(|(at, _)| *at);
        self
    }

    /// Adds between nothing and `most` to each datagram's delay, each equally likely.
    #[must_use]
    pub fn jitter(mut self, most: Duration, order: Order) -> Self {
        self.jitter = Some(Jitter { most, order });
        self
    }

    /// Delays some datagrams by `by`, so that later ones overtake them.
    #[must_use]
    pub fn reorder(mut self, probability: f64, by: Duration) -> Self {
        self.reorder = Some(HeldBack { probability: checked(probability), by });
        self
    }

    /// Loses datagrams at random, independently of each other.
    #[must_use]
    pub fn loss(mut self, probability: f64) -> Self {
        self.loss = Some(checked(probability));
        self
    }

    /// Loses datagrams in bursts.
    #[must_use]
    pub fn bursts(mut self, bursts: Bursts) -> Self {
        for probability in [bursts.begin, bursts.end, bursts.loss] {
            checked(probability);
        }
        self.bursts = Some(bursts);
        self
    }

    /// Loses exactly the datagrams with these ordinals, counted from 0 at the mouth of this link.
    #[must_use]
    pub fn lose(self, ordinals: impl Into<Vec<u64>>) -> Self {
        let mut ordinals: Vec<u64> = ordinals.into();
        ordinals.sort_unstable();
        let name = format!("ordinals {ordinals:?}");
        self.lose_when(&name, move |passing| ordinals.binary_search(&passing.ordinal).is_ok())
    }

    /// Loses exactly the datagrams that `rule` matches; `name` is printed for the rule.
    #[must_use]
    pub fn lose_when(mut self, name: &str, rule: impl Fn(&Passing<'_>) -> bool + 'static) -> Self {
        self.placed.push(Placed { name: name.to_owned(), matches: Rc::new(rule) });
        self
    }

    /// Delivers some datagrams a second time, `after` the first.
    #[must_use]
    pub fn duplicate(mut self, probability: f64, after: Duration) -> Self {
        self.duplicates = Some(HeldBack { probability: checked(probability), by: after });
        self
    }

    /// Flips one random bit of the payload of some datagrams; a duplicate's second copy is unchanged.
    #[must_use]
    pub fn corrupt(mut self, probability: f64, corruption: Corruption) -> Self {
        self.corruption = Some((checked(probability), corruption));
        self
    }

    /// Makes the link a bottleneck with a drop-tail queue.
    ///
    /// Units: `queue_bytes` on the wire ([`WIRE_OVERHEAD_BYTES`] each beyond the payload), waiting or in
    /// transmission.
    ///
    /// # Panics
    /// If the rate is zero: that is an outage.
    #[must_use]
    pub fn rate(mut self, rate_bits_per_s: u64, queue_bytes: u64) -> Self {
        assert!(rate_bits_per_s > 0, "a link without any rate is an outage; use `outage`");
        self.bottleneck = Some(Bottleneck { rate_bits_per_s, queue_bytes });
        self
    }

    /// Changes the bottleneck's rate from `at` on, like a change of path or a modem; needs a [`rate`](Self::rate).
    ///
    /// # Panics
    /// If the rate is zero: that is an outage.
    #[must_use]
    pub fn rate_from(mut self, at: Instant, rate_bits_per_s: u64) -> Self {
        assert!(rate_bits_per_s > 0, "a link without any rate is an outage; use `outage`");
        self.rate_changes.push((at, rate_bits_per_s));
        self.rate_changes.sort_by_key(|(at, _)| *at);
        self
    }

    /// Adds cross traffic through the bottleneck; needs a [`rate`](Self::rate).
    #[must_use]
    pub fn cross_traffic(mut self, others: CrossTraffic) -> Self {
        self.cross_traffic = Some(others);
        self
    }

    /// Marks datagrams that find more than this in the bottleneck's queue, like ECN; needs a [`rate`](Self::rate).
    ///
    /// Source: RFC 3168, with a threshold on the momentary queue.
    #[must_use]
    pub fn mark_above(mut self, queue_bytes: u64) -> Self {
        self.mark_above_bytes = Some(queue_bytes);
        self
    }

    /// Loses payloads longer than this, like a path that neither fragments nor reports.
    #[must_use]
    pub fn mtu(self, payload_bytes: usize) -> Self {
        self.mtu_from(Instant::ORIGIN, payload_bytes)
    }

    /// Changes the largest payload from `at` on.
    #[must_use]
    pub fn mtu_from(mut self, at: Instant, payload_bytes: usize) -> Self {
        self.mtu_changes.push((at, payload_bytes));
        self.mtu_changes.sort_by_key(|(at, _)| *at);
        self
    }

    /// Loses everything that enters in this span of time.
    #[must_use]
    pub fn outage(mut self, span: Range<Instant>) -> Self {
        self.outages.push(span);
        self
    }

    /// Returns whether every datagram leaves in the nanosecond in which it enters.
    pub(crate) fn is_immediate(&self) -> bool {
        self.delay.is_zero()
            && self.delay_changes.is_empty()
            && self.jitter.is_none()
            && self.reorder.is_none()
            && self.bottleneck.is_none()
    }
}

impl Bursts {
    /// Makes bursts that lose everything inside, `share` of all datagrams in the long run.
    ///
    /// # Panics
    /// If `share` is not in `[0, 1)`, or a burst is shorter than one datagram.
    #[must_use]
    pub fn of(share: f64, mean_datagrams: f64) -> Self {
        assert!(
            (0.0..1.0).contains(&share),
            "a share of {share} cannot be lost in bursts; it must be below 1"
        );
        assert!(mean_datagrams >= 1.0, "a burst has at least one datagram, not {mean_datagrams}");
        let end = 1.0 / mean_datagrams;
        Self { begin: checked(end * share / (1.0 - share)), end, loss: 1.0 }
    }
}

impl CrossTraffic {
    /// Makes packets of 1,500 bytes with Ethernet's frame that arrive independently of each other, `rate_bits_per_s` on
    /// average.
    #[must_use]
    pub const fn poisson(rate_bits_per_s: u64) -> Self {
        Self { rate_bits_per_s, packet_bytes: 1_538, pauses: None }
    }

    /// Adds pauses: on for `on` and off for `off` on average, both exponentially distributed.
    #[must_use]
    pub const fn with_pauses(mut self, on: Duration, off: Duration) -> Self {
        self.pauses = Some((on, off));
        self
    }
}

impl Placed {
    pub(crate) fn matches(&self, passing: &Passing<'_>) -> bool {
        (self.matches)(passing)
    }
}

fn checked(probability: f64) -> f64 {
    assert!((0.0..=1.0).contains(&probability), "{probability} is not a probability from 0 to 1");
    probability
}

impl fmt::Debug for Placed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Placed({})", self.name)
    }
}

impl fmt::Display for Link {
    /// Writes the link as a list of what it does: `100µs, loss 0.003, reorder 0.01 by 2ms`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.delay)?;
        for (at, delay) in &self.delay_changes {
            write!(formatter, ", {delay:?} from {at:?}")?;
        }
        if let Some(Bottleneck { rate_bits_per_s, queue_bytes }) = self.bottleneck {
            write!(formatter, ", {rate_bits_per_s} bit/s with {queue_bytes} B of queue")?;
        }
        for (at, rate) in &self.rate_changes {
            write!(formatter, ", {rate} bit/s from {at:?}")?;
        }
        if let Some(CrossTraffic { rate_bits_per_s, packet_bytes, pauses }) = self.cross_traffic {
            write!(formatter, ", cross traffic of {rate_bits_per_s} bit/s in packets of {packet_bytes} B")?;
            if let Some((on, off)) = pauses {
                write!(formatter, " on {on:?} off {off:?}")?;
            }
        }
        if let Some(bytes) = self.mark_above_bytes {
            write!(formatter, ", marks above {bytes} B")?;
        }
        for (at, bytes) in &self.mtu_changes {
            write!(formatter, ", at most {bytes} B")?;
            if *at > Instant::ORIGIN {
                write!(formatter, " from {at:?}")?;
            }
        }
        if let Some(Jitter { most, order }) = self.jitter {
            let order = if order == Order::Kept { "in order" } else { "in any order" };
            write!(formatter, ", jitter {most:?} {order}")?;
        }
        if let Some(HeldBack { probability, by }) = self.reorder {
            write!(formatter, ", reorder {probability} by {by:?}")?;
        }
        if let Some(probability) = self.loss {
            write!(formatter, ", loss {probability}")?;
        }
        if let Some(Bursts { begin, end, loss }) = self.bursts {
            write!(formatter, ", bursts begin {begin} end {end} loss {loss}")?;
        }
        for placed in &self.placed {
            write!(formatter, ", lose {}", placed.name)?;
        }
        if let Some((probability, corruption)) = self.corruption {
            let outcome = if corruption == Corruption::Delivered { "delivered" } else { "dropped" };
            write!(formatter, ", corrupt {probability} {outcome}")?;
        }
        if let Some(HeldBack { probability, by }) = self.duplicates {
            write!(formatter, ", duplicate {probability} after {by:?}")?;
        }
        for outage in &self.outages {
            write!(formatter, ", outage {:?} to {:?}", outage.start, outage.end)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_prints_what_it_does() {
        let link = Link::lan().loss(0.003).reorder(0.01, Duration::from_millis(2)).lose([7, 3]);
        assert_eq!(link.to_string(), "100µs, reorder 0.01 by 2ms, loss 0.003, lose ordinals [3, 7]");
    }

    #[test]
    fn bursts_of_a_share_balance_their_two_states() {
        let bursts = Bursts::of(0.2, 4.0);
        assert_eq!(bursts.end, 0.25);
        assert!((bursts.begin / (bursts.begin + bursts.end) - 0.2).abs() < 1e-12);
    }

    #[test]
    #[should_panic(expected = "is not a probability")]
    fn percent_are_not_taken_for_a_probability() {
        let _ = Link::lan().loss(1.5);
    }
}
