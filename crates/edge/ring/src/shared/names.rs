//! Names of a ring's files.

use std::path::{Path, PathBuf};

/// Extension of a ring's file name.
pub const RING_EXTENSION: &str = "ring";
/// Extension of the name of the page at which its readers wait.
pub const WAIT_EXTENSION: &str = "wait";
/// Size of that page: the smallest that the kernel maps.
pub(super) const WAIT_BYTES: usize = 4096;

/// Returns the path of the page next to a ring.
pub(super) fn wait_path(path: &Path) -> PathBuf {
    path.with_extension(WAIT_EXTENSION)
}
