//! Messages between the two ends of a throughput measurement, and the counts of each end.
//!
//! ```text
//! client                                   server
//!   Prepare { run, rate, endpoints }  ─▶             opens its receiving ends, and sends their addresses
//!                                     ◀─   Ready { endpoints, token }
//!   Start                             ─▶             both begin
//!                                     ◀─   Start     if delays are kept: its receivers run, the client may send
//!                                     ◀─   Live(..)  at every mark of its own clock
//!   Sent(..)                         ◀─▶   Sent(..)  from an end whose flows have all been sent
//!   Stop                              ─▶             send no more: the client wants to end
//!                                     ◀─   Done(..)  its counts, with closed accounts
//! ```
//!
//! Runs follow one another in this way, until the client says good-bye.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ledger::StageCounts;
pub use probe::flow::FlowState as AccountState;
use probe::flow::{Delays, FlowAccount, FlowSent, FlowTotals};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::options::{Rate, Way};
use crate::cpu_load::AppliedLoad;
use crate::processor::Processor;
use crate::report::number::percent;
use crate::report::{Times, Used};

/// One of the two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Client,
    Server,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Word {
    Prepare { run: u32, rate: Rate, unit_bytes: usize, endpoints: Vec<SocketAddr> },
    Ready { endpoints: Vec<SocketAddr>, token: u64 },
    Start,
    Live(Live),
    Sent(Vec<Sent>),
    Stop,
    Done(Box<SideResult>),
}

/// Key of a flow and one of its receivers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(crate) struct FlowKey {
    pub(super) way: Way,
    pub(super) stream: u32,
    /// Index of the receiver; none at the sender.
    pub(crate) receiver: Option<u32>,
}

/// Counts of one end at a mark.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Live {
    pub(super) mark: usize,
    /// Time of the mark, since this end began.
    pub(super) at_ns: u64,
    pub(super) flows: Vec<(FlowKey, Count)>,
}

/// Counts of a flow, at its sender or at one of its receivers.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Count {
    /// Datagrams; calls of TCP's sender; 0 at TCP's receiver; units of a stream, each of which fills a datagram.
    pub(super) units: u64,
    pub(super) bytes: u64,
    /// Missing so far; null if unknown until the end.
    pub(super) lost: Option<u64>,
    pub(crate) out_of_order: u64,
    pub(super) duplicates: u64,
    pub(super) jitter_ns: Option<f64>,
    pub(super) retransmits: Option<u64>,
    pub(super) rtt_ns: Option<u64>,
    pub(super) congestion_window_bytes: Option<u64>,
    /// Units with a known delay, by the sender's clock.
    pub(super) delayed: u64,
    /// Sum of their delays.
    pub(super) delay_sum_ns: u64,
}

/// Final counts of a flow's sender for its receivers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// Datagrams that were numbered; 0 over TCP.
    pub(super) units: u64,
    pub(super) bytes: u64,
    /// Datagrams that were refused, by stage.
    pub(super) refused: StageCounts,
}

/// Results of one end for a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SideResult {
    pub(crate) flows: Vec<FlowResult>,
    pub(crate) used: Used,
    /// Processor use in the terms of a cost.
    pub(crate) processor: Processor,
    /// Artificial load that was applied on the host; it is part of the resources used.
    #[serde(default)]
    #[serde(rename = "burned")]
    pub(crate) applied_load: Option<AppliedLoad>,
    /// Failures that make the run incomplete: flows that failed, accounts that do not balance. Each once.
    pub(crate) failures: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// Results of one end for a flow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct FlowResult {
    pub(crate) key: FlowKey,
    pub(crate) local: SocketAddr,
    pub(crate) remote: Option<SocketAddr>,
    /// Counts of the whole run.
    pub(crate) total: Count,
    /// Counts before the measured part began.
    pub(crate) omitted: Count,
    /// Time from the end of the omitted part to the end of the flow; none if the flow ended before that.
    pub(crate) measured_ns: Option<u64>,
    /// Units that a stall of the sender kept from being sent.
    pub(crate) skipped: u64,
    pub(crate) congestion_control: Option<String>,
    /// Socket buffer that the kernel granted this end, before it doubles it.
    #[serde(default)]
    pub(crate) buffer_bytes: Option<u64>,
    /// Account of the flow; at receivers only.
    pub(crate) account: Option<Account>,
    /// Delays of its units, from the sender's stamps to this end's clock; only at receivers that were to keep them.
    pub(crate) delays: Option<Times>,
}

/// Account of everything that a flow sent: `sent = received + Σ lost + unexplained`.
#[derive(Clone, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// `datagrams` or `bytes`.
    pub unit: Unit,
    /// `closed`, or `unconfirmed` if the sender could not report the final count.
    pub state: AccountState,
    /// Counted by the sender.
    pub sent: u64,
    /// Counted by the receiver, each datagram or byte once.
    pub received: u64,
    /// Amounts that did not arrive, by the stage at which they were lost.
    pub lost: BTreeMap<String, u64>,
    /// Amount that did not arrive, at an unknown stage.
    pub unexplained: u64,
    /// Units that arrived again.
    pub duplicates: u64,
    /// Drops that the receiving socket counted and that match nothing missing.
    pub unmatched: u64,
}

/// Unit of an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Datagrams.
    Datagrams,
    /// Bytes.
    Bytes,
}

impl End {
    /// Returns whether this end sends in that direction.
    pub(super) fn sends(self, way: Way) -> bool {
        (self == Self::Client) == (way == Way::Forward)
    }
}

