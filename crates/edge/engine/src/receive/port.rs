//! A receiving socket with its stream machine.

use std::net::SocketAddr;
use std::time::Duration;

use cast::Receiver;
use cast::receive::{Input, ReaderIdentity, ReceiverStats};
use cast::secure::{Gate, UnauthenticCounts};
use ledger::{DropUnit, LedgerConfig};
use sys::{Buffer, OpenError, ReceiveOptions, ReceiveSocket, clock};
use units::{Histogram, Instant};

use crate::present_keys::SecretSource;

/// Time after the last datagram at which the drop counter is read once more: no later datagram
/// would report drops behind it.
const TAIL_CHECK: Duration = Duration::from_millis(20);

/// Approximate space that a datagram takes of a receive buffer in addition to its bytes: the
/// kernel's own structures.
const OVERHEAD_BYTES: usize = 1_024;
/// Shortest time over which a rate is measured; a single train or batch is no measure.
const RATE_TIME: Duration = Duration::from_millis(1);
/// Share of a receive buffer that may be filled while the socket is unread.
const SPARE_SHARE: f64 = 0.75;

/// A receiving socket and its input.
pub(super) struct Port {
    pub(super) socket: ReceiveSocket,
    pub(super) machine: Receiver,
    /// Opens secured datagrams; `None` where streams are clear.
    pub(super) gate: Option<Gate>,
    /// Where the secrets of a secured bus are.
    pub(super) secret_source: SecretSource,
    /// Address at which it receives: the group, or an address of this host.
    pub(super) address: SocketAddr,
    /// Identifier by which the kernel distinguishes its socket from others.
    pub(super) cookie: Option<u64>,
    /// Number of requests for this address; while above 0 it stays open, whatever is announced.
    pub(super) pins: usize,
    /// True once the warning was logged that more streams arrive than there are slots.
    pub(super) is_said_full: bool,
    tail_check: Option<Instant>,
    /// A moment at which the socket held no unread datagram.
    empty_at: Instant,
    /// Bytes read from its buffer since `counted_from`.
    taken_bytes: usize,
    counted_from: Instant,
    /// Time for which it may stay unread, at the rate before that.
    spare_time: Duration,
    /// Wait of the oldest datagram of each read.
    waits: Histogram,
}

/// Waiting times of datagrams in a socket, from the kernel's time stamp until they were read: they
/// show a slow reader. Each read counts only its longest wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waits {
    /// Number of reads that returned datagrams.
    pub reads: u64,
    /// Median, to about 3 %.
    pub median: Duration,
    /// 99th percentile, to about 3 %.
    pub percentile_99: Duration,
    /// Maximum.
    pub longest: Duration,
}

/// State of a receiving socket. Units: datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortStatus {
    /// Address at which it receives.
    pub address: SocketAddr,
    /// Its receive buffer.
    pub buffer: Buffer,
    /// Number of drops since it was opened (`SO_RXQ_OVFL`, `SO_MEMINFO`).
    pub drops: u32,
    /// Surplus of evidence: losses that the kernel or a publisher counted beyond what is missing.
    pub unmatched: ledger::StageCounts,
    /// Counters of datagrams that could not be used.
    pub stats: ReceiverStats,
    /// Datagrams that were not taken for lack of authenticity, on a secured bus.
    pub unauthentic: UnauthenticCounts,
    /// Waiting times until datagrams were read.
    pub waits: Waits,
}

impl Waits {
    fn of(waits: &Histogram) -> Self {
        let [median, percentile_99] = [0.5, 0.99].map(|share| waits.quantile(share));
        Self { reads: waits.count(), median, percentile_99, longest: waits.max() }
    }
}

impl Port {
    /// Counts the datagrams that are secured with a secret that is not in the file of keys.
    pub(super) fn no_key(&self) -> u64 {
        self.gate.as_ref().map_or(0, |gate| gate.stats().unauthentic.no_key)
    }

    pub(super) fn open(
        options: &ReceiveOptions,
        reader: &ReaderIdentity,
        ledger: LedgerConfig,
    ) -> Result<Self, OpenError> {
        let socket = ReceiveSocket::open(options)?;
        let granted = socket.granted_buffer().effective_bytes;
        let receive_buffer_bytes = u32::try_from(granted).unwrap_or(u32::MAX);
        let drop_unit = if socket.techniques().gro { DropUnit::Train } else { DropUnit::Datagram };
        let identity = ReaderIdentity { receive_buffer_bytes, ..reader.clone() };
        let machine = Receiver::new(identity, ledger, reader.id.0).counting_drops_in(drop_unit);
        let address = options.address;
        Ok(Self {
            cookie: socket.cookie(),
            socket,
            machine,
            gate: None,
            secret_source: SecretSource::File,
            address,
            pins: 0,
            is_said_full: false,
            tail_check: None,
            empty_at: clock::monotonic(),
            taken_bytes: 0,
            counted_from: clock::monotonic(),
            spare_time: Duration::MAX,
            waits: Histogram::default(),
        })
    }

