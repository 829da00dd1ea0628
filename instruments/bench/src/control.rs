//! The control connection between the two ends of a measurement: identities, parameters, and the observations
//! of each end.
//!
//! ```text
//! client                                server
//!   Hello { protocol, .. }      ─▶
//!                               ◀─      Welcome { protocol, host }      or Busy
//!   Begin { test, parameters }  ─▶
//!   Word(..)                   ◀─▶      Word(..)                        defined by the test; Failed, at any time
//!   Bye                         ─▶
//! ```
//!
//! One TCP connection with frames of JSON, inside records of Noise if both ends have keys ([`ControlKeys`]). Everything is bounded: the length of a message, the time it may take
//! to arrive and to be sent, and the silence of a peer. If either end vanishes, the other knows within
//! [`Patience::silence`]. A server takes one test at a time ([`serve`]); a new kind of test is one more `Test`
//! with its own messages (`session`).

mod connection;
pub mod frame;
mod message;
mod secured;
mod server;
mod session;

pub use connection::{Connection, ControlError, Patience, Stranger};
pub(crate) use connection::{program_version, reached_from};
pub use message::{Message, PROTOCOL};
pub use secured::{ControlKeys, ServerAt, Unwelcome};
pub use server::{Lifetime, ServerEvent, ServerOptions, serve};
pub(crate) use session::{Begun, Outcome, RunResult, Test, begin};
pub use session::{Serve, ServeError, Session};

#[cfg(test)]
pub(crate) mod scene;
#[cfg(test)]
mod tests;
