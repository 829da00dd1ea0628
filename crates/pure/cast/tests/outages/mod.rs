//! Long outages of link, publisher and reader, up to ten minutes each, several in one epoch: rule 16 in virtual time.
//!
//! The draw of a seed is in [`Plan`], the conditions at its end in `line/continuity.rs`; the law and the order of
//! events are checked after every input as in every scene.
//!
//! Source: `docs/protocol/account.md`, rule 16.

use core::fmt;
use core::ops::Range;
use core::time::Duration;

use cast::send::Sending;
use ledger::{Account, AccountState};
use sim::{Host, Link, Network, Port};
use units::{Epoch, Instant, Random};

use crate::line::continuity::check_continuity;
use crate::line::feed::Holes;
use crate::line::publisher::{Command, Publisher, Restart};
use crate::line::reader::Reader;
use crate::line::scene::{EPOCH, StreamShape, publisher, reader};
use crate::line::truth::verify;
use crate::line::{GROUP, Part, at};

/// Range of the length of an outage. Units: milliseconds.
const OUTAGES: Range<f64> = 100.0..600_000.0;
/// Range of the time between two outages. Units: milliseconds.
const BETWEEN: Range<f64> = 50.0..20_000.0;
/// Time after silence, and its losses, when every account has ended, also of epochs held back meanwhile. Units:
/// milliseconds.
const SETTLED: u64 = 28_000;

/// The part that stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Still {
    /// Datagrams of the publisher reach no reader.
    Link,
    /// Datagrams to and from the reader are lost.
    ReadersCable,
    /// The publisher's process is stopped, and continues later.
    Publisher,
    /// The reader's process is stopped, and continues later.
    Reader,
}

impl Still {
    const ALL: [Self; 4] = [Self::Link, Self::ReadersCable, Self::Publisher, Self::Reader];
}

/// Number of scenes with each effect.
#[derive(Default)]
pub(crate) struct Seen {
    /// Scenes with an outage of more than a minute, by the stopped part.
    long: [u64; Still::ALL.len()],
    several: u64,
    resumed: u64,
    unconfirmed: u64,
    closed: u64,
    remembered: u64,
    forgotten: u64,
    set_back: u64,
}

impl Seen {
    pub(crate) fn add(&mut self, scene: &Self) {
        for (mine, theirs) in self.counts_mut().into_iter().zip(scene.counts()) {
            *mine += theirs.1;
        }
    }

    /// Returns the number of scenes with each effect.
    pub(crate) const fn counts(&self) -> [(&'static str, u64); 11] {
        [
            ("the link down for more than a minute", self.long[0]),
            ("the reader's cable out for more than a minute", self.long[1]),
            ("the publisher stopped for more than a minute", self.long[2]),
            ("the reader stopped for more than a minute", self.long[3]),
            ("several outages in one epoch", self.several),
            ("an epoch that came back", self.resumed),
            ("unconfirmed", self.unconfirmed),
            ("closed", self.closed),
            ("a successor that remembers", self.remembered),
            ("a successor that does not", self.forgotten),
            ("one whose clock was set back", self.set_back),
        ]
    }

    const fn counts_mut(&mut self) -> [&mut u64; 11] {
        let Self { long: [link, cable, publisher, reader], .. } = self;
        let Self { several, resumed, unconfirmed, closed, remembered, forgotten, set_back, .. } = self;
        [
            link,
            cable,
            publisher,
            reader,
            several,
            resumed,
            unconfirmed,
            closed,
            remembered,
            forgotten,
            set_back,
        ]
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, count)) in self.counts().into_iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(formatter, "{separator}{name} {count}")?;
        }
        Ok(())
    }
}

/// The draw of a seed for its scene.
struct Plan {
    shape: StreamShape,
    outages: Vec<(Still, Range<Instant>)>,
    fed_until: u64,
    loss: f64,
    successors: Vec<Successor>,
    ring_blocks: usize,
    buffer_bytes: Option<u64>,
}

/// An epoch after the first.
struct Successor {
    /// Time and kind of the first one's end; `None` if it is ended by its successor, which then remembers how far it
    /// came.
    end: Option<(u64, End)>,
    begin: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// With its final tally; the next epoch remembers it.
    Finish,
    /// Without a final tally; the next epoch remembers nothing.
    Die,
    /// Without a final tally, and the clock is set back before the next epoch begins.
    DieAndSetClockBack,
}

