//! Decisions of every built-in control on recorded events, as a golden table.
//!
//! The events are drawn from a seed before the first control sees them, so that all get the same. A change of the code
//! that is no change of behaviour leaves the table as it is; a change of behaviour shows its controls and scenes.

use core::fmt::{self, Write};
use core::time::Duration;

use congestion::{
    AckKind, Acked, BUILT_IN, CongestionControl, Environment, Flight, Incoming, LossSource, Lost, Message,
    PeerReport, RateSample, Received, RoundTrip, Sent, named,
};
use units::{Instant, Random, RangeSet};

/// A kind of connection, by the chances of its events.
struct Scene {
    name: &'static str,
    /// Most packets that one acknowledgement covers.
    most_acked: u64,
    /// Chances that an event is a loss which begins an epoch, one in the epoch, or a timeout.
    loss: f64,
    further_loss: f64,
    timeout: f64,
    /// Chance that a span of events is limited by the application.
    limited: f64,
    begins_limited: bool,
    /// The peer's buffer at the beginning; it doubles after a quarter of the events. Units: packets.
    peer_packets: u32,
    least_round_trip: Duration,
}

const SCENES: [Scene; 4] = [
    Scene {
        name: "fast",
        most_acked: 2_000,
        loss: 0.004,
        further_loss: 0.01,
        timeout: 0.000_5,
        limited: 0.1,
        begins_limited: false,
        peer_packets: 100_000,
        least_round_trip: Duration::from_millis(50),
    },
    Scene {
        name: "lossy",
        most_acked: 30,
        loss: 0.05,
        further_loss: 0.1,
        timeout: 0.02,
        limited: 0.1,
        begins_limited: false,
        peer_packets: 10_000,
        least_round_trip: Duration::from_millis(5),
    },
    Scene {
        name: "idle",
        most_acked: 100,
        loss: 0.02,
        further_loss: 0.02,
        timeout: 0.01,
        limited: 0.6,
        begins_limited: false,
        peer_packets: 5_000,
        least_round_trip: Duration::from_millis(20),
    },
    Scene {
        name: "narrow",
        most_acked: 6,
        loss: 0.02,
        further_loss: 0.02,
        timeout: 0.02,
        limited: 0.4,
        begins_limited: true,
        peer_packets: 6,
        least_round_trip: Duration::from_micros(200),
    },
];

/// Events of a scene.
const EVENTS: usize = 4_000;
/// Mean number of events in a span with or without data to send.
const SPAN: u64 = 40;

/// Options of a control in addition to the usual ones.
const VARIANTS: [(&str, &str); 8] = [
    ("udt", "quantised=1"),
    ("reno", "start=40"),
    ("bic", "smax=16&b=0.2"),
    ("scalable", "a=0.05&b=0.3"),
    ("vegas", "alpha=10&beta=20"),
    ("copa", "delta=0.1"),
    ("bbr", "strict=1"),
    ("ledbat", "target=25&gain=0.5"),
];

/// An event, and the state of the connection at its time.
struct Recorded {
    now: Instant,
    round_trip: RoundTrip,
    peer: PeerReport,
    flight: Flight,
    received_end: u64,
    missing: RangeSet,
    event: Event,
}

enum Event {
    Ack(Acked),
    Loss { newly: u32, begins_epoch: bool, source: LossSource, rate: Option<RateSample> },
    Timeout,
    Sent(Sent),
    Received(Received),
    Message(Message),
}

