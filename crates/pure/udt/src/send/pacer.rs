//! Departure times of packets.

use core::time::Duration;

use units::Instant;

/// Maximum time that packets wait for others to leave as a train: about the lateness of a timer.
const GATHER_PS: u64 = 100_000_000;

/// Spaces packets evenly, and compensates for late wake-ups by at most one quantum.
///
/// libudt compensates without limit: after a stall it floods the path. Units: picoseconds, so that ten gigabits a
/// second are not rounded to whole nanoseconds between packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    spacing_ps: u64,
    /// Due time of the next packet, in picoseconds since the clock's origin.
    due_ps: u128,
    quantum: Duration,
}

impl Pacer {
    pub(crate) const fn new(quantum: Duration) -> Self {
        Self { spacing_ps: 0, due_ps: 0, quantum }
    }

    /// Sets the time between two packets; 0 for none.
    pub(crate) fn set_spacing(&mut self, now: Instant, spacing_ps: u64) {
        // A slow pace does not hold back a faster one that follows.
        let now_ps = picos(now);
        if spacing_ps < self.spacing_ps && self.due_ps > now_ps {
            self.due_ps = self.due_ps.min(now_ps + u128::from(spacing_ps));
        }
        self.spacing_ps = spacing_ps;
    }

    /// Records that there was nothing to send, or no window for it, until now: that was no late wake-up, and is not
    /// compensated for. The packets of one train at this pace have gathered meanwhile.
    pub(crate) fn resume(&mut self, now: Instant, train_packets: u32) {
        let gathered_ps = u128::from(self.together(train_packets) - 1) * u128::from(self.spacing_ps);
        self.due_ps = self.due_ps.max(picos(now).saturating_sub(gathered_ps));
    }

    /// Returns the number of packets that may leave now, at most `most`.
    pub(crate) fn allows(&mut self, now: Instant, most: u32) -> u32 {
        self.allows_ahead(now, most, 0)
    }

    /// Returns the number of packets that may leave now, at most `most`, and `ahead` of them before their turn.
    pub(crate) fn allows_ahead(&mut self, now: Instant, most: u32, ahead: u32) -> u32 {
        if self.spacing_ps == 0 {
            return most;
        }
        let now_ps = picos(now);
        // Credit for at most one quantum.
        self.due_ps = self.due_ps.max(now_ps.saturating_sub(self.quantum.as_nanos() * 1_000));
        let until_ps = now_ps + u128::from(self.spacing_ps) * u128::from(ahead);
        if self.due_ps > until_ps {
            return 0;
        }
        let due = (until_ps - self.due_ps) / u128::from(self.spacing_ps) + 1;
        u32::try_from(due).unwrap_or(u32::MAX).min(most)
    }

