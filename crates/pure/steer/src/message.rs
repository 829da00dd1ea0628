//! Messages between an app and those who steer it, over one authenticated connection.
//!
//! Layout: `docs/protocol/steering.md`, "Messages".

use access::May;
use sample::{Dtype, StreamName};
use units::{Epoch, Instant};

use crate::bytes::{Reader, Writer};
use crate::{
    Answer, Command, CommandId, Granted, Mark, Needs, Number, Parameter, Question, Reply, Rule, Scope,
    SessionId, Switches, Totals, Value,
};

/// Version of the messages; a peer with another one is refused by name.
pub const VERSION: u8 = 2;
/// Maximum size of a message. Units: bytes.
pub const MAX_MESSAGE_BYTES: usize = 4_096;

/// A message to an app.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Request {
    /// The first message of a connection; answered by [`Response::Welcome`].
    Hello {
        /// Version of the messages.
        version: u8,
    },
    /// A command; answered by [`Response::Answer`], once or twice.
    Command(Command),
    /// A question about a command; answered by [`Response::Reply`], or not at all if there is no answer yet.
    Ask(Question),
    /// Takes a lease or renews it; answered by [`Response::Lease`].
    Lease {
        /// Name of the group.
        group: String,
    },
    /// Takes a lease over; answered by [`Response::Lease`].
    TakeOver {
        /// Name of the group.
        group: String,
        /// Reason in the administrator's words.
        reason: String,
    },
    /// Releases a lease; answered by [`Response::Released`].
    Release {
        /// Name of the group.
        group: String,
    },
    /// Turns a kill switch; answered by [`Response::Switched`].
    Switch {
        /// What it stops.
        scope: Scope,
        /// Whether it is to be on.
        is_on: bool,
        /// Reason in the sender's words.
        reason: String,
    },
    /// Asks for the parameters; answered by a [`Response::Parameter`] for each, and [`Response::State`].
    List,
    /// Asks to be told of changes from now on: by [`Response::Parameter`] and [`Response::State`].
    Watch,
}

/// A message from an app.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Response {
    /// The session is open.
    Welcome(Welcome),
    /// What became of a command.
    Answer {
        /// The command.
        id: CommandId,
        /// The answer.
        answer: Answer,
        /// Head of the log on disk.
        head: Mark,
    },
    /// The reply to a question.
    Reply {
        /// The command.
        id: CommandId,
        /// The reply.
        reply: Reply,
    },
    /// A lease was granted, or why not.
    Lease {
        /// Name of the group.
        group: String,
        /// The grant, or the reason with what helps.
        granted: Result<Granted, String>,
    },
    /// A lease was released, or why not.
    Released {
        /// Name of the group.
        group: String,
        /// The reason with what helps.
        error: Option<String>,
    },
    /// A kill switch was turned, or why not.
    Switched {
        /// The switches now.
        switches: Switches,
        /// The reason with what helps.
        error: Option<String>,
    },
    /// A parameter as it stands.
    Parameter(Listed),
    /// The app as it stands: it follows the parameters of a list.
    State {
        /// Totals of its commands.
        totals: Totals,
        /// Its kill switches.
        switches: Switches,
    },
    /// The connection cannot go on: the reason with what helps. The app hangs up.
    Closing {
        /// The reason.
        reason: String,
    },
}

/// The app, as it introduces itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// Version of the messages.
    pub version: u8,
    /// Name of the app.
    pub app: StreamName,
    /// The session that this connection has now.
    pub session: SessionId,
    /// Its sender, as the access file names it.
    pub principal: String,
    /// The app's clock.
    pub clock: Instant,
    /// Epoch of the app's stream: indices of samples are of it.
    pub epoch: Epoch,
    /// Epoch of the stream of its commands.
    pub run: Epoch,
    /// Head of the log with which this run began.
    pub began: Mark,
}

/// A parameter as it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Listed {
    /// The parameter.
    pub parameter: Parameter,
    /// Its value.
    pub value: Value,
    /// Whether the value is known: false after an uncertain command, until the app has read it back.
    pub is_read: bool,
    /// Its revision.
    pub revision: u64,
    /// Holder of its lease, as the access file names it.
    pub holder: Option<String>,
}

