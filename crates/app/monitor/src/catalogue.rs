//! The list of streams for pages and programs.
//!
//! All viewers share one list, made at most twice a second for any number of them. Start with
//! [`Catalogue::streams`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sample::ColumnGrid;
use serde::Serialize;
use tallycast::Level;
use units::{SampleRate, WallTime};

use crate::admission::Visitor;
use crate::clock::{self, Moment};
use crate::history::{History, StreamSlot};
use crate::memory::StreamMemory;
use crate::nodes::NODE_LABEL;

/// Maximum age of the shared list.
const LIST_AGE: Duration = Duration::from_millis(450);
/// The most parts of a list that are kept: more groups of visitors are served too, each with a part of its own.
const MAX_PARTS: usize = 64;
const SECOND_NS: u64 = 1_000_000_000;
const SPARK_SECONDS: u32 = 60;
/// Labels that mark a derived stream and its computation.
const DERIVED_LABELS: [&str; 3] = [NODE_LABEL, "expression", "operator"];

/// The shared list.
pub(crate) struct Catalogue {
    level: Level,
    latest: Mutex<Option<(Instant, Listed)>>,
}

/// The list at one moment: as a whole, and stream by stream for visitors that may not read all.
#[derive(Clone)]
struct Listed {
    whole: Arc<str>,
    each: Arc<[(String, String)]>,
    /// Parts for visitors with equal rights, of which each is made once.
    parts: Arc<Mutex<Vec<Part>>>,
}

/// The part of a list for one visitor, and for those with equal rights.
type Part = (Visitor, Arc<str>);

impl Catalogue {
    /// All streams of a monitor have the `level` of its bus.
    pub(crate) fn new(level: Level) -> Self {
        Self { level, latest: Mutex::default() }
    }

    /// Returns the list of the streams that a visitor may read as a JSON array, at most half a second old.
    pub(crate) fn streams(&self, history: &History, visitor: &Visitor) -> Arc<str> {
        let listed = self.listed(history);
        if visitor.reads_all() {
            return listed.whole;
        }
        listed.part(visitor)
    }

    fn listed(&self, history: &History) -> Listed {
        let now = clock::now();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |made: &Instant| now.steady.saturating_duration_since(*made) < LIST_AGE;
        if let Some((_, list)) = latest.as_ref().filter(|(made, _)| fresh(made)) {
            return list.clone();
        }
        let each = history.streams().into_iter().map(|slot| {
            let stream = describe(&slot, self.level, now);
            let json = serde_json::to_string(&stream).expect("plain numbers and text");
            (stream.stream, json)
        });
        let each: Arc<[_]> = each.collect();
        let whole = array(each.iter().map(|(_, json)| json.as_str())).into();
        let list = Listed { whole, each, parts: Arc::default() };
        *latest = Some((now.steady, list.clone()));
        list
    }
}

impl Listed {
    /// Returns the part that a visitor may read. Its rules are asked once per list for all pages of a visitor.
    fn part(&self, visitor: &Visitor) -> Arc<str> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, part)) = parts.iter().find(|(of, _)| of.is_like(visitor)) {
            return Arc::clone(part);
        }
        let readable = self.each.iter().filter(|(name, _)| visitor.reads(name));
        let part: Arc<str> = array(readable.map(|(_, json)| json.as_str())).into();
        if parts.len() < MAX_PARTS {
            parts.push((visitor.clone(), Arc::clone(&part)));
        }
        part
    }
}

/// Returns a JSON array of values in JSON.
fn array<'j>(values: impl Iterator<Item = &'j str>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(","))
}

#[derive(Serialize)]
struct StreamJson {
    stream: String,
    epoch: String,
    state: &'static str,
    dtype: &'static str,
    rate: SampleRate,
    elements_per_sample: u32,
    station: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stations: Vec<String>,
    level: &'static str,
    labels: BTreeMap<String, String>,
    derived: bool,
    channels: Vec<ChannelJson>,
    first_index: u64,
    next_index: u64,
    newest_ns: Option<i64>,
    age_ns: i64,
    samples_per_s: f64,
    lost_elements: u64,
    lost_last_hour_elements: u64,
    unsettled_elements: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    unauthentic_datagrams: Option<u64>,
    health: &'static str,
    spark: Vec<Option<[f64; 2]>>,
}

#[derive(Serialize)]
struct ChannelJson {
    name: String,
    unit: String,
    shape: Vec<u32>,
    elements: usize,
    first_element: usize,
}

fn describe(slot: &StreamSlot, level: Level, now: Moment) -> StreamJson {
    let memory = slot.memory();
    let (info, schema) = (&memory.info, &memory.info.schema);
    let channels = schema.channels.iter().enumerate().map(|(place, channel)| {
        let elements = schema.channel_elements(place);
        ChannelJson {
            name: channel.name.clone(),
            unit: channel.unit.clone(),
            shape: channel.shape.clone(),
            elements: elements.len(),
            first_element: elements.start,
        }
    });
    let rows = memory.account.as_ref().map(|account| account.account.elements).unwrap_or_default();
    let upstream = memory.account.as_ref().map(|account| &account.upstream[..]).unwrap_or_default();
    StreamJson {
        stream: info.name.as_str().to_owned(),
        epoch: info.epoch.to_string(),
        state: memory.state().name(),
        dtype: schema.dtype.name(),
        rate: schema.rate,
        elements_per_sample: schema.elements_per_sample(),
        station: info.station.clone(),
        stations: upstream.iter().map(|hop| hop.station.clone()).collect(),
        level: level.name(),
        labels: schema.labels.clone(),
        derived: DERIVED_LABELS.iter().any(|label| schema.labels.contains_key(*label)),
        channels: channels.collect(),
        first_index: info.first_index,
        next_index: memory.newest().map_or(info.first_index, |(_, next)| next).max(rows.next),
        newest_ns: memory.newest().map(|(time, _)| time.as_nanos()),
        age_ns: i64::try_from(memory.age(now).as_nanos()).unwrap_or(i64::MAX),
        samples_per_s: memory.samples_per_second(now),
        lost_elements: rows.lost.total() + rows.unexplained,
        lost_last_hour_elements: memory.lost_last_hour(now),
        unsettled_elements: rows.unsettled,
        unauthentic_datagrams: Some(slot.unauthentic().total()).filter(|count| *count > 0),
        health: memory.health(now).name(),
        spark: spark(&memory, now),
    }
}

