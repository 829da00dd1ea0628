//! Public keys of connections (X25519), and the fingerprints by which people compare keys.

use base64ct::{Base64Unpadded, Encoding};
use curve25519_dalek::MontgomeryPoint;
use ring::digest::{SHA256, digest};
use zeroize::Zeroizing;

use crate::{PublicKey, Secret};

/// Size of the hash in the names of files: two laboratories on one host do not have the same by chance.
const FILE_LABEL_BYTES: usize = 8;

/// Derives the public key of a station's connections from its private key.
///
/// Source: RFC 7748 §5 and §6.1, X25519 of the private key and the base point.
///
/// Cost: about 20 µs.
#[must_use]
pub fn exchange_public(private: &Secret) -> PublicKey {
    let private = Zeroizing::new(*private.reveal());
    PublicKey(MontgomeryPoint::mul_base_clamped(*private).to_bytes())
}

impl PublicKey {
    /// Returns the fingerprint that people compare: `SHA256:` and the hash of the key in Base64, as OpenSSH writes it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        format!("SHA256:{}", Base64Unpadded::encode_string(digest(&SHA256, &self.0).as_ref()))
    }

    /// Returns a short hash of the key for names of files: 16 hexadecimal digits.
    #[must_use]
    pub fn file_label(&self) -> String {
        let hash = digest(&SHA256, &self.0);
        hash.as_ref()[..FILE_LABEL_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_keys_are_those_of_the_standard() {
        let bytes = |hex: &str| -> [u8; 32] {
            std::array::from_fn(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
        };
        // RFC 7748 §6.1: Bob's keys.
        let private = bytes("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
        let public = bytes("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
        assert_eq!(exchange_public(&Secret::new(Zeroizing::new(private))), PublicKey(public));
    }

    #[test]
    fn fingerprints_are_the_hash_in_base64() {
        // Computed with another author's implementation: openssl dgst -sha256 -binary | base64, padding cut.
        assert_eq!(PublicKey([0; 32]).fingerprint(), "SHA256:Zmh6rfhivXdsj8GLjp+OIAiXFIVu4jOzkCpZHQ1fKSU");
        // The same hash in hexadecimal digits.
        assert_eq!(PublicKey([0; 32]).file_label(), "66687aadf862bd77");
    }
}
