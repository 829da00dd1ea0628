//! Congestion controls with their own messages: libudt ignores the messages, and receives every byte.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use interop::{MEGABYTE, Peer, Relay, send};
use udt::{SocketConfig, SocketType};

fn program() -> Option<&'static PathBuf> {
    interop::program(env!("CARGO_TARGET_TMPDIR"))
}

#[test]
fn what_controls_say_to_their_kind_does_libudt_no_harm() {
    let Some(program) = program() else { return };
    let controls = [
        ("bbr", ""),
        // One loss in a hundred would stop it, even between two ends with this control.
        ("sabul", "start=50m&threshold=0.1"),
        ("tsunami", "rate=50m"),
        ("gtp", "rate=50m"),
        ("rbudp", "rate=50m"),
        ("fobs", "rate=50m"),
    ];
    for (seed, (name, options)) in (1..).zip(controls) {
        let control = congestion::named(name, options).expect("it is built in");
        let config = SocketConfig::with(SocketType::Stream, Arc::from(control));
        let peer = ["listen", "127.0.0.1", "0", "stream", "receive", "1000000", "3"];
        let mut peer = Peer::start(program, &peer);
        let relay = Relay::start(SocketAddr::from(([127, 0, 0, 1], peer.port())), 0.01, seed);
        // One datagram at a time, so that the relay drops packets and not trains.
        let ours = interop::port(false);
        let socket = ours.connect(relay.address(), config).expect("it listens");
        send(&ours, socket, 3 * MEGABYTE);
        assert_eq!(peer.line(), "received 3000000 wrong 0", "{name}");
        let stats = ours.stats(socket);
        ours.close(socket);
        let [from_client, _] = relay.end();
        assert!(from_client.lost.random > 0, "{name}: {from_client:?} {stats:?}");
        assert!(from_client.is_closed(), "{name}: {from_client:?}");
    }
}
