//! Runs from events: each kind of disorder by example, and all of them by chance.

use super::*;
use crate::FindError;
use proptest::prelude::*;

const fn at(nanos: i64) -> WallTime {
    WallTime::from_nanos(nanos)
}

fn event(number: u64, id: &str, what: What, time: i64, started: Option<i64>) -> Event {
    Event {
        number,
        id: id.parse().unwrap(),
        what,
        time: at(time),
        host: "daq-3".to_owned(),
        by: "ada".to_owned(),
        labels: Labels::from([("start".to_owned(), started.unwrap_or(time).to_string())]),
        started: started.map(at),
    }
}

fn taken(events: impl IntoIterator<Item = Event>) -> Runs {
    let mut runs = Runs::default();
    events.into_iter().for_each(|event| _ = runs.take(event));
    runs
}

/// Returns the runs as (id, start, end), `i64::MAX` for open ones.
fn spans(runs: &Runs) -> Vec<(String, i64, i64)> {
    let end = |run: &Run| run.end_time().map_or(i64::MAX, WallTime::as_nanos);
    runs.list().iter().map(|run| (run.id.to_string(), run.start.as_nanos(), end(run))).collect()
}

fn span(id: &str, start: i64, end: i64) -> (String, i64, i64) {
    (id.to_owned(), start, end)
}

#[test]
fn a_run_lasts_from_its_start_to_its_stop() {
    let runs = taken([event(1, "a", What::Start, 10, None), event(2, "a", What::Stop, 30, Some(10))]);
    assert_eq!(spans(&runs), [span("a", 10, 30)]);
    let run = runs.find(&"a".parse().unwrap(), None).unwrap();
    assert_eq!([9, 10, 29, 30].map(|time| run.contains(at(time))), [false, true, true, false]);
}

#[test]
fn runs_of_two_ids_overlap_freely() {
    let runs = taken([
        event(1, "a", What::Start, 10, None),
        event(2, "b", What::Start, 20, None),
        event(3, "a", What::Stop, 30, Some(10)),
        event(4, "b", What::Stop, 40, Some(20)),
    ]);
    assert_eq!(spans(&runs), [span("a", 10, 30), span("b", 20, 40)]);
}

#[test]
fn a_second_start_of_an_id_ends_its_open_run() {
    let runs = taken([
        event(1, "a", What::Start, 10, None),
        event(2, "a", What::Start, 20, None),
        event(3, "a", What::Stop, 30, None),
    ]);
    assert_eq!(spans(&runs), [span("a", 10, 20), span("a", 20, 30)]);
    assert_eq!(runs.list()[0].end, End::Restarted { time: at(20) });
    let a = "a".parse().unwrap();
    assert_eq!(runs.find(&a, None), Err(FindError::Several { id: a.clone(), count: 2 }));
    assert_eq!(runs.find(&a, Some(at(20))).unwrap().start, at(20));
    assert_eq!(runs.find(&a, Some(at(19))).unwrap().start, at(10));
    assert_eq!(runs.find(&a, Some(at(30))), Err(FindError::NotThen(a)));
}

#[test]
fn a_run_whose_stop_never_came_stays_open() {
    let runs = taken([event(1, "a", What::Start, 10, None), event(2, "b", What::Start, 20, None)]);
    assert_eq!(spans(&runs), [span("a", 10, i64::MAX), span("b", 20, i64::MAX)]);
}

#[test]
fn a_stop_tells_the_start_that_was_not_heard() {
    let runs = taken([event(2, "a", What::Stop, 30, Some(10))]);
    assert_eq!(spans(&runs), [span("a", 10, 30)]);
    let run = &runs.list()[0];
    assert_eq!((run.labels["start"].as_str(), &run.started_by), ("10", &None));
}

#[test]
fn a_stop_without_a_start_makes_no_run_and_is_told() {
    let runs = taken([event(1, "a", What::Stop, 30, None)]);
    assert_eq!(spans(&runs), []);
    assert_eq!(runs.strangers()[0].time, at(30));
    let a = "a".parse().unwrap();
    assert_eq!(runs.find(&a, None), Err(FindError::NoStart(a)));
    let b = "b".parse().unwrap();
    assert_eq!(runs.find(&b, None), Err(FindError::Unknown(b)));
}

#[test]
fn only_the_first_stop_of_a_run_counts() {
    let runs = taken([
        event(1, "a", What::Start, 10, None),
        event(2, "a", What::Stop, 30, Some(10)),
        event(3, "a", What::Stop, 40, Some(10)),
        event(4, "a", What::Stop, 50, None),
    ]);
    assert_eq!(spans(&runs), [span("a", 10, 30)]);
    assert_eq!(runs.counts().again, 2);
}

#[test]
fn a_clock_that_is_behind_ends_a_run_at_its_start_and_is_told() {
    let runs = taken([event(1, "a", What::Start, 10, None), event(2, "a", What::Stop, 3, Some(10))]);
    assert_eq!(spans(&runs), [span("a", 10, 10)]);
    assert_eq!(runs.list()[0].clock_behind_ns, 7);
}

