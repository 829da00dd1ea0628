//! Agents that drive the pure stream machines over sockets and rings; they own the threads of the
//! data path.
//!
//! A node of `tallycast` has at most one [`SendAgent`] and one [`ReceiveAgent`]. Each is a thread
//! with a duty cycle: take input, poll every machine, sleep until the earliest deadline or the next
//! event. Data between an agent and the rest of the process pass through rings of
//! [records](record): a reader can slow neither the agent nor another reader.
//!
//! Not here: the definition of a stream (`sample`), its protocol (`cast`), the public interface
//! (`tallycast`).

mod bytes;
mod control_messages;
mod drop_board;
mod host;
mod interface_watch;
mod ledger_page;
mod present_keys;
mod receive;
pub mod record;
mod relay_board;
mod reliable;
mod report_board;
mod send;
mod thread;
mod waker;

pub use drop_board::DropBoard;
pub use host::{
    AgentPresence, BEAT_INTERVAL, HostRing, HostRingError, HostRings, HostStream, LeftRing, ReaderPresence,
    RingName, RingRead, RingReader, RingWriter, Waiting, Withheld,
};
pub use ledger_page::{EpochOnPage, read_ledger_page};
pub use receive::{
    AdmissionCounts, Announced, Attendance, PortStatus, ReceiveAgent, ReceiveConfig, ReceiveError,
    ReceiveFrom, ReceivesFor, StreamAccountView, Subscription, UnjoinedStreams, Waits,
};
pub use relay_board::{RelayBoard, RelayOnHost, relays_on_host};
pub use reliable::{News, PortError, PortKeys, PortOptions, ReliablePort, Standing, WaitError, Way};
pub use report_board::{HeardReport, HeardReports, Sharing};
pub use send::{
    Departures, Publication, PublicationConfig, PublicationStatus, RelayedError, RelayedPublication,
    SendAgent, SendConfig, SendError, SocketFull, open_on_host, open_relayed_on_host,
};
pub use thread::{Idle, ThreadTuning};

/// Maximum sleep of an agent, so that a lost wake-up delays it by no more.
const MAX_SLEEP: std::time::Duration = std::time::Duration::from_secs(1);
