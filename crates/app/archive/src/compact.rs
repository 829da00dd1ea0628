//! Compaction: closed segments become Parquet, which is smaller and widely readable.
//!
//! The Parquet file is written under another name, synced, read back and compared with the original before it
//! replaces it, so at every moment one complete form exists. Start with [`compact`]; a recording process passes its
//! closed segments to a [`Compactor`].

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use arrow_schema::SchemaRef;

use crate::Description;
use crate::columns::arrow_schema;
use crate::contents::EpochContents;
use crate::error::ArchiveError;
use crate::folders::{ClosedSegment, RunName, SegmentFile, epoch_folders, run_folder, segment_path};
use crate::parquet_file::{ParquetSegment, ParquetWriter, SegmentSpan, WriteTo};
use crate::rows::{Digest, Rows};
use crate::salvage::{Look, Tail};
use crate::seal::Sealing;
use crate::segment::{END_OF_STREAM, SegmentReader};
use crate::store::{Store, StoreError, draft_of, remove_if_there};
use crate::wanted::Wanted;

/// Result of compacting a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compacted {
    /// Compacted segment.
    pub segment: ClosedSegment,
    /// Size as an Arrow stream, in bytes.
    pub arrow_bytes: u64,
    /// Size as Parquet, in bytes.
    pub parquet_bytes: u64,
}

