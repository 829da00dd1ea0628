//! Who may be connected, for how long, and how many from one address: what keeps neighbours that are hostile or broken from
//! taking the server's places and the descriptors that streams need.
//!
//! A connection has a [`Slot`] from when it is taken until it is closed, and the place knows what it is doing: waiting for a
//! request, being served, or live as a page. Waiting, and not taking what is sent, have a bound; a connection that waits gives its
//! place to a newcomer where places are short. [`Liveness`] is the same for pages. Start with [`Gate`].

mod conduct;
mod gate;
mod guarded;
mod liveness;
mod slots;
mod tally;

pub(crate) use gate::{Caller, Gate};
pub(crate) use liveness::{Due, Liveness};
pub(crate) use slots::{Bounds, Slots};
pub(crate) use tally::{Closed, TurnedAway};
pub(crate) use tallycast::udt::Source;
