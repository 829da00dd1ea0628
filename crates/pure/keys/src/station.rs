//! Identity of stations: signing keys, and certificates by which a laboratory's authority vouches for them.
//!
//! A group secret shows that a sender is a member; a signature shows which one. Signatures are Ed25519 (RFC 8032).
//! Every signature covers the name of its subject, so that none can pass for another.

use core::fmt;
use core::str::FromStr;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use units::WallTime;
use zeroize::Zeroizing;

/// Maximum length of a station's name. Units: bytes.
pub const MAX_NAME_BYTES: usize = 64;
/// Size of a signature. Units: bytes.
pub const SIGNATURE_BYTES: usize = 64;
/// Maximum size of an encoded certificate. Units: bytes.
pub const CERTIFICATE_BYTES: usize = 2 + MAX_NAME_BYTES + 2 * 32 + 2 * 8 + SIGNATURE_BYTES;

/// Version of the encoding of certificates.
const VERSION: u8 = 1;
/// Subject of an authority's signature of a certificate.
const CERTIFICATE_SUBJECT: &[u8] = b"tallycast 1 certificate";

/// A public key: Ed25519 for signatures, X25519 for the agreement on keys (RFC 7748).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

/// Error for a text that is no public key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a public key has 64 hexadecimal digits")]
pub struct InvalidPublicKey;

/// An Ed25519 signature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature(pub [u8; SIGNATURE_BYTES]);

/// A private key that signs; made from 32 random bytes, its seed (RFC 8032 §5.1.5).
pub struct SigningKey {
    pair: Ed25519KeyPair,
}

/// The laboratory's private key, which certifies stations.
#[derive(Debug)]
pub struct Authority(SigningKey);

/// An authority's statement that keys belong to a station.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Certificate {
    /// The station's name; 1 to [`MAX_NAME_BYTES`] bytes without control characters.
    pub name: String,
    /// The key of its signatures.
    pub signing: PublicKey,
    /// The key of its connections (X25519).
    pub exchange: PublicKey,
    /// First instant of validity.
    pub not_before: WallTime,
    /// First instant after the validity.
    pub not_after: WallTime,
    /// The authority's signature.
    pub signature: Signature,
}

/// A station that signs: its certificate and the private key that belongs to it.
#[derive(Debug)]
pub struct Station {
    certificate: Certificate,
    key: SigningKey,
}

/// Reason to refuse a certificate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// Not the encoding of a certificate.
    #[error("the bytes are not a certificate of a station")]
    Malformed,
    /// Not signed by this authority.
    #[error("the certificate of station `{0}` is not signed by the laboratory's authority")]
    Authority(String),
    /// Not valid yet.
    #[error("the certificate of station `{name}` is not valid yet\ncheck the clocks of both hosts")]
    TooEarly {
        /// The station.
        name: String,
        /// First instant of validity.
        not_before: WallTime,
    },
    /// Not valid any more.
    #[error(
        "the certificate of station `{name}` has expired\n\
         renew it where the laboratory's authority is kept: tallycast keys renew"
    )]
    Expired {
        /// The station.
        name: String,
        /// End of its validity.
        not_after: WallTime,
    },
    /// The private key does not belong to the certificate.
    #[error("the certificate of station `{0}` belongs to another private key")]
    Key(String),
}

impl SigningKey {
    /// Makes a key from a random seed.
    ///
    /// # Panics
    /// Never: every 32 bytes are a seed.
    #[must_use]
    pub fn from_seed(seed: &Zeroizing<[u8; 32]>) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed[..]).expect("every 32 bytes are a seed");
        Self { pair }
    }

    /// Returns the public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey(self.pair.public_key().as_ref().try_into().expect("an Ed25519 key has 32 bytes"))
    }

    /// Signs the message on this subject.
    ///
    /// Units: `subject` is a constant of the protocol without zero bytes.
    ///
    /// Cost: 18–22 µs, measured.
    #[must_use]
    pub fn sign(&self, subject: &[u8], message: &[u8]) -> Signature {
        let signature = self.pair.sign(&on_subject(subject, message));
        Signature(signature.as_ref().try_into().expect("an Ed25519 signature has 64 bytes"))
    }
}

