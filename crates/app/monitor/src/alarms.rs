//! Newest state of every alarm on the bus, and who acknowledged it.
//!
//! The states are the last events of streams with the label `node` = `alarm`, so that a page has them when it opens.
//! Acknowledgements are in a file, since they outlive the monitor. Start with [`Alarms`].

mod file;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sample::Block;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use units::{SampleRate, WallTime};

use crate::history::History;
use crate::memory::Health;
use crate::shared::Shared;
pub use file::AlarmsError;
use file::Kept;

/// The most alarms whose state is kept: sixteen on each of 256 nodes.
const MAX_ALARMS: usize = 4_096;
/// Longest reason of an acknowledgement.
pub(crate) const MAX_REASON_BYTES: usize = 500;
/// Channels of an event, as `graph::Alarm` publishes them.
const EVENT_CHANNELS: [&str; 9] =
    ["channel", "state", "side", "previous", "value", "index", "since", "epoch_s", "epoch_ns"];
/// State of a value that is missing.
const UNKNOWN: u8 = 3;
/// Interval at which ended acknowledgements are written.
const KEEP_INTERVAL: Duration = Duration::from_millis(250);

/// A list for pages is made again after this time: a node may give no sign any more, which is no event.
const LIST_AGE: Duration = Duration::from_millis(250);

/// Newest state of every alarm.
#[derive(Debug)]
pub(crate) struct Alarms {
    board: Mutex<Board>,
    /// Wakes the pages' connections.
    changed: watch::Sender<()>,
    listed: Mutex<Option<Listed>>,
    path: Option<PathBuf>,
    /// Held while the file is written, so that an older content never replaces a newer one.
    writing: Mutex<()>,
    /// True once acknowledgements ended that are still in the file.
    is_stale: AtomicBool,
}

/// The list that was made last, for all pages.
#[derive(Debug)]
struct Listed {
    news: u64,
    at: Instant,
    alarms: Arc<[Alarm]>,
}

#[derive(Debug, Default)]
struct Board {
    rows: BTreeMap<Key, Row>,
    acknowledged: BTreeMap<Key, Acknowledged>,
    /// Acknowledgements ever made.
    count: u64,
    /// Number of the newest change of any alarm.
    changes: u64,
    /// Rises with everything that is listed.
    news: u64,
}

/// Alarm stream, and number of the channel in its input.
type Key = (String, u32);

#[derive(Clone, Copy, Debug)]
struct Row {
    event: AlarmEvent,
    /// Names this state.
    change: u64,
    /// Event that began the state.
    began: AlarmEvent,
}

/// An event of an alarm.
#[derive(Clone, Copy, PartialEq, Debug)]
struct AlarmEvent {
    channel: u32,
    state: u8,
    side: i8,
    value: f64,
    index: u64,
    since: u64,
    epoch: [u64; 2],
    time: WallTime,
}

/// Acknowledgement of a state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Acknowledged {
    /// Its state, which the acknowledgement ends with.
    pub(crate) state: u8,
    pub(crate) side: i8,
    /// Principal.
    pub(crate) by: String,
    pub(crate) at_ns: i64,
    pub(crate) reason: String,
}

/// An alarm as pages get it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Alarm {
    pub(crate) stream: String,
    pub(crate) channel: u32,
    /// Watched channel, as `stream:channel`.
    pub(crate) input: String,
    pub(crate) unit: String,
    /// 0 ok, 1 warning, 2 alarm, 3 unknown.
    pub(crate) state: u8,
    pub(crate) side: i8,
    /// Value that decided the state, `null` if it is missing.
    pub(crate) value: Option<f64>,
    /// Limit that is reached, if one is.
    pub(crate) limit: Option<f64>,
    /// Time of the first sample of the state.
    pub(crate) since_ns: i64,
    pub(crate) change: u64,
    pub(crate) acknowledged: Option<Acknowledged>,
}

