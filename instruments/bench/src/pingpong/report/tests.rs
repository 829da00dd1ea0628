//! Reports of hand-made counts: the counts of both ends become medians and accounts.

use std::net::Ipv4Addr;

use probe::pingpong::ExchangeCounts;

use super::*;
use crate::report::stored;

fn measured(round_trip_us: u64, given_up: u64, answered: u64) -> Measured {
    let counts = ExchangeCounts { sent: 4 + given_up, completed: 4, given_up };
    let mut times = [round_trip_us * 1_000; 4];
    Measured {
        account: counts.close(Some(answered)).unwrap(),
        round_trips: Percentiles::of(&mut times),
        retransmits: None,
        trouble: None,
        was_cut: false,
    }
}

fn builder(options: &Options) -> Builder {
    let host = HostState::look(Ipv4Addr::LOCALHOST.into());
    Builder::new(options, (Ipv4Addr::LOCALHOST, 7).into(), host.clone(), host, 1_448)
}

/// One undisturbed run over these systems with these round-trip times in µs, one per size.
pub(crate) fn report_of(systems: Vec<System>, round_trips_us: &[(u64, u64)]) -> Report {
    let sizes = round_trips_us.iter().map(|(size, _)| *size).collect();
    let options = Options { systems, sizes, repeats: 1, ..Options::default() };
    let mut builder = builder(&options);
    for system in &options.systems {
        for (size, micros) in round_trips_us {
            builder.add(0, system, u32::try_from(*size).unwrap(), measured(*micros, 0, 4));
        }
    }
    builder.finish(false)
}

#[test]
fn a_message_takes_half_of_the_round_trip_and_its_rate_is_its_size_over_all_of_it() {
    let report = stored::<Report>("pingpong-cut");
    assert_eq!(rows(&report.start.test_start, &report.size_steps), report.end.rows);
    assert!(report.size_steps.iter().all(|size_step| size_step.account.adds_up()));
    let row = |system, size, metric| report.row(system, size, metric).unwrap();
    let time = row("tcp reno", 1, HALF_ROUND_TRIP);
    assert_eq!((time.min, time.median, time.max, time.runs), (10.0, 10.25, 10.5, 2));
    assert_eq!(row("tcp reno", 1_000_000, RATE).median, 1e9);
    assert_eq!(row("udp", 1_000_000, "lost_percent").median, 100.0 * 2.0 / 6.0);
}

#[test]
fn the_resources_of_both_ends_are_those_of_a_session_and_a_note_is_made_once() {
    let used = Used { cpu_ns: 10, elapsed_ns: 100, elsewhere_cpus: Some(0.1) };
    let mut builder = builder(&Options::default());
    for run in 0..2 {
        builder.add(run, &System::Udp, 1, measured(20, 2, 5));
        builder.end_way(Way {
            run,
            system: &System::Udp,
            congestion: None,
            ours: (used, Evidence::default()),
            theirs: (used, Evidence { dropped_by_socket: 6, ..Evidence::default() }),
            failure: None,
            notes: vec!["a clamped buffer".to_owned()],
        });
    }
    let report = builder.finish(false);
    assert_eq!((&*report.end.notes, &*report.end.noise), (&["a clamped buffer".to_owned()][..], &[][..]));
    assert_eq!((report.end.sessions[1].server.dropped_by_socket, report.end.state), (6, State::Complete));
    assert_eq!(
        (report.size_steps[0].account.lost_forward, report.size_steps[0].account.lost_reverse),
        (1, 1)
    );
}

#[test]
fn a_size_step_that_broke_enters_no_median_and_what_was_left_out_is_said() {
    let options = Options { sizes: vec![1], ..Options::default() };
    let mut builder = builder(&options);
    let [tcp, udp] = &options.systems[..] else { panic!() };
    builder.add(0, tcp, 1, measured(20, 0, 4));
    builder.add(1, tcp, 1, Measured { trouble: Some("closed".to_owned()), ..measured(900, 0, 4) });
    builder.skip(udp, "no such <thing>");
    builder.skip(udp, "no such <thing>");
    let report = builder.finish(false);
    assert_eq!(report.row("tcp", 1, HALF_ROUND_TRIP).map(|row| (row.median, row.runs)), Some((10.0, 1)));
    assert_eq!((report.end.state, report.end.skipped.len()), (State::BrokenOff, 1));
}

#[test]
fn a_size_step_that_was_ended_early_is_shown_and_enters_no_median() {
    let options = Options { sizes: vec![1], systems: vec![System::Udp], ..Options::default() };
    let mut builder = builder(&options);
    builder.add(0, &System::Udp, 1, measured(20, 0, 4));
    builder.add(1, &System::Udp, 1, Measured { was_cut: true, ..measured(900, 1, 4) });
    let report = builder.finish(true);
    assert_eq!(report.row("udp", 1, HALF_ROUND_TRIP).map(|row| (row.median, row.runs)), Some((10.0, 1)));
    assert_eq!(report.size_steps[1].trouble.as_deref(), Some("it was ended early"));
    assert!(report.size_steps[1].account.adds_up());
    assert_eq!(report.end.state, State::Interrupted);
}
