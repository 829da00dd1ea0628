//! The settings of a publication: its own, on which the publisher's end and the send path agree, and
//! those of the agent that sends it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cast::send::{Beginning, Pacing, Relayed, Sending};
use keyring::Keyring;
use keys::Membership;
use sys::{Interface, SendTechniques};
use units::Epoch;
use wire::{Clock, Deadline, Description, Predecessor};

use crate::host::HostRings;

/// The settings of a publication.
#[derive(Clone, Debug)]
pub struct PublicationConfig {
    /// Name, schema and station; the agent fills in its report port.
    pub description: Description,
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// The clock of sample times.
    pub clock: Clock,
    /// Destinations of datagrams: a group, or addresses of readers.
    pub destinations: Vec<SocketAddr>,
    /// Maximum size of a datagram.
    pub datagram_bytes: usize,
    /// Maximum time for which small blocks wait to be sent together.
    pub linger: Duration,
    /// Spreading of datagrams over time.
    pub pacing: Pacing,
    /// Mode of sending: always, or only while a reader is heard.
    pub sending: Sending,
    /// Time at which the first samples are sent to the network.
    pub beginning: Beginning,
    /// Size of the ring between publisher and agent, which is also the one that readers of this
    /// host read.
    pub ring_bytes: usize,
    /// Location at which readers of this host find the ring; `None` keeps it on the heap.
    pub host: Option<HostRings>,
    /// Send buffer to request, in bytes.
    pub send_buffer_bytes: usize,
    /// Kernel features that the socket may use to save work.
    pub techniques: SendTechniques,
    /// Handling of datagrams that find the send buffer full.
    pub socket_full: SocketFull,
    /// Keys with which statements about the samples are signed; `None`: there are none.
    pub proof: Option<Arc<Keyring>>,
    /// Origin and beginning of a relayed stream, the first element of a sample; `None`: this is the stream's publisher.
    pub relayed: Option<Relayed>,
    /// Time for which samples are of use, told to readers and relays.
    pub deadline: Option<Deadline>,
}

/// Handling of datagrams that find the socket's send buffer full.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SocketFull {
    /// They are lost, as `sender_socket`: newer samples are more timely.
    #[default]
    Lose,
    /// They wait for room, and so does everything behind them; they are lost only if that takes
    /// seconds.
    Wait,
}

/// The agent's settings that a send path needs.
pub(super) struct Surroundings {
    pub(super) interface: Option<Interface>,
    pub(super) ttl: Option<u8>,
    /// The stream's previous epoch, if it was one of this agent's.
    pub(super) predecessor: Option<Predecessor>,
    /// Keys of a secured bus.
    pub(super) membership: Option<Arc<Membership>>,
}
