//! A viewer's credit, drops and losses, frame by frame.

use super::trace::ACKNOWLEDGED_NS;
use super::*;
use crate::scene::{self, SECOND};
use crate::stored::StoredSpan;
use ledger::{Stage, StageCounts};
use tallycast::StreamInfo;
use units::Random;
use wire::{Extremes, GapCause, TraceShape, TraceState};

struct Scene {
    history: History,
    info: Arc<StreamInfo>,
    viewer: Viewer,
    now: Moment,
    next_index: u64,
}

impl Scene {
    fn new() -> Self {
        let history = History::default();
        let info = Arc::new(scene::info("lab/x", 1_000));
        let now = scene::moment(WallTime::from_nanos(100 * SECOND));
        history.begin(&info, now);
        Self { history, info, viewer: Viewer::new(7, Arc::default()), now, next_index: 0 }
    }

    /// Advances the time, with data for all of it.
    fn pass(&mut self, millis: u64) {
        self.now.steady += Duration::from_millis(millis);
        self.now.wall = self.now.wall.offset(i64::try_from(millis).unwrap() * 1_000_000);
        let values = vec![1.0; usize::try_from(millis).unwrap()];
        self.history.block(&scene::block(&self.info, self.next_index, &values), self.now);
        self.next_index += millis;
    }

    fn say(&mut self, message: &str) -> Result<(), String> {
        self.viewer.handle(serde_json::from_str(message).unwrap())
    }

    fn follow(&mut self, view: u32) {
        self.ask(view, "null");
    }

    /// Asks for a view of a second that ends at a time, or follows.
    fn ask(&mut self, view: u32, end_ns: &str) {
        let trace = r#"{"stream":"lab/x","channel":"x"}"#;
        self.say(&format!(
            r#"{{"type":"view","view":{view},"traces":[{trace}],"width_px":100,"span_ns":1000000000,"end_ns":{end_ns}}}"#
        ))
        .unwrap();
    }

    fn questions(&mut self) -> Vec<StoreQuestion> {
        self.viewer.questions(Scenery { history: &self.history, now: self.now })
    }

