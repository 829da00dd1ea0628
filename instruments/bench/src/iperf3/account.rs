//! The check of a stream's account: what was sent is what was received and what is missing.
//!
//! Over TCP, in bytes: `sent = received + unread`, where *unread* was in buffers or in flight when the test
//! ended. Over UDP, in datagrams: `sent = received + missing + after_last`, where *missing* have a number below
//! the highest that arrived, and *after_last* one above it. [`Verdict`] states where that cannot be checked,
//! and where it fails.

use std::fmt;

use serde::Serialize;
use serde_with::skip_serializing_none;

use super::parameters::{Protocol, Test};
use super::results::StreamResults;
use super::traffic::Totals;

/// Account of the data sent.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Account {
    pub(super) unit: &'static str,
    /// Amount that the sender handed to its kernel.
    pub(super) sent: u64,
    /// Amount that the receiver took from its own kernel.
    pub(super) received: u64,
    /// Lost below the highest number that arrived.
    pub(super) missing: u64,
    /// Sent after the last that arrived; over TCP not read when the test ended.
    pub(super) after_last: u64,
    /// Number of lost ones that found the receiver's socket buffer full; `None` where the receiver does not
    /// report it.
    #[serde(rename = "dropped_by_receiver_socket_buffer")]
    pub(super) dropped_by_socket: Option<u64>,
    /// Datagrams that arrived again; 0 where the receiver does not report it.
    pub(super) duplicates: u64,
    #[serde(flatten)]
    pub(super) verdict: Verdict,
}

/// Result of the check of an account.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "state", content = "reason", rename_all = "lowercase")]
pub(super) enum Verdict {
    /// The account balances.
    Closed,
    /// The account cannot be checked, for this reason.
    Unknown(&'static str),
    /// The account does not balance, as described.
    Unbalanced(String),
}

impl Account {
    /// Checks a stream that this side `sends` or receives, given the counts of both sides.
    pub(super) fn of(test: &Test, sends: bool, ours: &Totals, peer: &StreamResults) -> Self {
        let counts = &ours.counts;
        let (unit, own, other) = match test.protocol {
            Protocol::Tcp => ("bytes", counts.bytes, peer.bytes),
            // The peer's `packets` is the highest number, omitted datagrams included.
            Protocol::Udp => ("datagrams", counts.packets, peer.bytes / test.block_bytes as u64),
        };
        let (sent, received) = if sends { (own, other) } else { (other, own) };
        let (missing, highest) =
            if sends { (peer.errors, peer.packets) } else { (counts.missing, counts.highest) };
        let account = Self {
            unit,
            sent,
            received,
            missing: if test.protocol == Protocol::Tcp { 0 } else { missing },
            after_last: 0,
            dropped_by_socket: ours.dropped_by_socket,
            duplicates: counts.duplicates,
            verdict: Verdict::Unknown("each side leaves out the beginning by its own clock"),
        };
        match test.protocol {
            _ if !test.omit.is_zero() => account,
            Protocol::Tcp => account.of_bytes(),
            Protocol::Udp if sends => account.of_datagrams(highest),
            Protocol::Udp => Self { sent: peer.packets, ..account }.of_datagrams(highest),
        }
    }

    fn of_bytes(self) -> Self {
        let verdict = match self.received.checked_sub(self.sent) {
            None | Some(0) => Verdict::Closed,
            Some(more) => Verdict::Unbalanced(format!("{more} bytes more were received than sent")),
        };
        Self { after_last: self.sent.saturating_sub(self.received), verdict, ..self }
    }

    fn of_datagrams(self, highest: u64) -> Self {
        let Self { sent, received, missing, .. } = self;
        let verdict = if received + missing != highest {
            Verdict::Unbalanced(format!(
                "of {highest} numbers the receiver reports {received} as received and {missing} as missing: it counts duplicates and late datagrams in its own way"
            ))
        } else if highest > sent {
            Verdict::Unbalanced(format!("number {highest} came, and {sent} were sent"))
        } else {
            Verdict::Closed
        };
        let after_last = sent.saturating_sub(highest);
        // The kernel may have dropped other senders' datagrams too.
        let dropped_by_socket = self.dropped_by_socket.map(|drops| drops.min(missing + after_last));
        Self { after_last, dropped_by_socket, verdict, ..self }
    }

