//! The transports that a throughput measurement compares, behind one pair of ends.
//!
//! A new transport is a new file, a [`Protocol`] for its name, and a line in [`of`]. The file has a
//! [`Transport`], which opens the ends of a run's flows in two steps, the same at client and server: first the
//! ends that the other side connects or sends to ([`Transport::listen`]), whose addresses the two sides
//! exchange, then the ends that use those addresses ([`Listening::connect`]). Each end is a [`SendEnd`] or a
//! [`ReceiveEnd`] with its own thread, which never blocks except where it is given a time limit.
//!
//! A transport has few duties: it sends units on request, takes received ones, counts both, and closes an
//! account in which every unit has arrived, is lost at a stage, or is unexplained. Threads, pacing, intervals,
//! live loss, repeats and reports are common to all of them and are elsewhere.

mod stream;
mod tcp;
mod udp;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use units::Instant;

use super::message::{Account, Count, End, FlowKey, Sent};
use super::options::{GROUP_KIND, MOST_DELAYS, Options, Protocol, Rate};
use crate::control::{Stranger, reached_from};
use crate::options::usual_group;
use crate::report::Times;
use flow::udp::said_if_clamped;
use flow::{Paced, Tail};

/// Parameters of a run for a transport.
pub(super) struct Task<'a> {
    pub(super) options: &'a Options,
    pub(super) end: End,
    pub(super) run: u32,
    /// Token that the server sent to the client alone: it identifies the connections of this run. 0 until it is
    /// known.
    pub(super) token: u64,
    /// Rate of each flow.
    pub(super) rate: Rate,
    pub(super) unit_bytes: usize,
    /// This end's address of the control connection, without its port: data take the same path.
    pub(super) local: SocketAddr,
    /// Address of the other end.
    pub(super) peer: IpAddr,
    pub(super) patience: Duration,
    /// This end's file of keys, for secured streams.
    pub(super) station: Option<&'a Path>,
}

impl Task<'_> {
    /// Checks that the other end asks for data to itself or to the group, not to an uninvolved host.
    pub(super) fn check_endpoints(&self, endpoints: &[SocketAddr]) -> Result<(), Stranger> {
        let is_multicast = self.options.protocol.is_multicast();
        Stranger::check(endpoints, if is_multicast { self.group() } else { self.peer })
    }

    /// Returns the group, the same at both ends.
    fn group(&self) -> IpAddr {
        self.options.group.unwrap_or_else(|| usual_group(self.local.ip(), GROUP_KIND))
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

    /// Returns the flows that this end sends, each with its destination: one of the other end's endpoints.
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

    /// Returns the receive address of datagrams, for a port: in the group, or the control connection's local
    /// address.
    fn receive_address(&self, port: u16) -> SocketAddr {
        let mut address =
            if self.options.protocol.is_multicast() { (self.group(), 0).into() } else { self.local };
        address.set_port(port);
        address
    }

    /// Returns the number of delays that each receiver keeps: a client that sends more does not fill the memory.
    fn kept_delays(&self) -> usize {
        let receivers = self.options.streams.max(1) as usize * self.options.receivers.max(1) as usize;
        if self.options.delay_percentiles { MOST_DELAYS / receivers } else { 0 }
    }

    /// Returns the processor for this end's threads.
    const fn cpu(&self) -> Option<usize> {
        match self.end {
            End::Client => self.options.client_cpu,
            End::Server => self.options.server_cpu,
        }
    }
}

#[cfg(test)]
impl<'a> Task<'a> {
    /// Returns the task of a client whose server is on this host too.
    fn example(options: &'a Options) -> Self {
        let peer = IpAddr::from([127, 0, 0, 1]);
        let (end, rate, patience) = (End::Client, Rate::Bits(0), Duration::from_secs(30));
        let local = (peer, 0).into();
        let station = None;
        Self { options, end, run: 0, token: 0, rate, unit_bytes: 1_000, local, peer, patience, station }
    }
}

