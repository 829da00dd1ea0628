//! Common parts of several targets: a disk in memory, a recording on it, private files, a monitor to query.

pub mod memory;
pub mod monitored;
pub mod private_files;
pub mod recording;
pub mod spoil;
