//! Common parts of `send` and `recv`: transport, progress, and standard input and output.

pub(crate) mod keys;
mod meter;
pub(crate) mod raw;
mod screen;
mod transport;

use std::time::Duration;

pub(crate) use keys::{FollowedPeers, shown};
pub(crate) use meter::{Meter, transport_json};
pub(crate) use screen::Screen;
pub(crate) use transport::{TransportArguments, Words};

/// Interval at which a wait at a connection checks whether to continue: connections of UDT share a socket, and have
/// no descriptor of their own.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Interval at which a watching thread checks the work of others.
pub(crate) const WATCH: Duration = Duration::from_millis(50);