    /// Notes that datagrams were read: the drop counter is to be checked later, and the oldest
    /// gives the delay.
    pub(super) fn was_read(&mut self, now: Instant, oldest: Option<units::WallTime>) {
        self.tail_check = Some(now + TAIL_CHECK);
        if let Some(oldest) = oldest {
            let waited = u64::try_from(clock::wall().nanos_since(oldest)).unwrap_or(0);
            self.waits.record(Duration::from_nanos(waited));
        }
    }

    /// Notes the space that a datagram or a train took of the receive buffer.
    pub(super) const fn took(&mut self, size_bytes: usize) {
        self.taken_bytes += size_bytes + OVERHEAD_BYTES;
    }

    /// Returns how long the socket may stay unread: until its buffer is nearly full, at the current
    /// rate.
    pub(super) fn spare_time(&mut self, now: Instant) -> Duration {
        let time = now.since(self.counted_from);
        if time >= RATE_TIME {
            self.counted_from = now;
            let taken = std::mem::take(&mut self.taken_bytes) as f64;
            let spare = self.socket.granted_buffer().effective_bytes as f64 * SPARE_SHARE;
            // Unbounded where nothing was read.
            let spare_time = Duration::try_from_secs_f64(time.as_secs_f64() * spare / taken);
            self.spare_time = spare_time.unwrap_or(Duration::MAX);
        }
        self.spare_time
    }

    /// Notes that no datagram was unread at this moment.
    pub(super) fn was_empty(&mut self, at: Instant) {
        // A port that was opened since is known to have been empty later than that.
        self.empty_at = self.empty_at.max(at);
    }

    /// Returns the last moment at which no datagram was unread: time has passed for the machine up
    /// to it.
    pub(super) const fn empty_at(&self) -> Instant {
        self.empty_at
    }

    /// Reads the drop counter if the socket has been quiet for long enough.
    ///
    /// While a datagram is unread the counter has to wait: the drops are behind it, and a later
    /// counter stamp will report them.
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

    /// Returns the counters of all datagrams read from the socket.
    pub(super) fn stats(&self) -> ReceiverStats {
        let stats = self.machine.stats();
        self.gate.as_ref().map_or(stats, |gate| gate.with_refused(stats))
    }

    pub(super) fn status(&self) -> PortStatus {
        PortStatus {
            address: self.address,
            buffer: self.socket.granted_buffer(),
            drops: self.machine.socket_drops(),
            unmatched: *self.machine.unmatched(),
            stats: self.stats(),
            unauthentic: self.gate.as_ref().map(|gate| gate.stats().unauthentic).unwrap_or_default(),
            waits: Waits::of(&self.waits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::ReaderId;

    #[test]
    fn what_waited_longest_at_each_read_is_told_by_median_and_percentile() {
        let reader = ReaderIdentity { id: ReaderId(1), name: "reader".into(), receive_buffer_bytes: 0 };
        let options = ReceiveOptions::at("127.0.0.1:0".parse().unwrap(), 1 << 20);
        let mut port = Port::open(&options, &reader, LedgerConfig::default()).unwrap();
        assert_eq!(port.status().waits, Waits::default());
        let (now, wall) = (clock::monotonic(), clock::wall());
        let minutes = |count: i64| wall.offset(-count * 60_000_000_000);
        (0..98).for_each(|_| port.was_read(now, Some(minutes(1))));
        (0..2).for_each(|_| port.was_read(now, Some(minutes(5))));
        port.was_read(now, None);
        let waits = port.status().waits;
        let whole = |wait: Duration| (wait.as_secs_f64() / 60.0).round();
        assert_eq!((waits.reads, whole(waits.median)), (100, 1.0));
        assert_eq!((whole(waits.percentile_99), whole(waits.longest)), (5.0, 5.0));
        // A clock that is set back yields no negative wait.
        port.was_read(now, Some(minutes(-1)));
        assert_eq!(port.status().waits.reads, 101);
    }

    #[test]
    fn nobody_may_be_away_for_longer_than_the_buffer_lasts() {
        let reader = ReaderIdentity { id: ReaderId(1), name: "reader".into(), receive_buffer_bytes: 0 };
        let options = ReceiveOptions::at("127.0.0.1:0".parse().unwrap(), 1 << 20);
        let mut port = Port::open(&options, &reader, LedgerConfig::default()).unwrap();
        let granted = usize::try_from(port.socket.granted_buffer().effective_bytes).unwrap();
        let (mut now, step) = (port.counted_from, Duration::from_millis(1));
        let mut spare_time = |taken: usize| {
            port.took(taken - OVERHEAD_BYTES);
            now += step;
            port.spare_time(now)
        };
        assert_eq!(spare_time(granted / 8), 6 * step, "three quarters of it in six steps");
        assert_eq!(spare_time(granted / 4), 3 * step);
        port.took(granted - OVERHEAD_BYTES);
        assert_eq!(port.spare_time(now + step / 2), 3 * step, "too short a time to judge by");
        assert_eq!(port.spare_time(now + step), step * 3 / 4);
        assert_eq!(
            port.spare_time(now + 2 * step),
            Duration::MAX,
            "what was told of before does not count again"
        );
    }
}
