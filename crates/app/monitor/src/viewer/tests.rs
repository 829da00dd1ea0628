//! A viewer's credit, drops and losses, frame by frame.

use super::*;
use crate::scene::{self, SECOND};
use std::time::Duration;
use tallycast::StreamInfo;
use wire::TraceState;

struct Scene {
    history: History,
    info: Arc<StreamInfo>,
    viewer: Viewer,
    now: Instant,
    wall: WallTime,
    next_index: u64,
}

impl Scene {
    fn new() -> Self {
        let history = History::default();
        let info = Arc::new(scene::info("lab/x", 1_000));
        let wall = WallTime::from_nanos(100 * SECOND);
        history.begin(&info, wall);
        let (viewer, now) = (Viewer::new(7), Instant::now());
        Self { history, info, viewer, now, wall, next_index: 0 }
    }

    /// Lets time pass, and data come for all of it.
    fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.wall = self.wall.offset(i64::try_from(millis).unwrap() * 1_000_000);
        let values = vec![1.0; usize::try_from(millis).unwrap()];
        self.history.block(&scene::block(&self.info, self.next_index, &values), self.wall);
        self.next_index += millis;
    }

    fn say(&mut self, message: &str) -> Result<(), String> {
        self.viewer.handle(serde_json::from_str(message).unwrap())
    }

    fn follow(&mut self, view: u32) {
        let trace = r#"{"stream":"lab/x","channel":"x"}"#;
        self.say(&format!(
            r#"{{"type":"view","view":{view},"traces":[{trace}],"width_px":100,"span_ns":1000000000,"end_ns":null}}"#
        ))
        .unwrap();
    }

    fn questions(&mut self) -> Vec<StoreQuestion> {
        self.viewer.questions(Scenery { history: &self.history, now: self.now, wall: self.wall })
    }

    fn frame(&mut self) -> Option<ViewFrame> {
        let scenery = Scenery { history: &self.history, now: self.now, wall: self.wall };
        let bytes = self.viewer.frame(scenery)?;
        Some(ViewFrame::decode(&bytes).unwrap())
    }
}

