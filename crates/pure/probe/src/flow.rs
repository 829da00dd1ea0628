//! A flow of numbered test datagrams: how it is paced, stamped, counted on arrival, and what became of each.
//!
//! The sending side asks its [`Pace`] how many are due and writes a [`Stamp`] into each; the receiving side hands what
//! arrives to a [`FlowReceiver`], which knows what is missing while the flow still runs. At the end both counts meet in
//! a [`FlowAccount`], whose law is a check: `sent = received + Σ lost[stage] + unexplained`.
//!
//! Not here: sockets and clocks (`bench`), the protocol of streams (`cast`).

mod account;
mod delay;
mod pace;
mod receiver;
mod stamp;
mod window;

pub use account::{FlowAccount, FlowLawError, FlowSent, FlowState};
pub use delay::{Delays, stamps};
pub use pace::{Due, FlowRate, Pace};
pub use receiver::{Arrival, FlowReceiver, FlowTotals, Numbering, SocketDrops};
pub use stamp::{STAMP_BYTES, Stamp};
