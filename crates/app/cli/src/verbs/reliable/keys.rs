//! Keys of secured connections, as given on the command line of `send`, `recv` and `bench`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, anyhow, bail};
use base64ct::{Base64, Encoding};
use clap::Args;
use keyring::{KeyringError, PeerList};
use keys::{MAX_KEY_FILE_BYTES, Peer};
use sys::private_file::{self, FileError, Privacy};
use tallycast::udt::{Address, Keys, PublicKey, Secret, Suite};
use zeroize::Zeroizing;

/// Largest file with nothing but a key: in base64 it has 44 characters and an end of line.
const MAX_BARE_BYTES: usize = 64;

/// Keys of this end and of its peers.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct KeyArguments {
    /// Encrypt and authenticate with this end's private key: the station's file of keys, or a file with 32 bytes in base64 that only its owner may read
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// With --key: public key of a peer, in base64 or hexadecimal, or its name in the file of keys; recv and bench -s accept listed peers only, once for each
    #[arg(long = "peer", value_name = "KEY|NAME", requires = "key")]
    peers: Vec<NamedPeer>,
}

/// A peer by its key, or by its name in this station's file of keys.
#[derive(Clone, PartialEq, Eq, Debug)]
enum NamedPeer {
    Key(PublicKey),
    Name(String),
}

/// What a file of keys has for connections.
struct OwnKey {
    key: Secret,
    peers: Vec<Peer>,
}

impl KeyArguments {
    /// Makes those of a file that lists all peers.
    pub(crate) const fn of_file(path: PathBuf) -> Self {
        Self { key: Some(path), peers: Vec::new() }
    }

    /// Returns the keys of a connection with this address; none if it is in the clear.
    pub(crate) fn at(&self, address: &Address) -> anyhow::Result<Option<Keys>> {
        let responder = address.peer().map(public_key).transpose()?;
        if self.key.is_none() {
            return if responder.is_none() {
                Ok(None)
            } else {
                Err(anyhow!("peer= in the address needs a key\nadd --key FILE"))
            };
        }
        if address.is_clear() {
            return Ok(None);
        }
        let keys = self.listed()?;
        // The one named here is meant, whomever else the file lists.
        let suite = address.suite()?.unwrap_or_default();
        Ok(keys.map(|keys| Keys { responder: responder.or(keys.responder), suite, ..keys }))
    }

    /// Returns the key of this end and its peers: those named here, and all that its file lists.
    pub(crate) fn listed(&self) -> anyhow::Result<Option<Keys>> {
        let Some(path) = &self.key else { return Ok(None) };
        let own = read(path)?;
        let named = self.peers.iter().map(|peer| own.find(peer, path)).collect::<anyhow::Result<Vec<_>>>()?;
        let listed = own.peers.iter().map(|peer| peer.exchange);
        let responder = if let [one] = &named[..] { Some(*one) } else { None };
        let keys = Keys {
            peers: named.into_iter().chain(listed).collect(),
            key: own.key,
            responder,
            suite: Suite::default(),
        };
        if keys.peers.is_empty() {
            bail!(
                "--key needs the key of a peer\nadd --peer; this end's own public key is {}",
                shown(&keys.public())
            );
        }
        Ok(Some(keys))
    }

    /// Returns the list of peers that follows the station's file, and who is in it now; none if the key has a file of its
    /// own.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn follow(&self) -> anyhow::Result<Option<(FollowedPeers, BTreeSet<PublicKey>)>> {
        let Some(path) = self.station()? else { return Ok(None) };
        let named = self.peers.iter().filter_map(|peer| match peer {
            NamedPeer::Key(key) => Some(*key),
            // It is one of the file's.
            NamedPeer::Name(_) => None,
        });
        let (list, peers) = PeerList::open(path)?;
        let followed = FollowedPeers { named: named.collect(), list };
        let listed = followed.with_named(&peers);
        Ok(Some((followed, listed)))
    }

    /// Returns the key of this end and the one peer that it calls: the one named here, else the only one of its file.
    pub(crate) fn calling(&self) -> anyhow::Result<Option<Keys>> {
        let Some(keys) = self.listed()? else { return Ok(None) };
        let only = keys.peers.first().copied().filter(|_| keys.peers.len() == 1);
        let Some(responder) = keys.responder.or(only) else {
            bail!("{} are listed\nname the one to call with --peer, once", keys.peers.len());
        };
        Ok(Some(Keys { peers: [responder].into(), responder: Some(responder), ..keys }))
    }

    /// Returns the file of the station that has the key; none if the key has a file of its own.
    ///
    /// # Errors
    /// If there is no such file.
    pub(crate) fn station(&self) -> anyhow::Result<Option<&Path>> {
        let Some(path) = &self.key else { return Ok(None) };
        let size_bytes = fs::metadata(path).map_err(|error| anyhow!("{}: {error}", path.display()))?.len();
        Ok((size_bytes > MAX_BARE_BYTES as u64).then_some(path))
    }

    /// Returns whether there is a key.
    pub(crate) const fn is_some(&self) -> bool {
        self.key.is_some()
    }
}

