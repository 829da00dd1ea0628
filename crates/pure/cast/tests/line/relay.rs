//! What a relay passes on: elements cut anywhere, and what is missing between them, as the truth that its datagrams are
//! compared with.

use core::num::NonZeroU8;
use core::ops::Range;
use core::time::Duration;

use cast::Sender;
use cast::send::{ElementTimes, Input, Relayed, SenderConfig};
use ledger::{HopCounts, HopShare, Outcome, Stage, StageCounts};
use sample::Schema;
use units::{Epoch, Instant, Random, WallTime};
use wire::{Clock, Data, Datagram, DescriptorPart, Inherited, Origin, Skipped, Tally, UpstreamHop};

use super::feed::{Source, fill};

/// Epoch of the stream's publisher.
pub(crate) const ORIGIN_EPOCH: Epoch = Epoch { start_ns: 500, incarnation: 5 };

/// Outcome of one element on its way to the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ElementOutcome {
    Came,
    Missing(Stage, Option<Inherited>),
}

/// Everything passed to a sender so far, by position.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    pub(crate) schema: Schema,
    salt: u64,
    hops: u8,
    pub(crate) first_position: u64,
    pub(crate) outcomes: Vec<ElementOutcome>,
    payload: Vec<u8>,
}

/// Returns the configuration of a relay at this hop that takes the stream up at a position.
pub(crate) fn relaying(config: SenderConfig, hop: u8, first_position: u64) -> SenderConfig {
    let hop = NonZeroU8::new(hop).expect("a hop behind a relay");
    let origin = Origin { epoch: ORIGIN_EPOCH, hop };
    SenderConfig { relayed: Some(Relayed { origin, first_position }), ..config }
}

impl Passed {
    pub(crate) fn new(config: &SenderConfig) -> Self {
        let Relayed { origin, first_position } = config.relayed.expect("a relay");
        Self {
            schema: config.description.schema.clone(),
            salt: config.epoch.incarnation,
            hops: origin.hop.get(),
            first_position,
            outcomes: Vec::new(),
            payload: Vec::new(),
        }
    }

    pub(crate) fn next_position(&self) -> u64 {
        self.first_position + self.outcomes.len() as u64
    }

    /// Passes elements on.
    pub(crate) fn elements(&mut self, now: Instant, sender: &mut Sender, count: u64) {
        let (position, size) = (self.next_position(), self.schema.dtype.size_bytes());
        self.payload.clear();
        self.payload.resize(count as usize * size, 0);
        fill(self.salt, position, size, &mut self.payload);
        let t0 = self.time_at(position);
        let times = ElementTimes { t0, clock: Clock::Ptp, born: None };
        sender.handle(now, Input::Elements { position, times, bytes: &self.payload });
        self.outcomes.extend((0..count).map(|_| ElementOutcome::Came));
    }

    /// Passes on that elements were missing when they arrived.
    pub(crate) fn inherited(&mut self, now: Instant, sender: &mut Sender, shares: &HopCounts) {
        let positions = self.next_position()..self.next_position() + shares.total();
        sender.handle(now, Input::Inherited { positions, shares, cause: None });
        for HopShare { hop, outcome, count } in shares.shares() {
            let outcome =
                ElementOutcome::Missing(Stage::Source, Some(Inherited { hop, outcome, cause: None }));
            self.outcomes.extend((0..count).map(|_| outcome));
        }
        self.tell_upstream(now, sender);
    }

    /// Passes on that the ring before the sender was lapped.
    pub(crate) fn lapped(&mut self, now: Instant, sender: &mut Sender, count: u64) {
        let (positions, stage) = (self.next_position()..self.next_position() + count, Stage::PublisherQueue);
        sender.handle(now, Input::SkippedElements { positions, stage });
        self.outcomes.extend((0..count).map(|_| ElementOutcome::Missing(stage, None)));
    }

