//! The ledger page of a stream's ring: the accounts behind it, for readers that were lapped.
//!
//! A lapped reader knows from the totals how much it missed, but not in which stages: the records
//! that said so were overwritten. So the ring's writer keeps the newest gaps here.
//!
//! An epoch is on the page before its first record is in the ring, and its end after its last record. So a reader of an epoch
//! that is not on the page, or has ended there, may conclude that the ring holds nothing more of it.

use std::collections::VecDeque;

use ledger::Gap;
use ring::Writer;
use units::Epoch;

use crate::bytes::{Cursor, Put};
use crate::record;

/// Maximum number of gaps kept for the page; one takes 100 to 200 bytes.
const MAX_GAPS: usize = 128;
/// Maximum number of epochs on a page; a receiver has fewer of which records may still come.
const MAX_EPOCHS: usize = 8;

/// One epoch on the page, for readers that missed its records.
#[derive(Clone, PartialEq, Debug)]
pub struct EpochOnPage {
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// True once no more records of it follow.
    pub ended: bool,
    /// Its newest gaps.
    pub gaps: Vec<Gap>,
}

/// The page as its writer keeps it.
#[derive(Default)]
pub(crate) struct LedgerPage {
    epochs: VecDeque<(Epoch, bool)>,
    gaps: VecDeque<(Epoch, Gap)>,
    changed: bool,
}

impl LedgerPage {
    pub(crate) fn began(&mut self, epoch: Epoch) {
        self.changed = true;
        if let Some((_, ended)) = self.epochs.iter_mut().find(|(known, _)| *known == epoch) {
            *ended = false;
            return;
        }
        if self.epochs.len() == MAX_EPOCHS {
            self.epochs.pop_front();
        }
        self.epochs.push_back((epoch, false));
    }

    pub(crate) fn ended(&mut self, epoch: Epoch) {
        self.changed = true;
        if let Some((_, ended)) = self.epochs.iter_mut().find(|(known, _)| *known == epoch) {
            *ended = true;
        }
    }

    /// Adds a gap, or updates one.
    pub(crate) fn gap(&mut self, epoch: Epoch, gap: &Gap) {
        self.changed = true;
        let is_it = |(of, known): &&mut (Epoch, Gap)| *of == epoch && known.positions == gap.positions;
        if let Some((_, known)) = self.gaps.iter_mut().rev().find(is_it) {
            known.clone_from(gap);
            return;
        }
        if self.gaps.len() == MAX_GAPS {
            self.gaps.pop_front();
        }
        self.gaps.push_back((epoch, gap.clone()));
    }

    /// Returns the epochs, each with true once it has ended.
    pub(crate) fn epochs(&self) -> impl Iterator<Item = (Epoch, bool)> + '_ {
        self.epochs.iter().copied()
    }

    /// Encodes the page, if it changed since the last call, into at most `limit_bytes` bytes: the
    /// newest gaps that fit.
    pub(crate) fn take_news(&mut self, limit_bytes: usize, out: &mut Vec<u8>) -> bool {
        if !std::mem::take(&mut self.changed) {
            return false;
        }
        out.clear();
        out.push(u8::try_from(self.epochs.len()).expect("bounded above"));
        for (epoch, ended) in &self.epochs {
            out.epoch(*epoch);
            out.push(u8::from(*ended));
        }
        for (epoch, gap) in self.gaps.iter().rev() {
            let len = out.len();
            record::put_gap(out, *epoch, gap);
            if out.len() > limit_bytes {
                out.truncate(len);
                break;
            }
        }
        true
    }
}

/// Writes changes into a ring's page, if the ring has one.
pub(crate) fn write_page(writer: &mut Writer, page: &mut LedgerPage, scratch: &mut Vec<u8>) {
    let limit_bytes = writer.page_bytes();
    if limit_bytes > 0 && page.take_news(limit_bytes, scratch) {
        writer.set_page(scratch).expect("the epochs fit, and only as many gaps as fit were written");
    }
}

