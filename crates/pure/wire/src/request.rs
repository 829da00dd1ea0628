//! Requests of a reader to the publisher.

use units::{Epoch, ReaderId, StreamId};

use crate::extension::{self, ExtensionType, Nonce, Waiting};
use crate::header::{self, Kind, Sealed};
use crate::layout::{self, Common};
use crate::malformed::{BufferTooSmall, Reason};

/// A request of a reader, sent to the publisher's report port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The stream.
    pub stream: StreamId,
    /// The publisher's epoch, as the reader knows it.
    pub epoch: Epoch,
    /// The reader.
    pub reader: ReaderId,
    /// Object of the request.
    pub what: Wanted,
    /// Start and kind of the reader's wait.
    pub waiting: Option<Waiting>,
    /// Nonce that the publisher is to repeat in its next tally.
    pub nonce: Option<Nonce>,
}

/// Object of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Wanted {
    /// The stream's description, before its scheduled time.
    Descriptor = 1,
    /// The data: a publisher that sends on demand learns of this reader at once, before its first report.
    Data = 2,
}

impl Wanted {
    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Descriptor),
            2 => Some(Self::Data),
            _ => None,
        }
    }
}

impl Request {
    /// Writes the datagram to the start of `out` and returns its size.
    ///
    /// # Errors
    /// [`BufferTooSmall`] if `out` is shorter than the datagram.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, BufferTooSmall> {
        let waiting = self.waiting.map(Waiting::value);
        let extension_bytes =
            extension::size_bytes(waiting.as_ref()) + extension::size_bytes(self.nonce.as_ref());
        let size_bytes = layout::Request::SIZE_BYTES + extension_bytes;
        let out = header::place(out, size_bytes)?;
        let place = &mut out[layout::Request::SIZE_BYTES..];
        let taken = extension::put(place, ExtensionType::Waiting, waiting.as_ref());
        extension::put(&mut place[taken..], ExtensionType::Nonces, self.nonce.as_ref());
        let header = layout::Request {
            common: Common::new(Kind::Request, size_bytes, 0, self.stream, self.epoch),
            reader: self.reader.0.into(),
            what: self.what as u8,
            reserved: [0; 7],
        };
        header::seal_extended(header, extension_bytes, out);
        Ok(size_bytes)
    }

    pub(crate) fn read(sealed: &Sealed<'_>) -> Result<Self, Reason> {
        let (header, extensions): (&layout::Request, _) = sealed.extended()?;
        if !sealed.payload().is_empty() {
            return Err(Reason::Length);
        }
        let what = Wanted::from_code(header.what).ok_or(Reason::Field("what"))?;
        if header.reserved != [0; 7] {
            return Err(Reason::Field("reserved"));
        }
        let (stream, epoch) = (sealed.common.stream(), sealed.common.epoch());
        let waiting = extensions.value(ExtensionType::Waiting).map(Waiting::read).transpose()?;
        let nonces = extensions.value(ExtensionType::Nonces).map(|value| Nonce::read_list(value, 1));
        let nonce = nonces.transpose()?.map(|nonces| nonces[0]);
        Ok(Self { stream, epoch, reader: ReaderId(header.reader.get()), what, waiting, nonce })
    }
}
