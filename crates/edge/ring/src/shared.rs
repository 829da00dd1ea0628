//! Rings in shared memory: one process writes, any number of others read.
//!
//! A ring is a file in a memory file system, made with [`create`] and read with [`open`], or only [looked at](look).
//! Readers map it read-only. Beside `NAME.ring` lies `NAME.wait`, one page of its own: the only thing that readers
//! may write, so that the worst of them can at most cost its writer wake-ups and other readers a tenth of a second.
//!
//! The kernel holds two locks for a live writer, one on each file, and lets go of them when it dies: by the one
//! on the page a second writer is refused, by the one on the ring its readers see that it is gone.

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

/// The end of a ring's file name.
pub const RING_EXTENSION: &str = "ring";
/// The end of the name of the page at which its readers wait.
pub const WAIT_EXTENSION: &str = "wait";
/// The size of that page: what the kernel maps at least.
const WAIT_BYTES: usize = 4096;
/// Records begin at a page of their own.
const RECORDS_ALIGN_BYTES: usize = 4096;
/// What a label takes at most: a stream's description is a few kilobytes.
pub const MAX_LABEL_BYTES: usize = 1 << 20;
/// What a ledger page takes at most.
pub const MAX_PAGE_BYTES: usize = 1 << 24;

/// What a ring in shared memory is to be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// How many bytes of records, headers included; rounded up to a power of two. The default, 1 MiB, stays in
    /// the second cache of most processors.
    pub capacity_bytes: usize,
    /// What readers are told of the ring before they read it, such as the description of a stream.
    pub label: Vec<u8>,
    /// How many bytes the ledger page takes.
    pub page_bytes: usize,
    /// Who may read it.
    pub access: Access,
    /// The number of the group that its files are to belong to, of which this process is a member; else that of new files.
    pub group: Option<u32>,
    /// Whether to ask for huge pages, which the system grants where `shmem_enabled` is `advise`.
    pub pages: Pages,
}

/// Who may read a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// The user that writes it.
    Owner,
    /// Its group too.
    Group,
    /// Everybody on this host.
    #[default]
    All,
}

/// The pages of a ring's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pages {
    /// The system's usual ones.
    #[default]
    Usual,
    /// Huge ones, if the system has them.
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
    /// Returns the modes of the ring's file and of the page.
    const fn modes(self) -> (u32, u32) {
        match self {
            Self::Owner => (0o600, 0o600),
            Self::Group => (0o640, 0o660),
            Self::All => (0o644, 0o666),
        }
    }
}

/// Says why a ring could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// Another writer has it.
    #[error(
        "the ring {path} has a writer already{}\nstop that one, or use another name",
        .pid.map_or_else(String::new, |pid| format!(", process {pid}"))
    )]
    InUse {
        /// The ring.
        path: PathBuf,
        /// The other writer as it sees itself.
        pid: Option<u32>,
    },
    /// It belongs to somebody else.
    #[error("the ring {path} belongs to another user\nuse another name, or let that user remove it")]
    Foreign {
        /// The ring.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// This user may not make files there.
    #[error("this user may not write into {directory}\nlet its owner allow that, or use another directory")]
    Unwritable {
        /// Where the ring was to be.
        directory: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// This user is no member of the group.
    #[error(
        "the ring {path} cannot be given to group {group}: this user is no member of it\nsee `id`, and name another group"
    )]
    Group {
        /// The ring.
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
        /// Where it was to be.
        directory: PathBuf,
        /// What it takes.
        size_bytes: usize,
        /// What the system said.
        source: io::Error,
    },
    /// More label or page than a ring has room for.
    #[error("a ring takes a label of {MAX_LABEL_BYTES} and a page of {MAX_PAGE_BYTES} bytes at most")]
    TooLarge,
    /// The system refused.
    #[error("the ring {path} cannot be made\nit needs a memory file system such as /dev/shm")]
    System {
        /// The ring.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Says why a ring could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is none of that name.
    #[error("there is no ring {0}")]
    Missing(PathBuf),
    /// This user may not read it.
    #[error("the ring {0} may not be read by this user\nlet its writer's bus say access=all or access=group")]
    Forbidden(PathBuf),
    /// Somebody wrote it who is not trusted.
    #[error(
        "the ring {path} is not trusted: {why}, and only root, this user and the group that the bus names are\n\
         let the buses of both sides say group=NAME, of which both users are members"
    )]
    Distrusted {
        /// The ring.
        path: PathBuf,
        /// Why not.
        why: Distrust,
    },
    /// Something else.
    #[error("{0} is not a ring")]
    NotARing(PathBuf),
    /// One of another version.
    #[error(
        "the ring {path} has layout {found}, this program reads {VERSION}\nuse the same version on both sides"
    )]
    Version {
        /// The ring.
        path: PathBuf,
        /// Its version.
        found: u8,
    },
    /// Shorter than it says.
    #[error(
        "the ring {path} is cut short: it has {found_bytes} bytes and needs {needed_bytes}\nstart its writer anew"
    )]
    Truncated {
        /// The ring.
        path: PathBuf,
        /// What is there.
        found_bytes: u64,
        /// What it says of itself.
        needed_bytes: u64,
    },
    /// The system refused.
    #[error("the ring {path} cannot be opened")]
    System {
        /// The ring.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A ring in shared memory, open for reading. What it is of was told when it was [found](look).
#[derive(Clone)]
pub struct SharedRing {
    ring: Ring,
    doorbell: Arc<Doorbell>,
    liveness: Arc<Liveness>,
}

impl SharedRing {
    /// Returns the ring, from which readers are made.
    #[must_use]
    pub const fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns the doorbell that its writer rings.
    #[must_use]
    pub const fn doorbell(&self) -> &Arc<Doorbell> {
        &self.doorbell
    }

    /// Returns what tells whether the writer is alive.
    #[must_use]
    pub const fn liveness(&self) -> &Arc<Liveness> {
        &self.liveness
    }
}

/// Makes a ring at `path`, whose name ends in `.ring`; whatever a dead writer left there is replaced.
///
/// The ring's memory is taken at once: a file system that fills up later takes nothing back.
///
/// # Errors
/// [`CreateError`]: above all when a live writer has it.
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
/// [`OpenError`]; nothing that lies in the file can do worse than that.
pub fn open(path: &Path) -> Result<SharedRing, OpenError> {
    look(path)?.trust(Trusted::default())?.open()
}

/// Looks at the ring at `path`: what it is of, who writes it, and whether it can be opened. Whether it is to be
/// [trusted](Found::trust) is another question.
///
/// Cost: a few system calls; none of the ring's memory is touched.
///
/// # Errors
/// [`OpenError`], as [`open`] would say it.
pub fn look(path: &Path) -> Result<Found, OpenError> {
    file::look(path)
}

/// Removes what dead writers left in `directory` under names that begin with `prefix`; returns how many rings.
///
/// A page whose writer was killed before it showed its ring goes too. What belongs to other users, and what has a live writer, stays.
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

/// Returns the page beside a ring.
fn wait_path(path: &Path) -> PathBuf {
    path.with_extension(WAIT_EXTENSION)
}

const _: () = assert!(RECORDS_ALIGN_BYTES.is_multiple_of(WORD_BYTES));
