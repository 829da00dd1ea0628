//! One viewer: its requests, its credit, and the elements it was never shown.
//!
//! A view that does not keep up costs nothing, and does not affect the viewer's other views: at most two of its frames
//! are in flight, and the next one is made from the newest data when there is credit again. Elements that left its
//! window meanwhile are counted as lost in stage `browser`. Time is an argument, frames are returned as bytes; the
//! socket is in `live.rs`. Start with [`Viewer::frame`].

mod delivery;
mod drawing;
mod drawn_once;
mod form;
mod kept;
mod pace;
mod pictures;
mod questions;
mod rendition;
mod sample_questions;
mod trace;
mod values;
mod waterfalls;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sample::ColumnGrid;
use serde::Deserialize;
use serde_json::{Value, json};
use units::WallTime;
use wire::{FrameAddress, TraceState, ViewFrame};

use crate::clock::Moment;
use crate::history::History;
use crate::view::{Trace, ViewRequest};
use delivery::Delivery;
use pace::{Allowance, Pace};
use pictures::{PictureRequest, PictureView};
use rendition::{Rendition, Series};
use values::{TableView, ValuesRequest};
use waterfalls::{WaterfallRequest, WaterfallView};

pub(crate) use delivery::{MAX_CONFIRMED, MAX_UNDER_WAY, confirmed_by};
pub(crate) use drawn_once::WorkCounts;
pub(crate) use questions::StoreQuestion;
pub(crate) use rendition::Renditions;
pub(crate) use sample_questions::{SampleAnswer, SampleQuestion};

/// The most views of one viewer.
pub(crate) const MAX_VIEWS: usize = 64;

/// Message of a page.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum PageMessage {
    /// Show this.
    View(ViewRequest),
    /// Show the newest sample of a channel.
    Picture(PictureRequest),
    /// Show the newest values of these channels.
    Values(ValuesRequest),
    /// Show the samples of a channel over time.
    Waterfall(WaterfallRequest),
    /// Close this view.
    Close { view: u32 },
    /// Visibility of the page.
    Visible { visible: bool },
    /// Frames were drawn, or one: their credit is returned.
    Shown {
        frame: Option<u32>,
        #[serde(default)]
        frames: Vec<u32>,
    },
    /// Stream whose account is requested.
    WatchAccount { stream: Option<String> },
}

impl PageMessage {
    /// Returns the streams it asks for.
    pub(crate) fn streams(&mut self) -> impl Iterator<Item = &mut String> {
        let (traces, watched) = match self {
            Self::View(request) => (request.traces.as_mut_slice(), None),
            Self::Values(request) => (request.traces.as_mut_slice(), None),
            Self::Picture(request) => (Default::default(), Some(&mut request.stream)),
            Self::Waterfall(request) => (Default::default(), Some(&mut request.stream)),
            Self::WatchAccount { stream } => (Default::default(), stream.as_mut()),
            Self::Close { .. } | Self::Visible { .. } | Self::Shown { .. } => (Default::default(), None),
        };
        traces.iter_mut().map(|trace| &mut trace.stream).chain(watched)
    }

    /// Checks the bounds of what it asks for; returns the remedy otherwise.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::View(request) => request.check(),
            Self::Picture(request) => request.check(),
            Self::Shown { frames, .. } if frames.len() > MAX_CONFIRMED => {
                Err(format!("a message confirms at most {MAX_CONFIRMED} frames, not {}", frames.len()))
            }
            Self::Values(request) => request.check(),
            Self::Waterfall(request) => request.check(),
            Self::Close { .. } | Self::Visible { .. } | Self::Shown { .. } | Self::WatchAccount { .. } => {
                Ok(())
            }
        }
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
    /// Frames sent and not confirmed, as they were sent, with their views.
    under_way: VecDeque<(u32, u32)>,
    /// The view that the last frame was drawn for; `None` if it had been drawn for another page.
    drawn_for: Option<u32>,
    allowance: Allowance,
    renditions: Arc<Renditions>,
}

/// A view and its state for this viewer, by what it shows.
#[derive(Debug)]
enum View {
    Traces(TraceView),
    Picture(PictureView),
    Waterfall(WaterfallView),
    Table(TableView),
}

