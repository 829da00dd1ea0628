//! One view of traces: when its frame is due, what it is drawn from, and the elements that left it unseen.

use std::collections::BTreeMap;
use std::sync::Arc;

use sample::ColumnGrid;
use units::WallTime;
use wire::{TraceShape, ViewFrame};

use super::form::as_read_by;
use super::kept::Kept;
use super::rendition::{Drawing, Rendition};
use super::trace::edge;
use super::{FrameDue, Scenery, Signature, StreamMark, TraceView};
use crate::clock::Moment;
use crate::history::StreamSlot;
use crate::view::{Trace, state_of};

impl TraceView {
    pub(super) const fn follows(&self) -> bool {
        self.request.end_ns.is_none()
    }

    /// Returns the factor by which its frames are coarser than requested. Only a view that follows is thinned: a held
    /// one is drawn once.
    pub(super) const fn further(&self) -> u32 {
        if self.follows() { self.delivery.pace.further() } else { 1 }
    }

    pub(super) fn signature(&self, scenery: Scenery<'_>) -> (ColumnGrid, Signature) {
        let Scenery { history, now } = scenery;
        let slots: Vec<_> = self.traces.iter().map(|trace| history.stream(&trace.request.stream)).collect();
        let span_ns = self.request.span_ns;
        let end = self.request.end_ns.map_or_else(|| edge(&slots, span_ns, now), WallTime::from_nanos);
        let further = self.further();
        let grid = self.request.grid(end, further);
        let mark = |slot: &Option<Arc<StreamSlot>>| slot.as_deref().map(|slot| self.mark(slot, &grid, now));
        let streams: Vec<_> = slots.iter().map(mark).collect();
        let last = self.series.newest(further);
        let still = last.as_ref().is_some_and(|last| last.signature.from.is_none());
        let same = last.as_ref().is_some_and(|last| last.signature.streams == streams);
        let from = (!(still && same)).then_some(grid.from);
        let stored = self.series.answers();
        (grid, Signature { from, streams, further, stored })
    }

    /// Returns the rendition that the page does not have yet, or what it is to be drawn from.
    pub(super) fn due(&self, scenery: Scenery<'_>) -> Option<FrameDue> {
        let newest = self.series.newest(self.further());
        let is_shown =
            |rendition: &Rendition| self.shown.as_ref().is_some_and(|shown| shown.drawn.is(&rendition.drawn));
        if let Some(young) = newest.as_ref().filter(|rendition| rendition.drawn.is_young(scenery)) {
            return (!is_shown(young)).then(|| FrameDue::Drawn(Arc::clone(young)));
        }
        let (grid, signature) = self.signature(scenery);
        match newest {
            Some(rendition) if rendition.signature == signature => {
                (!is_shown(&rendition)).then_some(FrameDue::Drawn(rendition))
            }
            Some(_) | None => Some(FrameDue::ToDraw(grid, signature)),
        }
    }

    /// Draws every trace.
    pub(super) fn draw(&self, grid: &ColumnGrid, signature: Signature, scenery: Scenery<'_>) -> Drawing {
        let mut frame = ViewFrame {
            frame: 0,
            view: 0,
            live: self.follows(),
            thinned_further: self.further() > 1,
            now: scenery.now.wall,
            from: grid.from,
            column_ns: grid.column_ns,
            column_count: grid.count,
            dropped_frames: 0,
            traces: Vec::with_capacity(self.traces.len()),
        };
        let (mut moves, mut newest, mut kept) = (false, Vec::new(), Vec::new());
        for (index, trace) in self.traces.iter().enumerate() {
            let index = u16::try_from(index).expect("views have few traces");
            let mut drawn =
                trace.draw(index, grid, self.series.stored(usize::from(index)).as_deref(), scenery);
            moves |= drawn.holds_something;
            newest.push(drawn.newest);
            let shape = as_read_by(&self.request, drawn.frame.shape);
            let columns = self.request.exact.then(|| Kept::of(&shape, grid)).flatten();
            // Kept columns are put into the frame of each page.
            drawn.frame.shape = if columns.is_some() { TraceShape::Points(Vec::new()) } else { shape };
            kept.push(columns);
            frame.traces.push(drawn.frame);
        }
        // An empty window does not have to move.
        let signature = Signature { from: signature.from.filter(|_| moves), ..signature };
        Drawing { signature, newest, frame, kept }
    }

    /// Records the end of the part shown of each trace.
    pub(super) fn was_shown(&mut self, rendition: &Rendition) {
        let follows = self.follows();
        for (trace, newest) in self.traces.iter_mut().zip(&rendition.newest) {
            // Elements passed over by a user who views the past are not losses.
            trace.shown_to = newest.filter(|_| follows).map(|newest| {
                let shown_to = trace.shown_to.unwrap_or(rendition.grid.from);
                newest.offset(1).max(shown_to)
            });
        }
    }

    /// Returns the changes of a stream that affect this view: all, or those of the past it shows.
    pub(super) fn mark(&self, slot: &StreamSlot, grid: &ColumnGrid, now: Moment) -> StreamMark {
        let memory = slot.memory();
        let state = state_of(memory.health(now));
        if self.follows() {
            return StreamMark { news: slot.changes(), filled_to: None, state };
        }
        let (from, to) = (grid.from, grid.edge(grid.count));
        let filled_to = memory.newest().map(|(time, _)| time.min(to));
        StreamMark { news: memory.gaps.newest_change(&(from..to)), filled_to, state }
    }

    /// Counts as lost the elements that left the window, which begins with the grid, before they were shown.
    pub(super) fn count_losses(
        &mut self,
        grid: &ColumnGrid,
        scenery: Scenery<'_>,
        lost: &mut BTreeMap<String, u64>,
    ) {
        // Most traces were shown up to the present: no lock is taken for those.
        let behind = |trace: &&mut Trace| trace.shown_to.is_some_and(|shown_to| shown_to < grid.from);
        for trace in self.traces.iter_mut().filter(behind) {
            let Some(slot) = scenery.history.stream(&trace.request.stream) else { continue };
            let count = trace.slid_past(&slot.memory(), grid.from);
            if count > 0 {
                *lost.entry(trace.request.stream.clone()).or_default() += count;
                slot.lost_in_browser(count);
            }
        }
    }
}
