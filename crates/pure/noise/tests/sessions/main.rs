//! Two ports over a network that loses, repeats, reorders and forges, under seeds.

mod network;

use core::time::Duration;

use keys::Suite;
use network::{CHACHA, Network, Node, key, public};
use noise::{MAX_TUNNELS, OVERHEAD_BYTES, Output, Train};

fn pair(seed: u64) -> Network {
    Network::new(seed, [Node::client(1, 2), Node::server(2, &[1])])
}

#[test]
fn what_waits_for_the_handshake_arrives_after_two_round_trips() {
    let mut network = pair(1);
    network.send(0, 1, b"first");
    network.run(Duration::from_secs(1));
    assert_eq!(network.received(1), [b"first".to_vec()]);
    // Initiation, cookie, initiation, response, data.
    assert_eq!(network.first_arrival(), network.delay * 5);
    network.send(1, 0, b"answer");
    network.run(Duration::from_secs(1));
    assert_eq!(network.received(0), [b"answer".to_vec()]);
    let (client, server) = (network.stats(0), network.stats(1));
    assert_eq!((client.sessions, server.sessions), (1, 1));
    assert_eq!((client.initiations, server.no_cookie), (1, 1));
    assert_eq!((client.refused(), server.refused()), (0, 0));
    assert_eq!(network.peer(1, 0), Some(public(1)));
}

#[test]
fn trains_stay_trains() {
    let mut network = pair(2);
    network.send(0, 1, b"");
    network.run(Duration::from_secs(1));
    let bytes: Vec<u8> = (0..2_500_u32).map(|n| n.to_le_bytes()[0]).collect();
    let now = network.now;
    let to = network.address(1);
    let sealed =
        network.nodes[0].sessions.seal(now, &Train { peer: to, bytes: &bytes, segment_bytes: 1_000 });
    let sealed = sealed.expect("there is a session");
    assert_eq!(
        (sealed.bytes.len(), sealed.segment_bytes),
        (2_500 + 3 * OVERHEAD_BYTES, 1_000 + OVERHEAD_BYTES)
    );
    let mut copy = sealed.bytes.to_vec();
    // The second datagram is forged: it alone is missing.
    copy[1_100] ^= 1;
    let from = network.address(0);
    let train = Train { peer: from, bytes: &copy, segment_bytes: 1_000 + OVERHEAD_BYTES };
    let opened = network.nodes[1].sessions.open(now, &train);
    assert_eq!(opened.segment_bytes, 1_000);
    assert!(opened.bytes == [&bytes[..1_000], &bytes[2_000..]].concat());
    assert_eq!(network.stats(1).bad_tags, 1);
}

#[test]
fn a_key_that_is_not_listed_gets_no_session_and_leaves_no_state() {
    let mut network = Network::new(3, [Node::client(7, 2), Node::server(2, &[1])]);
    network.send(0, 1, b"let me in");
    network.run(Duration::from_secs(20));
    assert!(network.received(1).is_empty());
    let server = network.stats(1);
    assert!(server.unknown_peers >= 5, "{server:?}");
    assert_eq!((server.sessions, network.nodes[1].sessions.tunnel_count()), (0, 0));
    // The client stops after a while, and keeps nothing either.
    network.run(Duration::from_secs(100));
    assert_eq!((network.stats(0).unanswered, network.stats(0).not_sent), (1, 1));
    assert_eq!(network.nodes[0].sessions.tunnel_count(), 0);
}

#[test]
fn a_peer_taken_from_the_list_is_cut_off_at_once_and_comes_back_when_it_is_listed_again() {
    let mut network = pair(21);
    network.send(0, 1, b"listed");
    network.run(Duration::from_secs(1));
    network.nodes[1].sessions.relist(&[public(5)].into());
    assert_eq!((network.peer(1, 0), network.nodes[1].sessions.tunnel_count()), (None, 0));
    network.send(0, 1, b"cut off");
    network.run(Duration::from_secs(16));
    // No answer for so long: the client tries another handshake.
    network.send(0, 1, b"cut off still");
    network.run(Duration::from_secs(10));
    assert_eq!(network.received(1), [b"listed".to_vec()]);
    let stats = network.stats(1);
    assert!(stats.unknown_sessions > 0 && stats.unknown_peers > 0 && stats.sessions == 1, "{stats:?}");
    network.nodes[1].sessions.relist(&[public(1)].into());
    network.run(Duration::from_secs(6));
    network.send(0, 1, b"listed again");
    network.run(Duration::from_secs(1));
    assert!(network.received(1).contains(&b"listed again".to_vec()));
    assert_eq!(network.stats(1).replayed_handshakes, 0);
}

