//! The view requested by a page, and the frame that shows it. Values in, values out.
//!
//! Columns are on a grid whose edges are multiples of the column's width since 1970: a view that follows the newest
//! data moves by whole columns, so that nothing shimmers. Start with [`ViewRequest`].

use std::sync::Arc;

use sample::{ColumnGrid, Envelope, Point};
use serde::Deserialize;
use tallycast::Schema;
use units::WallTime;
use wire::{
    Extremes, MAX_PAGE_COLUMNS, MAX_PAGE_GAPS, MeanShare, PagePoint, TraceFrame, TraceShape, TraceState,
};

use crate::clock::Moment;
use crate::gap_map::{KnownGap, joined};
use crate::memory::{Health, StreamMemory, element_of};
use crate::stored::StoredSpan;

/// The most traces of one view.
pub(crate) const MAX_TRACES: usize = 100;
/// The most columns of all traces of one view together, 4 MB a frame; a view beyond is thinned further.
const MAX_VIEW_COLUMNS: u64 = 1 << 18;
/// Maximum span of a view: ten years, which keeps all times within their range.
pub(crate) const MAX_SPAN_NS: i64 = 10 * 366 * 86_400 * 1_000_000_000;

/// A trace as requested by a page.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize)]
pub(crate) struct TraceRequest {
    pub(crate) stream: String,
    pub(crate) channel: String,
}

/// A view as requested by a page.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize)]
pub(crate) struct ViewRequest {
    pub(crate) view: u32,
    pub(crate) traces: Vec<TraceRequest>,
    pub(crate) width_px: u32,
    pub(crate) span_ns: i64,
    pub(crate) end_ns: Option<i64>,
    /// True if the page reads exact and kept columns; others get every column of every frame, as f32.
    #[serde(default)]
    pub(crate) exact: bool,
    /// True if the page reads the means of columns, too.
    #[serde(default)]
    pub(crate) means: bool,
}

impl ViewRequest {
    /// Checks the preconditions of a frame; returns the remedy otherwise.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.traces.len() > MAX_TRACES {
            return Err(format!("a view shows at most {MAX_TRACES} traces, not {}", self.traces.len()));
        }
        if !(1..=MAX_PAGE_COLUMNS).contains(&self.width_px) {
            return Err(format!("a view is 1 to {MAX_PAGE_COLUMNS} columns wide, not {}", self.width_px));
        }
        if !(1..=MAX_SPAN_NS).contains(&self.span_ns) {
            return Err(format!("a view spans 1 to {MAX_SPAN_NS} ns, not {}", self.span_ns));
        }
        Ok(())
    }

    /// Returns the grid of a view that ends at `end`, `further` times as coarse as required by its width.
    pub(crate) fn grid(&self, end: WallTime, further: u32) -> ColumnGrid {
        let traces = self.traces.len().max(1) as u64;
        let fitting = u32::try_from(MAX_VIEW_COLUMNS / traces).unwrap_or(u32::MAX);
        let count = (self.width_px / further.max(1)).clamp(1, fitting);
        let column_ns = (self.span_ns.unsigned_abs()).div_ceil(u64::from(count)).max(1);
        // The right edge is rounded up: the newest sample always has its column.
        let width = i128::from(column_ns);
        let right = (i128::from(end.as_nanos()) + width - 1).div_euclid(width) * width;
        let left = right - width * i128::from(count);
        let from = i64::try_from(left.clamp(i64::MIN.into(), i64::MAX.into())).expect("clamped");
        ColumnGrid { from: WallTime::from_nanos(from), column_ns, count }
    }
}

/// One trace of a view, and the part shown to this viewer.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) request: TraceRequest,
    /// End of the part shown to this viewer while it followed the newest data.
    pub(crate) shown_to: Option<WallTime>,
}

/// Answer of the store for a grid, with the time of the request.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) grid: ColumnGrid,
    pub(crate) asked: WallTime,
    pub(crate) span: StoredSpan,
}

impl Trace {
    pub(crate) const fn new(request: TraceRequest) -> Self {
        Self { request, shown_to: None }
    }
}

