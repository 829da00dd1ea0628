//! The transports that a throughput measurement compares, behind one pair of ends.
//!
//! A new transport is a new file, a [`Protocol`] that names it, and a line in [`of`]. The file has a [`Transport`], which
//! makes the ends of a run's flows in two steps, the same at client and server: first what the other side is to reach
//! ([`Transport::listen`]), whose addresses the two sides exchange, then what reaches it ([`Listening::connect`]). Each
//! end is a [`SendEnd`] or a [`ReceiveEnd`] with a thread of its own, which never waits but where it is told until when.
//!
//! What a transport has to bring is small: it sends units when asked to, takes what came, counts both, and closes an
//! account in which every unit has arrived, is lost at a stage, or is unexplained. Threads, pacing, intervals, live loss,
//! repeats and reports are the same for all of them and lie elsewhere.

mod stream;
mod tcp;
mod udp;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use units::Instant;

use super::message::{Account, Count, End, FlowKey, Sent};
use super::options::{Options, Protocol, Rate};
use crate::control::reached_from;
use crate::greeting::AcceptError;

/// All that a transport needs to know of a run.
pub(super) struct Task<'a> {
    pub(super) options: &'a Options,
    pub(super) end: End,
    pub(super) run: u32,
    /// What the server told the client alone: a connection that knows it is of this run. 0 until it was told.
    pub(super) token: u64,
    /// How fast each flow is to be.
    pub(super) rate: Rate,
    pub(super) unit_bytes: usize,
    /// This end's address of the control connection, without its port: data go the same way.
    pub(super) local: SocketAddr,
    /// The other end's.
    pub(super) peer: IpAddr,
    pub(super) patience: Duration,
}

impl Task<'_> {
    /// Checks that the other end asks for data to itself or to the group, not to somebody who knows nothing of it.
    pub(super) fn check_endpoints(&self, endpoints: &[SocketAddr]) -> Result<(), TransportError> {
        let is_allowed = |address: IpAddr| {
            if self.options.protocol.is_multicast() {
                address == IpAddr::V4(self.options.group)
            } else {
                address == self.peer
            }
        };
        match endpoints.iter().find(|endpoint| !is_allowed(endpoint.ip())) {
            None => Ok(()),
            Some(endpoint) => Err(TransportError::Stranger { endpoint: *endpoint, peer: self.peer }),
        }
    }

    /// Returns all flows, in an order that both ends know.
    fn flows(&self) -> impl Iterator<Item = FlowKey> {
        let streams = self.options.streams;
        let ways = self.options.ways().iter();
        ways.flat_map(move |way| (0..streams).map(move |stream| FlowKey::sender(*way, stream)))
    }

    /// Returns the flows that this end receives.
    fn receiving_flows(&self) -> impl Iterator<Item = FlowKey> {
        let end = self.end;
        self.flows().filter(move |key| !end.sends(key.way))
    }

    /// Returns the flows that this end sends, each with where it goes: one of the other end's endpoints.
    fn sending_flows_to(
        &self,
        endpoints: &[SocketAddr],
    ) -> Result<Vec<(FlowKey, SocketAddr)>, TransportError> {
        let keys: Vec<FlowKey> = self.flows().filter(|key| self.end.sends(key.way)).collect();
        if keys.len() != endpoints.len() {
            return Err(TransportError::Endpoints { made: endpoints.len(), wanted: keys.len() });
        }
        Ok(keys.into_iter().zip(endpoints.iter().map(|it| reached_from(self.local, *it))).collect())
    }

    /// Returns where datagrams are received, at a port: in the group, or at the address that the control connection came by.
    fn receive_address(&self, port: u16) -> SocketAddr {
        let mut address =
            if self.options.protocol.is_multicast() { (self.options.group, 0).into() } else { self.local };
        address.set_port(port);
        address
    }

    /// Returns the processor that this end's threads are to run on.
    const fn cpu(&self) -> Option<usize> {
        match self.end {
            End::Client => self.options.client_cpu,
            End::Server => self.options.server_cpu,
        }
    }
}