    /// Settles some unsettled elements, at most this many, from the first one behind a place on; returns whether there
    /// were any.
    pub(crate) fn settle(
        &mut self,
        now: Instant,
        sender: &mut Sender,
        behind: usize,
        most: u64,
        to: Outcome,
    ) -> bool {
        let unsettled = |outcome: &ElementOutcome| match outcome {
            ElementOutcome::Missing(_, Some(Inherited { hop, outcome: Outcome::Unsettled, .. })) => {
                Some(*hop)
            }
            _ => None,
        };
        let start = behind
            + self.outcomes[behind..].iter().take_while(|outcome| unsettled(outcome).is_none()).count();
        let Some(hop) = self.outcomes.get(start).and_then(unsettled) else { return false };
        let same = self.outcomes[start..].iter().take_while(|outcome| unsettled(outcome) == Some(hop));
        let count = (same.count() as u64).min(most);
        let shares: HopCounts = [HopShare { hop, outcome: to, count }].into_iter().collect();
        let from = self.first_position + start as u64;
        sender.handle(now, Input::Settled { positions: from..from + count, shares: &shares });
        let settled =
            ElementOutcome::Missing(Stage::Source, Some(Inherited { hop, outcome: to, cause: None }));
        self.outcomes[start..start + count as usize].fill(settled);
        self.tell_upstream(now, sender);
        true
    }

    pub(crate) fn tell_upstream(&self, now: Instant, sender: &mut Sender) {
        sender.handle(now, Input::Upstream(self.upstream()));
    }

    /// Returns what was lost on the hops before.
    pub(crate) fn upstream(&self) -> Vec<UpstreamHop> {
        let hop = |hop: u8| UpstreamHop {
            station: format!("station {hop}"),
            lost: StageCounts::default(),
            unexplained: 0,
        };
        let mut hops: Vec<_> = (0..self.hops).map(hop).collect();
        for outcome in &self.outcomes {
            let ElementOutcome::Missing(_, Some(Inherited { hop, outcome, .. })) = outcome else { continue };
            let hop = &mut hops[usize::from(*hop)];
            match outcome {
                Outcome::Lost(stage) => hop.lost[*stage] += 1,
                Outcome::Unexplained => hop.unexplained += 1,
                Outcome::Unsettled => {}
            }
        }
        hops
    }

    /// Returns what was lost on the hops before of all elements from a position on; what never settled is unexplained.
    pub(crate) fn inherited_from(&self, position: u64) -> HopCounts {
        let begin = position.saturating_sub(self.first_position) as usize;
        let share = |outcome: &ElementOutcome| match outcome {
            ElementOutcome::Missing(_, Some(Inherited { hop, outcome, .. })) => {
                Some(HopShare { hop: *hop, outcome: *outcome, count: 1 })
            }
            _ => None,
        };
        let mut counts: HopCounts = self.outcomes[begin..].iter().filter_map(share).collect();
        counts.give_up();
        counts
    }

    fn time_at(&self, position: u64) -> WallTime {
        let index = position / u64::from(self.schema.elements_per_sample());
        self.schema.rate.time_of(index, 0, WallTime::from_nanos(0))
    }
}

/// Leaves out what readers of earlier versions pass over.
pub(crate) fn as_before_relays(datagram: &mut Vec<u8>) {
    let plain = datagram.clone();
    // Nothing becomes longer.
    let size = match Datagram::decode(&plain).expect("a sender writes what can be read") {
        Datagram::Data(data) => Data { origin: None, ..data }.encode(datagram),
        Datagram::Tally(mut tally) => {
            (tally.origin, tally.upstream) = (None, Vec::new());
            tally.skipped.iter_mut().for_each(|range| range.inherited = None);
            tally.encode(datagram)
        }
        Datagram::Descriptor(part) => {
            DescriptorPart { origin: None, deadline: None, ..part }.encode(datagram)
        }
        _ => return,
    };
    datagram.truncate(size.expect("room"));
}

