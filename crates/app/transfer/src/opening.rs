//! First message of a connection, which says what it is for: a transfer, a stream of a striped transfer, or an order.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::VERSION;
use crate::failure::Failure;
use crate::frame::{FromReceiver, FromSender};
use crate::line::Line;
use crate::order::Order;
use crate::patience::{Patience, Pulse};
use crate::send::PROTOCOL;
use crate::stripes::MAX_STREAMS;

/// Time within which all streams of a transfer must have joined, and within which a receiver answers that they have.
const JOINS_WITHIN: Duration = Duration::from_secs(10);
/// Interval at which a wait for the other streams checks the stop request.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Place of a stream in a striped transfer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Place {
    /// Name of the transfer, chosen by its sender at random.
    pub bundle: u64,
    /// Number of streams.
    pub streams: u32,
    /// Number of this one, from 0.
    pub index: u32,
}

/// First message of a connection.
pub struct Opening(pub(crate) FromSender);

impl Opening {
    /// Waits for the first message.
    ///
    /// # Errors
    /// [`Failure`]; the other end learns it.
    pub fn hear<C>(connection: &C, stop: &(dyn Fn() -> bool + Sync)) -> Result<Self, Failure>
    where
        for<'c> &'c C: Read + Write,
    {
        let pulse = Pulse::new(None);
        let line = Line { connection, stop, pulse: &pulse };
        let heard = line.hear_word(&mut Vec::new()).and_then(|word| match &word {
            FromSender::Hello { protocol, .. }
            | FromSender::Join { protocol, .. }
            | FromSender::Order { protocol, .. }
                if protocol != PROTOCOL =>
            {
                Err(Failure::protocol(format!("it speaks `{}`", protocol.escape_debug())))
            }
            FromSender::Hello { version, .. }
            | FromSender::Join { version, .. }
            | FromSender::Order { version, .. }
                if *version != VERSION =>
            {
                Err(Failure::Version(*version))
            }
            _ => Ok(Self(word)),
        });
        heard.inspect_err(|failure| line.refuse(failure))
    }

    /// Returns the place, if it is a stream of a striped transfer.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        match &self.0 {
            FromSender::Join { place, .. } => Some(place),
            _ => None,
        }
    }

    /// Returns the order, if it is one.
    #[must_use]
    pub fn order(&self) -> Option<&Order> {
        match &self.0 {
            FromSender::Order { order, .. } => Some(order),
            _ => None,
        }
    }
}

