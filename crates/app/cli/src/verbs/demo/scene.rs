//! The demo's cast: which processes there are, and the command line of each.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use source::signals::CATALOGUE;

use super::children::{Children, Role};
use crate::messages::LOG_VARIABLE;

/// The archive's folder within the demo's.
pub(super) const ARCHIVE: &str = "archive";
/// The run that is recorded.
pub(super) const RUN: &str = "demo";

/// The readers' processes, each of which must print an account of every stream.
pub(super) const READERS: [&str; 2] = [MONITOR, RECORDER];
const MONITOR: &str = "monitor";
/// A demo runs no graph that was applied at another time, and leaves none behind.
pub(super) const KEEP_NONE: &str = "--no-kept-graph";
const RECORDER: &str = "recorder";
/// What readers under attack log by default: that a datagram was refused is in the demo's report.
const UNDER_ATTACK: &str = "warn,engine::receive::agent=error,engine::control_messages=error";
/// Readers of a secured demo that must get nothing.
pub(super) const OUTSIDERS: [&str; 2] = ["reader without keys", "reader with other keys"];

/// Variable that names the folder of what the processes keep.
pub(super) const STATE_VARIABLE: &str = "XDG_STATE_HOME";

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
    /// The bus of the publishers, and that of the readers.
    pub(super) publishers: &'a str,
    pub(super) readers: &'a str,
    /// The file of settings that the demo was started with, if a flag named one.
    pub(super) settings: Option<&'a Path>,
    /// Name of this site's station, if there is another site.
    pub(super) station: Option<&'a str>,
    pub(super) listen: SocketAddr,
    pub(super) folder: &'a Path,
    pub(super) control: &'a Path,
    /// The monitor's folder of access files, unless the user's own rules hold.
    pub(super) access: Option<&'a Path>,
    /// Folder of the monitor's own certificate authority, if its page is encrypted.
    pub(super) tls: Option<&'a Path>,
    pub(super) patience: Duration,
}

impl Scene<'_> {
    /// Starts the monitor server and the recorder.
    pub(super) fn start_readers(&self, children: &mut Children) -> anyhow::Result<()> {
        let patience = format!("{}s", self.patience.as_secs());
        let archive = self.folder.join(ARCHIVE).display().to_string();
        let (listen, control) = (self.listen.to_string(), self.control.display().to_string());
        let shared = self.shared(self.readers);
        let shared = shared.iter().map(String::as_str).chain(["--patience", &patience]);
        let monitor = [
            "monitor",
            "**",
            "--listen",
            &listen,
            "--archive",
            &archive,
            "--inject-control",
            &control,
            KEEP_NONE,
        ];
        let access = self.access.map(|folder| folder.display().to_string());
        let access = access.iter().flat_map(|folder| ["--access", folder]);
        let tls = self.tls.iter().flat_map(|_| ["--tls", "auto"]);
        let monitor = monitor.into_iter().chain(access).chain(tls).chain(shared.clone());
        let state = self.state();
        let mut variables = vec![(STATE_VARIABLE, state.as_os_str())];
        if self.tls.is_some() && std::env::var_os(LOG_VARIABLE).is_none() {
            variables.push((LOG_VARIABLE, OsStr::new(UNDER_ATTACK)));
        }
        children.start_with(Role::Monitor, MONITOR, monitor, &variables)?;
        let recorder = ["record", "**", "--run", RUN, "--archive", &archive];
        children.start_with(Role::Recorder, RECORDER, recorder.into_iter().chain(shared), &variables)
    }

    /// Starts a publisher for each recorded signal that is present, for this host, and for the test waveforms.
    pub(super) fn start_sources(&self, children: &mut Children) -> anyhow::Result<()> {
        let control = self.control.display().to_string();
        let shared = self.shared(self.publishers);
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

    /// Starts the readers that must get nothing, each on a bus of its own.
    pub(super) fn start_outsiders(&self, buses: [&str; 2], children: &mut Children) -> anyhow::Result<()> {
        for (name, bus) in OUTSIDERS.into_iter().zip(buses) {
            let shared = self.shared(bus);
            let arguments = ["sub", "**", "--reader", "outsider"].into_iter();
            children.start(Role::Outsider, name, arguments.chain(shared.iter().map(String::as_str)))?;
        }
        Ok(())
    }

    /// Returns the folder of what the processes keep: a demo neither shows nor changes that of the user's own.
    pub(super) fn state(&self) -> PathBuf {
        self.tls.map_or_else(|| self.folder.join("state"), Path::to_path_buf)
    }

    /// Returns the arguments common to all children.
    pub(super) fn shared(&self, bus: &str) -> Vec<String> {
        let mut shared = ["--json", "--with-parent", "--bus", bus].map(str::to_owned).to_vec();
        if let Some(settings) = self.settings {
            shared.extend(["--config".to_owned(), settings.display().to_string()]);
        }
        shared.extend(self.station.iter().flat_map(|name| ["--station", name]).map(str::to_owned));
        shared
    }
}
