//! Common parts of the tests of several crates: a [watchdog](Watchdog), unique [ports], [running programs](Running),
//! requests over [http], [golden files](keys) of published JSON, and skips.
//!
//! Not here: anything that only one crate's tests need, and network namespaces, which are `sys::Namespace`.

use std::fmt::Display;

pub mod http;
pub mod keys;
pub mod ports;
mod running;
mod watchdog;

pub use running::Running;
pub use watchdog::{WATCHDOG, Watchdog, wait_until};

/// Returns what a test needs, or prints why it is not available here and returns `None`: the test is skipped.
pub fn or_skip<T>(needed: Result<T, impl Display>) -> Option<T> {
    needed.map_err(|why| println!("SKIPPED: {why}")).ok()
}
