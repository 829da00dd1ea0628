//! Publishing a stream that comes from elsewhere: for relays, which are programs of this project.
//!
//! A relay takes a stream's records by a [`Tap`](crate::Tap) on one bus, and publishes on another what arrived of them,
//! at the positions of the stream's publisher, under an epoch of its own. Not here: the connection between the two.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

pub use cast::send::ElementTimes;
use cast::send::{Beginning, ReaderDeadlines, Relayed};
use engine::{Announced, PublicationConfig, PublicationStatus, ReceiveAgent, RelayedPublication, SocketFull};
use ledger::{Cause, HopCounts};
use sample::UnknownEntries;
use units::Epoch;
use wire::{Clock, Deadline, Description, Origin, Security, UpstreamHop};

pub use engine::{RelayedError, RingReader};

use crate::node::{Node, NodeError};
use crate::publisher::{HELD_PART_OF_RING, ring_bytes, with_ring_or_without};

/// A stream as a relay received it.
#[derive(Clone, Debug)]
pub struct RelayedStream {
    /// Name, schema, and what else its publisher told; the station becomes the relay's.
    pub description: Description,
    /// Epoch of its publisher, and the hop on which it is published now.
    pub origin: Origin,
    /// Position of the first element that will be told of, the first of a sample.
    pub first_position: u64,
    /// Time for which its samples are of use.
    pub deadline: Option<Deadline>,
}

/// Publisher of a relayed stream: dropping it ends its epoch with a final tally.
pub struct RelayPublisher {
    publication: RelayedPublication,
    epoch: Epoch,
    /// Keeps the sending agent alive until the publication, dropped before it, has ended.
    _node: Node,
}

/// Announcements on a bus, which are heard from the first call on.
pub struct Announcements(Arc<ReceiveAgent>);

impl Announcements {
    /// Returns the streams that are announced, each once for every address.
    #[must_use]
    pub fn list(&self) -> Vec<Announced> {
        self.0.announced()
    }
}

impl Node {
    /// Begins to hear announcements; `None` without a network.
    ///
    /// # Errors
    /// [`NodeError`] if they cannot be received.
    #[doc(hidden)]
    pub fn announcements(&self) -> Result<Option<Announcements>, NodeError> {
        if !self.bus().has_network() {
            return Ok(None);
        }
        let agent = self.receive_agent(None)?;
        agent.hear_announcements()?;
        Ok(Some(Announcements(agent)))
    }

    /// Publishes a stream that another station publishes elsewhere.
    ///
    /// # Errors
    /// [`NodeError`] if the stream's origin or beginning is not valid, or a socket cannot be opened.
    #[doc(hidden)]
    pub fn relay_publisher(&self, stream: RelayedStream) -> Result<RelayPublisher, NodeError> {
        RelayPublisher::open(self.clone(), stream)
    }
}

impl RelayPublisher {
    fn open(node: Node, stream: RelayedStream) -> Result<Self, NodeError> {
        let RelayedStream { description, origin, first_position, deadline } = stream;
        let id = wire::stream_id(&description.name, &description.schema);
        let (bus, epoch) = (node.bus(), node.new_epoch(id));
        let destinations = vec![bus.group(id)];
        let ring_bytes = ring_bytes(&description.schema);
        let config = PublicationConfig {
            epoch,
            // The elements' times have theirs.
            clock: Clock::Unknown,
            datagram_bytes: bus.datagram_bytes_to(&destinations),
            destinations,
            // Elements have waited between the relays already.
            linger: Duration::ZERO,
            pacing: bus.tuning.pacing(),
            sending: bus.sending,
            // Waiting readers on this bus learn of the stream now.
            beginning: Beginning::Held { most_bytes: ring_bytes / HELD_PART_OF_RING },
            ring_bytes,
            proof: None,
            relayed: Some(Relayed { origin, first_position }),
            deadline,
            host: node.host_rings(),
            send_buffer_bytes: bus.send_buffer_bytes,
            techniques: bus.tuning.sending,
            socket_full: SocketFull::Lose,
            description: Description {
                report_port: 0,
                station: node.station().to_owned(),
                unknown: told_on(&description),
                ..description
            },
        };
        let publication = if bus.has_network() {
            let agent = node.send_agent()?;
            with_ring_or_without(&config, |config| agent.open_relayed(config))?
        } else {
            engine::open_relayed_on_host(&config)?
        };
        Ok(Self { publication, epoch, _node: node })
    }

    /// Returns the epoch under which it publishes.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the position of the next element.
    #[must_use]
    pub fn next_position(&self) -> u64 {
        self.publication.next_position()
    }

    /// Publishes elements with their times.
    ///
    /// # Errors
    /// [`RelayedError`] if they do not follow those before.
    pub fn elements(&mut self, position: u64, times: ElementTimes, bytes: &[u8]) -> Result<(), RelayedError> {
        self.publication.write(position, times, bytes)
    }

    /// Tells of elements that were missing when they arrived, with their outcomes on the hops before, and why the link before
    /// gave up those that it lost at stage `deadline`.
    ///
    /// # Errors
    /// [`RelayedError`] if they do not follow those before, or not each has an outcome.
    pub fn inherited(
        &mut self,
        positions: Range<u64>,
        shares: &HopCounts,
        cause: Option<Cause>,
    ) -> Result<(), RelayedError> {
        self.publication.inherit(positions, shares, cause)
    }

    /// Tells of new outcomes of such elements.
    ///
    /// # Errors
    /// [`RelayedError`] if not each has an outcome.
    pub fn settled(&mut self, positions: &Range<u64>, shares: &HopCounts) -> Result<(), RelayedError> {
        self.publication.settle(positions, shares)
    }

    /// Tells of the hops before, with their losses since the origin epoch began.
    ///
    /// # Errors
    /// [`RelayedError`] if not all hops before are told.
    pub fn upstream(&mut self, hops: Vec<UpstreamHop>) -> Result<(), RelayedError> {
        self.publication.tell_upstream(hops)
    }

    /// Passes on a signed statement of the stream's publisher.
    ///
    /// # Errors
    /// [`RelayedError`] if it is too long.
    pub fn statement(&mut self, statement: &[u8]) -> Result<(), RelayedError> {
        self.publication.state(statement)
    }

    /// Withholds data datagrams with this probability from now on.
    pub fn set_injection(&self, probability: f64) {
        self.publication.inject(probability);
    }

    /// Returns the state that the sending agent last reported.
    #[must_use]
    pub fn status(&self) -> PublicationStatus {
        self.publication.status()
    }

    /// Returns the deadlines that readers on other hosts state.
    #[must_use]
    pub fn reader_deadlines(&self) -> Arc<ReaderDeadlines> {
        self.publication.status().reader_deadlines
    }

    /// Returns the readers in this host's shared memory.
    ///
    /// Cost: a few system calls for every reader of this host.
    #[must_use]
    pub fn ring_readers(&self) -> Vec<RingReader> {
        self.publication.ring_readers()
    }

    /// Ends the stream's epoch: all elements are sent, then the final tally.
    #[must_use]
    pub fn close(self) -> PublicationStatus {
        self.publication.finish()
    }
}

/// Returns what a description says beyond this version, without its publisher's signature: the relay signs its own.
fn told_on(description: &Description) -> UnknownEntries {
    let mut unsigned = description.clone();
    Security::remove_from(&mut unsigned);
    unsigned.unknown
}
