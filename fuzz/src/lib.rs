//! What several targets need: a disk in memory, a recording on it, a monitor to be asked.

pub mod memory;
pub mod monitored;
pub mod recording;
pub mod spoil;
