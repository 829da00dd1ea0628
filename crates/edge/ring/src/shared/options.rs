//! Options of a ring: its size, who may read it, and its pages.

use crate::mapping::Pages;

/// Maximum size of a label: a stream's description takes a few kilobytes.
pub const MAX_LABEL_BYTES: usize = 1 << 20;
/// Maximum size of a ledger page.
pub const MAX_PAGE_BYTES: usize = 1 << 24;

/// Options of a ring in shared memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Capacity in bytes of records, headers included; rounded up to a power of two. The default, 1
    /// MiB, fits into the second-level cache of most processors.
    pub capacity_bytes: usize,
    /// Label that readers get before they read the ring, such as the description of a stream.
    pub label: Vec<u8>,
    /// Capacity of the ledger page in bytes.
    pub page_bytes: usize,
    /// Users that may read it.
    pub access: Access,
    /// Number of the group of its files, of which this process must be a member; `None` for the
    /// default of new files.
    pub group: Option<u32>,
    /// Page size to request; the system grants huge pages where `shmem_enabled` is `advise`.
    pub pages: Pages,
}

/// Users that may read a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// The user that writes it.
    Owner,
    /// Also the members of its group.
    Group,
    /// Every user of this host.
    #[default]
    All,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            capacity_bytes: 1 << 20,
            label: Vec::new(),
            page_bytes: 0,
            access: Access::default(),
            group: None,
            pages: Pages::default(),
        }
    }
}

impl Access {
    /// Returns the file modes of the ring's file and of the page.
    pub(super) const fn modes(self) -> (u32, u32) {
        match self {
            Self::Owner => (0o600, 0o600),
            Self::Group => (0o640, 0o660),
            Self::All => (0o644, 0o666),
        }
    }
}
