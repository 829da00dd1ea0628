//! Arbitrary bytes as the ledger page of a ring: rejected, or epochs that decode to the same after encoding.
#![no_main]

use engine::read_ledger_page;
use engine::record::Record;
use ledger::Gap;
use libfuzzer_sys::fuzz_target;
use units::Epoch;

fuzz_target!(|bytes: &[u8]| {
    let Some(epochs) = read_ledger_page(bytes) else { return };
    let mut again = vec![u8::try_from(epochs.len()).expect("a page counts its epochs in a byte")];
    for known in &epochs {
        again.extend(known.epoch.start_ns.to_le_bytes());
        again.extend(known.epoch.incarnation.to_le_bytes());
        again.push(u8::from(known.ended));
    }
    let gaps = epochs.iter().flat_map(|known| known.gaps.iter().map(|gap| (known.epoch, gap)));
    gaps.for_each(|(epoch, gap)| write(epoch, gap, &mut again));
    assert_eq!(read_ledger_page(&again), Some(epochs));
});

/// Writes a gap in the format of the page, which is that of a record.
fn write(epoch: Epoch, gap: &Gap, out: &mut Vec<u8>) {
    assert_eq!(gap.check(), Ok(()));
    Record::Gap(epoch, gap.clone()).encode(out);
}
