//! Debian's libudt 4.11 and ours: every role, both directions, streams and messages, byte for byte.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use engine::{ReliablePort, WaitError};
use interop::{MEGABYTE, Peer, bytes_from, receive, send};
use udt::{CloseReason, FirstSize, Silence, SocketConfig, SocketId, SocketType};

fn program() -> Option<&'static PathBuf> {
    interop::program(env!("CARGO_TARGET_TMPDIR"))
}

/// Starts a peer that listens, and connects to it.
fn to_listener(
    program: &PathBuf,
    ours: &ReliablePort,
    config: SocketConfig,
    arguments: &[&str],
) -> (Peer, SocketId) {
    let mut peer = Peer::start(program, &[&["listen", "127.0.0.1", "0"], arguments].concat());
    let address = SocketAddr::from(([127, 0, 0, 1], peer.port()));
    let socket = ours.connect(address, config).expect("the peer listens");
    (peer, socket)
}

/// Listens, and starts a peer that connects.
fn from_client(
    program: &PathBuf,
    ours: &ReliablePort,
    config: SocketConfig,
    arguments: &[&str],
) -> (Peer, SocketId) {
    ours.listen(config, 200).expect("the only listener");
    let port = ours.local_address().port().to_string();
    let mut peer = Peer::start(program, &[&["connect", "127.0.0.1", &port], arguments].concat());
    assert_eq!(peer.line(), "connected");
    (peer, ours.accept(None).expect("the peer has connected"))
}

type Meeting = fn(&PathBuf, &ReliablePort, SocketConfig, &[&str]) -> (Peer, SocketId);

#[test]
fn streams_arrive_byte_for_byte_in_every_role_and_direction() {
    let Some(program) = program() else { return };
    let stream = || SocketConfig::new(SocketType::Stream);
    for meet in [to_listener as Meeting, from_client] {
        let ours = interop::port(true);
        let (mut peer, socket) = meet(program, &ours, stream(), &["stream", "receive", "1000000", "20"]);
        send(&ours, socket, 20 * MEGABYTE);
        assert_eq!(peer.line(), "received 20000000 wrong 0");
        ours.close(socket);

        let ours = interop::port(true);
        let (_peer, socket) = meet(program, &ours, stream(), &["stream", "send", "1000000", "20"]);
        receive(&ours, socket, 20 * MEGABYTE);
        assert_eq!(ours.receive(socket, &mut [0; 9], None), Ok(0), "the peer has closed");
        ours.close(socket);
    }
}

/// As towards the Internet: 548 bytes of UDP payload until a probe is answered, which libudt does.
#[test]
fn small_first_packets_are_followed_by_large_ones_in_every_role() {
    let Some(program) = program() else { return };
    for meet in [to_listener as Meeting, from_client] {
        let stream = SocketConfig { first_size: FirstSize::Probed, ..SocketConfig::new(SocketType::Stream) };
        let ours = interop::port(true);
        let (mut peer, socket) = meet(program, &ours, stream, &["stream", "receive", "1000000", "20"]);
        send(&ours, socket, 20 * MEGABYTE);
        assert_eq!(peer.line(), "received 20000000 wrong 0");
        let stats = ours.stats(socket).expect("it is open");
        let first = stats.sent_packets - stats.retransmitted_packets;
        // 20 MB are 37,594 small packets or 13,737 large ones.
        assert!((13_737..30_000).contains(&first), "{first} packets");
        ours.close(socket);
    }
}

#[test]
fn a_gigabyte_arrives_byte_for_byte_in_both_directions() {
    let Some(program) = program() else { return };
    let stream = || SocketConfig::new(SocketType::Stream);
    let ours = interop::port(true);
    let (mut peer, socket) = to_listener(program, &ours, stream(), &["stream", "receive", "1000000", "1000"]);
    send(&ours, socket, 1_000 * MEGABYTE);
    assert_eq!(peer.line(), "received 1000000000 wrong 0");
    ours.close(socket);
    let ours = interop::port(true);
    let (_peer, socket) = from_client(program, &ours, stream(), &["stream", "send", "1000000", "1000"]);
    receive(&ours, socket, 1_000 * MEGABYTE);
    assert_eq!(ours.receive(socket, &mut [0; 9], None), Ok(0), "the peer has closed");
    ours.close(socket);
}

#[test]
fn messages_arrive_whole_in_every_role_and_direction() {
    let Some(program) = program() else { return };
    let messages = || SocketConfig::new(SocketType::Datagram);
    for meet in [to_listener as Meeting, from_client] {
        for size in ["1", "1456", "4000", "200000"] {
            let bytes: u64 = size.parse().expect("a number");
            let ours = interop::port(true);
            let (mut peer, socket) = meet(program, &ours, messages(), &["messages", "receive", size, "100"]);
            for index in 0..100 {
                let message = bytes_from(index * bytes, bytes);
                ours.send_message(socket, &message, true, None, None).expect("the connection holds");
            }
            assert_eq!(peer.line(), "received 100 wrong 0");
            ours.close(socket);

            let ours = interop::port(true);
            let (_peer, socket) = meet(program, &ours, messages(), &["messages", "send", size, "100"]);
            let mut message = Vec::new();
            for index in 0..100 {
                assert_eq!(ours.receive_message(socket, &mut message, None), Ok(true));
                assert!(message == bytes_from(index * bytes, bytes), "message {index} of {size} bytes");
            }
            ours.close(socket);
        }
    }
}

