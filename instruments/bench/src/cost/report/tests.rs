//! Reports of hand-made runs: the runs that count, their statistics, and the notes.

use std::net::Ipv4Addr;

use super::*;
use crate::FigureError;
use crate::host_state::HostState;
use crate::report::Forms as _;
use crate::throughput::{AccountState, Unit};

/// A run of 1 Mbit sent and received in a second, which takes `cpu_seconds` of a processor of 2,000 MHz.
fn run(number: u32, cpu_seconds: f64) -> Run {
    let taken = Processor {
        cpu_seconds,
        mhz: Some(2_000.0),
        mhz_source: Some(FrequencySource::Cpufreq),
        ..Processor::default()
    };
    let account = Account {
        unit: Unit::Datagrams,
        state: AccountState::Closed,
        sent: 100,
        received: 99,
        lost: [("receiver_socket_buffer".to_owned(), 1)].into(),
        unexplained: 0,
        duplicates: 0,
        unmatched: 0,
    };
    Run {
        run: number,
        bytes_sent: 125_000,
        bytes_received: 125_000,
        bits_per_second: 1e6,
        lost_percent: Some(1.0),
        sender: taken,
        receiver: None,
        send_mhz_per_mbit: Some(cpu_seconds * 2_000.0),
        receive_mhz_per_mbit: None,
        delay_ms: None,
        accounts: vec![account],
        trouble: None,
        noise: Vec::new(),
    }
}

fn measured(runs: Vec<Run>) -> Measured {
    let mut measured =
        Measured { transport: "UDP".to_owned(), blksize: 1_472, runs, figures: Vec::new(), trouble: None };
    let figure = |metric: &Metric| Figure::of(*metric, &measured.values(*metric));
    measured.figures = Metric::ALL.iter().filter_map(figure).collect();
    measured
}

fn report(transports: Vec<Measured>, is_broken_off: bool) -> Report {
    let host = HostState::look(Ipv4Addr::LOCALHOST.into());
    let options = Options::default();
    let settings = Settings {
        transports: vec!["UDP".to_owned()],
        target_bitrate: options.bits_per_second(),
        datagram_bytes: 1_472,
        sock_bufsize: 1 << 20,
        duration: 1.0,
        runs: 3,
    };
    let start = Start::now((Ipv4Addr::LOCALHOST, 7).into(), host.clone(), host, settings);
    let (format, source) = (FORMAT.to_owned(), hosts());
    let (rows, noise, end) = (Vec::new(), Vec::new(), End::open());
    let report = Report { format, version: VERSION, start, transports, source, rows, noise, end };
    Builder { report, is_broken_off, elsewhere: Vec::new() }.finish(false)
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
fn the_text_has_loss_spread_the_source_and_what_the_figures_do_not_say() {
    let it = report(vec![measured(vec![run(0, 0.001), run(1, 0.002)])], false);
    let text = it.to_string();
    for words in [
        "3.000 ± 1.414",
        "~3.000 MHz/(Mbit/s)  2.000 MHz/(Mbit/s)  4.000 MHz/(Mbit/s)",
        "not measured",
        "2 of 200 datagrams lost in 2 runs",
        "onno    ",
        "ncdm87  ",
        "in the name of the sender's call",
        "  costs of 1472B/100Mbit/s spread over 67 % of their median",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert_eq!(it.rows.len(), 1);
    assert_eq!((it.is_whole(), report(Vec::new(), true).is_whole()), (true, false));
}

#[test]
fn every_form_holds_every_run() {
    let it = report(vec![measured(vec![run(0, 0.001), run(1, 0.002)])], false);
    let csv = it.to_csv();
    let columns = csv.lines().next().unwrap().split(',').count();
    assert_eq!(csv.lines().count(), 3);
    assert!(csv.lines().all(|line| line.split(',').count() == columns), "{csv}");
    let page = it.to_html().unwrap();
    assert!(page.contains("<svg") && page.contains("sara77") && page.contains("3.000 ± 1.414"));
    assert_eq!(report(Vec::new(), false).to_png(), Err(FigureError::Empty));
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
