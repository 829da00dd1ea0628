//! Reasons why a ring cannot be created or opened, each with its remedy.

use std::io;
use std::path::PathBuf;

use super::options::{MAX_LABEL_BYTES, MAX_PAGE_BYTES};
use super::trust::Distrust;
use crate::layout::VERSION;

/// Reason why a ring could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// Another writer holds it.
    #[error(
        "the ring {path} has a writer already{}\nstop that one, or use another name",
        .pid.map_or_else(String::new, |pid| format!(", process {pid}"))
    )]
    InUse {
        /// Path of the ring.
        path: PathBuf,
        /// Process id of the other writer in its own namespace.
        pid: Option<u32>,
    },
    /// It belongs to another user.
    #[error("the ring {path} belongs to another user\nuse another name, or let that user remove it")]
    Foreign {
        /// Path of the ring.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// This user may not create files there.
    #[error("this user may not write into {directory}\nlet its owner allow it, or use another directory")]
    Unwritable {
        /// Directory in which the ring was to be created.
        directory: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// This user is not a member of the group.
    #[error(
        "the ring {path} cannot be given to group {group}: this user is not a member of it\nname one of the groups that `id` lists"
    )]
    Group {
        /// Path of the ring.
        path: PathBuf,
        /// The number of the group.
        group: u32,
    },
    /// The file system is full.
    #[error(
        "a ring of {size_bytes} bytes does not fit into {directory}\n\
         make room there (df {directory}), or name another memory file system: shm=DIRECTORY of the bus"
    )]
    Full {
        /// Directory in which the ring was to be created.
        directory: PathBuf,
        /// Size of the ring.
        size_bytes: usize,
        /// Error of the system.
        source: io::Error,
    },
    /// The label or the page is larger than the maximum.
    #[error("a ring takes a label of {MAX_LABEL_BYTES} and a page of {MAX_PAGE_BYTES} bytes at most")]
    TooLarge,
    /// The system refused to create it.
    #[error("the ring {path} cannot be created\nit needs a memory file system such as /dev/shm")]
    System {
        /// Path of the ring.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Reason why a ring could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no ring of that name.
    #[error("there is no ring {0}")]
    Missing(PathBuf),
    /// This user may not read it.
    #[error(
        "the ring {0} may not be read by this user\n\
         set access=group&group=NAME on the buses of both sides, or access=all on that of a writer without keys"
    )]
    Forbidden(PathBuf),
    /// Its owner is not trusted, or other users may write it.
    #[error(
        "the ring {path} is not trusted: {why}, and only root, this user and the group that the bus names are\n\
         set group=NAME on the buses of both sides; both users must be members of that group"
    )]
    Distrusted {
        /// Path of the ring.
        path: PathBuf,
        /// Reason for the distrust.
        why: Distrust,
    },
    /// The file is not a ring.
    #[error("{0} is not a ring")]
    NotARing(PathBuf),
    /// Its layout has another version.
    #[error(
        "the ring {path} has layout {found}, this program reads {VERSION}\nuse the same version on both sides"
    )]
    Version {
        /// Path of the ring.
        path: PathBuf,
        /// Version of its layout.
        found: u8,
    },
    /// The file is shorter than its control block says.
    #[error(
        "the ring {path} is truncated: it has {found_bytes} bytes and needs {needed_bytes}\nrestart its writer"
    )]
    Truncated {
        /// Path of the ring.
        path: PathBuf,
        /// Actual size of the file.
        found_bytes: u64,
        /// Size according to the control block.
        needed_bytes: u64,
    },
    /// The system refused to open it.
    #[error("the ring {path} cannot be opened")]
    System {
        /// Path of the ring.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}
