//! The header that all datagrams share, and the checks before any other byte is used.

use sample::MAX_ELEMENTS_PER_SAMPLE;
use units::{Epoch, StreamId};
use zerocopy::{FromBytes, IntoBytes};

use crate::extension::Extensions;
use crate::layout::{self, Common, Header};
use crate::malformed::{BufferTooSmall, Malformed, Reason};

/// The first two bytes of every datagram: `TC` in memory.
pub const MAGIC: u16 = 0x4354;
/// Protocol version of this crate.
pub const VERSION: u8 = 1;
/// Maximum size of a header with its extensions, so that its CRC can be checked on the stack.
pub const MAX_HEADER_BYTES: usize = 1_024;

/// Size up to which headers, including all without extensions, use a smaller buffer on the stack for their CRC.
pub(crate) const SHORT_HEADER_BYTES: usize = 256;

/// First code of unknown kinds that are numbered, so that an old reader can attribute dropped ones.
const NUMBERED_KINDS: u8 = 0x80;

/// Kind of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A slice of the samples.
    Data = 1,
    /// The publisher's running totals.
    Tally = 2,
    /// A part of the stream's description.
    Descriptor = 3,
    /// A reader's account.
    Report = 4,
    /// A stream that can be joined.
    Announcement = 5,
    /// A request of a reader.
    Request = 6,
}

/// Identity and position of a numbered datagram in its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbered {
    /// The stream.
    pub stream: StreamId,
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// The datagram's number since the epoch began.
    pub number: u64,
    /// Sample index of the position.
    pub first_index: u64,
    /// Element within that sample; below `elements_per_sample`.
    pub element_offset: u32,
    /// Elements of one sample; not zero.
    pub elements_per_sample: u32,
}

/// A received datagram with an intact header; its fields are not checked yet.
pub(crate) struct Sealed<'a> {
    pub(crate) common: &'a Common,
    header: &'a [u8],
    /// All bytes after the header.
    rest: &'a [u8],
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Data, Self::Tally, Self::Descriptor, Self::Report, Self::Announcement, Self::Request];

    /// Returns the kind with this code on the wire.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Returns the kind's code on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns whether datagrams of this kind are numbered.
    #[must_use]
    pub const fn is_numbered(self) -> bool {
        matches!(self, Self::Data | Self::Tally | Self::Descriptor)
    }
}

impl Numbered {
    /// Returns the position: the first element of the datagram, counted since the epoch began.
    ///
    /// In tallies and descriptors this is the horizon: every element before it has been numbered or lost, and the
    /// next data datagram starts there or later.
    ///
    /// Saturates for a head that no decoder accepts and no encoder writes.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.first_index
            .saturating_mul(self.elements_per_sample as u64)
            .saturating_add(self.element_offset as u64)
    }

    /// Returns the head of the datagram `number` of the same stream at `position`.
    ///
    /// # Panics
    /// If `elements_per_sample` is zero.
    #[must_use]
    pub fn at(self, number: u64, position: u64) -> Self {
        let per_sample = u64::from(self.elements_per_sample);
        let element_offset = u32::try_from(position % per_sample).expect("a remainder of a 32-bit divisor");
        Self { number, first_index: position / per_sample, element_offset, ..self }
    }

    fn read(group: &layout::Group) -> Result<Self, Reason> {
        let common = &group.common;
        let head = Self {
            stream: common.stream(),
            epoch: common.epoch(),
            number: group.number.get(),
            first_index: group.first_index.get(),
            element_offset: group.element_offset.get(),
            elements_per_sample: group.elements_per_sample.get(),
        };
        head.check().map(|()| head)
    }

    /// Checks that horizon and position, each one more than the last, are representable in 64 bits.
    fn check(&self) -> Result<(), Reason> {
        if self.number == u64::MAX {
            return Err(Reason::Field("number"));
        }
        self.check_position()
    }

    /// Checks that the position is valid in the stream and representable in 64 bits.
    pub(crate) fn check_position(&self) -> Result<(), Reason> {
        if !(1..=MAX_ELEMENTS_PER_SAMPLE).contains(&self.elements_per_sample) {
            return Err(Reason::Field("elements_per_sample"));
        }
        if self.element_offset >= self.elements_per_sample {
            return Err(Reason::Field("element_offset"));
        }
        self.first_index
            .checked_mul(u64::from(self.elements_per_sample))
            .and_then(|start| start.checked_add(u64::from(self.element_offset)))
            .map(|_| ())
            .ok_or(Reason::Field("first_index"))
    }

    /// Returns the header's group part, for a kind with a header of `header_bytes`.
    pub(crate) fn group(&self, kind: Kind, header_bytes: usize, payload_bytes: usize) -> layout::Group {
        debug_assert_eq!(self.check(), Ok(()), "a head that its own readers would refuse: {self:?}");
        layout::Group {
            common: Common::new(kind, header_bytes, payload_bytes, self.stream, self.epoch),
            number: self.number.into(),
            first_index: self.first_index.into(),
            element_offset: self.element_offset.into(),
            elements_per_sample: self.elements_per_sample.into(),
        }
    }
}

