//! The server: one test at a time, a busy message for all other clients, and nothing left over when a client
//! vanishes.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use sys::{Cancellation, Interest, Poller};
use tallycast::udt::Source;

use super::connection::{Connection, ControlError, Patience, plain, program_version};
use super::frame;
use super::message::{Message, PROTOCOL};
use super::secured::{ANOTHER, ControlKeys, Unwelcome, turn_away};
use super::session::{Serve, ServeError, Session};
use crate::host_state::HostState;

/// Pause after a connection could not be accepted: it is still pending, so that the poller would not wait.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Maximum number of connected clients that have not chosen a test yet; more are not answered.
const MOST_UNDECIDED: usize = 16;

/// Maximum number of them from one address: a single address cannot keep others out.
const MOST_UNDECIDED_OF_ONE: usize = MOST_UNDECIDED / 2;

/// Maximum number of clients that are told at once that the server is busy; more are not answered.
const MOST_TURNED_AWAY: usize = 16;

/// Poller tokens of a server.
const LISTENER: u64 = 0;
const CANCELLED: u64 = 1;
const LEFT: u64 = 2;

/// Options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Address to listen on; port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// The time at which it ends.
    pub lifetime: Lifetime,
    /// Time limits for clients that have connected.
    pub patience: Patience,
    /// Keys; without them every client is served.
    pub keys: Option<ControlKeys>,
}

/// The time at which a server ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// At the request of the caller.
    UntilStopped,
    /// After the first client that began a test.
    OneClient,
}

/// Events of a server, for its observer.
#[derive(Clone, PartialEq, Debug)]
pub enum ServerEvent {
    /// The server listens.
    Listening(SocketAddr),
    /// A client begins a test.
    Began {
        /// Address of the client.
        client: SocketAddr,
        /// Name of the test.
        test: String,
    },
    /// The client has left.
    Ended {
        /// Address of the client.
        client: SocketAddr,
        /// The cause of an abnormal end.
        trouble: Option<String>,
    },
    /// A client was refused: the server has keys.
    Refused {
        /// Address of the client.
        client: SocketAddr,
        /// Reason.
        reason: Unwelcome,
        /// Number of clients refused so far, with this one.
        count: u64,
    },
    /// A client came while the server was busy.
    TurnedAway(SocketAddr),
}

/// Serves until asked to end, or until the end of its lifetime.
///
/// # Errors
/// [`ServeError::Listen`], if it cannot begin. Failures of a client are an [event](ServerEvent).
pub fn serve(
    options: &ServerOptions,
    tests: &'static [&'static dyn Serve],
    watch: &(dyn Fn(ServerEvent) + Sync),
    cancellation: &Cancellation,
) -> Result<(), ServeError> {
    let failed = |source| listen_error(options.listen, source);
    let listener = TcpListener::bind(options.listen).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    watch(ServerEvent::Listening(listener.local_addr().map_err(failed)?));
    let place = Place::new().map_err(failed)?;
    let mut poller = Poller::new().map_err(failed)?;
    poller.add(&listener, LISTENER, Interest::Read).map_err(failed)?;
    poller.add(cancellation, CANCELLED, Interest::Read).map_err(failed)?;
    if options.lifetime == Lifetime::OneClient {
        poller.add(&place.was_left, LEFT, Interest::Read).map_err(failed)?;
    }

    let (waiting, turned_away, refused) = (Waiting::default(), TurnedAway::default(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        while !cancellation.is_cancelled() {
            if options.lifetime == Lifetime::OneClient && place.was_left.is_cancelled() {
                break;
            }
            let (stream, client) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poller.wait(None).map_err(failed)?;
                    continue;
                }
                // A client that has left already, or no free descriptor.
                Err(_) => {
                    cancellation.wait(ACCEPT_PAUSE);
                    continue;
                }
            };
            // The lock is released before `watch` is called.
            let guest = *place.guest();
            if let Some(with) = guest {
                watch(ServerEvent::TurnedAway(client));
                // Strangers are not told who the others are.
                let with = if options.keys.is_some() { ANOTHER.to_owned() } else { with.to_string() };
                turned_away.tell(stream, with);
                continue;
            }
            let Some(undecided) = waiting.enter(client.ip()) else {
                watch(ServerEvent::TurnedAway(client));
                continue;
            };
            let (place, refused) = (&place, &refused);
            scope.spawn(move || {
                let reception = Reception { client, options, tests, watch, cancellation, refused };
                // A defect in one test does not stop the server: its place becomes free, and the defect is
                // reported.
                let outcome = catch_unwind(AssertUnwindSafe(|| reception.attend(stream, place, undecided)))
                    .unwrap_or(Err(ServeError::Defect));
                let trouble = match outcome {
                    // Was told as refused.
                    Err(ServeError::Unwelcome) => return,
                    outcome => outcome.err().map(|error| error.to_string()),
                };
                watch(ServerEvent::Ended { client, trouble });
            });
        }
        Ok(())
    })
}