impl PublicKey {
    /// Returns whether this key signed the message on this subject.
    ///
    /// Cost: 33–44 µs, measured.
    #[must_use]
    pub fn has_signed(&self, subject: &[u8], message: &[u8], signature: &Signature) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        key.verify(&on_subject(subject, message), &signature.0).is_ok()
    }
}

/// Returns whether a text is a name of a station or a laboratory.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// Joins subject and message: a zero byte ends the subject, which has none.
fn on_subject(subject: &[u8], message: &[u8]) -> Vec<u8> {
    debug_assert!(!subject.contains(&0), "a zero byte ends the subject");
    [subject, &[0], message].concat()
}

impl Authority {
    /// Takes the laboratory's private key.
    #[must_use]
    pub const fn new(key: SigningKey) -> Self {
        Self(key)
    }

    /// Returns the public key by which members recognise the laboratory's stations.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.0.public()
    }

    /// Signs `certificate`, whose own signature is replaced.
    #[must_use]
    pub fn certify(&self, certificate: Certificate) -> Certificate {
        let signature = self.0.sign(CERTIFICATE_SUBJECT, &certificate.signed_bytes());
        Certificate { signature, ..certificate }
    }
}

impl Certificate {
    /// Encodes the certificate: version, length of the name, name, both keys, both times (i64, little-endian, ns
    /// since 1970), signature.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.signed_bytes();
        bytes.extend_from_slice(&self.signature.0);
        bytes
    }

    /// Decodes a certificate; nothing of it is checked against an authority.
    ///
    /// # Errors
    /// [`CertificateError::Malformed`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CertificateError> {
        Self::read(bytes).ok_or(CertificateError::Malformed)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (&[version, name_bytes], rest) = bytes.split_first_chunk()?;
        let (name, rest) = rest.split_at_checked(usize::from(name_bytes))?;
        let (signing, rest) = rest.split_first_chunk()?;
        let (exchange, rest) = rest.split_first_chunk()?;
        let (not_before, rest) = rest.split_first_chunk()?;
        let (not_after, rest) = rest.split_first_chunk()?;
        let name = core::str::from_utf8(name).ok()?;
        (version == VERSION && is_name(name)).then_some(())?;
        Some(Self {
            name: name.to_owned(),
            signing: PublicKey(*signing),
            exchange: PublicKey(*exchange),
            not_before: WallTime::from_nanos(i64::from_le_bytes(*not_before)),
            not_after: WallTime::from_nanos(i64::from_le_bytes(*not_after)),
            signature: Signature(rest.try_into().ok()?),
        })
    }

    /// Checks the authority's signature and the validity at `wall`.
    ///
    /// # Errors
    /// `Authority`, `TooEarly` and `Expired` of [`CertificateError`].
    pub fn check(&self, authority: &PublicKey, wall: WallTime) -> Result<(), CertificateError> {
        let name = || self.name.clone();
        if !authority.has_signed(CERTIFICATE_SUBJECT, &self.signed_bytes(), &self.signature) {
            return Err(CertificateError::Authority(name()));
        }
        if wall < self.not_before {
            return Err(CertificateError::TooEarly { name: name(), not_before: self.not_before });
        }
        if wall >= self.not_after {
            return Err(CertificateError::Expired { name: name(), not_after: self.not_after });
        }
        Ok(())
    }

    fn signed_bytes(&self) -> Vec<u8> {
        let name_bytes = u8::try_from(self.name.len()).expect("a station's name has at most 64 bytes");
        let mut bytes = Vec::with_capacity(CERTIFICATE_BYTES);
        bytes.extend_from_slice(&[VERSION, name_bytes]);
        bytes.extend_from_slice(self.name.as_bytes());
        bytes.extend_from_slice(&self.signing.0);
        bytes.extend_from_slice(&self.exchange.0);
        bytes.extend_from_slice(&self.not_before.as_nanos().to_le_bytes());
        bytes.extend_from_slice(&self.not_after.as_nanos().to_le_bytes());
        bytes
    }
}

