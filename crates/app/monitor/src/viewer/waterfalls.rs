//! Views of vectors over time: each column the maximum of the samples in it, from live memory and behind it from the
//! store.
//!
//! A waterfall is drawn once for all pages that ask for the same, and a page is sent the columns that it does not have.
//! They share numbers, credit, pace and the account of elements not shown with the views of traces. Start with
//! [`WaterfallView`].

mod series;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use sample::{BinReader, Plane, StreamPlace, WaterfallColumn, narrowest_column};
use serde::Deserialize;
use units::WallTime;
use wire::{FrameAddress, MAX_PAGE_COLUMNS, MAX_WATERFALL_VALUES, TraceState, WaterfallFrame};

use super::drawn_once::Drawn;
use super::pictures::check_plane;
use super::trace::{ACKNOWLEDGED_NS, edge};
use super::{Delivery, Scenery, View, Viewer};
use crate::history::StreamSlot;
use crate::memory::StreamMemory;
use crate::view::{MAX_SPAN_NS, Trace, TraceRequest, state_of};
pub(super) use series::{Fall, FallSeries, FallStore, Look};

/// The narrowest columns of any stream, a millisecond.
const NARROWEST_NS: u64 = 1 << 20;

/// A waterfall as requested by a page.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize)]
pub(crate) struct WaterfallRequest {
    pub(crate) view: u32,
    pub(crate) stream: String,
    pub(crate) channel: String,
    /// Indices of the matrix, one for each extent before the last two; none name the first.
    #[serde(default)]
    pub(crate) plane: Vec<u32>,
    columns: u32,
    bins: u32,
    span_ns: i64,
    end_ns: Option<i64>,
}

/// Columns of a window: their width, and their numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FallGrid {
    pub(crate) width_ns: u64,
    pub(crate) numbers: Range<i64>,
}

impl FallGrid {
    /// Returns the columns of this width that the window touches.
    fn of(width_ns: u64, window: &Range<WallTime>) -> Self {
        let width = i64::try_from(width_ns).unwrap_or(i64::MAX);
        let first = window.start.as_nanos().div_euclid(width);
        let behind = window.end.as_nanos().saturating_sub(1).div_euclid(width) + 1;
        Self { width_ns, numbers: first..behind.max(first + 1) }
    }

    /// Returns the time at which a column begins.
    pub(crate) fn edge(&self, number: i64) -> WallTime {
        WallTime::from_nanos(number.saturating_mul(i64::try_from(self.width_ns).unwrap_or(i64::MAX)))
    }
}

/// Columns that the store is asked for, up to the place from which live memory has them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FallStretch {
    pub(crate) grid: FallGrid,
    /// Where live memory begins, if that is in the last column or at its end.
    pub(crate) border: Option<StreamPlace>,
}

impl FallStretch {
    /// Returns the part of some columns before a place; `None` if there is none.
    fn before(border: Option<StreamPlace>, mut grid: FallGrid) -> Option<Self> {
        let width = i64::try_from(grid.width_ns).unwrap_or(i64::MAX);
        let border = border.filter(|border| border.time <= grid.edge(grid.numbers.end));
        if let Some(border) = border {
            grid.numbers.end = border.time.as_nanos().saturating_sub(1).div_euclid(width) + 1;
        }
        (grid.numbers.start < grid.numbers.end).then_some(Self { grid, border })
    }

    /// Returns the time up to which it goes.
    pub(crate) fn end(&self) -> WallTime {
        self.border.map_or_else(|| self.grid.edge(self.grid.numbers.end), |border| border.time)
    }

    /// Returns the number of the column of which live memory has the later samples.
    fn shared(&self) -> Option<i64> {
        let last = self.grid.numbers.end - 1;
        (self.end() < self.grid.edge(last + 1)).then_some(last)
    }
}

impl WaterfallRequest {
    /// Returns what it asks for, apart from the page's own number for the view.
    pub(super) fn subject(&self) -> Self {
        Self { view: 0, ..self.clone() }
    }

    /// Checks the preconditions of a frame; returns the remedy otherwise.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { columns, bins, span_ns, .. } = self;
        check_plane(&self.plane)?;
        let sides = 1..=MAX_PAGE_COLUMNS;
        if !sides.contains(columns) || !sides.contains(bins) {
            return Err(format!(
                "a waterfall has 1 to {MAX_PAGE_COLUMNS} columns and bins, not {columns} and {bins}"
            ));
        }
        if !(1..=MAX_SPAN_NS).contains(span_ns) {
            return Err(format!("a view spans 1 to {MAX_SPAN_NS} ns, not {span_ns}"));
        }
        Ok(())
    }

    /// Returns the width of columns, `further` times as wide as required: a power of two, so that they consist of whole
    /// columns of live memory.
    fn width_ns(&self, further: u32) -> u64 {
        let columns = u64::from((self.columns / further.max(1)).max(1));
        self.span_ns.unsigned_abs().div_ceil(columns).next_power_of_two().max(NARROWEST_NS)
    }

    const fn window(&self, end: WallTime) -> Range<WallTime> {
        end.offset(-self.span_ns)..end
    }
}

