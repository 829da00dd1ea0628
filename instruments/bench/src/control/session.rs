//! Parts of a measurement over a control connection that all tests share, at either end.
//!
//! The client [begins](begin) a test and asks for one run after the other. The server's loop is in [`Serve`]: it
//! checks the parameters, passes each request to the [`Test`], and sends the client the result.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sys::Cancellation;

use super::connection::{Connection, ControlError, Patience, plain};
use super::message::Message;
use super::secured::ServerAt;
use crate::host_state::HostState;

/// Interval at which a wait for a message checks the request to end: a thread reads the control connection, and
/// its channel has no descriptor to wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The server's part of a kind of measurement: all that differs between them.
pub(crate) trait Test: Sync {
    /// Parameters, from the client.
    type Parameters: Serialize + DeserializeOwned;
    /// Messages.
    type Word: Serialize + DeserializeOwned;

    /// Name of the test in messages.
    const NAME: &'static str;

    /// Checks the parameters: a server does not trust its clients.
    ///
    /// # Errors
    /// [`ServeError::Refused`].
    fn check(&self, parameters: &Self::Parameters) -> Result<(), ServeError>;

    /// Takes part in the run that `request` asks for.
    ///
    /// # Errors
    /// [`ServeError`], which ends the test.
    fn run(
        &self,
        parameters: &Self::Parameters,
        request: Self::Word,
        session: &mut Session<'_>,
    ) -> RunResult<Self::Word>;
}

/// The result of a run at the server, or why it ends the test.
pub(crate) type RunResult<W> = Result<Outcome<W>, ServeError>;

/// The outcome of a run at the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome<W> {
    /// It has this result.
    Done(W),
    /// The client gave it up before it began.
    GivenUp,
    /// The client left before it began.
    Left,
}

/// A test that a server offers.
pub trait Serve: Sync {
    /// Returns the name of the test in messages.
    fn name(&self) -> &'static str;

    /// Takes part until the client leaves or the server is to end.
    ///
    /// # Errors
    /// [`ServeError`], which is reported to the client.
    fn serve(&self, parameters: Value, session: &mut Session<'_>) -> Result<(), ServeError>;
}

impl<T: Test> Serve for T {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn serve(&self, parameters: Value, session: &mut Session<'_>) -> Result<(), ServeError> {
        let parameters = serde_json::from_value(parameters)
            .map_err(|error| ServeError::Refused(format!("invalid test parameters: {error}")))?;
        self.check(&parameters)?;
        while let Some(request) = session.hear_request()? {
            match self.run(&parameters, request, session)? {
                Outcome::Done(result) => session.connection.say(&result)?,
                Outcome::GivenUp => {}
                Outcome::Left => break,
            }
        }
        Ok(())
    }
}

/// The server's end of a measurement.
#[derive(Debug)]
pub struct Session<'a> {
    /// Connection to the client.
    pub(crate) connection: &'a mut Connection,
    /// Request that the server ends.
    pub(crate) cancellation: &'a Cancellation,
}

