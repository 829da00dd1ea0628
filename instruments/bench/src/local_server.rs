//! A local server, for a measurement with both ends on this host.

use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::child::{OwnedProcess, Program};

/// Time a server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server process. Dropping it ends it.
#[derive(Debug)]
pub struct LocalServer {
    _process: OwnedProcess,
    address: SocketAddr,
}

/// Reasons why no local server could be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalServerError {
    /// The program could not be started.
    #[error("the local server cannot be started: {source}\nsee whether `{program}` can be started")]
    Start {
        /// Program that should have been started.
        program: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The server did not print its address.
    #[error("the local server ended before it listened\nsee the lines above for its reason")]
    Ended,
}

impl LocalServer {
    /// Starts a server; its program must print its listening address as its first line, and end when its
    /// standard input does.
    ///
    /// # Errors
    /// [`LocalServerError`].
    pub fn start(program: &Program, listen: IpAddr) -> Result<Self, LocalServerError> {
        Self::start_by(program.command(), program, listen)
    }

    /// Starts a server by a command with a prefix, such as one that enters a namespace.
    pub(crate) fn start_by(
        mut command: Command,
        program: &Program,
        listen: IpAddr,
    ) -> Result<Self, LocalServerError> {
        command.arg("--listen").arg(listen.to_string());
        let (process, output) = OwnedProcess::spawn(command).map_err(|source| LocalServerError::Start {
            program: program.path.display().to_string(),
            source,
        })?;
        let (sender, first_line) = channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(output).lines();
            let address: Option<SocketAddr> = lines.next().and_then(|line| line.ok()?.parse().ok());
            // The channel's receiver is gone: the server is being dropped.
            let _ = sender.send(address);
        });
        let address = first_line.recv_timeout(PATIENCE).ok().flatten().ok_or(LocalServerError::Ended)?;
        Ok(Self { _process: process, address })
    }

    /// Returns the address at which it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}
