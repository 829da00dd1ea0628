//! A path emulated in real time by the machine that the virtual network uses.
//!
//! What a test of a protocol finds on a link of `sim` it finds again here with the real program, on the same link with the
//! same seed: `sim::Path` decides about every datagram, and a driver reads clocks and sockets for it. A [`Relay`] passes UDP on
//! without any privilege, and [`Between`] carries all of IP between two network namespaces.
//!
//! An emulator that is late, or loses what the model keeps, measures itself. So each run ends with a [`Report`]: what
//! became of every datagram ([`Account`]), how late the emulator was, and [why](Report::invalid_reasons) nothing should be concluded
//! from it, if so. Not here: what links do (`sim`), system calls (`sys`).

mod account;
mod arrivals;
mod between;
mod conditions;
mod driver;
mod forwarding_queue;
mod parcel;
mod police;
mod relay;
mod report;

pub use account::{Account, Lost};
pub use between::{Between, BetweenError, BetweenOptions, USUAL_ADDRESSES, USUAL_MTU, USUAL_NAME};
pub use conditions::{Conditions, ConditionsError};
pub use driver::{Manner, Trains};
pub use police::{InvalidReason, Lateness};
pub use relay::{Relay, RelayError, RelayOptions, USUAL_CLIENTS};
pub use report::{Report, Watch, Way};
pub use sim::Order;
