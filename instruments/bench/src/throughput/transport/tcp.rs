//! Flows of bytes over TCP connections; the client connects, whatever the direction of the data.

use std::net::SocketAddr;

use probe::flow::{Delays, Stamp, stamps};
use sys::{Direction, Interest, Poller, TcpAcceptor, TcpConnection, TcpOptions, clock};
use units::Instant;

use super::{
    Arrived, Description, Flow, FlowEnd, Listening, ReceiveEnd, SendEnd, Task, Transport, TransportError,
};
use crate::control::reached_from;
use crate::greeting::{Accepted, accept, greeting};
use crate::throughput::message::{Account, AccountState, Count, End, FlowKey, Sent, Unit};
use crate::throughput::options::Options;
use flow::udp::said_if_clamped;
use flow::{Paced, Room};

/// The poller's only descriptor.
const SOCKET: u64 = 0;

pub(super) struct Tcp;

/// The server's acceptor; the client has none.
struct Waiting(Option<TcpAcceptor>);

impl Transport for Tcp {
    fn listen(&self, task: &Task<'_>) -> Result<Box<dyn Listening>, TransportError> {
        let acceptor = match task.end {
            End::Client => None,
            End::Server => Some(TcpAcceptor::listen(task.local, &tcp_options(task.options, None))?),
        };
        Ok(Box::new(Waiting(acceptor)))
    }
}

impl Listening for Waiting {
    fn endpoints(&self) -> Vec<SocketAddr> {
        self.0.iter().map(TcpAcceptor::local_address).collect()
    }

    fn connect(
        self: Box<Self>,
        task: &Task<'_>,
        endpoints: &[SocketAddr],
    ) -> Result<Vec<Flow>, TransportError> {
        let connections = match (&self.0, endpoints) {
            (Some(acceptor), _) => accept_all(acceptor, task)?,
            (None, [endpoint]) => connect_all(reached_from(task.local, *endpoint), task)?,
            (None, other) => return Err(TransportError::Endpoints { made: other.len(), wanted: 1 }),
        };
        connections.into_iter().map(|(key, connection)| flow(task, key, connection)).collect()
    }
}

fn tcp_options(options: &Options, from: Option<SocketAddr>) -> TcpOptions {
    TcpOptions {
        buffer_bytes: options.buffer_bytes,
        congestion_control: options.congestion_control.clone(),
        from,
    }
}

/// Opens all connections, from the client.
fn connect_all(to: SocketAddr, task: &Task<'_>) -> Result<Vec<(FlowKey, TcpConnection)>, TransportError> {
    let from = task.options.from.map(|address| SocketAddr::new(address, 0));
    let options = tcp_options(task.options, from);
    let connect = |key: FlowKey| {
        let connection = TcpConnection::connect(to, &options, task.patience)?;
        // A new connection has room for these few bytes.
        connection.send(&greeting(task.token, key.flow())).map_err(TransportError::Broken)?;
        Ok((key, connection))
    };
    task.flows().map(connect).collect()
}

/// Accepts all connections, at the server; those from other hosts, or of other runs, are dropped.
fn accept_all(
    acceptor: &TcpAcceptor,
    task: &Task<'_>,
) -> Result<Vec<(FlowKey, TcpConnection)>, TransportError> {
    let deadline = clock::monotonic() + task.patience;
    let mut wanted: Vec<FlowKey> = task.flows().collect();
    let count = wanted.len();
    let mut came = Vec::new();
    let mut poller = Poller::new()?;
    poller.add(acceptor, SOCKET, Interest::Read)?;
    while !wanted.is_empty() {
        match accept::<TransportError>(acceptor, task.peer, task.token)? {
            Some(Accepted::OfRun(flow, connection)) => {
                if let Some(place) = wanted.iter().position(|key| key.flow() == flow) {
                    came.push((wanted.swap_remove(place), connection));
                }
                continue;
            }
            Some(Accepted::Stranger) => continue,
            None => {}
        }
        if clock::monotonic() >= deadline {
            let port = acceptor.local_address().port();
            return Err(TransportError::Missing {
                came: came.len(),
                wanted: count,
                patience: task.patience,
                port,
            });
        }
        poller.wait(Some(deadline))?;
    }
    came.sort_by_key(|(key, _)| *key);
    Ok(came)
}

