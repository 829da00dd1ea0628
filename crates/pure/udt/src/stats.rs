//! What a connection counts.

use core::time::Duration;

/// What a connection has done so far, and where it stands.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Stats {
    /// Packets sent, those sent again included.
    pub sent_packets: u64,
    /// Packets sent again.
    pub retransmitted_packets: u64,
    /// Payload sent for the first time. Units: bytes.
    pub sent_bytes: u64,
    /// Packets that the peer reported lost, or that were taken for lost.
    pub lost_packets: u64,
    /// Messages given up because their time was over.
    pub expired_messages: u64,
    /// Packets that arrived and were new.
    pub received_packets: u64,
    /// Their payload. Units: bytes.
    pub received_bytes: u64,
    /// Packets that arrived once more.
    pub duplicate_packets: u64,
    /// Packets for which there was no room.
    pub refused_packets: u64,
    /// Packets that were seen to be missing.
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
    /// Times at which everything in flight was taken for lost.
    pub timeouts: u64,
    /// Times at which the newest packet was sent again to provoke an answer.
    pub tail_probes: u64,
    /// Packets of the peer that were impossible: forged, or of a broken peer. They changed nothing.
    pub impossible_packets: u64,
    /// Times at which the control asked for what cannot be obeyed, messages that cannot be sent included.
    pub absurd_policies: u64,
    /// The time in which something was sent and not acknowledged yet, as of the last packet or acknowledgement.
    pub busy: Duration,
    /// Smoothed round-trip time.
    pub round_trip: Duration,
    /// How long the connection has stood, as of its last turn.
    pub age: Duration,
    /// Packets in flight.
    pub in_flight_packets: u32,
    /// The window that the control allows. Units: packets.
    pub window_packets: u32,
    /// The time between two packets. Units: picoseconds.
    pub spacing_ps: u64,
    /// How many packets the peer takes beyond those it has acknowledged.
    pub peer_window_packets: u32,
    /// How many more packets our own buffer takes to be sent.
    pub send_room_packets: u32,
    /// How many more packets our own buffer takes of the peer's.
    pub receive_room_packets: u32,
    /// What the application sent and the peer has not acknowledged. Units: bytes.
    pub queued_bytes: u64,
    /// At which rate packets arrive at the peer. Units: packets per second, 0 if not known.
    pub peer_arrival_packets_per_s: f64,
    /// What the way carries, by the peer's estimate. Units: packets per second, 0 if not known.
    pub capacity_packets_per_s: f64,
}

impl Stats {
    /// Returns what was counted since an earlier look at the same connection; what is no count is as it is now.
    ///
    /// Rates follow from it, for example the payload sent in bits a second:
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
            absurd_policies,
            busy,
            age
        )
    }
}
