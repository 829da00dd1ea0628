//! Publish and subscribe to streams of measurement data, and read where every sample went.
//!
//! A [`Node`] is a process on a [`Bus`]. A [`Publisher`] hands over samples and forgets about the network; a
//! [`Subscriber`] gets every sample that arrived, every gap where it belongs, and the account:
//! `sent since joining = delivered + Σ lost[stage] + unexplained`.
//!
//! ```no_run
//! use tallycast::{Bus, Channel, Dtype, Event, Node};
//! use std::time::Duration;
//!
//! let node = Node::open("udp://239.84.0.0:7400?iface=lo".parse::<Bus>()?)?;
//! let mut publisher = node
//!     .publisher("lab/probe")
//!     .dtype(Dtype::F4)
//!     .rate("1000".parse()?)
//!     .channel(Channel::new("current", "A"))
//!     .open()?;
//! publisher.send(&[0.1_f32, 0.2, 0.3])?;
//!
//! let mut subscriber = node.subscriber("lab/*").open()?;
//! while let Some(event) = subscriber.next(Duration::from_secs(1)) {
//!     if let Event::Block(block) = event {
//!         println!("{} samples from index {}", block.samples, block.first_index);
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account_json;
mod address;
mod assembly;
mod bus;
mod event;
mod flow;
mod node;
mod publisher;
mod sample_clock;
mod subscriber;

pub use account_json::{account_json, gap_json, is_in_order, stream_gap_json};
pub use address::{Address, AddressError, DEFAULT_PORT};
pub use bus::{BUS_VARIABLE, Bus, BusError};
pub use cast::send::{Pacing, ReaderReport};
pub use engine::{Announced, OutletStatus, PortStatus};
pub use event::{Event, StreamAccount, StreamGap, StreamInfo};
pub use ledger::{Account, AccountState, Gap, GapKind, Stage, StageCounts};
pub use node::{Node, NodeBuilder, NodeError, SubscriberBuilder};
pub use publisher::{OnFull, PublishError, Publisher, PublisherBuilder};
pub use sample::{Block, Channel, Dtype, Element, Schema, StreamName, StreamPattern};
pub use subscriber::Subscriber;
pub use units::{Epoch, SampleRate, StreamId, WallTime};
pub use wire::{Clock, Totals};