/// What the datagrams of a relay say about each of its elements.
#[derive(Debug)]
pub(crate) struct Heard {
    passed: Passed,
    /// What was told of each position; `None`: nothing yet.
    told: Vec<Option<ElementOutcome>>,
    /// Counts of the last tally that had them.
    pub(crate) upstream: Vec<UpstreamHop>,
    pub(crate) is_over: bool,
    pub(crate) statements: Vec<Vec<u8>>,
    /// Tallies, and those of them without the counts of the hops before although some had been told.
    pub(crate) tallies: usize,
    pub(crate) without_upstream: usize,
}

impl Heard {
    pub(crate) fn new(passed: Passed) -> Self {
        Self {
            told: vec![None; passed.outcomes.len()],
            passed,
            upstream: Vec::new(),
            is_over: false,
            statements: Vec::new(),
            tallies: 0,
            without_upstream: 0,
        }
    }

    /// Hears a datagram.
    ///
    /// # Panics
    /// If it contradicts what was passed on.
    pub(crate) fn hear(&mut self, bytes: &[u8]) {
        let hops = usize::from(self.passed.hops);
        match Datagram::decode(bytes).expect("a sender writes what can be read") {
            Datagram::Data(data) => {
                assert_eq!(data.origin.map(|data| data.origin().epoch), Some(ORIGIN_EPOCH));
                let mut expected = vec![0; data.payload.len()];
                let positions = data.positions();
                fill(self.passed.salt, positions.start, data.dtype.size_bytes(), &mut expected);
                assert_eq!(data.payload, expected, "elements at {positions:?}");
                assert_eq!(data.t0, self.passed.time_at(positions.start), "the time at {positions:?}");
                assert_eq!(data.clock, Clock::Ptp, "the clock at {positions:?}");
                self.tell(positions, ElementOutcome::Came);
            }
            Datagram::Tally(tally) => {
                self.tallies += 1;
                assert_eq!(tally.origin.map(|origin| usize::from(origin.hop.get())), Some(hops));
                assert!(tally.totals.samples.is_balanced(), "{:?}", tally.totals.samples);
                self.hear_upstream(&tally);
                for Skipped { positions, stage, inherited } in &tally.skipped {
                    self.tell(positions.clone(), ElementOutcome::Missing(*stage, *inherited));
                }
                if !tally.statement.is_empty() && self.statements.last() != Some(&tally.statement) {
                    self.statements.push(tally.statement.clone());
                }
                self.is_over |= tally.last;
            }
            Datagram::Descriptor(part) => {
                assert_eq!(part.origin.map(|origin| origin.epoch), Some(ORIGIN_EPOCH));
            }
            _ => {}
        }
    }

    fn hear_upstream(&mut self, tally: &Tally) {
        if tally.upstream.is_empty() {
            self.without_upstream += usize::from(!self.upstream.is_empty());
            assert!(!tally.last || self.upstream.is_empty(), "the final tally has all counts");
            return;
        }
        let total = |hop: &UpstreamHop| hop.lost.total() + hop.unexplained;
        let grows =
            self.upstream.iter().zip(&tally.upstream).all(|(before, now)| total(before) <= total(now));
        assert!(grows, "counts go back from {:?} to {:?}", self.upstream, tally.upstream);
        self.upstream.clone_from(&tally.upstream);
    }

    fn tell(&mut self, positions: Range<u64>, outcome: ElementOutcome) {
        let first = self.passed.first_position;
        if positions.end <= first {
            assert_eq!(
                (positions, outcome),
                (0..first, ElementOutcome::Missing(Stage::Source, None)),
                "never offered"
            );
            return;
        }
        let places = (positions.start - first) as usize..(positions.end - first) as usize;
        for (place, told) in places.clone().zip(&mut self.told[places]) {
            let passed = self.passed.outcomes[place];
            *told = match (outcome, *told) {
                // Of an older range, the outcome is told no more.
                (ElementOutcome::Missing(Stage::Source, None), Some(before)) => Some(before),
                (outcome, _) => Some(outcome),
            };
            let stage = |outcome: ElementOutcome| match outcome {
                ElementOutcome::Missing(stage, _) => Some(stage),
                ElementOutcome::Came => None,
            };
            assert_eq!(stage(outcome), stage(passed), "position {place} of {positions:?}");
        }
    }

