//! Properties of every built-in control under arbitrary events.

use core::time::Duration;

use units::Random;

use crate::harness::Stage;
use crate::{
    BUILT_IN, Bounds, CongestionControl, LossSource, Lost, Message, Policy, RateSample, Received, Resized,
    RoundTrip, Sent, named,
};

const BOUNDS: Bounds = Bounds { max_window_packets: 10_000, max_spacing: Duration::from_secs(2) };

/// Returns a control of each kind, with required options where there are any.
fn every_control() -> impl Iterator<Item = (&'static str, Box<dyn CongestionControl>)> {
    BUILT_IN.iter().map(|choice| {
        let needs_rate = named(choice.name, "").is_err();
        let options = if needs_rate { "rate=100m" } else { "" };
        (choice.name, named(choice.name, options).unwrap().create())
    })
}

/// Generates arbitrary events from one seed; calls `look` with the policy after each.
fn anything(control: &mut dyn CongestionControl, seed: u64, mut look: impl FnMut(&Policy, &RoundTrip)) {
    let mut chance = Random::new(seed);
    let mut stage = Stage::new(seed, Duration::from_millis(20));
    stage.flight.max_window_packets = 10_000;
    control.on_start(&mut stage.environment());
    for _ in 0..2_000 {
        stage.now += Duration::from_micros(chance.below(30_000));
        stage.flight.next += chance.below(200);
        stage.flight.is_application_limited = chance.chance(0.1);
        stage.round_trip.smoothed = Duration::from_micros(chance.below(3_000_000));
        stage.peer.arrival_packets_per_s = strange_rate(&mut chance);
        stage.peer.capacity_packets_per_s = strange_rate(&mut chance);
        stage.received_end = chance.below(100_000);
        stage.missing = (0..5)
            .map(|_| chance.below(stage.received_end + 1))
            .map(|at| at..(at + 9).min(stage.received_end))
            .collect();
        stage.strange_rate = chance.chance(0.3).then(|| strange_sample(&mut chance));
        if control.next_timer().is_some_and(|at| at <= stage.now) {
            control.on_timer(&mut stage.environment());
        }
        while let Some(message) = control.poll_message() {
            assert!(message.body.len() * 4 <= 1_456, "{message:?}");
        }
        while let Some(missing) = control.poll_missing() {
            assert!(missing.start < missing.end, "{missing:?}");
        }
        match chance.below(13) {
            12 => control.on_message(&mut stage.environment(), &strange_message(&mut chance)),
            11 => {
                let (packets, newly_missing) = (chance.below(100) as u32, chance.below(3) as u32);
                let bytes = u64::from(packets) * 1_500;
                let received = Received { packets, bytes, newly_missing, arrived: stage.now };
                control.on_received(&mut stage.environment(), &received);
            }
            10 => {
                let (first, packets) = (stage.flight.next, 1 + chance.below(40) as u32);
                let sent = Sent { first, packets, is_retransmission: chance.chance(0.2) };
                control.on_sent(&mut stage.environment(), &sent);
            }
            0..=5 => {
                let open = stage.flight.next - stage.flight.acked_to;
                let newly = u32::try_from(chance.below(open + 1)).unwrap();
                stage.ack(control, newly);
            }
            6 => stage.lose(control),
            7 => stage.lose_again(control),
            8 => {
                let lost = Lost {
                    ranges: &[],
                    newly: 0,
                    begins_epoch: true,
                    source: LossSource::Timeout,
                    round_trip: None,
                    rate: None,
                };
                control.on_loss(&mut stage.environment(), &lost);
            }
            _ => control.on_timeout(&mut stage.environment()),
        }
        look(&control.policy(), &stage.round_trip);
    }
}

/// Returns a peer's rate, which may be invalid.
fn strange_rate(chance: &mut Random) -> Option<f64> {
    match chance.below(8) {
        0 => None,
        1 => Some(0.0),
        2 => Some(f64::INFINITY),
        3 => Some(f64::NAN),
        4 => Some(1e300),
        _ => Some(1e5 * chance.unit()),
    }
}

/// Returns a message of a kind that some control knows, with an arbitrary body.
fn strange_message(chance: &mut Random) -> Message {
    let kinds = [0x5341, 0x5453, 0x4754, 0x5244, 0x5242, 0];
    let kind = kinds[chance.below(kinds.len() as u64) as usize];
    let word = |chance: &mut Random| if chance.chance(0.5) { chance.below(3_000) } else { chance.next_u64() };
    Message { kind, body: (0..chance.below(8)).map(|_| word(chance) as u32).collect() }
}

