//! Descriptor datagrams: a description in parts, and its reassembly.

use core::net::IpAddr;
use std::collections::BTreeMap;

use units::{Epoch, StreamId};

use crate::description::{Description, DescriptionError, MAX_DESCRIPTION_BYTES};
use crate::extension::{self, Address, ExtensionType, MAX_ADDRESSES, Predecessor, listed};
use crate::fit::MIN_DATAGRAM_BYTES;
use crate::header::{self, Kind, Numbered, Sealed};
use crate::layout;
use crate::malformed::{BufferTooSmall, Reason};
use crate::relayed::{Deadline, ORIGIN_BYTES, Origin, origin_bytes};
use crate::secured::secured_bytes;

/// Size of a descriptor datagram's header. Units: bytes.
pub const DESCRIPTOR_HEADER_BYTES: usize = layout::Descriptor::SIZE_BYTES;
/// Minimum part size in the smallest datagrams: extensions of this and later versions take up to 340 bytes.
pub const MIN_DESCRIPTOR_PART_BYTES: usize = 128;
/// Maximum number of parts: the largest description in the smallest datagrams with the longest headers.
pub const MAX_DESCRIPTOR_PARTS: usize = MAX_DESCRIPTION_BYTES.div_ceil(MIN_DESCRIPTOR_PART_BYTES);

/// A part of an encoded description. All parts but the last have the same length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptorPart<'a> {
    /// The datagram's own number, and the horizon as its position.
    pub head: Numbered,
    /// Index of this part.
    pub part: u16,
    /// Number of parts.
    pub parts: u16,
    /// The size of the whole encoded description.
    pub content_bytes: u32,
    /// CRC-32C of the whole encoded description.
    pub content_crc: u32,
    /// The epoch before this one, if the publisher remembers it.
    pub predecessor: Option<Predecessor>,
    /// Further source addresses of the publisher's datagrams.
    pub addresses: &'a [Address],
    /// Origin of relayed samples.
    pub origin: Option<Origin>,
    /// Time for which samples are of use.
    pub deadline: Option<Deadline>,
    /// The bytes of this part.
    pub bytes: &'a [u8],
}

/// Optional fields of each descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DescriptorExtensions<'a> {
    /// The epoch before this one, if the publisher remembers it.
    pub predecessor: Option<Predecessor>,
    /// Further source addresses of the publisher's datagrams. Of more than [`MAX_ADDRESSES`] the first are listed, each
    /// once; invalid source addresses are omitted. An IPv6 scope is not sent.
    pub addresses: &'a [IpAddr],
    /// Origin of relayed samples.
    pub origin: Option<Origin>,
    /// Time for which samples are of use.
    pub deadline: Option<Deadline>,
}

/// An encoded description, ready to be sent repeatedly part by part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DescriptorParts {
    content: Vec<u8>,
    content_crc: u32,
    part_bytes: usize,
    parts: u16,
    predecessor: Option<Predecessor>,
    addresses: Vec<Address>,
    origin: Option<Origin>,
    deadline: Option<Deadline>,
}

/// Reassembles the parts of one stream's description, in any order.
///
/// Memory: at most the parts received of one description, so [`MAX_DESCRIPTION_BYTES`]. Parts of another description
/// replace those of the previous one.
#[derive(Clone, Debug, Default)]
pub struct DescriptorAssembler {
    content: Option<Content>,
    arrived: BTreeMap<u16, Vec<u8>>,
    complete: bool,
}

/// Common fields of the parts of one description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Content {
    stream: StreamId,
    epoch: Epoch,
    crc: u32,
    size_bytes: u32,
    parts: u16,
}

/// Reason why a complete description is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// The parts do not belong to one description.
    #[error("the checksum of the description does not match its parts")]
    Checksum,
    /// The content is not a description.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// The description and the datagrams are of different streams.
    #[error("the description belongs to stream {described}, the datagrams to stream {sent}")]
    Stream {
        /// Identity by the description.
        described: StreamId,
        /// Identity in the datagrams.
        sent: StreamId,
    },
    /// Schema and datagrams disagree on the shape of a sample.
    #[error("a sample has {described} elements by the description, but {sent} by the datagrams")]
    ElementsPerSample {
        /// By the schema.
        described: u32,
        /// By the datagrams' headers.
        sent: u32,
    },
}

