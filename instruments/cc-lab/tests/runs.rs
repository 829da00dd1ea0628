//! Complete runs: accounts close, known properties of controls show, and the result depends on the seed alone.

use core::time::Duration;
use std::sync::Arc;

use cc_lab::{Cell, Comparison, Competitor, Flow, Hosts, Outcome, Path, Run, Sweep};
use congestion::{Acked, CongestionControl, Environment, Factory, Lost, Policy};
use drawing::Forms;
use sim::CrossTraffic;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

fn flows(names: &[&str]) -> Vec<Flow> {
    names.iter().map(|name| Flow::named(name, "").expect("it is built in")).collect()
}

fn play(run: &Run) -> Outcome {
    let outcome = run.play(|_| true).expect("nobody stops it");
    assert!(outcome.packets.balance(), "{:?}", outcome.packets);
    assert!(outcome.flows.iter().all(|flow| flow.stats.impossible_packets == 0));
    outcome
}

/// 50 Mbit/s and 20 ms: 81 packets in flight.
fn path() -> Path {
    Path::new(50_000_000, 20 * MS)
}

#[test]
fn every_control_fills_an_empty_path_nearly_and_closes_its_account() {
    for competitor in Competitor::all(&path(), 1) {
        let flow = Flow::of(&competitor.name, competitor.control);
        let outcome = play(&Run::new(path(), vec![flow], SECOND * 10));
        let used = outcome.utilisation();
        let least = match competitor.name.as_str() {
            "bic" | "cubic" | "scalable" | "highspeed" | "reno" | "fast" | "vegas" => 0.97,
            "bbr" => 0.9,
            // SABUL's smoothed loss continues to cut the rate long after the queue has emptied.
            "sabul" => 0.2,
            _ => 0.7,
        };
        assert!((least..=1.0).contains(&used), "{} uses {used} of the path", competitor.name);
    }
}

#[test]
fn controls_that_go_by_delay_use_a_longer_path_also_where_losses_come_by_chance() {
    for (name, loss, least) in [
        ("vegas", 0.0, 0.8),
        ("fast", 0.0, 0.9),
        ("copa", 0.0, 0.85),
        ("copa", 1e-2, 0.8),
        ("ledbat", 0.0, 0.8),
    ] {
        let path = Path { loss, ..Path::new(50_000_000, 50 * MS) };
        let run = Run { warm_up: SECOND * 30, ..Run::new(path, flows(&[name]), SECOND * 50) };
        let used = play(&run).utilisation();
        assert!(used > least, "{name} uses {used} of the path where {loss} are lost");
    }
}

