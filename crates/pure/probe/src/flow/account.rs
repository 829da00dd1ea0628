//! What became of every datagram of a flow.

use ledger::StageCounts;

/// What the sender of a flow counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowSent {
    /// Datagrams that were given a number, whether or not the socket took them.
    pub numbered: u64,
    /// Payload of those that the socket took.
    pub bytes: u64,
    /// Those that it refused, by where.
    pub refused: StageCounts,
}

/// Whether both ends had their say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowState {
    /// The sender told how many there were.
    Closed,
    /// It vanished: the account goes up to the highest number that arrived, the tail is not known.
    Unconfirmed,
}

/// The account of a flow: `sent = received + Σ lost[stage] + unexplained`.
///
/// `sent` is counted by the sender, `received` by the receiver, and what is missing by its own record of numbers; so
/// the law is a [check](Self::check). Where datagrams have no room for a number it only says that no more arrived than
/// were sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowAccount {
    /// Whether both ends had their say.
    pub state: FlowState,
    /// Numbers given.
    pub sent: u64,
    /// Datagrams that arrived, each once.
    pub received: u64,
    /// Those that did not and whose place is known.
    pub lost: StageCounts,
    /// Those that did not, without any trace of where.
    pub unexplained: u64,
    /// Datagrams that arrived again, outside the law.
    pub duplicates: u64,
    /// Drops that the socket counted and that no missing datagram of this flow answers to.
    pub unmatched: u64,
}

/// Says that an account does not add up: a defect of the bench.
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

    /// Returns how many did not arrive.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.lost.total() + self.unexplained
    }

    /// Tells whether every datagram arrived, as far as both ends can tell.
    #[must_use]
    pub fn is_loss_free(&self) -> bool {
        self.state == FlowState::Closed && self.missing() == 0
    }
}
