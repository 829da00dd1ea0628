//! Texts of a report about its points, and the example report that other tests compare.

use super::*;

/// A report of two transports at two cycle times, compared with its source, and ended early.
pub(crate) fn example() -> Report {
    crate::report::stored("cycle-cut")
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
    assert_eq!(point.failures(), "2 late and incomplete");
    let Outcome::Measured { searches, .. } = &mut point.outcome else { panic!() };
    searches[0].runs[1].verdict = Verdict::Late;
    assert_eq!(point.failures(), "1 late, 1 late and incomplete");
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
