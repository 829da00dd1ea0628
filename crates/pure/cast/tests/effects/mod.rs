//! Random scenes: the draw of a seed, and the effects that occurred.

use core::fmt;
use core::ops::Range;
use core::time::Duration;

use cast::send::{Beginning, Sending};
use ledger::{AccountState, Evidence, EvidenceSource, Gap, Stage};
use sample::Dtype;
use sim::{Bursts, Corruption, Host, Link, LostBy, Network, NodeId, Order, Port};
use units::{Epoch, Instant, Random};
use wire::{DATAGRAM_BYTES_IPV4, Kind, MIN_DATAGRAM_BYTES};

use crate::line::feed::Holes;
use crate::line::publisher::{Command, Publisher, Refusal, Restart};
use crate::line::reader::Move;
use crate::line::scene::{EPOCH, Scene, StreamShape, forged, publisher, reader};
use crate::line::truth::verify;
use crate::line::watch::Following;
use crate::line::{GROUP, Part, Stranger, at};

/// Time when publishers stop feeding. Units: milliseconds.
const FED_UNTIL: u64 = 2_500;
/// Time when everything has settled: silence is detected after at most ten seconds, and settles in two; then an epoch
/// that was held back meanwhile may take over, and fall silent, too.
const END: u64 = 28_000;

macro_rules! effects {
    ($($variant:ident $name:literal,)*) => {
        /// Something that can occur in a scene.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Effect { $($variant,)* }

        impl Effect {
            pub(crate) const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

effects! {
    RandomLoss "random loss",
    BurstLoss "bursts",
    TailLoss "tail loss",
    Late "late",
    Duplicates "duplicates",
    Corruption "corruption",
    Damaged "decode",
    Outage "outage",
    Buffer "small buffer",
    Injected "injected",
    SenderSocket "refused",
    SenderQdisc "dropped by the queue discipline",
    Source "source holes",
    PublisherQueue "ring laps",
    Paused "pauses on demand",
    Pieces "samples in pieces",
    Restart "restart",
    ClockSetBack "clock set back",
    Forgotten "a forgotten predecessor",
    LateJoiner "late joiner",
    MissedBeginning "a beginning that was missed",
    Resumed "an epoch that came back",
    Leaver "leaver",
    TwoPublishers "two publishers",
    Imposter "a second host",
    Silence "silence",
    LostTallies "lost tallies",
    CorruptNumber "corrupt number",
    Closed "closed",
    Cut "cut",
    Unconfirmed "unconfirmed",
    Unexplained "unexplained",
    Apportioned "apportioned",
    Network "network",
    DropReported "drops reported",
}

/// Number of scenes with each effect.
pub(crate) struct Effects([u64; Effect::ALL.len()]);

impl Default for Effects {
    fn default() -> Self {
        Self([0; Effect::ALL.len()])
    }
}

impl Effects {
    pub(crate) fn count(&self, effect: Effect) -> u64 {
        self.0[effect as usize]
    }

    pub(crate) fn add(&mut self, scene: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(scene.0) {
            *mine += theirs;
        }
    }

    fn saw(&mut self, effect: Effect, happened: bool) {
        self.0[effect as usize] |= u64::from(happened);
    }
}

impl fmt::Display for Effects {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, effect) in Effect::ALL.into_iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(formatter, "{separator}{} {}", effect.name(), self.count(effect))?;
        }
        Ok(())
    }
}

/// The draw of a seed for its scene.
struct Plan {
    random: Random,
    shape: StreamShape,
    /// Further event of the publishers.
    ending: Ending,
    /// True if a restarted publisher does not remember its predecessor.
    forgets: bool,
    injected: f64,
    refusal: Refusal,
    holes: Holes,
    tail_loss: bool,
    lost_tallies: bool,
    corrupt_number: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    InOrder,
    Silence,
    Restart,
    ClockSetBack,
    TwoPublishers,
}

const DTYPES: [Dtype; 6] = [Dtype::U8, Dtype::I16, Dtype::F4, Dtype::F8, Dtype::C8, Dtype::C16];

