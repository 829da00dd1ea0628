//! A link in operation: takes datagrams in, and decides the outcome and exit time of each.
//!
//! It is a pure machine: the virtual network drives it, and so does a relay in real time, which reproduces the same
//! results with the same link and seed.
//!
//! Every effect that is switched on draws the same number of random numbers for every datagram from its own stream,
//! independently of the other effects. So switching one effect on never moves another;
//! `tests/network/determinism.rs` proves it. Start with [`Path::pass`].

use core::time::Duration;
use std::collections::VecDeque;

use units::{Instant, Random};

use crate::link::{Bottleneck, Bursts, Corruption, CrossTraffic, Link, Order, Passing, WIRE_OVERHEAD_BYTES};
use crate::log::LostBy;

const BIT_NANOS_PER_SECOND: u128 = 8_000_000_000;

/// A link with its state and its streams of chance.
///
/// ```
/// use core::time::Duration;
/// use sim::{Link, LostBy, Path};
/// use units::Instant;
///
/// let link = Link::ideal().rate(8_000_000, 3_000).delay(Duration::from_millis(10));
/// let mut path = Path::new(link, 7, "forward");
/// let mut pass = || path.pass(Instant::ORIGIN, &[0; 934]).original;
/// // A thousand bytes on the wire take a millisecond at 8 Mbit/s; the fourth finds no room.
/// assert_eq!(pass().unwrap().due, Instant::from_nanos(11_000_000));
/// assert_eq!(pass().unwrap().due, Instant::from_nanos(12_000_000));
/// assert_eq!(pass().unwrap().due, Instant::from_nanos(13_000_000));
/// assert_eq!(pass(), Err(LostBy::Queue));
/// ```
pub struct Path {
    link: Link,
    entered: u64,
    transmitter: Option<Transmitter>,
    loss: Option<Dice>,
    bursts: Option<BurstState>,
    corruption: Option<Dice>,
    duplicates: Option<Dice>,
    reorder: Option<Dice>,
    jitter: Option<Random>,
    /// Exit time of the last datagram in order; order-keeping jitter does not go below it.
    latest_due: Instant,
    immediate: bool,
}

/// Result of passing one datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passage {
    /// Exit of the datagram, unless it is lost.
    pub original: Result<Exit, LostBy>,
    /// Exit time of a second copy.
    pub duplicate: Option<Instant>,
}

/// The far end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit {
    /// Exit time of the datagram.
    pub due: Instant,
    /// Marks and damage from the path.
    pub wear: Wear,
}

/// Marks and damage of a datagram from its path.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Wear {
    /// The bit that was flipped.
    pub damage: Option<Damage>,
    /// True if a long queue on the path marked it.
    pub is_marked: bool,
}

/// The bit of a payload that was flipped, counted from the first byte's lowest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damage(u32);

/// Random numbers for one datagram, drawn before anything is decided.
struct Draw {
    lost: bool,
    lost_in_burst: bool,
    damage: Option<Damage>,
    duplicated: bool,
    held_back: bool,
    jitter: Duration,
}

struct Dice {
    probability: f64,
    random: Random,
}

struct BurstState {
    model: Bursts,
    random: Random,
    inside: bool,
}

/// The sending side of a bottleneck: what has not fully left yet, first to leave first.
struct Transmitter {
    bottleneck: Bottleneck,
    rate_changes: Vec<(Instant, u64)>,
    others: Option<Others>,
    leaving: VecDeque<(Instant, u64)>,
    held_bytes: u64,
    busy_until: Instant,
    /// Remainder of integer division, in bit-nanoseconds per second, so that rate errors do not accumulate.
    remainder: u128,
}

/// Cross traffic in operation: its packets are generated only when other datagrams arrive, because none observes them.
struct Others {
    model: CrossTraffic,
    random: Random,
    next: Instant,
    /// End of its current on time, if it pauses at all.
    on_until: Option<Instant>,
}

impl Path {
    /// Makes the path; `name` separates its random streams from those of the other links of the seed.
    #[must_use]
    pub fn new(link: Link, seed: u64, name: &str) -> Self {
        let stream = |effect: &str| Random::for_purpose(seed, &format!("{name}: {effect}"));
        let dice = |probability, effect| Dice { probability, random: stream(effect) };
        Self {
            entered: 0,
            transmitter: link.bottleneck.map(|bottleneck| Transmitter {
                rate_changes: link.rate_changes.clone(),
                others: link.cross_traffic.map(|model| Others::new(model, stream("cross traffic"))),
                ..Transmitter::new(bottleneck)
            }),
            loss: link.loss.map(|probability| dice(probability, "loss")),
            bursts: link.bursts.map(|model| BurstState { model, random: stream("bursts"), inside: false }),
            corruption: link.corruption.map(|(probability, _)| dice(probability, "corruption")),
            duplicates: link.duplicates.map(|effect| dice(effect.probability, "duplicates")),
            reorder: link.reorder.map(|effect| dice(effect.probability, "reorder")),
            jitter: link.jitter.map(|_| stream("jitter")),
            latest_due: Instant::ORIGIN,
            immediate: link.is_immediate(),
            link,
        }
    }

