//! Keys of secured transfers, as given on the command line.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use base64ct::{Base64, Encoding};
use clap::Args;
use sys::trust::{Purpose, open_trusted};
use tallycast::udt::{Address, Keys, PublicKey, Secret};
use zeroize::Zeroizing;

/// Largest key file: a key in base64 has 44 characters and an end of line.
const MAX_FILE_BYTES: u64 = 64;

/// Keys of this end and of its peers.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct KeyArguments {
    /// Encrypt and authenticate everything with this end's private key: the station's file of keys, or a file with 32 bytes in base64 that only its owner may read
    #[arg(long, value_name = "FILE", conflicts_with = "raw")]
    key: Option<PathBuf>,
    /// With --key: public key of a peer, in base64 or hexadecimal; recv accepts listed peers only, once for each
    #[arg(long = "peer", value_name = "KEY", value_parser = public_key, requires = "key")]
    peers: Vec<PublicKey>,
}

impl KeyArguments {
    /// Returns the keys of a connection with this address; none if it is in the clear.
    pub(crate) fn at(&self, address: &Address) -> anyhow::Result<Option<Keys>> {
        let responder = address.peer().map(public_key).transpose()?;
        let Some(path) = &self.key else {
            return if responder.is_none() {
                Ok(None)
            } else {
                Err(anyhow!("peer= in the address needs a key\nadd --key FILE"))
            };
        };
        if address.is_clear() {
            return Ok(None);
        }
        let (key, listed) = read(path)?;
        let peers = self.peers.iter().copied().chain(listed).collect();
        let keys = Keys { key, peers, responder };
        if keys.peers.is_empty() {
            bail!(
                "--key needs the key of a peer\nadd --peer; this end's own public key is {}",
                shown(&keys.public())
            );
        }
        Ok(Some(keys))
    }

    /// Returns whether there is a key.
    pub(crate) const fn is_some(&self) -> bool {
        self.key.is_some()
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
fn read(path: &Path) -> anyhow::Result<(Secret, Vec<PublicKey>)> {
    if std::fs::metadata(path).is_ok_and(|it| it.len() > MAX_FILE_BYTES) {
        let file = keyring::read_station(path)?;
        let peers = file.peers().iter().map(|peer| peer.exchange).collect();
        return Ok((file.membership(sys::clock::wall())?.exchange, peers));
    }
    read_key(path).map(|key| (key, Vec::new()))
}

/// Reads a file with nothing but a private key.
fn read_key(path: &Path) -> anyhow::Result<Secret> {
    let file = open_trusted(path, Purpose::Read)?;
    let mode = file.metadata().with_context(|| format!("cannot read {}", path.display()))?.mode() & 0o7777;
    if mode & 0o077 != 0 {
        bail!(
            "others may read the key {0} (mode {mode:03o})\nchmod 600 {0}, and replace a key that was seen",
            path.display()
        );
    }
    let mut text = Zeroizing::new(String::with_capacity(2 * MAX_FILE_BYTES as usize));
    let read = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text);
    let mut bytes = Zeroizing::new([0; 32]);
    match read {
        Err(error) if error.kind() != std::io::ErrorKind::InvalidData => {
            Err(error).with_context(|| format!("cannot read {}", path.display()))
        }
        Ok(_) if decode(text.trim_end(), &mut bytes) => Ok(Secret::new(bytes)),
        _ => bail!(
            "{} is no key: it has 32 bytes in base64, 44 characters in one line\n\
             make one: (umask 077; head -c 32 /dev/urandom | base64 > FILE)",
            path.display()
        ),
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
        std::fs::write(file.path(), content).unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn a_key_is_read_from_a_file_of_its_owner_alone() {
        let text = Base64::encode_string(&[7; 32]);
        for content in [text.clone(), format!("{text}\n")] {
            assert_eq!(*read(file(&content, 0o600).path()).unwrap().0.reveal(), [7; 32]);
        }
        let error = read(file(&text, 0o640).path()).unwrap_err().to_string();
        assert!(error.contains("others may read") && error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn a_stations_file_gives_its_exchange_key_and_a_peer_is_written_either_way() {
        let now = sys::clock::wall();
        let authority = keys::AuthorityFile::new("lab", keyring::random_secret()).unwrap();
        let seeds = [keyring::random_secret(), Secret::new(Zeroizing::new([7; 32]))];
        let validity = now.offset(-1_000_000_000)..now.offset(60_000_000_000);
        let station = keys::StationKeys::new(&authority, "daq-1", seeds, validity).unwrap();
        let (token, suite) = (keyring::random_token(), keys::Suite::default());
        let secret = keys::GroupSecret::new(token, suite, keyring::random_secret(), now);
        let content = keys::KeyFile::new(&authority, station, secret).unwrap().to_text();
        let listed = format!(
            "{}\n[[peer]]\nname = \"daq-2\"\nexchange = \"{}\"\n",
            *content,
            Base64::encode_string(&[9; 32])
        );
        let (key, peers) = read(file(&listed, 0o600).path()).unwrap();
        assert_eq!((*key.reveal(), peers), ([7; 32], vec![PublicKey([9; 32])]));
        assert!(read(file(&listed, 0o640).path()).unwrap_err().to_string().contains("others may read"));
        let peer = PublicKey([9; 32]);
        assert_eq!([shown(&peer), peer.to_string()].map(|text| public_key(&text).unwrap()), [peer; 2]);
    }

    #[test]
    fn what_is_no_key_is_refused_without_showing_it() {
        let text = Base64::encode_string(&[7; 32]);
        for content in ["", &text[..43], &format!("{text}A"), &format!("{text}{}", &text[..20])] {
            let error = format!("{:?}", read(file(content, 0o600).path()).unwrap_err());
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
            &Keys { key: Secret::new(Zeroizing::new([7; 32])), peers: Default::default(), responder: None }
                .public(),
        );
        assert!(error.contains(&own), "{error}");
        assert!(KeyArguments::default().at(&"udt://h".parse().unwrap()).unwrap().is_none());
    }
}
