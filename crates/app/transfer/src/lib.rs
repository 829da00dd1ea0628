//! Files and directories over a reliable connection: resumed where they broke off, verified from end to end.
//!
//! A [`Sender`] offers a [`Listing`]; a [`Receiver`] answers with what it has already, takes the rest, and keeps a file
//! only if its BLAKE3 is the one that the sender computed from what it read. What is not whole yet lies in a folder of
//! its own, so a file in its place is always a whole one, and a connection or a process that breaks costs only what
//! was on its way. The account of a transfer closes: every file that was offered is delivered, was there already, was
//! refused with a reason, or is still missing.
//!
//! | sender | receiver |
//! |---|---|
//! | `hello`, `entries` … | |
//! | | `answers` …: from which byte on, with the hash of what is before it |
//! | for each file `start`, data …, `end` with its hash, or `skip` | `verified`, `damaged` or `refused` |
//! | `done` | `finished` |
//!
//! Either end may say `fail` with a reason, and nothing follows it. Frames are described in `docs/protocol/transfer.md`.
//!
//! The connection is anything that reads and writes through a shared reference, as [`std::net::TcpStream`] does. Its
//! reads may time out: then it is asked whether to go on.

mod entry;
mod failure;
mod frame;
mod line;
mod listing;
mod outcome;
mod patience;
mod receive;
mod send;
mod slots;
mod store;

pub use entry::{Entry, Kind, UnsafeName};
pub use failure::Failure;
pub use listing::{Content, LeftOut, Listing, ListingError};
pub use outcome::{Notice, Outcome, Tally};
pub use patience::Patience;
pub use receive::{Receiver, Whereto};
pub use send::Sender;
pub use slots::{SlotId, Slots, Taken};
pub use store::{PARTIAL_FOLDER, Store};

/// The version of the protocol; the two ends must have the same.
pub const VERSION: u32 = 1;

#[cfg(test)]
mod tests;
