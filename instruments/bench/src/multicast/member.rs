//! A member of the group: its socket, its thread, its account, and the arrival time of each datagram.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use probe::Percentiles;
use probe::flow::{FlowReceiver, FlowSent, Numbering, Stamp};
use sys::{Interface, OpenError, ReceiveBatch, ReceiveOptions, ReceiveTechniques, clock};
use units::Instant;

use super::message::MemberResult;
use super::options::{MOST_LATENCIES, Options};
use crate::flow::udp::{Counting, Receiver, receive_buffer_bytes, said_if_clamped};
use crate::flow::{Ending, Tail};
use crate::report::Times;
use crate::throughput::Account;

/// Time limits of a member once all was sent.
const TAIL: Tail = Tail { quiet: Duration::from_millis(250), longest: Duration::from_secs(10) };

/// A member that has joined.
pub(super) struct Member {
    receiver: Receiver,
    counts: Counts,
}

/// The datagrams that reached a member.
struct Counts {
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

impl Member {
    /// Joins; members of one group share the port that the first of them got.
    pub(super) fn join(
        options: &Options,
        address: SocketAddr,
        local: IpAddr,
        run: u32,
    ) -> Result<Self, MemberError> {
        let receive = ReceiveOptions {
            interface: Interface::find(&local.to_string()).ok(),
            techniques: ReceiveTechniques { gro: false, ..ReceiveTechniques::default() },
            ..ReceiveOptions::at(address, receive_buffer_bytes(options.buffer_bytes))
        };
        Ok(Self {
            receiver: Receiver::open(&receive, options.payload_bytes)?,
            counts: Counts {
                flow: FlowReceiver::new(run, 0, Numbering::Stamped),
                latencies_ns: Vec::new(),
                most_latencies: MOST_LATENCIES / options.receivers.max(1) as usize,
            },
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.receiver.address()
    }

    pub(super) fn note(&self) -> Option<String> {
        said_if_clamped(self.receiver.buffer())
    }

    /// Receives until everything sent has arrived, or missing datagrams are lost.
    pub(super) fn receive(self, ending: &Ending<FlowSent>) -> Result<MemberResult, MemberError> {
        let Self { mut receiver, mut counts } = self;
        // Refused on some kernels; pauses then end up to 50 µs late.
        let _ = clock::lower_timer_slack();
        let sent = receiver.receive(ending, TAIL, &mut counts)?;
        let account = counts.flow.close(sent.as_ref(), receiver.drops().unwrap_or(0));
        account.check()?;
        Ok(MemberResult {
            account: Account::of_datagrams(&account),
            reordered: counts.flow.totals().reordered,
            latency: Percentiles::of(&mut counts.latencies_ns).as_ref().map(Times::of),
        })
    }
}

impl Counting<FlowSent> for Counts {
    fn count(&mut self, batch: &ReceiveBatch, now: Instant) -> bool {
        let received_before = self.flow.received();
        for datagram in batch.iter() {
            let before = self.flow.received();
            self.flow.accept(now, datagram.bytes);
            // Only a datagram that counts as received has a latency, and only its first copy.
            if self.flow.received() > before
                && let Some(stamp) = Stamp::read(datagram.bytes)
                // A client that sends more than announced does not fill the memory.
                && self.latencies_ns.len() < self.most_latencies
            {
                self.latencies_ns.push(now.as_nanos().saturating_sub(stamp.sent.as_nanos()));
            }
        }
        // Datagrams of strangers to the group do not prolong the wait.
        self.flow.received() > received_before
    }

    fn has_all(&self, sent: &FlowSent) -> bool {
        self.flow.has_all(sent)
    }
}
