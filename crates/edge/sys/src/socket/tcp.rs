//! TCP connections that carry test data: their buffers, their congestion control, and their state
//! in the kernel.
//!
//! They never block, and report with every call whether there was room. Congestion controls are
//! those of this kernel ([`available`]).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use crate::socket::buffer::{Buffer, Direction};
use crate::socket::open::{BIND, CONFIGURE, CREATE, OpenError, Step};
use crate::socket::tcp_info::TcpInfo;

/// Maximum number of connections that wait to be accepted. Every stream of a test may wait at once:
/// 128 each way, and as many again of others. The kernel limits it to `net.core.somaxconn`.
const BACKLOG: i32 = 512;

const LISTEN: &str = "listen";
const CONNECT: &str = "connect";

/// Settings of a connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TcpOptions {
    /// Size of both buffers; without it the kernel sizes them automatically.
    pub buffer_bytes: Option<usize>,
    /// The congestion control; without it the system's default.
    pub congestion_control: Option<String>,
    /// Local address; without it the kernel chooses.
    pub from: Option<SocketAddr>,
}

/// Reason why a connection cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TcpError {
    /// The socket cannot be opened or connected.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The kernel does not have the congestion control, or not for this user.
    #[error(
        "this host has no congestion control `{asked}` for this user\nit has: {available}; others are loaded with: \
         sudo modprobe tcp_{asked}"
    )]
    CongestionControl {
        /// The control asked for.
        asked: String,
        /// The available controls.
        available: String,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
    /// The peer did not answer, or refused.
    #[error(
        "{address} cannot be reached: {source}\ncheck that the other end runs and that no firewall blocks it"
    )]
    Connect {
        /// Address of the peer.
        address: SocketAddr,
        /// Error of the kernel.
        source: io::Error,
    },
}

/// A socket that waits for connections.
pub struct TcpAcceptor {
    socket: Socket,
    address: SocketAddr,
    options: TcpOptions,
}

/// A connection that never blocks.
pub struct TcpConnection {
    socket: Socket,
    local: SocketAddr,
    peer: SocketAddr,
    buffers: Vec<Buffer>,
}

/// Returns the congestion controls that this kernel has loaded.
///
/// # Errors
/// If `/proc` cannot be read, as in some containers.
pub fn available() -> io::Result<Vec<String>> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// Connects from an address of this host, waiting no longer than `patience`, with a socket that may
/// block.
///
/// # Errors
/// The kernel's error.
pub fn connect_from(from: SocketAddr, to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.bind(&from.into())?;
    socket.connect_timeout(&to.into(), patience)?;
    Ok(socket.into())
}

impl TcpAcceptor {
    /// Listens at an address; port 0 lets the kernel choose.
    ///
    /// # Errors
    /// [`TcpError`] with the step that failed and the remedy.
    pub fn listen(address: SocketAddr, options: &TcpOptions) -> Result<Self, TcpError> {
        let socket = open(address)?;
        // A restarted server must not wait until the kernel has forgotten the connections of its
        // predecessor.
        socket.set_reuse_address(true).step(CONFIGURE, address)?;
        // Before it listens: the window of a connection is negotiated when it is established.
        configure(&socket, address, options)?;
        socket.bind(&address.into()).step(BIND, address)?;
        socket.listen(BACKLOG).step(LISTEN, address)?;
        socket.set_nonblocking(true).step(CONFIGURE, address)?;
        let bound = socket.local_addr().step(BIND, address)?.as_socket().unwrap_or(address);
        Ok(Self { socket, address: bound, options: options.clone() })
    }

    /// Accepts a waiting connection; `None` if there is none.
    ///
    /// # Errors
    /// The kernel's error, and those of [`TcpConnection::connect`] for options.
    pub fn accept(&self) -> Result<Option<TcpConnection>, TcpError> {
        match self.socket.accept() {
            Ok((socket, _)) => {
                let buffers = configure(&socket, self.address, &self.options)?;
                TcpConnection::of(socket, self.address, buffers).map(Some)
            }
            Err(error) if is_nothing(&error) => Ok(None),
            Err(source) => Err(TcpError::Connect { address: self.address, source }),
        }
    }

