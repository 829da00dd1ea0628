//! Publish and subscribe to streams of measurement data, and read where every sample went.
//!
//! A [`Node`] is a process on a [`Bus`]. A [`Publisher`] takes samples and handles the network; a
//! [`Subscriber`] gets every sample that arrived, every gap at its position, and the account: `sent since
//! joining = delivered + Σ lost[stage] + unexplained`.
//!
//! A publisher of two channels, a thousand samples per second:
//!
//! ```no_run
//! use std::time::Duration;
//! use tallycast::{Dtype, Node};
//!
//! let node = Node::from_env()?;
//! let channels = [("current", "A"), ("voltage", "V")];
//! let mut publisher = node.publisher("lab/probe").dtype(Dtype::F4).rate(1_000).channels(channels).open()?;
//! publisher.wait_for_readers(1, Duration::from_secs(5)); // until somebody listens, or it has been long enough
//! loop {
//!     let block = [[0.1_f32, 2.0]; 10]; // ten samples: [sample][channel]
//!     publisher.send_when_due(block.as_flattened())?;
//! }
//! # #[expect(unreachable_code, reason = "so that the question marks have a type")]
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A reader of this stream:
//!
//! ```no_run
//! use std::time::Duration;
//! use tallycast::Node;
//!
//! let mut subscriber = Node::from_env()?.subscriber("lab/probe").open()?;
//! for block in subscriber.blocks(Duration::from_secs(5)) {
//!     let samples: &[f32] = block.elements()?; // in the reader's own buffer: [sample][channel]
//!     println!("{} values from sample {} at {} ns", samples.len(), block.first_index, block.t0_ns());
//! }
//! for account in subscriber.close() {
//!     println!("{}", tallycast::account_json(&account));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account_json;
mod address;
mod assembly;
mod blocks;
mod bus;
pub mod cyclic;
mod event;
mod flow;
mod host_agent;
mod host_view;
mod level;
mod node;
mod publisher;
mod publisher_json;
mod reader_epoch;
mod relay_state;
#[doc(hidden)]
pub mod relayed;
pub mod runs;
mod sample_clock;
#[cfg(test)]
mod scene;
mod schedule;
mod steady_clock;
pub mod steering;
mod subscriber;
mod tap;
mod timeline;
pub mod udt;

pub use account_json::{account_json, gap_json, is_in_order, is_in_order_among, stream_gap_json};
pub use address::{Address, AddressError, DEFAULT_PORT};
pub use blocks::{Blocks, Delivery};
pub use bus::{BUS_VARIABLE, Bus, BusError, DEFAULT_SHM_DIRECTORY, Group, SharedMemory, Tuning};
pub use cast::receive::ReceiverStats;
pub use cast::secure::UnauthenticCounts;
pub use cast::send::{Pacing, ReaderReport, ReportStats, Sending, StatementStats};
pub use engine::{
    AdmissionCounts, Announced, Departures, HeardReport, HeardReports, PortStatus, PublicationStatus,
    ReceivesFor, UnjoinedStreams, Waits, Withheld,
};
#[doc(hidden)]
pub use engine::{RelayBoard, RelayOnHost};
pub use event::{Event, StreamAccount, StreamGap, StreamHorizon, StreamInfo, StreamStatement};
pub use host_agent::HostAgent;
pub use host_view::{Reach, Start};
pub use keyring::KeyringError;
pub use ledger::{
    Account, AccountState, Gap, GapKind, HopCounts, HopRows, HopShare, Outcome, ReaderRows, SampleRows,
    Stage, StageCounts,
};
pub use level::Level;
pub use node::{
    KeyServiceState, KeyState, LastEpochs, Node, NodeBuilder, NodeError, OnHost, SubscriberBuilder,
    check_station, host_name,
};
pub use publisher::{EarlierEpochs, OnFull, PublishError, Publisher, PublisherBuilder};
pub use publisher_json::publisher_json;
pub use relay_state::{RelayAge, RelayBackfill, RelayLink, RelayState, RelayStream};
pub use ring::shared::Access;
pub use sample::{Block, Channel, Dtype, Element, Foreign, Schema, StreamName, StreamPattern};
pub use steady_clock::{SteadyClock, SteadyTime};
pub use subscriber::Subscriber;
pub use sys::{Buffer, Direction};
pub use tap::{Elements, Tap, TapBeginning, TapRecord, Tapped};
pub use units::{Epoch, RateError, SampleRate, StreamId, WallTime};
pub use wire::{Clock, Origin, Totals, UpstreamHop};

/// Returns the UTC time of this host, from which the times of publishers and of the system clock derive.
#[must_use]
pub fn now() -> WallTime {
    sys::clock::wall()
}

/// All public types can be moved to another thread.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Node>();
    is_send::<Publisher>();
    is_send::<Subscriber>();
    is_send::<Tap>();
    is_send::<Event>();
    is_send::<HostAgent>();
    is_send::<runs::Keeper>();
    is_send::<Delivery>();
};
