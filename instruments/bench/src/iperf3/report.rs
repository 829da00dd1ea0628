//! Report of a test: both sides of every stream, and the check of its account.
//!
//! Over TCP, in bytes: `sent = received + unread`, where *unread* was in buffers or in flight when the test
//! ended. Over UDP, in datagrams: `sent = received + missing + after_last`, where *missing* have a number below
//! the highest that arrived, and *after_last* one above it. [`Verdict`] states where that cannot be checked,
//! and where it fails.

use std::net::SocketAddr;

use units::WallTime;

use super::conversation::COOKIE_BYTES;
use super::cpu::CpuPercent;
use super::parameters::{Flow, Protocol, Test};
use super::results::{Results, StreamResults};
use super::session::{self, Session};
use super::traffic::{Interval, Role, Totals, Traffic};

/// Counts of one side of a stream, for what it sent or received.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Side {
    /// Payload bytes.
    pub bytes: u64,
    /// Datagrams; first copies only, of a receiver.
    pub packets: u64,
    /// Duration. Units: seconds.
    pub seconds: f64,
}

/// Account of the data sent. The unit is a byte over TCP, a datagram over UDP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// Amount that the sender handed to its kernel.
    pub sent: u64,
    /// Amount that the receiver took from its own kernel.
    pub received: u64,
    /// Lost below the highest number that arrived.
    pub missing: u64,
    /// Sent after the last that arrived; over TCP not read when the test ended.
    pub after_last: u64,
    /// Number of lost ones that found the receiver's socket buffer full; `None` where the receiver does not
    /// report it.
    pub dropped_by_socket: Option<u64>,
    /// Check of the balance.
    pub verdict: Verdict,
}

/// Result of the check of an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The account balances.
    Closed,
    /// The account cannot be checked, for this reason.
    Unknown(&'static str),
    /// The account does not balance, as described.
    Unbalanced(String),
}

/// Round trips and window of a sender over TCP, as far as this side knows.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Connection {
    /// The largest congestion window.
    pub most_window_bytes: u64,
    /// Minimum round trip. Units: microseconds.
    pub least_rtt_us: u32,
    /// Maximum round trip. Units: microseconds.
    pub most_rtt_us: u32,
    /// Mean round trip. Units: microseconds.
    pub mean_rtt_us: u32,
}

/// A stream, seen from both sides.
#[derive(Clone, PartialEq, Debug)]
pub struct StreamReport {
    /// Number of the stream.
    pub id: u32,
    /// Direction of the stream.
    pub flow: Flow,
    /// True if this side sends.
    pub sends: bool,
    /// Descriptor of the socket on this side.
    pub socket: i32,
    /// Address of this end.
    pub local: SocketAddr,
    /// Address of the other end.
    pub remote: SocketAddr,
    /// Counts of the sender.
    pub sender: Side,
    /// Counts of the receiver.
    pub receiver: Side,
    /// Account of the data sent.
    pub account: Account,
    /// Datagrams that arrived out of order; 0 where the receiver does not report it.
    pub out_of_order: u64,
    /// Datagrams that arrived again; 0 where the receiver does not report it.
    pub duplicates: u64,
    /// Smoothed difference of transit times. Units: seconds.
    pub jitter_s: f64,
    /// Segments that the sender's kernel sent again, where it reports them.
    pub retransmits: Option<u64>,
    /// Statistics of the connection, where this side is its sender.
    pub connection: Connection,
}

/// Results of a test.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The reporting side.
    pub role: Role,
    /// The requested test.
    pub test: Test,
    /// The other end of the control connection.
    pub peer: SocketAddr,
    /// Identifier of the test.
    pub cookie: String,
    /// Start time.
    pub began: WallTime,
    /// Maximum segment size of the control connection, where the system reports it.
    pub control_mss: Option<u32>,
    /// Buffers that the kernel gave the first stream: for sending, and for receiving.
    pub buffers: (u64, u64),
    /// The streams, both directions.
    pub streams: Vec<StreamReport>,
    /// Their counts in each interval, on this side.
    pub intervals: Vec<Interval>,
    /// Processor time of this side.
    pub cpu: CpuPercent,
    /// Processor time of the other side.
    pub peer_cpu: CpuPercent,
    /// Congestion control of this side.
    pub congestion: Option<String>,
    /// Congestion control of the other side.
    pub peer_congestion: Option<String>,
}