impl<'a> DescriptorPart<'a> {
    /// Writes the datagram to the start of `out` and returns its size.
    ///
    /// # Errors
    /// [`BufferTooSmall`] if `out` is shorter than the datagram.
    ///
    /// # Panics
    /// In debug builds, if the part does not belong to its content.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, BufferTooSmall> {
        debug_assert_eq!(self.check(), Ok(()), "a part that its own readers would refuse");
        let extension_bytes = extension_bytes(self.predecessor, self.addresses, self.origin, self.deadline);
        let header_bytes = DESCRIPTOR_HEADER_BYTES + extension_bytes;
        let out = header::place(out, header_bytes + self.bytes.len())?;
        out[header_bytes..].copy_from_slice(self.bytes);
        self.put_extensions(&mut out[DESCRIPTOR_HEADER_BYTES..header_bytes]);
        let header = layout::Descriptor {
            group: self.head.group(Kind::Descriptor, header_bytes, self.bytes.len()),
            payload_crc: header::crc32c(self.bytes).into(),
            content_crc: self.content_crc.into(),
            content_bytes: self.content_bytes.into(),
            part: self.part.into(),
            parts: self.parts.into(),
        };
        header::seal_extended(header, extension_bytes, out);
        Ok(out.len())
    }

    fn put_extensions(&self, place: &mut [u8]) {
        let predecessor = self.predecessor.map(Predecessor::value);
        let (origin, deadline) = (self.origin.map(Origin::value), self.deadline.map(Deadline::value));
        let taken = extension::put(place, ExtensionType::Predecessor, predecessor.as_ref());
        let place = &mut place[taken..];
        let taken = extension::put(place, ExtensionType::Addresses, listed(self.addresses));
        let place = &mut place[taken..];
        let taken = extension::put(place, ExtensionType::Origin, origin.as_ref());
        extension::put(&mut place[taken..], ExtensionType::Deadline, deadline.as_ref());
    }

    pub(crate) fn read(sealed: &Sealed<'a>) -> Result<Self, Reason> {
        let (header, extensions): (&layout::Descriptor, _) = sealed.extended()?;
        let predecessor = extensions.value(ExtensionType::Predecessor).map(Predecessor::read);
        let addresses = extensions.value(ExtensionType::Addresses).map(Address::read_list);
        let part = Self {
            head: sealed.numbered()?,
            part: header.part.get(),
            parts: header.parts.get(),
            content_bytes: header.content_bytes.get(),
            content_crc: header.content_crc.get(),
            predecessor: predecessor.transpose()?,
            addresses: addresses.transpose()?.unwrap_or_default(),
            origin: Origin::among(&extensions)?,
            deadline: extensions.value(ExtensionType::Deadline).map(Deadline::read).transpose()?,
            bytes: sealed.checked_payload(header.payload_crc.get())?,
        };
        part.check().map(|()| part)
    }

    /// Checks that the part is exactly its share of the content, and that its extensions are of this stream.
    fn check(&self) -> Result<(), Reason> {
        self.predecessor.map_or(Ok(()), |predecessor| predecessor.check(&self.head))?;
        listed(self.addresses).map_or(Ok(()), Address::check_list)?;
        self.origin.map_or(Ok(()), |origin| origin.check(&self.head))?;
        self.deadline.map_or(Ok(()), |deadline| deadline.check())?;
        let content_bytes = self.content_bytes as usize;
        if !(1..=MAX_DESCRIPTION_BYTES).contains(&content_bytes) {
            return Err(Reason::Field("content_bytes"));
        }
        let (part, parts) = (usize::from(self.part), usize::from(self.parts));
        if !(1..=MAX_DESCRIPTOR_PARTS).contains(&parts) {
            return Err(Reason::Field("parts"));
        }
        let part_bytes = content_bytes.div_ceil(parts);
        let start = part * part_bytes;
        if part >= parts || start >= content_bytes {
            return Err(Reason::Field("part"));
        }
        let expected = part_bytes.min(content_bytes - start);
        if self.bytes.len() == expected { Ok(()) } else { Err(Reason::Length) }
    }
}

impl DescriptorParts {
    /// Encodes `description` and cuts it into parts for datagrams of at most `datagram_bytes`.
    ///
    /// # Errors
    /// See [`Description::encode`].
    ///
    /// # Panics
    /// If `datagram_bytes` is below [`MIN_DATAGRAM_BYTES`] less the bytes that security adds.
    pub fn new(description: &Description, datagram_bytes: usize) -> Result<Self, DescriptionError> {
        Self::with_extensions(description, &DescriptorExtensions::default(), datagram_bytes)
    }

