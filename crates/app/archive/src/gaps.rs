//! The gap map beside the samples: what is missing, where it was lost, and what that rests on.
//!
//! `gaps.jsonl` only grows: one JSON object a line, each ending in its own checksum, so that a torn tail is
//! seen and any tool reads the rest. News of a gap is another line with the same key; the last one counts.
//! Start with [`GapRecord`] and [`GapMap::decode`].

use core::ops::Range;
use std::collections::BTreeMap;

use ledger::{GapKind, Stage, StageCounts};
use serde_json::{Map, Value, json};
use units::WallTime;

use crate::checksum::crc32c;

/// The format's name in the first line.
const FORMAT: &str = "tallycast-gaps";
/// The only version so far.
const VERSION: u64 = 1;
/// What stands between a line's content and its checksum of eight hexadecimal digits.
const CRC_MARK: &str = ",\"crc32c\":\"";
/// What ends a line, behind the checksum.
const LINE_END: &str = "\"}";

/// A gap as the archive keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GapRecord {
    /// Names the gap within its stream and epoch.
    pub key: GapKey,
    /// What kind of absence it is.
    pub kind: GapKind,
    /// The missing elements. Units: position = sample index × elements per sample + element of the sample.
    pub positions: Range<u64>,
    /// The missing datagram numbers; empty when the elements never had one.
    pub numbers: Range<u64>,
    /// Elements lost, by stage.
    pub lost: StageCounts,
    /// Elements for which no evidence came in time.
    pub unexplained: u64,
    /// Elements still waiting for evidence.
    pub unsettled: u64,
    /// Tells that elements were shared out among stages or ranges because their places are not known.
    pub apportioned: bool,
    /// When the first missing sample was taken.
    pub t0: WallTime,
    /// When the first sample behind the gap was taken; `None` while nobody knows.
    pub t1: Option<WallTime>,
    /// What the stages rest on, for people.
    pub evidence: Vec<String>,
}

/// The identity of a gap in an epoch of an archive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GapKey {
    /// Which recorder of this epoch noted it, counted from 1; the ids of each begin anew.
    pub session: u32,
    /// Who counts the ids.
    pub origin: Origin,
    /// The id.
    pub id: u64,
}

/// Who declared a gap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Origin {
    /// The account of the reader that feeds the recorder.
    Reader,
    /// The archive itself: what could not be written, and the time between two recorders.
    Archive,
}

/// What the archive cut off a file when it recovered it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trim {
    /// The file's name.
    pub file: String,
    /// The size that was acknowledged and stays.
    pub kept_bytes: u64,
    /// The bytes behind it that nobody had acknowledged.
    pub cut_bytes: u64,
}

/// One recorder's time with the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// Its number, counted from 1.
    pub number: u32,
    /// The first sample of its account.
    pub first_index: u64,
    /// The name under which it read.
    pub reader: String,
}

/// A line of the gap map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// The first line.
    Head,
    /// A recorder began.
    Session(Session),
    /// A gap, or news of it.
    Gap(Box<GapRecord>),
    /// A recovery cut a file.
    Trim(Trim),
}

/// The gap map of one epoch, as found.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct GapMap {
    /// The last news of every gap.
    pub gaps: BTreeMap<GapKey, GapRecord>,
    /// The recorders that wrote this epoch.
    pub sessions: Vec<Session>,
    /// What recoveries cut.
    pub trims: Vec<Trim>,
    /// Size up to and with the last intact line.
    pub intact_bytes: u64,
    /// Lines before that which cannot be read.
    pub damaged: u32,
}

/// Says why a file is not a gap map.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GapMapError {
    /// Not ours.
    #[error("this is not a tallycast gap map")]
    Foreign,
    /// From a later version.
    #[error(
        "the gap map has format version {0}, this program reads up to {VERSION}\nread it with a newer tallycast"
    )]
    Version(u64),
}

impl GapRecord {
    /// Tells whether every element has been put down to a stage or to `unexplained`.
    #[must_use]
    pub const fn settled(&self) -> bool {
        self.unsettled == 0
    }

    /// Returns the stage with the largest share, the earlier of equals; `None` if most is unknown.
    #[must_use]
    pub fn leading_stage(&self) -> Option<Stage> {
        let (stage, count) = self.lost.nonzero().max_by(|(a, x), (b, y)| x.cmp(y).then(b.cmp(a)))?;
        (count >= self.unexplained.max(self.unsettled)).then_some(stage)
    }