#[test]
fn at_most_two_frames_are_under_way() {
    let mut scene = Scene::new();
    scene.follow(1);
    let mut numbers = Vec::new();
    for _ in 0..10 {
        scene.pass(40);
        numbers.extend(scene.frame().map(|frame| frame.frame));
    }
    assert_eq!(numbers, [0, 1]);
    scene.say(r#"{"type":"shown","frame":0}"#).unwrap();
    scene.pass(40);
    let frame = scene.frame().unwrap();
    assert_eq!((frame.frame, frame.dropped_frames), (2, 8));
}

#[test]
fn frames_come_at_most_thirty_times_a_second_and_only_when_something_changed() {
    let mut scene = Scene::new();
    scene.pass(500);
    scene.follow(1);
    assert!(scene.frame().is_some());
    scene.say(r#"{"type":"shown","frame":0}"#).unwrap();
    scene.pass(20);
    assert_eq!(scene.frame(), None, "too soon");
    scene.pass(20);
    assert!(scene.frame().is_some());
    scene.now += Duration::from_millis(100);
    assert_eq!(scene.frame(), None, "no time passed and no data came");
}

#[test]
fn a_hidden_viewer_gets_nothing_and_is_owed_what_slid_past() {
    let mut scene = Scene::new();
    scene.follow(1);
    scene.pass(500);
    assert!(scene.frame().is_some());
    scene.say(r#"{"type":"shown","frame":0}"#).unwrap();
    scene.say(r#"{"type":"visible","visible":false}"#).unwrap();
    scene.pass(5_000);
    assert_eq!(scene.frame(), None);
    scene.say(r#"{"type":"visible","visible":true}"#).unwrap();
    assert!(scene.frame().is_some());
    let account = scene.viewer.browser_account();
    // Shown up to 0.5 s, then from 4.5 s on.
    assert_eq!(account["lost_elements"]["lab/x"], 4_000);
    assert_eq!((&account["shown_frames"], &account["dropped_frames"]), (&json!(1), &json!(0)));
}

#[test]
fn what_a_paused_viewer_passes_over_is_its_own_choice() {
    let mut scene = Scene::new();
    scene.follow(1);
    scene.pass(500);
    assert!(scene.frame().is_some());
    scene
        .say(
            r#"{"type":"view","view":1,"traces":[{"stream":"lab/x","channel":"x"}],"width_px":100,"span_ns":1000000000,"end_ns":100400000000}"#,
        )
        .unwrap();
    scene.pass(40);
    assert!(scene.frame().is_some());
    scene.viewer.under_way.clear();
    scene.pass(5_000);
    scene.follow(1);
    assert!(scene.frame().is_some());
    assert_eq!(scene.viewer.browser_account()["lost_elements"], json!({}));
}

#[test]
fn views_take_turns() {
    let mut scene = Scene::new();
    scene.pass(100);
    (1..=3).for_each(|view| scene.follow(view));
    let mut shown = Vec::new();
    for _ in 0..9 {
        scene.pass(40);
        let frame = scene.frame().unwrap();
        shown.push(frame.view);
        scene.say(&format!(r#"{{"type":"shown","frame":{}}}"#, frame.frame)).unwrap();
    }
    assert_eq!(shown, [1, 2, 3, 1, 2, 3, 1, 2, 3]);
}

#[test]
fn an_unknown_stream_is_said_once() {
    let mut scene = Scene::new();
    scene
        .say(r#"{"type":"view","view":1,"traces":[{"stream":"no/such","channel":"x"}],"width_px":9,"span_ns":9,"end_ns":null}"#)
        .unwrap();
    let frame = scene.frame().unwrap();
    assert_eq!(frame.traces[0].state, TraceState::Unknown);
    scene.pass(1_000);
    assert_eq!(scene.frame(), None);
}

#[test]
fn there_are_so_many_views_and_no_more() {
    let mut scene = Scene::new();
    (0..MAX_VIEWS as u32).for_each(|view| scene.follow(view));
    let one_more = r#"{"type":"view","view":64,"traces":[],"width_px":9,"span_ns":9,"end_ns":null}"#;
    assert!(scene.say(one_more).is_err());
    scene.say(r#"{"type":"close","view":3}"#).unwrap();
    assert!(scene.say(one_more).is_ok());
}

/// Asks the store, and answers that it has nothing but this rate.
fn answer(scene: &mut Scene) -> usize {
    let questions = scene.questions();
    let span = |question: &StoreQuestion| StoredSpan {
        unit: "V".to_owned(),
        rate: scene.info.schema.rate,
        columns: question.grid.empty_columns(),
        points: None,
        gaps: Vec::new(),
    };
    let answers = questions.iter().map(|question| (question.clone(), Some(span(question))));
    scene.viewer.stored(answers.collect());
    questions.len()
}

#[test]
fn a_window_behind_live_memory_asks_the_store_until_that_can_know() {
    let mut scene = Scene::new();
    scene.pass(100);
    scene.follow(1);
    assert_eq!(scene.questions().len(), 1);
    assert!(scene.questions().is_empty(), "one question after the other");
    scene.follow(1);
    scene.viewer.views.get_mut(&1).unwrap().asking = false;
    assert_eq!(answer(&mut scene), 0, "not twice at once");
    scene.now += Pace::ASK;
    assert_eq!(answer(&mut scene), 1);
    scene.now += Pace::ASK;
    assert_eq!(answer(&mut scene), 1, "the recorder may not have acknowledged it yet");
    scene.now += Pace::ASK;
    scene.say(r#"{"type":"view","view":1,"traces":[{"stream":"lab/x","channel":"x"}],"width_px":100,"span_ns":1000000000,"end_ns":100000000000}"#).unwrap();
    scene.wall = scene.wall.offset(ACKNOWLEDGED_NS);
    assert_eq!(answer(&mut scene), 1);
    scene.now += Pace::ASK;
    assert_eq!(answer(&mut scene), 0, "what it did not have then, it never will");
}

#[test]
fn a_window_within_live_memory_asks_nobody() {
    let mut scene = Scene::new();
    scene.pass(2_000);
    scene.follow(1);
    assert!(scene.questions().is_empty());
}