/// A visitor's word that it has seen a state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    pub(crate) stream: &'a str,
    pub(crate) channel: u32,
    /// Number of the state.
    pub(crate) change: u64,
    /// Principal.
    pub(crate) by: &'a str,
    pub(crate) at: WallTime,
    pub(crate) reason: &'a str,
}

/// Reason why an alarm is not acknowledged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("no such alarm is known\nGET /api/alarms lists those that are")]
    Unknown,
    #[error("the state has changed since it was seen\nlook at the new state, and acknowledge that")]
    Changed,
    #[error(
        "the state is ok: nothing is to be acknowledged\nacknowledge a warning, an alarm or an unknown state"
    )]
    Ok,
    #[error("the acknowledgement cannot be kept: {0}\nfree some space, or repair the folder, and try again")]
    Disk(AlarmsError),
}

impl Alarms {
    /// Reads the acknowledgements in `path`; a file that cannot be read is set aside, and all alarms are unacknowledged.
    ///
    /// # Errors
    /// [`AlarmsError`] if such a file cannot be set aside: the next acknowledgement would replace it.
    pub(crate) fn open(path: Option<PathBuf>) -> Result<Self, AlarmsError> {
        let kept = path.as_deref().map(Kept::restore).transpose()?.unwrap_or_default();
        let board = Board { acknowledged: kept.acknowledged(), count: kept.count, ..Board::default() };
        let (board, writing, listed) = (Mutex::new(board), Mutex::default(), Mutex::default());
        let changed = watch::Sender::new(());
        Ok(Self { board, changed, listed, path, writing, is_stale: AtomicBool::new(false) })
    }

    /// Takes the events in a block; of other streams than alarms it takes nothing.
    pub(crate) fn block(&self, block: &Block) {
        if block.schema.labels.get("node").is_none_or(|node| node != "alarm") || !has_events(block) {
            return;
        }
        let Ok(values) = block.elements::<f64>() else { return };
        let mut board = self.board();
        let before = board.news;
        for (sample, row) in (0..).zip(values.chunks_exact(EVENT_CHANNELS.len())) {
            let position = sample * EVENT_CHANNELS.len() as u64;
            let is_whole =
                (position..position + EVENT_CHANNELS.len() as u64).all(|at| !block.missing.contains(at));
            let time = block.time_of(block.first_index + sample);
            if let Some(event) = AlarmEvent::of(row, time).filter(|_| is_whole)
                && board.take(block.stream.as_str(), event)
            {
                self.is_stale.store(true, Ordering::Release);
            }
        }
        if board.news != before {
            self.changed.send_replace(());
        }
    }

