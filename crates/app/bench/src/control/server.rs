//! The server: one test at a time, a word for everybody else, and nothing left over when a client vanishes.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;
use sys::{Interest, Poller, clock};
use tallycast::udt::Source;

use super::connection::{Connection, ControlError, Patience, program_version};
use super::frame;
use super::message::{Message, PROTOCOL};
use crate::host_state::HostState;

/// How often the wish to end is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How many clients may be there at once and have not said yet what they want; more are not answered.
const MOST_UNDECIDED: usize = 16;

/// How many of them may be of one address: it keeps nobody else out.
const MOST_UNDECIDED_OF_ONE: usize = MOST_UNDECIDED / 2;

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
    /// After the first client that began a test.
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
    #[error("cannot listen on {address}: {source}\n{remedy}")]
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
    /// The client is alive, and does not go on.
    #[error(
        "the client has not said within {0:?} that it has sent all\nstart the measurement anew; if it comes again, report it"
    )]
    NeverSent(Duration),
    /// Another client was faster: this one is told with whom the server is busy.
    #[error("the server is busy measuring with {with}")]
    Busy {
        /// Who was.
        with: SocketAddr,
    },
    /// A test panicked.
    #[error("a defect of this program ended the test\nsee its message above, and report it")]
    Defect,
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

    let (place, waiting, turned_away) = (Place::default(), Waiting::default(), TurnedAway::default());
    std::thread::scope(|scope| {
        while !is_wanted_to_end() {
            if options.lifetime == Lifetime::OneClient && place.was_left() {
                break;
            }
            let (stream, client) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    poller.wait(Some(clock::monotonic() + LOOK)).map_err(failed)?;
                    continue;
                }
                // A client that has left already, or no descriptor for it: it still waits, so the poller would not.
                Err(_) => {
                    clock::sleep_until(clock::monotonic() + LOOK);
                    continue;
                }
            };
            if let Some(with) = place.guest() {
                watch(ServerEvent::TurnedAway(client));
                turned_away.tell(stream, with);
                continue;
            }
            let Some(undecided) = waiting.enter(client.ip()) else {
                watch(ServerEvent::TurnedAway(client));
                continue;
            };
            let place = &place;
            scope.spawn(move || {
                let reception =
                    Reception { client, patience: options.patience, tests, watch, is_wanted_to_end };
                // A defect in one test is no reason to stop serving: its place is free, and it is said.
                let outcome = catch_unwind(AssertUnwindSafe(|| reception.attend(stream, place, undecided)))
                    .unwrap_or(Err(ServeError::Defect));
                watch(ServerEvent::Ended { client, trouble: outcome.err().map(|error| error.to_string()) });
            });
        }
        Ok(())
    })
}

/// The place of the client that is measured with: there is one.
#[derive(Default)]
struct Place(Mutex<Taking>);

#[derive(Clone, Copy, Default)]
enum Taking {
    #[default]
    Never,
    By(SocketAddr),
    Left,
}

/// Leaves the place when it is dropped, however the test ends.
struct Taken<'a>(&'a Place);

impl Place {
    fn lock(&self) -> MutexGuard<'_, Taking> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn guest(&self) -> Option<SocketAddr> {
        match *self.lock() {
            Taking::By(guest) => Some(guest),
            Taking::Never | Taking::Left => None,
        }
    }

    fn was_left(&self) -> bool {
        matches!(*self.lock(), Taking::Left)
    }

    fn take(&self, client: SocketAddr) -> Result<Taken<'_>, ServeError> {
        let mut taking = self.lock();
        if let Taking::By(with) = *taking {
            return Err(ServeError::Busy { with });
        }
        *taking = Taking::By(client);
        Ok(Taken(self))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.lock() = Taking::Left;
    }
}

/// The clients that have not said yet what they want, by address.
#[derive(Default)]
struct Waiting(Mutex<BTreeMap<Source, usize>>);

/// Counts a client among the undecided until it is dropped.
struct Undecided<'a> {
    waiting: &'a Waiting,
    source: Source,
}

impl Waiting {
    /// Lets a client in; `None` where there are too many, of all or of its address.
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

/// One client, and what it may want.
struct Reception<'a> {
    client: SocketAddr,
    patience: Patience,
    tests: &'static [Test],
    watch: &'a (dyn Fn(ServerEvent) + Sync),
    is_wanted_to_end: &'a EndWish<'a>,
}

impl Reception<'_> {
    /// Serves the client, once it has said what it wants.
    fn attend(&self, stream: TcpStream, place: &Place, undecided: Undecided<'_>) -> Result<(), ServeError> {
        stream.set_nonblocking(false).map_err(ControlError::from)?;
        let mut connection = Connection::over(stream, self.patience)?;
        let outcome = self.wish(&mut connection).and_then(|wish| {
            drop(undecided);
            let Some((test, parameters)) = wish else { return Ok(()) };
            let _taken = place.take(self.client)?;
            (self.watch)(ServerEvent::Began { client: self.client, test: test.name.to_owned() });
            (test.serve)(parameters, &mut connection, self.is_wanted_to_end)
        });
        let last_word = match &outcome {
            Ok(()) => return outcome,
            Err(ServeError::Busy { with }) => Message::Busy { with: with.to_string() },
            Err(error) => Message::Failed { reason: error.to_string() },
        };
        // The client may be gone: then nobody is to be told.
        let _ = connection.tell(&last_word);
        outcome
    }

    /// Welcomes the client and hears which test it wants; `None` if it only says good-bye.
    fn wish(&self, connection: &mut Connection) -> Result<Option<(&'static Test, Value)>, ServeError> {
        match self.hear_early(connection)? {
            Message::Hello { protocol, tallycast } => welcome(connection, protocol, tallycast)?,
            other => return Err(connection.unexpected(&other).into()),
        }
        match self.hear_early(connection)? {
            Message::Begin { test, parameters } => Ok(Some((self.find(&test)?, parameters))),
            Message::Bye => Ok(None),
            other => Err(connection.unexpected(&other).into()),
        }
    }

    fn find(&self, name: &str) -> Result<&'static Test, ServeError> {
        let known = || self.tests.iter().map(|test| test.name).collect::<Vec<_>>().join(", ");
        self.tests.iter().find(|test| test.name == name).ok_or_else(|| {
            ServeError::Refused(format!("this server does not know the test `{name}`, only: {}", known()))
        })
    }

    /// Hears a message before the test begins: as long as patience lasts, and the server is not to end.
    fn hear_early(&self, connection: &mut Connection) -> Result<Message, ServeError> {
        let silence = self.patience.silence;
        let until = Instant::now() + silence;
        while Instant::now() < until {
            if (self.is_wanted_to_end)() {
                return Err(ServeError::Refused("the server was ended".to_owned()));
            }
            if let Some(message) = connection.hear(until.min(Instant::now() + LOOK))? {
                return Ok(message);
            }
        }
        Err(ControlError::Silent { peer: self.client, silence }.into())
    }
}

fn welcome(connection: &mut Connection, protocol: u32, tallycast: String) -> Result<(), ServeError> {
    let host = HostState::look_towards(connection.local_address().ip(), connection.peer_address());
    let host = serde_json::to_value(host).expect("a host is plain data");
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
