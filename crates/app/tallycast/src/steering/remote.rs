//! The other end of an app's steering: reads parameters, sends commands, holds leases.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use ::steer::{
    Break, Client, Command, CommandId, Conclusion, Granted, Listed, MAX_VALIDITY, Message, Request, Response,
    Scope, Seen, Switches, Totals, VERSION, Value, Welcome,
};
use sys::clock;
use units::Instant;

use super::SteeringError;
use super::discovery::{REFUSAL, Run, Watch};
use super::knock::Knock;
use crate::udt::{Connection, Keys, Lifetime, Options, Silence, WaitError};

/// Time within which an app answers everything but commands.
const PATIENCE: Duration = Duration::from_secs(5);
/// Silence after which an app is not there any more: 8.4 s, less than the ten of a lease.
const SILENCE: Silence =
    Silence { attempts: 6, least_step: Duration::from_millis(300), last_step: Duration::from_secs(1) };
/// Time within which the next run of an app accepts a connection: a few round trips.
const NEXT_RUN: Duration = Duration::from_secs(2);
/// Time for which a closed connection sends what is queued; all that matters has been answered by then.
const LINGER: Duration = Duration::from_millis(500);

/// A connection to an app.
pub struct Remote {
    peer: SocketAddr,
    options: Options,
    connection: Connection,
    welcome: Welcome,
    /// Time of the welcome, on this host's clock.
    welcomed: Instant,
    /// Messages that came while another one was awaited.
    inbox: VecDeque<Response>,
    /// Asks whether the app's host refuses its port; none if there is no socket for it.
    knock: Option<Knock>,
    /// The run of the app that this is a connection to, of an app that is followed.
    run: Option<(Watch, Run)>,
    /// Heads of the app's log, as its answers tell.
    seen: Seen,
}

/// Settings of one command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetOptions {
    /// Revision that the parameter must still have; none if any will do.
    pub if_revision: Option<u64>,
    /// Time for which the command is valid, at most [`MAX_VALIDITY`].
    pub valid: Duration,
    /// Reason for the log.
    pub reason: String,
}

/// News of an app.
#[derive(Clone, PartialEq, Debug)]
pub enum News {
    /// A parameter changed, or its lease.
    Parameter(Listed),
    /// Totals or kill switches changed.
    State {
        /// The totals.
        totals: Totals,
        /// The kill switches.
        switches: Switches,
    },
}

impl Default for SetOptions {
    fn default() -> Self {
        Self { if_revision: None, valid: MAX_VALIDITY, reason: String::new() }
    }
}

impl Remote {
    /// Connects to an app at an address. [`find`](super::find) finds apps, whose connections follow them to their next run.
    ///
    /// # Errors
    /// [`SteeringError::Connection`], [`SteeringError::Version`], [`SteeringError::Closed`].
    pub fn connect(peer: SocketAddr, keys: Option<Keys>) -> Result<Self, SteeringError> {
        let mut options = Options { keys, ..Options::messages() };
        (options.socket.silence, options.socket.linger) = (SILENCE, LINGER);
        let (connection, welcome, welcomed) = open(peer, &options)?;
        options.socket.connect_timeout = NEXT_RUN;
        let (inbox, knock) = (VecDeque::new(), Knock::at(peer).ok());
        let mut seen = Seen::default();
        seen.began(welcome.run, welcome.began);
        Ok(Self { peer, options, connection, welcome, welcomed, inbox, knock, run: None, seen })
    }

    /// Follows the app to its next run, when a command has no answer from this one.
    pub(super) fn follow(&mut self, watch: Watch, run: Run) {
        self.run = Some((watch, run));
    }

    /// Returns what the app said of itself and of this session.
    #[must_use]
    pub const fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Returns the last run of the app that began with another log than the one that was seen over this connection: an
    /// earlier log was put back, or another one begun. Only what it says about commands to earlier runs is concerned.
    #[must_use]
    pub const fn log_break(&self) -> Option<Break> {
        self.seen.broken()
    }

    /// Returns the parameters as they stand, the totals of the app's commands, and its kill switches.
    ///
    /// # Errors
    /// If the connection ends, or no answer comes in time.
    pub fn list(&mut self) -> Result<(Vec<Listed>, Totals, Switches), SteeringError> {
        self.request(&Request::List)?;
        let mut parameters = Vec::new();
        loop {
            let listed = self.await_response(|response| match response {
                Response::Parameter(listed) => Ok(News::Parameter(listed)),
                Response::State { totals, switches } => Ok(News::State { totals, switches }),
                other => Err(Box::new(other)),
            })?;
            match listed {
                News::Parameter(listed) => parameters.push(listed),
                News::State { totals, switches } => return Ok((parameters, totals, switches)),
            }
        }
    }

