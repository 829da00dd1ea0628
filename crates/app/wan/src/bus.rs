//! The bus of a far end: its streams are published there under epochs of their own, at the positions of their origin.

use std::collections::BTreeMap;
use std::num::NonZeroU8;
use std::time::Duration;

use relay::Publish;
use sys::clock;
use tallycast::relayed::{RelayPublisher, RelayedStream};
use tallycast::{Clock, Node};
use wire::{Deadline, Description, Origin};

use crate::{Publication, PublicationKey};

/// A bus on which a far end publishes.
pub struct BusPublication {
    node: Node,
    streams: BTreeMap<PublicationKey, RelayPublisher>,
}

impl BusPublication {
    /// Publishes on the bus of a node.
    #[must_use]
    pub const fn new(node: Node) -> Self {
        Self { node, streams: BTreeMap::new() }
    }

    fn begin(&mut self, key: PublicationKey, begin: Beginning) -> Result<(), String> {
        let Beginning { description, origin, first_position, deadline } = begin;
        let description = Description::decode(&description).map_err(|error| error.to_string())?;
        let deadline = Some(Deadline { end_to_end: deadline, priority: 0 });
        // Times of the samples come with them, and so does their clock.
        let clock = Clock::System;
        let stream = RelayedStream { description, origin, first_position, clock, deadline };
        let publisher = self.node.relay_publisher(stream).map_err(|error| error.to_string())?;
        self.streams.insert(key, publisher);
        Ok(())
    }
}

struct Beginning {
    description: Vec<u8>,
    origin: Origin,
    first_position: u64,
    deadline: Duration,
}

impl Publication for BusPublication {
    fn publish(&mut self, key: PublicationKey, publish: Publish) -> Option<String> {
        let publish = match publish {
            Publish::Begin { description, origin, hop, first_position, deadline, .. } => {
                let hop: NonZeroU8 = hop;
                let origin = Origin { epoch: origin, hop };
                return self.begin(key, Beginning { description, origin, first_position, deadline }).err();
            }
            publish => publish,
        };
        let publisher = self.streams.get_mut(&key)?;
        let outcome = match publish {
            Publish::Begin { .. } => unreachable!("it was taken above"),
            Publish::Elements { positions, t0, bytes, age, .. } => {
                publisher.elements(positions.start, (t0, clock::monotonic() - age), &bytes)
            }
            Publish::Inherited { positions, shares } => publisher.inherited(positions, &shares),
            Publish::Settled { positions, shares } => publisher.settled(&positions, &shares),
            Publish::Statement(bytes) => publisher.statement(&bytes),
            Publish::Upstream(hops) => publisher.upstream(hops),
            Publish::End => {
                // Its final tally follows what it has.
                self.streams.remove(&key);
                return None;
            }
        };
        outcome.err().map(|error| {
            self.streams.remove(&key);
            error.to_string()
        })
    }

    fn wanted(&mut self, _: u64) -> Vec<(u16, Duration, u8)> {
        Vec::new()
    }

    fn close(&mut self, _: Duration) {
        self.streams.clear();
    }
}
