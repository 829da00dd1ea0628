//! Reports of hand-made runs: the runs that count, their statistics, and the notes.

use super::*;
use crate::report::stored;

/// A run of 1 Mbit sent and received in a second, which takes `cpu_seconds` of a processor of 2,000 MHz.
fn run(number: u32, cpu_seconds: f64) -> Run {
    let run = stored::<Report>("cost-cut").transports[0].runs.remove(0);
    let sender = Processor { cpu_seconds, ..run.sender };
    Run { run: number, sender, send_mhz_per_mbit: Some(cpu_seconds * 2_000.0), ..run }
}

fn measured(runs: Vec<Run>) -> Measured {
    Measured::of(Protocol::Udp, 1_472, runs, None)
}

fn report(transports: Vec<Measured>, has_broken_off: bool) -> Report {
    let mut course = Course::begin();
    course.has_broken_off = has_broken_off;
    Builder { course, start: stored::<Report>("cost").start, transports, noise: Vec::new() }.finish(false)
}

#[test]
fn runs_that_are_not_whole_count_nowhere() {
    let broken = Run { trouble: Some("the server was ended".to_owned()), ..run(2, 90.0) };
    let it = measured(vec![run(0, 0.001), run(1, 0.002), broken]);
    let send = it.figure(Metric::SendMhzPerMbit).unwrap();
    assert_eq!((send.mean, send.median, send.min, send.max, send.runs), (3.0, 3.0, 2.0, 4.0, 2));
    assert!((send.standard_deviation.unwrap() - 2_f64.sqrt()).abs() < 1e-12);
    assert!(it.figure(Metric::ReceiveMhzPerMbit).is_none(), "nobody told");
}

#[test]
fn a_wide_spread_of_costs_is_noise() {
    let it = report(vec![measured(vec![run(0, 0.001), run(1, 0.002)])], false);
    assert_eq!(it.noise, ["costs of sending 1472B/8Mbit/s over udp spread over 67 % of their median"]);
    assert_eq!(it.rows.len(), 1);
    assert_eq!((it.is_whole(), report(Vec::new(), true).is_whole()), (true, false));
}

#[test]
fn an_unknown_frequency_is_said_and_leaves_the_time_of_processors() {
    let sender = Processor { mhz: None, mhz_source: None, ..run(0, 0.5).sender };
    let without = Run { sender, send_mhz_per_mbit: None, ..run(0, 0.5) };
    let it = report(vec![measured(vec![without])], false);
    assert!(it.rows.is_empty());
    assert!(it.end.notes.iter().any(|note| note.contains("cpu_seconds")), "{:?}", it.end.notes);
}

#[test]
fn a_frequency_that_changed_or_is_a_nominal_one_is_said_in_words() {
    let notes = |least: f64, most: f64, source: FrequencySource| {
        let sender = Processor {
            least_mhz: Some(least),
            most_mhz: Some(most),
            mhz_source: Some(source),
            ..run(0, 0.5).sender
        };
        report(vec![measured(vec![Run { sender, ..run(0, 0.5) }])], false).end.notes.join("|")
    };
    let steady = notes(2_000.0, 2_100.0, FrequencySource::Cpufreq);
    assert!(!steady.contains("MHz") && !steady.contains("cpuinfo"), "{steady}");
    let unsteady = notes(800.0, 3_000.0, FrequencySource::Cpufreq);
    assert!(unsteady.contains("worked at 800 to 3000 MHz") && unsteady.contains("cpupower"), "{unsteady}");
    assert!(notes(2_000.0, 2_000.0, FrequencySource::Cpuinfo).contains("what /proc/cpuinfo says"));
}

#[test]
fn two_hosts_have_each_a_frequency_of_its_own() {
    let at = |mhz: f64| Processor { least_mhz: Some(mhz), most_mhz: Some(mhz), ..run(0, 0.5).sender };
    let notes = |of_server: Processor, same_host| {
        let mut it = report(Vec::new(), false);
        it.start.same_host = same_host;
        let run = Run { sender: at(2_000.0), receiver: Some(of_server), ..run(0, 0.5) };
        limits(&it.start, &[measured(vec![run])]).join("|")
    };
    let apart = notes(at(3_000.0), false);
    assert!(!apart.contains("worked at"), "each host was steady: {apart}");
    assert!(notes(at(3_000.0), true).contains("the processors worked at 2000 to 3000 MHz"));
    let unsteady = notes(Processor { least_mhz: Some(800.0), ..at(3_000.0) }, false);
    assert!(unsteady.contains("the processors of the server's host worked at 800 to 3000 MHz"), "{unsteady}");
    assert!(!unsteady.contains("client's host worked"), "{unsteady}");
}
