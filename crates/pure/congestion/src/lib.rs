//! Congestion control of a reliable transport: the contract, and the built-in controls.
//!
//! A [`CongestionControl`] is a value that handles the events of one connection (a packet sent, acknowledged, lost; a
//! timeout; a message of the peer's control; a timer) and returns the transport's [`Policy`] until the next event. It
//! owns neither clock nor random numbers, both are in the [`Environment`], so the same control runs in the virtual
//! network and over sockets.
//!
//! All counts are of packets; only [`Received`] has bytes as well, since the peer's packets may have another size.
//! Packet numbers never wrap here: the transport extends the 31 bits on the wire to 64. It also computes values that
//! several controls need: the number of packets that an acknowledgement newly covers, the losses that begin a new
//! congestion epoch, the end of a round trip, and the delivery rate.
//!
//! Start with [`CongestionControl`]. To choose a control by name and options, see [`named`].
//!
//! Source: the eight events and four actions of Composable UDT (Gu, Grossman: "Supporting configurable congestion
//! control in data transport services", SC 2005); additions of newer transports are marked in place.

mod bbr;
#[cfg(test)]
mod bottleneck;
mod contract;
mod copa;
#[cfg(test)]
mod equilibria;
mod event;
mod fast;
mod feedback;
mod fixed;
mod fobs;
mod gtp;
#[cfg(test)]
mod harness;
mod ledbat;
mod live;
mod loss_based;
mod missing_map;
mod native;
mod options;
mod policy;
#[cfg(test)]
mod properties;
mod rbudp;
mod registry;
#[cfg(test)]
mod responses;
mod sabul;
mod tsunami;
mod vegas;
mod window;

pub use contract::{CongestionControl, Environment, Factory, Flight, Incoming, PeerReport, RoundTrip};
pub use event::{AckKind, Acked, LossSource, Lost, Message, RateSample, Received, Resized, Sent};
pub use options::{OptionError, Options};
pub use policy::{ACK_INTERVAL, AckPolicy, Bounds, Effective, LossReports, Policy, Retransmission};
pub use registry::{BUILT_IN, Choice, UnknownControl, named};
