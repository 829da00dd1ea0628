//! The peers that a station's file lists for connections, which follow the file while a port is open.

use std::path::{Path, PathBuf};

use keys::{Peer, PublicKey};
use sys::private_file::{self, Stamp};

use crate::{KeyringError, read_station};

/// A station's list of peers and the file that it comes from.
#[derive(Debug)]
pub struct PeerList {
    path: PathBuf,
    authority: PublicKey,
    stamp: Stamp,
    /// What was told of the file, if it was refused.
    told: Option<String>,
}

impl PeerList {
    /// Reads the file of a station.
    ///
    /// # Errors
    /// [`KeyringError`]
    pub fn open(path: &Path) -> Result<(Self, Vec<Peer>), KeyringError> {
        let stamp = private_file::stamp(path);
        let file = read_station(path)?;
        let list = Self { path: path.to_owned(), authority: file.authority(), stamp, told: None };
        Ok((list, file.peers().to_vec()))
    }

    /// Returns the peers if the file has changed; to be called several times a second.
    ///
    /// # Errors
    /// If the changed file is wrong, gone, or of another laboratory, once for each reason: the list before stays.
    pub fn refresh(&mut self) -> Result<Option<Vec<Peer>>, KeyringError> {
        let stamp = private_file::stamp(&self.path);
        // What is wrong with a file may pass without a change of it, as the modes of its folder do.
        if stamp == self.stamp && self.told.is_none() {
            return Ok(None);
        }
        let read = read_station(&self.path);
        // A file that is being written is read at the next look.
        if private_file::stamp(&self.path) != stamp {
            return Ok(None);
        }
        self.stamp = stamp;
        let checked = read.and_then(|file| {
            if file.authority() == self.authority {
                return Ok(file.peers().to_vec());
            }
            let laboratory = file.laboratory().to_owned();
            Err(KeyringError::OtherLaboratory { path: self.path.clone(), laboratory })
        });
        match checked {
            Ok(peers) => {
                self.told = None;
                Ok(Some(peers))
            }
            Err(error) => {
                let is_told = self.told.replace(error.to_string()) == Some(error.to_string());
                if is_told { Ok(None) } else { Err(error) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sys::private_file::replace;

    use super::*;
    use crate::create_station;
    use crate::file::tests::{authority, station};

    fn listing(file: &keys::KeyFile, names: &[&str]) -> String {
        let mut file = file.clone();
        for name in names {
            file.list_peer(Peer { name: (*name).to_owned(), exchange: PublicKey([9; 32]) });
        }
        file.to_text().to_string()
    }

    #[test]
    fn a_changed_list_is_followed_and_a_bad_file_keeps_the_old_one_and_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daq-1.keys");
        let authority = authority();
        let file = station(&authority);
        create_station(&path, &file).unwrap();
        replace(&path, &listing(&file, &["daq-2"])).unwrap();
        let (mut list, peers) = PeerList::open(&path).unwrap();
        assert_eq!((peers.len(), list.refresh().unwrap()), (1, None));
        replace(&path, "format = 1\n").unwrap();
        assert!(matches!(list.refresh(), Err(KeyringError::Content { .. })));
        assert_eq!(list.refresh().unwrap(), None, "told once");
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(list.refresh(), Err(KeyringError::Missing(_))));
        let other = station(&crate::file::tests::authority());
        replace(&path, &listing(&other, &["daq-2", "daq-3"])).unwrap();
        assert!(matches!(list.refresh(), Err(KeyringError::OtherLaboratory { .. })));
        replace(&path, &file.to_text()).unwrap();
        assert_eq!(list.refresh().unwrap(), Some(Vec::new()), "the last peer was taken out");
        assert_eq!(list.refresh().unwrap(), None);
    }
}
