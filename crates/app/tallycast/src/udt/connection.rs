//! A connection to a peer.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::keys::PublicKey;
use ::udt::{CloseReason, SendError, SocketId, SocketType, Stats};
use engine::{ReliablePort, WaitError};

use super::keys::Purpose;
use super::{Address, Error, Options, kind_of};

/// Error code that libudt sends to a sender whose file cannot be written; its programs see error 7000.
const FILE_ERROR: u32 = 4_000;
/// Amount of a file that is read or written in one call. Units: bytes.
const PIECE_BYTES: usize = 1 << 20;

/// A connection to a peer: a stream of bytes, or messages. One thread may send while another receives.
///
/// Dropping it closes it, and waits until the peer has acknowledged the queued data or the linger time is
/// over; [`close`](Self::close) also reports which.
pub struct Connection {
    port: Arc<ReliablePort>,
    socket: SocketId,
    send_timeout: Timeout,
    receive_timeout: Timeout,
    is_closed: bool,
}

/// Lifetime and ordering of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lifetime {
    /// Time after which the transport stops trying and reports it; without it the transport tries
    /// until the connection ends.
    pub at_most: Option<Duration>,
    /// True if it may overtake messages that were sent before it and are still in flight.
    pub may_overtake: bool,
}

/// Maximum time a call waits, without limit if there is none. Units inside: nanoseconds, 0 for no limit.
#[derive(Debug, Default)]
struct Timeout(AtomicU64);

impl Timeout {
    fn set(&self, timeout: Option<Duration>) {
        let nanos = timeout.map_or(0, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).max(1));
        self.0.store(nanos, Ordering::Relaxed);
    }

    fn get(&self) -> Option<Duration> {
        let nanos = self.0.load(Ordering::Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }
}

impl Connection {
    /// Connects a stream to a listener, from a port of the kernel's choice.
    ///
    /// # Errors
    /// [`Error::Connect`] if the peer does not answer or refuses; others if the address is not valid.
    pub fn connect(address: &Address) -> Result<Self, Error> {
        Self::connect_to(address.resolve()?, &address.options(SocketType::Stream)?)
    }

    /// Connects to a listener, from a port of the kernel's choice.
    ///
    /// # Errors
    /// [`Error::Connect`] if the peer does not answer or refuses.
    pub fn connect_to(peer: SocketAddr, options: &Options) -> Result<Self, Error> {
        let any = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        Self::connect_from(SocketAddr::new(any, 0), peer, options)
    }

    /// Connects to a listener, from an address of this host; port 0 lets the kernel choose.
    ///
    /// # Errors
    /// [`Error::Port`] if the address cannot be used here; [`Error::Connect`] if the peer does not answer or
    /// refuses.
    pub fn connect_from(local: SocketAddr, peer: SocketAddr, options: &Options) -> Result<Self, Error> {
        let port = Arc::new(options.open(local, Purpose::Connect)?);
        let socket =
            port.connect(peer, options.socket.clone()).map_err(|reason| Error::Connect { peer, reason })?;
        Ok(Self::of(port, socket))
    }

    /// Connects to a peer that connects to this end at the same time: neither needs to be reachable first.
    ///
    /// # Errors
    /// [`Error::Connect`] if the peer does not connect.
    pub fn rendezvous(local: SocketAddr, peer: SocketAddr, options: &Options) -> Result<Self, Error> {
        let port = Arc::new(options.open(local, Purpose::Connect)?);
        let socket = port
            .rendezvous(peer, options.socket.clone())
            .map_err(|reason| Error::Connect { peer, reason })?;
        Ok(Self::of(port, socket))
    }

    pub(super) fn of(port: Arc<ReliablePort>, socket: SocketId) -> Self {
        let (send_timeout, receive_timeout) = (Timeout::default(), Timeout::default());
        Self { port, socket, send_timeout, receive_timeout, is_closed: false }
    }

    /// Queues bytes of a stream, waiting until there is room for some; returns how many.
    ///
    /// # Errors
    /// If the connection has ended or carries messages, or there was no room in time.
    pub fn send(&self, bytes: &[u8]) -> Result<usize, WaitError> {
        self.port.send(self.socket, bytes, self.send_timeout.get())
    }

    /// Copies data of a stream that have arrived, waiting until there are some; returns 0 at its end.
    ///
    /// # Errors
    /// If the connection broke, or nothing arrived in time.
    pub fn receive(&self, out: &mut [u8]) -> Result<usize, WaitError> {
        self.port.receive(self.socket, out, self.receive_timeout.get())
    }

    /// Queues a message, waiting until there is room for it.
    ///
    /// # Errors
    /// If the connection has ended or carries a stream, the message is too long, or there was no room in
    /// time.
    pub fn send_message(&self, bytes: &[u8], lifetime: Lifetime) -> Result<(), WaitError> {
        let Lifetime { at_most, may_overtake } = lifetime;
        self.port.send_message(self.socket, bytes, !may_overtake, at_most, self.send_timeout.get())
    }

    /// Replaces the content of `out` by the next message, waiting until there is one; returns false at the
    /// end.
    ///
    /// # Errors
    /// If the connection broke, or nothing arrived in time.
    pub fn receive_message(&self, out: &mut Vec<u8>) -> Result<bool, WaitError> {
        self.port.receive_message(self.socket, out, self.receive_timeout.get())
    }

    /// Sends `bytes` bytes of a source, or all of it if it ends before; returns how many.
    ///
    /// # Errors
    /// If the source cannot be read, or the connection has ended.
    pub fn send_from(&self, source: &mut impl Read, bytes: u64) -> Result<u64, Error> {
        let mut sent = 0;
        let mut piece = vec![0; PIECE_BYTES];
        while sent < bytes {
            let wanted = piece.len().min(usize::try_from(bytes - sent).unwrap_or(usize::MAX));
            let count = source.read(&mut piece[..wanted])?;
            if count == 0 {
                break;
            }
            self.send_all(&piece[..count])?;
            sent += count as u64;
        }
        Ok(sent)
    }

