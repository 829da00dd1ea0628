//! TCP connections as carriers of messages.

use std::net::SocketAddr;

use sys::{Interest, Poller, TcpAcceptor, TcpConnection, TcpOptions};

use super::stream::{Called, Carrier, StreamEnd, accept, next_look};
use super::{Attending, Far, LinkError, Listening, Near, Task, wait};
use crate::greeting::{self, Accepted, greeting};
use crate::pingpong::options::{System, Wait};
use flow::udp::said_if_clamped;

/// The poller's only descriptor.
const SOCKET: u64 = 0;

/// Either end of a connection.
struct Tcp {
    connection: TcpConnection,
    readable: Poller,
    writable: Poller,
    how: Wait,
}

impl Tcp {
    fn over(connection: TcpConnection, how: Wait) -> Result<Self, LinkError> {
        let (readable, writable) = (Poller::new()?, Poller::new()?);
        readable.add(&connection, SOCKET, Interest::Read)?;
        writable.add(&connection, SOCKET, Interest::Write)?;
        Ok(Self { connection, readable, writable, how })
    }
}

impl Carrier for Tcp {
    fn send(&mut self, bytes: &[u8]) -> Result<Option<usize>, LinkError> {
        let sent = self.connection.send(bytes).map_err(closed)?;
        if sent.is_none() {
            wait(self.how, next_look(), |until| self.writable.wait(Some(until)).map(drop))?;
        }
        Ok(sent)
    }

    fn receive(&mut self, memory: &mut [u8]) -> Result<Option<usize>, LinkError> {
        let received = self.connection.receive(memory).map_err(closed)?;
        if received.is_none() {
            wait(self.how, next_look(), |until| self.readable.wait(Some(until)).map(drop))?;
        }
        Ok(received)
    }

    fn notes(&self) -> Vec<String> {
        self.connection.granted_buffers().iter().copied().filter_map(said_if_clamped).collect()
    }

    fn retransmits(&self) -> Option<u64> {
        Some(self.connection.info().ok()?.retransmitted_segments.into())
    }

    fn congestion_control(&self) -> Option<String> {
        self.connection.congestion_control().ok()
    }
}

fn closed(error: std::io::Error) -> LinkError {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    match error.kind() {
        BrokenPipe | ConnectionReset => LinkError::Closed,
        _ => LinkError::System(error),
    }
}

fn tcp_options(task: &Task<'_>, from: Option<SocketAddr>) -> TcpOptions {
    let congestion_control = match task.system.carrier() {
        System::Tcp(congestion) => congestion.clone(),
        _ => None,
    };
    TcpOptions { buffer_bytes: task.options.buffer_bytes, congestion_control, from }
}

/// Connects the client's end.
pub(super) fn connect(task: &Task<'_>, to: SocketAddr, token: u64) -> Result<Box<dyn Near>, LinkError> {
    let to = task.check_endpoint(to)?;
    let from = task.options.from.map(|address| SocketAddr::new(address, 0));
    // Half of it: there are no heartbeats meanwhile, and the server must learn that no connection could be
    // established before it takes this end for gone.
    let connection = TcpConnection::connect(to, &tcp_options(task, from), task.patience / 2)?;
    // A new connection has room for these few bytes.
    connection.send(&greeting(token, 0)).map_err(closed)?;
    Ok(Box::new(StreamEnd::over(Box::new(Tcp::over(connection, task.options.wait)?), task)))
}

/// The server's end, which waits for its connection.
struct TcpListening {
    acceptor: TcpAcceptor,
    token: u64,
}

/// Opens the server's end.
pub(super) fn listen(task: &Task<'_>, token: u64) -> Result<Box<dyn Listening>, LinkError> {
    Ok(Box::new(TcpListening { acceptor: TcpAcceptor::listen(task.local, &tcp_options(task, None))?, token }))
}

impl Listening for TcpListening {
    fn endpoint(&self) -> SocketAddr {
        self.acceptor.local_address()
    }

    fn accept(
        self: Box<Self>,
        task: &Task<'_>,
        meanwhile: &mut dyn Attending,
    ) -> Result<Option<Box<dyn Far>>, LinkError> {
        let mut poller = Poller::new()?;
        poller.add(&self.acceptor, SOCKET, Interest::Read)?;
        let mut next = || -> Result<Option<Called>, LinkError> {
            match greeting::accept::<LinkError>(&self.acceptor, task.peer, self.token)? {
                Some(Accepted::OfRun(_, connection)) => {
                    Ok(Some(Called::OfRun(Box::new(Tcp::over(connection, task.options.wait)?))))
                }
                Some(Accepted::Stranger) => Ok(Some(Called::Stranger)),
                None => {
                    poller.wait(Some(next_look()))?;
                    Ok(None)
                }
            }
        };
        accept(task, self.endpoint().port(), meanwhile, &mut next)
    }
}
