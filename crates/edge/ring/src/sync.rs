//! The only access to atomics, so that loom can replace them.
//!
//! Built with `RUSTFLAGS="--cfg loom"` these are loom's, which tries every interleaving that the memory
//! model allows; otherwise they are the standard library's.

#[cfg(loom)]
pub use loom::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(not(loom))]
pub use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};