impl Session<'_> {
    /// Returns an error once the server is to end.
    pub(crate) fn ensure_running(&self) -> Result<(), ServeError> {
        if self.cancellation.is_cancelled() { Err(ServeError::Ended) } else { Ok(()) }
    }

    /// Waits for a message, for the whole allowed silence and until the server is to end.
    pub(super) fn hear(&mut self) -> Result<Message, ServeError> {
        let silence = self.connection.patience().silence;
        let until = Instant::now() + silence;
        while Instant::now() < until {
            self.ensure_running()?;
            if let Some(message) = self.connection.hear(until.min(Instant::now() + POLL_INTERVAL))? {
                return Ok(message);
            }
        }
        Err(ControlError::Silent { peer: self.connection.peer_address(), silence }.into())
    }

    /// Waits for the request for a run; `None` if the client says good-bye.
    fn hear_request<W: DeserializeOwned>(&mut self) -> Result<Option<W>, ServeError> {
        match self.hear()? {
            Message::Bye => Ok(None),
            Message::Word(word) => match serde_json::from_value(word.clone()) {
                Ok(request) => Ok(Some(request)),
                Err(_) => Err(self.connection.unexpected(&Message::Word(word)).into()),
            },
            other => Err(self.connection.unexpected(&other).into()),
        }
    }

    /// Waits for a message of the test, until the server is to end.
    pub(crate) fn hear_word<W: DeserializeOwned>(&mut self) -> Result<W, ServeError> {
        loop {
            self.ensure_running()?;
            if let Some(word) = self.connection.hear_word(Instant::now() + POLL_INTERVAL)? {
                return Ok(word);
            }
        }
    }

    /// Waits for the message that the client has sent all, which `sent` recognises: for at most the length of a
    /// run and the patience. `cancelled` is called meanwhile once the server is to end.
    pub(crate) fn hear_sent<W: Serialize + DeserializeOwned, S>(
        &mut self,
        duration: Duration,
        sent: impl Fn(&W) -> Option<S>,
        mut cancelled: impl FnMut(&mut Connection) -> Result<(), ServeError>,
    ) -> Result<S, ServeError> {
        let longest = duration + self.connection.patience().silence;
        let deadline = Instant::now() + longest;
        loop {
            if self.cancellation.is_cancelled() {
                cancelled(self.connection)?;
            }
            match self.connection.hear_word(Instant::now() + POLL_INTERVAL)? {
                None if Instant::now() >= deadline => return Err(ServeError::NeverSent(longest)),
                None => {}
                Some(word) => return sent(&word).ok_or_else(|| self.unexpected(&word)),
            }
        }
    }

    /// Returns the error for a message of the test that is invalid at this point.
    pub(crate) fn unexpected<W: Serialize>(&self, word: &W) -> ServeError {
        self.connection.unexpected_word(word).into()
    }
}

/// The client's end of a measurement that has begun.
pub(crate) struct Begun {
    /// Connection to the server.
    pub(crate) connection: Connection,
    /// State of this host.
    pub(crate) client: HostState,
    /// State of the server's host.
    pub(crate) server: HostState,
}

impl Begun {
    /// Returns the smaller MTU of both ends' interfaces; `None` if neither is known.
    pub(crate) fn mtu_bytes(&self) -> Option<u32> {
        let interfaces = [&self.client, &self.server].into_iter().filter_map(|host| host.interface.as_ref());
        interfaces.map(|interface| interface.mtu_bytes).min()
    }
}

/// Begins a test with the server at an address, over the interface that has the address `from`.
///
/// # Errors
/// [`ControlError`], with a remedy.
pub(crate) fn begin<T: Test>(
    parameters: &T::Parameters,
    server: ServerAt<'_>,
    from: Option<IpAddr>,
    patience: Patience,
) -> Result<Begun, ControlError> {
    let from = from.map(|address| SocketAddr::new(address, 0));
    let (mut connection, server) = Connection::open(server, from, patience)?;
    let client = HostState::look_towards(connection.local_address().ip(), connection.peer_address());
    connection.tell(&Message::Begin { test: T::NAME.to_owned(), parameters: plain(parameters) })?;
    Ok(Begun { connection, client, server })
}

/// Reasons why a server could not take part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is in use, or does not belong to this host.
    #[error("cannot listen on {address}: {source}\n{remedy}")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The remedy.
        remedy: &'static str,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The control connection failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The client's request is invalid; reported to the client.
    #[error("{0}")]
    Refused(String),
    /// The client is alive but does not continue.
    #[error(
        "the client has not reported within {0:?} that it has sent all\nstart the measurement again; if this recurs, report it"
    )]
    NeverSent(Duration),
    /// Another client was faster: its address is reported to this one.
    #[error("the server is busy measuring with {with}")]
    Busy {
        /// Address of the faster client.
        with: SocketAddr,
    },
    /// The client has no listed key; it was told, and reported as refused.
    #[error("the client was refused")]
    Unwelcome,
    /// The server is to end; reported to the client.
    #[error("the server was ended")]
    Ended,
    /// A test panicked.
    #[error("a defect of this program ended the test\nsee its message above, and report it")]
    Defect,
}

impl ServeError {
    /// Refuses what a client asks for.
    pub(crate) fn refused(error: impl std::error::Error) -> Self {
        Self::Refused(error.to_string())
    }
}
