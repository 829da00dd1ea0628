//! The page's switch for planted loss: a small file that the publishers of a demo follow.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use monitor::InjectControl;

use crate::quantity::Probability;

/// The file, and what was written into it last.
pub(super) struct InjectFile {
    path: PathBuf,
    said: Mutex<f64>,
}

impl InjectFile {
    /// Opens the file and keeps its value; creates it if missing.
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        let said = match std::fs::read_to_string(path) {
            Ok(text) => text.trim().parse().unwrap_or_default(),
            Err(_) => Probability::default(),
        };
        let file = Self { path: path.to_owned(), said: Mutex::new(said.0) };
        file.write(said.0)?;
        Ok(file)
    }

    /// Replaces the file atomically, so that no reader sees half a number.
    fn write(&self, probability: f64) -> std::io::Result<()> {
        let draft = self.path.with_extension("draft");
        std::fs::write(&draft, probability.to_string())?;
        std::fs::rename(&draft, &self.path)
    }
}

impl InjectControl for InjectFile {
    fn set(&self, probability: f64) -> Result<(), String> {
        // Held while writing, so that the file has the latest value.
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        self.write(probability).map_err(|error| format!("{}: {error}", self.path.display()))?;
        *said = probability;
        Ok(())
    }

    fn get(&self) -> f64 {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_in_the_file_and_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inject");
        let file = InjectFile::open(&path).unwrap();
        assert_eq!(file.get(), 0.0);
        file.set(0.01).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "0.01");
        assert_eq!(InjectFile::open(&path).unwrap().get(), 0.01);
    }
}