/// Plays the scene of a seed to its end and returns the effects that occurred.
pub(crate) fn play(seed: u64) -> Effects {
    let mut plan = Plan::draw(seed);
    let mut network = Network::new(seed);
    let host = plan.publisher_host();
    let port = Port { host, ..Port::default() };
    let publisher = plan.publisher();
    let publisher = if draw_watch(seed) { publisher.watched(Instant::ORIGIN) } else { publisher };
    network.add("publisher", Part::Publisher(Box::new(publisher)), port);
    let mut first_host = Vec::new();
    if plan.ending == Ending::TwoPublishers {
        let second = plan.second_publisher();
        let second = network.add("second publisher", Part::Publisher(Box::new(second)), Port::default());
        if draw_same_host(seed) {
            first_host.push(second);
        }
    }
    if plan.corrupt_number {
        let stranger = plan.stranger();
        first_host.push(network.add("stranger", Part::Stranger(stranger), Port::default()));
    }
    let mut readers = Vec::new();
    for id in 0..1 + plan.random.below(2) {
        let port = plan.reader_port();
        let (member, moves) = plan.moves();
        let reader = if (seed + id).is_multiple_of(2) {
            reader(seed + id).patient_with_the_unread()
        } else {
            reader(seed + id)
        };
        let reader = match draw_drop_reporter(seed + id) {
            Some((share, delay_ms)) => reader.with_drop_reporter(seed + id, share, delay_ms),
            None => reader,
        };
        let reader = if draw_checkpoint(seed + id) { reader.checkpointed() } else { reader };
        let reader = if draw_waiting(seed + id) { reader.waiting() } else { reader };
        let reader = first_host.iter().fold(reader, |reader, node| reader.deceived_by(*node));
        let node = moves.into_iter().fold(reader, |reader, (at, step)| reader.told(at, step));
        let node = network.add("reader", Part::Reader(Box::new(node)), port);
        if member {
            network.join(node, GROUP);
        }
        readers.push(node);
    }
    network.run_until(at(END));
    let mut seen = Effects::default();
    for node in readers {
        observe(&network, node, &mut seen);
    }
    plan.observe(&mut seen);
    seen
}

impl Plan {
    fn draw(seed: u64) -> Self {
        let mut random = Random::for_purpose(seed, "scene");
        let (sending, beginning) = (draw_sending(seed), draw_beginning(seed));
        let shape = StreamShape { sending, beginning, ..draw_shape(&mut random) };
        let ending = match random.below(10) {
            0 => Ending::Silence,
            1 => Ending::Restart,
            2 => Ending::ClockSetBack,
            3 => Ending::TwoPublishers,
            _ => Ending::InOrder,
        };
        let mut sometimes =
            |probability, most| if random.chance(probability) { random.unit() * most } else { 0.0 };
        let injected = sometimes(0.3, 0.05);
        let refusal = Refusal { socket: sometimes(0.2, 0.03), qdisc: sometimes(0.2, 0.03) };
        let source = sometimes(0.3, 0.1);
        let ring_blocks = if random.chance(0.3) { 1 + random.below(20) as usize } else { usize::MAX };
        Self {
            shape,
            ending,
            forgets: Random::for_purpose(seed, "forgetting").chance(0.5),
            injected,
            refusal,
            holes: Holes { source, ring_blocks },
            tail_loss: random.chance(0.15),
            lost_tallies: random.chance(0.2),
            corrupt_number: random.chance(0.1),
            random,
        }
    }

