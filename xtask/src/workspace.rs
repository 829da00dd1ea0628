//! Where the workspace lies and what it consists of, as cargo itself tells it.

use anyhow::{Context, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies one folder below the root of the workspace").to_path_buf()
}

/// A command that runs the cargo which started us, from the root of the workspace.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// What `cargo metadata --no-deps` says: the packages of this workspace and their declared dependencies.
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
    /// Set for crates of this workspace.
    pub(crate) path: Option<PathBuf>,
}

/// A library, binary, test or bench of a package.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct PackageMetadata {
    tallycast: Option<Place>,
}

/// `[package.metadata.tallycast]`: where a crate stands in the architecture.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) floor: String,
    pub(crate) tier: u32,
}

impl Metadata {
    /// Asks cargo; needs no network.
    pub(crate) fn load() -> anyhow::Result<Self> {
        let output = cargo()
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .stderr(Stdio::inherit())
            .output()
            .context("cargo metadata could not be started")?;
        if !output.status.success() {
            bail!("cargo metadata failed; the manifest it names has to be mended first");
        }
        serde_json::from_slice(&output.stdout).context("the answer of cargo metadata could not be read")
    }

    /// The package whose manifest lies in `folder`, relative to the root.
    pub(crate) fn package_in(&self, folder: &str) -> Option<&Package> {
        let manifest = root().join(folder).join("Cargo.toml");
        self.packages.iter().find(|package| package.manifest_path == manifest)
    }
}

impl Package {
    /// Where the crate stands in the architecture, if it says so.
    pub(crate) fn place(&self) -> Option<&Place> {
        self.metadata.as_ref()?.tallycast.as_ref()
    }

    /// The path of the manifest relative to the root, with forward slashes.
    pub(crate) fn manifest(&self) -> String {
        relative(&self.manifest_path)
    }
}

/// `path` relative to the root of the workspace, or as it is when it lies elsewhere.
pub(crate) fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
