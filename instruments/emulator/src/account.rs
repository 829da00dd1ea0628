//! Outcome of everything that entered one direction, and the law that it satisfies.

use core::ops::AddAssign;

use serde::Serialize;
use sim::LostBy;

/// Outcome of the datagrams that entered one direction. The law is [`Account::is_closed`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Account {
    /// Datagrams taken in.
    pub taken: u64,
    /// Bytes of those datagrams: UDP payloads for a relay, whole packets between namespaces.
    pub taken_bytes: u64,
    /// Second copies that the link made.
    pub duplicated: u64,
    /// Copies handed to the kernel at the far end.
    pub passed: u64,
    /// Bytes of those copies.
    pub passed_bytes: u64,
    /// Copies that the link lost.
    pub lost: Lost,
    /// Copies that this host's kernel refused: buffer full, too large, no route. The model did not lose them.
    pub refused: u64,
    /// Copies without a listener, as reported by the far host.
    pub no_listener: u64,
    /// Copies for which the emulator had no memory. The model did not lose them.
    pub overrun: u64,
    /// Copies in flight.
    pub held: u64,
}

/// Losses of the link, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Lost {
    /// Single random loss.
    pub random: u64,
    /// Loss in a burst.
    pub burst: u64,
    /// Loss at a given number.
    pub placed: u64,
    /// Full queue.
    pub queue: u64,
    /// Loss in an outage.
    pub outage: u64,
    /// Larger than the path's MTU.
    pub mtu: u64,
    /// Flipped bit, found by a checksum.
    pub checksum: u64,
}

impl Account {
    /// Returns whether every copy is accounted for: taken + duplicated = passed + lost + refused + no listener +
    /// overrun + held.
    ///
    /// Each term is counted where it happens; none is computed from others.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        let ended = self.passed + self.lost.sum() + self.refused + self.no_listener + self.overrun;
        self.taken + self.duplicated == ended + self.held
    }
}

impl Lost {
    /// Returns the sum of all reasons.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.random + self.burst + self.placed + self.queue + self.outage + self.mtu + self.checksum
    }

    /// Returns the counts with their names, in the order along the path.
    #[must_use]
    pub const fn by_name(&self) -> [(&'static str, u64); 7] {
        [
            ("outage", self.outage),
            ("mtu", self.mtu),
            ("placed", self.placed),
            ("queue", self.queue),
            ("random", self.random),
            ("burst", self.burst),
            ("checksum", self.checksum),
        ]
    }

    pub(crate) fn count(&mut self, by: LostBy) {
        *match by {
            LostBy::Random => &mut self.random,
            LostBy::Burst => &mut self.burst,
            LostBy::Placed => &mut self.placed,
            LostBy::Queue => &mut self.queue,
            LostBy::Outage => &mut self.outage,
            LostBy::Mtu => &mut self.mtu,
            LostBy::Checksum => &mut self.checksum,
            LostBy::Buffer | LostBy::NotJoined => {
                unreachable!("a link has neither receive buffer nor groups")
            }
        } += 1;
    }
}

impl AddAssign for Account {
    fn add_assign(&mut self, other: Self) {
        self.taken += other.taken;
        self.taken_bytes += other.taken_bytes;
        self.duplicated += other.duplicated;
        self.passed += other.passed;
        self.passed_bytes += other.passed_bytes;
        self.lost += other.lost;
        self.refused += other.refused;
        self.no_listener += other.no_listener;
        self.overrun += other.overrun;
        self.held += other.held;
    }
}

impl AddAssign for Lost {
    fn add_assign(&mut self, other: Self) {
        self.random += other.random;
        self.burst += other.burst;
        self.placed += other.placed;
        self.queue += other.queue;
        self.outage += other.outage;
        self.mtu += other.mtu;
        self.checksum += other.checksum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an account in which every term is a different number.
    fn account() -> Account {
        let lost = Lost { random: 1, burst: 2, placed: 4, queue: 8, outage: 16, mtu: 32, checksum: 64 };
        Account {
            taken: 4_000,
            taken_bytes: 7,
            duplicated: 95,
            passed: 128,
            passed_bytes: 9,
            lost,
            refused: 256,
            no_listener: 512,
            overrun: 1_024,
            held: 2_048,
        }
    }

    #[test]
    fn an_account_that_lacks_one_copy_anywhere_does_not_close() {
        assert!(account().is_closed());
        let changes: [fn(&mut Account); 13] = [
            |it| it.taken -= 1,
            |it| it.duplicated -= 1,
            |it| it.passed -= 1,
            |it| it.refused -= 1,
            |it| it.no_listener -= 1,
            |it| it.overrun -= 1,
            |it| it.held -= 1,
            |it| it.lost.random -= 1,
            |it| it.lost.burst -= 1,
            |it| it.lost.placed -= 1,
            |it| it.lost.queue -= 1,
            |it| it.lost.outage -= 1,
            |it| it.lost.mtu -= 1,
        ];
        for change in changes {
            let mut changed = account();
            change(&mut changed);
            assert!(!changed.is_closed(), "{changed:?}");
        }
    }

    #[test]
    fn sums_and_names_leave_nothing_out() {
        let mut twice = account();
        twice += account();
        assert!(twice.is_closed());
        assert_eq!((twice.taken, twice.taken_bytes, twice.passed_bytes), (8_000, 14, 18));
        let named: u64 = twice.lost.by_name().iter().map(|(_, count)| count).sum();
        assert_eq!((named, twice.lost.sum()), (254, 254));
    }
}