    /// Sends a command, once, and waits for its conclusion. Without an answer it asks for the command; if the run of the app
    /// has ended, it asks the next one, and says that it is uncertain if none comes within
    /// [`NEXT_RUN_PATIENCE`](::steer::NEXT_RUN_PATIENCE). If the next run began with another log than the answers before told
    /// of, it is believed only that the command was applied ([`log_break`](Self::log_break)).
    ///
    /// # Errors
    /// If the command could not be sent at all: then it had no effect.
    pub fn set(
        &mut self,
        parameter: &str,
        value: Value,
        options: &SetOptions,
    ) -> Result<(CommandId, Conclusion), SteeringError> {
        // Nothing was sent yet: the next run gets the command, in a session of its own.
        if self.connection.closed().is_some() && !self.reach_next_run() {
            return Err(SteeringError::Closed("it has ended".to_owned()));
        }
        let id = CommandId(u128::from(random()?) << 64 | u128::from(random()?));
        let command = Command {
            id,
            session: self.welcome.session,
            parameter: parameter.to_owned(),
            if_revision: options.if_revision,
            value,
            valid_until: self.app_clock() + options.valid,
            reason: options.reason.clone(),
        };
        let sent_to = self.welcome.run;
        let mut client = Client::new(command);
        while client.conclusion().is_none() {
            match client.poll(clock::monotonic()) {
                Some(Message::Command(command)) => self.request(&Request::Command(command))?,
                Some(Message::Question(question)) => {
                    let asked = self.request(&Request::Ask(question));
                    if asked.is_err() || self.has_ended() {
                        client.lost(clock::monotonic());
                    }
                }
                Some(Message::Connect) if self.reach_next_run() => {
                    if !self.seen.is_whole_since(sent_to) {
                        client.doubt();
                    }
                    client.reached(clock::monotonic());
                }
                Some(Message::Connect) | None => {}
            }
            let left = |client: &Client| {
                client.deadline().map_or(Duration::ZERO, |deadline| deadline.since(clock::monotonic()))
            };
            match self.receive(left(&client)) {
                Ok(Some(Response::Answer { id: of, answer, head })) => {
                    self.seen.published(self.welcome.run, head);
                    if of == id {
                        client.answer(answer);
                    }
                }
                Ok(Some(Response::Reply { id: of, reply })) if of == id => client.reply(reply),
                Ok(Some(other)) => self.inbox.push_back(other),
                Ok(None) => {}
                Err(_) => {
                    client.lost(clock::monotonic());
                    std::thread::sleep(left(&client));
                }
            }
        }
        Ok((id, client.conclusion().cloned().unwrap_or(Conclusion::Uncertain)))
    }

    /// Returns whether there are signs that the run of the app has ended; there are none of an app that is only slow.
    fn has_ended(&self) -> bool {
        self.knock.as_ref().is_some_and(Knock::is_refused)
            || self.run.as_ref().is_some_and(|(watch, run)| watch.has_ended(run))
    }

    /// Connects to the run of the app that there is now, which may be the same one; returns whether it did.
    fn reach_next_run(&mut self) -> bool {
        let (mut peer, mut next) = (self.peer, None);
        if let Some((watch, run)) = &mut self.run {
            match watch.look(Duration::ZERO) {
                Ok(Some(found)) if found.key == run.key => (peer, next) = (found.socket, Some(found)),
                // One with another key is another app to this connection.
                Ok(_) | Err(_) => return false,
            }
        }
        let knock = Knock::at(peer).ok();
        if knock.as_ref().is_some_and(|it| it.is_refused_within(REFUSAL)) {
            return false;
        }
        let Ok((connection, welcome, welcomed)) = open(peer, &self.options) else { return false };
        if welcome.app != self.welcome.app {
            return false;
        }
        (self.connection, self.welcome, self.welcomed) = (connection, welcome, welcomed);
        (self.peer, self.knock) = (peer, knock);
        if let (Some((_, run)), Some(next)) = (&mut self.run, next) {
            *run = next;
        }
        self.seen.began(self.welcome.run, self.welcome.began);
        true
    }

    /// Takes the lease of a group of parameters, or renews it; it holds for ten seconds.
    ///
    /// # Errors
    /// [`SteeringError::Refused`] with the reason, such as its holder.
    pub fn lease(&mut self, group: &str) -> Result<Granted, SteeringError> {
        self.granted(&Request::Lease { group: group.to_owned() })
    }

    /// Takes over the lease of a group of parameters, as an administrator.
    ///
    /// # Errors
    /// [`SteeringError::Refused`] with the reason.
    pub fn take_over(&mut self, group: &str, reason: &str) -> Result<Granted, SteeringError> {
        self.granted(&Request::TakeOver { group: group.to_owned(), reason: reason.to_owned() })
    }

