//! A chain of hops in a simulated network: a feed as the near bus, both relays around the reliable transport over a long
//! link, and a reader that holds the far end to its word.
//!
//! The reader keeps a ledger of its own and compares it, after every input, with the far end's account; values, times
//! and what was missing it compares with the feed's diary. Start with [`Scene`].

mod far;
mod feed;
mod near;
mod reader;
mod scene;

pub use far::Far;
pub use feed::{ElementOutcome, Feed, Shape};
pub use near::Near;
pub use reader::Reader;
pub use scene::{Part, Plan, Scene};

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;

use sim::NodeId;
use units::Instant;

/// A millisecond.
pub const MS: Duration = Duration::from_millis(1);

/// Returns the instant so many milliseconds after the beginning.
#[must_use]
pub const fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// Returns the address of a node.
fn address(node: NodeId) -> SocketAddr {
    let index = u8::try_from(node.0).expect("a small scene");
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, index)), 7_400)
}
