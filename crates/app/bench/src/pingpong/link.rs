//! The two ways a message may go, behind one pair of ends.
//!
//! The near end begins every exchange, the far end answers; each has one message in its hands at a time.

mod tcp;
mod udp;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use sys::{Poller, clock};
use units::Instant;

use super::message::Evidence;
use super::options::{Options, System, Wait};
use crate::control::reached_from;
use crate::greeting::AcceptError;

pub(super) use tcp::{TcpFar, TcpNear};
pub(super) use udp::{UdpFar, UdpNear};

/// How long an end waits at most before it looks up.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// All that a way needs to know of its run.
pub(super) struct Task<'a> {
    pub(super) options: &'a Options,
    pub(super) system: &'a System,
    /// How much of a message a datagram holds.
    pub(super) piece_bytes: u32,
    /// This end's address of the control connection, without its port: messages go the same way.
    pub(super) local: SocketAddr,
    /// The other end's.
    pub(super) peer: IpAddr,
    pub(super) patience: Duration,
}

/// What came of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exchanged {
    /// The answer came, so long after the message began to be sent.
    Completed(Duration),
    /// It was not waited for any longer.
    GivenUp,
    /// This end was to end in the middle of it.
    Cut,
}

/// The other work of an end during an exchange. A message may take minutes: meanwhile the end tells its peer that it is
/// alive, and learns whether to stop.
pub(super) trait Attending {
    /// Tells whether to go on. Is asked at least every [`LOOK`], and often in between.
    fn goes_on(&mut self) -> bool;
}

/// The end that begins.
pub(super) trait Near {
    /// Sends a message of so many bytes and waits for its answer.
    fn exchange(
        &mut self,
        exchange: u64,
        message_bytes: u32,
        meanwhile: &mut dyn Attending,
    ) -> Result<Exchanged, LinkError>;

    /// Returns what is known of datagrams since it began.
    fn evidence(&self) -> Evidence;

    /// Returns how many segments TCP sent again since it began.
    fn retransmits(&self) -> Option<u64> {
        None
    }

    /// Returns the congestion control in use.
    fn congestion_control(&self) -> Option<String> {
        None
    }

    fn notes(&self) -> Vec<String>;
}

/// The end that answers.
pub(super) trait Far: Send {
    /// Answers a message if one arrives before the next check; `size_step` gives its size, and is told of a complete message
    /// before the answer is sent.
    fn answer(&mut self, size_step: &dyn Answering) -> Result<(), LinkError>;

    fn evidence(&self) -> Evidence;

    fn notes(&self) -> Vec<String>;
}

/// The current size step, as the far end sees it.
pub(super) trait Answering {
    /// Returns the message size of this step.
    fn message_bytes(&self) -> u32;

    /// Counts a complete message; tells whether it belongs to this size step and is to be answered.
    fn came(&self, exchange: Option<u64>) -> bool;

    /// Tells whether nothing more is to be answered.
    fn is_to_end(&self) -> bool;
}

/// Says why messages cannot go.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// A UDP socket cannot be opened.
    #[error(transparent)]
    Open(#[from] sys::OpenError),
    /// A TCP socket cannot be opened or connected.
    #[error(transparent)]
    Tcp(#[from] sys::TcpError),
    /// The system refused something.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The other end has closed the connection.
    #[error("the other end closed the connection of the messages\nsee whether it was ended")]
    Closed,
    /// More came than a message has.
    #[error("the other end sent more than a message\ninstall the same version of tallycast on both hosts")]
    TooMuch,
    /// Nothing moves any more.
    #[error(
        "nothing has moved for {0:?} in the middle of a message\nsee whether the other host can still be reached"
    )]
    Stuck(Duration),
    /// The client did not connect.
    #[error("no connection came within {patience:?}\nsee whether a firewall lets the port {port} through")]
    Missing {
        /// How long it was waited for.
        patience: Duration,
        /// Where.
        port: u16,
    },
    /// The other end wants messages to go to a third host.
    #[error(
        "{peer} wants messages to go to {endpoint}, which is another host\nmeasure without address translation in between"
    )]
    Stranger {
        /// Where messages were to go.
        endpoint: SocketAddr,
        /// Who wants that.
        peer: IpAddr,
    },
}

impl From<AcceptError> for LinkError {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::Tcp(error) => Self::Tcp(error),
            AcceptError::System(error) => Self::System(error),
        }
    }
}

impl Task<'_> {
    /// Checks that the other end asks for messages to itself; returns where this end reaches it.
    fn check_endpoint(&self, endpoint: SocketAddr) -> Result<SocketAddr, LinkError> {
        let is_peer = endpoint.ip().to_canonical() == self.peer.to_canonical();
        is_peer
            .then_some(reached_from(self.local, endpoint))
            .ok_or(LinkError::Stranger { endpoint, peer: self.peer })
    }
}

/// A far end that ends with its size step.
struct Answerer<'a>(&'a dyn Answering);

impl Attending for Answerer<'_> {
    fn goes_on(&mut self) -> bool {
        !self.0.is_to_end()
    }
}

/// Waits until a descriptor is ready, or a moment comes, or it is time to look up; whoever spins returns at once.
fn wait(poller: &mut Poller, how: Wait, until: Instant) -> io::Result<()> {
    match how {
        Wait::Sleep => poller.wait(Some(until.min(clock::monotonic() + LOOK))).map(drop),
        Wait::Spin => {
            std::hint::spin_loop();
            Ok(())
        }
    }
}

/// Returns how long ago a moment was.
fn since(began: Instant) -> Duration {
    clock::monotonic().since(began)
}

/// Returns the note on a buffer that the kernel clamped.
fn said_if_clamped(buffer: sys::Buffer) -> Option<String> {
    buffer.clamped().then(|| buffer.to_string())
}

#[cfg(test)]
mod tests;
