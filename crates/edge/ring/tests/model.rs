//! One thread: every call agrees with a model that keeps all records and knows which were
//! overwritten.
#![cfg(not(loom))]

use std::collections::VecDeque;

use proptest::prelude::*;
use ring::{Read, Reader, RecordTooLarge, Ring, Writer};

const HEADER_BYTES: u64 = 24;
/// The kind of padding, as `docs/reference/formats/ring.md` has it.
const PADDING: u16 = 65_535;

struct Kept {
    position: u64,
    kind: u16,
    totals: [u64; 2],
    payload: Vec<u8>,
}

/// All records ever written, and the rules of overwriting in their simplest form.
struct Model {
    capacity_bytes: u64,
    head: u64,
    records: VecDeque<Kept>,
}

impl Model {
    fn write(&mut self, kind: u16, totals: [u64; 2], payload: &[u8]) -> u64 {
        let position = self.head;
        self.records.push_back(Kept { position, kind, totals, payload: payload.to_vec() });
        self.head += HEADER_BYTES + payload.len().next_multiple_of(8) as u64;
        position
    }

    /// Fills the ring up to its end with padding, each record at most half of it.
    fn rewind(&mut self, totals: [u64; 2]) {
        let end = self.head.next_multiple_of(self.capacity_bytes);
        while end - self.head >= HEADER_BYTES {
            let padding = (end - self.head).min(self.capacity_bytes / 2) - HEADER_BYTES;
            self.write(PADDING, totals, &vec![0; padding as usize]);
        }
    }

    /// End of the claimed region: whole sixteenths of the ring, whole words at least.
    fn claimed(&self) -> u64 {
        self.head.next_multiple_of((self.capacity_bytes / 16).max(8))
    }

    /// The oldest record that leaves an eighth of the ring as distance to the claimed region.
    fn resume(&self) -> &Kept {
        let keep_from = (self.claimed() + self.capacity_bytes / 8).saturating_sub(self.capacity_bytes);
        self.records
            .iter()
            .find(|kept| kept.position >= keep_from)
            .expect("a record is at most half the ring")
    }

    fn expect(&self, cursor: u64) -> (Read, Option<&[u8]>, u64) {
        if cursor == self.head {
            return (Read::Empty, None, cursor);
        }
        if cursor + self.capacity_bytes < self.claimed() {
            let kept = self.resume();
            return (Read::Lapped { totals: kept.totals }, None, kept.position);
        }
        let index = self.records.partition_point(|kept| kept.position < cursor);
        let kept = &self.records[index];
        let next = self.records.get(index + 1).map_or(self.head, |next| next.position);
        if kept.kind == PADDING {
            return self.expect(next);
        }
        (Read::Record { kind: kept.kind, totals: kept.totals }, Some(&kept.payload), next)
    }
}

struct Checked {
    writer: Writer,
    ring: Ring,
    readers: Vec<Reader>,
    cursors: Vec<u64>,
    model: Model,
    buffer: Vec<u8>,
    written: u64,
}

impl Checked {
    fn new(capacity_bytes: usize, readers: usize) -> Self {
        let (writer, ring) = ring::ring(capacity_bytes);
        Self {
            writer,
            readers: (0..readers).map(|_| ring.reader_at_head()).collect(),
            cursors: vec![0; readers],
            model: Model { capacity_bytes: ring.capacity_bytes(), head: 0, records: VecDeque::new() },
            ring,
            buffer: Vec::new(),
            written: 0,
        }
    }

    fn write(&mut self, share_of_limit: f64, cut: f64) {
        let len = (share_of_limit * self.writer.max_payload_bytes() as f64) as usize;
        let payload: Vec<u8> = (0..len).map(|index| (index as u64 * 7 + self.written) as u8).collect();
        let (first, second) = payload.split_at((cut * len as f64) as usize);
        let (kind, totals) = (self.written as u16, [self.written, self.written * self.written]);
        let position = self.writer.write(kind, totals, &[first, second]).expect("it fits");
        assert_eq!(position, self.model.write(kind, totals, &payload));
        assert_eq!(self.writer.head(), self.model.head);
        self.written += 1;
    }

    fn rewind(&mut self, behind_bytes: u64) {
        let totals = [self.written, 0];
        let is_behind = self.model.head % self.model.capacity_bytes > behind_bytes;
        assert_eq!(self.writer.rewind(behind_bytes, totals), is_behind);
        if is_behind {
            self.model.rewind(totals);
        }
        assert_eq!(self.writer.head(), self.model.head);
    }

