//! The bus of a far end: its streams are published there under epochs of their own, at the positions of their origin.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU8;
use std::time::Duration;

use relay::Publish;
use sys::clock;
use tallycast::Node;
use tallycast::relayed::{Announcements, ElementTimes, RelayPublisher, RelayedStream};
use units::{Epoch, Instant, StreamId};
use wire::{Deadline, Description, Origin, UpstreamHop};

use crate::notice::Notice;
use crate::readers::Readers;
use crate::standby::{Held, Item, Rival, foremost};
use crate::{Publication, PublicationKey, Wanted};

/// Interval of looks at the bus's announcements.
const LOOK: Duration = Duration::from_millis(200);
/// Silence of a near relay after which another link takes over its streams: ten intervals of tallies.
const SILENCE: Duration = Duration::from_secs(1);
/// Maximum number of epochs of this process that are known as its own.
const MAX_OWN: usize = 4_096;

/// A bus on which a far end publishes.
pub struct BusPublication {
    node: Node,
    announcements: Option<Announcements>,
    next_look: Instant,
    /// Publications of other stations at the last look.
    rivals: BTreeMap<StreamId, Vec<Rival>>,
    /// Epochs of this process, which are announced for some time after their end.
    own: BTreeSet<Epoch>,
    streams: BTreeMap<PublicationKey, Stream>,
    /// Epochs of the same stream.
    alike: BTreeMap<StreamId, BTreeSet<PublicationKey>>,
    /// Near relays that do not answer, and since when.
    down: BTreeMap<u64, Instant>,
    notices: Vec<Notice>,
    readers: Readers,
}

struct Stream {
    id: StreamId,
    per_sample: u64,
    beginning: Beginning,
    upstream: Option<Vec<UpstreamHop>>,
    state: State,
}

enum State {
    /// It is published since this instant.
    Active(Box<RelayPublisher>, Instant),
    /// Another publication of the stream is on the bus.
    StandingBy(Held),
}

#[derive(Clone)]
struct Beginning {
    description: Description,
    origin: Origin,
    first_position: u64,
    deadline: Deadline,
}

impl BusPublication {
    /// Publishes on the bus of a node.
    #[must_use]
    pub fn new(node: Node) -> Self {
        let announcements = node.announcements().unwrap_or_else(|error| {
            tracing::warn!("{error}\nother relays of the same streams are not noticed");
            None
        });
        Self {
            node,
            announcements,
            next_look: Instant::ORIGIN,
            rivals: BTreeMap::new(),
            own: BTreeSet::new(),
            streams: BTreeMap::new(),
            alike: BTreeMap::new(),
            down: BTreeMap::new(),
            notices: Vec::new(),
            readers: Readers::default(),
        }
    }

    fn begin(&mut self, key: PublicationKey, beginning: Beginning) -> Result<(), String> {
        let Beginning { description, origin, .. } = &beginning;
        let id = wire::stream_id(&description.name, &description.schema);
        let per_sample = u64::from(description.schema.elements_per_sample());
        let is_other = |it: &&Stream| it.beginning.origin.epoch == origin.epoch && it.id != id;
        if self.streams.values().any(|it| is_other(&it)) {
            return Err(format!(
                "another link brings a stream of the same publisher, epoch {}, with another name or schema",
                origin.epoch
            ));
        }
        self.forget(key);
        let state = State::StandingBy(Held::default());
        let stream = Stream { id, per_sample, beginning, upstream: None, state };
        self.streams.insert(key, stream);
        self.alike.entry(id).or_default().insert(key);
        match self.behind(key) {
            Some(behind) => self.say_standing_by(key, behind),
            None => self.activate(key, None)?,
        }
        Ok(())
    }

    /// Returns the station for whose publication a stream stands by.
    fn behind(&self, key: PublicationKey) -> Option<String> {
        let stream = self.streams.get(&key)?;
        let own = match &stream.state {
            State::Active(publisher, since) => Some((publisher.epoch(), *since)),
            State::StandingBy(_) => None,
        };
        let mut others = self.alike.get(&stream.id).into_iter().flatten().filter(|other| **other != key);
        let is_beaten = |other: &PublicationKey| match self.streams[other].state {
            State::Active(..) => own.is_none(),
            // That relay has its link, and this one has lost its own.
            State::StandingBy(_) => own.is_some() && self.is_down(key) && !self.is_down(*other),
        };
        if others.any(is_beaten) {
            return Some(self.node.station().to_owned());
        }
        let rivals = self.rivals.get(&stream.id)?;
        let origin = stream.beginning.origin.epoch;
        foremost(rivals, own, origin, clock::monotonic()).map(|rival| rival.station.clone())
    }

