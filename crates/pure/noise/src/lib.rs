//! Secured datagrams of one UDP port: every datagram travels inside a session of the Noise protocol.
//!
//! [`Sessions`] stands between a transport and its socket: it seals what the transport sends, opens what the socket
//! receives, and sends handshakes of its own. Only listed keys get a session, and no datagram without a valid cookie
//! makes it keep anything. The framing and the timers are those of WireGuard, with the deviations that
//! `docs/protocol/noise.md` lists.
//!
//! It is a pure state machine: the time and a random seed are arguments; there is no socket and no file. Start with
//! [`Config`] and [`Sessions`]. Connections over TCP have [`channel`].
//!
//! Source: The Noise Protocol Framework, revision 34; Donenfeld, "WireGuard: Next Generation Kernel Network Tunnel",
//! NDSS 2017; RFC 6479.

mod chance;
pub mod channel;
mod cookie;
mod exchange;
mod message;
mod session;
mod sessions;
mod stats;
mod timestamps;
mod tunnel;

pub use exchange::public_key;
pub use message::OVERHEAD_BYTES;
pub use sessions::Sessions;
pub use sessions::{Config, MAX_TUNNELS, Output, Train};
pub use stats::SessionStats;
