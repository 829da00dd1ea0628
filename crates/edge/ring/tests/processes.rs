//! Many processes at one ring, killed at any instruction: no record is torn, every loss is counted.
//!
//! Bounded by a number of kills; `TORTURE_KILLS=20000 cargo test -p tallycast-ring --test processes` runs for
//! minutes. The moments depend on the seed and the scheduler: `SEED` repeats the former.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a scene that cannot be set is a failed test")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use units::Random;

/// Number of kills, which takes a second or two.
const KILLS: u64 = 60;
const READERS: usize = 3;
/// Maximum number of progress bytes that are awaited before a writer is killed.
const MAX_SIGNS: u64 = 40;

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// A process that ends with the test, also when the test fails.
struct Process(Child);

impl Process {
    fn start(arguments: &[&str], input: Stdio) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ring-torture"));
        Self(command.args(arguments).stdin(input).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn writer(path: &Path, run: u64) -> Self {
        Self::start(&["write", path.to_str().unwrap(), &run.to_string()], Stdio::null())
    }

    fn reader(path: &Path) -> Self {
        Self::start(&["read", path.to_str().unwrap()], Stdio::piped())
    }

    fn wait_for_signs(&mut self, count: u64) {
        let mut signs = vec![0; usize::try_from(count).unwrap()];
        self.0.stdout.as_mut().unwrap().read_exact(&mut signs).expect("the writer writes until it is killed");
    }

    /// Ends a reader; returns how many records it read and missed, and of how many runs.
    fn finish(mut self) -> [u64; 3] {
        drop(self.0.stdin.take());
        let mut said = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.0.wait().unwrap().success(), "a reader found something wrong; see its message above");
        let numbers: Vec<u64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn writers_and_readers_killed_at_any_instruction_leave_whole_records_and_true_counts() {
    let (kills, seed) = (number("TORTURE_KILLS", KILLS), number("SEED", u64::from(std::process::id())));
    println!("SEED={seed}");
    let mut random = Random::new(seed);
    let directory = tempfile::Builder::new().prefix("tallycast-torture").tempdir_in("/dev/shm").unwrap();
    let path: PathBuf = directory.path().join("a.ring");
    let mut readers: Vec<_> = (0..READERS).map(|_| Process::reader(&path)).collect();
    for run in 0..kills {
        let mut writer = Process::writer(&path, run);
        writer.wait_for_signs(1 + random.below(MAX_SIGNS));
        if random.below(4) == 0 {
            // A reader that is killed in its sleep, or in the middle of a copy.
            let index = random.below(READERS as u64 - 1) as usize;
            readers[index] = Process::reader(&path);
        }
        writer.0.kill().unwrap();
    }
    // The last reader ran during all of it.
    let survivor = readers.pop().unwrap();
    for reader in readers {
        reader.finish();
    }
    let [read, missed, runs] = survivor.finish();
    println!("the survivor read {read} records of {runs} runs and missed {missed}");
    assert!(read > 0 && runs > 1);

    assert_eq!(ring::shared::sweep(directory.path(), "").unwrap(), 1, "the last one was killed");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
