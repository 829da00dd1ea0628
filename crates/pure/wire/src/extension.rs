//! Extensions: optional fields of a header behind its kind's own fields, for readers that know the type.
//!
//! The list is between header and payload: `header_bytes` includes it and the header's CRC covers it. A reader skips
//! unknown types, and drops the datagram only if one of them is critical. Datagrams of later versions thus stay
//! readable, and those without extensions cost nothing.
//!
//! Source: `docs/protocol/stream.md`, "Extensions"; a test compares its table with [`ExtensionType`].

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use units::{Epoch, WallTime};
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::header::{Kind, Numbered};
use crate::layout::{self, ExtensionHead};
use crate::malformed::Reason;
use crate::tally;

/// Maximum number of further source addresses of a publisher: two families on each of four interfaces.
pub const MAX_ADDRESSES: usize = 8;
/// Maximum number of nonces that one tally repeats: with them and all its ranges it still fits into the default
/// datagram.
pub const MAX_NONCES: usize = 16;

/// Alignment of the start and end of an extension, as of headers.
const ALIGNMENT_BYTES: usize = 8;
/// Flag: a reader that does not know the type drops the datagram.
pub(crate) const CRITICAL: u8 = 1;

/// Type of an extension, assigned or reserved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ExtensionType {
    /// Key of the datagram's encryption and authentication: [`SecuredHead`](crate::SecuredHead).
    Secured = 1,
    /// The previous epoch and its end: [`Predecessor`].
    Predecessor = 2,
    /// Further source addresses of the publisher: [`Address`].
    Addresses = 3,
    /// Start and kind of a reader's wait: [`Waiting`].
    Waiting = 4,
    /// Origin of relayed samples: [`Origin`](crate::Origin).
    Origin = 5,
    /// Stations and losses before this hop: [`UpstreamHop`](crate::UpstreamHop).
    Upstream = 6,
    /// A signed statement of digests: [`Tally::statement`](crate::Tally::statement).
    Proof = 7,
    /// Maximum error of the publisher's clock. Reserved.
    Clock = 8,
    /// Useful lifetime of a sample: [`Deadline`](crate::Deadline).
    Deadline = 9,
    /// Numbers that a reader asks the publisher to repeat: [`Nonce`].
    Nonces = 10,
    /// Losses before this hop, range by range: [`Inherited`](crate::Inherited).
    Inherited = 11,
}

/// The publisher's epoch before this one, as far as its successor remembers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Predecessor {
    /// The predecessor; it began earlier than the epoch that reports it.
    pub epoch: Epoch,
    /// One more than its highest number.
    pub next_number: u64,
    /// Sample index of its horizon: every earlier sample was numbered or lost.
    pub next_index: u64,
    /// Element within that sample; not zero only if the epoch ended within a sample.
    pub element_offset: u32,
    /// True if the epoch ended there; otherwise it came at least this far.
    pub is_final: bool,
}

/// A reader that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// Start of the wait, by the reader's clock.
    pub since: WallTime,
    /// True if it wants the stream from sample 0 on.
    pub from_beginning: bool,
    /// Age from which a sample is useless to the reader.
    pub deadline: Option<Duration>,
}

/// A source address of a publisher's datagrams: IPv6, or IPv4 mapped into it (RFC 4291 §2.5.5.2).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Address([u8; 16]);

/// A random number that a reader asks the publisher to repeat in its next tally: only a publisher that receives at
/// the source address of its datagrams can do so.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Nonce(U64);

// A request of a reader that waits stays a small datagram: the value fills 24 bytes with its head.
const _: () = assert!(padded_bytes(layout::Waiting::SIZE_BYTES) == 24);

/// The extensions of a received datagram, all of them checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extensions<'a> {
    list: &'a [u8],
}

impl ExtensionType {
    /// Every type, in the order of their codes.
    pub const ALL: [Self; 11] = [
        Self::Secured,
        Self::Predecessor,
        Self::Addresses,
        Self::Waiting,
        Self::Origin,
        Self::Upstream,
        Self::Proof,
        Self::Clock,
        Self::Deadline,
        Self::Nonces,
        Self::Inherited,
    ];

