//! `cargo xtask demo`: the complete demo for somebody who has just cloned the repository.

use crate::setup::{self, Need, say};
use crate::{Verdict, workspace};
use anyhow::Context;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Options of `cargo xtask demo`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Arguments for `tallycast demo`, such as --headless or --loss 1%.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Sets up, builds, and becomes `tallycast demo`; returns only if that is not possible.
pub(crate) fn run(options: &Options) -> anyhow::Result<Verdict> {
    if workspace::root().join("web/package.json").is_file() {
        let preparation = setup::prepare(&[Need::Page]);
        if let Some(obstacle) = preparation.obstacle(&[Need::Page]) {
            say(&format!("the demo runs without its page: {obstacle}"));
        }
    }
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--package", "tallycast-cli"]);
    setup::run_said(&mut build, "building tallycast (the first time takes minutes)")?;

    let binary = workspace::Metadata::load()?.target_directory.join("release/tallycast");
    // Replacing this process keeps the terminal, Ctrl-C and the exit code.
    let error = Command::new(&binary).arg("demo").args(&options.arguments).exec();
    Err(error).with_context(|| format!("cannot start {}", binary.display()))
}