/// Sums over the streams of one direction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sum {
    /// Counts of the senders.
    pub sent: Side,
    /// Counts of the receivers.
    pub received: Side,
    /// Datagrams lost; over TCP bytes not read.
    pub lost: u64,
    /// Mean over the streams. Units: seconds.
    pub jitter_s: f64,
    /// Segments sent again; `None` where no sender reports them.
    pub retransmits: Option<u64>,
    /// True if this side sends.
    pub sends: bool,
}

impl Report {
    /// Combines both sides.
    pub(super) fn new<S: session::Side>(session: &Session<S>, mut traffic: Traffic, told: &Results) -> Self {
        let test = traffic.test.clone();
        let streams = traffic.streams.iter().zip(traffic.totals());
        let streams = streams.map(|(stream, totals)| {
            let peer = told.stream(stream.place.id).cloned().unwrap_or_default();
            let (sender, receiver) = sides(&test, stream.sends, &totals, &peer);
            StreamReport {
                id: stream.place.id,
                flow: stream.place.flow,
                sends: stream.sends,
                socket: stream.descriptor(),
                local: canonical(stream.local),
                remote: canonical(stream.remote),
                sender,
                receiver,
                account: account(&test, stream.sends, &totals, &peer),
                out_of_order: totals.counts.out_of_order,
                duplicates: totals.counts.duplicates,
                jitter_s: if stream.sends { peer.jitter } else { totals.counts.jitter_s },
                retransmits: if stream.sends { totals.retransmits } else { peer.retransmits },
                connection: Connection {
                    most_window_bytes: totals.most_window_bytes,
                    least_rtt_us: totals.least_rtt_us,
                    most_rtt_us: totals.most_rtt_us,
                    mean_rtt_us: totals.mean_rtt_us,
                },
            }
        });
        let first = traffic.streams.first();
        Self {
            role: traffic.role,
            peer: canonical(session.control.peer),
            cookie: String::from_utf8_lossy(&session.control.cookie[..COOKIE_BYTES - 1]).into_owned(),
            began: session.began,
            control_mss: session.control_mss,
            buffers: first.map_or((0, 0), |stream| stream.buffers()),
            streams: streams.collect(),
            intervals: std::mem::take(&mut traffic.intervals),
            cpu: traffic.cpu(),
            peer_cpu: CpuPercent {
                total: told.cpu_util_total,
                user: told.cpu_util_user,
                system: told.cpu_util_system,
            },
            congestion: first.and_then(|stream| stream.congestion()),
            peer_congestion: told.congestion_used.clone(),
            test,
        }
    }

    /// Returns the directions of the test, the client's own first.
    pub fn flows(&self) -> impl Iterator<Item = Flow> {
        let has = |flow: &Flow| self.streams.iter().any(|stream| stream.flow == *flow);
        [Flow::ToServer, Flow::ToClient].into_iter().filter(has)
    }

    /// Returns the sums over the streams of a direction.
    #[must_use]
    pub fn sum(&self, flow: Flow) -> Sum {
        let streams = || self.streams.iter().filter(|stream| stream.flow == flow);
        let count = streams().count().max(1) as f64;
        let mut sum = streams().fold(Sum::default(), |sum, stream| Sum {
            sent: sum.sent.plus(&stream.sender),
            received: sum.received.plus(&stream.receiver),
            lost: sum.lost + stream.account.missing + stream.account.after_last,
            jitter_s: sum.jitter_s + stream.jitter_s / count,
            retransmits: stream
                .retransmits
                .map(|count| sum.retransmits.unwrap_or(0) + count)
                .or(sum.retransmits),
            sends: stream.sends,
        });
        sum.retransmits = sum.retransmits.filter(|_| self.test.protocol == Protocol::Tcp);
        sum
    }

