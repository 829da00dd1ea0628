//! Steering: parameters of a running app that others change, with an account of every command.
//!
//! A cyclic app declares parameters with [`cyclic::App::parameter`](crate::cyclic::App::parameter). A program with a
//! loop of its own asks at each step with [`Steering::step`]. [`Remote`] is the other end. Protocol:
//! `docs/protocol/steering.md`.
//!
//! ```no_run
//! use tallycast::steering::Parameter;
//! use tallycast::Node;
//!
//! let node = Node::from_env()?;
//! let mut publisher = node.publisher("sim/rod").rate(100).open()?;
//! let mut builder = node.steering("sim/rod");
//! let heater = builder.parameter(Parameter::new("heater", 1.0).unit("kW").range(0.0, 5.0).lease("heating"));
//! let mut steering = builder.open(publisher.epoch())?;
//! loop {
//!     let time = tallycast::now();
//!     steering.step(publisher.next_index(), time); // never waits
//!     let power: f64 = steering.value(heater)[0];
//!     publisher.send_at(time, &[power as f32])?;
//!     steering.done(); // the changes of this step are in a sample
//! }
//! # #[expect(unreachable_code, reason = "so that the question marks have a type")]
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod app;
mod builder;
mod connection;
mod discovery;
mod host;
mod json;
mod knock;
mod log_file;
mod parameter;
mod remote;
mod row;
mod station;
mod verify;

pub use ::steer::{
    Answer, Applied, Break, CommandId, Conclusion, Entry, Granted, Head, Kept, Listed, Log, LogError,
    MAX_VALIDITY, Mark, Needs, NotKept, Number, Record, Rule, Scope, Switches, Totals, Value, Welcome,
};
pub use access::Policy;
pub use app::{Change, Steering};
pub use builder::{FIRST_PORT, LAST_PORT, SteeringBuilder};
pub use discovery::{Found, apps, find};
pub use json::{conclusion_json, parameter_json, record_json, stopped_json, totals_json, value_json};
pub use log_file::default_log;
pub use parameter::{Parameter, Steered};
pub use remote::{News, Remote, SetOptions};
pub use row::{KEY_LABEL, MARK_CHANNELS, PARAMETER_LABEL, PORT_LABEL, STREAM_PREFIX};
pub use station::StationKeys;
pub use verify::{VerifiedLog, read_log, verify_log};

use std::io;
use std::path::PathBuf;

use sample::SchemaError;

use crate::node::NodeError;
use crate::publisher::PublishError;
use crate::udt;

/// Reason why steering is not possible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SteeringError {
    /// The name of the app is not that of a stream.
    #[error(transparent)]
    Name(#[from] SchemaError),
    /// A parameter is not declared soundly.
    #[error(transparent)]
    Parameter(#[from] ::steer::ParameterError),
    /// The values with which a parameter begins are not those of its shape.
    #[error(transparent)]
    Value(#[from] ::steer::ValueError),
    /// The log cannot be read or written.
    #[error("the log of commands, {}: {error}\nan app without a log is not steered: name a file that can be written", path.display())]
    LogFile {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// Another process writes the log.
    #[error("another process writes the log of commands, {}\nend the other run of this app first", path.display())]
    LogInUse {
        /// The file.
        path: PathBuf,
    },
    /// The log was changed.
    #[error("{error}: {}\nkeep it as evidence and begin another file", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: LogError,
    },
    /// The signed head of the log is missing, or not one of this laboratory.
    #[error("the signed head of the log, {}: {error}", path.display())]
    Head {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: String,
    },
    /// The rules of access cannot be read.
    #[error("the rules of access, {}: {error}", path.display())]
    Rules {
        /// The file.
        path: PathBuf,
        /// The error, with what helps.
        error: String,
    },
    /// A station's file of keys cannot be used.
    #[error("{}: {error}", path.display())]
    Keys {
        /// The file.
        path: PathBuf,
        /// The error, with what helps.
        error: String,
    },
    /// The app takes secured connections, and there is no key to open one.
    #[error(
        "`{0}` takes commands over secured connections only\ngive the station's file of keys, which lists the app's station"
    )]
    Secured(String),
    /// The station of the app is not listed.
    #[error("the app's key {0} is not one of the listed peers\nlist its station with `tallycast keys peers`")]
    Unlisted(String),
    /// No port is free.
    #[error(
        "none of the ports {FIRST_PORT} to {LAST_PORT} is free on {host}\nend an app, or name another address"
    )]
    NoPort {
        /// The address.
        host: String,
    },
    /// Commands from other hosts would come in the clear.
    #[error(
        "an app is steered from other hosts over secured connections only\ngive it the station's keys, or let it listen at 127.0.0.1"
    )]
    Clear,
    /// The connection cannot be opened, or has ended.
    #[error(transparent)]
    Connection(#[from] udt::Error),
    /// The stream of commands cannot be published.
    #[error(transparent)]
    Stream(#[from] NodeError),
    /// As [`Stream`](Self::Stream), later.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// A thread cannot be started.
    #[error("a thread for steering cannot be started: {0}")]
    Thread(#[source] io::Error),
    /// No app of this name can be steered.
    #[error("no app `{0}` that can be steered is on this bus\nlist them with `tallycast steer list`")]
    NoApp(String),
    /// The peer does not speak this protocol.
    #[error(
        "the peer does not speak version {} of steering\nuse one version of Tallycast at both ends",
        ::steer::VERSION
    )]
    Version,
    /// The app ended the connection.
    #[error("the app ended the connection: {0}")]
    Closed(String),
    /// The app refused a lease or a kill switch.
    #[error("{0}")]
    Refused(String),
    /// The app has no such parameter.
    #[error("the app has no parameter `{0}`\nlist them with `tallycast steer get`")]
    NoParameter(String),
    /// The app did not answer in time.
    #[error("the app did not answer within {0:?}")]
    NoAnswer(std::time::Duration),
}
