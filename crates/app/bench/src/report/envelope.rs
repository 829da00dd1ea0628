//! When a measurement began, between whom, and how it ended.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use sys::clock;

use crate::control::program_version;
use crate::host;
use crate::host_state::HostState;

/// When a measurement between two ends began, between whom, and what it was to measure: `S` are the settings of a test.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start<S> {
    /// The program and its version.
    pub version: String,
    /// The client's kernel and machine.
    pub system_info: String,
    /// When.
    pub timestamp: Timestamp,
    /// The server.
    pub connecting_to: Endpoint,
    /// The client's host.
    pub client: HostState,
    /// The server's host.
    pub server: HostState,
    /// Whether both are one.
    pub same_host: bool,
    /// What was to be measured.
    pub test_start: S,
}

/// A moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timestamp {
    /// UTC, in seconds since 1970.
    pub timesecs: i64,
    /// UTC, in nanoseconds since 1970.
    pub time_ns: i64,
}

/// An address and port.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// The address.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// How a measurement of several points ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// UTC, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Whether all points are there.
    pub state: State,
    /// Notes.
    pub notes: Vec<String>,
    /// Tasks ready to run on the client's host, averaged over the last minute.
    pub load_1min: Option<f64>,
}

/// Whether all runs are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// They are.
    Complete,
    /// It was ended early: a run is short, or runs are missing.
    Interrupted,
    /// Something failed: a run is short, or runs are missing.
    BrokenOff,
}

impl<S> Start<S> {
    /// Begins now, with the server at `peer`.
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

    /// Returns the same beginning of a measurement with other settings, which this one was a part of.
    pub(crate) fn with<T>(self, test_start: T) -> Start<T> {
        let Self { version, system_info, timestamp, connecting_to, client, server, same_host, .. } = self;
        Start { version, system_info, timestamp, connecting_to, client, server, same_host, test_start }
    }

    /// Says on which hosts it is measured.
    #[must_use]
    pub fn hosts_in_words(&self) -> String {
        if self.same_host {
            format!("both ends: {}", self.client.in_words())
        } else {
            format!("client: {}\nserver: {}", self.client.in_words(), self.server.in_words())
        }
    }

    /// Says what limits the sockets of both hosts.
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

impl End {
    /// The end of a measurement that still goes on.
    pub(crate) const fn open() -> Self {
        Self { time_ns: 0, state: State::Complete, notes: Vec::new(), load_1min: None }
    }

    /// Notes what is to be known, once.
    pub(crate) fn note(&mut self, note: &str) {
        if !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
        }
    }

    /// Ends now.
    pub(crate) fn close(&mut self, state: State) {
        self.time_ns = clock::wall().as_nanos();
        self.state = state;
        self.load_1min = host::load();
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

    /// Says what is missing; `None` if nothing is.
    #[must_use]
    pub const fn in_words(self) -> Option<&'static str> {
        match self {
            Self::Complete => None,
            Self::Interrupted => Some("ended early: a run is short, or runs are missing"),
            Self::BrokenOff => Some("broken off: a run is short, or runs are missing"),
        }
    }
}
