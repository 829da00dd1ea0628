//! The server: one test at a time, a word for everybody else, and nothing left over when a client vanishes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use sys::{Interest, Poller, clock};

use super::connection::{Connection, ControlError, Patience, program_version};
use super::frame;
use super::message::{Message, PROTOCOL};
use crate::host_state::HostState;

/// How often the wish to end is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How many clients are told at once that the server is busy; more are not answered.
const MOST_TURNED_AWAY: usize = 16;

/// How a server is to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerOptions {
    /// Where it listens; port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// When it ends.
    pub lifetime: Lifetime,
    /// How long it waits for clients that have connected.
    pub patience: Patience,
}

/// When a server ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// When it is told to.
    UntilStopped,
    /// After the first client that measured, or tried to.
    OneClient,
}

/// Tells whether something is to end, to any thread that asks.
pub type EndWish<'a> = dyn Fn() -> bool + Sync + 'a;

/// How a server takes part in a test: with what it is to measure, the client, and the wish to end.
pub type Serve = fn(Value, &mut Connection, &EndWish<'_>) -> Result<(), ServeError>;

/// A kind of measurement that a server takes part in.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    /// What a client calls it.
    pub name: &'static str,
    /// Takes part, until the client has had enough or the server is to end.
    pub serve: Serve,
}

/// Says why a server could not take part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is taken, or none of this host's.
    #[error("{address} cannot be listened at: {source}\n{remedy}")]
    Listen {
        /// As asked for.
        address: SocketAddr,
        /// The way out.
        remedy: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The control connection failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The client wants something that cannot be: it is told so.
    #[error("{0}")]
    Refused(String),
}

/// What happens at a server, for whoever watches it.
#[derive(Clone, PartialEq, Debug)]
pub enum ServerEvent {
    /// It listens.
    Listening(SocketAddr),
    /// A client begins a test.
    Began {
        /// Who.
        client: SocketAddr,
        /// Which test.
        test: String,
    },
    /// The client has left.
    Ended {
        /// Who.
        client: SocketAddr,
        /// Why, if it did not end as it should.
        trouble: Option<String>,
    },
    /// Somebody came while the server was busy.
    TurnedAway(SocketAddr),
}

/// Serves until told to end, or as long as its lifetime is.
///
/// # Errors
/// [`ServeError::Listen`], if it cannot begin. What goes wrong with a client is an [event](ServerEvent).
pub fn serve(
    options: &ServerOptions,
    tests: &'static [Test],
    watch: &(dyn Fn(ServerEvent) + Sync),
    is_wanted_to_end: &EndWish<'_>,
) -> Result<(), ServeError> {
    let failed = |source| listen_error(options.listen, source);
    let listener = TcpListener::bind(options.listen).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    watch(ServerEvent::Listening(listener.local_addr().map_err(failed)?));
    let mut poller = Poller::new().map_err(failed)?;
    poller.add(&listener, 0, Interest::Read).map_err(failed)?;

    let guest: Mutex<Option<SocketAddr>> = Mutex::new(None);
    let lock = || guest.lock().unwrap_or_else(PoisonError::into_inner);
    let turned_away = TurnedAway::default();
    std::thread::scope(|scope| {
        let mut session = None;
        while !is_wanted_to_end() {
            if options.lifetime == Lifetime::OneClient && session.is_some() && lock().is_none() {
                break;
            }
            // A client that has left already, or no descriptor for it: the next look may find another.
            let Ok((stream, client)) = listener.accept() else {
                poller.wait(Some(clock::monotonic() + LOOK)).map_err(failed)?;
                continue;
            };
            let with = *lock();
            if let Some(with) = with {
                watch(ServerEvent::TurnedAway(client));
                turned_away.tell(stream, with);
                continue;
            }
            *lock() = Some(client);
            let guest = &guest;
            session = Some(scope.spawn(move || {
                let outcome =
                    attend(stream, client, options.patience, tests, &|event| watch(event), is_wanted_to_end);
                *guest.lock().unwrap_or_else(PoisonError::into_inner) = None;
                watch(ServerEvent::Ended { client, trouble: outcome.err().map(|error| error.to_string()) });
            }));
        }
        Ok(())
    })
}

/// Serves one client.
fn attend(
    stream: TcpStream,
    client: SocketAddr,
    patience: Patience,
    tests: &[Test],
    watch: &dyn Fn(ServerEvent),
    is_wanted_to_end: &EndWish<'_>,
) -> Result<(), ServeError> {
    stream.set_nonblocking(false).map_err(ControlError::from)?;
    let mut connection = Connection::over(stream, patience)?;
    let outcome = welcome(&mut connection).and_then(|()| match connection.hear_surely()? {
        Message::Begin { test, parameters } => {
            watch(ServerEvent::Began { client, test: test.clone() });
            let known = || tests.iter().map(|test| test.name).collect::<Vec<_>>().join(", ");
            let found = tests.iter().find(|known| known.name == test);
            let found = found.ok_or_else(|| {
                ServeError::Refused(format!("this server does not know the test `{test}`, only: {}", known()))
            })?;
            (found.serve)(parameters, &mut connection, is_wanted_to_end)
        }
        Message::Bye => Ok(()),
        other => Err(connection.unexpected(&other).into()),
    });
    if let Err(error) = &outcome {
        // The client may be gone: then nobody is to be told.
        let _ = connection.tell(&Message::Failed { reason: error.to_string() });
    }
    outcome
}

fn welcome(connection: &mut Connection) -> Result<(), ServeError> {
    let (protocol, tallycast) = match connection.hear_surely()? {
        Message::Hello { protocol, tallycast } => (protocol, tallycast),
        other => return Err(connection.unexpected(&other).into()),
    };
    let host = Box::new(HostState::look(connection.local_address().ip()));
    // Also to a client of another version: it then knows what there is.
    connection.tell(&Message::Welcome {
        protocol: PROTOCOL,
        tallycast: program_version().to_owned(),
        host,
    })?;
    Ok(connection.check_version(protocol, tallycast)?)
}

/// Those who are being told that the server is busy.
#[derive(Default)]
struct TurnedAway(Arc<AtomicUsize>);

impl TurnedAway {
    /// Tells a client, without waiting for it.
    fn tell(&self, stream: TcpStream, with: SocketAddr) {
        if self.0.fetch_add(1, Ordering::Relaxed) >= MOST_TURNED_AWAY {
            self.0.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let count = Arc::clone(&self.0);
        let _: JoinHandle<()> = std::thread::spawn(move || {
            // A client that does not listen is not waited for.
            let _ = part_from(&stream, with);
            count.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn part_from(mut stream: &TcpStream, with: SocketAddr) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(2);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&frame::encode(&Message::Busy { with: with.to_string() }))?;
    stream.shutdown(std::net::Shutdown::Write)?;
    // Its greeting is read, or closing would take back what it was told.
    let mut greeting = [0; 1_024];
    stream.read(&mut greeting).map(drop)
}

fn listen_error(address: SocketAddr, source: io::Error) -> ServeError {
    let remedy = match source.kind() {
        io::ErrorKind::AddrInUse => "choose another port with -p, or find the program with: ss -tlnp",
        io::ErrorKind::AddrNotAvailable => "use an address that `ip address` lists, or 0.0.0.0 for all",
        io::ErrorKind::PermissionDenied => "choose a port above 1023 with -p",
        _ => "choose another address with --listen, or another port with -p",
    };
    ServeError::Listen { address, remedy, source }
}
