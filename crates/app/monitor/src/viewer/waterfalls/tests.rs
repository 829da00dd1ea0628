//! Waterfalls: what they show, that a column is sent once, and the account of samples not shown.

use super::*;
use crate::clock::Moment;
use crate::history::History;
use crate::scene::{self, Archived, SECOND};
use crate::stored::StoreFailure;
use crate::viewer::{PageMessage, Renditions};
use sample::{Block, SampleBuffer};
use std::time::Duration;
use tallycast::{Channel, Dtype, Schema, StreamInfo};
use units::Random;

mod planes;

const BINS: usize = 5;

/// Spectra of five bins at 10 Hz, a page that keeps what it is sent, and an archive.
struct Scene {
    history: History,
    info: Arc<StreamInfo>,
    viewer: Viewer,
    now: Moment,
    next_index: u64,
    /// All samples that arrived, by index.
    sent: BTreeMap<u64, [f32; BINS]>,
    page: BTreeMap<i64, WaterfallColumn>,
}

impl Scene {
    fn new() -> Self {
        Self::with_shape(&[BINS as u32])
    }

    fn with_shape(shape: &[u32]) -> Self {
        let channels = vec![Channel::new("x", "V").with_shape(shape)];
        let mut schema = Schema::new(Dtype::F4, "10".parse().unwrap(), channels).unwrap();
        schema.labels.insert("spectrum_bin_hz".to_owned(), "1".to_owned());
        let info = Arc::new(StreamInfo { schema: Arc::new(schema), ..scene::info("lab/x", 10) });
        let now = scene::moment(WallTime::from_nanos(100 * SECOND));
        let history = History::default();
        history.begin(&info, now);
        let viewer = Viewer::new(7, Arc::default());
        Self { history, info, viewer, now, next_index: 0, sent: BTreeMap::new(), page: BTreeMap::new() }
    }

    /// A tenth of a second later, with a sample if it arrives.
    fn pass(&mut self, random: &mut Random, arrives: bool) {
        self.wait();
        let index = self.next_index;
        self.next_index += 1;
        if arrives {
            let bins = [(); BINS].map(|()| random.below(1_000) as f32);
            self.history.block(&self.block(index, bins), self.now);
            self.sent.insert(index, bins);
        }
    }

    fn wait(&mut self) {
        self.now.steady += Duration::from_millis(100);
        self.now.wall = self.now.wall.offset(SECOND / 10);
    }

    fn block(&self, index: u64, bins: [f32; BINS]) -> Block {
        let bytes: Vec<u8> = bins.iter().flat_map(|value| value.to_le_bytes()).collect();
        Block { data: SampleBuffer::from_bytes(&bytes), ..scene::block(&self.info, index, &[0.0]) }
    }

