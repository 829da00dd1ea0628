//! Writer of the gap map: lines wait here until a barrier made them durable, or until the file exists.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Description;
use crate::folders::GAPS;
use crate::gaps::{GapKey, GapRecord, Line};
use crate::store::{Appendable, Store, StoreError};

/// Maximum number of gaps kept while they cannot be written; the oldest then lose their evidence, not their counts.
pub(crate) const MAX_PENDING_GAPS: usize = 16_384;

/// Evidence text of a gap that could not be settled.
pub(crate) const NO_EVIDENCE: &str = "the recorder ended before the evidence came";

/// Gap map of one epoch, open for appending.
pub(crate) struct GapFile {
    file: Box<dyn Appendable>,
    /// First line of the file, also if it is written later.
    head: Line,
    synced_bytes: u64,
    written_bytes: u64,
    /// Gaps that are not yet in the file.
    pending: BTreeMap<GapKey, GapRecord>,
    /// Gaps that are in the file but not yet durable.
    written: Vec<GapRecord>,
    /// Gaps that still wait for evidence, up to a limit.
    unsettled: BTreeMap<GapKey, GapRecord>,
    /// Change of the file by another program that was not reported yet.
    fault: Option<StoreError>,
    /// True if the file was changed and nothing was written since.
    is_torn: bool,
}

impl GapFile {
    /// Begins the gap map of a folder that the disk refuses for now: gaps wait, and nothing is written.
    pub(crate) fn waiting(folder: &Path, description: &Description) -> Self {
        Self::around(Box::new(Nowhere(folder.join(GAPS))), description, 0)
    }

    /// Begins the gap map of a folder.
    ///
    /// # Errors
    /// The error of the disk; then the gap map is removed if the disk permits it, so that it is not taken for another
    /// recorder's.
    pub(crate) fn create(
        store: &dyn Store,
        folder: &Path,
        description: &Description,
    ) -> Result<Self, StoreError> {
        let path = folder.join(GAPS);
        let mut file = Self::around(store.create(&path)?, description, 0);
        if let Err(error) = file.write_lines(&[]) {
            drop(store.remove(&path));
            return Err(error);
        }
        Ok(file)
    }

    /// Opens a gap map whose first `intact_bytes` are intact lines; cuts the rest.
    ///
    /// # Errors
    /// The error of the disk.
    pub(crate) fn resume(
        store: &dyn Store,
        folder: &Path,
        description: &Description,
        intact_bytes: u64,
    ) -> Result<Self, StoreError> {
        let mut file = Self::around(store.append_to(&folder.join(GAPS))?, description, intact_bytes);
        file.file.truncate(intact_bytes)?;
        file.write_lines(&[])?;
        Ok(file)
    }

    fn around(file: Box<dyn Appendable>, description: &Description, bytes: u64) -> Self {
        let (pending, written, unsettled) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        let head = Line::head_of(description);
        let (fault, is_torn) = (None, false);
        let (synced_bytes, written_bytes) = (bytes, bytes);
        Self { file, head, synced_bytes, written_bytes, pending, written, unsettled, fault, is_torn }
    }

    /// Takes the gaps that waited for this file.
    pub(crate) fn take_over(&mut self, waiting: Self) {
        self.pending.extend(waiting.pending);
        self.unsettled.extend(waiting.unsettled);
    }

    /// Gives every waiting gap another session number: it may be known only once the folder was read.
    pub(crate) fn renumber(&mut self, session: u32) {
        for gaps in [&mut self.pending, &mut self.unsettled] {
            let renumbered = core::mem::take(gaps).into_values().map(|mut gap| {
                gap.key.session = session;
                (gap.key, gap)
            });
            *gaps = renumbered.collect();
        }
    }

    /// Adds a gap, or updates it. Returns a gap that must be dropped if there are too many.
    pub(crate) fn note(&mut self, gap: GapRecord) -> Option<GapRecord> {
        if gap.settled() {
            self.unsettled.remove(&gap.key);
        } else if self.unsettled.len() < MAX_PENDING_GAPS {
            self.unsettled.insert(gap.key, gap.clone());
        }
        self.pending.insert(gap.key, gap);
        (self.pending.len() > MAX_PENDING_GAPS)
            .then(|| self.pending.pop_first())
            .flatten()
            .map(|(_, gap)| gap)
    }

