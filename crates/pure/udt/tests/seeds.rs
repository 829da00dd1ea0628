//! Transfers under random scenes: every byte and every message arrives once, in order, or is given up and reported.
//!
//! A scene depends on its seed only. `TALLYCAST_SEEDS` is the number of scenes (200 by default),
//! `TALLYCAST_FIRST_SEED` the first seed; a failure prints the command that repeats its seed, and the run ends with a
//! line that counts the scenes with each effect.

#[expect(dead_code, reason = "the scenes of the other test use more of the line-up")]
mod line;
#[path = "seeds/live.rs"]
mod live;

use core::time::Duration;

use line::{Host, MS, SECOND, Work, config, message};
use sim::{Bursts, Corruption, Host as Machine, Link, Network, NodeId, Order, Port};
use udt::{CloseReason, SocketConfig, SocketType};
use units::{Instant, Random};

const CLIENT: NodeId = NodeId(0);
const SERVER: NodeId = NodeId(1);

/// Effects of a scene, each drawn independently.
const EFFECTS: [&str; 13] = [
    "loss forward",
    "loss in reverse",
    "bursts",
    "jitter",
    "reordering",
    "duplicates",
    "corruption",
    "bottleneck",
    "outage",
    "slow reader",
    "wrap",
    "small buffers",
    "rendezvous",
];

/// Controls by name and options.
const CONTROLS: [(&str, &str); 10] = [
    ("", ""),
    ("udt", ""),
    ("reno", ""),
    ("fixed", "rate=20m"),
    ("bbr", ""),
    ("sabul", "start=20m"),
    ("tsunami", "rate=20m"),
    ("gtp", "rate=20m"),
    ("rbudp", "rate=20m"),
    ("fobs", "rate=20m"),
];

/// Number of scenes with each effect, and number of scenes with messages.
#[derive(Default)]
struct Seen {
    effects: [u64; EFFECTS.len()],
    messages: u64,
    expired: u64,
}

#[test]
fn whatever_the_way_does_what_was_sent_arrives_once_and_in_order() {
    let seeds = sim::seeds::Seeds {
        first: number("TALLYCAST_FIRST_SEED", 0),
        count: number("TALLYCAST_SEEDS", 200),
        repeat: "cargo xtask sim --seeds 1 --first {seed}",
    };
    let mut seen = Seen::default();
    sim::seeds::each(&seeds, |seed| play(seed, &mut seen));
    let effects: Vec<String> =
        EFFECTS.iter().zip(seen.effects).map(|(name, count)| format!("{name} {count}")).collect();
    let (messages, expired) = (seen.messages, seen.expired);
    println!(
        "{} seeds: {}; of messages {messages}, {expired} messages expired",
        seeds.count,
        effects.join(", ")
    );
    if seeds.count >= 200 {
        assert!(seen.effects.iter().all(|count| *count > 0) && messages > 0 && expired > 0);
    }
}

#[test]
fn two_runs_of_a_seed_are_one() {
    for seed in [3, 4, 5] {
        let hash = || {
            let (mut network, _) = scene(seed, &mut Seen::default());
            network.run_until(Instant::ORIGIN + SECOND * 20);
            network.trace_hash()
        };
        assert_eq!(hash(), hash(), "seed {seed}");
    }
}

