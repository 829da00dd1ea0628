//! A chain of hops in a simulated network: publishers or their rings, pairs of relays around the reliable transport
//! over long links, senders on the buses behind them, and readers.
//!
//! The publications of a far end are compared with its account after every input, and with the diary of the relay
//! that read the bus before the link. Readers' accounts keep the law over the chain after every input, and are
//! compared with the publications. Start with [`Scene`].

mod bus;
mod diary;
#[path = "../../../crates/pure/udt/tests/line/driver.rs"]
mod driver;
mod far;
mod feed;
mod hostile;
mod near;
mod published;
mod publisher;
mod reader;
mod scene;
mod secured;
mod tap;

pub use diary::Diary;
pub use far::Far;
pub use feed::{Feed, Shape};
pub use near::Near;
pub use published::Published;
pub use publisher::Publisher;
pub use reader::{Following, Reader};
pub use scene::{Part, Plan, Scene};

use core::time::Duration;

use units::Instant;

/// A millisecond.
pub const MS: Duration = Duration::from_millis(1);

/// Returns the instant so many milliseconds after the beginning.
#[must_use]
pub const fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}
