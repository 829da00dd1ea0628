//! The account of a stream: the outcome of every datagram and every element.
//!
//! `sent since joining = delivered + Σ lost[stage] + unexplained`, once nothing is in flight or unsettled, and no
//! term is computed from the others. Start with [`Stage`] (where data are lost), then [`SocketLedger`] (the running
//! account at a receiving socket), [`Hop`] (a reader behind it) and [`Account`] (a view of both). This crate is the
//! only home of `Stage` and `Gap`.
//!
//! Source: `docs/protocol/account.md`.

mod account;
mod apportion;
mod brackets;
mod causes;
mod chain;
mod entry;
mod gap;
mod hop;
mod notice;
mod samples;
mod shares;
mod socket_ledger;
mod stage;

pub use account::{Account, AccountState, Imbalance, NetworkRows, ReaderRows};
pub use brackets::{Brackets, DropUnit, LedgerKey, MAX_TRAIN};
pub use chain::{HopCounts, HopRows, HopShare, InvalidHops, MAX_HOPS, Outcome};
pub use gap::{Cause, Evidence, EvidenceSource, Gap, GapKind, MAX_POSITION, Unit, UnsoundGap};
pub use hop::{Hop, InconsistentRecord};
pub use notice::{DropNotice, KernelName};
pub use samples::SampleRows;
pub use socket_ledger::{Accepted, Change, LedgerConfig, Reclassified, SocketLedger};
pub use stage::{Stage, StageCounts, UnknownStage};
