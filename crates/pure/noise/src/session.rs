//! One session: a pair of keys, the counter of what was sent, and the window of what was received.

use core::fmt;
use core::time::Duration;

use keys::{PublicKey, ReplayWindow, Suite};
use snow::{HandshakeState, StatelessTransportState};
use units::Instant;

use crate::message::{OVERHEAD_BYTES, TRANSPORT_HEADER_BYTES, Transport, transport_header};

/// Age at which the initiator makes a new session, before it seals anything more.
///
/// Source: the WireGuard paper §6.1, `REKEY_AFTER_TIME`.
pub(crate) const REKEY_AFTER: Duration = Duration::from_secs(120);
/// Age at which the responder does, if the initiator did not: after crossed handshakes each end may be the responder of
/// the session that it uses.
pub(crate) const REKEY_AFTER_BY_RESPONDER: Duration = Duration::from_secs(150);
/// Age from which a session is refused.
///
/// Source: the WireGuard paper §6.1, `REJECT_AFTER_TIME`.
pub(crate) const REJECT_AFTER: Duration = Duration::from_secs(180);
/// Age at which a session is forgotten: datagrams that come until then are known to be late.
pub(crate) const FORGET_AFTER: Duration = Duration::from_secs(240);
/// Time without any answer after which a session may be dead at the other end, which then makes a new one.
///
/// Source: the WireGuard paper §6.5, `KEEPALIVE_TIMEOUT` + `REKEY_TIMEOUT`.
const DOUBT_AFTER: Duration = Duration::from_secs(15);
/// Number of datagrams after which a new session is made, and from which this one is refused.
///
/// Far below WireGuard's 2^60, because the cipher is AES-GCM: with full packets of 1,500 bytes an attacker's advantage
/// stays below 2^-58 (NIST SP 800-38D; RFC 9001 §B.1.1 for the reckoning).
const REKEY_AFTER_DATAGRAMS: u64 = 1 << 27;
const REJECT_AFTER_DATAGRAMS: u64 = 1 << 28;

/// Number of counters up to the highest one that may still arrive.
const WINDOW: u64 = 2_048;
/// Words of its ring.
const WINDOW_WORDS: usize = 64;

/// Who began the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Initiator,
    Responder,
}

/// A session with a peer.
pub(crate) struct Session {
    transport: Box<StatelessTransportState>,
    side: Side,
    made: Instant,
    sent: u64,
    received: ReplayWindow<WINDOW, WINDOW_WORDS>,
    /// Time of the first datagram that was sealed since one was opened.
    unanswered_since: Option<Instant>,
    /// The peer's key.
    pub(crate) peer: PublicKey,
    /// Its cipher.
    pub(crate) suite: Suite,
    /// Number by which the peer calls it.
    pub(crate) local: u32,
    /// Number by which this end calls it.
    pub(crate) remote: u32,
}

/// Reason why a datagram is not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    Expired,
    Replayed,
    BadTag,
}

impl Session {
    /// Makes the session of a finished handshake.
    pub(crate) fn new(
        handshake: HandshakeState,
        (side, peer, suite): (Side, PublicKey, Suite),
        (local, remote): (u32, u32),
        now: Instant,
    ) -> Self {
        let transport = handshake.into_stateless_transport_mode().expect("the handshake is finished");
        Self {
            transport: Box::new(transport),
            side,
            made: now,
            sent: 0,
            received: ReplayWindow::default(),
            unanswered_since: None,
            peer,
            suite,
            local,
            remote,
        }
    }

    /// Returns who began its handshake.
    pub(crate) const fn side(&self) -> Side {
        self.side
    }

    /// Returns whether it may still be used.
    pub(crate) fn is_valid(&self, now: Instant) -> bool {
        now.since(self.made) < REJECT_AFTER && self.sent < REJECT_AFTER_DATAGRAMS
    }

    /// Returns whether it was made within this time.
    pub(crate) fn is_younger(&self, now: Instant, age: Duration) -> bool {
        now.since(self.made) < age
    }

    /// Notes that the peer is there, by a datagram of this session or another one.
    pub(crate) const fn note_answer(&mut self) {
        self.unanswered_since = None;
    }

    /// Returns whether it is time for another one.
    pub(crate) fn is_ageing(&self, now: Instant) -> bool {
        let after = if self.side == Side::Initiator { REKEY_AFTER } else { REKEY_AFTER_BY_RESPONDER };
        let is_doubtful = self.unanswered_since.is_some_and(|since| now.since(since) >= DOUBT_AFTER);
        now.since(self.made) >= after || self.sent >= REKEY_AFTER_DATAGRAMS || is_doubtful
    }

    /// Returns when to forget it.
    pub(crate) fn forgotten_at(&self) -> Instant {
        self.made + FORGET_AFTER
    }

    /// Appends the sealed datagram to `into`.
    pub(crate) fn seal(&mut self, now: Instant, datagram: &[u8], into: &mut Vec<u8>) {
        let at = into.len();
        into.extend_from_slice(&transport_header(self.remote, self.sent));
        into.resize(at + OVERHEAD_BYTES + datagram.len(), 0);
        let sealed = &mut into[at + TRANSPORT_HEADER_BYTES..];
        self.transport
            .write_message(self.sent, datagram, sealed)
            .expect("a datagram is shorter than 65,519 bytes");
        self.sent += 1;
        // A keep-alive asks for no answer.
        if !datagram.is_empty() {
            self.unanswered_since.get_or_insert(now);
        }
    }

    /// Appends the opened datagram to `into`, which a refused one leaves as it was.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        message: &Transport<'_>,
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        if now.since(self.made) >= REJECT_AFTER {
            return Err(Refusal::Expired);
        }
        if !self.received.admits(message.counter) {
            return Err(Refusal::Replayed);
        }
        let at = into.len();
        // With room for the tag the cipher opens it in place, instead of in a buffer of its own.
        into.resize(at + message.sealed.len(), 0);
        let opened = self.transport.read_message(message.counter, message.sealed, &mut into[at..]);
        let Ok(size_bytes) = opened else {
            into.truncate(at);
            return Err(Refusal::BadTag);
        };
        into.truncate(at + size_bytes);
        self.received.note(message.counter);
        Ok(())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { side, local, remote, sent, .. } = self;
        write!(formatter, "Session({side:?}, {local:08x} to {remote:08x}, {sent} sent)")
    }
}
