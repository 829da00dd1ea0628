//! A socket that receives datagrams in batches.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use sys::{Buffer, Interest, OpenError, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket, clock};
use units::Instant;

use super::SYSTEM_BUFFER_BYTES;
use crate::{Ending, Progress, Tail};

/// Poller tokens of a receiver.
const SOCKET: u64 = 0;
const ENDING: u64 = 1;

/// Returns the size of a receive buffer: as requested, or the system's.
pub fn receive_buffer_bytes(requested: Option<usize>) -> usize {
    requested.unwrap_or_else(|| {
        // The kernel reports its default doubled.
        let system =
            sys::host::receive_buffer_default().ok().and_then(|bytes| usize::try_from(bytes / 2).ok());
        system.unwrap_or(SYSTEM_BUFFER_BYTES)
    })
}

/// A receiving socket, which several receivers may share, with memory for a batch.
pub struct Receiver {
    socket: Arc<ReceiveSocket>,
    poller: Poller,
    /// The datagrams of the last read.
    pub batch: ReceiveBatch,
}

/// The counts of a flow of datagrams.
pub trait Counting<S> {
    /// Counts the datagrams of a batch; returns whether any of them is of the flow.
    fn count(&mut self, batch: &ReceiveBatch, now: Instant) -> bool;

    /// Returns whether everything sent has arrived.
    fn has_all(&self, sent: &S) -> bool;
}

impl Receiver {
    /// Opens a socket for datagrams of at most `slot_bytes`, or for whole trains.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(options: &ReceiveOptions, slot_bytes: usize) -> Result<Self, OpenError> {
        let (step, address) = ("wait for the socket", options.address);
        Self::at(Arc::new(ReceiveSocket::open(options)?), slot_bytes).map_err(|source| OpenError::System {
            step,
            address,
            source,
        })
    }

    /// Receives at a socket that is open.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn at(socket: Arc<ReceiveSocket>, slot_bytes: usize) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(&*socket, SOCKET, Interest::Read)?;
        let is_for_trains = socket.techniques().gro;
        let batch = if is_for_trains {
            ReceiveBatch::for_trains()
        } else {
            ReceiveBatch::with_slot_bytes(slot_bytes)
        };
        Ok(Self { socket, poller, batch })
    }

    /// Takes the datagrams that wait at the socket, at most a batch; returns whether there were any.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn take(&mut self) -> io::Result<bool> {
        Ok(self.socket.receive_batch(&mut self.batch)? > 0)
    }

    /// Waits for datagrams, until the time limit.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait(&mut self, until: Instant) -> io::Result<()> {
        self.poller.wait(Some(until)).map(drop)
    }

    /// Receives a flow until all of it has arrived, or missing data are lost; returns the sender's counts, `None`
    /// if the flow was given up.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn receive<S: Clone>(
        &mut self,
        ending: &Ending<S>,
        tail: Tail,
        counts: &mut impl Counting<S>,
    ) -> io::Result<Option<S>> {
        self.poller.add(ending, ENDING, Interest::Read)?;
        let (mut last, mut now) = (None, clock::monotonic());
        let mut waits_for_end = true;
        loop {
            let is_empty = !self.take()?;
            // A read that found nothing says nothing about later times: the thread may have been stopped since.
            let looked = std::mem::replace(&mut now, clock::monotonic());
            if !is_empty && counts.count(&self.batch, now) {
                last = Some(now);
            }
            let ends_at = match ending.progress() {
                Progress::Ongoing => None,
                Progress::GivenUp => return Ok(None),
                Progress::Sent(sent, at) => {
                    let ends_at = tail.ends_at(at, last);
                    if counts.has_all(&sent) || looked >= ends_at {
                        return Ok(Some(sent));
                    }
                    Some(ends_at)
                }
            };
            if is_empty {
                // The end, once announced, would keep the poller awake.
                if ends_at.is_some() && std::mem::take(&mut waits_for_end) {
                    self.poller.remove(ending)?;
                }
                self.poller.wait(ends_at)?;
            }
        }
    }

    /// Returns the socket's drops since it was opened; `None` on kernels that do not count them.
    pub fn drops(&self) -> Option<u64> {
        self.socket.meminfo().ok().map(|info| u64::from(info.drops))
    }

    /// Returns the address at which it receives.
    pub fn address(&self) -> SocketAddr {
        self.socket.local_address()
    }

    /// Returns the buffer that the kernel granted.
    pub fn buffer(&self) -> Buffer {
        self.socket.granted_buffer()
    }

    /// Returns whether trains are received whole.
    pub fn takes_trains(&self) -> bool {
        self.socket.techniques().gro
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Duration;

    use super::*;

    /// Counts datagrams whose first byte is not zero, and expects as many as were sent.
    #[derive(Default)]
    struct Own(u64);

    impl Counting<u64> for Own {
        fn count(&mut self, batch: &ReceiveBatch, _now: Instant) -> bool {
            let before = self.0;
            self.0 += batch.iter().filter(|datagram| datagram.bytes != [0]).count() as u64;
            self.0 > before
        }

        fn has_all(&self, sent: &u64) -> bool {
            self.0 >= *sent
        }
    }

    /// Receives two datagrams of a flow and one that is foreign, of as many as `sent`.
    fn receive(tail: Tail, end: impl FnOnce(&Ending<u64>)) -> (u64, Option<u64>) {
        let options = ReceiveOptions::at(([127, 0, 0, 1], 0).into(), 1 << 16);
        let mut receiver = Receiver::open(&options, 8).unwrap();
        let (sender, ending) = (UdpSocket::bind("127.0.0.1:0").unwrap(), Ending::new().unwrap());
        for byte in [1, 0, 2] {
            sender.send_to(&[byte], receiver.address()).unwrap();
        }
        end(&ending);
        let mut own = Own::default();
        let sent = receiver.receive(&ending, tail, &mut own).unwrap();
        (own.0, sent)
    }

    #[test]
    fn a_flow_ends_once_all_has_come_or_nothing_more_does() {
        let long = Duration::from_secs(3_600);
        assert_eq!(
            receive(Tail { quiet: long, longest: long }, |ending| ending.announce_sent(2)),
            (2, Some(2))
        );
        let quiet = Duration::from_millis(20);
        assert_eq!(receive(Tail { quiet, longest: long }, |ending| ending.announce_sent(3)), (2, Some(3)));
        let ended = receive(Tail { quiet: long, longest: long }, |ending| ending.give_up());
        assert_eq!(ended.1, None);
    }
}
