//! How long the first samples of an epoch wait for the readers that wait for them.
//!
//! A reader that waits for a stream hears of it by its announcement and has to join the group before it hears anything else.
//! What leaves earlier is lost for it. So the beginning is held: a moment in any case, and longer while a reader that asked has
//! not yet said that it hears the group. Both times are bounded, and so is what is held: a crowd, or a forger, delays the
//! beginning by half a second and no more.
//!
//! Source: `docs/protocol/account.md`, rule 16; `docs/protocol/stream.md`, "Beginnings".

use core::time::Duration;
use std::collections::BTreeMap;

use units::{Instant, ReaderId};

/// The beginning is held so long although no reader has asked: an announcement, the joining of a group and a request take
/// some milliseconds on a quiet LAN, and some tens on a busy host.
const HELD_ALONE: Duration = Duration::from_millis(150);
/// The longest time for which it is held for readers that asked and do not hear the group yet.
const HELD_FOR_READERS: Duration = Duration::from_millis(500);
/// The most readers that are waited for one by one; further ones are not waited for.
const MAX_WAITERS: usize = 256;

/// When the first samples of an epoch leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beginning {
    /// At once.
    Now,
    /// When the readers that wait hear the group, soon in any case.
    Held {
        /// The most bytes of samples that are held: from there on they leave, so that the ring takes nothing back.
        most_bytes: usize,
    },
}

/// The beginning of an epoch while it is held.
#[derive(Debug)]
pub(super) struct Hold {
    since: Instant,
    most_bytes: usize,
    /// The readers that asked, and whether each hears the group.
    waiters: BTreeMap<ReaderId, Hears>,
}

/// What a reader that waits for the beginning says of itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Hears {
    /// It knows of the stream by its announcement, and joins.
    Announcements,
    /// It has received a datagram of the group.
    Group,
}

impl Hold {
    pub(super) const fn new(beginning: Beginning, now: Instant) -> Option<Self> {
        match beginning {
            Beginning::Now => None,
            Beginning::Held { most_bytes } => Some(Self { since: now, most_bytes, waiters: BTreeMap::new() }),
        }
    }

    /// Notes what a reader says that waits for the beginning.
    pub(super) fn asked(&mut self, reader: ReaderId, hears: Hears) {
        if self.waiters.len() < MAX_WAITERS || self.waiters.contains_key(&reader) {
            let known = self.waiters.entry(reader).or_insert(hears);
            *known = hears.max(*known);
        }
    }

    /// Returns until when the samples are held, of which so many bytes wait; `None` if they are to leave now.
    pub(super) fn until(&self, now: Instant, waiting_bytes: usize) -> Option<Instant> {
        let until = self.since + if self.misses_a_reader() { HELD_FOR_READERS } else { HELD_ALONE };
        (now < until && waiting_bytes < self.most_bytes).then_some(until)
    }

    /// Tells whether a reader asked that does not hear the group yet.
    pub(super) fn misses_a_reader(&self) -> bool {
        self.waiters.values().any(|hears| *hears == Hears::Announcements)
    }

    /// Returns how long it has been held by now.
    pub(super) fn held_for(&self, now: Instant) -> Duration {
        now.since(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn hold() -> Hold {
        Hold::new(Beginning::Held { most_bytes: 1_000 }, at(0)).unwrap()
    }

    #[test]
    fn without_a_request_the_beginning_is_held_for_a_moment_and_no_longer() {
        let hold = hold();
        assert_eq!(hold.until(at(149), 0), Some(at(150)));
        assert_eq!(hold.until(at(150), 0), None);
        assert!(Hold::new(Beginning::Now, at(0)).is_none());
    }

    #[test]
    fn it_is_held_while_a_reader_that_asked_does_not_hear_the_group() {
        let mut hold = hold();
        hold.asked(ReaderId(1), Hears::Announcements);
        hold.asked(ReaderId(2), Hears::Group);
        assert_eq!(hold.until(at(499), 0), Some(at(500)));
        hold.asked(ReaderId(1), Hears::Group);
        assert_eq!(hold.until(at(200), 0), None);
        hold.asked(ReaderId(1), Hears::Announcements);
        assert_eq!(hold.until(at(200), 0), None, "what was asked earlier may arrive later");
    }

    #[test]
    fn a_reader_that_never_hears_the_group_is_waited_for_half_a_second() {
        let mut hold = hold();
        hold.asked(ReaderId(1), Hears::Announcements);
        assert_eq!(hold.until(at(500), 0), None);
    }

    #[test]
    fn no_more_is_held_than_there_is_room_for() {
        let mut hold = hold();
        hold.asked(ReaderId(1), Hears::Announcements);
        assert!(hold.until(at(1), 999).is_some());
        assert_eq!(hold.until(at(1), 1_000), None);
    }

    #[test]
    fn made_up_readers_take_no_more_than_their_share_of_memory() {
        let mut hold = hold();
        for reader in 0..10_000 {
            hold.asked(ReaderId(reader), Hears::Announcements);
        }
        assert_eq!(hold.waiters.len(), MAX_WAITERS);
    }
}