/// Refuses a connection whose first message was heard.
///
/// # Errors
/// Always: [`Failure::Unwanted`], which the other end learns.
pub fn refuse<C>(connection: &C, why: &'static str) -> Result<(), Failure>
where
    for<'c> &'c C: Read + Write,
{
    let pulse = Pulse::new(None);
    let failure = Failure::Unwanted(why);
    Line { connection, stop: &|| true, pulse: &pulse }.refuse(&failure);
    Err(failure)
}

/// Joins a striped transfer with one of its streams; the first must have joined before the others.
///
/// # Errors
/// [`Failure::OneStream`] if the receiver takes no parallel streams.
pub fn join<C>(connection: &C, place: &Place, stop: &(dyn Fn() -> bool + Sync)) -> Result<(), Failure>
where
    for<'c> &'c C: Read + Write,
{
    let nothing = || 0;
    let pulse = Pulse::new(Some(Patience { at_most: JOINS_WITHIN, carried: &nothing }));
    let line = Line { connection, stop, pulse: &pulse };
    line.say(&FromSender::Join { protocol: PROTOCOL.to_owned(), version: VERSION, place: place.clone() })?;
    match line.hear_word(&mut Vec::new())? {
        FromReceiver::Joined => Ok(()),
        // Receivers of earlier releases do not know the message.
        FromReceiver::Fail { reason } => Err(Failure::OneStream(reason)),
        _ => Err(Failure::protocol("unexpected message instead of a welcome")),
    }
}

/// Striped transfers whose streams are arriving, or run: streams `S` of neighbours `N`.
pub struct Bundles<N, S> {
    all: Mutex<BTreeMap<(N, u64), Bundle<S>>>,
    changed: Condvar,
}

struct Bundle<S> {
    streams: Vec<Option<S>>,
}

impl<N: Clone + Ord, S: Clone> Default for Bundles<N, S> {
    fn default() -> Self {
        Self { all: Mutex::default(), changed: Condvar::new() }
    }
}

impl<N: Clone + Ord, S: Clone> Bundles<N, S> {
    /// Adds a stream, and says so to its sender. The first one's caller waits for the others and gets all of them; the
    /// callers of the others wait until it [ends](Self::end) and get none.
    ///
    /// # Errors
    /// [`Failure`] if the place is impossible or taken, or not all streams join in time; the other end learns it.
    pub fn join<C>(
        &self,
        (neighbour, place): (N, &Place),
        stream: S,
        connection: &C,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Vec<S>>, Failure>
    where
        for<'c> &'c C: Read + Write,
    {
        let pulse = Pulse::new(None);
        let line = Line { connection, stop, pulse: &pulse };
        let key = (neighbour, place.bundle);
        let added = self.add(&key, place, stream);
        let outcome = added.and_then(|()| {
            let said = line.say(&FromReceiver::Joined);
            match place.index {
                0 => {
                    let all = said.and_then(|()| self.wait_for_all(&key, stop).map(Some));
                    all.inspect_err(|_| self.end(&key.0, key.1))
                }
                _ => said.and_then(|()| self.wait_for_end(&key, stop).map(|()| None)),
            }
        });
        outcome.inspect_err(|failure| line.refuse(failure))
    }

    /// Ends a striped transfer.
    pub fn end(&self, neighbour: &N, bundle: u64) {
        self.all().remove(&(neighbour.clone(), bundle));
        self.changed.notify_all();
    }

    fn add(&self, key: &(N, u64), place: &Place, stream: S) -> Result<(), Failure> {
        let mut all = self.all();
        let Place { streams, index, .. } = *place;
        if !(1..=MAX_STREAMS).contains(&streams) || index >= streams {
            return Err(Failure::protocol(format!("stream {index} of {streams}, of at most {MAX_STREAMS}")));
        }
        if index == 0 && !all.contains_key(key) {
            all.insert(key.clone(), Bundle { streams: (0..streams).map(|_| None).collect() });
        }
        let bundle = all.get_mut(key).filter(|bundle| bundle.streams.len() == streams as usize);
        let place = bundle.and_then(|bundle| bundle.streams.get_mut(index as usize));
        match place.filter(|place| place.is_none()) {
            Some(place) => *place = Some(stream),
            None => return Err(Failure::protocol("a stream of a transfer that is not awaited")),
        }
        self.changed.notify_all();
        Ok(())
    }

    fn wait_for_all(&self, key: &(N, u64), stop: &(dyn Fn() -> bool + Sync)) -> Result<Vec<S>, Failure> {
        let began = Instant::now();
        let mut all = self.all();
        loop {
            let Some(Bundle { streams }) = all.get(key) else { return Err(Failure::Stopped) };
            if let Some(complete) = streams.iter().cloned().collect() {
                return Ok(complete);
            }
            if stop() {
                return Err(Failure::Stopped);
            }
            if began.elapsed() >= JOINS_WITHIN {
                let (came, of) = (streams.iter().flatten().count(), streams.len());
                let late = format!("{came} of {of} streams came within {} s", JOINS_WITHIN.as_secs());
                return Err(Failure::Connection(std::io::Error::new(std::io::ErrorKind::TimedOut, late)));
            }
            all = self.wait(all);
        }
    }

    fn wait_for_end(&self, key: &(N, u64), stop: &(dyn Fn() -> bool + Sync)) -> Result<(), Failure> {
        let mut all = self.all();
        while all.contains_key(key) {
            if stop() {
                return Err(Failure::Stopped);
            }
            all = self.wait(all);
        }
        Ok(())
    }

    fn wait<'a>(
        &self,
        all: MutexGuard<'a, BTreeMap<(N, u64), Bundle<S>>>,
    ) -> MutexGuard<'a, BTreeMap<(N, u64), Bundle<S>>> {
        self.changed.wait_timeout(all, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<(N, u64), Bundle<S>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