impl Request {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::new();
        match self {
            Self::Hello { version } => to.u8(0).u8(*version),
            Self::Command(command) => to.u8(1).command(command),
            Self::Ask(Question { id, session, valid_until }) => {
                to.u8(2).u128(id.0).u64(session.0).u64(valid_until.as_nanos())
            }
            Self::Lease { group } => to.u8(3).text(group),
            Self::TakeOver { group, reason } => to.u8(4).text(group).text(reason),
            Self::Release { group } => to.u8(5).text(group),
            Self::Switch { scope, is_on, reason } => {
                to.u8(6).boolean(*scope == Scope::All).boolean(*is_on).text(reason)
            }
            Self::List => to.u8(7),
            Self::Watch => to.u8(8),
        };
        to.into_bytes()
    }

    /// Decodes a message; `None` if the bytes are not one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let request = match from.u8()? {
            0 => Self::Hello { version: from.u8()? },
            1 => Self::Command(from.command()?),
            2 => Self::Ask(Question {
                id: CommandId(from.u128()?),
                session: SessionId(from.u64()?),
                valid_until: Instant::from_nanos(from.u64()?),
            }),
            3 => Self::Lease { group: from.text()? },
            4 => Self::TakeOver { group: from.text()?, reason: from.text()? },
            5 => Self::Release { group: from.text()? },
            6 => {
                let scope = if from.boolean()? { Scope::All } else { Scope::App };
                Self::Switch { scope, is_on: from.boolean()?, reason: from.text()? }
            }
            7 => Self::List,
            8 => Self::Watch,
            _ => return None,
        };
        from.is_at_end().then_some(request)
    }
}

impl Response {
    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::new();
        match self {
            Self::Welcome(welcome) => {
                to.u8(0).u8(welcome.version).text(welcome.app.as_str()).u64(welcome.session.0);
                to.text(&welcome.principal).u64(welcome.clock.as_nanos()).epoch(welcome.epoch);
                to.epoch(welcome.run).u64(welcome.began.count).u64(welcome.began.digest);
            }
            Self::Answer { id, answer, head } => {
                to.u8(1).u128(id.0).answer(answer).u64(head.count).u64(head.digest);
            }
            Self::Reply { id, reply } => {
                to.u8(2).u128(id.0);
                match reply {
                    Reply::Known(answer) => to.u8(0).answer(answer),
                    Reply::NeverSeen => to.u8(1),
                    Reply::Forgotten => to.u8(2),
                };
            }
            Self::Lease { group, granted } => {
                to.u8(3).text(group);
                match granted {
                    Ok(Granted { until, clock }) => to.u8(1).u64(until.as_nanos()).u64(clock.as_nanos()),
                    Err(reason) => to.u8(0).text(reason),
                };
            }
            Self::Released { group, error } => {
                to.u8(4).text(group).optional(error.as_ref(), |to, error| to.text(error));
            }
            Self::Switched { switches, error } => {
                to.u8(5).switches(*switches).optional(error.as_ref(), |to, error| to.text(error));
            }
            Self::Parameter(listed) => {
                to.u8(6).parameter(&listed.parameter).value(&listed.value).boolean(listed.is_read);
                to.u64(listed.revision).optional(listed.holder.as_ref(), |to, by| to.text(by));
            }
            Self::State { totals, switches } => {
                to.u8(7).totals(totals).switches(*switches);
            }
            Self::Closing { reason } => {
                to.u8(8).text(reason);
            }
        }
        to.into_bytes()
    }

    /// Decodes a message; `None` if the bytes are not one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader::new(bytes);
        let response = match from.u8()? {
            0 => Self::Welcome(Welcome {
                version: from.u8()?,
                app: from.text()?.parse().ok()?,
                session: SessionId(from.u64()?),
                principal: from.text()?,
                clock: Instant::from_nanos(from.u64()?),
                epoch: from.epoch()?,
                run: from.epoch()?,
                began: Mark { count: from.u64()?, digest: from.u64()? },
            }),
            1 => Self::Answer {
                id: CommandId(from.u128()?),
                answer: from.answer()?,
                head: Mark { count: from.u64()?, digest: from.u64()? },
            },
            2 => {
                let id = CommandId(from.u128()?);
                let reply = match from.u8()? {
                    0 => Reply::Known(from.answer()?),
                    1 => Reply::NeverSeen,
                    2 => Reply::Forgotten,
                    _ => return None,
                };
                Self::Reply { id, reply }
            }
            3 => {
                let group = from.text()?;
                let granted = if from.boolean()? {
                    let until = Instant::from_nanos(from.u64()?);
                    Ok(Granted { until, clock: Instant::from_nanos(from.u64()?) })
                } else {
                    Err(from.text()?)
                };
                Self::Lease { group, granted }
            }
            4 => Self::Released { group: from.text()?, error: from.optional(Reader::text)? },
            5 => Self::Switched { switches: from.switches()?, error: from.optional(Reader::text)? },
            6 => Self::Parameter(Listed {
                parameter: from.parameter()?,
                value: from.value()?,
                is_read: from.boolean()?,
                revision: from.u64()?,
                holder: from.optional(Reader::text)?,
            }),
            7 => Self::State { totals: from.totals()?, switches: from.switches()? },
            8 => Self::Closing { reason: from.text()? },
            _ => return None,
        };
        from.is_at_end().then_some(response)
    }
}

