//! One client of a server: its control connection, its machine, and the streams of its test.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use socket2::SockRef;
use sys::{Interest, Poller, clock};
use units::{Instant, WallTime};

use super::client::Cookie;
use super::error::ProtocolError;
use super::parameters::{Protocol, Test};
use super::report::{Parties, Report, canonical};
use super::results::Results;
use super::serve::{GOAL, HELLO};
use super::server::{Input, Output, Server};
use super::sockets;
use super::state::Fault;
use super::stream::Socket;
use super::traffic::{Role, Traffic};
use super::watch::{Notice, Watch};

/// Outcome of a session.
pub(super) enum Ending {
    Report(Box<Report>),
    Failed { peer: SocketAddr, error: ProtocolError },
}

/// The client that is served.
pub(super) struct Session {
    control: TcpStream,
    peer: SocketAddr,
    /// Address at which the server listens; streams over UDP send their hello there.
    local: SocketAddr,
    cookie: Cookie,
    began: WallTime,
    machine: Server,
    /// Time of the machine's next deadline.
    deadline: Option<Instant>,
    every: Duration,
    /// Bytes that the control connection had no room for yet.
    unwritten: Vec<u8>,
    test: Option<Test>,
    /// Sockets of streams, each with its place in the order in which they were accepted.
    sockets: Vec<(u64, Socket)>,
    /// Socket for the hello of the next stream over UDP.
    hello: Option<UdpSocket>,
    traffic: Option<Traffic>,
    told: Results,
}

impl Session {
    pub(super) fn new(
        control: TcpStream,
        peer: SocketAddr,
        local: SocketAddr,
        cookie: Cookie,
        every: Duration,
    ) -> Self {
        Self {
            control,
            peer,
            local,
            cookie,
            began: clock::wall(),
            machine: Server::new(clock::monotonic()),
            deadline: None,
            every,
            unwritten: Vec::new(),
            test: None,
            sockets: Vec::new(),
            hello: None,
            traffic: None,
            told: Results::default(),
        }
    }

    /// Returns whether a connection with this cookie is one of its streams.
    pub(super) fn wants_stream(&self, cookie: &Cookie) -> bool {
        let is_tcp = self.test.as_ref().is_some_and(|test| test.protocol == Protocol::Tcp);
        *cookie == self.cookie && is_tcp && self.machine.awaits_streams()
    }

    pub(super) fn next_look(&self) -> Option<Instant> {
        let traffic = self.traffic.as_ref().filter(|_| self.machine.is_running());
        traffic.map(Traffic::next_look).into_iter().chain(self.deadline).min()
    }

    /// Reads the control connection, and executes the resulting actions.
    pub(super) fn on_control(&mut self, watch: &mut dyn Watch, poller: &Poller) -> Option<Ending> {
        let mut bytes = [0; 4_096];
        loop {
            let now = clock::monotonic();
            match self.control.read(&mut bytes) {
                Ok(0) => self.machine.handle(now, Input::Closed),
                Ok(read) => self.machine.handle(now, Input::Bytes(&bytes[..read])),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.drive(watch, poller),
                Err(_) => self.machine.handle(now, Input::Closed),
            }
            if let Some(ending) = self.drive(watch, poller) {
                return Some(ending);
            }
        }
    }

    /// Adds a stream over TCP.
    pub(super) fn on_stream(
        &mut self,
        order: u64,
        socket: TcpStream,
        watch: &mut dyn Watch,
        poller: &Poller,
    ) -> Option<Ending> {
        let test = self.test.as_ref()?;
        match sockets::dress(&SockRef::from(&socket), self.peer, test) {
            Ok(()) => self.sockets.push((order, Socket::Tcp(socket))),
            Err(source) => self.fail_stream(self.next_stream(), source),
        }
        self.begin_once_all_are_there(watch, poller)
    }

