//! Common parts of several targets: a disk in memory, a recording on it, private files, a monitor to query, datagrams of secured streams.

pub mod memory;
pub mod monitored;
pub mod private_files;
pub mod recording;
pub mod secured;
pub mod spoil;
