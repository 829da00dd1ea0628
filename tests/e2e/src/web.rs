//! Requests to a monitor server, as from any program.

use serde_json::Value;
use support::http::get;

use crate::lan::Host;

/// Returns a monitor server's answer to a request for JSON.
///
/// # Panics
/// If it does not answer, or answers with an error.
#[must_use]
pub fn get_json(address: &str, path: &str) -> Value {
    get(address, path).json()
}

/// Returns the answer of a host's monitor server to a request.
///
/// # Panics
/// If it does not answer, or answers with an error.
#[must_use]
pub fn get_on(host: &Host, address: &str, path: &str) -> String {
    host.inside(|| get(address, path).text().to_owned())
}
