//! `cargo xtask fuzz`: every fuzz target for a while, with coverage, on a stable toolchain.
//!
//! cargo-fuzz does more (AddressSanitizer, minimising) and needs a nightly toolchain; `fuzz/README.md` describes
//! both. Inputs that a target has found stay in its corpus below `fuzz/corpus`; failing inputs below
//! `fuzz/artifacts`.

use crate::Verdict;
use crate::setup::{self, Need};
use crate::workspace::{cargo, root};
use anyhow::{Context, bail};
use std::path::Path;
use std::process::Command;

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these targets, such as `datagram`.
    #[arg(value_name = "TARGET")]
    only: Vec<String>,
    /// Duration of each target's run. Units: seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

/// Manifest of the targets.
const MANIFEST: &str = "fuzz/Cargo.toml";
const TARGETS: &str = "fuzz/fuzz_targets";
/// Separate build folder, because these flags require a full rebuild.
const BUILT: &str = "target/fuzz";
/// Coverage instrumentation for libFuzzer.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Cdebug-assertions";
/// Memory limit of a target in MiB: libFuzzer ends one that exceeds it, as a failure.
const MEMORY_LIMIT: &str = "-rss_limit_mb=2048";

/// Builds the targets and runs one after the other; continues after a failure.
pub(crate) fn run(options: &Options) -> anyhow::Result<Verdict> {
    let preparation = setup::prepare(&[Need::CxxCompiler]);
    if let Some(reason) = preparation.obstacle(&[Need::CxxCompiler]) {
        bail!("{reason}");
    }
    let targets = chosen(&options.only, all()?)?;
    // With an explicit target, the flags do not apply to build scripts and macros, which could not link with libFuzzer.
    let machine = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = cargo();
    build.args([
        "build",
        "--release",
        "--manifest-path",
        MANIFEST,
        "--target-dir",
        BUILT,
        "--target",
        &machine,
    ]);
    build.env("RUSTFLAGS", FLAGS);
    for target in &targets {
        build.args(["--bin", target]);
    }
    setup::run_said(&mut build, "building the fuzz targets, optimised")?;
    let built = root().join(BUILT).join(machine).join("release");
    let mut failed = 0;
    for target in &targets {
        let is_fine = fuzz(&built, target, options.seconds)?;
        failed += usize::from(!is_fine);
    }
    println!("{} passed, {failed} failed, 0 skipped", targets.len() - failed);
    Ok(if failed == 0 { Verdict::Fine } else { Verdict::FoundSomething })
}

/// Runs one target; returns whether it passed.
fn fuzz(built: &Path, target: &str, seconds: u32) -> anyhow::Result<bool> {
    let (corpus, artifacts) = (format!("fuzz/corpus/{target}"), format!("fuzz/artifacts/{target}"));
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(root().join(folder)).with_context(|| format!("cannot create {folder}"))?;
    }
    println!("{target}: {seconds} s");
    let mut command = Command::new(built.join(target));
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-artifact_prefix={artifacts}/"));
    command.args([MEMORY_LIMIT, "-print_final_stats=1", &corpus]).current_dir(root());
    let status = command.status().with_context(|| format!("cannot start {target}"))?;
    if !status.success() {
        println!("FAILED: {target}: {status}; what broke it lies in {artifacts}");
    }
    Ok(status.success())
}

/// Returns the names of all targets, in order.
fn all() -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in root().join(TARGETS).read_dir().with_context(|| format!("cannot read {TARGETS}"))? {
        let path = entry?.path();
        let name = path.file_stem().filter(|_| path.extension().is_some_and(|ending| ending == "rs"));
        names.extend(name.map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// Returns the requested targets: all if none is named.
fn chosen(only: &[String], all: Vec<String>) -> anyhow::Result<Vec<String>> {
    if let Some(unknown) = only.iter().find(|name| !all.contains(name)) {
        bail!("unknown target `{unknown}`; there are {}", all.join(", "));
    }
    Ok(all.into_iter().filter(|name| only.is_empty() || only.contains(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_targets_run_unless_some_are_named() {
        let all = all().unwrap();
        assert!(all.iter().any(|name| name == "datagram"));
        assert_eq!(chosen(&[], all.clone()).unwrap(), all);
        assert_eq!(chosen(&["datagram".to_owned()], all.clone()).unwrap(), ["datagram"]);
        assert!(chosen(&["datagrams".to_owned()], all).unwrap_err().to_string().contains("`datagrams`"));
    }
}