fn flow(task: &Task<'_>, key: FlowKey, connection: TcpConnection) -> Result<Flow, TransportError> {
    let sends = task.end.sends(key.way);
    let poller = Poller::new()?;
    poller.add(&connection, SOCKET, if sends { Interest::Write } else { Interest::Read })?;
    let (local, remote) = (connection.local_address(), connection.peer_address());
    let notes = connection.granted_buffers().iter().copied().filter_map(said_if_clamped).collect();
    let of_this_end = if sends { Direction::Send } else { Direction::Receive };
    let granted = connection.granted_buffers().iter().copied().find(|it| it.direction == of_this_end);
    let congestion_control = connection.congestion_control().ok();
    let (key, end): (_, FlowEnd) = if sends {
        (key, FlowEnd::Send(Box::new(Sender::new(task, key, connection, poller))))
    } else {
        let key = FlowKey { receiver: Some(0), ..key };
        (key, FlowEnd::Receive(Box::new(Receiver::new(task, connection, poller))))
    };
    let about = Description::new(key, local, granted);
    Ok(Flow { about: Description { remote: Some(remote), congestion_control, notes, ..about }, end })
}

/// Minimum size of a receiver's read, however small the sent pieces are.
const SMALLEST_READ_BYTES: usize = 64 << 10;

struct Sender {
    connection: TcpConnection,
    poller: Poller,
    run: u32,
    flow: u32,
    block: Vec<u8>,
    /// Bytes at the end of a block that found no room yet.
    rest: usize,
    calls: u64,
    bytes: u64,
}

impl Sender {
    fn new(task: &Task<'_>, key: FlowKey, connection: TcpConnection, poller: Poller) -> Self {
        let (run, flow, block) = (task.run, key.flow(), vec![0; task.unit_bytes]);
        Self { connection, poller, run, flow, block, rest: 0, calls: 0, bytes: 0 }
    }
}

impl Paced for Sender {
    type Error = TransportError;

    fn send(&mut self, count: u32) -> Result<Room, TransportError> {
        let mut handed = 0;
        while handed < count || self.rest > 0 {
            if self.rest == 0 {
                self.rest = self.block.len();
                let (run, flow, number, sent) = (self.run, self.flow, self.calls, clock::monotonic());
                Stamp { run, flow, number, sent }.write(&mut self.block);
                self.calls += 1;
                handed += 1;
            }
            let rest = &self.block[self.block.len() - self.rest..];
            match self.connection.send(rest).map_err(TransportError::Broken)? {
                Some(taken) => {
                    self.rest -= taken;
                    self.bytes += taken as u64;
                }
                None => return Ok(Room::Full(handed)),
            }
        }
        Ok(Room::Taken(handed))
    }

    fn wait_for_room(&mut self, until: Instant) -> Result<(), TransportError> {
        self.poller.wait(Some(until))?;
        Ok(())
    }
}

impl SendEnd for Sender {
    fn finish(&mut self) -> Result<(), TransportError> {
        self.connection.finish().map_err(TransportError::Broken)
    }

    fn count(&self) -> Count {
        let info = self.connection.info().unwrap_or_default();
        Count {
            units: self.calls,
            bytes: self.bytes,
            retransmits: Some(info.retransmitted_segments.into()),
            rtt_ns: Some(u64::from(info.rtt_us) * 1_000),
            congestion_window_bytes: Some(info.congestion_window_bytes()),
            ..Count::default()
        }
    }

    fn sent(&self) -> Sent {
        Sent { bytes: self.bytes, ..Sent::default() }
    }
}

