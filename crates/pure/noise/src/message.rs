//! Layout of the four messages, and the codes that show whom they are for; see `docs/protocol/noise.md`.
//!
//! Each begins with three bytes that no datagram of clear UDT has: as a packet of UDT they would be a control packet of
//! a type that UDT 4 does not assign.

use core::fmt;

use keys::{PublicKey, Suite};
use ring::hmac;
use subtle::ConstantTimeEq;

/// Bytes that sealing adds to each datagram: kind, number of the session, counter, tag.
pub const OVERHEAD_BYTES: usize = TRANSPORT_HEADER_BYTES + TAG_BYTES;
/// Size of a sealed datagram's header. Units: bytes.
pub(crate) const TRANSPORT_HEADER_BYTES: usize = 16;
/// Size of a tag of the cipher. Units: bytes.
pub(crate) const TAG_BYTES: usize = 16;
/// Size of a code. Units: bytes.
pub(crate) const CODE_BYTES: usize = 16;
/// Size of the initiator's Noise message: ephemeral key, sealed static key, sealed time. Units: bytes.
pub(crate) const INITIATION_NOISE_BYTES: usize = 32 + (32 + TAG_BYTES) + (8 + TAG_BYTES);
/// Size of the responder's Noise message: ephemeral key, sealed number of its session. Units: bytes.
pub(crate) const RESPONSE_NOISE_BYTES: usize = 32 + (4 + TAG_BYTES);

/// First bytes of all messages.
const MARK: [u8; 3] = [0xff, b'T', b'N'];
const INITIATION: u8 = 1;
const RESPONSE: u8 = 2;
const COOKIE_REPLY: u8 = 3;
const TRANSPORT: u8 = 4;
/// An initiation whose cipher is ChaCha20-Poly1305; 5 and 6 are those of a connection over TCP.
const CHACHA_INITIATION: u8 = 7;

const INITIATION_BYTES: usize = 8 + INITIATION_NOISE_BYTES + 2 * CODE_BYTES;
const RESPONSE_BYTES: usize = 8 + RESPONSE_NOISE_BYTES + CODE_BYTES;
const COOKIE_REPLY_BYTES: usize = 8 + 3 * CODE_BYTES;

/// Start of the key of [`Coder`]s.
const CODER_LABEL: &[u8] = b"tallycast udt noise 1 code";

/// A message authentication code of 128 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code(pub(crate) [u8; CODE_BYTES]);

/// Computes codes of messages for the owner of a public key: whoever knows that key can compute them.
///
/// They are WireGuard's `mac1`, and take the place of its encryption of cookies; HMAC-SHA256 is for BLAKE2s.
pub(crate) struct Coder(hmac::Key);

/// A message, with the bytes that its codes cover.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message<'a> {
    Initiation(Initiation<'a>),
    Response(Response<'a>),
    CookieReply(CookieReply<'a>),
    Transport(Transport<'a>),
}

/// First message of a handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Initiation<'a> {
    /// Cipher that the initiator chose.
    pub(crate) suite: Suite,
    pub(crate) sender: u32,
    pub(crate) noise: &'a [u8],
    /// All before the first code.
    pub(crate) coded: &'a [u8],
    pub(crate) code: Code,
    /// All before the second code.
    pub(crate) proven: &'a [u8],
    /// Proof of a cookie; zero without one.
    pub(crate) proof: Code,
}

/// Second message of a handshake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Response<'a> {
    pub(crate) receiver: u32,
    pub(crate) noise: &'a [u8],
    pub(crate) coded: &'a [u8],
    pub(crate) code: Code,
}

/// Answer to a handshake without a valid cookie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CookieReply<'a> {
    pub(crate) receiver: u32,
    /// Code of the initiation that it answers.
    pub(crate) answered: Code,
    pub(crate) cookie: [u8; CODE_BYTES],
    pub(crate) coded: &'a [u8],
    pub(crate) code: Code,
}

/// A sealed datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transport<'a> {
    pub(crate) receiver: u32,
    pub(crate) counter: u64,
    pub(crate) sealed: &'a [u8],
}

/// Reason why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unreadable {
    /// Without the mark: of another protocol.
    Clear,
    /// Of an unknown kind, or of another size than its kind has.
    Malformed,
}

