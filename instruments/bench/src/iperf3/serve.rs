//! The server with its sockets: waits for clients, serves one at a time, and refuses the others.
//!
//! One thread waits for everything; data streams have their own threads. The first 37 bytes of a connection
//! show whether it is a new client or a stream of the present one, so that no connection blocks the others.

use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use socket2::SockRef;
use sys::{Interest, Poller, clock};
use tallycast::udt::Source;
use units::Instant;

use super::conversation::{COOKIE_BYTES, Cookie, Input};
use super::error::ServeError;
use super::options::{self, Repeat, ServerOptions};
use super::parameters::{Protocol, Test};
use super::report::canonical;
use super::server::{Phase, Server};
use super::session::{Around, CANCELLED, CONTROL, Control, Ending, GOAL, HELLO, Session, Side};
use super::sockets;
use super::state::State;
use super::traffic::Role;
use super::watch::{Notice, Watch};

/// Time a connection may take to send its cookie.
const COOKIE_PATIENCE: Duration = Duration::from_secs(5);
/// Pause of accepting after the system could not give a connection: the next attempt would fail at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of connections without a cookie yet; a further one is closed.
const MOST_STRANGERS: usize = 256;
/// Maximum number of them from one address: a client opens up to 128 streams at once, and one address cannot
/// keep others out.
const MOST_STRANGERS_OF_ONE: usize = MOST_STRANGERS / 2;

/// Poller tokens in addition to those of a session.
const LISTENER: u64 = 0;
const FIRST_STRANGER: u64 = 16;

/// A connection that has not sent its cookie yet.
struct Stranger {
    token: u64,
    socket: TcpStream,
    peer: SocketAddr,
    cookie: Vec<u8>,
    deadline: Instant,
}

/// Reaction to a failed accept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AfterRefusal {
    /// No connection is pending: wait for the next.
    Wait,
    /// The connection is gone already: take the next.
    Next,
    /// The system is short of a resource, or the network has a fault: try again in a moment.
    Pause,
    /// The listener itself is broken.
    End,
}

impl AfterRefusal {
    /// Source: accept(2), "Errors": Linux passes on faults of the network that belong to the new connection.
    fn of(error: &io::Error) -> Self {
        use rustix::io::Errno;
        let is_one_of =
            |errnos: &[Errno]| errnos.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
        match error.kind() {
            ErrorKind::WouldBlock => Self::Wait,
            ErrorKind::Interrupted | ErrorKind::ConnectionAborted => Self::Next,
            _ if is_one_of(&[Errno::BADF, Errno::INVAL, Errno::NOTSOCK]) => Self::End,
            _ => Self::Pause,
        }
    }
}

struct Host<'a> {
    options: &'a ServerOptions,
    around: Around<'a>,
    listener: TcpListener,
    /// End of a pause of accepting, where the system could not give a connection.
    paused_until: Option<Instant>,
    strangers: Vec<Stranger>,
    next_token: u64,
    session: Option<Session<Accepting>>,
    served: u64,
}

/// Serves tests until it is asked to end, or after one test if so requested.
///
/// A test that fails is reported to `watch`, and the next client is served.
///
/// # Errors
/// [`ServeError`] if the port is not available, or the system provides no poller.
pub fn serve(options: &ServerOptions, watch: &mut dyn Watch) -> Result<(), ServeError> {
    options::check_interval(options.interval)?;
    let listener = sockets::listen(options.bind, options.port)
        .map_err(|(address, source)| ServeError::Listen { address, source })?;
    let poller = Poller::new()?;
    poller.add(&listener, LISTENER, Interest::Read)?;
    poller.add(watch.cancellation(), CANCELLED, Interest::Read)?;
    watch.notice(Notice::Listening(listener.local_addr()?));
    let (strangers, next_token) = (Vec::new(), FIRST_STRANGER);
    let (paused_until, session, served) = (None, None, 0);
    let around = Around { watch, poller };
    let mut host = Host { options, around, listener, paused_until, strangers, next_token, session, served };
    host.run()
}

