//! Ports whose datagrams travel inside sessions, and attackers beside them.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use keys::{Secret, Suite};

use super::*;

fn secret(number: u8) -> Secret {
    Secret::new([number; 32].into())
}

fn public(number: u8) -> PublicKey {
    noise::public_key(&secret(number))
}

/// Keys of an end that connects.
fn towards(own: u8, responder: u8) -> Option<PortKeys> {
    let responder = Some(public(responder));
    Some(PortKeys {
        key: secret(own),
        peers: BTreeSet::new(),
        responder,
        suite: Suite::default(),
        seed: secret(100 + own),
    })
}

/// Keys of an end that listens.
fn listening(own: u8, peers: &[u8]) -> Option<PortKeys> {
    let peers = peers.iter().map(|peer| public(*peer)).collect();
    Some(PortKeys {
        key: secret(own),
        peers,
        responder: None,
        suite: Suite::default(),
        seed: secret(100 + own),
    })
}

fn config() -> SocketConfig {
    SocketConfig::new(SocketType::Stream)
}

fn impatient() -> SocketConfig {
    SocketConfig { connect_timeout: Duration::from_millis(700), ..config() }
}

#[test]
fn a_secured_stream_arrives_whole_with_and_without_offloads() {
    for offloads in [true, false] {
        let (client, server) =
            (port_with(1, offloads, towards(1, 2)), port_with(2, offloads, listening(2, &[1])));
        let stats = moves_between(client, server, &config(), 100);
        assert!(stats.sent_bytes >= 100 * 65_536, "{stats:?}");
    }
}

#[test]
fn secured_packets_as_large_as_loopback_takes_arrive() {
    let mut config = config();
    (config.packet_bytes, config.send_buffer_packets, config.receive_buffer_packets) = (65_535, 256, 256);
    let (client, server) = (port_with(1, true, towards(1, 2)), port_with(2, true, listening(2, &[1])));
    moves_between(client, server, &config, 200);
}

#[test]
fn ends_that_know_each_other_meet() {
    let (one, other) = (port_with(1, true, towards(1, 2)), Arc::new(port_with(2, true, towards(2, 1))));
    let (address, patient) =
        (one.local_address(), SocketConfig { connect_timeout: support::WATCHDOG, ..config() });
    let there = {
        let (other, config) = (Arc::clone(&other), patient.clone());
        thread::spawn(move || other.rendezvous(address, config))
    };
    let here = one.rendezvous(other.local_address(), patient).expect("they meet");
    let there = there.join().expect("it does not panic").expect("they meet");
    assert_eq!((one.peer_key(here), other.peer_key(there)), (Some(public(2)), Some(public(1))));
}

#[test]
fn a_peer_that_is_not_listed_reaches_no_listener() {
    let server = port_with(2, true, listening(2, &[1]));
    server.listen(config(), 4).expect("the only listener");
    let stranger = port_with(3, true, towards(7, 2));
    let error = stranger.connect(server.local_address(), impatient()).unwrap_err();
    assert_eq!(error, WaitError::Closed(CloseReason::NoAnswer));
    let stats = server.session_stats().expect("it is secured");
    assert!(stats.unknown_peers > 0 && stats.sessions == 0, "{stats:?}");
    // Not even a half-open connection: the transport has seen nothing.
    assert_eq!(server.endpoint_stats(), EndpointStats::default());
    assert_eq!(server.accept(Some(Duration::ZERO)), Err(WaitError::TimedOut));
}

#[test]
fn secured_and_clear_ends_do_not_hear_each_other() {
    let secured = port_with(2, true, listening(2, &[1]));
    secured.listen(config(), 4).expect("the only listener");
    let no_answer = Err(WaitError::Closed(CloseReason::NoAnswer));
    assert_eq!(port(3, true).connect(secured.local_address(), impatient()), no_answer);
    assert!(secured.session_stats().is_some_and(|stats| stats.clear > 0));
    assert_eq!(secured.endpoint_stats(), EndpointStats::default());
    let clear = port(4, true);
    clear.listen(config(), 4).expect("the only listener");
    assert_eq!(port_with(5, true, towards(1, 2)).connect(clear.local_address(), impatient()), no_answer);
    let stats = clear.endpoint_stats();
    assert!(stats.malformed + stats.unknown_socket > 0 && stats.strange_handshakes == 0, "{stats:?}");
    assert_eq!(clear.accept(Some(Duration::ZERO)), Err(WaitError::TimedOut));
    assert_eq!(clear.session_stats(), None);
}

/// An attacker on the way: it passes everything on, and besides a forged and a repeated copy of each datagram, and
/// one from an address of its own.
fn attack(server: SocketAddr, is_over: Arc<AtomicBool>) -> (SocketAddr, JoinHandle<u64>) {
    let any = "127.0.0.1:0";
    let front = UdpSocket::bind(any).expect("loopback has room");
    let (back, beside) =
        (UdpSocket::bind(any).expect("loopback has room"), UdpSocket::bind(any).expect("loopback has room"));
    let address = front.local_addr().expect("it is bound");
    for socket in [&front, &back] {
        socket.set_nonblocking(true).expect("it is possible");
    }
    let relay = move || {
        let (mut client, mut bytes, mut count) = (None, vec![0; 65_536], 0_u64);
        while !is_over.load(Ordering::Relaxed) {
            if let Ok((length, from)) = front.recv_from(&mut bytes) {
                assert!(bytes.starts_with(b"\xffTN"), "a datagram in the clear");
                client = Some(from);
                count += 1;
                let mut forged = bytes[..length].to_vec();
                let at = usize::try_from(count).expect("few") % length;
                forged[at] ^= 0x10;
                let _ = back.send_to(&forged, server);
                for _ in 0..2 {
                    let _ = back.send_to(&bytes[..length], server);
                }
                let _ = beside.send_to(&bytes[..length], server);
                continue;
            }
            if let (Ok((length, _)), Some(client)) = (back.recv_from(&mut bytes), client) {
                assert!(bytes.starts_with(b"\xffTN"), "a datagram in the clear");
                let _ = front.send_to(&bytes[..length], client);
                continue;
            }
            thread::yield_now();
        }
        count
    };
    (address, thread::spawn(relay))
}

#[test]
fn forged_and_repeated_datagrams_beside_a_stream_change_nothing_of_it() {
    let server = Arc::new(port_with(2, true, listening(2, &[1])));
    let client = port_with(1, false, towards(1, 2));
    let is_over = Arc::new(AtomicBool::new(false));
    let (way, attacker) = attack(server.local_address(), Arc::clone(&is_over));
    let mut config = config();
    // Sockets of the attacker overflow otherwise; that is loss, and not what is tested here.
    config.max_bytes_per_s = Some(4_000_000);
    moves_over(&client, &server, way, &config, 20);
    is_over.store(true, Ordering::Relaxed);
    let passed = attacker.join().expect("it does not panic");
    let stats = server.session_stats().expect("it is secured");
    assert!(passed > 500 && stats.replayed > 100 && stats.foreign > 100, "{stats:?}, {passed} passed");
    assert!(stats.bad_tags > 100, "{stats:?}");
    assert_eq!(stats.sessions, 1);
    let endpoint = server.endpoint_stats();
    assert_eq!((endpoint.malformed, endpoint.foreign, endpoint.refused), (0, 0, 0), "{endpoint:?}");
}
