//! Tables: what their rows have, which rows are sent, and that the account knows nothing of them.

use super::*;
use crate::history::History;
use crate::scene::{self, Archived, SECOND};
use crate::stored::StoreFailure;
use crate::viewer::PageMessage;
use sample::{Block, Channel, SampleBuffer};
use tallycast::StreamInfo;
use units::Random;

struct Scene {
    history: History,
    viewer: Viewer,
    now: Moment,
}

/// A stream at 10 Hz.
struct Stream {
    info: Arc<StreamInfo>,
    next_index: u64,
}

impl Stream {
    fn new(name: &str, dtype: Dtype, channels: Vec<Channel>) -> Self {
        let schema = Schema::new(dtype, "10".parse().unwrap(), channels).unwrap();
        let info = StreamInfo { schema: Arc::new(schema), ..scene::info(name, 10) };
        Self { info: Arc::new(info), next_index: 0 }
    }

    fn block(&mut self, bytes: &[u8]) -> Block {
        let block = scene::block(&self.info, self.next_index, &[0.0]);
        self.next_index += 1;
        Block { data: SampleBuffer::from_bytes(bytes), ..block }
    }
}

impl Scene {
    fn new(streams: &[&Stream]) -> Self {
        let (history, now) = (History::default(), scene::moment(WallTime::from_nanos(100 * SECOND)));
        streams.iter().for_each(|stream| history.begin(&stream.info, now));
        Self { history, viewer: Viewer::new(7, Arc::default()), now }
    }

    /// A tenth of a second later.
    fn pass(&mut self) {
        self.now.steady += Duration::from_millis(100);
        self.now.wall = self.now.wall.offset(SECOND / 10);
    }

    fn take(&mut self, block: &Block) {
        self.history.block(block, self.now);
    }

    fn say(&mut self, message: &str) -> Result<(), String> {
        let message: PageMessage = serde_json::from_str(message).unwrap();
        message.check()?;
        self.viewer.handle(message)
    }

    fn ask(&mut self, traces: &[(&str, &str)], end_ns: Option<i64>) {
        let traces: Vec<_> = traces
            .iter()
            .map(|(stream, channel)| serde_json::json!({"stream": stream, "channel": channel}))
            .collect();
        let ask = serde_json::json!({"type": "values", "view": 1, "traces": traces, "end_ns": end_ns});
        self.say(&ask.to_string()).unwrap();
    }

