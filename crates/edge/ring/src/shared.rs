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

mod error;
mod file;
mod lock;
mod names;
mod options;
mod owned;
mod trust;

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::layout::{WORD_BYTES, control};
use crate::mapping::MappedWord;
pub use crate::mapping::Pages;
use crate::memory::{Memory, Parts, Sizes};
use crate::sync::Ordering;
use crate::word::Word;
use crate::words::Words;
use crate::writer::Writer;

pub use error::{CreateError, OpenError};
pub use file::{Found, SharedRing};
pub use lock::Liveness;
pub use names::{RING_EXTENSION, WAIT_EXTENSION};
pub use options::{Access, MAX_LABEL_BYTES, MAX_PAGE_BYTES, Options};
pub use trust::{Distrust, Trusted};

/// Alignment of the records, so that they begin at a page of their own.
const RECORDS_ALIGN_BYTES: usize = 4096;

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

const _: () = assert!(RECORDS_ALIGN_BYTES.is_multiple_of(WORD_BYTES));
