//! Messages on the link between two relays: a head of 16 bytes, and content by its kind.
//!
//! Messages arrive in any order, each once or not at all. Those that must not be lost have no deadline. Some of
//! these, the *controls*, are numbered per stream, so that the far end takes them in order and knows after a
//! reconnection which are new. Data are datagrams of the stream protocol, whose header carries identity, position and
//! time.
//!
//! Start with [`Message`]. Source: `docs/protocol/relay.md`.

mod control;
mod fields;
#[cfg(test)]
mod tests;

use core::time::Duration;

use units::{Epoch, Instant};
use wire::{MAX_DESCRIPTION_BYTES, MAX_HOPS, MAX_STATION_BYTES};

pub use control::{Control, Numbered};
use fields::{Reader, Writer};

/// Version of the messages.
pub const VERSION: u16 = 1;
/// Size of a message's head. Units: bytes.
pub const HEAD_BYTES: usize = 16;

/// Codes of the kinds of messages, with the names of the page's table.
pub(crate) mod kind {
    pub(crate) const HELLO: u8 = 1;
    pub(crate) const BEGIN: u8 = 2;
    pub(crate) const RESUME: u8 = 3;
    pub(crate) const DATA: u8 = 4;
    pub(crate) const HORIZON: u8 = 5;
    pub(crate) const TOTALS: u8 = 6;
    pub(crate) const WANT: u8 = 7;
    pub(crate) const REFUSE: u8 = 8;
    pub(crate) const START: u8 = 9;
    pub(crate) const MISSING: u8 = 10;
    pub(crate) const SETTLED: u8 = 11;
    pub(crate) const GIVEN_UP: u8 = 12;
    pub(crate) const STATEMENT: u8 = 13;
    pub(crate) const END: u8 = 14;
    /// All kinds.
    #[cfg(test)]
    pub(crate) const ALL: [(u8, &str); 14] = [
        (HELLO, "hello"),
        (BEGIN, "begin"),
        (RESUME, "resume"),
        (DATA, "data"),
        (HORIZON, "horizon"),
        (TOTALS, "totals"),
        (WANT, "want"),
        (REFUSE, "refuse"),
        (START, "start"),
        (MISSING, "missing"),
        (SETTLED, "settled"),
        (GIVEN_UP, "given_up"),
        (STATEMENT, "statement"),
        (END, "end"),
    ];
}

/// A message on the link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message<'a> {
    /// The stream's number on this link, given by the near end; 0 in messages of no stream.
    pub slot: u16,
    /// Birth of the newest samples of the message: the near end's connection clock, less their age. 0 where it has no
    /// samples.
    ///
    /// Units: microseconds; 32 bits that wrap.
    pub born_us: u32,
    /// Elements that were missing before the message's first position, since the stream began on this link: the far end
    /// divides what did not arrive into what was never sent and what the link lost.
    pub missing_before: u64,
    /// Content.
    pub content: Content<'a>,
}

/// Content of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content<'a> {
    /// First message of either end on a connection.
    Hello(Hello),
    /// Near end: a stream, before anything else of it on a connection.
    Begin(Begin<'a>),
    /// Far end: answer to [`Content::Begin`].
    Resume(Resume),
    /// Near end: a datagram of the stream protocol, kind data, without extensions, of the origin epoch.
    Data(&'a [u8]),
    /// Near end, ten times a second: progress of the stream.
    Horizon(Horizon),
    /// Far end, ten times a second: outcome of the elements so far.
    Totals(Totals),
    /// Far end: the deadline and priority for its readers.
    Want(Want),
    /// The stream is refused by the sender of this message.
    Refuse(Refusal),
    /// Near end: a control, which the far end takes in order.
    Control(Numbered),
}

/// First message of either end on a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Version of the messages, see [`VERSION`].
    pub version: u16,
    /// The process: random at each start.
    pub incarnation: u64,
    /// Name of the station.
    pub station: String,
}

/// A stream, as the near end reads it from its bus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Begin<'a> {
    /// Epoch of the stream's publisher.
    pub origin: Epoch,
    /// Deadline from end to end; not zero.
    pub deadline: Duration,
    /// True if readers may want a longer deadline, and no shorter one.
    pub is_least: bool,
    /// True if the far end took this beginning on an earlier connection: it is the same one that goes on, and not another
    /// of the same epoch.
    pub goes_on: bool,
    /// Precedence where not all streams fit: the higher goes first.
    pub priority: u8,
    /// Stations that send on the hops so far, from the stream's publisher to the near end; at most [`MAX_HOPS`].
    pub stations: Vec<String>,
    /// The description as the near end read it.
    pub description: &'a [u8],
}

/// State of a stream at the far end, as it begins on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resume {
    /// Whether it knows the stream.
    pub standing: Standing,
    /// One behind the last position of which the outcome is known; 0 if it has nothing.
    pub position: u64,
    /// Number of controls that it has taken.
    pub controls: u64,
}

