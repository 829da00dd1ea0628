//! What the two ends of a throughput measurement say to each other, and what each has counted.
//!
//! ```text
//! client                                   server
//!   Prepare { run, rate, endpoints }  ─▶             makes its receiving ends, and tells where
//!                                     ◀─   Ready { endpoints, token }
//!   Start                             ─▶             both begin
//!                                     ◀─   Live(..)  at every mark of its own clock
//!   Sent(..)                         ◀─▶   Sent(..)  from an end whose flows have all been sent
//!   Stop                              ─▶             send no more: the client wants to end
//!                                     ◀─   Done(..)  what it counted, its accounts closed
//! ```
//!
//! So one run after the other, until the client says good-bye.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ledger::{Stage, StageCounts};
use probe::flow::{Delays, FlowAccount, FlowSent, FlowState, FlowTotals};
use serde::{Deserialize, Serialize};

use super::options::{Rate, Way};
use crate::cpu_load::AppliedLoad;
use crate::processor::Processor;
use crate::report::Used;

/// One of the two ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Client,
    Server,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Word {
    Prepare { run: u32, rate: Rate, unit_bytes: usize, endpoints: Vec<SocketAddr> },
    Ready { endpoints: Vec<SocketAddr>, token: u64 },
    Start,
    Live(Live),
    Sent(Vec<Sent>),
    Stop,
    Done(Box<SideResult>),
}

/// Which flow, and at which of its receivers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(super) struct FlowKey {
    pub(super) way: Way,
    pub(super) stream: u32,
    /// None at the sender.
    pub(super) receiver: Option<u32>,
}

/// What one end has counted at a mark.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Live {
    pub(super) mark: usize,
    /// When it was, since this end began.
    pub(super) at_ns: u64,
    pub(super) flows: Vec<(FlowKey, Count)>,
}

/// What was counted of a flow, at its sender or at one of its receivers.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Count {
    /// Datagrams; calls of TCP's sender; 0 at TCP's receiver; units of a stream, each of which fills a datagram.
    pub(super) units: u64,
    pub(super) bytes: u64,
    /// Missing so far; null where it is not known until the end.
    pub(super) lost: Option<u64>,
    pub(super) out_of_order: u64,
    pub(super) duplicates: u64,
    pub(super) jitter_ns: Option<f64>,
    pub(super) retransmits: Option<u64>,
    pub(super) rtt_ns: Option<u64>,
    pub(super) congestion_window_bytes: Option<u64>,
    /// Units whose time on the way is known, on the sender's clock.
    pub(super) delayed: u64,
    /// What they took together.
    pub(super) delay_sum_ns: u64,
}

/// What a flow's sender tells its receivers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Sent {
    /// Datagrams that were given a number; 0 of TCP.
    pub(super) units: u64,
    pub(super) bytes: u64,
    /// Datagrams that were refused, by stage.
    pub(super) refused: BTreeMap<String, u64>,
}

/// What one end counted in a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct SideResult {
    pub(super) flows: Vec<FlowResult>,
    pub(super) used: Used,
    /// The same in the terms of a cost.
    pub(super) processor: Processor,
    /// What was put on the host's processors on purpose; it is part of what was used.
    #[serde(default)]
    #[serde(rename = "burned")]
    pub(super) applied_load: Option<AppliedLoad>,
    /// What makes the run no whole one: flows that failed, accounts that do not add up. Each once.
    pub(super) failures: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// What one end counted of a flow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct FlowResult {
    pub(super) key: FlowKey,
    pub(super) local: SocketAddr,
    pub(super) remote: Option<SocketAddr>,
    /// All of the run.
    pub(super) total: Count,
    /// What of it was counted before the measured part began.
    pub(super) omitted: Count,
    /// From when `omitted` was counted to the end of the flow; none if the flow ended before that.
    pub(super) measured_ns: Option<u64>,
    /// Units that a stall of the sender kept from being sent.
    pub(super) skipped: u64,
    pub(super) congestion_control: Option<String>,
    /// What the kernel granted of this end's socket buffer, before it doubles it.
    #[serde(default)]
    pub(super) buffer_bytes: Option<u64>,
    /// What became of all of it; at receivers only.
    pub(super) account: Option<Account>,
}

/// What became of all that a flow sent: `sent = received + Σ lost + unexplained`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// `datagrams` or `bytes`.
    pub unit: Unit,
    /// `closed`, or `unconfirmed` if the sender could not say how much there was.
    pub state: AccountState,
    /// Counted by the sender.
    pub sent: u64,
    /// Counted by the receiver, each once.
    pub received: u64,
    /// Did not arrive, by the stage that is known to have lost them.
    pub lost: BTreeMap<String, u64>,
    /// Did not arrive, without any trace of where.
    pub unexplained: u64,
    /// Arrived again.
    pub duplicates: u64,
    /// Drops that the receiving socket counted and that nothing missing answers to.
    pub unmatched: u64,
}

/// What an account counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Datagrams.
    Datagrams,
    /// Bytes.
    Bytes,
}

/// Whether both ends had their say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountState {
    /// They had.
    Closed,
    /// The sender could not say how much there was: the tail is not known.
    Unconfirmed,
}

impl End {
    /// Tells whether this end sends that way.
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
    /// Returns what an end that has ended had counted at any mark behind that.
    pub(super) fn at_end(side: &SideResult, mark: usize, at_ns: u64) -> Self {
        Self { mark, at_ns, flows: side.flows.iter().map(|flow| (flow.key, flow.total)).collect() }
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
    pub(super) fn of(sent: &FlowSent) -> Self {
        Self { units: sent.numbered, bytes: sent.bytes, refused: by_name(&sent.refused) }
    }

    /// Returns it in the words of `probe`; stages that do not exist are left out.
    pub(super) fn to_flow(&self) -> FlowSent {
        let mut refused = StageCounts::default();
        for (name, count) in &self.refused {
            if let Ok(stage) = name.parse::<Stage>() {
                refused[stage] = *count;
            }
        }
        FlowSent { numbered: self.units, bytes: self.bytes, refused }
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
        let state = match account.state {
            FlowState::Closed => AccountState::Closed,
            FlowState::Unconfirmed => AccountState::Unconfirmed,
        };
        Self {
            unit: Unit::Datagrams,
            state,
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

    /// Writes it as an equation.
    #[must_use]
    pub(crate) fn in_words(&self) -> String {
        let lost: String = self.lost.iter().map(|(stage, count)| format!(" + {count} {stage}")).collect();
        format!("{} sent = {} received{lost} + {} unexplained", self.sent, self.received, self.unexplained)
    }

    /// Returns how much did not arrive.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.lost.values().sum::<u64>() + self.unexplained
    }

    /// Tells whether everything arrived, as far as both ends can tell.
    #[must_use]
    pub fn is_loss_free(&self) -> bool {
        self.state == AccountState::Closed && self.missing() == 0
    }

    /// Tells whether no more than so many millionths did not arrive, as far as both ends can tell.
    #[must_use]
    pub fn loses_at_most(&self, most_ppm: u32) -> bool {
        let (missing, sent) = (u128::from(self.missing()), u128::from(self.sent));
        self.state == AccountState::Closed && missing * 1_000_000 <= sent * u128::from(most_ppm)
    }

    /// Tells whether it adds up.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        self.sent == self.received + self.missing()
    }
}

pub(super) fn by_name(counts: &StageCounts) -> BTreeMap<String, u64> {
    counts.nonzero().map(|(stage, count)| (stage.name().to_owned(), count)).collect()
}