/// The place of the client that is measured with: there is one.
struct Place {
    guest: Mutex<Option<SocketAddr>>,
    /// Cancelled once a client has left it, which ends a server for one client.
    was_left: Cancellation,
}

/// Leaves the place when it is dropped, however the test ends.
struct Taken<'a>(&'a Place);

impl Place {
    fn new() -> io::Result<Self> {
        Ok(Self { guest: Mutex::default(), was_left: Cancellation::new()? })
    }

    fn guest(&self) -> MutexGuard<'_, Option<SocketAddr>> {
        self.guest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, client: SocketAddr) -> Result<Taken<'_>, ServeError> {
        let mut guest = self.guest();
        if let Some(with) = *guest {
            return Err(ServeError::Busy { with });
        }
        *guest = Some(client);
        Ok(Taken(self))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.guest() = None;
        self.0.was_left.cancel();
    }
}

/// Clients that have not chosen a test yet, by address.
#[derive(Default)]
struct Waiting(Mutex<BTreeMap<Source, usize>>);

/// Counts a client among the undecided until it is dropped.
struct Undecided<'a> {
    waiting: &'a Waiting,
    source: Source,
}

impl Waiting {
    /// Admits a client; `None` if there are too many, in all or from its address.
    fn enter(&self, address: IpAddr) -> Option<Undecided<'_>> {
        let source = Source::of(address);
        let mut counts = self.lock();
        let own = counts.get(&source).copied().unwrap_or(0);
        let has_room = own < MOST_UNDECIDED_OF_ONE && counts.values().sum::<usize>() < MOST_UNDECIDED;
        has_room.then(|| {
            counts.insert(source, own + 1);
            Undecided { waiting: self, source }
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Source, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        let mut counts = self.waiting.lock();
        let left = counts.get_mut(&self.source).expect("a client that entered is counted");
        *left -= 1;
        if *left == 0 {
            counts.remove(&self.source);
        }
    }
}

/// One client, and the tests it may choose.
struct Reception<'a> {
    client: SocketAddr,
    options: &'a ServerOptions,
    tests: &'static [&'static dyn Serve],
    watch: &'a (dyn Fn(ServerEvent) + Sync),
    cancellation: &'a Cancellation,
    /// Number of clients that were refused for their keys.
    refused: &'a AtomicU64,
}

