//! Path emulation in real time, by the state machine of the virtual network.
//!
//! A test on a link of `sim` can be repeated here with the real program, on the same link with the same seed:
//! `sim::Path` decides about every datagram, and a driver reads clocks and sockets for it. A [`Relay`] forwards UDP
//! without any privilege; [`Between`] carries all IP traffic between two network namespaces.
//!
//! An emulator that is late, or loses what the model keeps, measures itself. So each run ends with a [`Report`]:
//! the outcome of every datagram ([`Account`]), the lateness of the emulator, and the
//! [reasons](Report::invalid_reasons) why the run is invalid, if it is. Not here: the behaviour of links (`sim`),
//! system calls (`sys`).

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
