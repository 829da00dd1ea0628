//! The demo's cast: which processes there are, and the command line of each.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use source::signals::CATALOGUE;

use super::children::{Children, Role};

/// The archive's folder within the demo's.
pub(super) const ARCHIVE: &str = "archive";

/// Streams beside the recorded signals, with what `pub` is told.
const OTHERS: [&[&str]; 4] = [
    &["--host", "cpu"],
    &["--host", "udp"],
    &["test/sine", "--wave", "sine", "--rate", "1k", "--channels", "2", "--frequency", "2", "--unit", "V"],
    &[
        "test/chirp",
        "--wave",
        "chirp",
        "--rate",
        "200k",
        "--channels",
        "2",
        "--dtype",
        "f4",
        "--frequency",
        "100",
    ],
];

/// What all processes of a demo share.
pub(super) struct Scene<'a> {
    pub(super) bus: &'a str,
    pub(super) listen: SocketAddr,
    pub(super) folder: &'a Path,
    pub(super) control: &'a Path,
    pub(super) patience: Duration,
}

impl Scene<'_> {
    /// Starts the monitor server and the recorder.
    pub(super) fn start_readers(&self, children: &mut Children) -> anyhow::Result<()> {
        let patience = format!("{}s", self.patience.as_secs());
        let archive = self.folder.join(ARCHIVE).display().to_string();
        let (listen, control) = (self.listen.to_string(), self.control.display().to_string());
        let shared = ["--json", "--with-parent", "--patience", &patience, "--bus", self.bus];
        let monitor =
            ["monitor", "**", "--listen", &listen, "--archive", &archive, "--inject-control", &control];
        children.start(Role::Monitor, "monitor", monitor.iter().chain(&shared))?;
        let recorder = ["record", "**", "--run", "demo", "--root", &archive];
        children.start(Role::Recorder, "recorder", recorder.iter().chain(&shared))
    }

    /// Starts a publisher for each recorded signal that is present, for this host, and for the test waveforms.
    pub(super) fn start_sources(&self, children: &mut Children) -> anyhow::Result<()> {
        let control = self.control.display().to_string();
        let shared = ["--json", "--with-parent", "--inject-control", &control, "--bus", self.bus];
        for signal in CATALOGUE.iter().filter(|signal| signal.is_present()) {
            let arguments = ["pub", "--signal", signal.name, "--loop"];
            children.start(Role::Source, signal.stream, arguments.iter().chain(&shared))?;
        }
        for words in OTHERS {
            let arguments = ["pub"].iter().chain(words);
            children.start(Role::Source, &words[..2].join(" "), arguments.chain(&shared))?;
        }
        Ok(())
    }
}
