//! Decisions of a congestion control take effect: every part of the contract, over the real wire.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Mutex};

use congestion::{
    AckPolicy, Acked, CongestionControl, Environment, Factory, Lost, Message, Policy, Received,
    Retransmission,
};
use sim::{Link, Passing};
use udt::{SocketConfig, SocketType};
use units::Instant;
use wire::udt::{Body, Control};

use crate::line::{MS, SECOND, Work, config};
use crate::pair::{CLIENT, Path, SERVER, connected_by, hear_at, pair, said_at, stats};

/// Factory that creates controls by a function.
struct Made<C, F: Fn() -> C>(F);

impl<C, F: Fn() -> C> fmt::Debug for Made<C, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("made by a scene")
    }
}

impl<C: CongestionControl + 'static, F: Fn() -> C + Send + Sync> Factory for Made<C, F> {
    fn create(&self) -> Box<dyn CongestionControl> {
        Box::new(self.0())
    }
}

/// A socket whose control is created by a function.
pub(crate) fn with<C: CongestionControl + 'static>(
    kind: SocketType,
    make: impl Fn() -> C + Send + Sync + 'static,
) -> SocketConfig {
    SocketConfig::with(kind, Arc::new(Made(make)))
}

/// A constant policy, regardless of events.
#[derive(Clone, Debug)]
struct Steady(Policy);

impl CongestionControl for Steady {
    fn policy(&self) -> Policy {
        self.0
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, _: &Acked) {}

    fn on_loss(&mut self, _: &mut Environment<'_>, _: &Lost<'_>) {}
}

fn steady(policy: Policy) -> SocketConfig {
    with(SocketType::Stream, move || Steady(policy))
}

fn stream(bytes: u64) -> Work {
    Work { send_bytes: bytes, ..Work::default() }
}

/// Reports every 5 ms how many packets have arrived here, and records the reports of the peer's control.
#[derive(Debug)]
struct Talker {
    heard: Arc<Mutex<Vec<Message>>>,
    arrived: u32,
    next: Option<Instant>,
    said: Option<Message>,
}

impl CongestionControl for Talker {
    fn policy(&self) -> Policy {
        Policy::window(64.0)
    }

    fn on_start(&mut self, environment: &mut Environment<'_>) {
        self.next = Some(environment.now + 5 * MS);
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, _: &Acked) {}

    fn on_loss(&mut self, _: &mut Environment<'_>, _: &Lost<'_>) {}

    fn on_received(&mut self, _: &mut Environment<'_>, received: &Received) {
        self.arrived += received.packets;
    }

    fn on_message(&mut self, _: &mut Environment<'_>, message: &Message) {
        self.heard.lock().expect("nobody panicked").push(message.clone());
    }

    fn poll_message(&mut self) -> Option<Message> {
        self.said.take()
    }

    fn next_timer(&self) -> Option<Instant> {
        self.next
    }

    fn on_timer(&mut self, environment: &mut Environment<'_>) {
        assert_eq!(Some(environment.now), self.next, "exactly when it was asked for");
        self.said = Some(Message { kind: 7, body: vec![self.arrived, 0xdead_beef] });
        self.next = Some(environment.now + 5 * MS);
    }
}

#[test]
fn controls_talk_to_each_other_both_ways_when_their_timers_fire() {
    let heard: [Arc<Mutex<Vec<Message>>>; 2] = Default::default();
    let [client, server] = heard.clone().map(|heard| {
        with(SocketType::Stream, move || Talker {
            heard: Arc::clone(&heard),
            arrived: 0,
            next: None,
            said: None,
        })
    });
    let mut network = pair(1, Path::of(10 * MS), (client, stream(146_000)), (server, Work::default()));
    network.run_until(Instant::ORIGIN + 240 * MS);
    let heard = heard.map(|heard| heard.lock().expect("nobody panicked").clone());
    for heard in &heard {
        // From 40 ms on, every 5 ms, and 10 ms in flight.
        assert!((36..=40).contains(&heard.len()), "{} messages", heard.len());
        assert!(heard.iter().all(|message| message.kind == 7 && message.body[1] == 0xdead_beef));
    }
    let arrived = stats(&network, SERVER).received_packets;
    assert_eq!(heard[0].last().map(|message| u64::from(message.body[0])), Some(arrived));
    assert_eq!(heard[1].last().map(|message| message.body[0]), Some(0), "nothing went that way");
}

