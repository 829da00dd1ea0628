//! Linux interfaces of Tallycast: clocks, UDP sockets with their evidence, interfaces, waiting.
//!
//! Every loss that this host can observe is reported here: [`SendSocket`] returns for each datagram
//! whether and why it was refused, [`ReceiveSocket`] returns the kernel's drop counter with every
//! datagram, and [`Buffer`] contains the size that the kernel granted.
//!
//! Not here: the format of datagrams (`wire`), the times of sending (`cast`), threads (`engine`).
//! Only [`Poller::wait`], [`Cancellation::wait`] and [`clock::sleep_until`] block. Unsafe code is
//! confined to the module `raw`.

mod batch;
mod bridge_groups;
mod buffer;
mod cancel;
mod card;
pub mod clock;
mod control;
pub mod counters;
mod descriptors;
mod device_counters;
mod error_queue;
pub mod fragments;
#[doc(hidden)]
pub mod fuzz;
mod groups;
pub mod host;
mod interface;
pub mod levels;
mod link_events;
mod links;
mod namespace;
mod netlink;
mod offloads;
mod open;
mod path_mtu;
mod poller;
pub mod process;
pub mod processor_time;
pub mod processors;
mod qdisc;
mod qdisc_limit;
mod raw;
mod receive;
pub mod scheduling;
mod send;
pub mod tcp;
mod tcp_info;
mod techniques;
pub mod trust;
mod tun;
mod udp_sockets;

pub use batch::{DEFAULT_SLOT_BYTES, ReceiveBatch, Received, TRAIN_SLOT_BYTES};
pub use bridge_groups::bridge_groups;
pub use buffer::{Buffer, Direction};
pub use cancel::Cancellation;
pub use descriptors::raise_descriptor_limit;
pub use device_counters::DeviceCounters;
pub use error_queue::{Origin, PathError};
pub use groups::{Memberships, memberships};
pub use interface::{Interface, InterfaceError};
pub use link_events::LinkEvents;
pub use links::{Bridge, Link, links, set_queue_packets};
pub use namespace::{NamespaceError, in_namespace};
pub use open::{MORE_DESCRIPTORS, OpenError, is_out_of_descriptors};
pub use path_mtu::{header_bytes, path_mtu};
pub use poller::{EVENTS_PER_WAIT, Interest, Poller, Ready, Wakeup};
pub use qdisc::{Qdisc, QdiscPlace, qdiscs};
pub use qdisc_limit::QdiscLimit;
pub use raw::{BATCH_DATAGRAMS, CardSettings, MemInfo};
pub use receive::{ReceiveOptions, ReceiveSocket};
pub use send::{Loopback, Outcome, Refusal, SendOptions, SendSocket};
pub use tcp::{TcpAcceptor, TcpConnection, TcpError, TcpOptions};
pub use tcp_info::TcpInfo;
pub use techniques::{MAX_SEGMENTS, MAX_TRAIN_BYTES, ReceiveTechniques, SendTechniques};
pub use tun::{Tun, TunError, TunOptions, VNET_HEADER_BYTES};
pub use udp_sockets::{UdpSocket, udp_sockets};
