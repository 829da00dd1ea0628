//! Views of whole samples: what they show, their credit, and the account of samples not shown.

use super::*;
use crate::clock::Moment;
use crate::history::History;
use crate::scene::{self, SECOND};
use crate::viewer::PageMessage;
use sample::{Block, SampleBuffer};
use std::time::Duration;
use tallycast::{Channel, Dtype, StreamInfo};
use wire::ViewFrame;

/// A stream at 10 Hz of one channel `field` in V, with a scale.
struct Scene {
    history: History,
    info: Arc<StreamInfo>,
    viewer: Viewer,
    now: Moment,
    next_index: u64,
}

impl Scene {
    fn new(dtype: Dtype, shape: &[u32]) -> Self {
        let channel = Channel::new("field", "V").with_shape(shape).with_scale(0.5, 1.0);
        let schema = Schema::new(dtype, "10".parse().unwrap(), vec![channel]).unwrap();
        let info = Arc::new(StreamInfo { schema: Arc::new(schema), ..scene::info("lab/field", 10) });
        let history = History::default();
        let now = scene::moment(WallTime::from_nanos(100 * SECOND));
        history.begin(&info, now);
        Self { history, info, viewer: Viewer::new(7, Arc::default()), now, next_index: 0 }
    }

    /// A tenth of a second later, with a sample of these bytes.
    fn pass(&mut self, bytes: &[u8]) {
        self.now.steady += Duration::from_millis(100);
        self.now.wall = self.now.wall.offset(SECOND / 10);
        let block = scene::block(&self.info, self.next_index, &[0.0]);
        self.history.block(&Block { data: SampleBuffer::from_bytes(bytes), ..block }, self.now);
        self.next_index += 1;
    }

    fn say(&mut self, message: &str) -> Result<(), String> {
        let message: PageMessage = serde_json::from_str(message).unwrap();
        message.check()?;
        self.viewer.handle(message)
    }

    /// Asks for view 1 with these further fields.
    fn ask(&mut self, more: &str) {
        self.say(&request(more)).unwrap();
        // The samples are kept from the first frame on.
        self.frame();
    }

