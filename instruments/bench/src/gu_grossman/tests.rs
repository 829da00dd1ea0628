//! Hand-made reports: the conclusions that follow from costs, and the cases without one.

use super::*;
use crate::cost::{Measured, Run};
use crate::host_state::Link;
use crate::report::{Agreement, check_printed, stored};

/// Costs of three runs of a transport to send and to receive, and their delay.
type Costs = [[f64; 3]; 3];

const CHEAP: Costs = [[0.9, 1.0, 1.1], [1.4, 1.5, 1.6], [0.05, 0.06, 0.07]];
const DEAR: Costs = [[1.9, 2.0, 2.1], [2.4, 2.5, 2.6], [0.15, 0.16, 0.17]];
/// Like [`CHEAP`] on average, with a wide spread.
const SPREAD: Costs = [[0.1, 1.0, 3.0], [0.1, 1.5, 3.0], [0.01, 0.06, 0.2]];

fn measured(protocol: Protocol, [send, receive, delay]: Costs) -> Measured {
    let run = &stored::<Report>("cost").transports[0].runs[0];
    let runs = (0..3).map(|index| Run {
        send_mhz_per_mbit: Some(send[index]),
        receive_mhz_per_mbit: Some(receive[index]),
        delay_ms: Some(delay[index]),
        ..run.clone()
    });
    Measured::of(protocol, 1_472, runs.collect(), None)
}

fn report(udp: Costs, tcp: Costs, mtu_bytes: u32, same_host: bool) -> Report {
    let mut report = stored::<Report>("cost");
    report.start.same_host = same_host;
    report.noise.clear();
    report.start.client.interface = Some(Link { name: "eth7".to_owned(), mtu_bytes, offloads: None });
    report.transports = vec![measured(Protocol::Udp, udp), measured(Protocol::Tcp, tcp)];
    report.rows = report.transports.iter().flat_map(|it| it.rows(&report.start.test_start)).collect();
    report
}

fn agreements(report: &Report) -> Vec<Agreement> {
    conclusions(report).iter().map(|it| it.agreement).collect()
}

#[test]
fn between_two_hosts_with_the_sources_packets_everything_but_the_delay_is_judged() {
    use Agreement::{Agrees, Differs};
    let agreed = agreements(&report(CHEAP, DEAR, 1_500, false));
    assert_eq!(agreed[..3], [Agrees, Agrees, Agrees]);
    let differing = agreements(&report(DEAR, CHEAP, 1_500, false));
    assert_eq!(differing[..2], [Differs, Differs]);
    let [send, receive, delay] = CHEAP;
    let turned = report([receive, send, delay], DEAR, 1_500, false);
    assert_eq!(agreements(&turned)[2], Differs, "sending costs more");
}

#[test]
fn what_one_host_cannot_tell_is_not_judged_and_says_why() {
    let conclusions = conclusions(&report(CHEAP, DEAR, 65_536, true));
    let here: Vec<&str> = conclusions.iter().map(|it| it.here.as_str()).collect();
    assert!(here[0].contains("cannot be judged here: on one host TCP's data pass"), "{}", here[0]);
    assert!(here[0].contains("UDP 1.000, TCP 2.000 MHz/(Mbit/s)"), "the text gives the figures: {}", here[0]);
    assert!(here[2].contains("cannot be judged here: both ends are on one host"), "{}", here[2]);
    assert_eq!(conclusions[3].agreement, Agreement::Agrees);
    let slower = agreements(&report(DEAR, CHEAP, 65_536, true));
    assert_eq!(slower[3], Agreement::Differs);
}

#[test]
fn a_network_with_larger_packets_than_the_sources_does_not_compare_tcp_with_udp() {
    let conclusions = conclusions(&report(CHEAP, DEAR, 9_000, false));
    assert!(conclusions[0].here.contains("eth7 takes packets of 9000 bytes"), "{}", conclusions[0].here);
    assert_eq!(conclusions[2].agreement, Agreement::Agrees, "UDP alone can be judged");
}

