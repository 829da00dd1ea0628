//! Keys of a station for its connections of steering, from the file that also has its keys of the bus.

use std::collections::BTreeMap;
use std::path::Path;

use access::PrincipalName;
use keys::PublicKey;
use sys::clock;

use super::SteeringError;
use crate::udt::{Keys, Suite};

/// Keys of a station, and the names of its peers.
#[derive(Clone, Debug)]
pub struct StationKeys {
    /// Its own key, and the peers that its file lists.
    pub keys: Keys,
    /// The peers' names, for the rules of access.
    pub names: BTreeMap<PublicKey, PrincipalName>,
}

impl StationKeys {
    /// Reads a station's file of keys.
    ///
    /// # Errors
    /// [`SteeringError::Keys`] if it cannot be used, or lists no peer.
    pub fn read(path: &Path) -> Result<Self, SteeringError> {
        let failed = |error: String| SteeringError::Keys { path: path.to_owned(), error };
        let file = keyring::read_station(path).map_err(|error| failed(error.to_string()))?;
        let own = file.membership(clock::wall()).map_err(|error| failed(error.to_string()))?.exchange;
        let names = file.peers().iter().filter_map(|peer| Some((peer.exchange, peer.name.parse().ok()?)));
        let peers = file.peers().iter().map(|peer| peer.exchange).collect();
        let keys = Keys { key: own, peers, responder: None, suite: Suite::default() };
        if keys.peers.is_empty() {
            let add = format!("list one with: tallycast keys peers {} PEER.keys", path.display());
            return Err(failed(format!("it lists no peer of steering\n{add}")));
        }
        Ok(Self { keys, names: names.collect() })
    }

    /// Returns the keys for an app that its stream names by its public key, hexadecimal.
    ///
    /// # Errors
    /// [`SteeringError::Unlisted`] if the file does not list it.
    pub fn to(&self, peer: &str) -> Result<Keys, SteeringError> {
        let listed = peer.parse().ok().filter(|key| self.keys.peers.contains(key));
        let responder = Some(listed.ok_or_else(|| SteeringError::Unlisted(peer.to_owned()))?);
        Ok(Keys { responder, ..self.keys.clone() })
    }
}
