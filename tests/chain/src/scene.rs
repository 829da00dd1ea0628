//! A scene: what is on the way, who dies, and how it ends.

use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;
use std::sync::Arc;

use relay::{FarConfig, NearConfig};
use sim::{Address, Arrival, Link, Network, Node, NodeId, Port, Socket};
use udt::{Datagrams, Output, Repair, Silence, SocketConfig, SocketType};
use units::Instant;

use crate::feed::{Feed, Shape};
use crate::{Far, MS, Near, address};

const NEAR: NodeId = NodeId(0);
const FAR: NodeId = NodeId(1);

/// What a scene is made of.
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
    /// When publishers of the stream live.
    pub publishers: Vec<Range<Instant>>,
    /// When the near relay is dead.
    pub near_deaths: Vec<Range<Instant>>,
    /// When the far relay is dead.
    pub far_deaths: Vec<Range<Instant>>,
    /// Rate at which the near relay sends, in bits per second.
    pub rate: String,
    /// Silence after which a connection is gone; `None`: that of UDT.
    pub silence: Option<Duration>,
}

/// A node.
#[derive(Debug)]
pub enum Part {
    /// The near relay.
    Near(Box<Near>),
    /// The far relay.
    Far(Box<Far>),
}

/// A played scene.
pub struct Scene {
    network: Network<Part>,
}

impl Plan {
    /// Returns a plan of a plain stream over a way of 20 ms.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let way = Link::ideal().delay(10 * MS);
        let shape = Shape { elements: 4, hz: 2_000, record: 40, missing: 0.0, kept: Duration::from_secs(60) };
        Self {
            seed,
            ways: [way.clone(), way],
            deadline: 500 * MS,
            shape,
            publishers: vec![crate::at(0)..crate::at(3_000)],
            near_deaths: Vec::new(),
            far_deaths: Vec::new(),
            rate: "20m".to_owned(),
            silence: None,
        }
    }

    /// Plays the scene until so long after its last publisher.
    ///
    /// # Panics
    /// If a law is broken.
    #[must_use]
    pub fn play(self) -> Scene {
        let control = congestion::named("fixed", &format!("rate={}", self.rate)).expect("it is built in");
        let mut config = SocketConfig::with(SocketType::Datagram, Arc::from(control));
        config.repair = Repair::Timely;
        config.linger = Duration::ZERO;
        if let Some(silence) = self.silence {
            config.silence = Silence { attempts: 3, least_step: silence / 10, last_step: silence / 2 };
        }
        let feeds = (0..).zip(&self.publishers);
        let feeds = feeds
            .map(|(incarnation, span)| Feed::new(self.shape.clone(), self.seed, incarnation, span.clone()));
        let end = self.publishers.last().expect("a publisher").end;
        let near = NearConfig { station: "gate-a".to_owned(), incarnation: 0, deadline: self.deadline };
        let near = Near::new(self.seed, feeds.collect(), config.clone(), near, self.near_deaths, FAR);
        let far = FarConfig { station: "gate-b".to_owned(), incarnation: 0 };
        let far = Far::new(self.seed + 1, self.shape, config, far, self.far_deaths);
        let [up, down] = self.ways;
        let mut network = Network::counting(self.seed);
        network.add("near", Part::Near(Box::new(near)), Port { up, down, ..Port::default() });
        network.add("far", Part::Far(Box::new(far)), Port::default());
        network.run_until(end + self.deadline + Duration::from_secs(20));
        let scene = Scene { network };
        let ignored = (scene.far().ignored.first(), scene.near().ignored.first());
        assert_eq!(ignored, (None, None), "neither end has anything to ignore");
        scene
    }
}

impl Scene {
    /// Returns the near relay.
    ///
    /// # Panics
    /// Never: it is there.
    #[must_use]
    pub fn near(&self) -> &Near {
        match self.network.node(NEAR) {
            Part::Near(near) => near,
            Part::Far(_) => unreachable!("the near relay is the first"),
        }
    }

    /// Returns the far relay.
    ///
    /// # Panics
    /// Never: it is there.
    #[must_use]
    pub fn far(&self) -> &Far {
        match self.network.node(FAR) {
            Part::Far(far) => far,
            Part::Near(_) => unreachable!("the far relay is the second"),
        }
    }

    /// Verifies the last account of each publisher against its diary; returns the elements delivered, and those that
    /// the link lost.
    ///
    /// # Panics
    /// If a publisher has no account, or one differs from the diary.
    #[must_use]
    pub fn verify(&self, extra_lag: bool) -> [u64; 2] {
        let mut sums = [0; 2];
        for feed in &self.near().feeds {
            let reader = self.far().readers.iter().rfind(|reader| reader.origin == feed.origin);
            let reader = reader.expect("an account of each publisher");
            if extra_lag && !reader.has_ended {
                // Its publisher was gone when the near relay came back: the far relay waits for a minute.
                continue;
            }
            sums[1] += reader.verify(feed, extra_lag);
            sums[0] += reader.delivered;
        }
        sums
    }
}

impl Node for Part {
    fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        let datagrams = Datagrams {
            from: address(arrival.from),
            bytes: arrival.bytes,
            segment_bytes: arrival.bytes.len(),
            arrived: arrival.arrived,
        };
        match self {
            Self::Near(near) if near.is_alive() => near.endpoint.handle(now, &datagrams),
            Self::Far(far) if far.is_alive() => far.endpoint.handle(now, &datagrams),
            Self::Near(_) | Self::Far(_) => {}
        }
    }

    fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        let mut wants = self.act(now);
        loop {
            let endpoint = match self {
                Self::Near(near) if near.is_alive() => &mut near.endpoint,
                Self::Far(far) if far.is_alive() => &mut far.endpoint,
                Self::Near(_) | Self::Far(_) => return wants,
            };
            match endpoint.poll(now) {
                Output::Transmit(transmit) => {
                    let SocketAddr::V4(to) = transmit.to else { panic!("scenes have IPv4") };
                    let to = Address::Node(NodeId(u32::from(to.ip().octets()[3])));
                    socket.send_train(to, transmit.bytes, transmit.segment_bytes);
                }
                Output::Event { socket, event } => {
                    match self {
                        Self::Near(near) => near.note(now, socket, event),
                        Self::Far(far) => far.note(now, socket, event),
                    }
                    wants = self.act(now);
                }
                Output::Idle { deadline } => return Instant::earlier(deadline, wants),
            }
        }
    }
}

impl Part {
    fn act(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Self::Near(near) => near.act(now),
            Self::Far(far) => far.act(now),
        }
    }
}
