//! Keys of secured connections: the private key of this end, and the public keys of its peers.

use std::collections::BTreeSet;

use ::keys::{PublicKey, Secret, Suite};
use engine::PortKeys;
use zeroize::Zeroizing;

use super::Error;

/// Keys with which every datagram of a connection is encrypted and authenticated, in both directions.
///
/// A listener with keys accepts the listed peers only. A connection needs to know which of them it connects to. Without keys, datagrams are as those of UDT's library: in the clear.
#[derive(Clone, Debug)]
pub struct Keys {
    /// Private X25519 key of this end.
    pub key: Secret,
    /// Public keys of the peers.
    pub peers: BTreeSet<PublicKey>,
    /// Listed peer to which connections are made; without it the only one.
    pub responder: Option<PublicKey>,
    /// Cipher of the connections that this end makes; a listener answers with the one that it is asked for.
    pub suite: Suite,
}

/// Purpose of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    Connect,
    Listen,
}

impl Keys {
    /// Returns the public key of this end, which its peers list.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        noise::public_key(&self.key)
    }

    /// Returns the keys of a new port, with random bits of its own.
    pub(super) fn of_port(&self, purpose: Purpose) -> Result<PortKeys, Error> {
        let mut seed = Zeroizing::new([0; 32]);
        getrandom::fill(&mut seed[..]).map_err(|error| Error::Random(error.into()))?;
        let responder = match (purpose, self.responder, self.peers.len()) {
            (Purpose::Listen, _, 0) => return Err(Error::NoPeers),
            (Purpose::Listen, ..) => None,
            (Purpose::Connect, Some(named), _) if self.peers.contains(&named) => Some(named),
            (Purpose::Connect, Some(_), _) => return Err(Error::UnlistedPeer),
            (Purpose::Connect, None, 1) => self.peers.first().copied(),
            (Purpose::Connect, None, listed) => return Err(Error::WhichPeer { listed }),
        };
        let (key, peers, suite) = (self.key.clone(), self.peers.clone(), self.suite);
        Ok(PortKeys { key, peers, responder, suite, seed: Secret::new(seed) })
    }
}
