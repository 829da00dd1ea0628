//! Writer of the signed statements: they wait here until they are written and a barrier made them durable.
//!
//! The file is created with the first statement: a stream without proof has none. Losing a statement loses no
//! sample, so nothing here gives samples up.

use std::collections::VecDeque;
use std::path::Path;

use crate::Description;
use crate::error::ArchiveError;
use crate::folders::STATEMENTS;
use crate::statements::{Statements, head_line, statement_line};
use crate::store::{Appendable, Store, StoreError, set_aside};

/// Maximum number of statements kept while they cannot be written; of those the oldest are dropped: later ones
/// continue their chain.
const MAX_PENDING: usize = 4_096;

/// Signed statements of one epoch, open for appending.
#[derive(Default)]
pub(crate) struct StatementFile {
    file: Option<Box<dyn Appendable>>,
    written_bytes: u64,
    synced_bytes: u64,
    /// Statements that are not yet in the file.
    pending: VecDeque<Vec<u8>>,
    /// Statements that are in the file but not yet durable.
    written: Vec<Vec<u8>>,
    /// The newest statement: publishers repeat the last one.
    newest: Vec<u8>,
    /// Number of statements taken and refused since this recorder began.
    taken: u64,
    refused: u64,
    /// True while writing fails and this was reported.
    is_failing: bool,
}

impl StatementFile {
    /// Adds a statement; `most` is the number that an honest publisher can have made by now. Returns whether it is kept.
    pub(crate) fn note(&mut self, statement: &[u8], most: u64) -> bool {
        if self.newest == statement {
            return true;
        }
        if self.taken >= most {
            self.refused += 1;
            return false;
        }
        self.taken += 1;
        self.newest = statement.to_vec();
        self.pending.push_back(statement.to_vec());
        if self.pending.len() > MAX_PENDING {
            self.pending.pop_front();
        }
        true
    }

    /// Returns the number of statements that were not kept.
    pub(crate) const fn refused(&self) -> u64 {
        self.refused
    }

    /// Writes the pending statements; they are durable after the next barrier.
    ///
    /// # Errors
    /// The error of the disk, or of a file that is there already; then they are pending again.
    pub(crate) fn write(
        &mut self,
        store: &dyn Store,
        folder: &Path,
        description: &Description,
    ) -> Result<(), ArchiveError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        if self.file.as_ref().is_some_and(|file| file.check_place().is_err()) {
            self.take_back();
            self.file = None;
        }
        if self.file.is_none() {
            self.open(store, folder, description)?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut text: String = self.pending.iter().map(|statement| statement_line(statement)).collect();
        if file.check_size().is_err() {
            // Another program changed it: the file may end within a line.
            text.insert(0, '\n');
        }
        self.written.extend(self.pending.drain(..));
        if let Err(error) = file.append(&[text.as_bytes()]) {
            self.take_back();
            return Err(error.into());
        }
        self.written_bytes += text.len() as u64;
        self.is_failing = false;
        Ok(())
    }

    /// Opens the file of an earlier recorder behind its complete lines, or begins one.
    fn open(
        &mut self,
        store: &dyn Store,
        folder: &Path,
        description: &Description,
    ) -> Result<(), ArchiveError> {
        let path = folder.join(STATEMENTS);
        let found = Statements::read(store, folder, description)?;
        let opened = match store.append_to(&path) {
            Err(StoreError::Misplaced { .. }) => {
                set_aside(store, &path)?;
                None
            }
            Err(StoreError::NotFound(_)) => None,
            Ok(file) => Some(file),
            Err(error) => return Err(error.into()),
        };
        let (mut file, mut bytes) = match opened {
            Some(mut file) => {
                file.truncate(found.kept_bytes)?;
                (file, found.kept_bytes)
            }
            None => (store.create(&path)?, 0),
        };
        if bytes == 0 {
            let head = head_line(description);
            file.append(&[head.as_bytes()])?;
            bytes = head.len() as u64;
        }
        file.sync()?;
        store.sync_folder(folder)?;
        (self.synced_bytes, self.written_bytes) = (bytes, bytes);
        self.file = Some(file);
        Ok(())
    }

    /// Returns the file if it has something to sync.
    pub(crate) fn unsynced(&mut self) -> Option<&mut dyn Appendable> {
        let is_unsynced = self.written_bytes > self.synced_bytes;
        match &mut self.file {
            Some(file) if is_unsynced => Some(&mut **file),
            _ => None,
        }
    }

    /// Records that a barrier succeeded.
    pub(crate) fn synced(&mut self) {
        self.synced_bytes = self.written_bytes;
        self.written.clear();
    }

    /// Syncs the file outside a barrier.
    ///
    /// # Errors
    /// The error of the disk; then the written statements are pending again.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        if let Some(file) = self.unsynced()
            && let Err(error) = file.sync()
        {
            self.take_back();
            return Err(error);
        }
        self.synced();
        Ok(())
    }

    /// Makes statements that no barrier confirmed pending again.
    pub(crate) fn take_back(&mut self) {
        if let Some(file) = &mut self.file {
            // Best effort: remaining lines are intact or torn, and torn ones are detected by their checksum.
            drop(file.truncate(self.synced_bytes));
        }
        self.written_bytes = self.synced_bytes;
        let behind = core::mem::take(&mut self.pending);
        self.pending = self.written.drain(..).chain(behind).collect();
        let excess = self.pending.len().saturating_sub(MAX_PENDING);
        self.pending.drain(..excess);
    }

    /// Returns the fault of a failed write, the first time in a row.
    pub(crate) fn take_fault(&mut self, error: &ArchiveError) -> Option<String> {
        let is_new = !core::mem::replace(&mut self.is_failing, true);
        is_new.then(|| format!("signed statements cannot be written: {}", error.first_line()))
    }
}
