//! Path and content of the workspace, as reported by cargo.

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies one folder below the root of the workspace").to_path_buf()
}

/// Returns a command that runs the cargo which started us, from the root of the workspace.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Output of `cargo metadata --no-deps`: the packages of this workspace and their declared dependencies.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

/// One package of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) features: BTreeMap<String, Vec<String>>,
    pub(crate) targets: Vec<Target>,
    metadata: Option<PackageMetadata>,
}

/// One line of a `[dependencies]` table.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Option<String>,
    /// Name in the manifest and in sources, where it is another.
    #[serde(default)]
    pub(crate) rename: Option<String>,
    /// Path of a dependency in this workspace.
    pub(crate) path: Option<PathBuf>,
}

/// A library, binary, test or bench of a package.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
}

#[derive(Debug, Deserialize)]
struct PackageMetadata {
    tallycast: Option<Place>,
}

/// Content of `[package.metadata.tallycast]`: the place of a crate in the architecture.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) floor: String,
    pub(crate) tier: u32,
    /// True if the crate keeps the rules of the floor `pure` on another floor.
    #[serde(default)]
    pub(crate) pure: bool,
}

impl Place {
    /// Returns whether the crate keeps the rules of the floor `pure`.
    pub(crate) fn is_pure(&self) -> bool {
        self.floor == "pure" || self.pure
    }
}

impl Metadata {
    /// Runs cargo metadata; needs no network.
    pub(crate) fn load() -> anyhow::Result<Self> {
        let output = cargo()
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .stderr(Stdio::inherit())
            .output()
            .context("cannot start cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata failed\nrepair the manifest that it names");
        }
        serde_json::from_slice(&output.stdout).context("cannot parse the output of cargo metadata")
    }

    /// Returns the package whose manifest is in `folder`, relative to the root.
    pub(crate) fn package_in(&self, folder: &str) -> Option<&Package> {
        let manifest = root().join(folder).join("Cargo.toml");
        self.packages.iter().find(|package| package.manifest_path == manifest)
    }
}

impl Package {
    /// Returns the place of the crate in the architecture, if declared.
    pub(crate) fn place(&self) -> Option<&Place> {
        self.metadata.as_ref()?.tallycast.as_ref()
    }

    /// Returns the path of the manifest relative to the root, with forward slashes.
    pub(crate) fn manifest(&self) -> String {
        relative(&self.manifest_path)
    }
}

/// Returns `path` relative to the root of the workspace, or unchanged if it is outside.
pub(crate) fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Runs `git` or `date` at the root; returns its output.
pub(crate) fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command.current_dir(root()).output();
    let output = output.context("git and date are needed to say what was tested or measured, and when")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
