//! The largest datagram that passes to the server and back unfragmented: found by trying.
//!
//! This host knows only its own interface's MTU and the answers of routers ([`sys::path_mtu`]). A hop further
//! along that silently drops large packets shows only when one is sent: with fragments forbidden both ways,
//! each size of a search is sent, and a small datagram after it. A size is too large once small ones came back
//! three times and it did not: by the clock alone a server that is kept from its processor would look like a
//! PMTU black hole. Source: RFC 4821, which finds a path's MTU so, without the answers of routers.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use probe::{Answer, Bisection, Found, Next};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sys::{Cancellation, fragments, header_bytes};

use crate::control::{Connection, ControlError, Message, Patience, Serve, ServeError, ServerAt, Session};
use crate::greeting::token;
use crate::options::LARGEST_DATAGRAM_BYTES;

/// The server's part of the test.
pub const TEST: &dyn Serve = &PathMtuTest;
const NAME: &str = "path_mtu";

/// Number of times a size must be missing while a small datagram returns: one lost datagram is not a smaller
/// MTU.
const MISSING: u32 = 3;
/// Number of consecutive times not even a small one may return: five seconds of waiting.
const SILENT: u32 = 20;
/// Time to wait for answers before the next attempt. Later ones count, too.
const WAIT: Duration = Duration::from_millis(250);
/// Interval at which the server reads the control connection while it waits for datagrams: the connection is read
/// by a thread, whose channel has no descriptor to wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Length of token and attempt number at the start of each datagram.
const HEAD_BYTES: usize = 8 + 4;

/// Result of the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PathMtu {
    /// The largest payload that came back.
    pub payload_bytes: usize,
    /// Size of the packet around it.
    pub mtu_bytes: usize,
    /// Path MTU known to this host before.
    pub known_mtu_bytes: usize,
}

/// Reasons why nothing was found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathMtuError {
    /// The server cannot be reached, or is gone.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Datagrams cannot be sent.
    #[error("datagrams cannot be sent to {to}: {source}\ncheck route and firewall")]
    Socket {
        /// Destination of the datagrams.
        to: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The measurement was ended early.
    #[error("the path MTU measurement was stopped early\nlet it finish, or leave --probe-mtu out")]
    Ended,
    /// Not even small datagrams come back.
    #[error(
        "no answer to datagrams from {0}\na firewall may let only TCP through: open UDP in both directions"
    )]
    NothingCameBack(SocketAddr),
}

/// Messages of the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    /// The server answers at this port datagrams that begin with this token.
    Ready { port: u16, token: u64 },
}

/// Finds the largest datagram that passes to a server and back unfragmented, unless it is to end before.
///
/// # Errors
/// [`PathMtuError`].
pub fn find(
    server: ServerAt<'_>,
    from: Option<SocketAddr>,
    patience: Patience,
    cancellation: &Cancellation,
) -> Result<PathMtu, PathMtuError> {
    let (mut connection, _) = Connection::open(server, from, patience)?;
    connection.tell(&Message::Begin { test: NAME.to_owned(), parameters: Value::Null })?;
    let ready = connection.hear_word(Instant::now() + patience.silence)?;
    let Some(Word::Ready { port, token }) = ready else {
        return Err(ControlError::Gone { peer: server.address }.into());
    };
    let to = SocketAddr::new(connection.peer_address().ip(), port);
    let failed = |source| PathMtuError::Socket { to, source };
    let mut sender = Echoing::open(connection.local_address(), to, token).map_err(failed)?;
    let known_mtu_bytes = sys::path_mtu(to, None).map_err(failed)?;
    let limit = known_mtu_bytes.saturating_sub(header_bytes(&to)).clamp(HEAD_BYTES, LARGEST_DATAGRAM_BYTES);
    let mut search = Bisection::new(limit as u64, 1);
    let found = loop {
        match search.next() {
            Next::Try(_) if cancellation.is_cancelled() => {
                connection.part();
                return Err(PathMtuError::Ended);
            }
            Next::Try(bytes) => {
                let size_bytes = usize::try_from(bytes).unwrap_or(LARGEST_DATAGRAM_BYTES);
                // Also shows the server that this end is alive.
                connection.tell(&Message::Alive)?;
                match sender.comes_back(size_bytes).map_err(failed)? {
                    ProbeOutcome::Back => search.tell(Answer::Good),
                    ProbeOutcome::Missing => search.tell(Answer::Bad),
                    ProbeOutcome::Silence => return Err(PathMtuError::NothingCameBack(to)),
                }
            }
            Next::Done(Found::Largest(bytes) | Found::Limit(bytes)) if bytes > HEAD_BYTES as u64 => {
                break usize::try_from(bytes).unwrap_or(LARGEST_DATAGRAM_BYTES);
            }
            Next::Done(_) => return Err(PathMtuError::NothingCameBack(to)),
        }
    };
    connection.part();
    Ok(PathMtu { payload_bytes: found, mtu_bytes: found + header_bytes(&to), known_mtu_bytes })
}

