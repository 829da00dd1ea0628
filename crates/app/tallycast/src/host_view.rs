//! The rings of this host as one subscriber sees them: which streams it can read there, and who wrote them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use engine::{HostRing, HostRings, HostStream, LifeOnPage, RingName, RingWriter, read_ledger_page};
use ring::Ring;
use sample::StreamName;
use units::StreamId;

use crate::flow::{Bridge, Flow};

/// How often a subscriber looks for rings that came or lost their writers; as long as it may take to join.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// How data came to a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// From shared memory, written by the publisher on this host.
    Shm,
    /// From shared memory, written by this host's agent, which received it from the network.
    ShmAgent,
    /// Received by this process from the network.
    Udp,
}

impl Reach {
    /// Returns the word for it in accounts: the leg.
    #[must_use]
    pub const fn leg(self) -> &'static str {
        match self {
            Self::Shm | Self::ShmAgent => "shm",
            Self::Udp => "udp",
        }
    }

    /// Returns why data come that way, in words.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::Shm => "published on this host",
            Self::ShmAgent => "an agent receives it for this host",
            Self::Udp => "received by this process",
        }
    }

    pub(crate) const fn of(writer: RingWriter) -> Self {
        match writer {
            RingWriter::Publisher => Self::Shm,
            RingWriter::Agent => Self::ShmAgent,
        }
    }
}

/// What a subscriber knows of its host's rings.
pub(crate) struct HostView {
    rings: HostRings,
    next_look: Instant,
    /// Rings that this reader does not want or cannot read, by the file that they were then.
    passed: BTreeMap<RingName, Option<u64>>,
}

impl HostView {
    pub(crate) fn new(rings: HostRings) -> Self {
        Self { rings, next_look: Instant::now(), passed: BTreeMap::new() }
    }

    /// Returns when the next look is due.
    pub(crate) const fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Tells whether it is time for a look, of which there will be another later.
    pub(crate) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = now >= self.next_look;
        if due {
            self.next_look = now + LOOK_INTERVAL;
        }
        due
    }

    /// Forgets what was passed over: wishes have changed.
    pub(crate) fn look_at_all_again(&mut self) {
        self.passed.clear();
        self.next_look = Instant::now();
    }

    /// Leaves the ring of a flow alone that holds nonsense, so that the stream comes another way.
    pub(crate) fn shun_broken(&self, flow: &Flow) {
        if let Some((name, liveness)) = flow.broken_ring() {
            self.rings.shun(name, liveness);
        }
    }

    /// Returns the streams that can be read here now and are wanted, the publishers' rings before the agent's;
    /// those that are `read` already are left alone.
    pub(crate) fn find(
        &mut self,
        mut is_read: impl FnMut(StreamId) -> bool,
        is_wanted: impl Fn(&StreamName) -> bool,
    ) -> Vec<HostStream> {
        let names = self.rings.names();
        self.passed.retain(|name, _| names.contains(name));
        let mut found: Vec<HostStream> = Vec::new();
        for name in names {
            let has = |stream| found.iter().any(|it| it.inlet.stream == stream);
            if is_read(name.stream) || has(name.stream) {
                continue;
            }
            let file = self.rings.file_number(&name);
            if self.passed.get(&name) == Some(&file) {
                continue;
            }
            let wanted = |ring: &HostRing| is_wanted(&ring.description.name);
            match self.rings.look(&name).and_then(|ring| wanted(&ring).then(|| ring.open()).transpose()) {
                // A writer that has ended takes its ring away in a moment.
                Ok(Some(stream)) if !stream.inlet.ring.is_closed() => {
                    found.push(stream);
                    continue;
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!("a ring of this host is not read: {error}");
                    if error.is_passing() {
                        continue;
                    }
                }
            }
            self.passed.insert(name, file);
        }
        found
    }
}

/// The accounts behind a ring, by its ledger page.
pub(crate) struct PageBridge(pub(crate) Ring);

impl Bridge for PageBridge {
    fn accounts_of(&self, _stream: StreamId) -> Option<Vec<LifeOnPage>> {
        let mut page = Vec::new();
        if self.0.page(&mut page) { read_ledger_page(&page) } else { None }
    }
}