#[test]
fn who_does_not_know_the_public_key_gets_no_answer_at_all() {
    let mut network = Network::new(4, [Node::client(1, 9), Node::server(2, &[1])]);
    network.send(0, 1, b"to somebody else");
    network.run(Duration::from_secs(10));
    let server = network.stats(1);
    assert!(server.strangers >= 4 && server.no_cookie == 0, "{server:?}");
    assert_eq!(network.sent_by(1), 0);
}

#[test]
fn a_port_without_a_partner_to_begin_with_only_answers() {
    let mut network = pair(5);
    network.send(1, 0, b"who are you");
    network.run(Duration::from_secs(5));
    assert_eq!((network.stats(1).no_peer, network.sent_by(1)), (1, 0));
    assert_eq!(network.nodes[1].sessions.tunnel_count(), 0);
}

#[test]
fn two_ends_that_begin_at_once_have_a_session() {
    for seed in 0..20 {
        let mut network = Network::new(seed, [Node::client(1, 2), Node::client(2, 1)]);
        network.send(0, 1, b"from the first");
        network.send(1, 0, b"from the second");
        network.run(Duration::from_secs(2));
        assert_eq!(network.received(1), [b"from the first".to_vec()], "seed {seed}");
        assert_eq!(network.received(0), [b"from the second".to_vec()], "seed {seed}");
        // And for good: whichever session each end uses, one of them renews it.
        network.exchange_for(Duration::from_secs(1_000), Duration::from_millis(500));
        assert_eq!(network.missing(), 0, "seed {seed}");
    }
}

#[test]
fn sessions_are_renewed_under_load_and_nothing_is_lost() {
    let mut network = pair(6);
    network.send(0, 1, b"");
    network.run(Duration::from_secs(1));
    // Ten minutes: the first session, and one more every two minutes.
    network.exchange_for(Duration::from_secs(600), Duration::from_millis(20));
    assert_eq!(network.missing(), 0);
    let (client, server) = (network.stats(0), network.stats(1));
    assert_eq!((client.sessions, server.sessions), (6, 6));
    assert_eq!((client.refused(), server.refused()), (0, 0));
}

#[test]
fn handshakes_survive_any_loss_and_every_datagram_arrives_at_most_once() {
    for seed in 0..60 {
        let mut network = pair(seed);
        (network.loss, network.repeats, network.disorder) = (0.4, 0.3, Duration::from_millis(60));
        network.exchange_for(Duration::from_secs(400), Duration::from_millis(200));
        network.loss = 0.0;
        network.run(Duration::from_secs(10));
        let (sent, received) = network.sums();
        assert!(network.repeated() == 0, "seed {seed}: a datagram was delivered twice");
        // About three fifths arrive; without sessions it would be none.
        assert!(received * 2 > sent, "seed {seed}: {received} of {sent}");
        assert!(network.stats(1).replayed > 0, "seed {seed}");
        network.send(0, 1, b"last");
        network.run(Duration::from_secs(10));
        assert_eq!(network.received(1).last().map(Vec::as_slice), Some(&b"last"[..]), "seed {seed}");
    }
}

#[test]
fn an_old_session_is_refused_at_its_end_and_not_before() {
    for (age, is_opened) in [(Duration::from_millis(179_000), true), (Duration::from_millis(180_001), false)]
    {
        let mut network = pair(8);
        network.send(0, 1, b"");
        network.run(Duration::from_secs(1));
        let (now, to, from) = (network.now, network.address(1), network.address(0));
        let sealed =
            network.nodes[0].sessions.seal(now, &Train { peer: to, bytes: b"late", segment_bytes: 4 });
        let copy = sealed.expect("there is a session").bytes.to_vec();
        let train = Train { peer: from, bytes: &copy, segment_bytes: copy.len() };
        // The session was made within the first 0.1 s of the second that has passed.
        let server = &mut network.nodes[1].sessions;
        let opened = server.open(now + age - Duration::from_millis(900), &train);
        assert_eq!(opened.bytes.len(), if is_opened { 4 } else { 0 }, "{age:?}");
        assert_eq!(network.stats(1).expired, u64::from(!is_opened));
    }
}