    /// Returns whether every datagram leaves in the nanosecond in which it enters.
    pub(crate) const fn is_immediate(&self) -> bool {
        self.immediate
    }

    /// Takes a datagram at `now`, which must not decrease.
    pub fn pass(&mut self, now: Instant, bytes: &[u8]) -> Passage {
        let draw = self.draw(bytes.len());
        let passing = Passing { ordinal: self.entered, at: now, bytes };
        self.entered += 1;
        match self.survive(&passing, &draw) {
            Err(by) => Passage { original: Err(by), duplicate: None },
            Ok((departure, is_marked)) => self.travel(departure, is_marked, &draw),
        }
    }

    /// Returns how long what enters now waits before it begins to leave.
    #[must_use]
    pub fn wait(&self, now: Instant) -> Duration {
        self.transmitter.as_ref().map_or(Duration::ZERO, |transmitter| transmitter.busy_until.since(now))
    }

    fn draw(&mut self, size_bytes: usize) -> Draw {
        let jitter = match (&mut self.jitter, &self.link.jitter) {
            (Some(random), Some(jitter)) => at_most(random, jitter.most),
            _ => Duration::ZERO,
        };
        Draw {
            lost: self.loss.as_mut().is_some_and(Dice::falls),
            lost_in_burst: self.bursts.as_mut().is_some_and(BurstState::loses),
            damage: self.corruption.as_mut().and_then(|dice| dice.damage(size_bytes)),
            duplicated: self.duplicates.as_mut().is_some_and(Dice::falls),
            held_back: self.reorder.as_mut().is_some_and(Dice::falls),
            jitter,
        }
    }

    /// Returns the time at which the datagram has fully left the near end and whether it was marked, unless it is lost.
    fn survive(&mut self, passing: &Passing<'_>, draw: &Draw) -> Result<(Instant, bool), LostBy> {
        if self.link.outages.iter().any(|span| span.contains(&passing.at)) {
            return Err(LostBy::Outage);
        }
        let mtu = changed_at(&self.link.mtu_changes, passing.at);
        if mtu.is_some_and(|most| passing.bytes.len() > most) {
            return Err(LostBy::Mtu);
        }
        if self.link.placed.iter().any(|rule| rule.matches(passing)) {
            return Err(LostBy::Placed);
        }
        let wire_bytes = passing.bytes.len() as u64 + WIRE_OVERHEAD_BYTES;
        let (departure, queued_bytes) = match &mut self.transmitter {
            Some(transmitter) => transmitter.enter(passing.at, wire_bytes).ok_or(LostBy::Queue)?,
            None => (passing.at, 0),
        };
        let is_marked = self.link.mark_above_bytes.is_some_and(|most| queued_bytes > most);
        if draw.lost {
            return Err(LostBy::Random);
        }
        if draw.lost_in_burst {
            return Err(LostBy::Burst);
        }
        Ok((departure, is_marked))
    }

    fn travel(&mut self, departure: Instant, is_marked: bool, draw: &Draw) -> Passage {
        let due = self.due(departure, draw);
        let duplicate = self.link.duplicates.filter(|_| draw.duplicated).map(|effect| due + effect.by);
        let dropped = self.link.corruption.is_some_and(|(_, outcome)| outcome == Corruption::Dropped);
        let original = match draw.damage {
            Some(_) if dropped => Err(LostBy::Checksum),
            damage => Ok(Exit { due, wear: Wear { damage, is_marked } }),
        };
        Passage { original, duplicate }
    }

    fn due(&mut self, departure: Instant, draw: &Draw) -> Instant {
        let mut due = departure + self.delay_at(departure) + draw.jitter;
        if self.link.jitter.is_some_and(|jitter| jitter.order == Order::Kept) {
            due = due.max(self.latest_due);
            self.latest_due = due;
        }
        match self.link.reorder {
            Some(effect) if draw.held_back => due + effect.by,
            _ => due,
        }
    }

    fn delay_at(&self, at: Instant) -> Duration {
        changed_at(&self.link.delay_changes, at).unwrap_or(self.link.delay)
    }
}

/// Returns the value of a changing setting at a time.
fn changed_at<T: Copy>(changes: &[(Instant, T)], at: Instant) -> Option<T> {
    changes.iter().rev().find(|(from, _)| *from <= at).map(|(_, value)| *value)
}

