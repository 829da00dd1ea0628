//! Time of each unit from the call that sent it to the read that delivered it.
//!
//! The stamps come from the sender's clock, so a delay is meaningful only if both ends read the same clock. This is
//! so on one host, where the delay is that of both end systems together, without a wire.

use units::Instant;

use super::stamp::{STAMP_BYTES, Stamp};

/// Delays of many units. Both ends of the path are in programs, so queues, wake-ups and copies count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delays {
    /// Number of units.
    pub count: u64,
    /// Sum of all delays.
    pub sum_ns: u64,
}

impl Delays {
    /// Records a unit, and returns its delay. A unit that arrived before it was sent has a stamp from another clock
    /// and is left out.
    pub fn take(&mut self, sent: Instant, delivered: Instant) -> Option<u64> {
        let nanos = delivered.as_nanos().checked_sub(sent.as_nanos())?;
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(nanos);
        Some(nanos)
    }
}

/// Returns the stamps in a piece of a flow without boundaries: the bytes from `position` on, with a stamp at the
/// beginning of every `unit_bytes`. A stamp split between two pieces is skipped.
pub fn stamps(piece: &[u8], position: u64, unit_bytes: usize) -> impl Iterator<Item = Stamp> {
    let unit_bytes = unit_bytes.max(1);
    let behind_border = usize::try_from(position % unit_bytes as u64).expect("less than a unit");
    let first = (unit_bytes - behind_border) % unit_bytes;
    let units = piece.get(first..).unwrap_or_default().chunks(unit_bytes);
    units.filter(move |_| unit_bytes >= STAMP_BYTES).filter_map(Stamp::read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn delays_add_up_and_those_of_another_clock_are_left_out() {
        let mut delays = Delays::default();
        delays.take(at(10), at(13));
        delays.take(at(20), at(20));
        delays.take(at(30), at(29));
        assert_eq!(delays, Delays { count: 2, sum_ns: 3 });
    }

    #[test]
    fn units_without_room_for_a_stamp_have_none() {
        assert_eq!(stamps(&[0; 100], 0, STAMP_BYTES - 1).count(), 0);
        assert_eq!(stamps(&[], 7, 0).count(), 0);
    }

    proptest! {
        #[test]
        fn every_stamp_that_lies_in_one_piece_is_found_and_nothing_else_is(
            unit_bytes in STAMP_BYTES..200,
            units in 1_usize..20,
            cuts in prop::collection::vec(0_usize..4_000, 0..10),
        ) {
            let mut flow = vec![0; unit_bytes * units];
            for (unit, number) in flow.chunks_mut(unit_bytes).zip(0..) {
                Stamp { run: 1, flow: 2, number, sent: at(number) }.write(unit);
            }
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(flow.len())).collect();
            cuts.extend([0, flow.len()]);
            cuts.sort_unstable();
            let mut found = Vec::new();
            for ends in cuts.windows(2) {
                let (piece, position) = (&flow[ends[0]..ends[1]], ends[0] as u64);
                found.extend(stamps(piece, position, unit_bytes).map(|stamp| stamp.number));
            }
            let is_cut = |number: &u64| {
                let begin = usize::try_from(*number).unwrap() * unit_bytes;
                cuts.iter().any(|cut| (begin + 1..begin + STAMP_BYTES).contains(cut))
            };
            let whole: Vec<u64> = (0..units as u64).filter(|number| !is_cut(number)).collect();
            prop_assert_eq!(found, whole);
        }
    }
}
