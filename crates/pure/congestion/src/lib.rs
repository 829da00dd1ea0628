//! What decides how fast a reliable transport sends: the contract, and the controls that are built in.
//!
//! A [`CongestionControl`] is a value that is told what happened on one connection (a packet sent, acknowledged,
//! lost; a timeout; a message of the peer's control; a moment it asked for) and says what the transport shall obey
//! until the next event: its [`Policy`]. It owns no clock and no chance, both are in the [`Environment`], so the
//! same control runs in the virtual network and over sockets.
//!
//! Packets are counted and never bytes, and their numbers never wrap here: the transport makes 64 bits of the
//! 31 bits on the wire. It also works out what several controls would otherwise each work out for themselves:
//! how many packets an acknowledgement newly covers, which loss begins a new congestion epoch, when a round trip
//! is over, and the delivery rate.
//!
//! Start with [`CongestionControl`]. To choose a control by name and options, see [`named`].
//!
//! Source: the eight events and four actions of Composable UDT (Gu, Grossman: "Supporting configurable congestion
//! control in data transport services", SC 2005); what newer transports added to them is said where it is.

mod bbr;
mod bic;
#[cfg(test)]
mod bottleneck;
mod contract;
mod copa;
mod cubic;
#[cfg(test)]
mod equilibria;
mod event;
mod fast;
mod feedback;
mod fixed;
mod gtp;
#[cfg(test)]
mod harness;
mod highspeed;
mod ledbat;
mod native;
mod options;
mod policy;
#[cfg(test)]
mod properties;
mod rbudp;
mod registry;
mod reno;
#[cfg(test)]
mod responses;
mod sabul;
mod scalable;
mod tsunami;
mod vegas;
mod westwood;

pub use bbr::Bbr;
pub use bic::Bic;
pub use contract::{CongestionControl, Environment, Flight, Incoming, PeerReport, RoundTrip};
pub use copa::Copa;
pub use cubic::Cubic;
pub use event::{AckKind, Acked, LossSource, Lost, Message, RateSample, Received, Sent};
pub use fast::Fast;
pub use fixed::Fixed;
pub use gtp::{Gtp, GtpFactory};
pub use highspeed::HighSpeed;
pub use ledbat::Ledbat;
pub use native::Native;
pub use options::{OptionError, Options};
pub use policy::{ACK_INTERVAL, AckPolicy, Bounds, Effective, LossReports, Policy, Retransmission};
pub use rbudp::Rbudp;
pub use registry::{BUILT_IN, Choice, Factory, UnknownControl, named};
pub use reno::Reno;
pub use sabul::Sabul;
pub use scalable::Scalable;
pub use tsunami::Tsunami;
pub use vegas::Vegas;
pub use westwood::Westwood;