/// A trace's part of a frame, and the state that decides when the next one is due.
pub(crate) struct Drawn {
    pub(crate) frame: TraceFrame,
    /// True if the window contains anything that moves with time.
    pub(crate) holds_something: bool,
    /// The newest sample that was shown.
    pub(crate) newest: Option<WallTime>,
}

/// Trace to be drawn, and the store's answer for it.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) index: u16,
    pub(crate) channel: &'a str,
    pub(crate) stored: Option<&'a StoredSpan>,
}

/// Draws a trace of a stream that is unknown, or known only to the store.
pub(crate) fn unknown(wanted: Wanted<'_>, grid: &ColumnGrid) -> Drawn {
    let mut frame = TraceFrame {
        index: wanted.index,
        state: TraceState::Unknown,
        samples_per_column: 0.0,
        newest: None,
        live_memory_from: None,
        shape: TraceShape::Points(Vec::new()),
        gaps: Vec::new(),
    };
    if let Some(stored) = wanted.stored {
        // The publisher is gone, its recording is not.
        frame.state = TraceState::Ended;
        frame.samples_per_column = samples_per_column(stored.rate, grid);
        frame.gaps = stored.gaps.iter().take(MAX_PAGE_GAPS).map(KnownGap::page_gap).collect();
        frame.shape = match &stored.points {
            Some(points) => points_shape(points.iter().copied(), grid),
            None => columns_shape(&stored.columns),
        };
    }
    Drawn { holds_something: false, newest: None, frame }
}

/// Draws a trace from live memory, and from the store for the part before it.
pub(crate) fn draw(wanted: Wanted<'_>, memory: &mut StreamMemory, grid: &ColumnGrid, now: Moment) -> Drawn {
    let stored = wanted.stored;
    let element = element_of(&memory.info.schema, wanted.channel).filter(|element| memory.remember(*element));
    let Some(envelope) = element.and_then(|element| memory.envelope(element)) else {
        return unknown(wanted, grid);
    };
    let (from, to) = (grid.from, grid.edge(grid.count));
    let newest = envelope.newest();
    let gaps = gaps_within(memory, stored, grid);
    let state = state_of(memory.health(now));
    let holds_something = newest.is_some_and(|(time, _)| time >= from) || !gaps.is_empty();
    let frame = TraceFrame {
        index: wanted.index,
        state,
        samples_per_column: samples_per_column(memory.info.schema.rate, grid),
        newest,
        live_memory_from: envelope.memory_from(),
        shape: shape(envelope, memory, stored, grid),
        gaps: joined(&gaps, MAX_PAGE_GAPS),
    };
    Drawn { frame, holds_something, newest: newest.map(|(time, _)| time.min(to)) }
}

/// Returns how a trace of a stream is drawn that fares so.
pub(crate) const fn state_of(health: Health) -> TraceState {
    match health {
        Health::Ok | Health::Losing => TraceState::Ok,
        Health::Stale => TraceState::Stale,
        Health::Ended => TraceState::Ended,
    }
}

/// Returns the number of samples in a column.
pub(crate) fn samples_per_column(rate: units::SampleRate, grid: &ColumnGrid) -> f32 {
    (rate.as_hz() * grid.column_ns as f64 / 1e9) as f32
}

/// Returns the gaps in a window: live memory's, and before it the store's.
pub(crate) fn gaps_within(
    memory: &StreamMemory,
    stored: Option<&StoredSpan>,
    grid: &ColumnGrid,
) -> Vec<Arc<KnownGap>> {
    let window = grid.from..grid.edge(grid.count);
    let live: Vec<_> = memory.gaps.within(&window).cloned().collect();
    let older = stored.into_iter().flat_map(|stored| &stored.gaps);
    older_than(older, memory.gaps_since(), &memory.info.schema).chain(live).collect()
}

/// Returns the store's gaps older than those of live memory; of an absence that extends into it, the older part.
pub(crate) fn older_than<'a>(
    stored: impl Iterator<Item = &'a KnownGap>,
    since: Option<WallTime>,
    schema: &Schema,
) -> impl Iterator<Item = Arc<KnownGap>> {
    stored.filter_map(move |gap| match since {
        Some(since) if gap.to > since => {
            let goes_on = gap.is_absence() && gap.from < since;
            goes_on.then(|| Arc::new(gap.within(gap.from..since, schema)))
        }
        Some(_) | None => Some(Arc::new(gap.clone())),
    })
}

