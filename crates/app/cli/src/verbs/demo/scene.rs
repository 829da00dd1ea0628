//! The demo's cast: which processes there are, and the command line of each.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use source::signals::CATALOGUE;

use super::children::{Children, Role};

/// The archive's folder within the demo's.
pub(super) const ARCHIVE: &str = "archive";

/// The readers' processes, each of which must print an account of every stream.
pub(super) const READERS: [&str; 2] = [MONITOR, RECORDER];
const MONITOR: &str = "monitor";
const RECORDER: &str = "recorder";

/// Streams in addition to the recorded signals, as arguments of `pub`.
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

/// Settings shared by all processes of a demo.
pub(super) struct Scene<'a> {
    pub(super) bus: &'a str,
    /// The file of settings that the demo was started with, if a flag named one.
    pub(super) settings: Option<&'a Path>,
    pub(super) listen: SocketAddr,
    pub(super) folder: &'a Path,
    pub(super) control: &'a Path,
    /// The monitor's folder of access files, unless the user's own rules hold.
    pub(super) access: Option<&'a Path>,
    pub(super) patience: Duration,
}

impl Scene<'_> {
    /// Starts the monitor server and the recorder.
    pub(super) fn start_readers(&self, children: &mut Children) -> anyhow::Result<()> {
        let patience = format!("{}s", self.patience.as_secs());
        let archive = self.folder.join(ARCHIVE).display().to_string();
        let (listen, control) = (self.listen.to_string(), self.control.display().to_string());
        let shared = self.shared();
        let shared = shared.iter().map(String::as_str).chain(["--patience", &patience]);
        let monitor =
            ["monitor", "**", "--listen", &listen, "--archive", &archive, "--inject-control", &control];
        let access = self.access.map(|folder| folder.display().to_string());
        let access = access.iter().flat_map(|folder| ["--access", folder]);
        children.start(Role::Monitor, MONITOR, monitor.into_iter().chain(access).chain(shared.clone()))?;
        let recorder = ["record", "**", "--run", "demo", "--archive", &archive];
        children.start(Role::Recorder, RECORDER, recorder.into_iter().chain(shared))
    }

    /// Starts a publisher for each recorded signal that is present, for this host, and for the test waveforms.
    pub(super) fn start_sources(&self, children: &mut Children) -> anyhow::Result<()> {
        let control = self.control.display().to_string();
        let shared = self.shared();
        let shared = shared.iter().map(String::as_str).chain(["--inject-control", &control]);
        for signal in CATALOGUE.iter().filter(|signal| signal.is_present()) {
            let arguments = ["pub", "--signal", signal.name, "--loop"];
            children.start(Role::Source, signal.stream, arguments.into_iter().chain(shared.clone()))?;
        }
        for words in OTHERS {
            let arguments = ["pub"].iter().chain(words).copied();
            children.start(Role::Source, &words[..2].join(" "), arguments.chain(shared.clone()))?;
        }
        Ok(())
    }

    /// Returns the arguments common to all children.
    fn shared(&self) -> Vec<String> {
        let mut shared = ["--json", "--with-parent", "--bus", self.bus].map(str::to_owned).to_vec();
        if let Some(settings) = self.settings {
            shared.extend(["--config".to_owned(), settings.display().to_string()]);
        }
        shared
    }
}
