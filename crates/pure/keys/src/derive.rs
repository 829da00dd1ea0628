//! Derivation of keys from a group secret, so that no two of them ever encrypt with the same nonce.
//!
//! A nonce is a datagram's number or counter. It may repeat where two processes number alike: after a fork, for a
//! standby, from the snapshot of a virtual machine. Each process therefore draws a random [`Salt`], and its keys are
//! derived from it; tallies, which differ by destination under one number, have a key per destination.
//!
//! Source: HKDF with SHA-256 (RFC 5869): extract with the salt, expand with [`Stretch`] and [`Purpose`];
//! `docs/protocol/security.md`, "Keys".

use ring::hkdf;
use units::{Epoch, StreamId};

use crate::aead::DatagramKey;
use crate::{GroupSecret, Suite};

/// Beginning of the input of every derivation: the protocol and the version of its keys.
const DOMAIN: &[u8] = b"tallycast 1";

/// 128 random bits that a sending process draws at its start, again for every epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Salt(pub [u8; 16]);

/// The keys that one process derives from one group secret: the extracted key of HKDF.
#[derive(Debug)]
pub struct GroupKey {
    extracted: hkdf::Prk,
    suite: Suite,
}

/// A stream's epoch, for whose length a key is valid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stretch {
    /// The stream.
    pub stream: StreamId,
    /// The publisher's epoch.
    pub epoch: Epoch,
}

/// The datagrams that a key is for. No nonce repeats among the datagrams of one purpose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Purpose {
    /// Data and descriptors of an epoch: each number once, the same bytes for every destination. The nonce is the
    /// number.
    Stream(Stretch),
    /// Tallies of an epoch for the destination with this index. The nonce is the number.
    Tally(Stretch, u16),
    /// Datagrams without a number: reports, requests and announcements. The nonce is the sender's counter.
    Unnumbered,
}

impl GroupKey {
    /// Extracts the keys of the process that drew `salt`.
    #[must_use]
    pub fn new(secret: &GroupSecret, salt: Salt) -> Self {
        let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, &salt.0).extract(secret.secret.reveal());
        Self { extracted, suite: secret.suite }
    }

    /// Derives the key for one purpose.
    ///
    /// Cost: one HMAC and the expansion of the cipher's key, about a microsecond.
    #[must_use]
    pub fn derive(&self, purpose: Purpose) -> DatagramKey {
        let mut info = [0_u8; DOMAIN.len() + 28];
        let (domain, fields) = info.split_at_mut(DOMAIN.len());
        domain.copy_from_slice(DOMAIN);
        let (label, stretch, destination) = match purpose {
            Purpose::Stream(stretch) => (1, Some(stretch), 0),
            Purpose::Tally(stretch, destination) => (2, Some(stretch), destination),
            Purpose::Unnumbered => (3, None, 0),
        };
        fields[0] = label;
        if let Some(Stretch { stream, epoch }) = stretch {
            fields[1..9].copy_from_slice(&stream.0.to_le_bytes());
            fields[9..17].copy_from_slice(&epoch.start_ns.to_le_bytes());
            fields[17..25].copy_from_slice(&epoch.incarnation.to_le_bytes());
        }
        fields[25..27].copy_from_slice(&destination.to_le_bytes());
        fields[27] = self.suite.code();
        let info = [&info[..]];
        let expanded = self.extracted.expand(&info, self.suite.algorithm());
        DatagramKey::new(expanded.expect("a key is shorter than HKDF's limit of 255 blocks"))
    }
}

/// Returns the check of a secret that datagrams carry, so that a reader with another secret under the same token is
/// told so, and a forgery without knowledge of it costs no derivation.
pub(crate) fn key_check(secret: &crate::Secret) -> u32 {
    struct FourBytes;
    impl hkdf::KeyType for FourBytes {
        fn len(&self) -> usize {
            4
        }
    }
    let mut check = [0; 4];
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(secret.reveal());
    let expanded =
        extracted.expand(&[DOMAIN, b" key check"], FourBytes).expect("four bytes are within the limit");
    expanded.fill(&mut check).expect("the length is that of the key type");
    u32::from_le_bytes(check)
}

#[cfg(test)]
mod tests {
    use zeroize::Zeroizing;

    use super::*;
    use crate::{Secret, Token};

    fn secret(first: u8, suite: Suite) -> GroupSecret {
        let secret = Secret::new(Zeroizing::new([first; 32]));
        GroupSecret::new(Token(7), suite, secret, units::WallTime::default())
    }

    fn sealed(secret: &GroupSecret, salt: u8, purpose: Purpose) -> Vec<u8> {
        let mut payload = [0; 4];
        let tag = GroupKey::new(secret, Salt([salt; 16])).derive(purpose).seal(5, b"header", &mut payload);
        [&payload[..], &tag].concat()
    }

    #[test]
    fn keys_differ_by_secret_suite_salt_purpose_stream_epoch_and_destination() {
        let stretch = |stream, start_ns, incarnation| Stretch {
            stream: StreamId(stream),
            epoch: Epoch { start_ns, incarnation },
        };
        let base = stretch(1, 2, 3);
        let purposes = [
            Purpose::Stream(base),
            Purpose::Stream(stretch(2, 2, 3)),
            Purpose::Stream(stretch(1, 3, 3)),
            Purpose::Stream(stretch(1, 2, 4)),
            Purpose::Tally(base, 0),
            Purpose::Tally(base, 1),
            Purpose::Tally(base, 256),
            Purpose::Unnumbered,
        ];
        let mut seen = std::collections::BTreeSet::new();
        for suite in Suite::ALL {
            for (first, salt) in [(1, 1), (1, 2), (2, 1)] {
                for purpose in purposes {
                    assert!(seen.insert(sealed(&secret(first, suite), salt, purpose)), "{purpose:?}");
                }
            }
        }
        assert_eq!(seen.len(), 2 * 3 * purposes.len());
    }

    #[test]
    fn derived_keys_keep_their_bytes() {
        let stretch = Stretch { stream: StreamId(1), epoch: Epoch { start_ns: 2, incarnation: 3 } };
        let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let of = |suite, purpose| hex(sealed(&secret(1, suite), 9, purpose));
        let seen = [
            of(Suite::Aes256Gcm, Purpose::Stream(stretch)),
            of(Suite::Aes256Gcm, Purpose::Tally(stretch, 1)),
            of(Suite::ChaCha20Poly1305, Purpose::Unnumbered),
        ];
        // Computed once with an implementation of another author (Python: hmac, cryptography).
        let expected = [
            "90037a56654a9f5d75258ddbdefcbf6206eeea16",
            "7f2c924a3f4c2dc3aaae0e24166d0cec72dec58b",
            "6363d5ca49b706c577cf2ea027fdcf93b2d55226",
        ];
        assert_eq!(seen, expected);
        assert_eq!(secret(1, Suite::Aes256Gcm).key_check(), 588_653_313);
    }
}
