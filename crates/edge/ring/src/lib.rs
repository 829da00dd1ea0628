//! A broadcast ring: one [`Writer`], any number of [`Reader`]s, overwriting.
//!
//! The writer never waits, allocates or checks for readers; a reader that is too slow is *lapped*,
//! notices it, and continues at a record that is still complete. A record is copied into the
//! reader's own buffer first and validated afterwards, so that no reader can delay the writer and
//! none sees half a record. Every record carries two running totals of its writer, so that a lapped
//! reader knows from the difference what it missed.
//!
//! Not here: the meaning of records (that is `engine`), and sleeping in the ring itself: a
//! [`Doorbell`] wakes readers that wait, and one doorbell serves any number of rings. Start with
//! [`ring()`] for the threads of one process, with [`shared`] between processes; both have the same
//! image in memory, drawn in `docs/reference/formats/ring.md`.
//!
//! ```
//! use ring::Read;
//!
//! let (mut writer, ring) = ring::ring(1 << 16);
//! let mut reader = ring.reader_at_head();
//! writer.write(7, [0, 0], &[b"header ", b"and payload"])?;
//!
//! let mut record = Vec::new();
//! assert_eq!(reader.read(&mut record), Read::Record { kind: 7, totals: [0, 0] });
//! assert_eq!(record, b"header and payload");
//! assert_eq!(reader.read(&mut record), Read::Empty);
//! # Ok::<(), ring::RecordTooLarge>(())
//! ```

#[cfg(not(any(loom, miri)))]
mod anonymous;
mod claim;
mod copy;
mod doorbell;
mod guard;
mod kept;
mod layout;
#[cfg(not(loom))]
mod mapping;
mod memory;
#[cfg(not(loom))]
mod owned_file;
mod pulse;
mod reader;
mod run;
#[cfg(not(loom))]
pub mod shared;
pub mod sync;
mod view;
mod word;
mod words;
mod writer;

pub use doorbell::{Doorbell, Idle, wait_any};
pub use guard::Guard;
pub use kept::Kept;
pub use pulse::Pulse;
pub use reader::{Read, Reader, Ring};
pub use view::View;
pub use writer::{PageTooLarge, RecordTooLarge, Writer};

use memory::Memory;
use sync::Arc;

/// Creates a ring in heap memory.
///
/// Units: `capacity_bytes` counts record headers too; it is rounded up to a power of two, and to at least
/// 64. The largest record, header included, is half of it.
///
/// # Panics
/// If no power of two of that size exists on this machine.
#[must_use]
pub fn ring(capacity_bytes: usize) -> (Writer, Ring) {
    let memory = Arc::new(Memory::on_heap(capacity_bytes));
    (Writer::new(Arc::clone(&memory)), Ring::new(memory))
}

/// Creates a ring in heap memory that has a ledger page too, for models of its algorithm.
#[cfg(loom)]
#[must_use]
pub fn paged_ring(capacity_bytes: usize, page_bytes: usize) -> (Writer, Ring) {
    let sizes = memory::Sizes { label_bytes: 0, page_bytes, capacity_bytes, align_bytes: 8 };
    let memory = Arc::new(Memory::on_heap_of(sizes));
    (Writer::new(Arc::clone(&memory)), Ring::new(memory))
}
