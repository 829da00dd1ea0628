//! Any records of a ring: refused with a reason, or decoded to the same after encoding, and counted without a
//! panic.
//!
//! A fuzzer cannot guess gaps that add up, so gaps that do not are also tried with the end computed from their
//! rows.
#![no_main]

use engine::record::{Fault, Record};
use ledger::{Hop, UnsoundGap};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use sample::{Channel, Dtype, Schema};
use units::SampleRate;

/// Elements per sample: some blocks then hold pieces.
const PER_SAMPLE: u32 = 4;
/// Size of an element of the stream. Units: bytes.
const ELEMENT_BYTES: u64 = 2;
/// Offset of a gap's first position: after the epoch, the id and the kind. Units: bytes.
const GAP_START: usize = 16 + 8 + 1;

#[derive(Debug, Arbitrary)]
struct Written<'a> {
    kind: u8,
    totals: [Near; 2],
    bytes: &'a [u8],
}

/// A small number, so that values coincide, or any number.
#[derive(Debug, Arbitrary)]
enum Near {
    Small(u8),
    Any(u64),
}

fuzz_target!(|records: Vec<Written<'_>>| {
    let channels = vec![Channel::new("value", "V").with_shape([PER_SAMPLE])];
    let rate = SampleRate::hz(1_000).expect("a rate");
    let schema = Schema::new(Dtype::I16, rate, channels).expect("a schema");
    let mut account = None;
    for Written { kind, totals, bytes } in records.iter().take(1_000) {
        let kind = u16::from(*kind % 8);
        let totals = [totals[0].value(), totals[1].value()];
        let mut bytes = bytes.to_vec();
        if let Err(refused) = Record::decode(kind, &bytes)
            && let Fault::Gap(UnsoundGap::Unbalanced { counted, .. }) = refused.fault
        {
            mend(&mut bytes, counted);
        }
        reads_the_same(kind, &bytes);
        if let Ok(record) = Record::decode_of(&schema, kind, totals, &bytes) {
            account_for(&mut account, &record, totals);
        }
    }
});

/// Sets the end of a gap as its rows require.
fn mend(bytes: &mut [u8], counted: u128) {
    let (start, end) = bytes[GAP_START..GAP_START + 16].split_at_mut(8);
    let start = u64::from_le_bytes(start.try_into().expect("eight bytes"));
    let counted = u64::try_from(counted).unwrap_or(u64::MAX);
    end.copy_from_slice(&start.saturating_add(counted).to_le_bytes());
}

fn reads_the_same(kind: u16, bytes: &[u8]) {
    let Ok(record) = Record::decode(kind, bytes) else { return };
    let mut again = Vec::new();
    assert_eq!(record.encode(&mut again), kind);
    assert_eq!(Record::decode(kind, &again), Ok(record));
}

/// Counts a record as a reader does; the law holds after each.
fn account_for(account: &mut Option<Hop>, record: &Record<'_>, totals: [u64; 2]) {
    let per_sample = u64::from(PER_SAMPLE);
    let positions = match record {
        Record::Began { first_index, .. } => first_index * per_sample..first_index * per_sample,
        Record::Block(block) => block.position..block.position + block.payload.len() as u64 / ELEMENT_BYTES,
        Record::Gap(_, gap) => gap.positions.clone(),
        Record::Settled(_, gap) => return drop(account.as_mut().and_then(|hop| hop.settled(gap).cloned())),
        Record::Ended { state, .. } => return account.iter_mut().for_each(|hop| hop.end(*state)),
        Record::TwoPublishers { .. } | Record::Statement(..) | Record::Upstream(..) | Record::Horizon { .. } => return,
    };
    let Some(hop) = account else {
        *account = Hop::try_join(PER_SAMPLE, totals, positions.start).ok();
        return;
    };
    if hop.leads_to(totals, positions.start) {
        hop.lapped(totals);
    }
    // A record that does not follow the previous one is not counted.
    let _ = match record {
        Record::Gap(_, gap) => hop.try_gap(gap.clone()).map(drop),
        _ => hop.try_delivered(positions),
    };
    let rows = hop.rows();
    assert_eq!(rows.check(), Ok(()));
    assert_eq!(hop.samples().check(rows.next - rows.first), Ok(()));
}

impl Near {
    fn value(&self) -> u64 {
        match self {
            Self::Small(value) => u64::from(*value),
            Self::Any(value) => *value,
        }
    }
}
