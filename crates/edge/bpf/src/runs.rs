//! Runs that are still open, reported up to their current end, each datagram once.

use std::collections::BTreeMap;

use crate::layout::Run;

/// Number of datagrams already reported of open runs, by processor and serial.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenRuns(BTreeMap<(u32, u64), u64>);

impl OpenRuns {
    /// Takes a run that is complete; returns the part that was not reported yet.
    pub(crate) fn close(&mut self, run: Run) -> Option<Run> {
        let told = self.0.remove(&(run.cpu, run.serial));
        // Earlier ones of this processor were never reported: there was no room, and that was counted.
        self.0.retain(|(cpu, serial), _| *cpu != run.cpu || *serial > run.serial);
        rest(run, told)
    }

    /// Takes the current state of an open run; returns the part that was not reported yet.
    pub(crate) fn look(&mut self, run: Run) -> Option<Run> {
        if run.serial == 0 || run.is_torn() {
            return None;
        }
        let told = self.0.insert((run.cpu, run.serial), run.last);
        rest(run, told)
    }
}

fn rest(run: Run, told: Option<u64>) -> Option<Run> {
    let first = told.map_or(run.first, |last| last.wrapping_add(1));
    (told != Some(run.last)).then_some(Run { first, ..run })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{RUN_BYTES, read_run};

    fn run(cpu: u32, serial: u64, first: u64, last: u64) -> Run {
        let empty = read_run(&[0; RUN_BYTES]).unwrap();
        Run { cpu, serial, serial_again: serial, first, last, ..empty }
    }

    fn told(run: Option<Run>) -> Option<(u64, u64)> {
        run.map(|run| (run.first, run.last))
    }

    #[test]
    fn what_was_told_of_an_open_run_is_not_told_again() {
        let mut open = OpenRuns::default();
        assert_eq!(told(open.look(run(0, 1, 5, 9))), Some((5, 9)));
        assert_eq!(told(open.look(run(0, 1, 5, 9))), None);
        assert_eq!(told(open.look(run(0, 1, 5, 12))), Some((10, 12)));
        assert_eq!(told(open.close(run(0, 1, 5, 20))), Some((13, 20)));
        assert_eq!(told(open.close(run(0, 2, 30, 31))), Some((30, 31)), "never seen open");
    }

    #[test]
    fn a_run_that_is_over_may_come_after_the_next_was_seen() {
        let mut open = OpenRuns::default();
        open.look(run(0, 1, 5, 9));
        assert_eq!(told(open.look(run(0, 2, 50, 51))), Some((50, 51)));
        assert_eq!(told(open.close(run(0, 1, 5, 12))), Some((10, 12)));
        assert_eq!(told(open.close(run(0, 2, 50, 51))), None);
    }

    #[test]
    fn processors_are_apart_and_what_was_never_reported_is_forgotten() {
        let mut open = OpenRuns::default();
        open.look(run(0, 1, 5, 9));
        open.look(run(1, 1, 5, 9));
        open.close(run(0, 3, 1, 1));
        assert_eq!(open.0, BTreeMap::from([((1, 1), 9)]));
    }

    #[test]
    fn what_is_being_written_is_left_for_later() {
        let mut open = OpenRuns::default();
        assert_eq!(told(open.look(Run { serial_again: 2, ..run(0, 1, 5, 9) })), None);
        assert_eq!(told(open.look(run(0, 0, 0, 0))), None, "none yet");
    }
}