#[test]
fn a_port_that_sends_after_a_long_silence_makes_a_new_session() {
    let mut network = pair(9);
    network.send(0, 1, b"one");
    network.run(Duration::from_secs(1_000));
    assert_eq!([0, 1].map(|node| network.nodes[node].sessions.tunnel_count()), [0, 0], "all is forgotten");
    network.send(0, 1, b"two");
    network.run(Duration::from_secs(1));
    assert_eq!(network.received(1), [b"one".to_vec(), b"two".to_vec()]);
}

#[test]
fn a_peer_that_has_forgotten_the_session_is_asked_for_another() {
    let mut network = pair(10);
    network.send(0, 1, b"before");
    network.run(Duration::from_secs(1));
    network.nodes[1].restart(network.now);
    for _ in 0..20 {
        network.send(0, 1, b"after");
        network.run(Duration::from_secs(1));
    }
    assert!(network.received(1).contains(&b"after".to_vec()));
    assert!(network.stats(1).unknown_sessions >= 15);
}

/// Longest wait of a renewal in these tests.
const RENEWAL: Duration = Duration::from_millis(750);

#[test]
fn a_session_that_is_renewed_is_replaced_at_once_and_nothing_of_either_is_lost() {
    let mut network = pair(31);
    network.exchange_for(Duration::from_secs(3), Duration::from_millis(5));
    for _ in 0..4 {
        let (now, to) = (network.now, network.address(1));
        network.nodes[0].sessions.renew(now, to, RENEWAL);
        network.exchange_for(Duration::from_secs(1), Duration::from_millis(5));
    }
    assert_eq!((network.missing(), network.repeated()), (0, 0));
    assert_eq!((network.stats(0).sessions, network.stats(1).sessions), (5, 5));
    // One that is young enough is kept.
    let (now, to) = (network.now, network.address(1));
    network.nodes[0].sessions.renew(now, to, Duration::from_secs(2));
    network.exchange_for(Duration::from_secs(1), Duration::from_millis(5));
    assert_eq!((network.stats(0).sessions, network.missing()), (5, 0));
}

#[test]
fn a_peer_that_was_started_again_late_has_a_session_within_the_wait_of_a_renewal() {
    for seed in 0..20 {
        let mut network = pair(seed);
        network.send(0, 1, b"before");
        network.run(Duration::from_secs(1));
        network.loss = 1.0;
        let to = network.address(1);
        for _ in 0..30 {
            let now = network.now;
            network.nodes[0].sessions.renew(now, to, RENEWAL);
            network.run(Duration::from_secs(3));
        }
        // An attempt is given up after 90 s, but not while its owner asks for it.
        assert_eq!(network.stats(0).unanswered, 0);
        network.loss = 0.0;
        network.nodes[1].restart(network.now);
        // With a quarter more by chance, and the round trips of cookie and response.
        network.run(RENEWAL * 5 / 4 + network.delay * 4);
        network.send(0, 1, b"after");
        network.run(network.delay);
        assert_eq!(network.received(1).last().map(Vec::as_slice), Some(&b"after"[..]), "seed {seed}");
    }
}

#[test]
fn where_there_is_no_session_there_is_nothing_to_renew() {
    let mut network = pair(32);
    let (now, to) = (network.now, network.address(1));
    network.nodes[0].sessions.renew(now, to, RENEWAL);
    network.run(Duration::from_secs(1));
    assert_eq!((network.sent_by(0), network.nodes[0].sessions.tunnel_count()), (0, 0));
}

#[test]
fn captured_datagrams_have_no_effect_from_any_address() {
    let mut network = pair(11);
    network.exchange_for(Duration::from_secs(5), Duration::from_millis(10));
    let captured = network.captured();
    let before = (network.sums(), network.stats(1).sessions, network.nodes[1].sessions.tunnel_count());
    let attacker = "10.9.9.9:9".parse().unwrap();
    let now = network.now;
    for from in [network.address(0), attacker] {
        for datagram in &captured {
            let train = Train { peer: from, bytes: datagram, segment_bytes: datagram.len() };
            let opened = network.nodes[1].sessions.open(now, &train);
            assert!(opened.bytes.is_empty(), "a captured datagram was opened");
        }
    }
    network.run(Duration::from_secs(5));
    let after = (network.sums(), network.stats(1).sessions, network.nodes[1].sessions.tunnel_count());
    assert_eq!(before, after);
    let stats = network.stats(1);
    assert!(stats.replayed_handshakes >= 1 && stats.replayed >= 500 && stats.foreign >= 500, "{stats:?}");
    // The attacker's own address has no cookie for the captured handshake, and gets no more than one.
    assert!(stats.no_cookie >= 2, "{stats:?}");
    network.exchange_for(Duration::from_secs(5), Duration::from_millis(10));
    assert_eq!(network.missing(), 0);
}

