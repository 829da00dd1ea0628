//! The outcomes of a sender's datagrams.

use std::net::SocketAddr;

use probe::flow::FlowSent;
use sys::{Outcome, Refusal};

use crate::refusal::stage_of;

/// Counts of a sender's datagrams by their outcome; the sender numbers them itself.
#[derive(Clone, Default, Debug)]
pub struct Outcomes {
    /// Counts of the numbered, sent and refused datagrams, for the account.
    pub sent: FlowSent,
    /// Datagrams that the kernel took.
    pub taken: u64,
    /// Reason why the last of the refused datagrams was refused.
    pub refusal: Option<Refusal>,
}

impl Outcomes {
    /// Counts a datagram of `bytes`; returns false if it found no room, and so was neither sent nor refused.
    pub(super) fn take(&mut self, outcome: Outcome, bytes: usize) -> bool {
        match outcome {
            Outcome::Sent => {
                self.taken += 1;
                self.sent.bytes += bytes as u64;
            }
            Outcome::Refused(Refusal::SocketFull) => return false,
            Outcome::Refused(refusal) => self.refuse(refusal),
        }
        true
    }

    /// Counts a datagram that was refused.
    pub fn refuse(&mut self, refusal: Refusal) {
        self.sent.refused[stage_of(refusal)] += 1;
        self.refusal = Some(refusal);
    }

    /// Returns a note on refused datagrams, without a remedy.
    pub fn refused(&self, to: SocketAddr) -> Option<String> {
        let total = self.sent.refused.total();
        self.refusal.map(|last| format!("{total} datagrams to {to} were refused; the last: {last}"))
    }

    /// Returns a note on refused datagrams, with a remedy.
    pub fn note(&self, to: SocketAddr) -> Option<String> {
        let remedy = match self.refusal? {
            Refusal::TooLarge => {
                "lower -l to the MTU of the path less 28 bytes, or leave --dont-fragment out"
            }
            Refusal::Peer => "see whether the receiver was ended",
            _ => "lower the rate with -b, or see `ip route get` and the firewall",
        };
        self.refused(to).map(|refused| format!("{refused}\n{remedy}"))
    }
}

#[cfg(test)]
mod tests {
    use ledger::Stage;

    use super::*;

    #[test]
    fn what_found_no_room_is_not_counted_and_what_was_refused_is_in_the_account() {
        let mut outcomes = Outcomes::default();
        let all = [
            Outcome::Sent,
            Outcome::Refused(Refusal::QueueDiscipline),
            Outcome::Refused(Refusal::SocketFull),
            Outcome::Sent,
        ];
        assert_eq!(all.map(|outcome| outcomes.take(outcome, 100)), [true, true, false, true]);
        assert_eq!((outcomes.taken, outcomes.sent.bytes, outcomes.sent.refused.total()), (2, 200, 1));
        assert_eq!(outcomes.sent.refused[Stage::SenderQdisc], 1);
        let note = outcomes.note(([192, 0, 2, 7], 9).into()).unwrap();
        assert!(
            note.contains("1 datagrams to 192.0.2.7:9 were refused") && note.contains("ENOBUFS"),
            "{note}"
        );
    }
}
