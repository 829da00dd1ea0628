//! Live messages hold their deadlines: through losses, outages and wrapping numbers.

use core::time::Duration;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use sim::{Link, Network, Port};
use udt::{Event, Repair, SocketConfig, SocketType};
use units::Instant;
use wire::udt::{Body, Packet};

use crate::line::live::{Feed, Live};
use crate::line::{MS, SECOND};
use crate::pair::{CLIENT, SERVER};

/// Round trip of most scenes.
const ROUND_TRIP: Duration = Duration::from_millis(40);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

fn feed(count: u64, lifetime: Duration) -> Feed {
    Feed { period: MS, count, bytes: 1_000, lifetime, is_varied: false }
}

fn config() -> SocketConfig {
    let control = congestion::named("fixed", "rate=100m").expect("it is built in");
    let config = SocketConfig::with(SocketType::Datagram, Arc::from(control));
    SocketConfig { repair: Repair::Timely, ..config }
}

/// Runs as [`run`] does, over a path of the same delay both ways: nothing is late.
fn play(ways: [Link; 2], feed: Feed, config: &SocketConfig) -> Network<Live> {
    let network = run(ways, feed, config);
    let got = &network.node(SERVER).got;
    let late = got.iter().find(|(_, got)| got.age > feed.lifetime || !got.is_in_time);
    assert!(late.is_none(), "{late:?}");
    network
}

/// Runs until every message has arrived or was given up, and checks that none is both unsent and there, or nowhere.
fn run(ways: [Link; 2], feed: Feed, config: &SocketConfig) -> Network<Live> {
    let mut network = Network::new(9);
    let [up, down] = ways;
    network.add("client", Live::new(9, Some(feed)), Port { up, down, ..Port::default() });
    let server = Live::new(10, None).listening(config.clone());
    let ideal = Link::ideal();
    network.add("server", server, Port { up: ideal.clone(), down: ideal, ..Port::default() });
    network.act(CLIENT, |live, now, _| live.connect(now, SERVER, config.clone()));
    while network.now() < Instant::ORIGIN + SECOND * 100 && !network.node(CLIENT).is_done() {
        network.step();
    }
    let (client, server) = (network.node(CLIENT), network.node(SERVER));
    assert!(client.is_done(), "it goes on for ever");
    assert_eq!(server.twice, 0, "one came twice");
    for index in 0..feed.count {
        let (arrived, given_up) = (server.got.get(&index), client.given_up.get(&index));
        assert!(arrived.is_some() || given_up.is_some(), "message {index} is nowhere");
        assert!(arrived.is_none() || given_up != Some(&false), "message {index} was not sent");
    }
    network
}

fn ways() -> [Link; 2] {
    let way = Link::ideal().delay(ROUND_TRIP / 2);
    [way.clone(), way]
}

fn events(network: &Network<Live>, wanted: Event) -> Vec<Instant> {
    let events = network.node(CLIENT).events.iter();
    events.filter(|(_, event)| *event == wanted).map(|(at, _)| *at).collect()
}

#[test]
fn an_outage_costs_its_own_time_and_what_is_fresh_goes_on_at_once() {
    let (from, to) = (at(5_000), at(35_000));
    let ways = ways().map(|way| way.outage(from..to));
    let network = play(ways, feed(40_000, SECOND), &config());
    let (client, server) = (network.node(CLIENT), network.node(SERVER));
    let missing = 40_000 - server.got.len();
    assert!((28_000..=30_000).contains(&missing), "{missing} of 30,000 are missing");
    let after = server.got.values().map(|got| got.at).filter(|at| *at >= to).min().expect("it goes on");
    assert!(after.since(to) <= ROUND_TRIP * 2 + MS * 100, "the first came {:?} after", after.since(to));
    let down = events(&network, Event::LinkDown);
    assert_eq!(down.len(), 1);
    let silence = down[0].since(from);
    assert!(silence >= MS * 250 && silence <= MS * 250 + ROUND_TRIP, "silent for {silence:?}");
    let up = events(&network, Event::LinkUp);
    assert!(up.len() == 1 && up[0].since(to) <= ROUND_TRIP + MS * 50, "{up:?}");
    // A packet for each 40 ms, and what left before the silence showed: the peer's window has room for both.
    let stats = client.endpoint.stats(client.socket.unwrap()).unwrap();
    assert!(stats.sent_packets < 10_000 + 30_000 / 40 + 300 + 1_000, "{stats:?}");
    assert_eq!(stats.unsent_controls, 0);
}

