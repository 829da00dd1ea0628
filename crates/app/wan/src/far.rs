//! The far end's process: a port that relays dial, and the publications of their streams on this bus.
//!
//! Each near relay has a machine of its own, which outlives its connections: a relay that comes back, also after a
//! restart, finds its streams as they were. One thread does everything, and sleeps until the port has news.

mod lobby;
mod visitor;

use std::sync::Arc;
use std::time::Duration;

use archive::{FileStore, Store, StoreError};
use engine::{News, ReliablePort};
use relay::Publish;
use sys::{Cancellation, clock};
use tallycast::RelayState;
use udt::SocketConfig;
use units::Instant;

use crate::backfill::Fetchers;
use crate::near::tell_of_end;
use crate::notice::Notice;
use crate::peers::{ListedPeers, Peers, turned_away};
use crate::{Publication, RelayError};
use lobby::{Lobby, Newcomer};
use visitor::Visitor;

/// Number of clients that may wait to be accepted.
const BACKLOG: usize = 64;
/// Maximum number of near relays.
const MAX_VISITORS: usize = 64;
/// Interval of states.
const STATES: Duration = Duration::from_secs(1);
/// Time that readers get to learn the end of the streams when this end stops.
const SILENCE: Duration = Duration::from_millis(400);

/// Settings of a far end.
#[derive(Clone, Debug)]
pub struct FarSettings {
    /// Name of this station.
    pub station: String,
    /// A random number of this process.
    pub incarnation: u64,
    /// The least deadline of the streams that it publishes, if it has one, as [`check_deadline`](crate::check_deadline)
    /// allows it.
    pub deadline: Option<Duration>,
    /// Settings of the connections.
    pub socket: SocketConfig,
}

/// A relay that listens and publishes.
pub struct Far<O> {
    port: Arc<ReliablePort>,
    news: Arc<News>,
    settings: FarSettings,
    publication: O,
    lobby: Lobby,
    visitors: Vec<Visitor>,
    fetchers: Option<Fetchers>,
    /// Number of the next visitor.
    next_number: u64,
    next_state: Instant,
    peers: Peers,
}

impl<O: Publication> Far<O> {
    /// Begins to listen at a port that is this relay's alone, and has no listener yet.
    #[must_use]
    pub fn new(port: ReliablePort, publication: O, settings: FarSettings) -> Self {
        let news = Arc::new(News::default());
        port.tell(Arc::clone(&news));
        let is_only = port.listen(settings.socket.clone(), BACKLOG).is_some();
        debug_assert!(is_only, "the port is new");
        let next_state = clock::monotonic();
        let (lobby, visitors, peers) = (Lobby::default(), Vec::new(), Peers::default());
        let (port, fetchers) = (Arc::new(port), None);
        Self {
            port,
            news,
            settings,
            publication,
            lobby,
            visitors,
            fetchers,
            next_number: 0,
            next_state,
            peers,
        }
    }

    /// Follows a list of peers: connections of peers that are no longer in it end.
    #[must_use]
    pub fn with_peers(mut self, list: ListedPeers) -> Self {
        self.peers.follow(list);
        self
    }

    /// Fills holes of the archive in a folder from those of the near relays, also while it is recorded; it need not
    /// exist yet.
    #[must_use]
    pub fn with_archive(self, root: std::path::PathBuf) -> Self {
        let folder = root.clone();
        self.with_archive_in(root, move || Ok(Arc::new(FileStore::open(&folder)?)))
    }

    /// The same on a disk of the caller's, which `open` opens once it is there.
    #[doc(hidden)]
    #[must_use]
    pub fn with_archive_in(
        mut self,
        root: std::path::PathBuf,
        open: impl Fn() -> Result<Arc<dyn Store>, StoreError> + Send + Sync + 'static,
    ) -> Self {
        self.fetchers = Some(Fetchers::new(Arc::clone(&self.port), root, Box::new(open)));
        self
    }

    /// Returns the address it listens at, with the port that the kernel chose.
    #[must_use]
    pub fn local_address(&self) -> std::net::SocketAddr {
        self.port.local_address()
    }

