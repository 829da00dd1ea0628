//! Linux interfaces of Tallycast: UDP sockets with their evidence, waiting, clocks, interfaces, the state of the host.
//!
//! | folder | subject | start with |
//! |---|---|---|
//! | `socket` | sending, receiving, socket buffers, waiting | [`SendSocket`], [`ReceiveSocket`], [`Poller`] |
//! | `netlink` | lists of the kernel: links, queue disciplines, all UDP sockets | [`links()`], [`qdiscs`] |
//! | [`host`] | interfaces, clocks, counters, processors, processes, settings | [`Interface`], [`clock`], [`counters`] |
//! | `raw` | the system calls behind them: all unsafe code of this crate | |
//!
//! Every loss that this host can observe is reported here: [`SendSocket`] returns for each datagram
//! whether and why it was refused, [`ReceiveSocket`] returns the kernel's drop counter with every
//! datagram, and [`Buffer`] contains the size that the kernel granted.
//!
//! Not here: the format of datagrams (`wire`), the times of sending (`cast`), threads (`engine`).
//! Only [`Poller::wait`], [`Cancellation::wait`] and [`clock::sleep_until`] block.

#[doc(hidden)]
pub mod fuzz;
pub mod host;
mod netlink;
mod raw;
mod socket;

pub use host::descriptors::raise_descriptor_limit;
pub use host::device_counters::DeviceCounters;
pub use host::fork::{ForkedChild, Home};
pub use host::groups::{Memberships, memberships};
pub use host::interface::{Interface, InterfaceError};
pub use host::namespace::{Namespace, NamespaceError, Stay, in_namespace};
pub use host::tun::{Tun, TunError, TunOptions, VNET_HEADER_BYTES};
pub use host::{
    clock, core_dumps, counters, folders, levels, private_file, process, processor_time, processors,
    scheduling, trust,
};
pub use netlink::bridge_groups::bridge_groups;
pub use netlink::link_events::LinkEvents;
pub use netlink::links::{Bridge, Link, links, set_queue_packets};
pub use netlink::qdisc::{Qdisc, QdiscPlace, qdiscs};
pub use netlink::qdisc_limit::QdiscLimit;
pub use netlink::udp_sockets::{UdpSocket, udp_sockets};
pub use raw::{BATCH_DATAGRAMS, CardSettings, MemInfo};
pub use socket::batch::{DEFAULT_SLOT_BYTES, ReceiveBatch, Received, TRAIN_SLOT_BYTES};
pub use socket::buffer::{Buffer, Direction};
pub use socket::cancel::Cancellation;
pub use socket::error_queue::{Origin, PathError};
pub use socket::open::{MORE_DESCRIPTORS, OpenError, is_out_of_descriptors};
pub use socket::path_mtu::{header_bytes, path_mtu};
pub use socket::poller::{EVENTS_PER_WAIT, Interest, Poller, Ready, Wakeup};
pub use socket::receive::{ReceiveOptions, ReceiveSocket};
pub use socket::send::{Loopback, Outcome, Refusal, SendOptions, SendSocket};
pub use socket::tcp::{TcpAcceptor, TcpConnection, TcpError, TcpOptions};
pub use socket::tcp_info::TcpInfo;
pub use socket::techniques::{MAX_SEGMENTS, MAX_TRAIN_BYTES, ReceiveTechniques, SendTechniques};
pub use socket::{fragments, tcp};
