//! Any datagram, decoded: the single entry point for bytes from the network.

use crate::header::{Kind, Numbered, Sealed};
use crate::malformed::{BufferTooSmall, Malformed, Reason};
use crate::{Announcement, Data, DescriptorPart, Report, Request, Tally};

/// A datagram of the stream protocol.
#[derive(Clone, PartialEq, Debug)]
#[expect(missing_docs, reason = "each variant's type says what it is")]
pub enum Datagram<'a> {
    Data(Data<'a>),
    Tally(Tally),
    Descriptor(DescriptorPart<'a>),
    /// Boxed, so that the rare reports do not enlarge the many data datagrams.
    Report(Box<Report>),
    Announcement(Announcement),
    Request(Request),
}

impl<'a> Datagram<'a> {
    /// Reads a datagram; every accepted datagram encodes to the same bytes again.
    ///
    /// Cost: data and descriptor parts borrow from `bytes` and allocate nothing; the other kinds allocate at most the
    /// length of `bytes`, plus a little for each of at most 32 ranges and 8 hops.
    ///
    /// # Errors
    /// [`Malformed`] with the first [`Reason`] found, in this order: size, magic, version, header CRC; then, with
    /// `head` for numbered kinds, kind, flags, size of the payload, the kind's own fields.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let sealed = Sealed::open(bytes)?;
        Self::read(&sealed).map_err(|reason| Malformed { reason, head: sealed.head() })
    }

    fn read(sealed: &Sealed<'a>) -> Result<Self, Reason> {
        Ok(match sealed.kind()? {
            Kind::Data => Self::Data(Data::read(sealed)?),
            Kind::Tally => Self::Tally(Tally::read(sealed)?),
            Kind::Descriptor => Self::Descriptor(DescriptorPart::read(sealed)?),
            Kind::Report => Self::Report(Box::new(Report::read(sealed)?)),
            Kind::Announcement => Self::Announcement(Announcement::read(sealed)?),
            Kind::Request => Self::Request(Request::read(sealed)?),
        })
    }

    /// Writes the datagram to the start of `out` and returns its size.
    ///
    /// # Errors
    /// [`BufferTooSmall`] if `out` is shorter than the datagram.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, BufferTooSmall> {
        match self {
            Self::Data(data) => data.encode(out),
            Self::Tally(tally) => tally.encode(out),
            Self::Descriptor(part) => part.encode(out),
            Self::Report(report) => report.encode(out),
            Self::Announcement(announcement) => announcement.encode(out),
            Self::Request(request) => request.encode(out),
        }
    }

    /// Returns number and position of a numbered datagram.
    #[must_use]
    pub const fn head(&self) -> Option<&Numbered> {
        match self {
            Self::Data(data) => Some(&data.head),
            Self::Tally(tally) => Some(&tally.head),
            Self::Descriptor(part) => Some(&part.head),
            Self::Report(_) | Self::Announcement(_) | Self::Request(_) => None,
        }
    }
}
