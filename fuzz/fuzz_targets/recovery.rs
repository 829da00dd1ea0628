//! A recording whose files were truncated, flipped, overwritten or removed, as a reader and the next recorder find
//! it.
//!
//! Data read equals data written; a recovery keeps everything that could be read and acknowledges nothing more, and
//! a second one changes nothing. Entries and gap lines with valid checksums, which no disk fault creates, may have
//! any content: then the only condition is that nothing panics.
#![no_main]

use std::sync::{Arc, OnceLock};

use archive::{Entry, GapKey, GapRecord, Line, Origin, Store};
use fuzz::memory::Memory;
use fuzz::recording::{Found, LOST, SAMPLES, cut, folder, read, recorder, sample};
use fuzz::spoil::Spoil;
use ledger::{GapKind, HopCounts, Stage, StageCounts};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use units::WallTime;

#[derive(Debug, Arbitrary)]
enum Step<'a> {
    Spoil { file: u8, spoil: Spoil<'a> },
    Remove { file: u8 },
    Entry { segment: u8, end: bool, entry: AnyEntry },
    Gap { gap: AnyGap },
}

/// A small number, so that values coincide, or any number.
#[derive(Clone, Copy, Debug, Arbitrary)]
enum Near {
    Small(u8),
    Any(u64),
}

#[derive(Debug, Arbitrary)]
struct AnyEntry {
    offset: Near,
    length: Near,
    first_index: Near,
    samples: u8,
    span: Near,
    times: (i64, i64),
    data_crc: u32,
}

#[derive(Debug, Arbitrary)]
struct AnyGap {
    id: u8,
    ours: bool,
    kind: u8,
    first: Near,
    elements: Near,
    lost: Near,
    unexplained: Near,
    unsettled: Near,
    times: (i64, Option<i64>),
}

fuzz_target!(|steps: Vec<Step<'_>>| {
    static RECORDING: OnceLock<Memory> = OnceLock::new();
    let disk = RECORDING.get_or_init(cut).copy();
    let mut made = false;
    for step in steps.iter().take(16) {
        step.apply(&disk);
        made |= matches!(step, Step::Entry { .. } | Step::Gap { .. });
    }
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let before = read(&store);
    let recovered = recorder(&store).map(drop);
    let after = read(&store);
    if recovered.is_err() || made {
        return;
    }
    judge(before.as_ref());
    judge(after.as_ref());
    if let (Some(before), Some(after)) = (&before, &after) {
        assert_eq!(before.samples, after.samples, "a recovery keeps what was acknowledged, and no more");
    }
    let once = disk.content();
    recorder(&store).map(drop).expect("what was recovered can be recovered");
    assert_eq!(disk.content(), once, "a second recovery has nothing to do");
});

/// Checks that data read equals data written, at its position, and that missing data in between is counted.
fn judge(found: Option<&Found>) {
    let Some(found) = found else { return };
    for (index, bytes) in &found.samples {
        assert!(*index < SAMPLES && !LOST.contains(index), "sample {index} was never recorded");
        assert_eq!(*bytes, sample(*index), "sample {index}");
    }
    assert!(found.in_order, "a hole that nobody is told of");
}

impl Step<'_> {
    fn apply(&self, disk: &Memory) {
        let paths = disk.paths();
        let path = |file: u8| paths.get(usize::from(file) % paths.len().max(1));
        match self {
            Self::Spoil { file, spoil } => {
                if let Some(path) = path(*file) {
                    disk.change(path, |file| spoil.apply(file));
                }
            }
            Self::Remove { file } => {
                if let Some(path) = path(*file) {
                    disk.remove(path).expect("it is listed");
                }
            }
            Self::Entry { segment, end, entry } => {
                let index = format!("segment-{:06}.index", u32::from(*segment) % 8);
                let encoded = entry.encode(*end);
                disk.change(&folder().join(index), |file| file.extend_from_slice(&encoded));
            }
            Self::Gap { gap } => {
                let line = Line::Gap(Box::new(gap.record())).encode();
                disk.change(&folder().join("gaps.jsonl"), |file| file.extend_from_slice(line.as_bytes()));
            }
        }
    }
}

impl AnyEntry {
    fn encode(&self, end: bool) -> [u8; 64] {
        let first_index = self.first_index.value();
        if end {
            return Entry::encode_end(self.offset.value(), self.length.value(), first_index);
        }
        let entry = Entry {
            offset: self.offset.value(),
            length: self.length.value(),
            first_index,
            next_index: first_index.saturating_add(self.span.value()),
            t0: WallTime::from_nanos(self.times.0),
            t1: WallTime::from_nanos(self.times.1),
            samples: self.samples.into(),
            data_crc: self.data_crc,
        };
        entry.encode()
    }
}

impl AnyGap {
    fn record(&self) -> GapRecord {
        let first = self.first.value();
        let origin = if self.ours { Origin::Archive } else { Origin::Reader };
        GapRecord {
            key: GapKey { session: 1, origin, id: self.id.into() },
            kind: [GapKind::Missing, GapKind::ReaderAbsent, GapKind::PublisherAbsent][usize::from(self.kind % 3)],
            positions: first..first.saturating_add(self.elements.value()),
            numbers: 0..0,
            lost: StageCounts::of(Stage::Network, self.lost.value()),
            inherited: HopCounts::default(),
            unexplained: self.unexplained.value(),
            unsettled: self.unsettled.value(),
            apportioned: false,
            t0: WallTime::from_nanos(self.times.0),
            t1: self.times.1.map(WallTime::from_nanos),
            evidence: Vec::new(),
        }
    }
}

impl Near {
    fn value(self) -> u64 {
        match self {
            Self::Small(value) => value.into(),
            Self::Any(value) => value,
        }
    }
}