/// Whether and from whom the far end knows a stream that begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Not at all.
    Fresh,
    /// From this incarnation of the near end.
    Same,
    /// From another incarnation of the near end: positions go on, running totals and controls begin again.
    Other,
}

/// Progress of a stream at the near end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Horizon {
    /// One behind the last position whose outcome on the hops before was sent or will be.
    pub position: u64,
    /// The oldest control that can still be sent: the far end does not wait for earlier ones.
    pub first_control: u64,
}

/// Outcome of a stream's elements at the far end, since the stream began on this link; the four add up.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// One behind the last position of which the outcome is known.
    pub position: u64,
    /// Published elements.
    pub delivered: u64,
    /// Elements that were missing before the link.
    pub missing: u64,
    /// Elements that the link lost.
    pub given_up: u64,
    /// Number of controls taken.
    pub controls: u64,
}

/// Deadline and priority for the readers of the far bus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// Deadline from end to end; zero is refused by the near end.
    pub deadline: Duration,
    /// Precedence where not all streams fit: the higher goes first.
    pub priority: u8,
}

/// Reason why one end refuses a stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The far end's own station sent on a hop before.
    #[error("the stream has passed this station before: the relays form a loop")]
    Loop,
    /// More hops than a tally can tell.
    #[error("the stream would pass more than {MAX_HOPS} hops; shorten the chain of relays")]
    TooManyHops,
    /// Another stream has the same origin epoch.
    #[error("another stream claims the same origin with a different description")]
    AnotherDescription,
    /// The description cannot be read.
    #[error("the description cannot be read")]
    Description,
    /// A deadline of zero, or beyond the largest.
    #[error("a deadline is longer than zero and at most 60 s")]
    Deadline,
    /// More streams than one link has.
    #[error("too many streams for one link")]
    TooManyStreams,
    /// Another stream of the link has the same origin epoch.
    #[error("another stream of this link has the same origin")]
    Claimed,
    /// A later epoch of its publisher is published already.
    #[error("a later epoch of the stream is published already")]
    Superseded,
    /// A reason of a later version.
    #[error("refused for a reason that this version does not know")]
    Unknown,
}

/// Reason why a message cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MalformedMessage {
    /// It ends within its content.
    #[error("a message on the link ends early")]
    Short,
    /// It goes on after its content.
    #[error("a message on the link is longer than its content")]
    Long,
    /// A kind of a later version.
    #[error("a message on the link is of the unknown kind {0}")]
    Kind(u8),
    /// A field without meaning.
    #[error("a message on the link has an invalid {0}")]
    Field(&'static str),
}

impl Refusal {
    const KNOWN: [Self; 8] = [
        Self::Loop,
        Self::TooManyHops,
        Self::AnotherDescription,
        Self::Description,
        Self::Deadline,
        Self::TooManyStreams,
        Self::Claimed,
        Self::Superseded,
    ];

    fn code(self) -> u8 {
        let place = Self::KNOWN.iter().position(|known| *known == self);
        place.map_or(0, |place| u8::try_from(place + 1).expect("eight of them"))
    }

    fn from_code(code: u8) -> Self {
        let place = usize::from(code).checked_sub(1);
        place.and_then(|place| Self::KNOWN.get(place)).copied().unwrap_or(Self::Unknown)
    }
}

impl Standing {
    const ALL: [Self; 3] = [Self::Fresh, Self::Same, Self::Other];
}

impl<'a> Message<'a> {
    /// Creates a message without samples.
    #[must_use]
    pub const fn plain(slot: u16, content: Content<'a>) -> Self {
        Self { slot, born_us: 0, missing_before: 0, content }
    }

    /// Encodes the message.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.u8(self.content.kind());
        out.u8(0);
        out.u16(self.slot);
        out.u32(self.born_us);
        out.u64(self.missing_before);
        self.content.write(&mut out);
        out.into_bytes()
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// [`MalformedMessage`] with the reason.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, MalformedMessage> {
        let mut fields = Reader::new(bytes);
        let kind = fields.u8()?;
        // Flags of later versions.
        let _ = fields.u8()?;
        let (slot, born_us, missing_before) = (fields.u16()?, fields.u32()?, fields.u64()?);
        let content = Content::read(kind, &mut fields)?;
        fields.end()?;
        Ok(Self { slot, born_us, missing_before, content })
    }
}

