//! What a publisher and a reader of one laboratory send, and those of another one: made once.

use core::time::Duration;
use std::sync::{Arc, LazyLock};

use cast::Sender;
use cast::secure::ControlSealer;
use cast::send::{Beginning, Input, Output, Pacing, SenderConfig, SenderSecurity, Sending};
use keys::{AuthorityFile, GroupSecret, KeyFile, Membership, Salt, Secret, StationKeys, Suite, Token};
use sample::{Channel, Dtype, Schema};
use units::{Epoch, Instant, ReaderId, SampleRate, WallTime};
use wire::{Clock, Description, Nonce, Request, Wanted};

/// UTC at [`Instant::ORIGIN`].
pub const BEGIN: WallTime = WallTime::from_nanos(1_800_000_000_000_000_000);
/// Size of data datagrams.
const DATAGRAM_BYTES: usize = 548;
/// Number of blocks of the publisher.
pub const BLOCKS: u64 = 64;
/// Number of requests of the reader: more than the counters that its opener remembers.
pub const REQUESTS: u64 = 40;

/// Of the laboratory whose ends are fuzzed.
pub static OURS: LazyLock<Sent> = LazyLock::new(|| Sent::new(1));
/// Of another laboratory with the same tokens.
pub static FOREIGN: LazyLock<Sent> = LazyLock::new(|| Sent::new(100));

/// All that a publisher and a reader of one laboratory sent.
pub struct Sent {
    /// Their keys.
    pub membership: Arc<Membership>,
    /// Datagrams of the publisher.
    pub stream: Vec<Vec<u8>>,
    /// Time at which each was sent.
    pub times: Vec<Instant>,
    /// Requests of the reader.
    pub unnumbered: Vec<Vec<u8>>,
}

impl Sent {
    /// Lets a publisher and a reader of a laboratory send; its secrets follow from `seed`, its tokens do not.
    fn new(seed: u8) -> Self {
        let membership = Arc::new(membership(seed));
        let salt = Salt([seed; 16]);
        let (times, stream) = stream(&membership, salt).into_iter().unzip();
        let mut sealer = ControlSealer::new(&membership, salt, BEGIN);
        let unnumbered = (0..REQUESTS).map(|nonce| {
            let mut bytes = vec![0; DATAGRAM_BYTES];
            let plain_bytes = request(nonce).encode(&mut bytes).expect("room for a request");
            let size_bytes = sealer.seal(BEGIN, &mut bytes, plain_bytes).expect("room for a request");
            bytes.truncate(size_bytes);
            bytes
        });
        Self { unnumbered: unnumbered.collect(), times, stream, membership }
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

/// Returns the datagrams of a stream, from its beginning to its end, each with its time. The end is told twice: losses
/// that are reported after it make another revision of the final tally.
fn stream(membership: &Arc<Membership>, salt: Salt) -> Vec<(Instant, Vec<u8>)> {
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
        relayed: None,
        deadline: None,
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
    let (number, size_bytes, stage) = (7, DATAGRAM_BYTES, ledger::Stage::SenderQdisc);
    sender.handle(now, Input::Refused { destination: 0, number, stage, size_bytes });
    for block in BLOCKS..BLOCKS + 50 {
        sender.handle(block_at(block), Input::Advance);
        drain(&mut sender, block_at(block), &mut sent);
    }
    sent
}

/// Takes what the sender sends now.
fn drain(sender: &mut Sender, now: Instant, sent: &mut Vec<(Instant, Vec<u8>)>) {
    let mut buffer = vec![0; 64 * 1_024];
    loop {
        match sender.poll(now, &mut buffer) {
            Output::Transmit { segment_bytes, size_bytes, .. } => {
                sent.extend(buffer[..size_bytes].chunks(segment_bytes).map(|bytes| (now, bytes.to_vec())));
            }
            Output::Event(_) => {}
            Output::Idle { .. } => return,
        }
    }
}

/// Returns the description of the stream, without a signature.
///
/// # Panics
/// Never.
#[must_use]
pub fn description() -> Description {
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

/// Returns the epoch of the stream.
#[must_use]
pub fn epoch() -> Epoch {
    Epoch { start_ns: 1_800_000_000_000_000_000, incarnation: 1 }
}

fn block_at(block: u64) -> Instant {
    Instant::ORIGIN + Duration::from_millis(10 * block)
}

/// Returns UTC at an instant.
#[must_use]
pub fn wall(now: Instant) -> WallTime {
    BEGIN.offset(now.as_nanos() as i64)
}
