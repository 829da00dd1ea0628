//! Counters of a connection.

use core::time::Duration;

/// Counters and state of a connection.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Stats {
    /// Packets sent, including retransmissions.
    pub sent_packets: u64,
    /// Packets retransmitted.
    pub retransmitted_packets: u64,
    /// Payload sent for the first time. Units: bytes.
    pub sent_bytes: u64,
    /// Packets that the peer reported lost, or that count as lost.
    pub lost_packets: u64,
    /// Messages given up after their deadline, or with [`Repair::Timely`](crate::Repair::Timely) when they could no
    /// longer arrive by it.
    pub expired_messages: u64,
    /// New packets received.
    pub received_packets: u64,
    /// Their payload. Units: bytes.
    pub received_bytes: u64,
    /// Duplicate packets received.
    pub duplicate_packets: u64,
    /// Packets refused for lack of room.
    pub refused_packets: u64,
    /// Packets found missing.
    pub missing_packets: u64,
    /// Messages that the peer gave up.
    pub given_up_messages: u64,
    /// Acknowledgements sent, light ones included.
    pub sent_acks: u64,
    /// Acknowledgements received, light ones included.
    pub received_acks: u64,
    /// Loss reports sent.
    pub sent_naks: u64,
    /// Loss reports received.
    pub received_naks: u64,
    /// Number of timeouts, at each of which everything in flight counts as lost.
    pub timeouts: u64,
    /// Number of tail probes, each a repetition of the newest packet to provoke an answer.
    pub tail_probes: u64,
    /// Impossible packets of the peer: forged, or of a broken peer. They have no effect.
    pub impossible_packets: u64,
    /// Control packets that were not sent because too many waited; the peer repeats requests that get no answer.
    pub unsent_controls: u64,
    /// Number of policies that cannot be obeyed, including messages that cannot be sent.
    pub absurd_policies: u64,
    /// Time during which packets were sent and not acknowledged, as of the last packet or acknowledgement.
    pub busy: Duration,
    /// Smoothed round-trip time.
    pub round_trip: Duration,
    /// Time since the connection was established, as of its last turn.
    pub age: Duration,
    /// Packets in flight.
    pub in_flight_packets: u32,
    /// The window that the control allows. Units: packets.
    pub window_packets: u32,
    /// The time between two packets. Units: picoseconds.
    pub spacing_ps: u64,
    /// Packets that the peer takes beyond those it has acknowledged.
    pub peer_window_packets: u32,
    /// Free space of the send buffer. Units: packets.
    pub send_room_packets: u32,
    /// Free space of the receive buffer. Units: packets.
    pub receive_room_packets: u32,
    /// Data of the application that the peer has not acknowledged. Units: bytes.
    pub queued_bytes: u64,
    /// Arrival rate at the peer. Units: packets per second, 0 if unknown.
    pub peer_arrival_packets_per_s: f64,
    /// Capacity of the path by the peer's estimate. Units: packets per second, 0 if unknown.
    pub capacity_packets_per_s: f64,
}

impl Stats {
    /// Returns the counts since an earlier snapshot of the same connection; other values are the current ones.
    ///
    /// Rates follow from it, for example the payload in bits per second:
    ///
    /// ```
    /// # use udt::Stats;
    /// # use core::time::Duration;
    /// # let earlier = Stats { sent_bytes: 1_000, age: Duration::from_secs(1), ..Stats::default() };
    /// # let now = Stats { sent_bytes: 251_000, age: Duration::from_secs(3), ..Stats::default() };
    /// let between = now.since(&earlier);
    /// assert_eq!(between.sent_bytes as f64 * 8.0 / between.age.as_secs_f64(), 1e6);
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        macro_rules! difference {
            ($($count:ident),*) => { Self { $($count: self.$count.saturating_sub(earlier.$count),)* ..*self } };
        }
        difference!(
            sent_packets,
            retransmitted_packets,
            sent_bytes,
            lost_packets,
            expired_messages,
            received_packets,
            received_bytes,
            duplicate_packets,
            refused_packets,
            missing_packets,
            given_up_messages,
            sent_acks,
            received_acks,
            sent_naks,
            received_naks,
            timeouts,
            tail_probes,
            impossible_packets,
            unsent_controls,
            absurd_policies,
            busy,
            age
        )
    }
}
