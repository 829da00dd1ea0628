//! Arrival rate of packets and capacity of the path, estimated from the kernel's reception times.
//!
//! Source: libudt 4.11's filters, which draft-gg-udt-03 describes with other sizes: the mean of those intervals that
//! are within a factor of eight of their median.

use core::time::Duration;

use units::Instant;
use wire::udt::PROBE_INTERVAL;

const ARRIVALS: usize = 16;
const PROBES: usize = 64;

/// Estimates both rates of a connection.
#[derive(Debug)]
pub(crate) struct ArrivalRates {
    arrivals: Ring<ARRIVALS>,
    probes: Ring<PROBES>,
    last: Option<Instant>,
    pair_began: Option<(u64, Instant)>,
}

/// The newest intervals, oldest overwritten first. Units: microseconds as f64, because pairs are below one.
#[derive(Debug)]
struct Ring<const N: usize> {
    intervals_us: [f64; N],
    next: usize,
    /// Number of measured intervals.
    measured: usize,
}

impl ArrivalRates {
    pub(crate) const fn new() -> Self {
        Self { arrivals: Ring::new(), probes: Ring::new(), last: None, pair_began: None }
    }

    /// Records packets that the kernel received together at `arrived`: a train has one time for all of them.
    ///
    /// Their distance is unknown, so the packets of the whole train count as spread over the time since the last one,
    /// and no pair within it is measured. A train that follows the first of a pair is its second: it took the time of
    /// all its packets together.
    pub(crate) fn arrive(&mut self, arrived: Instant, first: u64, packets: u32) {
        if let Some(last) = self.last {
            let each = micros(arrived.since(last)) / f64::from(packets.max(1));
            (0..packets.min(16)).for_each(|_| self.arrivals.push(each));
        }
        self.last = Some(arrived);
        if let Some((number, began)) = self.pair_began
            && number + 1 == first
        {
            self.probes.push(micros(arrived.since(began)) / f64::from(packets.max(1)));
        }
        let newest = first + u64::from(packets.max(1)) - 1;
        self.pair_began = newest.is_multiple_of(PROBE_INTERVAL).then_some((newest, arrived));
    }

    /// Returns the arrival rate in packets per second; 0 while intervals are too few or differ too much.
    ///
    /// libudt starts with intervals of a second and reports 1 until it has measured.
    pub(crate) fn arrival(&self) -> u32 {
        if self.arrivals.measured < ARRIVALS {
            return 0;
        }
        let (sum, count) = self.arrivals.filtered();
        if count > ARRIVALS / 2 { per_second(sum, count as f64) } else { 0 }
    }

    /// Returns the estimated capacity of the path in packets per second; 0 before a quarter of the pairs was
    /// measured.
    ///
    /// libudt starts with pairs of a millisecond and reports 1,000.
    pub(crate) fn capacity(&self) -> u32 {
        if self.probes.measured < PROBES / 4 {
            return 0;
        }
        let (sum, count) = self.probes.filtered();
        per_second(sum + self.probes.median(), count as f64 + 1.0)
    }
}

impl<const N: usize> Ring<N> {
    const fn new() -> Self {
        Self { intervals_us: [0.0; N], next: 0, measured: 0 }
    }

    const fn push(&mut self, interval_us: f64) {
        self.intervals_us[self.next] = interval_us;
        self.next = (self.next + 1) % N;
        if self.measured < N {
            self.measured += 1;
        }
    }

    /// Returns the median; at least one interval must have been measured.
    fn median(&self) -> f64 {
        let mut sorted = self.intervals_us;
        let (_, median, _) =
            sorted[..self.measured].select_nth_unstable_by(self.measured / 2, f64::total_cmp);
        *median
    }

    /// Returns sum and count of the intervals within a factor of eight of the median.
    fn filtered(&self) -> (f64, usize) {
        let median = self.median();
        let measured = &self.intervals_us[..self.measured];
        let kept = measured.iter().filter(|it| **it > median / 8.0 && **it < median * 8.0);
        kept.fold((0.0, 0), |(sum, count), interval| (sum + interval, count + 1))
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and it is not negative"
)]
fn per_second(sum_us: f64, count: f64) -> u32 {
    if sum_us > 0.0 { (1e6 * count / sum_us).ceil() as u32 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    #[test]
    fn a_steady_rate_is_found_and_a_pause_does_not_move_it() {
        let mut rates = ArrivalRates::new();
        assert_eq!((rates.arrival(), rates.capacity()), (0, 0));
        for number in 0..20 {
            rates.arrive(at(number * 100), number + 1, 1);
        }
        rates.arrive(at(1_900 + 50_000), 21, 1);
        assert_eq!(rates.arrival(), 10_000);
    }

    #[test]
    fn pairs_tell_the_capacity() {
        let mut rates = ArrivalRates::new();
        for pair in 0..64 {
            rates.arrive(at(pair * 1_000), pair * 16, 1);
            rates.arrive(at(pair * 1_000 + 12), pair * 16 + 1, 1);
        }
        assert_eq!(rates.capacity(), 83_334);
    }

    #[test]
    fn a_train_that_is_the_second_of_a_pair_took_the_time_of_its_packets() {
        let mut rates = ArrivalRates::new();
        for pair in 0..64 {
            rates.arrive(at(pair * 1_000), pair * 80 + 1, 16);
            rates.arrive(at(pair * 1_000 + 120), pair * 80 + 17, 40);
        }
        assert_eq!(rates.capacity(), 333_334);
    }

    #[test]
    fn pairs_within_a_train_are_not_measured() {
        let mut rates = ArrivalRates::new();
        for train in 0..100 {
            rates.arrive(at(train * 1_000), train * 16, 16);
        }
        assert_eq!(rates.capacity(), 0);
        assert_eq!(rates.arrival(), 16_000);
        // A pair without its second packet does not count either.
        rates.arrive(at(200_000), 1_600, 1);
        rates.arrive(at(200_001), 1_602, 1);
        assert_eq!(rates.probes.measured, 0);
    }
}
