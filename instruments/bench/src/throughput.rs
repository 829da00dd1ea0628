//! Rate and loss of data between two ends: `tallycast bench`.
//!
//! Two ends, [client](measure) and [server](TEST), in two processes that may be on two hosts, use a [control
//! connection](crate::control). Each run moves data for a while, over TCP or in datagrams, in one direction or
//! both, and closes an account for every flow; both ends report intervals meanwhile. The methods (pacing,
//! numbering, accounts) are in `probe::flow`.

mod client;
mod figure;
mod lines;
mod loss_free;
mod message;
mod options;
mod report;
mod server;
mod side;
mod table;
mod transport;
mod worker;

pub(crate) use client::{Counts, Runs};
pub use client::{ThroughputError, Watch, measure};
pub use loss_free::{Found, LossFree, LossFreeFound};
pub use message::{Account, AccountState, Unit};
pub(crate) use options::MOST_DELAYS;
pub use options::{Fragments, Options, Protocol, Rate, Way, Ways, payload_of_datagram};
pub(crate) use report::Ending;
pub use report::{FORMAT, Figures, FlowReport, Interval, Report, RunReport, Settings, Start, State, VERSION};
pub(crate) use server::Throughput;
pub use server::{TEST, TEST_WITH_LOAD};
pub use side::SideError;
pub use transport::TransportError;

#[cfg(test)]
pub(crate) use message::{FlowResult, SideResult, Word};
#[cfg(test)]
pub(crate) use report::tests::{account as example_account, cut_search};
