//! How two ends find together: a client asks and concludes, or both ends meet.

use core::net::SocketAddr;
use core::time::Duration;

use units::Instant;
use wire::udt::{Handshake, Request, Sequence, SocketId, VERSION, address_words};

use crate::config::{MIN_PACKET_BYTES, SocketConfig, announced_bytes};

/// libudt's interval of repeating.
const REPEAT_AFTER: Duration = Duration::from_millis(250);
/// A cookie that stays without an answer so often has become too old: ask for a new one.
const CONCLUSIONS_PER_COOKIE: u32 = 3;

/// One end that looks for the other.
#[derive(Debug)]
pub(crate) struct Seeking {
    role: Role,
    request: Handshake,
    due: Instant,
    give_up_at: Instant,
    conclusions: u32,
}

/// How it looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Client,
    /// Both ends begin; what the peer's first handshake said.
    Rendezvous {
        met: Option<Agreed>,
    },
}

/// What both ends agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Agreed {
    pub(crate) peer: SocketId,
    /// The largest packet that is sent.
    pub(crate) packet_bytes: u32,
    /// The largest that is taken: in a rendezvous a libudt peer sends what we announced, whatever it announced itself.
    pub(crate) taken_bytes: u32,
    /// How many packets the peer takes before its first acknowledgement.
    pub(crate) window_packets: u32,
    pub(crate) own_first: Sequence,
    pub(crate) peer_first: Sequence,
}

/// What a handshake of the peer brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// Nothing, or another one is to be sent.
    Seeking,
    /// The connection stands; a rendezvous tells its peer so once more.
    Found(Agreed),
    /// The peer does not want us.
    Refused,
    /// It makes no sense: not counted for anything.
    Nonsense,
}

impl Seeking {
    /// Begins to look for a listener, or for somebody who looks for us, as the first request says.
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

    /// Returns what it says of itself.
    pub(crate) const fn said(&self) -> Handshake {
        self.request
    }

    /// Returns what a rendezvous would agree on if its peer were seen to be connected.
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

    /// Returns the handshake that is due, and the socket it is for.
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

    /// Takes a handshake of the peer.
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
                // The challenge. A second one is the answer to a repeated request.
                if self.request.request == Request::Connect {
                    (self.request.request, self.request.cookie) = (Request::Conclude, answer.cookie);
                    self.due = now;
                }
                Progress::Seeking
            }
            // Also late, when a new cookie is asked for already.
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

/// Returns what an end says of itself.
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
        packet_bytes: announced_bytes(config.packet_bytes, peer.ip()),
        window_packets: config.receive_buffer_packets.max(32),
        request: Request::Conclude,
        socket: id,
        cookie,
        address: address_words(peer.ip()),
    }
}

/// Tells whether what an end says of itself can be worked with.
fn makes_sense(answer: &Handshake, own: &Handshake) -> bool {
    is_sound(answer) && answer.socket_type == own.socket_type
}

/// Tells whether sizes and sockets are what they can be.
pub(crate) fn is_sound(handshake: &Handshake) -> bool {
    let is_socket = handshake.socket.0 != 0 && handshake.socket.0 <= i32::MAX.cast_unsigned();
    handshake.version == VERSION
        && is_socket
        && handshake.packet_bytes >= MIN_PACKET_BYTES
        && handshake.window_packets > 0
        && handshake.socket_type.is_some()
}