/// The client's end.
struct Echoing {
    socket: UdpSocket,
    token: u64,
    attempt: u32,
    buffer: Vec<u8>,
}

impl Echoing {
    fn open(local: SocketAddr, to: SocketAddr, token: u64) -> io::Result<Self> {
        let socket = UdpSocket::bind(SocketAddr::new(local.ip(), 0))?;
        socket.connect(to)?;
        fragments::forbid(&socket, to)?;
        Ok(Self { socket, token, attempt: 0, buffer: vec![0; LARGEST_DATAGRAM_BYTES] })
    }

    /// Returns whether a datagram of `size_bytes` passes to the server and back.
    fn comes_back(&mut self, size_bytes: usize) -> io::Result<ProbeOutcome> {
        if size_bytes < HEAD_BYTES {
            return Ok(ProbeOutcome::Back);
        }
        let first_attempt = self.attempt + 1;
        let (mut missing, mut silent) = (0, 0);
        while missing < MISSING {
            self.attempt += 1;
            if !self.send(size_bytes)? {
                return Ok(ProbeOutcome::Missing);
            }
            self.send(HEAD_BYTES)?;
            match self.hear(size_bytes, first_attempt)? {
                Heard::ThatSize => return Ok(ProbeOutcome::Back),
                Heard::TooLarge => return Ok(ProbeOutcome::Missing),
                Heard::Small => (missing, silent) = (missing + 1, 0),
                Heard::Nothing if silent == SILENT => return Ok(ProbeOutcome::Silence),
                Heard::Nothing => silent += 1,
            }
        }
        // The small ones may have overtaken it.
        let next_attempt = self.attempt + 1;
        Ok(match self.hear(size_bytes, next_attempt)? {
            Heard::ThatSize => ProbeOutcome::Back,
            Heard::TooLarge | Heard::Small | Heard::Nothing => ProbeOutcome::Missing,
        })
    }

