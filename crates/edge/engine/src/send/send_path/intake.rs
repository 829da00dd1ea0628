//! Everything that a publisher hands to its send path: the records of its ring, samples that it
//! passes directly, the injection that it requests, and the end.

use std::sync::Arc;

use cast::Sender;
use cast::send::{ElementTimes, Input, Relayed};
use ledger::{Gap, HopShare, Outcome, Stage};
use ring::{Read, Reader};
use sample::Schema;
use units::{Instant, WallTime};

use super::losses::Losses;
use crate::record::{BlockRecord, Record};
use crate::send::publication_shared::PublicationShared;
use crate::send::samples::Samples;

/// The network's end of a publisher's ring.
pub(super) struct Intake {
    reader: Reader,
    record: Vec<u8>,
    publisher: Arc<PublicationShared>,
    next_index: u64,
    /// The hop before that of a relayed stream, whose records lie at positions.
    hop_before: Option<u8>,
    next_position: u64,
    elements_per_sample: u64,
    sample_bytes: usize,
    /// The ring's totals as expected before the next record.
    totals: [u64; 2],
    /// Fill of the ring, in bytes, at or below which a waiting publisher continues.
    enough_room_bytes: u64,
    injection: f64,
}

impl Intake {
    pub(super) fn new(
        reader: Reader,
        publisher: Arc<PublicationShared>,
        schema: &Schema,
        relayed: Option<Relayed>,
    ) -> Self {
        Self {
            enough_room_bytes: reader.capacity_bytes() / 2,
            reader,
            record: Vec::new(),
            publisher,
            next_index: 0,
            hop_before: relayed.map(|relayed| relayed.origin.hop.get() - 1),
            next_position: relayed.map_or(0, |relayed| relayed.first_position),
            elements_per_sample: u64::from(schema.elements_per_sample()),
            sample_bytes: schema.sample_bytes(),
            totals: [0, 0],
            injection: 0.0,
        }
    }

    /// Returns the index of the next sample.
    pub(super) const fn next_index(&self) -> u64 {
        self.next_index
    }

    /// Returns how many bytes wait in the ring.
    pub(super) fn waiting_bytes(&self) -> u64 {
        self.reader.lag_bytes()
    }

    /// Returns whether the publisher has written samples or closed its ring.
    pub(super) fn has_samples_or_end(&self) -> bool {
        self.reader.lag_bytes() > 0 || self.publisher.is_closed()
    }

    /// Returns whether the publisher has requested another injection.
    pub(super) fn has_new_injection(&self) -> bool {
        self.publisher.injection().to_bits() != self.injection.to_bits()
    }

    /// Returns the injection that the publisher has requested, if it is a new one.
    pub(super) fn take_injection(&mut self) -> Option<f64> {
        let requested = self.publisher.injection();
        let before = std::mem::replace(&mut self.injection, requested);
        (requested.to_bits() != before.to_bits()).then_some(requested)
    }

    /// Moves records from the ring into the machine; returns whether there were any.
    pub(super) fn feed(&mut self, now: Instant, machine: &mut Sender, losses: &mut Losses) -> bool {
        let mut fed = false;
        while machine.wants_samples() {
            match self.reader.read(&mut self.record) {
                Read::Empty => break,
                Read::Closed => {
                    machine.handle(now, Input::Finish);
                    return false;
                }
                Read::Broken => {
                    losses.log_broken_ring();
                    machine.handle(now, Input::Finish);
                    return false;
                }
                Read::Lapped { totals } => self.lapped(now, totals, machine, losses),
                Read::Record { kind, totals } => self.take_record(now, kind, totals, machine),
            }
            fed = true;
        }
        let backlog_bytes = self.reader.lag_bytes();
        if fed && backlog_bytes <= self.enough_room_bytes {
            self.publisher.there_is_room();
        }
        machine.handle(now, Input::Backlog(usize::try_from(backlog_bytes).unwrap_or(usize::MAX)));
        fed
    }

    /// Returns whether samples that the publisher passes directly are the next ones: no others wait
    /// in the ring before them.
    pub(super) fn are_next(&self, samples: &Samples<'_>) -> bool {
        match samples.ring_position {
            Some(position) => position == self.reader.position(),
            None => self.reader.lag_bytes() == 0,
        }
    }

    /// Passes over a record whose samples the publisher passes directly; returns whether it was
    /// still in the ring.
    pub(super) fn pass_over_record(
        &mut self,
        now: Instant,
        machine: &mut Sender,
        losses: &mut Losses,
    ) -> bool {
        match self.reader.look() {
            Ok(_) => {
                self.reader.skip();
                true
            }
            // The ring is so small that the samples do not fit into it.
            Err(Read::Lapped { totals }) => {
                self.lapped(now, totals, machine, losses);
                false
            }
            // The next poll handles the error.
            Err(_) => false,
        }
    }

    /// Passes samples to the machine that are in no ring, or not to be read from there.
    pub(super) fn take_samples(&mut self, now: Instant, t0: WallTime, bytes: &[u8], machine: &mut Sender) {
        let first_index = self.count(bytes.len());
        machine.handle(now, Input::Samples { first_index, t0, bytes });
    }

