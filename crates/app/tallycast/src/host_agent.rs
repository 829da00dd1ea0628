//! One receiver for a whole host: streams from the network into rings that every process there may read.
//!
//! Readers find the rings by themselves and need not know. There is no election: whoever starts an agent where
//! one runs already is refused, stream by stream, by that one's rings.

use std::sync::Arc;
use std::time::Duration;

use engine::{ReceiveAgent, ReceivesFor};
use sample::StreamPattern;

use crate::bus::Bus;
use crate::node::{Node, NodeError};

/// An agent that receives for its host. Dropping it cuts its accounts and takes its rings away.
pub struct HostAgent {
    agent: Arc<ReceiveAgent>,
    node: Node,
}

impl HostAgent {
    /// Starts to receive every stream of `bus` that matches one of `patterns`, now and later.
    ///
    /// # Errors
    /// [`NodeError`] if the bus has not both a network and shared memory, a pattern is wrong, or announcements
    /// cannot be heard.
    pub fn open(bus: Bus, patterns: &[String]) -> Result<Self, NodeError> {
        let patterns: Result<Vec<StreamPattern>, _> = patterns.iter().map(|text| text.parse()).collect();
        let patterns = patterns?;
        let node = Node::builder().bus(bus).receives_for(ReceivesFor::Host).build()?;
        let agent = node.receive_agent(None)?;
        agent.hear_announcements()?;
        patterns.into_iter().for_each(|pattern| agent.select(pattern));
        Ok(Self { agent, node })
    }

    /// Returns the node it works for.
    #[must_use]
    pub const fn node(&self) -> &Node {
        &self.node
    }

    /// Returns a count that changes whenever the list of received streams does.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.agent.generation()
    }

    /// Returns the names of the streams that are received.
    #[must_use]
    pub fn streams(&self) -> Vec<String> {
        self.agent.inlets().iter().map(|inlet| inlet.description.name.to_string()).collect()
    }

    /// Waits until the list of received streams changes from what it was at `generation`, or `patience` is over.
    pub fn wait_for_change(&self, generation: u64, patience: Duration) {
        let changed = || (self.agent.generation() != generation).then_some(());
        self.agent.doorbell().wait_until(patience, changed);
    }
}
