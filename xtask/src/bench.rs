//! `cargo xtask bench NAME`: one measurement of the `benches` package, optimised.

use crate::workspace::{Metadata, Package, cargo};
use crate::{Verdict, setup};
use anyhow::{Context, bail};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which one, such as `cast`.
    name: String,
    /// Print rows, one JSON object a line, instead of a table.
    #[arg(long)]
    json: bool,
}

/// Becomes the measurement; returns only when that is not possible.
pub(crate) fn run(options: &Options) -> anyhow::Result<Verdict> {
    let metadata = Metadata::load()?;
    let Some(benches) = metadata.package_in("benches") else {
        bail!("this checkout has no benchmarks: the package benches/ is not there");
    };
    let names = binaries(benches);
    if !names.contains(&options.name.as_str()) {
        bail!("no benchmark is called `{}`; there are: {}", options.name, names.join(", "));
    }
    let mut build = cargo();
    build.args(["build", "--release", "--package", &benches.name, "--package", "tallycast-cli"]);
    setup::run_said(&mut build, "building what is measured (the first time takes minutes)")?;

    let built = metadata.target_directory.join("release");
    let mut command = Command::new(built.join(&options.name));
    command.arg("--command").arg(built.join("tallycast")).args(options.json.then_some("--json"));
    Err(command.exec()).with_context(|| format!("{} could not be started", options.name))
}

fn binaries(package: &Package) -> Vec<&str> {
    let is_binary = |kinds: &[String]| kinds.iter().any(|kind| kind == "bin");
    package
        .targets
        .iter()
        .filter(|target| is_binary(&target.kind))
        .map(|target| target.name.as_str())
        .collect()
}
