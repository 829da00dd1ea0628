//! A ring's file as its readers open it: none of its content is trusted before it was checked.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::time::{ClockId, clock_gettime};

use super::error::OpenError;
use super::lock::Liveness;
use super::names::{WAIT_BYTES, wait_path};
use super::options::{MAX_LABEL_BYTES, MAX_PAGE_BYTES};
use super::trust::{Distrust, Ownership, Trusted};
use crate::doorbell::Doorbell;
use crate::layout::{MAGIC, MIN_CAPACITY_BYTES, WORD_BYTES, control};
use crate::mapping::{MappedWord, Mapping, Rights};
use crate::memory::{Memory, Parts};
use crate::reader::Ring;
use crate::word::Word;
use crate::words::Words;

/// Size of the control block, which the label follows.
const CONTROL_BYTES: usize = control::WORDS * WORD_BYTES;

/// A ring as its file describes it, not mapped yet: enough to decide whether to open it.
pub struct Found {
    parts: Parts,
    label: Vec<u8>,
    writer_pid: u32,
    created_ns: u64,
    ownership: Ownership,
    liveness: Liveness,
}

/// A ring in shared memory, open for reading. Its label was read when it was [found](super::look).
#[derive(Clone)]
pub struct SharedRing {
    ring: Ring,
    doorbell: Arc<Doorbell>,
    liveness: Arc<Liveness>,
}

/// Contents of a file's control block, not checked yet.
struct Claims {
    capacity_bytes: u64,
    records_offset: u64,
    label_bytes: u64,
    page_bytes: u64,
    writer_pid: u64,
    created_ns: u64,
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

impl Found {
    /// Returns the label that the writer gave the ring.
    #[must_use]
    pub fn label(&self) -> &[u8] {
        &self.label
    }

    /// Returns the writer's process id in the writer's own namespace.
    #[must_use]
    pub const fn writer_pid(&self) -> u32 {
        self.writer_pid
    }

    /// Returns the time at which the ring was created. Units: nanoseconds since 1970, UTC.
    #[must_use]
    pub const fn created_ns(&self) -> u64 {
        self.created_ns
    }

    /// Returns the ring if root, this user or another trusted user owns it.
    ///
    /// Checks the ownership of the very file that was found, whichever file has its name by now.
    ///
    /// # Errors
    /// [`OpenError::Distrusted`] if the ring is not trusted.
    pub fn trust(self, trusted: Trusted) -> Result<Self, OpenError> {
        match self.distrusted(trusted) {
            Some(why) => Err(OpenError::Distrusted { path: self.liveness.path().to_owned(), why }),
            None => Ok(self),
        }
    }

    /// Returns why the ring is not trusted, `None` if it is.
    #[must_use]
    pub fn distrusted(&self, trusted: Trusted) -> Option<Distrust> {
        self.ownership.distrusted_by(rustix::process::geteuid().as_raw(), trusted)
    }

    /// Returns the owner of the file.
    #[must_use]
    pub const fn owner(&self) -> u32 {
        self.ownership.owner
    }

    /// Returns the group of the file.
    #[must_use]
    pub const fn group(&self) -> u32 {
        self.ownership.group
    }

    /// Returns the liveness of the writer.
    #[must_use]
    pub const fn liveness(&self) -> &Liveness {
        &self.liveness
    }

