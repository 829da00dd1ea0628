//! `tallycast bridge`: the bridges of the Python package, by one name; this only finds Python and becomes it.
//!
//! Arguments after the bridge's name belong to the bridge, also `--help`; the bus of the settings is passed on.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;

use clap::Args;

use crate::Outcome;
use crate::python::Python;
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
    let mut bridge = Python::find("the bridges")?.module(&format!("tallycast.bridges.{name}"));
    bridge.args(rest);
    if let Some(bus) = sources.load()?.named_bus()? {
        bridge.env("TALLYCAST_BUS", bus);
    }
    // Replaces this process by the bridge, so that signals and exit code are its own; returns only on failure.
    let refused = bridge.exec();
    Err(anyhow::anyhow!("{} cannot be run: {refused}", bridge.get_program().display()))
}