/// Returns an arbitrary sample, as from a broken transport.
fn strange_sample(chance: &mut Random) -> RateSample {
    let count = |chance: &mut Random| match chance.below(4) {
        0 => 0,
        1 => u64::MAX,
        _ => chance.below(100_000),
    };
    RateSample {
        delivered: count(chance),
        interval: Duration::from_nanos(count(chance)),
        prior_delivered: count(chance),
        total_delivered: count(chance),
        lost: count(chance),
        in_flight_at_send: chance.below(10_000) as u32,
        is_application_limited: chance.chance(0.3),
    }
}

#[test]
fn no_control_is_ever_absurd() {
    for seed in 0..20 {
        for (name, mut control) in every_control() {
            anything(control.as_mut(), seed, |policy, round_trip| {
                let kept = BOUNDS.keep(policy, round_trip);
                assert!(!kept.was_absurd, "{name}, seed {seed}: {policy:?}");
            });
        }
    }
}

/// RFC 8899 §3: the congestion window in bytes must not grow with the packet size.
#[test]
fn larger_packets_change_no_rate_and_no_window_in_bytes() {
    for (name, mut control) in every_control() {
        let mut stage = Stage::new(1, Duration::from_millis(20));
        stage.flight.packet_bytes = 576;
        stage.peer.arrival_packets_per_s = Some(10_000.0);
        stage.peer.capacity_packets_per_s = Some(20_000.0);
        control.on_start(&mut stage.environment());
        for round in 0..60 {
            stage.now += Duration::from_millis(10);
            stage.flight.next += 50;
            if control.next_timer().is_some_and(|at| at <= stage.now) {
                control.on_timer(&mut stage.environment());
            }
            stage.ack(control.as_mut(), 50);
            if round % 20 == 19 {
                stage.flight.next += 10;
                stage.lose(control.as_mut());
            }
        }
        let small = control.policy();
        let resized = Resized { before_bytes: 576, after_bytes: 1_500 };
        stage.flight.packet_bytes = 1_500;
        control.on_packet_size(&mut stage.environment(), &resized);
        let large = control.policy();
        for (before, after) in
            [(small.packets_per_s, large.packets_per_s), (small.window_packets, large.window_packets)]
        {
            let is_open = before.is_infinite() && after.is_infinite();
            let is_kept = (after * 1_500.0 / (before * 576.0) - 1.0).abs() < 1e-9;
            assert!(is_open || is_kept, "{name}: {before} packets became {after}");
        }
    }
}

#[test]
fn one_seed_gives_one_future() {
    for ((name, mut one), (_, mut other)) in every_control().zip(every_control()) {
        let (mut first, mut second) = (Vec::new(), Vec::new());
        anything(one.as_mut(), 7, |policy, _| first.push(*policy));
        anything(other.as_mut(), 7, |policy, _| second.push(*policy));
        assert!(first == second, "{name}");
    }
}

#[test]
fn ten_acknowledgements_of_one_packet_are_one_of_ten() {
    for ((name, mut one), (_, mut ten)) in every_control().zip(every_control()) {
        let mut stages = [Stage::new(1, Duration::from_millis(20)), Stage::new(1, Duration::from_millis(20))];
        for stage in &mut stages {
            stage.peer.capacity_packets_per_s = Some(1e5);
            stage.flight.next = 100_000;
        }
        for round in 0..300 {
            for (stage, control) in stages.iter_mut().zip([&mut one, &mut ten]) {
                if round % 100 == 50 {
                    stage.lose(control.as_mut());
                    stage.flight.next += 1_000;
                }
                stage.now += Duration::from_millis(10);
            }
            (0..10).for_each(|_| stages[0].ack(one.as_mut(), 1));
            stages[1].ack(ten.as_mut(), 10);
            let (single, batch) = (one.policy(), ten.policy());
            for (single, batch) in
                [(single.window_packets, batch.window_packets), (single.packets_per_s, batch.packets_per_s)]
            {
                let is_same = single == batch || (single / batch - 1.0).abs() < 0.02;
                assert!(is_same, "{name}, round {round}: {single} and {batch}");
            }
        }
    }
}
