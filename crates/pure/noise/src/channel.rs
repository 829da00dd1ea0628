//! A secured connection over an ordered stream of bytes such as TCP: a handshake of Noise IK, then sealed records.
//!
//! The initiator sends an [`Initiation`], the responder a [`Reply`] if it lists the initiator's key; then each end has a
//! [`Sealer`] and an [`Opener`]. A record is its length (two bytes, big-endian), then at most [`RECORD_BYTES`] sealed
//! bytes and a tag; its nonce is its number, so that a lost, repeated or changed record ends the connection. A captured
//! initiation gets a reply, and nothing more: the records need the initiator's ephemeral key.
//!
//! Source: The Noise Protocol Framework, revision 34, §5, §7.5; `docs/protocol/noise.md`, "Connections".

use core::fmt;
use std::collections::BTreeSet;
use std::sync::Arc;

use keys::{PublicKey, Secret, Suite};
use snow::{HandshakeState, StatelessTransportState};
use zeroize::Zeroizing;

use crate::exchange::{self, Terms};

/// Mark of an initiation. As the length of a frame it would be beyond every limit.
pub const INITIATION_MARK: [u8; 4] = [0xff, b'T', b'N', 5];
/// Mark of a reply.
pub const REPLY_MARK: [u8; 4] = [0xff, b'T', b'N', 6];
/// Size of an initiation: mark, ephemeral key, sealed static key, tag.
pub const INITIATION_BYTES: usize = 4 + 32 + 48 + 16;
/// Size of a reply: mark, ephemeral key, tag.
pub const REPLY_BYTES: usize = 4 + 32 + 16;
/// Most plain bytes of a record.
pub const RECORD_BYTES: usize = 1 << 14;
const TAG_BYTES: usize = 16;
const LENGTH_BYTES: usize = 2;
/// Application and version, which both ends mix into their keys.
const PROLOGUE: &[u8] = b"tallycast connection noise 1";
/// The few records of a connection need no speed, and so no choice.
const TERMS: Terms<'_> = Terms { suite: Suite::Aes256Gcm, prologue: PROLOGUE };

/// First message of a connection.
pub type Initiation = [u8; INITIATION_BYTES];
/// Answer to it.
pub type Reply = [u8; REPLY_BYTES];

/// An initiator that waits for a reply.
pub struct Calling(Box<HandshakeState>);

/// A connection with a listed peer.
#[derive(Debug)]
pub struct Accepted {
    /// Key of the peer.
    pub peer: PublicKey,
    /// Message to send before anything else.
    pub reply: Reply,
    /// Both directions.
    pub channel: (Sealer, Opener),
}

/// Reason why there is no connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChannelError {
    /// The message is of another protocol.
    #[error("the other end speaks in clear, or another protocol")]
    Foreign,
    /// It was made for another key, or changed.
    #[error("the handshake was made for another key than this end's")]
    Handshake,
    /// The initiator is not listed.
    #[error("the key {0} is not listed")]
    Unlisted(PublicKey),
    /// A record was changed, lost or repeated.
    #[error("a record was changed on the way")]
    Record,
}

/// Seals what this end sends.
pub struct Sealer {
    transport: Arc<StatelessTransportState>,
    next: u64,
}

/// Opens what this end receives.
pub struct Opener {
    transport: Arc<StatelessTransportState>,
    next: u64,
    bytes: Vec<u8>,
}

impl Calling {
    /// Begins a connection to the holder of a key. `random` was drawn for this call.
    #[must_use]
    pub fn new(key: &Secret, responder: &PublicKey, random: Zeroizing<[u8; 32]>) -> (Self, Initiation) {
        let mut handshake = exchange::initiator(key, responder, &TERMS, random);
        let mut message = [0; INITIATION_BYTES];
        message[..4].copy_from_slice(&INITIATION_MARK);
        let written = handshake.write_message(&[], &mut message[4..]).expect("the first message of IK");
        assert_eq!(4 + written, INITIATION_BYTES, "the pattern fixes the size");
        (Self(Box::new(handshake)), message)
    }

    /// Returns both directions of the connection.
    ///
    /// # Errors
    /// [`ChannelError`] if the reply is not that of the responder to this initiation.
    pub fn finish(mut self, reply: &Reply) -> Result<(Sealer, Opener), ChannelError> {
        if reply[..4] != REPLY_MARK {
            return Err(ChannelError::Foreign);
        }
        self.0.read_message(&reply[4..], &mut [0; REPLY_BYTES]).map_err(|_| ChannelError::Handshake)?;
        Ok(channel(*self.0))
    }
}

