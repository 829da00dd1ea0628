//! Datagrams that one destination was not sent.

use ledger::Stage;
use units::RangeSet;
use wire::{DatagramTotals, MAX_RANGES, Withheld};

/// The withheld numbers of one destination: totals since the epoch began and the newest ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct Destination {
    pub(super) totals: DatagramTotals,
    pub(super) withheld: Vec<Withheld>,
    /// Numbers included in the totals, as far as they can be reported twice: by the socket, by the network and by a
    /// reporter of kernel drops.
    counted: RangeSet,
    /// Lower limit of counting: the numbers below it are forgotten.
    counted_from: u64,
}

/// Maximum number of ranges of counted numbers.
const MAX_COUNTED_RANGES: usize = 4_096;

impl Destination {
    /// Records a number that was not sent, once; returns whether it opened a new range.
    pub(super) fn withhold(&mut self, number: u64, stage: Stage) -> bool {
        if number < self.counted_from || self.counted.insert(number..number + 1) == 0 {
            return false;
        }
        if self.counted.range_count() > MAX_COUNTED_RANGES {
            let lowest = self.counted.iter().next();
            self.counted_from = lowest.map_or(self.counted_from, |lowest| lowest.end);
            self.counted.remove(0..self.counted_from);
        }
        *self.total(stage) += 1;
        if let Some(last) = self.withheld.last_mut()
            && last.stage == stage
            && last.numbers.end == number
        {
            last.numbers.end += 1;
            return false;
        }
        if self.withheld.len() == MAX_RANGES {
            self.withheld.remove(0);
        }
        self.withheld.push(Withheld { numbers: number..number + 1, stage });
        true
    }

    fn total(&mut self, stage: Stage) -> &mut u64 {
        match stage {
            Stage::Injected => &mut self.totals.injected,
            Stage::SenderSocket => &mut self.totals.sender_socket,
            Stage::SenderIp => &mut self.totals.sender_ip,
            Stage::SenderQdisc => &mut self.totals.sender_qdisc,
            Stage::SenderNic => &mut self.totals.sender_nic,
            other => unreachable!("a sender does not withhold datagrams in stage {other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_refused_twice_counts_once() {
        let mut destination = Destination::default();
        assert!(destination.withhold(4, Stage::SenderSocket));
        assert!(!destination.withhold(4, Stage::SenderQdisc));
        assert_eq!((destination.totals.sender_socket, destination.totals.sender_qdisc), (1, 0));
    }

    #[test]
    fn a_number_counts_once_also_when_its_range_is_not_told_any_more() {
        let mut destination = Destination::default();
        for turn in 0..2 {
            for number in 0..2 * MAX_COUNTED_RANGES as u64 {
                destination.withhold(2 * number, Stage::SenderQdisc);
            }
            assert_eq!(destination.totals.sender_qdisc, 2 * MAX_COUNTED_RANGES as u64, "{turn}");
        }
    }

    #[test]
    fn runs_are_one_range_and_only_the_newest_are_kept() {
        let mut destination = Destination::default();
        assert!(destination.withhold(4, Stage::Injected));
        assert!(!destination.withhold(5, Stage::Injected));
        assert!(destination.withhold(6, Stage::SenderQdisc));
        for number in 0..40 {
            destination.withhold(100 + 2 * number, Stage::Injected);
        }
        assert_eq!(destination.withheld.len(), MAX_RANGES);
        assert_eq!(destination.withheld.last().unwrap().numbers, 178..179);
        assert_eq!((destination.totals.injected, destination.totals.sender_qdisc), (42, 1));
    }
}
