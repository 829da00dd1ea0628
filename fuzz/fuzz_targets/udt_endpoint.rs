//! Two endpoints of the reliable transport, each with any control, and an attacker between them: packets are
//! dropped, repeated, reordered and forged, at any times. Neither end panics, holds more than its buffers, or stays
//! open for ever.
#![no_main]

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use congestion::BUILT_IN;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use udt::{Datagrams, Endpoint, EndpointConfig, Output, SocketConfig, SocketId, SocketType, Terms};
use units::Instant;

/// Maximum number of packets in flight; further ones are lost.
const MOST_ON_THE_WAY: usize = 256;
/// Size of the buffers: small, so that they fill up.
const BUFFER_PACKETS: u32 = 32;
const PACKET_BYTES: u32 = 200;

#[derive(Debug, Arbitrary)]
struct Scene<'a> {
    messages: bool,
    /// Controls of the client and of the server.
    controls: [u8; 2],
    first_sequence: Option<u32>,
    steps: Vec<Step<'a>>,
}

#[derive(Debug, Arbitrary)]
enum Step<'a> {
    Send { server: bool, bytes: u16, ordered: bool, lifetime_ms: Option<u16> },
    Receive { server: bool, bytes: u16 },
    /// A power of two in microseconds passes, up to a minute.
    Pass { exponent: u8 },
    Deliver { index: u8 },
    Repeat { index: u8 },
    Drop { index: u8 },
    Turn { index: u8, place: u8, bit: u8 },
    Cut { index: u8, bytes: u8 },
    /// Raw bytes, for an existing socket.
    Forge { server: bool, from_stranger: bool, bytes: &'a [u8] },
    Close { server: bool },
}

struct End {
    endpoint: Endpoint,
    address: SocketAddr,
    socket: SocketId,
}

fuzz_target!(|scene: Scene<'_>| {
    let mut ends = connected(&scene.controls.map(|control| config(&scene, control)));
    let (mut now, mut in_transit) = (Instant::ORIGIN, Vec::new());
    for step in scene.steps.iter().take(2_000) {
        act(step, &mut ends, &mut now, &mut in_transit);
        for (end, from) in ends.iter_mut().enumerate() {
            in_transit.extend(said(now, &mut from.endpoint).into_iter().map(|bytes| (1 - end, bytes)));
            let queued = from.endpoint.stats(from.socket).map_or(0, |stats| stats.queued_bytes);
            assert!(queued <= u64::from(BUFFER_PACKETS * PACKET_BYTES), "{queued} bytes queued after {step:?}");
        }
        in_transit.truncate(MOST_ON_THE_WAY);
    }
    // Everything ends after any messages: the silent peer after its timeout, the closed socket after its linger time.
    for End { endpoint, socket, .. } in &mut ends {
        endpoint.close(now, *socket);
        for end in [now + Duration::from_secs(400), now + Duration::from_secs(800)] {
            said(end, endpoint);
        }
        assert_eq!(endpoint.socket_count(), 0);
    }
});

fn config(scene: &Scene<'_>, control: u8) -> SocketConfig {
    let kind = if scene.messages { SocketType::Datagram } else { SocketType::Stream };
    let name = BUILT_IN[usize::from(control) % BUILT_IN.len()].name;
    // Controls for unshared paths need a rate.
    let control = congestion::named(name, "").or_else(|_| congestion::named(name, "rate=100m"));
    let control = control.expect("it is built in, and needs no more than a rate");
    let mut config = SocketConfig::with(kind, Arc::from(control));
    config.packet_bytes = PACKET_BYTES;
    config.send_buffer_packets = BUFFER_PACKETS;
    config.receive_buffer_packets = BUFFER_PACKETS;
    config.first_sequence = scene.first_sequence.map(|number| number & 0x7fff_ffff);
    config
}