impl Station {
    /// Joins a certificate and its private key.
    ///
    /// # Errors
    /// [`CertificateError::Key`] if they do not belong together.
    pub fn new(certificate: Certificate, key: SigningKey) -> Result<Self, CertificateError> {
        if key.public() == certificate.signing {
            Ok(Self { certificate, key })
        } else {
            Err(CertificateError::Key(certificate.name))
        }
    }

    /// Returns the certificate.
    #[must_use]
    pub const fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Signs the message on this subject; see [`SigningKey::sign`].
    #[must_use]
    pub fn sign(&self, subject: &[u8], message: &[u8]) -> Signature {
        self.key.sign(subject, message)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl FromStr for PublicKey {
    type Err = InvalidPublicKey;

    fn from_str(text: &str) -> Result<Self, InvalidPublicKey> {
        let is_key = text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("two digits");
        is_key.then(|| Self(core::array::from_fn(byte))).ok_or(InvalidPublicKey)
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SigningKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signing(first: u8) -> SigningKey {
        SigningKey::from_seed(&Zeroizing::new([first; 32]))
    }

    fn certificate(authority: &Authority) -> Certificate {
        authority.certify(Certificate {
            name: "daq-1".to_owned(),
            signing: signing(2).public(),
            exchange: PublicKey([3; 32]),
            not_before: WallTime::from_nanos(100),
            not_after: WallTime::from_nanos(200),
            signature: Signature([0; SIGNATURE_BYTES]),
        })
    }

    #[test]
    fn a_certificate_is_valid_under_its_authority_and_in_its_time() {
        let authority = Authority::new(signing(1));
        let certificate = certificate(&authority);
        let check = |wall| certificate.check(&authority.public(), WallTime::from_nanos(wall));
        assert_eq!((check(100), check(199)), (Ok(()), Ok(())));
        assert!(matches!(check(99), Err(CertificateError::TooEarly { .. })));
        assert!(matches!(check(200), Err(CertificateError::Expired { .. })));
        let foreign = certificate.check(&signing(9).public(), WallTime::from_nanos(100));
        assert_eq!(foreign, Err(CertificateError::Authority("daq-1".to_owned())));
    }

    #[test]
    fn every_changed_byte_of_a_certificate_is_refused() {
        let authority = Authority::new(signing(1));
        let bytes = certificate(&authority).to_bytes();
        assert_eq!(Certificate::from_bytes(&bytes).unwrap(), certificate(&authority));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let believed = Certificate::from_bytes(&changed)
                .and_then(|changed| changed.check(&authority.public(), WallTime::from_nanos(150)));
            assert!(believed.is_err(), "byte {at}");
            assert_eq!(Certificate::from_bytes(&bytes[..at]), Err(CertificateError::Malformed));
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Certificate::from_bytes(&longer), Err(CertificateError::Malformed));
    }

    #[test]
    fn a_public_key_is_64_hexadecimal_digits() {
        let key = PublicKey(core::array::from_fn(|at| at as u8));
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!("0A".repeat(32).parse(), Ok(PublicKey([10; 32])));
        for text in ["", &"0".repeat(63), &"0".repeat(65), &"0g".repeat(32), &"é".repeat(32)] {
            assert_eq!(text.parse::<PublicKey>(), Err(InvalidPublicKey), "{text}");
        }
    }

    #[test]
    fn a_signature_is_for_one_message_on_one_subject() {
        let key = signing(2);
        let signature = key.sign(b"tallies", b"message");
        assert!(key.public().has_signed(b"tallies", b"message", &signature));
        assert!(!key.public().has_signed(b"tallies", b"messages", &signature));
        assert!(!key.public().has_signed(b"tall", b"iesmessage", &signature));
        assert!(!signing(3).public().has_signed(b"tallies", b"message", &signature));
    }

    #[test]
    fn a_station_has_the_private_key_of_its_certificate() {
        let authority = Authority::new(signing(1));
        assert!(Station::new(certificate(&authority), signing(2)).is_ok());
        let other = Station::new(certificate(&authority), signing(3)).unwrap_err();
        assert_eq!(other, CertificateError::Key("daq-1".to_owned()));
        assert_eq!(format!("{:?}", signing(2)), "SigningKey(…)");
    }
}