    fn frame(&mut self) -> Option<PictureFrame> {
        let bytes = self.viewer.frame(Scenery { history: &self.history, now: self.now })?;
        let frame = PictureFrame::decode(&bytes).unwrap();
        self.say(&format!(r#"{{"type":"shown","frame":{}}}"#, frame.frame)).unwrap();
        Some(frame)
    }

    fn lost(&mut self) -> u64 {
        self.viewer.count_losses(Scenery { history: &self.history, now: self.now });
        self.viewer.browser_account()["lost_elements"]["lab/field"].as_u64().unwrap_or(0)
    }
}

fn request(more: &str) -> String {
    format!(
        r#"{{"type":"picture","view":1,"stream":"lab/field","channel":"field","width_px":100,"height_px":100{more}}}"#
    )
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn a_picture_has_the_newest_sample_scaled_and_is_sent_once() {
    let mut scene = Scene::new(Dtype::F4, &[2, 2]);
    scene.ask(r#","end_ns":null"#);
    scene.pass(&floats(&[0.0, 1.0, 2.0, f32::NAN]));
    let frame = scene.frame().unwrap();
    let sample = frame.sample.unwrap();
    assert_eq!((sample.index, sample.size, sample.range), (0, [2, 2], [1.0, 2.0]));
    let Pixels::Values(values) = sample.picture.pixels else { panic!("values") };
    assert_eq!(values[..3], [1.0, 1.5, 2.0]);
    assert!(values[3].is_nan());
    assert_eq!(frame.kept_from, Some(sample.time));
    scene.now.steady += Duration::from_millis(100);
    assert!(scene.frame().is_none(), "nothing has changed");
    scene.pass(&floats(&[0.0; 4]));
    assert_eq!(scene.frame().unwrap().sample.unwrap().index, 1);
}

#[test]
fn odd_shapes_are_matrices_too_and_a_plane_is_chosen() {
    let mut row = Scene::new(Dtype::F4, &[3]);
    row.ask(r#","end_ns":null"#);
    row.pass(&floats(&[1.0; 3]));
    assert_eq!(row.frame().unwrap().sample.unwrap().size, [1, 3]);
    let mut planes = Scene::new(Dtype::U8, &[3, 1, 2]);
    let at = |number, is_nearest| Plane { number, is_nearest };
    for (plane, shown, steps) in [
        ("[]", at(0, false), [0, 1]),
        ("[2]", at(2, false), [4, 5]),
        ("[3]", at(2, true), [4, 5]),
        ("[1,0]", at(1, true), [2, 3]),
    ] {
        planes.ask(&format!(r#","end_ns":null,"plane":{plane}"#));
        planes.pass(&[0, 1, 2, 3, 4, 5]);
        let sample = planes.frame().unwrap().sample.unwrap();
        assert_eq!((sample.planes, sample.plane, sample.range), (3, shown, [1.0, 128.5]));
        assert_eq!(sample.picture.pixels, Pixels::Steps(steps.to_vec()));
    }
}

#[test]
fn a_plane_has_an_index_for_each_extent_that_a_shape_may_have_before_its_last_two() {
    let mut scene = Scene::new(Dtype::U8, &[1, 1, 1, 1, 1, 2, 1, 1]);
    let indices = |count: usize| vec!["0"; count].join(",");
    scene.say(&request(&format!(r#","end_ns":null,"plane":[{}]"#, indices(6)))).unwrap();
    let refused = scene.say(&request(&format!(r#","end_ns":null,"plane":[{}]"#, indices(7)))).unwrap_err();
    assert!(refused.contains("at most 6 indices"), "{refused}");
}

#[test]
fn a_large_sample_is_reduced_as_the_page_asks() {
    let mut scene = Scene::new(Dtype::C8, &[1, 1_000]);
    scene.ask(r#","end_ns":null,"reduction":"max""#);
    let mut values = vec![0.0; 2_000];
    (values[1_400], values[1_401]) = (3.0, 4.0);
    scene.pass(&floats(&values));
    let frame = scene.frame().unwrap();
    let sample = frame.sample.unwrap();
    assert!(frame.is_max);
    assert_eq!((sample.picture.columns, sample.picture.block), (100, [1, 10]));
    let Pixels::Values(values) = sample.picture.pixels else { panic!("values") };
    assert_eq!(values.iter().position(|value| *value == 3.5), Some(70), "the magnitude of 3 + 4i, scaled");
}

#[test]
fn the_past_is_shown_as_it_was() {
    let mut scene = Scene::new(Dtype::U8, &[1, 1]);
    scene.ask(r#","end_ns":null"#);
    for step in 0..10 {
        scene.pass(&[step]);
    }
    let third = scene::time_of(&scene.info, 3).as_nanos();
    scene.ask(&format!(r#","end_ns":{third}"#));
    scene.now.steady += Duration::from_millis(100);
    scene.say(&request(&format!(r#","end_ns":{},"reduction":"max""#, third + 1))).unwrap();
    let frame = scene.frame().unwrap();
    assert_eq!((frame.live, frame.sample.unwrap().index), (false, 3));
    scene.pass(&[9]);
    assert!(scene.frame().is_none(), "the past does not change");
    scene.say(&request(r#","end_ns":1"#)).unwrap();
    scene.now.steady += Duration::from_millis(100);
    let frame = scene.frame().unwrap();
    assert!(frame.sample.is_none(), "nothing is kept of that time");
    assert!(frame.kept_from.is_some());
}

#[test]
fn samples_between_those_shown_are_counted_as_not_shown() {
    let mut scene = Scene::new(Dtype::U8, &[2, 2]);
    scene.ask(r#","end_ns":null"#);
    scene.pass(&[0; 4]);
    assert_eq!(scene.frame().unwrap().sample.unwrap().skipped, 0);
    for _ in 0..3 {
        scene.pass(&[0; 4]);
    }
    assert_eq!(scene.lost(), 8, "two samples that a newer one has replaced");
    assert_eq!(scene.frame().unwrap().sample.unwrap().skipped, 2);
    assert_eq!(scene.lost(), 8, "counted once");
    // Every sample is shown, or counted: 4 elements each.
    let mut random = units::Random::new(5);
    let mut shown = 2;
    for _ in 0..500 {
        scene.pass(&[0; 4]);
        if random.below(3) == 0 {
            shown += u64::from(scene.frame().is_some());
        }
        if random.below(5) == 0 {
            scene.lost();
        }
    }
    scene.pass(&[0; 4]);
    shown += u64::from(scene.frame().is_some());
    assert_eq!(scene.lost() + 4 * shown, 4 * scene.next_index);
}

#[test]
fn a_hidden_page_loses_what_passes_for_however_long() {
    let mut scene = Scene::new(Dtype::U8, &[2, 2]);
    scene.ask(r#","end_ns":null"#);
    scene.pass(&[0; 4]);
    assert!(scene.frame().is_some());
    scene.say(r#"{"type":"visible","visible":false}"#).unwrap();
    for step in 0..1_300 {
        scene.pass(&[0; 4]);
        if step % 20 == 0 {
            scene.lost();
            assert!(scene.frame().is_none());
        }
    }
    assert_eq!(scene.lost(), 4 * 1_299, "the newest may still be shown");
    scene.say(r#"{"type":"visible","visible":true}"#).unwrap();
    assert_eq!(scene.frame().unwrap().sample.unwrap().skipped, 1_299);
}

#[test]
fn a_view_without_credit_waits_and_becomes_coarser() {
    let mut scene = Scene::new(Dtype::U8, &[100, 100]);
    scene.ask(r#","end_ns":null"#);
    let mut sent = 0;
    for _ in 0..100 {
        scene.pass(&[0; 10_000]);
        sent += u32::from(scene.viewer.frame(Scenery { history: &scene.history, now: scene.now }).is_some());
    }
    assert_eq!(sent, 2);
    scene.say(r#"{"type":"shown","frame":1}"#).unwrap();
    scene.pass(&[0; 10_000]);
    let frame = scene.frame().unwrap();
    assert!(frame.thinned_further && frame.dropped_frames >= 98);
    assert_eq!(frame.sample.unwrap().picture.rows, 25);
}

#[test]
fn a_view_is_of_traces_or_a_picture_and_both_share_their_limits() {
    let mut scene = Scene::new(Dtype::U8, &[1, 1]);
    scene.ask(r#","end_ns":null"#);
    scene.pass(&[1]);
    let traces = r#"{"type":"view","view":1,"traces":[{"stream":"lab/field","channel":"field"}],"width_px":10,"span_ns":1000000000,"end_ns":null}"#;
    scene.say(traces).unwrap();
    scene.now.steady += Duration::from_millis(100);
    let bytes = scene.viewer.frame(Scenery { history: &scene.history, now: scene.now }).unwrap();
    assert_eq!(ViewFrame::decode(&bytes).unwrap().view, 1);
    scene.say(&request(r#","end_ns":null"#)).unwrap();
    for view in 2..=64 {
        let more = request(r#","end_ns":null"#).replace(r#""view":1"#, &format!(r#""view":{view}"#));
        scene.say(&more).unwrap();
    }
    assert!(scene.say(&request("").replace(r#""view":1"#, r#""view":65"#)).is_err());
    assert!(scene.say(&traces.replace(r#""view":1"#, r#""view":65"#)).is_err());
    for view in 1..=64 {
        scene.say(&format!(r#"{{"type":"close","view":{view}}}"#)).unwrap();
    }
    assert!(!scene.viewer.watches());
}

#[test]
fn what_is_unknown_or_out_of_bounds_is_said() {
    let mut scene = Scene::new(Dtype::U8, &[1, 1]);
    scene.say(&request("").replace("lab/field", "lab/other")).unwrap();
    assert_eq!(scene.frame().unwrap().state, TraceState::Unknown);
    scene.say(&request("").replace(r#""field""#, r#""other""#)).unwrap();
    scene.now.steady += Duration::from_millis(100);
    assert_eq!(scene.frame().unwrap().state, TraceState::Unknown);
    for side in [0, MAX_PAGE_COLUMNS + 1] {
        assert!(
            scene.say(&request("").replace(r#""width_px":100"#, &format!(r#""width_px":{side}"#))).is_err()
        );
        assert!(
            scene.say(&request("").replace(r#""height_px":100"#, &format!(r#""height_px":{side}"#))).is_err()
        );
    }
}