impl Host<'_> {
    fn run(&mut self) -> Result<(), ServeError> {
        while self.served == 0 || self.options.repeat == Repeat::Forever {
            if self.around.watch.cancellation().is_cancelled() {
                self.with_session(|session, around| session.on_input(Input::Interrupt, around));
                return Ok(());
            }
            let deadline = self.next_look();
            let ready: Vec<u64> =
                self.around.poller.wait(deadline)?.iter().map(|ready| ready.token).collect();
            for token in ready {
                match token {
                    LISTENER => self.accept()?,
                    CONTROL => self.with_session(Session::on_control),
                    HELLO => self.with_session(Session::on_hello),
                    GOAL => self.session.iter().for_each(Session::on_goal),
                    CANCELLED => {}
                    token => self.on_stranger(token),
                }
            }
            let now = clock::monotonic();
            self.resume_accepting(now)?;
            self.strangers.retain(|stranger| stranger.deadline > now);
            self.with_session(|session, around| session.on_time(around, now));
        }
        Ok(())
    }

    /// Returns the next time at which there is something to do; `None` without a client.
    fn next_look(&self) -> Option<Instant> {
        let session = self.session.as_ref().map(Session::next_look);
        let strangers = self.strangers.iter().map(|stranger| stranger.deadline);
        strangers.chain(session).chain(self.paused_until).min()
    }

    /// Passes an event to the session, and removes the session if that ended it.
    fn with_session(&mut self, act: impl FnOnce(&mut Session<Accepting>, &mut Around<'_>) -> Option<Ending>) {
        let Some(session) = &mut self.session else { return };
        if let Some(ending) = act(session, &mut self.around) {
            let peer = canonical(session.control.peer);
            self.around.watch.notice(match &ending {
                Ok(report) => Notice::Ended(report),
                Err(error) => Notice::Failed { peer, error },
            });
            self.session = None;
            self.served += 1;
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((socket, peer)) => {
                    if let Err(reason) = self.admit(socket, peer) {
                        self.refuse(peer, reason);
                    }
                }
                Err(error) => match AfterRefusal::of(&error) {
                    AfterRefusal::Wait => return Ok(()),
                    AfterRefusal::Next => {}
                    AfterRefusal::Pause => return self.pause_accepting(&error),
                    AfterRefusal::End => return Err(error),
                },
            }
        }
    }

    /// Ignores the listener for a moment; the present client, and connections without a cookie yet, are still
    /// served.
    fn pause_accepting(&mut self, error: &io::Error) -> io::Result<()> {
        self.around.watch.notice(Notice::Warning(format!(
            "a connection could not be accepted: {error}\nsee how many files this process may open: ulimit -n"
        )));
        self.paused_until = Some(clock::monotonic() + ACCEPT_PAUSE);
        self.around.poller.remove(&self.listener)
    }

    fn resume_accepting(&mut self, now: Instant) -> io::Result<()> {
        if self.paused_until.is_some_and(|until| now >= until) {
            self.paused_until = None;
            self.around.poller.add(&self.listener, LISTENER, Interest::Read)?;
        }
        Ok(())
    }

    fn refuse(&mut self, peer: SocketAddr, reason: &'static str) {
        self.around.watch.notice(Notice::Refused { peer: canonical(peer), reason });
    }

    fn admit(&mut self, socket: TcpStream, peer: SocketAddr) -> Result<(), &'static str> {
        has_room(self.strangers.iter().map(|stranger| stranger.peer), peer)?;
        let token = self.next_token;
        socket.set_nonblocking(true).map_err(|_| "its connection cannot be used")?;
        self.around
            .poller
            .add(&socket, token, Interest::Read)
            .map_err(|_| "its connection cannot be used")?;
        self.next_token += 1;
        let deadline = clock::monotonic() + COOKIE_PATIENCE;
        self.strangers.push(Stranger { token, socket, peer, cookie: Vec::new(), deadline });
        Ok(())
    }

    fn on_stranger(&mut self, token: u64) {
        let Some(index) = self.strangers.iter().position(|stranger| stranger.token == token) else { return };
        match self.strangers[index].read_cookie() {
            Ok(None) => {}
            Ok(Some(cookie)) => {
                let stranger = self.strangers.remove(index);
                self.on_cookie(stranger, cookie);
            }
            Err(reason) => {
                let stranger = self.strangers.remove(index);
                self.refuse(stranger.peer, reason);
            }
        }
    }

    /// Handles a connection whose cookie is complete: a stream of the present client, or a new client.
    fn on_cookie(&mut self, stranger: Stranger, cookie: Cookie) {
        // The socket stays open: the poller must release it, or its next owner cannot add it.
        let _ = self.around.poller.remove(&stranger.socket);
        let Stranger { token, socket, peer, .. } = stranger;
        match &self.session {
            None => self.begin(socket, peer, cookie),
            Some(session) if session.wants_stream(&cookie) => {
                self.with_session(|session, around| session.on_stream(token, socket, around));
            }
            Some(_) => {
                // One byte always fits into an empty buffer; a peer that is gone does not need it.
                let _ = io::Write::write(&mut { socket }, &[State::AccessDenied.byte()]);
                self.refuse(peer, "a test is running; it was told to try again later");
            }
        }
    }

    fn begin(&mut self, control: TcpStream, peer: SocketAddr, cookie: Cookie) {
        let watched = sockets::watch_control(&control);
        let added = watched.and_then(|()| self.around.poller.add(&control, CONTROL, Interest::Read));
        let (Ok(local), Ok(())) = (self.listener.local_addr(), added) else {
            self.refuse(peer, "its connection cannot be used");
            return;
        };
        self.around.watch.notice(Notice::Accepted(canonical(peer)));
        let (side, server) = (Accepting { local, hello: None }, Server::new(clock::monotonic()));
        let control = Control { socket: control, peer, cookie };
        self.session = Some(Session::new(side, control, server, self.options.interval));
        self.with_session(Session::on_control);
    }
}

