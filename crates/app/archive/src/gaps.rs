//! Gap map of a recording: missing elements, the stages that lost them, and the evidence.
//!
//! `gaps.jsonl` is append-only: one JSON object per line, each ending with its own checksum, so that a torn tail is
//! detected and any tool reads the rest. An update of a gap is another line with the same key; the last one counts.
//! Start with [`GapRecord`] and [`GapMap::decode`].

use core::ops::Range;
use std::collections::BTreeMap;

use ledger::{GapKind, HopCounts, Stage, StageCounts};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use units::WallTime;

use crate::Description;
use crate::checksum::crc32c;

/// Name of the format in the first line.
const FORMAT: &str = "tallycast-gaps";
/// The only version so far.
const VERSION: u64 = 1;
/// Separator of a line's content and its checksum of eight hexadecimal digits.
const CRC_MARK: &str = ",\"crc32c\":\"";
/// End of a line, behind the checksum.
const LINE_END: &str = "\"}";

/// Gap as stored in the archive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "StoredGap", into = "StoredGap")]
pub struct GapRecord {
    /// Identity of the gap within its stream and epoch.
    pub key: GapKey,
    /// Kind of absence.
    pub kind: GapKind,
    /// Missing elements. Units: position = sample index × elements per sample + element of the sample.
    pub positions: Range<u64>,
    /// Missing datagram numbers; empty if the elements never had one.
    pub numbers: Range<u64>,
    /// Elements lost, by stage.
    pub lost: StageCounts,
    /// Of those lost at stage `source` of a relayed stream, the hop and stage at which they were; empty for others.
    pub inherited: HopCounts,
    /// Elements for which no evidence came in time.
    pub unexplained: u64,
    /// Elements still waiting for evidence.
    pub unsettled: u64,
    /// True if elements were divided among stages or ranges because their places are not known.
    pub apportioned: bool,
    /// Time of the first missing sample.
    pub t0: WallTime,
    /// Time of the first sample behind the gap; `None` while it is unknown.
    pub t1: Option<WallTime>,
    /// Evidence for the stages, as text.
    pub evidence: Vec<String>,
}

/// Identity of a gap in an epoch of an archive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct GapKey {
    /// Number of the recorder in this epoch, from 1; each one's ids begin again.
    pub session: u32,
    /// Account that assigns the ids.
    pub origin: Origin,
    /// Id within the session and origin.
    pub id: u64,
}

/// Account in which a gap was declared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Account of the reader that feeds the recorder.
    Reader,
    /// The archive itself: samples that could not be written, and the time between two recorders.
    Archive,
}

/// Bytes that a recovery cut off a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Trim {
    /// Name of the file.
    pub file: String,
    /// Size that was acknowledged and stays, in bytes.
    pub kept_bytes: u64,
    /// Number of bytes behind it, which were never acknowledged.
    pub cut_bytes: u64,
}

/// Period in which one recorder recorded the stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Session {
    /// Number of the session, from 1.
    #[serde(rename = "session")]
    pub number: u32,
    /// Index of the first sample of its account.
    pub first_index: u64,
    /// Name of the reader.
    pub reader: String,
}

/// Line of the gap map.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "lowercase")]
pub enum Line {
    /// The first line.
    Head(Head),
    /// A recorder began.
    Session(Session),
    /// A gap, or an update of it.
    Gap(Box<GapRecord>),
    /// A recovery cut a file.
    Trim(Trim),
    /// A recovery set a file aside or rebuilt it.
    Mended(Mended),
}

/// Format of the gap map, and its owner; `None` in files written before it was added.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    format: String,
    version: u64,
    #[serde(flatten)]
    owner: Option<Owner>,
}

/// Stream and epoch of a gap map, as text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Owner {
    /// Name of the stream.
    pub stream: String,
    /// Epoch of the publisher.
    pub epoch: String,
}

/// Repair of a damaged file by a recovery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mended {
    /// Name of the file.
    pub file: String,
    /// Name under which the damaged file is kept; `None` if there was none.
    pub kept_as: Option<String>,
    /// Fault of the file.
    pub cause: String,
}