/// Answers an initiation of one of `peers`. `random` was drawn for this call.
///
/// # Errors
/// [`ChannelError`], after which nothing is to be answered.
pub fn accept(
    key: &Secret,
    peers: &BTreeSet<PublicKey>,
    initiation: &Initiation,
    random: Zeroizing<[u8; 32]>,
) -> Result<Accepted, ChannelError> {
    if initiation[..4] != INITIATION_MARK {
        return Err(ChannelError::Foreign);
    }
    let mut handshake = exchange::responder(key, &TERMS, random);
    let read = handshake.read_message(&initiation[4..], &mut [0; INITIATION_BYTES]);
    read.map_err(|_| ChannelError::Handshake)?;
    let peer = exchange::remote(&handshake).ok_or(ChannelError::Handshake)?;
    if !peers.contains(&peer) {
        return Err(ChannelError::Unlisted(peer));
    }
    let mut reply = [0; REPLY_BYTES];
    reply[..4].copy_from_slice(&REPLY_MARK);
    let written = handshake.write_message(&[], &mut reply[4..]).map_err(|_| ChannelError::Handshake)?;
    assert_eq!(4 + written, REPLY_BYTES, "the pattern fixes the size");
    Ok(Accepted { peer, reply, channel: channel(handshake) })
}

fn channel(handshake: HandshakeState) -> (Sealer, Opener) {
    let transport = handshake.into_stateless_transport_mode().expect("the handshake is finished");
    let transport = Arc::new(transport);
    let opener = Opener { transport: Arc::clone(&transport), next: 0, bytes: Vec::new() };
    (Sealer { transport, next: 0 }, opener)
}

impl Sealer {
    /// Returns the records of these bytes.
    #[must_use]
    pub fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::with_capacity(plain.len() + LENGTH_BYTES + TAG_BYTES);
        for part in plain.chunks(RECORD_BYTES) {
            let size_bytes = part.len() + TAG_BYTES;
            let length = u16::try_from(size_bytes).expect("a record is shorter than 64 KiB");
            sealed.extend_from_slice(&length.to_be_bytes());
            let at = sealed.len();
            sealed.resize(at + size_bytes, 0);
            let written = self.transport.write_message(self.next, part, &mut sealed[at..]);
            written.expect("a record is shorter than a message of Noise");
            self.next += 1;
        }
        sealed
    }
}

impl Opener {
    /// Takes received bytes, and appends to `plain` what the complete records among them contain.
    ///
    /// # Errors
    /// [`ChannelError::Record`], after which no record can be opened.
    pub fn open(&mut self, received: &[u8], plain: &mut Vec<u8>) -> Result<(), ChannelError> {
        self.bytes.extend_from_slice(received);
        let mut taken = 0;
        while let Some(length) = self.bytes[taken..].first_chunk::<LENGTH_BYTES>() {
            let size_bytes = usize::from(u16::from_be_bytes(*length));
            if !(TAG_BYTES..=RECORD_BYTES + TAG_BYTES).contains(&size_bytes) {
                return Err(ChannelError::Record);
            }
            let start = taken + LENGTH_BYTES;
            let Some(record) = self.bytes.get(start..start + size_bytes) else { break };
            let at = plain.len();
            plain.resize(at + size_bytes, 0);
            let opened = self.transport.read_message(self.next, record, &mut plain[at..]);
            let Ok(opened) = opened else {
                plain.truncate(at);
                return Err(ChannelError::Record);
            };
            plain.truncate(at + opened);
            self.next += 1;
            taken = start + size_bytes;
        }
        self.bytes.drain(..taken);
        Ok(())
    }

    /// Returns whether a record has begun and not ended.
    #[must_use]
    pub const fn is_waiting_for_more(&self) -> bool {
        !self.bytes.is_empty()
    }
}

impl fmt::Debug for Calling {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Calling(…)")
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Sealer({} sealed)", self.next)
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Opener({} opened)", self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::public_key;

    fn random(byte: u8) -> Zeroizing<[u8; 32]> {
        Zeroizing::new([byte; 32])
    }

    fn secret(byte: u8) -> Secret {
        Secret::new(random(byte))
    }