    /// Adds a stream over UDP: its socket becomes the client's alone, and another waits for the next hello. No
    /// other host is answered: a hello with a forged address would direct the test at the owner of that
    /// address.
    pub(super) fn on_hello(&mut self, watch: &mut dyn Watch, poller: &Poller) -> Option<Ending> {
        let mut datagram = [0; 64];
        let (read, from) = self.hello.as_ref()?.recv_from(&mut datagram).ok()?;
        let answer = sockets::answer_to(&datagram[..read], from, self.peer)?;
        if let Err(source) = self.take_hello(from, answer, poller) {
            self.fail_stream(self.next_stream(), source);
        }
        self.begin_once_all_are_there(watch, poller)
    }

    fn take_hello(&mut self, from: SocketAddr, answer: [u8; 4], poller: &Poller) -> std::io::Result<()> {
        let (Some(socket), Some(test)) = (self.hello.take(), self.test.clone()) else { return Ok(()) };
        poller.remove(&socket)?;
        socket.connect(from)?;
        sockets::set_type_of_service(&SockRef::from(&socket), from, &test)?;
        // Before the answer, after which the client sends its next hello.
        if self.sockets.len() + 1 < test.places().len() {
            self.listen_for_hello(&test, poller)?;
        }
        socket.send(&answer)?;
        let order = self.sockets.len() as u64;
        self.sockets.push((order, Socket::Udp(socket)));
        Ok(())
    }

    fn listen_for_hello(&mut self, test: &Test, poller: &Poller) -> std::io::Result<()> {
        let socket = sockets::listen_for_hello(self.local, test)?;
        poller.add(&socket, HELLO, Interest::Read)?;
        self.hello = Some(socket);
        Ok(())
    }

    fn begin_once_all_are_there(&mut self, watch: &mut dyn Watch, poller: &Poller) -> Option<Ending> {
        let test = self.test.clone()?;
        if self.machine.awaits_streams() && self.sockets.len() == test.places().len() {
            self.sockets.sort_by_key(|(order, _)| *order);
            let sockets = self.sockets.drain(..).map(|(_, socket)| socket).collect();
            let traffic = Traffic::new(test, Role::Server, sockets, self.every);
            let added = traffic
                .and_then(|traffic| poller.add(&traffic.goal.wakeup, GOAL, Interest::Read).map(|()| traffic));
            match added {
                Ok(traffic) => {
                    self.tell_streams(&traffic, watch);
                    self.traffic = Some(traffic);
                    self.machine.handle(clock::monotonic(), Input::Opened);
                }
                Err(source) => self.fail_stream(self.next_stream(), source),
            }
        }
        self.drive(watch, poller)
    }

    fn tell_streams(&self, traffic: &Traffic, watch: &mut dyn Watch) {
        for stream in &traffic.streams {
            let (local, remote) = (canonical(stream.local), canonical(stream.remote));
            watch.notice(Notice::Connected { id: stream.place.id, local, remote });
        }
        if let Some(warning) = traffic.clamped() {
            watch.notice(Notice::Warning(warning));
        }
    }

    /// A stream's thread has ended; the consequences are handled with the next tick.
    pub(super) fn on_goal(&mut self) -> Option<Ending> {
        if let Some(traffic) = &self.traffic {
            traffic.goal.wakeup.clear();
        }
        None
    }

    /// Closes intervals, handles failures, and passes the time to the machine.
    pub(super) fn on_time(&mut self, watch: &mut dyn Watch, poller: &Poller, now: Instant) -> Option<Ending> {
        if self.machine.is_running()
            && let Some(traffic) = &mut self.traffic
        {
            if let Some(interval) = traffic.look(now) {
                watch.notice(Notice::Interval(&interval));
                if traffic.has_moved() {
                    self.machine.handle(now, Input::Progress);
                }
            }
            if let Some((stream, source)) = traffic.take_failure() {
                self.fail_stream(stream, source);
            }
        }
        if self.machine.awaits_results()
            && let Some(traffic) = &mut self.traffic
        {
            traffic.nudge(now);
        }
        self.machine.handle(now, Input::Tick);
        self.drive(watch, poller)
    }

