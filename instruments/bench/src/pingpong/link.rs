//! The transports of a message, behind one pair of ends.
//!
//! The near end begins every exchange, the far end answers; each handles one message at a time. Datagrams lose messages
//! (`udp`); the reliable carriers `tcp`, `udt` and `shm` are ends of the same kind (`stream`).

mod shm;
mod stream;
mod tcp;
mod udp;
mod udt;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use sys::clock;
use units::Instant;

use super::message::Evidence;
use super::options::{Options, System, Wait};
use crate::control::{Stranger, reached_from};

pub(super) use shm::sweep;
pub(super) use udp::{UdpEnd, UdpListening};

/// Interval at which an end checks for other work: the control connection is read by a thread, whose channel has
/// no descriptor to wait for.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Parameters of a connection's run.
pub(super) struct Task<'a> {
    pub(super) options: &'a Options,
    pub(super) system: &'a System,
    /// Message bytes in a datagram.
    pub(super) piece_bytes: u32,
    /// This end's address of the control connection, without its port: messages take the same path.
    pub(super) local: SocketAddr,
    /// Address of the other end.
    pub(super) peer: IpAddr,
    pub(super) patience: Duration,
}

/// Outcome of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exchanged {
    /// The answer came, this long after the message began to be sent.
    Completed(Duration),
    /// The time limit has passed.
    GivenUp,
    /// This end was asked to end in the middle of it.
    Cut,
}

/// The other work of an end during an exchange. A message may take minutes: meanwhile the end sends heartbeats
/// to its peer, and checks whether to stop.
pub(super) trait Attending {
    /// Returns whether to continue. Called at least every [`POLL_INTERVAL`], and often in between.
    fn goes_on(&mut self) -> bool;
}

/// Either end of a connection.
pub(super) trait End {
    /// Returns the datagram counters since the connection began; all zero over a reliable carrier.
    fn evidence(&self) -> Evidence {
        Evidence::default()
    }

    fn notes(&self) -> Vec<String>;
}

/// The end that begins an exchange.
pub(super) trait Near: End + Send {
    /// Sends a message of a given size and waits for its answer.
    fn exchange(
        &mut self,
        exchange: u64,
        message_bytes: u32,
        meanwhile: &mut dyn Attending,
    ) -> Result<Exchanged, LinkError>;

    /// Returns the number of segments or packets that a reliable carrier sent again since the connection began.
    fn retransmits(&self) -> Option<u64> {
        None
    }

    /// Returns the congestion control in use.
    fn congestion_control(&self) -> Option<String> {
        None
    }
}

/// The end that answers an exchange.
pub(super) trait Far: End + Send {
    /// Answers a message if one arrives before the next check; `size_step` gives its size, and is notified of a
    /// complete message before the answer is sent.
    fn answer(&mut self, size_step: &dyn Answering) -> Result<(), LinkError>;
}

/// A far end of a reliable carrier that waits for its near end.
pub(super) trait Listening {
    /// Returns its address.
    fn endpoint(&self) -> SocketAddr;

    /// Waits for the client's connection; others are dropped. `None` if this end is asked to end.
    fn accept(
        self: Box<Self>,
        task: &Task<'_>,
        meanwhile: &mut dyn Attending,
    ) -> Result<Option<Box<dyn Far>>, LinkError>;
}

/// Opens the server's end of a reliable carrier.
pub(super) fn listen(task: &Task<'_>, token: u64) -> Result<Box<dyn Listening>, LinkError> {
    match task.system.carrier() {
        System::Tcp(_) => tcp::listen(task, token),
        System::Udt(_) => udt::listen(task, token),
        System::Shm => shm::listen(task, token),
        System::Udp | System::Layered { .. } => Err(LinkError::NotAsAgreed),
    }
}