/// A view of vectors over time, and its state for one viewer.
#[derive(Debug)]
pub(super) struct WaterfallView {
    pub(super) request: WaterfallRequest,
    pub(super) delivery: Delivery,
    pub(super) series: Arc<FallSeries>,
    /// What the page has.
    shown: Option<Arc<Fall>>,
    /// The channel's first element, and how far its samples were shown.
    trace: Trace,
}

impl Viewer {
    /// Shows vectors over time in a view from now on.
    ///
    /// # Errors
    /// Message for the user if the request is invalid.
    pub(super) fn waterfall(&mut self, request: WaterfallRequest) -> Result<(), String> {
        request.check()?;
        self.check_room(request.view)?;
        let number = request.view;
        let series = self.renditions.falls(&request);
        let view = match self.views.remove(&number) {
            Some(View::Waterfall(mut before)) => {
                let delivery = std::mem::take(&mut before.delivery);
                let mut view = WaterfallView::new(request, delivery, series);
                view.succeed(before);
                view
            }
            other => WaterfallView::new(request, View::into_delivery(other), series),
        };
        self.views.insert(number, View::Waterfall(view));
        Ok(())
    }

    /// Makes the next frame of a waterfall, if one is due.
    pub(super) fn waterfall_frame(&mut self, number: u32, scenery: Scenery<'_>) -> Option<Vec<u8>> {
        let now = scenery.now.steady;
        let Some(View::Waterfall(view)) = self.views.get_mut(&number) else { return None };
        let look = view.look(scenery)?;
        if !view.delivery.has_room(view.request.end_ns.is_none(), &self.allowance, &mut self.dropped, now) {
            return None;
        }
        let (fall, is_drawn) = match look {
            Look::Drawn(fall) => (fall, false),
            Look::ToDraw => {
                let draw = |drawn, last: Option<&Fall>| view.draw(drawn, last, scenery);
                (view.series.draw(view.further(), scenery, &self.renditions, draw), true)
            }
        };
        view.count_losses(scenery, &mut self.lost);
        view.was_shown(&fall);
        let mut bytes = fall.encoded(view.shown.as_deref(), &self.renditions).to_vec();
        let address = FrameAddress { frame: self.next_frame, view: number, dropped_frames: self.dropped };
        WaterfallFrame::address(&mut bytes, address).expect("it was encoded a moment ago");
        view.shown = Some(fall);
        view.delivery.sent(now);
        self.sent(number, is_drawn, &bytes, scenery);
        Some(bytes)
    }
}

impl WaterfallView {
    fn new(request: WaterfallRequest, delivery: Delivery, series: Arc<FallSeries>) -> Self {
        let traced = TraceRequest { stream: request.stream.clone(), channel: request.channel.clone() };
        Self { request, delivery, series, shown: None, trace: Trace::new(traced) }
    }

    /// Takes over what the page has, and what was counted, from a view of the same vectors.
    fn succeed(&mut self, before: Self) {
        let of = |view: &Self| (view.trace.request.clone(), view.request.plane.clone());
        if of(self) != of(&before) {
            return;
        }
        if self.follows() && before.follows() {
            self.trace.shown_to = before.trace.shown_to;
        }
        // Until the store has answered again, what it answered before is drawn.
        self.series.take_over(&before.series);
        // A page that asks the same again has lost what it had.
        self.shown = before.shown.filter(|_| before.request != self.request);
    }

    pub(super) const fn follows(&self) -> bool {
        self.request.end_ns.is_none()
    }

    const fn further(&self) -> u32 {
        if self.follows() { self.delivery.pace.further() } else { 1 }
    }

    /// Returns the waterfall that the page does not have yet, or that one is to be drawn.
    fn look(&self, scenery: Scenery<'_>) -> Option<Look> {
        let newest = self.series.newest(self.further());
        let is_shown = |fall: &Fall| self.shown.as_ref().is_some_and(|shown| shown.drawn.is(&fall.drawn));
        let drawn =
            newest.filter(|fall| fall.drawn.is_young(scenery) || fall.signature == self.signature(scenery));
        match drawn {
            Some(fall) => (!is_shown(&fall)).then_some(Look::Drawn(fall)),
            None => Some(Look::ToDraw),
        }
    }

