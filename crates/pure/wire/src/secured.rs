//! Secured datagrams: encrypted and authenticated with a key of the crate `keys`.
//!
//! A secured datagram is a plain one with extension `secured` as the first of its header, its payload encrypted, and
//! a tag behind the payload, which `payload_bytes` includes. The whole header is authenticated. [`SecuredHead`] makes
//! the one from the other, in place and in both directions: everything else in this crate knows plain datagrams only,
//! and refuses secured ones as what they are, an unknown critical extension.
//!
//! Source: `docs/protocol/security.md`.

use core::ops::Range;

use keys::{DatagramKey, GroupSecret, KeySet, OpenError, Salt, Suite, TAG_BYTES, Token};
use units::{Epoch, StreamId};
use zerocopy::FromBytes;

use crate::extension::{self, CRITICAL, ExtensionType, padded_bytes};
use crate::header::{self, Kind, MAGIC, MAX_HEADER_BYTES, VERSION};
use crate::layout::{self, Common, CountedSecured, ExtensionHead, Group, SaltedSecured, Secured};

/// Bytes by which a secured data datagram is longer than a plain one: the extension and the tag.
pub const SECURED_DATA_BYTES: usize = secured_bytes(Kind::Data);

/// Size of the header of a data datagram without other extensions.
const DATA_HEADER_BYTES: usize = layout::Data::SIZE_BYTES + extension_bytes(Kind::Data);

/// Largest number or counter: no stream lasts as long, and sums of two do not overflow.
const MAX_NONCE: u64 = u64::MAX / 4;

/// The extension of a secured datagram, with what of its header decides its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SecuredHead {
    /// Kind of the datagram.
    pub kind: Kind,
    /// Its stream.
    pub stream: StreamId,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its number, or the sender's counter in a datagram without a number.
    pub nonce: u64,
    /// Public name of the group secret.
    pub token: Token,
    /// Check of the group secret.
    pub key_check: u32,
    /// Authenticated encryption.
    pub suite: Suite,
    /// Index of the destination of a tally, with the revision of a final one; 0 in other kinds.
    pub destination: u16,
    /// The sender's salt; zero in data and tallies, which do not carry it.
    pub salt: Salt,
    header_bytes: usize,
}

/// The header of a secured data datagram without other extensions. Those behind it in a train have mostly the same one,
/// but for number, position, time and CRC.
#[derive(Clone, Copy, Debug)]
pub struct SecuredDataHeader {
    head: SecuredHead,
    bytes: [u8; DATA_HEADER_BYTES],
    datagram_bytes: usize,
}

/// Returns the bytes by which a secured datagram is longer than the plain one of the same kind.
#[must_use]
pub const fn secured_bytes(kind: Kind) -> usize {
    extension_bytes(kind) + TAG_BYTES
}

const fn extension_bytes(kind: Kind) -> usize {
    padded_bytes(match kind {
        Kind::Data | Kind::Tally => Secured::SIZE_BYTES,
        Kind::Descriptor => SaltedSecured::SIZE_BYTES,
        Kind::Report | Kind::Announcement | Kind::Request => CountedSecured::SIZE_BYTES,
    })
}

/// Returns the size of a kind's own fields.
const fn fields_bytes(kind: Kind) -> usize {
    match kind {
        Kind::Data => layout::Data::SIZE_BYTES,
        Kind::Tally => layout::Tally::SIZE_BYTES,
        Kind::Descriptor => layout::Descriptor::SIZE_BYTES,
        Kind::Report => layout::Report::SIZE_BYTES,
        Kind::Announcement => layout::Announcement::SIZE_BYTES,
        Kind::Request => layout::Request::SIZE_BYTES,
    }
}

/// Returns the offset of a kind's `payload_crc`, which is zero in secured datagrams: it would reveal the payload, and
/// the tag protects it.
const fn payload_crc_at(kind: Kind) -> Option<usize> {
    match kind {
        Kind::Data | Kind::Request => None,
        Kind::Tally => Some(core::mem::offset_of!(layout::Tally, payload_crc)),
        Kind::Descriptor => Some(core::mem::offset_of!(layout::Descriptor, payload_crc)),
        Kind::Report => Some(core::mem::offset_of!(layout::Report, payload_crc)),
        Kind::Announcement => Some(core::mem::offset_of!(layout::Announcement, payload_crc)),
    }
}