impl layout::Group {
    /// Changes the position in the header of a datagram.
    pub(crate) fn place(&mut self, head: &Numbered, payload_bytes: usize) {
        debug_assert_eq!(head.check(), Ok(()), "a head that its own readers would refuse: {head:?}");
        self.common.payload_bytes =
            u32::try_from(payload_bytes).expect("a payload fits into a datagram").into();
        self.number = head.number.into();
        self.first_index = head.first_index.into();
        self.element_offset = head.element_offset.into();
    }
}

impl Common {
    /// Returns the common part of a header before sealing.
    pub(crate) fn new(
        kind: Kind,
        header_bytes: usize,
        payload_bytes: usize,
        stream: StreamId,
        epoch: Epoch,
    ) -> Self {
        Self {
            magic: MAGIC.into(),
            version: VERSION,
            kind: kind.code(),
            flags: 0.into(),
            header_bytes: u16::try_from(header_bytes).expect("a header is at most 1,024 bytes").into(),
            header_crc: 0.into(),
            payload_bytes: u32::try_from(payload_bytes).expect("a payload fits into a datagram").into(),
            stream: stream.0.into(),
            epoch_start_ns: epoch.start_ns.into(),
            epoch_life: epoch.incarnation.into(),
        }
    }

    pub(crate) fn stream(&self) -> StreamId {
        StreamId(self.stream.get())
    }

    pub(crate) fn epoch(&self) -> Epoch {
        Epoch { start_ns: self.epoch_start_ns.get(), incarnation: self.epoch_life.get() }
    }
}

impl<'a> Sealed<'a> {
    /// Checks everything that must hold before the header's fields are used, the CRC last.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let sealed = Self::open_authentic(bytes)?;
        if header_crc(sealed.header) != sealed.common.header_crc.get() {
            return Err(Malformed { reason: Reason::HeaderCrc, head: None });
        }
        Ok(sealed)
    }

    /// Checks the same except the CRC, of a datagram whose tag was checked.
    pub(crate) fn open_authentic(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let refuse = |reason| Malformed { reason, head: None };
        let too_short = refuse(Reason::TooShort(bytes.len()));
        let (common, _) = Common::ref_from_prefix(bytes).map_err(|_| too_short.clone())?;
        if common.magic.get() != MAGIC {
            return Err(refuse(Reason::Magic(common.magic.get())));
        }
        if common.version != VERSION {
            return Err(refuse(Reason::Version(common.version)));
        }
        let header_bytes = usize::from(common.header_bytes.get());
        if header_bytes % 8 != 0 || !(Common::SIZE_BYTES..=MAX_HEADER_BYTES).contains(&header_bytes) {
            return Err(refuse(Reason::Field("header_bytes")));
        }
        let (header, rest) = bytes.split_at_checked(header_bytes).ok_or(too_short)?;
        Ok(Self { common, header, rest })
    }

    /// Returns number and position if this is a numbered datagram with a valid position.
    pub(crate) fn head(&self) -> Option<Numbered> {
        let code = self.common.kind;
        let numbered = Kind::from_code(code).map_or(code >= NUMBERED_KINDS, Kind::is_numbered);
        let (group, _) = layout::Group::ref_from_prefix(self.header).ok()?;
        if numbered { Numbered::read(group).ok() } else { None }
    }

    /// Returns the kind, after checking version, flags and the datagram's size.
    pub(crate) fn kind(&self) -> Result<Kind, Reason> {
        let kind = Kind::from_code(self.common.kind).ok_or(Reason::Kind(self.common.kind))?;
        if self.common.flags.get() != 0 {
            return Err(Reason::Flags(self.common.flags.get()));
        }
        if u32::try_from(self.rest.len()) != Ok(self.common.payload_bytes.get()) {
            return Err(Reason::Length);
        }
        Ok(kind)
    }

    /// Lays a kind's layout over the header of a kind without extensions of its own; extensions of a later version
    /// are skipped.
    pub(crate) fn header<H: Header>(&self) -> Result<&'a H, Reason> {
        const { assert!(H::EXTENSIONS.is_empty(), "what is known is read") };
        self.extended().map(|(header, _)| header)
    }

    /// Lays a kind's layout over a header without extensions, which almost all datagrams have; `None` over others.
    pub(crate) fn plain<H: Header>(&self) -> Option<&'a H> {
        H::ref_from_bytes(self.header).ok()
    }

    /// Lays a kind's layout over the header, and returns the extensions after it.
    pub(crate) fn extended<H: Header>(&self) -> Result<(&'a H, Extensions<'a>), Reason> {
        let (header, list) = H::ref_from_prefix(self.header).map_err(|_| Reason::Field("header_bytes"))?;
        Extensions::read(list, H::EXTENSIONS).map(|extensions| (header, extensions))
    }

    /// Reads the group part of a numbered kind's header.
    pub(crate) fn numbered(&self) -> Result<Numbered, Reason> {
        let (group, _) =
            layout::Group::ref_from_prefix(self.header).map_err(|_| Reason::Field("header_bytes"))?;
        Numbered::read(group)
    }

    /// Returns the bytes after the header.
    pub(crate) const fn payload(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the bytes after the header if their checksum is correct.
    pub(crate) fn checked_payload(&self, crc: u32) -> Result<&'a [u8], Reason> {
        if crc32c(self.rest) == crc { Ok(self.rest) } else { Err(Reason::PayloadCrc) }
    }
}

