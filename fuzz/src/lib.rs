//! Common parts of several targets: a disk in memory, a recording on it, a monitor to query.

pub mod memory;
pub mod monitored;
pub mod recording;
pub mod spoil;
