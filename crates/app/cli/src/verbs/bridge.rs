//! `tallycast bridge`: the bridges of the Python package, by one name; this only finds Python and becomes it.
//!
//! Arguments after the bridge's name belong to the bridge, also `--help`; the bus of the settings is passed on.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use crate::Outcome;
use crate::settings::Sources;

pub(crate) const EXAMPLES: &str = "\
Bridges: epics, mqtt, files, stdin; `tallycast bridge NAME --help` describes each of them.

Examples:
  tallycast bridge epics --pv SWMF:TEMP=lab/temp
  tallycast bridge mqtt --server mqtt://broker:1883 --topic plant/flow=lab/flow
  tallycast bridge files run7.csv=lab/run7
  arecord -t raw -f S16_LE -c 2 -r 48000 | tallycast bridge stdin --dtype i16 --channels 2 --rate 48k lab/sound";

/// The bridges there are, as modules of `tallycast.bridges`.
const BRIDGES: [&str; 4] = ["epics", "mqtt", "files", "stdin"];

/// Variable that names the interpreter; the default is the one next to this command, then the one in `PATH`.
const PYTHON_VARIABLE: &str = "TALLYCAST_PYTHON";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Name of the bridge, then its own arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "BRIDGE [ARGUMENTS]"
    )]
    words: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    let (name, rest) = arguments.words.split_first().expect("clap requires at least one word");
    let name = BRIDGES.into_iter().find(|it| name == it).ok_or_else(|| {
        anyhow::anyhow!("unknown bridge `{}`\nknown bridges: {}", name.to_string_lossy(), BRIDGES.join(", "))
    })?;
    let python = interpreter();
    check_package(&python)?;
    let mut bridge = Command::new(&python);
    bridge.arg("-m").arg(format!("tallycast.bridges.{name}")).args(rest);
    if let Some(bus) = sources.load()?.named_bus()? {
        bridge.env("TALLYCAST_BUS", bus);
    }
    if let Ok(command) = std::env::current_exe() {
        bridge.env("TALLYCAST_BIN", command);
    }
    // Replaces this process by the bridge, so that signals and exit code are its own; returns only on failure.
    Err(anyhow::anyhow!("{} cannot be run: {}", python.display(), bridge.exec()))
}

/// Returns the interpreter that most likely has the package: a wheel installs this command next to it.
fn interpreter() -> PathBuf {
    let named = std::env::var_os(PYTHON_VARIABLE).map(PathBuf::from);
    let beside = || {
        let command = std::env::current_exe().ok()?;
        Some(command.with_file_name("python3")).filter(|python| python.is_file())
    };
    named.or_else(beside).unwrap_or_else(|| PathBuf::from("python3"))
}

fn check_package(python: &Path) -> anyhow::Result<()> {
    const IS_MISSING: &str =
        "import importlib.util, sys; sys.exit(importlib.util.find_spec('tallycast') is None)";
    let found = Command::new(python).args(["-c", IS_MISSING]).stdin(Stdio::null()).status();
    match found {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => anyhow::bail!(
            "{python} does not find the package `tallycast`, which contains the bridges\n\
             build its wheel in a checkout (cargo xtask wheel) and install it: {python} -m pip install target/wheels/tallycast-*.whl; \
             or name another interpreter with {PYTHON_VARIABLE}",
            python = python.display()
        ),
        Err(error) => anyhow::bail!(
            "{} cannot be run: {error}\ninstall Python 3.10 or newer, or name an interpreter with {PYTHON_VARIABLE}",
            python.display()
        ),
    }
}