    /// Returns the loss: datagrams, or bytes not read.
    pub(super) const fn lost(&self) -> u64 {
        self.missing + self.after_last
    }

    pub(super) const fn is_in_order(&self) -> bool {
        !matches!(self.verdict, Verdict::Unbalanced(_))
    }
}

impl fmt::Display for Account {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit, sent, received, missing, after_last, .. } = self;
        write!(formatter, "account of {unit}: ")?;
        match &self.verdict {
            Verdict::Unknown(reason) => return write!(formatter, "cannot be checked, since {reason}"),
            Verdict::Unbalanced(how) => return write!(formatter, "DOES NOT ADD UP: {how}"),
            Verdict::Closed => write!(formatter, "{sent} sent = {received} received")?,
        }
        match *unit {
            "bytes" => write!(formatter, " + {after_last} unread")?,
            _ => write!(formatter, " + {missing} missing + {after_last} after the last that came")?,
        }
        match self.dropped_by_socket {
            None | Some(0) => Ok(()),
            Some(dropped) => write!(
                formatter,
                "; {dropped} of the lost found the receive buffer full: take a larger one with -w"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
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

    fn unchecked(sent: u64, received: u64, missing: u64, dropped_by_socket: Option<u64>) -> Account {
        let verdict = Verdict::Closed;
        Account {
            unit: "",
            sent,
            received,
            missing,
            after_last: 0,
            dropped_by_socket,
            duplicates: 0,
            verdict,
        }
    }

    #[test]
    fn what_lies_in_buffers_at_the_end_is_named() {
        let account = unchecked(1_000, 900, 0, None).of_bytes();
        assert_eq!((account.after_last, &account.verdict), (100, &Verdict::Closed));
        assert!(!unchecked(900, 901, 0, None).of_bytes().is_in_order());
    }

    #[test]
    fn datagrams_after_the_last_that_came_are_lost_too() {
        let peer = StreamResults { packets: 10, ..StreamResults::default() };
        let account = Account::of(&udp(), false, &received(6, 2, 8), &peer);
        assert_eq!((account.missing, account.after_last, account.verdict), (2, 2, Verdict::Closed));
    }

    #[test]
    fn a_receiver_that_counts_duplicates_as_received_is_found_out() {
        // Ten numbers, of which one is missing and one came twice: iperf3 takes the duplicate for a late one.
        let peer = StreamResults { bytes: 1_000, packets: 10, errors: 1, ..StreamResults::default() };
        assert!(!Account::of(&udp(), true, &received(10, 0, 10), &peer).is_in_order());
    }

    #[test]
    fn an_omitted_beginning_makes_the_sides_incomparable() {
        let test = Test { omit: std::time::Duration::from_secs(1), ..udp() };
        let account = Account::of(&test, false, &received(6, 2, 8), &StreamResults::default());
        assert!(matches!(account.verdict, Verdict::Unknown(_)));
    }

    proptest! {
        #[test]
        fn whatever_a_peer_tells_a_closed_account_adds_up(
            (bytes, packets, errors) in (0..=MOST, 0..=MOST, 0..=MOST), is_udp in any::<bool>(), sends in any::<bool>()
        ) {
            let peer = StreamResults { bytes, packets, errors, ..StreamResults::default() };
            let test = if is_udp { udp() } else { Test::default() };
            let account = Account::of(&test, sends, &received(6, 2, 8), &peer);
            let parts = account.received + account.lost();
            prop_assert!(account.verdict != Verdict::Closed || account.sent == parts, "{:?}", account);
        }

        #[test]
        fn a_closed_account_adds_up(sent in 0..100_u64, received in 0..100_u64, missing in 0..100_u64, highest in 0..100_u64, drops in 0..200_u64) {
            let account = unchecked(sent, received, missing, Some(drops)).of_datagrams(highest);
            if account.verdict == Verdict::Closed {
                prop_assert_eq!(account.sent, account.received + account.lost());
                prop_assert!(account.dropped_by_socket <= Some(account.lost()));
            } else {
                prop_assert!(received + missing != highest || highest > sent);
            }
        }
    }
}
