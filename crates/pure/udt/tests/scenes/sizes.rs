//! Size of packets on paths that are not known: small ones first, larger ones once a probe has arrived.

use std::sync::Arc;

use congestion::named;
use sim::Link;
use udt::{CloseReason, FirstSize, SocketConfig, SocketType};
use units::Instant;
use wire::udt::{Body, Packet};

use crate::line::{MS, SECOND, Work, address, config};
use crate::pair::{CLIENT, Path, SERVER, connected_by, hear_at, pair, run, said_at, stats};

fn probing() -> SocketConfig {
    SocketConfig { first_size: FirstSize::Probed, ..config(SocketType::Stream) }
}

/// Transfers 4 MB over a path of this MTU without ICMP messages; returns the number of packets that it took.
fn packets_over(mtu: usize, client: SocketConfig, server: SocketConfig) -> u64 {
    let link = || Link::ideal().delay(5 * MS).mtu(mtu - 28);
    let path = Path { forward: link(), reverse: link() };
    let work = Work { send_bytes: 4_000_000, ..Work::default() };
    let mut network = pair(1, path, (client, work), (server, Work::default()));
    network.run_for(SECOND * 30);
    let received = network.node(SERVER).only();
    assert_eq!((received.received, received.wrong_bytes), (4_000_000, 0), "MTU {mtu}");
    let stats = stats(&network, CLIENT);
    assert_eq!(stats.retransmitted_packets, 0, "no data were in a probe");
    stats.sent_packets
}

#[test]
fn a_path_of_any_size_carries_everything_and_a_wide_one_takes_large_packets() {
    let small = 4_000_000 / (576 - 44);
    // Until the answer comes, after a round trip, 64 packets are small.
    let full = 4_000_000_u64.div_ceil(1_456);
    let wide = packets_over(1_500, probing(), probing());
    assert!((full..full + 64).contains(&wide), "{wide}");
    // For a size between, the largest one must have failed three times, a second each.
    for mtu in [576, 1_492] {
        let narrow = packets_over(mtu, probing(), probing());
        // A few of the first are not full.
        assert!((wide..small + 64).contains(&narrow), "MTU {mtu}: {narrow}");
    }
    assert_eq!(
        packets_over(1_500, config(SocketType::Stream), probing()),
        full,
        "the client's own setting counts"
    );
}

#[test]
fn a_narrow_path_is_no_black_hole() {
    let link = || Link::ideal().delay(5 * MS).mtu(1_000).rate(20_000_000, 200_000);
    let path = Path { forward: link(), reverse: link() };
    let work = Work { send_bytes: 20_000_000, closes: true, ..Work::default() };
    let mut network = pair(1, path, (probing(), work), (probing(), Work::default()));
    run(&mut network, 60);
    assert_eq!(network.node(CLIENT).only().closed, Some(CloseReason::Local));
    assert_eq!(network.node(SERVER).only().received, 20_000_000);
}

/// The first packets carry 548 bytes of UDP payload; the probe is an acknowledgement of the agreed size, which a
/// libudt peer answers like any other.
#[test]
fn a_probe_is_a_full_acknowledgement_and_its_answer_makes_packets_full() {
    let (mut client, mut server, id, _, from) = connected_by(&probing());
    let now = Instant::ORIGIN + SECOND;
    client.send(id, &[7; 600]).expect("it is connected");
    let said = said_at(now, &mut client, &mut Vec::new());
    let probe = said.iter().find(|bytes| bytes.len() == 1_472).expect("a probe");
    let Ok(Packet::Control(read)) = Packet::read(probe) else { panic!("no control packet") };
    let Body::Ack(ack) = read.body else { panic!("{read:?}") };
    // Zeros, those of the padding too, say that nothing was measured.
    let rates = ack.progress.and_then(|progress| progress.rates);
    assert!(ack.number > 0 && rates == Some((0, 0)), "{ack:?}");
    let sizes = |said: &[Vec<u8>]| -> Vec<usize> {
        let is_data = |bytes: &&Vec<u8>| matches!(Packet::read(bytes), Ok(Packet::Data(_)));
        said.iter().filter(is_data).map(Vec::len).collect()
    };
    assert_eq!(sizes(&said), [548, 16 + 600 - 532]);
    hear_at(now, &mut server, from, &said);
    let answers = said_at(now, &mut server, &mut Vec::new());
    hear_at(now, &mut client, address(SERVER), &answers);
    client.send(id, &[7; 1_500]).expect("it is connected");
    let said = said_at(now + SECOND, &mut client, &mut Vec::new());
    assert_eq!(sizes(&said)[0], 1_472);
}

/// A rate is one of bytes: the control's own, and the socket's limit, hold with larger packets from the first on.
#[test]
fn a_rate_in_bytes_is_the_same_once_packets_are_larger() {
    let fixed = Arc::from(named("fixed", "rate=8m").expect("it is built in"));
    let by_control = SocketConfig { congestion: fixed, ..probing() };
    let by_limit = SocketConfig { max_bytes_per_s: Some(1_000_000), ..probing() };
    for config in [by_control, by_limit] {
        let (mut client, mut server, id, _, from) = connected_by(&config);
        let now = Instant::ORIGIN + SECOND;
        client.send(id, &[7; 600]).expect("it is connected");
        let said = said_at(now, &mut client, &mut Vec::new());
        let spacing_us =
            |client: &udt::Endpoint| client.stats(id).expect("it is connected").spacing_ps / 1_000_000;
        assert_eq!(spacing_us(&client), 576, "1 MB/s");
        hear_at(now, &mut server, from, &said);
        let answers = said_at(now, &mut server, &mut Vec::new());
        hear_at(now, &mut client, address(SERVER), &answers);
        assert_eq!(spacing_us(&client), 1_500, "1 MB/s");
    }
}