#[test]
fn a_captured_handshake_is_refused_even_with_a_cookie_of_the_attacker() {
    let mut network = pair(12);
    network.send(0, 1, b"hello");
    network.run(Duration::from_secs(1));
    let captured = network.captured();
    let initiation = captured.iter().rfind(|datagram| datagram[3] == 1).expect("there was one").clone();
    let attacker = "10.9.9.9:9".parse().unwrap();
    let now = network.now;
    // Everybody who knows the public key can prove an address of its own: the proof is outside what Noise seals.
    let server = &mut network.nodes[1].sessions;
    let train = Train { peer: attacker, bytes: &initiation, segment_bytes: initiation.len() };
    server.open(now, &train);
    let Output::Transmit(reply) = server.poll(now) else { panic!("a cookie was asked for") };
    let cookie: [u8; 16] = reply.bytes[24..40].try_into().unwrap();
    let mut proven = initiation.clone();
    network::prove(&mut proven, &cookie);
    let train = Train { peer: attacker, bytes: &proven, segment_bytes: proven.len() };
    server.open(now, &train);
    assert_eq!((server.stats().replayed_handshakes, server.tunnel_count()), (1, 1));
    assert!(!server.needs_poll(), "it gets no answer");
}

#[test]
fn a_handshake_belongs_to_the_number_of_its_session() {
    let mut network = pair(17);
    network.send(0, 1, b"hello");
    network.run(Duration::from_secs(1));
    let captured = network.captured();
    let last = |kind| captured.iter().rfind(|datagram| datagram[3] == kind).expect("there was one");
    let (mut changed, reply) = (last(1).clone(), last(3));
    // An attacker on the way can compute codes and proofs anew, but not what Noise has sealed.
    changed[4] ^= 1;
    network::code(&mut changed, 2);
    network::prove(&mut changed, reply[24..40].try_into().unwrap());
    let train = Train { peer: network.address(0), bytes: &changed, segment_bytes: changed.len() };
    network.nodes[1].sessions.open(network.now, &train);
    let stats = network.stats(1);
    assert_eq!((stats.bad_handshakes, stats.replayed_handshakes), (1, 0), "{stats:?}");
}

#[test]
fn the_initiator_chooses_the_cipher_and_whoever_renews_the_session_keeps_it() {
    // The second end would begin with AES-256-GCM itself.
    let mut network = Network::new(19, [Node::client(CHACHA, 2), Node::client(2, CHACHA)]);
    network.send(0, 1, b"first");
    network.run(Duration::from_secs(1));
    let suites =
        |network: &Network| [0, 1].map(|node| network.nodes[node].sessions.suite(network.address(1 - node)));
    assert_eq!(suites(&network), [Some(Suite::ChaCha20Poly1305); 2]);
    assert_eq!(network.captured().iter().find(|it| it[3] == 7).map(Vec::len), Some(144));
    network.exchange_for(Duration::from_secs(400), Duration::from_secs(1));
    assert!(network.stats(1).sessions > 2, "it was renewed");
    assert_eq!(suites(&network), [Some(Suite::ChaCha20Poly1305); 2]);
    assert_eq!((network.missing(), network.stats(0).refused(), network.stats(1).refused()), (0, 0, 0));
}

#[test]
fn an_initiation_whose_cipher_was_changed_on_the_way_makes_no_session() {
    let mut network = pair(20);
    network.send(0, 1, b"hello");
    network.run(Duration::from_secs(1));
    let captured = network.captured();
    let last = |kind| captured.iter().rfind(|datagram| datagram[3] == kind).expect("there was one");
    let (mut changed, reply) = (last(1).clone(), last(3));
    changed[3] = 7;
    network::code(&mut changed, 2);
    network::prove(&mut changed, reply[24..40].try_into().unwrap());
    let train = Train { peer: network.address(0), bytes: &changed, segment_bytes: changed.len() };
    network.nodes[1].sessions.open(network.now, &train);
    let stats = network.stats(1);
    assert_eq!((stats.bad_handshakes, stats.sessions), (1, 1), "{stats:?}");
}