    /// Returns whether no gap waits for evidence.
    pub(crate) fn is_settled(&self) -> bool {
        self.unsettled.is_empty()
    }

    /// Turns unsettled elements into `unexplained`: the recorder ends, and later evidence would not be received (rule
    /// 13, state `cut`).
    pub(crate) fn settle_all(&mut self) {
        for (_, mut gap) in core::mem::take(&mut self.unsettled) {
            gap.unexplained += core::mem::take(&mut gap.unsettled);
            gap.evidence.push(NO_EVIDENCE.to_owned());
            self.pending.insert(gap.key, gap);
        }
    }

    /// Writes lines at once, behind the first line. They are durable after the next sync.
    ///
    /// # Errors
    /// The error of the disk; the file is then cut back.
    pub(crate) fn write_lines(&mut self, lines: &[Line]) -> Result<(), StoreError> {
        let head = (self.written_bytes == 0).then_some(&self.head);
        let mut text: String = head.into_iter().chain(lines).map(Line::encode).collect();
        if text.is_empty() {
            return Ok(());
        }
        self.check_size();
        if core::mem::take(&mut self.is_torn) {
            // The file may end within a line, and its first line may be lost: neither may damage the new lines.
            text = format!("\n{}{text}", self.head.encode());
        }
        if let Err(error) = self.file.append(&[text.as_bytes()]) {
            self.take_back();
            return Err(error);
        }
        self.written_bytes += text.len() as u64;
        Ok(())
    }

    /// Writes the pending gaps.
    ///
    /// # Errors
    /// The error of the disk; then everything is pending again.
    pub(crate) fn write(&mut self) -> Result<(), StoreError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let gaps: Vec<GapRecord> = core::mem::take(&mut self.pending).into_values().collect();
        let lines: Vec<Line> = gaps.iter().cloned().map(|gap| Line::Gap(Box::new(gap))).collect();
        self.written.extend(gaps);
        self.write_lines(&lines)
    }

    /// Checks that the file is still where it was opened.
    ///
    /// # Errors
    /// [`StoreError::Gone`] if it is not.
    pub(crate) fn check_place(&self) -> Result<(), StoreError> {
        self.file.check_place()
    }

    /// Checks whether another program changed the file.
    pub(crate) fn check_size(&mut self) {
        if let Err(error) = self.file.check_size() {
            self.fault = Some(error);
            self.is_torn = true;
        }
    }

    /// Returns the fault of the file, once.
    pub(crate) fn take_fault(&mut self) -> Option<StoreError> {
        self.fault.take()
    }

    /// Returns the durable size of the file, in bytes.
    pub(crate) const fn synced_bytes(&self) -> u64 {
        self.synced_bytes
    }

    /// Returns the file if it has something to sync.
    pub(crate) fn unsynced(&mut self) -> Option<&mut dyn Appendable> {
        (self.written_bytes > self.synced_bytes).then_some(&mut *self.file)
    }

    /// Records that a barrier succeeded.
    pub(crate) fn synced(&mut self) {
        self.synced_bytes = self.written_bytes;
        self.written.clear();
    }

    /// Syncs the file outside a barrier.
    ///
    /// # Errors
    /// The error of the disk; then the written gaps are pending again.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        if let Err(error) = self.file.sync() {
            self.take_back();
            return Err(error);
        }
        self.synced();
        Ok(())
    }

    /// Makes gaps that no barrier confirmed pending again.
    pub(crate) fn take_back(&mut self) {
        // Best effort: remaining lines are intact or torn, and torn ones are detected by their checksum.
        drop(self.file.truncate(self.synced_bytes));
        self.written_bytes = self.synced_bytes;
        for gap in self.written.drain(..) {
            // A newer update of the same gap stays.
            self.pending.entry(gap.key).or_insert(gap);
        }
    }
}

/// Placeholder for a file that the disk refuses for now.
struct Nowhere(PathBuf);

impl Appendable for Nowhere {
    fn append(&mut self, _: &[&[u8]]) -> Result<(), StoreError> {
        self.check_place()
    }

    fn truncate(&mut self, _: u64) -> Result<(), StoreError> {
        self.check_place()
    }

    fn check_place(&self) -> Result<(), StoreError> {
        Err(StoreError::Gone(self.0.clone()))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.check_place()
    }
}
