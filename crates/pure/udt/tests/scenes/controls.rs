//! Requests of congestion controls to the transport take effect: messages, timers, and samples of arrivals.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use congestion::{
    AckPolicy, Acked, CongestionControl, Environment, Factory, LossReports, Lost, Message, Policy, Received,
    Retransmission, named,
};
use sim::{Link, Network, NodeId, Port};
use udt::{SocketConfig, SocketType};
use units::Instant;

use crate::line::{Host, MS, SECOND, Work, config};
use crate::pair::{CLIENT, Path, SERVER, pair, run, stats};

/// Events that a control received, for inspection by the test.
#[derive(Debug, Default)]
struct Heard {
    messages: Vec<(Instant, Message)>,
    timers: Vec<Instant>,
    received: u32,
    reported: u64,
}

/// A control that sends its given messages at its first timer, records events, and sends a window of 100 packets.
#[derive(Debug)]
struct Listener {
    heard: Arc<Mutex<Heard>>,
    to_say: Vec<Message>,
    timers: Vec<Instant>,
    /// Time from which lost packets may be sent again.
    repeats_from: Instant,
    may_repeat: bool,
    reports: LossReports,
}

#[derive(Clone, Debug, Default)]
struct Listeners {
    heard: Arc<Mutex<Heard>>,
    to_say: Vec<Message>,
    timers: Vec<Instant>,
    repeats_from: Instant,
    withholds_reports: bool,
}

impl Factory for Listeners {
    fn create(&self) -> Box<dyn CongestionControl> {
        let Self { heard, to_say, timers, repeats_from, withholds_reports } = self.clone();
        let timers = timers.into_iter().rev().collect();
        let reports = if withholds_reports { LossReports::Withheld } else { LossReports::AtOnce };
        Box::new(Listener { heard, to_say, timers, repeats_from, may_repeat: false, reports })
    }
}

impl CongestionControl for Listener {
    fn policy(&self) -> Policy {
        let retransmission = if self.may_repeat { Retransmission::First } else { Retransmission::Withheld };
        let acknowledge = AckPolicy { reports: self.reports, ..AckPolicy::UDT };
        Policy { retransmission, acknowledge, ..Policy::window(100.0) }
    }

    fn on_ack(&mut self, environment: &mut Environment<'_>, _: &Acked) {
        self.may_repeat |= environment.now >= self.repeats_from;
    }

    fn on_loss(&mut self, _: &mut Environment<'_>, lost: &Lost<'_>) {
        self.heard.lock().expect("nobody panics with it").reported += u64::from(lost.newly);
    }

    fn on_received(&mut self, _: &mut Environment<'_>, received: &Received) {
        self.heard.lock().expect("nobody panics with it").received += received.packets;
    }

    fn on_message(&mut self, environment: &mut Environment<'_>, message: &Message) {
        self.heard.lock().expect("nobody panics with it").messages.push((environment.now, message.clone()));
    }

    fn poll_message(&mut self) -> Option<Message> {
        let may_speak = !self.heard.lock().expect("nobody panics with it").timers.is_empty();
        if may_speak { self.to_say.pop() } else { None }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.timers.last().copied()
    }

    fn on_timer(&mut self, environment: &mut Environment<'_>) {
        self.timers.pop();
        self.reports = LossReports::AtOnce;
        self.may_repeat |= environment.now >= self.repeats_from;
        self.heard.lock().expect("nobody panics with it").timers.push(environment.now);
    }
}

fn with(factory: Listeners) -> SocketConfig {
    SocketConfig::with(SocketType::Stream, Arc::new(factory))
}

fn stream(bytes: u64) -> Work {
    Work { send_bytes: bytes, closes: true, ..Work::default() }
}

