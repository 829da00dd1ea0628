//! Errors between a client and a server, each with its remedy.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::parameters::Refusal;
use super::state::meaning;

/// Reasons why the conversation of a test ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The peer closed the control connection.
    #[error(
        "the peer left while {during}\nsee its own messages: it may have been ended, or have found a fault"
    )]
    Closed {
        /// Activity of this side at the time.
        during: &'static str,
    },
    /// The control connection failed.
    #[error("the control connection failed: {0}\nsee whether the peer still runs")]
    Control(io::Error),
    /// The peer was silent for too long.
    #[error(
        "the peer has been silent for {silence:?} while {during}\nsee whether it still runs, and whether a firewall lets TCP and UDP of its port through"
    )]
    Silent {
        /// Activity of this side at the time.
        during: &'static str,
        /// Duration of the silence.
        silence: Duration,
    },
    /// No data arrived for too long.
    #[error(
        "no data for {silence:?}\nsee whether the peer still runs, and whether a firewall lets its streams through"
    )]
    Stalled {
        /// Duration without data.
        silence: Duration,
    },
    /// A test continued after the time that its client had set.
    #[error("the client did not end its test after {after:?}\nsee whether it still runs")]
    Overdue {
        /// The time limit.
        after: Duration,
    },
    /// An unknown state, or one that is not valid at present.
    #[error(
        "unexpected byte {byte:#04x} from the peer while {during}\nsee whether the other side is iperf3, version 3.1 or newer"
    )]
    Unexpected {
        /// The byte.
        byte: u8,
        /// Activity of this side at the time.
        during: &'static str,
    },
    /// A text longer than any valid one.
    #[error("the peer announced a text of {announced} bytes\nsee whether the other side is iperf3")]
    TooLong {
        /// The announced length.
        announced: u32,
    },
    /// More data than requested.
    #[error("the peer sends data without being asked\nsee whether the other side is iperf3")]
    TooMuch,
    /// A text that is not JSON, or of another shape.
    #[error("the peer's {what} cannot be read: {source}\nsee whether the other side is iperf3")]
    Json {
        /// Parameters or results.
        what: &'static str,
        /// Error of the parser.
        source: serde_json::Error,
    },
    /// The client requests an unsupported feature.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server has another client.
    #[error("the server is busy with another test\ntry again when that one is over")]
    Busy,
    /// The server reported an error.
    #[error("the server refuses the test: {} (its error {code}{})", meaning(*code), with_errno(*errno))]
    Fault {
        /// Number of iperf3's error.
        code: u32,
        /// The system's error number on the server, or 0.
        errno: u32,
    },
    /// The peer was ended.
    #[error("the peer was ended before the test was over\nrun it again")]
    Terminated,
    /// This program was asked to end.
    #[error("ended before the test was over")]
    Interrupted,
    /// A data stream failed.
    #[error("stream {stream} failed: {source}{}", way_out(source))]
    Stream {
        /// Number of the stream.
        stream: u32,
        /// Error of the system.
        source: io::Error,
    },
}

/// Reasons why a server cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An option is invalid.
    #[error(transparent)]
    Options(#[from] crate::options::OptionsError),
    /// The port is not available.
    #[error(
        "cannot listen on {address}: {source}\nstop what listens there (`ss -ltnp`), or choose another port with -p"
    )]
    Listen {
        /// Requested address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The system refused another file.
    #[error("waiting for clients failed: {0}\nsee how many files this process may open: ulimit -n")]
    Wait(#[from] io::Error),
}

/// Reasons why a client's test was not completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The options contradict each other.
    #[error(transparent)]
    Options(#[from] crate::options::OptionsError),
    /// The name is unknown.
    #[error("unknown host {host}: {source}\ngive an address, or check the spelling of the name")]
    Resolve {
        /// The name.
        host: String,
        /// Error of the system.
        source: io::Error,
    },
    /// No listener, or no answer.
    #[error("no server at {address}: {source}\nstart one there: iperf3 -s -p {}", address.port())]
    Connect {
        /// Address that was tried.
        address: SocketAddr,
        /// Error of the system.
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
            "\nthe peer closed it: see its own messages"
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
