//! Where a stream comes in: the ring that local readers read, and the writing end of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cast::receive::Event;
use ring::sync::{AtomicU64, Ordering};
use ring::{Doorbell, Ring, Writer};
use units::StreamId;
use wire::Description;

use crate::record::{BlockRecord, Record, kind};

/// A ring holds about so much of its stream, so that a reader may be away for that long.
const RING_TIME: Duration = Duration::from_secs(4);
/// The smallest ring: slow streams send few but whole records.
const MIN_RING_BYTES: usize = 1 << 18;
/// The largest ring: fast streams give their readers less time.
const MAX_RING_BYTES: usize = 1 << 26;
/// What a record takes beside its payload, at most, for the estimate of a ring's size.
const RECORD_OVERHEAD_BYTES: f64 = 96.0;

/// A stream as local readers find it.
#[derive(Clone)]
pub struct Inlet {
    /// The stream.
    pub stream: StreamId,
    /// Name, schema, station.
    pub description: Arc<Description>,
    /// Its flow of records.
    pub ring: Ring,
}

/// The streams that come in, for all threads of the process.
#[derive(Default)]
pub(crate) struct Registry {
    inlets: Mutex<Vec<Inlet>>,
    /// Counts changes, so that readers look only when there is something new.
    generation: AtomicU64,
    pub(crate) bell: Doorbell,
}

impl Registry {
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn inlets(&self) -> Vec<Inlet> {
        self.inlets.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, act: impl FnOnce(&mut Vec<Inlet>)) {
        act(&mut self.inlets.lock().unwrap_or_else(PoisonError::into_inner));
        // Pairs with the load in `generation`: whoever sees the new count finds the new list.
        self.generation.fetch_add(1, Ordering::Release);
        self.bell.ring();
    }
}

/// The writing ends of all inlets, owned by the agent.
pub(super) struct Inlets {
    registry: Arc<Registry>,
    ways: BTreeMap<StreamId, Way>,
    scratch: Vec<u8>,
    written: bool,
}

struct Way {
    writer: Writer,
    /// Cumulative elements delivered and missing since the account began.
    totals: [u64; 2],
}

impl Inlets {
    pub(super) fn new(registry: Arc<Registry>) -> Self {
        Self { registry, ways: BTreeMap::new(), scratch: Vec::new(), written: false }
    }

    /// Writes an event of the stream machine into its stream's ring.
    pub(super) fn write(&mut self, event: Event<'_>) {
        self.written = true;
        match event {
            Event::Began { stream, epoch, description, first_index } => {
                self.open(stream, description);
                if let Some(way) = self.ways.get_mut(&stream) {
                    way.totals = [0, 0];
                }
                self.put(stream, &Record::Began { epoch, first_index }, [0, 0]);
            }
            Event::Block { stream, epoch, positions, t0, clock, payload, .. } => {
                let Some(way) = self.ways.get_mut(&stream) else { return };
                let record = BlockRecord { epoch, position: positions.start, t0, clock, payload };
                way.put(kind::BLOCK, &[&record.head(), payload]);
                way.totals[0] += positions.end - positions.start;
            }
            Event::Gap { stream, epoch, gap } => {
                let missing = gap.len();
                self.put(stream, &Record::Gap(epoch, gap), [0, missing]);
            }
            Event::Settled { stream, epoch, gap } => self.put(stream, &Record::Settled(epoch, gap), [0, 0]),
            Event::Ended { stream, epoch, account } => {
                let datagrams = account.datagrams.unwrap_or_default();
                let record = Record::Ended { epoch, state: account.state, datagrams };
                self.put(stream, &record, [0, 0]);
            }
            Event::TwoPublishers { stream, winner, other } => {
                self.put(stream, &Record::TwoPublishers { winner, other }, [0, 0]);
            }
        }
    }

    /// Closes the rings of streams that nobody reads any more.
    pub(super) fn close_where(&mut self, unwanted: impl Fn(&Description) -> bool) {
        let all = self.registry.inlets();
        let closed: Vec<_> = all.iter().filter(|it| unwanted(&it.description)).map(|it| it.stream).collect();
        if !closed.is_empty() {
            self.ways.retain(|stream, _| !closed.contains(stream));
            self.registry.change(|inlets| inlets.retain(|inlet| !closed.contains(&inlet.stream)));
        }
    }

    pub(super) fn close_all(&mut self) {
        self.ways.clear();
        self.registry.change(Vec::clear);
    }

    /// Wakes the readers if anything was written since the last time.
    pub(super) fn ring_bell(&mut self) {
        if std::mem::take(&mut self.written) {
            self.registry.bell.ring();
        }
    }

    fn open(&mut self, stream: StreamId, description: Arc<Description>) {
        if self.ways.contains_key(&stream) {
            return;
        }
        let (writer, ring) = ring::ring(ring_bytes(&description));
        self.ways.insert(stream, Way { writer, totals: [0, 0] });
        self.registry.change(|inlets| inlets.push(Inlet { stream, description, ring }));
    }

    fn put(&mut self, stream: StreamId, record: &Record<'_>, advance: [u64; 2]) {
        let Some(way) = self.ways.get_mut(&stream) else { return };
        self.scratch.clear();
        let kind = record.encode(&mut self.scratch);
        way.put(kind, &[&self.scratch]);
        way.totals[0] += advance[0];
        way.totals[1] += advance[1];
    }
}

impl Way {
    fn put(&mut self, kind: u16, parts: &[&[u8]]) {
        let written = self.writer.write(kind, self.totals, parts);
        written.expect("records of one datagram fit into the smallest ring");
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an estimate that is clamped"
)]
fn ring_bytes(description: &Description) -> usize {
    let schema = &description.schema;
    let payload = schema.rate.as_hz() * schema.sample_bytes() as f64;
    let records = (schema.rate.as_hz()).min(payload / 1_000.0 + 200.0);
    let bytes = (payload + records * RECORD_OVERHEAD_BYTES) * RING_TIME.as_secs_f64();
    (bytes as usize).clamp(MIN_RING_BYTES, MAX_RING_BYTES)
}