    /// Returns everything that a waterfall is drawn from, but the passing of time: columns that leave the window change
    /// nothing on the page.
    fn signature(&self, scenery: Scenery<'_>) -> series::Signature {
        let slot = scenery.history.stream(&self.request.stream);
        let of_stream = slot.map(|slot| {
            let memory = slot.memory();
            let end = self.request.end_ns.map(WallTime::from_nanos);
            let is_past = end.zip(memory.newest()).is_some_and(|(end, (newest, _))| newest >= end);
            let news = if is_past { u64::MAX } else { slot.changes() };
            (state_of(memory.health(scenery.now)), news, memory.info.epoch)
        });
        series::Signature { of_stream, answers: self.series.stored().0 }
    }

    fn end(&self, slot: Option<&Arc<StreamSlot>>, scenery: Scenery<'_>) -> WallTime {
        let slots = [slot.cloned()];
        let follow = || edge(&slots, self.request.span_ns, scenery.now);
        self.request.end_ns.map_or_else(follow, WallTime::from_nanos)
    }

    fn draw(&self, drawn: Drawn, last: Option<&Fall>, scenery: Scenery<'_>) -> Fall {
        let signature = self.signature(scenery);
        let slot = scenery.history.stream(&self.request.stream);
        let window = self.request.window(self.end(slot.as_ref(), scenery));
        let (_, stored) = self.series.stored();
        let live = slot.as_ref().and_then(|slot| {
            let mut memory = slot.memory();
            self.live(&mut memory, &window, stored.as_deref(), scenery)
        });
        let drawing = live.or_else(|| self.archived(&window, stored.as_deref()?));
        let further = self.further() > 1;
        Fall::new(drawn, signature, (self.follows(), further), drawing, last, scenery)
    }

    /// Draws what live memory has, and behind it the store.
    fn live(
        &self,
        memory: &mut StreamMemory,
        window: &Range<WallTime>,
        stored: Option<&FallStore>,
        scenery: Scenery<'_>,
    ) -> Option<series::Drawing> {
        let schema = Arc::clone(&memory.info.schema);
        let channel = schema.channel_index(&self.request.channel)?;
        let newest = memory.newest().map(|(time, _)| time.min(window.end));
        let plane = Plane::at(&schema.channels[channel], &self.request.plane);
        let kept = memory.waterfalls.ask(channel, plane.number, scenery.now);
        let reader = *kept.waterfall.reader();
        let asked = self.fitting(&reader, self.request.width_ns(self.further()), window);
        let asked = asked.max(narrowest_column(schema.rate));
        let stored = stored.filter(|stored| stored.reader.is_some_and(|(of, _)| of == reader));
        // What live memory has only in wider columns is the store's, if it has any of it.
        let has_older =
            |stored: &FallStore| stored.stretch.grid.width_ns == asked && !stored.columns.is_empty();
        let width_ns = if stored.is_some_and(has_older) {
            asked
        } else {
            kept.waterfall.width_reaching(asked, window.start)
        };
        let grid = FallGrid::of(width_ns, window);
        let merged = self.merged(&reader);
        let live = kept.waterfall.columns(width_ns, grid.numbers.clone(), merged);
        let columns = completed(live, stored, &grid, merged);
        Some(series::Drawing {
            state: None,
            lineage: kept.number,
            live_memory_from: kept.waterfall.known_from(width_ns).map(|place| place.time),
            is_short: kept.is_short,
            plane,
            reader,
            merged,
            grid,
            columns,
            newest,
        })
    }

    /// Draws what the store has of a stream that is not received.
    fn archived(&self, window: &Range<WallTime>, stored: &FallStore) -> Option<series::Drawing> {
        let (reader, plane) = stored.reader?;
        let merged = self.merged(&reader);
        let grid = FallGrid::of(stored.stretch.grid.width_ns, window);
        Some(series::Drawing {
            // The publisher is gone, its recording is not.
            state: Some(TraceState::Ended),
            lineage: 0,
            live_memory_from: None,
            is_short: false,
            plane,
            reader,
            merged,
            columns: completed(Vec::new(), Some(stored), &grid, merged),
            grid,
            newest: None,
        })
    }

    /// Returns how many bins of a reader are one bin of the page.
    const fn merged(&self, reader: &BinReader) -> u32 {
        reader.bins().div_ceil(self.request.bins)
    }

