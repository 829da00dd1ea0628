//! Renditions of views, each drawn and encoded once for all pages that ask for the same.
//!
//! What a page asks for, apart from its own number for the view, is the subject of a [`Series`] of [`Rendition`]s. A
//! rendition younger than the time between two frames is the newest for every page: pages that come in between get the
//! same bytes. A page that has the previous rendition is sent what has changed since; that form, too, is encoded once.
//! Nothing is kept of a subject that no page shows. Start with [`Renditions::series`].

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use sample::ColumnGrid;
use units::WallTime;
use wire::ViewFrame;

use super::kept::Kept;
use super::pace::{MAX_FURTHER, Pace};
use super::waterfalls::Falls;
use super::{Scenery, Signature};
use crate::view::{Stored, TraceRequest, ViewRequest};

/// Encoded forms of one rendition that are kept: pages that keep up have the previous rendition, others are few.
const MAX_FORMS: usize = 4;
/// Factors by which a view is thinned further: powers of two.
const COARSENESSES: usize = MAX_FURTHER.trailing_zeros() as usize + 1;

/// The series of renditions that pages are shown, and how much work they were.
#[derive(Debug, Default)]
pub(crate) struct Renditions {
    /// By what is asked for.
    series: Mutex<HashMap<ViewRequest, Weak<Series>>>,
    pub(super) falls: Falls,
    drawn: AtomicU64,
    encoded: AtomicU64,
    reused: AtomicU64,
}

/// Counts of the work on frames: `encoded` + `reused` is the number of frames sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RenditionCounts {
    /// Renditions drawn from live memory.
    pub(crate) drawn: u64,
    /// Frames encoded.
    pub(crate) encoded: u64,
    /// Frames that had been encoded for another page.
    pub(crate) reused: u64,
}

/// The successive renditions of one subject, the newest for each coarseness.
#[derive(Debug, Default)]
pub(super) struct Series {
    newest: [Mutex<Option<Arc<Rendition>>>; COARSENESSES],
    store: Mutex<Answers>,
}

/// What the store answered, by trace.
#[derive(Debug, Default)]
struct Answers {
    stored: BTreeMap<usize, Arc<Stored>>,
    count: u64,
}

/// Bytes of a rendition for pages that have this other rendition, or none.
type Form = (Option<u64>, Arc<[u8]>);

/// One rendition.
#[derive(Debug)]
pub(super) struct Rendition {
    /// Number of the rendition among all of the monitor.
    id: u64,
    made_at: Instant,
    pub(super) signature: Signature,
    pub(super) grid: ColumnGrid,
    /// Newest sample shown of each trace.
    pub(super) newest: Vec<Option<WallTime>>,
    /// The frame; traces with kept columns have no shape in it.
    frame: ViewFrame,
    kept: Vec<Option<Kept>>,
    /// The encoded forms so far.
    forms: Mutex<Vec<Form>>,
}

/// Drawn traces of a view, of which a rendition is made.
pub(super) struct Drawing {
    pub(super) signature: Signature,
    pub(super) newest: Vec<Option<WallTime>>,
    pub(super) frame: ViewFrame,
    pub(super) kept: Vec<Option<Kept>>,
}

impl Renditions {
    /// Returns the series of a subject, the same for all pages.
    pub(super) fn series(&self, request: &ViewRequest) -> Arc<Series> {
        let subject = ViewRequest { view: 0, ..request.clone() };
        let mut known = lock(&self.series);
        if let Some(series) = known.get(&subject).and_then(Weak::upgrade) {
            return series;
        }
        known.retain(|_, series| series.strong_count() > 0);
        let series = Arc::new(Series::default());
        known.insert(subject, Arc::downgrade(&series));
        series
    }

    // Counts that nothing else is read by: no ordering is needed.
    pub(super) fn count_drawn(&self) {
        self.drawn.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_encoded(&self) {
        self.encoded.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_reused(&self) {
        self.reused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how much work the frames were.
    pub(crate) fn counts(&self) -> RenditionCounts {
        // Counts that nothing else is read by: no ordering is needed.
        let [drawn, encoded, reused] =
            [&self.drawn, &self.encoded, &self.reused].map(|count| count.load(Ordering::Relaxed));
        RenditionCounts { drawn, encoded, reused }
    }
}

impl Series {
    /// Returns the newest rendition of this coarseness.
    pub(super) fn newest(&self, further: u32) -> Option<Arc<Rendition>> {
        lock(self.of(further)).clone()
    }

    /// Returns a rendition that is young enough, or has it drawn: by one page while others wait.
    pub(super) fn draw(
        &self,
        further: u32,
        scenery: Scenery<'_>,
        renditions: &Renditions,
        draw: impl FnOnce() -> Drawing,
    ) -> Arc<Rendition> {
        let mut newest = lock(self.of(further));
        if let Some(rendition) = newest.as_ref().filter(|rendition| rendition.is_young(scenery)) {
            return Arc::clone(rendition);
        }
        let Drawing { signature, newest: shown, frame, kept } = draw();
        let grid = ColumnGrid { from: frame.from, column_ns: frame.column_ns, count: frame.column_count };
        let rendition = Arc::new(Rendition {
            id: renditions.drawn.fetch_add(1, Ordering::Relaxed),
            made_at: scenery.now.steady,
            signature,
            grid,
            newest: shown,
            frame,
            kept,
            forms: Mutex::default(),
        });
        *newest = Some(Arc::clone(&rendition));
        rendition
    }

    fn of(&self, further: u32) -> &Mutex<Option<Arc<Rendition>>> {
        &self.newest[further.trailing_zeros() as usize]
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
    /// Returns whether it is the newest, whatever has changed since.
    pub(super) fn is_young(&self, scenery: Scenery<'_>) -> bool {
        scenery.now.steady.saturating_duration_since(self.made_at) < Pace::FRAME
    }

    /// Returns whether both are the same rendition.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.id == other.id
    }

    /// Returns the frame for a page that has the `previous` rendition, without what is this page's alone.
    pub(super) fn encoded(&self, previous: Option<&Self>, renditions: &Renditions) -> Arc<[u8]> {
        let previous = previous.filter(|_| self.kept.iter().any(Option::is_some));
        let key = previous.map(|previous| previous.id);
        let mut forms = lock(&self.forms);
        if let Some((_, form)) = forms.iter().find(|(of, _)| *of == key) {
            renditions.reused.fetch_add(1, Ordering::Relaxed);
            return Arc::clone(form);
        }
        let mut frame = self.frame.clone();
        for (place, (trace, kept)) in frame.traces.iter_mut().zip(&self.kept).enumerate() {
            if let Some(kept) = kept {
                let before = previous.and_then(|previous| previous.kept.get(place)?.as_ref());
                trace.shape = kept.sent_after(before);
            }
        }
        let mut bytes = Vec::new();
        frame.encode(&mut bytes).expect("every bound of a frame was kept when it was made");
        renditions.encoded.fetch_add(1, Ordering::Relaxed);
        let form: Arc<[u8]> = bytes.into();
        if forms.len() < MAX_FORMS {
            forms.push((key, Arc::clone(&form)));
        }
        form
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A rendition is put in its place whole, or not at all.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
