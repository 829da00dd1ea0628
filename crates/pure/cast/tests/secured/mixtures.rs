//! Any mixture of a stream's datagrams with what an attacker makes of them, in trains with them or alone: the reader's
//! account is that of the authentic datagrams alone, whatever of them is lost or overtaken.
//!
//! A copy of a datagram that the reader got is a forgery like any other. One that it did not get would be the datagram
//! itself on another way, which changes an account as it should; the attacker changes those first.

use std::collections::BTreeMap;

use cast::send::Input;
use keys::{GroupSecret, Suite};
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use units::{Epoch, Instant, Random};
use wire::{Kind, SecuredHead};

use crate::ends::{Listener, Source, publisher};
use crate::group_level::{EPOCH, at, foreign};
use crate::laboratory::{Laboratory, wall};
use crate::nodes::{clear_config, config};

/// Time of the publisher's restart, and of its end. Units: milliseconds.
const RESTART: u64 = 400;
const FINISH: u64 = 900;
/// Time at which all accounts have ended. Units: milliseconds.
const END: u64 = 8_000;
/// Interval of the blocks. Units: milliseconds.
const INTERVAL: u64 = 5;

/// A network and a reader.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    /// Time at which the reader begins to hear. Units: milliseconds.
    from: u64,
    /// Of 100 datagrams, so many are lost.
    loss: u64,
    /// Longest delay: those that are delayed less overtake others. Units: milliseconds.
    delay: u64,
    /// Whether the publisher answers readers that join.
    hears: bool,
}

/// A datagram of the attacker.
#[derive(Clone, Debug)]
struct Forgery {
    /// It comes with the authentic arrival of this number.
    with: u16,
    place: Place,
    what: What,
    /// The datagram that it is made of.
    pick: u16,
    value: u64,
    /// Last byte of its source address; the publisher's is 1.
    from: u8,
}

/// Relation to the authentic arrival.
#[derive(Clone, Copy, Debug)]
enum Place {
    Before,
    After,
    /// In one train, which is cut or filled to the same size.
    TrainBefore,
    TrainAfter,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Copy,
    Bit,
    Cut,
    Number,
    Epoch,
    /// Header of one datagram, rest of another.
    Spliced,
    /// Of a laboratory with other secrets under the same tokens.
    Foreign,
    Clear,
    Noise,
}

fn plan() -> impl Strategy<Value = Plan> {
    (any::<u64>(), 0_u64..700, 0_u64..20, 0_u64..20, any::<bool>())
        .prop_map(|(seed, from, loss, delay, hears)| Plan { seed, from, loss, delay, hears })
}

fn forgery() -> impl Strategy<Value = Forgery> {
    let place = prop_oneof![
        Just(Place::Before),
        Just(Place::After),
        Just(Place::TrainBefore),
        Just(Place::TrainAfter)
    ];
    let what = prop_oneof![
        4 => Just(What::Copy),
        3 => Just(What::Bit),
        1 => Just(What::Cut),
        2 => Just(What::Number),
        2 => Just(What::Epoch),
        1 => Just(What::Spliced),
        2 => Just(What::Foreign),
        1 => Just(What::Clear),
        1 => Just(What::Noise),
    ];
    (0_u16..250, place, what, any::<u16>(), any::<u64>(), 0_u8..4)
        .prop_map(|(with, place, what, pick, value, from)| Forgery { with, place, what, pick, value, from })
}

/// All that a reader saw of a publisher.
#[derive(PartialEq, Debug)]
struct Seen {
    delivered: Vec<(Epoch, core::ops::Range<u64>)>,
    gaps: Vec<String>,
    accounts: Vec<String>,
    stats: String,
}