/// Plays the scene of a seed to its end and returns the effects that occurred.
pub(crate) fn play(seed: u64) -> Seen {
    let plan = Plan::draw(seed);
    let listener = reader(seed);
    let listener = if seed.is_multiple_of(2) { listener.patient_with_the_unread() } else { listener };
    let accounts = plan.play(seed, listener);
    let mut seen = plan.seen();
    for account in &accounts {
        seen.unconfirmed |= u64::from(account.state == AccountState::Unconfirmed);
        seen.closed |= u64::from(account.state == AccountState::Closed);
    }
    // Only successors begin other epochs.
    seen.resumed = u64::from(accounts.len() > 1 + plan.successors.len());
    seen
}

impl Plan {
    /// Plays the scene to its end; returns the reader's accounts once they are proven.
    fn play(&self, seed: u64, listener: Reader) -> Vec<Account> {
        let mut network = Network::new(seed);
        let publisher = Part::Publisher(Box::new(self.publisher()));
        let publisher = network.add("publisher", publisher, self.publisher_port());
        let listener = Part::Reader(Box::new(listener.waiting()));
        let node = network.add("reader", listener, self.reader_port());
        network.join(node, GROUP);
        network.run_until(self.end());
        check_continuity(&network, publisher, node);
        verify(&network, node).into_iter().map(|(_, account)| account).collect()
    }

    fn draw(seed: u64) -> Self {
        let random = &mut Random::for_purpose(seed, "long outages");
        // A few datagrams a second: ten minutes are some thousand of them.
        let hz = 1 + random.below(12) as u32;
        let elements = if random.chance(0.3) { 1 + random.below(600) as u32 } else { 1 };
        let sending = if random.chance(0.2) { Sending::OnDemand } else { Sending::Always };
        let shape =
            StreamShape { hz, elements, block_samples: 1 + random.below(4), sending, ..StreamShape::PLAIN };
        let mut outages = Vec::new();
        let mut now = random.below(4_000);
        let mut last_begins = 0;
        for _ in 0..1 + random.below(4) {
            now += between(random, &BETWEEN);
            let still = Still::ALL[random.below(4) as usize];
            let long = between(random, &OUTAGES);
            outages.push((still, at(now)..at(now + long)));
            // Outages of two parts may overlap.
            last_begins = now;
            now += if random.chance(0.2) { random.below(long) } else { long };
        }
        let last = outages.iter().map(|(_, span)| millis(span.end)).max().unwrap_or(0);
        // The end may fall into the last outage.
        let fed_until =
            if random.chance(0.3) { last_begins + random.below(last - last_begins + 1) } else { last }
                + random.below(5_000);
        let mut successors: Vec<Successor> = Vec::new();
        for _ in 0..random.below(2) * (1 + random.below(3)) {
            let after = successors.last().map_or(0, |before| before.begin);
            // Epochs of any length, some of which end before they are received.
            let longest = if random.chance(0.5) { 3_000 } else { fed_until };
            let turn = after + random.below(longest);
            let later = turn + random.below(2_000);
            successors.push(match random.below(6) {
                0 | 1 => Successor { end: Some((turn, End::Finish)), begin: later },
                2 => Successor { end: Some((turn, End::Die)), begin: later },
                3 => Successor { end: Some((turn, End::DieAndSetClockBack)), begin: later },
                _ => Successor { end: None, begin: turn },
            });
        }
        Self {
            shape,
            outages,
            fed_until,
            loss: if random.chance(0.4) { random.unit() * 0.05 } else { 0.0 },
            successors,
            ring_blocks: if random.chance(0.3) { 1 + random.below(200) as usize } else { usize::MAX },
            buffer_bytes: random.chance(0.4).then(|| 8_192 << random.below(8)),
        }
    }

    fn publisher(&self) -> Publisher {
        let holes = Holes { ring_blocks: self.ring_blocks, ..Holes::NONE };
        let fed = Instant::ORIGIN..at(self.fed_until);
        let mut publisher = publisher(&self.shape, EPOCH, fed, holes);
        let mut epoch = EPOCH;
        for Successor { end, begin } in &self.successors {
            let is_set_back = matches!(end, Some((_, End::DieAndSetClockBack)));
            let start_ns = if is_set_back { epoch.start_ns - 100 } else { epoch.start_ns + 1 };
            epoch = Epoch { start_ns, incarnation: epoch.incarnation + 1 };
            let feed = self.shape.feed(epoch, at(*begin)..at(self.fed_until.max(*begin)), holes);
            let restart = Restart { config: self.shape.config(epoch), feed };
            publisher = match end {
                Some((turn, End::Finish)) => publisher.told(at(*turn), Command::Finish),
                Some((turn, End::Die | End::DieAndSetClockBack)) => publisher.told(at(*turn), Command::Die),
                None => publisher,
            }
            .told(at(*begin), Command::Restart(Box::new(restart)));
        }
        publisher.told(at(self.fed_for() + 200), Command::Finish)
    }

