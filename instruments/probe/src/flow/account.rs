//! Outcome of every datagram of a flow.

use ledger::StageCounts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counters of a flow's sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FlowSent {
    /// Datagrams that were given a number, whether or not the socket accepted them.
    pub numbered: u64,
    /// Payload bytes the socket accepted.
    pub bytes: u64,
    /// Datagrams the socket refused, by stage.
    pub refused: StageCounts,
}

/// Completeness of an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "AccountState")]
pub enum FlowState {
    /// Both ends have reported.
    Closed,
    /// The sender could not report the final count: the tail is unknown.
    // The account extends to the highest number that arrived.
    Unconfirmed,
}

/// The account of a flow: `sent = received + Σ lost[stage] + unexplained`.
///
/// `sent` is counted by the sender, `received` by the receiver, and missing datagrams by the receiver's record of
/// numbers; so the law is a [check](Self::check). For datagrams too short for a number, it only checks that no more
/// arrived than were sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowAccount {
    /// Completeness of the account.
    pub state: FlowState,
    /// Numbers assigned by the sender.
    pub sent: u64,
    /// Datagrams that arrived, each counted once.
    pub received: u64,
    /// Datagrams lost at a known stage.
    pub lost: StageCounts,
    /// Datagrams lost without evidence of a stage.
    pub unexplained: u64,
    /// Duplicates, outside the law.
    pub duplicates: u64,
    /// Drops the socket counted that match no missing datagram of this flow.
    pub unmatched: u64,
}

/// Error for an account that does not add up: a defect of the bench.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the account of a flow does not add up: {sent} sent are not {received} received, {lost} lost and {unexplained} \
     unexplained\nplease report it with the output of --json"
)]
pub struct FlowLawError {
    sent: u64,
    received: u64,
    lost: u64,
    unexplained: u64,
}

impl FlowAccount {
    /// Checks the law.
    ///
    /// # Errors
    /// [`FlowLawError`] if it does not hold.
    pub fn check(&self) -> Result<(), FlowLawError> {
        let Self { sent, received, unexplained, .. } = *self;
        let lost = self.lost.total();
        let law_holds = sent == received + lost + unexplained;
        law_holds.then_some(()).ok_or(FlowLawError { sent, received, lost, unexplained })
    }

    /// Returns the number of datagrams that did not arrive.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.lost.total() + self.unexplained
    }

    /// Returns whether every datagram arrived, as far as both ends know.
    #[must_use]
    pub fn is_loss_free(&self) -> bool {
        self.state == FlowState::Closed && self.missing() == 0
    }
}
