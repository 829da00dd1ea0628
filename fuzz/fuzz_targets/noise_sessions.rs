//! Two ends of a secured port, and an attacker between them: datagrams are dropped, repeated, reordered, changed and
//! forged, at any times. Neither end panics or keeps state for strangers, and what an end opens was sealed by the
//! other, once.
#![no_main]

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeSet;

use keys::{PublicKey, Secret, Suite};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use noise::{Config, Output, Sessions, Train};
use units::{Instant, WallTime};

/// Maximum number of datagrams in flight; further ones are lost.
const MOST_ON_THE_WAY: usize = 64;

#[derive(Debug, Arbitrary)]
enum Step<'a> {
    Send {
        server: bool,
    },
    /// A power of two in microseconds passes, up to nine minutes.
    Pass {
        exponent: u8,
    },
    Deliver {
        index: u8,
    },
    Repeat {
        index: u8,
    },
    Drop {
        index: u8,
    },
    Turn {
        index: u8,
        place: u16,
        bit: u8,
    },
    Cut {
        index: u8,
        bytes: u8,
    },
    /// Raw bytes behind the mark of a message.
    Forge {
        server: bool,
        port: u8,
        kind: u8,
        bytes: &'a [u8],
    },
}

fn secret(number: u8) -> Secret {
    Secret::new([number; 32].into())
}

fn public(number: u8) -> PublicKey {
    noise::public_key(&secret(number))
}

fn end(own: u8, peer: u8, begins: bool) -> Sessions {
    Sessions::new(Config {
        key: secret(own),
        peers: [public(peer)].into(),
        responder: begins.then(|| public(peer)),
        suite: if own == 1 { Suite::ChaCha20Poly1305 } else { Suite::Aes256Gcm },
        seed: secret(100 + own),
        started: (Instant::from_nanos(0), WallTime::from_nanos(1)),
    })
}

struct Scene {
    ends: [Sessions; 2],
    now: Instant,
    /// Destination and content of what is on the way.
    flying: Vec<(usize, Vec<u8>)>,
    sent: u64,
    outstanding: [BTreeSet<[u8; 8]>; 2],
}

impl Scene {
    fn address(end: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, end as u8 + 1], 7_400))
    }

    fn fly(&mut self, to: usize, bytes: Vec<u8>) {
        if self.flying.len() < MOST_ON_THE_WAY {
            self.flying.push((to, bytes));
        }
    }

    fn poll(&mut self) {
        for end in 0..2 {
            while let Output::Transmit(train) = self.ends[end].poll(self.now) {
                let is_for_the_other = train.peer == Self::address(1 - end);
                let bytes = train.bytes.to_vec();
                if is_for_the_other {
                    self.fly(1 - end, bytes);
                }
            }
        }
    }

    fn arrive(&mut self, to: usize, from: SocketAddr, bytes: &[u8]) {
        let train = Train { peer: from, bytes, segment_bytes: bytes.len() };
        let opened = self.ends[to].open(self.now, &train).bytes;
        if !opened.is_empty() {
            let number: [u8; 8] = opened.try_into().expect("only numbers are sealed");
            assert!(self.outstanding[to].remove(&number), "it was not sealed, or was opened before");
        }
        self.poll();
    }
}

fuzz_target!(|steps: Vec<Step<'_>>| {
    let mut scene = Scene {
        ends: [end(1, 2, true), end(2, 1, false)],
        now: Instant::from_nanos(0),
        flying: Vec::new(),
        sent: 0,
        outstanding: Default::default(),
    };
    for step in steps {
        let count = scene.flying.len().max(1);
        match step {
            Step::Send { server } => {
                let (from, number) = (usize::from(server), scene.sent.to_le_bytes());
                scene.sent += 1;
                scene.outstanding[1 - from].insert(number);
                let train = Train { peer: Scene::address(1 - from), bytes: &number, segment_bytes: 8 };
                let sealed = scene.ends[from].seal(scene.now, &train).map(|train| train.bytes.to_vec());
                if let Some(bytes) = sealed {
                    scene.fly(1 - from, bytes);
                }
            }
            Step::Pass { exponent } => scene.now = scene.now + Duration::from_micros(1 << (exponent % 30)),
            Step::Deliver { index } => {
                if !scene.flying.is_empty() {
                    let (to, bytes) = scene.flying.remove(usize::from(index) % count);
                    scene.arrive(to, Scene::address(1 - to), &bytes);
                }
            }
            Step::Repeat { index } => {
                if let Some((to, bytes)) = scene.flying.get(usize::from(index) % count).cloned() {
                    scene.arrive(to, Scene::address(1 - to), &bytes);
                }
            }
            Step::Drop { index } => {
                if !scene.flying.is_empty() {
                    scene.flying.remove(usize::from(index) % count);
                }
            }
            Step::Turn { index, place, bit } => {
                if let Some((_, bytes)) =
                    scene.flying.get_mut(usize::from(index) % count).filter(|it| !it.1.is_empty())
                {
                    let place = usize::from(place) % bytes.len();
                    bytes[place] ^= 1 << (bit % 8);
                }
            }
            Step::Cut { index, bytes } => {
                if let Some((_, datagram)) = scene.flying.get_mut(usize::from(index) % count) {
                    datagram.truncate(datagram.len().saturating_sub(usize::from(bytes)));
                }
            }
            Step::Forge { server, port, kind, bytes } => {
                let forged = [&[0xff, b'T', b'N', kind % 6][..], bytes].concat();
                let to = usize::from(server);
                let from = SocketAddr::new(Scene::address(1 - to).ip(), 7_400 + u16::from(port));
                scene.arrive(to, from, &forged);
            }
        }
        scene.poll();
        assert!(scene.ends.iter().all(|end| end.tunnel_count() <= 1), "a stranger has state");
    }
});
