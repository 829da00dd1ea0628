//! Noise IK by the crate `snow`, with X25519 of `x25519-dalek`, ciphers and hashes of `ring`, and random bytes of the
//! caller.
//!
//! Source: The Noise Protocol Framework, revision 34, §7.5 (IK) and §12.

use keys::{PublicKey, Secret, Suite};
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::{CryptoResolver, RingResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, Error, HandshakeState};
use x25519_dalek::{PublicKey as Point, StaticSecret};
use zeroize::Zeroizing;

/// Application and version, which both ends mix into their keys; the initiator's number of the session follows.
const PROLOGUE: &[u8] = b"tallycast udt noise 1";

/// Returns the public key of a private X25519 key.
#[must_use]
pub fn public_key(private: &Secret) -> PublicKey {
    PublicKey(Point::from(&StaticSecret::from(*private.reveal())).to_bytes())
}

/// What both ends must agree on before the first message: they mix it into their keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    /// Cipher of the handshake and of what follows it.
    pub(crate) suite: Suite,
    /// Application, version, and what else is to be the same at both ends.
    pub(crate) prologue: &'a [u8],
}

impl Terms<'_> {
    /// Returns the protocol, by its name in the Noise specification.
    const fn protocol(&self) -> &'static str {
        match self.suite {
            Suite::Aes256Gcm => "Noise_IK_25519_AESGCM_SHA256",
            Suite::ChaCha20Poly1305 => "Noise_IK_25519_ChaChaPoly_SHA256",
        }
    }
}

/// Returns the handshake of an initiator, which knows the responder's key.
pub(crate) fn initiator(
    private: &Secret,
    responder: &PublicKey,
    terms: &Terms<'_>,
    random: Zeroizing<[u8; 32]>,
) -> HandshakeState {
    builder(private, terms, random)
        .and_then(|builder| builder.remote_public_key(&responder.0))
        .and_then(Builder::build_initiator)
        .expect("an initiator of IK has both keys")
}

/// Returns the handshake of a responder.
pub(crate) fn responder(private: &Secret, terms: &Terms<'_>, random: Zeroizing<[u8; 32]>) -> HandshakeState {
    builder(private, terms, random).and_then(Builder::build_responder).expect("a responder of IK has its key")
}

/// Returns the initiator's key, once its first message was read.
pub(crate) fn remote(handshake: &HandshakeState) -> Option<PublicKey> {
    Some(PublicKey(handshake.get_remote_static()?.try_into().ok()?))
}

/// Returns the prologue of the initiator's session of that number.
pub(crate) fn prologue(index: u32) -> Vec<u8> {
    [PROLOGUE, &index.to_le_bytes()].concat()
}

fn builder<'a>(
    private: &'a Secret,
    terms: &Terms<'a>,
    random: Zeroizing<[u8; 32]>,
) -> Result<Builder<'a>, Error> {
    let parameters: NoiseParams = terms.protocol().parse().expect("the protocol's name is valid");
    let builder = Builder::with_resolver(parameters, Box::new(Resolver { random }));
    builder.local_private_key(private.reveal())?.prologue(terms.prologue)
}

/// What `snow` computes with.
struct Resolver {
    random: Zeroizing<[u8; 32]>,
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Drawn { bytes: Some(self.random.clone()) }))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::new(Curve::new(&[0; 32])) as Box<dyn Dh>)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        RingResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        RingResolver.resolve_cipher(choice)
    }
}

/// The random bytes of one handshake: of its ephemeral key, and no more.
struct Drawn {
    bytes: Option<Zeroizing<[u8; 32]>>,
}

impl Random for Drawn {
    fn try_fill_bytes(&mut self, into: &mut [u8]) -> Result<(), Error> {
        let bytes = self.bytes.take().filter(|bytes| bytes.len() == into.len()).ok_or(Error::Rng)?;
        into.copy_from_slice(&bytes[..]);
        Ok(())
    }
}

/// A private X25519 key, overwritten when it is dropped, and its public key (RFC 7748).
struct Curve {
    private: StaticSecret,
    public: [u8; 32],
}

impl Curve {
    fn new(private: &[u8; 32]) -> Self {
        let private = StaticSecret::from(*private);
        let public = Point::from(&private).to_bytes();
        Self { private, public }
    }
}

impl Dh for Curve {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    fn set(&mut self, private: &[u8]) {
        *self = Self::new(private.try_into().expect("a private key has 32 bytes"));
    }

    fn generate(&mut self, random: &mut dyn Random) -> Result<(), Error> {
        let mut private = Zeroizing::new([0; 32]);
        random.try_fill_bytes(&mut private[..])?;
        *self = Self::new(&private);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        self.private.as_bytes()
    }

    /// Refuses a public key of small order, with which the result would be the same for every private key.
    fn dh(&self, public: &[u8], into: &mut [u8]) -> Result<(), Error> {
        let public: [u8; 32] = public.get(..32).and_then(|key| key.try_into().ok()).ok_or(Error::Dh)?;
        let shared = self.private.diffie_hellman(&Point::from(public));
        if !shared.was_contributory() {
            return Err(Error::Dh);
        }
        into.get_mut(..32).ok_or(Error::Dh)?.copy_from_slice(shared.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_key_is_that_of_rfc_7748() {
        // RFC 7748 §6.1, Alice.
        let private = [
            0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2, 0x66, 0x45,
            0xdf, 0x4c, 0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5, 0x1d, 0xb9, 0x2c, 0x2a,
        ];
        let public = public_key(&Secret::new(Zeroizing::new(private)));
        assert_eq!(format!("{public:?}"), "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
    }

    #[test]
    fn random_bytes_are_used_once_and_small_orders_are_refused() {
        let mut drawn = Drawn { bytes: Some(Zeroizing::new([7; 32])) };
        let mut bytes = [0; 32];
        assert!(drawn.try_fill_bytes(&mut bytes).is_ok() && bytes == [7; 32]);
        assert!(drawn.try_fill_bytes(&mut bytes).is_err());
        let curve = Curve::new(&[5; 32]);
        assert!(curve.dh(&[0; 32], &mut bytes).is_err());
        assert!(curve.dh(&[9; 32], &mut bytes).is_ok());
    }
}
