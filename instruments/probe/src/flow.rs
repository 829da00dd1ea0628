//! A flow of numbered test datagrams: pacing, stamps, counting on arrival, and the outcome of each datagram.
//!
//! The sending side asks its [`Pace`] how many datagrams are due and writes a [`Stamp`] into each; the receiving
//! side passes arrivals to a [`FlowReceiver`], which counts missing datagrams while the flow still runs. At the end
//! both counts meet in a [`FlowAccount`], whose law is a check: `sent = received + Σ lost[stage] + unexplained`.
//!
//! Not here: sockets and clocks (the crate `flow`), the protocol of streams (`cast`).

mod account;
mod delay;
mod pace;
mod receiver;
mod stamp;
mod window;

pub use account::{FlowAccount, FlowLawError, FlowSent, FlowState};
pub use delay::{Delays, stamps};
pub use pace::{Due, FlowRate, Pace};
pub use receiver::{Arrival, FlowReceiver, FlowTotals, Jitter, Numbering, SocketDrops};
pub use stamp::{STAMP_BYTES, Stamp};
pub use window::{Seen, SeenNumbers, WINDOW_NUMBERS};
