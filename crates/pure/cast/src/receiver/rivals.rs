//! Replaced epochs: which of them continue, and which publishers are notified that two share one name.
//!
//! Source: `docs/protocol/account.md`, rule 1.

use core::net::SocketAddr;
use core::time::Duration;

use units::{Epoch, Instant};

use crate::sender::MAX_INTERVAL;

/// Maximum number of replaced epochs that are remembered.
const MAX_GHOSTS: usize = 4;
/// Time after its latest datagram for which a replaced epoch that continues is reported.
const MEMORY: Duration = Duration::from_secs(2);

/// The replaced epochs of one stream.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    ghosts: Vec<Ghost>,
    /// The newest one that continues, the time of its latest datagram, and its address for reports.
    rival: Option<(Epoch, Instant, Option<SocketAddr>)>,
    turn: Turn,
}

/// An epoch that should have ended.
#[derive(Debug)]
struct Ghost {
    epoch: Epoch,
    /// True if it was the current epoch once. Otherwise it has an earlier start than the current one.
    was_believed: bool,
    /// Time when it was replaced, or of its first datagram.
    replaced: Instant,
    report_to: Option<SocketAddr>,
    told: bool,
}

/// Subject of the next report: the reader's own account and the rival epoch alternate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Turn {
    #[default]
    Own,
    Rivals,
}

/// The meaning of a datagram of a replaced epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rival {
    /// Its datagrams may have been in flight for a while.
    Afterglow,
    /// The epoch continues, which is new.
    Rivalry,
    /// The epoch continues, which is known.
    RivalryKnown,
}

impl Rivals {
    /// Records that an epoch has been replaced.
    pub(super) fn replaced(&mut self, epoch: Epoch, now: Instant, report_to: Option<SocketAddr>) {
        self.forget(epoch);
        self.push(Ghost { epoch, was_believed: true, replaced: now, report_to, told: false });
    }

    fn push(&mut self, ghost: Ghost) {
        if self.ghosts.len() == MAX_GHOSTS {
            self.ghosts.remove(0);
        }
        self.ghosts.push(ghost);
    }

    /// Returns whether an epoch was current before it was replaced: its datagrams may have been in flight for a
    /// while.
    pub(super) fn was_believed(&self, epoch: Epoch) -> bool {
        self.ghosts.iter().any(|ghost| ghost.epoch == epoch && ghost.was_believed)
    }

    /// Records that an epoch is current again.
    pub(super) fn forget(&mut self, epoch: Epoch) {
        self.ghosts.retain(|ghost| ghost.epoch != epoch);
    }

    /// Records the address for an epoch's reports.
    pub(super) fn described(&mut self, epoch: Epoch, report_to: SocketAddr) {
        if let Some(ghost) = self.ghosts.iter_mut().find(|ghost| ghost.epoch == epoch) {
            ghost.report_to = Some(report_to);
        }
    }

    /// Records a datagram of a replaced epoch. An epoch still received after more than a tally interval has not
    /// ended.
    pub(super) fn heard(&mut self, epoch: Epoch, now: Instant) -> Rival {
        self.heard_beside(epoch, now, now)
    }

    /// Records a datagram of a replaced epoch that has the samples of the current one, which another relay publishes: they
    /// are no rivals, and nobody is notified.
    pub(super) fn heard_of_kin(&mut self, epoch: Epoch, now: Instant) -> Rival {
        let rival = self.rival;
        let heard = self.heard(epoch, now);
        self.rival = rival;
        if heard == Rival::Rivalry { Rival::RivalryKnown } else { heard }
    }

    /// Records a datagram of another epoch while the current one, last received at `other_heard`, is alive: they are
    /// rivals once both have continued for more than a tally interval.
    pub(super) fn heard_beside(&mut self, epoch: Epoch, now: Instant, other_heard: Instant) -> Rival {
        let Some(ghost) = self.ghosts.iter_mut().find(|ghost| ghost.epoch == epoch) else {
            self.push(Ghost { epoch, was_believed: false, replaced: now, report_to: None, told: false });
            return Rival::Afterglow;
        };
        if other_heard.since(ghost.replaced) <= MAX_INTERVAL {
            return Rival::Afterglow;
        }
        self.rival = Some((epoch, now, ghost.report_to));
        let rival = if ghost.told { Rival::RivalryKnown } else { Rival::Rivalry };
        ghost.told = true;
        rival
    }

    /// Returns, for every second report, the epoch of which both publishers are notified.
    ///
    /// The first report is the reader's own: it makes the reader known to the winner.
    pub(super) fn take_turn(&mut self, now: Instant) -> Option<(Epoch, Option<SocketAddr>)> {
        let (epoch, _, report_to) = self.rival.filter(|(_, heard, _)| now.since(*heard) <= MEMORY)?;
        match self.turn {
            Turn::Own => {
                self.turn = Turn::Rivals;
                None
            }
            Turn::Rivals => {
                self.turn = Turn::Own;
                Some((epoch, report_to))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Epoch = Epoch { start_ns: 1, incarnation: 1 };

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_replaced_epoch_active_beyond_a_tally_interval_is_reported_once() {
        let mut rivals = Rivals::default();
        rivals.replaced(OLD, at(0), None);
        assert_eq!(rivals.heard(OLD, at(1_000)), Rival::Afterglow);
        assert_eq!(rivals.heard(OLD, at(1_001)), Rival::Rivalry);
        assert_eq!(rivals.heard(OLD, at(1_002)), Rival::RivalryKnown);
    }

    #[test]
    fn another_relay_of_the_same_samples_is_no_rival() {
        let mut rivals = Rivals::default();
        assert_eq!(rivals.heard_of_kin(OLD, at(0)), Rival::Afterglow);
        assert_eq!(rivals.heard_of_kin(OLD, at(1_001)), Rival::RivalryKnown);
        assert!((0..4).all(|_| rivals.take_turn(at(1_002)).is_none()));
    }

    #[test]
    fn every_other_report_tells_the_publishers_until_the_rival_is_quiet() {
        let mut rivals = Rivals::default();
        assert_eq!(rivals.take_turn(at(0)), None);
        rivals.heard(OLD, at(0));
        rivals.heard(OLD, at(2_000));
        let turns: Vec<_> = (0..4).map(|_| rivals.take_turn(at(4_000)).is_some()).collect();
        assert_eq!(turns, [false, true, false, true]);
        assert_eq!(rivals.take_turn(at(4_001)), None);
    }

    #[test]
    fn forged_epochs_evict_each_other() {
        let mut rivals = Rivals::default();
        for incarnation in 0..1_000 {
            assert_eq!(
                rivals.heard(Epoch { start_ns: 1, incarnation }, at(incarnation * 2_000)),
                Rival::Afterglow
            );
        }
        assert_eq!(rivals.ghosts.len(), MAX_GHOSTS);
    }
}
