//! Exchanges of messages: which sizes, how often, cut into datagrams, and the outcome of every exchange.
//!
//! The near end hands a message to the far end, which hands one of the same size back once it has all of it. Δt is the
//! time from the first byte handed over to the last that came back; half of it is the time of a message, and the
//! size divided by it the rate, as in Petri 2007.
//!
//! [`sizes`] are those of a curve; a [`SizeStep`] says when a size has been exchanged often enough; over datagrams a
//! message is cut into [`Piece`]s and put together by an [`Assembly`]; at the end [`ExchangeCounts`] of the near end
//! and the count of the far end meet in an [`ExchangeAccount`].
//!
//! Not here: sockets and clocks (`bench`).

mod account;
mod message;
mod size_step;

pub use account::{ExchangeAccount, ExchangeCounts, ExchangeLawError};
pub use message::{Assembly, Came, LARGEST_MESSAGE_BYTES, PIECE_HEADER_BYTES, Piece, pieces};
pub use size_step::{LARGEST_OF_PETRI_2007, SizeStep, Until, sizes};