/// Makes the ends of flows, for one run after the other.
pub(super) trait Transport {
    /// Makes what the other end is to connect or send to; nothing where this end has nothing of the kind.
    ///
    /// After it data may come at any moment: receivers are ready before any sender is made.
    fn listen(&self, task: &Task<'_>) -> Result<Box<dyn Listening>, TransportError>;
}

/// Ends that wait for the other side.
pub(super) trait Listening {
    /// Returns where they are, in an order that the other side knows.
    fn endpoints(&self) -> Vec<SocketAddr>;

    /// Makes the rest, towards the endpoints of the other side; returns all flows of this end.
    fn connect(
        self: Box<Self>,
        task: &Task<'_>,
        endpoints: &[SocketAddr],
    ) -> Result<Vec<Flow>, TransportError>;
}

/// One end of a flow.
pub(super) struct Flow {
    pub(super) key: FlowKey,
    pub(super) local: SocketAddr,
    pub(super) remote: Option<SocketAddr>,
    pub(super) congestion_control: Option<String>,
    /// What the kernel granted of its socket buffer, before it doubles it; none where that is not told.
    pub(super) buffer_bytes: Option<u64>,
    /// What is to be known of it, such as clamped buffers.
    pub(super) notes: Vec<String>,
    pub(super) end: FlowEnd,
}

pub(super) enum FlowEnd {
    Send(Box<dyn SendEnd>),
    Receive(Box<dyn ReceiveEnd>),
}

/// Whether there was room for what was to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// So many units were handed over.
    Taken(u32),
    /// There was none for some of them: wait before the next call.
    Full(u32),
}

/// What a receiving end met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrived {
    /// Something.
    Some,
    /// Nothing until the moment came.
    Nothing,
    /// The sender has ended the flow itself: there is no more.
    End,
}

/// Longer than any queue on the way holds a datagram at rates worth measuring.
const QUIET: Duration = Duration::from_millis(250);

/// The sending end of a flow.
pub(super) trait SendEnd: Send {
    /// Sends so many units, as far as there is room, without waiting for it.
    ///
    /// # Errors
    /// Only what ends the flow: a unit that is refused is counted, with the stage that refused it.
    fn send(&mut self, count: u32) -> Result<Room, TransportError>;

    /// Waits for room, no longer than until then.
    fn wait_for_room(&mut self, until: Instant) -> Result<(), TransportError>;

    /// Ends the flow, also after an error; what was never handed over was not sent. It may wait until what was handed over
    /// has left.
    fn finish(&mut self) -> Result<(), TransportError>;

    /// Returns what was counted so far; asked for every few milliseconds.
    fn count(&self) -> Count;

    /// Returns what the receivers need to close their accounts; asked for after [`finish`](Self::finish).
    fn sent(&self) -> Sent;

    /// Returns what went wrong on the way, such as datagrams too large for it.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A receiving end of a flow.
pub(super) trait ReceiveEnd: Send {
    /// Takes what is there, waiting for it no longer than until then.
    fn receive(&mut self, until: Instant) -> Result<Arrived, TransportError>;

    /// Tells whether all that was sent is there.
    fn has_all(&self, sent: &Sent) -> bool;

    /// Returns how long nothing must have come, once all was sent, before what is missing is taken for lost.
    fn quiet(&self) -> Duration {
        QUIET
    }

    /// Returns what was counted so far, what is missing included where that is known; asked for every few milliseconds.
    fn count(&self) -> Count;

