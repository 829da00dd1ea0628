//! One viewer: its requests, its credit, and the elements it was never shown.
//!
//! A view that does not keep up costs nothing, and does not affect the viewer's other views: at most two of its frames
//! are in flight, and the next one is made from the newest data when there is credit again. Elements that left its
//! window meanwhile are counted as lost in stage `browser`. Time is an argument, frames are returned as bytes; the
//! socket is in `live.rs`. Start with [`Viewer::frame`].

mod form;
mod kept;
mod pace;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sample::ColumnGrid;
use serde::Deserialize;
use serde_json::{Value, json};
use units::WallTime;
use wire::{TraceState, ViewFrame};

use crate::clock::Moment;
use crate::history::{History, StreamSlot};
use crate::memory::{RECORDED_LAG_NS, StreamMemory, element_of};
use crate::stored::StoredSpan;
use crate::view::{Drawn, Stored, Trace, ViewRequest, Wanted, draw, state_of, unknown};
use form::as_read_by;
use kept::Kept;
use pace::{Allowance, Pace};

/// The most views of one viewer.
pub(crate) const MAX_VIEWS: usize = 64;
/// Maximum number of frames of one view sent and not confirmed: one is drawn while the next is in flight.
pub(crate) const MAX_UNDER_WAY: usize = 2;

/// Maximum time within which a recorder acknowledges received data, also on a busy disk.
const ACKNOWLEDGED_NS: i64 = 10_000_000_000;

/// Message of a page.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum PageMessage {
    /// Show this.
    View(ViewRequest),
    /// Close this view.
    Close { view: u32 },
    /// Visibility of the page.
    Visible { visible: bool },
    /// A frame was drawn: its credit is returned.
    Shown { frame: u32 },
    /// Stream whose account is requested.
    WatchAccount { stream: Option<String> },
}

impl PageMessage {
    /// Returns the streams it asks for.
    pub(crate) fn streams(&mut self) -> impl Iterator<Item = &mut String> {
        let (traces, watched) = match self {
            Self::View(request) => (request.traces.as_mut_slice(), None),
            Self::WatchAccount { stream } => (Default::default(), stream.as_mut()),
            Self::Close { .. } | Self::Visible { .. } | Self::Shown { .. } => (Default::default(), None),
        };
        traces.iter_mut().map(|trace| &mut trace.stream).chain(watched)
    }
}

/// One viewer.
#[derive(Debug)]
pub(crate) struct Viewer {
    number: u64,
    views: BTreeMap<u32, View>,
    pub(crate) visible: bool,
    pub(crate) watched: Option<String>,
    next_frame: u32,
    shown: u32,
    dropped: u32,
    /// Elements this viewer was never shown, by stream.
    lost: BTreeMap<String, u64>,
    /// View that is served first next time.
    turn: u32,
    /// The view that the last frame was made for.
    made: Option<u32>,
    allowance: Allowance,
}

/// A view and its state for this viewer.
#[derive(Debug)]
struct View {
    request: ViewRequest,
    traces: Vec<Trace>,
    /// Columns of each trace that the page has.
    kept: Vec<Option<Kept>>,
    /// State that the last frame was made from.
    signature: Option<Signature>,
    delivery: Delivery,
}

/// Delivery of a view's frames. It is kept when the page changes the content of the view.
#[derive(Debug, Default)]
struct Delivery {
    /// The frames sent and not confirmed.
    under_way: Vec<u32>,
    pace: Pace,
    /// Earliest time of the next frame.
    next_at: Option<Instant>,
    /// True while the store is being asked.
    asking: bool,
    asked_at: Option<Instant>,
}

/// Everything that a frame depends on; equal signatures make equal pictures.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Signature {
    from: Option<WallTime>,
    streams: Vec<Option<StreamMark>>,
    further: u32,
    stored: u32,
}

/// State that a stream's picture in one window depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct StreamMark {
    /// Rises with all changes of the stream, or, for a window in the past, with changes of the gaps in it.
    news: u64,
    /// In the past: end of the samples in the window.
    filled_to: Option<WallTime>,
    state: TraceState,
}

/// Input of a viewer: live memory, and the time on both clocks.
#[derive(Clone, Copy)]
pub(crate) struct Scenery<'a> {
    pub(crate) history: &'a History,
    pub(crate) now: Moment,
}

