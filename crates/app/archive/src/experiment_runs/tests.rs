//! Selecting a run, and the range of time that it stands for.

use super::*;
use tallycast::runs::{Event, Labels, What};

const fn at(nanos: i64) -> WallTime {
    WallTime::from_nanos(nanos)
}

fn runs(starts_s: &[i64]) -> Runs {
    let mut runs = Runs::default();
    for (number, start_s) in starts_s.iter().enumerate() {
        for (what, time) in
            [(What::Start, start_s * 1_000_000_000), (What::Stop, (start_s + 5) * 1_000_000_000)]
        {
            runs.take(Event {
                number: number as u64,
                id: "shot-17".parse().unwrap(),
                what,
                time: at(time),
                host: "daq-3".to_owned(),
                by: "ada".to_owned(),
                labels: Labels::new(),
                started: None,
            });
        }
    }
    runs
}

#[test]
fn a_run_is_selected_by_its_id_and_by_a_moment_if_several_have_it() {
    let select = |runs: &Runs, text: &str| {
        select_run(runs, &text.parse().unwrap()).map(|run| run.start.as_nanos() / 1_000_000_000)
    };
    assert_eq!(select(&runs(&[10]), "shot-17"), Ok(10));
    let two = runs(&[10, 20]);
    assert!(matches!(select(&two, "shot-17"), Err(SelectError::Find(FindError::Several { count: 2, .. }))));
    assert_eq!(select(&two, "shot-17@1970-01-01T00:00:20Z"), Ok(20));
    assert_eq!(select(&two, "shot-17@14999999999"), Ok(10));
    assert!(matches!(select(&two, "shot-17@15000000000"), Err(SelectError::Find(FindError::NotThen(_)))));
    assert!(matches!(select(&two, "shot-17@+10s"), Err(SelectError::Relative(_))));
    assert!(matches!(select(&two, "shot-17@noon"), Err(SelectError::Moment(_))));
    assert!(matches!(select(&two, "shot-18"), Err(SelectError::Find(FindError::Unknown(_)))));
}

#[test]
fn moments_in_a_run_are_relative_to_its_start_and_its_end() {
    let range = run_range(&runs(&[10]).list()[0], at(0));
    let moment = |text: &str| text.parse::<Moment>().unwrap().in_recording(range.start, range.end).as_nanos();
    assert_eq!([moment("+1s"), moment("-1s")], [11_000_000_000, 14_000_000_000]);
}

#[test]
fn an_open_run_reaches_to_the_end_of_what_is_recorded() {
    let mut runs = runs(&[10]);
    let mut start = runs.to_repeat(1).pop().unwrap();
    (start.number, start.time) = (7, at(30_000_000_000));
    runs.take(start);
    let open = runs.list().pop().unwrap();
    assert_eq!(run_range(&open, at(40_000_000_000)), at(30_000_000_000)..at(40_000_000_000));
    assert_eq!(run_range(&open, at(20_000_000_000)), at(30_000_000_000)..at(30_000_000_000));
}