    /// Returns whether the near relay of a stream has not answered for a while.
    fn is_down(&self, (number, _): PublicationKey) -> bool {
        self.down.get(&number).is_some_and(|since| clock::monotonic() >= *since + SILENCE)
    }

    /// Begins to publish a stream, from another position than its first if it stood by.
    fn activate(&mut self, key: PublicationKey, first_position: Option<u64>) -> Result<(), String> {
        let Some(stream) = self.streams.get_mut(&key) else { return Ok(()) };
        if let Some(first_position) = first_position {
            stream.beginning.first_position = first_position;
        }
        let Beginning { description, origin, first_position, deadline } = stream.beginning.clone();
        let relayed = RelayedStream { description, origin, first_position, deadline: Some(deadline) };
        match self.node.relay_publisher(relayed) {
            Ok(publisher) => {
                if self.own.len() >= MAX_OWN {
                    self.own.pop_first();
                }
                self.own.insert(publisher.epoch());
                stream.state = State::Active(Box::new(publisher), clock::monotonic());
                Ok(())
            }
            Err(error) => {
                self.forget(key);
                Err(error.to_string())
            }
        }
    }

    /// Takes over from a publication that is over, beginning with the kept samples that are still of use.
    fn take_over(&mut self, key: PublicationKey) -> Result<(), String> {
        let Some(stream) = self.streams.get_mut(&key) else { return Ok(()) };
        let State::StandingBy(held) = &mut stream.state else { return Ok(()) };
        let Some(position) = held.first_position(stream.per_sample) else { return Ok(()) };
        let items = held.take();
        let (name, upstream) = (stream.beginning.description.name.to_string(), stream.upstream.clone());
        self.activate(key, Some(position))?;
        self.notices.push(Notice::TookOver { stream: name, position });
        let upstream = upstream.map(Publish::Upstream);
        items.map(into_publish).chain(upstream).try_for_each(|publish| self.pass(key, publish))
    }

    fn say_standing_by(&mut self, key: PublicationKey, station: String) {
        let name = self.streams[&key].beginning.description.name.to_string();
        self.notices.push(Notice::StandingBy { stream: name, station });
    }

    /// Publishes an item of a stream, or keeps it while the stream stands by.
    fn pass(&mut self, key: PublicationKey, publish: Publish) -> Result<(), String> {
        let Some(stream) = self.streams.get_mut(&key) else { return Ok(()) };
        if let Publish::Upstream(hops) = &publish {
            stream.upstream = Some(hops.clone());
        }
        let now = clock::monotonic();
        let outcome = match (&mut stream.state, publish) {
            (_, Publish::Begin { .. } | Publish::End) => Ok(()),
            (State::Active(publisher, _), publish) => match publish {
                Publish::Elements { positions, t0, clock, bytes, age } => {
                    let times = ElementTimes { t0, clock, born: Some(now - age) };
                    publisher.elements(positions.start, times, &bytes)
                }
                Publish::Inherited { positions, shares, cause } => {
                    publisher.inherited(positions, &shares, cause)
                }
                Publish::Settled { positions, shares } => publisher.settled(&positions, &shares),
                Publish::Statement(bytes) => publisher.statement(&bytes),
                Publish::Upstream(hops) => publisher.upstream(hops),
                Publish::Begin { .. } | Publish::End => Ok(()),
            },
            (State::StandingBy(held), publish) => {
                let deadline = stream.beginning.deadline.end_to_end;
                match publish {
                    Publish::Elements { positions, t0, clock, bytes, age } => {
                        let times = ElementTimes { t0, clock, born: Some(now - age) };
                        held.push(now, deadline, Item::Elements { positions, times, bytes });
                    }
                    Publish::Inherited { positions, shares, cause } => {
                        held.push(now, deadline, Item::Missing { positions, shares, cause });
                    }
                    Publish::Settled { positions, shares } => held.settle(&positions, &shares),
                    // Its publisher repeats statements; the hops before are kept above.
                    Publish::Statement(_) | Publish::Upstream(_) | Publish::Begin { .. } | Publish::End => {}
                }
                Ok(())
            }
        };
        outcome.map_err(|error| {
            self.forget(key);
            error.to_string()
        })
    }