#[test]
fn a_stop_names_the_start_of_the_open_run_and_of_no_other() {
    let mut runs = taken([event(1, "a", What::Start, 10, None)]);
    let stop = runs.stop(event(2, "a", What::Stop, 30, None));
    assert_eq!((stop.started, stop.labels["start"].as_str()), (Some(at(10)), "10"));
    runs.take(stop);
    assert_eq!(runs.stop(event(3, "a", What::Stop, 40, None)).started, None, "it has ended");
    assert_eq!(runs.stop(event(3, "b", What::Stop, 40, None)).started, None);
}

fn any_event() -> impl Strategy<Value = Event> {
    let ids = prop::sample::select(vec!["a", "b"]);
    let what = prop::sample::select(vec![What::Start, What::Stop]);
    (any::<u64>(), ids, what, 0_i64..40, prop::option::of(0_i64..40)).prop_map(
        |(number, id, what, time, started)| {
            event(number, id, what, time, started.filter(|_| what == What::Stop))
        },
    )
}

/// Returns the runs of one id from events in the order of time, by one state: the start of the open run.
fn simply(events: &[Event]) -> Vec<(String, i64, i64)> {
    let (mut open, mut found) = (None, Vec::new());
    for event in events {
        let time = event.time.as_nanos();
        if let Some(start) = open.take() {
            found.push(span("a", start, time));
        }
        if event.what == What::Start {
            open = Some(time);
        }
    }
    found.extend(open.map(|start| span("a", start, i64::MAX)));
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn neither_order_nor_repetition_of_events_matters(
        (events, shuffled) in prop::collection::vec(any_event(), 0..12)
            .prop_flat_map(|events| (Just(events.clone()), Just(events).prop_shuffle())),
        repeated in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let again: Vec<Event> = match events.len() {
            0 => Vec::new(),
            len => repeated.iter().map(|it| events[it.index(len)].clone()).collect(),
        };
        let (one, other) = (taken(events), taken(shuffled.into_iter().chain(again)));
        prop_assert_eq!(one.list(), other.list());
        prop_assert_eq!(one.strangers(), other.strangers());
    }

    #[test]
    fn runs_of_an_id_do_not_overlap_and_only_the_last_is_open(
        events in prop::collection::vec(any_event(), 0..12),
    ) {
        let runs = taken(events);
        for id in ["a", "b"] {
            let spans: Vec<_> = spans(&runs).into_iter().filter(|it| it.0 == id).collect();
            prop_assert!(spans.iter().all(|(_, start, end)| start <= end));
            prop_assert!(spans.windows(2).all(|two| two[0].2 <= two[1].1 && two[0].1 < two[1].1), "{spans:?}");
            let newest = runs.newest(&id.parse().unwrap()).map(|run| run.start.as_nanos());
            prop_assert_eq!(newest, spans.last().map(|last| last.1));
        }
    }

    #[test]
    fn every_event_is_accounted_for(events in prop::collection::vec(any_event(), 0..12)) {
        let runs = taken(events.clone());
        let counts = runs.counts();
        prop_assert_eq!(counts.taken, events.len() as u64);
        let sum = counts.starts + counts.stops + counts.repeated + counts.again + counts.strangers;
        prop_assert_eq!(counts.taken, sum);
        prop_assert_eq!(counts.strangers, runs.strangers().len() as u64);
    }

    #[test]
    fn events_in_the_order_of_time_make_the_runs_that_one_state_makes(
        times in prop::collection::btree_set(0_i64..1_000, 0..12),
        stops in any::<u16>(),
    ) {
        let what = |place: usize| if stops >> place & 1 == 1 { What::Stop } else { What::Start };
        let events: Vec<Event> =
            times.iter().enumerate().map(|(place, time)| event(place as u64, "a", what(place), *time, None)).collect();
        prop_assert_eq!(spans(&taken(events.clone())), simply(&events));
    }

    #[test]
    fn what_is_repeated_makes_the_open_runs_and_the_newest_others(
        events in prop::collection::vec(any_event(), 0..12),
        count in 0_usize..4,
    ) {
        let runs = taken(events);
        let later = taken(runs.to_repeat(count)).list();
        let all = runs.list();
        let ended = all.iter().filter(|run| run.end != End::Open).count();
        let newest = all.iter().filter(|run| run.end != End::Open).skip(ended.saturating_sub(count));
        for run in all.iter().filter(|run| run.end == End::Open).chain(newest) {
            prop_assert!(later.contains(run), "{run:?} of {all:?}, but {later:?}");
        }
        prop_assert!(later.iter().all(|run| all.contains(run)));
        let times: Vec<WallTime> = runs.to_repeat(count).iter().map(|event| event.time).collect();
        prop_assert!(times.is_sorted_by(|one, other| one >= other), "the newest first");
    }
}
