//! Reasons why a publisher cannot be opened.

use std::io;

use proof::DigestError;
use ring::shared::CreateError;
use sys::OpenError;
use wire::DescriptionError;

/// Reason why a publisher could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// A socket could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The kernel has no descriptors or threads left.
    #[error("the sending agent cannot be started")]
    Start(#[from] io::Error),
    /// The description does not fit into datagrams.
    #[error("the stream cannot be described")]
    Description(#[from] DescriptionError),
    /// The stream cannot be identified in a proof.
    #[error(transparent)]
    Proof(#[from] DigestError),
    /// Statements do not fit into its datagrams.
    #[error(
        "datagrams of {actual} bytes have no room for signed statements, which need {least}\nchoose a larger MTU, or leave proof off"
    )]
    ProofBytes {
        /// Size of the stream's datagrams.
        actual: usize,
        /// Smallest size.
        least: usize,
    },
    /// There is no address to send to.
    #[error("a publisher needs a destination\ngive one with --to udp://ADDRESS:PORT, or use the bus")]
    NoDestination,
    /// The destinations are of both IP versions, and a socket has one.
    #[error(
        "a publisher's destinations are either all IPv4 or all IPv6\nopen a publisher for each, under two names"
    )]
    MixedDestinations,
    /// A secured stream cannot be sent to so many destinations: each has a key of its own.
    #[error(
        "a secured stream has at most {max} destinations, not {0}\nsend it to a group, which all readers join",
        max = cast::send::MAX_SECURED_DESTINATIONS
    )]
    SecuredDestinations(usize),
    /// The datagram size is not valid in the protocol.
    #[error(
        "datagrams of {actual} bytes are outside {least} to {max}\nchoose another MTU",
        max = wire::MAX_DATAGRAM_BYTES
    )]
    DatagramBytes {
        /// The requested size.
        actual: usize,
        /// Minimum size; larger on a secured bus.
        least: usize,
    },
    /// The kernel does not support trains of this length.
    #[error("trains of {0} datagrams are outside 1 to {max}\nchoose another train", max = sys::MAX_SEGMENTS)]
    Train(usize),
    /// The ring between publisher and agent does not hold a sample.
    #[error(
        "a queue of {ring_bytes} bytes does not hold a sample of {sample_bytes} bytes\nmake it at least {needed_bytes} bytes (queue_bytes)"
    )]
    QueueTooSmall {
        /// Size of the ring.
        ring_bytes: usize,
        /// Size of a sample.
        sample_bytes: usize,
        /// Smallest size that holds a sample.
        needed_bytes: usize,
    },
    /// The origin of a relayed stream cannot be: its hop is too far, or its epoch is the relay's own.
    #[error("a stream cannot be relayed to hop {hop}: it goes no further than hop {max}", max = wire::MAX_HOPS)]
    Origin {
        /// The hop on which it would be published.
        hop: u8,
    },
    /// A relayed stream begins inside a sample, or beyond all positions.
    #[error(
        "a relayed stream cannot begin at position {first_position}: its samples have {per_sample} elements"
    )]
    FirstPosition {
        /// The position.
        first_position: u64,
        /// Elements per sample.
        per_sample: u32,
    },
    /// The ring in shared memory cannot be created.
    #[error(transparent)]
    Ring(#[from] CreateError),
    /// The process was forked, and this is the child.
    #[error(
        "the process was forked after its node was opened, and the node's threads are not in the child\n\
         open a node of its own in the child, or begin the child before the node is opened"
    )]
    Forked,
    /// The agent's thread is gone.
    #[error("the sending agent has stopped")]
    Ended,
}
