//! Limits of connections: how many, how many from one address, and for how long, so that neighbours that are hostile or
//! broken take neither the server's slots nor the descriptors that streams need.
//!
//! A connection has a [`Slot`] from when it is taken until it is closed, and the slot knows what it is doing: waiting for a
//! request, being served, or live as a page. Waiting, and not taking what is sent, have a bound; a connection that waits gives its
//! slot to a newcomer where slots are short. [`Liveness`] is the same for pages. Start with [`Gate`].

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