impl SecuredHead {
    /// Reads the head of a secured datagram; `None` for all other bytes, [`crate::Datagram::decode`] distinguishes
    /// them. Nothing of it is authentic before [`open`](Self::open).
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (common, _) = Common::ref_from_prefix(bytes).ok()?;
        let kind = Kind::from_code(common.kind)?;
        let (header_bytes, fields_bytes) = (usize::from(common.header_bytes.get()), fields_bytes(kind));
        let payload_bytes = common.payload_bytes.get() as usize;
        let is_datagram = (common.magic.get(), common.version) == (MAGIC, VERSION)
            && header_bytes % 8 == 0
            && (fields_bytes..=MAX_HEADER_BYTES).contains(&header_bytes)
            && payload_bytes >= TAG_BYTES
            && header_bytes.checked_add(payload_bytes) == Some(bytes.len());
        if !is_datagram {
            return None;
        }
        let (head, value, _) = extension::first(&bytes[fields_bytes..header_bytes]).ok()?;
        if (head.code, head.flags) != (ExtensionType::Secured.code(), CRITICAL) {
            return None;
        }
        let (secured, salt, counter) = match kind {
            Kind::Data | Kind::Tally => (Secured::ref_from_bytes(value).ok()?, [0; 16], 0),
            Kind::Descriptor => {
                let SaltedSecured { secured, salt } = SaltedSecured::ref_from_bytes(value).ok()?;
                (secured, *salt, 0)
            }
            Kind::Report | Kind::Announcement | Kind::Request => {
                let CountedSecured { salted, counter } = CountedSecured::ref_from_bytes(value).ok()?;
                (&salted.secured, salted.salt, counter.get())
            }
        };
        let nonce =
            if kind.is_numbered() { Group::ref_from_prefix(bytes).ok()?.0.number.get() } else { counter };
        let is_for_all = kind == Kind::Tally || secured.destination.get() == 0;
        (secured.reserved == 0 && is_for_all && nonce <= MAX_NONCE).then_some(())?;
        Some(Self {
            kind,
            stream: common.stream(),
            epoch: common.epoch(),
            nonce,
            token: Token(secured.token.get()),
            key_check: secured.key_check.get(),
            suite: Suite::from_code(secured.suite)?,
            destination: secured.destination.get(),
            salt: Salt(salt),
            header_bytes,
        })
    }

    /// Returns the secret that the datagram names, if it is among these.
    #[must_use]
    pub fn secret_in<'a>(&self, keys: &'a KeySet) -> Option<&'a GroupSecret> {
        keys.named(self.token, self.key_check, self.suite)
    }

    /// Returns the head for a plain datagram of this crate's encoders that is secured with this secret. Salt, counter and
    /// destination are up to the caller, where the kind has them.
    ///
    /// # Panics
    /// If `plain` is not a datagram.
    #[must_use]
    pub fn of_plain(plain: &[u8], secret: &GroupSecret) -> Self {
        let (common, _) = Common::ref_from_prefix(plain).expect("a datagram has a header");
        let kind = Kind::from_code(common.kind).expect("an encoder writes a known kind");
        let numbered = kind.is_numbered();
        let nonce = if numbered {
            Group::ref_from_prefix(plain).expect("numbered kinds have a group header").0.number.get()
        } else {
            0
        };
        Self {
            kind,
            stream: common.stream(),
            epoch: common.epoch(),
            nonce,
            token: secret.token,
            key_check: secret.key_check(),
            suite: secret.suite,
            destination: 0,
            salt: Salt([0; 16]),
            header_bytes: usize::from(common.header_bytes.get()) + extension_bytes(kind),
        }
    }

    /// Returns the offset at which the plain datagram lies before [`secure`](Self::secure): the extension's room.
    #[must_use]
    pub const fn plain_at(&self) -> usize {
        extension_bytes(self.kind)
    }

    /// Secures the plain datagram that lies in `bytes` behind the room for its extension and before that for its tag.
    ///
    /// Cost: the encryption, and a copy of the header.
    ///
    /// # Panics
    /// If no plain datagram of this head's kind lies there.
    pub fn secure(&self, key: &DatagramKey, bytes: &mut [u8]) {
        let (room, fields_bytes) = (self.plain_at(), fields_bytes(self.kind));
        bytes.copy_within(room..room + fields_bytes, 0);
        self.put_extension(&mut bytes[fields_bytes..fields_bytes + room]);
        let (header, payload) = bytes.split_at_mut(self.header_bytes);
        let (payload, tag) = payload.split_at_mut(payload.len() - TAG_BYTES);
        if let Some(at) = payload_crc_at(self.kind) {
            header[at..at + 4].fill(0);
        }
        finish(header, payload.len() + TAG_BYTES);
        tag.copy_from_slice(&key.seal(self.nonce, header, payload));
    }

    /// Opens the secured datagram at `place` of `bytes`, from which this head was read, and writes the plain one to
    /// `to`, at or before it; returns its size.
    ///
    /// # Errors
    /// [`OpenError`] if the datagram is not authentic; `bytes` between `to` and its end are then meaningless.
    ///
    /// # Panics
    /// If the datagram does not lie at `place`, or `to` is behind it.
    pub fn open(
        &self,
        key: &DatagramKey,
        bytes: &mut [u8],
        place: Range<usize>,
        to: usize,
    ) -> Result<usize, OpenError> {
        let header = &bytes[place.start..place.start + self.header_bytes];
        // Almost all datagrams are data without further extensions: copies of constant size take few instructions.
        if let (Kind::Data, Ok(mut header)) = (self.kind, <[u8; DATA_HEADER_BYTES]>::try_from(header)) {
            return self.open_with((Kind::Data, &mut header), key, bytes, (place, to));
        }
        let mut copy = [0; MAX_HEADER_BYTES];
        let copy = &mut copy[..self.header_bytes];
        copy.copy_from_slice(header);
        self.open_with((self.kind, copy), key, bytes, (place, to))
    }

    /// Opens a datagram of this kind, of whose header there is a copy.
    #[inline(always)]
    fn open_with(
        &self,
        (kind, header): (Kind, &mut [u8]),
        key: &DatagramKey,
        bytes: &mut [u8],
        (place, to): (Range<usize>, usize),
    ) -> Result<usize, OpenError> {
        let (room, fields_bytes) = (extension_bytes(kind), fields_bytes(kind));
        let plain_header_bytes = header.len() - room;
        let payload_to = to + plain_header_bytes;
        let payload_from = place.start + header.len() - payload_to;
        let region = &mut bytes[payload_to..place.end];
        let payload_bytes = key.open_moved(self.nonce, header, region, payload_from)?;
        // The plain header: the kind's own fields, then the other extensions.
        header.copy_within(..fields_bytes, room);
        let header = &mut header[room..];
        let (plain, rest) = bytes[to..].split_at_mut(plain_header_bytes);
        if let Some(at) = payload_crc_at(kind) {
            header[at..at + 4].copy_from_slice(&header::crc32c(&rest[..payload_bytes]).to_le_bytes());
        }
        finish(header, payload_bytes);
        plain.copy_from_slice(header);
        Ok(plain_header_bytes + payload_bytes)
    }

    fn put_extension(&self, place: &mut [u8]) {
        let Self { token, key_check, suite, destination, salt, nonce, .. } = self;
        let secured = Secured {
            token: token.0.into(),
            key_check: (*key_check).into(),
            suite: suite.code(),
            reserved: 0,
            destination: (*destination).into(),
        };
        let salted = SaltedSecured { secured, salt: salt.0 };
        let counted = CountedSecured { salted, counter: (*nonce).into() };
        let of_type = ExtensionType::Secured;
        match self.kind {
            Kind::Data | Kind::Tally => extension::put(place, of_type, Some(&secured)),
            Kind::Descriptor => extension::put(place, of_type, Some(&salted)),
            Kind::Report | Kind::Announcement | Kind::Request => {
                extension::put(place, of_type, Some(&counted))
            }
        };
        let (head, _) = ExtensionHead::mut_from_prefix(place).expect("the extension was put there");
        head.flags = CRITICAL;
    }
}

