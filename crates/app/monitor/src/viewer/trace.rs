//! One trace of a viewer's view: drawn, missed, and behind live memory; and the end of a view that follows its streams.

use std::sync::Arc;

use sample::ColumnGrid;
use units::WallTime;

use super::Scenery;
use crate::clock::Moment;
use crate::history::{History, StreamSlot};
use crate::memory::{RECORDED_LAG_NS, StreamMemory, element_of};
use crate::view::{Drawn, Stored, Trace, Wanted, draw, unknown};

/// Maximum time within which a recorder acknowledges received data, also on a busy disk.
pub(super) const ACKNOWLEDGED_NS: i64 = 10_000_000_000;

/// Returns the end of a view that follows: the newest time up to which all of its streams have data. A view shorter
/// than a period shows the newest sample in its middle.
pub(super) fn edge(slots: &[Option<Arc<StreamSlot>>], span_ns: i64, now: Moment) -> WallTime {
    let steady = slots.iter().flatten().filter_map(|slot| slot.memory().steady_edge(span_ns, now));
    let steady: Vec<WallTime> = steady.collect();
    let Some(latest) = steady.iter().copied().max() else {
        let newest = slots.iter().flatten().filter_map(|slot| slot.memory().newest()).max();
        return newest.map_or(now.wall, |(time, _)| time.offset(span_ns / 2));
    };
    // Recorded data beside live ones do not hold these back.
    let earliest = latest.offset(-RECORDED_LAG_NS);
    steady.into_iter().filter(|edge| *edge > earliest).min().unwrap_or(latest)
}

impl Trace {
    /// Draws the trace.
    pub(super) fn draw(
        &self,
        index: u16,
        grid: &ColumnGrid,
        stored: Option<&Stored>,
        scenery: Scenery<'_>,
    ) -> Drawn {
        let stored = stored.and_then(|stored| stored.span.shifted(&stored.grid, grid));
        let wanted = Wanted { index, channel: &self.request.channel, stored: stored.as_ref() };
        match scenery.history.stream(&self.request.stream) {
            Some(slot) => draw(wanted, &mut slot.memory(), grid, scenery.now),
            None => unknown(wanted, grid),
        }
    }

    /// Returns the number of samples before `from`, the new beginning of the window, that were never shown.
    pub(super) fn slid_past(&mut self, memory: &StreamMemory, from: WallTime) -> u64 {
        let Some(shown_to) = self.shown_to.filter(|shown_to| *shown_to < from) else { return 0 };
        self.shown_to = Some(from);
        never_shown(memory, &self.request.channel, shown_to, from)
    }

    /// Returns whether the window extends behind live memory and `stored`, the store's answer, does not cover that.
    pub(super) fn needs_store(&self, history: &History, grid: &ColumnGrid, stored: Option<&Stored>) -> bool {
        let since = history.stream(&self.request.stream).and_then(|slot| {
            let memory = slot.memory();
            let element = element_of(&memory.info.schema, &self.request.channel)?;
            memory.envelope(element)?.memory_from()
        });
        let end = grid.edge(grid.count);
        let needed = grid.from..since.map_or(end, |since| since.min(end));
        let covered = |stored: &Stored| {
            let of = &stored.grid;
            let all = of.from <= needed.start && of.edge(of.count) >= needed.end;
            // Younger data may not have been acknowledged when the store was asked.
            let acknowledged = stored.asked.nanos_since(needed.end) >= ACKNOWLEDGED_NS;
            of.column_ns == grid.column_ns && all && acknowledged
        };
        needed.start < needed.end && !stored.is_some_and(covered)
    }
}

/// Returns the number of samples from `shown_to` up to `from`, the beginning of the window.
fn never_shown(memory: &StreamMemory, channel: &str, shown_to: WallTime, from: WallTime) -> u64 {
    let span = u64::try_from(from.nanos_since(shown_to)).unwrap_or(0);
    let element = element_of(&memory.info.schema, channel);
    let envelope = element.and_then(|element| memory.envelope(element)).filter(|_| span > 0);
    let passed = ColumnGrid { from: shown_to, column_ns: span.max(1), count: 1 };
    envelope.map_or(0, |envelope| envelope.columns(&passed)[0].present)
}
