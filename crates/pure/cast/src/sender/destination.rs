//! What one destination was not sent.

use ledger::Stage;
use wire::{DatagramTotals, MAX_RANGES, Withheld};

/// The withheld numbers of one destination: totals since the epoch began and the newest ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct Destination {
    pub(super) totals: DatagramTotals,
    pub(super) withheld: Vec<Withheld>,
}

impl Destination {
    /// Notes a number that was not sent, once; tells whether it opened a new range.
    pub(super) fn withhold(&mut self, number: u64, stage: Stage) -> bool {
        if self.withheld.iter().any(|known| known.numbers.contains(&number)) {
            return false;
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
