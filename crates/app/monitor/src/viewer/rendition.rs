//! Renditions of views, each drawn and encoded once for all pages that ask for the same.
//!
//! What a page asks for, apart from its own number for the view, is the subject of a [`Series`] of [`Rendition`]s. Start
//! with [`Renditions::series`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use sample::ColumnGrid;
use units::WallTime;
use wire::ViewFrame;

use super::drawn_once::{Drawn, Newest, Subjects, Work, WorkCounts, lock};
use super::kept::Kept;
use super::waterfalls::{FallSeries, WaterfallRequest};
use super::{Scenery, Signature};
use crate::view::{Stored, TraceRequest, ViewRequest};

/// What pages are shown, and how much work it was.
#[derive(Debug, Default)]
pub(crate) struct Renditions {
    views: Subjects<ViewRequest, Series>,
    waterfalls: Subjects<WaterfallRequest, FallSeries>,
    pub(super) work: Work,
}

/// The successive renditions of one subject, the newest for each coarseness.
#[derive(Debug, Default)]
pub(super) struct Series {
    newest: Newest<Rendition>,
    store: Mutex<Answers>,
}

/// What the store answered, by trace.
#[derive(Debug, Default)]
struct Answers {
    stored: BTreeMap<usize, Arc<Stored>>,
    count: u64,
}

/// One rendition.
#[derive(Debug)]
pub(super) struct Rendition {
    pub(super) drawn: Drawn,
    pub(super) signature: Signature,
    pub(super) grid: ColumnGrid,
    /// Newest sample shown of each trace.
    pub(super) newest: Vec<Option<WallTime>>,
    /// The frame; traces with kept columns have no shape in it.
    frame: ViewFrame,
    kept: Vec<Option<Kept>>,
}

/// Drawn traces of a view, of which a rendition is made.
pub(super) struct Drawing {
    pub(super) signature: Signature,
    pub(super) newest: Vec<Option<WallTime>>,
    pub(super) frame: ViewFrame,
    pub(super) kept: Vec<Option<Kept>>,
}

impl Renditions {
    /// Returns the series of what a view asks for, the same for all pages.
    pub(super) fn series(&self, request: &ViewRequest) -> Arc<Series> {
        self.views.of(ViewRequest { view: 0, ..request.clone() })
    }

    /// Returns the series of a waterfall that is asked for, the same for all pages.
    pub(super) fn falls(&self, request: &WaterfallRequest) -> Arc<FallSeries> {
        self.waterfalls.of(request.subject())
    }

    /// Returns how much work the frames were.
    pub(crate) fn counts(&self) -> WorkCounts {
        self.work.counts()
    }
}

impl AsRef<Drawn> for Rendition {
    fn as_ref(&self) -> &Drawn {
        &self.drawn
    }
}

impl Series {
    /// Returns the newest rendition of this coarseness.
    pub(super) fn newest(&self, further: u32) -> Option<Arc<Rendition>> {
        self.newest.get(further)
    }

    /// Returns a rendition that is young enough, or has it drawn.
    pub(super) fn draw(
        &self,
        further: u32,
        scenery: Scenery<'_>,
        renditions: &Renditions,
        draw: impl FnOnce() -> Drawing,
    ) -> Arc<Rendition> {
        self.newest.draw(further, scenery, &renditions.work, |drawn, _| {
            let Drawing { signature, newest, frame, kept } = draw();
            let grid = ColumnGrid { from: frame.from, column_ns: frame.column_ns, count: frame.column_count };
            Rendition { drawn, signature, grid, newest, frame, kept }
        })
    }

    /// Returns what the store answered for a trace.
    pub(super) fn stored(&self, trace: usize) -> Option<Arc<Stored>> {
        lock(&self.store).stored.get(&trace).cloned()
    }

    /// Returns the number of answers so far: another one is another rendition.
    pub(super) fn answers(&self) -> u64 {
        lock(&self.store).count
    }

    /// Takes an answer of the store.
    pub(super) fn answered(&self, trace: usize, stored: Arc<Stored>) {
        let mut answers = lock(&self.store);
        answers.stored.insert(trace, stored);
        answers.count += 1;
    }

    /// Takes over the answers of another series for traces that have none here.
    pub(super) fn take_over(&self, traces: &[TraceRequest], other: &Self, of_other: &[TraceRequest]) {
        for (place, trace) in traces.iter().enumerate() {
            let same = of_other.iter().position(|other| other == trace);
            if let (None, Some(stored)) = (self.stored(place), same.and_then(|place| other.stored(place))) {
                self.answered(place, stored);
            }
        }
    }
}

impl Rendition {
    /// Returns the frame for a page that has the `previous` rendition, without what is this page's alone.
    pub(super) fn encoded(&self, previous: Option<&Self>, renditions: &Renditions) -> Arc<[u8]> {
        let previous = previous.filter(|_| self.kept.iter().any(Option::is_some));
        self.drawn.form(previous.map(|previous| &previous.drawn), &renditions.work, |bytes| {
            let mut frame = self.frame.clone();
            for (place, (trace, kept)) in frame.traces.iter_mut().zip(&self.kept).enumerate() {
                if let Some(kept) = kept {
                    let before = previous.and_then(|previous| previous.kept.get(place)?.as_ref());
                    trace.shape = kept.sent_after(before);
                }
            }
            frame.encode(bytes).expect("every bound of a frame was kept when it was made");
        })
    }
}

#[cfg(test)]
mod tests;
