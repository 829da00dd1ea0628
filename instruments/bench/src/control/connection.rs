//! One end of a control connection.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use noise::channel::{Opener, Sealer};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::frame::{self, FrameError, Frames};
use super::message::{Message, PROTOCOL};
use super::secured::{ControlKeys, ServerAt};
use crate::host_state::HostState;

/// Maximum number of received messages in the queue. It exceeds what an end sends at once; a peer that sends
/// more is slowed down.
const MOST_UNHEARD: usize = 16;

/// Time limits of an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patience {
    /// Maximum time until the connection is established.
    pub connect: Duration,
    /// Maximum time from the first byte of a message to its last, and until one is sent.
    pub message: Duration,
    /// Maximum time between two messages. Each end reports at least that it is [alive](Message::Alive), four
    /// times as often.
    pub silence: Duration,
}

/// Errors of a control connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// No connection could be established.
    #[error("no answer from a bench server at {address}: {source}\n{}", remedy(*address, source.kind()))]
    Unreachable {
        /// Address that was tried.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The two programs have different protocol versions.
    #[error(
        "{peer} speaks version {theirs} of the bench protocol (tallycast {their_program}), this program version {ours} \
         (tallycast {our_program})\ninstall the same version of tallycast on both hosts"
    )]
    Version {
        /// Address of the other end.
        peer: SocketAddr,
        /// Protocol version of the other end.
        theirs: u32,
        /// Program version of the other end.
        their_program: String,
        /// Protocol version of this program.
        ours: u32,
        /// Version of this program.
        our_program: &'static str,
    },
    /// The server is measuring with another client.
    #[error(
        "the server at {peer} is busy measuring with {with}\nwait until it has finished, or use another server"
    )]
    Busy {
        /// Address of the server.
        peer: SocketAddr,
        /// The other client.
        with: String,
    },
    /// The other end could not continue.
    #[error("the other end, {peer}, failed: {reason}")]
    Failed {
        /// Address of the other end.
        peer: SocketAddr,
        /// Its error text.
        reason: String,
    },
    /// The other end has closed the connection.
    #[error("the other end, {peer}, is gone\nsee whether it was ended, and start it again")]
    Gone {
        /// Address of the other end.
        peer: SocketAddr,
    },
    /// The other end is silent.
    #[error(
        "the other end, {peer}, has been silent for {silence:?}\nsee whether its host can still be reached"
    )]
    Silent {
        /// Address of the other end.
        peer: SocketAddr,
        /// Duration of the silence.
        silence: Duration,
    },
    /// The other end is not a bench.
    #[error(
        "{peer} does not speak the bench protocol: {source}\nsee what listens on that port, or choose another one with -p"
    )]
    Nonsense {
        /// Address of the other end.
        peer: SocketAddr,
        /// The invalid input.
        source: FrameError,
    },
    /// The other end began a message and did not complete it.
    #[error(
        "{peer} sent an incomplete message\nsee what listens on that port, or choose another one with -p"
    )]
    HalfMessage {
        /// Address of the other end.
        peer: SocketAddr,
    },
    /// The other end did not prove that it has the expected key.
    #[error(
        "{peer} is no server with the expected key that lists this client\n\
         start it with: tallycast bench -s --key FILE --peer {own}, and give its public key here with --peer"
    )]
    NotSecured {
        /// Address of the other end.
        peer: SocketAddr,
        /// Public key of this end.
        own: String,
    },
    /// A message was changed on the way.
    #[error(
        "what {peer} sent was changed on the way\nmeasure again; if this recurs, see what lies between the two hosts"
    )]
    Tampered {
        /// Address of the other end.
        peer: SocketAddr,
    },
    /// A message that is not valid in the present state.
    #[error(
        "{peer} sent an unexpected message `{said}`\ninstall the same version of tallycast on both hosts"
    )]
    Unexpected {
        /// Address of the other end.
        peer: SocketAddr,
        /// Text of the message.
        said: String,
    },
    /// The system refused a call.
    #[error("the control connection cannot be used")]
    System(#[from] io::Error),
}

