//! BBR at a narrow link, compared with its draft, and its rules one by one.

use core::time::Duration;

use super::*;
use crate::bottleneck::Bottleneck;
use crate::harness::Stage;

/// 100 Mbit/s in packets of 1,500 bytes.
const PACKETS_PER_S: f64 = 8_333.3;
const BASE: Duration = Duration::from_millis(50);
/// Packets that fill the path without a queue, which is also the size of the queue.
const FILLS: u64 = 417;
const SECOND: Duration = Duration::from_secs(1);

fn path(options: &str, loss: f64) -> Bottleneck {
    Bottleneck::new(PACKETS_PER_S, FILLS).losing(loss).with("bbr", options, BASE, Duration::ZERO)
}

#[test]
fn alone_it_uses_the_way_and_leaves_the_queue_nearly_empty() {
    let mut path = path("", 0.0);
    let measured = path.run(SECOND * 20, SECOND * 60);
    // 0.97 to 0.99 of the path: 1 % below its rate, and 2 % less for the round trip probes.
    assert!(measured.rates[0] > 0.96 * PACKETS_PER_S, "{:?}", measured.rates);
    assert!(measured.queue < 0.1 * FILLS as f64 && measured.dropped == 0, "{}", measured.queue);
    // Every five seconds it probes for a shorter round trip, the time of the probe not counted.
    let probes = path.told(0, "round_trip_probes");
    assert!((13.0..=16.0).contains(&probes), "{probes}");
    let least = path.told(0, "least_round_trip_s");
    assert!((least - 0.05).abs() < 0.001, "{least}");
}

#[test]
fn chance_does_not_stop_it_up_to_a_percent_and_does_at_five() {
    let rate = |options, loss| path(options, loss).run(SECOND * 20, SECOND * 60).rates[0] / PACKETS_PER_S;
    let percent = rate("", 0.01);
    assert!(percent > 0.9, "{percent}");
    assert!(rate("", 0.05) < 0.1);
    // By the letter of the draft each round with a loss costs as much as was lost in it.
    let strict = rate("strict=1", 0.01);
    assert!((0.7..0.85).contains(&strict), "{strict}");
}

#[test]
fn two_of_it_share_after_some_tens_of_seconds() {
    let mut path = path("", 0.0).with("bbr", "", BASE, SECOND * 5);
    let measured = path.run(SECOND * 40, SECOND * 60);
    let sum: f64 = measured.rates.iter().sum();
    let squares: f64 = measured.rates.iter().map(|rate| rate * rate).sum();
    assert!(sum * sum / (2.0 * squares) > 0.98, "{:?}", measured.rates);
    assert!(sum > 0.95 * PACKETS_PER_S, "{:?}", measured.rates);
}

#[test]
fn a_way_with_hardly_a_queue_is_used() {
    let mut path = Bottleneck::new(PACKETS_PER_S, 40).with("bbr", "", BASE, Duration::ZERO);
    let measured = path.run(SECOND * 20, SECOND * 60);
    assert!(measured.rates[0] > 0.9 * PACKETS_PER_S, "{:?}", measured.rates);
}

/// A control to which the path delivered this many packets in each of several round trips of 50 ms.
fn taught(rounds: u64, delivered: u64) -> (Bbr, Stage) {
    let mut stage = Stage::new(1, BASE);
    let mut control = Bbr::new(false);
    control.on_start(&mut stage.environment());
    for _ in 0..rounds {
        round(&mut control, &mut stage, delivered, 0);
    }
    (control, stage)
}

/// Simulates a round trip with these deliveries and losses.
fn round(control: &mut Bbr, stage: &mut Stage, delivered: u64, lost: u64) {
    stage.now += BASE;
    let prior_delivered = control.path.delivered;
    stage.strange_rate = Some(RateSample {
        delivered,
        interval: BASE,
        prior_delivered,
        total_delivered: prior_delivered + delivered,
        lost,
        in_flight_at_send: delivered as u32,
        is_application_limited: false,
    });
    stage.flight.in_flight = delivered as u32;
    stage.ack(control, delivered as u32);
}

#[test]
fn the_start_is_over_when_three_rounds_bring_no_quarter_more() {
    let (mut control, mut stage) = taught(1, 100);
    for delivered in [200, 400, 480, 490] {
        round(&mut control, &mut stage, delivered, 0);
        assert_eq!(control.state, State::Startup, "{delivered}");
    }
    stage.flight.in_flight = 2_000;
    round(&mut control, &mut stage, 495, 0);
    assert!(control.was_filled && control.state != State::Startup, "{:?}", control.state);
}

#[test]
fn losses_narrow_what_is_sent_for_a_cycle_if_they_are_many() {
    for (is_strict, lost, is_narrowed) in [(false, 3, false), (true, 3, true), (false, 30, true)] {
        let (mut control, mut stage) = taught(12, 400);
        assert_eq!(control.state, State::Cruise);
        control.is_strict = is_strict;
        for _ in 0..3 {
            control.path.lose(1);
            round(&mut control, &mut stage, 360, lost);
        }
        let rate = control.path.rate();
        assert_eq!(rate < 7_500.0, is_narrowed, "{lost} lost, strict {is_strict}: {rate}");
        control.path.forget_losses();
        assert!((control.path.rate() - 8_000.0).abs() < 1.0, "{}", control.path.rate());
    }
}

#[test]
fn a_look_at_the_round_trip_halves_what_is_in_flight_and_ends() {
    let (mut control, mut stage) = taught(12, 400);
    stage.now += PROBE_AFTER;
    round(&mut control, &mut stage, 400, 0);
    assert!(matches!(control.state, State::RoundTrip { until: None, .. }), "{:?}", control.state);
    assert!((control.window - 200.0).abs() < 1.0, "{}", control.window);
    (0..6).for_each(|_| round(&mut control, &mut stage, 200, 0));
    assert_eq!(control.state, State::Cruise);
    assert!((control.path.most_rate() - 8_000.0).abs() < 1.0, "less was sent on purpose");
}

/// A time longer than the lifetime of a round trip without a probe.
const PROBE_AFTER: Duration = Duration::from_millis(5_100);