    fn ask_for_more(&mut self, reader: usize) {
        let (expected, _, _) = self.model.expect(self.cursors[reader]);
        assert_eq!(self.readers[reader].has_more(), expected != Read::Empty);
        self.cursors[reader] = self.readers[reader].position();
        let (still, _, _) = self.model.expect(self.cursors[reader]);
        assert_eq!(still, expected, "only padding was passed over");
    }

    fn read(&mut self, reader: usize) {
        let (expected, payload, next) = self.model.expect(self.cursors[reader]);
        let lag = self.model.head - self.cursors[reader];
        assert_eq!(self.readers[reader].lag_bytes(), lag);
        assert_eq!(self.readers[reader].read(&mut self.buffer), expected);
        if let Some(payload) = payload {
            assert_eq!(self.buffer, payload);
        }
        assert_eq!(self.readers[reader].position(), next);
        self.cursors[reader] = next;
    }

    fn rejoin_at_oldest(&mut self, reader: usize) {
        self.readers[reader] = self.ring.reader_at_oldest();
        self.cursors[reader] = self.readers[reader].position();
        let known = self.model.records.iter().any(|kept| kept.position == self.cursors[reader]);
        assert!(known || self.cursors[reader] == self.model.head, "not the start of a record");
        assert!(self.cursors[reader] + self.model.capacity_bytes >= self.model.claimed(), "already lapped");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write { share_of_limit: f64, cut: f64 },
    Read { reader: usize, times: usize },
    AskForMore { reader: usize },
    Rewind { behind_bytes: u64 },
    Rejoin { reader: usize },
}

const READERS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    // Mostly small records, sometimes empty ones or the largest.
    let share = prop_oneof![4 => 0.0..0.2, 2 => 0.0..=1.0, 1 => Just(1.0), 1 => Just(0.0)];
    prop_oneof![
        5 => (share, 0.0..=1.0).prop_map(|(share_of_limit, cut)| Step::Write { share_of_limit, cut }),
        5 => (0..READERS, 1..6_usize).prop_map(|(reader, times)| Step::Read { reader, times }),
        2 => (0..READERS).prop_map(|reader| Step::AskForMore { reader }),
        1 => (0..200_u64).prop_map(|behind_bytes| Step::Rewind { behind_bytes }),
        1 => (0..READERS).prop_map(|reader| Step::Rejoin { reader }),
    ]
}

proptest! {
    #[test]
    fn every_read_agrees_with_the_model(
        capacity_bytes in prop_oneof![Just(64_usize), Just(128), Just(256), Just(1024), Just(4096)],
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut checked = Checked::new(capacity_bytes, READERS);
        for step in steps {
            match step {
                Step::Write { share_of_limit, cut } => checked.write(share_of_limit, cut),
                Step::Read { reader, times } => (0..times).for_each(|_| checked.read(reader)),
                Step::AskForMore { reader } => checked.ask_for_more(reader),
                Step::Rewind { behind_bytes } => checked.rewind(behind_bytes),
                Step::Rejoin { reader } => checked.rejoin_at_oldest(reader),
            }
        }
    }
}

#[test]
fn records_go_round_the_end_at_every_word() {
    for payload_bytes in 0..=104 {
        let (mut writer, ring) = ring::ring(256);
        let (mut reader, mut record) = (ring.reader_at_head(), Vec::new());
        for round in 0..200_u64 {
            let payload: Vec<u8> = (0..payload_bytes).map(|index| (index + round) as u8).collect();
            writer.write(1, [round, 0], &[&payload]).unwrap();
            assert_eq!(reader.read(&mut record), Read::Record { kind: 1, totals: [round, 0] });
            assert_eq!(record, payload);
        }
    }
}

#[test]
fn a_lapped_reader_counts_exactly_what_it_missed() {
    let (mut writer, ring) = ring::ring(1024);
    let (mut reader, mut record) = (ring.reader_at_head(), Vec::new());
    for number in 0..100 {
        writer.write(0, [number * 10, number], &[&[0; 8]]).unwrap();
    }
    // 32 bytes a record: 3,200 written, 1,024 kept less 128 of head-room, so record 72 is the first.
    assert_eq!(reader.read(&mut record), Read::Lapped { totals: [720, 72] });
    for number in 72..100 {
        assert_eq!(reader.read(&mut record), Read::Record { kind: 0, totals: [number * 10, number] });
    }
    assert_eq!(reader.read(&mut record), Read::Empty);
}