    /// Returns what wakes a connection when an alarm or an acknowledgement has changed.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Returns all alarms as of a moment ago, one list for all pages.
    pub(crate) fn newest(&self, history: &History) -> Arc<[Alarm]> {
        // The number first: what changes behind it makes another list.
        let news = self.board().news;
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listed) = listed.as_ref().filter(|it| it.news == news && it.at.elapsed() < LIST_AGE) {
            return Arc::clone(&listed.alarms);
        }
        let alarms: Arc<[Alarm]> = self.list(history, |_| true).into();
        *listed = Some(Listed { news, at: Instant::now(), alarms: Arc::clone(&alarms) });
        alarms
    }

    /// Returns the alarms of streams that `reads` allows, worst first, then newest first.
    pub(crate) fn list(&self, history: &History, reads: impl Fn(&str) -> bool) -> Vec<Alarm> {
        let board = self.board();
        let rows: Vec<_> = board
            .rows
            .iter()
            .filter(|((stream, _), _)| reads(stream))
            .map(|(key, row)| (key.clone(), *row, board.acknowledged.get(key).cloned()))
            .collect();
        drop(board);
        let alarms =
            rows.into_iter().filter_map(|(key, row, acknowledged)| alarm(history, key, row, acknowledged));
        let mut alarms: Vec<_> = alarms.collect();
        alarms.sort_by_key(|alarm| (core::cmp::Reverse(severity(alarm.state)), -alarm.since_ns));
        alarms
    }

    /// Acknowledges the state with this number. It is in the file once this returns.
    pub(crate) fn acknowledge(&self, history: &History, word: Word<'_>) -> Result<(), Refusal> {
        let Word { stream, channel, change, by, at, reason } = word;
        let key = (stream.to_owned(), channel);
        let mut board = self.board();
        let row = *board.rows.get(&key).ok_or(Refusal::Unknown)?;
        let (state, side) = row.state(history, stream).ok_or(Refusal::Unknown)?;
        if row.change != change {
            return Err(Refusal::Changed);
        }
        if state == 0 {
            return Err(Refusal::Ok);
        }
        let (by, reason) = (by.to_owned(), reason.to_owned());
        let acknowledged = Acknowledged { state, side, by, at_ns: at.as_nanos(), reason };
        let before = board.acknowledged.insert(key.clone(), acknowledged);
        board.count += 1;
        board.news += 1;
        drop(board);
        let written = self.write().map_err(|error| {
            // What is not kept is not acknowledged.
            let mut board = self.board();
            board.count -= 1;
            board.news += 1;
            match before {
                Some(before) => board.acknowledged.insert(key, before),
                None => board.acknowledged.remove(&key),
            };
            Refusal::Disk(error)
        });
        // Pages are told of what is kept.
        self.changed.send_replace(());
        written
    }

    /// Returns how many acknowledgements were ever made.
    pub(crate) fn acknowledgements(&self) -> u64 {
        self.board().count
    }

    /// Writes the file if acknowledgements have ended.
    fn write_if_stale(&self) {
        if !self.is_stale.swap(false, Ordering::AcqRel) {
            return;
        }
        if let Err(error) = self.write() {
            self.is_stale.store(true, Ordering::Release);
            tracing::warn!("{error}");
        }
    }

    fn write(&self) -> Result<(), AlarmsError> {
        let Some(path) = &self.path else { return Ok(()) };
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = {
            let board = self.board();
            Kept::of(board.count, &board.acknowledged)
        };
        kept.write(path)
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        // A reader that panicked has not modified it: it is still consistent.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Board {
    /// Takes an event; returns whether an acknowledgement has ended.
    ///
    /// An acknowledgement lasts as long as no other state than unknown comes, so that neither a hole nor a restart of the
    /// monitor makes an alarm a new one.
    fn take(&mut self, stream: &str, event: AlarmEvent) -> bool {
        let key = (stream.to_owned(), event.channel);
        let is_new = !self.rows.contains_key(&key);
        if is_new && self.rows.len() >= MAX_ALARMS {
            return false;
        }
        self.news += 1;
        let same = |row: &Row| (row.began.state, row.began.side) == (event.state, event.side);
        match self.rows.get_mut(&key) {
            Some(row) if same(row) => row.event = event,
            _ => {
                self.changes += 1;
                self.rows.insert(key.clone(), Row { event, change: self.changes, began: event });
            }
        }
        let is_other = |acknowledged: &Acknowledged| {
            (acknowledged.state, acknowledged.side) != (event.state, event.side) && event.state != UNKNOWN
        };
        let has_ended = self.acknowledged.get(&key).is_some_and(is_other);
        if has_ended {
            self.acknowledged.remove(&key);
        }
        has_ended
    }
}

impl Row {
    /// Returns state and side: unknown while the node gives no sign; `None` once it has ended.
    fn state(&self, history: &History, stream: &str) -> Option<(u8, i8)> {
        match history.stream(stream)?.memory().health(crate::clock::now()) {
            Health::Ended => None,
            Health::Stale => Some((UNKNOWN, 0)),
            Health::Ok | Health::Losing => Some((self.event.state, self.event.side)),
        }
    }
}

