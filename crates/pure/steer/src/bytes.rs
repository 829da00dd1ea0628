//! Bytes of commands, answers and values, in the log and in messages. All numbers are little-endian; texts and arrays
//! have their length in front.

use sample::Dtype;
use units::{Epoch, Instant};

use crate::{Answer, Applied, Command, CommandId, Rule, SessionId, Value};

/// The largest count that is read: no app gets there, and counting on from it does not overflow.
pub(crate) const MAX_COUNT: u64 = u64::MAX / 2;

/// Bytes that are being written.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u8(&mut self, number: u8) -> &mut Self {
        self.raw(&[number])
    }

    pub(crate) fn u64(&mut self, number: u64) -> &mut Self {
        self.raw(&number.to_le_bytes())
    }

    pub(crate) fn u128(&mut self, number: u128) -> &mut Self {
        self.raw(&number.to_le_bytes())
    }

    fn sized(&mut self, bytes: &[u8]) -> &mut Self {
        let size = u16::try_from(bytes.len()).expect("texts and values are bounded far below 64 KiB");
        self.raw(&size.to_le_bytes()).raw(bytes)
    }

    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.sized(text.as_bytes())
    }

    pub(crate) fn epoch(&mut self, epoch: Epoch) -> &mut Self {
        self.u64(epoch.start_ns).u64(epoch.incarnation)
    }

    pub(crate) fn boolean(&mut self, is_true: bool) -> &mut Self {
        self.u8(u8::from(is_true))
    }

    pub(crate) fn optional<T>(
        &mut self,
        part: Option<T>,
        write: impl FnOnce(&mut Self, T) -> &mut Self,
    ) -> &mut Self {
        self.boolean(part.is_some());
        match part {
            Some(part) => write(self, part),
            None => self,
        }
    }

    pub(crate) fn value(&mut self, value: &Value) -> &mut Self {
        self.u8(value.dtype().code()).shape(value.shape()).sized(value.bytes())
    }

    pub(crate) fn shape(&mut self, shape: &[u32]) -> &mut Self {
        self.u8(u8::try_from(shape.len()).expect("a value has at most four dimensions"));
        shape.iter().fold(self, |to, extent| to.raw(&extent.to_le_bytes()))
    }

    pub(crate) fn command(&mut self, command: &Command) -> &mut Self {
        self.u128(command.id.0).u64(command.session.0).text(&command.parameter);
        self.optional(command.if_revision, Self::u64);
        self.value(&command.value).u64(command.valid_until.as_nanos()).text(&command.reason)
    }

    pub(crate) fn answer(&mut self, answer: &Answer) -> &mut Self {
        self.u8(answer.code());
        match answer {
            Answer::Accepted | Answer::Expired | Answer::Superseded | Answer::Uncertain => self,
            Answer::Refused { rule } => self.u8(rule.code()),
            Answer::Applied(Applied { epoch, index, revision, readback }) => {
                self.epoch(*epoch).u64(*index).u64(*revision).value(readback)
            }
            Answer::Failed { reason } => self.text(reason),
        }
    }
}

/// Bytes that are being read; each part is `None` if they are not one.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const SIZE: usize>(&mut self) -> Option<[u8; SIZE]> {
        self.take(SIZE)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn boolean(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a number of things, at most [`MAX_COUNT`].
    pub(crate) fn count(&mut self) -> Option<u64> {
        self.u64().filter(|count| *count <= MAX_COUNT)
    }

    pub(crate) fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    fn sized(&mut self) -> Option<&'a [u8]> {
        let size = u16::from_le_bytes(self.array()?);
        self.take(usize::from(size))
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.sized()?.to_vec()).ok()
    }

    pub(crate) fn epoch(&mut self) -> Option<Epoch> {
        Some(Epoch { start_ns: self.u64()?, incarnation: self.u64()? })
    }

    /// Reads a part that may be absent.
    pub(crate) fn optional<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.boolean()? { read(self).map(Some) } else { Some(None) }
    }

    pub(crate) fn value(&mut self) -> Option<Value> {
        let dtype = Dtype::from_code(self.u8()?)?;
        let shape = self.shape()?;
        Value::from_bytes(dtype, &shape, self.sized()?).ok()
    }

    pub(crate) fn shape(&mut self) -> Option<Vec<u32>> {
        let dimensions = self.u8()?;
        (0..dimensions).map(|_| self.array().map(u32::from_le_bytes)).collect()
    }

    pub(crate) fn command(&mut self) -> Option<Command> {
        Some(Command {
            id: CommandId(self.u128()?),
            session: SessionId(self.u64()?),
            parameter: self.text()?,
            if_revision: self.optional(Self::u64)?,
            value: self.value()?,
            valid_until: Instant::from_nanos(self.u64()?),
            reason: self.text()?,
        })
    }

    pub(crate) fn answer(&mut self) -> Option<Answer> {
        Some(match self.u8()? {
            0 => Answer::Accepted,
            1 => Answer::Refused { rule: Rule::from_code(self.u8()?)? },
            2 => Answer::Expired,
            3 => Answer::Superseded,
            4 => Answer::Applied(Applied {
                epoch: self.epoch()?,
                index: self.u64()?,
                revision: self.u64()?,
                readback: self.value()?,
            }),
            5 => Answer::Failed { reason: self.text()? },
            6 => Answer::Uncertain,
            _ => return None,
        })
    }
}
