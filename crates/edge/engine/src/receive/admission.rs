//! Decides which announced groups are joined: forged announcements must not use up the addresses
//! that true streams need.
//!
//! An announcement costs its sender one datagram and its reader a socket. A group is therefore
//! *unproven* until a complete description of a stream at it has arrived that hashes to the
//! stream's identity. Unproven groups have a short time and yield their places to new ones; proven
//! ones are never left for others. This module only decides: values in, values out. The agent opens
//! and closes the sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use units::Instant;

/// Maximum number of addresses at which a process receives because of announcements.
const MAX_JOINED: usize = 1_024;
/// Maximum number of unproven groups per source address. A host that starts this many streams at
/// once proves them within a second; a forger can hold a quarter of all places for that time.
const MAX_UNPROVEN_PER_SOURCE: usize = MAX_JOINED / 4;
/// Time for which an unproven group stays joined: a description comes every second, and is
/// requested four times as often.
const PROOF_PATIENCE: Duration = Duration::from_secs(5);
/// Time for which an unproven group keeps its place although others wait: one interval of its
/// description.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);
/// Time after which a group that was given up may be joined again, if it is still announced; it
/// doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Maximum number of groups remembered as given up; beyond it the one that may be joined again
/// soonest is forgotten.
const MAX_GIVEN_UP: usize = 4_096;

/// The groups that were joined because they were announced.
#[derive(Debug, Default)]
pub(super) struct Admission {
    joined: BTreeMap<SocketAddr, Joined>,
    /// The unproven groups by announcing address, the longest joined first.
    unproven: BTreeMap<IpAddr, BTreeSet<(Instant, SocketAddr)>>,
    given_up: BTreeMap<SocketAddr, GivenUp>,
    counts: AdmissionCounts,
}

/// Counts of announced groups that were left or not joined although they were selected.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AdmissionCounts {
    /// Left because no description came. Units: groups.
    pub given_up: u64,
    /// Left sooner, because another group was announced. Units: groups.
    pub displaced: u64,
    /// Not joined because too many others are unproven. Units: announcements.
    pub put_off: u64,
    /// Not joined because they are outside the bus's range. Units: streams, counted again whenever
    /// an announcement begins.
    pub out_of_range: u64,
}

/// Decision on an announced group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Join,
    /// Join after this one has been left.
    InsteadOf(SocketAddr),
    /// Not yet: it was given up recently, or too many groups of its source are unproven.
    Later,
    /// Every address that a process may have is taken by a proven stream.
    Full,
}

#[derive(Clone, Copy, Debug)]
struct Joined {
    by: IpAddr,
    since: Instant,
    is_proven: bool,
}

#[derive(Clone, Copy, Debug)]
struct GivenUp {
    at: Instant,
    pause: Duration,
}

impl Admission {
    /// Judges a group that `by` last announced at `heard`.
    pub(super) fn judge(&mut self, now: Instant, group: SocketAddr, by: IpAddr, heard: Instant) -> Verdict {
        let is_paused = |given_up: &GivenUp| heard < given_up.at + given_up.pause;
        if self.given_up.get(&group).is_some_and(is_paused) {
            return Verdict::Later;
        }
        let of_source = self.unproven.get(&by).filter(|groups| groups.len() >= MAX_UNPROVEN_PER_SOURCE);
        let fullest = || self.unproven.values().max_by_key(|groups| groups.len());
        let crowded = match of_source {
            None if self.joined.len() < MAX_JOINED => return Verdict::Join,
            None => fullest(),
            source => source,
        };
        let Some((since, oldest)) = crowded.and_then(BTreeSet::first) else { return Verdict::Full };
        if now.since(*since) >= LEAST_PATIENCE {
            return Verdict::InsteadOf(*oldest);
        }
        self.counts.put_off += 1;
        Verdict::Later
    }

