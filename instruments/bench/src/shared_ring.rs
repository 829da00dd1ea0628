//! Ends of a ring in shared memory that a test measures: one writes records, the other reads them.
//!
//! Not here: how data are cut into records, and what a reader does whose records were overwritten.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ring::shared::{self, Access, CreateError, OpenError, Options};
use ring::{Doorbell, Read, Reader, RecordTooLarge, Writer};

/// Room for a record's header and for the space that the ring keeps free before its writer.
pub(crate) const RECORD_OVERHEAD_BYTES: usize = 64;

/// The memory file system that every Linux has.
const DIRECTORY: &str = "/dev/shm";

/// The kind of the records; the ring does not interpret it.
const RECORD: u16 = 1;

/// Returns the path of a ring.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.{}", shared::RING_EXTENSION))
}

/// Removes the rings whose names begin with `prefix` of benches that were killed.
pub(crate) fn sweep(prefix: &str) {
    // Without the directory there is nothing to sweep; creating a ring reports that later.
    let _ = shared::sweep(Path::new(DIRECTORY), prefix);
}

/// Writing end.
pub(crate) struct RingWriter {
    writer: Writer,
    /// Running totals in every record: records and bytes before it.
    totals: [u64; 2],
}

impl RingWriter {
    /// Creates a ring that only this user may open.
    pub(crate) fn create(path: &Path, capacity_bytes: usize) -> Result<Self, CreateError> {
        let mut options = Options::default();
        (options.capacity_bytes, options.access) = (capacity_bytes, Access::Owner);
        Ok(Self { writer: shared::create(path, &options)?, totals: [0; 2] })
    }

    pub(crate) fn write(&mut self, record: &[u8]) -> Result<(), RecordTooLarge> {
        self.writer.write(RECORD, self.totals, &[record])?;
        self.totals[0] += 1;
        self.totals[1] += record.len() as u64;
        Ok(())
    }

    /// Wakes the reader, if it sleeps.
    pub(crate) fn wake(&self) {
        self.writer.ring_doorbell();
    }
}

/// Reading end.
pub(crate) struct RingReader {
    reader: Reader,
    doorbell: Arc<Doorbell>,
    /// The newest record.
    record: Vec<u8>,
}

/// Outcome of a look into a ring in which there was something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    Record,
    /// Records were overwritten before they were read.
    Lapped,
    /// The writer is gone, and everything is read.
    End,
    /// Damaged.
    Broken,
}

impl RingReader {
    /// Opens a ring whose largest record has `record_bytes`.
    pub(crate) fn open(path: &Path, record_bytes: usize) -> Result<Self, OpenError> {
        let opened = shared::open(path)?;
        // Touched before the run: the first record must not pay for page faults.
        let record = vec![0xff; record_bytes];
        Ok(Self { reader: opened.ring().reader_at_head(), doorbell: Arc::clone(opened.doorbell()), record })
    }

    /// Reads the next record, without waiting; `None` if there is none.
    pub(crate) fn look(&mut self) -> Option<Seen> {
        look(&mut self.reader, &mut self.record)
    }

    /// Waits for the next record; `None` if none comes in time.
    pub(crate) fn wait(&mut self, patience: Duration) -> Option<Seen> {
        let Self { reader, doorbell, record } = self;
        doorbell.wait_until(patience, || look(reader, record))
    }

    pub(crate) fn record(&self) -> &[u8] {
        &self.record
    }
}

fn look(reader: &mut Reader, record: &mut Vec<u8>) -> Option<Seen> {
    match reader.read(record) {
        Read::Record { .. } => Some(Seen::Record),
        Read::Lapped { .. } => Some(Seen::Lapped),
        Read::Empty => None,
        Read::Closed => Some(Seen::End),
        Read::Broken => Some(Seen::Broken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_in_order_and_then_the_end() {
        let path = path(&format!("tallycast-bench-ends-{}", std::process::id()));
        let mut writer = RingWriter::create(&path, 4_096).unwrap();
        let mut reader = RingReader::open(&path, 8).unwrap();
        assert_eq!(reader.look(), None);
        for record in [&b"one"[..], b"three"] {
            writer.write(record).unwrap();
            writer.wake();
            assert_eq!(reader.wait(support::WATCHDOG), Some(Seen::Record));
            assert_eq!(reader.record(), record);
        }
        assert!(writer.write(&[0; 4_096]).is_err());
        drop(writer);
        assert_eq!(reader.wait(support::WATCHDOG), Some(Seen::End));
    }

    #[test]
    fn an_overtaken_reader_is_told_and_goes_on() {
        let path = path(&format!("tallycast-bench-lap-{}", std::process::id()));
        let mut writer = RingWriter::create(&path, 4_096).unwrap();
        let mut reader = RingReader::open(&path, 1_000).unwrap();
        (0..50).for_each(|number| writer.write(&[number; 1_000]).unwrap());
        assert_eq!(reader.look(), Some(Seen::Lapped));
        assert_eq!(reader.look(), Some(Seen::Record));
    }
}
