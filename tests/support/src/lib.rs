//! What tests of several crates share: [ports] of their own, and [golden files](keys) of published JSON.
//!
//! Not here: anything that only one crate's tests need.

pub mod keys;
pub mod ports;
