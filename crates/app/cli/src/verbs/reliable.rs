//! What `send` and `recv` have in common: the way a connection takes, how far it is, and standard input and output.

mod meter;
pub(crate) mod raw;
mod screen;
mod transport;

use std::time::Duration;

pub(crate) use meter::{Meter, transport_json};
pub(crate) use screen::Screen;
pub(crate) use transport::{TransportArguments, Words};

/// How often whoever waits looks whether to go on.
pub(crate) const LOOK: Duration = Duration::from_millis(200);
/// How often whoever watches looks at the work of others.
pub(crate) const WATCH: Duration = Duration::from_millis(50);