    fn frame(&mut self) -> Option<ViewFrame> {
        let scenery = Scenery { history: &self.history, now: self.now };
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
fn confirmations_in_any_order_return_credit_once_and_those_of_a_closed_view_none() {
    let mut scene = Scene::new();
    scene.pass(100);
    (1..=2).for_each(|view| scene.follow(view));
    for _ in 0..2 {
        assert_eq!(std::iter::from_fn(|| scene.frame()).count(), 2);
        scene.pass(40);
    }
    assert_eq!(scene.viewer.under_way, [(0, 1), (1, 2), (2, 1), (3, 2)]);
    scene.say(r#"{"type":"shown","frames":[3,0,0,9]}"#).unwrap();
    assert_eq!(scene.viewer.under_way, [(1, 2), (2, 1)]);
    scene.say(r#"{"type":"close","view":2}"#).unwrap();
    scene.follow(2);
    scene.say(r#"{"type":"shown","frames":[1,2]}"#).unwrap();
    assert_eq!(scene.viewer.browser_account()["shown_frames"], json!(3), "frame 1 was of the closed view");
    let credit = [1, 2].map(|view| MAX_UNDER_WAY - scene.viewer.views[&view].delivery().under_way);
    assert_eq!(credit, [2, 2]);
}

#[test]
fn a_view_without_credit_takes_none_from_the_others() {
    let mut scene = Scene::new();
    scene.pass(100);
    (1..=3).for_each(|view| scene.follow(view));
    let mut shown = BTreeMap::new();
    for _ in 0..60 {
        scene.pass(40);
        while let Some(frame) = scene.frame() {
            *shown.entry(frame.view).or_insert(0) += 1;
            if frame.view != 2 {
                scene.say(&format!(r#"{{"type":"shown","frame":{}}}"#, frame.frame)).unwrap();
                assert!(!frame.thinned_further, "the others are not thinned for it");
            }
        }
    }
    assert_eq!(shown, [(1, 60), (2, 2), (3, 60)].into());
    let account = scene.viewer.browser_account();
    assert_eq!((&account["shown_frames"], &account["dropped_frames"]), (&json!(120), &json!(58)));
    let slow = scene.viewer.views[&2].delivery();
    assert!(slow.pace.further() > 1, "it is thinned further itself");
}

#[test]
fn views_are_due_together_at_the_next_beat_whenever_they_were_asked_for() {
    let mut scene = Scene::new();
    scene.pass(100);
    let mut sent = Vec::new();
    for view in 1..=3 {
        scene.follow(view);
        scene.pass(7);
        sent.extend(scene.frame().map(|frame| frame.frame));
    }
    scene.say(&format!(r#"{{"type":"shown","frames":{sent:?}}}"#)).unwrap();
    assert_eq!((sent.len(), &scene.viewer.browser_account()["shown_frames"]), (3, &json!(3)));
    let look = Viewer::next_look(scene.now.steady);
    scene.pass(1);
    assert_eq!(scene.frame(), None, "the beat has not passed");
    let wait = look.duration_since(scene.now.steady).as_millis();
    scene.pass(u64::try_from(wait).unwrap() + 1);
    assert_eq!(std::iter::from_fn(|| scene.frame()).count(), 3);
    assert_eq!(Viewer::next_look(look), look + Pace::FRAME);
}

/// Asks for a view of ten seconds that follows, by a page that reads exact columns or does not.
fn follow_as(scene: &mut Scene, exact: bool) {
    let trace = r#"{"stream":"lab/x","channel":"x"}"#;
    scene.say(&format!(
        r#"{{"type":"view","view":1,"traces":[{trace}],"width_px":100,"span_ns":10000000000,"end_ns":null,"exact":{exact}}}"#
    )).unwrap();
}

#[test]
fn a_frame_repeats_no_column_that_the_page_has() {
    let mut scene = Scene::new();
    scene.pass(9_000);
    follow_as(&mut scene, true);
    let mut sent = Vec::new();
    for _ in 0..20 {
        scene.pass(100);
        let frame = scene.frame().unwrap();
        scene.say(&format!(r#"{{"type":"shown","frame":{}}}"#, frame.frame)).unwrap();
        let TraceShape::Columns { kept, first, extremes, means: None } = &frame.traces[0].shape else {
            panic!("columns without means")
        };
        assert!(kept <= first && *first as usize + extremes.len() <= 100);
        sent.push(extremes.len());
    }
    assert!(sent[0] > 80, "the first frame is whole: {sent:?}");
    assert!(sent[1..].iter().all(|columns| *columns <= 2), "the others hold what is new: {sent:?}");
    follow_as(&mut scene, true);
    scene.pass(100);
    let TraceShape::Columns { kept: 0, .. } = scene.frame().unwrap().traces[0].shape else {
        panic!("what was asked for anew is sent anew")
    };
}

#[test]
fn a_page_that_asks_for_means_gets_one_of_every_column() {
    let mut scene = Scene::new();
    scene.pass(9_000);
    scene
        .say(
            r#"{"type":"view","view":1,"traces":[{"stream":"lab/x","channel":"x"}],"width_px":100,
                "span_ns":10000000000,"end_ns":null,"exact":true,"means":true}"#,
        )
        .unwrap();
    for _ in 0..5 {
        scene.pass(100);
        let frame = scene.frame().unwrap();
        scene.say(&format!(r#"{{"type":"shown","frame":{}}}"#, frame.frame)).unwrap();
        let TraceShape::Columns { extremes, means: Some(means), .. } = &frame.traces[0].shape else {
            panic!("columns with means")
        };
        let drawn = extremes.to_vec().into_iter().zip(means).filter(|(pair, _)| !pair[0].is_nan());
        let known = drawn.map(|(pair, mean)| (pair, mean.mean(pair).expect("a mean of finite values")));
        assert!(known.clone().all(|(pair, mean)| pair[0] <= mean && mean <= pair[1]));
        assert_eq!(extremes.len(), means.len());
    }
}

#[test]
fn a_page_that_does_not_ask_for_exact_columns_gets_all_of_them_as_f32() {
    let mut scene = Scene::new();
    follow_as(&mut scene, false);
    for frame in 0..3 {
        let values = vec![499_654_096.6; 100];
        scene.now.steady += Duration::from_millis(100);
        scene.now.wall = scene.now.wall.offset(100_000_000);
        scene.history.block(&scene::block(&scene.info, scene.next_index, &values), scene.now);
        scene.next_index += 100;
        let shape = scene.frame().unwrap().traces[0].shape.clone();
        let TraceShape::Columns { kept: 0, extremes: Extremes::Single(pairs), .. } = shape else {
            panic!("whole columns of f32")
        };
        assert!(pairs.len() > frame && pairs[0] == [499_654_112.0; 2], "{pairs:?}");
        scene.say(&format!(r#"{{"type":"shown","frame":{frame}}}"#)).unwrap();
    }
}

#[test]
fn a_viewer_that_has_had_its_bytes_waits_and_is_thinned() {
    let mut scene = Scene::new();
    scene.follow(1);
    scene.pass(100);
    scene.viewer.allowance.spend(10_000_000, scene.now.steady);
    for _ in 0..60 {
        scene.pass(40);
        assert_eq!(scene.frame(), None);
    }
    scene.pass(4_000);
    assert!(scene.frame().unwrap().thinned_further);
}

#[test]
fn a_held_view_is_as_fine_as_it_asks_for_however_slow_it_was() {
    let mut scene = Scene::new();
    scene.follow(1);
    for _ in 0..60 {
        scene.pass(40);
        drop(scene.frame());
    }
    scene.say(r#"{"type":"shown","frame":0}"#).unwrap();
    scene.pass(40);
    let following = scene.frame().unwrap();
    assert!(following.thinned_further && following.column_count < 100, "it did not keep up");
    scene.say(r#"{"type":"shown","frame":1}"#).unwrap();
    scene.ask(1, "101000000000");
    scene.pass(40);
    let held = scene.frame().unwrap();
    assert_eq!((held.thinned_further, held.column_count), (false, 100));
}

#[test]
fn a_view_that_takes_long_to_draw_waits_longer() {
    let mut scene = Scene::new();
    scene.follow(1);
    scene.pass(40);
    assert!(scene.frame().is_some());
    scene.viewer.took(Duration::from_millis(100));
    scene.pass(400);
    assert_eq!(scene.frame(), None);
    scene.pass(100);
    assert!(scene.frame().is_some());
}

#[test]
fn a_view_that_shows_something_else_keeps_what_is_under_way() {
    let mut scene = Scene::new();
    scene.follow(1);
    for _ in 0..4 {
        scene.pass(40);
        scene.frame();
        scene.follow(1);
    }
    assert_eq!(scene.viewer.under_way, [(0, 1), (1, 1)]);
    assert_eq!(scene.viewer.views[&1].delivery().under_way, 2);
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
    scene.now.steady += Duration::from_millis(100);
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
fn what_slides_past_a_view_without_credit_is_counted_before_it_is_shown_again() {
    let mut scene = Scene::new();
    scene.follow(1);
    for _ in 0..2 {
        scene.pass(500);
        assert!(scene.frame().is_some());
    }
    scene.pass(3_000);
    assert_eq!(scene.frame(), None, "two are under way");
    let count = |scene: &mut Scene| {
        let scenery = Scenery { history: &scene.history, now: scene.now };
        scene.viewer.count_losses(scenery);
        scene.viewer.browser_account()["lost_elements"]["lab/x"].clone()
    };
    // Shown up to 1 s, and the window begins at 3 s.
    assert_eq!(count(&mut scene), 2_000);
    assert_eq!(count(&mut scene), 2_000, "only once");
    scene.say(r#"{"type":"shown","frame":0}"#).unwrap();
    scene.now.steady += Pace::FRAME;
    assert!(scene.frame().is_some());
    assert_eq!(count(&mut scene), 2_000, "the rest was shown");
    assert_eq!(scene.history.stream("lab/x").unwrap().lost_in_browsers(), 2_000);
}

#[test]
fn a_paused_view_is_shown_what_became_of_a_gap_in_its_window() {
    let mut scene = Scene::new();
    scene.pass(400);
    let gap = |scene: &Scene, id, positions, lost| {
        let gap = scene::gap(&scene.info, id, positions, lost);
        scene.history.gap(&gap, scene.now);
    };
    gap(&scene, 1, 400..500, StageCounts::default());
    scene.next_index = 500;
    scene.pass(2_500);
    // From 0 to 1 s of the stream.
    scene.ask(1, "101000000000");
    let first = scene.frame().unwrap();
    assert_eq!(first.traces[0].gaps[0].cause, GapCause::Unsettled);
    scene.pass(40);
    gap(&scene, 2, scene.next_index..scene.next_index + 50, StageCounts::of(Stage::Injected, 50));
    assert_eq!(scene.frame(), None, "a gap elsewhere does not change the picture");
    gap(&scene, 1, 400..500, StageCounts::of(Stage::Injected, 100));
    let settled = scene.frame().unwrap();
    assert_eq!(settled.traces[0].gaps[0].cause, GapCause::Stage(Stage::Injected));
    // Both frames are in flight: the next change waits, and is not a drop, because nothing leaves a window in the past.
    scene.pass(40);
    gap(&scene, 1, 400..500, StageCounts::of(Stage::Late, 100));
    assert_eq!(scene.frame(), None);
    scene.say(r#"{"type":"shown","frame":0}"#).unwrap();
    scene.pass(40);
    let moved = scene.frame().unwrap();
    assert_eq!(moved.traces[0].gaps[0].cause, GapCause::Stage(Stage::Late));
    assert_eq!(moved.dropped_frames, 0);
}

#[test]
fn a_view_shorter_than_the_patience_still_learns_that_its_data_are_stale() {
    let mut scene = Scene::new();
    scene.pass(500);
    scene.follow(1);
    let mut states = Vec::new();
    for _ in 0..100 {
        scene.now.steady += Duration::from_millis(100);
        scene.now.wall = scene.now.wall.offset(100_000_000);
        while let Some(frame) = scene.frame() {
            scene.say(&format!(r#"{{"type":"shown","frame":{}}}"#, frame.frame)).unwrap();
            states.push(frame.traces[0].state);
        }
    }
    assert_eq!(states.last(), Some(&TraceState::Stale));
    assert!(states.len() < 20, "an empty window does not move: {} frames", states.len());
}

#[test]
fn what_a_paused_viewer_passes_over_is_its_own_choice() {
    let mut scene = Scene::new();
    scene.follow(1);
    scene.pass(500);
    assert!(scene.frame().is_some());
    scene.ask(1, "100400000000");
    scene.pass(40);
    assert!(scene.frame().is_some());
    (0..2).for_each(|frame| scene.say(&format!(r#"{{"type":"shown","frame":{frame}}}"#)).unwrap());
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

/// Asks the store, and answers with nothing but this rate.
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
    scene.viewer.views.get_mut(&1).unwrap().delivery_mut().asking = false;
    assert_eq!(answer(&mut scene), 0, "not twice at once");
    scene.now.steady += Pace::ASK;
    assert_eq!(answer(&mut scene), 1);
    scene.now.steady += Pace::ASK;
    assert_eq!(answer(&mut scene), 1, "the recorder may not have acknowledged it yet");
    scene.now.steady += Pace::ASK;
    scene.say(r#"{"type":"view","view":1,"traces":[{"stream":"lab/x","channel":"x"}],"width_px":100,"span_ns":1000000000,"end_ns":100000000000}"#).unwrap();
    scene.now.wall = scene.now.wall.offset(ACKNOWLEDGED_NS);
    assert_eq!(answer(&mut scene), 1);
    scene.now.steady += Pace::ASK;
    assert_eq!(answer(&mut scene), 0, "what it did not have then, it never will");
}

#[test]
fn a_window_within_live_memory_asks_nobody() {
    let mut scene = Scene::new();
    scene.pass(2_000);
    scene.follow(1);
    assert!(scene.questions().is_empty());
}

/// Mostly characters of numbers and texts, so that many corrupted messages are still valid.
const LETTERS: &[u8] = b"0123456789-.e\"{}[]:,x\\\0\xff";

#[test]
fn whatever_a_page_says_is_taken_or_refused_in_words() {
    let good = [
        r#"{"type":"view","view":7,"traces":[{"stream":"lab/x","channel":"x"}],"width_px":100,"span_ns":1000000000,"end_ns":null}"#,
        r#"{"type":"view","view":4294967295,"traces":[{"stream":"lab/x","channel":"x[9]"}],"width_px":16384,"span_ns":1,"end_ns":-9223372036854775808}"#,
        r#"{"type":"close","view":7}"#,
        r#"{"type":"visible","visible":true}"#,
        r#"{"type":"shown","frames":[0]}"#,
        r#"{"type":"watch_account","stream":"lab/x"}"#,
    ];
    let mut scene = Scene::new();
    let mut random = Random::new(1);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..5_000 {
        let mut bytes = good[random.below(good.len() as u64) as usize].as_bytes().to_vec();
        for _ in 0..random.below(3) {
            let place = random.below(bytes.len() as u64) as usize;
            bytes[place] = LETTERS[random.below(LETTERS.len() as u64) as usize];
        }
        let said = serde_json::from_slice::<PageMessage>(&bytes).map_err(|error| error.to_string());
        match said.and_then(|message| scene.viewer.handle(message)) {
            Ok(()) => taken += 1,
            Err(words) => {
                assert!(!words.is_empty());
                refused += 1;
            }
        }
        scene.pass(40);
        while scene.frame().is_some() {}
        assert!(scene.viewer.views.len() <= MAX_VIEWS);
    }
    assert!(taken > 500 && refused > 500, "{taken} taken, {refused} refused");
}
