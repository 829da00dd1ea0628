//! What a test came to: both sides of every stream, and whether its account closes.
//!
//! Over TCP, in bytes: `sent = received + unread`, where *unread* lay in buffers or on the way when the test ended. Over
//! UDP, in datagrams: `sent = received + missing + after_last`, where *missing* have a number below the highest that
//! came, and *after_last* one above it. [`Verdict`] says where that cannot be checked, and where it fails.

use std::net::SocketAddr;

use units::WallTime;

use super::cpu::CpuPercent;
use super::parameters::{Flow, Protocol, Test};
use super::results::{Results, StreamResults};
use super::traffic::{Interval, Role, Totals, Traffic};

/// What one side of a stream sent or received.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Side {
    /// Bytes.
    pub bytes: u64,
    /// Datagrams; first copies only, of a receiver.
    pub packets: u64,
    /// The time in which it did. Units: seconds.
    pub seconds: f64,
}

/// Where what was sent has gone. The unit is a byte over TCP, a datagram over UDP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// What the sender handed to its kernel.
    pub sent: u64,
    /// What the receiver took from its own.
    pub received: u64,
    /// Lost below the highest number that came.
    pub missing: u64,
    /// Sent after the last that came; over TCP what was not read when the test ended.
    pub after_last: u64,
    /// How many of the lost ones found the receiver's socket buffer full; `None` where the receiver does not tell.
    pub dropped_by_socket: Option<u64>,
    /// Whether it adds up.
    pub verdict: Verdict,
}

/// Whether an account adds up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It does.
    Closed,
    /// It cannot be checked, for this reason.
    Unknown(&'static str),
    /// It does not, and this is how.
    Unbalanced(String),
}

/// What the round trips and the window of a sender over TCP were like, as far as this side knows.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Connection {
    /// The largest congestion window.
    pub most_window_bytes: u64,
    /// Units: microseconds.
    pub least_rtt_us: u32,
    /// Units: microseconds.
    pub most_rtt_us: u32,
    /// Units: microseconds.
    pub mean_rtt_us: u32,
}

/// A stream, seen from both sides.
#[derive(Clone, PartialEq, Debug)]
pub struct StreamReport {
    /// Its number.
    pub id: u32,
    /// Which way it flows.
    pub flow: Flow,
    /// Whether this side sends.
    pub sends: bool,
    /// Its descriptor on this side.
    pub socket: i32,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// What its sender counted.
    pub sender: Side,
    /// What its receiver counted.
    pub receiver: Side,
    /// Where what was sent has gone.
    pub account: Account,
    /// Datagrams that came out of order; 0 where the receiver does not tell.
    pub out_of_order: u64,
    /// Datagrams that came again; 0 where the receiver does not tell.
    pub duplicates: u64,
    /// Smoothed difference of transit times. Units: seconds.
    pub jitter_s: f64,
    /// Segments that the sender's kernel sent again, where it tells.
    pub retransmits: Option<u64>,
    /// The connection, where this side is its sender.
    pub connection: Connection,
}

/// What a test came to.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Which side tells it.
    pub role: Role,
    /// What was asked for.
    pub test: Test,
    /// The other end of the control connection.
    pub peer: SocketAddr,
    /// What tells the test from others.
    pub cookie: String,
    /// When it began.
    pub began: WallTime,
    /// The largest segment of the control connection, where the system tells it.
    pub control_mss: Option<u32>,
    /// What the kernel made of the buffers of the first stream: for sending, and for receiving.
    pub buffers: (u64, u64),
    /// The streams, both directions.
    pub streams: Vec<StreamReport>,
    /// What they did in each interval, on this side.
    pub intervals: Vec<Interval>,
    /// The processor time of this side.
    pub cpu: CpuPercent,
    /// The processor time of the other.
    pub peer_cpu: CpuPercent,
    /// The congestion control of this side.
    pub congestion: Option<String>,
    /// The congestion control of the other.
    pub peer_congestion: Option<String>,
}

/// Who takes part in a test, and when it began.
#[derive(Clone, Debug)]
pub(super) struct Parties {
    pub(super) peer: SocketAddr,
    pub(super) cookie: String,
    pub(super) began: WallTime,
    pub(super) control_mss: Option<u32>,
}

/// Sums over the streams of one direction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sum {
    /// What senders counted.
    pub sent: Side,
    /// What receivers counted.
    pub received: Side,
    /// Datagrams lost; over TCP bytes not read.
    pub lost: u64,
    /// Mean over the streams. Units: seconds.
    pub jitter_s: f64,
    /// Segments sent again; `None` where no sender tells.
    pub retransmits: Option<u64>,
    /// Whether this side sends.
    pub sends: bool,
}

impl Report {
    /// Puts both sides together.
    pub(super) fn new(parties: Parties, traffic: &mut Traffic, told: &Results) -> Self {
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
            peer: canonical(parties.peer),
            cookie: parties.cookie,
            began: parties.began,
            control_mss: parties.control_mss,
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

    /// Returns the directions that there are, the client's own first.
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

    /// Tells whether every account that can be checked closes.
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

/// Returns what the sender and what the receiver counted.
fn sides(test: &Test, sends: bool, ours: &Totals, peer: &StreamResults) -> (Side, Side) {
    let own = Side { bytes: ours.counts.bytes, packets: ours.counts.packets, seconds: ours.seconds };
    let other = Side {
        bytes: peer.bytes,
        packets: packets_of_peer(test, peer),
        seconds: peer.end_time - peer.start_time,
    };
    if sends { (own, other) } else { (other, own) }
}

/// Returns how many datagrams a peer sent or received. It tells their bytes; what it tells as `packets` is the highest
/// number, with those in it that are left out.
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

/// Tells what there is to tell when each side left out a beginning by its own clock.
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
    // The kernel may have dropped strangers too.
    let dropped_by_socket = drops.map(|drops| drops.min(missing + after_last));
    Account { sent, received, missing, after_last, dropped_by_socket, verdict }
}

/// Writes an IPv4 address that came by way of an IPv6 socket as what it is.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::iperf3::parameters::tests::plain;
    use crate::iperf3::results::MOST;
    use crate::iperf3::stream::Counts;
    use proptest::prelude::*;

    fn udp() -> Test {
        Test { protocol: Protocol::Udp, block_bytes: 100, ..plain() }
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
            let test = if is_udp { udp() } else { plain() };
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