#[test]
fn a_reader_is_lapped_by_the_first_byte_too_many_and_not_before() {
    let (mut writer, ring) = ring::ring(256);
    let (mut reader, mut record) = (ring.reader_at_head(), Vec::new());
    for number in 0..8 {
        writer.write(0, [number, 0], &[&[0; 8]]).unwrap();
    }
    assert_eq!(reader.lag_bytes(), ring.capacity_bytes());
    assert_eq!(reader.read(&mut record), Read::Record { kind: 0, totals: [0, 0] });
    for number in 8..10 {
        writer.write(0, [number, 0], &[&[0; 8]]).unwrap();
    }
    assert!(matches!(reader.read(&mut record), Read::Lapped { .. }));
}

#[test]
fn the_largest_record_fits_and_one_byte_more_is_refused_without_a_trace() {
    let (mut writer, ring) = ring::ring(256);
    let (mut reader, mut record) = (ring.reader_at_head(), Vec::new());
    let limit_bytes = writer.max_payload_bytes();
    assert_eq!(limit_bytes, 104);
    let refused = writer.write(0, [0, 0], &[&[1; 100], &[2; 5]]);
    assert_eq!(refused, Err(RecordTooLarge { payload_bytes: 105, limit_bytes }));
    assert_eq!(reader.read(&mut record), Read::Empty);
    assert_eq!(writer.write(0, [0, 0], &[&[1; 100], &[2; 4]]), Ok(0));
    assert!(matches!(reader.read(&mut record), Read::Record { .. }));
}

#[test]
fn a_ring_that_is_rewound_in_time_uses_its_beginning_only() {
    let (mut writer, ring) = ring::ring(1 << 16);
    let (mut reader, mut record) = (ring.reader_at_head(), Vec::new());
    for round in 0..1_000 {
        for number in 0..4 {
            writer.write(1, [number, round], &[&[7; 232]]).unwrap();
        }
        for number in 0..4 {
            assert_eq!(reader.read(&mut record), Read::Record { kind: 1, totals: [number, round] });
        }
        assert!(writer.rewind(512, [4, round]));
        assert!(!writer.rewind(512, [4, round]), "once is enough");
        assert!(!reader.has_more(), "padding is nothing");
        assert_eq!(reader.lag_bytes(), 0);
        assert_eq!(reader.position() % ring.capacity_bytes(), 0);
    }
}

#[test]
fn padding_counts_as_unread_until_it_is_passed_over() {
    let (mut writer, ring) = ring::ring(1024);
    let (mut reader, mut record) = (ring.reader_at_head(), Vec::new());
    writer.write(0, [0, 0], &[&[0; 40]]).unwrap();
    assert!(writer.rewind(0, [1, 0]));
    // 64 bytes a record: the record before it and 15 behind it fill the ring, which is claimed in
    // strides of 64.
    writer.write(0, [1, 0], &[&[0; 40]]).unwrap();
    assert!(matches!(reader.read(&mut record), Read::Lapped { totals: [1, 0] }));
    assert_eq!(reader.read(&mut record), Read::Record { kind: 0, totals: [1, 0] });
    assert_eq!(reader.read(&mut record), Read::Empty);
}

#[test]
fn what_was_written_before_closing_is_still_read() {
    let (mut writer, ring) = ring::ring(256);
    let (mut reader, mut record) = (ring.reader_at_head(), Vec::new());
    writer.write(3, [0, 0], &[b"last"]).unwrap();
    writer.close();
    assert_eq!(reader.read(&mut record), Read::Record { kind: 3, totals: [0, 0] });
    assert_eq!(reader.read(&mut record), Read::Closed);
    assert_eq!(ring.reader_at_head().read(&mut record), Read::Closed);
}

#[test]
fn a_guard_names_the_first_record_that_would_overwrite_and_lets_go_with_its_reader() {
    let (mut writer, ring) = ring::ring(256);
    let (mut reader, guard) = ring.guarded_reader();
    let mut record = Vec::new();
    for number in 0..8 {
        assert!(!writer.would_overwrite(&guard, 8));
        writer.write(0, [number, 0], &[&[0; 8]]).unwrap();
    }
    assert!(writer.would_overwrite(&guard, 8));
    assert!(matches!(reader.read(&mut record), Read::Record { .. }));
    assert!(!writer.would_overwrite(&guard, 8));
    assert!(writer.would_overwrite(&guard, 9));
    drop(reader);
    assert!(!writer.would_overwrite(&guard, 104));
}