/// A question to the store, to be answered with [`Viewer::stored`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoreQuestion {
    pub(crate) view: u32,
    pub(crate) trace: usize,
    pub(crate) stream: String,
    pub(crate) channel: String,
    pub(crate) grid: ColumnGrid,
    pub(crate) asked: WallTime,
}

impl Viewer {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            views: BTreeMap::new(),
            visible: true,
            watched: None,
            next_frame: 0,
            shown: 0,
            dropped: 0,
            lost: BTreeMap::new(),
            turn: 0,
            made: None,
            allowance: Allowance::default(),
        }
    }

    /// Handles a message of the page.
    ///
    /// # Errors
    /// Message for the user if the request is invalid.
    pub(crate) fn handle(&mut self, message: PageMessage) -> Result<(), String> {
        match message {
            PageMessage::View(request) => return self.show(request),
            PageMessage::Close { view } => drop(self.views.remove(&view)),
            PageMessage::Visible { visible } => self.visible = visible,
            PageMessage::Shown { frame } => {
                let confirmed = self.views.values_mut().any(|view| view.delivery.confirm(frame));
                self.shown += u32::from(confirmed);
            }
            PageMessage::WatchAccount { stream } => self.watched = stream,
        }
        Ok(())
    }

    fn show(&mut self, request: ViewRequest) -> Result<(), String> {
        request.check()?;
        if self.views.len() >= MAX_VIEWS && !self.views.contains_key(&request.view) {
            return Err(format!("a page has at most {MAX_VIEWS} views; close one first"));
        }
        let mut before = self.views.remove(&request.view);
        let mut traces: Vec<Trace> = request.traces.iter().cloned().map(Trace::new).collect();
        if let Some(before) = &mut before {
            // A view that still follows the newest data keeps its count of elements not yet shown.
            let follows = before.request.end_ns.is_none() && request.end_ns.is_none();
            for trace in &mut traces {
                let same = before.traces.iter_mut().find(|known| known.request == trace.request);
                if let Some(same) = same {
                    trace.shown_to = same.shown_to.filter(|_| follows);
                    trace.stored = same.stored.take();
                }
            }
        }
        let delivery = before.map(|before| before.delivery).unwrap_or_default();
        let kept = traces.iter().map(|_| None).collect();
        let view = View { traces, kept, signature: None, delivery, request };
        self.views.insert(view.request.view, view);
        Ok(())
    }

    /// Returns the streams that it shows, repeated as often as it shows them.
    pub(crate) fn streams(&self) -> impl Iterator<Item = &str> {
        let traces = self.views.values().flat_map(|view| &view.traces);
        traces.map(|trace| trace.request.stream.as_str()).chain(self.watched.as_deref())
    }

    /// Returns whether there is anything to make frames of.
    pub(crate) fn watches(&self) -> bool {
        self.visible && !self.views.is_empty()
    }

    /// Makes the next frame, if one is due: there is credit, time has passed, and something has changed.
    ///
    /// Cost: one pass over the columns of the view; each stream is locked for its own traces only.
    pub(crate) fn frame(&mut self, scenery: Scenery<'_>) -> Option<Vec<u8>> {
        let now = scenery.now.steady;
        if !self.visible {
            return None;
        }
        let turn = self.turn;
        let after = self.views.range(turn..).chain(self.views.range(..turn)).map(|(number, _)| *number);
        for number in after.collect::<Vec<_>>() {
            let view = self.views.get_mut(&number).expect("listed a moment ago");
            if view.delivery.next_at.is_some_and(|at| now < at) {
                continue;
            }
            let (grid, signature) = view.signature(scenery);
            if view.signature.as_ref() == Some(&signature) {
                continue;
            }
            if view.delivery.under_way.len() >= MAX_UNDER_WAY || self.allowance.is_spent(now) {
                view.delivery.next_at = Some(now + Pace::FRAME);
                // Skipped rather than delayed: the next frame shows the newest data of that time. The past does not
                // change, so a picture of it is only later.
                if view.follows() {
                    view.delivery.pace.dropped(now);
                    self.dropped += 1;
                }
                continue;
            }
            return Some(self.make(number, &grid, signature, scenery));
        }
        None
    }

    fn make(
        &mut self,
        number: u32,
        grid: &ColumnGrid,
        signature: Signature,
        scenery: Scenery<'_>,
    ) -> Vec<u8> {
        let view = self.views.get_mut(&number).expect("its frame is due");
        view.count_losses(grid, scenery, &mut self.lost);
        let follows = view.follows();
        let mut frame = ViewFrame {
            frame: self.next_frame,
            view: number,
            live: follows,
            thinned_further: view.further() > 1,
            now: scenery.now.wall,
            from: grid.from,
            column_ns: grid.column_ns,
            column_count: grid.count,
            dropped_frames: self.dropped,
            traces: Vec::with_capacity(view.traces.len()),
        };
        let mut moves = false;
        for (index, trace) in view.traces.iter_mut().enumerate() {
            let index = u16::try_from(index).expect("views have few traces");
            let mut drawn = trace.draw(index, grid, follows, scenery);
            moves |= drawn.holds_something;
            let kept = &mut view.kept[usize::from(index)];
            drawn.frame.shape = as_read_by(&view.request, drawn.frame.shape, grid, kept);
            frame.traces.push(drawn.frame);
        }
        // An empty window does not have to move.
        view.signature = Some(Signature { from: signature.from.filter(|_| moves), ..signature });
        let mut bytes = Vec::new();
        frame.encode(&mut bytes).expect("every bound of a frame was kept when it was made");
        view.delivery.sent(self.next_frame, scenery.now.steady);
        self.allowance.spend(bytes.len(), scenery.now.steady);
        self.made = Some(number);
        self.turn = number.saturating_add(1);
        self.next_frame = self.next_frame.wrapping_add(1);
        bytes
    }

    /// Records the time that making the last frame took: the view's next one is delayed accordingly.
    pub(crate) fn took(&mut self, cost: Duration) {
        let view = self.made.and_then(|number| self.views.get_mut(&number));
        if let Some(delivery) = view.map(|view| &mut view.delivery) {
            delivery.next_at = delivery.next_at.map(|at| at + Pace::extra(cost));
        }
    }

    /// Counts as lost the elements that left windows before they were shown, also of views that currently get no
    /// frames.
    pub(crate) fn count_losses(&mut self, scenery: Scenery<'_>) {
        for view in self.views.values_mut() {
            let (grid, _) = view.signature(scenery);
            view.count_losses(&grid, scenery, &mut self.lost);
        }
    }

    /// Returns the traces whose window extends behind live memory and whose store was not asked yet.
    pub(crate) fn questions(&mut self, scenery: Scenery<'_>) -> Vec<StoreQuestion> {
        let visible = self.visible;
        let idle =
            self.views.iter_mut().filter(|(_, view)| visible && view.delivery.may_ask(scenery.now.steady));
        let mut questions = Vec::new();
        for (number, view) in idle {
            let (grid, _) = view.signature(scenery);
            for (place, trace) in view.traces.iter().enumerate() {
                if trace.needs_store(scenery.history, &grid) {
                    questions.push(StoreQuestion {
                        view: *number,
                        trace: place,
                        stream: trace.request.stream.clone(),
                        channel: trace.request.channel.clone(),
                        grid,
                        asked: scenery.now.wall,
                    });
                    view.delivery.asking = true;
                    view.delivery.asked_at = Some(scenery.now.steady);
                }
            }
        }
        questions
    }

    /// Applies the store's answers to the questions of one view.
    pub(crate) fn stored(&mut self, answers: Vec<(StoreQuestion, Option<StoredSpan>)>) {
        for (question, span) in answers {
            let Some(view) = self.views.get_mut(&question.view) else { continue };
            view.delivery.asking = false;
            let traces = &mut view.traces;
            let asked = traces.get_mut(question.trace).filter(|trace| {
                trace.request.stream == question.stream && trace.request.channel == question.channel
            });
            if let (Some(trace), Some(span)) = (asked, span) {
                trace.stored = Some(Stored { grid: question.grid, asked: question.asked, span });
                view.signature = None;
            }
        }
    }

    /// Returns the elements shown to this viewer and never shown, in the form of the page's protocol.
    pub(crate) fn browser_account(&self) -> Value {
        json!({
            "type": "browser",
            "viewer": self.number,
            "shown_frames": self.shown,
            "dropped_frames": self.dropped,
            "lost_elements": self.lost,
        })
    }

    /// Returns the frames sent and dropped so far.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [u64::from(self.next_frame), u64::from(self.dropped)]
    }
}