    fn take_record(&mut self, now: Instant, record_kind: u16, totals: [u64; 2], machine: &mut Sender) {
        self.totals = totals;
        match Record::decode(record_kind, &self.record) {
            Ok(Record::Block(BlockRecord { position, t0, clock, born, payload, .. }))
                if self.hop_before.is_some() =>
            {
                let elements = payload.len() as u64 * self.elements_per_sample / self.sample_bytes as u64;
                self.totals[0] += elements;
                self.next_position = position + elements;
                let times = ElementTimes { t0, clock, born };
                machine.handle(now, Input::Elements { position, times, bytes: payload });
            }
            Ok(Record::Block(BlockRecord { t0, payload, .. })) => {
                let (size_bytes, start) = (payload.len(), self.record.len() - payload.len());
                let first_index = self.count(size_bytes);
                let buffer = &mut self.record;
                machine.handle(now, Input::SamplesIn { first_index, t0, buffer, start });
            }
            Ok(Record::Gap(_, gap)) if self.hop_before.is_some() => {
                self.totals[1] += gap.len();
                self.next_position = gap.positions.end;
                let Gap { positions, inherited: shares, evidence, .. } = &gap;
                let cause = evidence.iter().find_map(|line| line.source.cause());
                machine.handle(now, Input::Inherited { positions: positions.clone(), shares, cause });
            }
            Ok(Record::Settled(_, gap)) => {
                machine.handle(now, Input::Settled { positions: gap.positions, shares: &gap.inherited });
            }
            Ok(Record::Upstream(_, hops)) => machine.handle(now, Input::Upstream(hops)),
            Ok(Record::Gap(_, gap)) => {
                self.totals[1] += gap.len();
                self.skip(now, gap.len() / self.elements_per_sample, Stage::Source, machine);
            }
            Ok(Record::Statement(_, statement)) => machine.handle(now, Input::Statement(statement)),
            // Beginning and end are for readers; the machine has its own.
            Ok(Record::Began { .. } | Record::Ended { .. }) => {}
            Ok(Record::TwoPublishers { .. } | Record::Horizon { .. }) | Err(_) => {
                debug_assert!(false, "a publisher writes nothing else");
            }
        }
    }

    /// Counts whole samples; returns the index of the first.
    fn count(&mut self, size_bytes: usize) -> u64 {
        let (first_index, samples) = (self.next_index, (size_bytes / self.sample_bytes) as u64);
        self.next_index += samples;
        self.totals[0] += samples * self.elements_per_sample;
        first_index
    }

    /// Counts samples that the ring overwrote before they were sent.
    fn lapped(&mut self, now: Instant, totals: [u64; 2], machine: &mut Sender, losses: &mut Losses) {
        let [written, skipped] = totals;
        let [lost, holes] = [written - self.totals[0], skipped - self.totals[1]];
        self.totals = totals;
        losses.warn_once(Stage::PublisherQueue, "the publisher outran its network: samples were taken back");
        if let Some(hop) = self.hop_before {
            return self.skip_elements(now, lost, (hop, holes), machine);
        }
        let [lost, holes] = [lost, holes].map(|elements| elements / self.elements_per_sample);
        self.skip(now, lost, Stage::PublisherQueue, machine);
        self.skip(now, holes, Stage::Source, machine);
    }

    /// Skips elements of a relayed stream that the ring overwrote, and holes of which nobody knows the outcome any more.
    fn skip_elements(&mut self, now: Instant, lost: u64, (hop, holes): (u8, u64), machine: &mut Sender) {
        if lost > 0 {
            let positions = self.next_position..self.next_position + lost;
            self.next_position = positions.end;
            machine.handle(now, Input::SkippedElements { positions, stage: Stage::PublisherQueue });
        }
        if holes > 0 {
            let positions = self.next_position..self.next_position + holes;
            self.next_position = positions.end;
            let shares =
                [HopShare { hop, outcome: Outcome::Unexplained, count: holes }].into_iter().collect();
            machine.handle(now, Input::Inherited { positions, shares: &shares, cause: None });
        }
    }

    fn skip(&mut self, now: Instant, samples: u64, stage: Stage, machine: &mut Sender) {
        if samples > 0 {
            let first_index = self.next_index;
            self.next_index += samples;
            machine.handle(now, Input::Skipped { first_index, samples, stage });
        }
    }
}

#[cfg(test)]
impl Intake {
    /// Returns how much of the ring has been read.
    pub(super) const fn read_bytes(&self) -> u64 {
        self.reader.position()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sys::clock;
    use units::SampleRate;

    use super::*;
    use crate::send::publication_config::PublicationConfig;
    use crate::send::send_path::SendPath;
    use crate::send::tests::{listener, opened, publication_config};

    #[test]
    fn samples_that_the_ring_overwrote_keep_their_indices_and_are_lost_in_the_queue() {
        let (_listener, open) = listener();
        let config = PublicationConfig { ring_bytes: 4_096, ..publication_config(vec![open]) };
        let (mut publication, mut send_path) = opened(&config);
        let rate = SampleRate::hz(1_000_000).unwrap();
        publication.write(WallTime::from_nanos(0), &[0; 8_192], rate).unwrap();
        publication.skip(5).unwrap();
        let SendPath { intake, machine, losses, .. } = &mut send_path;
        assert!(intake.feed(clock::monotonic(), machine, losses));
        assert_eq!((intake.next_index(), intake.totals), (2_053, [2_048, 5]));
        assert!(!intake.has_samples_or_end());
        // Later than the pacing of all samples.
        send_path.drain(clock::monotonic() + Duration::from_secs(3_600));
        let samples = send_path.machine.totals().samples;
        assert!(samples.is_balanced() && samples.publisher_queue > 0, "{samples:?}");
        // Nothing else would end the publisher.
        drop(send_path);
    }

    #[test]
    fn an_injection_is_taken_once() {
        let (_listener, open) = listener();
        let (publication, mut send_path) = opened(&publication_config(vec![open]));
        let intake = &mut send_path.intake;
        assert!(!intake.has_new_injection());
        publication.inject(0.5);
        assert!(intake.has_new_injection());
        assert_eq!((intake.take_injection(), intake.take_injection()), (Some(0.5), None));
        drop(send_path);
    }
}