    /// Opens the ring for reading: the very file that was found, whichever file has its name by
    /// now.
    ///
    /// # Errors
    /// [`OpenError::System`] if its memory cannot be mapped.
    pub fn open(self) -> Result<SharedRing, OpenError> {
        let Self { parts, liveness, .. } = self;
        let mapping = Mapping::of(liveness.file(), parts.size_bytes(), Rights::Read)
            .map_err(|source| OpenError::System { path: liveness.path().to_owned(), source })?;
        let mapping = Arc::new(mapping);
        let memory = Memory::over(Words::mapped(Arc::clone(&mapping)), parts);
        let rung = Word::Mapped(MappedWord::new(mapping, control::RUNG));
        Ok(SharedRing {
            ring: Ring::new(Arc::new(memory)),
            doorbell: Arc::new(Doorbell::shared(open_wait_page(liveness.path()), rung)),
            liveness: Arc::new(liveness),
        })
    }
}

/// Inspects a ring's file.
pub(super) fn look(path: &Path) -> Result<Found, OpenError> {
    let system = |source| OpenError::System { path: path.to_owned(), source };
    let file = open(path, OFlags::RDONLY).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => OpenError::Missing(path.to_owned()),
        io::ErrorKind::PermissionDenied => OpenError::Forbidden(path.to_owned()),
        _ => system(source),
    })?;
    let metadata = file.metadata().map_err(system)?;
    let found_bytes = metadata.len();
    if !metadata.is_file() || found_bytes < CONTROL_BYTES as u64 {
        return Err(OpenError::NotARing(path.to_owned()));
    }
    let claims = read_claims(&file, path)?;
    let needed_bytes = claims.records_offset.saturating_add(claims.capacity_bytes);
    if found_bytes < needed_bytes {
        return Err(OpenError::Truncated { path: path.to_owned(), found_bytes, needed_bytes });
    }
    let parts = claims.parts().ok_or_else(|| OpenError::NotARing(path.to_owned()))?;
    let mut label = vec![0; usize::try_from(claims.label_bytes).unwrap_or(MAX_LABEL_BYTES)];
    file.read_exact_at(&mut label, CONTROL_BYTES as u64).map_err(system)?;
    Ok(Found {
        parts,
        label,
        writer_pid: u32::try_from(claims.writer_pid).unwrap_or(0),
        created_ns: claims.created_ns,
        ownership: Ownership { owner: metadata.uid(), group: metadata.gid(), mode: metadata.mode() },
        liveness: Liveness::new(file, path.to_owned()),
    })
}

fn read_claims(file: &File, path: &Path) -> Result<Claims, OpenError> {
    let mut bytes = [0; CONTROL_BYTES];
    file.read_exact_at(&mut bytes, 0)
        .map_err(|source| OpenError::System { path: path.to_owned(), source })?;
    let (words, _) = bytes.as_chunks::<WORD_BYTES>();
    let word = |word: usize| u64::from_le_bytes(words[word]);
    let magic = word(control::MAGIC);
    if magic != MAGIC {
        let [name @ .., version, _] = magic.to_le_bytes();
        let (path, found) = (path.to_owned(), version);
        let is_ring = name == MAGIC.to_le_bytes()[..name.len()];
        return Err(if is_ring { OpenError::Version { path, found } } else { OpenError::NotARing(path) });
    }
    Ok(Claims {
        capacity_bytes: word(control::CAPACITY),
        records_offset: word(control::RECORDS_OFFSET),
        label_bytes: word(control::LABEL_BYTES),
        page_bytes: word(control::PAGE_BYTES),
        writer_pid: word(control::WRITER_PID),
        created_ns: word(control::CREATED_NS),
    })
}

impl Claims {
    /// Returns the positions of the parts, `None` if they are not valid.
    fn parts(&self) -> Option<Parts> {
        let bounded = |bytes: u64, limit: usize| usize::try_from(bytes).ok().filter(|bytes| *bytes <= limit);
        let label_words = bounded(self.label_bytes, MAX_LABEL_BYTES)?.div_ceil(WORD_BYTES);
        let page_words = bounded(self.page_bytes, MAX_PAGE_BYTES)?.div_ceil(WORD_BYTES);
        let capacity = bounded(self.capacity_bytes, usize::MAX / 4)?;
        let records = bounded(self.records_offset, usize::MAX / 4)?;
        let label = control::WORDS..control::WORDS + label_words;
        let page = label.end..label.end + page_words;
        let start = records / WORD_BYTES;
        let fits = capacity.is_power_of_two()
            && capacity >= MIN_CAPACITY_BYTES
            && records.is_multiple_of(WORD_BYTES)
            && start >= page.end;
        fits.then(|| Parts { label, page, records: start..start + capacity / WORD_BYTES })
    }
}

/// Opens the word by which readers show that they sleep; `None` where this user may not write it.
fn open_wait_page(path: &Path) -> Option<Word> {
    let file = open(&wait_path(path), OFlags::RDWR).ok()?;
    let is_page = file.metadata().is_ok_and(|it| it.is_file() && it.len() >= WAIT_BYTES as u64);
    let mapping = is_page.then(|| Mapping::of(&file, WAIT_BYTES, Rights::ReadWrite).ok())??;
    Some(Word::Mapped(MappedWord::new(Arc::new(mapping), 0)))
}

/// Returns the time in UTC, in nanoseconds.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    u64::try_from(i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)).unwrap_or(0)
}

pub(super) fn open(path: &Path, access: OFlags) -> io::Result<File> {
    // Not a symbolic link, which another user may have placed, and without waiting for the other
    // end of a pipe.
    let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    Ok(File::from(openat(CWD, path, flags, Mode::empty())?))
}