impl<'a> Content<'a> {
    const fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => kind::HELLO,
            Self::Begin(_) => kind::BEGIN,
            Self::Resume(_) => kind::RESUME,
            Self::Data(_) => kind::DATA,
            Self::Horizon(_) => kind::HORIZON,
            Self::Totals(_) => kind::TOTALS,
            Self::Want(_) => kind::WANT,
            Self::Refuse(_) => kind::REFUSE,
            Self::Control(numbered) => numbered.control.kind(),
        }
    }

    fn write(&self, out: &mut Writer) {
        match self {
            Self::Hello(hello) => {
                out.u16(hello.version);
                out.u64(hello.incarnation);
                out.text(&hello.station);
            }
            Self::Begin(begin) => begin.write(out),
            Self::Resume(Resume { standing, position, controls }) => {
                out.u8(*standing as u8);
                out.u64(*position);
                out.u64(*controls);
            }
            Self::Data(datagram) => out.rest(datagram),
            Self::Horizon(horizon) => {
                out.u64(horizon.position);
                out.u64(horizon.first_control);
            }
            Self::Totals(totals) => {
                let Totals { position, delivered, missing, given_up, controls } = *totals;
                for count in [position, delivered, missing, given_up, controls] {
                    out.u64(count);
                }
            }
            Self::Want(want) => {
                out.duration(want.deadline);
                out.u8(want.priority);
            }
            Self::Refuse(refusal) => out.u8(refusal.code()),
            Self::Control(numbered) => numbered.write(out),
        }
    }

    fn read(kind: u8, fields: &mut Reader<'a>) -> Result<Self, MalformedMessage> {
        Ok(match kind {
            kind::HELLO => {
                let (version, incarnation) = (fields.u16()?, fields.u64()?);
                let hello = Hello { version, incarnation, station: fields.text("station")? };
                if version > VERSION {
                    // Additions of later versions.
                    fields.rest();
                }
                Self::Hello(hello)
            }
            kind::BEGIN => Self::Begin(Begin::read(fields)?),
            kind::RESUME => {
                let code = usize::from(fields.u8()?);
                let standing = Standing::ALL.get(code).ok_or(MalformedMessage::Field("standing"))?;
                Self::Resume(Resume { standing: *standing, position: fields.u64()?, controls: fields.u64()? })
            }
            kind::DATA => Self::Data(fields.rest()),
            kind::HORIZON => Self::Horizon(Horizon { position: fields.u64()?, first_control: fields.u64()? }),
            kind::TOTALS => Self::Totals(Totals {
                position: fields.u64()?,
                delivered: fields.u64()?,
                missing: fields.u64()?,
                given_up: fields.u64()?,
                controls: fields.u64()?,
            }),
            kind::WANT => Self::Want(Want { deadline: fields.duration()?, priority: fields.u8()? }),
            kind::REFUSE => Self::Refuse(Refusal::from_code(fields.u8()?)),
            _ => Self::Control(Numbered::read(kind, fields)?),
        })
    }
}

impl<'a> Begin<'a> {
    fn write(&self, out: &mut Writer) {
        out.u64(self.origin.start_ns);
        out.u64(self.origin.incarnation);
        out.duration(self.deadline);
        out.u8(u8::from(self.is_least) | u8::from(self.goes_on) << 1);
        out.u8(self.priority);
        out.u8(u8::try_from(self.stations.len()).expect("at most eight stations"));
        self.stations.iter().for_each(|station| out.text(station));
        out.rest(self.description);
    }

    fn read(fields: &mut Reader<'a>) -> Result<Self, MalformedMessage> {
        let origin = Epoch { start_ns: fields.u64()?, incarnation: fields.u64()? };
        let deadline = fields.duration()?;
        // Bits of later versions.
        let terms = fields.u8()?;
        let (is_least, goes_on) = (terms & 1 == 1, terms >> 1 & 1 == 1);
        let priority = fields.u8()?;
        let count = fields.u8()?;
        // One more can be said, so that the far end refuses it in words.
        if usize::from(count) > MAX_HOPS + 1 {
            return Err(MalformedMessage::Field("list of stations"));
        }
        let stations = (0..count).map(|_| fields.text("station")).collect::<Result<_, _>>()?;
        let description = fields.rest();
        if description.len() > MAX_DESCRIPTION_BYTES {
            return Err(MalformedMessage::Field("description"));
        }
        Ok(Self { origin, deadline, is_least, goes_on, priority, stations, description })
    }
}

/// Returns a station's name as it is sent: at most [`MAX_STATION_BYTES`], without control characters.
#[must_use]
pub fn station_name(name: &str) -> String {
    let mut cut = String::new();
    for character in name.chars().take_while(|character| !character.is_control()) {
        if cut.len() + character.len_utf8() > MAX_STATION_BYTES {
            break;
        }
        cut.push(character);
    }
    cut
}

/// Returns the birth of samples by a connection's clock, which shows `clock_us` at `now`.
pub(crate) fn born_us(clock_us: u32, now: Instant, born: Instant) -> u32 {
    // The clock has 32 bits: an age beyond them is of no use to anybody.
    let age_us = now.since(born).as_micros();
    #[expect(clippy::cast_possible_truncation, reason = "the clock wraps")]
    clock_us.wrapping_sub(age_us as u32)
}
