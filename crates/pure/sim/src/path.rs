//! A link at work: takes datagrams in, says what becomes of each and when it comes out.
//!
//! Every effect that is switched on draws the same number of random numbers for every datagram, from its
//! own stream and whatever the other effects do to it. So switching one effect on never moves another;
//! `tests/network/determinism.rs` proves it. Start with [`Path::pass`].

use core::time::Duration;
use std::collections::VecDeque;

use units::{Instant, Random};

use crate::link::{Bottleneck, Bursts, Corruption, Link, Order, Passing, WIRE_OVERHEAD_BYTES};
use crate::log::LostBy;

const BIT_NANOS_PER_SECOND: u128 = 8_000_000_000;

/// A link with its state and its streams of chance.
pub(crate) struct Path {
    link: Link,
    entered: u64,
    transmitter: Option<Transmitter>,
    loss: Option<Dice>,
    bursts: Option<BurstState>,
    corruption: Option<Dice>,
    duplicates: Option<Dice>,
    reorder: Option<Dice>,
    jitter: Option<Random>,
    /// When the last datagram in order came out; order-keeping jitter does not go below it.
    latest_due: Instant,
    immediate: bool,
}

/// What becomes of one datagram.
pub(crate) struct Passage {
    pub(crate) original: Result<Exit, LostBy>,
    /// When a second copy comes out.
    pub(crate) duplicate: Option<Instant>,
}

/// The far end of a link.
pub(crate) struct Exit {
    pub(crate) due: Instant,
    pub(crate) damage: Option<Damage>,
}

/// The bit of a payload that was flipped, counted from the first byte's lowest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Damage(u32);

/// What chance has in store for one datagram, drawn before anything is decided.
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
    leaving: VecDeque<(Instant, u64)>,
    held_bytes: u64,
    busy_until: Instant,
    /// What integer division left over, in bit-nanoseconds per second, so that no error of rate builds up.
    remainder: u128,
}

impl Path {
    /// Sets the link up; `name` keeps its chance apart from that of the other links of the seed.
    pub(crate) fn new(link: Link, seed: u64, name: &str) -> Self {
        let stream = |effect: &str| Random::for_purpose(seed, &format!("{name}: {effect}"));
        let dice = |probability, effect| Dice { probability, random: stream(effect) };
        Self {
            entered: 0,
            transmitter: link.bottleneck.map(Transmitter::new),
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

    /// Tells whether every datagram leaves in the nanosecond in which it enters.
    pub(crate) const fn is_immediate(&self) -> bool {
        self.immediate
    }

    /// Takes a datagram in at `now`, which never goes back.
    pub(crate) fn pass(&mut self, now: Instant, bytes: &[u8]) -> Passage {
        let draw = self.draw(bytes.len());
        let passing = Passing { ordinal: self.entered, at: now, bytes };
        self.entered += 1;
        match self.survive(&passing, &draw) {
            Err(by) => Passage { original: Err(by), duplicate: None },
            Ok(departure) => self.travel(departure, &draw),
        }
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

    /// Returns when the datagram has fully left the near end, unless it is lost.
    fn survive(&mut self, passing: &Passing<'_>, draw: &Draw) -> Result<Instant, LostBy> {
        if self.link.outages.iter().any(|span| span.contains(&passing.at)) {
            return Err(LostBy::Outage);
        }
        if self.link.placed.iter().any(|rule| rule.matches(passing)) {
            return Err(LostBy::Placed);
        }
        let wire_bytes = passing.bytes.len() as u64 + WIRE_OVERHEAD_BYTES;
        let departure = match &mut self.transmitter {
            Some(transmitter) => transmitter.enter(passing.at, wire_bytes).ok_or(LostBy::Queue)?,
            None => passing.at,
        };
        if draw.lost {
            return Err(LostBy::Random);
        }
        if draw.lost_in_burst {
            return Err(LostBy::Burst);
        }
        Ok(departure)
    }

    fn travel(&mut self, departure: Instant, draw: &Draw) -> Passage {
        let due = self.due(departure, draw);
        let duplicate = self.link.duplicates.filter(|_| draw.duplicated).map(|effect| due + effect.by);
        let dropped = self.link.corruption.is_some_and(|(_, fate)| fate == Corruption::Dropped);
        let original = match draw.damage {
            Some(_) if dropped => Err(LostBy::Checksum),
            damage => Ok(Exit { due, damage }),
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
        let changed = self.link.delay_changes.iter().rev().find(|(from, _)| *from <= at);
        changed.map_or(self.link.delay, |(_, delay)| *delay)
    }
}

impl Damage {
    /// Flips the bit.
    pub(crate) fn strike(self, bytes: &mut [u8]) {
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
        let leaving = VecDeque::new();
        Self { bottleneck, leaving, held_bytes: 0, busy_until: Instant::ORIGIN, remainder: 0 }
    }

    /// Returns when the last bit has left, or nothing if the queue has no room.
    fn enter(&mut self, now: Instant, wire_bytes: u64) -> Option<Instant> {
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
        let rate = u128::from(self.bottleneck.rate_bits_per_s);
        let work = u128::from(wire_bytes) * BIT_NANOS_PER_SECOND + self.remainder;
        self.remainder = work % rate;
        self.busy_until += Duration::from_nanos(u64::try_from(work / rate).unwrap_or(u64::MAX));
        self.leaving.push_back((self.busy_until, wire_bytes));
        self.held_bytes += wire_bytes;
        Some(self.busy_until)
    }
}

fn at_most(random: &mut Random, most: Duration) -> Duration {
    let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(random.below(nanos.saturating_add(1)))
}

#[cfg(test)]
mod tests;