/// One end of a control connection. Dropping it ends the connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    sealer: Option<Sealer>,
    /// This end's file of keys, for secured streams.
    station: Option<PathBuf>,
    local: SocketAddr,
    peer: SocketAddr,
    patience: Patience,
    heard: Receiver<Result<Message, ControlError>>,
    heard_at: Instant,
    told_at: Instant,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            message: Duration::from_secs(5),
            silence: Duration::from_secs(10),
        }
    }
}

impl Connection {
    /// Connects to a server and introduces itself; returns the server's state of its host.
    ///
    /// # Errors
    /// [`ControlError`], with a remedy.
    pub fn open(
        server: ServerAt<'_>,
        from: Option<SocketAddr>,
        patience: Patience,
    ) -> Result<(Self, HostState), ControlError> {
        let ServerAt { address, keys } = server;
        let stream = connect(address, from, patience.connect)
            .map_err(|source| ControlError::Unreachable { address, source })?;
        let channel = keys.map(|keys| keys.call(&stream, patience.message)).transpose()?;
        let mut connection = Self::over(stream, channel, patience)?.of_station(keys);
        let host = connection.introduce()?;
        Ok((connection, host))
    }

    /// Uses an established connection, in clear or after a handshake.
    pub(super) fn over(
        stream: TcpStream,
        channel: Option<(Sealer, Opener)>,
        patience: Patience,
    ) -> Result<Self, ControlError> {
        stream.set_nodelay(true)?;
        // A read returns often enough to notice a message that begins and does not end.
        stream.set_read_timeout(Some(patience.message / 4))?;
        let (local, peer) = (stream.local_addr()?, stream.peer_addr()?);
        let (sender, heard) = sync_channel(MOST_UNHEARD);
        let reading = stream.try_clone()?;
        let (sealer, opener) = channel.unzip();
        std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || listen((reading, opener), peer, patience.message, &sender))?;
        let now = Instant::now();
        let station = None;
        Ok(Self { stream, sealer, station, local, peer, patience, heard, heard_at: now, told_at: now })
    }

    /// Remembers this end's file of keys, if its keys are those of a station.
    pub(super) fn of_station(mut self, keys: Option<&ControlKeys>) -> Self {
        self.station = keys.and_then(|keys| keys.station.clone());
        self
    }

    /// Returns this end's file of keys.
    pub(crate) fn station(&self) -> Option<&Path> {
        self.station.as_deref()
    }

    fn introduce(&mut self) -> Result<HostState, ControlError> {
        self.tell(&Message::Hello { protocol: PROTOCOL, tallycast: program_version().to_owned() })?;
        match self.hear_surely()? {
            Message::Welcome { protocol, tallycast, host } => {
                self.check_version(protocol, tallycast)?;
                let said = || host.to_string();
                HostState::deserialize(&host)
                    .map_err(|_| ControlError::Unexpected { peer: self.peer, said: said() })
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Compares versions.
    pub(super) fn check_version(&self, theirs: u32, their_program: String) -> Result<(), ControlError> {
        if theirs == PROTOCOL {
            return Ok(());
        }
        let (ours, our_program) = (PROTOCOL, program_version());
        Err(ControlError::Version { peer: self.peer, theirs, their_program, ours, our_program })
    }

    /// Sends a message within the time limit of a message.
    ///
    /// # Errors
    /// [`ControlError::Gone`] if the peer does not take it.
    pub fn tell(&mut self, message: &Message) -> Result<(), ControlError> {
        self.told_at = Instant::now();
        let until = self.told_at + self.patience.message;
        let mut stream = &self.stream;
        let write = |bytes: &[u8], rest: Duration| {
            stream.set_write_timeout(Some(rest))?;
            stream.write(bytes)
        };
        let frame = frame::encode(message);
        let bytes = self.sealer.as_mut().map_or_else(|| frame.clone(), |sealer| sealer.seal(&frame));
        match write_until(write, &bytes, until) {
            Ok(()) => Ok(()),
            Err(_) => Err(self.last_words()),
        }
    }

    /// Returns why an end that takes no more messages has gone: its own error text, if it sent one.
    fn last_words(&self) -> ControlError {
        let until = Instant::now() + self.patience.message;
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return ControlError::Gone { peer: self.peer };
            }
            match self.heard.recv_timeout(rest) {
                Ok(Ok(Message::Failed { reason })) => {
                    return ControlError::Failed { peer: self.peer, reason };
                }
                Ok(Ok(Message::Busy { with })) => return ControlError::Busy { peer: self.peer, with },
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return error,
                Err(_) => return ControlError::Gone { peer: self.peer },
            }
        }
    }

    /// Says good-bye, and waits until the other end has closed the connection: then it is free for the next
    /// client.
    pub(crate) fn part(mut self) {
        // A peer that is gone needs no good-bye.
        if self.tell(&Message::Bye).is_err() {
            return;
        }
        let until = Instant::now() + self.patience.message;
        while Instant::now() < until && self.hear(until).is_ok() {}
    }

    /// Sends a message of a test.
    ///
    /// # Errors
    /// As for [`tell`](Self::tell).
    pub fn say<T: Serialize>(&mut self, word: &T) -> Result<(), ControlError> {
        self.tell(&Message::Word(plain(word)))
    }

    /// Waits for a message until a moment; `None` if there was none. Reports meanwhile that this end is alive.
    ///
    /// # Errors
    /// [`ControlError`] if the other end failed, is gone, silent, or not a bench.
    pub fn hear(&mut self, until: Instant) -> Result<Option<Message>, ControlError> {
        loop {
            if self.told_at.elapsed() >= self.patience.silence / 4 {
                self.tell(&Message::Alive)?;
            }
            let rest = until.saturating_duration_since(Instant::now()).min(self.patience.silence / 4);
            match self.heard.recv_timeout(rest) {
                Ok(message) => {
                    self.heard_at = Instant::now();
                    match message? {
                        Message::Alive => {}
                        Message::Failed { reason } => {
                            return Err(ControlError::Failed { peer: self.peer, reason });
                        }
                        Message::Busy { with } => {
                            return Err(ControlError::Busy { peer: self.peer, with });
                        }
                        message => return Ok(Some(message)),
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(ControlError::Gone { peer: self.peer }),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.heard_at.elapsed() > self.patience.silence {
                return Err(ControlError::Silent { peer: self.peer, silence: self.patience.silence });
            }
            if Instant::now() >= until {
                return Ok(None);
            }
        }
    }

    /// Waits for a message of a test until a moment; `None` if there was none.
    ///
    /// # Errors
    /// As for [`hear`](Self::hear), and if the message is of another kind.
    pub fn hear_word<T: DeserializeOwned>(&mut self, until: Instant) -> Result<Option<T>, ControlError> {
        match self.hear(until)? {
            None => Ok(None),
            Some(Message::Word(word)) => {
                let text = word.to_string();
                serde_json::from_value(word)
                    .map(Some)
                    .map_err(|_| ControlError::Unexpected { peer: self.peer, said: shortened(&text) })
            }
            Some(Message::Bye) => Err(ControlError::Gone { peer: self.peer }),
            Some(other) => Err(self.unexpected(&other)),
        }
    }

    /// Waits for a message of a test for the whole allowed silence.
    ///
    /// # Errors
    /// As for [`hear_word`](Self::hear_word), and if there was none.
    pub(crate) fn hear_word_surely<T: DeserializeOwned>(&mut self) -> Result<T, ControlError> {
        self.hear_word_within(self.patience.silence)
    }

    /// Waits for a message of a test, for at most this long.
    ///
    /// # Errors
    /// As for [`hear_word`](Self::hear_word), and if there was none.
    pub(crate) fn hear_word_within<T: DeserializeOwned>(
        &mut self,
        silence: Duration,
    ) -> Result<T, ControlError> {
        self.hear_word(Instant::now() + silence)?.ok_or(ControlError::Silent { peer: self.peer, silence })
    }

    /// Waits for a message for the whole allowed silence.
    ///
    /// # Errors
    /// As for [`hear`](Self::hear).
    pub fn hear_surely(&mut self) -> Result<Message, ControlError> {
        let silence = self.patience.silence;
        let until = Instant::now() + silence;
        self.hear(until)?.ok_or(ControlError::Silent { peer: self.peer, silence })
    }

    /// Returns this end's address.
    #[must_use]
    pub const fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Returns this end's address with a port of the system's choice: what is bound there takes this
    /// connection's path.
    pub(crate) fn local_address_any_port(&self) -> SocketAddr {
        let mut address = self.local;
        address.set_port(0);
        address
    }

    /// Returns the other end's address.
    #[must_use]
    pub const fn peer_address(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the time limits of this end.
    #[must_use]
    pub const fn patience(&self) -> Patience {
        self.patience
    }

    pub(crate) fn unexpected(&self, message: &Message) -> ControlError {
        let said = serde_json::to_string(message).unwrap_or_default();
        ControlError::Unexpected { peer: self.peer, said: shortened(&said) }
    }

    /// Returns the error for a message of a test that is invalid at this point.
    pub(crate) fn unexpected_word<T: Serialize>(&self, word: &T) -> ControlError {
        self.unexpected(&Message::Word(plain(word)))
    }
}

/// Returns a value as JSON.
pub(super) fn plain<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).expect("messages are plain data")
}

/// Returns an endpoint named by the other end as this end, at `local`, reaches it: a link-local address belongs
/// to an interface, whose number differs between hosts (RFC 4007 §6).
pub(crate) fn reached_from(local: SocketAddr, mut endpoint: SocketAddr) -> SocketAddr {
    if let (SocketAddr::V6(local), SocketAddr::V6(endpoint)) = (local, &mut endpoint) {
        endpoint.set_scope_id(local.scope_id());
    }
    endpoint
}

/// Error of an end that is asked for data to a third host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the other end asks for data at {endpoint}, which is another host or group than {wanted}\nmeasure without address translation in between"
)]
pub struct Stranger {
    /// Destination that the other end asked for.
    pub endpoint: SocketAddr,
    /// The only allowed address: the other end's own, or that of the group.
    pub wanted: IpAddr,
}

