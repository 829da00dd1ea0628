//! Steering of apps for visitors: whose connection is used, when it ends, and who holds which lease.
//!
//! An app gives a lease to a connection, so each visitor has one of its own to each app. What is only read comes over
//! one connection that all visitors share, and a kill switch over one that nothing else waits for. Each connection has
//! a [`Line`], a thread that waits for the app: no task of the server does. Whether a visitor may is decided before, in
//! `http/steer.rs`. Start with [`Desk`].

mod app;
mod json;
mod line;

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use identity::SessionId;
use sample::StreamName;
use sys::clock;
use tallycast::Node;
use tallycast::steering::{Granted, Remote, SteeringError};
use tallycast::udt::Keys;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};
use units::Instant;

use self::line::{Connection, Line};
use crate::admission::Visitor;
use crate::refused::Refused;
use crate::shared::Shared;

pub(crate) use self::app::SteeredApp;
pub(crate) use self::json::{Listing, Rights, listing_json, value_in};

/// The most connections to apps at one time: an app takes 256, and a control room has fewer who steer.
const MAX_LINES: usize = 128;
/// Time without a request after which a visitor's connection is closed: six times that of a lease.
const IDLE: Duration = Duration::from_secs(60);
/// Interval at which connections are looked at: a session that has ended keeps its leases no longer.
const TEND_INTERVAL: Duration = Duration::from_millis(500);
/// Time to wait for a connection that makes room.
const ROOM_PATIENCE: Duration = Duration::from_secs(5);

/// The party to which a connection and its leases belong.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Holder {
    /// The session of a user.
    Session(SessionId),
    /// A page or program without a session, by its principal and the text that it chose.
    Page { principal: String, page: String },
}

/// All connections to apps.
pub(crate) struct Desk {
    node: Node,
    keys: Option<Keys>,
    state: Mutex<State>,
    room: Arc<Semaphore>,
    /// Moment of the last change that was made here: what was read before is old. Units: ns of the monotonic clock.
    changed_ns: Arc<AtomicU64>,
}

#[derive(Default)]
struct State {
    lines: HashMap<Place, Open>,
    leases: HashMap<(StreamName, String), Lease>,
}

/// The app of a connection, and its visitor; none for the one that all share to read.
type Place = (StreamName, Option<Holder>);

struct Open {
    line: Line,
    used: Instant,
    visitor: Option<Visitor>,
}

/// A lease that was granted here.
struct Lease {
    holder: Holder,
    principal: String,
    until: Instant,
}

impl Desk {
    pub(crate) fn new(node: Node, keys: Option<Keys>) -> Self {
        let room = Arc::new(Semaphore::new(MAX_LINES));
        Self { node, keys, state: Mutex::default(), room, changed_ns: Arc::default() }
    }

    /// Returns an app as it stands.
    pub(crate) async fn list(&self, app: &SteeredApp) -> Result<Arc<Listing>, Refused> {
        self.run(app, None, Connection::list).await
    }