/// Chooses between columns and single samples. Columns stay doubles: the connection chooses their form when it sends them.
fn shape(
    envelope: &Envelope,
    memory: &StreamMemory,
    stored: Option<&StoredSpan>,
    grid: &ColumnGrid,
) -> TraceShape {
    let rate = memory.info.schema.rate;
    let few = samples_per_column(rate, grid) < 1.0;
    let (from, to) = (grid.from, grid.edge(grid.count));
    let first_known = envelope.memory_from().map_or(from, |memory_from| memory_from.max(from));
    let one_by_one = envelope.points_from();
    if few && one_by_one.is_some_and(|since| since <= first_known) {
        // One sample on either side leads the line in and out.
        let period = i64::try_from(rate.duration_of(2).as_nanos()).unwrap_or(i64::MAX);
        let live = envelope.points(from.offset(-period), to.offset(period));
        let since = live.first().map(|point| point.time);
        let older = stored.and_then(|stored| stored.points.as_ref()).into_iter().flatten();
        let older = older.filter(|point| since.is_none_or(|since| point.time < since)).copied();
        return points_shape(older.chain(live.iter().copied()), grid);
    }
    match stored.and_then(|stored| stored.points.as_ref()).filter(|_| few) {
        // Live memory has only extremes of that time, the store every sample.
        Some(points) => {
            let behind = points.last().map(|point| point.time.offset(1));
            let live = behind.max(one_by_one).map_or_else(Vec::new, |since| envelope.points(since, to));
            points_shape(points.iter().copied().chain(live), grid)
        }
        None => {
            let mut columns = columns(envelope, grid);
            if let Some(stored) = stored {
                columns
                    .iter_mut()
                    .zip(&stored.columns)
                    .for_each(|(column, older)| column.complete_from(older));
            }
            columns_shape(&columns)
        }
    }
}

/// Returns the columns as every grid with these edges has them: in the first of a grid, an envelope counts older
/// samples, too.
fn columns(envelope: &Envelope, grid: &ColumnGrid) -> Vec<sample::Column> {
    let width = i64::try_from(grid.column_ns).unwrap_or(i64::MAX);
    let wider = ColumnGrid { from: grid.from.offset(-width), count: grid.count + 1, ..*grid };
    envelope.columns(&wider).split_off(1)
}

fn columns_shape(columns: &[sample::Column]) -> TraceShape {
    let drawn = |column: &sample::Column| !column.min.is_nan();
    let first = columns.iter().position(drawn).unwrap_or(0);
    let end = columns.iter().rposition(drawn).map_or(first, |last| last + 1);
    let of = |column: &sample::Column| [column.min, column.max];
    let extremes = columns[first..end].iter().map(of).collect();
    let means = columns[first..end].iter().map(|column| MeanShare::of(column.mean, of(column))).collect();
    let first = u32::try_from(first).expect("within the grid's count");
    TraceShape::Columns { kept: 0, first, extremes: Extremes::Double(extremes), means: Some(means) }
}

