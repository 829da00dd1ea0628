//! The pulse of a ring: a count by which readers see that the writer's process runs, also while it writes nothing.
//!
//! A writer whose process was killed is recognised by its lock; one whose process is stopped holds the lock, and its count
//! stands still.

use crate::layout::control;
use crate::memory::Memory;
use crate::sync::{Arc, Ordering};

/// Writing end of a ring's count, which any thread of the writer's process may hold.
pub struct Pulse {
    memory: Arc<Memory>,
}

impl Pulse {
    pub(crate) const fn new(memory: Arc<Memory>) -> Self {
        Self { memory }
    }

    /// Counts one beat, which [`Ring::pulse`](crate::Ring::pulse) returns.
    pub fn beat(&self) {
        // Relaxed: readers compare counts, and learn nothing of other words from them.
        self.memory.control(control::PULSE).fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::ring;

    #[test]
    fn a_reader_sees_every_beat_and_none_of_a_writer_that_does_not_count() {
        let (writer, ring) = ring(64);
        assert_eq!(ring.pulse(), 0);
        let pulse = writer.pulse();
        pulse.beat();
        pulse.beat();
        assert_eq!(ring.pulse(), 2);
        drop(writer);
        pulse.beat();
        assert_eq!(ring.pulse(), 3, "the memory stays as long as someone holds it");
    }
}
