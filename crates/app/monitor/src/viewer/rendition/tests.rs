//! Several viewers of one history: what is drawn and encoded for them, counted.

use super::*;
use crate::clock::Moment;
use crate::history::History;
use crate::scene::{self, SECOND};
use crate::stored::StoredSpan;
use crate::viewer::Viewer;
use std::collections::BTreeMap;
use std::time::Duration;
use tallycast::StreamInfo;
use units::Random;

struct Room {
    history: History,
    info: Arc<StreamInfo>,
    renditions: Arc<Renditions>,
    viewers: Vec<Viewer>,
    now: Moment,
    next_index: u64,
}

impl Room {
    fn new(viewers: u64) -> Self {
        let (history, renditions) = (History::default(), Arc::<Renditions>::default());
        let info = Arc::new(scene::info("lab/x", 1_000));
        let now = scene::moment(WallTime::from_nanos(100 * SECOND));
        history.begin(&info, now);
        let viewers = (0..viewers).map(|number| Viewer::new(number, Arc::clone(&renditions))).collect();
        Self { history, info, renditions, viewers, now, next_index: 0 }
    }

    /// Advances the time, with data for all of it.
    fn pass(&mut self, millis: u64) {
        self.now.steady += Duration::from_millis(millis);
        self.now.wall = self.now.wall.offset(i64::try_from(millis).unwrap() * 1_000_000);
        let values: Vec<f64> = (self.next_index..self.next_index + millis).map(|it| it as f64).collect();
        self.history.block(&scene::block(&self.info, self.next_index, &values), self.now);
        self.next_index += millis;
    }

    fn ask(&mut self, viewer: usize, view: u32, width_px: u32, options: &str) {
        let message = format!(
            r#"{{"type":"view","view":{view},"traces":[{{"stream":"lab/x","channel":"x"}}],"width_px":{width_px},
                "span_ns":2000000000,"end_ns":null{options}}}"#
        );
        self.viewers[viewer].handle(serde_json::from_str(&message).unwrap()).unwrap();
    }

    /// Returns the frame that a viewer is due, which it confirms.
    fn frame(&mut self, viewer: usize) -> Option<Vec<u8>> {
        let scenery = Scenery { history: &self.history, now: self.now };
        let bytes = self.viewers[viewer].frame(scenery)?;
        let frame = ViewFrame::decode(&bytes).unwrap().frame;
        let shown = format!(r#"{{"type":"shown","frame":{frame}}}"#);
        self.viewers[viewer].handle(serde_json::from_str(&shown).unwrap()).unwrap();
        Some(bytes)
    }
}

const EXACT: &str = r#","exact":true,"means":true"#;

/// Lets pages of one view look for frames in every beat, a third of them at one time of it; returns the counts of the
/// work, and the frames sent.
fn watched_by(viewers: usize) -> (WorkCounts, u64) {
    let mut room = Room::new(viewers as u64);
    room.pass(2_500);
    let mut sent = 0;
    (0..viewers).for_each(|viewer| room.ask(viewer, 7 + viewer as u32, 320, EXACT));
    for _ in 0..66 {
        let wait = Viewer::next_look(room.now.steady).duration_since(room.now.steady);
        room.pass(u64::try_from(wait.as_millis()).unwrap() + 1);
        for third in 0..3 {
            for viewer in (third..viewers).step_by(3) {
                sent += u64::from(room.frame(viewer).is_some());
            }
            room.pass(10);
        }
    }
    (room.renditions.counts(), sent)
}

#[test]
fn a_hundred_viewers_of_one_view_are_drawn_for_as_often_as_one() {
    let (one, sent_to_one) = watched_by(1);
    let (many, sent_to_many) = watched_by(100);
    assert_eq!((one.drawn, one.encoded, one.reused), (sent_to_one, sent_to_one, 0));
    assert_eq!((many.drawn, many.encoded), (one.drawn, one.encoded));
    assert_eq!((sent_to_many, many.reused), (100 * sent_to_one, 99 * sent_to_one));
}

#[test]
fn pages_with_the_same_request_get_the_same_bytes_but_for_their_address() {
    let mut room = Room::new(2);
    room.pass(2_500);
    room.ask(0, 1, 320, EXACT);
    room.ask(1, 9, 320, EXACT);
    for _ in 0..20 {
        room.pass(40);
        let [first, mut second] = [0, 1].map(|viewer| room.frame(viewer).unwrap());
        assert_eq!(ViewFrame::decode(&second).unwrap().view, 9);
        let to = wire::FrameAddress {
            view: 1,
            frame: ViewFrame::decode(&first).unwrap().frame,
            dropped_frames: 0,
        };
        ViewFrame::address(&mut second, to).unwrap();
        assert_eq!(first, second);
    }
}

