//! Runs of an experiment on the bus: events as samples, published by short commands and kept by long processes.
//!
//! A command says an event with [`say`] and ends; monitors and recorders keep it with a [`Keeper`], which says it again to
//! each reader that comes later. Protocol: `docs/protocol/runs.md`.

mod json;
mod keeper;

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::DirBuilderExt;
use std::time::Duration;

pub use ::runs::{
    Counts, EVENT_BYTES, End, Event, EventError, FindError, InvalidRunId, LabelError, Labels,
    MAX_RUN_ID_BYTES, Run, RunChoice, RunChoiceError, RunId, Runs, Stranger, What, parse_label,
};
use sample::{Block, Channel, Dtype, Schema};
use sys::clock;
use units::WallTime;

use crate::node::{Node, NodeError};
use crate::publisher::{PublishError, Publisher};
pub use json::{run_json, stranger_json};
pub use keeper::{Heard, Keeper};

/// Pattern of the streams with events of runs.
pub const PATTERN: &str = "run/**";
/// Prefix of the names of these streams.
pub const STREAM_PREFIX: &str = "run/";
/// Label of these streams, with the version of their samples.
pub const FORMAT_LABEL: &str = "runs";
/// The only version so far.
const FORMAT: &str = "1";

/// Time for which a command goes on once it has a reader, so that others of this bus join as well: the time in which
/// publishers hold their first samples for readers that wait.
const FOR_OTHERS: Duration = Duration::from_millis(500);
/// Interval at which a command looks for readers that came: their arrival wakes no publisher.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Reason why an event could not be said, or heard.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The event has no room in a sample, or an invalid label.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The stream could not be opened.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The sample could not be published.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The system gave no random number.
    #[error("the system gave no random number: {0}")]
    Random(getrandom::Error),
}

/// Returns an event of this moment and this station, with a number of its own.
///
/// # Errors
/// [`RunError::Random`] if the system gives no random number.
pub fn event(node: &Node, id: RunId, what: What) -> Result<Event, RunError> {
    Ok(Event {
        number: getrandom::u64().map_err(RunError::Random)?,
        id,
        what,
        time: clock::wall(),
        host: node.station().to_owned(),
        by: user(),
        labels: Labels::new(),
        started: None,
    })
}

/// Publishes an event, and waits at most `patience` for a reader; returns the number of readers that had it.
///
/// The same event is published again to each reader that comes meanwhile.
///
/// # Errors
/// [`RunError`] if the event is not valid, or the stream cannot be opened.
pub fn say(node: &Node, event: &Event, patience: Duration) -> Result<usize, RunError> {
    let bytes = event.to_bytes()?;
    // Two publishers of one name and host would displace each other.
    let _lock = own_lock();
    let mut speaker = Speaker::open(node, &stream_name(node))?;
    speaker.say(&bytes)?;
    let mut until = clock::monotonic() + patience;
    let (mut readers, mut is_heard) = (0, false);
    while clock::monotonic() < until {
        let count = speaker.publisher.reader_count();
        if count > readers {
            speaker.say(&bytes)?;
            if !is_heard {
                until = clock::monotonic() + FOR_OTHERS;
            }
            is_heard = true;
        }
        readers = count;
        std::thread::sleep(POLL_INTERVAL);
    }
    readers = readers.max(speaker.publisher.reader_count());
    let _totals = speaker.publisher.close();
    Ok(readers)
}

/// Listens to the events of the bus, until `is_enough` or at most for `patience`.
///
/// # Errors
/// [`RunError::Node`] if the bus cannot be read.
pub fn hear(
    node: &Node,
    patience: Duration,
    mut is_enough: impl FnMut(&Runs) -> bool,
) -> Result<Heard, RunError> {
    let mut subscriber = node.subscriber(PATTERN).reader("runs").open()?;
    let mut heard = Heard::default();
    let until = clock::monotonic() + patience;
    while clock::monotonic() < until && !is_enough(&heard.runs) {
        if let Some(crate::Event::Block(block)) = subscriber.next(until.since(clock::monotonic())) {
            heard.take(&block);
        }
    }
    Ok(heard)
}

/// Returns the events of a block; none if its stream is no stream of runs.
///
/// A sample of which a part is missing is left out: the account of the stream counts it.
pub fn events_in(block: &Block) -> impl Iterator<Item = Result<Event, EventError>> {
    let is_ours = block.schema.labels.get(FORMAT_LABEL).is_some_and(|it| it == FORMAT)
        && block.stream.as_str().starts_with(STREAM_PREFIX)
        && block.schema.sample_bytes() == EVENT_BYTES;
    let bytes = if is_ours { block.data.as_bytes() } else { &[] };
    let is_whole = |place: u64| {
        let sample = place * EVENT_BYTES as u64..(place + 1) * EVENT_BYTES as u64;
        block.missing.iter().all(|missing| missing.end <= sample.start || missing.start >= sample.end)
    };
    let samples = bytes.chunks(EVENT_BYTES).zip(0_u64..);
    samples.filter(move |(_, place)| is_whole(*place)).map(|(sample, _)| Event::from_bytes(sample))
}

/// A publisher of events.
struct Speaker {
    publisher: Publisher,
    last: WallTime,
}

impl Speaker {
    fn open(node: &Node, name: &str) -> Result<Self, RunError> {
        let schema = schema();
        let publisher = node.publisher(name).schema(&schema).linger(Duration::ZERO).open()?;
        Ok(Self { publisher, last: WallTime::from_nanos(i64::MIN) })
    }

    /// Publishes an event at this moment, which is not before that of the last one: the event has a time of its own.
    fn say(&mut self, bytes: &[u8; EVENT_BYTES]) -> Result<(), RunError> {
        self.last = clock::wall().max(self.last);
        Ok(self.publisher.send_bytes_at(self.last, bytes)?)
    }
}

fn schema() -> Schema {
    let channel = Channel::new("event", "").with_shape([EVENT_BYTES as u32]);
    let rate = units::SampleRate::hz(1).expect("one a second is a rate");
    let mut schema = Schema::new(Dtype::U8, rate, vec![channel]).expect("one channel of a thousand bytes");
    let labels = [(FORMAT_LABEL, FORMAT), (sample::TIMES_LABEL, sample::OWN_TIMES)];
    schema.labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    schema
}

/// Returns the name of the stream of this station's commands: `run/daq-3`.
fn stream_name(node: &Node) -> String {
    let plain = |letter: char| if letter.is_alphanumeric() || "_-.".contains(letter) { letter } else { '-' };
    let station: String = node.station().chars().map(plain).collect();
    format!("{STREAM_PREFIX}{station}")
}

/// Returns the name of the user, as the environment has it.
fn user() -> String {
    let name = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    name.unwrap_or_else(|_| "unknown".to_owned())
}

/// Waits until no other command of this user says an event on this host. Without a folder for the lock it is not waited.
fn own_lock() -> Option<File> {
    let folder = sys::folders::state()?.join("tallycast");
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("runs.lock")).ok()?;
    file.lock().ok().map(|()| file)
}

#[cfg(test)]
mod tests;
