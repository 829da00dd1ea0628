//! Balance sheets: a view of a ledger at one moment, and the check that it adds up.

use core::fmt;

use serde::Serialize;

use crate::{Gap, HopCounts, Stage, StageCounts};

/// State of an account.
///
/// Source: `docs/protocol/account.md`, rule 13.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccountState {
    /// The stream continues.
    Open,
    /// The final tally was seen and nothing is in flight or unsettled.
    Closed,
    /// The reader left; the law holds up to the first number that is neither received nor missing.
    Cut,
    /// The publisher fell silent or began a new epoch without a final tally; the tail is unknown.
    Unconfirmed,
}

/// The network counters: datagrams, per stream, epoch and receiving socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct NetworkRows {
    /// Number of the first accepted datagram, J.
    pub first: u64,
    /// One more than the highest number seen, H.
    pub next: u64,
    /// Datagrams read from the socket.
    pub received: u64,
    /// Datagrams lost, by stage.
    pub lost: StageCounts,
    /// Lost datagrams without evidence in time.
    pub unexplained: u64,
    /// Datagrams declared missing that still wait for evidence.
    pub unsettled: u64,
    /// Datagrams neither received nor declared missing.
    pub in_flight: u64,
    /// Datagrams received again, outside the law.
    pub duplicates: u64,
    /// Datagrams with a number below the first, outside the law.
    pub before_join: u64,
}

/// The reader counters: elements, per stream, epoch and reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ReaderRows {
    /// Index of the first sample since joining, j.
    pub first: u64,
    /// One more than the highest sample index seen, h.
    pub next: u64,
    /// Elements per sample, E.
    pub per_sample: u32,
    /// Elements delivered to the reader.
    pub delivered: u64,
    /// Elements lost, by stage.
    pub lost: StageCounts,
    /// Lost elements without evidence in time.
    pub unexplained: u64,
    /// Elements declared missing that still wait for evidence.
    pub unsettled: u64,
    /// Elements neither delivered nor declared missing.
    pub in_flight: u64,
}

/// An account at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Account {
    /// State of the account.
    pub state: AccountState,
    /// Network counters; `None` for a reader without a socket of its own.
    pub datagrams: Option<NetworkRows>,
    /// Reader counters.
    pub elements: ReaderRows,
    /// Of the elements lost at stage `source` of a relayed stream, the hop and stage at which they were; empty for
    /// others.
    pub hops: HopCounts,
    /// The newest gaps in the order of the stream, up to the number remembered.
    pub gaps: Vec<Gap>,
}

/// An account that does not add up, which is a defect of this program, with both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the {account} account does not balance: {expected} {unit} since joining, {counted} accounted for",
    unit = unit_of(.account))]
pub struct Imbalance {
    /// Name of the account: `network`, `reader`, `sample`, `hops` or `gap`.
    pub account: &'static str,
    /// Count from join point and horizon.
    pub expected: u64,
    /// Sum of the rows.
    pub counted: u64,
}

fn unit_of(account: &str) -> &'static str {
    match account {
        "network" => "datagrams",
        "sample" => "samples",
        _ => "elements",
    }
}

impl AccountState {
    /// Returns the name, the same in all outputs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Cut => "cut",
            Self::Unconfirmed => "unconfirmed",
        }
    }
}

impl fmt::Display for AccountState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl NetworkRows {
    /// Checks the law `H − J = received + Σ lost + unexplained + unsettled + in flight`.
    ///
    /// # Errors
    /// [`Imbalance`] with both sides.
    pub fn check(&self) -> Result<(), Imbalance> {
        let counted = self.received + self.lost.total() + self.unexplained + self.unsettled + self.in_flight;
        balance("network", self.next - self.first, counted)
    }
}

impl ReaderRows {
    /// Checks the law `(h − j) · E = delivered + Σ lost + unexplained + unsettled + in flight`.
    ///
    /// # Errors
    /// [`Imbalance`] with both sides.
    pub fn check(&self) -> Result<(), Imbalance> {
        let counted = self.delivered + self.lost.total() + self.unexplained + self.unsettled + self.in_flight;
        balance("reader", (self.next - self.first) * u64::from(self.per_sample), counted)
    }

    /// Returns the number of lost elements, explained or not.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.lost.total() + self.unexplained + self.unsettled
    }
}

fn balance(account: &'static str, expected: u64, counted: u64) -> Result<(), Imbalance> {
    if expected == counted { Ok(()) } else { Err(Imbalance { account, expected, counted }) }
}