    /// Returns the type's code on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the type's name in the page of the protocol.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Secured => "secured",
            Self::Predecessor => "predecessor",
            Self::Addresses => "addresses",
            Self::Waiting => "waiting",
            Self::Origin => "origin",
            Self::Upstream => "upstream",
            Self::Proof => "proof",
            Self::Clock => "clock",
            Self::Deadline => "deadline",
            Self::Nonces => "nonces",
            Self::Inherited => "inherited",
        }
    }

    /// Returns the kinds of datagrams that may carry the type.
    #[must_use]
    pub const fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Secured => &Kind::ALL,
            Self::Predecessor | Self::Addresses | Self::Deadline => &[Kind::Descriptor],
            Self::Waiting => &[Kind::Report, Kind::Request],
            Self::Origin => &[Kind::Data, Kind::Tally, Kind::Descriptor],
            Self::Upstream | Self::Proof | Self::Clock | Self::Inherited => &[Kind::Tally],
            Self::Nonces => &[Kind::Tally, Kind::Request],
        }
    }

    /// Returns whether a reader that does not know the type cannot use the datagram.
    #[must_use]
    pub const fn is_critical(self) -> bool {
        matches!(self, Self::Secured)
    }

    /// Returns whether this version reads and writes the type; the others are reserved.
    #[must_use]
    pub const fn is_known(self) -> bool {
        !matches!(self, Self::Clock)
    }
}

impl<'a> Extensions<'a> {
    /// Checks a list: each type complete, at most once and in order, and none critical that is not `known` in this
    /// kind.
    pub(crate) fn read(list: &'a [u8], known: &[ExtensionType]) -> Result<Self, Reason> {
        let (mut rest, mut previous) = (list, 0);
        while !rest.is_empty() {
            let (head, _, after) = first(rest)?;
            // Type 0 is invalid, so that a header padded with zeros has no meaning.
            if head.code <= previous {
                return Err(Reason::Field("extensions"));
            }
            let is_known = known.iter().any(|of_kind| of_kind.code() == head.code);
            if is_known && head.flags != 0 {
                return Err(Reason::Field("extensions"));
            }
            if !is_known && head.flags & CRITICAL != 0 {
                return Err(Reason::Extension(head.code));
            }
            (rest, previous) = (after, head.code);
        }
        Ok(Self { list })
    }

    /// Returns the value of an extension that is known in this kind.
    pub(crate) fn value(&self, wanted: ExtensionType) -> Option<&'a [u8]> {
        let mut rest = self.list;
        while let Ok((head, value, after)) = first(rest) {
            if head.code == wanted.code() {
                return Some(value);
            }
            rest = after;
        }
        None
    }
}

/// Splits off the first extension of a list: its head, its value, and the rest.
pub(crate) fn first(list: &[u8]) -> Result<(&ExtensionHead, &[u8], &[u8]), Reason> {
    let refused = Reason::Field("extensions");
    let (head, rest) = ExtensionHead::ref_from_prefix(list).map_err(|_| refused)?;
    let length = usize::from(head.length.get());
    let padded = padded_bytes(length) - ExtensionHead::SIZE_BYTES;
    let (padded, after) = rest.split_at_checked(padded).ok_or(refused)?;
    let (value, padding) = padded.split_at(length);
    if padding.iter().any(|byte| *byte != 0) {
        return Err(refused);
    }
    Ok((head, value, after))
}

/// Returns the size of an extension with a value of `value_bytes`. Units: bytes.
pub(crate) const fn padded_bytes(value_bytes: usize) -> usize {
    (ExtensionHead::SIZE_BYTES + value_bytes).next_multiple_of(ALIGNMENT_BYTES)
}

/// Returns the size of an extension in a header; zero without a value. Units: bytes.
pub(crate) fn size_bytes<V: IntoBytes + Immutable + ?Sized>(value: Option<&V>) -> usize {
    value.map_or(0, |value| padded_bytes(size_of_val(value)))
}

/// Returns the list, `None` if it is empty.
pub(crate) fn listed<T>(list: &[T]) -> Option<&[T]> {
    (!list.is_empty()).then_some(list)
}

/// Writes an extension to the start of `place` and returns its size; zero without a value.
pub(crate) fn put<V>(place: &mut [u8], of_type: ExtensionType, value: Option<&V>) -> usize
where
    V: IntoBytes + Immutable + ?Sized,
{
    let Some(value) = value.map(IntoBytes::as_bytes) else { return 0 };
    let (place, _) = place.split_at_mut(padded_bytes(value.len()));
    let length = u16::try_from(value.len()).expect("a value is shorter than a header");
    let head = ExtensionHead { code: of_type.code(), flags: 0, length: length.into() };
    head.write_to_prefix(place).expect("the place of head and value");
    let (value_place, padding) = place[ExtensionHead::SIZE_BYTES..].split_at_mut(value.len());
    value_place.copy_from_slice(value);
    padding.fill(0);
    place.len()
}

impl Predecessor {
    /// Returns the element after the last one that the epoch numbered or lost, counted from its beginning.
    #[must_use]
    pub const fn position(&self, elements_per_sample: u32) -> u64 {
        self.next_index.saturating_mul(elements_per_sample as u64).saturating_add(self.element_offset as u64)
    }

