//! `cargo xtask wheel`: the Python package as people install it, including the command and the page.
//!
//! `python/build_backend.py` decides the content of a wheel; this module does its set-up and calls it.

use crate::setup::{self, Need, WHEEL, run_said, say};
use crate::workspace::{relative, root};
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folder of the packages.
const WHEELS: &str = "target/wheels";

/// Options of `cargo xtask wheel`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// cargo's profile for the module and the command, such as dev.
    #[arg(long, default_value = "release")]
    profile: String,
    /// Build a source distribution as well, with the built page: it needs Rust, but not Node.
    #[arg(long)]
    sdist: bool,
    /// Install the wheel into this virtual environment, in place of an existing one.
    #[arg(long, value_name = "VENV")]
    install: Option<PathBuf>,
}

/// Builds, prints the built files on standard output, and installs the wheel if requested.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let preparation = setup::prepare(&[Need::PythonWheel, Need::Page]);
    if let Some(obstacle) = preparation.obstacle(&[Need::PythonWheel]) {
        bail!("cannot build the wheel: {obstacle}");
    }
    if let Some(obstacle) = preparation.obstacle(&[Need::Page]) {
        say(&format!("the wheel is built without the page: {obstacle}"));
    }
    if options.sdist {
        run_said(&mut front_end(&["--sdist"]), "packing the source distribution")?;
        println!("{}", described(&newest(".tar.gz")?)?);
    }
    let profile = format!("-Cprofile={}", options.profile);
    let build = &mut front_end(&["--wheel", "-Cportable=true", &profile]);
    run_said(build, &format!("building the wheel ({})", options.profile))?;
    let wheel = newest(".whl")?;
    println!("{}", described(&wheel)?);
    options.install.as_deref().map_or(Ok(()), |environment| install(&wheel, environment))
}

/// Returns a command of the standard front end, in the environment with our back end's requirements.
fn front_end(arguments: &[&str]) -> Command {
    let mut command = WHEEL.python(&["-m", "build", "--no-isolation", "--outdir", WHEELS]);
    command.args(arguments);
    command
}

/// Returns the newest package with this extension.
fn newest(ending: &str) -> anyhow::Result<PathBuf> {
    let mut found = Vec::new();
    for entry in root().join(WHEELS).read_dir().with_context(|| format!("{WHEELS} does not exist"))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with(ending) {
            found.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    found.sort();
    found.pop().map(|(_, path)| path).with_context(|| format!("no {ending} in {WHEELS}"))
}

fn described(package: &Path) -> anyhow::Result<String> {
    let megabytes = package.metadata()?.len() as f64 / 1e6;
    Ok(format!("{} ({megabytes:.1} MB)", relative(package)))
}

/// Installs the wheel into a virtual environment without its dependencies: they are installed, or left to the user.
fn install(wheel: &Path, environment: &Path) -> anyhow::Result<()> {
    let mut pip = Command::new(root().join(environment).join("bin/python"));
    pip.args(["-m", "pip", "install", "-q", "--disable-pip-version-check", "--force-reinstall", "--no-deps"]);
    pip.arg(relative(wheel)).current_dir(root());
    run_said(&mut pip, &format!("installing the wheel into {}", environment.display()))
}
