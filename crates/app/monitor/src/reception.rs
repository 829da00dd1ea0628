//! Reports of the intake about its reception, as of a moment ago.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tallycast::{KeyState, PortStatus, RelayOnHost, UnjoinedStreams};

use crate::clock;
use crate::key_status::KeyStatus;
use crate::nodes::GraphStatus;

/// State that the intake writes, and requests and metrics read.
#[derive(Default)]
pub(crate) struct Reception {
    graph: Mutex<GraphStatus>,
    ports: Mutex<Vec<PortStatus>>,
    rings_distrusted: AtomicU64,
    relays: Mutex<Vec<RelayOnHost>>,
    unjoined: Mutex<UnjoinedStreams>,
    keys: Mutex<Option<KeyState>>,
    listening: AtomicBool,
}

impl Reception {
    pub(crate) fn graph(&self) -> GraphStatus {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_graph(&self, graph: GraphStatus) {
        *self.graph.lock().unwrap_or_else(PoisonError::into_inner) = graph;
    }

    /// Returns the recent statistics of the receiving sockets.
    pub(crate) fn ports(&self) -> Vec<PortStatus> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_ports(&self, ports: Vec<PortStatus>) {
        *self.ports.lock().unwrap_or_else(PoisonError::into_inner) = ports;
    }

    /// Returns the number of requested rings of this host that were not trusted.
    pub(crate) fn rings_distrusted(&self) -> u64 {
        self.rings_distrusted.load(Ordering::Relaxed)
    }

    pub(crate) fn set_rings_distrusted(&self, count: u64) {
        self.rings_distrusted.store(count, Ordering::Relaxed);
    }

    /// Returns the relays of this host as their boards showed them a moment ago.
    pub(crate) fn relays(&self) -> Vec<RelayOnHost> {
        self.relays.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_relays(&self, relays: Vec<RelayOnHost>) {
        *self.relays.lock().unwrap_or_else(PoisonError::into_inner) = relays;
    }

    /// Returns the streams that could not be joined, and what became of announcements that were not followed, as of a moment ago.
    pub(crate) fn unjoined(&self) -> UnjoinedStreams {
        self.unjoined.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_unjoined(&self, unjoined: UnjoinedStreams) {
        *self.unjoined.lock().unwrap_or_else(PoisonError::into_inner) = unjoined;
    }

    /// Returns the state of the keys of a secured bus, as of a moment ago.
    pub(crate) fn keys(&self) -> Option<KeyState> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the same as JSON has it.
    pub(crate) fn key_status(&self) -> Option<KeyStatus> {
        self.keys().map(|state| KeyStatus::of(state, clock::wall()))
    }

    pub(crate) fn set_keys(&self, keys: Option<KeyState>) {
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Returns whether the intake listens to the bus.
    pub(crate) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed)
    }

    /// Records whether the intake listens; a flag for display that orders nothing.
    pub(crate) fn set_listening(&self, listening: bool) {
        self.listening.store(listening, Ordering::Relaxed);
    }
}
