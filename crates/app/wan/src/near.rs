//! The near end's process: a reader of its bus, and the link to the far relay.
//!
//! One thread does everything: it reads records, takes messages, hands both to the machine, and carries out the
//! machine's output. It sleeps until a ring's doorbell or the port wakes it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use engine::{News, ReliablePort};
use relay::{NearConfig, NearEnd, NearEvent, NearInput};
use sys::{Cancellation, clock};
use tallycast::udt::PublicKey;
use tallycast::{RelayLink, RelayState, RelayStream, StreamPattern, Tap};
use udt::{SocketConfig, SocketId};
use units::Instant;

use crate::backfill::{Source, Supplier};
use crate::deadline::{DeadlineError, check_way};
use crate::driver::{Driver, Turn, near_tag};
use crate::link::{Change, Link};
use crate::look_up::LookUp;
use crate::notice::{Notice, age_state, cause_states, degraded_name, nanos, seconds};
use crate::peers::{ListedPeers, Peers, turned_away};
use crate::streams::Streams;

/// Maximum number of records that are read before messages are looked at again.
const MAX_RECORDS: usize = 256;
/// Time that a path gets to show a round trip within the deadline, once it is connected for the first time: its first
/// measurements may be those of a busy host.
const TRIAL: Duration = Duration::from_secs(2);
/// Time that the far end gets to answer for everything when this end stops.
const FAREWELL: Duration = Duration::from_secs(2);
/// Interval of states.
const STATES: Duration = Duration::from_secs(1);

/// Settings of a near end.
#[derive(Clone, Debug)]
pub struct NearSettings {
    /// Name of this station.
    pub station: String,
    /// A random number of this process.
    pub incarnation: u64,
    /// Deadline from end to end, as [`check_deadline`](crate::check_deadline) allows it.
    pub deadline: Duration,
    /// True if readers may want a longer deadline, and no shorter one.
    pub is_least: bool,
    /// Precedence of streams by their names where not all fit; the last pattern that matches counts.
    pub priorities: Vec<(StreamPattern, u8)>,
    /// Address of the far relay.
    pub peer: SocketAddr,
    /// Settings of the connections.
    pub socket: SocketConfig,
}

/// Reason why a near end does not go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The path is longer than the deadline.
    #[error(transparent)]
    Deadline(#[from] DeadlineError),
    /// The port failed.
    #[error("the port of the link failed: {0}")]
    Port(std::io::ErrorKind),
}

/// A relay that reads its bus and dials.
pub struct Near {
    tap: Tap,
    news: Arc<News>,
    link: Link,
    machine: NearEnd,
    driver: Driver,
    streams: Streams,
    settings: NearSettings,
    /// Instant by which the round trip must be within the deadline; none once it was.
    trial: Option<Option<Instant>>,
    far_station: Option<String>,
    peers: Peers,
    /// Key of the far relay.
    responder: Option<PublicKey>,
    is_late_told: bool,
    /// True once it was reported that there is no connection.
    is_down_told: bool,
    next_state: Instant,
    message: Vec<u8>,
    port: Arc<ReliablePort>,
    supplier: Option<Supplier>,
}

impl Near {
    /// Begins to dial over a port that is this relay's alone.
    #[must_use]
    pub fn new(tap: Tap, port: ReliablePort, settings: NearSettings) -> Self {
        let (now, news) = (clock::monotonic(), Arc::new(News::default()));
        let port = Arc::new(port);
        port.tell(Arc::clone(&news));
        let NearSettings { station, incarnation, deadline, is_least, priorities, .. } = settings.clone();
        let config = NearConfig { station, incarnation, deadline, is_least, priorities };
        let machine = NearEnd::new(config, now);
        let link = Link::new(now, Arc::clone(&port), settings.peer, settings.socket.clone());
        Self {
            tap,
            news,
            link,
            machine,
            streams: Streams::default(),
            settings,
            trial: Some(None),
            far_station: None,
            is_late_told: false,
            is_down_told: false,
            next_state: now,
            message: Vec::new(),
            driver: Driver::default(),
            peers: Peers::default(),
            responder: None,
            port,
            supplier: None,
        }
    }

    /// Looks the far relay's address up before each attempt to connect.
    #[must_use]
    pub fn with_look_up(mut self, look_up: LookUp) -> Self {
        self.link.follow(look_up, Arc::clone(&self.news));
        self
    }

    /// Follows a list of peers: while the far relay's key is not in it there is no connection.
    #[must_use]
    pub fn with_peers(mut self, responder: Option<PublicKey>, list: ListedPeers) -> Self {
        self.peers.follow(list);
        self.responder = responder;
        self
    }

    /// Lets the far relay fetch the samples that its archive misses from the archive that is recorded here.
    #[must_use]
    pub fn with_archive(mut self, source: Source) -> Self {
        let NearSettings { station, peer, socket, .. } = &self.settings;
        self.supplier = Some(Supplier::begin(Arc::clone(&self.port), *peer, socket, station, source));
        self
    }