impl SecuredDataHeader {
    /// Returns the head that was read from it.
    #[must_use]
    pub const fn head(&self) -> &SecuredHead {
        &self.head
    }

    /// Returns the size of its datagram.
    #[must_use]
    pub const fn datagram_bytes(&self) -> usize {
        self.datagram_bytes
    }

    /// Takes the header of the datagram from which `head` was read; `None` if it is not data, or has other extensions.
    #[must_use]
    pub fn of(head: SecuredHead, datagram: &[u8]) -> Option<Self> {
        let is_plain_data = head.kind == Kind::Data && head.header_bytes == DATA_HEADER_BYTES;
        let bytes = *datagram.first_chunk()?;
        is_plain_data.then_some(Self { head, bytes, datagram_bytes: datagram.len() })
    }

    /// Returns the head of a datagram whose header is the same but for number, position, time and CRC; `None` for all
    /// others, [`SecuredHead::read`] distinguishes them.
    ///
    /// Cost: a fraction of that of [`SecuredHead::read`].
    #[must_use]
    pub fn head_of(&self, datagram: &[u8]) -> Option<SecuredHead> {
        const CRC: usize = core::mem::offset_of!(Common, header_crc);
        const EXTENSION: usize = layout::Data::SIZE_BYTES;
        let bytes: &[u8; DATA_HEADER_BYTES] = datagram.first_chunk()?;
        let nonce = Group::ref_from_prefix(bytes).ok()?.0.number.get();
        let is_alike = bytes[..CRC] == self.bytes[..CRC]
            && bytes[CRC + 4..Common::SIZE_BYTES] == self.bytes[CRC + 4..Common::SIZE_BYTES]
            && bytes[EXTENSION..] == self.bytes[EXTENSION..]
            && datagram.len() == self.datagram_bytes
            && nonce <= MAX_NONCE;
        is_alike.then_some(SecuredHead { nonce, ..self.head })
    }
}

