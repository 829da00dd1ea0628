//! The timeliness-first stream machine: a publisher's [`Sender`] and a reader's [`Receiver`].
//!
//! Both are values that are told the time and what happened, and say what to do: no socket, no clock, no
//! thread. So every behaviour is proven first in a virtual network, under seeds, against the network's own
//! log of every datagram (`tests/`), before it meets a kernel.
//!
//! Data are never repaired: a lost datagram is a gap, declared on evidence, put down to a stage, and passed
//! over. What is late is worthless here; what is missing is said.

mod receiver;
mod sender;

pub mod receive {
    //! The reader's side.
    pub use crate::receiver::{
        AccountView, Event, Input, Output, Outputs, Payload, ReaderIdentity, Receiver, ReceiverStats, Train,
        UnknownExtensions, WaitsSince,
    };
}

pub mod send {
    //! The publisher's side.
    pub use crate::sender::{
        Beginning, DEFAULT_LINGER, DEFAULT_TRAIN, Input, Limits, Output, Pacing, ReaderReport, ReportStats,
        Sender, SenderConfig, SenderEvent, Sending,
    };
}

pub use receive::Receiver;
pub use send::Sender;