/// Gap map of one epoch, as read.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct GapMap {
    /// Latest update of every gap.
    pub gaps: BTreeMap<GapKey, GapRecord>,
    /// Recorders that wrote this epoch.
    pub sessions: Vec<Session>,
    /// Cuts by recoveries.
    pub trims: Vec<Trim>,
    /// Size up to and including the last intact line, in bytes.
    pub intact_bytes: u64,
    /// Number of unreadable lines before that.
    pub damaged: u32,
    /// Number of unreadable lines that no crash explains: complete up to their end, and without a missing page.
    pub spoiled: u32,
    /// Offset of the first unreadable line that others follow, in bytes.
    pub damaged_at: Option<u64>,
    /// Repairs by recoveries.
    pub mended: Vec<Mended>,
    /// Stream and epoch of the gap map; `None` if the file does not have them.
    pub owner: Option<Owner>,
}

/// Reason why a file is not a gap map.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GapMapError {
    /// The file is no gap map.
    #[error("this is not a tallycast gap map")]
    Foreign,
    /// The file has a later version.
    #[error("the gap map has format version {0}, this program reads up to {VERSION}\nuse a newer tallycast")]
    Version(u64),
}

impl GapRecord {
    /// Returns whether every element is assigned to a stage or to `unexplained`.
    #[must_use]
    pub const fn settled(&self) -> bool {
        self.unsettled == 0
    }

    /// Returns whether the record was made while reading, for samples that were stored and can no longer be read.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        self.key.session == 0
    }

    /// Returns the stage with the largest share, the earlier of equals; `None` if most is unknown.
    #[must_use]
    pub fn leading_stage(&self) -> Option<Stage> {
        let (stage, count) = self.lost.nonzero().max_by(|(a, x), (b, y)| x.cmp(y).then(b.cmp(a)))?;
        (count >= self.unexplained.max(self.unsettled)).then_some(stage)
    }
}

/// Gap as the file, exports and answers have it.
#[derive(Serialize, Deserialize)]
struct StoredGap {
    #[serde(flatten)]
    key: GapKey,
    kind: GapKind,
    first_element: u64,
    elements: u64,
    numbers: [u64; 2],
    /// Elements by the names of their stages, which may be those of a later version.
    lost: BTreeMap<String, u64>,
    /// Absent where the stream was not relayed, and in files written before it was added.
    #[serde(default, skip_serializing_if = "HopCounts::is_empty")]
    hops: HopCounts,
    unexplained: u64,
    unsettled: u64,
    #[serde(skip_deserializing)]
    settled: bool,
    apportioned: bool,
    from_ns: WallTime,
    // Unlike other optional members, it must be present.
    #[serde(deserialize_with = "Option::deserialize")]
    to_ns: Option<WallTime>,
    evidence: Vec<String>,
}

impl From<GapRecord> for StoredGap {
    fn from(gap: GapRecord) -> Self {
        Self {
            settled: gap.settled(),
            key: gap.key,
            kind: gap.kind,
            first_element: gap.positions.start,
            elements: gap.positions.end - gap.positions.start,
            numbers: [gap.numbers.start, gap.numbers.end],
            hops: gap.inherited,
            lost: gap.lost.nonzero().map(|(stage, count)| (stage.name().to_owned(), count)).collect(),
            unexplained: gap.unexplained,
            unsettled: gap.unsettled,
            apportioned: gap.apportioned,
            from_ns: gap.t0,
            to_ns: gap.t1,
            evidence: gap.evidence,
        }
    }
}

impl TryFrom<StoredGap> for GapRecord {
    type Error = &'static str;