    /// Returns when packets may leave, `ahead` of them before their turn.
    pub(crate) fn next_ahead(&self, ahead: u32) -> Instant {
        let early_ps = u128::from(self.spacing_ps) * u128::from(ahead);
        let nanos = self.due_ps.saturating_sub(early_ps).div_ceil(1_000);
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the number of packets that leave in this time; `None` without a pace. Units: picoseconds.
    pub(crate) fn within(&self, time_ps: u64) -> Option<u64> {
        time_ps.checked_div(self.spacing_ps)
    }

    /// Records that packets left.
    pub(crate) fn left(&mut self, now: Instant, packets: u32) {
        if self.spacing_ps == 0 {
            self.due_ps = picos(now);
        } else {
            self.due_ps += u128::from(self.spacing_ps) * u128::from(packets);
        }
    }

    /// Lets the next packet leave now, whatever has left before its turn.
    pub(crate) fn forgive(&mut self, now: Instant) {
        self.due_ps = self.due_ps.min(picos(now));
    }

    /// Returns the number of packets that leave together at this pace, at most `train_packets`.
    pub(crate) fn together(&self, train_packets: u32) -> u32 {
        let within = GATHER_PS.checked_div(self.spacing_ps).unwrap_or(u64::MAX);
        let within = if within < 2 { 1 } else { u32::try_from(within).unwrap_or(u32::MAX).saturating_add(1) };
        within.min(train_packets.max(1))
    }

    /// Returns when packets may leave.
    ///
    /// Packets closer together than a wake-up is worth wait until a train of them is due: sent one by one they would
    /// cost several times as much.
    pub(crate) fn next(&self, train_packets: u32) -> Instant {
        let others = u128::from(self.together(train_packets) - 1);
        let gather_ps = others * u128::from(self.spacing_ps);
        let nanos = (self.due_ps + gather_ps).div_ceil(1_000);
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn picos(at: Instant) -> u128 {
    u128::from(at.as_nanos()) * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn pacer(spacing_ps: u64) -> Pacer {
        let mut pacer = Pacer::new(Duration::from_micros(100));
        pacer.set_spacing(at(1_000_000), spacing_ps);
        assert_eq!(pacer.allows(at(1_000_000), 1), 1);
        pacer
    }

    #[test]
    fn what_left_before_its_turn_is_forgiven_at_once() {
        let mut pacer = Pacer::new(Duration::from_millis(1));
        pacer.set_spacing(at(0), 1_000_000_000);
        (0..100).for_each(|_| pacer.left(at(0), 1));
        assert_eq!(pacer.allows(at(5_000_000), 1), 0, "a hundred packets, a millisecond each");
        pacer.forgive(at(5_000_000));
        assert_eq!(pacer.allows(at(5_000_000), 9), 1);
    }

    #[test]
    fn packets_leave_at_their_spacing_however_it_is_rounded() {
        let mut pacer = pacer(1_200_500);
        let mut now = at(1_000_000);
        pacer.due_ps = picos(now);
        for _ in 0..10_000 {
            assert_eq!(pacer.allows(now, 9), 1);
            pacer.left(now, 1);
            now = pacer.next(1);
        }
        assert_eq!(now, at(1_000_000 + 12_005_000));
    }

    #[test]
    fn a_stall_is_paid_back_with_one_quantum_and_no_more() {
        let mut pacer = pacer(1_000_000);
        pacer.due_ps = picos(at(1_000_000));
        assert_eq!(pacer.allows(at(1_010_000), 1_000), 11);
        assert_eq!(pacer.allows(at(900_000_000), 1_000), 101);
        pacer.left(at(900_000_000), 101);
        assert_eq!(pacer.allows(at(900_000_000), 1_000), 0);
        assert_eq!(pacer.next(1), at(900_001_000));
    }

    #[test]
    fn trains_gather_what_is_due_soon() {
        let mut pacer = pacer(1_000_000);
        pacer.due_ps = picos(at(5_000_000));
        assert_eq!(pacer.next(16), at(5_015_000));
        assert_eq!(pacer.next(500), at(5_100_000));
        assert_eq!((pacer.together(500), pacer.together(16)), (101, 16));
        assert_eq!(pacer.allows(at(5_015_000), 64), 16);
        // Widely spaced packets do not wait for others.
        pacer.set_spacing(at(5_015_000), 60_000_000);
        assert_eq!(pacer.together(16), 1);
        assert_eq!(pacer.next(16), at(5_000_000));
    }

    #[test]
    fn a_faster_pace_begins_at_once() {
        let mut pacer = pacer(62_500_000_000);
        pacer.left(at(1_000_000), 2);
        pacer.set_spacing(at(2_000_000), 12_000_000);
        assert_eq!(pacer.next(1), at(2_012_000));
    }

    #[test]
    fn time_in_which_there_was_nothing_to_send_is_not_paid_back() {
        let mut pacer = pacer(10_000_000);
        pacer.left(at(1_000_000), 1);
        assert_eq!(pacer.allows(at(1_100_000), 100), 11, "a late wake-up is, up to a quantum");
        pacer.resume(at(1_100_000), 4);
        assert_eq!(pacer.next(4), at(1_100_000));
        assert_eq!(pacer.allows(at(1_100_000), 100), 4, "a train of those that wait");
    }
}