#[test]
fn packets_of_every_smaller_size_are_compared_with_those_of_the_mtu() {
    let of = |payload, costs: [f64; 3]| OfSize { payload, cost: Summary::of(&costs), is_noisy: false };
    let (small, medium) = (of(128, [9.0, 9.5, 10.0]), of(512, [2.9, 3.0, 3.1]));
    let (full, large) = (of(MTU_PAYLOAD, [1.0, 1.1, 1.2]), of(8_192, [0.1, 0.2, 0.3]));
    let sizes = [small.clone(), medium, full.clone(), large];
    let conclusion = larger_is_cheaper(&sizes);
    assert_eq!(conclusion.agreement, Agreement::Agrees);
    assert!(conclusion.here.contains("1.100 MHz/(Mbit/s) at 1472 bytes, 9.500 at 128, 3.000 at 512"));
    let mut with_hole = sizes.clone();
    with_hole[1].cost = None;
    let here = larger_is_cheaper(&with_hole).here;
    assert!(here.ends_with("9.500 at 128; left out: 512 bytes, of which no run told a cost"), "{here}");
    let cheap = of(512, [0.5, 0.6, 0.7]);
    assert_eq!(larger_is_cheaper(&[small, cheap, full]).agreement, Agreement::Partly);
    assert_eq!(larger_is_cheaper(&sizes[..2]).agreement, Agreement::NotMeasured);
    assert_eq!(chart(&sizes).map(|it| it.series[0].points.len()), Some(4));
    assert_eq!(chart(&[]), None);
}

#[test]
fn runs_that_spread_over_more_than_the_difference_judge_nothing() {
    let it = conclusions(&report(CHEAP, SPREAD, 1_500, false));
    assert!(it[0].here.contains("repeats spread over more than they differ by"), "{}", it[0].here);
    assert_eq!(it[0].agreement, Agreement::NotMeasured);
    let delay = &conclusions(&report(SPREAD, CHEAP, 1_500, true))[3];
    assert_eq!(delay.agreement, Agreement::NotMeasured, "noise is no evidence of a delay that is not longer");
}

#[test]
fn no_verdict_stands_over_a_noisy_measurement() {
    let quiet = report(CHEAP, DEAR, 1_500, false);
    assert!(agreements(&quiet).contains(&Agreement::Agrees));
    let noisy = Report { noise: vec!["other work".to_owned()], ..quiet };
    assert!(agreements(&noisy).iter().all(|it| *it == Agreement::NotMeasured));
    let sizes = [128, MTU_PAYLOAD].map(|payload| OfSize::of(payload, &noisy));
    assert!(larger_is_cheaper(&sizes).here.contains("it was noisy at 1472 bytes"));
}

#[test]
fn what_was_not_measured_is_said_to_be() {
    let mut without = report(CHEAP, DEAR, 1_500, true);
    without.transports.pop();
    let agreements = agreements(&without);
    assert_eq!([agreements[0], agreements[1], agreements[3]], [Agreement::NotMeasured; 3]);
}

#[test]
fn every_number_of_the_source_stands_beside_ours_or_a_reason() {
    let list = include_str!("../../tests/printed/001.tsv");
    let table = table(Some(&report(CHEAP, DEAR, 1_500, true)));
    check_printed(list, &table);
    check_printed(list, &super::table(None));
    let line = |what: &str| table.iter().find(|line| line.what == what).unwrap();
    let udp = line("UDP, onno");
    assert_eq!((udp.source, udp.here.as_ref().map(|row| row.median)), (Some(0.22), Some(1.0)));
    assert!(line("our stream").source.is_none() && line("our stream").here.is_none());
    let between_hosts = super::table(Some(&{
        let mut it = report(CHEAP, DEAR, 1_500, false);
        it.rows.retain(|row| row.metric != "delay_ms");
        it
    }));
    assert!(between_hosts[2].remark.contains("no clock in common"), "{:?}", between_hosts[2]);
}

#[test]
fn the_full_version_has_as_many_runs_as_the_source() {
    assert_eq!((options(Grid::Full).runs, options(Grid::Full).datagram_bytes), (100, 1_472));
    assert_eq!(options(Grid::Short).check(), Ok(()));
    assert!(PAYLOADS.iter().all(|payload| options_of_size(Grid::Full, *payload).check().is_ok()));
}