fn points_shape(points: impl Iterator<Item = Point>, grid: &ColumnGrid) -> TraceShape {
    let point = |point: Point| PagePoint {
        offset_ns: point.time.nanos_since(grid.from),
        value: point.value.unwrap_or(f64::NAN),
    };
    TraceShape::Points(points.map(point).take(MAX_PAGE_COLUMNS as usize).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Budget;
    use crate::scene::{self, SECOND};
    use ledger::{GapKind, Stage, StageCounts};
    use wire::GapCause;

    const X: Wanted<'_> = Wanted { index: 0, channel: "x", stored: None };

    fn request(width_px: u32, span_ns: i64) -> ViewRequest {
        let trace = TraceRequest { stream: "lab/x".to_owned(), channel: "x".to_owned() };
        ViewRequest {
            view: 1,
            traces: vec![trace],
            width_px,
            span_ns,
            end_ns: None,
            exact: true,
            means: true,
        }
    }

    fn memory(rate_hz: u32) -> StreamMemory {
        let info = Arc::new(scene::info("lab/x", rate_hz));
        StreamMemory::new(info, Budget::default(), scene::moment(WallTime::from_nanos(100 * SECOND)))
    }

    #[test]
    fn both_sides_of_every_limit_of_a_request() {
        assert!(request(MAX_PAGE_COLUMNS, MAX_SPAN_NS).check().is_ok());
        assert!(request(MAX_PAGE_COLUMNS + 1, 1).check().is_err());
        assert!(request(0, 1).check().is_err());
        assert!(request(1, 0).check().is_err());
        assert!(request(1, MAX_SPAN_NS + 1).check().is_err());
        let mut many = request(1, 1);
        many.traces = vec![many.traces[0].clone(); MAX_TRACES];
        assert!(many.check().is_ok());
        many.traces.push(many.traces[0].clone());
        assert!(many.check().is_err());
    }

    #[test]
    fn a_following_grid_moves_by_whole_columns() {
        let request = request(800, 10 * SECOND);
        let mut before = request.grid(WallTime::from_nanos(1_000 * SECOND), 1);
        for step in 1..100 {
            let end = WallTime::from_nanos(1_000 * SECOND + step * 7_654_321);
            let grid = request.grid(end, 1);
            let moved = grid.from.nanos_since(before.from).unsigned_abs();
            assert_eq!(moved % grid.column_ns, 0);
            assert!(grid.edge(grid.count) >= end);
            before = grid;
        }
    }

    #[test]
    fn many_wide_traces_are_thinned_to_what_a_frame_may_weigh() {
        let mut wide = request(MAX_PAGE_COLUMNS, 10 * SECOND);
        wide.traces = vec![wide.traces[0].clone(); MAX_TRACES];
        let columns = u64::from(wide.grid(WallTime::default(), 1).count) * MAX_TRACES as u64;
        assert!((MAX_VIEW_COLUMNS / 2..=MAX_VIEW_COLUMNS).contains(&columns));
        assert_eq!(request(800, SECOND).grid(WallTime::default(), 4).count, 200);
    }

    #[test]
    fn many_samples_become_columns_and_few_become_points() {
        let mut memory = memory(1_000);
        let values: Vec<f64> = (0..2_000).map(f64::from).collect();
        let now = scene::moment(WallTime::from_nanos(102 * SECOND));
        memory.block(&scene::block(&memory.info, 0, &values), now);
        let grid = request(100, SECOND).grid(now.wall, 1);
        let drawn = draw(X, &mut memory, &grid, now);
        let TraceShape::Columns { first: 0, extremes, means: Some(means), .. } = drawn.frame.shape else {
            panic!("columns with means")
        };
        assert_eq!((extremes.len(), extremes.to_vec()[0]), (100, [1_000.0, 1_009.0]));
        assert_eq!(means[0].mean([1_000.0, 1_009.0]), Some(1_004.5));
        let grid = request(100, SECOND / 100).grid(now.wall, 1);
        let TraceShape::Points(points) = draw(X, &mut memory, &grid, now).frame.shape else {
            panic!("points")
        };
        assert_eq!(points.iter().filter(|point| point.offset_ns >= 0).count(), 10);
        assert!(points[0].offset_ns < 0, "a point outside leads the line in");
    }

    #[test]
    fn an_absence_that_reaches_into_live_memory_ends_there_and_a_loss_in_it_is_its_own() {
        let info = scene::info("lab/x", 1_000);
        let gap = |kind| {
            let mut gap = KnownGap::from(&scene::gap(&info, 1, 0..2_000, StageCounts::default()));
            (gap.kind, gap.absent, gap.unsettled) = (kind, 2_000, 0);
            gap
        };
        let stored = [gap(GapKind::ReaderAbsent), gap(GapKind::Missing)];
        let told = |since_ms: i64| {
            let since = WallTime::from_nanos(100 * SECOND + since_ms * 1_000_000);
            let told = older_than(stored.iter(), Some(since), &info.schema);
            told.map(|gap| (gap.kind, gap.samples, gap.absent)).collect::<Vec<_>>()
        };
        assert_eq!(told(500), [(GapKind::ReaderAbsent, 500, 500)]);
        assert_eq!(told(0), []);
        let whole = [(GapKind::ReaderAbsent, 2_000, 2_000), (GapKind::Missing, 2_000, 2_000)];
        assert_eq!(told(2_000), whole);
        assert_eq!(older_than(stored.iter(), None, &info.schema).count(), 2);
    }

    #[test]
    fn a_gap_in_the_window_is_drawn_with_its_stage() {
        let mut memory = memory(1_000);
        let now = scene::moment(WallTime::from_nanos(102 * SECOND));
        memory.block(&scene::block(&memory.info, 0, &[1.0; 1_000]), now);
        memory.gap(&scene::gap(&memory.info, 4, 1_000..1_500, StageCounts::of(Stage::Injected, 500)), now);
        memory.block(&scene::block(&memory.info, 1_500, &[1.0; 500]), now);
        let grid = request(100, 2 * SECOND).grid(now.wall, 1);
        let frame = draw(X, &mut memory, &grid, now).frame;
        let TraceShape::Columns { extremes, .. } = frame.shape else { panic!("columns") };
        let drawn = extremes.to_vec().iter().filter(|extremes| !extremes[0].is_nan()).count();
        assert_eq!((drawn, frame.gaps.len()), (75, 1));
        assert_eq!((frame.gaps[0].cause, frame.gaps[0].samples), (GapCause::Stage(Stage::Injected), 500));
    }

    #[test]
    fn a_gap_before_the_first_sample_that_the_archive_tells_of_too_is_drawn_once() {
        let mut memory = memory(1_000);
        let now = scene::moment(WallTime::from_nanos(101 * SECOND));
        let missing = scene::gap(&memory.info, 1, 0..500, StageCounts::of(Stage::Network, 500));
        memory.gap(&missing, now);
        memory.block(&scene::block(&memory.info, 500, &[1.0; 500]), now);
        let stored = StoredSpan {
            unit: String::new(),
            rate: memory.info.schema.rate,
            columns: Vec::new(),
            points: None,
            gaps: vec![KnownGap::from(&missing)],
        };
        let grid = request(100, 2 * SECOND).grid(now.wall, 1);
        let gaps = gaps_within(&memory, Some(&stored), &grid);
        assert_eq!(gaps.iter().map(|gap| gap.samples).collect::<Vec<_>>(), [500]);
    }

    #[test]
    fn the_answer_of_the_archive_changes_nothing_that_live_memory_draws() {
        let mut memory = memory(1_000);
        let now = scene::moment(WallTime::from_nanos(101 * SECOND));
        let values: Vec<f64> = (0..1_000).map(f64::from).collect();
        let block = scene::block(&memory.info, 0, &values);
        memory.block(&block, now);
        let grid = request(100, 2 * SECOND).grid(now.wall, 1);
        // The recorder has written a part of what live memory has, up to the middle of a column.
        let mut columns = grid.empty_columns();
        let reader = sample::ElementReader::new(&memory.info.schema, 0).unwrap();
        grid.add_block(&mut columns, &scene::block(&memory.info, 0, &values[..510]), reader);
        let (unit, rate) = (String::new(), memory.info.schema.rate);
        let stored = StoredSpan { unit, rate, columns, points: None, gaps: Vec::new() };
        let alone = draw(X, &mut memory, &grid, now).frame;
        let both = draw(Wanted { stored: Some(&stored), ..X }, &mut memory, &grid, now).frame;
        assert!(matches!(&alone.shape, TraceShape::Columns { means: Some(_), .. }));
        assert_eq!(format!("{:?}", both.shape), format!("{:?}", alone.shape));
    }

    #[test]
    fn a_channel_that_is_not_there_is_unknown() {
        let grid = request(100, SECOND).grid(WallTime::default(), 1);
        let wanted = Wanted { index: 3, channel: "y", stored: None };
        let frame = draw(wanted, &mut memory(10), &grid, scene::moment(WallTime::default())).frame;
        assert_eq!((frame.state, frame.index), (TraceState::Unknown, 3));
    }
}