/// Factory of flow ends, for one run after the other.
pub(super) trait Transport {
    /// Opens the ends that the other side connects or sends to; none if this side has no such ends.
    ///
    /// Afterwards data may arrive at any moment: receivers are ready before any sender is opened.
    fn listen(&self, task: &Task<'_>) -> Result<Box<dyn Listening>, TransportError>;
}

/// Ends that wait for the other side.
pub(super) trait Listening {
    /// Returns their addresses, in an order that the other side knows.
    fn endpoints(&self) -> Vec<SocketAddr>;

    /// Opens the remaining ends, towards the endpoints of the other side; returns all flows of this end.
    fn connect(
        self: Box<Self>,
        task: &Task<'_>,
        endpoints: &[SocketAddr],
    ) -> Result<Vec<Flow>, TransportError>;
}

/// Receiving ends of datagrams: the other side sends to them without a connection.
struct Receivers {
    /// Destination of each flow's datagrams.
    endpoints: Vec<SocketAddr>,
    flows: Vec<Flow>,
    /// Opens a sending end, towards an endpoint of the other side.
    sender: fn(&Task<'_>, FlowKey, SocketAddr) -> Result<Flow, TransportError>,
}

impl Listening for Receivers {
    fn endpoints(&self) -> Vec<SocketAddr> {
        self.endpoints.clone()
    }

    fn connect(
        mut self: Box<Self>,
        task: &Task<'_>,
        endpoints: &[SocketAddr],
    ) -> Result<Vec<Flow>, TransportError> {
        for (key, to) in task.sending_flows_to(endpoints)? {
            self.flows.push((self.sender)(task, key, to)?);
        }
        Ok(self.flows)
    }
}

/// One end of a flow.
pub(crate) struct Flow {
    pub(super) about: Description,
    pub(super) end: FlowEnd,
}

/// A flow without its end.
pub(super) struct Description {
    pub(super) key: FlowKey,
    pub(super) local: SocketAddr,
    pub(super) remote: Option<SocketAddr>,
    pub(super) congestion_control: Option<String>,
    /// Socket buffer that the kernel granted, before it doubles it; none where that is unknown.
    pub(super) buffer_bytes: Option<u64>,
    /// Notes on the flow, such as clamped buffers.
    pub(super) notes: Vec<String>,
}

impl Description {
    /// Describes an end with a socket buffer, or one whose buffer is unknown.
    fn new(key: FlowKey, local: SocketAddr, buffer: Option<sys::Buffer>) -> Self {
        // The granted size is comparable with a requested one.
        let buffer_bytes = buffer.map(|buffer| buffer.effective_bytes / 2);
        let notes = buffer.and_then(said_if_clamped).into_iter().collect();
        Self { key, local, remote: None, congestion_control: None, buffer_bytes, notes }
    }
}

pub(super) enum FlowEnd {
    Send(Box<dyn SendEnd>),
    Receive(Box<dyn ReceiveEnd>),
}

/// Result of receiving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrived {
    /// At least one unit.
    Some,
    /// Nothing until the time limit.
    Nothing,
    /// The sender has ended the flow: there is no more.
    End,
}

/// Time limits of a receiver once all was sent.
const TAIL: Tail = Tail { quiet: Duration::from_millis(250), longest: Duration::from_secs(10) };

/// The sending end of a flow.
pub(super) trait SendEnd: Paced<Error = TransportError> + Send {
    /// Ends the flow, also after an error; units that were never handed to the kernel were not sent. It may
    /// wait until the others have left.
    fn finish(&mut self) -> Result<(), TransportError>;

    /// Returns the counts so far; called every few milliseconds.
    fn count(&self) -> Count;

    /// Returns the counts that the receivers need to close their accounts; called after
    /// [`finish`](Self::finish).
    fn sent(&self) -> Sent;

    /// Returns notes on problems, such as datagrams too large for the path.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A receiving end of a flow.
pub(super) trait ReceiveEnd: Send {
    /// Takes available data, waiting for it until the time limit.
    fn receive(&mut self, until: Instant) -> Result<Arrived, TransportError>;

    /// Returns whether everything sent has arrived.
    fn has_all(&self, sent: &Sent) -> bool;

