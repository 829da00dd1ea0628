//! Any mixture of authentic, changed, repeated and foreign datagrams at the gate of a secured stream, and at the opener
//! of datagrams without a number: nothing passes but what a member sent, each once.
//!
//! A fuzzer cannot guess tags, so most inputs are what a publisher and a reader sent, changed or not.
#![no_main]

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use cast::secure::{ControlOpener, Gate, Passed};
use fuzz::secured::{BEGIN, BLOCKS, FOREIGN, OURS, REQUESTS, Sent, wall};
use fuzz::spoil::Spoil;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use units::Instant;
use wire::SecuredHead;

#[derive(Debug, Arbitrary)]
enum Step<'a> {
    /// Datagrams of a member or, with the same tokens, of another laboratory; the first is changed.
    Sent {
        index: u8,
        count: u8,
        is_foreign: bool,
        spoils: Vec<Spoil<'a>>,
        from: u8,
    },
    /// A datagram without a number.
    Unnumbered {
        index: u8,
        is_foreign: bool,
        spoils: Vec<Spoil<'a>>,
    },
    Bytes {
        bytes: &'a [u8],
        segment_bytes: u16,
    },
    Pass {
        millis: u16,
    },
}

/// What both sent, in clear.
struct Plain {
    stream: BTreeSet<Vec<u8>>,
    unnumbered: BTreeSet<Vec<u8>>,
}

static PLAIN: LazyLock<Plain> = LazyLock::new(|| {
    let mut ends = Ends::new();
    let (mut stream, mut unnumbered) = (BTreeSet::new(), BTreeSet::new());
    for datagram in &OURS.stream {
        ends.pass(&mut datagram.clone(), datagram.len(), 0, &mut |plain| _ = stream.insert(plain.to_vec()));
    }
    for datagram in &OURS.unnumbered {
        let mut bytes = datagram.clone();
        let size_bytes = ends.open(&mut bytes).expect("a member sealed it");
        unnumbered.insert(bytes[..size_bytes].to_vec());
    }
    assert!(stream.len() as u64 > BLOCKS && unnumbered.len() as u64 == REQUESTS);
    Plain { stream, unnumbered }
});

fuzz_target!(|steps: Vec<Step<'_>>| {
    let (plain, mut ends) = (&*PLAIN, Ends::new());
    let (mut passed, mut opened) = (BTreeSet::new(), BTreeSet::new());
    for step in steps.iter().take(500) {
        let mut take = |bytes: &[u8]| {
            assert!(plain.stream.contains(bytes), "no member sent it");
            assert!(passed.insert(bytes.to_vec()), "it passed before");
        };
        match step {
            Step::Sent { index, count, is_foreign, spoils, from } => {
                let sent = of(*is_foreign);
                let start = usize::from(*index) % sent.stream.len();
                let mut first = sent.stream[start].clone();
                spoils.iter().take(4).for_each(|spoil| spoil.apply(&mut first));
                let segment_bytes = first.len();
                // As the kernel joins them: all of one size, but the last may be shorter.
                let others = sent.stream[start + 1..].iter().take(usize::from(count % 8));
                let train = others.take_while(|other| other.len() == segment_bytes).flatten();
                first.extend(train);
                ends.pass(&mut first, segment_bytes, *from, &mut take);
            }
            Step::Unnumbered { index, is_foreign, spoils } => {
                let sent = of(*is_foreign);
                let mut bytes = sent.unnumbered[usize::from(*index) % sent.unnumbered.len()].clone();
                spoils.iter().take(4).for_each(|spoil| spoil.apply(&mut bytes));
                if let Some(size_bytes) = ends.open(&mut bytes) {
                    assert!(plain.unnumbered.contains(&bytes[..size_bytes]), "no member sent it");
                    assert!(opened.insert(bytes[..size_bytes].to_vec()), "it was opened before");
                }
            }
            Step::Bytes { bytes, segment_bytes } => {
                let _ = SecuredHead::read(bytes);
                ends.pass(&mut bytes.to_vec(), usize::from(*segment_bytes), 0, &mut take);
                assert_eq!(ends.open(&mut bytes.to_vec()), None);
            }
            Step::Pass { millis } => ends.now += Duration::from_millis(u64::from(*millis)),
        }
    }
});

fn of(is_foreign: bool) -> &'static Sent {
    if is_foreign { &FOREIGN } else { &OURS }
}

/// The gate of a reader and the opener of a publisher.
struct Ends {
    now: Instant,
    gate: Gate,
    opener: ControlOpener,
}

impl Ends {
    fn new() -> Self {
        let now = Instant::ORIGIN;
        let gate = Gate::new(Arc::clone(&OURS.membership), now, BEGIN, 1);
        Self { now, gate, opener: ControlOpener::default() }
    }

    fn pass(&mut self, bytes: &mut [u8], segment_bytes: usize, from: u8, take: &mut impl FnMut(&[u8])) {
        let from = SocketAddr::from(([10, 0, 0, from % 4], 7_400));
        self.gate.pass(self.now, bytes, segment_bytes.max(1), from, &mut |passed| {
            if let Passed::Train { bytes, segment_bytes, .. } = passed {
                bytes.chunks(segment_bytes).for_each(&mut *take);
            }
        });
        while self.gate.next_event().is_some() {}
    }

    fn open(&mut self, bytes: &mut [u8]) -> Option<usize> {
        self.opener.open(&OURS.membership.keys, wall(self.now), bytes).ok()
    }
}
