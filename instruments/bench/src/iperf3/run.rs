//! The client with its sockets: runs one test against an iperf3 server.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use socket2::SockRef;
use sys::{Interest, Poller, clock};
use units::{Instant, WallTime};

use super::client::{COOKIE_BYTES, Client, Cookie, Input, Output};
use super::error::{ProtocolError, RunError};
use super::options::{ClientOptions, Family};
use super::parameters::{Protocol, Test};
use super::report::{Parties, Report, canonical};
use super::results::Results;
use super::sockets::{self, Origin};
use super::stream::Socket;
use super::traffic::{Role, Traffic};
use super::watch::{Notice, Watch};

/// Interval at which the request to end and the streams are checked: they count and fail on threads of their
/// own.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

const CONTROL: u64 = 1;
const GOAL: u64 = 3;

struct Runner<'a> {
    options: &'a ClientOptions,
    watch: &'a mut dyn Watch,
    poller: Poller,
    control: TcpStream,
    remote: SocketAddr,
    cookie: Cookie,
    began: WallTime,
    test: Test,
    machine: Client,
    /// Time of the machine's next deadline.
    deadline: Option<Instant>,
    traffic: Option<Traffic>,
}

/// Runs one test; returns the counts of both sides.
///
/// # Errors
/// [`RunError`] with the reason why there is no result, and the remedy.
pub fn run(options: &ClientOptions, watch: &mut dyn Watch) -> Result<Report, RunError> {
    options.check()?;
    let remote = resolve(options)?;
    let origin = Origin { address: options.bind, port: options.client_port };
    let control = sockets::connect_control(remote, origin)
        .map_err(|source| RunError::Connect { address: remote, source })?;
    let mss = SockRef::from(&control).tcp_mss().ok();
    control.set_nonblocking(true)?;
    let poller = Poller::new()?;
    poller.add(&control, CONTROL, Interest::Read)?;
    let (test, cookie) = (options.test(mss), new_cookie());
    let machine = Client::new(clock::monotonic(), test.clone(), &cookie);
    let began = clock::wall();
    let (deadline, traffic) = (None, None);
    let mut runner =
        Runner { options, watch, poller, control, remote, cookie, began, test, machine, deadline, traffic };
    let told = runner.converse()?;
    runner.report(mss, &told)
}

fn resolve(options: &ClientOptions) -> Result<SocketAddr, RunError> {
    let unknown = |source| RunError::Resolve { host: options.host.clone(), source };
    let addresses = (&*options.host, options.port).to_socket_addrs().map_err(unknown)?;
    let wanted = |address: &SocketAddr| match options.family {
        Family::Any => true,
        Family::V4 => address.is_ipv4(),
        Family::V6 => address.is_ipv6(),
    };
    let none = || unknown(std::io::Error::new(ErrorKind::NotFound, "it has no address of that family"));
    addresses.into_iter().find(wanted).ok_or_else(none)
}

/// Returns a random cookie: 36 letters and digits, and a zero. It identifies a client and authenticates
/// nothing.
fn new_cookie() -> Cookie {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let seed = clock::wall().as_nanos().unsigned_abs() ^ (u64::from(std::process::id()) << 40);
    let mut random = units::Random::new(seed);
    let mut cookie = [0; COOKIE_BYTES];
    for letter in &mut cookie[..COOKIE_BYTES - 1] {
        *letter = LETTERS[usize::try_from(random.below(32)).expect("below 32")];
    }
    cookie
}

