//! Bytes of a record, in the log. All numbers are little-endian; texts and arrays have their length in front.

use sample::Dtype;
use units::{Epoch, Instant};

use super::{LeaseChange, Record};
use crate::{Answer, Applied, Command, CommandId, Rule, Scope, SessionId, Value};

impl Record {
    /// Encodes the record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer(Vec::new());
        match self {
            Self::Began { app, epoch } => to.u8(0).text(app.as_str()).epoch(*epoch),
            Self::Intent { command, by } => to.u8(1).command(command).text(by),
            Self::Attempt { command, by, answer } => to.u8(2).command(command).text(by).answer(answer),
            Self::Outcome { id, parameter, revision, answer } => {
                to.u8(3).u128(id.0).text(parameter).u64(*revision).answer(answer)
            }
            Self::Lease { group, by, change } => {
                to.u8(4).text(group).text(by);
                match change {
                    LeaseChange::Granted => to.u8(0),
                    LeaseChange::Released => to.u8(1),
                    LeaseChange::TakenOver { from, reason } => to.u8(2).text(from).text(reason),
                }
            }
            Self::Switch { scope, is_on, by, reason } => {
                let scope = u8::from(*scope == Scope::All);
                to.u8(5).u8(scope).u8(u8::from(*is_on)).text(by).text(reason)
            }
            Self::Omitted { refused } => {
                to.u8(6).u8(u8::try_from(refused.len()).expect("there are fewer than 256 rules"));
                refused.iter().fold(&mut to, |to, (rule, count)| to.u8(rule.code()).u64(*count))
            }
        };
        to.0
    }

    /// Decodes a record; `None` if the bytes are not one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let record = match from.u8()? {
            0 => Self::Began { app: from.text()?.parse().ok()?, epoch: from.epoch()? },
            1 => Self::Intent { command: from.command()?, by: from.text()? },
            2 => Self::Attempt { command: from.command()?, by: from.text()?, answer: from.answer()? },
            3 => Self::Outcome {
                id: CommandId(from.u128()?),
                parameter: from.text()?,
                revision: from.u64()?,
                answer: from.answer()?,
            },
            4 => {
                let (group, by) = (from.text()?, from.text()?);
                let change = match from.u8()? {
                    0 => LeaseChange::Granted,
                    1 => LeaseChange::Released,
                    2 => LeaseChange::TakenOver { from: from.text()?, reason: from.text()? },
                    _ => return None,
                };
                Self::Lease { group, by, change }
            }
            5 => {
                let scope = if from.boolean()? { Scope::All } else { Scope::App };
                Self::Switch { scope, is_on: from.boolean()?, by: from.text()?, reason: from.text()? }
            }
            6 => {
                let count = from.u8()?;
                let rule = |from: &mut Reader<'_>| Some((Rule::from_code(from.u8()?)?, from.u64()?));
                Self::Omitted { refused: (0..count).map(|_| rule(&mut from)).collect::<Option<_>>()? }
            }
            _ => return None,
        };
        from.0.is_empty().then_some(record)
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u8(&mut self, number: u8) -> &mut Self {
        self.raw(&[number])
    }

    fn u64(&mut self, number: u64) -> &mut Self {
        self.raw(&number.to_le_bytes())
    }

    fn u128(&mut self, number: u128) -> &mut Self {
        self.raw(&number.to_le_bytes())
    }

    fn sized(&mut self, bytes: &[u8]) -> &mut Self {
        let size = u16::try_from(bytes.len()).expect("texts and values are bounded far below 64 KiB");
        self.raw(&size.to_le_bytes()).raw(bytes)
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.sized(text.as_bytes())
    }

    fn epoch(&mut self, epoch: Epoch) -> &mut Self {
        self.u64(epoch.start_ns).u64(epoch.incarnation)
    }

    fn value(&mut self, value: &Value) -> &mut Self {
        self.u8(value.dtype().code());
        self.u8(u8::try_from(value.shape().len()).expect("a value has at most four dimensions"));
        for extent in value.shape() {
            self.raw(&extent.to_le_bytes());
        }
        self.sized(value.bytes())
    }

    fn command(&mut self, command: &Command) -> &mut Self {
        self.u128(command.id.0).u64(command.session.0).text(&command.parameter);
        match command.if_revision {
            None => self.u8(0),
            Some(revision) => self.u8(1).u64(revision),
        };
        self.value(&command.value).u64(command.valid_until.as_nanos()).text(&command.reason)
    }

    fn answer(&mut self, answer: &Answer) -> &mut Self {
        match answer {
            Answer::Accepted => self.u8(0),
            Answer::Refused { rule } => self.u8(1).u8(rule.code()),
            Answer::Expired => self.u8(2),
            Answer::Superseded => self.u8(3),
            Answer::Applied(Applied { epoch, index, revision, readback }) => {
                self.u8(4).epoch(*epoch).u64(*index).u64(*revision).value(readback)
            }
            Answer::Failed { reason } => self.u8(5).text(reason),
            Answer::Uncertain => self.u8(6),
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const SIZE: usize>(&mut self) -> Option<[u8; SIZE]> {
        self.take(SIZE)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn boolean(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    fn sized(&mut self) -> Option<&'a [u8]> {
        let size = u16::from_le_bytes(self.array()?);
        self.take(usize::from(size))
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.sized()?.to_vec()).ok()
    }

    fn epoch(&mut self) -> Option<Epoch> {
        Some(Epoch { start_ns: self.u64()?, incarnation: self.u64()? })
    }

    fn value(&mut self) -> Option<Value> {
        let dtype = Dtype::from_code(self.u8()?)?;
        let dimensions = self.u8()?;
        let extent = |from: &mut Self| from.array().map(u32::from_le_bytes);
        let shape = (0..dimensions).map(|_| extent(self)).collect::<Option<Vec<u32>>>()?;
        Value::from_bytes(dtype, &shape, self.sized()?).ok()
    }

    fn command(&mut self) -> Option<Command> {
        Some(Command {
            id: CommandId(self.u128()?),
            session: SessionId(self.u64()?),
            parameter: self.text()?,
            if_revision: if self.boolean()? { Some(self.u64()?) } else { None },
            value: self.value()?,
            valid_until: Instant::from_nanos(self.u64()?),
            reason: self.text()?,
        })
    }

    fn answer(&mut self) -> Option<Answer> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<Record> {
        let epoch = Epoch { start_ns: 5, incarnation: 6 };
        let command = Command {
            id: CommandId(u128::MAX),
            session: SessionId(1),
            parameter: "gain".to_owned(),
            if_revision: Some(3),
            value: Value::from_bytes(Dtype::F4, &[1, 2], &[7; 8]).unwrap(),
            valid_until: Instant::from_nanos(9),
            reason: "test".to_owned(),
        };
        let (by, id, parameter) = ("user:ada".to_owned(), command.id, "gain".to_owned());
        let readback = Value::scalar(2.0);
        let outcome = |answer| Record::Outcome { id, parameter: parameter.clone(), revision: 4, answer };
        let lease = |change| Record::Lease { group: "heating".to_owned(), by: by.clone(), change };
        let free = Command { if_revision: None, ..command.clone() };
        vec![
            Record::Began { app: "sim/engine".parse().unwrap(), epoch },
            Record::Intent { command, by: by.clone() },
            Record::Attempt { command: free, by: by.clone(), answer: Answer::Refused { rule: Rule::Lease } },
            outcome(Answer::Applied(Applied { epoch, index: 1, revision: 4, readback })),
            outcome(Answer::Failed { reason: "broken".to_owned() }),
            outcome(Answer::Expired),
            outcome(Answer::Superseded),
            outcome(Answer::Uncertain),
            lease(LeaseChange::Granted),
            lease(LeaseChange::Released),
            lease(LeaseChange::TakenOver { from: by.clone(), reason: "shift".to_owned() }),
            Record::Switch { scope: Scope::All, is_on: true, by: by.clone(), reason: "smoke".to_owned() },
            Record::Omitted { refused: vec![(Rule::Full, 7), (Rule::Session, 1)] },
        ]
    }

    #[test]
    fn a_record_is_decoded_as_it_was_encoded_and_never_from_a_part() {
        for record in records() {
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes), Some(record.clone()));
            for size in 0..bytes.len() {
                assert_eq!(Record::decode(&bytes[..size]), None, "{size} bytes of {record:?}");
            }
            assert_eq!(Record::decode(&[&bytes[..], &[0]].concat()), None);
        }
    }
}
