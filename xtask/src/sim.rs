//! `cargo xtask sim`: the stream machine and the reliable transport under as many seeds as one likes.

use crate::workspace::{cargo, root};
use crate::{Verdict, setup};
use anyhow::{Context, bail};
use std::os::unix::process::CommandExt;

/// Options of `cargo xtask sim`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many seeds to run.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// The first of them; a failure prints the one to repeat it with.
    #[arg(long, default_value_t = 0)]
    first: u64,
}

/// Becomes the test that runs the seeds; returns only when that is not possible.
pub(crate) fn run(options: &Options) -> anyhow::Result<Verdict> {
    for test in ["crates/pure/cast/tests/seeds.rs", "crates/pure/udt/tests/seeds.rs"] {
        if !root().join(test).is_file() {
            bail!("a test of the simulation, {test}, is not there");
        }
    }
    setup::say(&format!("{} seeds from {} on, optimised", options.seeds, options.first));
    let mut test = cargo();
    test.args(["test", "--release", "--package", "cast", "--package", "udt"]);
    test.args(["--test", "seeds", "--", "--nocapture"]);
    test.env("TALLYCAST_SEEDS", options.seeds.to_string())
        .env("TALLYCAST_FIRST_SEED", options.first.to_string());
    Err(test.exec()).context("cargo could not be started")
}
