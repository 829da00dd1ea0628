//! Tables: what their rows have, which rows are sent, and that the account knows nothing of them.

use super::*;
use crate::history::History;
use crate::scene::{self, SECOND};
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
    assert!(frame.rows[1].sample.is_none() && frame.rows[2].sample.is_none());
    let mut told = Vec::new();
    for _ in 0..100 {
        scene.pass();
        told.extend(scene.frame());
    }
    assert_eq!(told.len(), 1);
    assert_eq!((states(&told[0]), told[0].rows[0].index), (vec![TraceState::Stale], 0));
    assert!(told[0].rows[0].sample.is_some(), "its last value is kept");
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
    assert!(at(time(0).offset(-1)).is_none());
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
