//! `cargo xtask data`: downloads the recorded signals that cannot be shipped into `data/external`.
//!
//! They are in ordinary Python and Debian packages; `data/extract.py` extracts them. Nothing here ever fails a
//! build: missing recordings are reported, with the command to get them, and the program works without them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// Packages that contain the recordings or read their formats, pinned: the files must always be the same.
///
/// `setuptools` below 81 still has the `pkg_resources` that this version of obspy imports.
const PYTHON_PACKAGES: [&str; 4] = ["numpy<2", "obspy==1.4.2", "soundfile", "setuptools<81"];
const SOUND_PACKAGE: &str = "sound-theme-freedesktop";

/// Fetches and extracts the recordings; reports failures.
///
/// # Errors
/// Only if the project's own folders cannot be written.
pub fn run() -> Result<()> {
    let root = project_root()?;
    let work = root.join("target/data");
    std::fs::create_dir_all(&work).with_context(|| format!("cannot make {}", work.display()))?;
    let python = match python_with_packages(&work) {
        Ok(python) => python,
        Err(missing) => {
            println!("the recorded signals were not fetched: {missing}");
            println!("without them everything works with the signals that are shipped: ecg, chime");
            return Ok(());
        }
    };
    let sounds = unpacked_sounds(&work);
    if let Err(missing) = &sounds {
        println!("the signal `sound` was not fetched: {missing}");
    }
    let mut extract = Command::new(python);
    extract.arg(root.join("data/extract.py")).arg("--external").arg(root.join("data/external"));
    if let Ok(folder) = sounds {
        extract.arg("--sounds").arg(folder);
    }
    if let Err(failed) = succeed(&mut extract) {
        println!("the recorded signals could not be extracted: {failed}");
    }
    Ok(())
}

fn project_root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    Ok(root.context("xtask is in the project's folder")?.to_owned())
}

/// Creates a virtual environment with the packages, or reuses it; returns its Python.
fn python_with_packages(work: &Path) -> Result<PathBuf, String> {
    let environment = work.join("venv");
    let python = environment.join("bin/python");
    if !python.exists() {
        let way_out = "install Python 3.9 to 3.12 with venv and pip, on Debian: apt install python3-venv";
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&environment))
            .map_err(|failed| format!("{failed}\n{way_out}"))?;
    }
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(PYTHON_PACKAGES);
    succeed(&mut install)?;
    Ok(python)
}

/// Downloads the package of sounds and unpacks it without installing it; returns the folder.
fn unpacked_sounds(work: &Path) -> Result<PathBuf, String> {
    let folder = work.join("sounds");
    if folder.join("usr/share/sounds").is_dir() {
        return Ok(folder);
    }
    succeed(Command::new("apt-get").args(["--quiet", "download", SOUND_PACKAGE]).current_dir(work))?;
    let downloaded = std::fs::read_dir(work).map_err(|error| error.to_string())?.flatten();
    let is_package = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "deb");
    let package = downloaded.map(|entry| entry.path()).find(is_package);
    let package = package.ok_or_else(|| format!("apt-get brought no {SOUND_PACKAGE}"))?;
    succeed(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&folder))?;
    Ok(folder)
}

/// Runs a command; an error names the command and its last line of output.
fn succeed(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("`{program}` cannot be run: {error}"))?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let last = told.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(format!("`{program}` ended with {}: {last}", output.status))
}
