//! A scene: the paths and buses, the restarts, and the comparison at the end.

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use relay::{FarConfig, NearConfig};
use sim::{Arrival, Group, Link, Network, Node, NodeId, Port, Socket, Trunk};
use udt::{Repair, Silence, SocketConfig, SocketType};
use units::Instant;

use crate::far::FarSetting;
use crate::feed::{Feed, Shape};
use crate::near::{NearSetting, Source};
use crate::publisher::Publisher;
use crate::{Far, MS, Near, Reader};

/// The parts of a scene.
#[derive(Debug)]
pub struct Plan {
    /// Seed of all chance.
    pub seed: u64,
    /// The path, forward and reverse.
    pub ways: [Link; 2],
    /// Deadline from end to end.
    pub deadline: Duration,
    /// Form of the stream.
    pub shape: Shape,
    /// Further streams, of which each has a publisher as long as the first stream's.
    pub others: Vec<Shape>,
    /// When publishers of the stream live.
    pub publishers: Vec<Range<Instant>>,
    /// When the near relay is dead.
    pub near_deaths: Vec<Range<Instant>>,
    /// When the far relay is dead.
    pub far_deaths: Vec<Range<Instant>>,
    /// When the near relay takes its connection for silent, whatever it hears.
    pub near_deafness: Vec<Range<Instant>>,
    /// Rate at which the near relay sends, in bits per second.
    pub rate: String,
    /// Silence after which a connection is gone; `None`: that of UDT.
    pub silence: Option<Duration>,
    /// The bus before the first link, down to the near relay; `None`: it reads the publishers' rings.
    pub near_bus: Option<Link>,
    /// Stations of the near and the far relay of each pair, one pair behind the other.
    pub pairs: Vec<[&'static str; 2]>,
    /// True if the last far relay publishes on the first bus.
    pub is_ring: bool,
    /// The buses between two pairs, down to the next near relay.
    pub middle_bus: Link,
    /// True if links have keys.
    pub has_keys: bool,
    /// Priorities of streams at the near relays, by name.
    pub priorities: BTreeMap<String, u8>,
    /// True if publishers on the first bus end without a word.
    pub are_killed: bool,
    /// Probability that a message of the peer is preceded by one that must be ignored.
    pub hostile: f64,
    /// Deadlines of the readers, in their order, if they state one.
    pub deadlines: Vec<Option<Duration>>,
    /// The last bus, down to each reader that loses nothing on it.
    pub readers: Vec<Port>,
    /// The same for readers that may lose.
    pub lossy_readers: Vec<Port>,
    /// First sequence number and first message number of connections.
    pub first_numbers: Option<[u32; 2]>,
}

/// A node.
#[derive(Debug)]
pub enum Part {
    /// A near relay.
    Near(Box<Near>),
    /// A far relay.
    Far(Box<Far>),
    /// A publisher on the near bus.
    Publisher(Box<Publisher>),
    /// A reader on the last bus.
    Reader(Box<Reader>),
}

/// A played scene.
pub struct Scene {
    network: Network<Part>,
    pairs: usize,
    is_ring: bool,
    /// Number of readers that lose nothing on their bus.
    clean: usize,
}

impl Plan {
    /// Returns a plan of a plain stream over a path with a round trip of 20 ms, and one reader that loses nothing.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let way = Link::ideal().delay(10 * MS);
        Self {
            seed,
            ways: [way.clone(), way],
            deadline: 500 * MS,
            shape: Shape {
                name: "lab/x".to_owned(),
                elements: 4,
                hz: 2_000,
                record: 40,
                missing: 0.0,
                kept: Duration::from_secs(60),
            },
            others: Vec::new(),
            publishers: vec![crate::at(0)..crate::at(3_000)],
            near_deaths: Vec::new(),
            far_deaths: Vec::new(),
            near_deafness: Vec::new(),
            rate: "20m".to_owned(),
            silence: None,
            near_bus: None,
            pairs: vec![["gate-a", "gate-b"]],
            is_ring: false,
            middle_bus: Link::ideal(),
            has_keys: false,
            priorities: BTreeMap::new(),
            are_killed: false,
            hostile: 0.0,
            deadlines: Vec::new(),
            readers: vec![Port::default()],
            lossy_readers: Vec::new(),
            first_numbers: None,
        }
    }

    /// Plays the scene until so long after its last publisher.
    ///
    /// # Panics
    /// If a law is broken.
    #[must_use]
    pub fn play(self) -> Scene {
        let scene = self.play_on();
        for pair in 0..scene.pairs {
            let ignored = (scene.far_of(pair).ignored.first(), scene.near_of(pair).ignored.first());
            assert_eq!(ignored, (None, None), "neither end of pair {pair} has anything to ignore");
        }
        scene
    }