#[test]
fn what_controls_say_to_each_other_arrives_and_their_timers_are_kept() {
    let message = |kind, words: u32| Message { kind, body: (0..words).collect() };
    let times = [100, 101, 350].map(|millis| Instant::ORIGIN + millis * MS);
    let (ours, theirs) = (Listeners::default(), Listeners::default());
    // A body may be as long as a packet. Longer ones are not sent.
    let said = vec![message(1, 365), message(7, 364), message(0xfeff, 1)];
    let client = Listeners { timers: times.to_vec(), to_say: said, ..ours.clone() };
    let work = Work { send_bytes: 100_000, ..Work::default() };
    let path = Path::of(5 * MS);
    let mut network = pair(1, path, (with(client), work), (with(theirs.clone()), Work::default()));
    network.run_until(Instant::ORIGIN + SECOND);
    assert_eq!(ours.heard.lock().expect("nobody panics with it").timers, times);
    let heard = theirs.heard.lock().expect("nobody panics with it");
    let at = times[0] + 5 * MS;
    // The last given message is sent first.
    assert_eq!(heard.messages, [(at, message(0xfeff, 1)), (at, message(7, 364))]);
    assert_eq!(u64::from(heard.received), stats(&network, SERVER).received_packets);
    assert_eq!(stats(&network, CLIENT).absurd_policies, 1);
}

#[test]
fn what_a_control_withholds_is_not_sent_again_before_it_says_so() {
    let repeats_from = Instant::ORIGIN + 800 * MS;
    let client = Listeners { repeats_from, timers: vec![repeats_from], ..Listeners::default() };
    let heard = Arc::clone(&client.heard);
    let forward = Link::ideal().delay(5 * MS).lose([20, 21, 40]);
    let path = Path { forward, reverse: Link::ideal().delay(5 * MS) };
    let work = stream(90 * 1_456);
    let mut network = pair(1, path, (with(client), work), (with(Listeners::default()), Work::default()));
    network.run_until(repeats_from - MS);
    let before = stats(&network, CLIENT);
    assert_eq!((before.retransmitted_packets, before.timeouts), (0, 0));
    assert_eq!(heard.lock().expect("nobody panics with it").reported, 3);
    run(&mut network, 10);
    let server = network.node(SERVER).only();
    assert_eq!((server.received, server.wrong_bytes), (90 * 1_456, 0));
    assert!(server.done_at.unwrap() < repeats_from + 50 * MS);
}

#[test]
fn what_is_missing_is_not_reported_while_a_control_withholds_it_and_at_once_when_it_does_not() {
    let speaks = Instant::ORIGIN + 400 * MS;
    let server = Listeners { withholds_reports: true, timers: vec![speaks], ..Listeners::default() };
    let client = Listeners { repeats_from: Instant::ORIGIN + 800 * MS, ..Listeners::default() };
    let forward = Link::ideal().delay(5 * MS).lose([20, 21, 40]);
    let path = Path { forward, reverse: Link::ideal().delay(5 * MS) };
    let work = Work { send_bytes: 90 * 1_456, ..Work::default() };
    let mut network = pair(1, path, (with(client.clone()), work), (with(server), Work::default()));
    network.run_until(speaks + 4 * MS);
    assert_eq!(stats(&network, CLIENT).received_naks, 0);
    network.run_until(speaks + 6 * MS);
    assert_eq!((stats(&network, CLIENT).received_naks, client.heard.lock().unwrap().reported), (1, 3));
}

/// Sends for this many seconds with a control over 20 Mbit/s and 40 ms with random loss; returns the utilisation of
/// the path.
fn use_of_a_way(control: &str, loss: f64, seconds: u32) -> f64 {
    let forward = Link::ideal().delay(20 * MS).rate(20_000_000, 100_000).loss(loss);
    let path = Path { forward, reverse: Link::ideal().delay(20 * MS) };
    let control =
        || SocketConfig::with(SocketType::Stream, Arc::from(named(control, "").expect("it is built in")));
    let work = Work { send_bytes: 1_000_000_000, ..Work::default() };
    let mut network = pair(1, path, (control(), work), (config(SocketType::Stream), Work::default()));
    network.run_until(Instant::ORIGIN + Duration::from_secs(5));
    let received = |network: &Network<Host>| network.node(SERVER).only().received;
    let before = received(&network);
    network.run_until(Instant::ORIGIN + Duration::from_secs(5) + SECOND * seconds);
    // 1,456 of 1,538 bytes on the wire are payload.
    (received(&network) - before) as f64 * 8.0 / f64::from(seconds) / (20e6 * 1_456.0 / 1_538.0)
}

