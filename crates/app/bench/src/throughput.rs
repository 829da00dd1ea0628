//! How much goes through, and what is lost on the way: `tallycast bench`.
//!
//! Two ends, [client](measure) and [server](TEST), in two processes that may be on two hosts, speak over a
//! [control connection](crate::control). Each run moves data for a while, over TCP or in datagrams, one way or both,
//! and closes an account for every flow; both ends are seen while it goes on. The methods (pacing, numbering, accounts)
//! are in `probe::flow`.

mod client;
mod csv;
mod figure;
mod loss_free;
mod message;
mod options;
mod page;
mod report;
mod server;
mod side;
mod table;
mod transport;
mod worker;

pub use client::{ThroughputError, Watch, measure};
pub use loss_free::{Found, LossFree, LossFreeFound};
pub use message::{Account, AccountState, Unit};
pub use options::{
    Fragments, LARGEST_DATAGRAM_BYTES, Options, OptionsError, Protocol, Rate, Way, Ways, payload_of_datagram,
};
pub use report::{FORMAT, Figures, FlowReport, Interval, Report, RunReport, Settings, Start, State, VERSION};
pub use server::{TEST, TEST_WITH_LOAD};
pub use side::SideError;
pub use transport::TransportError;

#[cfg(test)]
pub(crate) use report::tests::cut_search;