    /// Returns the record as a JSON object, the same in the file, in exports and in answers.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let lost: Map<String, Value> =
            self.lost.nonzero().map(|(stage, count)| (stage.name().to_owned(), count.into())).collect();
        json!({
            "session": self.key.session,
            "origin": match self.key.origin { Origin::Reader => "reader", Origin::Archive => "archive" },
            "id": self.key.id,
            "kind": kind_name(self.kind),
            "first_element": self.positions.start,
            "elements": self.positions.end - self.positions.start,
            "numbers": [self.numbers.start, self.numbers.end],
            "lost": lost,
            "unexplained": self.unexplained,
            "unsettled": self.unsettled,
            "settled": self.settled(),
            "apportioned": self.apportioned,
            "from_ns": self.t0.as_nanos(),
            "to_ns": self.t1.map(WallTime::as_nanos),
            "evidence": self.evidence,
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let number = |name: &str| value.get(name)?.as_u64();
        let first = number("first_element")?;
        let numbers = value.get("numbers")?;
        let mut lost = StageCounts::default();
        for (stage, count) in value.get("lost")?.as_object()? {
            lost[stage.parse::<Stage>().ok()?] = count.as_u64()?;
        }
        let origin = match value.get("origin")?.as_str()? {
            "reader" => Origin::Reader,
            "archive" => Origin::Archive,
            _ => return None,
        };
        let text = |line: &Value| line.as_str().map(str::to_owned);
        Some(Self {
            key: GapKey { session: u32::try_from(number("session")?).ok()?, origin, id: number("id")? },
            kind: kind_of(value.get("kind")?.as_str()?)?,
            positions: first..first.checked_add(number("elements")?)?,
            numbers: numbers.get(0)?.as_u64()?..numbers.get(1)?.as_u64()?,
            lost,
            unexplained: number("unexplained")?,
            unsettled: number("unsettled")?,
            apportioned: value.get("apportioned")?.as_bool()?,
            t0: WallTime::from_nanos(value.get("from_ns")?.as_i64()?),
            t1: value.get("to_ns")?.as_i64().map(WallTime::from_nanos),
            evidence: value.get("evidence")?.as_array()?.iter().map(text).collect::<Option<_>>()?,
        })
    }
}

const KINDS: [(GapKind, &str); 3] = [
    (GapKind::Missing, "missing"),
    (GapKind::PublisherAbsent, "publisher_absent"),
    (GapKind::ReaderAbsent, "reader_absent"),
];

fn kind_name(kind: GapKind) -> &'static str {
    KINDS.iter().find(|(known, _)| *known == kind).expect("every kind has a name").1
}

fn kind_of(name: &str) -> Option<GapKind> {
    KINDS.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
}

impl Line {
    /// Returns the line with its checksum and its end.
    #[must_use]
    pub fn encode(&self) -> String {
        let (name, value) = match self {
            Self::Head => ("head", json!({"format": FORMAT, "version": VERSION})),
            Self::Session(session) => (
                "session",
                json!({"session": session.number, "first_index": session.first_index, "reader": session.reader}),
            ),
            Self::Gap(gap) => ("gap", gap.to_json()),
            Self::Trim(trim) => (
                "trim",
                json!({"file": trim.file, "kept_bytes": trim.kept_bytes, "cut_bytes": trim.cut_bytes}),
            ),
        };
        // The kind of line comes first for people; the rest in the order of the JSON library.
        let object = value.to_string();
        let content = format!("{{\"line\":\"{name}\",{}", &object[1..object.len() - 1]);
        format!("{content}{CRC_MARK}{:08x}{LINE_END}\n", crc32c([content.as_bytes()]))
    }

    /// Reads a line without its end; `None` if it is torn, damaged or of a kind not known here.
    fn decode(line: &str) -> Option<Self> {
        let (content, rest) = line.rsplit_once(CRC_MARK)?;
        let crc = u32::from_str_radix(rest.strip_suffix(LINE_END)?, 16).ok()?;
        if crc != crc32c([content.as_bytes()]) {
            return None;
        }
        let value: Value = serde_json::from_str(line).ok()?;
        let number = |name: &str| value.get(name)?.as_u64();
        let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
        match value.get("line")?.as_str()? {
            "head" => Some(Self::Head),
            "session" => Some(Self::Session(Session {
                number: u32::try_from(number("session")?).ok()?,
                first_index: number("first_index")?,
                reader: text("reader")?,
            })),
            "gap" => GapRecord::from_json(&value).map(|gap| Self::Gap(Box::new(gap))),
            "trim" => Some(Self::Trim(Trim {
                file: text("file")?,
                kept_bytes: number("kept_bytes")?,
                cut_bytes: number("cut_bytes")?,
            })),
            _ => None,
        }
    }
}