    /// Does something over the visitor's own connection to an app.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        app: &SteeredApp,
        visitor: &Visitor,
        holder: &Holder,
        act: impl Fn(&mut Remote) -> Result<T, SteeringError> + Send + 'static,
    ) -> Result<T, Refused> {
        let done = self.run(app, Some((visitor, holder)), move |connection| connection.with(act)).await;
        self.changed();
        done
    }

    /// Does something over a connection of its own: it waits for no command.
    pub(crate) async fn at_once<T: Send + 'static>(
        &self,
        app: &SteeredApp,
        act: impl Fn(&mut Remote) -> Result<T, SteeringError> + Send + 'static,
    ) -> Result<T, Refused> {
        let permit = self.permit().await?;
        let line = Line::start(self.connection(app), permit).map_err(|_| crowded())?;
        let done = answer(&line, move |connection| connection.with(act)).await;
        self.changed();
        done
    }

    /// Notes that a lease was granted.
    pub(crate) fn granted(&self, app: &StreamName, group: &str, of: (&Visitor, &Holder), granted: Granted) {
        let until = clock::monotonic() + granted.until.since(granted.clock);
        let lease = Lease { holder: of.1.clone(), principal: of.0.name(), until };
        self.lock().leases.insert((app.clone(), group.to_owned()), lease);
    }

    /// Notes that a visitor does not hold a lease, or not any longer.
    pub(crate) fn not_held(&self, app: &StreamName, group: &str, holder: &Holder) {
        let key = (app.clone(), group.to_owned());
        let mut state = self.lock();
        if state.leases.get(&key).is_some_and(|lease| lease.holder == *holder) {
            state.leases.remove(&key);
        }
    }

    /// Returns who holds a lease that was granted here, and whether it is this visitor.
    pub(crate) fn holder(&self, app: &StreamName, group: &str, holder: &Holder) -> Option<(String, bool)> {
        let state = self.lock();
        let lease = state.leases.get(&(app.clone(), group.to_owned()))?;
        (lease.until >= clock::monotonic()).then(|| (lease.principal.clone(), lease.holder == *holder))
    }

    /// Closes connections that were not used for long, and those of visitors that are not `known` any longer.
    fn tend(&self, now: Instant, known: impl Fn(&Visitor) -> bool) {
        let mut state = self.lock();
        let State { lines, leases } = &mut *state;
        lines.retain(|(app, holder), open| {
            let stays = now.since(open.used) < IDLE && open.visitor.as_ref().is_none_or(&known);
            if let (false, Some(holder)) = (stays, holder) {
                leases.retain(|(of, _), lease| of != app || lease.holder != *holder);
            }
            stays
        });
        leases.retain(|_, lease| lease.until >= now);
    }

    fn close(&self) {
        *self.lock() = State::default();
    }

    fn changed(&self) {
        // Pairs with the look in `Connection::list`: what was asked for after this is new.
        self.changed_ns.store(clock::monotonic().as_nanos(), Ordering::Release);
    }

    fn connection(&self, app: &SteeredApp) -> Connection {
        Connection::new(self.node.clone(), self.keys.clone(), app.clone(), Arc::clone(&self.changed_ns))
    }

    async fn run<T: Send + 'static>(
        &self,
        app: &SteeredApp,
        of: Option<(&Visitor, &Holder)>,
        act: impl FnOnce(&mut Connection) -> Result<T, SteeringError> + Send + 'static,
    ) -> Result<T, Refused> {
        let place = (app.name.clone(), of.map(|(_, holder)| holder.clone()));
        let line = match self.line(&place) {
            Some(line) => line,
            None => self.open(app, place, of.map(|(visitor, _)| visitor)).await?,
        };
        let app = app.clone();
        let act = move |connection: &mut Connection| {
            connection.follow(app);
            act(connection)
        };
        answer(&line, act).await
    }

    /// Returns an open line.
    fn line(&self, place: &Place) -> Option<Line> {
        let mut state = self.lock();
        let open = state.lines.get_mut(place)?;
        open.used = clock::monotonic();
        Some(open.line.clone())
    }

    async fn open(&self, app: &SteeredApp, place: Place, visitor: Option<&Visitor>) -> Result<Line, Refused> {
        let permit = self.permit().await?;
        // Another request of the same visitor may have opened it meanwhile.
        let mut state = self.lock();
        if let Some(open) = state.lines.get(&place) {
            return Ok(open.line.clone());
        }
        let line = Line::start(self.connection(app), permit).map_err(|_| crowded())?;
        let open = Open { line: line.clone(), used: clock::monotonic(), visitor: visitor.cloned() };
        state.lines.insert(place, open);
        Ok(line)
    }

    /// Waits for room for one more connection; the one that was not used for longest makes it.
    async fn permit(&self) -> Result<tokio::sync::OwnedSemaphorePermit, Refused> {
        if let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() {
            return Ok(permit);
        }
        self.displace();
        let waiting = timeout(ROOM_PATIENCE, Arc::clone(&self.room).acquire_owned()).await;
        waiting.ok().and_then(Result::ok).ok_or_else(crowded)
    }

    /// Closes the connection that was not used for longest, of those without a lease.
    fn displace(&self) {
        let mut state = self.lock();
        let now = clock::monotonic();
        let State { lines, leases } = &*state;
        let holds = |(app, holder): &Place| {
            let of_holder = |lease: &Lease| lease.until >= now && Some(&lease.holder) == holder.as_ref();
            leases.iter().any(|((of, _), lease)| of == app && of_holder(lease))
        };
        let free = lines.iter().filter(|(place, _)| !holds(place));
        if let Some(place) = free.min_by_key(|(_, open)| open.used).map(|(place, _)| place.clone()) {
            state.lines.remove(&place);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change of it is one insertion or removal.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has a line do something, and waits for it.
async fn answer<T: Send + 'static>(
    line: &Line,
    act: impl FnOnce(&mut Connection) -> Result<T, SteeringError> + Send + 'static,
) -> Result<T, Refused> {
    let (told, answered) = oneshot::channel();
    line.send(Box::new(move |connection| drop(told.send(act(connection))))).map_err(|_| busy())?;
    answered.await.map_err(|_| Refused::ending())?.map_err(|error| refusal(&error))
}

/// Closes what is not used until `stopped`, then everything.
pub(crate) async fn tend(shared: Arc<Shared>, stopped: impl Future<Output = ()>) {
    let tending = async {
        loop {
            sleep(TEND_INTERVAL).await;
            shared.desk.tend(clock::monotonic(), |visitor| visitor.is_known(&shared.gatekeeper));
        }
    };
    tokio::select! {
        () = stopped => {}
        () = tending => {}
    }
    shared.desk.close();
}

fn crowded() -> Refused {
    let help = "try again later, or steer over another monitor";
    Refused::new(StatusCode::SERVICE_UNAVAILABLE, "too many visitors steer apps over this monitor", help)
}

fn busy() -> Refused {
    let help = "wait for the answers before sending more";
    Refused::new(StatusCode::TOO_MANY_REQUESTS, "too many requests wait for the app's answer", help)
}

fn refusal(error: &SteeringError) -> Refused {
    let (status, otherwise) = match error {
        SteeringError::NoApp(_) => (StatusCode::NOT_FOUND, "GET /api/steer lists those that can"),
        SteeringError::Refused(_) => {
            (StatusCode::CONFLICT, "GET /api/steer/APP shows holders and kill switches")
        }
        _ => (StatusCode::BAD_GATEWAY, "check that the app runs, and that this monitor reaches its host"),
    };
    let text = error.to_string();
    let (error, help) = text.split_once('\n').unwrap_or((&text, otherwise));
    Refused::new(status, error, help)
}