    fn try_from(stored: StoredGap) -> Result<Self, Self::Error> {
        let StoredGap { mut unexplained, mut evidence, .. } = stored;
        let mut lost = StageCounts::default();
        for (stage, count) in stored.lost {
            match stage.parse::<Stage>() {
                Ok(stage) => lost[stage] = count,
                // A stage of a later version. Only its name is unknown to this version; people can still read it.
                Err(_) => {
                    unexplained = unexplained.checked_add(count).ok_or("too many elements are lost")?;
                    evidence
                        .push(format!("{count} elements lost in {stage}, which this version does not know"));
                }
            }
        }
        let end = stored.first_element.checked_add(stored.elements).ok_or("too many elements are missing")?;
        let [first_number, next_number] = stored.numbers;
        let inherited = stored.hops.completed(lost[Stage::Source]);
        if !inherited.is_empty() && inherited.total() != lost[Stage::Source] {
            return Err("the elements of all hops are not those lost at stage `source`");
        }
        Ok(Self {
            key: stored.key,
            kind: stored.kind,
            positions: stored.first_element..end,
            numbers: first_number..next_number,
            lost,
            inherited,
            unexplained,
            unsettled: stored.unsettled,
            apportioned: stored.apportioned,
            t0: stored.from_ns,
            t1: stored.to_ns,
            evidence,
        })
    }
}

impl Line {
    /// Returns the first line of a stream's gap map.
    pub(crate) fn head_of(description: &Description) -> Self {
        let owner = Owner { stream: description.name.to_string(), epoch: description.epoch.to_string() };
        Self::Head(Head { format: FORMAT.to_owned(), version: VERSION, owner: Some(owner) })
    }

    /// Returns the line with its checksum and line end.
    ///
    /// # Panics
    /// Never: every kind of line is an object with its name.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut object = json!(self);
        let name = object.as_object_mut().and_then(|members| members.remove("line"));
        let name = name.expect("every kind of line has its name");
        // The kind of line comes first for readability; the rest in the order of the JSON library.
        let object = object.to_string();
        sealed(&format!("{{\"line\":{name},{}", &object[1..object.len() - 1]))
    }

    /// Returns whether a line without its end is intact, of any kind.
    pub(crate) fn is_whole(line: &str) -> bool {
        let crc = |(content, rest): (&str, &str)| {
            let told = rest.strip_suffix(LINE_END)?;
            Some(told == format!("{:08x}", crc32c([content.as_bytes()])))
        };
        line.rsplit_once(CRC_MARK).and_then(crc).unwrap_or(false)
    }

    /// Returns whether a line without its end is intact and has a kind of line or gap of a later version: older
    /// readers skip it.
    fn is_of_later_kind(line: &str) -> bool {
        let value: Option<Value> = serde_json::from_str(line).ok().filter(|_| Self::is_whole(line));
        let named = |name: &str| value.as_ref().and_then(|value| value.get(name)?.as_str());
        match named("line") {
            Some("gap") => {
                named("kind").is_some_and(|kind| GapKind::deserialize(json!(kind)).is_err())
                    || named("origin").is_some_and(|origin| Origin::deserialize(json!(origin)).is_err())
            }
            Some(kind) => !["head", "session", "trim", "mended"].contains(&kind),
            None => false,
        }
    }

    /// Reads a line without its end; `None` if it is torn, damaged or of an unknown kind.
    fn decode(line: &str) -> Option<Self> {
        let value: Value = Self::is_whole(line).then(|| serde_json::from_str(line).ok())??;
        Self::deserialize(value).ok()
    }
}