    /// Returns the address it listens at, with the port that the kernel chose.
    #[must_use]
    pub const fn local_address(&self) -> SocketAddr {
        self.address
    }
}

impl TcpConnection {
    /// Connects, waiting no longer than `patience`.
    ///
    /// # Errors
    /// [`TcpError`] with the step that failed and the remedy.
    pub fn connect(to: SocketAddr, options: &TcpOptions, patience: Duration) -> Result<Self, TcpError> {
        let socket = open(to)?;
        let buffers = configure(&socket, to, options)?;
        if let Some(from) = options.from {
            socket.bind(&from.into()).step(BIND, from)?;
        }
        socket
            .connect_timeout(&to.into(), patience)
            .map_err(|source| TcpError::Connect { address: to, source })?;
        Self::of(socket, to, buffers)
    }

    fn of(socket: Socket, address: SocketAddr, buffers: Vec<Buffer>) -> Result<Self, TcpError> {
        socket.set_nonblocking(true).step(CONFIGURE, address)?;
        let local = socket.local_addr().step(CONFIGURE, address)?.as_socket().unwrap_or(address);
        let peer = socket.peer_addr().step(CONNECT, address)?.as_socket().unwrap_or(address);
        Ok(Self { socket, local, peer, buffers })
    }

    /// Sends as many bytes as there is room for; `None` if there is none.
    ///
    /// # Errors
    /// The kernel's error; a full buffer is not an error.
    pub fn send(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        some_or_nothing((&self.socket).write(bytes))
    }

    /// Receives waiting bytes; `None` if there are none, `Some(0)` once the other end has finished.
    ///
    /// # Errors
    /// The kernel's error; an empty buffer is not an error.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        some_or_nothing((&self.socket).read(into))
    }

    /// Ends sending; bytes in flight still arrive.
    ///
    /// # Errors
    /// If the other end is gone.
    pub fn finish(&self) -> io::Result<()> {
        self.socket.shutdown(std::net::Shutdown::Write)
    }

    /// Returns the state of the connection in the kernel.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn info(&self) -> io::Result<TcpInfo> {
        TcpInfo::of(self)
    }

    /// Returns the congestion control in use.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn congestion_control(&self) -> io::Result<String> {
        let name = self.socket.tcp_congestion()?;
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        Ok(String::from_utf8_lossy(&name[..end]).into_owned())
    }

    /// Returns this end's address.
    #[must_use]
    pub const fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Returns the other end's address.
    #[must_use]
    pub const fn peer_address(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the buffers that the kernel granted; empty if none were requested.
    #[must_use]
    pub fn granted_buffers(&self) -> &[Buffer] {
        &self.buffers
    }
}

impl AsFd for TcpAcceptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsFd for TcpConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn open(address: SocketAddr) -> Result<Socket, OpenError> {
    Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).step(CREATE, address)
}

fn configure(socket: &Socket, address: SocketAddr, options: &TcpOptions) -> Result<Vec<Buffer>, TcpError> {
    socket.set_tcp_nodelay(true).step(CONFIGURE, address)?;
    if let Some(name) = &options.congestion_control {
        socket.set_tcp_congestion(name.as_bytes()).map_err(|source| TcpError::CongestionControl {
            asked: name.clone(),
            available: available().unwrap_or_default().join(", "),
            source,
        })?;
    }
    let Some(bytes) = options.buffer_bytes else { return Ok(Vec::new()) };
    let request = |direction| Buffer::request(socket, direction, bytes).step(CONFIGURE, address);
    Ok(vec![request(Direction::Send)?, request(Direction::Receive)?])
}