/// The timeouts of a control that doubles its own, as TCP does.
#[derive(Debug)]
struct Impatient {
    timeout: Duration,
    fired: Arc<Mutex<Vec<Instant>>>,
}

impl CongestionControl for Impatient {
    fn policy(&self) -> Policy {
        Policy { timeout: Some(self.timeout), ..Policy::window(4.0) }
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, _: &Acked) {}

    fn on_loss(&mut self, _: &mut Environment<'_>, _: &Lost<'_>) {}

    fn on_timeout(&mut self, environment: &mut Environment<'_>) {
        self.fired.lock().expect("nobody panicked").push(environment.now);
        self.timeout *= 2;
    }
}

#[test]
fn a_controls_own_timeout_stands_for_the_transports() {
    let fired: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let noted = Arc::clone(&fired);
    let client = with(SocketType::Stream, move || Impatient { timeout: 30 * MS, fired: Arc::clone(&noted) });
    // All data of the first half second is lost.
    let is_data = |passing: &Passing<'_>| passing.bytes[0] & 0x80 == 0;
    let early = move |passing: &Passing<'_>| passing.at < Instant::ORIGIN + 500 * MS && is_data(passing);
    let forward = Link::ideal().delay(MS).lose_when("data, at first", early);
    let path = Path { forward, reverse: Link::ideal().delay(MS) };
    let mut network = pair(1, path, (client, stream(100_000)), (config(SocketType::Stream), Work::default()));
    network.run_until(Instant::ORIGIN + SECOND * 2);
    // Connected after two round trips of 2 ms; then after 30, 60, 120, 240 and 480 ms, the last of which gets through.
    let millis: Vec<u64> =
        fired.lock().expect("nobody panicked").iter().map(|at| at.as_nanos() / 1_000_000).collect();
    assert_eq!(millis, [34, 94, 214, 454, 934]);
    let client = stats(&network, CLIENT);
    assert_eq!((client.timeouts, client.tail_probes, client.queued_bytes), (5, 0, 0));
    assert_eq!(network.node(SERVER).only().received, 100_000);
}

#[test]
fn an_end_acknowledges_as_its_control_says() {
    let acknowledging = |acknowledge| steady(Policy { acknowledge, ..Policy::window(32.0) });
    let full = |after_packets| AckPolicy { after_packets, ..AckPolicy::UDT };
    let sent_acks = |acknowledge| {
        // A packet each 100 us: those that arrive together are acknowledged together.
        let sending = steady(Policy { packets_per_s: 10_000.0, ..Policy::window(400.0) });
        let receiving = acknowledging(acknowledge);
        let mut network =
            pair(1, Path::of(10 * MS), (sending, stream(1_456_000)), (receiving, Work::default()));
        network.run_until(Instant::ORIGIN + SECOND);
        assert_eq!(network.node(SERVER).only().received, 1_456_000);
        stats(&network, SERVER).sent_acks
    };
    // A thousand packets, one of the last 16 of which arrives alone.
    assert!((500..=520).contains(&sent_acks(full(Some(2)))));
    assert!((125..=140).contains(&sent_acks(full(Some(8)))));
    let light = AckPolicy { light_after_packets: 4, ..AckPolicy::UDT };
    let (often, seldom) = (sent_acks(light), sent_acks(AckPolicy::UDT));
    assert!((250..=320).contains(&often) && seldom < 100, "{often} {seldom}");
    let quick = AckPolicy { every: MS, ..AckPolicy::UDT };
    assert!(sent_acks(quick) > seldom);
}

/// Sends in rounds: lost packets wait until a round is over.
#[derive(Debug)]
struct Rounds {
    is_over: bool,
    ends_at: Option<Instant>,
}

impl CongestionControl for Rounds {
    fn policy(&self) -> Policy {
        let retransmission = if self.is_over { Retransmission::First } else { Retransmission::Withheld };
        Policy { retransmission, timeout: Some(SECOND), ..Policy::OPEN }
    }

    fn on_start(&mut self, environment: &mut Environment<'_>) {
        self.ends_at = Some(environment.now + 300 * MS);
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, _: &Acked) {}

    fn on_loss(&mut self, _: &mut Environment<'_>, _: &Lost<'_>) {}

    fn next_timer(&self) -> Option<Instant> {
        self.ends_at
    }

    fn on_timer(&mut self, _: &mut Environment<'_>) {
        (self.is_over, self.ends_at) = (true, None);
    }
}