/// Returns the first `needed` bytes of `out`.
pub(crate) fn place(out: &mut [u8], needed: usize) -> Result<&mut [u8], BufferTooSmall> {
    out.get_mut(..needed).ok_or(BufferTooSmall { needed })
}

/// Writes `header` to the start of `datagram` and seals it with its CRC.
pub(crate) fn seal<H: Header>(header: &H, datagram: &mut [u8]) {
    debug_assert_eq!(header.common().header_crc.get(), 0, "the field is zero while the CRC is computed");
    let crc = crc32c(header.as_bytes());
    header.write_to_prefix(datagram).expect("the place was taken for header and payload");
    let (common, _) = Common::mut_from_prefix(datagram).expect("every header begins with the common one");
    common.header_crc = crc.into();
}

/// Writes `header` before `extension_bytes` of extensions already in place, and seals both with its CRC.
pub(crate) fn seal_extended<H: Header>(mut header: H, extension_bytes: usize, datagram: &mut [u8]) {
    if extension_bytes == 0 {
        return seal(&header, datagram);
    }
    debug_assert_eq!(header.common().header_crc.get(), 0, "the field is zero while the CRC is computed");
    header.write_to_prefix(datagram).expect("the place was taken for header and payload");
    let header_bytes = size_of::<H>() + extension_bytes;
    header.common_mut().header_crc = crc32c(&datagram[..header_bytes]).into();
    header.write_to_prefix(datagram).expect("it was written just now");
}

/// Returns the CRC-32C (Castagnoli) of `bytes`.
///
/// Source: RFC 9260 appendix A, where SCTP uses the same polynomial for the same purpose.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

fn header_crc(header: &[u8]) -> u32 {
    // Almost all datagrams are data: a copy of constant size takes few instructions.
    if let Ok(mut data) = layout::Data::read_from_bytes(header) {
        data.group.common.header_crc = 0.into();
        return crc32c(data.as_bytes());
    }
    if header.len() <= SHORT_HEADER_BYTES {
        copied_crc::<SHORT_HEADER_BYTES>(header)
    } else {
        copied_crc::<MAX_HEADER_BYTES>(header)
    }
}

/// Returns the CRC of a header of at most `LIMIT_BYTES`, of which a copy is made on the stack.
fn copied_crc<const LIMIT_BYTES: usize>(header: &[u8]) -> u32 {
    let mut copy = [0_u8; LIMIT_BYTES];
    let copy = &mut copy[..header.len()];
    copy.copy_from_slice(header);
    let (common, _) = Common::mut_from_prefix(copy).expect("every header begins with the common one");
    common.header_crc = 0.into();
    crc32c(copy)
}