    fn forget(&mut self, key: PublicationKey) {
        let Some(stream) = self.streams.remove(&key) else { return };
        if let Some(keys) = self.alike.get_mut(&stream.id) {
            keys.remove(&key);
            if keys.is_empty() {
                self.alike.remove(&stream.id);
            }
        }
    }

    /// Looks for other publications on the bus.
    fn look_at_bus(&mut self) {
        let Some(announcements) = &self.announcements else { return };
        self.rivals.clear();
        let others = announcements.list().into_iter().filter(|it| !self.own.contains(&it.announcement.epoch));
        for it in others {
            let wire::Announcement { stream, epoch, station, period, .. } = it.announcement;
            let rival = Rival { epoch, station, heard: it.heard, period };
            self.rivals.entry(stream).or_default().push(rival);
        }
    }
}

fn into_publish(item: Item) -> Publish {
    match item {
        Item::Elements { positions, times: ElementTimes { t0, clock, born }, bytes } => {
            let age = born.map_or(Duration::ZERO, |born| clock::monotonic().since(born));
            Publish::Elements { positions, t0, clock, bytes, age }
        }
        Item::Missing { positions, shares, cause } => Publish::Inherited { positions, shares, cause },
    }
}

impl Publication for BusPublication {
    fn publish(&mut self, key: PublicationKey, publish: Publish) -> Option<String> {
        match publish {
            Publish::Begin { description, origin, hop, first_position, deadline, priority, .. } => {
                let deadline = Deadline { end_to_end: deadline, priority };
                let hop: NonZeroU8 = hop;
                let origin = Origin { epoch: origin, hop };
                let description = match Description::decode(&description) {
                    Ok(description) => description,
                    Err(error) => return Some(error.to_string()),
                };
                self.begin(key, Beginning { description, origin, first_position, deadline }).err()
            }
            Publish::End => {
                // The final tally follows its last samples.
                self.forget(key);
                None
            }
            publish => self.pass(key, publish).err(),
        }
    }

    fn wanted(&mut self, number: u64) -> Vec<Wanted> {
        let of_relay = self.streams.range((number, 0)..=(number, u16::MAX));
        let published = of_relay.filter_map(|((_, slot), stream)| match &stream.state {
            State::Active(publisher, _) => Some((*slot, &**publisher)),
            State::StandingBy(_) => None,
        });
        self.readers.wanted(clock::monotonic(), number, published)
    }

    fn link(&mut self, number: u64, is_up: bool) {
        if is_up {
            self.down.remove(&number);
        } else {
            self.down.entry(number).or_insert_with(clock::monotonic);
        }
        let is_known = |number: &u64| self.streams.range((*number, 0)..=(*number, u16::MAX)).next().is_some();
        self.down.retain(|number, _| is_known(number));
    }

    fn look(&mut self, now: Instant) -> Vec<Notice> {
        if now >= self.next_look && !self.streams.is_empty() {
            self.next_look = now + LOOK;
            self.look_at_bus();
            let keys: Vec<PublicationKey> = self.streams.keys().copied().collect();
            for key in keys {
                let behind = self.behind(key);
                let is_active = matches!(self.streams[&key].state, State::Active(..));
                let outcome = match behind {
                    Some(behind) if is_active => {
                        // The final tally tells the readers.
                        if let Some(stream) = self.streams.get_mut(&key) {
                            stream.state = State::StandingBy(Held::default());
                        }
                        self.say_standing_by(key, behind);
                        Ok(())
                    }
                    None if !is_active => self.take_over(key),
                    _ => Ok(()),
                };
                if let Err(what) = outcome {
                    self.notices.push(Notice::Warning { what });
                }
            }
        }
        std::mem::take(&mut self.notices)
    }

    fn close(&mut self, _: Duration) {
        self.streams.clear();
        self.alike.clear();
    }
}

#[cfg(test)]
mod tests;
