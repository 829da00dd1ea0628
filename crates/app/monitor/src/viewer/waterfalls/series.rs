//! Waterfalls as drawn, each drawn and encoded once for all pages that ask for the same.
//!
//! What a page asks for, apart from its own number for the view, is the subject of a [`FallSeries`] of [`Fall`]s. A page
//! is sent the columns that differ from those of the fall it has; that form, too, is encoded once. Start with
//! [`FallSeries::draw`].

use std::sync::{Arc, Mutex};

use sample::{BinReader, Plane, WaterfallColumn};
use units::{Epoch, WallTime};
use wire::{TraceState, WaterfallFrame};

use super::super::Scenery;
use super::super::drawn_once::{Drawn, Newest, lock};
use super::super::rendition::Renditions;
use super::{FallGrid, FallStretch};

/// The successive falls of one subject, the newest for each coarseness.
#[derive(Debug, Default)]
pub(crate) struct FallSeries {
    newest: Newest<Fall>,
    /// Number of answers of the store, and the last one.
    store: Mutex<(u64, Option<Arc<FallStore>>)>,
}

/// What the store answered.
#[derive(Debug)]
pub(crate) struct FallStore {
    pub(crate) stretch: FallStretch,
    pub(crate) asked: WallTime,
    /// Bins of the columns, and the plane that they are of; `None` if the store has none.
    pub(crate) reader: Option<(BinReader, Plane)>,
    pub(crate) columns: Vec<WaterfallColumn>,
}

/// Everything that a fall is drawn from; equal signatures make equal falls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::viewer) struct Signature {
    /// State of the stream, its changes as far as they are seen, and its epoch.
    pub(super) of_stream: Option<(TraceState, u64, Epoch)>,
    pub(super) answers: u64,
}

/// A frame that a page is to be sent.
pub(in crate::viewer) enum Look {
    /// Another page has had it drawn, or it is as it was.
    Drawn(Arc<Fall>),
    ToDraw,
}

/// Columns of a window.
pub(super) struct Drawing {
    /// State of the stream, if it is not that of the signature.
    pub(super) state: Option<TraceState>,
    pub(super) lineage: u64,
    pub(super) live_memory_from: Option<WallTime>,
    pub(super) is_short: bool,
    pub(super) plane: Plane,
    pub(super) reader: BinReader,
    pub(super) merged: u32,
    pub(super) grid: FallGrid,
    pub(super) columns: Vec<WaterfallColumn>,
    /// Newest sample shown.
    pub(super) newest: Option<WallTime>,
}

/// A waterfall as drawn.
#[derive(Debug)]
pub(in crate::viewer) struct Fall {
    pub(in crate::viewer) drawn: Drawn,
    pub(super) signature: Signature,
    /// The columns of two falls are comparable if these are the same: their memory, width, bins and shape.
    kind: (u64, u64, u32, Option<BinReader>),
    /// Newest sample shown.
    pub(super) newest: Option<WallTime>,
    /// The frame with all columns.
    frame: WaterfallFrame,
}

impl AsRef<Drawn> for Fall {
    fn as_ref(&self) -> &Drawn {
        &self.drawn
    }
}

impl FallSeries {
    /// Returns the newest fall of this coarseness.
    pub(super) fn newest(&self, further: u32) -> Option<Arc<Fall>> {
        self.newest.get(further)
    }

    /// Returns a fall that is young enough, or has it drawn beside the newest one.
    pub(super) fn draw(
        &self,
        further: u32,
        scenery: Scenery<'_>,
        renditions: &Renditions,
        draw: impl FnOnce(Drawn, Option<&Fall>) -> Fall,
    ) -> Arc<Fall> {
        self.newest.draw(further, scenery, &renditions.work, draw)
    }

    /// Returns the number of answers of the store, and the last one.
    pub(crate) fn stored(&self) -> (u64, Option<Arc<FallStore>>) {
        lock(&self.store).clone()
    }

    /// Takes an answer of the store.
    pub(crate) fn answered(&self, stored: Arc<FallStore>) {
        let mut store = lock(&self.store);
        *store = (store.0 + 1, Some(stored));
    }

    /// Takes over the answer of another series if there is none here.
    pub(super) fn take_over(&self, other: &Self) {
        if let Some(stored) = other.stored().1 {
            self.take_over_answer(stored);
        }
    }

    /// Takes an answer for another window if there is none here.
    pub(crate) fn take_over_answer(&self, stored: Arc<FallStore>) {
        if self.stored().1.is_none() {
            self.answered(stored);
        }
    }
}