/// The server accepts the streams of its client.
struct Accepting {
    /// Address at which the server listens; streams over UDP send their hello there.
    local: SocketAddr,
    /// Socket for the hello of the next stream over UDP.
    hello: Option<UdpSocket>,
}

impl Side for Accepting {
    type Phase = Phase;
    const ROLE: Role = Role::Server;

    fn open(session: &mut Session<Self>, test: &Test, poller: &Poller) -> io::Result<()> {
        if test.protocol == Protocol::Tcp { Ok(()) } else { session.listen_for_hello(test, poller) }
    }
}

impl Session<Accepting> {
    /// Returns whether a connection with this cookie is one of its streams.
    fn wants_stream(&self, cookie: &Cookie) -> bool {
        let is_tcp = self.test.as_ref().is_some_and(|test| test.protocol == Protocol::Tcp);
        *cookie == self.control.cookie && is_tcp && self.awaits_streams()
    }

    /// Adds a stream over TCP.
    fn on_stream(&mut self, order: u64, socket: TcpStream, around: &mut Around<'_>) -> Option<Ending> {
        let dressed = sockets::dress(&SockRef::from(&socket), self.control.peer, self.test.as_ref()?);
        let opened = dressed.map(|()| self.sockets.push((order, socket.into())));
        self.on_opened(opened, around)
    }

    /// Adds a stream over UDP: its socket becomes the client's alone, and another waits for the next hello. No
    /// other host is answered: a hello with a forged address would direct the test at the owner of that
    /// address.
    fn on_hello(&mut self, around: &mut Around<'_>) -> Option<Ending> {
        let mut datagram = [0; 64];
        let (read, from) = self.side.hello.as_ref()?.recv_from(&mut datagram).ok()?;
        let answer = sockets::answer_to(&datagram[..read], from, self.control.peer)?;
        let opened = self.take_hello(from, answer, &around.poller);
        self.on_opened(opened, around)
    }

    fn take_hello(&mut self, from: SocketAddr, answer: [u8; 4], poller: &Poller) -> io::Result<()> {
        let (Some(socket), Some(test)) = (self.side.hello.take(), self.test.clone()) else { return Ok(()) };
        poller.remove(&socket)?;
        socket.connect(from)?;
        sockets::set_type_of_service(&SockRef::from(&socket), from, &test)?;
        // Before the answer, after which the client sends its next hello.
        if self.sockets.len() + 1 < test.places().len() {
            self.listen_for_hello(&test, poller)?;
        }
        socket.send(&answer)?;
        let order = self.sockets.len() as u64;
        self.sockets.push((order, socket.into()));
        Ok(())
    }