impl GapMap {
    /// Reads a gap map, also one that is being written or was cut off.
    ///
    /// # Errors
    /// [`GapMapError`] if the file is foreign or from a later version. An empty or torn file is no error.
    pub fn decode(bytes: &[u8]) -> Result<Self, GapMapError> {
        let mut map = Self::default();
        let (mut damaged_since, mut damaged_at) = (0, None);
        let mut end = 0_u64;
        for (position, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let start = end;
            end += line.len() as u64;
            let text = core::str::from_utf8(line).ok().and_then(|text| text.strip_suffix('\n'));
            let decoded = text.and_then(Line::decode);
            if position == 0 {
                check_head(text, decoded.is_some(), bytes)?;
            }
            match decoded {
                Some(Line::Head(head)) => map.owner = head.owner,
                Some(Line::Session(session)) => map.sessions.push(session),
                Some(Line::Gap(gap)) => drop(map.gaps.insert(gap.key, *gap)),
                Some(Line::Trim(trim)) => map.trims.push(trim),
                Some(Line::Mended(mended)) => map.mended.push(mended),
                None => {
                    let is_known = text.is_some_and(Line::is_of_later_kind);
                    // A page that never reached the disk is zeros, and a torn line has no end.
                    let torn = line.contains(&0) || !line.ends_with(b"\n");
                    map.spoiled += u32::from(!torn && !is_known);
                    damaged_since += u32::from(!is_known);
                    if !is_known {
                        damaged_at = damaged_at.or(Some(start));
                        continue;
                    }
                }
            }
            map.damaged += core::mem::take(&mut damaged_since);
            map.damaged_at = damaged_at;
            map.intact_bytes = end;
        }
        Ok(map)
    }

    /// Returns the intact lines of a file, of any kind, behind a new head of this stream.
    pub(crate) fn whole_lines(bytes: &[u8], description: &Description) -> String {
        let lines =
            bytes.split_inclusive(|&byte| byte == b'\n').filter_map(|line| core::str::from_utf8(line).ok());
        let whole = lines.filter(|line| line.strip_suffix('\n').is_some_and(Line::is_whole));
        let own = whole.filter(|line| !line.starts_with("{\"line\":\"head\""));
        core::iter::once(Line::head_of(description).encode()).chain(own.map(str::to_owned)).collect()
    }

    /// Returns the stream and epoch of the gap map if they are not those of `description`.
    pub(crate) fn stranger(&self, description: &Description) -> Option<String> {
        let Owner { stream, epoch } = self.owner.as_ref()?;
        let is_ours = *stream == *description.name.as_str() && *epoch == description.epoch.to_string();
        (!is_ours).then(|| format!("stream {stream} in epoch {epoch}"))
    }
}

/// Returns an object, still open, as a line that ends with its checksum.
pub(crate) fn sealed(content: &str) -> String {
    format!("{content}{CRC_MARK}{:08x}{LINE_END}\n", crc32c([content.as_bytes()]))
}