    fn scenery(&self) -> Scenery<'_> {
        Scenery { history: &self.history, now: self.now }
    }

    fn say(&mut self, message: &str) -> Result<(), String> {
        let message: PageMessage = serde_json::from_str(message).unwrap();
        message.check()?;
        self.viewer.handle(message)
    }

    fn frame(&mut self) -> Option<WaterfallFrame> {
        let bytes = self.viewer.frame(Scenery { history: &self.history, now: self.now })?;
        let frame = WaterfallFrame::decode(&bytes).unwrap();
        self.say(&format!(r#"{{"type":"shown","frame":{}}}"#, frame.frame)).unwrap();
        // What the page does with it.
        if frame.anew {
            self.page.clear();
        }
        self.page.extend(frame.columns.iter().cloned().map(|column| (column.number, column)));
        let window = frame.first..frame.first + i64::from(frame.count);
        self.page.retain(|number, _| window.contains(number));
        Some(frame)
    }

    /// Checks that the page has the maxima of all samples that arrived in the window.
    fn check(&self, frame: &WaterfallFrame, seed: u64) {
        let mut wanted: BTreeMap<i64, (u64, [f32; BINS])> = BTreeMap::new();
        for (index, bins) in &self.sent {
            let time = scene::time_of(&self.info, *index).as_nanos();
            let number = time.div_euclid(frame.column_ns as i64);
            let column = wanted.entry(number).or_insert((0, [f32::NAN; BINS]));
            column.0 += 1;
            column.1.iter_mut().zip(bins).for_each(|(own, other)| *own = own.max(*other));
        }
        wanted.retain(|number, _| (frame.first..frame.first + i64::from(frame.count)).contains(number));
        let present = self.page.iter().filter(|(_, column)| column.present > 0);
        let shown: BTreeMap<i64, (u64, [f32; BINS])> =
            present.map(|(number, it)| (*number, (it.present, (&*it.bins).try_into().unwrap()))).collect();
        assert_eq!(shown, wanted, "seed {seed}");
    }

    fn lost(&mut self) -> u64 {
        self.viewer.count_losses(Scenery { history: &self.history, now: self.now });
        self.viewer.browser_account()["lost_elements"]["lab/x"].as_u64().unwrap_or(0)
    }

    /// Asks the archive what the viewer wants to know; returns the number of questions.
    fn ask(&mut self, store: &Archived) -> usize {
        let questions = self.viewer.sample_questions(Scenery { history: &self.history, now: self.now });
        let answers: Vec<_> = questions.into_iter().map(|it| it.answer(store)).collect();
        let count = answers.len();
        self.viewer.took_samples(answers);
        count
    }
}

fn request(columns: u32, span_ns: i64, end: Option<i64>) -> String {
    let end = end.map_or("null".to_owned(), |end| end.to_string());
    format!(
        r#"{{"type":"waterfall","view":1,"stream":"lab/x","channel":"x","columns":{columns},"bins":100,"span_ns":{span_ns},"end_ns":{end}}}"#
    )
}

#[test]
fn what_a_page_has_is_the_maximum_of_all_samples_however_its_window_moves() {
    for seed in 0..40 {
        let (mut random, mut scene) = (Random::new(seed), Scene::new());
        for _ in 0..300 {
            let arrives = random.chance(0.9);
            scene.pass(&mut random, arrives);
        }
        let mut columns = 0;
        for _ in 0..150 {
            if random.chance(0.1) || columns == 0 {
                columns = 10 + random.below(200) as u32;
                let span = SECOND + random.below(30) as i64 * SECOND;
                let end = scene.now.wall.offset(-(random.below(10) as i64) * SECOND).as_nanos();
                let end = Some(end).filter(|_| random.chance(0.4));
                scene.say(&request(columns, span, end)).unwrap();
            }
            let arrives = random.chance(0.9);
            scene.pass(&mut random, arrives);
            if let Some(frame) = scene.frame() {
                assert!(frame.count <= columns + 2);
                scene.check(&frame, seed);
            }
        }
    }
}

#[test]
fn a_page_that_opens_sees_what_was_before_and_then_only_what_is_new() {
    let (mut random, mut scene) = (Random::new(1), Scene::new());
    (0..600).for_each(|_| scene.pass(&mut random, true));
    scene.say(&request(600, 60 * SECOND, None)).unwrap();
    let first = scene.frame().unwrap();
    assert!(first.anew && first.live);
    assert_eq!(first.columns.iter().map(|column| column.present).sum::<u64>(), 600);
    scene.check(&first, 1);
    let mut sent = 0;
    for _ in 0..100 {
        scene.pass(&mut random, true);
        let next = scene.frame().unwrap();
        assert!(!next.anew);
        sent += next.columns.len();
        scene.check(&next, 1);
    }
    assert_eq!(sent, 100, "the column of each new sample");
    scene.wait();
    assert!(scene.frame().is_none(), "nothing has changed");
    // A page that asks the same again has lost what it had.
    scene.say(&request(600, 60 * SECOND, None)).unwrap();
    assert!(scene.frame().unwrap().anew);
    // Another window of the same width: only the columns that the page does not have.
    let end = scene.now.wall.offset(-10 * SECOND).as_nanos();
    scene.say(&request(600, 60 * SECOND, Some(end))).unwrap();
    scene.wait();
    let earlier = scene.frame().unwrap();
    assert!(!earlier.anew && earlier.columns.len() <= 101, "{} columns", earlier.columns.len());
    scene.check(&earlier, 1);
}

#[test]
fn a_hole_is_sent_as_such_and_a_slow_stream_has_no_columns_between_its_samples() {
    let (mut random, mut scene) = (Random::new(1), Scene::new());
    for index in 0..40 {
        scene.pass(&mut random, !(10..20).contains(&index));
    }
    scene.say(&request(4_000, 4 * SECOND, None)).unwrap();
    let frame = scene.frame().unwrap();
    assert!(frame.column_ns <= 100_000_000 / 8, "an eighth of the period");
    let counts: Vec<_> = frame.columns.iter().map(|column| (column.present, column.expected)).collect();
    assert_eq!(counts, [vec![(1, 1); 10], vec![(0, 1); 10], vec![(1, 1); 20]].concat());
}

#[test]
fn pages_that_ask_for_the_same_are_sent_the_same_bytes() {
    let (mut random, mut scene) = (Random::new(1), Scene::new());
    (0..100).for_each(|_| scene.pass(&mut random, true));
    let renditions = Arc::new(Renditions::default());
    let mut pages: Vec<Viewer> = (0..5).map(|number| Viewer::new(number, Arc::clone(&renditions))).collect();
    for page in &mut pages {
        page.handle(serde_json::from_str(&request(100, 10 * SECOND, None)).unwrap()).unwrap();
    }
    for _ in 0..20 {
        scene.pass(&mut random, true);
        for page in &mut pages {
            let bytes = page.frame(scene.scenery()).unwrap();
            let frame = WaterfallFrame::decode(&bytes).unwrap().frame;
            page.confirm(&[frame]);
        }
    }
    let counts = renditions.counts();
    assert_eq!((counts.drawn, counts.encoded, counts.reused), (20, 20, 80));
}

#[test]
fn what_live_memory_does_not_reach_comes_from_the_archive() {
    for seed in 0..10 {
        let (mut random, mut scene) = (Random::new(seed), Scene::new());
        let mut archived = Archived::default();
        // What was before the monitor began, and all that it received since.
        scene.next_index = 1_000;
        scene.now = scene::moment(scene::time_of(&scene.info, 999));
        for index in 0..1_000 {
            let bins = [(); BINS].map(|()| random.below(1_000) as f32);
            archived.blocks.push(scene.block(index, bins));
            scene.sent.insert(index, bins);
        }
        for _ in 0..200 {
            let arrives = random.chance(0.8);
            scene.pass(&mut random, arrives);
        }
        let received = scene.sent.range(1_000..).map(|(index, bins)| scene.block(*index, *bins));
        archived.blocks.extend(received);
        scene.say(&request(100, 110 * SECOND, None)).unwrap();
        let first = scene.frame().unwrap();
        assert!(first.columns.iter().map(|column| column.present).sum::<u64>() <= 200);
        scene.now.steady += Duration::from_secs(1);
        assert_eq!(scene.ask(&archived), 1);
        let frame = scene.frame().unwrap();
        assert!(frame.live_memory_from.is_some());
        scene.check(&frame, seed);
        for _ in 0..50 {
            scene.pass(&mut random, true);
            scene.ask(&archived);
            let frame = scene.frame().unwrap();
            assert!(!frame.anew);
            scene.check(&frame, seed);
        }
        assert!(archived.asked() <= 50, "not asked again for ever");
    }
}

#[test]
fn a_recording_of_a_stream_that_is_gone_is_shown_and_what_cannot_be_read_is_said_once() {
    let mut scene = Scene::new();
    let mut archived = Archived { blocks: vec![scene.block(7, [3.0; BINS])], ..Archived::default() };
    scene.history = History::default();
    let end = scene::time_of(&scene.info, 10).as_nanos();
    scene.say(&request(100, 10 * SECOND, Some(end))).unwrap();
    assert_eq!(scene.frame().unwrap().state, TraceState::Unknown);
    scene.now.steady += Duration::from_secs(1);
    assert_eq!(scene.ask(&archived), 1);
    let frame = scene.frame().unwrap();
    assert_eq!((frame.state, frame.bins, frame.columns.len()), (TraceState::Ended, BINS as u32, 1));
    assert_eq!(frame.columns[0].bins[..], [3.0; BINS]);
    // More samples than are read at once.
    let block = archived.blocks[0].clone();
    archived.blocks = vec![block; 200_001];
    scene.say(&request(100, 20 * SECOND, Some(end + 1))).unwrap();
    scene.now.steady += Duration::from_secs(1);
    let questions = scene.viewer.sample_questions(Scenery { history: &scene.history, now: scene.now });
    let answers: Vec<_> = questions.into_iter().map(|it| it.answer(&archived)).collect();
    assert!(matches!(answers[0].failure, Some(StoreFailure::TooLong { .. })));
    scene.viewer.took_samples(answers);
    scene.now.wall = scene.now.wall.offset(60 * SECOND);
    scene.now.steady += Duration::from_secs(60);
    scene.viewer.sample_questions(Scenery { history: &scene.history, now: scene.now }).into_iter().for_each(
        |it| {
            scene.viewer.took_samples(vec![it.answer(&archived)]);
        },
    );
    scene.now.steady += Duration::from_secs(60);
    let again = scene.viewer.sample_questions(Scenery { history: &scene.history, now: scene.now });
    assert!(again.is_empty(), "what cannot be read is not asked for for ever");
}

#[test]
fn a_hidden_page_loses_the_samples_that_leave_the_window() {
    let (mut random, mut scene) = (Random::new(1), Scene::new());
    (0..50).for_each(|_| scene.pass(&mut random, true));
    scene.say(&request(100, 10 * SECOND, None)).unwrap();
    scene.frame().unwrap();
    scene.say(r#"{"type":"visible","visible":false}"#).unwrap();
    for _ in 0..250 {
        scene.pass(&mut random, true);
        assert!(scene.frame().is_none());
    }
    // A window of 10 s, 30 s later: the samples of 15 s went by unseen, and those in the window may still be shown.
    let lost = scene.lost();
    assert!((149 * BINS as u64..=151 * BINS as u64).contains(&lost), "{lost} elements");
    scene.say(r#"{"type":"visible","visible":true}"#).unwrap();
    let frame = scene.frame().unwrap();
    scene.check(&frame, 1);
    assert_eq!(scene.lost(), lost);
}

#[test]
fn a_view_without_credit_waits_and_its_columns_become_wider() {
    let (mut random, mut scene) = (Random::new(1), Scene::new());
    scene.say(&request(100, 10 * SECOND, None)).unwrap();
    let mut sent = 0;
    for _ in 0..100 {
        scene.pass(&mut random, true);
        sent += u32::from(scene.viewer.frame(Scenery { history: &scene.history, now: scene.now }).is_some());
    }
    assert_eq!(sent, 2);
    let frames = [r#"{"type":"shown","frame":0}"#, r#"{"type":"shown","frame":1}"#];
    frames.iter().for_each(|shown| scene.say(shown).unwrap());
    scene.pass(&mut random, true);
    let frame = scene.frame().unwrap();
    assert!(frame.thinned_further && frame.anew && frame.dropped_frames > 90);
    assert!(frame.count <= 27, "{} columns", frame.count);
    scene.check(&frame, 1);
}

#[test]
fn bounds_are_said_and_a_number_is_of_one_view() {
    let (mut random, mut scene) = (Random::new(1), Scene::new());
    scene.pass(&mut random, true);
    for bad in [
        request(0, SECOND, None),
        request(MAX_PAGE_COLUMNS + 1, SECOND, None),
        request(1, 0, None),
        request(1, MAX_SPAN_NS + 1, None),
        planes::request("[0,0,0,0,0,0,0]", None),
        request(1, 1, None).replace(r#""bins":100"#, r#""bins":0"#),
    ] {
        assert!(scene.say(&bad).is_err(), "{bad}");
    }
    scene.say(&request(1, 1, None)).unwrap();
    scene.say(&request(1, MAX_SPAN_NS, None)).unwrap();
    scene.frame().unwrap();
    scene.say(&request(1, SECOND, None).replace(r#""channel":"x""#, r#""channel":"y""#)).unwrap();
    scene.wait();
    assert_eq!(scene.frame().unwrap().state, TraceState::Unknown);
    let picture = r#"{"type":"picture","view":1,"stream":"lab/x","channel":"x","width_px":9,"height_px":9,"end_ns":null}"#;
    scene.say(picture).unwrap();
    scene.wait();
    let bytes = scene.viewer.frame(Scenery { history: &scene.history, now: scene.now }).unwrap();
    assert_eq!(wire::PictureFrame::decode(&bytes).unwrap().view, 1);
    scene.say(r#"{"type":"close","view":1}"#).unwrap();
    assert!(!scene.viewer.watches());
}

#[test]
fn a_picture_that_live_memory_does_not_have_comes_from_the_archive() {
    let mut scene = Scene::new();
    let blocks = (0..50).map(|index| scene.block(index, [index as f32; BINS])).collect();
    let archived = Archived { blocks, ..Archived::default() };
    let ask = |end: i64| {
        format!(
            r#"{{"type":"picture","view":1,"stream":"lab/x","channel":"x","width_px":9,"height_px":9,"end_ns":{end}}}"#
        )
    };
    let picture = |scene: &mut Scene| {
        scene.now.steady += Duration::from_secs(1);
        scene.ask(&archived);
        let bytes = scene.viewer.frame(Scenery { history: &scene.history, now: scene.now }).unwrap();
        let frame = wire::PictureFrame::decode(&bytes).unwrap();
        scene.say(&format!(r#"{{"type":"shown","frame":{}}}"#, frame.frame)).unwrap();
        frame.sample.map(|sample| sample.index)
    };
    for (after_s, shown) in [(3, 30), (3_000, 49)] {
        let end = scene::time_of(&scene.info, 0).offset(after_s * SECOND).as_nanos();
        scene.say(&ask(end)).unwrap();
        assert_eq!(picture(&mut scene), Some(shown));
    }
    scene.say(&ask(scene::time_of(&scene.info, 0).as_nanos() - 1)).unwrap();
    assert_eq!(picture(&mut scene), None);
    let before = archived.asked();
    scene.now.steady += Duration::from_secs(1);
    assert_eq!(scene.ask(&archived), 0, "asked once");
    assert_eq!(archived.asked(), before);
}

#[test]
fn a_column_of_which_both_sources_have_a_part_is_that_of_all_its_samples() {
    let mut joined = 0;
    for seed in 0..60 {
        let (mut random, mut scene) = (Random::new(seed), Scene::new());
        let (count, mut archived) = (400 + random.below(800), Archived::default());
        let begin = random.below(count - 1);
        // What the recorder had written when it ended, at the border or later.
        let recorded = begin + if random.chance(0.5) { random.below(100) } else { 0 };
        let reader = BinReader::new(&scene.info.schema, 0, 0, BINS as u32);
        let span = SECOND * (20 + random.below(100) as i64);
        scene.say(&request(10 + random.below(60) as u32, span, None)).unwrap();
        let width = scene.frame().unwrap().column_ns;
        let mut whole = sample::Waterfall::of_stretch(&scene.info.schema, reader, width, 0..i64::MAX);
        for index in 0..count {
            scene.wait();
            scene.now.wall = scene::time_of(&scene.info, index);
            // The last sample before the border and the first behind it may be lost, too.
            if index > 0 && index < count - 1 && random.chance(0.2) {
                continue;
            }
            let block = scene.block(index, [(); BINS].map(|()| random.below(1_000) as f32));
            whole.push(&block);
            if index >= begin {
                scene.history.block(&block, scene.now);
            }
            if index < recorded {
                archived.blocks.push(block);
            }
        }
        scene.now.steady += Duration::from_secs(1);
        assert!(scene.frame().is_some());
        scene.ask(&archived);
        scene.now.steady += Duration::from_secs(1);
        // Without an answer there is nothing new: the window is all in live memory.
        let Some(frame) = scene.frame() else { continue };
        assert_eq!(frame.column_ns, width, "seed {seed}");
        let numbers = frame.first..frame.first + i64::from(frame.count);
        let wanted = whole.columns(width, numbers.clone(), 1);
        let told = |column: &WaterfallColumn| {
            // Whether the window begins with a hole, its samples do not tell.
            let due = (column.number > numbers.start).then_some(column.expected);
            (column.number, column.present, due, column.bins.to_vec())
        };
        let shown: Vec<_> = scene.page.values().map(told).collect();
        assert_eq!(shown, wanted.iter().map(told).collect::<Vec<_>>(), "seed {seed}");
        joined += u32::from(scene.page.len() > 1);
    }
    assert!(joined > 20, "{joined} windows of both");
}
