//! Recorded signals by name: the shipped ones, and those that `cargo xtask data` fetches.
//!
//! The shipped ones are part of the program, so that a demonstration works in any folder; the others are searched in
//! the folders of [`folders`]. `data/README.md` has the origin and licence of each.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use sample::StreamName;

use crate::{NpyArray, Recording, Source, SourceError, open_file};

/// Maximum number of folders above the program that are searched for `data/external`: a test's program is three
/// levels deep.
const MAX_ANCESTORS: usize = 6;

/// Recorded signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    /// Name of the signal.
    pub name: &'static str,
    /// Stream name suggested for it.
    pub stream: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// True if it is part of the program.
    pub shipped: bool,
}

/// Every recorded signal, the shipped ones first.
pub const CATALOGUE: [Signal; 7] = [
    shipped("ecg", "signal/ecg", "electrocardiogram, 5 min at 360 Hz, mV"),
    shipped("chime", "signal/chime", "a chime, stereo, 1 s at 44.1 kHz"),
    fetched("seismo", "signal/seismo", "earthquake, three components, 30 s at 100 Hz"),
    fetched("seismo-gaps", "signal/seismo-gaps", "seismogram with three real gaps, 4.5 min at 200 Hz"),
    fetched("seismo-long", "signal/seismo-long", "seismogram, 5.5 min at 100 Hz"),
    fetched("infrasound", "signal/infrasound", "infrasound station, 7.7 min at 20 Hz"),
    fetched("sound", "signal/sound", "alarm clock, stereo, 6 s at 48 kHz"),
];

/// Reason why a signal is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignalError {
    /// No signal has this name.
    #[error("unknown recorded signal `{asked}`; known are {}", names())]
    Unknown {
        /// Requested name.
        asked: String,
    },
    /// The signal was not fetched yet.
    #[error(
        "the signal `{name}` is not on this machine: its licence does not allow shipping it\n\
         fetch it with `cargo xtask data`, or set its folder with TALLYCAST_DATA"
    )]
    NotFetched {
        /// Name of the signal.
        name: &'static str,
    },
    /// Its file is damaged.
    #[error(transparent)]
    Source(#[from] SourceError),
}

const ECG: (&[u8], &str) =
    (include_bytes!("../../../../data/ecg.npy"), include_str!("../../../../data/ecg.toml"));
const CHIME: (&[u8], &str) =
    (include_bytes!("../../../../data/chime.npy"), include_str!("../../../../data/chime.toml"));

const fn shipped(name: &'static str, stream: &'static str, about: &'static str) -> Signal {
    Signal { name, stream, about, shipped: true }
}

const fn fetched(name: &'static str, stream: &'static str, about: &'static str) -> Signal {
    Signal { name, stream, about, shipped: false }
}

impl Signal {
    /// Returns whether the signal can be opened on this machine.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.shipped || self.path().is_some()
    }

    /// Returns the path of a fetched signal, if it was fetched.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        let file = format!("{}.npy", self.name);
        folders().into_iter().map(|folder| folder.join(&file)).find(|path| path.is_file())
    }

    /// Opens the signal.
    ///
    /// # Errors
    /// [`SignalError::NotFetched`] if it is not on this machine; [`SignalError::Source`] if its file is damaged.
    ///
    /// # Panics
    /// Never: the names in the catalogue are stream names.
    pub fn open(&self) -> Result<Box<dyn Source>, SignalError> {
        let stream: StreamName = self.stream.parse().expect("a name of the catalogue");
        let embedded = match self.name {
            "ecg" => Some(ECG),
            "chime" => Some(CHIME),
            _ => None,
        };
        if let Some((bytes, sidecar)) = embedded {
            let array = NpyArray::open(Cursor::new(bytes)).map_err(SourceError::from)?;
            return Ok(Box::new(Recording::read(array, sidecar, &stream)?));
        }
        let path = self.path().ok_or(SignalError::NotFetched { name: self.name })?;
        let options = crate::FileOptions { name: Some(stream), ..crate::FileOptions::default() };
        Ok(Box::new(open_file(path, &options)?))
    }
}

/// Returns the signal with a name.
///
/// # Errors
/// [`SignalError::Unknown`] with the known names.
pub fn find(name: &str) -> Result<Signal, SignalError> {
    let found = CATALOGUE.into_iter().find(|signal| signal.name == name);
    found.ok_or_else(|| SignalError::Unknown { asked: name.to_owned() })
}

/// Opens the signal with a name.
///
/// # Errors
/// Every variant of [`SignalError`].
pub fn open(name: &str) -> Result<Box<dyn Source>, SignalError> {
    find(name)?.open()
}

/// Returns the folders that are searched for fetched signals, in this order.
///
/// `TALLYCAST_DATA` if it is set; `data/external` in the folders above the program, where `cargo xtask data` puts
/// them; `share/tallycast` next to the program's folder.
#[must_use]
pub fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        std::env::var_os("TALLYCAST_DATA").map(PathBuf::from).into_iter().collect();
    let Ok(program) = std::env::current_exe() else { return folders };
    let above = program.ancestors().skip(1).take(MAX_ANCESTORS);
    folders.extend(above.map(|folder| folder.join("data/external")));
    folders.extend(program.parent().and_then(Path::parent).map(|prefix| prefix.join("share/tallycast")));
    folders
}

fn names() -> String {
    CATALOGUE.map(|signal| signal.name).join(", ")
}