struct Receiver {
    connection: TcpConnection,
    poller: Poller,
    memory: Vec<u8>,
    /// Size of the sender's units, each with a stamp if it has room for one.
    unit_bytes: usize,
    bytes: u64,
    delays: Delays,
    ended: bool,
}

impl Receiver {
    fn new(task: &Task<'_>, connection: TcpConnection, poller: Poller) -> Self {
        let (unit_bytes, delays) = (task.unit_bytes, Delays::default());
        let memory = vec![0; unit_bytes.max(SMALLEST_READ_BYTES)];
        Self { connection, poller, memory, unit_bytes, bytes: 0, delays, ended: false }
    }
}

impl ReceiveEnd for Receiver {
    fn receive(&mut self, until: Instant) -> Result<Arrived, TransportError> {
        for attempt in 0..2 {
            match self.connection.receive(&mut self.memory) {
                Ok(Some(0)) => self.ended = true,
                // A sender that vanished: its account stays unconfirmed.
                Err(_) => return Ok(Arrived::End),
                Ok(Some(count)) => {
                    let delivered = clock::monotonic();
                    for stamp in stamps(&self.memory[..count], self.bytes, self.unit_bytes) {
                        self.delays.take(stamp.sent, delivered);
                    }
                    self.bytes += count as u64;
                    return Ok(Arrived::Some);
                }
                Ok(None) if attempt == 0 => drop(self.poller.wait(Some(until))?),
                Ok(None) => {}
            }
            if self.ended {
                return Ok(Arrived::End);
            }
        }
        Ok(Arrived::Nothing)
    }

    fn has_all(&self, sent: &Sent) -> bool {
        self.ended && self.bytes >= sent.bytes
    }

    fn count(&self) -> Count {
        Count { bytes: self.bytes, ..Count::default() }.with_delays(&self.delays)
    }

    fn close(&mut self, sent: Option<&Sent>) -> Result<Account, TransportError> {
        let total = sent.map_or(self.bytes, |sent| sent.bytes);
        Ok(Account {
            unit: Unit::Bytes,
            state: if sent.is_some() { AccountState::Closed } else { AccountState::Unconfirmed },
            sent: total,
            received: self.bytes,
            lost: std::collections::BTreeMap::new(),
            // More received than sent leaves an account that does not balance, which is a failure of the run.
            unexplained: total.saturating_sub(self.bytes),
            duplicates: 0,
            unmatched: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::greeting::GREETING_BYTES;

    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const TOKEN: u64 = 0x0123_4567_89ab_cdef;

    #[test]
    fn only_connections_of_the_client_that_know_the_token_carry_a_flow() {
        let options = Options { streams: 2, ..Options::default() };
        let task = Task { end: End::Server, token: TOKEN, ..Task::example(&options) };
        let acceptor = TcpAcceptor::listen((LOCAL, 0).into(), &TcpOptions::default()).unwrap();
        let connect = |from: IpAddr, says: &[u8]| {
            let from = TcpOptions { from: Some((from, 0).into()), ..TcpOptions::default() };
            let connection = TcpConnection::connect(acceptor.local_address(), &from, task.patience).unwrap();
            connection.send(says).unwrap();
            connection
        };
        let neighbour = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        let mute = connect(LOCAL, &[]);
        let strangers = [
            connect(neighbour, &greeting(TOKEN, 0)),
            connect(LOCAL, &greeting(TOKEN + 1, 0)),
            connect(LOCAL, &greeting(TOKEN, 2)),
            connect(LOCAL, &[0; GREETING_BYTES]),
        ];
        let ours = [1, 0].map(|flow| connect(LOCAL, &greeting(TOKEN, flow)));
        let came: Vec<_> = accept_all(&acceptor, &task)
            .unwrap()
            .into_iter()
            .map(|(key, connection)| (key.flow(), connection.peer_address()))
            .collect();
        assert_eq!(came, [(0, ours[1].local_address()), (1, ours[0].local_address())]);
        drop((mute, strangers));
    }
}
