//! Debian's libudt and ours over a lossy path: every byte arrives.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use interop::{MEGABYTE, Peer, Relay, receive, send};
use udt::{SocketConfig, SocketType};

const BYTES: u64 = 20 * MEGABYTE;

fn program() -> Option<&'static PathBuf> {
    interop::program(env!("CARGO_TARGET_TMPDIR"))
}

/// Sends at a constant rate: UDT's own control takes losses for congestion, and would need minutes.
fn config() -> SocketConfig {
    let control = congestion::named("fixed", "rate=100m").expect("it is built in");
    SocketConfig::with(SocketType::Stream, Arc::from(control))
}

/// Both directions and both roles, with one probability of loss.
fn bytes_arrive(loss: f64) {
    let Some(program) = program() else { return };
    for (seed, (we_listen, we_send)) in
        (1..).zip([(false, true), (false, false), (true, true), (true, false)])
    {
        let action = if we_send { "receive" } else { "send" };
        let work = ["stream", action, "1000000", "20"];
        // One datagram per call: libudt's sender uses our reports of the spacing of pairs, which trains hide. With
        // trains the transfer takes half as long again at one loss in twenty.
        let ours = interop::port(false);
        let (mut peer, relay, socket);
        if we_listen {
            ours.listen(config(), 4).expect("the only listener");
            relay = Relay::start(ours.local_address(), loss, seed);
            let at = relay.address().port().to_string();
            peer = Peer::start(program, &[&["connect", "127.0.0.1", &at], &work[..]].concat());
            assert_eq!(peer.line(), "connected");
            socket = ours.accept(None).expect("the peer has connected");
        } else {
            peer = Peer::start(program, &[&["listen", "127.0.0.1", "0"], &work[..]].concat());
            relay = Relay::start(SocketAddr::from(([127, 0, 0, 1], peer.port())), loss, seed);
            socket = ours.connect(relay.address(), config()).expect("it listens");
        }
        if we_send {
            send(&ours, socket, BYTES);
            assert_eq!(peer.line(), "received 20000000 wrong 0");
        } else {
            receive(&ours, socket, BYTES);
        }
        let stats = ours.stats(socket);
        ours.close(socket);
        let accounts = relay.end();
        for account in accounts {
            assert!(account.is_closed(), "{account:?}");
        }
        let [from_client, from_server] = accounts;
        let data = if we_send == we_listen { from_server } else { from_client };
        assert!(data.lost.random > 0, "{loss}, {we_listen}, {we_send}: {accounts:?} {stats:?}");
    }
}

#[test]
fn one_in_a_thousand_is_lost() {
    bytes_arrive(0.001);
}

#[test]
fn one_in_a_hundred_is_lost() {
    bytes_arrive(0.01);
}

#[test]
fn one_in_twenty_is_lost() {
    bytes_arrive(0.05);
}