/// Converts a closed segment to Parquet and removes the Arrow form once every value was read back unchanged.
///
/// Returns `None` if the segment does not exist, or is Parquet already.
///
/// # Errors
/// The error of the disk, and [`ArchiveError::Segment`] if the copy differs; the Arrow form then stays.
pub fn compact(store: &dyn Store, segment: &ClosedSegment) -> Result<Option<Compacted>, ArchiveError> {
    let ClosedSegment { folder, number } = segment;
    let Some((description, _)) = EpochContents::description(store, folder)? else { return Ok(None) };
    let target = segment_path(folder, *number, SegmentFile::Parquet);
    // By the index alone, without anything after its end: a closed segment has nothing there.
    let look = Look {
        store,
        folder,
        description: &description,
        told_index: 0,
        told_segment: None,
        tail: Tail::Leave,
    };
    let found = match look.at(*number) {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let whole_bytes = found.index.acknowledged_bytes() + END_OF_STREAM.len() as u64;
    let holds_more = found.rebuilt && found.data_bytes != whole_bytes;
    if found.incomplete || holds_more || !found.index.is_gapless() {
        let path = segment_path(folder, *number, SegmentFile::Arrow);
        return Err(ArchiveError::segment(&path, "parts of it cannot be read, so it is kept unchanged"));
    }
    let mut origin = match SegmentReader::open(store, folder, &description, found.index) {
        Ok(origin) => origin,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let draft = draft_of(&target);
    match store.remove(&draft) {
        Ok(()) | Err(StoreError::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let arrow = arrow_schema(&description);
    let written = write(store, &draft, &mut origin, &description, &arrow);
    let verified = written.and_then(|written| {
        let copy = read_back(store, &draft, &description, &arrow)?;
        if copy == written {
            return Ok(());
        }
        Err(ArchiveError::segment(&draft, "the Parquet copy differs from its origin, which is kept"))
    });
    if let Err(error) = verified {
        // Best effort: a draft is never read, and the next recovery removes it.
        drop(store.remove(&draft));
        return Err(error);
    }
    let parquet_bytes = store.open(&draft)?.size_bytes()?;
    store.rename(&draft, &target)?;
    store.sync_folder(folder)?;
    store.remove(&segment_path(folder, *number, SegmentFile::Arrow))?;
    remove_if_there(store, [segment_path(folder, *number, SegmentFile::Index).as_path()])?;
    let arrow_bytes = origin.index.acknowledged_bytes();
    Ok(Some(Compacted { segment: segment.clone(), arrow_bytes, parquet_bytes }))
}

fn write(
    store: &dyn Store,
    draft: &Path,
    origin: &mut SegmentReader,
    description: &Arc<Description>,
    arrow: &SchemaRef,
) -> Result<Digest, ArchiveError> {
    let mut writer = ParquetWriter::new(Sealing::new(WriteTo(store.create(draft)?)), arrow)?;
    let mut digest = Digest::new(description);
    let entries = origin.index.entries.clone();
    for entry in &entries {
        let batch = origin.batch(entry)?;
        let rows = Rows::new(&batch, description, arrow).ok_or_else(|| {
            ArchiveError::segment(draft, "the segment's columns are not those of stream.json")
        })?;
        digest.update(&rows);
        writer.write(&batch)?;
    }
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return Err(ArchiveError::segment(draft, "an empty segment has nothing to compact"));
    };
    let span = SegmentSpan {
        first_index: first.first_index,
        next_index: last.next_index,
        t0: first.t0,
        t1: last.t1,
        samples: entries.iter().map(|entry| u64::from(entry.samples)).sum(),
    };
    let mut file = writer.seal(origin.index.header.segment, span)?;
    file.0.sync()?;
    Ok(digest)
}

/// Reads a whole Parquet segment; fails if any of it is damaged.
pub(crate) fn read_back(
    store: &dyn Store,
    draft: &Path,
    description: &Arc<Description>,
    arrow: &SchemaRef,
) -> Result<Digest, ArchiveError> {
    let sample_bytes = description.schema.sample_bytes();
    let copy = ParquetSegment::open(store, draft)?;
    let mut digest = Digest::new(description);
    for group in copy.groups(&Wanted::ALL) {
        for batch in copy.batches(group, sample_bytes)? {
            let rows = Rows::new(&batch?, description, arrow)
                .ok_or_else(|| ArchiveError::segment(draft, "the copy has other columns than its origin"))?;
            digest.update(&rows);
        }
    }
    Ok(digest)
}

/// Compacts every closed segment of a run.
///
/// # Errors
/// As [`compact`]; segments compacted before the error stay so.
pub fn compact_run(store: &dyn Store, run: &RunName) -> Result<Vec<Compacted>, ArchiveError> {
    let mut compacted = Vec::new();
    for folder in epoch_folders(store, &run_folder(run))?.0 {
        let Some((description, _)) = EpochContents::description(store, &folder)? else { continue };
        for closed in EpochContents::read(store, &folder, description, Tail::Leave)?.uncompacted() {
            compacted.extend(compact(store, &closed)?);
        }
    }
    Ok(compacted)
}

/// Thread that compacts one segment after the other while a recorder runs.
pub struct Compactor {
    queue: Option<Sender<ClosedSegment>>,
    thread: Option<JoinHandle<()>>,
}

impl Compactor {
    /// Starts the thread; `done` is called with the result of every segment.
    ///
    /// # Errors
    /// The system's error if it cannot start a thread.
    pub fn start(
        store: Arc<dyn Store>,
        mut done: impl FnMut(Result<Compacted, ArchiveError>) + Send + 'static,
    ) -> std::io::Result<Self> {
        // Unbounded, but an entry is a path and a number, and segments close minutes apart.
        let (queue, segments) = channel::<ClosedSegment>();
        let work = move || {
            for segment in segments {
                compact(&*store, &segment).transpose().into_iter().for_each(&mut done);
            }
        };
        let thread = std::thread::Builder::new().name("compactor".to_owned()).spawn(work)?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues closed segments.
    pub fn take(&self, segments: impl IntoIterator<Item = ClosedSegment>) {
        let queue = self.queue.as_ref().expect("the queue exists as long as the compactor");
        for segment in segments {
            // Only fails if the thread panicked, which dropping the compactor reports.
            drop(queue.send(segment));
        }
    }
}

impl Drop for Compactor {
    /// Waits until every queued segment is compacted.
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}