    fn frame(&mut self) -> Option<ValuesFrame> {
        let bytes = self.viewer.frame(Scenery { history: &self.history, now: self.now })?;
        let frame = ValuesFrame::decode(&bytes).unwrap();
        self.say(&format!(r#"{{"type":"shown","frame":{}}}"#, frame.frame)).unwrap();
        Some(frame)
    }

    /// Asks the archive what the viewer wants to know; returns the number of questions.
    fn ask_store(&mut self, store: &Archived) -> usize {
        let questions = self.viewer.sample_questions(Scenery { history: &self.history, now: self.now });
        let answers: Vec<_> = questions.into_iter().map(|it| it.answer(store)).collect();
        let count = answers.len();
        self.viewer.took_samples(answers);
        count
    }

    /// The samples of the rows of the next frame.
    fn samples(&mut self) -> Vec<ValueSample> {
        self.frame().unwrap().rows.into_iter().map(|row| row.sample.unwrap()).collect()
    }
}

fn bytes_of<const N: usize>(values: impl IntoIterator<Item = [u8; N]>) -> Vec<u8> {
    values.into_iter().flatten().collect()
}

/// One sample of one channel of this dtype, as a table has it.
fn shown(dtype: Dtype, channel: Channel, bytes: &[u8]) -> ValueSample {
    let mut stream = Stream::new("lab/x", dtype, vec![channel]);
    let mut scene = Scene::new(&[&stream]);
    scene.take(&stream.block(bytes));
    scene.ask(&[("lab/x", "x")], None);
    scene.samples().remove(0)
}

#[test]
fn every_dtype_has_its_values_whole() {
    let x = || Channel::new("x", "V");
    let values = |dtype, bytes: &[u8]| shown(dtype, x(), bytes).values;
    assert_eq!(values(Dtype::F8, &0.1_f64.to_le_bytes()), Values::Double(vec![0.1]));
    assert_eq!(values(Dtype::F4, &0.1_f32.to_le_bytes()), Values::Double(vec![f64::from(0.1_f32)]));
    assert_eq!(values(Dtype::I64, &i64::MIN.to_le_bytes()), Values::Signed(vec![i64::MIN]));
    assert_eq!(values(Dtype::I8, &(-3_i8).to_le_bytes()), Values::Signed(vec![-3]));
    assert_eq!(values(Dtype::I16, &300_i16.to_le_bytes()), Values::Signed(vec![300]));
    assert_eq!(values(Dtype::U64, &u64::MAX.to_le_bytes()), Values::Unsigned(vec![u64::MAX]));
    assert_eq!(values(Dtype::U16, &0xffff_u16.to_le_bytes()), Values::Unsigned(vec![0xffff]));
    assert_eq!(values(Dtype::Bool, &[2]), Values::Bool(vec![true]));
    let complex = shown(Dtype::C8, x(), &bytes_of([3.0_f32, -4.0].map(f32::to_le_bytes)));
    assert_eq!((complex.values, complex.range), (Values::Complex(vec![[3.0, -4.0]]), [5.0; 2]));
    let scaled = shown(Dtype::I16, x().with_scale(0.5, 1.0), &7_i16.to_le_bytes());
    assert_eq!(scaled.values, Values::Double(vec![4.5]), "in the channel's unit");
    let nan = shown(Dtype::F8, x(), &f64::NAN.to_le_bytes());
    assert!(matches!(&nan.values, Values::Double(values) if values[0].is_nan()));
    assert!(nan.range[0].is_nan() && nan.range[1].is_nan());
}

#[test]
fn a_vector_has_its_first_elements_its_extremes_and_what_is_lost_of_it() {
    let field = vec![Channel::new("t", "s"), Channel::new("x", "V").with_shape([2, 3])];
    let mut stream = Stream::new("lab/x", Dtype::F4, field);
    let mut scene = Scene::new(&[&stream]);
    let mut block =
        stream.block(&bytes_of([9.0_f32, 1.0, 2.0, f32::NAN, 4.0, -5.0, 6.0].map(f32::to_le_bytes)));
    block.missing.insert(0..1);
    block.missing.insert(2..3);
    block.missing.insert(6..7);
    scene.take(&block);
    scene.ask(&[("lab/x", "x"), ("lab/x", "x[4]"), ("lab/x", "t")], None);
    let rows = scene.samples();
    let [vector, element, time] = &rows[..] else { panic!("three rows") };
    assert_eq!((vector.elements, vector.lost_elements, vector.lost_values), (6, 2, 0b0010));
    assert_eq!(vector.range, [-5.0, 4.0], "without the lost ones and NaN");
    assert!(matches!(&vector.values, Values::Double(values) if values.len() == 4 && values[3] == 4.0));
    assert_eq!((element.elements, &element.values), (1, &Values::Double(vec![-5.0])));
    assert_eq!((time.lost_elements, time.lost_values), (1, 1));
    assert!(time.range[0].is_nan());
}

#[test]
fn a_hundred_channels_cost_a_row_for_each_that_has_changed() {
    let name = |index: usize| format!("lab/{index}");
    let mut streams: Vec<_> =
        (0..100).map(|index| Stream::new(&name(index), Dtype::F8, vec![Channel::new("x", "V")])).collect();
    let mut scene = Scene::new(&streams.iter().collect::<Vec<_>>());
    for stream in &mut streams {
        scene.take(&stream.block(&1.0_f64.to_le_bytes()));
    }
    let names: Vec<_> = (0..100).map(name).collect();
    scene.ask(&names.iter().map(|name| (&**name, "x")).collect::<Vec<_>>(), None);
    let first = scene.frame().unwrap();
    assert_eq!((first.rows.len(), first.whole, first.live), (100, true, true));
    let mut random = Random::new(1);
    for _ in 0..200 {
        scene.pass();
        let mut changed: Vec<usize> = (0..random.below(4)).map(|_| random.below(100) as usize).collect();
        changed.sort_unstable();
        changed.dedup();
        for index in &changed {
            scene.take(&streams[*index].block(&1.0_f64.to_le_bytes()));
        }
        let frame = scene.frame();
        let rows = frame.iter().flat_map(|frame| &frame.rows).filter(|row| row.state == TraceState::Ok);
        assert_eq!(rows.map(|row| usize::from(row.index)).collect::<Vec<_>>(), changed);
        assert!(frame.is_none_or(|frame| !frame.whole));
    }
    let account = scene.viewer.browser_account();
    assert_eq!(account["lost_elements"], serde_json::json!({}), "a table asks for the newest alone");
}

#[test]
fn frames_come_at_most_ten_times_a_second_and_wait_for_credit_without_a_drop() {
    let mut stream = Stream::new("lab/x", Dtype::F8, vec![Channel::new("x", "V")]);
    let mut scene = Scene::new(&[&stream]);
    scene.ask(&[("lab/x", "x")], None);
    let mut frames = 0;
    for _ in 0..100 {
        scene.now.steady += Duration::from_millis(10);
        scene.take(&stream.block(&1.0_f64.to_le_bytes()));
        frames += u32::from(scene.frame().is_some());
    }
    assert_eq!(frames, 10);
    let mut without_credit = Vec::new();
    for value in 0..9 {
        scene.pass();
        scene.take(&stream.block(&f64::from(value).to_le_bytes()));
        without_credit.extend(scene.viewer.frame(Scenery { history: &scene.history, now: scene.now }));
    }
    assert_eq!(without_credit.len(), 2);
    let last = ValuesFrame::decode(&without_credit[1]).unwrap();
    scene.say(&format!(r#"{{"type":"shown","frame":{}}}"#, last.frame)).unwrap();
    scene.pass();
    let frame = scene.frame().unwrap();
    assert_eq!(
        frame.rows[0].sample.as_ref().unwrap().values,
        Values::Double(vec![8.0]),
        "the newest by then"
    );
    assert_eq!(frame.dropped_frames, 0);
}

#[test]
fn a_silent_stream_is_told_once_and_an_unknown_channel_has_no_sample() {
    let mut stream = Stream::new("lab/x", Dtype::F8, vec![Channel::new("x", "V")]);
    let mut scene = Scene::new(&[&stream]);
    scene.take(&stream.block(&1.0_f64.to_le_bytes()));
    scene.ask(&[("lab/x", "x"), ("lab/x", "y"), ("elsewhere", "x")], None);
    let states = |frame: &ValuesFrame| frame.rows.iter().map(|row| row.state).collect::<Vec<_>>();
    let frame = scene.frame().unwrap();
    assert_eq!(states(&frame), [TraceState::Ok, TraceState::Unknown, TraceState::Unknown]);
    assert_eq!(frame.rows[1].sample, Err(NoSample::NotKept));
    assert_eq!(frame.rows[2].sample, Err(NoSample::NotKept));
    let mut told = Vec::new();
    for _ in 0..100 {
        scene.pass();
        told.extend(scene.frame());
    }
    assert_eq!(told.len(), 1);
    assert_eq!((states(&told[0]), told[0].rows[0].index), (vec![TraceState::Stale], 0));
    assert!(told[0].rows[0].sample.is_ok(), "its last value is kept");
}

#[test]
fn in_the_past_a_row_has_the_newest_sample_before_or_the_extremes_that_are_kept() {
    let mut stream = Stream::new("lab/x", Dtype::F8, vec![Channel::new("x", "V")]);
    let mut scene = Scene::new(&[&stream]);
    let count: u64 = 20_000;
    for index in 0..count {
        let value = index as f64;
        scene.take(&stream.block(&value.to_le_bytes()));
    }
    let time = |index: u64| scene::time_of(&stream.info, index);
    let mut at = |end: WallTime| {
        scene.pass();
        scene.ask(&[("lab/x", "x")], Some(end.as_nanos()));
        scene.frame().unwrap().rows.remove(0).sample
    };
    let newest = at(time(count + 5)).unwrap();
    assert_eq!((newest.time, newest.values), (time(count - 1), Values::Double(vec![19_999.0])));
    let held = at(time(count - 300)).unwrap();
    assert_eq!(
        (held.time, held.values),
        (time(count - 300), Values::Double(vec![19_700.0])),
        "that very one"
    );
    let between = at(time(count - 300).offset(1)).unwrap();
    assert_eq!(between.time, time(count - 300), "none after it");
    let old = at(time(1_000)).unwrap();
    assert_eq!((old.values, old.time), (Values::Span, time(1_000)));
    assert!(
        old.range[0] <= 1_000.0 && old.range[1] >= 900.0 && old.range[1] - old.range[0] < 200.0,
        "{:?}",
        old.range
    );
    assert_eq!(at(time(0).offset(-1)), Err(NoSample::NotKept));
}

#[test]
fn a_table_has_at_most_as_many_channels_as_a_view() {
    let mut scene = Scene::new(&[]);
    let traces = vec![serde_json::json!({"stream": "a", "channel": "b"}); MAX_TRACES + 1];
    let refused = scene
        .say(&serde_json::json!({"type": "values", "view": 1, "traces": traces, "end_ns": null}).to_string());
    assert!(refused.unwrap_err().contains("at most 100 channels"));
}

#[test]
fn a_view_that_becomes_a_table_keeps_its_credit_and_its_number() {
    let mut stream = Stream::new("lab/x", Dtype::F8, vec![Channel::new("x", "V")]);
    let mut scene = Scene::new(&[&stream]);
    scene.take(&stream.block(&1.0_f64.to_le_bytes()));
    scene.say(
        r#"{"type":"picture","view":1,"stream":"lab/x","channel":"x","width_px":9,"height_px":9,"end_ns":null}"#,
    )
    .unwrap();
    scene.ask(&[("lab/x", "x")], None);
    assert_eq!(scene.frame().unwrap().rows.len(), 1);
    assert_eq!(scene.viewer.streams().count(), 1);
    scene.say(r#"{"type":"close","view":1}"#).unwrap();
    assert!(!scene.viewer.watches());
}

/// A random stream of three channels of this dtype, of which live memory has the samples from `live_from` on and the
/// archive some of all.
fn recorded(random: &mut Random, dtype: Dtype, live_from: u64, count: u64) -> (Stream, Scene, Archived) {
    let channels = ["x", "y", "z"].map(|name| Channel::new(name, "V"));
    let channels = channels.into_iter().zip([1, 6, 1]).map(|(channel, elements)| match elements {
        1 => channel,
        many => channel.with_shape([many]),
    });
    let mut stream = Stream::new("lab/x", dtype, channels.collect());
    let (mut scene, mut archived) = (Scene::new(&[&stream]), Archived::default());
    while stream.next_index < count {
        let size = stream.info.schema.sample_bytes();
        let bytes: Vec<u8> = (0..size).map(|_| random.below(120) as u8).collect();
        let block = stream.block(&bytes);
        if block.first_index >= live_from {
            scene.take(&block);
        }
        if random.chance(0.7) {
            archived.blocks.push(block);
        }
    }
    (stream, scene, archived)
}

/// Returns the newest of some blocks at or before a time, as a table has it.
fn newest_of<'a>(
    blocks: impl IntoIterator<Item = &'a Block>,
    name: &str,
    end: WallTime,
) -> Option<ValueSample> {
    let block = blocks.into_iter().filter(|block| block.t0 <= end).max_by_key(|block| block.t0)?;
    let (channel, elements) = channel_of(&block.schema, name).unwrap();
    Some(whole(&NewestSample::of(block), &block.schema, channel, elements))
}

#[test]
fn in_the_past_a_row_has_the_sample_of_the_archive_unless_live_memory_has_a_newer_one() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let dtype = [Dtype::F8, Dtype::F4, Dtype::I16, Dtype::C8, Dtype::Bool][random.below(5) as usize];
        let live_from = random.below(300);
        let (stream, mut scene, archived) = recorded(&mut random, dtype, live_from, 300);
        let names = ["x", "y", "y[4]", "z"];
        for _ in 0..20 {
            // Half a period more or less, from before the first to behind the last.
            let tenths = random.below(6_200) as i64 - 100;
            let end = scene::time_of(&stream.info, 0).offset(tenths * SECOND / 200);
            scene.ask(&names.map(|name| ("lab/x", name)), Some(end.as_nanos()));
            scene.pass();
            scene.now.steady += Duration::from_secs(1);
            scene.now.wall = end.offset(100 * SECOND);
            let asked = scene.ask_store(&archived);
            let rows = scene.frame().unwrap().rows;
            assert_eq!(rows.len(), names.len());
            for (row, name) in rows.iter().zip(names) {
                let stored = newest_of(&archived.blocks, name, end);
                let newest = (0..300).rev().find(|at| scene::time_of(&stream.info, *at) <= end);
                // An element is kept from the first request on, and the newest sample whole.
                let is_kept = |at: &u64| *at >= live_from && (name != "y[4]" || *at == 299);
                let live = newest.filter(is_kept).map(|at| scene::time_of(&stream.info, at));
                match (&row.sample, stored, live) {
                    (Ok(shown), Some(stored), live) if live.is_none_or(|live| live <= stored.time) => {
                        assert_eq!(*shown, stored, "seed {seed} {dtype:?} {name}");
                    }
                    (Ok(shown), _, Some(live)) => {
                        assert_eq!(shown.time, live, "seed {seed} {dtype:?} {name}")
                    }
                    (Err(reason), None, None) => assert_eq!(*reason, NoSample::NotRecorded, "seed {seed}"),
                    other => panic!("seed {seed} {dtype:?} {name}: {other:?}"),
                }
            }
            assert!(asked <= 1, "one question for all channels of a stream");
        }
    }
}

#[test]
fn a_row_without_a_sample_says_why() {
    let mut stream = Stream::new("lab/x", Dtype::F8, vec![Channel::new("x", "V")]);
    let mut scene = Scene::new(&[&stream]);
    stream.next_index = 100;
    scene.take(&stream.block(&1.0_f64.to_le_bytes()));
    let end = scene::time_of(&stream.info, 50);
    let reason = |scene: &mut Scene| scene.frame().unwrap().rows.remove(0).sample.unwrap_err();
    scene.ask(&[("lab/x", "x")], Some(end.as_nanos()));
    assert_eq!(reason(&mut scene), NoSample::NotKept, "there is no archive");
    let unreadable = Some(StoreFailure::Unreadable("no disk".to_owned()));
    let lost = scene::gap(&stream.info, 1, 40..60, ledger::StageCounts::of(ledger::Stage::Network, 20));
    let absence = KnownGap { kind: tallycast::GapKind::ReaderAbsent, ..KnownGap::from(&lost) };
    for (archived, said) in [
        (Archived { gaps: vec![KnownGap::from(&lost)], ..Archived::default() }, NoSample::Lost),
        (Archived { failure: unreadable, ..Archived::default() }, NoSample::Unreadable),
        (Archived { gaps: vec![absence], ..Archived::default() }, NoSample::NotRecorded),
    ] {
        scene.now.steady += Duration::from_secs(1);
        scene.ask(&[("lab/x", "x")], Some(end.as_nanos() + 1));
        scene.ask(&[("lab/x", "x")], Some(end.as_nanos()));
        let questions = scene.viewer.sample_questions(Scenery { history: &scene.history, now: scene.now });
        assert_eq!(reason(&mut scene), NoSample::Asked);
        let answers: Vec<_> = questions.into_iter().map(|it| it.answer(&archived)).collect();
        scene.viewer.took_samples(answers);
        scene.pass();
        assert_eq!(reason(&mut scene), said);
    }
    // What live memory knows to be lost is said also if no archive has it.
    scene.history.gap(&lost, scene.now);
    scene.pass();
    assert_eq!(reason(&mut scene), NoSample::Lost);
}

#[test]
fn a_table_that_follows_asks_no_archive_and_a_recording_of_a_stream_that_is_gone_is_shown() {
    let mut stream = Stream::new("lab/x", Dtype::I64, vec![Channel::new("x", "V")]);
    let mut scene = Scene::new(&[]);
    let archived = Archived { blocks: vec![stream.block(&i64::MAX.to_le_bytes())], ..Archived::default() };
    scene.ask(&[("lab/x", "x")], None);
    assert_eq!(scene.ask_store(&archived), 0);
    assert_eq!(scene.frame().unwrap().rows[0].sample, Err(NoSample::NotKept));
    let end = scene::time_of(&stream.info, 7_000_000).as_nanos();
    scene.ask(&[("lab/x", "x"), ("lab/x", "y")], Some(end));
    scene.now.wall = WallTime::from_nanos(end + 60 * SECOND);
    assert_eq!(scene.ask_store(&archived), 1);
    scene.pass();
    let rows = scene.frame().unwrap().rows;
    let sample = rows[0].sample.as_ref().unwrap();
    assert_eq!((rows[0].state, &sample.values), (TraceState::Ended, &Values::Signed(vec![i64::MAX])));
    assert_eq!((rows[1].state, &rows[1].sample), (TraceState::Unknown, &Err(NoSample::NotRecorded)));
}

#[test]
fn what_a_recorder_may_not_have_written_yet_is_asked_for_again_and_nothing_else() {
    let mut stream = Stream::new("lab/x", Dtype::F8, vec![Channel::new("x", "V")]);
    let mut scene = Scene::new(&[]);
    let mut archived = Archived { blocks: vec![stream.block(&1.0_f64.to_le_bytes())], ..Archived::default() };
    let end = scene::time_of(&stream.info, 1);
    scene.now.wall = end.offset(SECOND);
    scene.ask(&[("lab/x", "x")], Some(end.as_nanos()));
    let value = |scene: &mut Scene| scene.frame().map(|frame| frame.rows[0].sample.clone().unwrap().values);
    scene.ask_store(&archived);
    assert_eq!(value(&mut scene), Some(Values::Double(vec![1.0])));
    archived.blocks.push(stream.block(&2.0_f64.to_le_bytes()));
    for _ in 0..300 {
        scene.pass();
        scene.ask_store(&archived);
    }
    assert_eq!(archived.asked(), 2);
    assert_eq!(value(&mut scene), Some(Values::Double(vec![2.0])));
    // The same time with one more row: the answers stay, and the new row alone is asked for.
    scene.ask(&[("lab/y", "x"), ("lab/x", "x")], Some(end.as_nanos()));
    scene.pass();
    assert_eq!(scene.ask_store(&archived), 1);
    let rows = scene.frame().unwrap().rows;
    assert_eq!((rows.len(), rows[0].sample.is_err(), rows[1].sample.is_ok()), (2, true, true));
    // An answer for another time is of no use, and does not keep the table from asking.
    let questions = |scene: &mut Scene| {
        scene.now.steady += Duration::from_secs(1);
        scene.viewer.sample_questions(Scenery { history: &scene.history, now: scene.now })
    };
    scene.ask(&[("lab/x", "x")], Some(end.as_nanos() - 1));
    let before = questions(&mut scene);
    scene.ask(&[("lab/x", "x")], Some(end.as_nanos() - 2));
    assert!(questions(&mut scene).is_empty(), "one question at a time");
    scene.viewer.took_samples(before.into_iter().map(|it| it.answer(&archived)).collect());
    let frame = scene.frame().unwrap();
    assert_eq!(frame.rows[0].sample, Err(NoSample::NotKept));
    assert_eq!(scene.ask_store(&archived), 1);
    scene.pass();
    assert_eq!(value(&mut scene), Some(Values::Double(vec![1.0])));
}

#[test]
fn where_live_memory_has_extremes_the_archive_has_the_sample() {
    let mut stream = Stream::new("lab/x", Dtype::F8, vec![Channel::new("x", "V")]);
    let (mut scene, mut archived) = (Scene::new(&[&stream]), Archived::default());
    for index in 0..20_000 {
        let block = stream.block(&f64::from(index).to_le_bytes());
        scene.take(&block);
        archived.blocks.extend((900..=1_000).contains(&index).then_some(block));
    }
    for (at, has) in [(1_000, Some(1_000.0)), (1_400, None)] {
        scene.ask(&[("lab/x", "x")], Some(scene::time_of(&stream.info, at).as_nanos()));
        scene.now.steady += Duration::from_secs(1);
        assert_eq!(scene.ask_store(&archived), 1);
        let shown = scene.samples().remove(0).values;
        // Live memory knows that there are newer ones than the newest of the archive.
        assert_eq!(shown, has.map_or(Values::Span, |value| Values::Double(vec![value])), "{at}");
    }
}
