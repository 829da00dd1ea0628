//! The monitor server: keeps recent data of streams, downsamples them to the pixel, combines streams, serves the page.
//!
//! One plain thread listens to the bus and fills live memory; an HTTP and WebSocket server reads it. Readers cannot
//! affect each other: a viewer that is slow or hidden is shown less and notified, and costs nothing. The wire
//! format is in `docs/protocol/page.md`. Start with [`start`].

mod account;
mod admission;
mod alarms;
mod archived;
mod catalogue;
mod clock;
mod config;
mod connections;
mod export;
mod gap_map;
mod history;
mod host_gate;
mod http;
mod inherited;
mod intake;
mod kept_graph;
mod key_status;
mod live;
mod memory;
mod metrics;
mod nodes;
mod operators;
mod page_files;
mod preview;
mod range;
mod reception;
mod refusals;
mod refused;
mod relay_status;
mod requests;
mod revocation;
mod runs;
#[cfg(test)]
mod scene;
mod server;
mod server_info;
mod shared;
mod shared_views;
mod state_lock;
mod steering;
mod stored;
mod tls;
mod totals;
mod unauthentic;
mod view;
mod viewer;
mod viewers;

/// Nodes of the processing graph, and plans of them.
pub use ::graph::plan;
pub use ::graph::plan::{Incomplete, OperatorChannel, OperatorConfig, OperatorError, check_operators};
pub use ::graph::{GraphError, check_graph};
pub use alarms::AlarmsError;
pub use config::{
    DEFAULT_LISTEN, DEFAULT_PAGES_PER_ADDRESS, GraphFile, InjectControl, MAX_PAGES, MonitorConfig,
    MonitorError, default_state, default_tls_folder,
};
pub use gap_map::KnownGap;
pub use operators::DEFAULT_PYTHON;
pub use server::{MonitorHandle, start};
pub use stored::{DiskStatus, HistoryStore, StoreFailure, StoredRequest, StoredSamples, StoredSpan};
pub use tls::{Authority, AuthorityError, CertificateError, Tls, TlsError};
