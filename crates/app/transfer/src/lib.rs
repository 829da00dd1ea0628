//! Transfer of files and directories over a reliable connection: resumable, and verified from end to end.
//!
//! A [`Sender`] offers a [`Listing`]; a [`Receiver`] answers with its state, takes the rest, and keeps a file only if
//! its BLAKE3 is the one that the sender computed from what it read. Incomplete files are in a folder of their own,
//! so a file in its place is always complete, and a broken connection or a killed process costs only the data in
//! flight. The account of a transfer closes: every offered file is delivered, was there already, was refused with a
//! reason, or is still missing.
//!
//! | sender | receiver |
//! |---|---|
//! | `hello`, `entries` … | |
//! | | `answers` …: first byte to send, with the hash of the bytes before it |
//! | for each file `start`, data …, `end` with its hash, or `skip` | `verified`, `damaged` or `refused` |
//! | `done` | `finished` |
//!
//! Either end may send `fail` with a reason, and nothing follows it. Frames are described in
//! `docs/protocol/transfer.md`.
//!
//! Before that a connection may `join` a striped transfer, whose bytes take several connections ([`Stripes`]), or give an
//! [`Order`] for a transfer between two other hosts.
//!
//! The connection is any type that reads and writes through a shared reference, as [`std::net::TcpStream`] does. Its
//! reads may time out: `stop` is then called to check whether to continue.

mod entry;
mod failure;
mod frame;
mod line;
mod listing;
mod opening;
mod order;
mod outcome;
mod patience;
mod receive;
mod send;
mod slots;
mod store;
mod stripes;

pub use entry::{Entry, Kind, UnsafeName};
pub use failure::Failure;
pub use listing::{LeftOut, Listing, ListingError};
pub use opening::{Bundles, Opening, Place, join, refuse};
pub use order::{Carried, Order, Report, Reporter, order};
pub use outcome::{Notice, Outcome, Tally};
pub use patience::Patience;
pub use receive::{Receiver, Whereto};
pub use send::Sender;
pub use slots::{SlotId, Slots, Taken};
pub use store::{PARTIAL_FOLDER, Store};
pub use stripes::{MAX_STREAMS, Stripes};

/// Version of the protocol; the two ends must have the same.
pub const VERSION: u32 = 1;

#[cfg(test)]
mod tests;