    fn publisher(&mut self) -> Publisher {
        let fed = Instant::ORIGIN..at(FED_UNTIL);
        let publisher = publisher(&self.shape, EPOCH, fed, self.holes)
            .refusing(self.refusal)
            .told(at(self.random.below(500)), Command::Inject(self.injected));
        let turn = 1_000 + self.random.below(1_000);
        match self.ending {
            Ending::InOrder | Ending::TwoPublishers => publisher,
            Ending::Silence => publisher.told(at(turn), Command::Die),
            Ending::Restart | Ending::ClockSetBack => {
                // A clock step back makes the new epoch look older; a publisher that remembers its predecessor starts
                // above it.
                let start_ns = if self.ending == Ending::Restart { 5_000 } else { 500 };
                let forgets = self.ending == Ending::ClockSetBack && self.forgets;
                let epoch = if forgets {
                    Epoch { start_ns, incarnation: 22 }
                } else {
                    Epoch::succeeding(Some(EPOCH), start_ns, 22)
                };
                let begin = turn + self.random.below(300);
                let feed = self.shape.feed(epoch, at(begin)..at(FED_UNTIL), self.holes);
                let restart = Restart { config: self.shape.config(epoch), feed };
                let publisher = publisher
                    .told(at(turn), if self.random.chance(0.5) { Command::Finish } else { Command::Die });
                let publisher = if forgets { publisher.told(at(begin), Command::Die) } else { publisher };
                publisher.told(at(begin), Command::Restart(Box::new(restart)))
            }
        }
    }

    fn second_publisher(&mut self) -> Publisher {
        let epoch = Epoch { start_ns: 2_000, incarnation: 33 };
        let begin = self.random.below(1_000);
        publisher(&self.shape, epoch, at(begin)..at(FED_UNTIL), Holes::NONE)
    }

    fn stranger(&mut self) -> Stranger {
        let number = u64::MAX - 1 - self.random.below(1 << 40);
        let first_index = self.random.next_u64() / u64::from(self.shape.elements) / 2;
        let bytes = forged(&self.shape, EPOCH, number, first_index);
        Stranger(vec![(at(1_500 + self.random.below(500)), bytes)])
    }

    fn pieces(&self) -> bool {
        let fit = wire::max_elements(self.shape.datagram_bytes, self.shape.dtype, self.shape.elements);
        matches!(fit, wire::Fit::Pieces(_))
    }

    fn publisher_host(&mut self) -> Host {
        if self.holes.ring_blocks == usize::MAX {
            return Host::ideal();
        }
        let from = 500 + self.random.below(1_000);
        Host::ideal().stalls(at(from)..at(from + 20 + self.random.below(300)))
    }

    fn reader_port(&mut self) -> Port {
        let down = self.link();
        let up = if self.random.chance(0.5) { Link::lan() } else { Link::lan().loss(0.1) };
        Port { host: self.host(), up, down, site: None }
    }

    fn link(&mut self) -> Link {
        let random = &mut self.random;
        let mut link = Link::ideal().delay(Duration::from_micros(random.below(20_000)));
        if random.chance(0.5) {
            link = link.loss(random.unit() * 0.05);
        }
        if random.chance(0.2) {
            link = link.bursts(Bursts::of(random.unit() * 0.05, 1.0 + random.unit() * 30.0));
        }
        if random.chance(0.3) {
            link = link.reorder(random.unit() * 0.03, Duration::from_micros(random.below(30_000)));
        }
        if random.chance(0.2) {
            let order = if random.chance(0.5) { Order::Free } else { Order::Kept };
            link = link.jitter(Duration::from_micros(random.below(5_000)), order);
        }
        if random.chance(0.2) {
            link = link.duplicate(random.unit() * 0.05, Duration::from_micros(random.below(10_000)));
        }
        if random.chance(0.2) {
            link = link.corrupt(random.unit() * 0.03, Corruption::Delivered);
        }
        if random.chance(0.1) {
            let from = 500 + random.below(1_500);
            link = link.outage(at(from)..at(from + random.below(2_000)));
        }
        for outage in draw_outages(random.clone()) {
            link = link.outage(outage);
        }
        if self.tail_loss {
            let from = at(FED_UNTIL - random.below(20));
            link = link.lose_when("the tail", move |passing| {
                passing.at >= from && passing.bytes[3] == Kind::Data.code()
            });
        }
        if self.lost_tallies {
            let kept = 2 + random.below(4);
            link = link.lose_when("most tallies", move |passing| {
                passing.bytes[3] == Kind::Tally.code() && !passing.ordinal.is_multiple_of(kept)
            });
        }
        link
    }