fn play(seed: u64, seen: &mut Seen) {
    let (mut network, work) = scene(seed, seen);
    let end = Instant::ORIGIN + SECOND * 2_000;
    while network.now() < end {
        let is_over = |node| {
            let seen = &network.node(node).seen;
            !seen.is_empty() && seen.values().all(|seen| seen.closed.is_some())
        };
        let has_read = network.now() >= network.node(SERVER).work.reads_from;
        if is_over(CLIENT) && is_over(SERVER) && has_read {
            break;
        }
        network.step();
    }
    let scenario = network.scenario().to_string();
    let (client, server) = (network.node(CLIENT), network.node(SERVER));
    if server.only().received == 0 && client.only().closed == Some(CloseReason::ByPeer) {
        // A burst as long as the server waits for a client's first packet: the client is notified.
        assert_eq!(server.only().closed, Some(CloseReason::Silent), "{scenario}");
        return;
    }
    assert_eq!(client.only().closed, Some(CloseReason::Local), "{scenario}");
    // In a burst that never ends every shutdown is lost.
    let ends = [Some(CloseReason::ByPeer), Some(CloseReason::Silent)];
    assert!(ends.contains(&server.only().closed), "{:?}: {scenario}", server.only().closed);
    if work.messages.is_empty() {
        assert_eq!((server.only().received, server.only().wrong_bytes), (work.send_bytes, 0), "{scenario}");
    } else {
        seen.messages += 1;
        seen.expired += client.only().expired.len() as u64;
        check_messages(&work, server, client, &scenario);
    }
    let stats = server.endpoint.stats(server.only_id()).expect("nobody closed it here");
    assert_eq!(stats.refused_packets, 0, "nobody sends more than there is room for: {scenario}");
}

/// Checks that arrived messages are those sent, each at most once, and that the others were given up with the
/// sender's knowledge.
fn check_messages(work: &Work, server: &Host, client: &Host, scenario: &str) {
    let got = &server.only().messages;
    let mut places = Vec::new();
    for bytes in got {
        let number = bytes.first_chunk().map(|number| u32::from_le_bytes(*number) as usize);
        let place = number.filter(|place| {
            work.messages.get(*place).map(|work| message(*place, work.0)).as_ref() == Some(bytes)
        });
        places.push(place.unwrap_or_else(|| panic!("a message that nobody sent: {scenario}")));
    }
    let is_ordered = work.messages.iter().all(|(_, _, is_ordered)| *is_ordered);
    let mut sorted = places.clone();
    sorted.sort_unstable();
    assert!(!is_ordered || sorted == places, "out of order: {scenario}");
    sorted.dedup();
    assert_eq!(sorted.len(), got.len(), "one came twice: {scenario}");
    let missing = work.messages.len() - got.len();
    let expired = client.only().expired.len();
    assert!(missing <= expired, "{missing} are missing and {expired} were given up: {scenario}");
}

/// Draws a scene: the work of both ends, and the path between them.
fn scene(seed: u64, seen: &mut Seen) -> (Network<Host>, Work) {
    let mut random = Random::for_purpose(seed, "scene");
    let mut has: [bool; EFFECTS.len()] = core::array::from_fn(|_| random.chance(0.25));
    has[11] |= has[9];
    for (count, has) in seen.effects.iter_mut().zip(has) {
        *count += u64::from(has);
    }
    let delay = Duration::from_micros(100 + random.below(100_000));
    let mut forward = Link::ideal().delay(delay);
    let mut reverse = Link::ideal().delay(delay);
    if has[0] {
        forward = forward.loss(random.unit() * 0.2);
    }
    if has[1] {
        reverse = reverse.loss(random.unit() * 0.4);
    }
    if has[2] {
        forward = forward.bursts(Bursts::of(random.unit() * 0.1, 1.0 + random.unit() * 20.0));
    }
    if has[3] {
        forward = forward.jitter(Duration::from_micros(random.below(20_000)), Order::Free);
    }
    if has[4] {
        forward = forward.reorder(random.unit() * 0.2, Duration::from_micros(random.below(50_000)));
    }
    if has[5] {
        forward = forward.duplicate(random.unit() * 0.3, Duration::from_micros(random.below(50_000)));
        reverse = reverse.duplicate(random.unit() * 0.3, Duration::from_micros(random.below(50_000)));
    }
    if has[6] {
        forward = forward.corrupt(random.unit() * 0.1, Corruption::Dropped);
    }
    if has[7] {
        forward = forward.rate(5_000_000 + random.below(100_000_000), 20_000 + random.below(300_000));
    }
    if has[8] {
        let from = Instant::ORIGIN + Duration::from_micros(random.below(1_000_000));
        forward = forward.outage(from..from + Duration::from_micros(random.below(3_000_000)));
    }
    let is_stream = random.chance(0.6);
    let kind = if is_stream { SocketType::Stream } else { SocketType::Datagram };
    let socket = socket_config(kind, &has, &mut random);
    let work = if is_stream { stream_work(&mut random) } else { message_work(&mut random) };
    let reads_from = if has[9] { random.below(3_000_000_000) } else { 0 };
    let reader = Work { reads_from: Instant::from_nanos(reads_from), ..Work::default() };
    let mut network = Network::new(seed);
    let machine = Machine::ideal();
    let port = Port { up: forward, down: reverse, host: machine.clone(), site: None };
    network.add("client", Host::new(seed, work.clone()), port);
    let server = Host::new(seed ^ 1 << 40, reader);
    let server = if has[12] { server } else { server.listening(socket.clone()) };
    network.add("server", server, Port { host: machine, ..Port::default() });
    if has[12] {
        network.act(SERVER, |host, now, _| host.rendezvous(now, CLIENT, socket.clone()));
        network.act(CLIENT, |host, now, _| host.rendezvous(now, SERVER, socket));
    } else {
        network.act(CLIENT, |host, now, _| host.connect(now, SERVER, socket));
    }
    (network, work)
}

