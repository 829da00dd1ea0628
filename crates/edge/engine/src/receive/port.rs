//! One receiving socket with the stream machine behind it.

use std::net::SocketAddr;
use std::time::Duration;

use cast::Receiver;
use cast::receive::{Input, ReaderIdentity};
use ledger::BookConfig;
use sys::{Buffer, OpenError, ReceiveOptions, ReceiveSocket, clock};
use units::Instant;

/// So long after the last datagram the drop counter is read once more: what was dropped behind it is told
/// by no other.
const TAIL_CHECK: Duration = Duration::from_millis(20);

/// A receiving socket and what comes in there.
pub(super) struct Port {
    pub(super) socket: ReceiveSocket,
    pub(super) machine: Receiver,
    /// Where it listens: the group, or an address of this host.
    pub(super) address: SocketAddr,
    /// Whether it stays open when no stream is wanted there.
    pub(super) pinned: bool,
    tail_check: Option<Instant>,
    max_kernel_delay: Duration,
}

/// What a receiving socket has to tell of itself.
#[derive(Clone, Copy, Debug)]
pub struct PortStatus {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its receive buffer.
    pub buffer: Buffer,
    /// How many datagrams it dropped since it was opened (`SO_MEMINFO`).
    pub drops: u32,
    /// What could not be used.
    pub stats: cast::receive::ReceiverStats,
    /// The longest that a datagram waited between the kernel's time stamp and being read.
    pub max_kernel_delay: Duration,
}

impl Port {
    pub(super) fn open(
        options: &ReceiveOptions,
        reader: &ReaderIdentity,
        book: BookConfig,
        pinned: bool,
    ) -> Result<Self, OpenError> {
        let socket = ReceiveSocket::open(options)?;
        let machine = Receiver::new(reader.clone(), book, reader.id.0);
        let address = options.address;
        Ok(Self { socket, machine, address, pinned, tail_check: None, max_kernel_delay: Duration::ZERO })
    }

    /// Notes that datagrams were read: the tail wants a look later, and the delay is told by the oldest.
    pub(super) fn was_read(&mut self, now: Instant, oldest: Option<units::WallTime>) {
        self.tail_check = Some(now + TAIL_CHECK);
        if let Some(oldest) = oldest {
            let waited = u64::try_from(clock::wall().nanos_since(oldest)).unwrap_or(0);
            self.max_kernel_delay = self.max_kernel_delay.max(Duration::from_nanos(waited));
        }
    }

    /// Reads the drop counter if the socket has been quiet for long enough.
    pub(super) fn check_tail(&mut self, now: Instant) {
        if self.tail_check.is_some_and(|due| due <= now) {
            self.tail_check = None;
            if let Ok(meminfo) = self.socket.meminfo() {
                self.machine.handle(now, Input::SocketDrops(meminfo.drops));
            }
        }
    }

    pub(super) const fn tail_check(&self) -> Option<Instant> {
        self.tail_check
    }

    pub(super) fn status(&self) -> PortStatus {
        PortStatus {
            address: self.address,
            buffer: self.socket.granted_buffer(),
            drops: self.socket.meminfo().map_or(0, |meminfo| meminfo.drops),
            stats: self.machine.stats(),
            max_kernel_delay: self.max_kernel_delay,
        }
    }
}
