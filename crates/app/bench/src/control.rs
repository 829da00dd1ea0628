//! The control connection between the two ends of a measurement: who is there, what is measured, and what each end sees.
//!
//! ```text
//! client                                server
//!   Hello { protocol, .. }      ─▶
//!                               ◀─      Welcome { protocol, host }      or Busy
//!   Begin { test, parameters }  ─▶
//!   Word(..)                   ◀─▶      Word(..)                        as the test has it; Failed, at any time
//!   Bye                         ─▶
//! ```
//!
//! One TCP connection, frames of JSON, everything bounded: how long a message is, how long it may take to come
//! and to be taken, how long a peer may be silent. Whichever end vanishes, the other knows within [`Patience::silence`].
//! A server takes one test at a time ([`serve`]); a new kind of test is one more [`Test`] with words of its own.

mod connection;
pub mod frame;
mod message;
mod server;

pub use connection::{Connection, ControlError, Patience};
pub(crate) use connection::{program_version, reached_from};
pub use message::{Message, PROTOCOL};
pub use server::{EndWish, Lifetime, Serve, ServeError, ServerEvent, ServerOptions, Test, serve};

#[cfg(test)]
pub(crate) mod scene;
#[cfg(test)]
mod tests;