impl<'a> Message<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, Unreadable> {
        let kind = match bytes.split_first_chunk() {
            Some((&MARK, [kind, ..])) => *kind,
            Some((&MARK, [])) => return Err(Unreadable::Malformed),
            _ => return Err(Unreadable::Clear),
        };
        match (kind, bytes.len()) {
            (INITIATION | CHACHA_INITIATION, INITIATION_BYTES) => {
                let (proven, proof) = bytes.split_at(INITIATION_BYTES - CODE_BYTES);
                let (coded, code) = proven.split_at(proven.len() - CODE_BYTES);
                Ok(Self::Initiation(Initiation {
                    suite: if kind == INITIATION { Suite::Aes256Gcm } else { Suite::ChaCha20Poly1305 },
                    sender: word(bytes, 4),
                    noise: &coded[8..],
                    coded,
                    code: Code::of(code),
                    proven,
                    proof: Code::of(proof),
                }))
            }
            (RESPONSE, RESPONSE_BYTES) => {
                let (coded, code) = bytes.split_at(RESPONSE_BYTES - CODE_BYTES);
                let code = Code::of(code);
                Ok(Self::Response(Response { receiver: word(bytes, 4), noise: &coded[8..], coded, code }))
            }
            (COOKIE_REPLY, COOKIE_REPLY_BYTES) => {
                let (coded, code) = bytes.split_at(COOKIE_REPLY_BYTES - CODE_BYTES);
                Ok(Self::CookieReply(CookieReply {
                    receiver: word(bytes, 4),
                    answered: Code::of(&coded[8..24]),
                    cookie: Code::of(&coded[24..]).0,
                    coded,
                    code: Code::of(code),
                }))
            }
            (TRANSPORT, OVERHEAD_BYTES..) => {
                let (header, sealed) = bytes.split_at(TRANSPORT_HEADER_BYTES);
                let counter = u64::from_le_bytes(header[8..].try_into().expect("eight bytes are left"));
                Ok(Self::Transport(Transport { receiver: word(header, 4), counter, sealed }))
            }
            _ => Err(Unreadable::Malformed),
        }
    }
}

/// Returns a first message without proof of a cookie, and its code.
pub(crate) fn initiation(
    suite: Suite,
    sender: u32,
    noise: &[u8; INITIATION_NOISE_BYTES],
    to: &Coder,
) -> (Vec<u8>, Code) {
    let kind = match suite {
        Suite::Aes256Gcm => INITIATION,
        Suite::ChaCha20Poly1305 => CHACHA_INITIATION,
    };
    let mut bytes = begin(kind, sender, INITIATION_BYTES);
    bytes.extend_from_slice(noise);
    let code = to.code(&bytes);
    bytes.extend_from_slice(&code.0);
    bytes.extend_from_slice(&[0; CODE_BYTES]);
    (bytes, code)
}

/// Puts the proof of a cookie into a first message.
pub(crate) fn prove(initiation: &mut [u8], cookie: &[u8; CODE_BYTES]) {
    let (proven, proof) = initiation.split_at_mut(INITIATION_BYTES - CODE_BYTES);
    proof.copy_from_slice(&Code::with(cookie, proven).0);
}

/// Returns a second message.
pub(crate) fn response(receiver: u32, noise: &[u8; RESPONSE_NOISE_BYTES], to: &Coder) -> Vec<u8> {
    let mut bytes = begin(RESPONSE, receiver, RESPONSE_BYTES);
    bytes.extend_from_slice(noise);
    let code = to.code(&bytes);
    bytes.extend_from_slice(&code.0);
    bytes
}

/// Returns the answer to a first message without a valid cookie, by the owner of `from`.
pub(crate) fn cookie_reply(
    receiver: u32,
    answered: Code,
    cookie: &[u8; CODE_BYTES],
    from: &Coder,
) -> Vec<u8> {
    let mut bytes = begin(COOKIE_REPLY, receiver, COOKIE_REPLY_BYTES);
    bytes.extend_from_slice(&answered.0);
    bytes.extend_from_slice(cookie);
    let code = from.code(&bytes);
    bytes.extend_from_slice(&code.0);
    bytes
}

/// Returns the header of a sealed datagram.
pub(crate) fn transport_header(receiver: u32, counter: u64) -> [u8; TRANSPORT_HEADER_BYTES] {
    let mut header = [0; TRANSPORT_HEADER_BYTES];
    header[..3].copy_from_slice(&MARK);
    header[3] = TRANSPORT;
    header[4..8].copy_from_slice(&receiver.to_le_bytes());
    header[8..].copy_from_slice(&counter.to_le_bytes());
    header
}

fn begin(kind: u8, index: u32, size_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_bytes);
    bytes.extend_from_slice(&MARK);
    bytes.push(kind);
    bytes.extend_from_slice(&index.to_le_bytes());
    bytes
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

impl Code {
    fn of(bytes: &[u8]) -> Self {
        Self(bytes.try_into().expect("a code has 16 bytes"))
    }

    /// Returns the code of bytes under a key.
    pub(crate) fn with(key: &[u8], bytes: &[u8]) -> Self {
        Self::by(&hmac::Key::new(hmac::HMAC_SHA256, key), bytes)
    }