impl Stranger {
    /// Checks that all endpoints have the wanted address.
    pub(crate) fn check(endpoints: &[SocketAddr], wanted: IpAddr) -> Result<(), Self> {
        let is_stranger = |it: &&SocketAddr| it.ip().to_canonical() != wanted.to_canonical();
        endpoints.iter().find(is_stranger).map_or(Ok(()), |it| Err(Self { endpoint: *it, wanted }))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Ends the reading thread too. An error means that the other end has closed already.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

/// Returns the version of this program.
pub(crate) const fn program_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

fn connect(address: SocketAddr, from: Option<SocketAddr>, patience: Duration) -> io::Result<TcpStream> {
    let Some(from) = from else { return TcpStream::connect_timeout(&address, patience) };
    sys::tcp::connect_from(from, address, patience)
}

/// Reads messages until the connection ends or is broken.
fn listen(
    (mut stream, mut opener): (TcpStream, Option<Opener>),
    peer: SocketAddr,
    patience: Duration,
    sender: &SyncSender<Result<Message, ControlError>>,
) {
    let error = loop_over((&mut stream, &mut opener), peer, patience, sender);
    // The channel's receiver is gone: the connection is being dropped.
    let _ = sender.send(Err(error));
}

fn loop_over(
    (stream, opener): (&mut TcpStream, &mut Option<Opener>),
    peer: SocketAddr,
    patience: Duration,
    sender: &SyncSender<Result<Message, ControlError>>,
) -> ControlError {
    let (mut frames, mut began) = (Frames::default(), Instant::now());
    let mut memory = [0; 1 << 14];
    let mut plain = Vec::new();
    loop {
        let has_begun = |frames: &Frames, opener: &Option<Opener>| {
            frames.is_waiting_for_more() || opener.as_ref().is_some_and(Opener::is_waiting_for_more)
        };
        match stream.read(&mut memory) {
            Ok(0) => return ControlError::Gone { peer },
            Ok(count) => {
                if !has_begun(&frames, opener) {
                    began = Instant::now();
                }
                match opener {
                    None => frames.push(&memory[..count]),
                    Some(opener) => {
                        plain.clear();
                        if opener.open(&memory[..count], &mut plain).is_err() {
                            return ControlError::Tampered { peer };
                        }
                        frames.push(&plain);
                    }
                }
                while let Some(message) = frames.next() {
                    let message = match message {
                        Ok(message) => message,
                        Err(source) => return ControlError::Nonsense { peer, source },
                    };
                    if sender.send(Ok(message)).is_err() {
                        return ControlError::Gone { peer };
                    }
                    // After the hand-over: the time it took is not the peer's delay.
                    began = Instant::now();
                }
            }
            Err(error) if is_nothing(&error) => {}
            Err(_) => return ControlError::Gone { peer },
        }
        if has_begun(&frames, opener) && began.elapsed() > patience {
            return ControlError::HalfMessage { peer };
        }
    }
}

/// Returns the remedy for a server that does not answer.
fn remedy(address: SocketAddr, error: io::ErrorKind) -> String {
    let host = address.ip();
    match error {
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            format!("see how this host would reach it with: ip route get {host}")
        }
        _ if host.is_loopback() => "start one there with: tallycast bench -s".to_owned(),
        _ => "start one there with: tallycast bench -s --listen 0.0.0.0".to_owned(),
    }
}

/// Writes all bytes until a moment, in as many calls as that takes.
fn write_until(
    mut write: impl FnMut(&[u8], Duration) -> io::Result<usize>,
    mut bytes: &[u8],
    until: Instant,
) -> io::Result<()> {
    while !bytes.is_empty() {
        let rest = until.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match write(bytes, rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => bytes = &bytes[taken..],
            Err(error) if is_nothing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// Shortens a text from the peer to the length of a line.
fn shortened(text: &str) -> String {
    const LETTERS: usize = 120;
    let mut short: String = text.chars().take(LETTERS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_takes_a_byte_at_a_time_does_not_stretch_the_time_for_a_message() {
        let time = Duration::from_millis(100);
        let until = Instant::now() + time;
        let mut calls = 0;
        let slow = |_: &[u8], rest: Duration| {
            assert!(rest <= time);
            calls += 1;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            Ok(1)
        };
        let error = write_until(slow, &[0; 100], until).unwrap_err();
        // Not even once if this thread was kept from its processor the whole time.
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(calls <= 1, "{calls} bytes were taken");
    }

    #[test]
    fn a_message_is_written_whole_however_it_is_cut() {
        let (mut written, mut calls) = (Vec::new(), 0);
        let cut = |bytes: &[u8], _| {
            calls += 1;
            if calls % 3 == 0 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let taken = bytes.len().min(calls);
            written.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        };
        let bytes: Vec<u8> = (0..100).collect();
        write_until(cut, &bytes, Instant::now() + Duration::from_secs(60)).unwrap();
        assert_eq!(written, bytes);
    }

    #[test]
    fn an_endpoint_is_reached_by_the_interface_of_this_end() {
        let reached = |local: &str, endpoint: &str| {
            let [local, endpoint] = [local, endpoint].map(|text| text.parse::<SocketAddr>().unwrap());
            reached_from(local, endpoint).to_string()
        };
        assert_eq!(reached("[fe80::1%3]:0", "[fe80::2%7]:9"), "[fe80::2%3]:9");
        assert_eq!(reached("[2001:db8::1]:0", "[2001:db8::2]:9"), "[2001:db8::2]:9");
        assert_eq!(reached("192.0.2.1:0", "192.0.2.2:9"), "192.0.2.2:9");
    }
}