/// A receiver with another control still reports arrivals behind a hole: the transport does so.
#[test]
fn bbr_uses_a_way_that_loses_by_chance_because_it_hears_what_comes_behind_holes() {
    let (none, some) = (use_of_a_way("bbr", 0.0, 20), use_of_a_way("bbr", 0.005, 20));
    assert!(none > 0.9, "{none}");
    assert!(some > 0.8, "{some}");
}

pub(crate) fn built_in(control: &str, options: &str) -> SocketConfig {
    let control = named(control, options).expect("it is built in and its options make sense");
    SocketConfig::with(SocketType::Stream, Arc::from(control))
}

/// Clients, each at a delay of its own in milliseconds from one server whose link has 50 Mbit/s; returns for each of
/// them the rate sent, and the rate received by the server, in the seconds from `from` to `to`. Units: bits per
/// second, IP and UDP headers included.
fn several(server: SocketConfig, client: &SocketConfig, delays: &[u32], from: u32, to: u32) -> Vec<[f64; 2]> {
    let mut network = Network::new(1);
    let work = Work { send_bytes: 1_000_000_000, ..Work::default() };
    let link = |delay| Link::ideal().delay(MS * delay);
    let port = |delay| Port { up: link(delay), down: link(delay), ..Port::default() };
    let narrow = Port { down: Link::ideal().rate(50_000_000, 50_000), ..port(0) };
    let server = network.add("server", Host::new(1, Work::default()).listening(server), narrow);
    for (index, delay) in delays.iter().enumerate() {
        let node =
            network.add(&format!("client {index}"), Host::new(2 + index as u64, work.clone()), port(*delay));
        network.act(node, |host, now, _| host.connect(now, server, client.clone()));
    }
    let mut look = |at: u32| {
        network.run_until(Instant::ORIGIN + SECOND * at);
        let clients = 1..=delays.len() as u32;
        let sent = clients.map(|node| stats(&network, NodeId(node)).sent_packets);
        let host = network.node(server);
        let received = host.seen.keys().map(|id| (host.endpoint.peer(*id), host.endpoint.stats(*id)));
        let mut received: Vec<_> =
            received.map(|(peer, stats)| (peer, stats.expect("open").received_packets)).collect();
        received.sort_unstable();
        sent.zip(received).map(|(sent, (_, received))| [sent, received]).collect::<Vec<[u64; 2]>>()
    };
    let (before, after) = (look(from), look(to));
    let rate = |after: u64, before: u64| (after - before) as f64 * 12_000.0 / f64::from(to - from);
    before
        .iter()
        .zip(after)
        .map(|(before, after)| [0, 1].map(|what| rate(after[what], before[what])))
        .collect()
}

#[test]
fn senders_of_one_receiver_share_what_it_takes_whatever_their_round_trips() {
    let delays = [1, 5, 20, 60];
    let rates = several(built_in("gtp", "rate=40m"), &built_in("gtp", "rate=1g"), &delays, 1, 4);
    for [sent, received] in &rates {
        assert!((received / 10e6 - 1.0).abs() < 0.03, "{rates:?}");
        assert!((sent / received - 1.0).abs() < 0.01, "nothing is lost: {rates:?}");
    }
}

#[test]
fn controls_with_reports_work_with_peers_that_report_and_with_others() {
    let rate = |control: &SocketConfig, server: SocketConfig, from| {
        several(server, control, &[10], from, from + 1)[0][0]
    };
    let tsunami = built_in("tsunami", "rate=12m");
    let sabul = built_in("sabul", "start=1m");
    let gtp = built_in("gtp", "rate=12m");
    for is_silent in [false, true] {
        let server = |same: &SocketConfig| if is_silent { config(SocketType::Stream) } else { same.clone() };
        let target = rate(&tsunami, server(&tsunami), 5);
        assert!((target / 12e6 - 1.0).abs() < 0.01, "tsunami, silent {is_silent}: {target}");
        let grown = rate(&sabul, server(&sabul), 3) / rate(&sabul, server(&sabul), 2);
        assert!((grown / 1.005_f64.powi(100) - 1.0).abs() < 0.05, "sabul, silent {is_silent}: {grown}");
        let all = rate(&gtp, server(&gtp), 4);
        assert!((all / 12e6 - 1.0).abs() < 0.02, "gtp, silent {is_silent}: {all}");
    }
}
