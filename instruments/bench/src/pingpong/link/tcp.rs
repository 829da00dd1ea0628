//! Messages over a TCP connection. Their size is not transmitted: both ends know it from the control
//! connection.

use std::cmp::Ordering;
use std::net::SocketAddr;

use sys::{Interest, Poller, TcpAcceptor, TcpConnection, TcpOptions, clock};
use units::Instant;

use super::{
    Answerer, Answering, Attending, End, Exchanged, Far, LinkError, Near, POLL_INTERVAL, Task, since, wait,
};
use crate::greeting::{Accepted, accept, greeting};
use crate::pingpong::options::{System, Wait};
use flow::udp::said_if_clamped;

/// The poller's only descriptor.
const SOCKET: u64 = 0;

/// Either end of a connection, whose messages are read and written whole.
pub(in crate::pingpong) struct TcpEnd {
    connection: TcpConnection,
    readable: Poller,
    writable: Poller,
    how: Wait,
    patience: std::time::Duration,
    memory: Vec<u8>,
}

/// Outcome of sending or receiving a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Moved {
    Whole,
    /// Not one byte of it came in time.
    Nothing,
    /// This end was asked to end before the message was complete.
    Cut,
}

/// Limits for receiving a message.
struct Expected<'a> {
    /// Size of the message, known once its first byte is there.
    message_bytes: &'a dyn Fn() -> u32,
    /// Time by which it must have begun; without it, it may begin at any time.
    begins_by: Option<Instant>,
}

impl TcpEnd {
    fn over(connection: TcpConnection, task: &Task<'_>) -> Result<Self, LinkError> {
        let (readable, writable) = (Poller::new()?, Poller::new()?);
        readable.add(&connection, SOCKET, Interest::Read)?;
        writable.add(&connection, SOCKET, Interest::Write)?;
        let memory = vec![0; task.options.largest_bytes() as usize];
        let (how, patience) = (task.options.wait, task.patience);
        Ok(Self { connection, readable, writable, how, patience, memory })
    }

    fn send(&mut self, message_bytes: u32, meanwhile: &mut dyn Attending) -> Result<Moved, LinkError> {
        let (mut sent, mut moved) = (0, clock::monotonic());
        while sent < message_bytes as usize {
            match self.connection.send(&self.memory[sent..message_bytes as usize]).map_err(closed)? {
                Some(count) => {
                    sent += count;
                    moved = clock::monotonic();
                }
                None if !meanwhile.goes_on() => return Ok(Moved::Cut),
                None if since(moved) > self.patience => return Err(LinkError::Stuck(self.patience)),
                None => {
                    let writable = &mut self.writable;
                    wait(self.how, moved + self.patience, |until| writable.wait(Some(until)).map(drop))?;
                }
            }
        }
        Ok(Moved::Whole)
    }

    /// Receives a message.
    fn receive(
        &mut self,
        expected: &Expected<'_>,
        meanwhile: &mut dyn Attending,
    ) -> Result<Moved, LinkError> {
        let (mut received, mut moved) = (0, clock::monotonic());
        loop {
            match self.connection.receive(&mut self.memory[received..]).map_err(closed)? {
                Some(0) => return Err(LinkError::Closed),
                Some(count) => {
                    received += count;
                    moved = clock::monotonic();
                    // A message is sent only after its size step has begun at both ends.
                    match received.cmp(&((expected.message_bytes)() as usize)) {
                        Ordering::Less => {}
                        Ordering::Equal => return Ok(Moved::Whole),
                        Ordering::Greater => return Err(LinkError::TooMuch),
                    }
                }
                None if !meanwhile.goes_on() => return Ok(Moved::Cut),
                None if received == 0 && expected.begins_by.is_some_and(|by| clock::monotonic() >= by) => {
                    return Ok(Moved::Nothing);
                }
                None if received > 0 && since(moved) > self.patience => {
                    return Err(LinkError::Stuck(self.patience));
                }
                None => {
                    let readable = &mut self.readable;
                    let until = clock::monotonic() + POLL_INTERVAL;
                    wait(self.how, until, |until| readable.wait(Some(until)).map(drop))?;
                }
            }
        }
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
    let congestion_control = match task.system {
        System::Tcp(congestion) => congestion.clone(),
        System::Udp => None,
    };
    TcpOptions { buffer_bytes: task.options.buffer_bytes, congestion_control, from }
}

impl TcpEnd {
    /// Connects the client's end.
    pub(in crate::pingpong) fn connect(
        task: &Task<'_>,
        to: SocketAddr,
        token: u64,
    ) -> Result<Self, LinkError> {
        let to = task.check_endpoint(to)?;
        let from = task.options.from.map(|address| SocketAddr::new(address, 0));
        // Half of it: there are no heartbeats meanwhile, and the server must learn that no connection could be
        // established before it takes this end for gone.
        let connection = TcpConnection::connect(to, &tcp_options(task, from), task.patience / 2)?;
        // A new connection has room for these few bytes.
        connection.send(&greeting(token, 0)).map_err(closed)?;
        Self::over(connection, task)
    }
}

/// The server's end, which waits for its connection.
pub(in crate::pingpong) struct TcpListening {
    acceptor: TcpAcceptor,
    token: u64,
}

impl TcpListening {
    pub(in crate::pingpong) fn listen(task: &Task<'_>, token: u64) -> Result<Self, LinkError> {
        Ok(Self { acceptor: TcpAcceptor::listen(task.local, &tcp_options(task, None))?, token })
    }