/// Completes a header whose size or payload has changed: both sizes and the CRC.
fn finish(header: &mut [u8], payload_bytes: usize) {
    let header_bytes = u16::try_from(header.len()).expect("a header has at most 1,024 bytes");
    let payload_bytes = u32::try_from(payload_bytes).expect("a payload fits into a datagram");
    let fields = common(header);
    fields.header_bytes = header_bytes.into();
    fields.payload_bytes = payload_bytes.into();
    fields.header_crc = 0.into();
    let crc = header::crc32c(header);
    common(header).header_crc = crc.into();
}

fn common(header: &mut [u8]) -> &mut Common {
    Common::mut_from_prefix(header).expect("every header begins with the common one").0
}

#[cfg(test)]
pub(crate) mod tests {
    use keys::{GroupKey, Purpose, Secret};
    use units::WallTime;

    use super::*;
    use crate::golden::examples;
    use crate::{Datagram, Malformed, Reason};

    fn secret(suite: Suite) -> GroupSecret {
        let secret = Secret::new([1; keys::SECRET_BYTES].into());
        GroupSecret::new(Token(7), suite, secret, WallTime::default())
    }

    fn key(suite: Suite) -> DatagramKey {
        GroupKey::new(&secret(suite), Salt([2; 16])).derive(Purpose::Unnumbered)
    }

    /// Secures a plain datagram with a secret, salt, counter and destination of these tests.
    pub(crate) fn secured(plain: &[u8], suite: Suite) -> Vec<u8> {
        let secret = secret(suite);
        let mut head = SecuredHead::of_plain(plain, &secret);
        if head.kind == Kind::Tally {
            head.destination = 3;
        }
        if !matches!(head.kind, Kind::Data | Kind::Tally) {
            head.salt = Salt([2; 16]);
        }
        if !head.kind.is_numbered() {
            head.nonce = 9;
        }
        let mut bytes = vec![0; plain.len() + secured_bytes(head.kind)];
        bytes[head.plain_at()..][..plain.len()].copy_from_slice(plain);
        head.secure(&key(suite), &mut bytes);
        assert_eq!(SecuredHead::read(&bytes), Some(head), "it reads what was written");
        bytes
    }

    fn opened(mut bytes: Vec<u8>, suite: Suite) -> Option<Vec<u8>> {
        let head = SecuredHead::read(&bytes)?;
        let end = bytes.len();
        let size = head.open(&key(suite), &mut bytes, 0..end, 0).ok()?;
        bytes.truncate(size);
        Some(bytes)
    }

