//! Answers for programs: ranges, pictures, gaps, accounts, metrics.

use std::collections::BTreeSet;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_ipc::reader::StreamReader;
use serde_json::Value;
use support::wait_until;
use tallycast::Stage;

use crate::accounts::sum;
use crate::scene::{Feed, Page, bus, get, has_data, listed, monitor};

#[test]
fn a_range_comes_as_json_and_as_arrow_with_the_same_values() {
    let bus = bus();
    let monitor = monitor(&bus);
    let _feed = Feed::start(&bus, "lab/x", 0.0, |index| index as f64);
    let address = monitor.address();
    let stream = listed(address, "lab/x", |stream| stream["next_index"].as_u64() > Some(1_000));
    let to = stream["newest_ns"].as_i64().unwrap() - 100_000_000;
    let path = format!("/api/range?stream=lab/x&channel=x&from={}&to={to}&points=50", to - 500_000_000);
    let json = get(address, &path).json();
    assert_eq!(
        (&json["unit"], &json["origin"], &json["thinned"]),
        (&"V".into(), &"live".into(), &true.into())
    );
    let columns = json["columns"].as_array().unwrap();
    assert_eq!(columns.len(), 50);
    assert!(columns.iter().all(|column| column[3].as_f64() >= column[2].as_f64()), "{json}");
    let arrow = get(address, &format!("{path}&format=arrow"));
    assert!(arrow.head.contains("application/vnd.apache.arrow.stream"), "{}", arrow.head);
    let mut reader = StreamReader::try_new(arrow.body.as_slice(), None).unwrap();
    assert_eq!(reader.schema().metadata()["unit"], "V");
    let batch = reader.next().unwrap().unwrap();
    let max = batch.column_by_name("max").unwrap().as_primitive::<Float64Type>();
    let expected: Vec<f64> = columns.iter().map(|column| column[3].as_f64().unwrap()).collect();
    assert_eq!(max.values(), expected.as_slice());
}

#[test]
fn a_range_has_every_digit_of_the_stream() {
    let bus = bus();
    let monitor = monitor(&bus);
    let value = |index: u64| 499_654_096.6 + 0.001 * (index % 150) as f64;
    let _feed = Feed::start(&bus, "lab/x", 0.0, value);
    let long_enough = |stream: &Value| has_data(stream) && stream["next_index"].as_u64() > Some(300);
    let to = listed(monitor.address(), "lab/x", long_enough)["newest_ns"].as_i64().unwrap();
    let path = format!("/api/range?stream=lab/x&channel=x&from={}&to={to}&points=16384", to - 200_000_000);
    let json = get(monitor.address(), &path).json();
    let columns = json["columns"].as_array().unwrap().iter().filter(|column| !column.is_null());
    let seen: BTreeSet<u64> =
        columns.flat_map(|column| [2, 3].map(|side| column[side].as_f64().unwrap().to_bits())).collect();
    let sent: BTreeSet<u64> = (0..150).map(|index| value(index).to_bits()).collect();
    assert_eq!(seen, sent);
}

#[test]
fn a_preview_is_a_picture_of_the_size_asked_for() {
    let bus = bus();
    let monitor = monitor(&bus);
    let _feed = Feed::start(&bus, "lab/x", 0.1, |index| (index as f64 / 30.0).sin());
    listed(monitor.address(), "lab/x", has_data);
    let answer =
        get(monitor.address(), "/api/preview.png?stream=lab/x&channel=x&span=5s&width=320&height=80");
    assert!(answer.head.contains("image/png"), "{}", answer.head);
    let mut reader = png::Decoder::new(std::io::Cursor::new(answer.body)).read_info().unwrap();
    assert_eq!((reader.info().width, reader.info().height), (320, 80));
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    assert!(pixels.chunks(3).any(|pixel| pixel != &pixels[..3]), "something is drawn");
}

#[test]
fn gaps_of_a_stream_are_told_however_far_its_clock_is_off() {
    for hours in [-2, 2] {
        let bus = bus();
        let monitor = monitor(&bus);
        let feed = Feed::by_clock(&bus, "lab/x", 0.2, hours * 3_600, |index| index as f64);
        let address = monitor.address();
        listed(address, "lab/x", |stream| stream["lost_elements"].as_u64() > Some(0));
        drop(feed);
        listed(address, "lab/x", |stream| stream["state"] == "closed");
        let gaps = get(address, "/api/gaps?stream=lab/x&limit=4096").json();
        let told = |gap: &Value| gap["elements"].as_u64().unwrap();
        let told: u64 = gaps.as_array().unwrap().iter().map(told).sum();
        assert_eq!(told, sum(&monitor.accounts()).elements.missing(), "{hours} hours ahead: {gaps}");
    }
}

