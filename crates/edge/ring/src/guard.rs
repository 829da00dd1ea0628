//! The guard by which a writer can spare one reader.

use crate::sync::{Arc, AtomicU64};

/// Progress of one reader, for a writer that would rather wait or refuse than overwrite.
///
/// See [`Ring::guarded_reader`](crate::Ring::guarded_reader). It delays no writer once its reader
/// is gone.
pub struct Guard {
    pub(crate) position: Arc<AtomicU64>,
}
