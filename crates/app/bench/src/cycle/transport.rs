//! The ways an array can take from the writer to the reader, behind one pair of traits.
//!
//! A new way is a module with a [`SendEnd`] and a [`ReceiveEnd`], and a variant of [`Transport`].

mod shm;
mod udp;

use std::fmt;

use probe::cycle::{Cut, HEADER_BYTES};
use serde::{Deserialize, Serialize};
use units::Instant;

use super::message::{Role, Task};
use super::options::Options;

/// How the array gets to the reader.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Datagrams over the loopback interface.
    Udp,
    /// A ring in shared memory.
    Shm,
}

/// Says why a transport could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// A socket could not be opened.
    #[error(transparent)]
    Open(#[from] sys::OpenError),
    /// A ring could not be made.
    #[error(transparent)]
    Create(#[from] ring::shared::CreateError),
    /// A ring could not be opened.
    #[error(transparent)]
    Attach(#[from] ring::shared::OpenError),
    /// A ring is too small for its record: a defect of this program.
    #[error(transparent)]
    TooLarge(#[from] ring::RecordTooLarge),
    /// Somebody wrote into the ring, or cut it short.
    #[error(
        "the ring was damaged while it was read\nsee what else writes to /dev/shm, and start the bench anew"
    )]
    Broken,
    /// A socket stopped working.
    #[error("the socket failed: {0}\nrun `dmesg` for what the kernel says")]
    Io(#[from] std::io::Error),
    /// The endpoint is not one of this transport.
    #[error("`{0}` is no endpoint of this transport\nstart the bench anew; if it comes again, report it")]
    Endpoint(String),
}

/// The writer's end.
pub(super) trait SendEnd {
    /// Sends the pieces of a cycle; returns how many of them were refused.
    fn send(&mut self, pieces: &[&[u8]]) -> Result<u64, TransportError>;
}

/// The reader's end.
pub(super) trait ReceiveEnd {
    /// Waits for pieces until `until`, at least looks once, and hands on all that are there.
    ///
    /// Returns how many there were: none means that nothing came until then.
    fn receive(&mut self, until: Instant, take: &mut dyn FnMut(&[u8])) -> Result<u64, TransportError>;

    /// Returns how many pieces the kernel dropped in front of this end, where it says so.
    fn dropped(&self) -> Option<u64>;
}

/// An end that is ready, and what is to be known about it.
pub(super) struct Opened<End: ?Sized> {
    pub(super) end: Box<End>,
    /// Where the other end finds it.
    pub(super) endpoint: String,
    pub(super) notes: Vec<String>,
}

impl Transport {
    /// Every transport, in the order of tables.
    pub const ALL: [Self; 2] = [Self::Udp, Self::Shm];

    /// Returns its name, as on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Shm => "shm",
        }
    }

    /// Returns who must be there before the other can come.
    pub(super) const fn first(self) -> Role {
        match self {
            Self::Udp => Role::Reader,
            Self::Shm => Role::Writer,
        }
    }

    /// Returns the largest piece of a run, header included.
    pub(super) fn unit_bytes(self, options: &Options, multiplicity: u32) -> usize {
        let whole = HEADER_BYTES + multiplicity as usize * 4;
        match self {
            Self::Udp => options.datagram_bytes.min(whole),
            Self::Shm => whole,
        }
    }

    /// Returns how much the way is to hold that the reader has not taken yet.
    pub(super) fn buffer_bytes(self, options: &Options, cut: &Cut) -> usize {
        match self {
            Self::Udp => options.receive_buffer.asked_bytes(),
            Self::Shm => shm::ring_bytes(cut),
        }
    }

    /// Removes what benches that were killed left behind.
    pub(super) fn sweep(self) {
        match self {
            Self::Udp => {}
            Self::Shm => shm::sweep(),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Opens the writer's end.
pub(super) fn open_send(task: &Task) -> Result<Opened<dyn SendEnd>, TransportError> {
    match task.transport {
        Transport::Udp => udp::open_send(task),
        Transport::Shm => shm::open_send(task),
    }
}

/// Opens the reader's end.
pub(super) fn open_receive(task: &Task) -> Result<Opened<dyn ReceiveEnd>, TransportError> {
    match task.transport {
        Transport::Udp => udp::open_receive(task),
        Transport::Shm => shm::open_receive(task),
    }
}
