//! Busy loops in addition to the tests: competition for the processors, as on any shared machine.
//!
//! They end with [`Load`], and as threads of this process also with Ctrl-C and `kill -9`.

use std::hint::black_box;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Minimum number of loops: on a machine with one processor, tests have a third of it.
const FEWEST: usize = 2;
/// Work between two checks of the end flag: about a tenth of a millisecond.
const STEPS: u64 = 100_000;

/// Busy loops that end with this value.
pub(crate) struct Load {
    is_over: Arc<AtomicBool>,
    loops: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts one loop per processor, two at least.
    pub(crate) fn start() -> Self {
        let count = thread::available_parallelism().map_or(FEWEST, NonZero::get).max(FEWEST);
        let is_over = Arc::new(AtomicBool::new(false));
        let spin = |_| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || work_until(&is_over))
        };
        let loops = (0..count).map(spin).collect();
        println!("under load: {count} busy loops run beside the suites");
        Self { is_over, loops }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Relaxed: the flag publishes no other data.
        self.is_over.store(true, Ordering::Relaxed);
        // A loop cannot panic, and a second panic would hide one of ours.
        self.loops.drain(..).for_each(|it| drop(it.join()));
    }
}

fn work_until(is_over: &AtomicBool) {
    let mut word = 1_u64;
    while !is_over.load(Ordering::Relaxed) {
        word = (0..STEPS).fold(word, |word, step| black_box(word.rotate_left(7) ^ step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loops_end_with_the_load() {
        let load = Load::start();
        assert!(load.loops.len() >= FEWEST);
        let is_over = Arc::downgrade(&load.is_over);
        drop(load);
        assert_eq!(is_over.strong_count(), 0, "a loop still holds it");
    }
}