    #[test]
    fn every_kind_opens_to_the_plain_datagram_and_is_refused_unopened() {
        for suite in Suite::ALL {
            for (name, plain) in examples() {
                let bytes = secured(&plain, suite);
                let kind = SecuredHead::read(&bytes).unwrap().kind;
                assert_eq!(bytes.len(), plain.len() + secured_bytes(kind), "{name}");
                let refused = Datagram::decode(&bytes);
                assert!(
                    matches!(refused, Err(Malformed { reason: Reason::Extension(1), .. })),
                    "{name}: {refused:?}"
                );
                assert_eq!(opened(bytes, suite).as_ref(), Some(&plain), "{name}");
            }
        }
    }

    #[test]
    fn no_changed_bit_and_no_cut_is_opened() {
        for (name, plain) in examples() {
            let bytes = secured(&plain, Suite::Aes256Gcm);
            for bit in 0..8 * bytes.len() {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(opened(changed, Suite::Aes256Gcm), None, "{name}, bit {bit}");
            }
            for len in 0..bytes.len() {
                assert_eq!(opened(bytes[..len].to_vec(), Suite::Aes256Gcm), None, "{name}, cut at {len}");
            }
        }
    }

    #[test]
    fn a_header_finds_the_heads_of_data_that_differ_in_number_position_time_and_crc_alone() {
        let of_kind = |bytes: &Vec<u8>| matches!(Datagram::decode(bytes), Ok(Datagram::Data(_)));
        let plain = examples().into_iter().map(|(_, bytes)| bytes).find(of_kind).unwrap();
        let first = secured(&plain, Suite::Aes256Gcm);
        let head = SecuredHead::read(&first).unwrap();
        let header = SecuredDataHeader::of(head, &first).unwrap();
        assert_eq!(header.head_of(&first), Some(head));
        let free = [(8, 12), (40, 48), (48, 56), (56, 64), (64, 72), (72, 80)];
        for at in 0..DATA_HEADER_BYTES {
            let mut changed = first.clone();
            changed[at] ^= 1;
            let is_free =
                at < layout::Data::SIZE_BYTES && free.iter().any(|(from, to)| (*from..*to).contains(&at));
            let read = header.head_of(&changed);
            assert_eq!(read.is_some(), is_free, "{at}");
            assert!(read.is_none() || read == SecuredHead::read(&changed), "{at}");
        }
        assert_eq!((header.head_of(&first[..first.len() - 1]), header.head_of(&first[..9])), (None, None));
        for (_, plain) in examples().into_iter().filter(|(_, bytes)| !of_kind(bytes)) {
            let other = secured(&plain, Suite::Aes256Gcm);
            assert!(SecuredDataHeader::of(SecuredHead::read(&other).unwrap(), &other).is_none());
        }
    }

    #[test]
    fn data_whose_tag_was_checked_is_read_whatever_its_crc_says() {
        let of_kind = |plain: &&Vec<u8>| matches!(Datagram::decode(plain), Ok(Datagram::Data(_)));
        let examples: Vec<Vec<u8>> = examples().into_iter().map(|(_, bytes)| bytes).collect();
        let plain = examples.iter().find(of_kind).unwrap();
        let mut opened = opened(secured(plain, Suite::Aes256Gcm), Suite::Aes256Gcm).unwrap();
        let data = crate::Data::decode(plain);
        assert!(data.is_some() && crate::Data::decode_authentic(&opened) == data);
        opened[core::mem::offset_of!(Common, header_crc)] ^= 1;
        assert_eq!((crate::Data::decode(&opened), crate::Data::decode_authentic(&opened)), (None, data));
        let others = examples.iter().filter(|plain| !of_kind(plain));
        assert!(
            others.clone().count() > 0
                && others.clone().all(|it| crate::Data::decode_authentic(it).is_none())
        );
    }

    #[test]
    fn plain_datagrams_have_no_secured_head() {
        for (name, plain) in examples() {
            assert_eq!(SecuredHead::read(&plain), None, "{name}");
        }
    }

    #[test]
    fn a_train_is_opened_into_plain_datagrams_without_space_between_them() {
        let (_, plain) = examples().into_iter().find(|(name, _)| *name == "data").unwrap();
        let one = secured(&plain, Suite::Aes256Gcm);
        let mut train = one.repeat(3);
        let mut to = 0;
        for index in 0..3 {
            let place = index * one.len()..(index + 1) * one.len();
            let head = SecuredHead::read(&train[place.clone()]).unwrap();
            to += head.open(&key(Suite::Aes256Gcm), &mut train, place, to).unwrap();
        }
        assert_eq!(train[..to], plain.repeat(3));
    }
}