/// Peers named on the command line, and those of a station's file, which may change.
#[derive(Debug)]
pub(crate) struct FollowedPeers {
    named: BTreeSet<PublicKey>,
    list: PeerList,
}

impl FollowedPeers {
    /// Returns all peers if the file has changed.
    ///
    /// # Errors
    /// If the changed file cannot be used: once, and the peers before stay listed.
    pub(crate) fn refresh(&mut self) -> Result<Option<BTreeSet<PublicKey>>, KeyringError> {
        let peers = self.list.refresh()?;
        Ok(peers.map(|peers| self.with_named(&peers)))
    }

    fn with_named(&self, peers: &[Peer]) -> BTreeSet<PublicKey> {
        peers.iter().map(|peer| peer.exchange).chain(self.named.iter().copied()).collect()
    }
}

impl OwnKey {
    fn find(&self, peer: &NamedPeer, path: &Path) -> anyhow::Result<PublicKey> {
        let name = match peer {
            NamedPeer::Key(key) => return Ok(*key),
            NamedPeer::Name(name) => name,
        };
        let found = self.peers.iter().find(|it| it.name == *name).map(|it| it.exchange);
        found.with_context(|| {
            format!(
                "{} lists no peer `{name}`, and a public key is 32 bytes: 44 characters in base64, or 64 hexadecimal digits \
                 as in `keys show`\nlist it with: tallycast keys peers {0} {name}.keys",
                path.display()
            )
        })
    }
}

impl FromStr for NamedPeer {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        Ok(public_key(text).map_or_else(|_| Self::Name(text.to_owned()), Self::Key))
    }
}

/// Returns a public key as it is given with `--peer`.
pub(crate) fn shown(key: &PublicKey) -> String {
    Base64::encode_string(&key.0)
}

fn public_key(text: &str) -> anyhow::Result<PublicKey> {
    let mut bytes = [0; 32];
    let key = if decode(text, &mut bytes) { Some(PublicKey(bytes)) } else { text.parse().ok() };
    key.ok_or_else(|| {
        anyhow!(
            "a public key is 32 bytes: 44 characters in base64, or 64 hexadecimal digits as in `keys show`"
        )
    })
}

/// Reads the private key, and the peers that a station's file of keys lists.
fn read(path: &Path) -> anyhow::Result<OwnKey> {
    forbid_core_dumps();
    let text = private_file::read(path, Privacy::Secret, MAX_KEY_FILE_BYTES);
    let text = match text {
        Ok(text) => text.with_context(|| format!("there is no file of keys {}", path.display()))?,
        // Text in another encoding, such as the 32 bytes themselves, is no key, and is not shown.
        Err(FileError::System { source, .. }) if source.kind() == std::io::ErrorKind::InvalidData => {
            Zeroizing::default()
        }
        Err(error) => return Err(error.into()),
    };
    if text.len() > MAX_BARE_BYTES {
        let file = keyring::read_station(path)?;
        let key = file.membership(sys::clock::wall())?.exchange;
        return Ok(OwnKey { key, peers: file.peers().to_vec() });
    }
    let mut bytes = Zeroizing::new([0; 32]);
    if !decode(text.trim_end(), &mut bytes) {
        bail!(
            "{} is no key: it has 32 bytes in base64, 44 characters in one line\n\
             make one: (umask 077; head -c 32 /dev/urandom | base64 > FILE)",
            path.display()
        );
    }
    Ok(OwnKey { key: Secret::new(bytes), peers: Vec::new() })
}

/// Keeps keys out of core dumps, or says that it cannot.
pub(crate) fn forbid_core_dumps() {
    if let Err(error) = sys::core_dumps::forbid_core_dumps() {
        eprintln!("warning: core dumps of this process cannot be prevented, and may hold keys: {error}");
    }
}

