//! A checkpoint that sees arrivals at a reader's host, before any buffer, and reports numbers that never arrived.

use core::time::Duration;
use std::collections::BTreeMap;

use ledger::{DropNotice, KernelName, Stage};
use sim::NodeId;
use units::{Instant, RangeSet, StreamId};
use wire::Numbered;

use super::address;

/// Time for which a number may be missing before it is reported.
const GRACE: Duration = Duration::from_millis(250);

/// Distance beyond which a number is foreign, or damaged.
const MAX_JUMP: u64 = 1 << 20;

/// Numbers that arrived, and those missing below them.
#[derive(Default)]
pub(super) struct Checkpoint {
    epochs: BTreeMap<(StreamId, u64), EpochSeen>,
    next_look: Instant,
}

#[derive(Default)]
struct EpochSeen {
    came: RangeSet,
    first: u64,
    end: u64,
    /// Numbers missing at the last check.
    missing: RangeSet,
    told: RangeSet,
}

impl Checkpoint {
    pub(super) fn see(&mut self, head: &Numbered) {
        let seen = self.epochs.entry((head.stream, head.epoch.incarnation)).or_default();
        if !seen.came.is_empty() && head.number.abs_diff(seen.end) > MAX_JUMP {
            return;
        }
        if seen.came.is_empty() {
            seen.first = head.number;
        }
        seen.came.insert(head.number..head.number + 1);
        seen.end = seen.end.max(head.number + 1);
    }

    /// Returns the numbers that have been missing for long enough, and the time of the next check.
    pub(super) fn look(&mut self, now: Instant) -> (Vec<DropNotice>, Instant) {
        let mut notices = Vec::new();
        if now < self.next_look {
            return (notices, self.next_look);
        }
        self.next_look = now + GRACE;
        for ((stream, incarnation), seen) in &mut self.epochs {
            let mut missing: RangeSet = core::iter::once(seen.first..seen.end).collect();
            missing.remove_all(seen.came.iter());
            missing.remove_all(seen.told.iter());
            let due: Vec<_> =
                seen.missing.iter().flat_map(|it| missing.intersection(it).collect::<Vec<_>>()).collect();
            seen.told.extend(due.iter().cloned());
            seen.missing = missing;
            notices.extend(due.into_iter().map(|numbers| DropNotice {
                stream: *stream,
                incarnation: *incarnation,
                numbers,
                stage: Stage::Network,
                reason: KernelName::new("HOLE @ netif_receive_skb"),
                destination: address(NodeId(0)),
                socket: None,
            }));
        }
        (notices, self.next_look)
    }
}