    /// Sends a datagram of `size_bytes`; returns false if this host already finds it too large.
    fn send(&mut self, size_bytes: usize) -> io::Result<bool> {
        let datagram = &mut self.buffer[..size_bytes];
        datagram[..8].copy_from_slice(&self.token.to_le_bytes());
        datagram[8..HEAD_BYTES].copy_from_slice(&self.attempt.to_le_bytes());
        match self.socket.send(datagram) {
            Ok(_) => Ok(true),
            // A router has answered meanwhile that this is too large, or this host knows it.
            Err(error) if is_too_large(&error) => Ok(false),
            // An earlier one met a closed port: this one was not sent.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Waits for an answer of this size or a larger one, of any attempt, or a small one from `first_attempt`
    /// on.
    fn hear(&mut self, size_bytes: usize, first_attempt: u32) -> io::Result<Heard> {
        let until = Instant::now() + WAIT;
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Ok(Heard::Nothing);
            }
            self.socket.set_read_timeout(Some(rest))?;
            match self.socket.recv(&mut self.buffer) {
                Ok(len) => match attempt(&self.buffer[..len], self.token) {
                    Some(_) if len >= size_bytes => return Ok(Heard::ThatSize),
                    Some(attempt) if attempt >= first_attempt => return Ok(Heard::Small),
                    _ => {}
                },
                Err(error) if is_too_large(&error) => return Ok(Heard::TooLarge),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The outcome of probing one size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ProbeOutcome {
    Back,
    /// Small ones came back, it did not; or a router has answered that it is too large.
    Missing,
    /// Nothing came back at all.
    Silence,
}

/// Result of waiting for an answer.
enum Heard {
    ThatSize,
    Small,
    /// The system's report that a datagram was too large.
    TooLarge,
    Nothing,
}

/// Returns the attempt number of a datagram that begins with the token.
fn attempt(datagram: &[u8], token: u64) -> Option<u32> {
    let (head, rest) = datagram.split_first_chunk()?;
    (u64::from_le_bytes(*head) == token).then(|| rest.first_chunk().map(|it| u32::from_le_bytes(*it)))?
}

/// The server's part: it echoes each datagram of the client, until the client says good-bye.
struct PathMtuTest;

impl Serve for PathMtuTest {
    fn name(&self) -> &'static str {
        NAME
    }

    fn serve(&self, _parameters: Value, session: &mut Session<'_>) -> Result<(), ServeError> {
        let connection = &mut *session.connection;
        let (local, peer, token) = (connection.local_address(), connection.peer_address(), token());
        let open = || {
            let socket = UdpSocket::bind(SocketAddr::new(local.ip(), 0))?;
            fragments::forbid(&socket, peer)?;
            socket.set_read_timeout(Some(POLL_INTERVAL))?;
            Ok((socket.local_addr()?.port(), socket))
        };
        let (port, socket) = open()
            .map_err(|error: io::Error| ServeError::Refused(format!("no socket for datagrams: {error}")))?;
        connection.say(&Word::Ready { port, token })?;
        let mut buffer = vec![0; LARGEST_DATAGRAM_BYTES];
        while !session.cancellation.is_cancelled() {
            if let Ok((len, from)) = socket.recv_from(&mut buffer)
                && from.ip() == peer.ip()
                && buffer[..len].starts_with(&token.to_le_bytes())
            {
                // If the reverse path does not take it, the client finds it missing.
                let _ = socket.send_to(&buffer[..len], from);
            } else {
                match connection.hear(Instant::now())? {
                    None => {}
                    Some(Message::Bye) => return Ok(()),
                    Some(other) => return Err(connection.unexpected(&other).into()),
                }
            }
        }
        Err(ServeError::Ended)
    }
}

/// Returns whether an error means "too large".
fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error())
}

/// Returns whether an error says nothing about this end: the port is still closed, or nothing came.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), ConnectionRefused | Interrupted | TimedOut | WouldBlock)
}

#[cfg(test)]
mod tests {
    use support::WATCHDOG;

    use super::*;
    use crate::control::scene::{PATIENT, Scene};

    /// Opens a client's end, and the peer's socket.
    fn ends() -> (Echoing, UdpSocket) {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = peer.local_addr().unwrap();
        (Echoing::open("127.0.0.1:0".parse().unwrap(), to, 7).unwrap(), peer)
    }

    /// Probes 1,000 bytes, with a peer that answers as `echo` decides, until that returns that this was the
    /// last.
    fn ask(echo: impl FnMut(&UdpSocket, &[u8], SocketAddr) -> bool + Send) -> ProbeOutcome {
        let (mut client, peer) = ends();
        peer.set_read_timeout(Some(WATCHDOG)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut echo, mut buffer) = (echo, [0; 2_000]);
                while let Ok((len, from)) = peer.recv_from(&mut buffer)
                    && echo(&peer, &buffer[..len], from)
                {}
            });
            client.comes_back(1_000).unwrap()
        })
    }

    #[test]
    fn answers_of_a_peer_that_slept_over_several_attempts_count() {
        let mut slept_over = Vec::new();
        let outcome = ask(|peer, datagram, from| {
            slept_over.push(datagram.to_vec());
            // Four attempts, of two datagrams each.
            let sleeps = slept_over.len() < 8;
            if !sleeps {
                slept_over.iter().for_each(|it| drop(peer.send_to(it, from)));
            }
            sleeps
        });
        assert_eq!(outcome, ProbeOutcome::Back);
    }

    #[test]
    fn a_size_is_missing_once_small_ones_have_come_back_three_times() {
        let mut small = 0;
        let outcome = ask(|peer, datagram, from| {
            if datagram.len() == HEAD_BYTES {
                peer.send_to(datagram, from).unwrap();
                small += 1;
            }
            small < 3
        });
        assert_eq!(outcome, ProbeOutcome::Missing);
    }

    #[test]
    fn a_search_that_is_to_end_ends_and_says_good_bye() {
        let scene = Scene::new(&[TEST], PATIENT);
        let cancellation = Cancellation::new().unwrap();
        cancellation.cancel();
        let found = find(scene.address.into(), None, PATIENT, &cancellation);
        assert!(matches!(found, Err(PathMtuError::Ended)), "{found:?}");
        assert_eq!(scene.ended(), None);
    }
}
