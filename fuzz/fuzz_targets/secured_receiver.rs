//! A receiver behind the gate of a secured stream, and any mixture of authentic datagrams, lost or overtaken, with changed,
//! repeated and foreign ones, alone or in one train: its accounts are those of the authentic ones alone.
#![no_main]

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cast::Receiver;
use cast::receive::{self, Event, ReaderIdentity, Train};
use cast::secure::{Gate, Passed};
use fuzz::secured::{FOREIGN, OURS, wall};
use fuzz::spoil::Spoil;
use ledger::LedgerConfig;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use units::{Instant, ReaderId};
use wire::{Kind, SecuredHead};

/// Time after the last datagram at which all accounts have ended.
const END: Duration = Duration::from_secs(30);

#[derive(Debug, Arbitrary)]
enum Step<'a> {
    /// The next datagrams of the publisher arrive.
    Arrive { count: u8 },
    /// The next one is lost.
    Lose,
    /// The next one is overtaken by this many.
    Delay { by: u8 },
    /// A datagram of the publisher, or of another laboratory, changed or not.
    Forge { index: u8, is_foreign: bool, spoils: Vec<Spoil<'a>>, from: u8 },
    /// The same in one train with the next datagram of the publisher: before or behind it.
    ForgeInTrain { index: u8, is_foreign: bool, spoils: Vec<Spoil<'a>>, is_behind: bool },
    Bytes { bytes: &'a [u8], from: u8 },
}

/// Both readers and the publisher.
struct Scene {
    alone: Reader,
    mixed: Reader,
    now: Instant,
    next: usize,
    /// Overtaken datagrams, by the one before which they arrive.
    delayed: BTreeMap<usize, Vec<usize>>,
    /// What both readers got since they know the description: an attacker repeats it in vain.
    heard: BTreeSet<usize>,
    is_described: bool,
}

struct Reader {
    gate: Gate,
    receiver: Receiver,
    seen: Vec<String>,
}

fuzz_target!(|steps: Vec<Step<'_>>| {
    let mut scene = Scene::new();
    for step in steps.iter().take(300) {
        match step {
            Step::Arrive { count } => (0..=*count % 16).for_each(|_| scene.arrive(None)),
            Step::Lose => scene.next += 1,
            Step::Delay { by } => {
                let before = scene.next + 1 + usize::from(*by % 32);
                scene.delayed.entry(before).or_default().push(scene.next);
                scene.next += 1;
            }
            Step::Forge { index, is_foreign, spoils, from } => {
                if let Some(bytes) = scene.forged(*index, *is_foreign, spoils) {
                    scene.mixed.hears(scene.now, &bytes, bytes.len(), *from);
                }
            }
            Step::ForgeInTrain { index, is_foreign, spoils, is_behind } => {
                let forged = scene.forged(*index, *is_foreign, spoils);
                scene.arrive(forged.map(|bytes| (bytes, *is_behind)));
            }
            Step::Bytes { bytes, from } => scene.mixed.hears(scene.now, bytes, bytes.len(), *from),
        }
    }
    while scene.next < OURS.stream.len() {
        scene.arrive(None);
    }
    let Scene { mut alone, mut mixed, now, .. } = scene;
    for millis in (0..END.as_millis() as u64).step_by(100) {
        let now = now + Duration::from_millis(millis);
        alone.advance(now);
        mixed.advance(now);
    }
    assert_eq!(mixed.seen, alone.seen);
    assert_eq!(mixed.receiver.stats(), alone.receiver.stats());
    assert_eq!(alone.gate.stats().unauthentic.bad_tag, 0);
});

impl Scene {
    fn new() -> Self {
        Self {
            alone: Reader::new(),
            mixed: Reader::new(),
            now: Instant::ORIGIN,
            next: 0,
            delayed: BTreeMap::new(),
            heard: BTreeSet::new(),
            is_described: false,
        }
    }

    /// Lets the next datagram arrive at both readers, at one of them in a train with a forged one.
    fn arrive(&mut self, forged: Option<(Vec<u8>, bool)>) {
        let next = self.next;
        self.next += 1;
        for overtaken in self.delayed.remove(&next).unwrap_or_default() {
            self.both(overtaken, None);
        }
        self.both(next, forged);
    }

    fn both(&mut self, index: usize, forged: Option<(Vec<u8>, bool)>) {
        let Some(bytes) = OURS.stream.get(index) else { return };
        self.now = self.now.max(OURS.times[index]);
        self.alone.hears(self.now, bytes, bytes.len(), 0);
        let train = match forged {
            None => bytes.clone(),
            Some((mut other, is_behind)) => {
                other.resize(bytes.len(), 0);
                if is_behind { [bytes.clone(), other].concat() } else { [other, bytes.clone()].concat() }
            }
        };
        self.mixed.hears(self.now, &train, bytes.len(), 0);
        self.is_described |= SecuredHead::read(bytes).is_some_and(|head| head.kind == Kind::Descriptor);
        if self.is_described {
            self.heard.insert(index);
        }
    }

    /// Returns a forged datagram; `None` if it is an authentic one that the readers did not get yet: on another way, but
    /// the publisher's.
    fn forged(&self, index: u8, is_foreign: bool, spoils: &[Spoil<'_>]) -> Option<Vec<u8>> {
        let sent = if is_foreign { &*FOREIGN } else { &*OURS };
        let mut bytes = sent.stream[usize::from(index) % sent.stream.len()].clone();
        spoils.iter().take(4).for_each(|spoil| spoil.apply(&mut bytes));
        // In a train it may be filled up to what it was.
        let is_part_of = |sent: &Vec<u8>| sent.starts_with(bytes.trim_ascii_end()) || *sent == bytes;
        let authentic = OURS.stream.iter().position(|sent| sent == &bytes || is_part_of(sent));
        authentic.is_none_or(|index| self.heard.contains(&index) && OURS.stream[index] == bytes).then_some(bytes)
    }
}

impl Reader {
    fn new() -> Self {
        let identity = ReaderIdentity { id: ReaderId(7), name: "reader".to_owned(), receive_buffer_bytes: 0 };
        Self {
            gate: Gate::new(Arc::clone(&OURS.membership), Instant::ORIGIN, wall(Instant::ORIGIN), 1),
            receiver: Receiver::new(identity, LedgerConfig::default(), 7),
            seen: Vec::new(),
        }
    }

    fn hears(&mut self, now: Instant, train: &[u8], segment_bytes: usize, from: u8) {
        let from = SocketAddr::from(([10, 0, 0, from % 4], 7_400));
        let Self { gate, receiver, .. } = self;
        gate.pass(now, &mut train.to_vec(), segment_bytes.max(1), from, &mut |it| take(receiver, now, it));
        while self.gate.next_event().is_some() {}
        self.receiver.check().expect("the law holds");
        self.poll(now);
    }

    fn advance(&mut self, now: Instant) {
        let Self { gate, receiver, .. } = self;
        gate.advance(now, &mut |it| take(receiver, now, it));
        receiver.handle(now, receive::Input::Advance);
        self.poll(now);
    }

    fn poll(&mut self, now: Instant) {
        let mut buffer = [0; 2_048];
        loop {
            match self.receiver.poll(now, &mut buffer) {
                // What it asks for is no part of an account, and this publisher hears nothing.
                receive::Output::Transmit { .. } => {}
                receive::Output::Event(Event::Block { block, dtype, .. }) => {
                    let content: Vec<u8> = block.payload.pieces().flatten().copied().collect();
                    self.seen.push(format!("{:?} {content:?}", block.positions(dtype)));
                }
                receive::Output::Event(Event::Gap { gap, .. }) => self.seen.push(format!("{gap:?}")),
                receive::Output::Event(Event::Settled { gap, .. }) => self.seen.push(format!("settled {gap:?}")),
                receive::Output::Event(Event::Ended { account, .. }) => self.seen.push(format!("{account:?}")),
                receive::Output::Event(_) => {}
                receive::Output::Idle { .. } => return,
            }
        }
    }
}

/// Hands over to a receiver what a gate passes.
fn take(receiver: &mut Receiver, now: Instant, passed: Passed<'_>) {
    let input = match passed {
        Passed::Train { bytes, segment_bytes, from } => {
            receive::Input::Train(Train { bytes, segment_bytes, from, drops: None, is_authentic: true })
        }
        Passed::Epoch { stream, epoch, news } => receive::Input::Epoch { stream, epoch, news },
    };
    receiver.handle(now, input);
}
