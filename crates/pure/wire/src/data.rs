//! Data datagrams: a slice of the samples that decodes alone.

use core::ops::Range;

use sample::Dtype;
use units::WallTime;

use crate::extension::{self, ExtensionType};
use crate::header::{self, Kind, Numbered, Sealed};
use crate::layout;
use crate::malformed::{BufferTooSmall, Reason};
use crate::relayed::{DataOrigin, origin_bytes};

/// Size of a data datagram's header. Units: bytes.
pub const DATA_HEADER_BYTES: usize = layout::Data::SIZE_BYTES;

/// A slice of the samples: whole samples, or a piece of one sample that is larger than a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data<'a> {
    /// Identity and position of the slice.
    pub head: Numbered,
    /// Time of sample `head.first_index`.
    pub t0: WallTime,
    /// Clock of `t0`.
    pub clock: Clock,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Number of elements that follow; not zero.
    pub element_count: u32,
    /// Origin and age of relayed samples.
    pub origin: Option<&'a DataOrigin>,
    /// The elements, little-endian; `len == element_count * dtype.size_bytes()`.
    pub payload: &'a [u8],
}

/// Clock of time anchors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Clock {
    /// Unknown.
    #[default]
    Unknown,
    /// The system's UTC clock, not known to be synchronised.
    System,
    /// UTC synchronised by NTP.
    Ntp,
    /// UTC synchronised by PTP.
    Ptp,
    /// The time of the recording, not of its replay.
    Recorded,
    /// A code of a later version: an old reader keeps the data and reports the clock as unknown.
    Other(u8),
}

impl Clock {
    /// Returns the clock with this code on the wire.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Unknown,
            1 => Self::System,
            2 => Self::Ntp,
            3 => Self::Ptp,
            4 => Self::Recorded,
            other => Self::Other(other),
        }
    }

    /// Returns the clock's code on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::System => 1,
            Self::Ntp => 2,
            Self::Ptp => 3,
            Self::Recorded => 4,
            Self::Other(other) => other,
        }
    }
}

/// Encoder of one stream's data datagrams, most of whose header is the same in all of them.
#[derive(Clone)]
pub struct DataEncoder {
    header: layout::Data,
    header_bytes: usize,
}

impl core::fmt::Debug for DataEncoder {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("DataEncoder").finish_non_exhaustive()
    }
}

impl DataEncoder {
    /// Takes stream, epoch and elements per sample from `head`; relayed samples carry their origin.
    #[must_use]
    pub fn new(head: &Numbered, dtype: Dtype, clock: Clock, is_relayed: bool) -> Self {
        let header_bytes = DATA_HEADER_BYTES + origin_bytes(is_relayed);
        let header = layout::Data {
            group: head.group(Kind::Data, header_bytes, 0),
            t0_ns: 0.into(),
            element_count: 0.into(),
            dtype: dtype.code(),
            clock: clock.code(),
            reserved: 0.into(),
        };
        Self { header, header_bytes }
    }

    /// Has the times of datagrams from now on by another clock.
    pub const fn set_clock(&mut self, clock: Clock) {
        self.header.clock = clock.code();
    }

    /// Writes a datagram of this stream to the start of `out` and returns its size.
    ///
    /// # Errors
    /// See [`Data::encode`].
    ///
    /// # Panics
    /// See [`Data::encode`]; also if it is of another stream, dtype or clock, or only one of the two is relayed.
    pub fn encode(&mut self, data: &Data<'_>, out: &mut [u8]) -> Result<usize, BufferTooSmall> {
        debug_assert_eq!(data.check(), Ok(()), "a slice that its own readers would refuse");
        debug_assert_eq!(
            (
                data.dtype.code(),
                data.clock.code(),
                data.head.stream,
                data.head.epoch,
                DATA_HEADER_BYTES + origin_bytes(data.origin.is_some())
            ),
            (
                self.header.dtype,
                self.header.clock,
                self.header.group.common.stream(),
                self.header.group.common.epoch(),
                self.header_bytes
            ),
            "an encoder is of one stream"
        );
        let Self { header, header_bytes } = self;
        let out = header::place(out, *header_bytes + data.payload.len())?;
        let (room, payload) = out.split_at_mut(*header_bytes);
        header.group.place(&data.head, data.payload.len());
        header.t0_ns = data.t0.as_nanos().into();
        header.element_count = data.element_count.into();
        // Before the payload is copied: the CRC reads the bytes just written, and would wait for the whole copy.
        match data.origin {
            None => header::seal(header, room),
            Some(origin) => {
                let place = &mut room[DATA_HEADER_BYTES..];
                let taken = extension::put(place, ExtensionType::Origin, Some(origin));
                header::seal_extended(*header, taken, room);
            }
        }
        payload.copy_from_slice(data.payload);
        Ok(out.len())
    }
}