/// Returns the extremes of each of the last seconds of the first element, oldest first.
fn spark(memory: &StreamMemory, now: Moment) -> Vec<Option<[f64; 2]>> {
    let second = SECOND_NS.cast_signed();
    let end = memory.edge(now).as_nanos().div_euclid(second) * second;
    let from = WallTime::from_nanos(end).offset(-second * i64::from(SPARK_SECONDS));
    let grid = ColumnGrid { from, column_ns: SECOND_NS, count: SPARK_SECONDS };
    let columns = memory.envelope(0).map(|envelope| envelope.columns(&grid)).unwrap_or_default();
    // JSON has no infinity either.
    let finite = |column: &sample::Column| column.min.is_finite() && column.max.is_finite();
    columns.iter().map(|column| finite(column).then_some([column.min, column.max])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Gatekeeper, SessionCookie};
    use crate::host_gate::Protection;
    use crate::scene;
    use axum::http::{HeaderMap, Method};
    use tallycast::UnauthenticCounts;

    /// Returns somebody without credentials, as a monitor at this address sees them.
    fn visitor(address: &str) -> Visitor {
        let address = address.parse().unwrap();
        let (gatekeeper, protection) =
            (Gatekeeper::open(None, address).unwrap(), Protection::of(address, false));
        let cookie = SessionCookie::new(address, protection);
        Visitor::of(&gatekeeper, &cookie, &Method::GET, &HeaderMap::new()).ok().unwrap()
    }

    #[test]
    fn a_part_is_kept_for_visitors_with_equal_rights_alone() {
        let history = History::default();
        history.begin(&Arc::new(scene::info("lab/x", 10)), clock::now());
        let listed = Catalogue::new(Level::Group).listed(&history);
        let (all, none) = (visitor("127.0.0.1:0"), visitor("192.0.2.7:0"));
        for _ in 0..2 {
            assert_eq!((listed.part(&none).as_ref(), listed.part(&all)), ("[]", Arc::clone(&listed.whole)));
        }
        assert!(Arc::ptr_eq(&listed.part(&none), &listed.part(&none)));
        assert_eq!(listed.parts.lock().unwrap().len(), 2);
    }

    #[test]
    fn a_stream_is_listed_with_what_was_not_authentic_where_something_was() {
        let history = History::default();
        history.begin(&Arc::new(scene::info("lab/x", 10)), clock::now());
        let listed = || {
            serde_json::from_str::<serde_json::Value>(&Catalogue::new(Level::Group).listed(&history).whole)
                .unwrap()
        };
        assert_eq!(listed()[0].get("unauthentic_datagrams"), None);
        history.unauthentic_is(
            "lab/x",
            UnauthenticCounts { bad_tag: 2, clear: 1, ..UnauthenticCounts::default() },
        );
        assert_eq!(listed()[0]["unauthentic_datagrams"], 3);
    }

    #[test]
    fn a_relayed_stream_is_listed_with_the_stations_before() {
        let history = History::default();
        let info = Arc::new(scene::info("lab/x", 10));
        history.begin(&info, clock::now());
        let listed = || {
            serde_json::from_str::<serde_json::Value>(&Catalogue::new(Level::Group).listed(&history).whole)
                .unwrap()
        };
        assert_eq!(listed()[0].get("stations"), None);
        let hop = |station: &str| tallycast::UpstreamHop {
            station: station.to_owned(),
            lost: ledger::StageCounts::default(),
            unexplained: 0,
        };
        let upstream = vec![hop("daq"), hop("gate")];
        let account = scene::account(&info, tallycast::AccountState::Open);
        history.accounts_are(vec![tallycast::StreamAccount { upstream, ..account }]);
        assert_eq!(listed()[0]["stations"], serde_json::json!(["daq", "gate"]));
    }

    #[test]
    fn a_stream_is_listed_with_its_spark_and_a_null_for_every_silent_second() {
        let history = History::default();
        let info = Arc::new(scene::info("lab/x", 10));
        let now = clock::now();
        history.begin(&info, now);
        let mut block = scene::block(&info, 0, &[1.0, 3.0, 2.0, 2.5]);
        block.t0 = now.wall.offset(-2_000_000_000);
        history.block(&block, now);
        let list: serde_json::Value =
            serde_json::from_str(&Catalogue::new(Level::Group).listed(&history).whole).unwrap();
        let stream = &list[0];
        assert_eq!((stream["stream"].as_str(), stream["health"].as_str()), (Some("lab/x"), Some("ok")));
        assert_eq!(
            (stream["next_index"].as_u64(), stream["channels"][0]["unit"].as_str()),
            (Some(4), Some("V"))
        );
        let spark = stream["spark"].as_array().unwrap();
        assert_eq!(spark.len(), 60);
        assert!(spark[..50].iter().all(serde_json::Value::is_null));
        assert!(spark[55..].iter().any(|bucket| !bucket.is_null()));
    }
}
