//! Views of pages: frames, holes, and counts of what was not shown.

use std::ops::Range;
use std::sync::Arc;

use ledger::Stage;
use monitor::{HistoryStore, KnownGap, MonitorConfig, StoreFailure, StoredRequest, StoredSpan};
use sample::StreamName;
use support::{Watchdog, wait_until};
use tallycast::WallTime;
use wire::{GapCause, TraceShape, TraceState, ViewFrame};

use crate::scene::{Feed, Page, Said, bus, get, has_data, listed, monitor, node, start};

fn drawn(frame: &ViewFrame) -> usize {
    match &frame.traces[0].shape {
        TraceShape::Columns { extremes, .. } => {
            extremes.to_vec().iter().filter(|column| !column[0].is_nan()).count()
        }
        TraceShape::Points(points) => points.iter().filter(|point| !point.value.is_nan()).count(),
    }
}

#[test]
fn a_page_sees_the_catalogue_and_then_the_signal_move() {
    let bus = bus();
    let monitor = monitor(&bus);
    let _feed = Feed::start(&bus, "lab/ramp", 0.0, |index| index as f64);
    let mut page = Page::open(monitor.address());
    let server = &page.text("hello", |_| true)["server"];
    assert_eq!((&server["page_protocol"], &server["archive"]), (&1.into(), &false.into()));
    let has_ramp = |said: &serde_json::Value| said["streams"][0]["stream"] == "lab/ramp";
    let streams = page.text("streams", has_ramp);
    assert_eq!(streams["streams"][0]["channels"][0]["unit"], "V");
    page.follow(7, "lab/ramp", 2_000);
    let first = page.frame(|frame| drawn(frame) > 0);
    assert_eq!((first.view, first.live, first.column_ns), (7, true, 10_000_000));
    let newest = first.traces[0].newest.unwrap().1;
    let goes_on = |frame: &ViewFrame| frame.traces[0].newest.unwrap().1 > newest + 100.0;
    let later = page.frame(|frame| goes_on(frame) && frame.traces[0].state == TraceState::Ok);
    assert_eq!(later.from.nanos_since(first.from) % 10_000_000, 0, "the grid moves by whole columns");
    page.follow(7, "lab/ramp", 100);
    let close = page.frame(|frame| frame.column_ns == 500_000);
    let TraceShape::Points(points) = &close.traces[0].shape else { panic!("fewer samples than columns") };
    assert!(points.windows(2).all(|pair| pair[1].value == pair[0].value + 1.0), "every sample, in its order");
}

#[test]
fn a_page_that_asks_for_means_gets_those_of_its_columns() {
    let bus = bus();
    let monitor = monitor(&bus);
    let _feed = Feed::start(&bus, "lab/ramp", 0.0, |index| index as f64);
    listed(monitor.address(), "lab/ramp", has_data);
    let mut page = Page::open(monitor.address());
    page.say(
        r#"{"type":"view","view":1,"traces":[{"stream":"lab/ramp","channel":"x"}],"width_px":200,"span_ns":2000000000,
            "end_ns":null,"exact":true,"means":true}"#,
    );
    // Ten samples of a ramp are a column: its mean lies in the middle.
    let whole = |frame: &ViewFrame| match &frame.traces[0].shape {
        TraceShape::Columns { extremes, means: Some(means), .. } => {
            let columns = extremes.to_vec().into_iter().zip(means.clone());
            columns.filter(|(pair, _)| pair[1] - pair[0] == 9.0).collect::<Vec<_>>()
        }
        TraceShape::Columns { .. } | TraceShape::Points(_) => Vec::new(),
    };
    let frame = page.frame(|frame| !whole(frame).is_empty());
    for (pair, mean) in whole(&frame) {
        assert_eq!(mean.mean(pair), Some(pair[0] + 4.5));
    }
}

