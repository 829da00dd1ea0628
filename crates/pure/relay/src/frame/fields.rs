//! Fields of messages: little-endian, without padding.

use core::time::Duration;

use wire::MAX_STATION_BYTES;

use super::MalformedMessage;

/// Appends fields to a message.
pub(super) struct Writer(Vec<u8>);

/// Takes fields off a message.
pub(super) struct Reader<'a>(&'a [u8]);

impl Writer {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes nanoseconds, at most 584 years.
    pub(super) fn duration(&mut self, duration: Duration) {
        self.u64(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Writes a short text behind its length.
    pub(super) fn text(&mut self, text: &str) {
        let text = super::station_name(text);
        self.u8(u8::try_from(text.len()).expect("a station's name is short"));
        self.0.extend_from_slice(text.as_bytes());
    }

    /// Writes bytes that end the message.
    pub(super) fn rest(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Checks that nothing follows.
    pub(super) const fn end(&self) -> Result<(), MalformedMessage> {
        if self.0.is_empty() { Ok(()) } else { Err(MalformedMessage::Long) }
    }

    pub(super) fn u8(&mut self) -> Result<u8, MalformedMessage> {
        self.take::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, MalformedMessage> {
        self.take().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, MalformedMessage> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, MalformedMessage> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn duration(&mut self) -> Result<Duration, MalformedMessage> {
        self.u64().map(Duration::from_nanos)
    }

    pub(super) fn text(&mut self, field: &'static str) -> Result<String, MalformedMessage> {
        let refused = MalformedMessage::Field(field);
        let len = usize::from(self.u8()?);
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(MalformedMessage::Short)?;
        self.0 = rest;
        let text = core::str::from_utf8(bytes).map_err(|_| refused)?;
        let is_sound = len <= MAX_STATION_BYTES && !text.contains(char::is_control);
        if is_sound { Ok(text.to_owned()) } else { Err(refused) }
    }

    /// Takes the rest.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }

    fn take<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], MalformedMessage> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(MalformedMessage::Short)?;
        self.0 = rest;
        Ok(*taken)
    }
}
