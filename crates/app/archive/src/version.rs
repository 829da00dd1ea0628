//! The version of an archive's files.

/// Only version so far of segments, in either form, and of accounts.
pub(crate) const VERSION: u64 = 1;
/// Key of the version in the schema of a segment.
pub(crate) const VERSION_KEY: &str = "tallycast.version";
