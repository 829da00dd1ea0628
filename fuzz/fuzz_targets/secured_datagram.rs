//! Any mixture of authentic, changed, repeated and foreign datagrams at the gate of a secured stream, and at the opener
//! of datagrams without a number: nothing passes but what a member sent, each once.
//!
//! A fuzzer cannot guess tags, so most inputs are what a publisher and a reader sent, changed or not.
#![no_main]

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use cast::Sender;
use cast::secure::{ControlOpener, ControlSealer, Gate, Passed};
use cast::send::{Beginning, Input, Output, Pacing, SenderConfig, SenderSecurity, Sending};
use fuzz::spoil::Spoil;
use keys::{AuthorityFile, GroupSecret, KeyFile, Membership, Salt, Secret, StationKeys, Suite, Token};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use sample::{Channel, Dtype, Schema};
use units::{Epoch, Instant, ReaderId, SampleRate, WallTime};
use wire::{Clock, Description, Nonce, Request, SecuredHead, Wanted};

/// UTC at [`Instant::ORIGIN`].
const BEGIN: WallTime = WallTime::from_nanos(1_800_000_000_000_000_000);
/// Size of data datagrams.
const DATAGRAM_BYTES: usize = 548;
/// Number of blocks of the publisher.
const BLOCKS: u64 = 64;
/// Number of requests of the reader: more than the counters that its opener remembers.
const REQUESTS: u64 = 40;

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

/// All that a publisher and a reader of one laboratory sent.
struct Sent {
    membership: Arc<Membership>,
    stream: Vec<Vec<u8>>,
    unnumbered: Vec<Vec<u8>>,
}

/// What both sent, in clear.
struct Plain {
    stream: BTreeSet<Vec<u8>>,
    unnumbered: BTreeSet<Vec<u8>>,
}

static OURS: LazyLock<Sent> = LazyLock::new(|| Sent::new(1));
static FOREIGN: LazyLock<Sent> = LazyLock::new(|| Sent::new(100));
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

impl Sent {
    /// Lets a publisher and a reader of a laboratory send; its secrets follow from `seed`, its tokens do not.
    fn new(seed: u8) -> Self {
        let membership = Arc::new(membership(seed));
        let salt = Salt([seed; 16]);
        let stream = stream(&membership, salt);
        let mut sealer = ControlSealer::new(&membership, salt, BEGIN);
        let unnumbered = (0..REQUESTS).map(|nonce| {
            let mut bytes = vec![0; DATAGRAM_BYTES];
            let plain_bytes = request(nonce).encode(&mut bytes).expect("room for a request");
            let size_bytes = sealer.seal(BEGIN, &mut bytes, plain_bytes).expect("room for a request");
            bytes.truncate(size_bytes);
            bytes
        });
        Self { unnumbered: unnumbered.collect(), stream, membership }
    }
}

fn membership(seed: u8) -> Membership {
    let secret = |index: u8| Secret::new([seed + index; 32].into());
    let authority = AuthorityFile::new("lab", secret(0)).expect("a name");
    let validity = BEGIN..BEGIN.offset(1_000_000_000_000_000);
    let keys = StationKeys::new(&authority, "daq", [secret(1), secret(2)], validity).expect("a name");
    let first = GroupSecret::new(Token(1), Suite::default(), secret(3), BEGIN);
    // Sent with from the middle of the stream on.
    let next = GroupSecret::new(Token(2), Suite::ChaCha20Poly1305, secret(4), wall(block_at(BLOCKS / 2)));
    let mut file = KeyFile::new(&authority, keys, first).expect("the authority certified it");
    file.add_secret(next).expect("room for two");
    file.membership(BEGIN).expect("it is valid")
}

/// Returns the datagrams of a stream, from its beginning to its end.
fn stream(membership: &Arc<Membership>, salt: Salt) -> Vec<Vec<u8>> {
    let config = SenderConfig {
        description: description(),
        epoch: epoch(),
        datagram_bytes: DATAGRAM_BYTES,
        linger: Duration::ZERO,
        clock: Clock::System,
        destinations: 1,
        pacing: Pacing::default(),
        sending: Sending::Always,
        beginning: Beginning::Now,
        predecessor: None,
        security: Some(SenderSecurity { membership: Arc::clone(membership), salt, wall: BEGIN }),
    };
    let mut sender = Sender::new(config, 1, Instant::ORIGIN).expect("a description that fits");
    let mut sent = Vec::new();
    for block in 0..BLOCKS {
        let (first_index, now) = (block * 10, block_at(block));
        let bytes = [block as u8; 40];
        sender.handle(now, Input::Membership { membership, wall: wall(now) });
        sender.handle(now, Input::Samples { first_index, t0: wall(now), bytes: &bytes });
        drain(&mut sender, now, &mut sent);
    }
    let now = block_at(BLOCKS);
    sender.handle(now, Input::Finish);
    drain(&mut sender, now, &mut sent);
    sent
}

/// Takes what the sender sends now.
fn drain(sender: &mut Sender, now: Instant, sent: &mut Vec<Vec<u8>>) {
    let mut buffer = vec![0; 64 * 1_024];
    loop {
        match sender.poll(now, &mut buffer) {
            Output::Transmit { segment_bytes, size_bytes, .. } => {
                sent.extend(buffer[..size_bytes].chunks(segment_bytes).map(<[u8]>::to_vec));
            }
            Output::Event(_) => {}
            Output::Idle { .. } => return,
        }
    }
}

fn description() -> Description {
    let rate = SampleRate::hz(1_000).expect("a rate");
    Description {
        name: "lab/probe".parse().expect("a name"),
        schema: Schema::new(Dtype::F4, rate, vec![Channel::new("value", "V")]).expect("a schema"),
        // A publisher that hears no questions: its epoch begins after the time for an answer.
        report_port: 0,
        station: "daq".to_owned(),
        unknown: sample::UnknownEntries::new(),
    }
}

fn request(nonce: u64) -> Request {
    let Description { name, schema, .. } = description();
    Request {
        stream: wire::stream_id(&name, &schema),
        epoch: epoch(),
        reader: ReaderId(1),
        what: Wanted::Descriptor,
        waiting: None,
        nonce: Some(Nonce::new(nonce)),
    }
}

fn epoch() -> Epoch {
    Epoch { start_ns: 1_800_000_000_000_000_000, incarnation: 1 }
}

fn block_at(block: u64) -> Instant {
    Instant::ORIGIN + Duration::from_millis(10 * block)
}

fn wall(now: Instant) -> WallTime {
    BEGIN.offset(now.as_nanos() as i64)
}