    /// Closes the account; `sent` is `None` if the sender could not say what it sent.
    ///
    /// What arrived is this end's own count, what is missing its own record: no term is computed from the others.
    fn close(&mut self, sent: Option<&Sent>) -> Result<Account, TransportError>;

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Says why data cannot flow.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// A UDP socket cannot be opened.
    #[error(transparent)]
    Open(#[from] sys::OpenError),
    /// A TCP socket cannot be opened or connected.
    #[error(transparent)]
    Tcp(#[from] sys::TcpError),
    /// The system refused something while data flowed.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The account does not add up.
    #[error(transparent)]
    Law(#[from] probe::flow::FlowLawError),
    /// The account of a stream does not add up.
    #[error(transparent)]
    Imbalance(#[from] ledger::Imbalance),
    /// An end of a stream cannot be opened.
    #[error(transparent)]
    Node(#[from] tallycast::NodeError),
    /// A stream takes no more.
    #[error(transparent)]
    Publish(#[from] tallycast::PublishError),
    /// The other end did not make as many ends as it should.
    #[error(
        "the other end made {made} ends of flows, not {wanted}\ninstall the same version of tallycast on both hosts"
    )]
    Endpoints {
        /// How many it made.
        made: usize,
        /// How many it should have.
        wanted: usize,
    },
    /// The other end wants data to go to a third host.
    #[error(
        "{peer} wants data to go to {endpoint}, which is another host\nmeasure without address translation in between"
    )]
    Stranger {
        /// Where data were to go.
        endpoint: SocketAddr,
        /// Who wants that.
        peer: IpAddr,
    },
    /// Not all connections came.
    #[error(
        "of {wanted} connections {came} came within {patience:?}\nsee whether a firewall lets the port {port} through"
    )]
    Missing {
        /// How many came.
        came: usize,
        /// How many should have.
        wanted: usize,
        /// How long they were waited for.
        patience: Duration,
        /// Where.
        port: u16,
    },
    /// The receiver of a connection is gone.
    #[error("the other end closed a connection that was being sent to: {0}\nsee whether it was ended")]
    Broken(io::Error),
}

impl From<AcceptError> for TransportError {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::Tcp(error) => Self::Tcp(error),
            AcceptError::System(error) => Self::System(error),
        }
    }
}

/// Returns what makes the ends of a protocol.
pub(super) fn of(protocol: Protocol) -> &'static dyn Transport {
    match protocol {
        Protocol::Tcp => &tcp::Tcp,
        Protocol::Udp | Protocol::Multicast => &udp::Udp,
        Protocol::Stream | Protocol::StreamMulticast => &stream::Stream,
    }
}

/// Returns the note on a buffer that the kernel clamped.
fn said_if_clamped(buffer: sys::Buffer) -> Option<String> {
    buffer.clamped().then(|| buffer.to_string())
}

/// Returns what the kernel granted of a buffer, in the terms in which it is asked for.
const fn granted_bytes(buffer: sys::Buffer) -> u64 {
    buffer.effective_bytes / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_go_to_who_asks_for_them_or_to_the_group_and_to_nobody_else() {
        let [peer, other]: [IpAddr; 2] = ["192.0.2.7", "192.0.2.8"].map(|text| text.parse().unwrap());
        let check = |protocol, to: IpAddr| {
            let options = Options { protocol, ..Options::default() };
            let (end, patience, token) = (End::Server, Duration::ZERO, 0);
            let (run, unit_bytes, local) = (0, 1, (other, 0).into());
            let rate = Rate::Bits(0);
            let task = Task { options: &options, end, run, token, rate, unit_bytes, local, peer, patience };
            task.check_endpoints(&[SocketAddr::new(to, 2)])
        };
        assert!(check(Protocol::Udp, peer).is_ok());
        let group = Options::default().group.into();
        assert!(check(Protocol::Multicast, group).is_ok());
        assert!(check(Protocol::Stream, peer).is_ok() && check(Protocol::StreamMulticast, group).is_ok());
        for (protocol, to) in [(Protocol::Udp, other), (Protocol::Udp, group), (Protocol::Multicast, peer)] {
            let refused = check(protocol, to).unwrap_err();
            assert!(refused.to_string().contains("another host"), "{refused}");
        }
    }
}
