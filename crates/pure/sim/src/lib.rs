//! A seeded virtual network: clock, links, hosts, multicast fan-out, and a log of every datagram's outcome.
//!
//! Protocol machines are proven here before they meet a socket: a run is a pure function of its scene and
//! its seed, time is an integer, and the log is a second, independent account that a machine's own account
//! is compared with. It is a model of a network and not of a kernel, and it never sleeps.
//!
//! Start with [`Node`], which a test implements, then [`Lineup`], [`Network`] and [`Log`].
//!
//! ```
//! use core::time::Duration;
//! use sim::{Address, Arrival, Group, Lineup, Link, LostBy, Node, NodeId, Socket};
//! use units::Instant;
//!
//! const GROUP: Group = Group(1);
//!
//! enum Part {
//!     Beacon { sent: u8, next: Instant },
//!     Listener { heard: Vec<u8> },
//! }
//!
//! impl Node for Part {
//!     fn receive(&mut self, _now: Instant, arrival: &Arrival<'_>) {
//!         if let Self::Listener { heard } = self {
//!             heard.extend_from_slice(arrival.bytes);
//!         }
//!     }
//!
//!     fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
//!         let Self::Beacon { sent, next } = self else { return None };
//!         while *sent < 10 && *next <= now {
//!             socket.send(Address::Group(GROUP), &[*sent]);
//!             *sent += 1;
//!             *next += Duration::from_millis(1);
//!         }
//!         (*sent < 10).then_some(*next)
//!     }
//! }
//!
//! let mut network = Lineup::new(7)
//!     .publisher(Part::Beacon { sent: 0, next: Instant::ORIGIN })
//!     .group(GROUP)
//!     .link(Link::lan().lose([2, 3]))
//!     .readers(2, |_| Part::Listener { heard: Vec::new() })
//!     .build();
//! network.run_for(Duration::from_secs(1));
//!
//! let Part::Listener { heard } = network.node(NodeId(1)) else { unreachable!() };
//! assert_eq!(heard, &[0, 1, 4, 5, 6, 7, 8, 9]);
//! assert_eq!(network.log().counts(NodeId(1)).lost(LostBy::Placed), 2);
//! ```

mod address;
mod agenda;
mod fabric;
mod host;
mod lineup;
mod link;
mod log;
mod network;
mod path;
mod process;
mod scenario;
pub mod seeds;
mod store;
mod table;
mod trace;

pub use address::{Address, Group, NodeId, SiteId};
pub use fabric::MAX_DATAGRAM_BYTES;
pub use host::{BUFFER_OVERHEAD_BYTES, Clock, Costs, Host, Lateness};
pub use lineup::Lineup;
pub use link::{Bursts, Corruption, CrossTraffic, Link, Order, Passing, WIRE_OVERHEAD_BYTES};
pub use log::{Copied, Log, LostBy, Outcome, OutcomeCounts, Pass, Sent};
pub use network::{Arrival, Network, Node, Port, Socket, Trunk};
pub use path::{Damage, Exit, Passage, Path, Wear};
pub use scenario::Scenario;
pub use table::Table;
pub use trace::TraceHash;
