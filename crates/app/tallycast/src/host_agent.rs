//! One receiver for a whole host: streams from the network into rings that every process there may read.
//!
//! Readers find the rings without configuration. There is no election: an agent shows its presence, and a
//! second one on the same host and bus is refused.

use std::sync::Arc;
use std::time::Duration;

use engine::{AgentPresence, ReceiveAgent, ReceivesFor};
use sample::StreamPattern;

use crate::bus::Bus;
use crate::node::{Node, NodeError};

/// An agent that receives for its host. Dropping it cuts its accounts and removes its rings.
pub struct HostAgent {
    agent: Arc<ReceiveAgent>,
    node: Node,
    _presence: AgentPresence,
}

impl HostAgent {
    /// Starts to receive every stream of `bus` that matches one of `patterns`, now and later.
    ///
    /// # Errors
    /// [`NodeError`] if the bus does not have both a network and shared memory, a pattern is not valid,
    /// announcements cannot be received, this host has an agent already, or rings cannot be created.
    pub fn open(bus: Bus, patterns: &[String]) -> Result<Self, NodeError> {
        let patterns: Result<Vec<StreamPattern>, _> = patterns.iter().map(|text| text.parse()).collect();
        let patterns = patterns?;
        let node = Node::builder().bus(bus).receives_for(ReceivesFor::Host).build()?;
        let agent = node.receive_agent(None)?;
        agent.hear_announcements()?;
        let presence = node.host_rings().map(|rings| rings.show_agent(&patterns));
        let presence = presence.ok_or_else(|| NodeError::NothingToBridge(Box::new(node.bus().clone())))?;
        let presence = presence.map_err(NodeError::of_agent)?;
        patterns.into_iter().for_each(|pattern| agent.select(pattern, node.bus().start.received(), None));
        Ok(Self { agent, node, _presence: presence })
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
        self.agent
            .subscriptions()
            .iter()
            .map(|subscription| subscription.description.name.to_string())
            .collect()
    }

    /// Waits until the list of received streams changes from what it was at `generation`, or `patience` is over.
    pub fn wait_for_change(&self, generation: u64, patience: Duration) {
        let changed = || (self.agent.generation() != generation).then_some(());
        self.agent.doorbell().wait_until(patience, changed);
    }
}
