//! The reliable transport: UDT version 4 on the wire, with pluggable congestion control.
//!
//! An [`Endpoint`] is one UDP port with any number of sockets on it. It is a pure state machine: inputs are the time
//! and received datagrams, outputs are datagrams to send. It has no socket, no clock and no thread. Every behaviour
//! is therefore proven first in the virtual network, under seeds, before it meets a kernel.
//!
//! It interoperates with libudt 4.11. Where that library breaks, stalls or floods and interoperation does not require
//! the same, this crate does better; `docs/protocol/udt.md` lists each such case with its test.
//!
//! Start with [`Endpoint`] and [`SocketConfig`].

mod config;
mod connection;
mod endpoint;
mod expiry;
mod handshake;
mod message;
mod outcome;
mod pmtu_black_hole;
mod receive;
mod round_trip;
mod send;
mod size_search;
mod source;
mod stats;

pub use config::{FirstSize, Repair, Silence, SocketConfig};
pub use endpoint::{Datagrams, Endpoint, EndpointConfig, EndpointStats, Output, Transmit};
pub use message::{Arrival, Sent, Terms};
pub use outcome::{CloseReason, Event, SAFE_PACKET_BYTES, SendError};
pub use source::Source;
pub use stats::Stats;
pub use wire::udt::{SocketId, SocketType};