impl Fall {
    /// Makes the fall of a drawing; `None`: nothing is known of its channel. Columns that the last one had stay, also
    /// if they are forgotten by now.
    pub(super) fn new(
        drawn: Drawn,
        signature: Signature,
        (live, thinned_further): (bool, bool),
        drawing: Option<Drawing>,
        last: Option<&Self>,
        scenery: Scenery<'_>,
    ) -> Self {
        let mut frame = WaterfallFrame {
            frame: 0,
            view: 0,
            state: TraceState::Unknown,
            live,
            thinned_further,
            anew: true,
            short_of_memory: false,
            now: scenery.now.wall,
            first: 0,
            column_ns: 1,
            count: 0,
            bins: 0,
            block: 1,
            elements: 0,
            rows: 0,
            planes: 0,
            plane: Plane::default(),
            dropped_frames: 0,
            live_memory_from: None,
            columns: Vec::new(),
        };
        let (mut kind, mut newest) = ((0, 0, 0, None), None);
        if let Some(drawing) = drawing {
            let Drawing { grid, reader, merged, .. } = &drawing;
            kind = (drawing.lineage, grid.width_ns, *merged, Some(*reader));
            newest = drawing.newest;
            let shape = reader.shape();
            let of_stream = signature.of_stream.map_or(TraceState::Unknown, |(state, ..)| state);
            frame.state = drawing.state.unwrap_or(of_stream);
            frame.short_of_memory = drawing.is_short;
            frame.first = grid.numbers.start;
            frame.column_ns = grid.width_ns;
            let count = grid.numbers.end.abs_diff(grid.numbers.start);
            frame.count = u32::try_from(count).expect("a window has few columns");
            frame.bins = reader.bins().div_ceil(*merged);
            frame.block = reader.block() * merged;
            frame.elements = shape.columns;
            (frame.rows, frame.planes, frame.plane) = (shape.rows, shape.planes, drawing.plane);
            frame.live_memory_from = drawing.live_memory_from;
            let before = last.filter(|last| last.kind == kind);
            let before = before.map_or(Default::default(), |last| last.frame.columns.as_slice());
            let numbers = grid.numbers.clone();
            frame.columns = joined(before.iter().filter(|it| numbers.contains(&it.number)), drawing.columns);
        }
        Self { drawn, signature, kind, newest, frame }
    }

    /// Returns the beginning of the window.
    pub(super) fn from(&self) -> WallTime {
        let width = i64::try_from(self.frame.column_ns).unwrap_or(i64::MAX);
        WallTime::from_nanos(self.frame.first.saturating_mul(width))
    }

    /// Returns the frame for a page that has the `previous` fall, without what is this page's alone.
    pub(super) fn encoded(&self, previous: Option<&Self>, renditions: &Renditions) -> Arc<[u8]> {
        let previous = previous.filter(|previous| previous.kind == self.kind);
        self.drawn.form(previous.map(|previous| &previous.drawn), &renditions.work, |bytes| {
            let mut frame = WaterfallFrame { anew: previous.is_none(), ..self.frame.clone() };
            if let Some(previous) = previous {
                frame.columns.retain(|column| !previous.has(column));
            }
            frame.encode(bytes).expect("every bound of a frame was kept when it was made");
        })
    }

    /// Returns whether it has this column: samples are only ever added to one.
    fn has(&self, column: &WaterfallColumn) -> bool {
        let columns = &self.frame.columns;
        let place = columns.binary_search_by_key(&column.number, |own| own.number);
        place.is_ok_and(|place| is_same(&columns[place], column))
    }
}

/// Returns whether two columns of the same memory have the same samples.
const fn is_same(a: &WaterfallColumn, b: &WaterfallColumn) -> bool {
    a.present == b.present && a.expected == b.expected
}

/// Returns the columns of both, in the order of time: of two the newer one, unless it has fewer samples.
fn joined<'a>(
    older: impl Iterator<Item = &'a WaterfallColumn>,
    newer: Vec<WaterfallColumn>,
) -> Vec<WaterfallColumn> {
    let (mut older, mut joined) = (older.peekable(), Vec::with_capacity(newer.len()));
    for mut column in newer {
        while let Some(before) = older.next_if(|older| older.number < column.number) {
            joined.push(before.clone());
        }
        if let Some(same) = older.next_if(|older| older.number == column.number) {
            column.complete_from(same);
        }
        joined.push(column);
    }
    joined.extend(older.cloned());
    joined
}
