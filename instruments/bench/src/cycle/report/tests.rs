//! Texts of a report about its points, and the example report that other tests draw and compare.

use super::*;

/// A report of two transports at two cycle times, with every field that a report can have.
pub(crate) fn example() -> Report {
    let options = Options {
        cycle_times: [2, 10].map(std::time::Duration::from_millis).to_vec(),
        cpus: vec![crate::cycle::CpuLimit::Millicpus(300)],
        ..Options::default()
    };
    let run = |elements, verdict| Run {
        elements,
        verdict,
        account: Account::default(),
        writer_cpu_ns: 1,
        reader_cpu_ns: 2,
        dropped_by_socket: Some(3),
        throttled_periods: Some(4),
    };
    let search = |elements, found| Search {
        elements,
        found,
        elsewhere_cpus: Some(0.7),
        runs: vec![run(elements, Verdict::Good), run(elements + 2, Verdict::LateAndIncomplete)],
    };
    let point = |transport, cycle_time_ns, sizes: [u64; 3], found| Point {
        transport,
        cycle_time_ns,
        cpus: Some(0.3),
        outcome: Outcome::of(sizes.map(|size| search(size, found)).to_vec(), None),
    };
    let points = vec![
        point(Transport::Udp, 2_000_000, [11_000, 12_000, 14_000], Found::Largest),
        point(Transport::Udp, 10_000_000, [0, 60_000, 90_000], Found::Nothing),
        point(Transport::Shm, 2_000_000, [200_000, 210_000, 260_000], Found::Largest),
        point(Transport::Shm, 10_000_000, [900_000, 1_000_000, 1_000_000], Found::Limit),
    ];
    let rows = points.iter().filter_map(Point::row).collect();
    let host = Host {
        kernel: "Linux 6.1".to_owned(),
        machine: "x86_64".to_owned(),
        cpu: "Some <CPU> & more".to_owned(),
        cpus: 2,
        load_1min: Some(0.5),
        rmem_default_bytes: Some(212_992),
        rmem_max_bytes: None,
    };
    let offloads = Some(vec!["rx-gro".to_owned()]);
    let interface = Some(Link { name: "lo".to_owned(), mtu_bytes: 65_536, offloads });
    let tallycast = "0.1.0".to_owned();
    let start = Start { time_ns: 0, tallycast, host, interface, options: Settings::of(&options) };
    let notes = vec!["a buffer was clamped\nraise it".to_owned()];
    let end = End { time_ns: 1, state: State::Complete, load_1min: None, notes };
    Report { format: FORMAT.to_owned(), version: VERSION, start, points, rows, source: None, end }
}

fn search(elements: u64, elsewhere_cpus: Option<f64>) -> Search {
    Search { elements, found: Found::Largest, elsewhere_cpus, runs: Vec::new() }
}

fn noise_of(searches: Vec<Search>) -> Vec<String> {
    match Outcome::of(searches, None) {
        Outcome::Measured { noise, .. } => noise,
        other => panic!("{other:?}"),
    }
}

#[test]
fn noise_is_named_from_its_limits_on() {
    assert!(noise_of(vec![search(100, Some(0.2)), search(150, None)]).is_empty());
    assert_eq!(noise_of(vec![search(100, Some(0.7))]), ["other work kept 0.7 CPUs busy"]);
    let spread = noise_of(vec![search(50, None), search(100, None), search(101, None)]);
    assert_eq!(spread, ["repeats spread over 51 % of their median"]);
}

#[test]
fn nothing_found_is_a_number_and_no_nan() {
    let outcome = Outcome::of(vec![search(0, None), search(0, None)], None);
    let text = serde_json::to_string(&outcome).unwrap();
    assert!(text.contains(r#""median":0.0"#), "{text}");
    assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
}

#[test]
fn failed_runs_are_counted_by_their_verdict() {
    let mut point = example().points.remove(0);
    assert_eq!(point.failures(), "3 late and incomplete");
    let Outcome::Measured { searches, .. } = &mut point.outcome else { panic!() };
    searches[0].runs[1].verdict = Verdict::Late;
    assert_eq!(point.failures(), "1 late, 2 late and incomplete");
    point.outcome = Outcome::Skipped { reason: String::new() };
    assert_eq!(point.failures(), "");
}

#[test]
fn unknown_fields_are_refused() {
    let outcome = r#"{"state":"skipped","reason":"x","more":1}"#;
    assert!(serde_json::from_str::<Outcome>(outcome).is_err());
}

#[test]
fn a_case_is_cycle_time_and_quota() {
    let outcome = Outcome::Skipped { reason: String::new() };
    let mut point = Point { transport: Transport::Udp, cycle_time_ns: 10_000_000, cpus: Some(0.3), outcome };
    assert_eq!(point.case(), "10ms/0.3cpu");
    point.cycle_time_ns = 500_000;
    point.cpus = None;
    assert_eq!(point.case(), "500µs/maxcpu");
    assert_eq!(point.row(), None);
}
