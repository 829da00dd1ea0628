//! The ledger page of a stream's ring: the accounts behind it, for readers that were lapped.
//!
//! A lapped reader knows from the totals how much it missed, but not in which stages: the records
//! that said so were overwritten. So the ring's writer keeps the newest gaps here.
//!
//! An epoch is on the page before its first record is in the ring, and its end after its last record. So a reader of an epoch
//! that is not on the page, or has ended there, may conclude that the ring holds nothing more of it.
//!
//! Of relayed streams a page tells more, in a form that readers of before relays take for an epoch that has ended and its
//! gaps: an *origin entry* in front of the hop epochs that have this origin, and behind a gap, as gaps of the origin,
//! what it inherited, hop by hop.

use std::collections::VecDeque;
use std::num::NonZeroU8;

use ledger::{Gap, HopCounts, HopShare, Outcome};
use ring::Writer;
use units::Epoch;
use wire::Origin;

use crate::bytes::{Cursor, Put};
use crate::record;

/// Maximum number of gaps kept for the page; one takes 100 to 200 bytes.
const MAX_GAPS: usize = 128;
/// Maximum number of epochs on a page; a receiver has fewer of which records may still come.
const MAX_EPOCHS: usize = 8;

/// Bit of an epoch's state that makes it an origin entry, beside the number of the hop.
const ORIGIN: u8 = 0x80;

/// One epoch on the page, for readers that missed its records.
#[derive(Clone, PartialEq, Debug)]
pub struct EpochOnPage {
    /// The publisher's epoch.
    pub epoch: Epoch,
    /// True once no more records of it follow.
    pub ended: bool,
    /// Origin of its samples, of a relayed stream.
    pub origin: Option<Origin>,
    /// Its newest gaps.
    pub gaps: Vec<Gap>,
}

/// The page as its writer keeps it.
#[derive(Default)]
pub(crate) struct LedgerPage {
    epochs: VecDeque<Listed>,
    gaps: VecDeque<(Epoch, Gap)>,
    changed: bool,
}

/// Entries of a page's epochs: each with its state.
type Entries = Vec<(Epoch, u8)>;

/// One epoch as the page's writer keeps it.
#[derive(Clone, Copy)]
struct Listed {
    epoch: Epoch,
    ended: bool,
    origin: Option<Origin>,
}

impl LedgerPage {
    pub(crate) fn began(&mut self, epoch: Epoch, origin: Option<Origin>) {
        self.changed = true;
        if let Some(known) = self.epochs.iter_mut().find(|known| known.epoch == epoch) {
            (known.ended, known.origin) = (false, origin);
            return;
        }
        if self.epochs.len() == MAX_EPOCHS {
            self.epochs.pop_front();
        }
        self.epochs.push_back(Listed { epoch, ended: false, origin });
    }