    /// Returns the time limits once all was sent.
    fn tail(&self) -> Tail {
        TAIL
    }

    /// Returns the counts so far, with missing units where they are known; called every few milliseconds.
    fn count(&self) -> Count;

    /// Closes the account; `sent` is `None` if the sender could not report its counts.
    ///
    /// Received units are this end's own count, missing ones its own record: no term is computed from the
    /// others.
    fn close(&mut self, sent: Option<&Sent>) -> Result<Account, TransportError>;

    /// Returns the delays, if it was to keep them; called once.
    fn delays(&mut self) -> Option<Times> {
        None
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Reasons why data cannot flow.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// A UDP socket cannot be opened.
    #[error(transparent)]
    Open(#[from] sys::OpenError),
    /// A TCP socket cannot be opened or connected.
    #[error(transparent)]
    Tcp(#[from] sys::TcpError),
    /// The system refused a call while data flowed.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The account does not balance.
    #[error(transparent)]
    Law(#[from] probe::flow::FlowLawError),
    /// The account of a stream does not balance.
    #[error(transparent)]
    Imbalance(#[from] ledger::Imbalance),
    /// A secured stream at an end without the keys of a station.
    #[error(
        "the {0} has no keys of a station to secure streams with\n\
         name the station's own file there: --key STATION.keys (tallycast keys new, keys add, keys peers)"
    )]
    NoStation(&'static str),
    /// An end of a stream cannot be opened.
    #[error(transparent)]
    Node(#[from] tallycast::NodeError),
    /// A stream refused samples.
    #[error(transparent)]
    Publish(#[from] tallycast::PublishError),
    /// The other end opened a wrong number of ends.
    #[error(
        "the other end opened {made} ends of flows, not {wanted}\ninstall the same version of tallycast on both hosts"
    )]
    Endpoints {
        /// Number of ends that it opened.
        made: usize,
        /// Number of ends that it should have opened.
        wanted: usize,
    },
    /// The other end asks for data to be sent to a third host.
    #[error(transparent)]
    Stranger(#[from] Stranger),
    /// Some connections did not arrive.
    #[error(
        "of {wanted} connections {came} arrived within {patience:?}\nsee whether a firewall lets the port {port} through"
    )]
    Missing {
        /// Number of connections that arrived.
        came: usize,
        /// Number of expected connections.
        wanted: usize,
        /// Time they were waited for.
        patience: Duration,
        /// Port of the server.
        port: u16,
    },
    /// The receiver of a connection is gone.
    #[error("the other end closed a connection that was being sent to: {0}\nsee whether it was ended")]
    Broken(io::Error),
}

/// Returns the factory of a protocol's ends.
pub(super) fn of(protocol: Protocol) -> &'static dyn Transport {
    match protocol {
        Protocol::Tcp => &tcp::Tcp,
        Protocol::Udp | Protocol::Multicast => &udp::Udp,
        Protocol::Stream | Protocol::StreamMulticast => &stream::Stream,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_go_to_who_asks_for_them_or_to_the_group_and_to_nobody_else() {
        let [peer, other]: [IpAddr; 2] = ["192.0.2.7", "192.0.2.8"].map(|text| text.parse().unwrap());
        let check = |protocol, to: IpAddr| {
            let options = Options { protocol, ..Options::default() };
            let task = Task { end: End::Server, local: (other, 0).into(), peer, ..Task::example(&options) };
            task.check_endpoints(&[SocketAddr::new(to, 2)])
        };
        assert!(check(Protocol::Udp, peer).is_ok());
        let group = usual_group(peer, GROUP_KIND);
        assert!(check(Protocol::Multicast, group).is_ok());
        assert!(check(Protocol::Stream, peer).is_ok() && check(Protocol::StreamMulticast, group).is_ok());
        for (protocol, to) in [(Protocol::Udp, other), (Protocol::Udp, group), (Protocol::Multicast, peer)] {
            let refused = check(protocol, to).unwrap_err();
            assert!(refused.to_string().contains("another host"), "{refused}");
        }
    }
}