    /// Notes that a group was joined.
    pub(super) fn joined(&mut self, now: Instant, group: SocketAddr, by: IpAddr) {
        if self.joined.contains_key(&group) {
            return;
        }
        self.joined.insert(group, Joined { by, since: now, is_proven: false });
        self.unproven.entry(by).or_default().insert((now, group));
    }

    /// Notes that a description of a stream at this address is known.
    pub(super) fn proven(&mut self, group: SocketAddr) {
        let Some(joined) = self.joined.get_mut(&group).filter(|joined| !joined.is_proven) else { return };
        joined.is_proven = true;
        let joined = *joined;
        self.not_unproven(group, joined);
        self.given_up.remove(&group);
    }

    /// Returns the groups whose time is over, to be left.
    pub(super) fn overdue(&self, now: Instant) -> Vec<SocketAddr> {
        let of_source = |groups: &BTreeSet<(Instant, SocketAddr)>| {
            let over = groups.iter().take_while(|(since, _)| now.since(*since) >= PROOF_PATIENCE);
            over.map(|(_, group)| *group).collect::<Vec<_>>()
        };
        self.unproven.values().flat_map(of_source).collect()
    }

    /// Notes that an unproven group was left, because its time is over or for another group.
    pub(super) fn give_up(&mut self, now: Instant, group: SocketAddr) {
        let Some(joined) = self.joined.remove(&group) else { return };
        self.not_unproven(group, joined);
        if now.since(joined.since) >= PROOF_PATIENCE {
            self.counts.given_up += 1;
        } else {
            self.counts.displaced += 1;
        }
        let before = self.given_up.get(&group).map(|given_up| given_up.pause);
        let pause = before.map_or(FIRST_PAUSE, |before| (before * 2).min(LONGEST_PAUSE));
        if self.given_up.len() == MAX_GIVEN_UP && before.is_none() {
            let soonest = self.given_up.iter().min_by_key(|(_, given_up)| given_up.at + given_up.pause);
            let soonest = soonest.map(|(group, _)| *group);
            soonest.and_then(|group| self.given_up.remove(&group));
        }
        self.given_up.insert(group, GivenUp { at: now, pause });
    }

    /// Notes that a group was left because it is not selected any more.
    pub(super) fn left(&mut self, group: SocketAddr) {
        if let Some(joined) = self.joined.remove(&group) {
            self.not_unproven(group, joined);
        }
    }

