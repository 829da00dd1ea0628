//! Sockets of UDP and TCP with the kernel's evidence of every datagram, and waiting for them.

pub(crate) mod batch;
pub(crate) mod buffer;
pub(crate) mod cancel;
mod control;
pub(crate) mod error_queue;
pub mod fragments;
pub(crate) mod open;
pub(crate) mod path_mtu;
pub(crate) mod poller;
pub(crate) mod receive;
pub(crate) mod send;
pub mod tcp;
pub(crate) mod tcp_info;
pub(crate) mod techniques;