/// Connects the client's end of a reliable carrier.
pub(super) fn connect(task: &Task<'_>, to: SocketAddr, token: u64) -> Result<Box<dyn Near>, LinkError> {
    match task.system.carrier() {
        System::Tcp(_) => tcp::connect(task, to, token),
        System::Udt(_) => udt::connect(task, to, token),
        System::Shm => shm::connect(task, token),
        System::Udp | System::Layered { .. } => Err(LinkError::NotAsAgreed),
    }
}

/// The current size step, as the far end sees it.
pub(super) trait Answering {
    /// Returns the message size of this step.
    fn message_bytes(&self) -> u32;

    /// Counts a complete message; returns whether it belongs to this size step and is to be answered.
    fn came(&self, exchange: Option<u64>) -> bool;

    /// Returns whether to stop answering.
    fn is_to_end(&self) -> bool;
}

/// Reasons why messages cannot be exchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// A UDP socket cannot be opened.
    #[error(transparent)]
    Open(#[from] sys::OpenError),
    /// A TCP socket cannot be opened or connected.
    #[error(transparent)]
    Tcp(#[from] sys::TcpError),
    /// A connection of the reliable transport failed.
    #[error(transparent)]
    Udt(#[from] tallycast::udt::Error),
    /// The reliable transport has no such congestion control.
    #[error(transparent)]
    Control(#[from] tallycast::udt::congestion::UnknownControl),
    /// A ring cannot be created.
    #[error(transparent)]
    Create(#[from] ring::shared::CreateError),
    /// The ring of the other end cannot be opened.
    #[error(
        "the other end's ring cannot be opened: {0}\nshared memory needs both ends on one host: leave shm out"
    )]
    Attach(#[from] ring::shared::OpenError),
    /// A ring was overwritten by another process.
    #[error(
        "the ring was damaged while it was read\nsee what else writes to /dev/shm, and start the bench again"
    )]
    Broken,
    /// The other end sent another message than was agreed.
    #[error(
        "the other end sent another message than was agreed\ninstall the same version of tallycast on both hosts"
    )]
    NotAsAgreed,
    /// The system refused a call.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The other end has closed the connection.
    #[error("the other end closed the connection of the messages\nsee whether it was ended")]
    Closed,
    /// More bytes arrived than a message has.
    #[error("the other end sent more than a message\ninstall the same version of tallycast on both hosts")]
    TooMuch,
    /// Data have stopped moving.
    #[error(
        "nothing has moved for {0:?} in the middle of a message\nsee whether the other host can still be reached"
    )]
    Stuck(Duration),
    /// The client did not connect.
    #[error("no connection arrived within {patience:?}\nsee whether a firewall lets the port {port} through")]
    Missing {
        /// Time it was waited for.
        patience: Duration,
        /// Port of the server.
        port: u16,
    },
    /// The other end asks for messages to a third host.
    #[error(transparent)]
    Stranger(#[from] Stranger),
}

impl Task<'_> {
    /// Checks that the other end asks for messages to itself; returns the endpoint as this end reaches it.
    fn check_endpoint(&self, endpoint: SocketAddr) -> Result<SocketAddr, Stranger> {
        Stranger::check(&[endpoint], self.peer)?;
        Ok(reached_from(self.local, endpoint))
    }
}

/// A far end that ends with its size step.
struct Answerer<'a>(&'a dyn Answering);

impl Attending for Answerer<'_> {
    fn goes_on(&mut self) -> bool {
        !self.0.is_to_end()
    }
}

/// Waits by `sleep` until a descriptor is ready, a moment comes, or the next check is due; returns at once when
/// spinning.
fn wait(how: Wait, until: Instant, sleep: impl FnOnce(Instant) -> io::Result<()>) -> io::Result<()> {
    match how {
        Wait::Sleep => sleep(until.min(clock::monotonic() + POLL_INTERVAL)),
        Wait::Spin => {
            std::hint::spin_loop();
            Ok(())
        }
    }
}

/// Returns the time since a moment.
fn since(began: Instant) -> Duration {
    clock::monotonic().since(began)
}

#[cfg(test)]
mod tests;