impl Unit {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Datagrams => "datagrams",
            Self::Bytes => "bytes",
        }
    }
}

impl Live {
    /// Returns the counts of an end that has ended, at any later mark.
    pub(super) fn at_end(side: &SideResult, mark: usize, at_ns: u64) -> Self {
        Self { mark, at_ns, flows: side.flows.iter().map(|flow| (flow.key, flow.total)).collect() }
    }
}

#[cfg(test)]
impl FlowResult {
    /// Returns the counts of a forward flow that moved nothing, at its sender or at a receiver.
    pub(crate) fn example(receiver: Option<u32>) -> Self {
        Self {
            key: FlowKey { way: Way::Forward, stream: 0, receiver },
            local: SocketAddr::from(([127, 0, 0, 1], 2)),
            remote: None,
            total: Count::default(),
            omitted: Count::default(),
            measured_ns: None,
            skipped: 0,
            congestion_control: None,
            buffer_bytes: None,
            account: None,
            delays: None,
        }
    }
}

impl FlowKey {
    pub(super) const fn sender(way: Way, stream: u32) -> Self {
        Self { way, stream, receiver: None }
    }

    /// Returns the number that the flow's datagrams carry.
    pub(super) const fn flow(self) -> u32 {
        let way = match self.way {
            Way::Forward => 0,
            Way::Reverse => 1 << 16,
        };
        way + self.stream
    }
}

impl Sent {
    pub(super) const fn of(sent: &FlowSent) -> Self {
        Self { units: sent.numbered, bytes: sent.bytes, refused: sent.refused }
    }

    /// Returns the counts as `probe`'s type.
    pub(super) const fn to_flow(&self) -> FlowSent {
        FlowSent { numbered: self.units, bytes: self.bytes, refused: self.refused }
    }
}

impl Count {
    pub(super) fn of_arrivals(totals: &FlowTotals) -> Self {
        Self {
            units: totals.received,
            bytes: totals.bytes,
            lost: totals.lost,
            out_of_order: totals.reordered,
            duplicates: totals.duplicates,
            jitter_ns: totals.jitter_ns,
            ..Self::default()
        }
        .with_delays(&totals.delays)
    }

    pub(super) fn with_delays(self, delays: &Delays) -> Self {
        Self { delayed: delays.count, delay_sum_ns: delays.sum_ns, ..self }
    }
}

impl Account {
    pub(crate) fn of_datagrams(account: &FlowAccount) -> Self {
        Self {
            unit: Unit::Datagrams,
            state: account.state,
            sent: account.sent,
            received: account.received,
            lost: by_name(&account.lost),
            unexplained: account.unexplained,
            duplicates: account.duplicates,
            unmatched: account.unmatched,
        }
    }

    /// Adds up accounts of datagrams, closed if all of them are.
    #[must_use]
    pub(crate) fn sum(accounts: &[Self]) -> Self {
        let is_closed = accounts.iter().all(|it| it.state == AccountState::Closed);
        let sum = |of: fn(&Self) -> u64| accounts.iter().map(of).sum();
        let mut lost = BTreeMap::new();
        for (stage, count) in accounts.iter().flat_map(|it| &it.lost) {
            *lost.entry(stage.clone()).or_default() += count;
        }
        Self {
            unit: Unit::Datagrams,
            state: if is_closed { AccountState::Closed } else { AccountState::Unconfirmed },
            sent: sum(|it| it.sent),
            received: sum(|it| it.received),
            lost,
            unexplained: sum(|it| it.unexplained),
            duplicates: sum(|it| it.duplicates),
            unmatched: sum(|it| it.unmatched),
        }
    }

    /// Formats the account as an equation.
    #[must_use]
    pub(crate) fn in_words(&self) -> String {
        let lost: String = self.lost.iter().map(|(stage, count)| format!(" + {count} {stage}")).collect();
        format!("{} sent = {} received{lost} + {} unexplained", self.sent, self.received, self.unexplained)
    }

    /// Returns the amount that was lost in the receiver's socket buffer.
    pub(crate) fn lost_in_socket_buffer(&self) -> u64 {
        self.lost.get("receiver_socket_buffer").copied().unwrap_or(0)
    }

    /// Returns the amount that was lost at other known stages.
    pub(crate) fn lost_elsewhere(&self) -> u64 {
        self.lost.values().sum::<u64>() - self.lost_in_socket_buffer()
    }

    /// Returns the amount that did not arrive.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.lost.values().sum::<u64>() + self.unexplained
    }

    /// Returns the part of it that did not arrive, in percent; `None` if nothing was sent.
    pub(crate) fn lost_percent(&self) -> Option<f64> {
        (self.sent > 0).then(|| percent(self.missing(), self.sent))
    }

    /// Returns whether everything arrived, as far as both ends know.
    #[must_use]
    pub fn is_loss_free(&self) -> bool {
        self.state == AccountState::Closed && self.missing() == 0
    }

    /// Returns whether at most `most_ppm` millionths did not arrive, as far as both ends know.
    #[must_use]
    pub fn loses_at_most(&self, most_ppm: u32) -> bool {
        let (missing, sent) = (u128::from(self.missing()), u128::from(self.sent));
        self.state == AccountState::Closed && missing * 1_000_000 <= sent * u128::from(most_ppm)
    }

    /// Returns whether the account balances.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        self.sent == self.received + self.missing()
    }
}

pub(super) fn by_name(counts: &StageCounts) -> BTreeMap<String, u64> {
    counts.nonzero().map(|(stage, count)| (stage.name().to_owned(), count)).collect()
}