#[test]
fn a_run_is_its_seed() {
    let run = |seed| {
        let path = Path { loss: 1e-3, ..path() };
        play(&Run { seed, ..Run::new(path, flows(&["cubic", "udt"]), SECOND * 5) })
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_placed_loss_is_one_loss() {
    let path = Path { lost: vec![20_000], ..path() };
    let outcome = play(&Run::new(path, flows(&["fast"]), SECOND * 10));
    assert_eq!((outcome.packets.lost_on_the_way, outcome.packets.lost_in_queue), (1, 0));
    assert_eq!(outcome.flows[0].stats.retransmitted_packets, 1);
}

#[test]
fn two_of_a_kind_share_and_a_way_twice_as_long_is_told() {
    let mut pair = flows(&["reno", "reno"]);
    let outcome = play(&Run::new(path(), pair.clone(), SECOND * 60));
    assert!(outcome.jain_index() > 0.9, "{}", outcome.jain_index());
    // Reno's share is inversely proportional to the round trip, or slightly more; a shared queue makes round trips
    // more alike.
    pair[1].further = 100 * MS;
    let outcome = play(&Run::new(path(), pair, SECOND * 60));
    let [near, far] = [0, 1].map(|index: usize| outcome.flows[index].goodput_bits_per_s);
    assert!(near > 2.0 * far, "{near} and {far}");
}

#[test]
fn others_take_their_share() {
    let with = |others| {
        let outcome = play(&Run::new(Path { others, ..path() }, flows(&["udt"]), SECOND * 30));
        outcome.goodput_bits_per_s()
    };
    let (alone, shared) = (with(None), with(Some(CrossTraffic::poisson(20_000_000))));
    let left = shared / alone;
    assert!((0.4..0.75).contains(&left), "{left} of it is left with two fifths of cross traffic");
}

#[test]
fn hosts_that_take_time_cost_something_and_never_the_account() {
    let path = Path::new(1_000_000_000, 2 * MS);
    let run = |hosts| play(&Run { hosts, ..Run::new(path.clone(), flows(&["cubic"]), SECOND * 2) });
    let (ideal, real) = (run(Hosts::Ideal), run(Hosts::Real));
    assert!(ideal.utilisation() > 0.9, "{}", ideal.utilisation());
    assert!(real.utilisation() > 0.3 && real.utilisation() < ideal.utilisation(), "{}", real.utilisation());
}

#[test]
fn a_comparison_has_its_table_its_rows_and_its_page() {
    let competitors = ["reno", "vegas?alpha=3&beta=5"].map(|text| Competitor::named(text).unwrap());
    let mut comparison = Comparison::new(path(), competitors.to_vec());
    comparison.duration = SECOND * 20;
    comparison.flows = 2;
    let report = comparison.play(|_| true).expect("nobody stops it");
    let [reno, vegas] = &report.standings[..] else { panic!("{report:?}") };
    assert_eq!((vegas.label().as_str(), vegas.seeds), ("vegas?alpha=3&beta=5", 3));
    assert!(reno.packets.balance() && reno.packets.lost_in_queue > 0 && reno.packets.lost_on_the_way == 0);
    // Known behaviour: Reno fills the queue and shares evenly with another Reno; Vegas gives way to Reno.
    assert!(reno.queueing_delay_seconds > 4.0 * vegas.queueing_delay_seconds);
    let [against_reno, against_vegas] = [reno, vegas].map(|standing| standing.friendliness_to_reno.unwrap());
    assert!((0.7..1.3).contains(&against_reno), "{against_reno}");
    assert!(against_vegas > 1.2, "{against_vegas}");
    let text = report.to_string();
    assert!(
        text.starts_with("50.0 Mbit/s, round-trip time 20ms, queue 125 kB, packets of 1500 bytes, ideal"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_eq!(text.lines().count(), 9, "{text}");
    let page = report.to_html().unwrap();
    assert!(page.contains("vegas?alpha=3&amp;beta=5") && !page.contains("NaN"));
    assert_eq!(page.matches("<svg").count(), 6, "three pictures of each");
    assert_eq!(report.to_csv().lines().count(), 3);
    let saved = serde_json::to_value(&report).unwrap();
    let control = &saved["controls"][1];
    assert_eq!(
        (&saved["version"], &control["cc"], &control["options"]),
        (&1.into(), &"vegas".into(), &"alpha=3&beta=5".into())
    );
    assert_eq!(control["over_time"]["flows"][1]["goodput_bits_per_second"].as_array().unwrap().len(), 200);
    assert_eq!(control["packets"]["sent"], vegas.packets.sent);
    assert_eq!(comparison.play(|part| part < 0.1), None, "it stops when it is told to");
}

#[test]
fn a_control_that_asks_for_what_cannot_be_obeyed_is_named() {
    let mut comparison = Comparison::new(path(), vec![Competitor::of("stubborn", Arc::new(Stubborn))]);
    comparison.seeds = vec![1];
    comparison.duration = SECOND;
    comparison.against_reno = false;
    let report = comparison.play(|_| true).expect("nobody stops it");
    assert!(report.standings[0].absurd_policies > 0);
    assert!(report.standings[0].packets.delivered > 0, "it got the nearest possible window");
    assert!(report.to_string().contains("stubborn asked"), "{report}");
    assert!(report.standings[0].friendliness_to_reno.is_none());
}

/// Asks for half a packet in flight.
#[derive(Clone, Debug)]
struct Stubborn;

impl CongestionControl for Stubborn {
    fn policy(&self) -> Policy {
        Policy::window(0.5)
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, _: &Acked) {}

    fn on_loss(&mut self, _: &mut Environment<'_>, _: &Lost<'_>) {}
}

impl Factory for Stubborn {
    fn create(&self) -> Box<dyn CongestionControl> {
        Box::new(self.clone())
    }
}

#[test]
fn a_sweep_shows_how_loss_and_distance_hurt() {
    let comparison = |round_trip| {
        let competitors = ["reno", "udt"].map(|text| Competitor::named(text).unwrap());
        let mut comparison = Comparison::new(Path::new(50_000_000, round_trip), competitors.to_vec());
        (comparison.seeds, comparison.duration) = (vec![1], SECOND * 20);
        comparison
    };
    let sweep =
        Sweep { comparisons: vec![comparison(2 * MS), comparison(100 * MS)], losses: vec![0.0, 1e-2] };
    let report = sweep.play(|_| true).expect("nobody stops it");
    assert_eq!(report.cells.len(), 8);
    let of = |cc: &str, loss: f64, rtt: f64| {
        let is_it = |cell: &&Cell| cell.cc == cc && cell.loss == loss && cell.round_trip_seconds == rtt;
        report.cells.iter().find(is_it).expect("every cell is there").goodput_bits_per_second
    };
    assert!(of("reno", 1e-2, 0.1) < of("reno", 1e-2, 0.002) / 10.0);
    assert!(of("reno", 1e-2, 0.1) < of("reno", 0.0, 0.1) / 5.0);
    assert!(of("udt", 1e-2, 0.1) > 2.0 * of("reno", 1e-2, 0.1));
    assert_eq!(report.to_html().unwrap().matches("<svg").count(), 2, "one of each control");
    let text = report.to_string();
    assert!(text.contains("\nreno\n") && text.contains("1.00%"), "{text}");
}
