//! The agents that drive the pure stream machines over sockets and rings; they own the data path's threads.
//!
//! A node of `tallycast` has at most one [`SendAgent`] and one [`ReceiveAgent`]. Each is a thread with a duty cycle: take
//! what came, poll every machine, sleep until the earliest deadline or the next event. What passes
//! between an agent and the rest of the process goes through rings of [records](record): a reader can neither
//! slow the agent nor another reader.
//!
//! Not here: what a stream is (`sample`), how it behaves (`cast`), what people call (`tallycast`).

mod bytes;
mod drop_board;
mod host;
mod interface_watch;
mod ledger_page;
mod receive;
pub mod record;
mod reliable;
mod report_board;
mod send;
mod thread;
mod waker;

pub use drop_board::DropBoard;
pub use host::{
    AgentPresence, HostRing, HostRingError, HostRings, HostStream, LeftRing, ReaderPresence, RingName,
    RingWriter, Waiting, Withheld,
};
pub use ledger_page::{EpochOnPage, read_ledger_page};
pub use receive::{
    AdmissionCounts, Announced, Attendance, PortStatus, ReceiveAgent, ReceiveConfig, ReceiveError,
    ReceiveFrom, ReceivesFor, StreamAccountView, Subscription, UnjoinedStreams, Waits,
};
pub use reliable::{PortError, PortOptions, ReliablePort, WaitError};
pub use report_board::{HeardReport, HeardReports};
pub use send::{
    Departures, Publication, PublicationConfig, PublicationStatus, SendAgent, SendConfig, SendError,
    SocketFull, open_on_host,
};
pub use thread::{Idle, ThreadTuning};

/// An agent looks round at least this often, so that no lost wake-up is lost for ever.
const MAX_SLEEP: std::time::Duration = std::time::Duration::from_secs(1);