impl AlarmEvent {
    /// Reads an event; `None` if it is none.
    fn of(row: &[f64], time: WallTime) -> Option<Self> {
        let [channel, state, side, _, value, index, since, epoch_s, epoch_ns] = row.try_into().ok()?;
        let whole =
            |value: f64, most: f64| (value.fract() == 0.0 && (0.0..=most).contains(&value)).then_some(value);
        const MOST: f64 = 9_007_199_254_740_992.0;
        Some(Self {
            channel: whole(channel, 65_535.0)? as u32,
            state: whole(state, 3.0)? as u8,
            side: whole(side + 1.0, 2.0)? as i8 - 1,
            value,
            index: whole(index, MOST)? as u64,
            since: whole(since, MOST)? as u64,
            epoch: [whole(epoch_s, MOST)? as u64, whole(epoch_ns, 1e9)? as u64],
            time,
        })
    }
}

/// Returns how urgent a state is: unknown is between warning and alarm.
const fn severity(state: u8) -> u8 {
    match state {
        0 => 0,
        1 => 1,
        UNKNOWN => 2,
        _ => 3,
    }
}

fn has_events(block: &Block) -> bool {
    let channels = &block.schema.channels;
    channels.len() == EVENT_CHANNELS.len()
        && channels
            .iter()
            .zip(EVENT_CHANNELS)
            .all(|(channel, name)| channel.name == name && channel.shape.is_empty())
}

/// Returns an alarm with what its stream tells of it; `None` once it has ended or is forgotten, or has no such channel.
fn alarm(history: &History, key: Key, row: Row, acknowledged: Option<Acknowledged>) -> Option<Alarm> {
    let (stream, channel) = key;
    let slot = history.stream(&stream)?;
    let (state, side) = row.state(history, &stream)?;
    let (labels, unit) = {
        let memory = slot.memory();
        let schema = &memory.info.schema;
        let unit = schema.channels.iter().find(|channel| channel.name == "value")?.unit.clone();
        (schema.labels.clone(), unit)
    };
    let input = labels.get(&format!("input.{channel}"))?.clone();
    let rate = input.rsplit_once(':').and_then(|(input, _)| rate_of(history, input));
    let limit = match (state, side) {
        (1, -1) => Some("low_warning"),
        (2, -1) => Some("low_alarm"),
        (1, 1) => Some("high_warning"),
        (2, 1) => Some("high_alarm"),
        _ => None,
    };
    let limit = limit.and_then(|limit| labels.get(limit)?.parse().ok());
    let is_of_state = |it: &Acknowledged| (it.state, it.side) == (state, side);
    Some(Alarm {
        stream,
        channel,
        input,
        unit,
        state,
        side,
        value: Some(row.event.value).filter(|value| value.is_finite()),
        limit,
        since_ns: row.began.began_at(rate).as_nanos(),
        change: row.change,
        acknowledged: acknowledged.filter(is_of_state),
    })
}

/// Returns the rate of a stream whose times follow from it.
fn rate_of(history: &History, stream: &str) -> Option<SampleRate> {
    let slot = history.stream(stream)?;
    let memory = slot.memory();
    (!memory.info.schema.has_own_times()).then_some(memory.info.schema.rate)
}

impl AlarmEvent {
    /// Returns the time of the first sample of its state: by the input's rate, else that of the event.
    fn began_at(&self, rate: Option<SampleRate>) -> WallTime {
        let held =
            rate.map_or(Duration::ZERO, |rate| rate.duration_of(self.index.saturating_sub(self.since)));
        self.time.offset(-i64::try_from(held.as_nanos()).unwrap_or(0))
    }
}

/// Writes ended acknowledgements until `stopped`, and then once more.
pub(crate) async fn keep(shared: Arc<Shared>, stopped: impl Future<Output = ()>) {
    let keeping = async {
        loop {
            tokio::time::sleep(KEEP_INTERVAL).await;
            let kept = Arc::clone(&shared);
            drop(tokio::task::spawn_blocking(move || kept.alarms.write_if_stale()).await);
        }
    };
    tokio::select! {
        () = stopped => {}
        () = keeping => {}
    }
    shared.alarms.write_if_stale();
}

#[cfg(test)]
mod tests;
