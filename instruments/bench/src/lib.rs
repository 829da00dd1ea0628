//! The measurement suite: runs the methods of `probe` over real sockets and rings, and makes reports.
//!
//! Every figure comes with its repeats, their spread and the state of the host; anything that could not be
//! measured is named with the reason. Start with [`throughput`], the rate between two ends that use a
//! [`control`] connection, with [`pingpong`], round-trip time and rate of messages, [`multicast`], one sender
//! and many receivers, [`capacity`], the number of datagrams received per second, [`cost`], the processor time
//! that data takes, or with [`cycle`], the largest array that two processes exchange every cycle; [`Quota`]
//! limits their processor time. [`iperf3`] works with another tool's clients and servers.
//!
//! Not here: the methods (`probe`), arguments and terminals (`cli`).

pub mod capacity;
mod child;
pub mod control;
pub mod cost;
mod cpu_load;
pub mod cycle;
mod day_clock;
mod emulated_link;
mod greeting;
pub mod gu_grossman;
mod host;
mod host_state;
pub mod iperf3;
mod local_server;
pub mod multicast;
mod namespaces;
pub mod notation;
mod options;
pub mod path_mtu;
pub mod petri_2007;
pub mod pingpong;
mod processor;
mod processor_time;
mod quota;
pub mod report;
pub mod scollo;
mod shared_ring;
pub mod sweep;
pub mod throughput;
mod udp_counters;
pub mod udp_notes;
pub mod w7x_monitoring;

pub use child::Program;
pub use cpu_load::{AppliedLoad, CpuLoad};
pub use drawing::FigureError;
pub use emulated_link::{EmulatedLink, EmulatedLinkError, LinkSettings};
pub use host::Host;
pub use host_state::{HostState, Link};
pub use local_server::{LocalServer, LocalServerError};
pub use namespaces::{Cable, NamespaceError, Namespaces, Stay};
pub use options::OptionsError;
pub use processor::{FrequencySource, Processor};
pub use processor_time::Shares;
pub use quota::{CpuGroup, Quota, QuotaError};
pub use report::Row;
