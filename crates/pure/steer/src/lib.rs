//! Steering: changing the parameters of a running app, so that each change is accounted for.
//!
//! An app declares [`Parameter`]s. Others send [`Command`]s; the app itself decides on each at a step boundary
//! ([`App`]), so that the first sample with the change is known. Every command has exactly one [`Answer`], the sum of
//! the answers is that of the commands ([`Totals`]), and a log has the intent before the effect and the outcome
//! before the answer ([`Record`]).
//!
//! Rules and laws: `docs/protocol/steering.md`. There is no clock, disk or socket here.

mod answer;
mod app;
mod bytes;
mod client;
mod command;
mod lease;
mod log;
mod message;
mod parameter;
mod record;
mod rule;
mod seen;
mod switch;
mod totals;
mod value;

pub use answer::{Answer, Applied, Reply};
pub use app::{
    App, AppError, Config, Declared, Done, Effect, Kept, MAX_OUTSTANDING, MAX_PARAMETERS, MAX_RECOVERED,
    MAX_REMEMBERED, MAX_SESSIONS, MAX_UNWRITTEN, NotKept, Output, Question, Recovery, Standing,
};
pub use client::{ASK_INTERVAL, Client, Conclusion, MAX_QUESTIONS, Message, NEXT_RUN_PATIENCE};
pub use command::{Command, CommandId, MAX_NAME_BYTES, MAX_REASON_BYTES, MAX_VALIDITY, SessionId};
pub use lease::{Granted, LEASE_DURATION, LeaseError};
pub use log::{Entry, FRAME_BYTES, HEAD_SUBJECT, Head, Log, LogError, MAX_RECORD_BYTES, Mark, SignedHead};
pub use message::{Listed, MAX_MESSAGE_BYTES, Request, Response, VERSION, Welcome};
pub use parameter::{MAX_UNIT_BYTES, Needs, Parameter, ParameterError};
pub use record::{LeaseChange, Record};
pub use rule::Rule;
pub use seen::{Break, Seen};
pub use switch::{Hand, Scope, SwitchError, Switches};
pub use totals::Totals;
pub use value::{MAX_DIMENSIONS, MAX_VALUE_BYTES, Number, Value, ValueError};