    /// Relays until the end is requested; passes events to `take`, and once a second its state to `show`.
    ///
    /// # Errors
    /// If the path is longer than the deadline from the beginning, or the port fails.
    pub fn run(
        mut self,
        cancellation: &Cancellation,
        take: &mut dyn FnMut(Notice),
        show: &mut dyn FnMut(&RelayState),
    ) -> Result<(), RelayError> {
        tell_of_end(cancellation, &self.news);
        while !cancellation.is_cancelled() {
            let now = clock::monotonic();
            let until = self.go_round(now, take, show)?;
            let mut patience = until.since(clock::monotonic());
            for _ in 0..MAX_RECORDS {
                let Some(tapped) = self.tap.next_or_news(patience, &self.news) else { break };
                let (machine, now) = (&mut self.machine, clock::monotonic());
                self.streams.take(now, tapped, |input| machine.handle(now, input));
                patience = Duration::ZERO;
            }
        }
        self.part(take, show)
    }

    /// Waits until the far end has answered for everything that was read. The streams do not end: the far end keeps
    /// them for a relay that is started again.
    fn part(
        mut self,
        take: &mut dyn FnMut(Notice),
        show: &mut dyn FnMut(&RelayState),
    ) -> Result<(), RelayError> {
        let end = clock::monotonic() + FAREWELL;
        loop {
            let now = clock::monotonic();
            let until = self.go_round(now, take, show)?;
            let mut accounts = self.streams.names().keys().filter_map(|slot| self.machine.account(*slot));
            let is_answered = accounts.all(|account| account.in_flight == 0);
            if is_answered || now >= end || self.link.socket().is_none() {
                break;
            }
            self.news.wait(until.min(end).since(clock::monotonic()));
        }
        self.link.hang_up(clock::monotonic());
        Ok(())
    }

    /// Does everything that can be done now; returns when to do so again at the latest.
    fn go_round(
        &mut self,
        now: Instant,
        take: &mut dyn FnMut(Notice),
        show: &mut dyn FnMut(&RelayState),
    ) -> Result<Instant, RelayError> {
        if let Some(kind) = self.link.port().failed() {
            return Err(RelayError::Port(kind));
        }
        let listed = self.peers.look(now, self.link.port(), take);
        if let (Some(listed), Some(responder)) = (listed, self.responder) {
            let is_barred = !listed.contains(&responder);
            if let Some(change) = self.link.bar(now, is_barred) {
                self.on_change(now, change, take);
            }
            if is_barred {
                let what =
                    "the far relay is not among the listed peers any more: no connection until it is listed";
                take(Notice::Warning { what: what.to_owned() });
            }
        }
        while let Some(change) = self.link.poll(now) {
            self.on_change(now, change, take);
        }
        if let Some(socket) = self.link.socket() {
            self.hear(now, socket);
            self.check_trial(now, socket)?;
        }
        let deadline = self.obey(take);
        if now >= self.next_state {
            self.next_state = now + STATES;
            let state = self.state();
            show(&state);
        }
        let until = Instant::earlier(deadline, self.link.deadline());
        Ok(until.map_or(self.next_state, |until| until.min(self.next_state)))
    }

    fn on_change(&mut self, now: Instant, change: Change, take: &mut dyn FnMut(Notice)) {
        let peer = self.link.peer();
        match change {
            Change::Up(_) => {
                self.driver.restart();
                if let Some(trial) = &mut self.trial {
                    *trial = Some(now + TRIAL);
                }
                self.is_down_told = false;
                if let Some(supplier) = &self.supplier {
                    supplier.follow(peer);
                }
                self.machine.handle(now, NearInput::Connected);
                take(Notice::Connected { peer });
            }
            Change::Unresolved => {
                let trouble = self.link.trouble().unwrap_or_default();
                take(Notice::Warning {
                    what: format!("{trouble}\n{peer}, its address before, is tried again"),
                });
            }
            Change::Down { reason, retry_in, .. } => {
                self.machine.handle(now, NearInput::Disconnected);
                if std::mem::replace(&mut self.is_down_told, true) {
                    return;
                }
                let retry_in_s = Some(seconds(retry_in));
                take(Notice::Disconnected { peer, reason: reason.to_string(), retry_in_s });
            }
        }
    }

    /// Takes what the port has from the far end.
    fn hear(&mut self, now: Instant, socket: SocketId) {
        for (tag, was_sent) in self.link.port().take_expired(socket) {
            self.machine.handle(now, NearInput::Expired { tag: near_tag(tag), was_sent });
        }
        // The link reports the end of the connection.
        while let Ok(Some(_)) = self.link.port().try_receive_message(socket, &mut self.message) {
            self.machine.handle(now, NearInput::Message(&self.message));
        }
    }

    /// Ends if the path cannot keep the deadline from the beginning.
    fn check_trial(&mut self, now: Instant, socket: SocketId) -> Result<(), RelayError> {
        let Some(Some(until)) = self.trial else { return Ok(()) };
        let Some(round_trip) = self.link.port().way(socket).and_then(|way| way.round_trip) else {
            return Ok(());
        };
        match check_way(self.settings.deadline, round_trip) {
            Ok(()) => self.trial = None,
            Err(error) if now >= until => return Err(error.into()),
            Err(_) => {}
        }
        Ok(())
    }