/// Reads a page; `None` for bytes that are not a page, such as a page that was never written, which
/// does not mean that all epochs have ended. Pages that no writer writes are rejected too: repeated
/// epochs, too many entries, impossible gaps.
#[must_use]
pub fn read_ledger_page(bytes: &[u8]) -> Option<Vec<EpochOnPage>> {
    let mut cursor = Cursor::new(bytes);
    let mut epochs: Vec<EpochOnPage> = Vec::new();
    for _ in 0..cursor.u8().filter(|count| usize::from(*count) <= MAX_EPOCHS)? {
        let (epoch, ended) = (cursor.epoch()?, cursor.u8()? != 0);
        if epochs.iter().any(|known| known.epoch == epoch) {
            return None;
        }
        epochs.push(EpochOnPage { epoch, ended, gaps: Vec::new() });
    }
    for gaps in 0.. {
        if cursor.is_empty() {
            break;
        }
        let (epoch, gap) = (cursor.epoch()?, record::read_gap(&mut cursor)?);
        if gaps == MAX_GAPS || record::check_gap(&gap).is_err() {
            return None;
        }
        if let Some(known) = epochs.iter_mut().find(|known| known.epoch == epoch) {
            known.gaps.push(gap);
        }
    }
    Some(epochs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::{GapKind, HopCounts, MAX_POSITION, Stage, StageCounts};

    const EPOCH: Epoch = Epoch { start_ns: 3, incarnation: 4 };

    fn gap(start: u64) -> Gap {
        Gap {
            id: start,
            kind: GapKind::Missing,
            positions: start..start + 2,
            numbers: 0..0,
            lost: StageCounts::of(Stage::Source, 2),
            inherited: HopCounts::default(),
            unexplained: 0,
            unsettled: 0,
            apportioned: false,
            evidence: Vec::new(),
        }
    }

    #[test]
    fn a_page_reads_back_and_is_written_only_when_it_changed() {
        let (mut page, mut bytes) = (LedgerPage::default(), Vec::new());
        assert!(!page.take_news(1000, &mut bytes));
        page.began(EPOCH);
        page.gap(EPOCH, &gap(10));
        page.gap(EPOCH, &gap(20));
        let news = Gap { lost: StageCounts::of(Stage::Source, 1), unexplained: 1, ..gap(10) };
        page.gap(EPOCH, &news);
        assert!(page.take_news(1000, &mut bytes));
        let gaps = vec![gap(20), news];
        assert_eq!(read_ledger_page(&bytes), Some(vec![EpochOnPage { epoch: EPOCH, ended: false, gaps }]));
        assert!(!page.take_news(1000, &mut bytes));
        page.ended(EPOCH);
        assert!(page.take_news(1000, &mut bytes));
        assert!(read_ledger_page(&bytes).unwrap()[0].ended);
    }

    #[test]
    fn an_unwritten_page_does_not_say_that_epochs_have_ended() {
        assert_eq!(read_ledger_page(&[]), None);
        assert_eq!(read_ledger_page(&[0]), Some(Vec::new()));
    }

    #[test]
    fn the_newest_gaps_are_kept_within_the_page() {
        let (mut page, mut bytes) = (LedgerPage::default(), Vec::new());
        page.began(EPOCH);
        for start in 0..1000 {
            page.gap(EPOCH, &gap(10 * start));
        }
        assert!(page.take_news(2000, &mut bytes));
        assert!(bytes.len() <= 2000);
        let epochs = read_ledger_page(&bytes).unwrap();
        assert_eq!(epochs[0].gaps[0], gap(9990));
        assert!(epochs[0].gaps.len() > 10);
    }

    /// Encodes a page with one epoch and these gaps, whether or not a writer would write them.
    fn page_of(gaps: &[Gap]) -> Vec<u8> {
        let mut bytes = vec![1];
        bytes.epoch(EPOCH);
        bytes.push(0);
        gaps.iter().for_each(|gap| record::put_gap(&mut bytes, EPOCH, gap));
        bytes
    }

    #[test]
    fn a_page_with_a_gap_that_cannot_be_is_none() {
        assert!(read_ledger_page(&page_of(&[gap(10), gap(20)])).is_some());
        let backwards = std::ops::Range { start: 12, end: 10 };
        let backwards = Gap { positions: backwards, ..gap(10) };
        let beyond = Gap { positions: MAX_POSITION..MAX_POSITION + 2, ..gap(10) };
        for unsound in [
            Gap { positions: 10..10, ..gap(10) },
            Gap { unsettled: 1, ..gap(10) },
            Gap { unsettled: u64::MAX, ..gap(10) },
            backwards,
            beyond,
            Gap::outside_accounts(GapKind::ReaderAbsent, 10, 10..12),
        ] {
            assert_eq!(read_ledger_page(&page_of(&[gap(20), unsound])), None);
        }
    }

    #[test]
    fn a_page_holds_no_more_than_is_written() {
        let gaps: Vec<_> = (0..=MAX_GAPS as u64).map(|index| gap(10 * index)).collect();
        assert!(read_ledger_page(&page_of(&gaps[..MAX_GAPS])).is_some());
        assert_eq!(read_ledger_page(&page_of(&gaps)), None);
        let read = |epochs: &[u64]| {
            let mut bytes = vec![u8::try_from(epochs.len()).unwrap()];
            for incarnation in epochs {
                bytes.epoch(Epoch { incarnation: *incarnation, ..EPOCH });
                bytes.push(0);
            }
            read_ledger_page(&bytes).map(|epochs| epochs.len())
        };
        assert_eq!(read(&[1, 2, 3, 4, 5, 6, 7, 8]), Some(MAX_EPOCHS));
        assert_eq!(read(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), None);
        assert_eq!(read(&[1, 2, 1]), None, "an epoch is there once");
    }

    #[test]
    fn a_page_cut_short_is_refused_or_shorter() {
        let (mut page, mut bytes) = (LedgerPage::default(), Vec::new());
        page.began(EPOCH);
        page.gap(EPOCH, &gap(10));
        assert!(page.take_news(1000, &mut bytes));
        for len in 1..bytes.len() {
            let read = read_ledger_page(&bytes[..len]);
            assert!(read.is_none_or(|epochs| epochs[0].gaps.is_empty()), "{len}");
        }
    }
}
