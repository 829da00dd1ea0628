//! One connection to an app, and the thread that waits for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use sys::clock;
use tallycast::Node;
use tallycast::steering::{Remote, SteeringError};
use tallycast::udt::{Error, Keys};
use tokio::sync::OwnedSemaphorePermit;
use units::Instant;

use super::app::SteeredApp;
use super::json::Listing;

/// The most requests of one visitor that wait for one app.
const MAX_WAITING: usize = 16;
/// Age up to which what was read is shown to others, too.
const LISTING_AGE: Duration = Duration::from_millis(200);

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// A thread with a connection; it ends with the last of its handles, after what it was given.
#[derive(Clone)]
pub(super) struct Line(SyncSender<Job>);

/// A connection to an app, made when it is first needed, and again when it broke.
pub(super) struct Connection {
    node: Node,
    keys: Option<Keys>,
    app: SteeredApp,
    remote: Option<Remote>,
    /// What was read last, and when it was asked for.
    listing: Option<(Instant, Arc<Listing>)>,
    changed_ns: Arc<AtomicU64>,
}

impl Line {
    /// Starts the thread.
    pub(super) fn start(mut connection: Connection, permit: OwnedSemaphorePermit) -> io::Result<Self> {
        let (jobs, given) = sync_channel::<Job>(MAX_WAITING);
        let thread = std::thread::Builder::new().name("monitor-steer".to_owned());
        thread.spawn(move || {
            let _permit = permit;
            while let Ok(job) = given.recv() {
                job(&mut connection);
            }
        })?;
        Ok(Self(jobs))
    }

    /// Hands something over, unless too much waits.
    pub(super) fn send(&self, job: Job) -> Result<(), TrySendError<Job>> {
        self.0.try_send(job)
    }
}

impl Connection {
    pub(super) const fn new(
        node: Node,
        keys: Option<Keys>,
        app: SteeredApp,
        changed_ns: Arc<AtomicU64>,
    ) -> Self {
        Self { node, keys, app, remote: None, listing: None, changed_ns }
    }

    /// Takes up what the app's stream tells now: another run of the app has another address.
    pub(super) fn follow(&mut self, app: SteeredApp) {
        if app != self.app {
            (self.app, self.remote, self.listing) = (app, None, None);
        }
    }

    /// Returns the app as it stands, or as it stood a moment ago if nothing was changed here since.
    pub(super) fn list(&mut self) -> Result<Arc<Listing>, SteeringError> {
        let now = clock::monotonic();
        if let Some((asked, listing)) = &self.listing {
            // Pairs with the store in `Desk::changed`.
            let is_newer = asked.as_nanos() > self.changed_ns.load(Ordering::Acquire);
            if is_newer && now.since(*asked) < LISTING_AGE {
                return Ok(Arc::clone(listing));
            }
        }
        let listing = self.with(|remote| {
            let (parameters, totals, switches) = remote.list()?;
            Ok(Listing { epoch: remote.welcome().epoch, parameters, totals, switches })
        });
        let listing = Arc::new(listing?);
        self.listing = Some((now, Arc::clone(&listing)));
        Ok(listing)
    }

    /// Does something over the connection. If it turns out to be broken, a new one is tried once.
    pub(super) fn with<T>(
        &mut self,
        act: impl Fn(&mut Remote) -> Result<T, SteeringError>,
    ) -> Result<T, SteeringError> {
        let was_open = self.remote.is_some();
        let first = self.attempt(&act);
        match first {
            // An app that has ended since, or that was started again.
            Err(SteeringError::Connection(_) | SteeringError::Closed(_)) if was_open => self.attempt(&act),
            result => result,
        }
    }

    fn attempt<T>(
        &mut self,
        act: impl Fn(&mut Remote) -> Result<T, SteeringError>,
    ) -> Result<T, SteeringError> {
        let mut remote = match self.remote.take() {
            Some(remote) => remote,
            None => self.connect()?,
        };
        let result = act(&mut remote);
        if let Ok(_) | Err(SteeringError::Refused(_)) = result {
            // Answers to questions that were answered before are of no use to later requests.
            while let Ok(Some(_)) = remote.next(Duration::ZERO) {}
            self.remote = Some(remote);
        }
        result
    }

    fn connect(&self) -> Result<Remote, SteeringError> {
        let keys = self.app.key.as_deref().map(|peer| self.keys_for(peer)).transpose()?;
        Remote::connect(self.app.address(&self.node)?, keys)
    }

    /// Returns the keys for an app that its stream names; only one that the monitor lists is trusted.
    fn keys_for(&self, peer: &str) -> Result<Keys, SteeringError> {
        let peer = peer.parse().map_err(|_| Error::UnlistedPeer)?;
        let keys = self.keys.clone().ok_or(Error::UnlistedPeer)?;
        Ok(Keys { responder: Some(peer), ..keys })
    }
}
