//! Many seeds of one scenario, and a message that repeats the one that failed.

use core::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds to run, and the command that repeats one of them.
#[derive(Clone, Copy, Debug)]
pub struct Seeds<'a> {
    /// The first seed.
    pub first: u64,
    /// Number of seeds.
    pub count: u64,
    /// Command that repeats one seed; `{seed}` is its placeholder.
    pub repeat: &'a str,
}

/// Runs a scenario with one seed after the other, until one panics.
///
/// # Panics
/// If the scenario does, with its message, the seed, and the command that repeats it.
pub fn each(seeds: &Seeds<'_>, mut scene: impl FnMut(u64)) {
    for seed in seeds.first..seeds.first.saturating_add(seeds.count) {
        // The scenario's captured state is not used after its panic: the run ends here.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| scene(seed))) {
            let repeat = seeds.repeat.replace("{seed}", &seed.to_string());
            panic!("seed {seed} failed: {}\nrepeat it with: {repeat}", message(&*payload));
        }
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: Seeds<'_> = Seeds { first: 5, count: 4, repeat: "cargo xtask sim --first {seed} --seeds 1" };

    #[test]
    fn every_seed_is_run_once() {
        let mut seen = Vec::new();
        each(&SEEDS, |seed| seen.push(seed));
        assert_eq!(seen, [5, 6, 7, 8]);
    }

    #[test]
    #[should_panic(
        expected = "seed 7 failed: lost 3 of 4\nrepeat it with: cargo xtask sim --first 7 --seeds 1"
    )]
    fn a_failure_names_its_seed_and_how_to_repeat_it() {
        each(&SEEDS, |seed| assert!(seed != 7, "lost 3 of 4"));
    }
}