    /// Forgets the groups whose pause was over long ago.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.given_up.retain(|_, given_up| now.since(given_up.at) < given_up.pause + LONGEST_PAUSE);
    }

    /// Notes that a group is not joined because it is outside the bus's range.
    pub(super) const fn out_of_range(&mut self) {
        self.counts.out_of_range += 1;
    }

    pub(super) const fn counts(&self) -> AdmissionCounts {
        self.counts
    }

    fn not_unproven(&mut self, group: SocketAddr, joined: Joined) {
        if let Some(groups) = self.unproven.get_mut(&joined.by) {
            groups.remove(&(joined.since, group));
            if groups.is_empty() {
                self.unproven.remove(&joined.by);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const FORGER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 66));
    const HONEST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    fn group(index: usize) -> SocketAddr {
        let [.., high, low] = u32::try_from(index).unwrap().to_be_bytes();
        SocketAddr::from(([239, 84, high, low], 7_400))
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// Judges a group that was announced just now and follows the decision; returns whether it is
    /// joined.
    fn announce(admission: &mut Admission, now: Instant, index: usize, by: IpAddr) -> bool {
        announced_at(admission, now, index, by, now)
    }

    fn announced_at(
        admission: &mut Admission,
        now: Instant,
        index: usize,
        by: IpAddr,
        heard: Instant,
    ) -> bool {
        match admission.judge(now, group(index), by, heard) {
            Verdict::InsteadOf(other) => admission.give_up(now, other),
            Verdict::Join => {}
            Verdict::Later | Verdict::Full => return false,
        }
        admission.joined(now, group(index), by);
        true
    }

    #[test]
    fn a_burst_of_made_up_streams_takes_a_quarter_of_the_places_and_gives_them_back_in_seconds() {
        let mut admission = Admission::default();
        let joined = (0..1_100).filter(|index| announce(&mut admission, at(0), *index, FORGER)).count();
        assert_eq!((joined, admission.counts().put_off), (256, 844));
        assert!(announce(&mut admission, at(1), 2_000, HONEST), "another host has its own places");
        admission.proven(group(2_000));
        let overdue = admission.overdue(at(5_000));
        assert_eq!((overdue.len(), admission.overdue(at(4_999)).len()), (256, 0));
        overdue.into_iter().for_each(|group| admission.give_up(at(5_000), group));
        assert_eq!(admission.counts().given_up, 256);
        assert_eq!(admission.joined.len(), 1, "the stream that is there stays");
        let again = (0..256).any(|index| announced_at(&mut admission, at(6_000), index, FORGER, at(0)));
        assert!(!again, "what was announced once is tried once");
    }

    #[test]
    fn a_true_stream_of_the_forgers_address_gets_the_place_of_a_made_up_one() {
        let mut admission = Admission::default();
        (0..256).for_each(|index| assert!(announce(&mut admission, at(0), index, FORGER)));
        assert!(!announce(&mut admission, at(999), 2_000, FORGER), "each has a round of its description");
        assert!(announce(&mut admission, at(1_000), 2_000, FORGER));
        assert_eq!((admission.counts().displaced, admission.joined.len()), (1, 256));
        admission.proven(group(2_000));
        (256..1_000).for_each(|index| {
            announce(&mut admission, at(2_000), index, FORGER);
        });
        assert!(admission.joined.contains_key(&group(2_000)), "a proven one is never left for others");
    }

    #[test]
    fn a_host_that_starts_a_thousand_streams_gets_as_many_as_there_are_places() {
        let mut admission = Admission::default();
        for index in 0..MAX_JOINED {
            assert!(announce(&mut admission, at(0), index, HONEST), "{index}");
            admission.proven(group(index));
        }
        assert_eq!(admission.judge(at(9_000), group(5_000), HONEST, at(9_000)), Verdict::Full);
        admission.left(group(0));
        assert!(announce(&mut admission, at(9_000), 5_000, HONEST));
    }

    #[test]
    fn forgers_at_many_addresses_leave_places_of_the_one_that_has_most() {
        let mut admission = Admission::default();
        for index in 0..MAX_JOINED {
            let by = IpAddr::V4(Ipv4Addr::new(10, 0, 1, u8::try_from(index % 5).unwrap()));
            assert!(announce(&mut admission, at(0), index, by));
        }
        assert!(!announce(&mut admission, at(500), 2_000, HONEST));
        assert!(announce(&mut admission, at(1_000), 2_000, HONEST));
        assert_eq!(admission.joined.len(), MAX_JOINED);
    }

    #[test]
    fn a_stream_that_is_announced_on_is_tried_again_after_ever_longer_pauses() {
        let mut admission = Admission::default();
        let (mut now, mut tries) = (at(0), Vec::new());
        while now < at(1_000_000) {
            if admission.joined.is_empty() && announce(&mut admission, now, 1, HONEST) {
                tries.push(now.as_nanos() / 1_000_000_000);
            }
            admission.overdue(now).into_iter().for_each(|group| admission.give_up(now, group));
            now += Duration::from_secs(1);
        }
        assert_eq!(tries, [0, 15, 40, 85, 170, 335, 640, 945]);
    }

    #[test]
    fn what_was_given_up_takes_bounded_memory() {
        let mut admission = Admission::default();
        for index in 0..10_000 {
            let now = at(index as u64 * 10);
            assert!(announce(&mut admission, now, index, FORGER));
            admission.give_up(now + PROOF_PATIENCE, group(index));
        }
        assert_eq!(admission.given_up.len(), MAX_GIVEN_UP);
        admission.forget_old(at(10_000_000));
        assert!(admission.given_up.is_empty());
    }
}
