//! Start and end of a measurement: time, hosts and outcome.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sys::clock;

use crate::control::program_version;
use crate::host_state::HostState;

/// Start of a measurement between two ends: time, hosts and the settings `S` of a test.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start<S> {
    /// The program and its version.
    pub version: String,
    /// The client's kernel and machine.
    pub system_info: String,
    /// Start time.
    pub timestamp: Timestamp,
    /// The server.
    pub connecting_to: Endpoint,
    /// The client's host.
    pub client: HostState,
    /// The server's host.
    pub server: HostState,
    /// True if both ends are on one host.
    pub same_host: bool,
    /// Settings of the measurement.
    pub test_start: S,
}

/// A moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timestamp {
    /// UTC, in seconds since 1970.
    pub timesecs: i64,
    /// UTC, in nanoseconds since 1970.
    pub time_ns: i64,
}

/// An address and port.
#[derive(Clone, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// The address.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Outcome of a measurement of several points.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// UTC, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Completeness of the points.
    pub state: State,
    /// Notes.
    pub notes: Vec<String>,
    /// Tasks ready to run on the client's host, averaged over the last minute.
    pub load_1min: Option<f64>,
}

/// Completeness of the runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// All runs are there.
    Complete,
    /// The measurement was ended early: a run is short, or runs are missing.
    Interrupted,
    /// A failure ended the measurement: a run is short, or runs are missing.
    BrokenOff,
}

impl<S> Start<S> {
    /// Returns a start at the present time, with the server at `peer`.
    pub(crate) fn now(peer: SocketAddr, client: HostState, server: HostState, test_start: S) -> Self {
        let time_ns = clock::wall().as_nanos();
        Self {
            version: format!("tallycast {}", program_version()),
            system_info: format!("{} {}", client.host.kernel, client.host.machine),
            timestamp: Timestamp { timesecs: time_ns.div_euclid(1_000_000_000), time_ns },
            connecting_to: Endpoint { host: peer.ip().to_string(), port: peer.port() },
            same_host: client.is_same_host(&server),
            client,
            server,
            test_start,
        }
    }

    /// Returns this start with the settings of the measurement of which it was a part.
    pub(crate) fn with<T>(self, test_start: T) -> Start<T> {
        let Self { version, system_info, timestamp, connecting_to, client, server, same_host, .. } = self;
        Start { version, system_info, timestamp, connecting_to, client, server, same_host, test_start }
    }

    /// Describes the hosts.
    #[must_use]
    pub fn hosts_in_words(&self) -> String {
        if self.same_host {
            format!("both ends: {}", self.client.in_words())
        } else {
            format!("client: {}\nserver: {}", self.client.in_words(), self.server.in_words())
        }
    }

    /// Describes the limits of the sockets of both hosts.
    #[must_use]
    pub fn limits_in_words(&self) -> String {
        let of = |name: &str, host: &HostState| {
            let number = |value: Option<u64>| value.map_or("unknown".to_owned(), |value| value.to_string());
            format!(
                "{name}: rmem_default {}, rmem_max {}, wmem_max {}, congestion control {}",
                number(host.host.rmem_default_bytes),
                number(host.host.rmem_max_bytes),
                number(host.wmem_max_bytes),
                host.congestion_control.as_deref().unwrap_or("unknown")
            )
        };
        format!("{}\n{}", of("client", &self.client), of("server", &self.server))
    }
}

impl State {
    /// Returns the state of a measurement that was interrupted, in which something broke off, or neither.
    pub(crate) const fn of(has_broken_off: bool, was_interrupted: bool) -> Self {
        match (has_broken_off, was_interrupted) {
            (true, _) => Self::BrokenOff,
            (false, true) => Self::Interrupted,
            (false, false) => Self::Complete,
        }
    }

    /// Describes the missing part; `None` if nothing is missing.
    #[must_use]
    pub const fn in_words(self) -> Option<&'static str> {
        match self {
            Self::Complete => None,
            Self::Interrupted => Some("ended early: a run is short, or runs are missing"),
            Self::BrokenOff => Some("broken off: a run is short, or runs are missing"),
        }
    }
}