    /// Ends the session, and notifies the client.
    pub(super) fn interrupt(&mut self, watch: &mut dyn Watch, poller: &Poller) -> Option<Ending> {
        self.machine.handle(clock::monotonic(), Input::Interrupt);
        self.drive(watch, poller)
    }

    /// Executes the machine's actions, until there is nothing more to do.
    fn drive(&mut self, watch: &mut dyn Watch, poller: &Poller) -> Option<Ending> {
        loop {
            match self.machine.poll() {
                Output::Write(bytes) => self.unwritten.extend(bytes),
                Output::Open(test) => self.open(*test, poller),
                Output::Start => self.start(),
                Output::Halt => {
                    if let Some(traffic) = &mut self.traffic {
                        traffic.halt();
                    }
                }
                Output::Collect(told) => self.collect(told, watch),
                Output::Finished => {
                    self.write();
                    let report = self.report().expect("results were collected, and from streams");
                    return Some(Ending::Report(Box::new(report)));
                }
                Output::Failed(error) => {
                    self.write();
                    return Some(Ending::Failed { peer: canonical(self.peer), error });
                }
                Output::Idle { deadline } => {
                    self.deadline = deadline;
                    self.write();
                    return None;
                }
            }
        }
    }

    fn open(&mut self, test: Test, poller: &Poller) {
        let is_udp = test.protocol == Protocol::Udp;
        self.test = Some(test.clone());
        let listening = if is_udp { self.listen_for_hello(&test, poller) } else { Ok(()) };
        match listening {
            Ok(()) => self.machine.handle(clock::monotonic(), Input::Ready),
            Err(source) => self.fail_stream(self.next_stream(), source),
        }
    }

    /// Returns the number of the stream that is opened next.
    fn next_stream(&self) -> u32 {
        let places = self.test.as_ref().map(Test::places).unwrap_or_default();
        places.get(self.sockets.len()).or(places.last()).map_or(0, |place| place.id)
    }

    fn fail_stream(&mut self, stream: u32, source: std::io::Error) {
        let fault = Fault::stream(&source);
        let error = ProtocolError::Stream { stream, source };
        self.machine.handle(clock::monotonic(), Input::Failed(error, fault));
    }

    fn start(&mut self) {
        // The client learns first that data may flow: its clock begins with that message.
        self.write();
        let Some(traffic) = &mut self.traffic else { return };
        if let Err((stream, source)) = traffic.start() {
            self.fail_stream(stream, source);
        }
    }

    fn collect(&mut self, told: Results, watch: &mut dyn Watch) {
        let Some(traffic) = &mut self.traffic else { return };
        traffic.drain(Some(&told));
        if let Some(last) = traffic.intervals.last() {
            watch.notice(Notice::Interval(last));
        }
        let results = traffic.results(Some(&told));
        self.told = told;
        self.machine.handle(clock::monotonic(), Input::Collected(results));
    }

    fn report(&mut self) -> Option<Report> {
        let letters = self.cookie[..self.cookie.len() - 1].to_vec();
        let parties = Parties {
            peer: self.peer,
            cookie: String::from_utf8_lossy(&letters).into_owned(),
            began: self.began,
            control_mss: SockRef::from(&self.control).tcp_mss().ok(),
        };
        Some(Report::new(parties, self.traffic.as_mut()?, &self.told))
    }

    /// Writes as much as the control connection has room for; the rest waits for the next attempt.
    fn write(&mut self) {
        while !self.unwritten.is_empty() {
            match self.control.write(&self.unwritten) {
                Ok(written) => drop(self.unwritten.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // No room, or the peer is gone, which reading will show.
                Err(_) => return,
            }
        }
    }
}
