//! The key service of a laboratory: a schedule of secrets, and how members get them.
//!
//! [`Schedule`] says which secret members send with when, and makes the next ones ahead of their time. A member's
//! [`Client`] asks the service again and again, and holds what it answered: the secret in use, those kept, and two future
//! ones, so that the service may be away for two lifetimes. Both know the time and random bits from their callers.
//!
//! [`Question`] and [`Answer`] are what they say to each other, inside a session of the crate `noise`; layout and
//! timing are those of `docs/protocol/key-service.md`.

mod client;
mod file;
mod message;
mod schedule;

pub use client::{Client, Held};
pub use file::{MAX_MEMBERS, Member, MemberError, Removed, ServiceAddress, ServiceFile};
pub use message::{Answer, Content, MAX_MESSAGE_BYTES, QUESTION_BYTES, Question, RefusedFor, Unreadable};
pub use schedule::{FUTURE_SECRETS, LEAD, Periods, PeriodsError, Schedule};