struct Scene<'a> {
    plan: Plan,
    forgeries: &'a [Forgery],
    source: Source,
    listener: Listener,
    /// Datagrams for the reader by arrival, and by the order of sending.
    flying: BTreeMap<(Instant, u64), Vec<u8>>,
    requests: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    /// What the attacker may repeat: what the reader got since it knows the epoch's description.
    heard: Vec<Vec<u8>>,
    described: Vec<Epoch>,
    arrivals: u16,
    foreign: Vec<Vec<u8>>,
    clear: Vec<Vec<u8>>,
}

impl Scene<'_> {
    fn hears(&mut self, now: Instant, bytes: &[u8]) {
        let forgeries = self.forgeries.iter().filter(|it| it.with == self.arrivals);
        let made: Vec<_> = forgeries.map(|forgery| (forgery, self.make(forgery))).collect();
        let (mut train, size) = (bytes.to_vec(), bytes.len());
        for (forgery, made) in &made {
            let fitted = || made.iter().copied().chain(core::iter::repeat(0)).take(size);
            match forgery.place {
                Place::Before => {
                    self.listener.hears(now, made, made.len(), address(forgery.from));
                }
                Place::TrainBefore => train = fitted().chain(train).collect(),
                Place::TrainAfter => train.extend(fitted()),
                Place::After => {}
            }
        }
        self.listener.hears(now, &train, size, publisher());
        self.arrivals += 1;
        self.note(bytes);
        for (forgery, made) in made.iter().filter(|(forgery, _)| matches!(forgery.place, Place::After)) {
            self.listener.hears(now, made, made.len(), address(forgery.from));
        }
    }

    fn note(&mut self, bytes: &[u8]) {
        let head = SecuredHead::read(bytes).unwrap();
        if head.kind == Kind::Descriptor {
            self.described.push(head.epoch);
        }
        if self.described.contains(&head.epoch) {
            self.heard.push(bytes.to_vec());
        }
    }

    fn make(&self, Forgery { what, pick, value, .. }: &Forgery) -> Vec<u8> {
        let of = |pool: &[Vec<u8>], pick: u64| match pool.len() as u64 {
            0 => b"nothing was heard yet".to_vec(),
            len => pool[usize::try_from(pick % len).unwrap()].clone(),
        };
        let mut bytes = of(&self.sent, u64::from(*pick));
        match what {
            What::Copy => bytes = of(&self.heard, u64::from(*pick)),
            What::Bit => {
                let bit = usize::try_from(value % (8 * bytes.len() as u64)).unwrap();
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            What::Cut => bytes.truncate(usize::try_from(value % bytes.len() as u64).unwrap()),
            What::Number => {
                let number = u64::from_le_bytes(bytes[40..48].try_into().unwrap());
                bytes[40..48].copy_from_slice(&number.wrapping_add((value % 1_000_000).max(1)).to_le_bytes());
            }
            What::Epoch => {
                let start = u64::from_le_bytes(bytes[24..32].try_into().unwrap());
                bytes[24..32].copy_from_slice(&(start + 1 + value % 2_000).to_le_bytes());
            }
            What::Spliced => {
                let other = of(&self.sent, *value);
                if other == bytes {
                    bytes.pop();
                } else {
                    bytes.truncate(bytes.len().min(72));
                    bytes.extend(other.iter().skip(72));
                }
            }
            What::Foreign => bytes = of(&self.foreign, u64::from(*pick)),
            What::Clear => bytes = of(&self.clear, u64::from(*pick)),
            What::Noise => {
                let mut random = Random::new(*value);
                bytes.iter_mut().for_each(|byte| *byte = u8::try_from(random.below(256)).unwrap());
            }
        }
        bytes
    }

    fn step(&mut self, millis: u64) {
        let now = at(millis);
        if millis < FINISH && millis.is_multiple_of(INTERVAL) {
            self.source.measure(now);
        }
        if millis == FINISH {
            self.source.sender.handle(now, Input::Finish);
        }
        for bytes in core::mem::take(&mut self.requests) {
            self.source.hears(now, &bytes);
        }
        for (destinations, bytes) in self.source.sends(millis) {
            if destinations.contains(&0) {
                let count = self.sent.len() as u64;
                let mut chance = Random::new(self.plan.seed ^ count);
                let delay = chance.below(self.plan.delay + 1);
                if chance.below(100) >= self.plan.loss && millis >= self.plan.from {
                    self.flying.insert((at(millis + delay), count), bytes.clone());
                }
                self.sent.push(bytes);
            }
        }
        while let Some(entry) = self.flying.first_entry().filter(|it| it.key().0 <= now) {
            let bytes = entry.remove();
            self.hears(now, &bytes);
        }
        if millis >= self.plan.from {
            self.requests.extend(self.listener.sends(now));
        }
    }
}

