//! Losses on the hops before this one, as the next tally tells them.

use std::collections::VecDeque;

use wire::UpstreamHop;

/// Maximum number of counts that wait for their position: some milliseconds of samples. Of more, the newest replace
/// one another, because counts are cumulative.
const MAX_AHEAD: usize = 16;
/// Size of a hop in a tally without its name (`docs/protocol/stream.md`, "Upstream").
const HOP_BYTES: usize = 10;

/// The cumulative counts of a relayed stream.
#[derive(Debug, Default)]
pub(super) struct Upstream {
    /// Counts up to the horizon.
    hops: Vec<UpstreamHop>,
    /// Later counts, with the position behind the elements that they include: a tally tells nothing of what lies
    /// beyond its own position.
    ahead: VecDeque<(u64, Vec<UpstreamHop>)>,
}

impl Upstream {
    /// Takes the counts of all elements below a position.
    pub(super) fn hear(&mut self, position: u64, hops: Vec<UpstreamHop>) {
        let is_full = self.ahead.len() == MAX_AHEAD;
        match self.ahead.back_mut() {
            Some(last) if is_full || last.0 == position => *last = (position, hops),
            _ => self.ahead.push_back((position, hops)),
        }
    }

    /// Records that all elements below this position were sent or skipped.
    pub(super) fn reached(&mut self, position: u64) {
        while self.ahead.front().is_some_and(|(end, _)| *end <= position) {
            self.hops = self.ahead.pop_front().map_or_else(Vec::new, |(_, hops)| hops);
        }
    }

    /// Returns the counts up to the horizon, from hop 0 on; empty: none are known.
    pub(super) fn hops(&self) -> &[UpstreamHop] {
        &self.hops
    }
}

/// Makes the counts fit into this room of a tally: stages with the fewest losses become `unexplained`, and where the
/// names alone are too long, they are cut.
pub(super) fn fit(hops: &mut [UpstreamHop], room_bytes: usize) {
    if UpstreamHop::fold(hops, room_bytes) {
        return;
    }
    let share_bytes = room_bytes / hops.len();
    for hop in hops {
        let mut most = share_bytes.saturating_sub(HOP_BYTES).min(hop.station.len());
        while !hop.station.is_char_boundary(most) {
            most -= 1;
        }
        hop.station.truncate(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::{Stage, StageCounts};

    fn hop(station: &str, lost: u64) -> UpstreamHop {
        let lost = StageCounts::of(Stage::Network, lost);
        UpstreamHop { station: station.to_owned(), lost, unexplained: 0 }
    }

    #[test]
    fn counts_are_told_once_everything_they_include_was_sent_or_skipped() {
        let mut upstream = Upstream::default();
        upstream.hear(100, vec![hop("daq", 1)]);
        upstream.hear(200, vec![hop("daq", 2)]);
        upstream.hear(200, vec![hop("daq", 3)]);
        let lost = |upstream: &Upstream| upstream.hops().first().map(|hop| hop.lost[Stage::Network]);
        let told = [0, 99, 100, 199, 200].map(|position| {
            upstream.reached(position);
            lost(&upstream)
        });
        assert_eq!(told, [None, None, Some(1), Some(1), Some(3)]);
    }

    #[test]
    fn of_too_many_counts_the_newest_replace_one_another() {
        let mut upstream = Upstream::default();
        (0..100).for_each(|at| upstream.hear(at, vec![hop("daq", at)]));
        assert_eq!(upstream.ahead.len(), MAX_AHEAD);
        upstream.reached(99);
        assert_eq!(upstream.hops()[0].lost[Stage::Network], 99);
    }

    #[test]
    fn in_the_narrowest_tally_eight_hops_with_long_names_are_told() {
        let room_bytes = wire::Tally::room_for_upstream(wire::MIN_DATAGRAM_BYTES - 48);
        let mut hops = vec![hop(&"é".repeat(31), 7); 8];
        fit(&mut hops, room_bytes);
        assert!(hops.iter().all(|hop| (hop.unexplained, hop.lost.total()) == (7, 0)), "no loss is left out");
        assert!(UpstreamHop::fold(&mut hops, room_bytes), "they fit");
        assert!(!hops[0].station.is_empty());
    }
}
