//! A ring's file as its readers find it: nothing in it is believed before it was checked.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::time::{ClockId, clock_gettime};

use super::mapping::{MappedWord, Mapping, Rights};
use super::{MAX_LABEL_BYTES, MAX_PAGE_BYTES, OpenError, WAIT_BYTES, wait_path};
use crate::layout::{MAGIC, MIN_CAPACITY_BYTES, WORD_BYTES, control};
use crate::memory::Parts;
use crate::sync::Ordering;
use crate::word::Word;

/// A ring's file, mapped, and where its parts lie.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) mapping: Mapping,
    pub(super) parts: Parts,
    pub(super) label_bytes: usize,
}

/// What a file says of itself.
struct Claims {
    capacity_bytes: u64,
    records_offset: u64,
    label_bytes: u64,
    page_bytes: u64,
}

pub(super) fn open_image(path: &Path) -> Result<Opened, OpenError> {
    let system = |source| OpenError::System { path: path.to_owned(), source };
    let file = open(path, OFlags::RDONLY).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => OpenError::Missing(path.to_owned()),
        io::ErrorKind::PermissionDenied => OpenError::Forbidden(path.to_owned()),
        _ => system(source),
    })?;
    let metadata = file.metadata().map_err(system)?;
    let control_bytes = (control::WORDS * WORD_BYTES) as u64;
    let found_bytes = metadata.len();
    if !metadata.is_file() || found_bytes < control_bytes {
        return Err(OpenError::NotARing(path.to_owned()));
    }
    let truncated = |needed_bytes| OpenError::Truncated { path: path.to_owned(), found_bytes, needed_bytes };
    let claims = read_claims(&file, path)?;
    let needed_bytes = claims.records_offset.saturating_add(claims.capacity_bytes);
    if found_bytes < needed_bytes {
        return Err(truncated(needed_bytes));
    }
    let parts = claims.parts().ok_or_else(|| OpenError::NotARing(path.to_owned()))?;
    let mapping = Mapping::of(&file, parts.size_bytes(), Rights::Read).map_err(system)?;
    let label_bytes = usize::try_from(claims.label_bytes).unwrap_or(MAX_LABEL_BYTES);
    Ok(Opened { file, mapping, parts, label_bytes })
}

fn read_claims(file: &File, path: &Path) -> Result<Claims, OpenError> {
    let system = |source| OpenError::System { path: path.to_owned(), source };
    let control = Mapping::of(file, control::WORDS * WORD_BYTES, Rights::Read).map_err(system)?;
    let word = |word: usize| control.words()[word].load(Ordering::Acquire);
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
    })
}

impl Claims {
    /// Returns where the parts lie, `None` if they cannot lie so.
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

/// Opens the word by which readers say that they sleep; `None` where this user may not write it.
pub(super) fn open_wait_page(path: &Path) -> Option<Word> {
    let file = open(&wait_path(path), OFlags::RDWR).ok()?;
    let is_page = file.metadata().is_ok_and(|it| it.is_file() && it.len() >= WAIT_BYTES as u64);
    let mapping = is_page.then(|| Mapping::of(&file, WAIT_BYTES, Rights::ReadWrite).ok())??;
    Some(Word::Mapped(MappedWord::new(Arc::new(mapping), 0)))
}

/// Returns the process id that a ring's writer says it has, if there is a ring.
pub(super) fn writer_pid(path: &Path) -> Option<u32> {
    let opened = open_image(path).ok()?;
    let pid = opened.mapping.words().get(control::WRITER_PID)?.load(Ordering::Relaxed);
    u32::try_from(pid).ok()
}

/// Returns the time in UTC, in nanoseconds.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    u64::try_from(i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)).unwrap_or(0)
}

pub(super) fn open(path: &Path, access: OFlags) -> io::Result<File> {
    // Not a link that somebody laid there, and never waiting for the other end of a pipe.
    let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    Ok(File::from(openat(CWD, path, flags, Mode::empty())?))
}
