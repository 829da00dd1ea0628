//! Information about the server, for its pages and programs.

use serde::Serialize;

use crate::clock;
use crate::host_gate::Protection;
use crate::key_status::KeyStatus;
use crate::shared::Shared;
use crate::stored::DiskStatus;

/// Information about the server.
#[derive(Serialize)]
pub(crate) struct ServerInfo {
    version: &'static str,
    started_ns: i64,
    now_ns: i64,
    page_protocol: u8,
    archive: bool,
    /// True if it listens on other addresses than loopback without encryption.
    insecure: bool,
    /// Level of the archive's disk; left out without an archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    archive_disk: Option<DiskStatus>,
    /// State of the keys; left out on a bus without keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<KeyStatus>,
}

impl ServerInfo {
    pub(crate) fn of(shared: &Shared) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            started_ns: shared.started.as_nanos(),
            now_ns: clock::wall().as_nanos(),
            page_protocol: wire::PAGE_VERSION,
            archive: shared.store.is_some(),
            insecure: shared.gate.protection() == Protection::Insecure,
            archive_disk: shared.store.as_ref().and_then(|store| store.disk()),
            keys: shared.reception.key_status(),
        }
    }
}