/// A view of traces.
#[derive(Debug)]
struct TraceView {
    request: ViewRequest,
    traces: Vec<Trace>,
    /// Renditions of what it asks for.
    series: Arc<Series>,
    /// The rendition that the page has.
    shown: Option<Arc<Rendition>>,
    /// When it was last looked whether live memory reaches far enough: seldom, and at once for another request.
    reach_seen_at: Option<Instant>,
    delivery: Delivery,
}

/// A frame that a page is to be sent.
enum FrameDue {
    /// Another page has had it drawn, or it is as it was.
    Drawn(Arc<Rendition>),
    /// It is to be drawn on this grid, from this state.
    ToDraw(ColumnGrid, Signature),
}

/// Everything that a frame depends on; equal signatures make equal renditions.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Signature {
    from: Option<WallTime>,
    streams: Vec<Option<StreamMark>>,
    further: u32,
    /// Number of answers of the store so far.
    stored: u64,
}

/// State that a stream's rendition in one window depends on.
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

impl Viewer {
    pub(crate) fn new(number: u64, renditions: Arc<Renditions>) -> Self {
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
            under_way: VecDeque::new(),
            drawn_for: None,
            allowance: Allowance::default(),
            renditions,
        }
    }

    /// Handles a message of the page.
    ///
    /// # Errors
    /// Message for the user if the request is invalid.
    pub(crate) fn handle(&mut self, message: PageMessage) -> Result<(), String> {
        match message {
            PageMessage::View(request) => return self.show(request),
            PageMessage::Picture(request) => return self.picture(request),
            PageMessage::Waterfall(request) => return self.waterfall(request),
            PageMessage::Values(request) => return self.table(request),
            PageMessage::Close { view } => {
                self.views.remove(&view);
                self.forget_frames(view);
            }
            PageMessage::Visible { visible } => self.visible = visible,
            PageMessage::Shown { frame, frames } => {
                self.confirm(&frames);
                self.confirm(frame.as_slice());
            }
            PageMessage::WatchAccount { stream } => self.watched = stream,
        }
        Ok(())
    }

    fn show(&mut self, request: ViewRequest) -> Result<(), String> {
        request.check()?;
        self.check_room(request.view)?;
        let (before, delivery) = match self.views.remove(&request.view) {
            Some(View::Traces(mut before)) => {
                let delivery = std::mem::take(&mut before.delivery);
                (Some(before), delivery)
            }
            other => (None, View::into_delivery(other)),
        };
        let mut traces: Vec<Trace> = request.traces.iter().cloned().map(Trace::new).collect();
        if let Some(before) = &before {
            // A view that still follows the newest data keeps its count of elements not yet shown.
            let follows = before.request.end_ns.is_none() && request.end_ns.is_none();
            for trace in &mut traces {
                let same = before.traces.iter().find(|known| known.request == trace.request);
                if let Some(same) = same {
                    trace.shown_to = same.shown_to.filter(|_| follows);
                }
            }
        }
        let series = self.renditions.series(&request);
        if let Some(before) = &before {
            // Until the store has answered again, what it answered before is drawn.
            series.take_over(&request.traces, &before.series, &before.request.traces);
        }
        let view = TraceView { traces, series, shown: None, reach_seen_at: None, delivery, request };
        self.views.insert(view.request.view, View::Traces(view));
        Ok(())
    }

    fn check_room(&self, view: u32) -> Result<(), String> {
        if !self.views.contains_key(&view) && self.views.len() >= MAX_VIEWS {
            return Err(format!("a page has at most {MAX_VIEWS} views; close one first"));
        }
        Ok(())
    }

    /// Returns the streams that it shows, repeated as often as it shows them.
    pub(crate) fn streams(&self) -> impl Iterator<Item = &str> {
        self.views.values().flat_map(View::streams).chain(self.watched.as_deref())
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
        let may_send = |(_, view): &(&u32, &View)| view.delivery().may_send(now);
        let turn = self.turn;
        for (mut from, to) in [(Included(turn), Unbounded), (Unbounded, Excluded(turn))] {
            while let Some((number, view)) = self.views.range((from, to)).find(may_send) {
                let number = *number;
                let frame = match view {
                    View::Traces(_) => self.trace_frame(number, scenery),
                    View::Picture(_) => self.picture_frame(number, scenery),
                    View::Waterfall(_) => self.waterfall_frame(number, scenery),
                    View::Table(_) => self.table_frame(number, scenery),
                };
                if frame.is_some() {
                    return frame;
                }
                from = Excluded(number);
            }
        }
        None
    }

    /// Makes the next frame of a view of traces, if one is due.
    fn trace_frame(&mut self, number: u32, scenery: Scenery<'_>) -> Option<Vec<u8>> {
        let now = scenery.now.steady;
        let Some(View::Traces(view)) = self.views.get_mut(&number) else { return None };
        let due = view.due(scenery)?;
        if !view.delivery.has_room(view.request.end_ns.is_none(), &self.allowance, &mut self.dropped, now) {
            return None;
        }
        let (rendition, is_drawn) = match due {
            FrameDue::Drawn(rendition) => (rendition, false),
            FrameDue::ToDraw(grid, signature) => {
                let draw = || view.draw(&grid, signature, scenery);
                (view.series.draw(view.further(), scenery, &self.renditions, draw), true)
            }
        };
        view.count_losses(&rendition.grid, scenery, &mut self.lost);
        view.was_shown(&rendition);
        let mut bytes = rendition.encoded(view.shown.as_deref(), &self.renditions).to_vec();
        let address = FrameAddress { frame: self.next_frame, view: number, dropped_frames: self.dropped };
        ViewFrame::address(&mut bytes, address).expect("it was encoded a moment ago");
        view.shown = Some(rendition);
        view.delivery.sent(now);
        self.sent(number, is_drawn, &bytes, scenery);
        Some(bytes)
    }

    /// Records a frame that was made for a view.
    fn sent(&mut self, number: u32, is_drawn: bool, bytes: &[u8], scenery: Scenery<'_>) {
        self.allowance.spend(bytes.len(), scenery.now.steady);
        self.under_way.push_back((self.next_frame, number));
        self.drawn_for = is_drawn.then_some(number);
        self.turn = number.saturating_add(1);
        self.next_frame = self.next_frame.wrapping_add(1);
    }

    /// Returns whether the last frame was drawn, and not taken from another page.
    pub(crate) const fn has_drawn(&self) -> bool {
        self.drawn_for.is_some()
    }

    /// Records the time that drawing the last frame took: the view's next one is delayed accordingly.
    pub(crate) fn took(&mut self, cost: Duration) {
        let Some(number) = self.drawn_for else { return };
        if let Some(delivery) = self.views.get_mut(&number).map(View::delivery_mut) {
            delivery.next_at = delivery.next_at.map(|at| at + Pace::extra(cost));
        }
    }

    /// Counts as lost the elements that left windows before they were shown, also of views that currently get no
    /// frames.
    pub(crate) fn count_losses(&mut self, scenery: Scenery<'_>) {
        for view in self.views.values_mut() {
            match view {
                View::Traces(view) => {
                    let (grid, _) = view.signature(scenery);
                    view.count_losses(&grid, scenery, &mut self.lost);
                }
                View::Picture(view) => view.count_losses(scenery, &mut self.lost),
                View::Waterfall(view) => view.count_losses(scenery, &mut self.lost),
                // It asks for the newest sample alone.
                View::Table(_) => {}
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
    const fn delivery(&self) -> &Delivery {
        match self {
            Self::Traces(view) => &view.delivery,
            Self::Picture(view) => &view.delivery,
            Self::Waterfall(view) => &view.delivery,
            Self::Table(view) => &view.delivery,
        }
    }

    const fn delivery_mut(&mut self) -> &mut Delivery {
        match self {
            Self::Traces(view) => &mut view.delivery,
            Self::Picture(view) => &mut view.delivery,
            Self::Waterfall(view) => &mut view.delivery,
            Self::Table(view) => &mut view.delivery,
        }
    }

    /// Returns the delivery of a view that ends, for the one in its place.
    fn into_delivery(view: Option<Self>) -> Delivery {
        view.map(|mut view| std::mem::take(view.delivery_mut())).unwrap_or_default()
    }

    /// Returns the streams that it shows, repeated as often as it shows them.
    fn streams(&self) -> impl Iterator<Item = &str> {
        let (traces, stream) = match self {
            Self::Traces(view) => (view.request.traces.as_slice(), None),
            Self::Table(view) => (view.request.traces.as_slice(), None),
            Self::Picture(view) => (Default::default(), Some(view.request.stream.as_str())),
            Self::Waterfall(view) => (Default::default(), Some(view.request.stream.as_str())),
        };
        traces.iter().map(|trace| trace.stream.as_str()).chain(stream)
    }
}

#[cfg(test)]
mod tests;
