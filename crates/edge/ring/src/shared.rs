//! Rings in shared memory: one process writes, any number of others read.
//!
//! A ring is a file in a memory file system, created with [`create`] and read with [`open`], or
//! only [inspected](look). Readers map it read-only. `NAME.wait` next to `NAME.ring` is a page of
//! its own: the only memory that readers may write, so that a faulty reader can at most cause
//! wake-ups of the writer and delay other readers by a tenth of a second.
//!
//! The kernel holds two locks for a live writer, one on each file, and releases them when it dies:
//! the one on the page refuses a second writer, the one on the ring shows readers that the writer
//! is gone.

mod fault;
mod file;
mod lock;
mod mapping;
mod owned;
mod trust;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::doorbell::Doorbell;
use crate::layout::{VERSION, WORD_BYTES, control};
use crate::memory::{Memory, Parts, Sizes};
use crate::reader::Ring;
use crate::sync::Ordering;
use crate::word::Word;
use crate::words::Words;
use crate::writer::Writer;

pub use file::Found;
pub use lock::Liveness;
pub(crate) use mapping::{MappedWord, Mapping};
pub(crate) use owned::OwnedFile;
pub use trust::{Distrust, Trusted};

/// Extension of a ring's file name.
pub const RING_EXTENSION: &str = "ring";
/// Extension of the name of the page at which its readers wait.
pub const WAIT_EXTENSION: &str = "wait";
/// Size of that page: the smallest that the kernel maps.
const WAIT_BYTES: usize = 4096;
/// Alignment of the records, so that they begin at a page of their own.
const RECORDS_ALIGN_BYTES: usize = 4096;
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

/// Page size of a ring's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pages {
    /// The system's default.
    #[default]
    Usual,
    /// Huge pages, if the system has them.
    Huge,
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
    const fn modes(self) -> (u32, u32) {
        match self {
            Self::Owner => (0o600, 0o600),
            Self::Group => (0o640, 0o660),
            Self::All => (0o644, 0o666),
        }
    }
}

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
         make room there (df {directory}), choose smaller rings, or another directory"
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
    #[error("the ring {0} may not be read by this user\nset access=all or access=group on its writer's bus")]
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

/// A ring in shared memory, open for reading. Its label was read when it was [found](look).
#[derive(Clone)]
pub struct SharedRing {
    ring: Ring,
    doorbell: Arc<Doorbell>,
    liveness: Arc<Liveness>,
}

impl SharedRing {
    /// Returns the ring, from which readers are created.
    #[must_use]
    pub const fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns the doorbell that its writer rings.
    #[must_use]
    pub const fn doorbell(&self) -> &Arc<Doorbell> {
        &self.doorbell
    }

    /// Returns the liveness of the writer.
    #[must_use]
    pub const fn liveness(&self) -> &Arc<Liveness> {
        &self.liveness
    }
}

/// Creates a ring at `path`, whose name ends in `.ring`; files that a dead writer left there are
/// replaced.
///
/// The ring's memory is allocated immediately: a file system that fills up later takes nothing
/// back.
///
/// # Errors
/// [`CreateError`]: above all when a live writer holds it.
pub fn create(path: &Path, options: &Options) -> Result<Writer, CreateError> {
    if options.label.len() > MAX_LABEL_BYTES || options.page_bytes > MAX_PAGE_BYTES {
        return Err(CreateError::TooLarge);
    }
    let parts = Parts::lay_out(Sizes {
        label_bytes: options.label.len(),
        page_bytes: options.page_bytes,
        capacity_bytes: options.capacity_bytes,
        align_bytes: RECORDS_ALIGN_BYTES,
    });
    let claimed = owned::Claimed::take(path, options.access, options.group)?;
    let image = claimed.make_image(parts.size_bytes(), options)?;
    let memory = Memory::over(Words::mapped(Arc::clone(&image.mapping)), parts);
    memory.store_part(&memory.parts().label.clone(), &options.label);
    let constants =
        [(control::WRITER_PID, u64::from(std::process::id())), (control::CREATED_NS, file::now_ns())];
    for (word, value) in constants {
        memory.control(word).store(value, Ordering::Relaxed);
    }
    memory.describe(options.label.len());
    let rung = Word::Mapped(MappedWord::new(Arc::clone(&image.mapping), control::RUNG));
    let file = claimed.show(image, rung)?;
    Ok(Writer::of_file(Arc::new(memory), file))
}

/// Opens the ring at `path` for reading, if root or this user wrote it.
///
/// # Errors
/// [`OpenError`]; no content of the file can cause anything else.
pub fn open(path: &Path) -> Result<SharedRing, OpenError> {
    look(path)?.trust(Trusted::default())?.open()
}

/// Inspects the ring at `path`: its label, its writer, and whether it can be opened. Whether it is
/// [trusted](Found::trust) is checked separately.
///
/// Cost: a few system calls; the ring's memory is not touched.
///
/// # Errors
/// [`OpenError`], as [`open`] would return it.
pub fn look(path: &Path) -> Result<Found, OpenError> {
    file::look(path)
}

/// Removes the rings that dead writers left in `directory` under names that begin with `prefix`;
/// returns how many.
///
/// A page whose writer was killed before it published its ring is removed too. Files of other
/// users, and those with a live writer, stay.
///
/// # Errors
/// If the directory cannot be read.
pub fn sweep(directory: &Path, prefix: &str) -> io::Result<usize> {
    let mut removed = 0;
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        if !name.starts_with(prefix) {
            continue;
        }
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(RING_EXTENSION) => removed += usize::from(owned::remove_if_stale(&path)),
            Some(WAIT_EXTENSION) => {
                owned::remove_lone_page(&path);
            }
            _ => {}
        }
    }
    Ok(removed)
}

/// Returns the path of the page next to a ring.
fn wait_path(path: &Path) -> PathBuf {
    path.with_extension(WAIT_EXTENSION)
}

const _: () = assert!(RECORDS_ALIGN_BYTES.is_multiple_of(WORD_BYTES));