/// What is given up within half a round trip is told by one notice, which libudt's wording makes two packets.
#[test]
fn contiguous_messages_are_given_up_by_one_notice() {
    let notices = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&notices);
    let [up, down] = ways().map(|way| way.outage(at(1_000)..at(1_200)));
    let up = up.lose_when("counted notices", move |passing| {
        if let Ok(Packet::Control(control)) = Packet::read(passing.bytes)
            && let Body::DropMessage { first, last, .. } = control.body
        {
            seen.borrow_mut().push((first.word(), last.word()));
        }
        false
    });
    let network = play([up, down], feed(2_000, MS * 100), &config());
    let missing = 2_000 - network.node(SERVER).got.len();
    assert!((100..=200).contains(&missing), "{missing} are missing");
    let notices = notices.borrow();
    assert!((2..=24).contains(&notices.len()), "{missing} missing messages: {notices:?}");
}

#[test]
fn a_lost_tail_is_repaired_within_its_deadline() {
    for lost in 1..=3_usize {
        let passed = RefCell::new(0);
        let [up, down] = ways();
        // The last message, its repair, and the repair of that.
        let up = up.lose_when("the tail", move |passing| {
            let is_last = passing.bytes.len() > 1_000 && passing.bytes[16..24] == 499_u64.to_le_bytes();
            *passed.borrow_mut() += usize::from(is_last);
            is_last && *passed.borrow() <= lost
        });
        let network = play([up, down], feed(500, ROUND_TRIP * 4), &config());
        let got = &network.node(SERVER).got;
        assert_eq!(got.len(), 500, "{lost} lost");
        // Each costs a round trip and the two milliseconds of the probe.
        let expected = ROUND_TRIP / 2 + (ROUND_TRIP + MS * 2) * u32::try_from(lost).expect("small");
        let age = got[&499].age;
        assert!(age >= expected && age <= expected + MS, "{lost} lost: {age:?}");
    }
}

#[test]
fn numbers_of_packets_and_messages_wrap_with_deadlines() {
    for (first_sequence, first_message) in [(0x7fff_fc00, 0x1fff_fe00), (0x7fff_f800, 0x1fff_fffe)] {
        let ways = ways().map(|way| way.loss(0.05));
        let first = SocketConfig {
            first_sequence: Some(first_sequence),
            first_message: Some(first_message),
            ..config()
        };
        let network = play(ways, feed(6_000, ROUND_TRIP * 7 / 4), &first);
        let missing = 6_000 - network.node(SERVER).got.len();
        // One repair: 2 · 5 % · 10 % of 6,000 at most.
        assert!((1..=60 + 34).contains(&missing), "{missing} are missing");
        let stats = network.node(CLIENT).endpoint.stats(network.node(CLIENT).socket.unwrap()).unwrap();
        assert_eq!((stats.impossible_packets, stats.timeouts), (0, 0), "{stats:?}");
    }
}

#[test]
fn a_message_that_cannot_arrive_in_time_is_not_taken() {
    let mut network = play(ways(), feed(500, SECOND), &config());
    let sent = network.act(CLIENT, |live, now, _| {
        let socket = live.socket.expect("it is connected");
        [19, 21].map(|millis| {
            let terms = udt::Terms { deadline: Some(now + MS * millis), ..udt::Terms::default() };
            live.endpoint.send_message(now, socket, &[1; 100], terms).expect("it is connected")
        })
    });
    assert_eq!(sent, [udt::Sent::TooLate, udt::Sent::Queued], "the way takes 20 ms");
}

