//! Exchanges of messages: sizes, counts, division into datagrams, and the outcome of every exchange.
//!
//! The client sends a message to the server, which returns one of the same size once it has received all of it. Δt
//! is the time from the first byte sent to the last byte received back; half of it is the time of a message, and
//! the size divided by that is the rate, as in Petri 2007.
//!
//! [`sizes`] are those of a curve; a [`SizeStep`] says when a size has been exchanged often enough; over datagrams
//! a message is cut into [`Piece`]s and put together by an [`Assembly`]; at the end [`ExchangeCounts`] of the
//! client and the count of the server meet in an [`ExchangeAccount`].
//!
//! Not here: sockets and clocks (`bench`).

mod account;
mod message;
mod size_step;

pub use account::{ExchangeAccount, ExchangeCounts, ExchangeLawError};
pub use message::{Assembly, Came, LARGEST_MESSAGE_BYTES, PIECE_HEADER_BYTES, Piece, pieces};
pub use size_step::{LARGEST_OF_PETRI_2007, SizeStep, Until, sizes};
