//! Bytes of a record, in the log.

use super::{LeaseChange, Record};
use crate::app::MAX_LAST;
use crate::bytes::{Reader, Writer};
use crate::command::MAX_NAME_BYTES;
use crate::{Answer, Command, CommandId, Head, Rule, Scope, Switches};

impl Record {
    /// Encodes the record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::new();
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
            Self::Checkpoint { app, before, totals, switches } => {
                to.u8(7).text(app.as_str()).u64(before.count).raw(&before.digest);
                to.boolean(switches.app).boolean(switches.all).totals(totals)
            }
            Self::Standing { parameter, revision, last } => {
                to.u8(8).text(parameter).u64(*revision);
                to.u8(u8::try_from(last.len()).expect("a checkpoint has few of them"));
                last.iter().fold(&mut to, |to, id| to.u128(id.0))
            }
            Self::Open { id, parameter, fingerprint } => {
                to.u8(9).u128(id.0).text(parameter).u128(*fingerprint)
            }
        };
        to.into_bytes()
    }

    /// Decodes a record; `None` if the bytes are not one that an app writes.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let record = match from.u8()? {
            0 => Self::Began { app: from.text()?.parse().ok()?, epoch: from.epoch()? },
            1 => Self::Intent { command: from.named_command()?, by: from.text()? },
            2 => Self::Attempt { command: from.named_command()?, by: from.text()?, answer: from.outcome()? },
            3 => Self::Outcome {
                id: CommandId(from.u128()?),
                parameter: from.name()?,
                revision: from.count()?,
                answer: from.outcome()?,
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
                let rule = |from: &mut Reader<'_>| Some((Rule::from_code(from.u8()?)?, from.count()?));
                Self::Omitted { refused: (0..count).map(|_| rule(&mut from)).collect::<Option<_>>()? }
            }
            7 => Self::Checkpoint {
                app: from.text()?.parse().ok()?,
                before: Head { count: from.count()?, digest: from.array()? },
                switches: Switches { app: from.boolean()?, all: from.boolean()? },
                totals: from.totals()?,
            },
            8 => {
                let (parameter, revision, count) = (from.name()?, from.count()?, from.u8()?);
                if usize::from(count) > MAX_LAST {
                    return None;
                }
                let last = (0..count).map(|_| from.u128().map(CommandId)).collect::<Option<_>>()?;
                Self::Standing { parameter, revision, last }
            }
            9 => {
                Self::Open { id: CommandId(from.u128()?), parameter: from.name()?, fingerprint: from.u128()? }
            }
            _ => return None,
        };
        from.is_at_end().then_some(record)
    }
}

impl Reader<'_> {
    /// Reads the name of a parameter.
    fn name(&mut self) -> Option<String> {
        self.text().filter(|name| name.len() <= MAX_NAME_BYTES)
    }

    /// Reads a command whose parameter has a name of the size that a record may have.
    fn named_command(&mut self) -> Option<Command> {
        self.command().filter(|command| command.parameter.len() <= MAX_NAME_BYTES)
    }

    /// Reads an answer that decides a command.
    fn outcome(&mut self) -> Option<Answer> {
        self.answer().filter(Answer::is_final)
    }
}

#[cfg(test)]
mod tests {
    use sample::Dtype;
    use units::{Epoch, Instant};

    use super::*;
    use crate::bytes::MAX_COUNT;
    use crate::{Applied, SessionId, Totals, Value};

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
        let mut totals = Totals::default();
        totals.intent();
        totals.attempt(&Answer::Refused { rule: Rule::Step });
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
            Record::Checkpoint {
                app: "sim/engine".parse().unwrap(),
                before: Head { count: 9, digest: [3; 32] },
                totals,
                switches: Switches { app: true, all: false },
            },
            Record::Standing { parameter: "gain".to_owned(), revision: 4, last: vec![id, CommandId(2)] },
            Record::Open { id, parameter: "gain".to_owned(), fingerprint: 5 },
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

    #[test]
    fn a_record_that_no_app_writes_is_refused() {
        let is_read = |record: Record| Record::decode(&record.encode()).is_some();
        let (id, parameter) = (CommandId(1), "gain".to_owned());
        let outcome =
            |revision, answer| Record::Outcome { id, parameter: parameter.clone(), revision, answer };
        for (answer, is_final) in [(Answer::Expired, true), (Answer::Accepted, false)] {
            assert_eq!(is_read(outcome(1, answer.clone())), is_final);
            let Record::Attempt { command, by, .. } = records().swap_remove(2) else { panic!("an attempt") };
            assert_eq!(is_read(Record::Attempt { command, by, answer }), is_final);
        }
        for (count, is_possible) in [(MAX_COUNT, true), (MAX_COUNT + 1, false)] {
            let app = || "sim/engine".parse().unwrap();
            let before = Head { count, digest: [3; 32] };
            let (mut totals, switches) = (Totals::default(), Switches::default());
            assert_eq!(is_read(Record::Checkpoint { app: app(), before, totals, switches }), is_possible);
            (totals.received, totals.expired) = (count, count);
            let before = Head::beginning(&app());
            assert_eq!(is_read(Record::Checkpoint { app: app(), before, totals, switches }), is_possible);
            assert_eq!(is_read(Record::Omitted { refused: vec![(Rule::Full, count)] }), is_possible);
            assert_eq!(is_read(outcome(count, Answer::Expired)), is_possible);
            let last = Vec::new();
            assert_eq!(
                is_read(Record::Standing { parameter: parameter.clone(), revision: count, last }),
                is_possible
            );
        }
        for (size, is_possible) in [(MAX_NAME_BYTES, true), (MAX_NAME_BYTES + 1, false)] {
            let parameter = "x".repeat(size);
            let Record::Intent { command, by } = records().swap_remove(1) else { panic!("an intent") };
            let command = Command { parameter: parameter.clone(), ..command };
            assert_eq!(is_read(Record::Intent { command, by }), is_possible);
            assert_eq!(is_read(Record::Open { id, parameter, fingerprint: 5 }), is_possible);
        }
        for (count, is_possible) in [(MAX_LAST, true), (MAX_LAST + 1, false)] {
            let last = vec![id; count];
            assert_eq!(
                is_read(Record::Standing { parameter: parameter.clone(), revision: 1, last }),
                is_possible
            );
        }
    }
}