/// Checks losses on earlier hops: none is told, or all those at stage `source`.
pub(crate) fn check_inherited(
    account: &'static str,
    hops: &HopCounts,
    lost: &StageCounts,
) -> Result<(), Imbalance> {
    if hops.is_empty() { Ok(()) } else { balance(account, lost[Stage::Source], hops.total()) }
}

impl Account {
    /// Checks datagrams and elements, that each gap's elements add up, and that the losses on earlier hops are those at
    /// stage `source`, in all and in each gap.
    ///
    /// # Errors
    /// [`Imbalance`] of the first account that does not add up.
    pub fn check(&self) -> Result<(), Imbalance> {
        self.datagrams.as_ref().map_or(Ok(()), NetworkRows::check)?;
        self.elements.check()?;
        check_inherited("hops", &self.hops, &self.elements.lost)?;
        let missing = |gap: &Gap| gap.lost.total() + gap.unexplained + gap.unsettled;
        self.gaps.iter().try_for_each(|gap| {
            balance("gap", gap.len(), missing(gap))?;
            check_inherited("gap", &gap.inherited, &gap.lost)
        })
    }

    /// Returns whether the law holds.
    #[must_use]
    pub fn balanced(&self) -> bool {
        self.check().is_ok()
    }

    /// Returns whether the law holds and nothing is pending, on earlier hops neither.
    #[must_use]
    pub fn closed(&self) -> bool {
        let pending = self.datagrams.map_or(0, |rows| rows.in_flight + rows.unsettled)
            + self.elements.in_flight
            + self.elements.unsettled
            + self.hops.unsettled();
        self.balanced() && pending == 0 && self.state != AccountState::Open
    }

    /// Returns whether the account is closed and every loss has its stage, on the hop where it was.
    #[must_use]
    pub fn explained(&self) -> bool {
        let unexplained = self.datagrams.map_or(0, |rows| rows.unexplained)
            + self.elements.unexplained
            + self.hops.unexplained();
        self.closed() && unexplained == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HopShare, Outcome};

    fn rows() -> ReaderRows {
        let lost = StageCounts::of(Stage::Injected, 4);
        ReaderRows { first: 10, next: 20, per_sample: 2, delivered: 16, lost, ..ReaderRows::default() }
    }

    fn account() -> Account {
        let hops = HopCounts::default();
        Account { state: AccountState::Open, datagrams: None, elements: rows(), hops, gaps: Vec::new() }
    }

    #[test]
    fn losses_on_earlier_hops_add_up_to_those_at_stage_source() {
        let mut account = Account { state: AccountState::Closed, ..account() };
        account.elements.lost = StageCounts::of(Stage::Source, 4);
        assert_eq!(account.check(), Ok(()), "a stream that was not relayed");
        let mut told = |hop, outcome, count| {
            account.hops.add(HopShare { hop, outcome, count });
            (account.check(), account.closed(), account.explained())
        };
        let short = Imbalance { account: "hops", expected: 4, counted: 1 };
        assert_eq!(told(1, Outcome::Lost(Stage::Deadline), 1), (Err(short), false, false));
        assert_eq!(told(0, Outcome::Unexplained, 3), (Ok(()), true, false));
        account.hops = [HopShare { hop: 0, outcome: Outcome::Unsettled, count: 4 }].into_iter().collect();
        assert!(account.balanced() && !account.closed());
        account.hops =
            [HopShare { hop: 0, outcome: Outcome::Lost(Stage::Late), count: 4 }].into_iter().collect();
        assert!(account.explained());
        let gap = Gap { inherited: account.hops.clone(), ..Gap::unexplained(0..4) };
        account.gaps.push(gap);
        assert_eq!(account.check(), Err(Imbalance { account: "gap", expected: 0, counted: 4 }));
    }

    #[test]
    fn a_balanced_account_passes_and_one_element_too_few_fails() {
        let mut rows = rows();
        assert_eq!(rows.check(), Ok(()));
        rows.delivered -= 1;
        let imbalance = Imbalance { account: "reader", expected: 20, counted: 19 };
        assert_eq!(rows.check(), Err(imbalance));
        assert!(imbalance.to_string().contains("20 elements since joining, 19 accounted for"));
    }

    #[test]
    fn balanced_closed_and_explained_are_three_things() {
        let mut account = account();
        assert!(account.balanced() && !account.closed());
        account.state = AccountState::Closed;
        assert!(account.closed() && account.explained());
        account.elements.delivered -= 2;
        account.elements.unexplained += 2;
        assert!(account.closed() && !account.explained());
        account.elements.delivered -= 2;
        account.elements.unsettled += 2;
        assert!(account.balanced() && !account.closed());
    }
}