    /// Writes `bytes` received bytes to a target, or all if the stream ends before; returns how many.
    ///
    /// # Errors
    /// If the target cannot be written, or the connection broke.
    pub fn receive_into(&self, target: &mut impl Write, bytes: u64) -> Result<u64, Error> {
        let mut received = 0;
        let mut piece = vec![0; PIECE_BYTES];
        while received < bytes {
            let wanted = piece.len().min(usize::try_from(bytes - received).unwrap_or(usize::MAX));
            let count = self.receive(&mut piece[..wanted])?;
            if count == 0 {
                break;
            }
            target.write_all(&piece[..count])?;
            received += count as u64;
        }
        Ok(received)
    }

    /// Sends `bytes` bytes of a file from an offset, or as many as there are; returns how many. The file's
    /// own position stays.
    ///
    /// Source: libudt's `sendfile`, which loops for ever when the file is shorter than was said.
    ///
    /// # Errors
    /// If the file cannot be read, or the connection has ended; [`WaitError::Peer`] if the peer cannot write
    /// the data.
    pub fn send_file(&self, file: &File, offset: u64, bytes: u64) -> Result<u64, Error> {
        self.send_from(&mut FileAt { file, place: offset }, bytes)
    }

    /// Writes `bytes` received bytes into a file from an offset, or all if the stream ends before; returns
    /// how many. The file's own position stays.
    ///
    /// # Errors
    /// If the file cannot be written, which the sender is notified of; or the connection broke.
    pub fn receive_file(&self, file: &File, offset: u64, bytes: u64) -> Result<u64, Error> {
        let received = self.receive_into(&mut FileAt { file, place: offset }, bytes);
        if let Err(Error::File(_)) = received {
            self.fail(FILE_ERROR);
        }
        received
    }

    /// Queues bytes of a stream, waiting until there was room for all of them.
    ///
    /// # Errors
    /// If the connection has ended or carries messages, or there was no room in time.
    pub fn send_all(&self, mut bytes: &[u8]) -> Result<(), WaitError> {
        while !bytes.is_empty() {
            bytes = &bytes[self.send(bytes)?..];
        }
        Ok(())
    }

    /// Waits until the peer has acknowledged all queued data.
    ///
    /// # Errors
    /// If the connection or the time to send ends before that.
    pub fn flush(&self) -> Result<(), WaitError> {
        self.port.flush(self.socket, self.send_timeout.get())
    }

    /// Notifies the peer that this application failed, with an application-defined code; libudt's peers see
    /// an error.
    pub fn fail(&self, code: u32) {
        self.port.fail(self.socket, code);
    }

    /// Closes: waits until the peer has acknowledged the queued data or the linger time is over.
    ///
    /// # Errors
    /// If it ended before all data were acknowledged: the peer may not have all of them.
    pub fn close(mut self) -> Result<(), WaitError> {
        let is_unsent = self.port.stats(self.socket).is_some_and(|stats| stats.queued_bytes > 0);
        self.is_closed = true;
        match self.port.close(self.socket) {
            Some(CloseReason::Local) | None => Ok(()),
            // The peer closed first, which is how most connections end.
            Some(_) if !is_unsent => Ok(()),
            Some(reason) => Err(WaitError::Closed(reason)),
        }
    }

    /// Closes without waiting: calls of other threads that wait to receive or send return. Queued data are
    /// still sent while the connection lingers.
    pub fn hang_up(&self) {
        self.port.begin_to_close(self.socket);
    }

    /// Sets how long sending waits for room; `None` waits without limit.
    pub fn set_send_timeout(&self, timeout: Option<Duration>) {
        self.send_timeout.set(timeout);
    }

    /// Sets how long receiving waits; `None` waits without limit.
    pub fn set_receive_timeout(&self, timeout: Option<Duration>) {
        self.receive_timeout.set(timeout);
    }

    /// Returns the statistics of the connection so far; `None` once it has ended and nothing of it is left.
    #[must_use]
    pub fn stats(&self) -> Option<Stats> {
        self.port.stats(self.socket)
    }

    /// Returns why the connection has ended, if it has; data that had arrived before can still be received.
    #[must_use]
    pub fn closed(&self) -> Option<CloseReason> {
        self.port.closed(self.socket)
    }

    /// Returns the address of the peer.
    #[must_use]
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.port.peer(self.socket)
    }

    /// Returns the key by which the peer has identified itself, while there is a session with it; none in the clear.
    #[must_use]
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.port.peer_key(self.socket)
    }

    /// Returns the address of this end's port.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.port.local_address()
    }
}

/// A position in a file, which advances with reads and writes.
struct FileAt<'a> {
    file: &'a File,
    place: u64,
}

impl Read for FileAt<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(out, self.place)?;
        self.place += count as u64;
        Ok(count)
    }
}

impl Write for FileAt<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write_at(bytes, self.place)?;
        self.place += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for &Connection {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.receive(out).map_err(as_io)
    }
}

impl Write for &Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes).map_err(as_io)
    }

    fn flush(&mut self) -> io::Result<()> {
        Connection::flush(self).map_err(as_io)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.is_closed {
            self.port.close(self.socket);
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = self.peer_address();
        formatter.debug_struct("Connection").field("socket", &self.socket).field("peer", &peer).finish()
    }
}

fn as_io(reason: WaitError) -> io::Error {
    match reason {
        WaitError::Send(SendError::Closed) => io::ErrorKind::NotConnected.into(),
        _ => io::Error::new(kind_of(reason), reason),
    }
}