    /// Relays until the end is requested, and tells `take` what happens and `show` its state once a second. Returns
    /// the publication.
    ///
    /// # Errors
    /// If the port fails.
    pub fn run(
        mut self,
        cancellation: &Cancellation,
        take: &mut dyn FnMut(Notice),
        show: &mut dyn FnMut(&RelayState),
    ) -> Result<O, RelayError> {
        take(Notice::Listening { address: self.port.local_address() });
        tell_of_end(cancellation, &self.news);
        while !cancellation.is_cancelled() {
            let until = self.go_round(take)?;
            if clock::monotonic() >= self.next_state {
                self.next_state = clock::monotonic() + STATES;
                let state = self.state();
                show(&state);
            }
            self.news.wait(until.min(self.next_state).since(clock::monotonic()));
        }
        for visitor in &mut self.visitors {
            for slot in visitor.end() {
                let key = (visitor.number(), slot);
                self.publication.publish(key, Publish::End);
            }
            visitor.hang_up(&self.port);
        }
        self.publication.close(SILENCE);
        Ok(self.publication)
    }

    /// Does everything that can be done now; returns when to do so again at the latest.
    fn go_round(&mut self, take: &mut dyn FnMut(Notice)) -> Result<Instant, RelayError> {
        if let Some(kind) = self.port.failed() {
            return Err(RelayError::Port(kind));
        }
        let now = clock::monotonic();
        if let Some(listed) = self.peers.look(now, &self.port, take) {
            let is_gone = |visitor: &&mut Visitor| visitor.key().is_some_and(|key| !listed.contains(&key));
            for visitor in self.visitors.iter_mut().filter(is_gone) {
                visitor.dismiss(&self.port, "its key is no longer listed", take);
            }
        }
        while let Some(socket) = self.port.try_accept() {
            self.lobby.enter(now, socket, &self.port);
        }
        self.lobby.hear(now, &self.port);
        for socket in self.lobby.take_backfills() {
            match &mut self.fetchers {
                Some(fetchers) => fetchers.welcome(socket),
                None => self.port.leave(socket),
            }
        }
        self.fetchers.iter().flat_map(Fetchers::notices).for_each(&mut *take);
        for newcomer in self.lobby.take_known(|newcomer| must_wait(&self.visitors, now, newcomer)) {
            self.welcome(now, newcomer, take);
        }
        let mut until = self.lobby.deadline().unwrap_or(self.next_state);
        for visitor in &mut self.visitors {
            let deadline = visitor.go_round(&self.port, &mut self.publication, take);
            until = Instant::earlier(Some(until), deadline).unwrap_or(until);
            self.publication.link(visitor.number(), visitor.is_up(&self.port));
        }
        self.publication.look(now).into_iter().for_each(&mut *take);
        self.visitors.retain(|visitor| !visitor.is_gone());
        Ok(until)
    }

    /// Gives a newcomer the machine of the near relay that it is, or a new one.
    fn welcome(&mut self, now: Instant, newcomer: Newcomer, take: &mut dyn FnMut(Notice)) {
        let same = self.visitors.iter().position(|visitor| visitor.is_incarnation(&newcomer));
        let place =
            same.or_else(|| self.visitors.iter().position(|visitor| visitor.is_succeeded_by(now, &newcomer)));
        let place = place.unwrap_or_else(|| {
            if self.visitors.len() < MAX_VISITORS {
                self.visitors.push(Visitor::new(now, self.next_number, &self.settings));
                self.next_number += 1;
            }
            self.visitors.len() - 1
        });
        let visitor = &mut self.visitors[place];
        if same.is_none() && visitor.is_connected() && !visitor.is_succeeded_by(now, &newcomer) {
            let what = format!("{MAX_VISITORS} relays are connected, and no more are accepted");
            take(Notice::Warning { what });
            return self.port.leave(newcomer.socket);
        }
        visitor.connect(now, newcomer, &self.port, take);
    }

    fn state(&mut self) -> RelayState {
        let links = self.visitors.iter_mut().filter_map(|visitor| visitor.state(&self.port)).collect();
        let turned_away = turned_away(&self.port);
        RelayState {
            role: "far".to_owned(),
            station: self.settings.station.clone(),
            turned_away,
            links,
            backfill: self.fetchers.as_ref().map(Fetchers::state),
        }
    }
}

/// Returns whether a newcomer has to wait: it may be a relay that was started again, whose earlier connection has not
/// ended yet as far as this end knows.
fn must_wait(visitors: &[Visitor], now: Instant, newcomer: &Newcomer) -> bool {
    visitors.iter().any(|visitor| visitor.may_be_succeeded_by(now, newcomer))
}
