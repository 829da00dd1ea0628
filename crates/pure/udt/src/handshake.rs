//! Connection setup: a client requests and concludes, or both ends meet by rendezvous.

use core::net::SocketAddr;
use core::time::Duration;

use units::Instant;
use wire::udt::{Handshake, Request, Sequence, SocketId, VERSION, address_words};

use crate::config::{MIN_PACKET_BYTES, SocketConfig, announced_bytes};

/// libudt's interval of repetition.
const REPEAT_AFTER: Duration = Duration::from_millis(250);
/// Number of unanswered handshakes after which a cookie is considered expired and a new one is requested.
const CONCLUSIONS_PER_COOKIE: u32 = 3;

/// An end that is connecting.
#[derive(Debug)]
pub(crate) struct Seeking {
    role: Role,
    request: Handshake,
    due: Instant,
    give_up_at: Instant,
    conclusions: u32,
}

/// Role in the setup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Client,
    /// Rendezvous, with the content of the peer's first handshake.
    Rendezvous {
        met: Option<Agreed>,
    },
}

/// Parameters that both ends agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Agreed {
    pub(crate) peer: SocketId,
    /// Maximum size of packets sent.
    pub(crate) packet_bytes: u32,
    /// Maximum size of packets accepted: in a rendezvous a libudt peer uses the size announced by this end,
    /// regardless of its own.
    pub(crate) taken_bytes: u32,
    /// Number of packets that the peer takes before its first acknowledgement.
    pub(crate) window_packets: u32,
    pub(crate) own_first: Sequence,
    pub(crate) peer_first: Sequence,
}

/// Result of a handshake from the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// No result yet, or another handshake is to be sent.
    Seeking,
    /// The connection is established; a rendezvous confirms it to its peer once more.
    Found(Agreed),
    /// The peer refuses the connection.
    Refused,
    /// An invalid handshake without effect.
    Nonsense,
}

impl Seeking {
    /// Starts connecting to a listener, or by rendezvous, depending on the first request.
    pub(crate) fn new(
        now: Instant,
        request: Request,
        config: &SocketConfig,
        id: SocketId,
        first: Sequence,
        peer: SocketAddr,
    ) -> Self {
        let role = if request == Request::Rendezvous { Role::Rendezvous { met: None } } else { Role::Client };
        let request = Handshake { request, ..offer(config, id, first, 0, peer) };
        Self { role, request, due: now, give_up_at: now + config.connect_timeout, conclusions: 0 }
    }

    pub(crate) fn is_rendezvous(&self) -> bool {
        matches!(self.role, Role::Rendezvous { .. })
    }

    /// Returns its own handshake.
    pub(crate) const fn said(&self) -> Handshake {
        self.request
    }

    /// Returns the parameters of a rendezvous whose peer turns out to be connected already.
    pub(crate) const fn met(&self) -> Option<Agreed> {
        match self.role {
            Role::Rendezvous { met } => met,
            Role::Client => None,
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.due.min(self.give_up_at)
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now >= self.give_up_at
    }

    /// Returns the due handshake, and its destination socket.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<(SocketId, Handshake)> {
        if self.due > now {
            return None;
        }
        self.due = now + REPEAT_AFTER;
        if self.role == Role::Client && self.request.request == Request::Conclude {
            if self.conclusions == CONCLUSIONS_PER_COOKIE {
                self.conclusions = 0;
                (self.request.request, self.request.cookie) = (Request::Connect, 0);
            }
            self.conclusions += 1;
        }
        let to = match self.role {
            Role::Rendezvous { met: Some(agreed) } => agreed.peer,
            Role::Client | Role::Rendezvous { met: None } => SocketId(0),
        };
        Some((to, self.request))
    }

    /// Handles a handshake of the peer.
    pub(crate) fn receive(&mut self, now: Instant, answer: &Handshake) -> Progress {
        if answer.request == Request::Reject {
            return if self.role == Role::Client { Progress::Refused } else { Progress::Nonsense };
        }
        match self.role {
            Role::Client => self.receive_as_client(now, answer),
            Role::Rendezvous { .. } => self.meet(now, answer),
        }
    }

    fn receive_as_client(&mut self, now: Instant, answer: &Handshake) -> Progress {
        let is_ours =
            answer.first_sequence == self.request.first_sequence && makes_sense(answer, &self.request);
        match answer.request {
            Request::Connect if is_ours && answer.socket == self.request.socket => {
                // The challenge. A second one answers a repeated request.
                if self.request.request == Request::Connect {
                    (self.request.request, self.request.cookie) = (Request::Conclude, answer.cookie);
                    self.due = now;
                }
                Progress::Seeking
            }
            // Accepted even late, when a new cookie has been requested already.
            Request::Conclude if is_ours => Progress::Found(self.agree(answer)),
            _ => Progress::Nonsense,
        }
    }

    /// Source: libudt's rendezvous; its draft has other rules.
    fn meet(&mut self, now: Instant, answer: &Handshake) -> Progress {
        if answer.request == Request::Connect || !makes_sense(answer, &self.request) {
            return Progress::Nonsense;
        }
        let begins = self.request.request == Request::Rendezvous || answer.request == Request::Rendezvous;
        let agreed = self.agree(answer);
        self.role = Role::Rendezvous { met: Some(agreed) };
        if begins {
            self.request.request = Request::Conclude;
            self.due = now;
            return Progress::Seeking;
        }
        Progress::Found(agreed)
    }

    fn agree(&self, answer: &Handshake) -> Agreed {
        let packet_bytes = answer.packet_bytes.min(self.request.packet_bytes);
        let taken_bytes = if self.is_rendezvous() { self.request.packet_bytes } else { packet_bytes };
        Agreed {
            peer: answer.socket,
            packet_bytes,
            taken_bytes,
            window_packets: answer.window_packets,
            own_first: self.request.first_sequence,
            peer_first: answer.first_sequence,
        }
    }
}

/// Returns the handshake of an end.
pub(crate) fn offer(
    config: &SocketConfig,
    id: SocketId,
    first: Sequence,
    cookie: u32,
    peer: SocketAddr,
) -> Handshake {
    Handshake {
        version: VERSION,
        socket_type: Some(config.socket_type),
        first_sequence: first,
        packet_bytes: announced_bytes(config, peer.ip()),
        window_packets: config.receive_buffer_packets.max(32),
        request: Request::Conclude,
        socket: id,
        cookie,
        address: address_words(peer.ip()),
    }
}

/// Returns whether an answer is consistent with this end's parameters.
fn makes_sense(answer: &Handshake, own: &Handshake) -> bool {
    is_sound(answer) && answer.socket_type == own.socket_type
}

/// Returns whether sizes and sockets are within their ranges.
pub(crate) fn is_sound(handshake: &Handshake) -> bool {
    let is_socket = handshake.socket.0 != 0 && handshake.socket.0 <= i32::MAX.cast_unsigned();
    handshake.version == VERSION
        && is_socket
        && handshake.packet_bytes >= MIN_PACKET_BYTES
        && handshake.window_packets > 0
        && handshake.socket_type.is_some()
}