    /// Plays the scene, whatever is ignored in it.
    ///
    /// # Panics
    /// If a law is broken.
    #[must_use]
    pub fn play_on(self) -> Scene {
        let mut network = Network::counting(self.seed);
        let [up, down] = &self.ways;
        let sites: Vec<_> = (0..self.pairs.len())
            .map(|pair| {
                let trunk = Trunk { up: down.clone(), down: up.clone() };
                network.add_site(&format!("behind link {pair}"), trunk)
            })
            .collect();
        for pair in 0..self.pairs.len() {
            let site = pair.checked_sub(1).map(|before| sites[before]);
            let near = network.add(
                self.pairs[pair][0],
                Part::Near(Box::new(self.near(pair))),
                Port { site, down: self.near_bus_of(pair), ..Port::default() },
            );
            network.add(
                self.pairs[pair][1],
                Part::Far(Box::new(self.far(pair))),
                Port { site: Some(sites[pair]).filter(|_| !self.is_last_of_ring(pair)), ..Port::default() },
            );
            if self.is_on_bus(pair) {
                network.join(near, Group(group_of(pair)));
            }
        }
        if self.near_bus.is_some() {
            let whole = self.publishers[0].start..self.publishers.last().expect("a publisher").end;
            let others = self.others.iter().map(|shape| (shape, vec![whole.clone()]));
            let all = core::iter::once((&self.shape, self.publishers.clone())).chain(others);
            for (seed, (shape, spans)) in (self.seed..).step_by(1_000_003).zip(all) {
                let group = Group(group_of(0));
                let publisher = Publisher::new(seed, shape.clone(), group, spans, self.are_killed);
                network.add("publisher", Part::Publisher(Box::new(publisher)), Port::default());
            }
        }
        let shapes = self.shapes();
        let deadlines = self.deadlines.iter().copied().chain(core::iter::repeat(None));
        let ports = self.readers.iter().chain(&self.lossy_readers);
        for ((id, port), deadline) in (1_000..).zip(ports).zip(deadlines) {
            let last = self.pairs.len() - usize::from(self.is_ring);
            let port = Port { site: Some(sites[last - 1]), ..port.clone() };
            let reader =
                network.add("reader", Part::Reader(Box::new(Reader::new(id, &shapes, deadline))), port);
            network.join(reader, Group(group_of(last)));
        }
        let end = self.publishers.last().expect("a publisher").end;
        network.run_until(end + self.deadline + Duration::from_secs(20));
        Scene { network, pairs: self.pairs.len(), is_ring: self.is_ring, clean: self.readers.len() }
    }

    fn shapes(&self) -> Vec<Shape> {
        core::iter::once(&self.shape).chain(&self.others).cloned().collect()
    }

    const fn is_on_bus(&self, pair: usize) -> bool {
        pair > 0 || self.near_bus.is_some()
    }

    /// Returns the cable of a near relay: its link is behind it, and its bus.
    fn near_bus_of(&self, pair: usize) -> Link {
        if pair > 0 { self.middle_bus.clone() } else { self.near_bus.clone().unwrap_or_else(Link::ideal) }
    }

    const fn is_last_of_ring(&self, pair: usize) -> bool {
        self.is_ring && pair + 1 == self.pairs.len()
    }

    fn socket_config(&self) -> SocketConfig {
        let control = congestion::named("fixed", &format!("rate={}", self.rate)).expect("it is built in");
        let mut config = SocketConfig::with(SocketType::Datagram, Arc::from(control));
        config.repair = Repair::Timely;
        config.linger = Duration::ZERO;
        if let Some(silence) = self.silence {
            config.silence = Silence { attempts: 3, least_step: silence / 10, last_step: silence / 2 };
        }
        if let Some([sequence, message]) = self.first_numbers {
            (config.first_sequence, config.first_message) = (Some(sequence), Some(message));
        }
        config
    }

    fn near(&self, pair: usize) -> Near {
        let source = if self.is_on_bus(pair) {
            Source::Bus
        } else {
            let first = (0..).zip(&self.publishers).map(|(incarnation, span)| {
                Feed::new(self.shape.clone(), self.seed, incarnation, span.clone())
            });
            let whole = self.publishers[0].start..self.publishers.last().expect("a publisher").end;
            let others = (100..)
                .zip(&self.others)
                .map(|(incarnation, shape)| Feed::new(shape.clone(), self.seed, incarnation, whole.clone()));
            Source::Rings(first.chain(others).collect())
        };
        let station = self.pairs[pair][0].to_owned();
        let priorities = self.priorities.iter();
        let priorities =
            priorities.map(|(name, priority)| (name.parse().expect("a pattern"), *priority)).collect();
        let setting = NearSetting {
            config: self.socket_config(),
            has_keys: self.has_keys,
            relay: NearConfig { station, deadline: self.deadline, priorities, ..NearConfig::default() },
            peer: far_id(pair),
            hostile: self.hostile,
            source,
            deaths: if pair == 0 { self.near_deaths.clone() } else { Vec::new() },
            deaf: if pair == 0 { self.near_deafness.clone() } else { Vec::new() },
        };
        Near::new(self.seed + 10 * pair as u64, setting)
    }

