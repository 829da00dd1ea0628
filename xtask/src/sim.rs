//! `cargo xtask sim`: the stream machine and the reliable transport with any number of seeds.

use crate::workspace::{cargo, root};
use crate::{Verdict, setup};
use anyhow::{Context, bail};
use std::os::unix::process::CommandExt;

/// Options of `cargo xtask sim`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of seeds to run.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// First seed; a failure prints the seed to repeat it with.
    #[arg(long, default_value_t = 0)]
    first: u64,
}

/// Becomes the test that runs the seeds; returns only if that is not possible.
pub(crate) fn run(options: &Options) -> anyhow::Result<Verdict> {
    for test in ["crates/pure/cast/tests/seeds.rs", "crates/pure/udt/tests/seeds.rs"] {
        if !root().join(test).is_file() {
            bail!("the simulation test {test} does not exist");
        }
    }
    setup::say(&format!("{} seeds from {} on, optimised", options.seeds, options.first));
    let mut test = cargo();
    test.args(["test", "--release", "--package", "tallycast-cast", "--package", "tallycast-udt"]);
    test.args(["--test", "seeds", "--", "--nocapture"]);
    test.env("TALLYCAST_SEEDS", options.seeds.to_string())
        .env("TALLYCAST_FIRST_SEED", options.first.to_string());
    Err(test.exec()).context("cannot start cargo")
}