/// Draws the events of a scene.
fn record(scene: &Scene) -> Vec<Recorded> {
    let mut chance = Random::for_purpose(1, scene.name);
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut queue = 0.0;
    let mut round_trip = RoundTrip::UNKNOWN;
    let mut peer = PeerReport { window_packets: scene.peer_packets, ..PeerReport::default() };
    let mut flight = Flight {
        next: 1,
        acked_to: 0,
        in_flight: 1,
        is_application_limited: scene.begins_limited,
        packet_bytes: 1_500,
        max_window_packets: scene.peer_packets,
    };
    let (mut lost_packets, mut round_end) = (0, 0);
    let mut recorded = Vec::new();
    for count in 0..EVENTS {
        now += Duration::from_micros(chance.below(2_000) + scene.most_acked);
        if chance.below(SPAN) == 0 {
            flight.is_application_limited = chance.chance(scene.limited);
        }
        if count == EVENTS / 4 {
            flight.max_window_packets *= 2;
        }
        // The queue wanders between empty and as long as the path.
        queue = (queue + 0.2 * (chance.unit() - 0.5)).clamp(0.0, 1.0);
        if chance.chance(0.05) {
            peer.arrival_packets_per_s = Some(1e5 * chance.unit() + 1.0);
            peer.capacity_packets_per_s = Some(1e5 * (1.0 + chance.unit()));
        }
        let sample = scene.least_round_trip.mul_f64(1.0 + queue);
        let at = chance.unit();
        let event = if at < 0.2 {
            let packets = 1 + chance.below(scene.most_acked) as u32;
            let sent = Sent { first: flight.next, packets, is_retransmission: chance.chance(0.1) };
            flight.next += u64::from(packets);
            flight.in_flight += packets;
            Event::Sent(sent)
        } else if at < 0.25 {
            let (packets, newly_missing) =
                (chance.below(100) as u32, chance.below(20).saturating_sub(17) as u32);
            let bytes = u64::from(packets) * 1_500;
            Event::Received(Received { packets, bytes, newly_missing, arrived: now })
        } else if at < 0.26 {
            Event::Message(message(&mut chance))
        } else if chance.chance(scene.timeout) {
            Event::Timeout
        } else if chance.chance(scene.loss + scene.further_loss) {
            let begins_epoch = chance.chance(scene.loss / (scene.loss + scene.further_loss));
            let newly = 1 + chance.below(5) as u32;
            lost_packets += u64::from(newly);
            let source = if chance.chance(0.1) { LossSource::Timeout } else { LossSource::Report };
            let rate = chance.chance(0.5).then(|| rate_sample(&mut chance, &flight, sample, lost_packets));
            Event::Loss { newly, begins_epoch, source, rate }
        } else {
            let open = flight.next - flight.acked_to;
            let newly = chance.below(scene.most_acked + 1).min(open);
            flight.acked_to += newly;
            flight.in_flight = (flight.next - flight.acked_to) as u32;
            let ends_round = flight.acked_to > round_end;
            if ends_round {
                round_end = flight.next;
            }
            let measured = chance.chance(0.9).then_some(sample);
            if measured.is_some() {
                round_trip = RoundTrip {
                    latest: measured,
                    smoothed: (round_trip.smoothed * 7 + sample) / 8,
                    variation: round_trip.variation * 3 / 4,
                    least: Some(round_trip.least.map_or(sample, |least| least.min(sample))),
                };
            }
            Event::Ack(Acked {
                to: flight.acked_to,
                newly: newly as u32,
                kind: if chance.chance(0.5) { AckKind::Light } else { AckKind::Full },
                round_trip: measured,
                ends_round,
                rate: chance.chance(0.8).then(|| rate_sample(&mut chance, &flight, sample, lost_packets)),
            })
        };
        let received_end = count as u64 * 10;
        let missing = (0..3)
            .map(|_| chance.below(received_end + 1))
            .map(|at| at..(at + 4).min(received_end))
            .filter(|range| !range.is_empty())
            .collect();
        recorded.push(Recorded { now, round_trip, peer, flight, received_end, missing, event });
    }
    recorded
}

/// Draws a sample of the delivery rate as a path with this round trip gives it.
fn rate_sample(chance: &mut Random, flight: &Flight, interval: Duration, lost: u64) -> RateSample {
    let delivered = chance.below(400).min(flight.acked_to);
    RateSample {
        delivered,
        interval,
        prior_delivered: flight.acked_to - delivered,
        total_delivered: flight.acked_to,
        lost: lost.min(chance.below(20)),
        in_flight_at_send: flight.in_flight,
        is_application_limited: flight.is_application_limited,
    }
}

/// Draws a message of a kind that some control knows.
fn message(chance: &mut Random) -> Message {
    let kinds = [(0x5341, 2), (0x5453, 1), (0x4754, 2), (0x5244, 3), (0x5242, 6)];
    let (kind, words) = kinds[chance.below(kinds.len() as u64) as usize];
    let word = |chance: &mut Random| if chance.chance(0.5) { chance.below(4) } else { chance.below(50_000) };
    Message { kind, body: (0..words).map(|_| word(chance) as u32).collect() }
}

