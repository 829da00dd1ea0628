//! What goes wrong between a client and a server, each with what to do about it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::parameters::Refusal;
use super::state::{State, meaning};

/// Says why the conversation of a test ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The peer closed the control connection.
    #[error(
        "the peer left while {during}\nlook at what it says itself: it may have been ended, or have found a fault"
    )]
    Closed {
        /// What was awaited.
        during: &'static str,
    },
    /// The peer said nothing for too long.
    #[error(
        "the peer said nothing for {silence:?} while {during}\nsee whether it still runs, and whether a firewall lets TCP and UDP of its port through"
    )]
    Silent {
        /// What was awaited.
        during: &'static str,
        /// For how long.
        silence: Duration,
    },
    /// No data came for too long.
    #[error(
        "no data for {silence:?}\nsee whether the peer still runs, and whether a firewall lets its streams through"
    )]
    Stalled {
        /// For how long.
        silence: Duration,
    },
    /// A test ran on after the time that its client said.
    #[error("the client did not end its test after {after:?}\nsee whether it still runs")]
    Overdue {
        /// The time that it had.
        after: Duration,
    },
    /// A byte that is no state, or one that has no place here.
    #[error(
        "unexpected byte {byte:#04x} from the peer while {during}\nsee whether the other side is iperf3, version 3.1 or newer"
    )]
    Unexpected {
        /// The byte.
        byte: u8,
        /// What was awaited.
        during: &'static str,
    },
    /// A text longer than any that makes sense.
    #[error("the peer announced a text of {announced} bytes\nsee whether the other side is iperf3")]
    TooLong {
        /// The announced length.
        announced: u32,
    },
    /// More than was asked for.
    #[error("the peer talks without being asked\nsee whether the other side is iperf3")]
    TooMuch,
    /// A text that is no JSON, or not of the shape.
    #[error("the peer's {what} cannot be read: {source}\nsee whether the other side is iperf3")]
    Json {
        /// Parameters or results.
        what: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The client wants what is not supported.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server has another client.
    #[error("the server is busy with another test\ntry again when that one is over")]
    Busy,
    /// The server found a fault.
    #[error("the server refuses the test: {} (its error {code}{})", meaning(*code), with_errno(*errno))]
    Fault {
        /// The number of the reason.
        code: u32,
        /// The system's error number on the server, or 0.
        errno: u32,
    },
    /// The peer was ended.
    #[error("the peer was ended before the test was over\nrun it again")]
    Terminated,
    /// We were told to end.
    #[error("ended before the test was over")]
    Interrupted,
    /// A data stream failed.
    #[error("stream {stream} failed: {source}{}", way_out(source))]
    Stream {
        /// Its number.
        stream: u32,
        /// What the system says.
        source: io::Error,
    },
}

impl ProtocolError {
    pub(super) fn unexpected(state: State, during: &'static str) -> Self {
        Self::Unexpected { byte: state.byte(), during }
    }
}

/// Says why a server cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An option cannot be.
    #[error(transparent)]
    Options(#[from] super::options::OptionsError),
    /// The port cannot be had.
    #[error(
        "cannot listen on {address}: {source}\nstop what listens there (`ss -ltnp`), or choose another port with -p"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The system gives nothing more.
    #[error("waiting for clients failed: {0}\nsee how many files this process may open: ulimit -n")]
    Wait(#[from] io::Error),
}

/// Says why a client's test did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The options contradict each other.
    #[error(transparent)]
    Options(#[from] super::options::OptionsError),
    /// The name is not known.
    #[error("{host} is not known: {source}\nname an address, or see whether the name is spelt so")]
    Resolve {
        /// The name.
        host: String,
        /// What the system says.
        source: io::Error,
    },
    /// No listener, or no answer.
    #[error("no server at {address}: {source}\nstart one there: iperf3 -s -p {}", address.port())]
    Connect {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The control connection failed.
    #[error("the control connection failed: {0}\nsee whether the server still runs")]
    Control(#[from] io::Error),
    /// The conversation ended early.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

fn with_errno(errno: u32) -> String {
    match i32::try_from(errno) {
        Ok(errno) if errno > 0 => format!(": {}", io::Error::from_raw_os_error(errno)),
        _ => String::new(),
    }
}

fn way_out(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            "\nthe peer closed it: see what it says itself"
        }
        io::ErrorKind::TimedOut => "\nsee whether a firewall lets the port through, for UDP too",
        io::ErrorKind::NotFound => {
            "\nthat congestion control is not there: cat /proc/sys/net/ipv4/tcp_available_congestion_control"
        }
        _ if source.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error()) => {
            "\ntake smaller datagrams with -l"
        }
        _ => "",
    }
}
