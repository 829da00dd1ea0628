//! The stream machine under random scenes: the law after every input, the log's word at the end.
//!
//! Every scene is all of its seed. `TALLYCAST_SEEDS` says how many are run (200 unless told otherwise),
//! `TALLYCAST_FIRST_SEED` where they begin; a failure prints the command that repeats its seed, and the run
//! ends with a line that says how many scenes saw which effect, so that nobody believes in an effect that
//! never happened.

mod effects;
#[expect(dead_code, reason = "the scenes of the other test use more of the line-up")]
mod line;

use effects::{Effect, Effects, play};

/// From so many seeds on, every effect must have happened.
const ENOUGH_SEEDS: u64 = 200;

#[test]
fn the_law_holds_and_the_log_agrees_under_random_scenes() {
    let seeds = sim::seeds::Seeds {
        first: number("TALLYCAST_FIRST_SEED", 0),
        count: number("TALLYCAST_SEEDS", ENOUGH_SEEDS),
        repeat: "cargo xtask sim --seeds 1 --first {seed}",
    };
    let seen = played(&seeds);
    println!("{} seeds from {} on; scenes that saw: {seen}", seeds.count, seeds.first);
    if seeds.count >= ENOUGH_SEEDS {
        for effect in Effect::ALL {
            assert!(seen.count(effect) > 0, "no scene of {} saw {}", seeds.count, effect.name());
        }
    }
}

/// Plays the scenes on all processors: each is all of its seed, so it does not matter which plays it.
#[expect(clippy::disallowed_methods, reason = "who plays the scenes may have threads; the machine has none")]
fn played(seeds: &sim::seeds::Seeds<'_>) -> Effects {
    let shares = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let cut = |share: u64| seeds.first + seeds.count * share / shares;
    let play_share = |share: u64| {
        let mut seen = Effects::default();
        let seeds = sim::seeds::Seeds { first: cut(share), count: cut(share + 1) - cut(share), ..*seeds };
        sim::seeds::each(&seeds, |seed| seen.add(&play(seed)));
        seen
    };
    std::thread::scope(|scope| {
        let players: Vec<_> = (0..shares).map(|share| scope.spawn(move || play_share(share))).collect();
        let mut seen = Effects::default();
        for player in players {
            seen.add(&player.join().unwrap_or_else(|failure| std::panic::resume_unwind(failure)));
        }
        seen
    })
}

/// Scenes that once showed a defect, of the machine or of what it is compared with.
const REPORTED: [u64; 1] = [
    // Cut between a withheld datagram and the tally that counts it: the count explains another loss before it.
    64_347,
];

#[test]
fn scenes_that_once_failed_hold() {
    for seed in REPORTED {
        play(seed);
    }
}

#[expect(clippy::disallowed_methods, reason = "how many seeds to run is asked of the caller of the tests")]
fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}=`{text}` is not a whole number")),
        Err(_) => default,
    }
}