impl View {
    const fn follows(&self) -> bool {
        self.request.end_ns.is_none()
    }

    /// Returns the factor by which its frames are coarser than requested. Only a view that follows is thinned: a held
    /// one is drawn once.
    const fn further(&self) -> u32 {
        if self.follows() { self.delivery.pace.further() } else { 1 }
    }

    fn signature(&self, scenery: Scenery<'_>) -> (ColumnGrid, Signature) {
        let Scenery { history, now } = scenery;
        let slots: Vec<_> = self.traces.iter().map(|trace| history.stream(&trace.request.stream)).collect();
        let span_ns = self.request.span_ns;
        let end = self.request.end_ns.map_or_else(|| edge(&slots, span_ns, now), WallTime::from_nanos);
        let further = self.further();
        let grid = self.request.grid(end, further);
        let mark = |slot: &Option<Arc<StreamSlot>>| slot.as_deref().map(|slot| self.mark(slot, &grid, now));
        let streams: Vec<_> = slots.iter().map(mark).collect();
        let still = self.signature.as_ref().is_some_and(|last| last.from.is_none());
        let same = self.signature.as_ref().is_some_and(|last| last.streams == streams);
        let from = (!(still && same)).then_some(grid.from);
        let stored = self.traces.iter().filter(|trace| trace.stored.is_some()).count();
        let stored = u32::try_from(stored).unwrap_or(u32::MAX);
        (grid, Signature { from, streams, further, stored })
    }