#[test]
fn what_is_lost_is_withheld_as_long_as_the_control_says() {
    let client = with(SocketType::Stream, || Rounds { is_over: false, ends_at: None });
    let forward = Link::ideal().delay(5 * MS).lose([10, 11, 12, 40, 70]);
    let path = Path { forward, reverse: Link::ideal().delay(5 * MS) };
    let mut network = pair(1, path, (client, stream(146_000)), (config(SocketType::Stream), Work::default()));
    network.run_until(Instant::ORIGIN + 319 * MS);
    let before = stats(&network, CLIENT);
    assert_eq!((before.retransmitted_packets, before.lost_packets), (0, 5), "{before:?}");
    assert!(before.received_naks > 1, "the peer asks again and again");
    network.run_until(Instant::ORIGIN + 400 * MS);
    assert!(stats(&network, CLIENT).retransmitted_packets >= 5);
    assert_eq!(network.node(SERVER).only().received, 146_000);
}

/// Returns its given policy, with every value excessive.
#[derive(Debug)]
struct Absurd {
    policy: Policy,
    now: Instant,
}

impl CongestionControl for Absurd {
    fn policy(&self) -> Policy {
        self.policy
    }

    fn on_ack(&mut self, environment: &mut Environment<'_>, _: &Acked) {
        self.now = environment.now;
    }

    fn on_loss(&mut self, _: &mut Environment<'_>, _: &Lost<'_>) {}

    fn next_timer(&self) -> Option<Instant> {
        Some(self.now)
    }

    fn poll_message(&mut self) -> Option<Message> {
        Some(Message { kind: 1, body: vec![1; 365] })
    }
}

#[test]
fn whatever_a_control_asks_for_the_connection_goes_on_and_counts_it() {
    let timeout = |timeout| Policy { timeout: Some(timeout), ..Policy::window(100.0) };
    let policies = [
        Policy::window(0.0),
        Policy::window(f64::NAN),
        Policy::window(-1.0),
        Policy { window_packets: f64::INFINITY, packets_per_s: f64::INFINITY, ..Policy::OPEN },
        Policy { packets_per_s: 0.0, ..Policy::window(1e300) },
        Policy { burst_packets: 0, ..Policy::window(100.0) },
        timeout(Duration::ZERO),
        timeout(Duration::MAX),
        Policy {
            acknowledge: AckPolicy {
                every: SECOND,
                after_packets: Some(0),
                light_after_packets: 0,
                ..AckPolicy::UDT
            },
            ..Policy::OPEN
        },
    ];
    for policy in policies {
        let client = with(SocketType::Stream, move || Absurd { policy, now: Instant::ORIGIN });
        let path = Path { forward: Link::ideal().delay(MS).loss(0.02), reverse: Link::ideal().delay(MS) };
        let work = stream(5_824);
        let mut network = pair(1, path, (client, work), (config(SocketType::Stream), Work::default()));
        let is_done = |network: &sim::Network<crate::line::Host>| {
            network.node(SERVER).seen.values().any(|seen| seen.done_at.is_some())
        };
        while !is_done(&network) && network.now() < Instant::ORIGIN + SECOND * 60 {
            network.step();
        }
        let absurd = stats(&network, CLIENT).absurd_policies;
        assert!(absurd > 0, "{policy:?}: its messages and its timer at least");
        let server = network.node(SERVER).only();
        assert_eq!((server.received, server.wrong_bytes), (5_824, 0), "{policy:?}");
    }
}

/// The authors' example of TCP's slow start: a packet more for each that arrives, and from the beginning after a loss.
#[derive(Debug)]
struct SlowStartTcp {
    window: f64,
    threshold: f64,
}

impl CongestionControl for SlowStartTcp {
    fn policy(&self) -> Policy {
        // As in libudt it is sent unpaced, and not spread over the round trip.
        Policy {
            acknowledge: AckPolicy { after_packets: Some(2), ..AckPolicy::UDT },
            window_packets: self.window,
            ..Policy::OPEN
        }
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, acked: &Acked) {
        let is_slow_start = self.window < self.threshold;
        self.window += f64::from(acked.newly) / if is_slow_start { 1.0 } else { self.window };
    }

    fn on_loss(&mut self, _: &mut Environment<'_>, lost: &Lost<'_>) {
        if lost.begins_epoch {
            self.window = (self.window / 2.0).max(2.0);
            self.threshold = self.window;
        }
    }