impl Runner<'_> {
    /// Follows the conversation until the test is over; returns the server's results.
    fn converse(&mut self) -> Result<Results, RunError> {
        loop {
            if self.watch.cancellation().is_cancelled() {
                self.machine.handle(clock::monotonic(), Input::Interrupt);
            }
            self.read()?;
            // Input is handled before the time is checked: a test that has just begun is not over.
            if let Some(outcome) = self.drive()? {
                return Ok(outcome?);
            }
            self.on_time(clock::monotonic());
            if let Some(outcome) = self.drive()? {
                return Ok(outcome?);
            }
            self.wait()?;
        }
    }

    fn wait(&mut self) -> Result<(), RunError> {
        let running = self.traffic.as_ref().filter(|_| self.machine.is_running());
        let look = clock::monotonic() + POLL_INTERVAL;
        let deadline =
            running.map(Traffic::next_look).into_iter().chain(self.deadline).fold(look, Instant::min);
        let ready = self.poller.wait(Some(deadline))?;
        if ready.iter().any(|ready| ready.token == GOAL)
            && let Some(traffic) = &self.traffic
        {
            traffic.goal.wakeup.clear();
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), RunError> {
        let mut bytes = [0; 4_096];
        loop {
            let now = clock::monotonic();
            match self.control.read(&mut bytes) {
                Ok(0) => return self.on_closed(now),
                Ok(read) => self.machine.handle(now, Input::Bytes(&bytes[..read])),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return self.on_closed(now),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn on_closed(&mut self, now: Instant) -> Result<(), RunError> {
        self.machine.handle(now, Input::Closed);
        Ok(())
    }

    /// Closes intervals, handles failures and the end, and passes the time to the machine.
    fn on_time(&mut self, now: Instant) {
        if self.machine.is_running()
            && let Some(traffic) = &mut self.traffic
        {
            if traffic.is_over(now) {
                traffic.halt();
                traffic.flush();
                self.machine.handle(clock::monotonic(), Input::Over);
            } else if let Some(interval) = traffic.look(now) {
                self.watch.notice(Notice::Interval(&interval));
                if traffic.has_moved() {
                    self.machine.handle(now, Input::Progress);
                }
            }
            if let Some((stream, source)) = traffic.take_failure() {
                self.machine.handle(now, Input::Failed(ProtocolError::Stream { stream, source }));
            }
        }
        self.machine.handle(now, Input::Tick);
    }

    /// Executes the machine's actions; returns the outcome once there is one.
    fn drive(&mut self) -> Result<Option<Result<Results, ProtocolError>>, RunError> {
        loop {
            match self.machine.poll() {
                Output::Write(bytes) => self.write(&bytes)?,
                Output::Open => self.open()?,
                Output::Start => self.start(),
                Output::Collect => self.collect(),
                Output::Finished(told) => return Ok(Some(Ok(told))),
                Output::Failed(error) => return Ok(Some(Err(error))),
                Output::Idle { deadline } => {
                    self.deadline = deadline;
                    return Ok(None);
                }
            }
        }
    }

    /// Writes to the control connection; waits for room, which a running server makes at once.
    fn write(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        self.control.set_nonblocking(false)?;
        self.control.set_write_timeout(Some(sockets::CONNECT_PATIENCE))?;
        let written = self.control.write_all(bytes);
        self.control.set_nonblocking(true)?;
        match written {
            // The server left; its earlier messages are still to be read.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                Ok(())
            }
            outcome => Ok(outcome?),
        }
    }

    fn open(&mut self) -> Result<(), RunError> {
        let places = self.test.places();
        let mut opened = Vec::with_capacity(places.len());
        for (index, place) in places.iter().enumerate() {
            match self.open_stream(index) {
                Ok(socket) => opened.push(socket),
                Err(source) => {
                    let error = ProtocolError::Stream { stream: place.id, source };
                    self.machine.handle(clock::monotonic(), Input::Failed(error));
                    return Ok(());
                }
            }
        }
        let traffic = Traffic::new(self.test.clone(), Role::Client, opened, self.options.interval)?;
        self.poller.add(&traffic.goal.wakeup, GOAL, Interest::Read)?;
        for stream in &traffic.streams {
            let (local, remote) = (canonical(stream.local), canonical(stream.remote));
            self.watch.notice(Notice::Connected { id: stream.place.id, local, remote });
        }
        if let Some(warning) = traffic.clamped() {
            self.watch.notice(Notice::Warning(warning));
        }
        self.traffic = Some(traffic);
        Ok(())
    }

    fn open_stream(&self, index: usize) -> std::io::Result<Socket> {
        let origin = Origin { address: self.options.bind, port: self.options.client_port };
        let local = sockets::origin_of_stream(origin, self.remote, index);
        match self.test.protocol {
            Protocol::Tcp => sockets::open_tcp(self.remote, local, &self.test, &self.cookie).map(Socket::Tcp),
            Protocol::Udp => sockets::open_udp(self.remote, local, &self.test).map(Socket::Udp),
        }
    }

    fn start(&mut self) {
        let started = self.traffic.as_mut().map_or(Ok(()), Traffic::start);
        if let Err((stream, source)) = started {
            let error = ProtocolError::Stream { stream, source };
            self.machine.handle(clock::monotonic(), Input::Failed(error));
        }
    }

    fn collect(&mut self) {
        let Some(traffic) = &mut self.traffic else { return };
        traffic.drain(None);
        if let Some(last) = traffic.intervals.last() {
            self.watch.notice(Notice::Interval(last));
        }
        let results = traffic.results(None);
        self.machine.handle(clock::monotonic(), Input::Collected(results));
    }

    fn report(mut self, control_mss: Option<u32>, told: &Results) -> Result<Report, RunError> {
        let letters = &self.cookie[..COOKIE_BYTES - 1];
        let parties = Parties {
            peer: self.remote,
            cookie: String::from_utf8_lossy(letters).into_owned(),
            began: self.began,
            control_mss,
        };
        let traffic = self.traffic.as_mut().expect("a test that finished had streams");
        Ok(Report::new(parties, traffic, told))
    }
}