#[test]
fn a_responder_renews_a_session_that_its_initiator_does_not_use() {
    let mut network = Network::new(18, [Node::client(1, 2), Node::client(2, 1)]);
    network.send(0, 1, b"crossed");
    network.send(1, 0, b"crossed");
    let begun = |network: &Network| [0, 1].map(|node| network.stats(node).initiations);
    // Each end has taken over the session that the other one began.
    network.exchange_for(Duration::from_secs(140), Duration::from_secs(1));
    assert_eq!(begun(&network), [1, 1]);
    network.exchange_for(Duration::from_secs(30), Duration::from_secs(1));
    assert!(begun(&network).iter().sum::<u64>() > 2, "nobody has renewed the session");
    assert_eq!(network.missing(), 0);
}

#[test]
fn floods_of_forged_datagrams_keep_nothing_and_change_nothing() {
    let mut network = pair(13);
    network.exchange_for(Duration::from_secs(2), Duration::from_millis(10));
    let captured = network.captured();
    let mut random = units::Random::new(13);
    let forgeries = 100_000;
    let mut opened = 0;
    for number in 0..forgeries {
        let mut datagram = captured[number % captured.len()].clone();
        let at = random.below(datagram.len() as u64) as usize;
        datagram[at] ^= 1 << random.below(8);
        let from = if number % 2 == 0 {
            network.address(0)
        } else {
            core::net::SocketAddr::from((
                random.next_u64().to_le_bytes()[..4].first_chunk::<4>().copied().unwrap(),
                9,
            ))
        };
        let now = network.now;
        let train = Train { peer: from, bytes: &datagram, segment_bytes: datagram.len() };
        opened += network.nodes[1].sessions.open(now, &train).bytes.len();
        // The transport's datagrams go on meanwhile.
        if number % 1_000 == 0 {
            network.exchange_for(Duration::from_millis(100), Duration::from_millis(10));
        }
    }
    assert_eq!((opened, network.missing(), network.nodes[1].sessions.tunnel_count()), (0, 0, 1));
    let stats = network.stats(1);
    assert_eq!(stats.sessions, 1);
    let counted = stats.refused() + stats.no_cookie;
    // The client's own first handshake had no cookie.
    assert_eq!(counted, forgeries as u64 + 1, "{stats:?}");
}

#[test]
fn a_flood_of_proven_handshakes_is_computed_so_often_in_a_second_and_no_more() {
    let mut network = Network::new(14, [Node::client(7, 2), Node::server(2, &[1])]);
    network.send(0, 1, b"hello");
    network.run(Duration::from_secs(1));
    let captured = network.captured();
    let proven = captured.iter().rfind(|datagram| datagram[3] == 1).expect("there was one").clone();
    let before = network.stats(1);
    network.run(Duration::from_secs(1));
    let now = network.now;
    for _ in 0..1_000 {
        let train = Train { peer: network.address(0), bytes: &proven, segment_bytes: proven.len() };
        network.nodes[1].sessions.open(now, &train);
    }
    let computed = network.stats(1).unknown_peers - before.unknown_peers;
    assert!(computed <= 70, "{computed} were computed");
    assert!(network.stats(1).busy >= 930);
}

#[test]
fn the_table_of_peers_is_bounded() {
    let mut network = Network::new(15, [Node::client(1, 2), Node::client(2, 1)]);
    let now = network.now;
    for port in 0..MAX_TUNNELS as u32 + 10 {
        let to = core::net::SocketAddr::from(([10, 1, (port >> 8) as u8, port as u8], 7));
        let train = Train { peer: to, bytes: b"hello", segment_bytes: 5 };
        assert!(network.nodes[0].sessions.seal(now, &train).is_none());
    }
    assert_eq!((network.nodes[0].sessions.tunnel_count(), network.stats(0).full), (MAX_TUNNELS, 10));
}

#[test]
fn nothing_secret_is_shown() {
    let network = pair(16);
    let shown = format!("{:?} {:?}", network.nodes[0].sessions, key(1));
    assert_eq!(shown, "Sessions(1 peers, 0 tunnels) Secret(…)");
}
