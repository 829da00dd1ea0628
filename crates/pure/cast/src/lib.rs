//! The timeliness-first stream machine: a publisher's [`Sender`] and a reader's [`Receiver`].
//!
//! Both are pure state machines: inputs are the time and what happened, outputs are what to do. They have no socket,
//! no clock and no thread. Every behaviour is therefore proven first in a virtual network, under seeds, against the
//! network's own log of every datagram (`tests/`), before it meets a kernel.
//!
//! Data are never repaired: a lost datagram becomes a gap, declared on evidence, attributed to a stage, and skipped.
//! Late data have no value here; missing data are always reported.

mod receiver;
mod security;
mod sender;

pub mod receive {
    //! The receiving side.
    pub use crate::receiver::{
        AccountView, Block, EpochNews, Event, Input, Output, Outputs, Payload, ReaderIdentity, Receiver,
        ReceiverStats, StatedDeadlines, Train, UnknownExtensions, WaitsSince,
    };
}

pub mod secure {
    //! Secured datagrams at the border of the machines.
    pub use crate::security::{
        ControlOpener, ControlSealer, Gate, GateEvent, GateStats, Passed, Unauthentic, UnauthenticCounts,
    };
}

pub mod send {
    //! The sending side.
    pub use crate::sender::{
        Beginning, DEFAULT_LINGER, DEFAULT_TRAIN, ElementTimes, Input, Limits, MAX_SECURED_DESTINATIONS,
        Output, Pacing, ReaderDeadlines, ReaderReport, Relayed, ReportStats, Sender, SenderConfig,
        SenderEvent, SenderSecurity, Sending, StatedDeadline, StatementStats,
    };
}

pub use receive::Receiver;
pub use send::Sender;
