//! A member of the group: its socket, its thread, its account, and the arrival time of each datagram.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use probe::Percentiles;
use probe::flow::{FlowReceiver, FlowSent, Numbering, Stamp};
use sys::{
    Cancellation, Interest, Interface, OpenError, Poller, ReceiveBatch, ReceiveOptions, ReceiveSocket,
    ReceiveTechniques, clock,
};

use super::message::MemberResult;
use super::options::{MOST_LATENCIES, Options};
use crate::report::Times;
use crate::throughput::Account;

/// Poller tokens of a member.
const SOCKET: u64 = 0;
const NOTICE: u64 = 1;

/// Time without datagrams, once all was sent, after which missing ones count as lost. Longer than any queue
/// along the path holds a datagram at rates that have a latency.
const QUIET: Duration = Duration::from_millis(250);

/// Message to all members of a run: that all was sent, or that the results are no longer needed.
pub(super) struct Notice {
    /// The sent counts; without them members give up.
    sent: Mutex<Option<FlowSent>>,
    /// Cancelled once the message is there.
    came: Cancellation,
}

/// A member that has joined.
pub(super) struct Member {
    socket: ReceiveSocket,
    poller: Poller,
    batch: ReceiveBatch,
    flow: FlowReceiver,
    latencies_ns: Vec<u64>,
    most_latencies: usize,
}

/// Reasons why a member could not receive.
#[derive(Debug, thiserror::Error)]
pub(super) enum MemberError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{0}")]
    System(#[from] std::io::Error),
    #[error(transparent)]
    Law(#[from] probe::flow::FlowLawError),
}

impl Notice {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self { sent: Mutex::default(), came: Cancellation::new()? })
    }

    /// Announces the sent counts.
    pub(super) fn tell_sent(&self, sent: FlowSent) {
        *self.sent() = Some(sent);
        self.came.cancel();
    }

    /// Announces that the results are no longer needed.
    pub(super) fn give_up(&self) {
        self.came.cancel();
    }

    fn sent(&self) -> MutexGuard<'_, Option<FlowSent>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Joins; members of one group share the port that the first of them got.
    pub(super) fn join(
        options: &Options,
        address: SocketAddr,
        local: IpAddr,
        run: u32,
    ) -> Result<Self, MemberError> {
        // The kernel reports its default doubled.
        let system = sys::host::receive_buffer_default().map_or(106_496, |bytes| bytes / 2);
        let buffer_bytes = options.buffer_bytes.unwrap_or(usize::try_from(system).unwrap_or(106_496));
        let socket = ReceiveSocket::open(&ReceiveOptions {
            interface: Interface::find(&local.to_string()).ok(),
            techniques: ReceiveTechniques { gro: false, ..ReceiveTechniques::default() },
            ..ReceiveOptions::at(address, buffer_bytes)
        })?;
        let poller = Poller::new()?;
        poller.add(&socket, SOCKET, Interest::Read)?;
        Ok(Self {
            socket,
            poller,
            batch: ReceiveBatch::with_slot_bytes(options.payload_bytes),
            flow: FlowReceiver::new(run, 0, Numbering::Stamped),
            latencies_ns: Vec::new(),
            most_latencies: MOST_LATENCIES / options.receivers.max(1) as usize,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.socket.local_address()
    }

    pub(super) fn note(&self) -> Option<String> {
        let buffer = self.socket.granted_buffer();
        buffer.clamped().then(|| buffer.to_string())
    }

    /// Receives until everything sent has arrived, or missing datagrams are lost.
    pub(super) fn receive(mut self, notice: &Notice) -> Result<MemberResult, MemberError> {
        // Refused on some kernels; pauses then end up to 50 µs late.
        let _ = clock::lower_timer_slack();
        self.poller.add(&notice.came, NOTICE, Interest::Read)?;
        let (mut last, mut sent) = (clock::monotonic(), None);
        loop {
            // A read that began before the quiet time was over does not prove its end, however late it returns.
            let looked = clock::monotonic();
            if self.take()? {
                last = clock::monotonic();
            } else {
                self.poller.wait(sent.map(|_| last + QUIET))?;
            }
            if sent.is_none() && notice.came.is_cancelled() {
                self.poller.remove(&notice.came)?;
                sent = *notice.sent();
                if sent.is_none() {
                    break;
                }
                // The quiet time begins after the sender's message.
                last = clock::monotonic();
            }
            if let Some(sent) = &sent
                && (self.flow.has_all(sent) || looked.since(last) >= QUIET)
            {
                break;
            }
        }
        self.close(sent.as_ref())
    }

    fn take(&mut self) -> Result<bool, MemberError> {
        self.socket.receive_batch(&mut self.batch)?;
        let now = clock::monotonic();
        let received_before = self.flow.received();
        for datagram in self.batch.iter() {
            let before = self.flow.received();
            self.flow.accept(now, datagram.bytes);
            // Only a datagram that counts as received has a latency, and only its first copy.
            if self.flow.received() > before
                && let Some(stamp) = Stamp::read(datagram.bytes)
            {
                let latency = now.as_nanos().saturating_sub(stamp.sent.as_nanos());
                // A client that sends more than announced does not fill the memory.
                if self.latencies_ns.len() < self.most_latencies {
                    self.latencies_ns.push(latency);
                }
            }
        }
        // Datagrams of strangers to the group do not prolong the wait.
        Ok(self.flow.received() > received_before)
    }

    fn close(mut self, sent: Option<&FlowSent>) -> Result<MemberResult, MemberError> {
        let drops = self.socket.meminfo().map_or(0, |info| u64::from(info.drops));
        let account = self.flow.close(sent, drops);
        account.check()?;
        Ok(MemberResult {
            account: Account::of_datagrams(&account),
            reordered: self.flow.totals().reordered,
            latency: Percentiles::of(&mut self.latencies_ns).as_ref().map(Times::of),
        })
    }
}