    fn granted(&mut self, request: &Request) -> Result<Granted, SteeringError> {
        self.request(request)?;
        let granted = self.await_response(|response| match response {
            Response::Lease { granted, .. } => Ok(granted),
            other => Err(Box::new(other)),
        })?;
        granted.map_err(SteeringError::Refused)
    }

    /// Releases the lease of a group of parameters.
    ///
    /// # Errors
    /// [`SteeringError::Refused`] if this session does not hold it.
    pub fn release(&mut self, group: &str) -> Result<(), SteeringError> {
        self.request(&Request::Release { group: group.to_owned() })?;
        let error = self.await_response(|response| match response {
            Response::Released { error, .. } => Ok(error),
            other => Err(Box::new(other)),
        })?;
        error.map_or(Ok(()), |error| Err(SteeringError::Refused(error)))
    }

    /// Turns a kill switch.
    ///
    /// # Errors
    /// [`SteeringError::Refused`] with the reason.
    pub fn switch(&mut self, scope: Scope, is_on: bool, reason: &str) -> Result<Switches, SteeringError> {
        self.request(&Request::Switch { scope, is_on, reason: reason.to_owned() })?;
        let (switches, error) = self.await_response(|response| match response {
            Response::Switched { switches, error } => Ok((switches, error)),
            other => Err(Box::new(other)),
        })?;
        error.map_or(Ok(switches), |error| Err(SteeringError::Refused(error)))
    }

    /// Asks to be told of changes from now on, by [`next`](Self::next).
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn watch(&mut self) -> Result<(), SteeringError> {
        self.request(&Request::Watch)
    }

    /// Waits for news, which come after [`watch`](Self::watch); `None` if none came in time.
    ///
    /// # Errors
    /// If the connection ends.
    pub fn next(&mut self, patience: Duration) -> Result<Option<News>, SteeringError> {
        let end = clock::monotonic() + patience;
        loop {
            let response = match self.inbox.pop_front() {
                Some(response) => response,
                None => match self.receive(end.since(clock::monotonic()))? {
                    Some(response) => response,
                    None => return Ok(None),
                },
            };
            match response {
                Response::Parameter(listed) => return Ok(Some(News::Parameter(listed))),
                Response::State { totals, switches } => return Ok(Some(News::State { totals, switches })),
                _ => {}
            }
        }
    }

    /// Returns the app's clock now, or somewhat earlier: a deadline is never later than meant.
    fn app_clock(&self) -> Instant {
        self.welcome.clock + clock::monotonic().since(self.welcomed)
    }

    fn request(&self, request: &Request) -> Result<(), SteeringError> {
        let sent = self.connection.send_message(&request.encode(), Lifetime::default());
        sent.map_err(|error| SteeringError::Connection(error.into()))
    }

    /// Waits for the response that `select` takes; others are kept.
    fn await_response<T>(
        &mut self,
        select: impl Fn(Response) -> Result<T, Box<Response>>,
    ) -> Result<T, SteeringError> {
        let end = clock::monotonic() + PATIENCE;
        loop {
            let left = end.since(clock::monotonic());
            let response = self.receive(left)?.ok_or(SteeringError::NoAnswer(PATIENCE))?;
            match select(response) {
                Ok(result) => return Ok(result),
                Err(other) => self.inbox.push_back(*other),
            }
        }
    }

    fn receive(&self, patience: Duration) -> Result<Option<Response>, SteeringError> {
        receive(&self.connection, patience)
    }
}

fn open(peer: SocketAddr, options: &Options) -> Result<(Connection, Welcome, Instant), SteeringError> {
    let connection = Connection::connect_to(peer, options)?;
    let hello = Request::Hello { version: VERSION }.encode();
    let sent = connection.send_message(&hello, Lifetime::default());
    sent.map_err(|error| SteeringError::Connection(error.into()))?;
    match receive(&connection, PATIENCE)? {
        Some(Response::Welcome(welcome)) if welcome.version == VERSION => {
            Ok((connection, welcome, clock::monotonic()))
        }
        Some(_) => Err(SteeringError::Version),
        None => Err(SteeringError::NoAnswer(PATIENCE)),
    }
}

fn receive(connection: &Connection, patience: Duration) -> Result<Option<Response>, SteeringError> {
    connection.set_receive_timeout(Some(patience));
    let mut bytes = Vec::new();
    match connection.receive_message(&mut bytes) {
        Ok(true) => match Response::decode(&bytes).ok_or(SteeringError::Version)? {
            Response::Closing { reason } => Err(SteeringError::Closed(reason)),
            response => Ok(Some(response)),
        },
        Ok(false) => Err(SteeringError::Closed("it has ended".to_owned())),
        Err(WaitError::TimedOut) => Ok(None),
        Err(error) => Err(SteeringError::Connection(error.into())),
    }
}

fn random() -> Result<u64, SteeringError> {
    getrandom::u64().map_err(|error| SteeringError::Connection(crate::udt::Error::Random(error.into())))
}
