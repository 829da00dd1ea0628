//! Two ports on the loopback interface.

use std::sync::Arc;
use std::thread;

use udt::SocketType;

use super::*;

fn port(seed: u64, offloads: bool) -> ReliablePort {
    port_with(seed, offloads, None)
}

fn port_with(seed: u64, offloads: bool, keys: Option<PortKeys>) -> ReliablePort {
    let options = PortOptions {
        address: "127.0.0.1:0".parse().unwrap(),
        receive_buffer_bytes: 8 << 20,
        send_buffer_bytes: 1 << 20,
        offloads,
        seed,
        secret: [5; 16],
        keys,
    };
    ReliablePort::open(&options).expect("loopback has room for a port")
}

fn block(index: usize) -> Vec<u8> {
    let mut random = units::Random::new(index as u64);
    (0..8_192).flat_map(|_| random.next_u64().to_le_bytes()).collect()
}

fn moves_a_stream(config: &SocketConfig, offloads: bool, blocks: usize) -> Stats {
    moves_between(port(1, offloads), port(2, offloads), config, blocks)
}

fn moves_between(client: ReliablePort, server: ReliablePort, config: &SocketConfig, blocks: usize) -> Stats {
    let server = Arc::new(server);
    let to = server.local_address();
    moves_over(&client, &server, to, config, blocks)
}

/// Moves a stream to a server that has the address `to`.
fn moves_over(
    client: &ReliablePort,
    server: &Arc<ReliablePort>,
    to: SocketAddr,
    config: &SocketConfig,
    blocks: usize,
) -> Stats {
    server.listen(config.clone(), 4).expect("the only listener");
    let reader = {
        let server = Arc::clone(server);
        thread::spawn(move || {
            let socket = server.accept(None).expect("a client comes");
            let mut bytes = vec![0; 100_000];
            let mut got = Vec::new();
            loop {
                match server.receive(socket, &mut bytes, None).expect("the connection holds") {
                    0 => break,
                    count => got.extend_from_slice(&bytes[..count]),
                }
            }
            server.close(socket);
            got
        })
    };
    let socket = client.connect(to, config.clone()).expect("the server listens");
    for index in 0..blocks {
        let bytes = block(index);
        let mut sent = 0;
        while sent < bytes.len() {
            sent += client.send(socket, &bytes[sent..], None).expect("the connection holds");
        }
    }
    client.flush(socket, None).expect("the reader takes everything");
    let stats = client.stats(socket).expect("it is still open");
    client.close(socket);
    let got = reader.join().expect("the reader ends by itself");
    let expected: Vec<u8> = (0..blocks).flat_map(block).collect();
    assert!(got == expected, "{} of {} bytes, or others", got.len(), expected.len());
    stats
}

#[test]
fn a_stream_arrives_whole_with_and_without_offloads() {
    for offloads in [true, false] {
        let stats = moves_a_stream(&SocketConfig::new(SocketType::Stream), offloads, 100);
        assert_eq!(stats.queued_bytes, 0);
        assert!(stats.sent_bytes >= 100 * 65_536, "{stats:?}");
    }
}

#[test]
fn packets_as_large_as_loopback_takes_arrive() {
    let mut config = SocketConfig::new(SocketType::Stream);
    (config.packet_bytes, config.send_buffer_packets, config.receive_buffer_packets) = (65_535, 256, 256);
    moves_a_stream(&config, true, 200);
}

#[test]
fn messages_arrive_and_the_end_is_told() {
    let config = SocketConfig::new(SocketType::Datagram);
    let (client, server) = (port(3, true), port(4, true));
    server.listen(config.clone(), 4).expect("the only listener");
    let socket = client.connect(server.local_address(), config).expect("the server listens");
    for index in 0..50 {
        client.send_message(socket, &block(index), true, None, None).expect("there is room");
    }
    let accepted = server.accept(None).expect("a client came");
    let mut message = Vec::new();
    for index in 0..50 {
        assert_eq!(server.receive_message(accepted, &mut message, None), Ok(true));
        assert!(message == block(index));
    }
    client.close(socket);
    assert_eq!(server.receive_message(accepted, &mut message, None), Ok(false));
}

#[test]
fn what_cannot_be_is_said() {
    let client = port(5, true);
    let mut config = SocketConfig::new(SocketType::Stream);
    config.connect_timeout = Duration::from_millis(300);
    // No port is open there: it was closed.
    let nobody = port(6, true).local_address();
    let error = client.connect(nobody, config.clone()).unwrap_err();
    assert_eq!(error, WaitError::Closed(CloseReason::NoAnswer));
    assert_eq!(client.accept(Some(Duration::from_millis(1))), Err(WaitError::TimedOut));
    let server = port(7, true);
    server.listen(SocketConfig::new(SocketType::Datagram), 4).expect("the only listener");
    // The test waits for an answer, however long it takes.
    config.connect_timeout = Duration::from_secs(60);
    let error = client.connect(server.local_address(), config).unwrap_err();
    assert_eq!(error, WaitError::Closed(CloseReason::Refused));
}

#[test]
fn what_the_kernel_does_not_take_is_counted() {
    let client = port(8, true);
    let mut config = SocketConfig::new(SocketType::Stream);
    config.connect_timeout = Duration::from_millis(300);
    assert_eq!(client.refused_datagrams(), 0);
    // A socket may not send to the broadcast address unless it requests that.
    let everybody = "255.255.255.255:9".parse().expect("an address");
    let error = client.connect(everybody, config).unwrap_err();
    assert_eq!(error, WaitError::Closed(CloseReason::NoAnswer));
    assert!(client.refused_datagrams() >= 1);
}

mod secured;
mod watched;
