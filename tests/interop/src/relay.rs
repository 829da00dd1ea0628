//! A lossy way between two ends: a relay on the loopback interface that drops some of what passes.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use units::Random;

/// How often it looks whether to end.
const LOOK: Duration = Duration::from_millis(20);
/// The largest datagram.
const MOST_BYTES: usize = 65_536;

/// A relay to one server, for one client: whoever writes to it first. Dropping it ends it.
pub struct Relay {
    address: SocketAddr,
    stops: Arc<AtomicBool>,
    counts: [Arc<Counts>; 2],
    threads: Vec<JoinHandle<()>>,
}

/// What became of what came in one direction.
#[derive(Debug, Default)]
struct Counts {
    taken: AtomicU64,
    dropped: AtomicU64,
    passed: AtomicU64,
}

/// What became of everything that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passage {
    /// Datagrams that came.
    pub taken: u64,
    /// Those that were dropped on purpose.
    pub dropped: u64,
    /// Those that went on.
    pub passed: u64,
}

impl Relay {
    /// Begins to relay to a server, and to drop each datagram of both directions with a probability.
    ///
    /// # Panics
    /// If loopback has no port for it.
    #[must_use]
    pub fn start(server: SocketAddr, loss: f64, seed: u64) -> Self {
        let socket = |peer: Option<SocketAddr>| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has ports");
            socket.set_read_timeout(Some(LOOK)).expect("it is no zero time");
            peer.map_or(Ok(()), |peer| socket.connect(peer)).expect("loopback is a way");
            Arc::new(socket)
        };
        let (near, far) = (socket(None), socket(Some(server)));
        let address = near.local_addr().expect("it is bound");
        let stops = Arc::new(AtomicBool::new(false));
        let counts = [Arc::default(), Arc::default()];
        let begin = |from: &Arc<UdpSocket>, to: &Arc<UdpSocket>, direction: usize| {
            let (from, to) = (Arc::clone(from), Arc::clone(to));
            let (counts, stops) = (Arc::clone(&counts[direction]), Arc::clone(&stops));
            let random = Random::new(seed * 2 + direction as u64);
            std::thread::spawn(move || pass(&from, &to, &counts, &stops, random, loss))
        };
        let threads = vec![begin(&near, &far, 0), begin(&far, &near, 1)];
        Self { address, stops, counts, threads }
    }

    /// Returns where the client shall write to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends, and returns what became of what came from the client, and from the server.
    #[must_use]
    pub fn end(mut self) -> [Passage; 2] {
        self.join();
        [0, 1].map(|direction| {
            let counts: &Counts = &self.counts[direction];
            let [taken, dropped, passed] =
                [&counts.taken, &counts.dropped, &counts.passed].map(|count| count.load(Ordering::Relaxed));
            Passage { taken, dropped, passed }
        })
    }

    fn join(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.join();
    }
}

fn pass(
    from: &UdpSocket,
    to: &UdpSocket,
    counts: &Counts,
    stops: &AtomicBool,
    mut random: Random,
    loss: f64,
) {
    let mut bytes = vec![0; MOST_BYTES];
    while !stops.load(Ordering::Relaxed) {
        let length = match from.recv_from(&mut bytes) {
            Ok((length, sender)) => {
                // The client is whoever wrote last to the near side; the far side is connected already.
                if from.peer_addr().is_err() && from.connect(sender).is_err() {
                    continue;
                }
                length
            }
            // A server that is gone is told of by the next read.
            Err(error) if is_nothing(&error) => continue,
            Err(error) => panic!("the relay cannot read: {error}"),
        };
        counts.taken.fetch_add(1, Ordering::Relaxed);
        if random.unit() < loss {
            counts.dropped.fetch_add(1, Ordering::Relaxed);
        } else {
            // Whoever is gone gets nothing: it has passed all the same.
            drop(to.send(&bytes[..length]));
            counts.passed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn is_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), ConnectionRefused | Interrupted | TimedOut | WouldBlock)
}