fn some_or_nothing(outcome: io::Result<usize>) -> io::Result<Option<usize>> {
    match outcome {
        Err(error) if is_nothing(&error) => Ok(None),
        outcome => outcome.map(Some),
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use support::WATCHDOG;

    use super::*;
    use crate::{Interest, Poller, clock};

    fn wait(poller: &mut Poller) {
        poller.wait(Some(clock::monotonic() + WATCHDOG)).unwrap();
    }

    /// Connects two ends on the loopback interface.
    fn pair(options: &TcpOptions) -> (TcpConnection, TcpConnection) {
        let acceptor = TcpAcceptor::listen((Ipv4Addr::LOCALHOST, 0).into(), options).unwrap();
        let near = TcpConnection::connect(acceptor.local_address(), options, WATCHDOG).unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(&acceptor, 0, Interest::Read).unwrap();
        loop {
            if let Some(far) = acceptor.accept().unwrap() {
                return (near, far);
            }
            wait(&mut poller);
        }
    }

    #[test]
    fn every_byte_arrives_and_the_end_is_seen() {
        let (near, far) = pair(&TcpOptions::default());
        assert_eq!((near.peer_address(), far.peer_address()), (far.local_address(), near.local_address()));
        assert_eq!(far.receive(&mut [0; 8]).unwrap(), None);
        let (mut sent, mut received, mut memory) = (0, 0, vec![0; 1 << 16]);
        while let Some(count) = near.send(&memory).unwrap() {
            sent += count;
        }
        near.finish().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(&far, 0, Interest::Read).unwrap();
        loop {
            match far.receive(&mut memory).unwrap() {
                Some(0) => break,
                Some(count) => received += count,
                None => wait(&mut poller),
            }
        }
        assert!(sent > 0);
        assert_eq!(sent, received);
        let info = near.info().unwrap();
        assert!(info.send_mss_bytes > 0 && info.congestion_window_bytes() > 0, "{info:?}");
    }

    #[test]
    fn the_most_streams_both_ways_wait_for_being_accepted_at_once() {
        const MOST: usize = 256;
        let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        if allowed.trim().parse::<usize>().unwrap() < MOST {
            println!("SKIPPED: net.core.somaxconn is below {MOST}");
            return;
        }
        let options = TcpOptions::default();
        let acceptor = TcpAcceptor::listen((Ipv4Addr::LOCALHOST, 0).into(), &options).unwrap();
        let connect = |_| TcpConnection::connect(acceptor.local_address(), &options, WATCHDOG).unwrap();
        let near: Vec<_> = (0..MOST).map(connect).collect();
        let far = std::iter::from_fn(|| acceptor.accept().unwrap()).count();
        assert_eq!(far, near.len());
    }

    #[test]
    fn the_congestion_control_is_the_one_asked_for() {
        for name in available().unwrap() {
            let options = TcpOptions { congestion_control: Some(name.clone()), ..TcpOptions::default() };
            // The list includes controls that only root may choose.
            if let Ok(acceptor) = TcpAcceptor::listen((Ipv4Addr::LOCALHOST, 0).into(), &options) {
                let near = TcpConnection::connect(acceptor.local_address(), &options, WATCHDOG).unwrap();
                assert_eq!(near.congestion_control().unwrap(), name);
            }
        }
    }

    #[test]
    fn an_unknown_congestion_control_is_answered_with_those_there_are() {
        let options = TcpOptions { congestion_control: Some("nonesuch".to_owned()), ..TcpOptions::default() };
        let refused = TcpAcceptor::listen((Ipv4Addr::LOCALHOST, 0).into(), &options).err().unwrap();
        let said = refused.to_string();
        assert!(said.contains("`nonesuch`") && said.contains(&available().unwrap().join(", ")), "{said}");
    }

    #[test]
    fn buffers_are_those_asked_for_or_said_to_be_clamped() {
        let (near, _far) = pair(&TcpOptions { buffer_bytes: Some(64 << 10), ..TcpOptions::default() });
        let [send, receive] = near.granted_buffers() else { panic!("two were asked for") };
        assert_eq!((send.direction, receive.direction), (Direction::Send, Direction::Receive));
        assert!(send.effective_bytes >= 128 << 10 || send.clamped());
    }

    #[test]
    fn nobody_there_is_said_with_the_address() {
        let unused = TcpAcceptor::listen((Ipv4Addr::LOCALHOST, 0).into(), &TcpOptions::default()).unwrap();
        let address = unused.local_address();
        drop(unused);
        let error = TcpConnection::connect(address, &TcpOptions::default(), WATCHDOG).err().unwrap();
        assert!(error.to_string().starts_with(&format!("{address} cannot be reached")), "{error}");
    }
}
