//! Numbers at which no account may begin: datagrams that came too early to be used are no losses, and nothing is
//! delivered twice.

use units::Epoch;

use super::plausible::MAX_JUMP;

/// Maximum number of runs that are remembered.
const MAX_RUNS: usize = 8;

/// The highest number of each unusable run: several per epoch, because one may be forged.
#[derive(Debug, Default)]
pub(super) struct Unusable {
    runs: Vec<(Epoch, u64)>,
}

impl Unusable {
    /// Records that this number of this epoch, and all below it, cannot be used.
    pub(super) fn remember(&mut self, epoch: Epoch, number: u64) {
        let near = |(of, highest): &&mut (Epoch, u64)| *of == epoch && highest.abs_diff(number) <= MAX_JUMP;
        if let Some((_, highest)) = self.runs.iter_mut().find(near) {
            *highest = number.max(*highest);
            return;
        }
        if self.runs.len() == MAX_RUNS {
            self.runs.remove(0);
        }
        self.runs.push((epoch, number));
    }

    /// Returns whether a number is in or below a run, and not so far below that the run must belong to another
    /// publisher.
    pub(super) fn overtook(&self, epoch: Epoch, number: u64) -> bool {
        self.runs
            .iter()
            .any(|(of, highest)| *of == epoch && number <= *highest && highest - number <= MAX_JUMP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch { start_ns: 1, incarnation: 1 };

    #[test]
    fn an_account_begins_above_what_cannot_be_used() {
        let mut unusable = Unusable::default();
        assert!(!unusable.overtook(EPOCH, 0));
        unusable.remember(EPOCH, 7);
        unusable.remember(EPOCH, 5);
        assert!(unusable.overtook(EPOCH, 0) && unusable.overtook(EPOCH, 7));
        assert!(!unusable.overtook(EPOCH, 8));
        assert!(!unusable.overtook(Epoch { start_ns: 2, incarnation: 1 }, 7), "another epoch");
    }

    #[test]
    fn a_forged_number_does_not_stop_the_true_ones() {
        let mut unusable = Unusable::default();
        unusable.remember(EPOCH, 7);
        unusable.remember(EPOCH, u64::MAX);
        assert!(unusable.overtook(EPOCH, 7) && !unusable.overtook(EPOCH, 8));
    }
}