    pub(crate) fn ended(&mut self, epoch: Epoch) {
        self.changed = true;
        if let Some(known) = self.epochs.iter_mut().find(|known| known.epoch == epoch) {
            known.ended = true;
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

    /// Returns the epochs, without their gaps.
    pub(crate) fn epochs(&self) -> impl Iterator<Item = EpochOnPage> + '_ {
        self.epochs.iter().map(|&Listed { epoch, ended, origin }| EpochOnPage {
            epoch,
            ended,
            origin,
            gaps: Vec::new(),
        })
    }

    /// Encodes the page, if it changed since the last call, into at most `limit_bytes` bytes: the
    /// newest gaps that fit.
    pub(crate) fn take_news(&mut self, limit_bytes: usize, out: &mut Vec<u8>) -> bool {
        if !std::mem::take(&mut self.changed) {
            return false;
        }
        out.clear();
        let entries = self.entries();
        out.push(u8::try_from(entries.len()).expect("bounded above"));
        for (epoch, state) in &entries {
            out.epoch(*epoch);
            out.push(*state);
        }
        let mut left = MAX_GAPS;
        for (epoch, gap) in self.gaps.iter().rev() {
            let len = out.len();
            record::put_gap(out, *epoch, gap);
            let origin =
                self.epochs.iter().find(|known| known.epoch == *epoch).and_then(|known| known.origin);
            let is_listed = |origin: &Origin| entries.contains(&(origin.epoch, ORIGIN | origin.hop.get()));
            let origin = origin.filter(is_listed);
            let inherited = origin.map_or_else(Vec::new, |origin| inherited_gaps(gap, origin));
            inherited.iter().for_each(|(epoch, hop)| record::put_gap(out, *epoch, hop));
            let entries = 1 + inherited.len();
            if out.len() > limit_bytes || entries > left {
                out.truncate(len);
                break;
            }
            left -= entries;
        }
        true
    }

    /// Returns the entries of epochs: those without an origin first, then each origin in front of its hop epochs; the
    /// newest that a page has room for.
    fn entries(&self) -> Entries {
        let mut groups: Vec<(Option<Origin>, Entries)> = vec![(None, Vec::new())];
        let mut count = 0;
        for known in self.epochs.iter().rev() {
            // An epoch is on a page once.
            let is_published_too = |origin: &Origin| self.epochs.iter().any(|it| it.epoch == origin.epoch);
            let origin = known.origin.filter(|origin| !is_published_too(origin));
            let group = groups.iter_mut().find(|(of, _)| *of == origin);
            count += if group.is_some() { 1 } else { 2 };
            if count > MAX_EPOCHS {
                break;
            }
            let entry = (known.epoch, u8::from(known.ended));
            match group {
                Some((_, entries)) => entries.insert(0, entry),
                None => groups.push((origin, vec![entry])),
            }
        }
        let entries = groups.into_iter().flat_map(|(origin, entries)| {
            let of_origin = origin.map(|origin| (origin.epoch, ORIGIN | origin.hop.get()));
            of_origin.into_iter().chain(entries)
        });
        entries.collect()
    }
}

/// Returns what a gap inherited as gaps of the stream's origin, one for each hop.
fn inherited_gaps(gap: &Gap, origin: Origin) -> Vec<(Epoch, Gap)> {
    let mut start = gap.positions.start;
    let hops = gap.inherited.hops().iter().zip(0..).filter(|(rows, _)| rows.total() > 0);
    let as_gap = hops.map(|(rows, hop)| {
        let positions = start..start + rows.total();
        start = positions.end;
        let (lost, unexplained, unsettled) = (rows.lost, rows.unexplained, rows.unsettled);
        (origin.epoch, Gap { id: hop, lost, unexplained, unsettled, ..Gap::unexplained(positions) })
    });
    as_gap.collect()
}

/// Returns what a gap of the stream's origin tells of the gap before it.
fn inherited_of(gap: &Gap) -> Option<HopCounts> {
    let hop = u8::try_from(gap.id).ok().filter(|hop| usize::from(*hop) < wire::MAX_HOPS)?;
    let lost = gap.lost.nonzero().map(|(stage, count)| (Outcome::Lost(stage), count));
    let rest = [(Outcome::Unexplained, gap.unexplained), (Outcome::Unsettled, gap.unsettled)];
    let shares = lost.chain(rest).filter(|(_, count)| *count > 0);
    Some(shares.map(|(outcome, count)| HopShare { hop, outcome, count }).collect())
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
    let mut origins: Vec<Origin> = Vec::new();
    for _ in 0..cursor.u8().filter(|count| usize::from(*count) <= MAX_EPOCHS)? {
        let (epoch, state) = (cursor.epoch()?, cursor.u8()?);
        let is_known = |known: &Epoch| *known == epoch;
        if epochs.iter().map(|it| it.epoch).chain(origins.iter().map(|it| it.epoch)).any(|it| is_known(&it)) {
            return None;
        }
        if state & ORIGIN == 0 {
            let origin = origins.last().copied();
            epochs.push(EpochOnPage { epoch, ended: state != 0, origin, gaps: Vec::new() });
        } else {
            let hop =
                NonZeroU8::new(state & !ORIGIN).filter(|hop| usize::from(hop.get()) <= wire::MAX_HOPS)?;
            origins.push(Origin { epoch, hop });
        }
    }
    // The epoch of the gap before, and its place in the list.
    let mut before: Option<usize> = None;
    for gaps in 0.. {
        if cursor.is_empty() {
            break;
        }
        let (epoch, gap) = (cursor.epoch()?, record::read_gap(&mut cursor)?);
        if gaps == MAX_GAPS || record::check_gap(&gap).is_err() {
            return None;
        }
        if origins.iter().any(|origin| origin.epoch == epoch) {
            let heir =
                epochs.get_mut(before?).filter(|heir| heir.origin.is_some_and(|it| it.epoch == epoch))?;
            heir.gaps.last_mut()?.inherited.add_all(&inherited_of(&gap)?);
            continue;
        }
        before = epochs.iter().position(|known| known.epoch == epoch);
        if let Some(known) = before.and_then(|index| epochs.get_mut(index)) {
            known.gaps.push(gap);
        }
    }
    let gaps = epochs.iter().flat_map(|known| &known.gaps);
    gaps.map(|gap| record::check_gap(gap).ok()).collect::<Option<()>>()?;
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
        page.began(EPOCH, None);
        page.gap(EPOCH, &gap(10));
        page.gap(EPOCH, &gap(20));
        let news = Gap { lost: StageCounts::of(Stage::Source, 1), unexplained: 1, ..gap(10) };
        page.gap(EPOCH, &news);
        assert!(page.take_news(1000, &mut bytes));
        let gaps = vec![gap(20), news];
        assert_eq!(
            read_ledger_page(&bytes),
            Some(vec![EpochOnPage { epoch: EPOCH, ended: false, origin: None, gaps }])
        );
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
        page.began(EPOCH, None);
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

    const ORIGIN_OF_ALL: Epoch = Epoch { start_ns: 1, incarnation: 9 };

    fn origin(epoch: Epoch, hop: u8) -> Option<Origin> {
        Some(Origin { epoch, hop: NonZeroU8::new(hop).unwrap() })
    }

    /// A gap of two elements: one was lost on each of two hops before.
    fn inherited(start: u64) -> Gap {
        let share = |hop, outcome| HopShare { hop, outcome, count: 1 };
        let shares = [share(0, Outcome::Unsettled), share(1, Outcome::Lost(Stage::Deadline))];
        Gap { inherited: shares.into_iter().collect(), ..gap(start) }
    }

    #[test]
    fn a_page_tells_origins_and_what_gaps_inherited() {
        let (mut page, mut bytes) = (LedgerPage::default(), Vec::new());
        let epoch = |incarnation| Epoch { start_ns: 5, incarnation };
        let origins = [
            (1, origin(ORIGIN_OF_ALL, 2)),
            (2, None),
            (3, origin(ORIGIN_OF_ALL, 2)),
            (4, origin(epoch(5), 4)),
        ];
        origins.iter().for_each(|(incarnation, origin)| page.began(epoch(*incarnation), *origin));
        page.gap(epoch(1), &inherited(10));
        page.gap(epoch(2), &gap(10));
        page.gap(epoch(3), &inherited(20));
        page.gap(epoch(3), &gap(30));
        page.ended(epoch(1));
        assert!(page.take_news(2_000, &mut bytes));
        let on_page = |(incarnation, origin), ended, gaps| EpochOnPage {
            epoch: epoch(incarnation),
            ended,
            origin,
            gaps,
        };
        let expected = [
            on_page(origins[1], false, vec![gap(10)]),
            on_page(origins[3], false, Vec::new()),
            on_page(origins[0], true, vec![inherited(10)]),
            on_page(origins[2], false, vec![gap(30), inherited(20)]),
        ];
        assert_eq!(read_ledger_page(&bytes), Some(expected.into()));
    }

    #[test]
    fn a_page_is_cut_between_gaps_and_not_before_what_one_inherited() {
        let (mut page, mut bytes) = (LedgerPage::default(), Vec::new());
        page.began(EPOCH, origin(ORIGIN_OF_ALL, 2));
        page.gap(EPOCH, &inherited(10));
        page.gap(EPOCH, &inherited(20));
        assert!(page.take_news(10_000, &mut bytes));
        for limit_bytes in 35..=bytes.len() {
            page.changed = true;
            assert!(page.take_news(limit_bytes, &mut bytes));
            let epochs = read_ledger_page(&bytes).unwrap();
            let whole = [inherited(20), inherited(10)];
            assert_eq!(epochs[0].gaps, whole[..epochs[0].gaps.len()], "{limit_bytes} bytes");
        }
        // More entries than a page may have.
        for start in 3..MAX_GAPS as u64 {
            page.gap(EPOCH, &inherited(10 * start));
        }
        assert!(page.take_news(1 << 20, &mut bytes));
        assert_eq!(read_ledger_page(&bytes).unwrap()[0].gaps.len(), MAX_GAPS / 3);
    }

    #[test]
    fn a_page_lists_an_epoch_once_though_it_is_an_origin_too() {
        let (mut page, mut bytes) = (LedgerPage::default(), Vec::new());
        page.began(ORIGIN_OF_ALL, None);
        page.began(EPOCH, origin(ORIGIN_OF_ALL, 2));
        page.gap(EPOCH, &inherited(10));
        assert!(page.take_news(2_000, &mut bytes));
        let epochs = read_ledger_page(&bytes).unwrap();
        let told: Vec<_> = epochs.iter().map(|it| (it.epoch, it.origin, it.gaps.clone())).collect();
        assert_eq!(told, [(ORIGIN_OF_ALL, None, Vec::new()), (EPOCH, None, vec![gap(10)])]);
    }

    #[test]
    fn relayed_epochs_beyond_a_page_s_room_are_left_out_oldest_first() {
        let (mut page, mut bytes) = (LedgerPage::default(), Vec::new());
        for of in 1..=8 {
            let of_origin = Epoch { incarnation: 100 + of, ..EPOCH };
            page.began(Epoch { incarnation: of, ..EPOCH }, origin(of_origin, 2));
        }
        assert!(page.take_news(2_000, &mut bytes));
        let epochs = read_ledger_page(&bytes).unwrap();
        let mut listed: Vec<_> = epochs.iter().map(|it| it.epoch.incarnation).collect();
        listed.sort_unstable();
        assert_eq!(listed, [5, 6, 7, 8]);
    }

    #[test]
    fn a_page_with_an_inheritance_of_no_gap_is_none() {
        let (mut page, mut bytes) = (LedgerPage::default(), Vec::new());
        page.began(EPOCH, origin(ORIGIN_OF_ALL, 2));
        assert!(page.take_news(2_000, &mut bytes));
        let with = |entries: &[(Epoch, Gap)]| {
            let mut bytes = bytes.clone();
            entries.iter().for_each(|(epoch, gap)| record::put_gap(&mut bytes, *epoch, gap));
            read_ledger_page(&bytes)
        };
        let of_hop = |id| (ORIGIN_OF_ALL, Gap { id, ..gap(10) });
        assert!(with(&[(EPOCH, gap(10)), of_hop(1)]).is_some());
        assert_eq!(with(&[of_hop(1)]), None);
        assert_eq!(with(&[(EPOCH, gap(10)), of_hop(1), of_hop(0)]), None, "it inherited more than it lost");
        assert_eq!(with(&[(EPOCH, gap(10)), of_hop(8)]), None, "there is no such hop");
        let mut no_hop = bytes.clone();
        no_hop[17] = ORIGIN;
        assert_eq!(read_ledger_page(&no_hop), None);
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
        page.began(EPOCH, None);
        page.gap(EPOCH, &gap(10));
        assert!(page.take_news(1000, &mut bytes));
        for len in 1..bytes.len() {
            let read = read_ledger_page(&bytes[..len]);
            assert!(read.is_none_or(|epochs| epochs[0].gaps.is_empty()), "{len}");
        }
    }
}