fn connected([of_client, of_server]: &[SocketConfig; 2]) -> [End; 2] {
    let mut ends = [1, 2].map(|number| End {
        endpoint: Endpoint::new(&EndpointConfig { seed: number, secret: [9; 16] }),
        address: SocketAddr::from(([10, 0, 0, number as u8], 7_400)),
        socket: SocketId(0),
    });
    let [client, server] = &mut ends;
    server.endpoint.listen(of_server.clone(), 4).expect("the only listener");
    client.socket = client.endpoint.connect(Instant::ORIGIN, server.address, of_client.clone());
    loop {
        let asked = said(Instant::ORIGIN, &mut client.endpoint);
        asked.iter().for_each(|bytes| hear(Instant::ORIGIN, &mut server.endpoint, client.address, bytes));
        let answered = said(Instant::ORIGIN, &mut server.endpoint);
        answered.iter().for_each(|bytes| hear(Instant::ORIGIN, &mut client.endpoint, server.address, bytes));
        if asked.is_empty() && answered.is_empty() {
            server.socket = server.endpoint.accept().expect("the client is connected");
            return ends;
        }
    }
}

fn act(step: &Step<'_>, ends: &mut [End; 2], now: &mut Instant, in_transit: &mut Vec<(usize, Vec<u8>)>) {
    match *step {
        Step::Send { server, bytes, ordered, lifetime_ms } => {
            let End { endpoint, socket, .. } = &mut ends[usize::from(server)];
            let bytes = vec![9; usize::from(bytes)];
            let end = lifetime_ms.map(|lifetime| *now + Duration::from_millis(u64::from(lifetime)));
            // One of the two may be refused, or both: the ends may be closed already.
            let terms = Terms { is_ordered: ordered, deadline: end, ..Terms::default() };
            let _ = endpoint.send(*socket, &bytes);
            let _ = endpoint.send_message(*now, *socket, &bytes, terms);
        }
        Step::Receive { server, bytes } => {
            let End { endpoint, socket, .. } = &mut ends[usize::from(server)];
            endpoint.receive(*socket, &mut vec![0; usize::from(bytes)]);
            endpoint.receive_message(*socket, &mut Vec::new());
        }
        Step::Pass { exponent } => *now += Duration::from_micros(1 << (exponent % 27)),
        Step::Deliver { index } => {
            let Some((to, bytes)) = find(in_transit, index).map(|at| in_transit.remove(at)) else { return };
            let from = ends[1 - to].address;
            hear(*now, &mut ends[to].endpoint, from, &bytes);
        }
        Step::Repeat { index } => in_transit.extend(find(in_transit, index).map(|at| in_transit[at].clone())),
        Step::Drop { index } => drop(find(in_transit, index).map(|at| in_transit.remove(at))),
        Step::Turn { index, place, bit } => {
            let Some(at) = find(in_transit, index) else { return };
            if let Some(byte) = in_transit[at].1.get_mut(usize::from(place)) {
                *byte ^= 1 << (bit % 8);
            }
        }
        Step::Cut { index, bytes } => {
            let Some(at) = find(in_transit, index) else { return };
            in_transit[at].1.truncate(usize::from(bytes));
        }
        Step::Forge { server, from_stranger, bytes } => {
            let to = usize::from(server);
            let mut bytes = bytes.to_vec();
            if let Some(destination) = bytes.get_mut(12..16) {
                destination.copy_from_slice(&ends[to].socket.0.to_be_bytes());
            }
            let stranger = SocketAddr::from(([10, 0, 0, 66], 7_400));
            let from = if from_stranger { stranger } else { ends[1 - to].address };
            hear(*now, &mut ends[to].endpoint, from, &bytes);
        }
        Step::Close { server } => {
            let End { endpoint, socket, .. } = &mut ends[usize::from(server)];
            endpoint.close(*now, *socket);
        }
    }
}

fn find(in_transit: &[(usize, Vec<u8>)], index: u8) -> Option<usize> {
    usize::from(index).checked_rem(in_transit.len())
}

fn said(now: Instant, endpoint: &mut Endpoint) -> Vec<Vec<u8>> {
    let mut said = Vec::new();
    loop {
        match endpoint.poll(now) {
            Output::Transmit(transmit) => {
                said.extend(transmit.bytes.chunks(transmit.segment_bytes).map(<[u8]>::to_vec));
            }
            Output::Event { .. } => {}
            Output::Idle { .. } => return said,
        }
    }
}

fn hear(now: Instant, endpoint: &mut Endpoint, from: SocketAddr, bytes: &[u8]) {
    endpoint.handle(now, &Datagrams { from, bytes, segment_bytes: bytes.len().max(1), arrived: now });
}
