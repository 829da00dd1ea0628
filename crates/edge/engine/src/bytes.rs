//! Little-endian fields, written and read in sequence.

use std::ops::Range;

use units::Epoch;

/// Fields appended to a buffer.
pub(crate) trait Put {
    fn u64(&mut self, value: u64);
    fn epoch(&mut self, epoch: Epoch);
    fn range(&mut self, range: &Range<u64>);
    /// Appends up to 255 bytes of text.
    fn text(&mut self, text: &str);
}

impl Put for Vec<u8> {
    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn epoch(&mut self, epoch: Epoch) {
        self.u64(epoch.start_ns);
        self.u64(epoch.incarnation);
    }

    fn range(&mut self, range: &Range<u64>) {
        self.u64(range.start);
        self.u64(range.end);
    }

    fn text(&mut self, text: &str) {
        self.push(u8::try_from(text.len()).expect("names and addresses are short"));
        self.extend_from_slice(text.as_bytes());
    }
}

/// Fields taken from the front of a slice; `None` when it is too short.
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the bytes that are left.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (first, rest) = self.rest.split_first_chunk::<8>()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*first))
    }

    pub(crate) fn epoch(&mut self) -> Option<Epoch> {
        Some(Epoch { start_ns: self.u64()?, incarnation: self.u64()? })
    }

    pub(crate) fn range(&mut self) -> Option<Range<u64>> {
        Some(self.u64()?..self.u64()?)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let (text, rest) = {
            let len = usize::from(self.u8()?);
            self.rest.split_at_checked(len)?
        };
        self.rest = rest;
        str::from_utf8(text).ok()
    }
}