    fn by(key: &hmac::Key, bytes: &[u8]) -> Self {
        Self::of(&hmac::sign(key, bytes).as_ref()[..CODE_BYTES])
    }

    /// Returns whether two codes are the same, in a time that does not depend on them.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Coder {
    pub(crate) fn new(owner: &PublicKey) -> Self {
        let key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, CODER_LABEL), &owner.0);
        Self(hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()))
    }

    pub(crate) fn code(&self, bytes: &[u8]) -> Code {
        Code::by(&self.0, bytes)
    }

    pub(crate) fn has_coded(&self, bytes: &[u8], code: &Code) -> bool {
        self.code(bytes).is(code)
    }
}

impl fmt::Debug for Coder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Coder(…)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn coder() -> Coder {
        Coder::new(&PublicKey([3; 32]))
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn messages_keep_their_layout() {
        let (mut first, code) =
            initiation(Suite::Aes256Gcm, 0x0403_0201, &[0xaa; INITIATION_NOISE_BYTES], &coder());
        prove(&mut first, &[9; 16]);
        let second = response(0x0403_0201, &[0xbb; RESPONSE_NOISE_BYTES], &coder());
        let reply = cookie_reply(0x0403_0201, code, &[9; 16], &coder());
        assert_eq!([first.len(), second.len(), reply.len(), OVERHEAD_BYTES], [144, 76, 56, 32]);
        // Codes computed once with an implementation of another author (Python: hmac).
        let first_code = "f233935fc04773add73e8ee48c51d3f1";
        assert_eq!(
            hex(&first),
            format!("ff544e0101020304{}{first_code}{}", "aa".repeat(104), "0757fad64232403d2d9faaaeb5ca15d3")
        );
        assert_eq!(
            hex(&second),
            format!("ff544e0201020304{}{}", "bb".repeat(52), "908d60aca959b0cb986fc17417eb678a")
        );
        assert_eq!(
            hex(&reply),
            format!("ff544e0301020304{first_code}{}{}", "09".repeat(16), "6c64938cde8565c53d28e5d095262271")
        );
        let (other, _) = initiation(Suite::ChaCha20Poly1305, 1, &[0xaa; INITIATION_NOISE_BYTES], &coder());
        assert_eq!(hex(&other[..8]), "ff544e0701000000");
        assert_eq!(hex(&transport_header(0x0403_0201, 0x0807)), "ff544e04010203040708000000000000");
    }

    #[test]
    fn no_packet_of_clear_udt_has_the_mark() {
        // Data packets: the first bit is clear. Control packets: types 0 to 7, and 0x7fff for users.
        for first in
            (0_u8..=0x7f).map(|first| [first, b'T', b'N', 1]).chain((0..8).map(|kind| [0x80, kind, 0, 0]))
        {
            assert_eq!(Message::read(&first).unwrap_err(), Unreadable::Clear);
        }
        assert_eq!(Message::read(&[0xff, 0xff, 0x4e, 1]).unwrap_err(), Unreadable::Clear);
        assert_eq!(u16::from_be_bytes([MARK[0], MARK[1]]) & 0x7fff, 0x7f54);
    }

    #[test]
    fn messages_of_another_size_or_kind_are_malformed() {
        let (first, code) = initiation(Suite::ChaCha20Poly1305, 1, &[0; INITIATION_NOISE_BYTES], &coder());
        let second = response(1, &[0; RESPONSE_NOISE_BYTES], &coder());
        let reply = cookie_reply(1, code, &[0; 16], &coder());
        for message in [first, second, reply] {
            for len in 0..message.len() {
                assert!(Message::read(&message[..len]).is_err(), "{len} bytes");
            }
            assert!(Message::read(&message).is_ok());
            assert_eq!(Message::read(&[&message[..], &[0]].concat()).unwrap_err(), Unreadable::Malformed);
        }
        let sealed = [&transport_header(1, 2)[..], &[0; TAG_BYTES]].concat();
        assert!(Message::read(&sealed).is_ok());
        assert_eq!(Message::read(&sealed[..31]).unwrap_err(), Unreadable::Malformed);
        for kind in [0, 5, 6, 8, 255] {
            let other = [&[0xff, b'T', b'N', kind][..], &[0; 140]].concat();
            assert_eq!(Message::read(&other).unwrap_err(), Unreadable::Malformed);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind: u8) {
            let _ = Message::read(&bytes);
            if bytes.len() > 3 {
                bytes[..3].copy_from_slice(&MARK);
                bytes[3] = kind % 9;
                let _ = Message::read(&bytes);
            }
        }
    }
}