    pub(crate) fn value(self) -> layout::Predecessor {
        layout::Predecessor {
            epoch_start_ns: self.epoch.start_ns.into(),
            epoch_life: self.epoch.incarnation.into(),
            next_number: self.next_number.into(),
            next_index: self.next_index.into(),
            element_offset: self.element_offset.into(),
            is_final: u8::from(self.is_final),
            reserved: [0; 3],
        }
    }

    pub(crate) fn read(value: &[u8]) -> Result<Self, Reason> {
        let refused = Reason::Field("predecessor");
        let value = layout::Predecessor::ref_from_bytes(value).map_err(|_| refused)?;
        if value.reserved != [0; 3] {
            return Err(refused);
        }
        Ok(Self {
            epoch: Epoch { start_ns: value.epoch_start_ns.get(), incarnation: value.epoch_life.get() },
            next_number: value.next_number.get(),
            next_index: value.next_index.get(),
            element_offset: value.element_offset.get(),
            is_final: tally::flag(value.is_final, "predecessor")?,
        })
    }

    /// Checks that this epoch precedes that of `head`, and that its horizon fits the same stream.
    pub(crate) fn check(&self, head: &Numbered) -> Result<(), Reason> {
        let horizon = Numbered {
            number: self.next_number,
            first_index: self.next_index,
            element_offset: self.element_offset,
            ..*head
        };
        let is_position = horizon.check_position().is_ok();
        if self.epoch < head.epoch && is_position { Ok(()) } else { Err(Reason::Field("predecessor")) }
    }
}

impl Waiting {
    pub(crate) fn value(self) -> layout::Waiting {
        layout::Waiting {
            since_ns: self.since.as_nanos().into(),
            deadline_ns: self.deadline.map_or(0, |deadline| tally::nanos(deadline).max(1)).into(),
            from_beginning: u8::from(self.from_beginning),
            reserved: [0; 3],
        }
    }

    pub(crate) fn read(value: &[u8]) -> Result<Self, Reason> {
        let refused = Reason::Field("waiting");
        let value = layout::Waiting::ref_from_bytes(value).map_err(|_| refused)?;
        if value.reserved != [0; 3] {
            return Err(refused);
        }
        let deadline_ns = value.deadline_ns.get();
        Ok(Self {
            since: WallTime::from_nanos(value.since_ns.get()),
            from_beginning: tally::flag(value.from_beginning, "waiting")?,
            deadline: (deadline_ns > 0).then(|| Duration::from_nanos(deadline_ns)),
        })
    }
}

impl Address {
    /// Returns the address.
    #[must_use]
    pub fn ip(self) -> IpAddr {
        IpAddr::from(self.0).to_canonical()
    }

    /// Returns the first of `addresses` that are valid sources, each once.
    pub(crate) fn list_of(addresses: &[IpAddr]) -> Vec<Self> {
        let mut list = Vec::new();
        for address in addresses.iter().copied().map(Self::from).filter(|address| address.can_be_source()) {
            if list.len() < MAX_ADDRESSES && !list.contains(&address) {
                list.push(address);
            }
        }
        list
    }

    fn can_be_source(self) -> bool {
        !(self.ip().is_unspecified() || self.ip().is_multicast())
    }

    /// Reads a list of addresses, each a valid source and none repeated.
    pub(crate) fn read_list(value: &[u8]) -> Result<&[Self], Reason> {
        let refused = Reason::Field("addresses");
        let list = <[Self]>::ref_from_bytes(value).map_err(|_| refused)?;
        Self::check_list(list).map(|()| list)
    }

    pub(crate) fn check_list(list: &[Self]) -> Result<(), Reason> {
        let is_new = |index: usize| !list[..index].contains(&list[index]);
        let is_listed = !list.is_empty() && list.len() <= MAX_ADDRESSES;
        if is_listed && list.iter().all(|address| address.can_be_source()) && (0..list.len()).all(is_new) {
            Ok(())
        } else {
            Err(Reason::Field("addresses"))
        }
    }
}

impl Nonce {
    /// Creates a nonce from a random number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(U64::new(number))
    }

    /// Reads the nonces of a datagram that may have at most `most` of them.
    pub(crate) fn read_list(value: &[u8], most: usize) -> Result<&[Self], Reason> {
        let refused = Reason::Field("nonces");
        let list = <[Self]>::ref_from_bytes(value).map_err(|_| refused)?;
        if (1..=most).contains(&list.len()) { Ok(list) } else { Err(refused) }
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Nonce({:016x})", self.0)
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        Self(match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        })
    }
}