fn socket_config(kind: SocketType, has: &[bool; EFFECTS.len()], random: &mut Random) -> SocketConfig {
    let mut socket = config(kind);
    // Windows, rates, both, and rounds; the remaining scenes use the control of the line-up.
    let (name, options) = CONTROLS[usize::try_from(random.below(CONTROLS.len() as u64)).expect("small")];
    if !name.is_empty() {
        socket.congestion = congestion::named(name, options).expect("it is built in").into();
    }
    // Loss of four in ten loses several handshakes in a row.
    socket.connect_timeout = SECOND * 100;
    // Bursts end after datagrams and not after a time, so a sender that slows down would be given up.
    socket.silence.attempts = 60;
    // With half of the packets lost, a rate that yields to each loss needs its time.
    socket.linger = SECOND * 1_000;
    socket.packet_bytes = 200 + u32::try_from(random.below(1_300)).expect("small");
    (socket.send_buffer_packets, socket.receive_buffer_packets) = (1_024, 1_024);
    if has[10] {
        socket.first_sequence = Some(0x7fff_ffff - u32::try_from(random.below(300)).expect("small"));
    }
    if has[11] {
        socket.receive_buffer_packets = 32 + u32::try_from(random.below(64)).expect("small");
        socket.send_buffer_packets = 40 + u32::try_from(random.below(64)).expect("small");
    }
    socket
}

fn stream_work(random: &mut Random) -> Work {
    Work { send_bytes: 1 + random.below(500_000), closes: true, ..Work::default() }
}

/// Messages of up to 30 packets of the smallest size, so that the smallest buffers hold one.
fn message_work(random: &mut Random) -> Work {
    let is_ordered = random.chance(0.5);
    let expires = random.chance(0.5);
    let one = |random: &mut Random| {
        // Long enough that no two are alike.
        let size = 16 + usize::try_from(random.below(4_500)).expect("small");
        let lifetime = expires.then(|| MS * u32::try_from(random.below(1_500)).expect("small"));
        (size, lifetime, is_ordered)
    };
    let count = 1 + random.below(120);
    Work { messages: (0..count).map(|_| one(random)).collect(), closes: true, ..Work::default() }
}

#[expect(clippy::disallowed_methods, reason = "how many seeds to run is asked of the caller of the tests")]
fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}=`{text}` is not a whole number")),
        Err(_) => default,
    }
}
