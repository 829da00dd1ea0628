//! A recording continues seamlessly behind live memory, and outlives the publisher.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

use archive::{Archive, FileStore, Options, Piece, Recorder};
use monitor::{MonitorConfig, MonitorHandle};
use serde_json::Value;
use support::wait_until;
use tallycast::{AccountState, Bus, Event, WallTime};
use units::Instant;
use wire::{GapCause, TraceShape, TraceState};

use crate::scene::{Feed, Page, bus, get, listed, node, start};

/// Records everything on a bus until dropped.
struct Recording {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Time of the first recorded sample, and of the first missing one.
    first: Arc<(OnceLock<WallTime>, OnceLock<WallTime>)>,
}

impl Recording {
    fn start(bus: &Bus, root: &Path) -> Self {
        let mut subscriber = node(bus).subscriber("**").reader("recorder").open().unwrap();
        let store = Arc::new(FileStore::create(root).unwrap());
        let run = "test".parse().unwrap();
        let mut recorder = Recorder::open(store, run, Options::default(), Instant::ORIGIN).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (told, first) = (Arc::clone(&stop), Arc::new((OnceLock::new(), OnceLock::new())));
        let (began, noted) = (Clock::now(), Arc::clone(&first));
        let thread = std::thread::spawn(move || {
            let now = || Instant::ORIGIN + began.elapsed();
            let mut ended = false;
            while !(ended && told.load(Ordering::Relaxed)) {
                if let Some(event) = subscriber.next(Duration::from_millis(50)) {
                    match &event {
                        Event::Block(block) => _ = noted.0.get_or_init(|| block.t0),
                        Event::Gap(gap) => _ = noted.1.get_or_init(|| gap.t0),
                        Event::Began(_) | Event::Settled(_) | Event::Statement(_) | Event::Ended(_) => {}
                    }
                    recorder.handle(now(), &event).unwrap();
                    // Gap events may follow its end; and silence is not an end.
                    ended |=
                        matches!(&event, Event::Ended(it) if it.account.state != AccountState::Unconfirmed);
                }
                recorder.tick(now());
            }
            recorder.close(now()).unwrap();
        });
        Self { stop, thread: Some(thread), first }
    }

    /// Waits for the first sample that is recorded; returns its time.
    fn first_ns(&self) -> i64 {
        wait_until("the first recorded sample", || self.first.0.get().map(|time| time.as_nanos()))
    }