    /// Checks that everything was told as it was passed on, once the stream is over.
    pub(crate) fn check_all(&self) {
        assert!(self.is_over, "no final tally");
        for (place, (told, passed)) in self.told.iter().zip(&self.passed.outcomes).enumerate() {
            assert_eq!(*told, Some(*passed), "position {}", self.passed.first_position + place as u64);
        }
    }
}

/// A relay's feed: blocks, holes and laps of random sizes at random times.
pub(crate) struct RelayFeed {
    passed: std::rc::Rc<std::cell::RefCell<Passed>>,
    random: Random,
    due: Instant,
    end: Instant,
    waiting: usize,
    most_elements: u64,
    /// Probability that a step is a hole.
    holes: f64,
}

impl RelayFeed {
    /// Creates a feed of a step about every millisecond with up to so many elements, and of whole samples in all.
    pub(crate) fn new(
        config: &SenderConfig,
        seed: u64,
        end: Instant,
        most_elements: u64,
        holes: f64,
    ) -> Self {
        let passed = std::rc::Rc::new(std::cell::RefCell::new(Passed::new(config)));
        let random = Random::for_purpose(seed, "relay feed");
        Self { passed, random, due: Instant::ORIGIN, end, waiting: 0, most_elements, holes }
    }

    /// Returns what it has passed, which the feed goes on to change.
    pub(crate) fn passed(&self) -> std::rc::Rc<std::cell::RefCell<Passed>> {
        std::rc::Rc::clone(&self.passed)
    }
}

impl Source for RelayFeed {
    fn produce(&mut self, now: Instant) {
        while self.next_due().is_some_and(|due| due <= now) {
            self.waiting += 1;
            self.due += Duration::from_micros(200 + self.random.below(1_600));
        }
    }

    fn hand_over(&mut self, now: Instant, sender: &mut Sender) {
        let mut passed = self.passed.borrow_mut();
        while self.waiting > 0 && sender.wants_samples() {
            self.waiting -= 1;
            let count = 1 + self.random.below(self.most_elements);
            if !self.random.chance(self.holes) {
                passed.elements(now, sender, count);
            } else if self.random.chance(0.2) {
                passed.lapped(now, sender, count);
            } else if self.random.chance(0.3) {
                let behind = self.random.below(passed.outcomes.len() as u64 + 1) as usize;
                passed.settle(now, sender, behind, count, Outcome::Lost(Stage::Deadline));
            } else {
                let shares = random_shares(&mut self.random, passed.hops, count);
                passed.inherited(now, sender, &shares);
            }
        }
        let per_sample = u64::from(passed.schema.elements_per_sample());
        let rest = passed.next_position().next_multiple_of(per_sample) - passed.next_position();
        if self.waiting == 0 && self.next_due().is_none() && rest > 0 {
            passed.elements(now, sender, rest);
        }
        passed.tell_upstream(now, sender);
        sender.handle(now, Input::Backlog(0));
    }

    fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    fn next_due(&self) -> Option<Instant> {
        (self.due < self.end).then_some(self.due)
    }
}

/// Draws outcomes on the hops before, of this many elements.
pub(crate) fn random_shares(random: &mut Random, hops: u8, count: u64) -> HopCounts {
    const OUTCOMES: [Outcome; 5] = [
        Outcome::Lost(Stage::Network),
        Outcome::Lost(Stage::Deadline),
        Outcome::Lost(Stage::ReaderLag),
        Outcome::Unexplained,
        Outcome::Unsettled,
    ];
    let mut shares = HopCounts::default();
    let mut left = count;
    while left > 0 {
        let count = 1 + random.below(left);
        let hop = random.below(u64::from(hops)) as u8;
        let outcome = OUTCOMES[random.below(OUTCOMES.len() as u64) as usize];
        shares.add(HopShare { hop, outcome, count });
        left -= count;
    }
    shares
}
