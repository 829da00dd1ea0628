//! `cargo xtask bench NAME`: one optimised measurement: a binary of the package in `instruments/peers`, or a separate
//! package outside the workspace in `instruments/peers/NAME`, so that its reference implementations are built only for a
//! measurement. `python` is a program in Python.

pub(crate) mod measured;
mod python;

use crate::Verdict;
use crate::setup::{self, Need};
use crate::workspace::{Metadata, Package, cargo, root};
use anyhow::{Context, bail, ensure};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Folder of the measurements.
const PEERS: &str = "instruments/peers";

/// Measurements beside programs that a set-up may install, each with what it needs; it leaves out what stays missing.
const NEEDS: &[(&str, &[Need])] = &[("wan", &[Need::NetworkTools, Need::Srt, Need::Rist])];

/// Options of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Name of the measurement, such as `net`.
    name: String,
    /// Print rows, one JSON object per line, instead of a table.
    #[arg(long)]
    json: bool,
    /// Take fewer runs if the measurement can, for trying; do not quote such figures.
    #[arg(long)]
    quick: bool,
    /// Measure only the cases whose names contain this, if the measurement can.
    #[arg(long)]
    only: Option<String>,
    /// Store the rows in docs/reference/measured/NAME.jsonl, and rewrite docs/reference/measured.md from them.
    #[arg(long, conflicts_with_all = ["json", "quick"])]
    keep: bool,
}

/// Becomes the measurement, and returns only if that is not possible; or runs it, and keeps its rows.
pub(crate) fn run(options: &Options) -> anyhow::Result<Verdict> {
    let metadata = Metadata::load()?;
    let Some(peers) = metadata.package_in(PEERS) else {
        bail!("this checkout has no benchmarks: the package {PEERS}/ does not exist");
    };
    for (_, needs) in NEEDS.iter().filter(|(name, _)| *name == options.name) {
        setup::prepare(needs);
    }
    let mut command = if options.name == python::NAME {
        python::prepared(&metadata.target_directory)?
    } else {
        prepared(&options.name, peers, &metadata)?
    };
    command.args(options.json.then_some("--json")).args(options.quick.then_some("--quick"));
    if let Some(only) = &options.only {
        command.args(["--only", only]);
    }
    if options.keep {
        let output = command.arg("--json").stderr(Stdio::inherit()).output();
        let output = output.with_context(|| format!("cannot start {}", options.name))?;
        ensure!(output.status.success(), "{} failed: no figures are kept", options.name);
        measured::keep(&options.name, &String::from_utf8(output.stdout)?)?;
        return Ok(Verdict::Fine);
    }
    Err(command.exec()).with_context(|| format!("cannot start {}", options.name))
}

/// Builds a measurement in Rust; returns the command to run.
fn prepared(name: &str, peers: &Package, metadata: &Metadata) -> anyhow::Result<Command> {
    let (binaries, standalone) = (binaries(peers), standalone_benches()?);
    let mut build = cargo();
    let built = metadata.target_directory.join("release");
    let mut command = Command::new(built.join(name));
    if binaries.contains(&name) {
        build.args(["build", "--release", "--package", &peers.name, "--package", "tallycast-cli"]);
        command.arg("--command").arg(built.join("tallycast"));
    } else if standalone.iter().any(|bench| bench == name) {
        build.args(["build", "--release", "--manifest-path", &standalone_manifest(name), "--target-dir"]);
        build.arg(&metadata.target_directory);
    } else {
        let names: Vec<&str> =
            binaries.into_iter().chain(standalone.iter().map(String::as_str)).chain([python::NAME]).collect();
        bail!("unknown benchmark `{name}`; there are: {}", names.join(", "));
    }
    setup::run_said(&mut build, "building what is measured (the first time takes minutes)")?;
    Ok(command)
}

/// Returns the measurements in their own workspaces: `instruments/peers/NAME`, whose binary is `NAME`.
fn standalone_benches() -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root().join(PEERS)).with_context(|| format!("cannot read {PEERS}/"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if root().join(standalone_manifest(&name)).is_file() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn standalone_manifest(name: &str) -> String {
    format!("{PEERS}/{name}/Cargo.toml")
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