fn address(last: u8) -> core::net::SocketAddr {
    core::net::SocketAddr::from(([10, 0, 0, last], 7_400))
}

/// Plays a scene to its end.
fn play(plan: Plan, forgeries: &[Forgery]) -> Seen {
    let suite = Suite::ALL[usize::from(plan.seed.is_multiple_of(2))];
    let mut laboratory = Laboratory::new(plan.seed, suite);
    let secrets: Vec<GroupSecret> =
        [(1, 0), (2, 250)].map(|(token, from)| laboratory.secret(token, wall(at(from)))).into();
    let ours = laboratory.member(&secrets);
    let mut configs = [EPOCH, Epoch { start_ns: 2_000, incarnation: 12 }].map(|epoch| {
        let mut config = config(&mut laboratory, &ours, epoch, at(epoch.start_ns / 2_000 * RESTART));
        config.description.report_port = if plan.hears { 7_400 } else { 0 };
        Some(config)
    });
    let [first, second] = &mut configs;
    let others = foreign(plan.seed % 1_000_000, suite);
    let foreign_config = config(&mut Laboratory::new(1, suite), &others, EPOCH, at(0));
    let other_datagrams = |config| {
        let mut source = Source::new(config, at(0));
        let mut all = Vec::new();
        for millis in 0..30 {
            source.measure(at(millis));
            all.extend(source.sends(millis).into_iter().map(|(_, bytes)| bytes));
        }
        all
    };
    let mut scene = Scene {
        plan,
        forgeries,
        source: Source::new(first.take().unwrap(), at(0)),
        listener: Listener::new(&ours, at(plan.from)),
        flying: BTreeMap::new(),
        requests: Vec::new(),
        sent: Vec::new(),
        heard: Vec::new(),
        described: Vec::new(),
        arrivals: 0,
        foreign: other_datagrams(foreign_config),
        clear: other_datagrams(clear_config(EPOCH)),
    };
    for millis in (0..FINISH + 300).chain((FINISH + 300..END).step_by(10)) {
        if let Some(second) = second.take_if(|_| millis == RESTART) {
            scene.source.restart(second, at(millis));
        }
        scene.step(millis);
    }
    let Listener { gate, delivered, gaps, accounts, .. } = &scene.listener;
    if forgeries.is_empty() {
        assert_eq!((gate.stats().unauthentic.bad_tag, gate.stats().unauthentic.clear), (0, 0));
        // Later readers, or such as miss the first descriptors, may hear none before the end.
        let is_silent = delivered.is_empty() || accounts.is_empty();
        assert!(!is_silent || plan.from > RESTART || plan.loss > 0, "{plan:?}");
    }
    Seen {
        delivered: delivered.clone(),
        gaps: gaps.clone(),
        accounts: accounts.iter().map(|account| format!("{account:?}")).collect(),
        stats: format!("{:?}", scene.listener.stats()),
    }
}

proptest! {
    #[test]
    fn any_mixture_gives_the_account_of_the_authentic_datagrams_alone(
        plan in plan(),
        forgeries in proptest::collection::vec(forgery(), 0..200),
    ) {
        prop_assert_eq!(play(plan, &forgeries), play(plan, &[]));
    }
}