    /// Encodes `description` as [`DescriptorParts::new`]; each part also carries `extensions`.
    ///
    /// Cost: 48 bytes of each descriptor for the predecessor, 24 to 136 for the addresses, 24 for the origin, and 16 for
    /// the deadline.
    ///
    /// # Errors
    /// See [`Description::encode`].
    ///
    /// # Panics
    /// If `datagram_bytes` is below [`MIN_DATAGRAM_BYTES`] less the bytes that security adds.
    pub fn with_extensions(
        description: &Description,
        extensions: &DescriptorExtensions<'_>,
        datagram_bytes: usize,
    ) -> Result<Self, DescriptionError> {
        assert!(datagram_bytes >= MIN_PLAIN_BYTES, "a plain datagram has room for {MIN_PLAIN_BYTES} bytes");
        let content = description.encode()?;
        let DescriptorExtensions { predecessor, addresses, origin, deadline } = *extensions;
        let addresses = Address::list_of(addresses);
        let extension_bytes = extension_bytes(predecessor, &addresses, origin, deadline);
        let parts = content.len().div_ceil(datagram_bytes - DESCRIPTOR_HEADER_BYTES - extension_bytes);
        Ok(Self {
            content_crc: header::crc32c(&content),
            part_bytes: content.len().div_ceil(parts),
            parts: u16::try_from(parts).expect("a description has at most 2,048 parts"),
            content,
            predecessor,
            addresses,
            origin,
            deadline,
        })
    }

    /// Returns the number of parts, at least one.
    #[must_use]
    pub const fn count(&self) -> u16 {
        self.parts
    }

    /// Returns part `index` with `head`, `None` beyond the last part.
    #[must_use]
    pub fn part(&self, index: u16, head: Numbered) -> Option<DescriptorPart<'_>> {
        Some(DescriptorPart {
            head,
            part: index,
            parts: self.parts,
            content_bytes: u32::try_from(self.content.len()).expect("a description is at most 256 KiB"),
            content_crc: self.content_crc,
            predecessor: self.predecessor,
            addresses: &self.addresses,
            origin: self.origin,
            deadline: self.deadline,
            bytes: self.content.chunks(self.part_bytes).nth(usize::from(index))?,
        })
    }
}

/// Minimum limit of a part's plain datagram: the smallest datagram, secured.
const MIN_PLAIN_BYTES: usize = MIN_DATAGRAM_BYTES - secured_bytes(Kind::Descriptor);

// The longest list that this version writes leaves the smallest datagrams more than the minimum part size.
const _: () = assert!(
    MIN_PLAIN_BYTES - DESCRIPTOR_HEADER_BYTES
        >= MIN_DESCRIPTOR_PART_BYTES
            + extension::padded_bytes(layout::Predecessor::SIZE_BYTES)
            + extension::padded_bytes(MAX_ADDRESSES * size_of::<Address>())
            + ORIGIN_BYTES
            + extension::padded_bytes(layout::Deadline::SIZE_BYTES)
);

/// Returns the size of a descriptor's extensions. Units: bytes.
fn extension_bytes(
    predecessor: Option<Predecessor>,
    addresses: &[Address],
    origin: Option<Origin>,
    deadline: Option<Deadline>,
) -> usize {
    extension::size_bytes(predecessor.map(Predecessor::value).as_ref())
        + extension::size_bytes(listed(addresses))
        + origin_bytes(origin.is_some())
        + extension::size_bytes(deadline.map(Deadline::value).as_ref())
}

impl DescriptorAssembler {
    /// Creates an empty assembler.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a part; returns the description on its last missing part, once.
    ///
    /// # Errors
    /// [`DescriptorError`] on the last missing part; all parts are then discarded, and the next round starts again.
    pub fn accept(&mut self, part: &DescriptorPart<'_>) -> Result<Option<Description>, DescriptorError> {
        let content = Content {
            stream: part.head.stream,
            epoch: part.head.epoch,
            crc: part.content_crc,
            size_bytes: part.content_bytes,
            parts: part.parts,
        };
        if self.content != Some(content) {
            *self = Self { content: Some(content), ..Self::default() };
        }
        if self.complete {
            return Ok(None);
        }
        self.arrived.entry(part.part).or_insert_with(|| part.bytes.to_vec());
        if self.arrived.len() < usize::from(part.parts) {
            return Ok(None);
        }
        let bytes = core::mem::take(&mut self.arrived).into_values().collect::<Vec<_>>().concat();
        let description = believed(&bytes, part)?;
        self.complete = true;
        Ok(Some(description))
    }
}

/// Decodes a complete description and compares it with the datagrams that carried it.
fn believed(bytes: &[u8], part: &DescriptorPart<'_>) -> Result<Description, DescriptorError> {
    if header::crc32c(bytes) != part.content_crc {
        return Err(DescriptorError::Checksum);
    }
    let (description, described) = Description::decode_identified(bytes)?;
    if described != part.head.stream {
        return Err(DescriptorError::Stream { described, sent: part.head.stream });
    }
    let (described, sent) = (description.schema.elements_per_sample(), part.head.elements_per_sample);
    if described != sent {
        return Err(DescriptorError::ElementsPerSample { described, sent });
    }
    Ok(description)
}