    fn host(&mut self) -> Host {
        let random = &mut self.random;
        if random.chance(0.7) {
            return Host::ideal();
        }
        let buffer = Host::ideal().receive_buffer(4_000 + random.below(40_000));
        if random.chance(0.5) {
            return buffer.reads_every(Duration::from_micros(1_000 + random.below(30_000)), 64);
        }
        let from = 500 + random.below(1_500);
        buffer.stalls(at(from)..at(from + random.below(600)))
    }

    /// Draws whether a reader is present from the beginning, and its later moves.
    fn moves(&mut self) -> (bool, Vec<(Instant, Move)>) {
        let mut moves = Vec::new();
        let late = self.random.chance(0.3);
        if late {
            moves.push((at(self.random.below(1_500)), Move::Join));
        }
        if self.random.chance(0.2) {
            let when = 1_600 + self.random.below(1_500);
            moves.push((at(when), if when.is_multiple_of(2) { Move::Deselect } else { Move::Leave }));
        }
        (!late, moves)
    }

    fn observe(&self, seen: &mut Effects) {
        seen.saw(Effect::Pieces, self.pieces());
        seen.saw(Effect::CorruptNumber, self.corrupt_number);
        seen.saw(Effect::LostTallies, self.lost_tallies);
        seen.saw(Effect::TailLoss, self.tail_loss);
        seen.saw(Effect::Silence, self.ending == Ending::Silence);
        seen.saw(Effect::Restart, self.ending == Ending::Restart);
        seen.saw(Effect::ClockSetBack, self.ending == Ending::ClockSetBack);
        seen.saw(Effect::Forgotten, self.ending == Ending::ClockSetBack && self.forgets);
    }
}

/// Draws whether a reader waits for the streams from the beginning.
fn draw_waiting(seed: u64) -> bool {
    Random::for_purpose(seed, "waiting").chance(0.5)
}

/// Draws whether a second publisher runs on the first one's host.
fn draw_same_host(seed: u64) -> bool {
    Random::for_purpose(seed, "hosts").chance(0.5)
}

/// Draws whether publishers hold the beginning of their epochs, and the limit of the held bytes.
fn draw_beginning(seed: u64) -> Beginning {
    let mut random = Random::for_purpose(seed, "beginning");
    match random.below(3) {
        0 => Beginning::Held { most_bytes: 1 << (8 + random.below(12)) },
        1 => Beginning::Held { most_bytes: usize::MAX },
        _ => Beginning::Now,
    }
}

/// Draws outages at any time, also at the beginning and over the end, from a copy of the generator.
fn draw_outages(mut random: Random) -> Vec<Range<Instant>> {
    let count = if random.chance(0.2) { 1 + random.below(3) } else { 0 };
    let outage = |_| {
        let from = random.below(FED_UNTIL);
        at(from)..at(from + random.below(2_000))
    };
    (0..count).map(outage).collect()
}

/// Draws from a separate generator: scenes reported earlier stay unchanged.
fn draw_sending(seed: u64) -> Sending {
    let on_demand = Random::for_purpose(seed, "sending").chance(0.2);
    if on_demand { Sending::OnDemand } else { Sending::Always }
}

/// Draws the share of the buffer's drops that a drop reporter sees, and its maximum delay, which may exceed the time
/// for evidence. Units: milliseconds.
fn draw_drop_reporter(seed: u64) -> Option<(f64, u64)> {
    let mut random = Random::for_purpose(seed, "who sees drops");
    random.chance(0.5).then(|| (random.unit(), random.below(4_000)))
}

/// Draws whether a checkpoint watches arrivals at a reader's host.
fn draw_checkpoint(seed: u64) -> bool {
    Random::for_purpose(seed, "who sees what comes in").chance(0.5)
}

/// Draws whether kernel drops at the publisher's host are watched.
fn draw_watch(seed: u64) -> bool {
    Random::for_purpose(seed, "who sees what leaves").chance(0.7)
}