    /// Carries out the machine's output; returns when to poll it again.
    fn obey(&mut self, take: &mut dyn FnMut(Notice)) -> Option<Instant> {
        loop {
            let connection = self.link.socket().map(|socket| (self.link.port(), socket));
            match self.driver.turn(&mut self.machine, connection) {
                Turn::Act(event) => self.on_event(event, take),
                Turn::Idle(until) => return until,
            }
        }
    }

    fn on_event(&mut self, event: NearEvent, take: &mut dyn FnMut(Notice)) {
        let name = |streams: &Streams, slot| {
            streams.name(slot).map_or_else(|| format!("stream {slot}"), str::to_owned)
        };
        match event {
            NearEvent::Met { station } => {
                self.far_station = Some(station.clone());
                take(Notice::Met { peer: self.link.peer(), station });
            }
            NearEvent::Opened { slot, position } => {
                take(Notice::Opened { stream: name(&self.streams, slot), position });
            }
            NearEvent::Refused { slot, refusal } => {
                let (stream, reason) = (name(&self.streams, slot), refusal.to_string());
                self.streams.release(slot);
                take(Notice::Refused { stream, reason });
            }
            NearEvent::Wanted { slot, deadline, priority } => {
                let deadline_ns = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
                take(Notice::Wanted { stream: name(&self.streams, slot), deadline_ns, priority });
            }
            NearEvent::Ask { stream, deadline } => self.tap.state_deadline(&stream, deadline),
            NearEvent::DeadlineTooShort { slot, deadline, least } => {
                let stream = name(&self.streams, slot);
                let what = format!(
                    "{stream}: the path has become longer than the deadline of {deadline:?} allows, everything comes \
                     too late\ngive at least round trip / 2 + 2 ms = {least:?}"
                );
                take(Notice::Warning { what });
            }
            NearEvent::DeadlineKept { slot } => {
                take(Notice::DeadlineKept { stream: name(&self.streams, slot) });
            }
            // Summed up in the state.
            NearEvent::GaveUp { .. } => {}
            NearEvent::Closed { slot } => {
                let stream = name(&self.streams, slot);
                self.streams.release(slot);
                take(Notice::Closed { stream });
            }
            NearEvent::Ignored(fault) => {
                if !std::mem::replace(&mut self.is_late_told, true) {
                    take(Notice::Warning {
                        what: format!("{fault}; this and what follows of it is ignored"),
                    });
                }
            }
        }
    }

    fn state(&mut self) -> RelayState {
        let socket = self.link.socket();
        let way = socket.and_then(|socket| self.link.port().way(socket));
        let stats = socket.and_then(|socket| self.link.port().stats(socket));
        let machine = &mut self.machine;
        let streams = self.streams.names().iter().filter_map(|(slot, name)| {
            let it = machine.account(*slot)?;
            let (deadline, priority) = machine.terms(*slot)?;
            Some(RelayStream {
                name: name.clone(),
                first: it.first,
                next: it.next,
                delivered: it.delivered,
                missing: it.missing,
                given_up: it.given_up,
                in_flight: it.in_flight,
                deadline_ns: Some(nanos(deadline)),
                priority,
                causes: cause_states(it.causes),
                age: machine.take_ages(*slot).map(age_state),
                degraded: machine.degraded(*slot).map(|it| degraded_name(it).to_owned()),
            })
        });
        let streams = streams.collect();
        let link = RelayLink {
            peer: self.link.peer().to_string(),
            station: self.far_station.clone(),
            is_up: way.is_some_and(|way| way.is_up),
            round_trip_ns: way.and_then(|way| way.round_trip).map(nanos),
            repaired_packets: stats.map_or(0, |stats| stats.retransmitted_packets),
            sent_packets: stats.map_or(0, |stats| stats.sent_packets - stats.retransmitted_packets),
            ignored: self.machine.ignored() + self.streams.turned_away(),
            waiting_bytes: self.machine.queued_bytes() as u64,
            streams,
        };
        let turned_away = turned_away(self.link.port());
        RelayState {
            role: "near".to_owned(),
            station: self.settings.station.clone(),
            turned_away,
            links: vec![link],
            backfill: self.supplier.as_ref().map(Supplier::state),
        }
    }
}

/// Wakes a relay when its end is requested, from a thread that sleeps until then.
pub(crate) fn tell_of_end(cancellation: &Cancellation, news: &Arc<News>) {
    let (cancellation, news) = (cancellation.clone(), Arc::clone(news));
    let wait = move || {
        while !cancellation.wait(Duration::MAX) {}
        news.tell();
    };
    if let Err(error) = std::thread::Builder::new().name("relay-end".to_owned()).spawn(wait) {
        tracing::warn!("a request to end is heeded within a second: {error}");
    }
}
