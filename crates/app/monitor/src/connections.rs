//! Limits of connections: their number, the number per address, and their duration, so that hostile or broken clients
//! use up neither the server's slots nor the descriptors that streams need.
//!
//! A connection has a [`Slot`] from its acceptance to its end, and the slot knows its activity: waiting for a
//! request, being served, or live as a page. Waiting, and refusing data, are limited in time; a waiting connection
//! loses its slot to a new one if slots are short. [`Liveness`] is the counterpart for pages. Start with [`Gate`].

mod conduct;
mod gate;
mod guarded;
mod line;
mod liveness;
mod slots;
mod tally;
mod unencrypted;

pub(crate) use gate::{Caller, Gate};
pub(crate) use line::Encryption;
pub(crate) use liveness::{Due, Liveness};
pub(crate) use slots::{Bounds, Slots};
pub(crate) use tally::{Closed, TurnedAway};
pub(crate) use tallycast::udt::Source;