    pub(in crate::pingpong) fn endpoint(&self) -> SocketAddr {
        self.acceptor.local_address()
    }

    /// Waits for the client's connection; others are dropped. `None` if this end is asked to end.
    pub(in crate::pingpong) fn accept(
        self,
        task: &Task<'_>,
        meanwhile: &mut dyn Attending,
    ) -> Result<Option<Box<dyn Far>>, LinkError> {
        let (patience, deadline) = (task.patience, clock::monotonic() + task.patience);
        let mut poller = Poller::new()?;
        poller.add(&self.acceptor, SOCKET, Interest::Read)?;
        loop {
            match accept::<LinkError>(&self.acceptor, task.peer, self.token)? {
                Some(Accepted::OfRun(_, connection)) => {
                    return Ok(Some(Box::new(TcpEnd::over(connection, task)?)));
                }
                Some(Accepted::Stranger) => {}
                None if clock::monotonic() >= deadline => {
                    return Err(LinkError::Missing { patience, port: self.endpoint().port() });
                }
                None if !meanwhile.goes_on() => return Ok(None),
                None => drop(poller.wait(Some(deadline.min(clock::monotonic() + POLL_INTERVAL)))?),
            }
        }
    }
}

impl End for TcpEnd {
    fn notes(&self) -> Vec<String> {
        self.connection.granted_buffers().iter().copied().filter_map(said_if_clamped).collect()
    }
}

impl Near for TcpEnd {
    fn exchange(
        &mut self,
        _exchange: u64,
        message_bytes: u32,
        meanwhile: &mut dyn Attending,
    ) -> Result<Exchanged, LinkError> {
        let began = clock::monotonic();
        if self.send(message_bytes, meanwhile)? == Moved::Cut {
            return Ok(Exchanged::Cut);
        }
        // TCP loses nothing: an answer that does not begin within this time does not come.
        let begins_by = Some(clock::monotonic() + self.patience);
        match self.receive(&Expected { message_bytes: &|| message_bytes, begins_by }, meanwhile)? {
            Moved::Whole => Ok(Exchanged::Completed(since(began))),
            Moved::Nothing => Err(LinkError::Stuck(self.patience)),
            Moved::Cut => Ok(Exchanged::Cut),
        }
    }

    fn retransmits(&self) -> Option<u64> {
        Some(self.connection.info().ok()?.retransmitted_segments.into())
    }

    fn congestion_control(&self) -> Option<String> {
        self.connection.congestion_control().ok()
    }
}

impl Far for TcpEnd {
    fn answer(&mut self, size_step: &dyn Answering) -> Result<(), LinkError> {
        let expected = Expected { message_bytes: &|| size_step.message_bytes(), begins_by: None };
        if self.receive(&expected, &mut Answerer(size_step))? == Moved::Whole && size_step.came(None) {
            self.send(size_step.message_bytes(), &mut Answerer(size_step))?;
        }
        Ok(())
    }
}