#[test]
fn sequence_numbers_wrap() {
    let Some(program) = program() else { return };
    let mut config = SocketConfig::new(SocketType::Stream);
    config.first_sequence = Some(0x7fff_ff00);
    let ours = interop::port(true);
    let (mut peer, socket) = to_listener(program, &ours, config, &["stream", "receive", "1000000", "3"]);
    send(&ours, socket, 3 * MEGABYTE);
    assert_eq!(peer.line(), "received 3000000 wrong 0");
    ours.close(socket);
}

#[test]
fn two_ends_meet_without_a_listener() {
    let Some(program) = program() else { return };
    let (ours, free) = (interop::port(true), support::ports::free());
    let (here, there) = (ours.local_address().port().to_string(), free.to_string());
    let arguments = ["rendezvous", "127.0.0.1", &here, &there, "stream", "receive", "1000000", "2"];
    let mut peer = Peer::start(program, &arguments);
    let mut config = SocketConfig::new(SocketType::Stream);
    config.connect_timeout = Duration::from_secs(30);
    let address = SocketAddr::from(([127, 0, 0, 1], free));
    let socket = ours.rendezvous(address, config).expect("the peer looks for us");
    send(&ours, socket, 2 * MEGABYTE);
    assert_eq!(peer.line(), "connected");
    assert_eq!(peer.line(), "received 2000000 wrong 0");
    ours.close(socket);
}

#[test]
fn a_reader_that_sleeps_is_waited_for() {
    let Some(program) = program() else { return };
    let ours = interop::port(true);
    let config = SocketConfig::new(SocketType::Stream);
    let (mut peer, socket) = to_listener(program, &ours, config, &["stream", "sleep", "1000000", "2"]);
    send(&ours, socket, 2 * MEGABYTE);
    assert_eq!(peer.line(), "received 2000000 wrong 0");
    assert_eq!(ours.stats(socket).map(|stats| stats.impossible_packets), Some(0));
    ours.close(socket);
}

#[test]
fn our_reader_that_sleeps_is_waited_for() {
    let Some(program) = program() else { return };
    let ours = interop::port(true);
    let mut config = SocketConfig::new(SocketType::Stream);
    config.receive_buffer_packets = 64;
    let (_peer, socket) = from_client(program, &ours, config, &["stream", "send", "1000000", "2"]);
    // Waits until the window has been closed long enough for the peer to probe it.
    let shut = |ours: &ReliablePort| ours.stats(socket).is_some_and(|stats| stats.duplicate_packets > 0);
    while !shut(&ours) {
        assert_eq!(ours.accept(Some(Duration::from_millis(20))), Err(WaitError::TimedOut));
    }
    receive(&ours, socket, 2 * MEGABYTE);
    ours.close(socket);
}

#[test]
fn a_peer_that_is_killed_is_given_up() {
    let Some(program) = program() else { return };
    let ours = interop::port(true);
    let mut config = SocketConfig::new(SocketType::Stream);
    config.silence =
        Silence { attempts: 2, least_step: Duration::from_secs(1), last_step: Duration::from_secs(2) };
    let (mut peer, socket) = to_listener(program, &ours, config, &["stream", "receive", "1000000", "20"]);
    ours.send(socket, &[7; 100_000], None).expect("the connection holds");
    peer.kill();
    assert_eq!(ours.receive(socket, &mut [0; 9], None), Err(WaitError::Closed(CloseReason::Silent)));
    let error = ours.send(socket, &[7; 9], None);
    assert_eq!(error, Err(WaitError::Closed(CloseReason::Silent)));
}

#[test]
fn another_type_of_socket_is_refused_by_both() {
    let Some(program) = program() else { return };
    let ours = interop::port(true);
    let mut peer = Peer::start(program, &["listen", "127.0.0.1", "0", "stream", "receive", "1", "1"]);
    let address = SocketAddr::from(([127, 0, 0, 1], peer.port()));
    let error = ours.connect(address, SocketConfig::new(SocketType::Datagram));
    assert_eq!(error, Err(WaitError::Closed(CloseReason::Refused)));

    ours.listen(SocketConfig::new(SocketType::Stream), 4).expect("the only listener");
    let here = ours.local_address().port().to_string();
    let mut peer = Peer::start(program, &["connect", "127.0.0.1", &here, "messages", "receive", "1", "1"]);
    let line = peer.line();
    assert!(line.starts_with("failed connect"), "{line}");
}

#[test]
fn a_hundred_connections_share_one_port() {
    let Some(program) = program() else { return };
    let ours = interop::port(true);
    let arguments = ["listen", "127.0.0.1", "0", "stream", "receive", "20000", "1", "100"];
    let mut peer = Peer::start(program, &arguments);
    let address = SocketAddr::from(([127, 0, 0, 1], peer.port()));
    let sockets: Vec<SocketId> = (0..100)
        .map(|_| ours.connect(address, SocketConfig::new(SocketType::Stream)).expect("the peer listens"))
        .collect();
    for socket in &sockets {
        send(&ours, *socket, 20_000);
    }
    for _ in &sockets {
        assert_eq!(peer.line(), "received 20000 wrong 0");
    }
    for socket in sockets {
        ours.close(socket);
    }
}