    /// Both ends, after a handshake of keys 1 and 2.
    fn pair() -> ((Sealer, Opener), (Sealer, Opener)) {
        let (calling, initiation) = Calling::new(&secret(1), &public_key(&secret(2)), random(3));
        let peers = BTreeSet::from([public_key(&secret(1))]);
        let accepted = accept(&secret(2), &peers, &initiation, random(4)).unwrap();
        assert_eq!(accepted.peer, public_key(&secret(1)));
        (calling.finish(&accepted.reply).unwrap(), accepted.channel)
    }

    #[test]
    fn bytes_of_any_size_arrive_both_ways_however_they_are_cut() {
        let (mut client, mut server) = pair();
        for size_bytes in [0, 1, RECORD_BYTES - 1, RECORD_BYTES, RECORD_BYTES + 1, 100_000] {
            let bytes: Vec<u8> = (0..size_bytes).map(|at| at.to_le_bytes()[0]).collect();
            for (sealer, opener) in [(&mut client.0, &mut server.1), (&mut server.0, &mut client.1)] {
                let sealed = sealer.seal(&bytes);
                let begin = &bytes[..bytes.len().min(64)];
                assert!(begin.len() < 16 || !sealed.windows(begin.len()).any(|it| it == begin));
                let mut plain = Vec::new();
                for piece in sealed.chunks(1_000) {
                    opener.open(piece, &mut plain).unwrap();
                }
                assert!(plain == bytes && !opener.is_waiting_for_more());
            }
        }
    }

    #[test]
    fn a_key_that_is_not_listed_and_one_that_is_not_meant_get_no_reply() {
        let peers = BTreeSet::from([public_key(&secret(1))]);
        let accept =
            |key, initiation: &Initiation| accept(&secret(key), &peers, initiation, random(4)).unwrap_err();
        let (_, unlisted) = Calling::new(&secret(9), &public_key(&secret(2)), random(3));
        assert_eq!(accept(2, &unlisted), ChannelError::Unlisted(public_key(&secret(9))));
        let (_, initiation) = Calling::new(&secret(1), &public_key(&secret(2)), random(3));
        assert_eq!(accept(5, &initiation), ChannelError::Handshake);
        for bit in 0..8 * INITIATION_BYTES {
            let mut changed = initiation;
            changed[bit / 8] ^= 1 << (bit % 8);
            let wanted = if bit < 32 { ChannelError::Foreign } else { ChannelError::Handshake };
            // The highest bit of a point is not part of it (RFC 7748 §5), but of what both ends hash.
            assert_eq!(accept(2, &changed), wanted, "bit {bit}");
        }
    }

    #[test]
    fn a_changed_reply_and_one_to_another_initiation_make_no_connection() {
        let peers = BTreeSet::from([public_key(&secret(1))]);
        let calling = |byte| Calling::new(&secret(1), &public_key(&secret(2)), random(byte));
        let reply = accept(&secret(2), &peers, &calling(3).1, random(4)).unwrap().reply;
        for bit in (0..8 * REPLY_BYTES).step_by(5) {
            let mut changed = reply;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(calling(3).0.finish(&changed).is_err(), "bit {bit}");
        }
        assert_eq!(calling(6).0.finish(&reply).unwrap_err(), ChannelError::Handshake);
        assert!(calling(3).0.finish(&reply).is_ok());
    }

    #[test]
    fn a_changed_repeated_or_missing_record_ends_the_connection() {
        let sealed = |count| {
            let (mut client, server) = pair();
            let records: Vec<Vec<u8>> = (0..count).map(|at| client.0.seal(&[at; 9])).collect();
            (records, server.1)
        };
        let (records, mut opener) = sealed(2);
        let mut plain = Vec::new();
        assert_eq!(opener.open(&records[1], &mut plain), Err(ChannelError::Record), "the first is missing");
        let (records, mut opener) = sealed(1);
        opener.open(&records[0], &mut plain).unwrap();
        assert_eq!(opener.open(&records[0], &mut plain), Err(ChannelError::Record), "repeated");
        assert_eq!(plain, [0; 9]);
        for bit in 0..8 * records[0].len() {
            let (mut records, mut opener) = sealed(1);
            records[0][bit / 8] ^= 1 << (bit % 8);
            let mut plain = Vec::new();
            // A longer length waits for bytes that do not come, within the bound of a record.
            let opened = opener.open(&records[0], &mut plain);
            assert!(opened.is_err() || opener.is_waiting_for_more(), "bit {bit}");
            assert!(plain.is_empty(), "bit {bit}");
        }
    }
}