fn draw_shape(random: &mut Random) -> StreamShape {
    let dtype = DTYPES[random.below(DTYPES.len() as u64) as usize];
    let datagram_bytes = if random.chance(0.5) { DATAGRAM_BYTES_IPV4 } else { MIN_DATAGRAM_BYTES };
    let linger = Duration::from_millis(if random.chance(0.5) { 5 } else { 0 });
    // Single values, a few channels, or frames larger than a datagram; some hundred datagrams a second.
    let (elements, hz, block_samples) = match random.below(4) {
        0 => (1, 1_000, 1 + random.below(10)),
        1 => (1 + random.below(16) as u32, 500 + random.below(4_000) as u32, 1 + random.below(40)),
        2 => (100 + random.below(400) as u32, 200, 1 + random.below(4)),
        _ => (2_000 + random.below(6_000) as u32, 15, 1),
    };
    let (sending, beginning) = (Sending::Always, Beginning::Now);
    StreamShape {
        name: "lab/probe",
        dtype,
        hz,
        elements,
        block_samples,
        linger,
        datagram_bytes,
        sending,
        beginning,
    }
}

fn observe(network: &Scene, node: NodeId, seen: &mut Effects) {
    let counts = network.log().counts(node);
    seen.saw(Effect::RandomLoss, counts.lost(LostBy::Random) > 0);
    seen.saw(Effect::BurstLoss, counts.lost(LostBy::Burst) > 0);
    seen.saw(Effect::Outage, counts.lost(LostBy::Outage) > 0);
    seen.saw(Effect::Buffer, counts.lost(LostBy::Buffer) > 0);
    seen.saw(Effect::Corruption, counts.corrupted > 0);
    let watch = &network.node(node).reader().watch;
    seen.saw(Effect::TwoPublishers, !watch.two_publishers.is_empty());
    seen.saw(Effect::Imposter, !watch.imposters.is_empty());
    let goes_on = |pair: &[Following]| pair[0].epoch == pair[1].epoch;
    seen.saw(Effect::Resumed, watch.followed.windows(2).any(goes_on));
    for (truth, account) in verify(network, node) {
        let rows = account.datagrams.expect("a reader with a socket");
        seen.saw(Effect::Late, rows.lost[Stage::Late] > 0);
        seen.saw(Effect::Damaged, truth.damaged > 0);
        seen.saw(Effect::Duplicates, rows.duplicates > 0);
        seen.saw(Effect::Injected, rows.lost[Stage::Injected] > 0);
        seen.saw(Effect::SenderSocket, rows.lost[Stage::SenderSocket] > 0);
        seen.saw(Effect::SenderQdisc, rows.lost[Stage::SenderQdisc] > 0);
        seen.saw(Effect::Source, account.elements.lost[Stage::Source] > 0);
        seen.saw(Effect::PublisherQueue, account.elements.lost[Stage::PublisherQueue] > 0);
        seen.saw(Effect::Paused, account.elements.lost[Stage::PublisherPaused] > 0);
        seen.saw(Effect::LateJoiner, rows.first > 50);
        let misses_first = |gap: &Gap| gap.positions.start == 0 && gap.numbers.start < gap.numbers.end;
        seen.saw(Effect::MissedBeginning, account.gaps.first().is_some_and(misses_first));
        seen.saw(Effect::Leaver, account.state == AccountState::Cut);
        seen.saw(Effect::Closed, account.state == AccountState::Closed);
        seen.saw(Effect::Cut, account.state == AccountState::Cut);
        seen.saw(Effect::Unconfirmed, account.state == AccountState::Unconfirmed);
        seen.saw(Effect::Unexplained, rows.unexplained > 0);
        seen.saw(Effect::Apportioned, account.gaps.iter().any(|gap| gap.apportioned));
        let by_event = |it: &Evidence| matches!(it.source, EvidenceSource::DropEvent(_));
        seen.saw(Effect::Network, rows.lost[Stage::Network] > 0);
        seen.saw(Effect::DropReported, account.gaps.iter().flat_map(|gap| &gap.evidence).any(by_event));
    }
}
