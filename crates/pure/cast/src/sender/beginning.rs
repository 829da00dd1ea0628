//! Hold of an epoch's first samples for the readers that wait for them.
//!
//! A reader that waits for a stream learns of it by its announcement and has to join the group before it receives
//! anything else. Datagrams sent earlier are lost for it. The beginning is therefore held: briefly in any case, and
//! longer while a reader that asked has not yet confirmed that it receives the group. Both times and the amount held
//! are bounded: many readers, or forged ones, delay the beginning by half a second at most.
//!
//! Source: `docs/protocol/account.md`, rule 16; `docs/protocol/stream.md`, "Beginnings".

use core::time::Duration;
use std::collections::BTreeMap;

use units::{Instant, ReaderId};

/// Hold time without any request: an announcement, the joining of a group and a request take some milliseconds on a
/// quiet LAN, and some tens on a busy host.
const HELD_ALONE: Duration = Duration::from_millis(150);
/// Maximum hold time for readers that asked and do not receive the group yet.
const HELD_FOR_READERS: Duration = Duration::from_millis(500);
/// Maximum number of readers that are tracked; further ones are not waited for.
const MAX_WAITERS: usize = 256;

/// Start of sending an epoch's first samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beginning {
    /// At once.
    Now,
    /// Once the waiting readers receive the group, and soon in any case.
    Held {
        /// Maximum number of bytes of samples that are held; beyond it they leave, so that the ring is not lapped.
        most_bytes: usize,
    },
}

/// The beginning of an epoch while it is held.
#[derive(Debug)]
pub(super) struct Hold {
    since: Instant,
    most_bytes: usize,
    /// Readers that asked, and whether each receives the group.
    waiters: BTreeMap<ReaderId, Hears>,
}

/// State of a reader that waits for the beginning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Hears {
    /// It knows the stream by its announcement, and joins.
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

    /// Records the state of a reader that waits for the beginning.
    pub(super) fn asked(&mut self, reader: ReaderId, hears: Hears) {
        if self.waiters.len() < MAX_WAITERS || self.waiters.contains_key(&reader) {
            let known = self.waiters.entry(reader).or_insert(hears);
            *known = hears.max(*known);
        }
    }

    /// Returns until when the waiting bytes of samples are held; `None` if they are to leave now.
    pub(super) fn until(&self, now: Instant, waiting_bytes: usize) -> Option<Instant> {
        let until = self.since + if self.misses_a_reader() { HELD_FOR_READERS } else { HELD_ALONE };
        (now < until && waiting_bytes < self.most_bytes).then_some(until)
    }

    /// Returns whether a reader asked that does not receive the group yet.
    pub(super) fn misses_a_reader(&self) -> bool {
        self.waiters.values().any(|hears| *hears == Hears::Announcements)
    }

    /// Returns the time for which it has been held by now.
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