    /// Returns the changes of a stream that affect this view: all, or those of the past it shows.
    fn mark(&self, slot: &StreamSlot, grid: &ColumnGrid, now: Moment) -> StreamMark {
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
    fn count_losses(&mut self, grid: &ColumnGrid, scenery: Scenery<'_>, lost: &mut BTreeMap<String, u64>) {
        for trace in &mut self.traces {
            let Some(slot) = scenery.history.stream(&trace.request.stream) else { continue };
            let count = trace.slid_past(&slot.memory(), grid.from);
            if count > 0 {
                *lost.entry(trace.request.stream.clone()).or_default() += count;
                slot.lost_in_browser(count);
            }
        }
    }
}

impl Delivery {
    /// Takes a frame's credit back; `false` if it was not this view's.
    fn confirm(&mut self, frame: u32) -> bool {
        let place = self.under_way.iter().position(|number| *number == frame);
        place.map(|place| self.under_way.swap_remove(place)).is_some()
    }

    fn sent(&mut self, frame: u32, now: Instant) {
        self.under_way.push(frame);
        self.pace.made(now);
        self.next_at = Some(now + Pace::FRAME);
    }

    /// Returns whether the store may be asked again: limited in rate, and one question at a time.
    fn may_ask(&self, now: Instant) -> bool {
        !self.asking && self.asked_at.is_none_or(|asked| now.saturating_duration_since(asked) >= Pace::ASK)
    }
}

/// Returns the end of a view that follows: the newest time up to which all of its streams have data. A view shorter
/// than a period shows the newest sample in its middle.
fn edge(slots: &[Option<Arc<StreamSlot>>], span_ns: i64, now: Moment) -> WallTime {
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
    /// Draws the trace, and records the end of the part shown.
    fn draw(&mut self, index: u16, grid: &ColumnGrid, follows: bool, scenery: Scenery<'_>) -> Drawn {
        let stored = self.stored.as_ref().and_then(|stored| stored.span.shifted(&stored.grid, grid));
        let wanted = Wanted { index, channel: &self.request.channel, stored: stored.as_ref() };
        let Some(slot) = scenery.history.stream(&self.request.stream) else {
            return unknown(wanted, grid);
        };
        let drawn = draw(wanted, &mut slot.memory(), grid, scenery.now);
        // Elements passed over by a user who views the past are not losses.
        self.shown_to = drawn.newest.filter(|_| follows).map(|newest| {
            let shown_to = self.shown_to.unwrap_or(grid.from);
            newest.offset(1).max(shown_to)
        });
        drawn
    }

    /// Returns the number of samples before `from`, the new beginning of the window, that were never shown.
    fn slid_past(&mut self, memory: &StreamMemory, from: WallTime) -> u64 {
        let Some(shown_to) = self.shown_to.filter(|shown_to| *shown_to < from) else { return 0 };
        self.shown_to = Some(from);
        never_shown(memory, &self.request.channel, shown_to, from)
    }

    /// Returns whether the window extends behind live memory and the store's answer for that is missing.
    fn needs_store(&self, history: &History, grid: &ColumnGrid) -> bool {
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
        needed.start < needed.end && !self.stored.as_ref().is_some_and(covered)
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

#[cfg(test)]
mod tests;