    /// Waits for the first gap that is recorded; returns its time.
    fn first_gap_ns(&self) -> i64 {
        wait_until("the first recorded gap", || self.first.1.get().map(|time| time.as_nanos()))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn monitor_of(bus: &Bus, root: &Path) -> MonitorHandle {
    start(MonitorConfig::new(node(bus)).archive(root))
}

fn range(monitor: &MonitorHandle, from: i64, to: i64) -> Value {
    get(monitor.address(), &format!("/api/range?stream=lab/x&channel=x&points=100&from={from}&to={to}"))
        .json()
}

#[test]
fn live_memory_joins_what_was_recorded_without_a_seam() {
    let (bus, root) = (bus(), tempfile::tempdir().unwrap());
    let recording = Recording::start(&bus, root.path());
    let first = monitor_of(&bus, root.path());
    let feed = Feed::start(&bus, "lab/x", 0.0, |index| index as f64);
    let from_ns = recording.first_ns();
    listed(first.address(), "lab/x", |stream| stream["newest_ns"].as_i64() > Some(from_ns + 1_000_000_000));
    drop(first);
    let second = monitor_of(&bus, root.path());
    let later = listed(second.address(), "lab/x", |stream| {
        let count = |field: &str| stream[field].as_u64().unwrap();
        count("next_index") > count("first_index") + 1_000
    });
    let to_ns = later["newest_ns"].as_i64().unwrap();
    // The recorder acknowledges shortly after the data have left live memory.
    let whole = wait_until("range without a hole", || {
        let range = range(&second, from_ns, to_ns);
        let whole = range["columns"].as_array()?.iter().all(|column| !column.is_null());
        (whole && range["origin"] == "both").then_some(range)
    });
    let columns = whole["columns"].as_array().unwrap();
    let value = |column: &Value, side: usize| column[side].as_f64().unwrap();
    let grows = columns.windows(2).all(|pair| value(&pair[0], 3) < value(&pair[1], 2));
    assert!(grows, "every column begins behind the one before it");
    let path = format!("/api/export?stream=lab/x&channel=x&from={from_ns}&to={to_ns}&format=csv");
    let file = wait_until("an export of archive and live memory", || {
        let answer = get(second.address(), &path);
        (answer.status == 200).then(|| String::from_utf8(answer.body).unwrap())
    });
    let rows = file.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    let rows: Vec<Vec<f64>> =
        rows.map(|row| row.split(',').map(|cell| cell.parse().unwrap()).collect()).collect();
    assert!(rows.windows(2).all(|pair| pair[1][0] == pair[0][0] + 1.0), "no index is left out");
    assert!(rows.iter().all(|row| row[0] == row[2]) && rows.len() > 1_000, "{} rows", rows.len());
    drop(feed);
    drop(recording);
}

#[test]
fn a_recording_is_shown_when_its_publisher_is_gone() {
    let (bus, root) = (bus(), tempfile::tempdir().unwrap());
    let recording = Recording::start(&bus, root.path());
    let monitor = monitor_of(&bus, root.path());
    let feed = Feed::start(&bus, "lab/x", 0.2, |index| index as f64);
    let newest_ns = recording.first_gap_ns() + 900_000_000;
    listed(monitor.address(), "lab/x", |stream| stream["newest_ns"].as_i64() > Some(newest_ns));
    drop(feed);
    drop(recording);
    drop(monitor);
    let monitor = monitor_of(&bus, root.path());
    let stored = range(&monitor, newest_ns - 1_000_000_000, newest_ns);
    assert_eq!((&stored["origin"], &stored["unit"]), (&"archive".into(), &"V".into()));
    let injected = |gap: &Value| gap["lost"]["injected"].as_u64() > Some(0);
    assert!(stored["gaps"].as_array().unwrap().iter().any(injected), "{stored}");
    let mut page = Page::open(monitor.address());
    assert_eq!(page.text("hello", |_| true)["server"]["archive"], true);
    page.say(&format!(
        r#"{{"type":"view","view":1,"traces":[{{"stream":"lab/x","channel":"x"}}],"width_px":100,"span_ns":1000000000,"end_ns":{newest_ns}}}"#
    ));
    let frame = page.frame(|frame| frame.traces[0].state == TraceState::Ended);
    let TraceShape::Columns { extremes, .. } = &frame.traces[0].shape else { panic!("columns") };
    assert!(extremes.len() > 50 && !frame.traces[0].gaps.is_empty());
}

/// Records this number of samples, and leaves; returns their indices and the time of the first.
fn record_some(bus: &Bus, root: &Path, samples: u64) -> (Range<u64>, WallTime) {
    let mut subscriber = node(bus).subscriber("lab/x").reader("recorder").open().unwrap();
    let store = Arc::new(FileStore::create(root).unwrap());
    let mut recorder =
        Recorder::open(store, "test".parse().unwrap(), Options::default(), Instant::ORIGIN).unwrap();
    let began = Clock::now();
    let now = || Instant::ORIGIN + began.elapsed();
    let mut taken: Option<(Range<u64>, WallTime)> = None;
    wait_until("recorded samples", || {
        let event = subscriber.next(Duration::from_millis(50))?;
        if let Event::Block(block) = &event {
            let (indices, _) = taken.get_or_insert((block.first_index..block.first_index, block.t0));
            indices.end = block.first_index + block.samples;
        }
        recorder.handle(now(), &event).unwrap();
        recorder.tick(now());
        taken.as_ref().is_some_and(|(indices, _)| indices.end - indices.start >= samples).then_some(())
    });
    recorder.close(now()).unwrap();
    taken.unwrap()
}

#[test]
fn a_time_in_which_nobody_recorded_is_told_everywhere_as_the_archive_tells_it() {
    let (bus, root) = (bus(), tempfile::tempdir().unwrap());
    let live = monitor_of(&bus, root.path());
    let feed = Feed::start(&bus, "lab/x", 0.0, |index| index as f64);
    let (before, from) = record_some(&bus, root.path(), 500);
    listed(live.address(), "lab/x", |stream| stream["next_index"].as_u64() > Some(before.end + 500));
    let (behind, _) = record_some(&bus, root.path(), 500);
    drop((feed, live));
    let absent = before.end..behind.start;
    assert!(absent.end > absent.start + 400, "{absent:?}");

    let to = from.offset(i64::try_from((behind.end - before.start) * 1_000_000).unwrap());
    let archive = Archive::open(root.path()).unwrap();
    let entry = archive.streams(&"test".parse().unwrap()).unwrap().remove(0);
    let holes = archive.range(&entry, from..to).filter_map(|piece| match piece.unwrap() {
        Piece::Hole(hole) => Some((hole.first_index, hole.reader_absent)),
        Piece::Block(_) | Piece::Epoch(_) => None,
    });
    let holes: Vec<_> = holes.collect();
    assert_eq!(holes, [(absent.start, absent.end - absent.start)], "what `query --gaps` shows");

    let monitor = monitor_of(&bus, root.path());
    let (from_ns, to_ns) = (from.as_nanos(), to.as_nanos());
    let told = |gap: &Value| {
        assert_eq!((&gap["kind"], &gap["lost"]), (&"reader_absent".into(), &serde_json::json!({})), "{gap}");
        (gap["first_index"].as_u64().unwrap(), gap["reader_absent"].as_u64().unwrap())
    };
    let of_range = range(&monitor, from_ns, to_ns);
    assert_eq!(of_range["gaps"].as_array().unwrap().iter().map(told).collect::<Vec<_>>(), holes);
    let of_gaps = get(monitor.address(), &format!("/api/gaps?stream=lab/x&from={from_ns}&to={to_ns}")).json();
    assert_eq!(of_gaps.as_array().unwrap().iter().map(told).collect::<Vec<_>>(), holes);

    let mut page = Page::open(monitor.address());
    page.say(&format!(
        r#"{{"type":"view","view":1,"traces":[{{"stream":"lab/x","channel":"x"}}],"width_px":100,"span_ns":{},"end_ns":{to_ns}}}"#,
        to_ns - from_ns
    ));
    let frame = page.frame(|frame| frame.traces[0].state == TraceState::Ended);
    let drawn: Vec<_> = frame.traces[0].gaps.iter().map(|gap| (gap.cause, gap.samples)).collect();
    assert_eq!(drawn, [(GapCause::Absent, absent.end - absent.start)]);
}

#[test]
fn a_recording_that_cannot_be_read_is_told_where_it_lies_and_takes_no_other_with_it() {
    let (bus, root) = (bus(), tempfile::tempdir().unwrap());
    let mut firsts = Vec::new();
    for _ in 0..2 {
        let feed = Feed::start(&bus, "lab/x", 0.0, |index| index as f64);
        firsts.push(record_some(&bus, root.path(), 500).1);
        drop(feed);
    }
    let archive = Archive::open(root.path()).unwrap();
    let epochs = archive.stream(&"test".parse().unwrap(), &"lab/x".parse().unwrap()).unwrap().epochs;
    assert_eq!(epochs.len(), 2);
    let broken = epochs[0].description.epoch.to_string();
    let folder = root.path().join("run=test/stream=lab%2Fx").join(format!("epoch={broken}"));
    let segments = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let others = segments.filter(|path| path.file_name().unwrap() != "stream.json");
    others.for_each(|path| std::fs::remove_file(path).unwrap());
    std::fs::write(folder.join("stream.json"), "nothing of ours").unwrap();

    let monitor = monitor_of(&bus, root.path());
    let (from_ns, to_ns) = (firsts[0].as_nanos(), firsts[1].as_nanos() + 400_000_000);
    let of_range = range(&monitor, from_ns, to_ns);
    let columns = of_range["columns"].as_array().unwrap();
    assert!(columns.last().unwrap().is_array() && columns[0].is_null(), "{columns:?}");
    let of_gaps = get(monitor.address(), &format!("/api/gaps?stream=lab/x&from={from_ns}&to={to_ns}")).json();
    for gaps in [&of_range["gaps"], &of_gaps] {
        let told = gaps.as_array().unwrap().iter().any(|gap| {
            let is_open = gap["kind"] == "missing" && gap["open_ended"] == true;
            is_open && gap["evidence"][0].as_str().unwrap().contains(&broken)
        });
        assert!(told, "{gaps}");
    }
}