    /// Returns whether every account that can be checked closes.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        self.streams.iter().all(|stream| !matches!(stream.account.verdict, Verdict::Unbalanced(_)))
    }
}

impl Side {
    fn plus(&self, other: &Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            packets: self.packets + other.packets,
            seconds: self.seconds.max(other.seconds),
        }
    }

    /// Returns the rate. Units: bits per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 * 8.0 / self.seconds } else { 0.0 }
    }
}

/// Returns the counts of the sender and of the receiver.
fn sides(test: &Test, sends: bool, ours: &Totals, peer: &StreamResults) -> (Side, Side) {
    let own = Side { bytes: ours.counts.bytes, packets: ours.counts.packets, seconds: ours.seconds };
    let other = Side {
        bytes: peer.bytes,
        packets: packets_of_peer(test, peer),
        seconds: peer.end_time - peer.start_time,
    };
    if sends { (own, other) } else { (other, own) }
}

/// Returns the number of datagrams that a peer sent or received. It reports their bytes; its `packets` is the
/// highest number, omitted datagrams included.
fn packets_of_peer(test: &Test, peer: &StreamResults) -> u64 {
    match test.protocol {
        Protocol::Tcp => 0,
        Protocol::Udp => peer.bytes / test.block_bytes as u64,
    }
}

fn account(test: &Test, sends: bool, ours: &Totals, peer: &StreamResults) -> Account {
    if !test.omit.is_zero() {
        return account_without_beginning(test, sends, ours, peer);
    }
    let counts = &ours.counts;
    match (test.protocol, sends) {
        (Protocol::Tcp, true) => tcp_account(counts.bytes, peer.bytes),
        (Protocol::Tcp, false) => tcp_account(peer.bytes, counts.bytes),
        (Protocol::Udp, true) => {
            udp_account(counts.packets, packets_of_peer(test, peer), peer.errors, peer.packets, None)
        }
        (Protocol::Udp, false) => {
            let drops = ours.dropped_by_socket;
            udp_account(peer.packets, counts.packets, counts.missing, counts.highest, drops)
        }
    }
}

/// Returns the account of a test in which each side omitted a beginning by its own clock.
fn account_without_beginning(test: &Test, sends: bool, ours: &Totals, peer: &StreamResults) -> Account {
    let (sender, receiver) = sides(test, sends, ours, peer);
    let (sent, received) = match test.protocol {
        Protocol::Tcp => (sender.bytes, receiver.bytes),
        Protocol::Udp => (sender.packets, receiver.packets),
    };
    Account {
        sent,
        received,
        missing: if sends { peer.errors } else { ours.counts.missing },
        after_last: 0,
        dropped_by_socket: ours.dropped_by_socket.filter(|_| !sends),
        verdict: Verdict::Unknown("each side leaves out the beginning by its own clock"),
    }
}

fn tcp_account(sent: u64, received: u64) -> Account {
    let verdict = match received.checked_sub(sent) {
        None | Some(0) => Verdict::Closed,
        Some(more) => Verdict::Unbalanced(format!("{more} bytes more were received than sent")),
    };
    let after_last = sent.saturating_sub(received);
    Account { sent, received, missing: 0, after_last, dropped_by_socket: None, verdict }
}

fn udp_account(sent: u64, received: u64, missing: u64, highest: u64, drops: Option<u64>) -> Account {
    let after_last = sent.saturating_sub(highest);
    let verdict = if received + missing != highest {
        Verdict::Unbalanced(format!(
            "of {highest} numbers the receiver tells {received} as received and {missing} as missing: it counts what comes twice, or late, in its own way"
        ))
    } else if highest > sent {
        Verdict::Unbalanced(format!("number {highest} came, and {sent} were sent"))
    } else {
        Verdict::Closed
    };
    // The kernel may have dropped other senders' datagrams too.
    let dropped_by_socket = drops.map(|drops| drops.min(missing + after_last));
    Account { sent, received, missing, after_last, dropped_by_socket, verdict }
}

