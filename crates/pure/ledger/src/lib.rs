//! The account of a stream: where every datagram and every element went.
//!
//! `sent since joining = delivered + Σ lost[stage] + unexplained`, once nothing is in flight or unsettled,
//! and no term is computed from the others. Start with [`Stage`] (where things are lost), then [`Book`] (the
//! running account at a receiving socket), [`Leg`] (a reader behind it) and [`Account`] (what is shown).
//! This crate is the only home of `Stage` and `Gap`.
//!
//! Source: `ARCHITECTURE.md`, "The account, precisely".

mod account;
mod apportion;
mod book;
mod brackets;
mod entry;
mod gap;
mod leg;
mod notice;
mod samples;
mod shares;
mod stage;

pub use account::{Account, AccountState, Imbalance, NetworkRows, ReaderRows};
pub use book::{Accepted, Book, BookConfig, Change, Reclassified};
pub use brackets::{BookKey, Brackets, DropUnit, MAX_TRAIN};
pub use gap::{Evidence, EvidenceSource, Gap, GapKind, MAX_POSITION, Unit, UnsoundGap};
pub use leg::{Leg, Unbookable};
pub use notice::{DropNotice, KernelName};
pub use samples::SampleRows;
pub use stage::{Stage, StageCounts, UnknownStage};