/// Rejects an intact first line of another format; a torn one was never acknowledged, and one with a wrong checksum
/// is damaged.
fn check_head(line: Option<&str>, is_whole: bool, bytes: &[u8]) -> Result<(), GapMapError> {
    let Some(line) = line else { return Ok(()) };
    let others = || {
        let lines = bytes.split(|&byte| byte == b'\n').skip(1);
        lines.filter_map(|line| core::str::from_utf8(line).ok()).any(Line::is_whole)
    };
    if !is_whole && !Line::is_whole(line) && (line.contains(CRC_MARK) || others()) {
        return Ok(());
    }
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
    use ledger::{HopShare, Outcome};

    fn gap(id: u64) -> GapRecord {
        let mut lost = StageCounts::of(Stage::Injected, 4);
        lost[Stage::ReceiverSocketBuffer] = u64::MAX / 2;
        GapRecord {
            key: GapKey { session: 1, origin: Origin::Reader, id },
            kind: GapKind::Missing,
            positions: 10..20,
            numbers: 3..5,
            lost,
            inherited: HopCounts::default(),
            unexplained: 1,
            unsettled: 2,
            apportioned: true,
            t0: WallTime::from_nanos(i64::MIN),
            t1: None,
            evidence: vec!["SO_RXQ_OVFL rose by 3, \"quoted\",\"crc32c\":\"\n".into()],
        }
    }

    fn head(owner: Option<Owner>) -> Line {
        Line::Head(Head { format: FORMAT.to_owned(), version: VERSION, owner })
    }

    fn lines() -> Vec<Line> {
        let session = Session { number: 1, first_index: 7, reader: "recorder".into() };
        let trim = Trim { file: "segment-000001.arrows".into(), kept_bytes: 100, cut_bytes: 5 };
        vec![
            head(Some(Owner { stream: "lab/probe".into(), epoch: "1-2".into() })),
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
    fn losses_before_a_relay_keep_their_hops_and_contradictions_are_refused() {
        let share = |hop, stage, count| HopShare { hop, outcome: Outcome::Lost(stage), count };
        let inherited = [share(0, Stage::ReaderLag, 3), share(1, Stage::Deadline, 1)].into_iter().collect();
        let lost = StageCounts::of(Stage::Source, 4);
        let record = GapRecord { lost, inherited, unexplained: 6, unsettled: 0, ..gap(0) };
        let line = Line::Gap(Box::new(record.clone()));
        assert_eq!(Line::decode(line.encode().strip_suffix('\n').unwrap()), Some(line));
        let mut value = json!(record);
        assert_eq!(value["hops"][1]["lost"]["deadline"], 1);
        let read = |value: &Value| GapRecord::deserialize(value).map(|gap| gap.inherited);
        value["hops"][1]["lost"] = json!({"of_a_later_version": 1});
        let expected: HopCounts =
            [share(0, Stage::ReaderLag, 3), share(0, Stage::Source, 1)].into_iter().collect();
        assert_eq!(read(&value).unwrap(), expected, "where it was is not known to this version");
        value["hops"][1]["lost"] = json!({"deadline": 2});
        assert!(read(&value).is_err(), "more than were lost at stage `source`");
        value["hops"][1]["hop"] = json!(9);
        assert!(read(&value).is_err());
        value.as_object_mut().unwrap().remove("hops");
        assert!(read(&value).unwrap().is_empty(), "a file from before");
    }

    #[test]
    fn lines_are_written_byte_for_byte_as_ever() {
        let mended = Mended { file: "account.json".into(), kept_as: None, cause: "torn".into() };
        let absent = GapRecord {
            key: GapKey { session: 2, origin: Origin::Archive, id: 7 },
            kind: GapKind::PublisherAbsent,
            t1: Some(WallTime::from_nanos(-1)),
            lost: StageCounts::default(),
            unsettled: 0,
            evidence: Vec::new(),
            ..gap(0)
        };
        let added = [head(None), Line::Mended(mended), Line::Gap(Box::new(absent))];
        let content = |line: &Line| line.encode().split_once(CRC_MARK).unwrap().0.to_owned();
        let written: Vec<String> = lines().iter().chain(&added).map(content).collect();
        let expected = [
            r#"{"line":"head","epoch":"1-2","format":"tallycast-gaps","stream":"lab/probe","version":1"#,
            r#"{"line":"session","first_index":7,"reader":"recorder","session":1"#,
            r#"{"line":"gap","apportioned":true,"elements":10,"evidence":["SO_RXQ_OVFL rose by 3, \"quoted\",\"crc32c\":\"\n"],"first_element":10,"from_ns":-9223372036854775808,"id":0,"kind":"missing","lost":{"injected":4,"receiver_socket_buffer":9223372036854775807},"numbers":[3,5],"origin":"reader","session":1,"settled":false,"to_ns":null,"unexplained":1,"unsettled":2"#,
            r#"{"line":"gap","apportioned":true,"elements":10,"evidence":["SO_RXQ_OVFL rose by 3, \"quoted\",\"crc32c\":\"\n"],"first_element":10,"from_ns":-9223372036854775808,"id":1,"kind":"missing","lost":{"injected":4,"receiver_socket_buffer":9223372036854775807},"numbers":[3,5],"origin":"reader","session":1,"settled":false,"to_ns":null,"unexplained":1,"unsettled":2"#,
            r#"{"line":"trim","cut_bytes":5,"file":"segment-000001.arrows","kept_bytes":100"#,
            r#"{"line":"head","format":"tallycast-gaps","version":1"#,
            r#"{"line":"mended","cause":"torn","file":"account.json","kept_as":null"#,
            r#"{"line":"gap","apportioned":true,"elements":10,"evidence":[],"first_element":10,"from_ns":-9223372036854775808,"id":7,"kind":"publisher_absent","lost":{},"numbers":[3,5],"origin":"archive","session":2,"settled":true,"to_ns":-1,"unexplained":1,"unsettled":0"#,
        ];
        assert_eq!(written, expected);
    }

    #[test]
    fn a_line_of_a_later_version_may_have_more_members_and_one_without_a_member_is_damaged() {
        let known = Line::Gap(Box::new(gap(0))).encode();
        let (content, _) = known.rsplit_once(CRC_MARK).unwrap();
        let read = |content: &str| {
            Line::decode(&format!("{content}{CRC_MARK}{:08x}{LINE_END}", crc32c([content.as_bytes()])))
        };
        assert_eq!(read(&format!("{content},\"colour\":[1]")), Some(Line::Gap(Box::new(gap(0)))));
        let value: Value = serde_json::from_str(&known).unwrap();
        for member in value
            .as_object()
            .unwrap()
            .keys()
            .filter(|member| !["settled", "crc32c"].contains(&member.as_str()))
        {
            let mut value = value.clone();
            drop(value.as_object_mut().unwrap().remove(member));
            drop(value.as_object_mut().unwrap().remove("crc32c"));
            assert_eq!(read(value.to_string().strip_suffix('}').unwrap()), None, "{member}");
        }
        for (good, bad) in [
            ("\"elements\":10", "\"elements\":18446744073709551615"),
            ("\"id\":0", "\"id\":-1"),
            ("[3,5]", "[3]"),
        ] {
            assert!(content.contains(good));
            assert_eq!(read(&content.replace(good, bad)), None, "{bad}");
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
    fn a_stage_of_a_later_version_costs_its_name_only() {
        let known = Line::Gap(Box::new(gap(0))).encode();
        let (content, _) = known.rsplit_once(CRC_MARK).unwrap();
        let content = content.replace("\"injected\":4", "\"receiver_tunnel\":4");
        assert!(content.contains("receiver_tunnel"));
        let later = format!("{content}{CRC_MARK}{:08x}{LINE_END}\n", crc32c([content.as_bytes()]));
        let text = head(None).encode() + &later + &Line::Gap(Box::new(gap(1))).encode();
        let map = GapMap::decode(text.as_bytes()).unwrap();
        assert_eq!((map.gaps.len(), map.damaged, map.spoiled), (2, 0, 0));
        let found = &map.gaps[&gap(0).key];
        assert_eq!((found.lost[Stage::Injected], found.unexplained), (0, 1 + 4));
        assert_eq!(found.lost[Stage::ReceiverSocketBuffer], u64::MAX / 2, "the other stage is as it was");
        assert!(found.evidence.last().unwrap().contains("4 elements lost in receiver_tunnel"), "{found:?}");
    }

    #[test]
    fn a_gap_of_a_kind_or_an_origin_of_a_later_version_is_passed_over_and_no_damage() {
        let known = Line::Gap(Box::new(gap(0))).encode();
        let (content, _) = known.rsplit_once(CRC_MARK).unwrap();
        for (now, later) in [("\"missing\"", "\"postponed\""), ("\"reader\"", "\"relay\"")] {
            assert!(content.contains(now));
            let content = content.replace(now, later);
            let later = format!("{content}{CRC_MARK}{:08x}{LINE_END}\n", crc32c([content.as_bytes()]));
            let text = head(None).encode() + &later + &Line::Gap(Box::new(gap(1))).encode();
            let map = GapMap::decode(text.as_bytes()).unwrap();
            assert_eq!((map.gaps.len(), map.damaged, map.spoiled), (1, 0, 0));
        }
    }

    #[test]
    fn foreign_and_later_maps_are_refused() {
        assert_eq!(GapMap::decode(b"{\"a\":1}\n"), Err(GapMapError::Foreign));
        assert_eq!(GapMap::decode(b"index,time\n"), Err(GapMapError::Foreign));
        let later = b"{\"format\":\"tallycast-gaps\",\"version\":2}\n";
        assert_eq!(GapMap::decode(later), Err(GapMapError::Version(2)));
    }
}