    fn on_timeout(&mut self, _: &mut Environment<'_>) {
        (self.threshold, self.window) = ((self.window / 2.0).max(2.0), 2.0);
    }
}

/// The authors' example of a blast at a constant rate: a window that never limits, a period of MSS · 8 / Mbit/s.
#[derive(Debug)]
struct Blast {
    mbit_per_s: f64,
    packet_bytes: u32,
}

impl CongestionControl for Blast {
    fn policy(&self) -> Policy {
        let period_us = f64::from(self.packet_bytes) * 8.0 / self.mbit_per_s;
        Policy { window_packets: 83_333.0, ..Policy::rate(1e6 / period_us) }
    }

    fn on_start(&mut self, environment: &mut Environment<'_>) {
        self.packet_bytes = environment.flight.packet_bytes;
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, _: &Acked) {}

    fn on_loss(&mut self, _: &mut Environment<'_>, _: &Lost<'_>) {}
}

#[test]
fn the_authors_examples_are_ported_and_take_effect() {
    let tcp = with(SocketType::Stream, || SlowStartTcp { window: 2.0, threshold: f64::INFINITY });
    let blast = with(SocketType::Stream, || Blast { mbit_per_s: 100.0, packet_bytes: 1_500 });
    // Doubles each round trip of 20 ms: 2, 4, 8, 16 and 32 packets of 1,456 bytes have left after five, 62 in all.
    let mut network =
        pair(1, Path::of(10 * MS), (tcp.clone(), stream(1 << 20)), (tcp.clone(), Work::default()));
    network.run_until(Instant::ORIGIN + 139 * MS);
    assert_eq!(stats(&network, CLIENT).sent_packets, 62);
    // After a loss half of it remains, and grows by one packet a round trip.
    let forward = Link::ideal().delay(10 * MS).lose([65]);
    let path = Path { forward, reverse: Link::ideal().delay(10 * MS) };
    let mut network = pair(1, path, (tcp, stream(10 << 20)), (config(SocketType::Stream), Work::default()));
    network.run_until(Instant::ORIGIN + 300 * MS);
    let window = stats(&network, CLIENT).window_packets;
    assert!((16..60).contains(&window), "{window}");
    // A packet every 120 us, regardless of losses.
    let forward = Link::ideal().delay(10 * MS).loss(0.05);
    let path = Path { forward, reverse: Link::ideal().delay(10 * MS) };
    let mut network =
        pair(1, path, (blast, stream(100 << 20)), (config(SocketType::Stream), Work::default()));
    network.run_until(Instant::ORIGIN + 40 * MS);
    let before = stats(&network, CLIENT).sent_packets;
    network.run_until(Instant::ORIGIN + 1_040 * MS);
    let after = stats(&network, CLIENT);
    assert!(
        (8_330..=8_345).contains(&(after.sent_packets - before)),
        "{} packets",
        after.sent_packets - before
    );
    assert_eq!((after.spacing_ps.div_ceil(1_000_000), after.window_packets), (120, 8_192));
}

/// A message that libudt's programs exchange between their controls is accepted, and this crate's have the form that
/// theirs accept.
#[test]
fn messages_have_libudts_form_on_the_wire() {
    let heard: Arc<Mutex<Vec<Message>>> = Arc::default();
    let noted = Arc::clone(&heard);
    let make = move || Talker { heard: Arc::clone(&noted), arrived: 0, next: None, said: None };
    let (mut client, _, id, socket, _) = connected_by(&with(SocketType::Stream, make));
    let mut bytes = Vec::new();
    let body = Body::CustomWords { kind: 0x1234, words: &[5, 6] };
    Control { timestamp_us: 0, destination: id, body }.write(&mut bytes);
    assert_eq!(bytes[..4], [0xff, 0xff, 0x12, 0x34]);
    hear_at(Instant::ORIGIN, &mut client, crate::line::address(SERVER), &[bytes]);
    assert_eq!(heard.lock().expect("nobody panicked")[..], [Message { kind: 0x1234, body: vec![5, 6] }]);
    let said = said_at(Instant::ORIGIN + 5 * MS, &mut client, &mut Vec::new());
    assert_eq!(said.len(), 1);
    assert_eq!(said[0][..4], [0xff, 0xff, 0, 7]);
    assert_eq!(said[0][4..16], [[0; 8].as_slice(), &socket.0.to_be_bytes()].concat());
    assert_eq!(said[0][16..], [0, 0, 0, 0, 0xde, 0xad, 0xbe, 0xef]);
}