impl Writer {
    fn number(&mut self, number: Number) -> &mut Self {
        match number {
            Number::Integer(integer) => self.u8(0).u128(integer.cast_unsigned()),
            Number::Real(real) => self.u8(1).u64(real.to_bits()),
        }
    }

    fn parameter(&mut self, parameter: &Parameter) -> &mut Self {
        self.text(&parameter.name).u8(parameter.dtype.code()).shape(&parameter.shape).text(&parameter.unit);
        for limit in [parameter.min, parameter.max, parameter.greatest_step] {
            self.optional(limit, Self::number);
        }
        self.boolean(parameter.who == May::Administer);
        let group = match &parameter.needs {
            Needs::Nothing => None,
            Needs::Lease { group } => Some(group),
        };
        self.optional(group, |to, group| to.text(group))
    }

    fn switches(&mut self, switches: Switches) -> &mut Self {
        self.boolean(switches.app).boolean(switches.all)
    }

    pub(crate) fn totals(&mut self, totals: &Totals) -> &mut Self {
        let it = totals;
        let counts = [
            it.received,
            it.applied,
            it.expired,
            it.superseded,
            it.failed,
            it.uncertain,
            it.pending,
            it.repeated,
        ];
        counts.iter().fold(&mut *self, |to, count| to.u64(*count));
        self.u8(u8::try_from(Rule::ALL.len()).expect("there are fewer than 256 rules"));
        Rule::ALL.iter().fold(self, |to, rule| to.u64(totals.refused_by(*rule)))
    }
}

impl Reader<'_> {
    fn number(&mut self) -> Option<Number> {
        match self.u8()? {
            0 => Some(Number::Integer(self.u128()?.cast_signed())),
            1 => Some(Number::Real(f64::from_bits(self.u64()?))),
            _ => None,
        }
    }

    fn parameter(&mut self) -> Option<Parameter> {
        Some(Parameter {
            name: self.text()?,
            dtype: Dtype::from_code(self.u8()?)?,
            shape: self.shape()?,
            unit: self.text()?,
            min: self.optional(Self::number)?,
            max: self.optional(Self::number)?,
            greatest_step: self.optional(Self::number)?,
            who: if self.boolean()? { May::Administer } else { May::Steer },
            needs: match self.optional(Self::text)? {
                None => Needs::Nothing,
                Some(group) => Needs::Lease { group },
            },
        })
    }

    fn switches(&mut self) -> Option<Switches> {
        Some(Switches { app: self.boolean()?, all: self.boolean()? })
    }

    pub(crate) fn totals(&mut self) -> Option<Totals> {
        let mut totals = Totals::default();
        for count in [
            &mut totals.received,
            &mut totals.applied,
            &mut totals.expired,
            &mut totals.superseded,
            &mut totals.failed,
            &mut totals.uncertain,
            &mut totals.pending,
            &mut totals.repeated,
        ] {
            *count = self.count()?;
        }
        let rules = self.u8()?;
        let refused = (0..rules).map(|code| Some((Rule::from_code(code)?, self.count()?)));
        totals.with_refused(refused.collect::<Option<Vec<_>>>()?)
    }
}

#[cfg(test)]
mod tests;
