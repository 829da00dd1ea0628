//! Proof at the publisher's end of its ring: samples are digested as they are written, and statements follow them.
//!
//! Here, and not at the sender, because readers of this host get samples that the sender may lose before it numbers
//! them: one signature has to be true for all readers. Cost without proof: a comparison a block.

use std::sync::Arc;

use keyring::Keyring;
use proof::{Author, Grid, MAX_ENTRIES};
use sys::clock;
use wire::MAX_TALLY_STATEMENT_BYTES;

use super::error::SendError;
use super::publication_config::PublicationConfig;
use crate::record::BLOCK_HEAD_BYTES;

/// Room of a statement in the ring, with its head and that of the ring.
pub(super) const STATEMENT_RING_BYTES: usize = MAX_TALLY_STATEMENT_BYTES + 2 * BLOCK_HEAD_BYTES;
/// Number of statements for which a writer keeps room beyond those of its samples: one interval ends wherever the
/// samples do, and the last statement is made when the epoch ends.
const SPARE_STATEMENTS: usize = 2;

/// Size of a ring that holds the statements of many small intervals that are over at once.
pub(super) const MIN_RING_BYTES: usize = 32 * STATEMENT_RING_BYTES;

// One interval of the most leaves fits, whatever the station's name is.
const _: () = assert!(entries(proof::MAX_LEAVES) >= 1);

/// Returns the number of intervals with this many leaves that fit into any statement.
const fn entries(leaves: usize) -> usize {
    let around = proof::FIXED_BYTES + keys::CERTIFICATE_BYTES + keys::SIGNATURE_BYTES;
    (MAX_TALLY_STATEMENT_BYTES - around) / (8 + 32 * leaves)
}

/// The author of a publication's statements, and where its keys are.
pub(super) struct Proving {
    author: Author,
    keyring: Arc<Keyring>,
    interval_bytes: usize,
    entries: usize,
}

impl Proving {
    /// Begins the statements about an epoch; `None` if the publication has none.
    pub(super) fn begin(config: &PublicationConfig) -> Result<Option<Self>, SendError> {
        let Some(keyring) = &config.proof else { return Ok(None) };
        let (name, schema) = (&config.description.name, &config.description.schema);
        let grid = Grid::of(schema);
        let station = Arc::clone(&keyring.membership().station);
        let author = Author::new(station, (name, schema, config.epoch), grid)?;
        let interval = usize::try_from(grid.interval_elements()).unwrap_or(usize::MAX);
        let interval_bytes = interval.saturating_mul(schema.dtype.size_bytes());
        let entries = entries(grid.leaves());
        Ok(Some(Self { author, keyring: Arc::clone(keyring), interval_bytes, entries }))
    }

    /// Takes elements as they were written.
    pub(super) fn take(&mut self, position: u64, bytes: &[u8]) {
        self.author.take(position, bytes);
    }

    /// Records that no element before `position` will be written.
    pub(super) fn pass(&mut self, position: u64) {
        self.author.pass(position);
    }

    /// Ends the epoch at `position`.
    pub(super) fn finish(&mut self, position: u64) {
        self.author.finish(position);
    }

    /// Signs the next statement, with the station's present certificate.
    pub(super) fn statement(&mut self) -> Option<Vec<u8>> {
        if !self.author.is_due() {
            return None;
        }
        self.author.renew(Arc::clone(&self.keyring.membership().station));
        self.author.statement(clock::wall(), MAX_TALLY_STATEMENT_BYTES)
    }

    /// Returns the room in the ring for the statements about `size_bytes` bytes of samples, with what is spared.
    pub(super) fn ring_bytes(&self, size_bytes: usize) -> usize {
        // An author keeps no more entries for statements.
        let intervals = (size_bytes / self.interval_bytes).min(MAX_ENTRIES);
        (intervals.div_ceil(self.entries) + SPARE_STATEMENTS) * STATEMENT_RING_BYTES
    }
}