impl GapMap {
    /// Reads a gap map, also one that is still being written or was cut while it was.
    ///
    /// # Errors
    /// [`GapMapError`] if the file is foreign or from a later version. An empty or torn file is no error.
    pub fn decode(bytes: &[u8]) -> Result<Self, GapMapError> {
        let mut map = Self::default();
        let mut damaged_since = 0;
        let mut end = 0_u64;
        for (position, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            end += line.len() as u64;
            let text = core::str::from_utf8(line).ok().and_then(|text| text.strip_suffix('\n'));
            if position == 0 {
                check_head(text)?;
            }
            match text.and_then(Line::decode) {
                Some(Line::Head) => {}
                Some(Line::Session(session)) => map.sessions.push(session),
                Some(Line::Gap(gap)) => drop(map.gaps.insert(gap.key, *gap)),
                Some(Line::Trim(trim)) => map.trims.push(trim),
                None => {
                    damaged_since += 1;
                    continue;
                }
            }
            map.damaged += core::mem::take(&mut damaged_since);
            map.intact_bytes = end;
        }
        Ok(map)
    }
}

/// Refuses a whole first line that is not ours; a torn one was never acknowledged.
fn check_head(line: Option<&str>) -> Result<(), GapMapError> {
    let Some(line) = line else { return Ok(()) };
    let value: Value = serde_json::from_str(line).map_err(|_| GapMapError::Foreign)?;
    if value.get("format").and_then(Value::as_str) != Some(FORMAT) {
        return Err(GapMapError::Foreign);
    }
    match value.get("version").and_then(Value::as_u64) {
        Some(VERSION) => Ok(()),
        other => Err(GapMapError::Version(other.unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(id: u64) -> GapRecord {
        let mut lost = StageCounts::of(Stage::Injected, 4);
        lost[Stage::ReceiverSocketBuffer] = u64::MAX / 2;
        GapRecord {
            key: GapKey { session: 1, origin: Origin::Reader, id },
            kind: GapKind::Missing,
            positions: 10..20,
            numbers: 3..5,
            lost,
            unexplained: 1,
            unsettled: 2,
            apportioned: true,
            t0: WallTime::from_nanos(i64::MIN),
            t1: None,
            evidence: vec!["SO_RXQ_OVFL rose by 3, \"quoted\",\"crc32c\":\"\n".into()],
        }
    }

    fn lines() -> Vec<Line> {
        let session = Session { number: 1, first_index: 7, reader: "recorder".into() };
        let trim = Trim { file: "segment-000001.arrows".into(), kept_bytes: 100, cut_bytes: 5 };
        vec![
            Line::Head,
            Line::Session(session),
            Line::Gap(Box::new(gap(0))),
            Line::Gap(Box::new(gap(1))),
            Line::Trim(trim),
        ]
    }

    fn text() -> String {
        lines().iter().map(Line::encode).collect()
    }

    #[test]
    fn what_was_written_is_read() {
        for line in lines() {
            let encoded = line.encode();
            assert_eq!(Line::decode(encoded.strip_suffix('\n').unwrap()), Some(line));
        }
    }

    #[test]
    fn the_last_news_of_a_gap_counts() {
        let settled = GapRecord { unsettled: 0, unexplained: 3, ..gap(0) };
        let text = text() + &Line::Gap(Box::new(settled.clone())).encode();
        let map = GapMap::decode(text.as_bytes()).unwrap();
        assert_eq!(map.gaps.len(), 2);
        assert_eq!(map.gaps[&settled.key], settled);
        assert_eq!((map.sessions.len(), map.trims.len(), map.damaged), (1, 1, 0));
    }

    #[test]
    fn a_map_cut_at_any_byte_keeps_exactly_its_whole_lines() {
        let text = text();
        for cut in 0..text.len() {
            let map = GapMap::decode(&text.as_bytes()[..cut]).unwrap();
            let whole = text.as_bytes()[..cut].iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(map.gaps.len(), whole.saturating_sub(2).min(2), "cut at {cut}");
            assert!(map.intact_bytes as usize <= cut && map.damaged == 0);
        }
    }

    #[test]
    fn one_flipped_bit_costs_one_line_and_is_told() {
        let mut bytes = text().into_bytes();
        let inside_the_first_gap = text().find("first_element").unwrap();
        bytes[inside_the_first_gap] ^= 1;
        let map = GapMap::decode(&bytes).unwrap();
        assert_eq!((map.gaps.len(), map.damaged), (1, 1));
    }

    #[test]
    fn foreign_and_later_maps_are_refused() {
        assert_eq!(GapMap::decode(b"{\"a\":1}\n"), Err(GapMapError::Foreign));
        assert_eq!(GapMap::decode(b"index,time\n"), Err(GapMapError::Foreign));
        let later = b"{\"format\":\"tallycast-gaps\",\"version\":2}\n";
        assert_eq!(GapMap::decode(later), Err(GapMapError::Version(2)));
    }
}
