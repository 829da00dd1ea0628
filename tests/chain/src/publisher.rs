//! A publisher on the near bus: samples at their rate, of which some are missing at their source.

use core::ops::Range;

use cast::send::{Beginning, Input, Pacing, SenderConfig, Sending};
use ledger::Stage;
use sim::{Arrival, Group, Socket};
use units::{Epoch, Instant, Random};
use wire::DATAGRAM_BYTES_IPV4;

use crate::bus::Bus;
use crate::feed::{Feed, Shape};

/// A publisher with all its epochs.
#[derive(Debug)]
pub struct Publisher {
    shape: Shape,
    group: Group,
    seed: u64,
    spans: Vec<Range<Instant>>,
    /// True if its epochs end without a word.
    is_killed: bool,
    current: Option<Current>,
    random: Random,
    /// Number of elements that it offered.
    pub offered: u64,
}

#[derive(Debug)]
struct Current {
    bus: Bus,
    next_at: Instant,
    end_at: Instant,
    next_index: u64,
}

impl Publisher {
    pub(crate) fn new(
        seed: u64,
        shape: Shape,
        group: Group,
        spans: Vec<Range<Instant>>,
        is_killed: bool,
    ) -> Self {
        let random = Random::for_purpose(seed, "publisher");
        Self { shape, group, seed, spans, is_killed, current: None, random, offered: 0 }
    }

    pub(crate) fn receive(&mut self, now: Instant, arrival: &Arrival<'_>) {
        if let Some(current) = &mut self.current {
            current.bus.receive(now, arrival);
        }
    }

    pub(crate) fn poll(&mut self, now: Instant, socket: &mut Socket<'_>) -> Option<Instant> {
        if self.current.as_ref().is_some_and(|current| current.bus.is_over()) {
            self.current = None;
        }
        let next = self.spans.first().map(|span| span.start);
        if next.is_some_and(|at| at <= now) {
            let span = self.spans.remove(0);
            self.current = Some(self.begin(now, &span));
        }
        let Some(current) = &mut self.current else { return next };
        while current.next_at <= now && current.next_at < current.end_at {
            self.offered += current.produce(now, &self.shape, &mut self.random);
            if current.next_at >= current.end_at && !self.is_killed {
                current.bus.sender().handle(now, Input::Finish);
            }
        }
        let bus = current.bus.poll(now, socket);
        let is_dead = self.is_killed && current.next_at >= current.end_at;
        let feed = Some(current.next_at).filter(|at| *at < current.end_at);
        let later = self.spans.first().map(|span| span.start);
        let over = current.bus.is_over().then_some(now + crate::MS);
        if is_dead {
            self.current = None;
            return later;
        }
        [bus, feed, later, over].into_iter().flatten().min()
    }

    fn begin(&self, now: Instant, span: &Range<Instant>) -> Current {
        let config = SenderConfig {
            description: self.shape.description(),
            epoch: Epoch { start_ns: now.as_nanos() + 1, incarnation: self.seed },
            datagram_bytes: DATAGRAM_BYTES_IPV4,
            linger: core::time::Duration::ZERO,
            clock: Feed::clock(),
            destinations: 1,
            pacing: Pacing::default(),
            sending: Sending::Always,
            beginning: Beginning::Now,
            predecessor: None,
            security: None,
            relayed: None,
            deadline: None,
        };
        let bus = Bus::new(config, self.seed, self.group, now);
        Current { bus, next_at: span.start, end_at: span.end, next_index: 0 }
    }
}

impl Current {
    /// Passes a record to the sender; returns the number of its elements.
    fn produce(&mut self, now: Instant, shape: &Shape, random: &mut Random) -> u64 {
        let per_sample = u64::from(shape.elements);
        let (first_index, samples) = (self.next_index, shape.record / per_sample);
        assert_eq!(samples * per_sample, shape.record, "a publisher has whole samples");
        let sender = self.bus.sender();
        if random.chance(shape.missing) {
            sender.handle(now, Input::Skipped { first_index, samples, stage: Stage::Source });
        } else {
            let positions = first_index * per_sample..first_index * per_sample + shape.record;
            let (t0, bytes) = (shape.time_of(first_index), Feed::bytes(positions));
            sender.handle(now, Input::Samples { first_index, t0, bytes: &bytes });
        }
        self.next_index += samples;
        self.next_at += shape.period();
        shape.record
    }
}