    /// Returns the width from `width_ns` on at which the window has no more values than a frame may have.
    fn fitting(&self, reader: &BinReader, width_ns: u64, window: &Range<WallTime>) -> u64 {
        let bins = u64::from(reader.bins().div_ceil(self.merged(reader)));
        let most = (u64::from(MAX_WATERFALL_VALUES) / bins.max(1)).min(u64::from(MAX_PAGE_COLUMNS));
        let count = |width_ns| {
            let numbers = FallGrid::of(width_ns, window).numbers;
            numbers.end.abs_diff(numbers.start)
        };
        let mut width_ns = width_ns;
        while count(width_ns) > most {
            width_ns *= 2;
        }
        width_ns
    }

    /// Returns what to ask the store for: the columns behind live memory that it was not asked for yet, or that it may have
    /// written since.
    pub(super) fn needs_store(&self, scenery: Scenery<'_>) -> Option<FallStretch> {
        let slot = scenery.history.stream(&self.request.stream);
        let window = self.request.window(self.end(slot.as_ref(), scenery));
        let mut grid = FallGrid::of(self.request.width_ns(self.further()), &window);
        let mut border = None;
        if let Some(slot) = &slot {
            let mut memory = slot.memory();
            let schema = Arc::clone(&memory.info.schema);
            let channel = schema.channel_index(&self.request.channel)?;
            let plane = Plane::at(&schema.channels[channel], &self.request.plane);
            let kept = memory.waterfalls.ask(channel, plane.number, scenery.now);
            let asked = self.fitting(kept.waterfall.reader(), grid.width_ns, &window);
            grid = FallGrid::of(asked.max(narrowest_column(schema.rate)), &window);
            border = kept.waterfall.known_from(grid.width_ns);
        }
        let stretch = FallStretch::before(border, grid)?;
        let (_, stored) = self.series.stored();
        let covered = |stored: &FallStore| {
            let of = &stored.stretch;
            let all = of.grid.numbers.start <= stretch.grid.numbers.start && of.end() == stretch.end();
            // Younger data may not have been acknowledged when the store was asked.
            let acknowledged = stored.asked.nanos_since(stretch.end()) >= ACKNOWLEDGED_NS;
            of.grid.width_ns == stretch.grid.width_ns && all && acknowledged
        };
        (!stored.as_deref().is_some_and(covered)).then_some(stretch)
    }

    /// Records the end of the part shown.
    fn was_shown(&mut self, fall: &Fall) {
        let follows = self.follows();
        let shown_to = self.trace.shown_to.unwrap_or_else(|| fall.from());
        // Elements passed over by a user who views the past are not losses.
        self.trace.shown_to = fall.newest.filter(|_| follows).map(|newest| newest.offset(1).max(shown_to));
    }

    /// Counts as lost the elements of samples that left the window before they were shown.
    pub(super) fn count_losses(&mut self, scenery: Scenery<'_>, lost: &mut BTreeMap<String, u64>) {
        if self.trace.shown_to.is_none() || !self.follows() {
            return;
        }
        let Some(slot) = scenery.history.stream(&self.request.stream) else { return };
        let from = self.request.window(self.end(Some(&slot), scenery)).start;
        let memory = slot.memory();
        let Some(channel) = memory.info.schema.channel_index(&self.request.channel) else { return };
        let elements = memory.info.schema.channel_elements(channel).len() as u64;
        let count = self.trace.slid_past(&memory, from) * elements;
        if count > 0 {
            *lost.entry(self.request.stream.clone()).or_default() += count;
            slot.lost_in_browser(count);
        }
    }
}

/// Returns the columns of live memory and of the store, each with all samples that either has.
fn completed(
    live: Vec<WaterfallColumn>,
    stored: Option<&FallStore>,
    grid: &FallGrid,
    merged: u32,
) -> Vec<WaterfallColumn> {
    let Some(stored) = stored.filter(|stored| stored.stretch.grid.width_ns == grid.width_ns) else {
        return live;
    };
    let shared = stored.stretch.shared();
    let mut columns: BTreeMap<i64, WaterfallColumn> =
        live.into_iter().map(|column| (column.number, column)).collect();
    for column in stored.columns.iter().filter(|column| grid.numbers.contains(&column.number)) {
        let older = column.with_merged(merged);
        match columns.entry(column.number) {
            Entry::Vacant(place) => _ = place.insert(older),
            // The store has what was before live memory began, live memory what came then.
            Entry::Occupied(mut own) if shared == Some(column.number) => own.get_mut().merge(&older),
            Entry::Occupied(mut own) => own.get_mut().complete_from(&older),
        }
    }
    columns.into_values().collect()
}

#[cfg(test)]
mod tests;
