//! The rings of this host as one subscriber sees them: the streams that it can read there, and their writers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use engine::{
    EpochOnPage, HostRing, HostRingError, HostRings, HostStream, LeftRing, ReaderPresence, ReceiveFrom,
    RingName, RingRead, RingWriter, read_ledger_page,
};
use ring::Ring;
use sample::{StreamName, StreamPattern};
use units::StreamId;

use crate::flow::{Bridge, Flow};
use crate::node::random;

/// Interval at which a subscriber checks for rings that are new or have lost their writers, because neither
/// wakes a reader; joining may take as long.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Reach of data: how they come to a reader.
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
    /// Returns the hop by which accounts name it.
    #[must_use]
    pub const fn hop(self) -> &'static str {
        match self {
            Self::Shm | Self::ShmAgent => "shm",
            Self::Udp => "udp",
        }
    }

    /// Returns the reason for this reach, as a clause.
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

/// Position at which a reader begins to read a stream that begins after it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Start {
    /// Its first sample; beginnings that are not available any more are a counted gap.
    #[default]
    Beginning,
    /// The first sample that arrives after the stream was found.
    Now,
}

impl Start {
    /// Returns the begin of streams received over the network.
    pub(crate) const fn received(self) -> ReceiveFrom {
        match self {
            Self::Beginning => ReceiveFrom::Beginning,
            Self::Now => ReceiveFrom::Now,
        }
    }
}

/// A subscriber's knowledge of its host's rings.
pub(crate) struct HostView {
    rings: HostRings,
    start: Start,
    /// This reader's presence, from its first check on.
    presence: Option<ReaderPresence>,
    /// True if the presence does not show everything that it should, which was logged.
    presence_is_incomplete: bool,
    next_look: Instant,
    /// Rings that this reader does not need or cannot read, with the file numbers that they had.
    passed: BTreeMap<RingName, Option<u64>>,
    /// Rings that existed before this reader asked for their streams.
    before: BTreeMap<RingName, Option<u64>>,
    /// Rings that this reader has opened, with their file numbers.
    taken: BTreeMap<RingName, Option<u64>>,
    /// Rings left for this reader that it has read and this user may not remove, by file number.
    lying: BTreeMap<u64, StreamId>,
}

/// A stream that was found on this host, and the position where its reader begins.
pub(crate) struct Found {
    pub(crate) stream: HostStream,
    pub(crate) start: Start,
}

/// The selection of a subscriber that searches this host for streams.
pub(crate) struct HostSelection<'a> {
    /// All patterns.
    pub(crate) patterns: &'a [StreamPattern],
    /// Number of patterns, the first ones, that were searched for before: streams that match them now began
    /// after that.
    pub(crate) waited_for: usize,
}

impl HostSelection<'_> {
    fn selects(&self, name: &StreamName) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(name))
    }

    fn waited_for(&self, name: &StreamName) -> bool {
        self.patterns[..self.waited_for].iter().any(|pattern| pattern.matches(name))
    }
}

impl HostView {
    pub(crate) fn new(rings: HostRings, start: Start) -> Self {
        let next_look = Instant::now();
        let (passed, before, taken, lying) = Default::default();
        Self {
            rings,
            start,
            presence: None,
            presence_is_incomplete: false,
            next_look,
            passed,
            before,
            taken,
            lying,
        }
    }

