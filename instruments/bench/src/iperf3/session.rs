//! One test with its sockets, on either side: the control connection, the conversation, and the streams.
//!
//! Client and server differ in their [`Side`]: the phases of the conversation, and the way in which streams come
//! to be (`run`, `serve`).

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::Socket;
use sys::{Interest, Poller, clock};
use units::{Instant, WallTime};

use super::conversation::{Conversation, Cookie, Input, Output, Phase};
use super::error::ProtocolError;
use super::parameters::Test;
use super::report::{Report, canonical};
use super::results::Results;
use super::sockets;
use super::traffic::{Role, Traffic};
use super::watch::{Notice, Watch};

/// Interval at which a session is checked: its streams count and fail on threads of their own.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Poller tokens of a session, and of the request to end.
pub(super) const CONTROL: u64 = 1;
pub(super) const HELLO: u64 = 2;
pub(super) const GOAL: u64 = 3;
pub(super) const CANCELLED: u64 = 4;

/// Surroundings of a session: its observer, and the poller of its sockets.
pub(super) struct Around<'a> {
    pub(super) watch: &'a mut dyn Watch,
    pub(super) poller: Poller,
}

/// Outcome of a session.
pub(super) type Ending = Result<Report, ProtocolError>;

/// The part of a session in which client and server differ.
pub(super) trait Side: Sized {
    type Phase: Phase;
    const ROLE: Role;

    /// Opens the streams of a test, or prepares for those that the client opens.
    fn open(session: &mut Session<Self>, test: &Test, poller: &Poller) -> std::io::Result<()>;
}

/// The control connection of a test.
pub(super) struct Control {
    pub(super) socket: TcpStream,
    pub(super) peer: SocketAddr,
    /// Identifies the client.
    pub(super) cookie: Cookie,
}

/// One test, from its first message to its report.
pub(super) struct Session<S: Side> {
    pub(super) side: S,
    pub(super) control: Control,
    pub(super) began: WallTime,
    /// Maximum segment size of the control connection, where the system reports it.
    pub(super) control_mss: Option<u32>,
    pub(super) test: Option<Test>,
    /// Sockets of streams, each with its place in the order in which they were opened.
    pub(super) sockets: Vec<(u64, Socket)>,
    conversation: Conversation<S::Phase>,
    /// Time of the conversation's next deadline.
    deadline: Option<Instant>,
    every: Duration,
    /// Bytes that the control connection had no room for yet.
    unwritten: Vec<u8>,
    /// The streams, once all of them are there.
    traffic: Option<Traffic>,
}

impl<S: Side> Session<S> {
    pub(super) fn new(
        side: S,
        control: Control,
        conversation: Conversation<S::Phase>,
        every: Duration,
    ) -> Self {
        let control_mss = sockets::segment_bytes(&control.socket);
        Self {
            side,
            control,
            began: clock::wall(),
            control_mss,
            test: None,
            sockets: Vec::new(),
            conversation,
            deadline: None,
            every,
            unwritten: Vec::new(),
            traffic: None,
        }
    }

    /// Returns the next time at which there is something to do.
    pub(super) fn next_look(&self) -> Instant {
        let poll = clock::monotonic() + POLL_INTERVAL;
        let traffic = self.traffic.as_ref().filter(|_| self.conversation.phase.is_running());
        let next = traffic.map(Traffic::next_look).into_iter().chain(self.deadline);
        next.fold(poll, Instant::min)
    }