/// Returns an IPv4 address that came through an IPv6 socket in its IPv4 form.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::iperf3::results::MOST;
    use crate::iperf3::stream::Counts;
    use proptest::prelude::*;

    fn udp() -> Test {
        Test { protocol: Protocol::Udp, block_bytes: 100, ..Test::default() }
    }

    fn received(packets: u64, missing: u64, highest: u64) -> Totals {
        Totals { counts: Counts { packets, missing, highest, ..Counts::default() }, ..Totals::default() }
    }

    #[test]
    fn what_lies_in_buffers_at_the_end_is_named() {
        let account = tcp_account(1_000, 900);
        assert_eq!((account.after_last, &account.verdict), (100, &Verdict::Closed));
        assert!(matches!(tcp_account(900, 901).verdict, Verdict::Unbalanced(_)));
    }

    #[test]
    fn datagrams_after_the_last_that_came_are_lost_too() {
        let peer = StreamResults { packets: 10, ..StreamResults::default() };
        let account = account(&udp(), false, &received(6, 2, 8), &peer);
        assert_eq!((account.missing, account.after_last, account.verdict), (2, 2, Verdict::Closed));
    }

    #[test]
    fn a_receiver_that_counts_duplicates_as_received_is_found_out() {
        // Ten numbers, of which one is missing and one came twice: iperf3 takes the duplicate for a late one.
        let ours =
            Totals { counts: Counts { packets: 10, highest: 10, ..Counts::default() }, ..Totals::default() };
        let peer = StreamResults { bytes: 1_000, packets: 10, errors: 1, ..StreamResults::default() };
        assert!(matches!(account(&udp(), true, &ours, &peer).verdict, Verdict::Unbalanced(_)));
    }

    #[test]
    fn an_omitted_beginning_makes_the_sides_incomparable() {
        let test = Test { omit: std::time::Duration::from_secs(1), ..udp() };
        let account = account(&test, false, &received(6, 2, 8), &StreamResults::default());
        assert!(matches!(account.verdict, Verdict::Unknown(_)));
    }

    fn told() -> impl Strategy<Value = StreamResults> {
        let count = || 0..=MOST;
        (count(), count(), count(), prop::option::of(count()), any::<f64>()).prop_map(
            |(bytes, packets, errors, retransmits, end_time)| StreamResults {
                bytes,
                packets,
                errors,
                retransmits,
                end_time,
                ..StreamResults::default()
            },
        )
    }

    proptest! {
        #[test]
        fn whatever_a_peer_tells_a_closed_account_adds_up(peer in told(), is_udp in any::<bool>(), sends in any::<bool>()) {
            let test = if is_udp { udp() } else { Test::default() };
            let account = account(&test, sends, &received(6, 2, 8), &peer);
            let parts = account.received + account.missing + account.after_last;
            prop_assert!(account.verdict != Verdict::Closed || account.sent == parts, "{:?}", account);
            let (sender, receiver) = sides(&test, sends, &received(6, 2, 8), &peer);
            prop_assert!(sender.rate() >= 0.0 && receiver.rate() >= 0.0);
        }

        #[test]
        fn a_closed_account_adds_up(sent in 0..100_u64, received in 0..100_u64, missing in 0..100_u64, highest in 0..100_u64, drops in 0..200_u64) {
            let account = udp_account(sent, received, missing, highest, Some(drops));
            if account.verdict == Verdict::Closed {
                prop_assert_eq!(account.sent, account.received + account.missing + account.after_last);
                prop_assert!(account.dropped_by_socket <= Some(account.missing + account.after_last));
            } else {
                prop_assert!(received + missing != highest || highest > sent);
            }
        }
    }
}
