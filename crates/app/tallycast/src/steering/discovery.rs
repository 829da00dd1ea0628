//! Where an app takes commands: its stream tells. Also whether a run of it that was found is still there.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use sample::{Schema, StreamName};
use sys::clock;
use units::{Epoch, WallTime};

use super::knock::Knock;
use super::{KEY_LABEL, PORT_LABEL, Remote, STREAM_PREFIX, SteeringError};
use crate::event::Event;
use crate::host_view::Reach;
use crate::node::{Node, OnHost};
use crate::subscriber::Subscriber;
use crate::udt::{Address, Keys};

/// Interval of looks at the announcements.
const LOOK: Duration = Duration::from_millis(50);
/// Time in which a host refuses a port that has no process any more.
pub(super) const REFUSAL: Duration = Duration::from_millis(20);

/// A run of an app that was found.
pub struct Found {
    run: Run,
    watch: Watch,
}

impl Found {
    /// Returns the address at which the app takes commands; its option `peer` is the app's key.
    #[must_use]
    pub fn address(&self) -> Address {
        let address = Address::at(self.run.socket);
        match &self.run.key {
            Some(key) => address.with("peer", key),
            None => address,
        }
    }

    /// Connects to it. The connection follows the app to its next run, if a command has no answer from this one.
    ///
    /// # Errors
    /// As [`Remote::connect`].
    pub fn connect(self, keys: Option<Keys>) -> Result<Remote, SteeringError> {
        let mut remote = Remote::connect(self.run.socket, keys)?;
        remote.follow(self.watch, self.run);
        Ok(remote)
    }
}

/// One run of an app, as its stream tells of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub(super) socket: SocketAddr,
    /// Public key of its connections, hexadecimal; none if they are in the clear.
    pub(super) key: Option<String>,
    place: Place,
}

/// What tells one run from the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// The process on this host that writes the stream's ring.
    Here { pid: u32, since: WallTime },
    /// The epoch of the stream that a host announces.
    Announced { from: IpAddr, epoch: Epoch },
}

/// A look-out for the runs of one app.
pub(super) struct Watch {
    node: Node,
    stream: String,
    /// Reads the description of a stream that is announced.
    subscriber: Option<Subscriber>,
    described: Option<(Epoch, Arc<Schema>)>,
}

impl Watch {
    pub(super) fn new(node: Node, app: &StreamName) -> Self {
        Self { node, stream: format!("{STREAM_PREFIX}{app}"), subscriber: None, described: None }
    }

    /// Returns the run of the app that there is now; waits up to `patience` for news of it.
    pub(super) fn look(&mut self, patience: Duration) -> Result<Option<Run>, SteeringError> {
        if let Some(here) = self.here() {
            let ip = Ipv4Addr::LOCALHOST.into();
            return Ok(run(ip, &here.description.schema, place_of(&here)));
        }
        let Some((from, epoch)) =
            self.announced(if self.subscriber.is_some() { Duration::ZERO } else { patience })?
        else {
            return Ok(None);
        };
        if self.subscriber.is_none() {
            self.subscriber = Some(self.node.subscriber(&self.stream).open()?);
        }
        let end = clock::monotonic() + patience;
        let is_of =
            |described: &Option<(Epoch, Arc<Schema>)>| described.as_ref().is_some_and(|(of, _)| *of == epoch);
        while !is_of(&self.described) {
            let subscriber = self.subscriber.as_mut().expect("it was opened above");
            match subscriber.next(end.since(clock::monotonic())) {
                Some(Event::Began(info)) => self.described = Some((info.epoch, Arc::clone(&info.schema))),
                Some(_) => {}
                None => return Ok(None),
            }
        }
        let schema = self.described.as_ref().map(|(_, schema)| schema).expect("the loop ends with one");
        let found = run(from, schema, Place::Announced { from, epoch });
        // It is announced for some seconds after its end.
        let is_refused = |run: &Run| Knock::at(run.socket).is_ok_and(|it| it.is_refused_within(REFUSAL));
        Ok(found.filter(|run| !is_refused(run)))
    }

    /// Returns whether a run has ended: its ring is gone, it is not announced any more, or another one is. It never waits.
    pub(super) fn has_ended(&self, run: &Run) -> bool {
        match run.place {
            Place::Here { .. } => self.here().is_none_or(|it| place_of(&it) != run.place),
            Place::Announced { from, epoch } => {
                self.announced(Duration::ZERO).is_ok_and(|now| now != Some((from, epoch)))
            }
        }
    }

    /// Returns the ring of the app on this host; the one of an agent is that of an app elsewhere.
    fn here(&self) -> Option<OnHost> {
        let on_host = self.node.streams_on_host().into_iter();
        let of_app = |it: &OnHost| it.description.name.as_str() == self.stream && it.reach == Reach::Shm;
        on_host.filter(of_app).max_by_key(|it| it.since)
    }

    fn announced(&self, patience: Duration) -> Result<Option<(IpAddr, Epoch)>, SteeringError> {
        let announced = self.node.streams(patience)?;
        let of_app = announced.into_iter().find(|it| it.announcement.name.as_str() == self.stream);
        Ok(of_app.map(|it| (it.from.ip(), it.announcement.epoch)))
    }
}

/// Finds an app of the bus.
///
/// # Errors
/// [`SteeringError::NoApp`] if no app of this name was found within `patience`.
pub fn find(node: &Node, app: &StreamName, patience: Duration) -> Result<Found, SteeringError> {
    let mut watch = Watch::new(node.clone(), app);
    let end = clock::monotonic() + patience;
    loop {
        if let Some(run) = watch.look(LOOK)? {
            return Ok(Found { run, watch });
        }
        if clock::monotonic() >= end {
            return Err(SteeringError::NoApp(app.to_string()));
        }
    }
}

/// Returns the names of the apps of the bus that can be steered, which are found within `patience`.
///
/// # Errors
/// [`SteeringError::Stream`] if announcements cannot be received.
pub fn apps(node: &Node, patience: Duration) -> Result<BTreeSet<StreamName>, SteeringError> {
    let announced = node.streams(patience)?.into_iter().map(|it| it.announcement.name.to_string());
    let on_host = node.streams_on_host().into_iter().map(|it| it.description.name.to_string());
    let names = announced.chain(on_host);
    Ok(names.filter_map(|name| name.strip_prefix(STREAM_PREFIX)?.parse().ok()).collect())
}

fn place_of(here: &OnHost) -> Place {
    Place::Here { pid: here.pid, since: here.since }
}

fn run(ip: IpAddr, schema: &Schema, place: Place) -> Option<Run> {
    let port = schema.labels.get(PORT_LABEL)?.parse().ok()?;
    Some(Run { socket: SocketAddr::new(ip, port), key: schema.labels.get(KEY_LABEL).cloned(), place })
}