/// A path of 4 Mbit/s is offered 8: as much arrives as the path carries. While the queue grows, so does the age of what
/// is in it, and the receiver's owner has to refuse what has become late.
#[test]
fn a_bottleneck_carries_what_it_can_and_nothing_late() {
    let [up, down] = ways();
    let control = congestion::named("live", "").expect("it is built in");
    let config = SocketConfig { congestion: Arc::from(control), ..config() };
    let network = run([up.rate(4_000_000, 200_000), down], feed(20_000, MS * 500), &config);
    let server = network.node(SERVER);
    let second_half: Vec<bool> = server.got.range(10_000..).map(|(_, got)| got.is_in_time).collect();
    let in_time = second_half.iter().filter(|is_in_time| **is_in_time).count();
    assert!((3_500..=5_000).contains(&in_time), "{in_time} of 10,000 arrived in time");
    let late = second_half.len() - in_time;
    assert!(late <= 500, "{late} arrived late");
}

/// The last messages left in an outage, and were given up: nothing but a question can find that it has ended.
#[test]
fn a_link_is_tried_also_when_there_is_nothing_to_send() {
    let to = at(2_000);
    let ways = ways().map(|way| way.outage(at(500)..to));
    let network = play(ways, feed(500, MS * 200), &config());
    let up = events(&network, Event::LinkUp);
    assert!(up.len() == 1 && up[0] >= to && up[0].since(to) <= ROUND_TRIP * 2 + MS, "{up:?}");
}

#[test]
fn no_more_is_queued_than_leaves_within_a_millisecond() {
    let mut network = play(ways(), feed(100, SECOND), &config());
    let queued = network.act(CLIENT, |live, now, _| {
        let socket = live.socket.expect("it is connected");
        let mut send = || live.endpoint.send_message(now, socket, &[1; 100], udt::Terms::default());
        (0..1_000).take_while(|_| send() == Ok(udt::Sent::Queued)).count()
    });
    // At 100 Mbit/s that are 8 packets of 1,500 bytes.
    assert_eq!(queued, 8);
}

/// The bound of a relay's second connection counts on it, which asks from half of that bound on.
#[test]
fn an_idle_connection_is_not_silent_for_a_second_and_a_half() {
    for round_trip in [MS, ROUND_TRIP, MS * 200] {
        let way = Link::ideal().delay(round_trip / 2);
        let mut network = play([way.clone(), way], feed(100, SECOND), &config());
        let (end, mut longest) = (network.now() + SECOND * 60, Duration::ZERO);
        while network.now() < end {
            network.run_until(network.now() + MS);
            let client = network.node(CLIENT);
            let heard = client.endpoint.heard_at(client.socket.unwrap()).expect("it is connected");
            longest = longest.max(network.now().since(heard));
        }
        assert!(longest > MS * 250 && longest < MS * 1_500, "{longest:?} at {round_trip:?}");
    }
}

#[test]
fn a_peer_that_is_asked_answers_at_once() {
    let mut network = play(ways(), feed(100, SECOND), &config());
    let heard = |network: &Network<Live>| {
        let client = network.node(CLIENT);
        client.endpoint.heard_at(client.socket.unwrap()).expect("it is connected")
    };
    // Long enough for the last answers, and too short for keep-alives.
    network.run_until(network.now() + MS * 200);
    let before = heard(&network);
    network.act(CLIENT, |live, now, _| live.endpoint.ask(now, live.socket.unwrap()));
    let asked = network.now();
    network.run_until(asked + ROUND_TRIP - MS);
    assert_eq!(heard(&network), before);
    network.run_until(asked + ROUND_TRIP + MS);
    assert!(heard(&network) >= asked + ROUND_TRIP, "{:?}", heard(&network).since(asked));
}