#[test]
fn another_width_window_or_form_is_another_rendition() {
    let mut room = Room::new(4);
    room.pass(2_500);
    room.ask(0, 1, 320, EXACT);
    room.ask(1, 1, 321, EXACT);
    room.ask(2, 1, 320, "");
    room.ask(3, 1, 320, r#","exact":true"#);
    room.pass(40);
    (0..4).for_each(|viewer| assert!(room.frame(viewer).is_some()));
    assert_eq!(room.renditions.counts(), WorkCounts { drawn: 4, encoded: 4, reused: 0 });
}

#[test]
fn nothing_is_kept_of_what_no_page_shows() {
    let mut room = Room::new(1);
    for width in 100..200 {
        room.ask(0, 1, width, EXACT);
    }
    let known = room.renditions.views.len();
    assert!(known <= 2, "{known} subjects for one view");
}

/// What a page has of a trace: the extremes of each column by its time.
type Shown = BTreeMap<i64, [u64; 2]>;

/// Puts a frame together as a page does: kept columns from the frame before.
fn take(shown: &mut Shown, bytes: &[u8]) {
    let frame = ViewFrame::decode(bytes).unwrap();
    let wire::TraceShape::Columns { kept, first, extremes, .. } = &frame.traces[0].shape else {
        panic!("columns")
    };
    let time = |column: u32| frame.from.as_nanos() + i64::from(column) * frame.column_ns as i64;
    let mut next = Shown::new();
    for column in first - kept..*first {
        next.insert(time(column), shown[&time(column)]);
    }
    for (column, pair) in (*first..).zip(extremes.to_vec()) {
        next.insert(time(column), pair.map(f64::to_bits));
    }
    *shown = next;
}

#[test]
fn a_page_that_misses_renditions_or_comes_later_shows_what_the_others_show() {
    for seed in 0..20 {
        let mut random = Random::new(seed);
        let mut room = Room::new(5);
        room.pass(2_500);
        (0..5).for_each(|viewer| room.ask(viewer, 1, 200, r#","exact":true"#));
        let mut shown = vec![Shown::new(); 5];
        for _ in 0..100 {
            room.pass(random.below(60) + 1);
            for (viewer, shown) in shown.iter_mut().enumerate() {
                if random.chance(0.02) {
                    room.ask(viewer, 1, 200, r#","exact":true"#);
                }
                // Some look rarely.
                let looks = random.chance(1.0 / (viewer as f64 + 1.0));
                if let Some(bytes) = looks.then(|| room.frame(viewer)).flatten() {
                    take(shown, &bytes);
                }
            }
        }
        room.pass(100);
        for (viewer, shown) in shown.iter_mut().enumerate() {
            take(shown, &room.frame(viewer).unwrap());
        }
        assert!(shown[0].len() > 150);
        assert!(shown.iter().all(|one| *one == shown[0]), "seed {seed}");
    }
}

#[test]
fn the_store_is_asked_by_one_viewer_for_all_who_show_the_same() {
    let mut room = Room::new(3);
    room.pass(100);
    // Two seconds before live memory, of which the recorder has acknowledged everything.
    room.now.wall = room.now.wall.offset(20 * SECOND);
    let ask = |room: &mut Room, viewer: usize| {
        let message = r#"{"type":"view","view":1,"traces":[{"stream":"lab/x","channel":"x"}],"width_px":100,
            "span_ns":2000000000,"end_ns":100000000000,"exact":true}"#;
        room.viewers[viewer].handle(serde_json::from_str(message).unwrap()).unwrap();
        let scenery = Scenery { history: &room.history, now: room.now };
        room.viewers[viewer].questions(scenery)
    };
    let mut first = ask(&mut room, 0);
    let second = ask(&mut room, 1);
    assert!(first.len() == 1 && second.len() == 1 && !second[0].is_answered());
    room.frame(0).unwrap();
    let question = first.remove(0);
    let mut columns = question.grid.empty_columns();
    columns.iter_mut().for_each(|column| column.take(&[7.0]));
    let rate = room.info.schema.rate;
    let span = StoredSpan { unit: "V".to_owned(), rate, columns, points: None, gaps: Vec::new() };
    room.viewers[0].stored(vec![(question, Some(span))]);
    assert!(second[0].is_answered(), "the second one's question need not be read");
    room.viewers[1].stored(second.into_iter().map(|question| (question, None)).collect());
    assert!(ask(&mut room, 2).is_empty(), "one that comes later has the answer");
    room.pass(40);
    let drawn = room.renditions.counts().drawn;
    for viewer in 0..3 {
        let mut shown = Shown::new();
        take(&mut shown, &room.frame(viewer).unwrap());
        assert!(shown.len() > 90 && *shown.values().next().unwrap() == [7.0_f64.to_bits(); 2]);
    }
    assert_eq!(room.renditions.counts().drawn, drawn + 1);
}
