//! Whole samples on a real page's connection.

use sample::Pixels;
use support::wait_until;
use tallycast::{Bus, Channel, Dtype, Node, Publisher, WallTime};

use crate::scene::{Page, bus, get, has_data, monitor, node};

const PERIOD_NS: i64 = 50_000_000;

/// A publisher of temperature fields of 32 × 48, beside a time. Its samples' times follow from their count.
struct Plate {
    publisher: Publisher,
    t0: WallTime,
    /// Dropped behind the publisher.
    _node: Node,
}

impl Plate {
    fn open(bus: &Bus) -> Self {
        Self::labelled(bus, [])
    }

    fn labelled<const N: usize>(bus: &Bus, labels: [(&str, &str); N]) -> Self {
        let node = node(bus);
        let field = Channel::new("temperature", "°C").with_shape([32, 48]).with_scale(2.0, -1.0);
        let builder = node.publisher("lab/plate").dtype(Dtype::F4).rate(20_u32);
        let builder = labels.into_iter().fold(builder, |builder, (name, value)| builder.label(name, value));
        let publisher = builder.channel(Channel::new("t", "s")).channel(field).open().unwrap();
        Self { publisher, t0: WallTime::from_nanos(1_795_262_400_000_000_000), _node: node }
    }

    /// Publishes a field whose elements are all `value`, but the first, which is no number; returns its index.
    fn publish(&mut self, value: f32) -> u64 {
        let mut sample = vec![value; 1 + 32 * 48];
        sample[1] = f32::NAN;
        let bytes: Vec<u8> = sample.iter().flat_map(|value| value.to_le_bytes()).collect();
        let index = self.publisher.next_index();
        let time = self.t0.offset(index as i64 * PERIOD_NS);
        self.publisher.send_bytes_at(time, &bytes).unwrap();
        index
    }
}

fn picture(view: u32, channel: &str, width: u32) -> String {
    format!(
        r#"{{"type":"picture","view":{view},"stream":"lab/plate","channel":"{channel}","width_px":{width},"height_px":64,"end_ns":null}}"#
    )
}

#[test]
fn a_page_sees_the_newest_field_whole_and_reduced() {
    let bus = bus();
    let monitor = monitor(&bus);
    let mut plate = Plate::open(&bus);
    // A reader may miss a stream's beginning.
    wait_until("a field", || {
        plate.publish(1.0);
        let catalogue = get(monitor.address(), "/api/streams").json();
        catalogue["streams"].as_array().unwrap().iter().any(has_data).then_some(())
    });
    let mut page = Page::open(monitor.address());
    page.say(&picture(1, "temperature", 100));
    page.say(&picture(2, "temperature", 6));
    page.say(&picture(3, "elsewhere", 6));
    page.picture(|frame| frame.view == 1);
    let none = page.picture(|frame| frame.view == 3);
    assert_eq!(none.state, wire::TraceState::Unknown);
    let index = plate.publish(3.0);
    let is_newest =
        |frame: &wire::PictureFrame, index| frame.sample.as_ref().is_some_and(|it| it.index == index);
    let whole = page.picture(|frame| frame.view == 1 && is_newest(frame, index)).sample.unwrap();
    assert_eq!((whole.size, whole.range), ([32, 48], [5.0, 5.0]));
    let Pixels::Values(values) = whole.picture.pixels else { panic!("values") };
    assert!(values[0].is_nan() && values[1..].iter().all(|value| *value == 5.0));
    let index = plate.publish(4.0);
    let reduced = page.picture(|frame| frame.view == 2 && is_newest(frame, index)).sample.unwrap().picture;
    assert_eq!((reduced.rows, reduced.columns, reduced.block), (32, 6, [1, 8]));
    assert_eq!(
        reduced.pixels,
        Pixels::Values(vec![7.0; 32 * 6]),
        "what is no number does not spoil its block"
    );
    page.say(
        r#"{"type":"values","view":5,"traces":[{"stream":"lab/plate","channel":"temperature"}],"end_ns":null}"#,
    );
    let table = page.values(|frame| frame.whole).rows.remove(0).sample.unwrap();
    assert_eq!((table.elements, table.range), (32 * 48, [7.0, 7.0]), "at once, without another sample");
    page.say(&picture(4, "temperature", 0));
    let note = page.text("note", |_| true);
    assert!(note["text"].as_str().unwrap().contains("1 to 16384 rows and columns"), "{note}");
    let account = get(monitor.address(), "/api/account?stream=lab/plate").json();
    assert_eq!(account["elements"]["lost"], serde_json::json!({}));
}

#[test]
fn a_page_sees_fields_over_time_each_column_once() {
    let bus = bus();
    let monitor = monitor(&bus);
    // Samples over time of spectra are kept before a page asks for them.
    let mut plate = Plate::labelled(&bus, [("spectrum_bin_hz", "0.5")]);
    wait_until("a field", || {
        plate.publish(1.0);
        let catalogue = get(monitor.address(), "/api/streams").json();
        catalogue["streams"].as_array().unwrap().iter().any(has_data).then_some(())
    });
    let mut page = Page::open(monitor.address());
    let end = plate.t0.offset(3_600_000_000_000).as_nanos();
    page.say(&format!(
        r#"{{"type":"waterfall","view":1,"stream":"lab/plate","channel":"temperature","columns":1000,"bins":24,"span_ns":3600000000000,"end_ns":{end}}}"#
    ));
    let first = page.waterfall(|frame| frame.anew);
    assert_eq!((first.bins, first.block, first.elements, first.rows), (24, 2, 48, 32));
    assert!(!first.columns.is_empty(), "what was before the page came");
    plate.publish(3.0);
    // Of this width a column has 85 fields: it is sent again with the next one.
    let next = page.waterfall(|frame| frame.columns.iter().any(|column| column.bins.contains(&5.0)));
    assert!(!next.anew && next.columns.len() <= 2, "{} columns", next.columns.len());
    page.say(r#"{"type":"waterfall","view":1,"stream":"lab/plate","channel":"temperature","columns":0,"bins":1,"span_ns":1,"end_ns":null}"#);
    let note = page.text("note", |_| true);
    assert!(note["text"].as_str().unwrap().contains("1 to 16384 columns and bins"), "{note}");
}