    /// Reads the control connection, and executes the resulting actions.
    pub(super) fn on_control(&mut self, around: &mut Around<'_>) -> Option<Ending> {
        let mut bytes = [0; 4_096];
        loop {
            let input = match self.control.socket.read(&mut bytes) {
                Ok(0) => Input::Closed,
                Ok(read) => Input::Bytes(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.drive(around),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => Input::Closed,
                Err(error) => Input::Failed(ProtocolError::Control(error)),
            };
            if let Some(ending) = self.on_input(input, around) {
                return Some(ending);
            }
        }
    }

    /// Passes an event to the conversation, and executes the resulting actions.
    pub(super) fn on_input(&mut self, input: Input<'_>, around: &mut Around<'_>) -> Option<Ending> {
        self.conversation.handle(clock::monotonic(), input);
        self.drive(around)
    }

    /// Clears the streams' wake-up; its consequences are handled with the next tick.
    pub(super) fn on_goal(&self) {
        self.traffic.iter().for_each(|traffic| traffic.goal.wakeup.clear());
    }

    /// Closes intervals, handles failures and the end, and passes the time to the conversation.
    pub(super) fn on_time(&mut self, around: &mut Around<'_>, now: Instant) -> Option<Ending> {
        if let Some(traffic) = self.traffic.as_mut().filter(|_| self.conversation.phase.is_running()) {
            if traffic.is_over(now) {
                traffic.halt();
                traffic.flush();
                self.conversation.handle(clock::monotonic(), Input::Over);
            } else if let Some(interval) = traffic.look(now) {
                around.watch.notice(Notice::Interval(&interval));
                if traffic.has_moved() {
                    self.conversation.handle(now, Input::Progress);
                }
            }
            if let Some((stream, source)) = traffic.take_failure() {
                self.fail_stream(stream, source);
            }
        }
        self.conversation.handle(now, Input::Tick);
        self.drive(around)
    }

    /// Executes the actions of the conversation, until there is nothing more to do.
    fn drive(&mut self, around: &mut Around<'_>) -> Option<Ending> {
        loop {
            match self.conversation.poll() {
                Output::Write(bytes) => self.unwritten.extend(bytes),
                Output::Open(test) => self.open(*test, around),
                Output::Start => self.start(),
                Output::Halt => self.traffic.iter_mut().for_each(Traffic::halt),
                Output::Nudge => self.traffic.iter_mut().for_each(|it| it.nudge(clock::monotonic())),
                Output::Collect(told) => self.collect(told.as_ref(), around),
                Output::Finished(told) => {
                    self.write();
                    let mut traffic = self.traffic.take().expect("a test that finished had streams");
                    return Some(Ok(Report::new(self, &mut traffic, &told)));
                }
                Output::Failed(error) => {
                    self.write();
                    return Some(Err(error));
                }
                Output::Idle { deadline } => {
                    self.deadline = deadline;
                    self.write();
                    return None;
                }
            }
        }
    }

    fn open(&mut self, test: Test, around: &mut Around<'_>) {
        self.test = Some(test.clone());
        match S::open(self, &test, &around.poller) {
            Ok(()) => self.conversation.handle(clock::monotonic(), Input::Ready),
            Err(source) => self.fail_stream(self.next_stream(), source),
        }
        self.begin_once_all_are_there(around);
    }

    /// Handles the outcome of opening one more stream.
    pub(super) fn on_opened(
        &mut self,
        opened: std::io::Result<()>,
        around: &mut Around<'_>,
    ) -> Option<Ending> {
        match opened {
            Ok(()) => self.begin_once_all_are_there(around),
            Err(source) => self.fail_stream(self.next_stream(), source),
        }
        self.drive(around)
    }

    fn begin_once_all_are_there(&mut self, around: &mut Around<'_>) {
        let Some(test) = self.test.clone() else { return };
        if self.traffic.is_some() || self.sockets.len() < test.places().len() {
            return;
        }
        self.sockets.sort_by_key(|(order, _)| *order);
        let sockets = self.sockets.drain(..).map(|(_, socket)| socket).collect();
        let traffic = Traffic::new(test, S::ROLE, sockets, self.every).and_then(|traffic| {
            around.poller.add(&traffic.goal.wakeup, GOAL, Interest::Read)?;
            Ok(traffic)
        });
        match traffic {
            Ok(traffic) => {
                tell_streams(&traffic, around.watch);
                self.traffic = Some(traffic);
                self.conversation.handle(clock::monotonic(), Input::Opened);
            }
            Err(source) => self.fail_stream(self.next_stream(), source),
        }
    }

    /// Returns whether streams are awaited.
    pub(super) const fn awaits_streams(&self) -> bool {
        self.test.is_some() && self.traffic.is_none()
    }

    /// Returns the number of the stream that is opened next.
    fn next_stream(&self) -> u32 {
        let places = self.test.as_ref().map(Test::places).unwrap_or_default();
        places.get(self.sockets.len()).or(places.last()).map_or(0, |place| place.id)
    }

    fn fail_stream(&mut self, stream: u32, source: std::io::Error) {
        let error = ProtocolError::Stream { stream, source };
        self.conversation.handle(clock::monotonic(), Input::Failed(error));
    }

    fn start(&mut self) {
        // The client learns first that data may flow: its clock begins with that message.
        self.write();
        if let Some(Err((stream, source))) = self.traffic.as_mut().map(Traffic::start) {
            self.fail_stream(stream, source);
        }
    }

    fn collect(&mut self, told: Option<&Results>, around: &mut Around<'_>) {
        let Some(traffic) = &mut self.traffic else { return };
        traffic.drain(told);
        if let Some(last) = traffic.intervals.last() {
            around.watch.notice(Notice::Interval(last));
        }
        let results = traffic.results(told);
        self.conversation.handle(clock::monotonic(), Input::Collected(results));
    }

    /// Writes as much as the control connection has room for; the rest waits for the next attempt.
    fn write(&mut self) {
        while !self.unwritten.is_empty() {
            match self.control.socket.write(&self.unwritten) {
                Ok(written) => drop(self.unwritten.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // No room, or the peer is gone, which reading will show.
                Err(_) => return,
            }
        }
    }
}

fn tell_streams(traffic: &Traffic, watch: &mut dyn Watch) {
    for stream in &traffic.streams {
        let (local, remote) = (canonical(stream.local), canonical(stream.remote));
        watch.notice(Notice::Connected { id: stream.place.id, local, remote });
    }
    if let Some(warning) = traffic.clamped() {
        watch.notice(Notice::Warning(warning));
    }
}