impl Damage {
    /// Flips the bit.
    pub fn strike(self, bytes: &mut [u8]) {
        bytes[(self.0 / 8) as usize] ^= 1 << (self.0 % 8);
    }
}

impl Dice {
    fn falls(&mut self) -> bool {
        self.random.chance(self.probability)
    }

    /// Draws whether and where; an empty payload has no bit to flip, but draws all the same.
    fn damage(&mut self, size_bytes: usize) -> Option<Damage> {
        let struck = self.falls();
        let bit = self.random.below((size_bytes as u64 * 8).max(1));
        let bit = u32::try_from(bit).expect("a datagram has fewer than 2^32 bits");
        (struck && size_bytes > 0).then_some(Damage(bit))
    }
}

impl BurstState {
    fn loses(&mut self) -> bool {
        let turn = if self.inside { self.model.end } else { self.model.begin };
        self.inside ^= self.random.chance(turn);
        let lost = self.random.chance(self.model.loss);
        self.inside && lost
    }
}

impl Transmitter {
    const fn new(bottleneck: Bottleneck) -> Self {
        Self {
            bottleneck,
            rate_changes: Vec::new(),
            others: None,
            leaving: VecDeque::new(),
            held_bytes: 0,
            busy_until: Instant::ORIGIN,
            remainder: 0,
        }
    }

    /// Returns the time at which the last bit has left and the queue before it, or nothing if the queue has no room.
    fn enter(&mut self, now: Instant, wire_bytes: u64) -> Option<(Instant, u64)> {
        while let Some((at, other_bytes)) = self.others.as_mut().and_then(|others| others.arrive_until(now)) {
            // Cross traffic without room is lost and not counted, because it belongs to no node.
            let _ = self.take(at, other_bytes);
        }
        self.take(now, wire_bytes)
    }

    fn take(&mut self, now: Instant, wire_bytes: u64) -> Option<(Instant, u64)> {
        while let Some((_, left_bytes)) = self.leaving.front().filter(|(departure, _)| *departure <= now) {
            self.held_bytes -= left_bytes;
            self.leaving.pop_front();
        }
        if self.held_bytes + wire_bytes > self.bottleneck.queue_bytes {
            return None;
        }
        if self.busy_until < now {
            self.busy_until = now;
            self.remainder = 0;
        }
        let rate = changed_at(&self.rate_changes, self.busy_until).unwrap_or(self.bottleneck.rate_bits_per_s);
        let rate = u128::from(rate);
        let work = u128::from(wire_bytes) * BIT_NANOS_PER_SECOND + self.remainder;
        self.remainder = work % rate;
        self.busy_until += Duration::from_nanos(u64::try_from(work / rate).unwrap_or(u64::MAX));
        self.leaving.push_back((self.busy_until, wire_bytes));
        let before_bytes = self.held_bytes;
        self.held_bytes += wire_bytes;
        Some((self.busy_until, before_bytes))
    }
}

impl Others {
    fn new(model: CrossTraffic, random: Random) -> Self {
        let on_until = model.pauses.map(|_| Instant::ORIGIN);
        let mut others = Self { model, random, next: Instant::ORIGIN, on_until };
        others.plan(Instant::ORIGIN);
        others
    }

    /// Takes the next packet that arrives by then: its time, and its size.
    fn arrive_until(&mut self, now: Instant) -> Option<(Instant, u64)> {
        let at = self.next;
        if at > now {
            return None;
        }
        self.plan(at);
        Some((at, self.model.packet_bytes))
    }

    /// Plans the packet after `at`.
    fn plan(&mut self, at: Instant) {
        let nanos = u128::from(self.model.packet_bytes) * BIT_NANOS_PER_SECOND
            / u128::from(self.model.rate_bits_per_s.max(1));
        let gap = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.next = at + exponential(&mut self.random, gap);
        while let (Some((on, off)), Some(end)) = (self.model.pauses, self.on_until)
            && self.next >= end
        {
            let begin = end + exponential(&mut self.random, off);
            self.on_until = Some(begin + exponential(&mut self.random, on));
            self.next = begin + exponential(&mut self.random, gap);
        }
    }
}

/// Draws a time that is exponentially distributed.
pub(crate) fn exponential(random: &mut Random, mean: Duration) -> Duration {
    let nanos = -(1.0 - random.unit()).ln() * mean.as_nanos() as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "no less than zero, and saturates"
    )]
    Duration::from_nanos(nanos as u64)
}

fn at_most(random: &mut Random, most: Duration) -> Duration {
    let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(random.below(nanos.saturating_add(1)))
}

#[cfg(test)]
mod tests;
