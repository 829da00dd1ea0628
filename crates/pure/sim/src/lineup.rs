//! A scene as one reads it: who publishes, over which link, who reads.
//!
//! ```
//! # use sim::{Arrival, Group, Lineup, Link, Node, Socket};
//! # use units::Instant;
//! # struct Idle;
//! # impl Node for Idle {
//! #     fn receive(&mut self, _: Instant, _: &Arrival<'_>) {}
//! #     fn poll(&mut self, _: Instant, _: &mut Socket<'_>) -> Option<Instant> { None }
//! # }
//! # let (daq, viewer, recorder) = (Idle, Idle, Idle);
//! let network = Lineup::new(7)
//!     .publisher(daq)
//!     .group(Group(1)).link(Link::lan()).reader(viewer)
//!     .link(Link::lan().loss(0.003)).reverse_link(Link::lan()).reader(recorder)
//!     .build();
//! let line = "seed 7: publisher — reader (in: 100µs) — reader (in: 100µs, loss 0.003) (out: 100µs)";
//! assert_eq!(network.scenario().to_string(), line);
//! ```

use crate::{Group, Host, Link, Network, Node, NodeId, Port, Trunk};

/// Builds a [`Network`] from left to right; links and hosts hold for all readers that follow.
///
/// Nodes get the ids 0, 1, 2 … in the order of their calls.
pub struct Lineup<N> {
    network: Network<N>,
    port: Port,
    group: Option<Group>,
}

impl<N: Node> Lineup<N> {
    /// Begins a scenario with all random streams derived from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { network: Network::new(seed), port: Port::default(), group: None }
    }

    /// Adds a publisher with ideal links and an ideal host.
    #[must_use]
    pub fn publisher(self, node: N) -> Self {
        self.publisher_at(Port::default(), node)
    }

    /// Adds a publisher with its own links and host; datagrams lost on its `up` link are lost for every reader.
    #[must_use]
    pub fn publisher_at(mut self, port: Port, node: N) -> Self {
        self.network.add("publisher", node, port);
        self
    }

    /// Sets the link to each of the readers that follow.
    #[must_use]
    pub fn link(mut self, link: Link) -> Self {
        self.port.down = link;
        self
    }

    /// Sets the reverse link from each of the readers that follow.
    #[must_use]
    pub fn reverse_link(mut self, link: Link) -> Self {
        self.port.up = link;
        self
    }

    /// Puts the readers that follow at a new site, behind a shared trunk.
    #[must_use]
    pub fn site(mut self, name: &str, trunk: Trunk) -> Self {
        self.port.site = Some(self.network.add_site(name, trunk));
        self
    }

    /// Sets the host of each of the readers that follow.
    #[must_use]
    pub fn host(mut self, host: Host) -> Self {
        self.port.host = host;
        self
    }

    /// Makes the readers that follow members of a group from the first moment on.
    #[must_use]
    pub const fn group(mut self, group: Group) -> Self {
        self.group = Some(group);
        self
    }

    /// Adds a reader.
    #[must_use]
    pub fn reader(mut self, node: N) -> Self {
        let id = self.network.add("reader", node, self.port.clone());
        if let Some(group) = self.group {
            self.network.join(id, group);
        }
        self
    }

    /// Adds `count` readers, each made with its place among them, counted from 0.
    #[must_use]
    pub fn readers(self, count: usize, mut make: impl FnMut(usize) -> N) -> Self {
        (0..count).fold(self, |lineup, index| lineup.reader(make(index)))
    }

    /// Returns the id of the next node.
    #[must_use]
    pub fn next_id(&self) -> NodeId {
        NodeId::at(self.network.nodes().count())
    }

    /// Returns the network, not yet begun.
    #[must_use]
    pub fn build(self) -> Network<N> {
        self.network
    }
}
