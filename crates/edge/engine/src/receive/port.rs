//! One receiving socket with the stream machine behind it.

use std::net::SocketAddr;
use std::time::Duration;

use cast::Receiver;
use cast::receive::{Input, ReaderIdentity};
use ledger::{BookConfig, DropUnit};
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
    /// How many asked for this address itself: so long it stays open, whatever is announced.
    pub(super) pins: usize,
    tail_check: Option<Instant>,
    /// A moment at which nothing lay unread in the socket.
    empty_at: Instant,
    longest_wait: Duration,
}

/// What a receiving socket has to tell of itself. Units: datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortStatus {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its receive buffer.
    pub buffer: Buffer,
    /// How many it dropped since it was opened (`SO_RXQ_OVFL`, `SO_MEMINFO`).
    pub drops: u32,
    /// Surplus of evidence: what the kernel or a publisher counted as lost beyond what is missing.
    pub unmatched: ledger::StageCounts,
    /// What could not be used.
    pub stats: cast::receive::ReceiverStats,
    /// The longest that one waited between the kernel's time stamp and being read.
    pub longest_wait: Duration,
}

impl Port {
    pub(super) fn open(
        options: &ReceiveOptions,
        reader: &ReaderIdentity,
        book: BookConfig,
    ) -> Result<Self, OpenError> {
        let socket = ReceiveSocket::open(options)?;
        let granted = socket.granted_buffer().effective_bytes;
        let receive_buffer_bytes = u32::try_from(granted).unwrap_or(u32::MAX);
        let drop_unit = if socket.techniques().gro { DropUnit::Train } else { DropUnit::Datagram };
        let identity = ReaderIdentity { receive_buffer_bytes, ..reader.clone() };
        let machine = Receiver::new(identity, book, reader.id.0).counting_drops_in(drop_unit);
        let address = options.address;
        Ok(Self {
            socket,
            machine,
            address,
            pins: 0,
            tail_check: None,
            empty_at: clock::monotonic(),
            longest_wait: Duration::ZERO,
        })
    }

    /// Notes that datagrams were read: the tail wants a look later, and the delay is told by the oldest.
    pub(super) fn was_read(&mut self, now: Instant, oldest: Option<units::WallTime>) {
        self.tail_check = Some(now + TAIL_CHECK);
        if let Some(oldest) = oldest {
            let waited = u64::try_from(clock::wall().nanos_since(oldest)).unwrap_or(0);
            self.longest_wait = self.longest_wait.max(Duration::from_nanos(waited));
        }
    }

    /// Notes that nothing lay unread at this moment.
    pub(super) const fn was_empty(&mut self, at: Instant) {
        self.empty_at = at;
    }

    /// Returns the last moment at which nothing lay unread: so far time has passed for the machine.
    pub(super) const fn empty_at(&self) -> Instant {
        self.empty_at
    }

    /// Reads the drop counter if the socket has been quiet for long enough.
    ///
    /// While something lies unread the counter has to wait: the drops lie behind it, and a stamp will tell.
    pub(super) fn check_tail(&mut self, now: Instant) {
        if self.tail_check.is_some_and(|due| due <= now) {
            self.tail_check = None;
            match self.socket.meminfo() {
                Ok(meminfo) if meminfo.queued_bytes > 0 => self.tail_check = Some(now + TAIL_CHECK),
                Ok(meminfo) => self.machine.handle(now, Input::SocketDrops(meminfo.drops)),
                Err(error) => tracing::debug!("socket {} does not tell its drops: {error}", self.address),
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
            drops: self.machine.socket_drops(),
            unmatched: *self.machine.unmatched(),
            stats: self.machine.stats(),
            longest_wait: self.longest_wait,
        }
    }
}