impl Reception<'_> {
    /// Serves the client, once it has chosen a test.
    fn attend(&self, stream: TcpStream, place: &Place, undecided: Undecided<'_>) -> Result<(), ServeError> {
        stream.set_nonblocking(false).map_err(ControlError::from)?;
        let patience = self.options.patience;
        let channel = match &self.options.keys {
            None => None,
            Some(keys) => match keys.answer(&stream, patience.message) {
                Ok(channel) => Some(channel),
                Err(reason) => {
                    let count = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
                    (self.watch)(ServerEvent::Refused { client: self.client, reason, count });
                    turn_away(&stream, reason);
                    return Err(ServeError::Unwelcome);
                }
            },
        };
        let connection = Connection::over(stream, channel, patience)?;
        let mut connection = connection.of_station(self.options.keys.as_ref());
        let mut session = Session { connection: &mut connection, cancellation: self.cancellation };
        let outcome = self.wish(&mut session).and_then(|wish| {
            drop(undecided);
            let Some((test, parameters)) = wish else { return Ok(()) };
            let _taken = place.take(self.client)?;
            (self.watch)(ServerEvent::Began { client: self.client, test: test.name().to_owned() });
            test.serve(parameters, &mut session)
        });
        let last_word = match &outcome {
            Ok(()) => return outcome,
            Err(ServeError::Busy { with }) => Message::Busy { with: with.to_string() },
            Err(error) => Message::Failed { reason: error.to_string() },
        };
        // The client may be gone: then the message is lost without harm.
        let _ = connection.tell(&last_word);
        outcome
    }

    /// Welcomes the client and receives its choice of test; `None` if it only says good-bye.
    fn wish(&self, session: &mut Session<'_>) -> Result<Option<(&'static dyn Serve, Value)>, ServeError> {
        match session.hear()? {
            Message::Hello { protocol, tallycast } => welcome(session.connection, protocol, tallycast)?,
            other => return Err(session.connection.unexpected(&other).into()),
        }
        match session.hear()? {
            Message::Begin { test, parameters } => Ok(Some((self.find(&test)?, parameters))),
            Message::Bye => Ok(None),
            other => Err(session.connection.unexpected(&other).into()),
        }
    }

    fn find(&self, name: &str) -> Result<&'static dyn Serve, ServeError> {
        let known = || self.tests.iter().map(|test| test.name()).collect::<Vec<_>>().join(", ");
        self.tests.iter().copied().find(|test| test.name() == name).ok_or_else(|| {
            ServeError::Refused(format!("this server does not know the test `{name}`, only: {}", known()))
        })
    }
}

fn welcome(connection: &mut Connection, protocol: u32, tallycast: String) -> Result<(), ServeError> {
    let host = HostState::look_towards(connection.local_address().ip(), connection.peer_address());
    // Also to a client of another version: it then knows the server's version.
    connection.tell(&Message::Welcome {
        protocol: PROTOCOL,
        tallycast: program_version().to_owned(),
        host: plain(&host),
    })?;
    Ok(connection.check_version(protocol, tallycast)?)
}

/// Clients that are being told that the server is busy.
#[derive(Default)]
struct TurnedAway(Arc<AtomicUsize>);

impl TurnedAway {
    /// Notifies a client, without waiting for it.
    fn tell(&self, stream: TcpStream, with: String) {
        if self.0.fetch_add(1, Ordering::Relaxed) >= MOST_TURNED_AWAY {
            self.0.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let count = Arc::clone(&self.0);
        let _: JoinHandle<()> = std::thread::spawn(move || {
            // A client that does not read is not waited for.
            let _ = part_from(&stream, with);
            count.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn part_from(mut stream: &TcpStream, with: String) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(2);
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&frame::encode(&Message::Busy { with }))?;
    stream.shutdown(std::net::Shutdown::Write)?;
    // Its greeting is read first: closing with unread input would discard the reply.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_that_says_nothing_leaves_room_for_others_and_all_together_have_a_bound() {
        let waiting = Waiting::default();
        let of = |last: usize| IpAddr::from([192, 0, 2, u8::try_from(last).unwrap()]);
        let mut inside = Vec::new();
        for last in 0..MOST_UNDECIDED / MOST_UNDECIDED_OF_ONE {
            for _ in 0..MOST_UNDECIDED_OF_ONE {
                inside.push(waiting.enter(of(last)).expect("there is room"));
            }
            let mapped =
                IpAddr::V6(std::net::Ipv4Addr::new(192, 0, 2, u8::try_from(last).unwrap()).to_ipv6_mapped());
            assert!(waiting.enter(of(last)).is_none() && waiting.enter(mapped).is_none());
        }
        assert!(waiting.enter(of(99)).is_none(), "all places are taken");
        drop(inside.pop());
        let next = waiting.enter(of(99)).expect("a place was left");
        drop((inside, next));
        assert!(waiting.lock().is_empty());
    }
}