#[test]
fn gaps_accounts_and_metrics_tell_the_same_story() {
    let bus = bus();
    let monitor = monitor(&bus);
    let feed = Feed::start(&bus, "lab/x", 0.1, |index| index as f64);
    let address = monitor.address();
    listed(address, "lab/x", |stream| stream["lost_elements"].as_u64() > Some(0));
    drop(feed);
    listed(address, "lab/x", |stream| stream["state"] == "closed" && stream["health"] == "ended");
    let account = get(address, "/api/account?stream=lab/x").json();
    assert_eq!((&account["balanced"], &account["explained"]), (&true.into(), &true.into()));
    let accounts = monitor.accounts();
    let last = accounts.last().unwrap().account.elements;
    assert_eq!(account["elements"]["lost"]["injected"].as_u64().unwrap_or(0), last.lost[Stage::Injected]);
    let whole = sum(&accounts);
    assert!(whole.explained(), "{whole:?}");
    let lost = whole.elements.lost[Stage::Injected];
    let gaps = get(address, "/api/gaps?stream=lab/x&limit=4096").json();
    let gaps = gaps.as_array().unwrap();
    let told: u64 = gaps.iter().map(|gap| gap["lost"]["injected"].as_u64().unwrap()).sum();
    assert_eq!(told, lost);
    let evidence = gaps[0]["evidence"][0].as_str().unwrap();
    assert!(evidence.starts_with("injected:"), "{evidence}");
    let metrics = get(address, "/metrics");
    let text = String::from_utf8(metrics.body).unwrap();
    let line = format!("tallycast_elements_lost_total{{stream=\"lab/x\",stage=\"injected\"}} {lost}");
    assert!(text.contains(&line), "{line} is not in\n{text}");
    assert_eq!(sum(&monitor.stop()).elements, whole.elements);
}

#[test]
fn requests_out_of_bounds_are_refused_with_the_way_out() {
    let bus = bus();
    let monitor = monitor(&bus);
    let _feed = Feed::start(&bus, "lab/x", 0.0, |index| index as f64);
    listed(monitor.address(), "lab/x", has_data);
    let range = "/api/range?stream=lab/x&channel=x";
    for (path, status) in [
        (format!("{range}&points=16385"), 400),
        (format!("{range}&points=0"), 400),
        (format!("{range}&from=5&to=4"), 400),
        (format!("{range}&from=99999999999999999999"), 400),
        (format!("{range}&format=xml"), 400),
        ("/api/range?stream=lab/x&channel=y".to_owned(), 404),
        ("/api/range?stream=lab/y&channel=x".to_owned(), 404),
        ("/api/range".to_owned(), 400),
        ("/api/preview.png?stream=lab/x&channel=x&span=1y".to_owned(), 400),
        ("/api/preview.png?stream=lab/x&channel=x&width=2049".to_owned(), 400),
        ("/api/gaps?stream=lab/x&limit=0".to_owned(), 400),
        ("/api/account?stream=no".to_owned(), 404),
        ("/api/nothing".to_owned(), 404),
        ("/api/live".to_owned(), 400),
        ("/api/streams?a=%ff".to_owned(), 200),
    ] {
        let answer = get(monitor.address(), &path);
        assert_eq!(answer.status, status, "{path}");
        if status >= 400 {
            let refused = answer.json();
            assert!(refused["error"].is_string() && refused["help"].is_string(), "{path}: {refused}");
        }
    }
    let widest = format!("{range}&points=16384&from=-4611686018427387904&to=4611686018427387903");
    assert_eq!(get(monitor.address(), &widest).status, 200, "the widest of all ranges");
}

#[test]
fn health_is_that_of_the_intake() {
    let monitor = monitor(&bus());
    assert_eq!(get(monitor.address(), "/healthz").status, 200);
    wait_until("readiness", || (get(monitor.address(), "/readyz").status == 200).then_some(()));
    let address = monitor.address();
    let mut page = Page::open(address);
    page.text("hello", |_| true);
    assert!(monitor.stop().is_empty());
    assert!(std::net::TcpStream::connect(address).is_err(), "the port is closed");
}