    fn listen_for_hello(&mut self, test: &Test, poller: &Poller) -> io::Result<()> {
        let socket = sockets::listen_for_hello(self.side.local, test)?;
        poller.add(&socket, HELLO, Interest::Read)?;
        self.side.hello = Some(socket);
        Ok(())
    }
}

/// Returns whether one more unidentified connection can be kept in addition to those of `known`.
fn has_room(known: impl Iterator<Item = SocketAddr>, peer: SocketAddr) -> Result<(), &'static str> {
    let (mut all, mut own) = (0, 0);
    for other in known {
        all += 1;
        own += usize::from(Source::of(other.ip()) == Source::of(peer.ip()));
    }
    if own >= MOST_STRANGERS_OF_ONE {
        return Err("too many connections from its address have sent no cookie");
    }
    if all >= MOST_STRANGERS {
        return Err("too many connections have sent no cookie");
    }
    Ok(())
}

impl Stranger {
    /// Continues reading; returns the cookie once all of it is there.
    fn read_cookie(&mut self) -> Result<Option<Cookie>, &'static str> {
        let mut bytes = [0; COOKIE_BYTES];
        let wanted = COOKIE_BYTES - self.cookie.len();
        match self.socket.read(&mut bytes[..wanted]) {
            Ok(0) => Err("it left without sending a cookie"),
            Ok(read) => {
                self.cookie.extend_from_slice(&bytes[..read]);
                self.whole_cookie()
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(_) => Err("it left without sending a cookie"),
        }
    }

    /// Source: observed; 36 letters and digits, and a zero.
    fn whole_cookie(&self) -> Result<Option<Cookie>, &'static str> {
        let letters = self.cookie.iter().take(COOKIE_BYTES - 1);
        if !letters.clone().all(u8::is_ascii_alphanumeric) {
            return Err("its input is not iperf3's");
        }
        match <Cookie>::try_from(&self.cookie[..]) {
            Ok(cookie) if cookie[COOKIE_BYTES - 1] == 0 => Ok(Some(cookie)),
            Ok(_) => Err("its input is not iperf3's"),
            Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn one_address_that_does_not_say_who_it_is_leaves_room_for_others() {
        let of = |last: u8| SocketAddr::from(([192, 0, 2, last], 5_201));
        let known = |last: u8, count: usize| (0..count).map(move |_| of(last));
        let most = MOST_STRANGERS_OF_ONE;
        assert!(has_room(known(1, most - 1), of(1)).is_ok());
        assert!(has_room(known(1, most), of(1)).unwrap_err().contains("from its address"));
        assert!(has_room(known(1, most), of(2)).is_ok());
        assert!(has_room(known(1, most).chain(known(2, most)), of(3)).is_err());
    }

    #[test]
    fn one_connection_that_cannot_be_taken_does_not_end_the_server() {
        for (errno, after) in [
            (Errno::AGAIN, AfterRefusal::Wait),
            (Errno::CONNABORTED, AfterRefusal::Next),
            (Errno::INTR, AfterRefusal::Next),
            (Errno::MFILE, AfterRefusal::Pause),
            (Errno::NFILE, AfterRefusal::Pause),
            (Errno::NOBUFS, AfterRefusal::Pause),
            (Errno::NOMEM, AfterRefusal::Pause),
            (Errno::PROTO, AfterRefusal::Pause),
            (Errno::HOSTUNREACH, AfterRefusal::Pause),
            (Errno::PERM, AfterRefusal::Pause),
            (Errno::BADF, AfterRefusal::End),
            (Errno::INVAL, AfterRefusal::End),
            (Errno::NOTSOCK, AfterRefusal::End),
        ] {
            let error = io::Error::from_raw_os_error(errno.raw_os_error());
            assert_eq!(AfterRefusal::of(&error), after, "{error}");
        }
    }
}