    /// Returns when the next check is due.
    pub(crate) const fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Returns whether a check is due, and schedules the next one.
    pub(crate) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = now >= self.next_look;
        if due {
            self.next_look = now + POLL_INTERVAL;
        }
        due
    }

    /// Forgets the rings that were passed over, because the selection has changed.
    pub(crate) fn look_at_all_again(&mut self) {
        self.passed.clear();
        self.next_look = Instant::now();
    }

    /// Ignores the ring of a flow that contains invalid records, so that the stream is received by another
    /// reach.
    pub(crate) fn shun_broken(&self, flow: &Flow) {
        if let Some((name, liveness)) = flow.broken_ring() {
            self.rings.shun(name, liveness);
        }
    }

    /// Shows publishers the patterns this reader waits for and the rings it reads.
    ///
    /// Must be called after a check: then every ring that this reader has not seen began after it.
    pub(crate) fn show(
        &mut self,
        reader: &str,
        patterns: &[StreamPattern],
        reads: impl Iterator<Item = RingRead>,
        deadline: Option<Duration>,
    ) {
        if self.presence.is_none() && !self.presence_is_incomplete {
            match self.rings.show_reader(random(), reader) {
                Ok(presence) => self.presence = Some(presence),
                Err(error) => {
                    self.presence_is_incomplete = true;
                    tracing::warn!(
                        "{error}\npublishers on this host cannot see this reader, which misses streams that end \
                         within {POLL_INTERVAL:?}"
                    );
                }
            }
        }
        let Some(presence) = &mut self.presence else { return };
        let waits_for = if self.start == Start::Beginning { patterns } else { &[] };
        let lying = self.lying.iter();
        let lying = lying.map(|(&file_number, &stream)| RingRead { stream, file_number, deadline });
        let reads: Vec<_> = reads.chain(lying).collect();
        if !presence.show(waits_for, &reads, deadline)
            && !std::mem::replace(&mut self.presence_is_incomplete, true)
        {
            tracing::warn!("this reader has more streams than publishers on this host can be told of");
        }
    }

    /// Returns whether rings of publishers that have ended wait for this reader.
    pub(crate) fn has_left(&self) -> bool {
        let left = self.presence.as_ref().map_or_else(Vec::new, ReaderPresence::left);
        left.iter().any(|left| !self.lying.contains_key(&left.file_number))
    }

    /// Returns the selected streams that can be read here now, the publishers' rings before the agent's;
    /// those that it `reads` already are left out.
    pub(crate) fn find(
        &mut self,
        mut reads: impl FnMut(StreamId) -> Option<Reach>,
        selection: &HostSelection<'_>,
    ) -> Vec<Found> {
        let names = self.rings.names();
        // Rings of ended publishers are older than other rings of the same stream. They are listed after the
        // names: a ring that has no name any more was left before.
        let mut found = self.find_left(&mut reads, selection);
        for known in [&mut self.passed, &mut self.before, &mut self.taken] {
            known.retain(|name, _| names.contains(name));
        }
        for name in names {
            let has = |stream| found.iter().any(|it| it.stream.subscription.stream == stream);
            if reads(name.stream).is_some() || has(name.stream) {
                continue;
            }
            let file = self.rings.file_number(&name);
            if self.passed.get(&name) == Some(&file) {
                continue;
            }
            match self.open(&name, file, selection) {
                // A writer that has ended will remove its ring in a moment, and has left it for this reader
                // before.
                Ok(Some(it)) if !it.stream.subscription.ring.is_closed() => {
                    self.taken.insert(name, file);
                    found.push(it);
                    continue;
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!("a ring of this host is not read: {error}");
                    if selection.waited_for == 0 {
                        self.before.insert(name.clone(), file);
                    }
                    if matches!(&error, HostRingError::Distrusted { name, .. } if selection.selects(name)) {
                        self.rings.note_distrusted(&name, &error);
                    }
                    if error.is_passing() {
                        continue;
                    }
                }
            }
            self.passed.insert(name, file);
        }
        found
    }

    /// Opens a ring if its stream is selected; remembers it if it was not waited for.
    fn open(
        &mut self,
        name: &RingName,
        file: Option<u64>,
        selection: &HostSelection<'_>,
    ) -> Result<Option<Found>, HostRingError> {
        let (ring, dead) = match self.rings.look(name) {
            Err(HostRingError::Dead(path)) => (self.rings.look_at_remains(name)?, Some(path)),
            looked => (looked?, None),
        };
        let is_known = [&self.before, &self.taken].iter().any(|them| them.get(name) == Some(&file));
        let waited = !is_known && selection.waited_for(&ring.description.name);
        if !waited {
            self.before.insert(name.clone(), file);
        }
        let start = if waited { self.start } else { Start::Now };
        // Records that a killed writer wrote since this reader began to wait are there.
        if let Some(path) = dead.filter(|_| start == Start::Now) {
            return Err(HostRingError::Dead(path));
        }
        let is_wanted = selection.selects(&ring.description.name);
        is_wanted.then(|| Ok(Found { stream: HostRing::open(ring)?, start })).transpose()
    }

    /// Takes the rings of publishers that ended before this reader found them, at most one of each stream.
    fn find_left(
        &mut self,
        reads: &mut impl FnMut(StreamId) -> Option<Reach>,
        selection: &HostSelection<'_>,
    ) -> Vec<Found> {
        let mut left = self.presence.as_ref().map_or_else(Vec::new, ReaderPresence::left);
        self.lying.retain(|file, _| left.iter().any(|left| left.file_number == *file));
        let mut found: Vec<Found> = Vec::new();
        left.retain(|left| !self.lying.contains_key(&left.file_number));
        for left in &left {
            let file = Some(left.file_number);
            // A ring that this reader found just before the publisher read its presence.
            let is_known = [&self.taken, &self.before].iter().any(|them| them.values().any(|it| *it == file));
            let looked = if is_known { None } else { left.look().ok() };
            let Some(ring) = looked.filter(|ring| selection.selects(&ring.description.name)) else {
                take_away(&mut self.lying, left, StreamId(0));
                continue;
            };
            let id = ring.stream();
            let has = |stream| found.iter().any(|it| it.stream.subscription.stream == stream);
            match reads(id) {
                // The stream was received over the network already, which delivered this epoch too.
                Some(Reach::Udp) => {
                    take_away(&mut self.lying, left, id);
                    continue;
                }
                Some(Reach::Shm | Reach::ShmAgent) => continue,
                None if has(id) => continue,
                None => {}
            }
            match HostRing::open(ring) {
                Ok(stream) => {
                    let name = RingName { stream: id, writer: RingWriter::Publisher };
                    self.taken.insert(name, file);
                    found.push(Found { stream, start: Start::Beginning });
                    take_away(&mut self.lying, left, id);
                }
                Err(error) if error.is_passing() => {}
                Err(error) => {
                    tracing::warn!("cannot read a stream that has ended: {error}");
                    take_away(&mut self.lying, left, id);
                }
            }
        }
        found
    }
}

/// Removes the name of a ring that was left for this reader, or remembers it until its owner removes it.
fn take_away(lying: &mut BTreeMap<u64, StreamId>, left: &LeftRing, stream: StreamId) {
    if !left.take_away() {
        lying.insert(left.file_number, stream);
    }
}

/// Accounts behind a ring, read from its ledger page.
pub(crate) struct PageBridge(pub(crate) Ring);

impl Bridge for PageBridge {
    fn epochs_of(&self, _stream: StreamId) -> Option<Vec<EpochOnPage>> {
        let mut page = Vec::new();
        if self.0.page(&mut page) { read_ledger_page(&page) } else { None }
    }
}