impl<'a> Data<'a> {
    /// Returns the positions of the elements.
    #[must_use]
    pub const fn positions(&self) -> Range<u64> {
        let start = self.head.position();
        start..start.saturating_add(self.element_count as u64)
    }

    /// Returns whether this is a piece of one sample that was cut.
    #[must_use]
    pub const fn is_piece(&self) -> bool {
        self.element_count < self.head.elements_per_sample
    }

    /// Returns the number of bytes that [`Data::encode`] writes.
    #[must_use]
    pub const fn encoded_bytes(&self) -> usize {
        DATA_HEADER_BYTES + origin_bytes(self.origin.is_some()) + self.payload.len()
    }

    /// Writes the datagram to the start of `out` and returns its size.
    ///
    /// Cost: one copy of the payload; nothing is allocated.
    ///
    /// # Errors
    /// [`BufferTooSmall`] if `out` is shorter than header and payload.
    ///
    /// # Panics
    /// In debug builds, if [`crate::Datagram::decode`] would refuse the slice: the sender cut it wrongly.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, BufferTooSmall> {
        DataEncoder::new(&self.head, self.dtype, self.clock, self.origin.is_some()).encode(self, out)
    }

    /// Reads a data datagram; `None` for anything else, which [`crate::Datagram::decode`] distinguishes.
    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        Self::of_kind(&Sealed::open(bytes).ok()?)
    }

    /// Reads a data datagram that [`SecuredHead::open`](crate::SecuredHead::open) wrote: its tag was checked, and its
    /// CRC is not checked again. `None` for anything else.
    #[must_use]
    pub fn decode_authentic(bytes: &'a [u8]) -> Option<Self> {
        Self::of_kind(&Sealed::open_authentic(bytes).ok()?)
    }

    fn of_kind(sealed: &Sealed<'a>) -> Option<Self> {
        match sealed.kind() {
            Ok(Kind::Data) => Self::read(sealed).ok(),
            _ => None,
        }
    }

    pub(crate) fn read(sealed: &Sealed<'a>) -> Result<Self, Reason> {
        let (header, origin) = match sealed.plain::<layout::Data>() {
            Some(header) => (header, None),
            None => {
                let (header, extensions) = sealed.extended()?;
                (header, DataOrigin::among(&extensions)?)
            }
        };
        if header.reserved.get() != 0 {
            return Err(Reason::Field("reserved"));
        }
        let data = Self {
            head: sealed.numbered()?,
            t0: WallTime::from_nanos(header.t0_ns.get()),
            clock: Clock::from_code(header.clock),
            dtype: Dtype::from_code(header.dtype).ok_or(Reason::Field("dtype"))?,
            element_count: header.element_count.get(),
            origin,
            payload: sealed.payload(),
        };
        data.check().map(|()| data)
    }

    /// Checks that the slice is whole samples or a piece of one, that the payload is that slice, and its origin.
    fn check(&self) -> Result<(), Reason> {
        self.origin.map_or(Ok(()), |origin| origin.origin().check(&self.head))?;
        let whole =
            self.head.element_offset == 0 && self.element_count.is_multiple_of(self.head.elements_per_sample);
        let count = u64::from(self.element_count);
        let piece = u64::from(self.head.element_offset) + count <= u64::from(self.head.elements_per_sample);
        if count == 0 || !(whole || piece) {
            return Err(Reason::Field("element_count"));
        }
        if self.payload.len() as u64 != count * self.dtype.size_bytes() as u64 {
            return Err(Reason::Length);
        }
        // The end of the slice must be a position too.
        self.head.position().checked_add(count).map(|_| ()).ok_or(Reason::Field("first_index"))
    }
}