/// Repeats the events before a control; returns its mean window, or rate if it has no window, and the text of all its
/// decisions.
fn replay(control: &mut dyn CongestionControl, events: &[Recorded]) -> (f64, String) {
    let mut random = Random::new(3);
    let mut text = String::new();
    let mut sum = 0.0;
    for (count, recorded) in events.iter().enumerate() {
        let mut environment = Environment {
            now: recorded.now,
            round_trip: recorded.round_trip,
            peer: recorded.peer,
            flight: recorded.flight,
            incoming: Incoming {
                next: recorded.missing.first().map_or(recorded.received_end, |range| range.start),
                received_end: recorded.received_end,
                missing: &recorded.missing,
            },
            random: &mut random,
        };
        if count == 0 {
            control.on_start(&mut environment);
        }
        if control.next_timer().is_some_and(|at| at <= recorded.now) {
            control.on_timer(&mut environment);
        }
        handle(control, &mut environment, &recorded.event);
        let policy = control.policy();
        sum += if policy.window_packets.is_finite() { policy.window_packets } else { policy.packets_per_s };
        decisions(control, &mut text).expect("a String takes any text");
    }
    (sum / events.len() as f64, text)
}

fn handle(control: &mut dyn CongestionControl, environment: &mut Environment<'_>, event: &Event) {
    match event {
        Event::Ack(acked) => control.on_ack(environment, acked),
        Event::Loss { newly, begins_epoch, source, rate } => {
            let next = environment.flight.next;
            let ranges = [next.saturating_sub(u64::from(*newly))..next];
            let (newly, begins_epoch, source, rate) = (*newly, *begins_epoch, *source, *rate);
            let lost = Lost { ranges: &ranges, newly, begins_epoch, source, round_trip: None, rate };
            control.on_loss(environment, &lost);
        }
        Event::Timeout => control.on_timeout(environment),
        Event::Sent(sent) => control.on_sent(environment, sent),
        Event::Received(received) => control.on_received(environment, received),
        Event::Message(message) => control.on_message(environment, message),
    }
}

/// Appends everything by which a control acts on its transport. Nine digits of a number are written: the last ones
/// depend on the machine's logarithms and roots.
fn decisions(control: &mut dyn CongestionControl, text: &mut String) -> fmt::Result {
    let policy = control.policy();
    write!(text, "{:.8e} {:.8e} ", policy.window_packets, policy.packets_per_s)?;
    write!(text, "{} {} {:?} ", policy.spread, policy.burst_packets, policy.acknowledge)?;
    write!(text, "{:?} {:?} {:?}", policy.timeout, policy.retransmission, control.next_timer())?;
    while let Some(message) = control.poll_message() {
        write!(text, " {message:?}")?;
    }
    while let Some(missing) = control.poll_missing() {
        write!(text, " {missing:?}")?;
    }
    // Estimates have names, and no order.
    let mut estimates = Vec::new();
    control.tell(&mut |name, value| estimates.push(format!(" {name}={value:.8e}")));
    estimates.sort_unstable();
    estimates.push("\n".to_owned());
    text.write_str(&estimates.concat())
}

/// FNV-1a, which is the same on every machine.
fn digest(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn each_control_decides_on_recorded_events_as_before() {
    let usual = BUILT_IN.iter().map(|choice| {
        let needs_rate = named(choice.name, "").is_err();
        (choice.name, if needs_rate { "rate=100m" } else { "" })
    });
    let scenes = SCENES.map(|scene| (record(&scene), scene.name));
    let mut table = format!("{:37}", "Mean window, or packets/s, and digest");
    scenes.iter().for_each(|(_, name)| write!(table, " | {name:>27}").unwrap());
    for (name, options) in usual.chain(VARIANTS) {
        write!(table, "\n{:37}", format!("{name} {options}")).unwrap();
        for (events, _) in &scenes {
            let mut control = named(name, options).unwrap().create();
            let (mean, text) = replay(control.as_mut(), events);
            write!(table, " | {mean:>10.2} {:016x}", digest(&text)).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}
