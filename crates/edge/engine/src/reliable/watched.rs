//! Calls of a port's owner that never wait, and the news that it waits for: for a thread that waits for much else at
//! the same time, such as records of rings.
//!
//! At each word the owner looks at everything: which connections are established, accepted or over, and which messages
//! have come.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use udt::{Arrival, CloseReason, SendError, Sent, SocketConfig, SocketId, Terms};
use units::Instant;

use super::{Known, News, ReliablePort, State, WaitError, enclosed, fitting};

/// Round trip of a connection that has measured none: libudt's initial value, as `congestion::RoundTrip::UNKNOWN`.
const UNMEASURED: Duration = Duration::from_millis(100);

/// Where a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The peer has not answered yet.
    Connecting,
    /// Messages can be sent and received.
    Connected,
    /// It is over; messages that had arrived can still be received.
    Over(CloseReason),
}

/// What the way of a connection allows at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// Smoothed round trip; `None` until it is measured.
    pub round_trip: Option<Duration>,
    /// The connection's clock. Units: microseconds since it was opened; 32 bits that wrap.
    pub clock_us: u32,
    /// The moment.
    pub at: Instant,
    /// Number of messages of one packet that are taken now.
    pub room: u32,
    /// Largest message that is one packet. Units: bytes.
    pub message_bytes: usize,
    /// Whether the peer answers.
    pub is_up: bool,
}

impl ReliablePort {
    /// Tells `news` from now on whenever a connection is established, accepted or over, a message has come, there is
    /// room again for one that was refused, or the port fails.
    pub fn tell(&self, news: Arc<News>) {
        self.with(|state, _| state.news = Some(Arc::clone(&news)));
        news.tell();
    }

    /// Begins to connect to a listener, without waiting for its answer.
    #[must_use]
    pub fn begin_to_connect(&self, peer: SocketAddr, config: SocketConfig) -> SocketId {
        let config = fitting(config, peer);
        self.with(|state, now| {
            let config = enclosed(config, state.enclosure.is_secured());
            let socket = state.endpoint.connect(now, peer, config);
            state.known.insert(socket, Known::default());
            socket
        })
    }

    /// Takes the next waiting client, if there is one.
    #[must_use]
    pub fn try_accept(&self) -> Option<SocketId> {
        self.with(|state, _| state.accept())
    }

    /// Returns where a connection stands; `None` if it does not exist.
    #[must_use]
    pub fn standing(&self, socket: SocketId) -> Option<Standing> {
        self.with(|state, _| {
            let known = state.known.get(&socket)?;
            Some(match known.closed {
                Some(reason) => Standing::Over(reason),
                None if known.is_connected => Standing::Connected,
                None => Standing::Connecting,
            })
        })
    }

    /// Queues a message, if there is room for it now and it can still arrive in time.
    ///
    /// # Errors
    /// If the connection is not established or over, or the message is too long for it.
    pub fn try_send_message(&self, socket: SocketId, bytes: &[u8], terms: Terms) -> Result<Sent, WaitError> {
        self.with(|state, now| {
            let sent = state.endpoint.send_message(now, socket, bytes, terms);
            sent.map_err(|error| state.why(socket, error))
        })
    }

    /// Replaces the content of `out` by the next message; returns its times, `None` if there is none yet.
    ///
    /// # Errors
    /// If the connection does not exist; or it is over, and all its messages were received.
    pub fn try_receive_message(
        &self,
        socket: SocketId,
        out: &mut Vec<u8>,
    ) -> Result<Option<Arrival>, WaitError> {
        out.clear();
        self.with(|state, _| {
            if let Some(arrival) = state.endpoint.receive_message(socket, out) {
                return Ok(Some(arrival));
            }
            if !state.known.contains_key(&socket) {
                return Err(WaitError::Send(SendError::Closed));
            }
            state.over(socket).map_or(Ok(None), Err)
        })
    }

    /// Takes the messages that were given up since the last call, by their tags, each with whether it had been sent.
    #[must_use]
    pub fn take_expired(&self, socket: SocketId) -> Vec<(u64, bool)> {
        self.with(|state, _| {
            state.known.get_mut(&socket).map_or_else(Vec::new, |known| std::mem::take(&mut known.expired))
        })
    }

    /// Returns what the way of a connection allows now; `None` if there is no connection. If there is no room, the
    /// news tell of some.
    #[must_use]
    pub fn way(&self, socket: SocketId) -> Option<Way> {
        self.with(|state, now| {
            let (endpoint, stats) = (&state.endpoint, state.endpoint.stats(socket)?);
            if let Some(known) = state.known.get_mut(&socket) {
                known.wants_room = endpoint.room(socket) == 0;
            }
            Some(Way {
                round_trip: Some(stats.round_trip).filter(|round_trip| *round_trip != UNMEASURED),
                clock_us: endpoint.clock_us(now, socket)?,
                at: now,
                room: endpoint.room(socket),
                message_bytes: endpoint.message_bytes(socket),
                is_up: endpoint.is_link_up(socket),
            })
        })
    }

    /// Returns when a connection's peer was heard last, and the smoothed round trip; `None` if there is no connection.
    #[must_use]
    pub fn heard(&self, socket: SocketId) -> Option<(Instant, Duration)> {
        self.with(|State { endpoint, .. }, _| {
            Some((endpoint.heard_at(socket)?, endpoint.stats(socket)?.round_trip))
        })
    }

    /// Asks a connection's peer for an answer, which comes at once if it still knows the connection.
    pub fn ask(&self, socket: SocketId) {
        self.with(|state, now| state.endpoint.ask(now, socket));
    }

    /// Makes another session with a peer on a secured port, which may have lost its own, as
    /// [`Sessions::renew`](noise::Sessions::renew) does.
    pub fn renew_session(&self, peer: SocketAddr, most_wait: Duration) {
        self.with(|state, now| state.enclosure.renew(now, peer, most_wait));
    }

    /// Closes a connection and forgets it: what is queued is still sent while the port exists, and nothing more is
    /// told of it.
    pub fn leave(&self, socket: SocketId) {
        self.with(|state, now| {
            state.endpoint.close(now, socket);
            state.known.remove(&socket);
        });
    }

    /// Returns why the port's thread ended, if it has.
    #[must_use]
    pub fn failed(&self) -> Option<std::io::ErrorKind> {
        self.with(|state, _| state.failed)
    }
}