/// Decodes 32 bytes; returns whether the text is just these.
fn decode(text: &str, into: &mut [u8; 32]) -> bool {
    // The decoder wants room for all bytes that 44 characters may have.
    let mut room = Zeroizing::new([0; 33]);
    let is_key = text.len() == 44 && Base64::decode(text, &mut room[..]).is_ok_and(|it| it.len() == 32);
    if is_key {
        into.copy_from_slice(&room[..32]);
    }
    is_key
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(content: &str, mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), content).unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn a_key_is_read_from_a_file_of_its_owner_alone() {
        let text = Base64::encode_string(&[7; 32]);
        for content in [text.clone(), format!("{text}\n")] {
            assert_eq!(*read(file(&content, 0o600).path()).unwrap().key.reveal(), [7; 32]);
        }
        let error = read(file(&text, 0o640).path()).err().unwrap().to_string();
        assert!(error.contains("others may read") && error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn a_stations_file_gives_its_exchange_key_and_a_peer_is_written_either_way() {
        let now = sys::clock::wall();
        let authority = keys::AuthorityFile::new("lab", keyring::random_secret()).unwrap();
        let seeds = [keyring::random_secret(), Secret::new(Zeroizing::new([7; 32]))];
        let validity = now.offset(-1_000_000_000)..now.offset(60_000_000_000);
        let station = keys::StationKeys::new(&authority, "daq-1", seeds, validity).unwrap();
        let (token, suite) = (keyring::random_token(), Suite::default());
        let secret = keys::GroupSecret::new(token, suite, keyring::random_secret(), now);
        let content = keys::KeyFile::new(&authority, station, secret).unwrap().to_text();
        let listed = format!(
            "{}\n[[peer]]\nname = \"daq-2\"\nexchange = \"{}\"\n",
            *content,
            Base64::encode_string(&[9; 32])
        );
        let listing = file(&listed, 0o600);
        let own = read(listing.path()).unwrap();
        assert_eq!((*own.key.reveal(), own.peers[0].exchange), ([7; 32], PublicKey([9; 32])));
        let open = file(&listed, 0o640);
        assert!(read(open.path()).err().unwrap().to_string().contains("chmod 600"));
        let key = Some(listing.path().to_owned());
        let with = |peers: &[&str]| KeyArguments {
            key: key.clone(),
            peers: peers.iter().map(|peer| peer.parse().unwrap()).collect(),
        };
        let called =
            |peers: &[&str]| with(peers).calling().map(|keys| keys.unwrap().peers.into_iter().next());
        assert_eq!(called(&["daq-2"]).unwrap(), Some(PublicKey([9; 32])), "by its name");
        assert_eq!(called(&[]).unwrap(), Some(PublicKey([9; 32])), "the only one");
        let other = shown(&PublicKey([8; 32]));
        assert_eq!(called(&[&other]).unwrap(), Some(PublicKey([8; 32])), "the one named, not the listed one");
        assert_eq!(with(&[&other]).listed().unwrap().unwrap().peers.len(), 2);
        let sent_to = with(&[&other]).at(&"udt://h".parse().unwrap()).unwrap().unwrap().responder;
        assert_eq!(sent_to, Some(PublicKey([8; 32])), "the one named, though the file lists another");
        assert!(called(&[&other, "daq-2"]).unwrap_err().to_string().contains("name the one to call"));
        let unknown = called(&["daq-3"]).unwrap_err().to_string();
        assert!(unknown.contains("lists no peer `daq-3`"), "{unknown}");
        let peer = PublicKey([9; 32]);
        assert_eq!([shown(&peer), peer.to_string()].map(|text| public_key(&text).unwrap()), [peer; 2]);
    }

    #[test]
    fn what_is_no_key_is_refused_without_showing_it() {
        let text = Base64::encode_string(&[7; 32]);
        for content in ["", &text[..43], &format!("{text}A"), &format!("{text}{}", &text[..20])] {
            let error = format!("{:?}", read(file(content, 0o600).path()).err().unwrap());
            assert!(error.contains("is no key") && !error.contains("BwcH"), "{error}");
        }
        assert!(public_key("AAAA").unwrap_err().to_string().contains("44 characters"));
        assert_eq!(shown(&public_key(&text).unwrap()), text);
    }

    #[test]
    fn an_address_that_asks_for_it_is_in_the_clear_and_a_key_without_peers_names_itself() {
        let key = file(&Base64::encode_string(&[7; 32]), 0o600);
        let arguments = KeyArguments { key: Some(key.path().to_owned()), peers: Vec::new() };
        assert!(arguments.at(&"udt://h?secure=off".parse().unwrap()).unwrap().is_none());
        let error = arguments.at(&"udt://h".parse().unwrap()).unwrap_err().to_string();
        let own = shown(
            &Keys {
                key: Secret::new(Zeroizing::new([7; 32])),
                peers: Default::default(),
                responder: None,
                suite: Suite::default(),
            }
            .public(),
        );
        assert!(error.contains(&own), "{error}");
        assert!(KeyArguments::default().at(&"udt://h".parse().unwrap()).unwrap().is_none());
    }
}
