//! Reports of hand-made counts: the counts of both ends become medians, accounts, tables and figures.

use std::net::Ipv4Addr;

use probe::pingpong::ExchangeCounts;

use super::*;
use crate::report::Forms as _;

const SIZES: [u64; 2] = [1, 1_000_000];

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

/// Two undisturbed runs over two systems, with one exchange lost in each direction.
pub(crate) fn example() -> Report {
    let systems = vec![System::Tcp(Some("reno".to_owned())), System::Udp];
    let options = Options { systems, sizes: SIZES.to_vec(), repeats: 2, ..Options::default() };
    let host = HostState::look(Ipv4Addr::LOCALHOST.into());
    let mut builder = Builder::new(&options, (Ipv4Addr::LOCALHOST, 7).into(), host.clone(), host, 1_448);
    for run in 0..2 {
        for system in &options.systems {
            let lost = if *system == System::Udp { 2 } else { 0 };
            builder.add(run, system, 1, measured(20 + u64::from(run), 0, 4));
            builder.add(run, system, 1_000_000, measured(8_000, lost, 4 + lost / 2));
            let used = Used { cpu_ns: 10, elapsed_ns: 100, elsewhere_cpus: Some(0.1) };
            let evidence = Evidence { dropped_by_socket: lost * 3, ..Evidence::default() };
            builder.end_way(Way {
                run,
                system,
                congestion: None,
                ours: (used, Evidence::default()),
                theirs: (used, evidence),
                failure: None,
                notes: vec!["a clamped buffer".to_owned()],
            });
        }
    }
    builder.finish(false)
}

/// One undisturbed run over TCP with these congestion controls and these round-trip times in µs, one per size.
pub(crate) fn report_of(congestion: &[&str], round_trips_us: &[(u64, u64)]) -> Report {
    let systems = congestion.iter().map(|name| System::Tcp(Some((*name).to_owned()))).collect();
    let sizes = round_trips_us.iter().map(|(size, _)| *size).collect();
    let options = Options { systems, sizes, repeats: 1, ..Options::default() };
    let host = HostState::look(Ipv4Addr::LOCALHOST.into());
    let mut builder = Builder::new(&options, (Ipv4Addr::LOCALHOST, 7).into(), host.clone(), host, 1_448);
    for system in &options.systems {
        for (size, micros) in round_trips_us {
            builder.add(0, system, u32::try_from(*size).unwrap(), measured(*micros, 0, 4));
        }
    }
    builder.finish(false)
}

#[test]
fn a_message_takes_half_of_the_round_trip_and_its_rate_is_its_size_over_all_of_it() {
    let report = example();
    let row = |system, size, metric| report.row(system, size, metric).unwrap();
    let time = row("tcp reno", 1, HALF_ROUND_TRIP);
    assert_eq!((time.min, time.median, time.max, time.runs), (10.0, 10.25, 10.5, 2));
    assert_eq!(row("tcp reno", 1_000_000, RATE).median, 1e9);
    assert_eq!(row("udp", 1_000_000, "lost_percent").median, 100.0 * 2.0 / 6.0);
    assert_eq!(report.end.notes, ["a clamped buffer"], "said once");
    assert_eq!(report.end.noise, Vec::<String>::new());
    assert_eq!(report.end.state, State::Complete);
}

#[test]
fn every_exchange_has_a_place_in_the_account_and_in_the_table() {
    let report = example();
    assert!(report.size_steps.iter().all(|size_step| size_step.account.adds_up()));
    let text = report.to_string();
    let udp = "account of udp in exchanges: 20 sent = 16 completed + 2 lost forward + 2 lost in reverse + 0 unexplained; \
               datagrams dropped by full receive buffers: 12 at the server, 0 at the client";
    assert!(text.contains(udp), "{text}");
    assert!(text.contains("size/Δt at 1000000 B") && text.contains("1.00 Gbit/s"), "{text}");
}

#[test]
fn a_size_step_that_broke_enters_no_median_and_what_was_left_out_is_said() {
    let options = Options { sizes: vec![1], ..Options::default() };
    let host = HostState::look(Ipv4Addr::LOCALHOST.into());
    let mut builder = Builder::new(&options, (Ipv4Addr::LOCALHOST, 7).into(), host.clone(), host, 1_448);
    let [tcp, udp] = &options.systems[..] else { panic!() };
    builder.add(0, tcp, 1, measured(20, 0, 4));
    builder.add(1, tcp, 1, Measured { trouble: Some("closed".to_owned()), ..measured(900, 0, 4) });
    builder.skip(udp, "no such <thing>");
    builder.skip(udp, "no such <thing>");
    let report = builder.finish(false);
    assert_eq!(report.row("tcp", 1, HALF_ROUND_TRIP).map(|row| (row.median, row.runs)), Some((10.0, 1)));
    assert_eq!((report.end.state, report.end.skipped.len()), (State::BrokenOff, 1));
    assert!(report.to_string().contains("udp was left out: no such <thing>"));
    assert!(report.to_html().unwrap().contains("udp was left out: no such &lt;thing&gt;"));
}

#[test]
fn a_size_step_that_was_ended_early_is_shown_and_enters_no_median() {
    let options = Options { sizes: vec![1], systems: vec![System::Udp], ..Options::default() };
    let host = HostState::look(Ipv4Addr::LOCALHOST.into());
    let mut builder = Builder::new(&options, (Ipv4Addr::LOCALHOST, 7).into(), host.clone(), host, 1_448);
    builder.add(0, &System::Udp, 1, measured(20, 0, 4));
    builder.add(1, &System::Udp, 1, Measured { was_cut: true, ..measured(900, 1, 4) });
    let report = builder.finish(true);
    assert_eq!(report.row("udp", 1, HALF_ROUND_TRIP).map(|row| (row.median, row.runs)), Some((10.0, 1)));
    assert_eq!(report.size_steps[1].trouble.as_deref(), Some("it was ended early"));
    assert!(report.to_string().contains("run 2, 1 B over udp, is not whole: it was ended early"));
    assert!(report.size_steps[1].account.adds_up());
    assert_eq!(report.end.state, State::Interrupted);
}

#[test]
fn the_report_goes_into_every_form_and_comes_back() {
    let report = example();
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    let csv = report.to_csv();
    let columns = csv.lines().next().unwrap().split(',').count();
    assert_eq!(csv.lines().count(), 1 + report.size_steps.len());
    assert!(csv.lines().all(|line| line.split(',').count() == columns), "{csv}");
    assert_eq!(&report.to_png().unwrap()[1..4], b"PNG");
    let page = report.to_html().unwrap();
    assert_eq!(page.matches("<svg").count(), 2);
    assert!(!page.contains("NaN") && page.contains("Round-trip time and rate at every message size"));
}

#[test]
fn a_time_of_day_that_was_set_meanwhile_is_a_note() {
    let options = Options::default();
    let host = HostState::look(Ipv4Addr::LOCALHOST.into());
    let mut builder = Builder::new(&options, (Ipv4Addr::LOCALHOST, 7).into(), host.clone(), host, 1_448);
    builder.began = builder.began.before_a_step_of(5);
    let notes = builder.finish(false).end.notes.join("\n");
    assert!(notes.contains("set forward by 5.0"), "{notes}");
}
