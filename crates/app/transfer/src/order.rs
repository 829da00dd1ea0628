//! Transfer between two hosts on the order of a third: the client tells a host which of its offered files go to which
//! receiver, and hears of the progress and the account.
//!
//! Source: third-party transfers of GridFTP (Allcock et al. 2005). There is no delegation of rights here: the host
//! offers one folder to everybody who reaches its port.

use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::PoisonError;

use serde::{Deserialize, Serialize};

use crate::VERSION;
use crate::failure::Failure;
use crate::frame::FromSender;
use crate::line::Line;
use crate::outcome::{Outcome, Tally};
use crate::patience::Pulse;
use crate::send::PROTOCOL;

/// Order to send some of the offered files to a receiver.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Paths below the offered folder, parts divided by `/`.
    pub paths: Vec<String>,
    /// Address of the receiver, as the sending host reaches it.
    pub to: String,
    /// Number of parallel streams.
    pub streams: u32,
    /// Maximum rate of all streams together. Units: bytes per second.
    pub max_bytes_per_s: Option<u64>,
}

/// Report of a transfer to the one who ordered it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The list is known.
    Listed {
        /// Number of files and directories in it.
        entries: u64,
        /// Size of the entries, in bytes.
        bytes: u64,
    },
    /// Something within a directory is not sent.
    LeftOut {
        /// Path, escaped for a terminal.
        path: String,
        /// Reason.
        reason: String,
    },
    /// State of the transfer, at intervals.
    Progress {
        /// Size moved so far, over all connections. Units: bytes.
        moved_bytes: u64,
    },
    /// An entry has its outcome.
    File {
        /// Path of the entry.
        path: String,
        /// Size of the entry. Units: bytes.
        bytes: u64,
        /// Outcome of the entry.
        outcome: Outcome,
    },
    /// The account at the end, with the error that ended it early.
    Account {
        /// The account.
        tally: Tally,
        /// Size moved over all connections. Units: bytes.
        moved_bytes: u64,
        /// Error, if there was one.
        error: Option<String>,
    },
    /// The order cannot be carried out.
    Fail {
        /// Reason.
        reason: String,
    },
}

/// Account of an ordered transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    /// The account of the sending host.
    pub tally: Tally,
    /// Size moved over all connections. Units: bytes.
    pub moved_bytes: u64,
    /// Error that ended the transfer early.
    pub error: Option<String>,
}

/// Gives an order and waits for the account; `tell` gets the reports before it.
///
/// # Errors
/// [`Failure::Peer`] if the host refuses the order or does not know orders.
pub fn order<C>(
    connection: &C,
    order: &Order,
    stop: &(dyn Fn() -> bool + Sync),
    tell: &mut dyn FnMut(Report),
) -> Result<Carried, Failure>
where
    for<'c> &'c C: Read + Write,
{
    let pulse = Pulse::new(None);
    let line = Line { connection, stop, pulse: &pulse };
    line.say(&FromSender::Order { protocol: PROTOCOL.to_owned(), version: VERSION, order: order.clone() })?;
    let mut body = Vec::new();
    loop {
        match line.hear_word(&mut body)? {
            Report::Account { tally, moved_bytes, error } if tally.closes() => {
                return Ok(Carried { tally, moved_bytes, error });
            }
            Report::Account { .. } => return Err(Failure::protocol("an account that does not close")),
            Report::Fail { reason } => return Err(Failure::Peer(reason)),
            report => tell(report),
        }
    }
}

/// Way back to the one who ordered a transfer; calls of several threads follow each other.
pub struct Reporter<'a, C> {
    connection: &'a C,
    stop: &'a (dyn Fn() -> bool + Sync),
    turn: Mutex<()>,
}

impl<'a, C> Reporter<'a, C>
where
    for<'c> &'c C: Read + Write,
{
    /// Makes the way back; writes that find no room give up once `stop` returns true.
    #[must_use]
    pub const fn new(connection: &'a C, stop: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { connection, stop, turn: Mutex::new(()) }
    }

    /// Sends a report.
    ///
    /// # Errors
    /// If the one who ordered has gone.
    pub fn report(&self, report: &Report) -> Result<(), Failure> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let pulse = Pulse::new(None);
        Line { connection: self.connection, stop: self.stop, pulse: &pulse }.say(report)
    }

    /// Waits until the one who ordered has gone, or `stop` returns true: nothing more is expected of them.
    pub fn wait_for_end(&self) {
        let pulse = Pulse::new(None);
        let line = Line { connection: self.connection, stop: self.stop, pulse: &pulse };
        drop(line.hear_word::<FromSender>(&mut Vec::new()));
    }
}
