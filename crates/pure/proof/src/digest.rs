//! Digests: of a leaf, of an interval, and the head of the chain over intervals. All are BLAKE3.
//!
//! Each kind has a context of its own (BLAKE3's `derive_key`, BLAKE3 paper §2.3), and each covers the subject, so
//! that no digest can pass for another's.

use core::fmt;

use sample::{Schema, StreamName, UnknownEntries};
use units::Epoch;
use wire::{Description, DescriptionError};

use crate::Grid;

const SUBJECT: &str = "tallycast 1 proof subject";
const LEAF: &str = "tallycast 1 proof leaf";
const INTERVAL: &str = "tallycast 1 proof interval";
const HEAD: &str = "tallycast 1 proof head";
const BEGINNING: &str = "tallycast 1 proof beginning";

/// All contexts, as on the page.
#[cfg(test)]
pub(crate) const CONTEXTS: [&str; 5] = [SUBJECT, LEAF, INTERVAL, HEAD, BEGINNING];

/// A BLAKE3 digest. All zeros stand for a leaf in which nothing was numbered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Digest(pub [u8; 32]);

/// Identity of what is digested: stream, schema, epoch and grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subject(pub Digest);

/// Error: the schema cannot be encoded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the stream cannot be identified in a proof: {0}")]
pub struct DigestError(#[from] DescriptionError);

impl Digest {
    /// Stands for a leaf in which nothing was numbered.
    pub const NOTHING: Self = Self([0; 32]);
}

impl Subject {
    /// Identifies a stream in one epoch. Schema entries of later versions are not covered: archives do not keep them.
    ///
    /// # Errors
    /// [`DigestError`] if a text of the schema is too long for a description.
    pub fn new(name: &StreamName, schema: &Schema, epoch: Epoch, grid: Grid) -> Result<Self, DigestError> {
        let mut schema = Schema { unknown: UnknownEntries::new(), ..schema.clone() };
        schema.channels.iter_mut().for_each(|channel| channel.unknown.clear());
        let (station, unknown) = (String::new(), UnknownEntries::new());
        let description = Description { name: name.clone(), schema, report_port: 0, station, unknown };
        let mut hasher = blake3::Hasher::new_derive_key(SUBJECT);
        hasher.update(&epoch.start_ns.to_le_bytes());
        hasher.update(&epoch.incarnation.to_le_bytes());
        hasher.update(&grid.leaf_elements().to_le_bytes());
        hasher.update(&[u8::try_from(grid.leaves()).expect("at most eight leaves")]);
        hasher.update(&description.encode()?);
        Ok(Self(finish(&hasher)))
    }

    /// Returns the head of a chain before its first interval.
    #[must_use]
    pub fn beginning(&self) -> Digest {
        finish(self.hasher(BEGINNING))
    }

    /// Returns the head of the chain behind an interval.
    #[must_use]
    pub fn head(&self, before: Digest, interval: u64, leaves: &[Digest]) -> Digest {
        let mut hasher = self.hasher(INTERVAL);
        hasher.update(&interval.to_le_bytes());
        for leaf in leaves {
            hasher.update(&leaf.0);
        }
        let interval = finish(&hasher);
        let mut hasher = self.hasher(HEAD);
        hasher.update(&before.0);
        hasher.update(&interval.0);
        finish(&hasher)
    }

    /// Begins the digest of a leaf.
    pub(crate) fn leaf(&self) -> blake3::Hasher {
        self.hasher(LEAF)
    }

    fn hasher(&self, context: &str) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(&self.0.0);
        hasher
    }
}

/// Returns the digest of what was hashed.
pub(crate) fn finish(hasher: impl core::borrow::Borrow<blake3::Hasher>) -> Digest {
    Digest(*hasher.borrow().finalize().as_bytes())
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}
