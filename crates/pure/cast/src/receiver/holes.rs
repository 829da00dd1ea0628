//! Numbers that never reached this host: those that checkpoints found missing, held until they are known to have left
//! the publisher's host.

use core::ops::Range;

use ledger::KernelName;
use units::RangeSet;
use wire::Tally;

/// Holes that wait for a tally of a publisher whose host is watched: the network lost every number that it does not
/// list there.
///
/// Without such a tally the side of the sender's network card stays unknown, and the numbers stay unexplained.
#[derive(Clone, Debug, Default)]
pub(super) struct Holes {
    waiting: RangeSet,
    reason: Option<KernelName>,
    /// First number for which the publisher's host is watched.
    watched_from: Option<u64>,
}

/// Maximum number of waiting ranges: more than any healthy network produces in the two seconds for evidence.
const MAX_WAITING: usize = 1 << 16;

impl Holes {
    /// Adds missing numbers.
    pub(super) fn add(&mut self, numbers: Range<u64>, reason: KernelName) {
        if self.waiting.range_count() < MAX_WAITING {
            self.waiting.insert(numbers);
            self.reason = Some(reason);
        }
    }

    /// Takes a tally; returns the numbers that the network lost below it, and the reason of their evidence.
    pub(super) fn take_tally(&mut self, tally: &Tally) -> Option<(KernelName, RangeSet)> {
        if !tally.watched {
            self.watched_from = None;
            return None;
        }
        let number = tally.head.number;
        let from = *self.watched_from.get_or_insert(number);
        // A tally lists only the newest ranges: older ones are in its totals only.
        let lengths = tally.withheld.iter().map(|it| it.numbers.end - it.numbers.start);
        let listed = lengths.fold(0, u64::saturating_add);
        let is_complete = listed == tally.totals.datagrams.withheld();
        let oldest = tally.withheld.iter().map(|it| it.numbers.start).min();
        let from = if is_complete { from } else { from.max(oldest.unwrap_or(number)) };
        let mut lost: RangeSet = self.waiting.intersection(from..number.max(from)).collect();
        lost.remove_all(tally.withheld.iter().map(|it| it.numbers.clone()));
        self.waiting.remove(0..number);
        self.reason.filter(|_| !lost.is_empty()).map(|reason| (reason, lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use ledger::Stage;
    use units::{Epoch, StreamId};
    use wire::{DatagramTotals, Numbered, Totals, Withheld};

    fn tally(number: u64, watched: bool, withheld: &[Range<u64>], total: u64) -> Tally {
        let head = Numbered {
            stream: StreamId(1),
            epoch: Epoch { start_ns: 1, incarnation: 1 },
            number,
            first_index: 0,
            element_offset: 0,
            elements_per_sample: 1,
        };
        let datagrams = DatagramTotals { sender_qdisc: total, ..DatagramTotals::default() };
        let of = |numbers: &Range<u64>| Withheld { numbers: numbers.clone(), stage: Stage::SenderQdisc };
        Tally {
            head,
            last: false,
            paused: false,
            watched,
            next_tally: Duration::from_secs(1),
            readers: 1,
            report_interval: Duration::from_secs(1),
            totals: Totals { datagrams, ..Totals::default() },
            withheld: withheld.iter().map(of).collect(),
            skipped: Vec::new(),
            nonces: Vec::new(),
            statement: Vec::new(),
            origin: None,
            upstream: Vec::new(),
        }
    }

    fn lost(holes: &mut Holes, tally: &Tally) -> Vec<Range<u64>> {
        holes.take_tally(tally).map_or_else(Vec::new, |(_, lost)| lost.iter().collect())
    }

    fn holes(numbers: &[Range<u64>]) -> Holes {
        let mut holes = Holes::default();
        numbers.iter().for_each(|numbers| holes.add(numbers.clone(), KernelName::new("HOLE")));
        holes
    }

    #[test]
    fn what_a_watched_host_did_not_lose_the_network_lost() {
        let mut holes = holes(&[5..8, 15..20, 30..31, 45..46]);
        assert_eq!(lost(&mut holes, &tally(10, true, &[], 0)), [], "nobody watched below 10");
        assert_eq!(lost(&mut holes, &tally(40, true, &[16..18], 2)), [15..16, 18..20, 30..31]);
        assert_eq!(lost(&mut holes, &tally(50, false, &[16..18], 2)), [], "nobody watches");
        assert_eq!(lost(&mut holes, &tally(60, true, &[16..18], 2)), []);
    }

    #[test]
    fn forged_ranges_claim_no_more_than_there_is_room_for() {
        let mut holes = holes(&[5..8]);
        let everything = 0..u64::MAX - 1;
        let forged = tally(u64::MAX, true, &[everything.clone(), everything.clone(), everything], 1);
        assert_eq!(lost(&mut holes, &forged), []);
    }

    #[test]
    fn what_a_tally_has_no_room_to_list_may_be_what_is_missing() {
        let mut holes = holes(&[15..16, 25..26]);
        lost(&mut holes, &tally(10, true, &[], 0));
        assert_eq!(lost(&mut holes, &tally(40, true, &[20..21], 3)), [25..26]);
    }
}