#[test]
fn withheld_datagrams_are_holes_of_stage_injected() {
    let bus = bus();
    let monitor = monitor(&bus);
    let _feed = Feed::start(&bus, "lab/lossy", 0.2, |index| (index as f64 / 50.0).sin());
    listed(monitor.address(), "lab/lossy", has_data);
    let mut page = Page::open(monitor.address());
    page.follow(1, "lab/lossy", 4_000);
    let injected = GapCause::Stage(Stage::Injected);
    let frame = page.frame(|frame| frame.traces[0].gaps.iter().any(|gap| gap.cause == injected));
    let gap = frame.traces[0].gaps.iter().find(|gap| gap.cause == injected).unwrap();
    assert!(gap.samples > 0 && gap.lost_elements == gap.samples && gap.to > gap.from);
    page.say(r#"{"type":"watch_account","stream":"lab/lossy"}"#);
    let account = page.text("account", |said| said["elements"]["lost"]["injected"].as_u64() > Some(0));
    let rung = account["ladder"].as_array().unwrap().iter().find(|rung| rung["stage"] == "injected").unwrap();
    assert_eq!(rung["elements"], account["elements"]["lost"]["injected"]);
    assert_eq!(account["balanced"], true);
}

#[test]
fn a_viewer_that_confirms_nothing_is_dropped_for_and_hurts_nobody() {
    let bus = bus();
    let monitor = monitor(&bus);
    let _feed = Feed::start(&bus, "lab/x", 0.0, |index| index as f64);
    listed(monitor.address(), "lab/x", has_data);
    let (mut slow, mut quick) = (Page::open(monitor.address()), Page::open(monitor.address()));
    slow.follow(1, "lab/x", 200);
    quick.follow(1, "lab/x", 200);
    for _ in 0..60 {
        quick.frame(|frame| drawn(frame) > 0);
    }
    let mut frames = 0;
    let watchdog = Watchdog::new("the drops of the slow viewer");
    let told = loop {
        watchdog.check();
        match slow.hear() {
            Said::Frame(_) | Said::Picture(_) | Said::Values(_) | Said::Waterfall(_) => frames += 1,
            Said::Json(said) if said["type"] == "browser" && said["dropped_frames"].as_u64() > Some(10) => {
                break said;
            }
            Said::Json(_) => {}
        }
    };
    assert_eq!((frames, &told["shown_frames"]), (2, &0.into()), "two frames under way and no more");
    // Its window of 0.2 s has moved on; the elements that left it are counted with the next frame.
    slow.say(r#"{"type":"shown","frame":0}"#);
    let told = slow.text("browser", |said| said["lost_elements"]["lab/x"].as_u64() > Some(100));
    assert_eq!(told["shown_frames"], 1);
    let account = get(monitor.address(), "/api/account?stream=lab/x").json();
    assert_eq!(
        account["elements"]["lost"],
        serde_json::json!({}),
        "the stream's own account knows nothing of it"
    );
}

#[test]
fn nineteen_viewers_go_on_beside_one_that_stopped_reading() {
    let bus = bus();
    let monitor = monitor(&bus);
    let _feed = Feed::start(&bus, "lab/x", 0.0, |index| index as f64);
    let address = monitor.address();
    listed(address, "lab/x", has_data);
    let mut stopped = Page::open(address);
    stopped.follow(1, "lab/x", 100);
    // From here on its socket is not read.
    let viewers: Vec<_> = (0..19)
        .map(|_| {
            std::thread::spawn(move || {
                let mut page = Page::open(address);
                // Ten minutes: nothing leaves the window unseen while this test runs.
                page.follow(1, "lab/x", 600_000);
                let first = page.frame(|frame| drawn(frame) > 0).traces[0].newest.unwrap().1;
                page.frame(|frame| frame.traces[0].newest.unwrap().1 > first + 2_000.0);
                page.text("browser", |said| said["shown_frames"].as_u64() > Some(5))
            })
        })
        .collect();
    for viewer in viewers {
        let told = viewer.join().unwrap();
        assert_eq!(told["lost_elements"], serde_json::json!({}), "{told}");
    }
    // Elements not shown to the stopped viewer are counted while it still does not read.
    let lost = wait_until("the stopped viewer's losses", || {
        let account = get(address, "/api/account?stream=lab/x").json();
        account["browsers"]["lost_elements"].as_u64().filter(|lost| *lost > 1_000)
    });
    let metrics = String::from_utf8(get(address, "/metrics").body).unwrap();
    let value = |name: &str| {
        let line =
            metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}"));
        line.trim().parse::<f64>().unwrap()
    };
    assert!(value("tallycast_monitor_browser_elements_lost_total{stream=\"lab/x\"}") >= lost as f64);
    assert!(value("tallycast_monitor_frames_dropped_total{}") > 10.0);
    assert_eq!(value("tallycast_elements_lost_total{stream=\"lab/x\",stage=\"unexplained\"}"), 0.0);
    // It reads again: the newest data are shown at once, after the two frames in flight.
    let newest = stopped.frame(|frame| frame.frame == 2);
    assert!(newest.dropped_frames > 10);
    let told = stopped.text("browser", |said| said["shown_frames"].as_u64() >= Some(3));
    assert!(told["lost_elements"]["lab/x"].as_u64() >= Some(lost), "{told}");
}

#[test]
fn a_visible_page_hears_from_the_server_also_when_nothing_happens() {
    let monitor = monitor(&bus());
    let mut page = Page::open(monitor.address());
    page.text("hello", |_| true);
    for _ in 0..3 {
        let streams = page.text("streams", |_| true);
        assert_eq!(streams["streams"], serde_json::json!([]));
    }
}

#[test]
fn a_hidden_page_is_sent_nothing_until_it_is_seen_again() {
    let bus = bus();
    let monitor = monitor(&bus);
    let _feed = Feed::start(&bus, "lab/x", 0.0, |index| index as f64);
    listed(monitor.address(), "lab/x", has_data);
    let mut page = Page::open(monitor.address());
    page.follow(1, "lab/x", 1_000);
    page.frame(|frame| drawn(frame) > 0);
    page.say(r#"{"type":"visible","visible":false}"#);
    // A binary message is answered with a note, also to a hidden page: earlier messages were in flight.
    page.say("not json");
    page.text("note", |_| true);
    page.say(r#"{"type":"view","view":1,"traces":[],"width_px":0,"span_ns":1,"end_ns":null}"#);
    let Said::Json(next) = page.hear() else { panic!("a frame for a hidden page") };
    assert_eq!(next["type"], "note", "nothing came in between: {next}");
    page.say(r#"{"type":"visible","visible":true}"#);
    page.frame(|frame| drawn(frame) > 0);
}

/// A store that has ten seconds of ones before everything live.
struct Ones;

impl HistoryStore for Ones {
    fn span(&self, asked: &StoredRequest<'_>) -> Result<Option<StoredSpan>, StoreFailure> {
        let mut columns = asked.grid.empty_columns();
        columns.iter_mut().for_each(|column| column.take(&[1.0]));
        let rate = "1000".parse().unwrap();
        Ok(Some(StoredSpan { unit: "V".to_owned(), rate, columns, points: None, gaps: Vec::new() }))
    }

    fn gaps(&self, _: &StreamName, _: Range<WallTime>) -> Result<Option<Vec<KnownGap>>, StoreFailure> {
        Ok(Some(Vec::new()))
    }
}

#[test]
fn what_lies_behind_live_memory_comes_from_the_store() {
    let bus = bus();
    let mut config = MonitorConfig::new(node(&bus));
    config.history = Some(Arc::new(Ones));
    let monitor = start(config);
    let _feed = Feed::start(&bus, "lab/x", 0.0, |_| 2.0);
    listed(monitor.address(), "lab/x", has_data);
    let mut page = Page::open(monitor.address());
    page.follow(1, "lab/x", 60_000);
    let frame = page.frame(|frame| drawn(frame) > 190);
    let TraceShape::Columns { first: 0, extremes, .. } = &frame.traces[0].shape else {
        panic!("columns from the left")
    };
    let extremes = extremes.to_vec();
    assert_eq!(extremes[0], [1.0, 1.0]);
    assert!(extremes.iter().any(|column| column[1] == 2.0));
    let live_from = frame.traces[0].live_memory_from.unwrap();
    assert!(live_from > frame.from);
}
