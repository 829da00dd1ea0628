//! Common parts of the tests of several crates: unique [ports], and [golden files](keys) of published JSON.
//!
//! Not here: anything that only one crate's tests need.

pub mod keys;
pub mod ports;