    /// Returns when the last epoch ends. Units: milliseconds.
    fn fed_for(&self) -> u64 {
        self.successors.last().map_or(0, |last| last.begin).max(self.fed_until)
    }

    fn publisher_port(&self) -> Port {
        let up = self.during(Still::Link).fold(Link::lan(), Link::outage);
        let host = self.during(Still::Publisher).fold(Host::ideal(), Host::stalls);
        Port { host, up, ..Port::default() }
    }

    fn reader_port(&self) -> Port {
        let cable = || self.during(Still::ReadersCable).fold(Link::lan().loss(self.loss), Link::outage);
        let host = self.during(Still::Reader).fold(Host::ideal(), Host::stalls);
        let host = match self.buffer_bytes {
            Some(bytes) => host.receive_buffer(bytes),
            None => host,
        };
        Port { host, up: cable(), down: cable(), site: None }
    }

    fn during(&self, still: Still) -> impl Iterator<Item = Range<Instant>> + '_ {
        self.outages.iter().filter(move |(it, _)| *it == still).map(|(_, span)| span.clone())
    }

    fn end(&self) -> Instant {
        let outages = self.outages.iter().map(|(_, span)| millis(span.end)).max().unwrap_or(0);
        at(outages.max(self.fed_for()) + SETTLED)
    }

    fn seen(&self) -> Seen {
        let minute = Duration::from_secs(60);
        let is_long = |still| self.during(still).any(|span| span.end.since(span.start) > minute);
        let remembers = |it: &Successor| it.end.is_none_or(|(_, end)| end == End::Finish);
        let is_set_back = |it: &Successor| it.end.is_some_and(|(_, end)| end == End::DieAndSetClockBack);
        Seen {
            long: Still::ALL.map(|still| u64::from(is_long(still))),
            several: u64::from(self.outages.len() > 1 && self.successors.is_empty()),
            remembered: u64::from(self.successors.iter().any(remembers)),
            forgotten: u64::from(!self.successors.iter().all(remembers)),
            set_back: u64::from(self.successors.iter().any(is_set_back)),
            ..Seen::default()
        }
    }
}

/// Draws a time whose logarithm is as likely anywhere in the range. Units: milliseconds.
fn between(random: &mut Random, range: &Range<f64>) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the range")]
    let millis = (range.start * (range.end / range.start).powf(random.unit())) as u64;
    millis
}

const fn millis(at: Instant) -> u64 {
    at.as_nanos() / 1_000_000
}

/// Plays a stream of two samples a second whose publisher, reader or link stops at 5 s, and continues for a while
/// afterwards; returns the states of its accounts, and the numbers of samples delivered and missing.
fn stands_still(still: Still, minutes: u64) -> (Vec<AccountState>, u64, u64) {
    let outage = at(5_000)..at(5_000 + minutes * 60_000);
    let plan = Plan {
        shape: StreamShape { hz: 2, block_samples: 1, ..StreamShape::PLAIN },
        fed_until: millis(outage.end) + 5_000,
        outages: vec![(still, outage)],
        loss: 0.0,
        successors: Vec::new(),
        ring_blocks: usize::MAX,
        buffer_bytes: None,
    };
    let accounts = plan.play(1, reader(1).patient_with_the_unread());
    let states = accounts.iter().map(|account| account.state).collect();
    let sum = |of: fn(&Account) -> u64| accounts.iter().map(of).sum();
    (states, sum(|account| account.elements.delivered), sum(|account| account.elements.missing()))
}

const TWO_ACCOUNTS: [AccountState; 2] = [AccountState::Unconfirmed, AccountState::Closed];

#[test]
fn what_is_lost_on_a_link_that_is_down_for_minutes_is_missing_to_the_sample() {
    for minutes in [1, 5, 10] {
        for still in [Still::Link, Still::ReadersCable] {
            assert_eq!(stands_still(still, minutes), (TWO_ACCOUNTS.to_vec(), 20, minutes * 120), "{still:?}");
        }
    }
}

#[test]
fn what_a_publisher_that_was_stopped_for_minutes_still_has_is_delivered() {
    for minutes in [1, 5, 10] {
        let all = 20 + minutes * 120;
        assert_eq!(stands_still(Still::Publisher, minutes), (TWO_ACCOUNTS.to_vec(), all, 0));
    }
}

#[test]
fn what_waits_at_a_reader_that_was_stopped_for_minutes_is_one_account() {
    for minutes in [1, 5, 10] {
        let all = 20 + minutes * 120;
        assert_eq!(stands_still(Still::Reader, minutes), (vec![AccountState::Closed], all, 0));
    }
}