    fn far(&self, pair: usize) -> Far {
        let passed = self.pairs.iter().take(pair).flatten().chain(&self.pairs[pair][..1]);
        let setting = FarSetting {
            config: self.socket_config(),
            has_keys: self.has_keys,
            relay: FarConfig { station: self.pairs[pair][1].to_owned(), ..FarConfig::default() },
            peer: near_id(pair),
            hostile: self.hostile,
            group: Group(group_of(if self.is_last_of_ring(pair) { 0 } else { pair + 1 })),
            shapes: self.shapes(),
            stations: core::iter::once(&"daq").chain(passed).map(|&station| station.to_owned()).collect(),
            deaths: if pair == 0 { self.far_deaths.clone() } else { Vec::new() },
        };
        Far::new(self.seed + 10 * pair as u64 + 1, setting)
    }
}

fn near_id(pair: usize) -> NodeId {
    NodeId(u32::try_from(2 * pair).expect("a few pairs"))
}

fn far_id(pair: usize) -> NodeId {
    NodeId(near_id(pair).0 + 1)
}

/// Returns the number of the bus behind so many pairs of relays.
fn group_of(pairs: usize) -> u32 {
    u32::try_from(pairs).expect("a few pairs")
}

impl Scene {
    /// Returns the number of pairs of relays.
    #[must_use]
    pub const fn pairs(&self) -> usize {
        self.pairs
    }

    /// Returns the first near relay.
    #[must_use]
    pub fn near(&self) -> &Near {
        self.near_of(0)
    }

    /// Returns the first far relay.
    #[must_use]
    pub fn far(&self) -> &Far {
        self.far_of(0)
    }

    /// Returns the near relay of a pair.
    ///
    /// # Panics
    /// If the scene has fewer.
    #[must_use]
    pub fn near_of(&self, pair: usize) -> &Near {
        match self.network.node(near_id(pair)) {
            Part::Near(near) => near,
            other => panic!("no near relay: {other:?}"),
        }
    }

    /// Returns the far relay of a pair.
    ///
    /// # Panics
    /// If the scene has fewer.
    #[must_use]
    pub fn far_of(&self, pair: usize) -> &Far {
        match self.network.node(far_id(pair)) {
            Part::Far(far) => far,
            other => panic!("no far relay: {other:?}"),
        }
    }

    /// Returns the readers of the last bus.
    #[must_use]
    pub fn readers(&self) -> Vec<&Reader> {
        let nodes = self.network.nodes();
        let readers = nodes.filter_map(|(_, part)| match part {
            Part::Reader(reader) => Some(&**reader),
            Part::Near(_) | Part::Far(_) | Part::Publisher(_) => None,
        });
        readers.collect()
    }

    /// Verifies what was published of each publisher against its diary, and the readers' accounts against what was
    /// published; returns the elements delivered, and those that the links lost.
    ///
    /// # Panics
    /// If a publisher's stream was not published, or an account differs.
    #[must_use]
    pub fn verify(&self) -> [u64; 2] {
        let mut sums = [0; 2];
        let pairs = self.pairs - usize::from(self.is_ring);
        for pair in 0..pairs {
            let far = self.far_of(pair);
            for diary in self.near_of(pair).diaries() {
                let published = far.published.iter().rfind(|it| it.origin.epoch == diary.origin);
                if published.is_none() && diary.is_left {
                    continue;
                }
                let published = published.expect("every publisher's stream is published");
                sums[1] += published.verify(diary);
                sums[0] += if pair + 1 == pairs { published.delivered } else { 0 };
            }
        }
        for (place, reader) in self.readers().into_iter().enumerate() {
            reader.verify(&self.far_of(pairs - 1).published, place < self.clean);
        }
        sums
    }
}

impl Node for Part {
    fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        match self {
            Self::Near(near) => near.receive(now, arrival),
            Self::Far(far) => far.receive(now, arrival),
            Self::Publisher(publisher) => publisher.receive(now, arrival),
            Self::Reader(reader) => reader.receive(now, arrival),
        }
    }

    fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        match self {
            Self::Near(near) => near.poll(now, socket),
            Self::Far(far) => far.poll(now, socket),
            Self::Publisher(publisher) => publisher.poll(now, socket),
            Self::Reader(reader) => reader.poll(now, socket),
        }
    }
}
