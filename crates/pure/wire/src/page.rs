//! The page's binary frames: one view's traces as the browser draws them.
//!
//! `docs/protocol/page.md` is the source of truth; a test compares its tables with [`layout`], and the page's own
//! decoder is tested with the same golden frames. A frame is written for one viewer, once per redraw. The monitor
//! decides which columns to show and when to send; the JSON messages are not part of this module.
//!
//! Start with [`ViewFrame`].

mod extremes;
mod layout;
mod means;
mod picture;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod values;
mod waterfall;

use ledger::{Outcome, Stage};
use units::WallTime;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::relayed::{Inherited, MAX_HOPS};

pub use extremes::Extremes;
pub use means::MeanShare;
pub use picture::{MAX_PICTURE_PIXELS, Obstacle, PictureFrame, PictureSample};
pub use values::{MAX_ROW_VALUES, NoSample, ValueRow, ValueSample, Values, ValuesFrame};
pub use waterfall::{MAX_WATERFALL_VALUES, WaterfallFrame};

/// The first two bytes of a frame, `TP`.
pub const PAGE_MAGIC: u16 = 0x5054;
/// Version of the frames and of the JSON messages.
pub const PAGE_VERSION: u8 = 1;
/// Maximum number of traces in one view: ten times as many as a display wall shows.
pub const MAX_PAGE_TRACES: usize = 1_024;
/// Maximum number of pixel columns of a view, twice an 8K screen, and of points of a trace.
pub const MAX_PAGE_COLUMNS: u32 = 16_384;
/// Maximum number of gaps of one trace in a frame, a few for every column of a usual plot; the server joins further
/// ones.
pub const MAX_PAGE_GAPS: usize = 4_096;

const KIND_VIEW: u8 = 1;
const KIND_PICTURE: u8 = 2;
const KIND_VALUES: u8 = 3;
const KIND_WATERFALL: u8 = 4;
const FLAG_LIVE: u16 = 1;
const FLAG_THINNED_FURTHER: u16 = 2;
const MODE_COLUMNS: u8 = 0;
const MODE_POINTS: u8 = 1;
const MODE_COLUMNS_F64: u8 = 2;
const MODE_COLUMNS_MEAN: u8 = 3;
const MODE_COLUMNS_F64_MEAN: u8 = 4;
const GAP_APPORTIONED: u8 = 1;
const GAP_SEVERAL_STAGES: u8 = 2;
const CAUSE_ABSENT: u8 = 253;
const CAUSE_UNEXPLAINED: u8 = 254;
const CAUSE_UNSETTLED: u8 = 255;
/// Placeholder for a missing time.
const NO_TIME: i64 = i64::MIN;

/// All data that a viewer needs to redraw one view.
///
/// Traces share one grid: column `k` covers `from + k·column_ns` up to, not including, its successor.
#[derive(Clone, PartialEq, Debug)]
pub struct ViewFrame {
    /// Number of the frame in its connection, from 0; the page's credit refers to it.
    pub frame: u32,
    /// The view requested by the page.
    pub view: u32,
    /// True if the right edge follows the newest data.
    pub live: bool,
    /// True if the view was thinned further than its width asks for, because the viewer is slow.
    pub thinned_further: bool,
    /// Time by the server's clock.
    pub now: WallTime,
    /// The left edge.
    pub from: WallTime,
    /// The width of a pixel column in nanoseconds.
    pub column_ns: u64,
    /// Number of columns of the view.
    pub column_count: u32,
    /// Number of frames not sent to this viewer since it connected.
    pub dropped_frames: u32,
    /// The traces, in the order of the view's request.
    pub traces: Vec<TraceFrame>,
}

/// One trace of a view.
#[derive(Clone, PartialEq, Debug)]
pub struct TraceFrame {
    /// Index of the trace in the view's request.
    pub index: u16,
    /// State of its stream.
    pub state: TraceState,
    /// Number of samples per column.
    pub samples_per_column: f32,
    /// Time and value of the newest sample.
    pub newest: Option<(WallTime, f64)>,
    /// Start of the data from live memory; older data come from the archive.
    pub live_memory_from: Option<WallTime>,
    /// Data to draw.
    pub shape: TraceShape,
    /// Gaps in the view.
    pub gaps: Vec<PageGap>,
}

/// State of a trace's stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum TraceState {
    /// Data arrive.
    Ok = 0,
    /// No stream or channel of that name is known.
    Unknown = 1,
    /// Data are due and do not arrive.
    Stale = 2,
    /// The publisher has ended the stream.
    Ended = 3,
}

/// Data to draw for a trace.
#[derive(Clone, PartialEq, Debug)]
pub enum TraceShape {
    /// The extremes and means of every column from `first` on.
    Columns {
        /// Number of columns before `first` that are those of the view's previous frame, at the same times.
        kept: u32,
        /// Grid column of the first pair.
        first: u32,
        /// `[min, max]` of each column; both NaN in an empty column.
        extremes: Extremes,
        /// The mean of each column, as many as there are pairs; `None` for a page that does not read them.
        means: Option<Vec<MeanShare>>,
    },
    /// Single samples, if there are fewer of them than columns.
    Points(Vec<PagePoint>),
}

/// A single sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PagePoint {
    /// Time of the sample from the view's left edge; points outside the view continue the line beyond its edges.
    pub offset_ns: i64,
    /// Value of the sample; NaN interrupts the line, as before every sample after a hole.
    pub value: f64,
}

/// A hole in a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageGap {
    /// Time at which its first sample was due.
    pub from: WallTime,
    /// Time at which the first sample after it was due.
    pub to: WallTime,
    /// Number of lost elements.
    pub lost_elements: u64,
    /// Cause of most of the losses.
    pub cause: GapCause,
    /// True if the counts were apportioned instead of known one by one.
    pub apportioned: bool,
    /// True if other stages lost some of them, too; `GET /api/gaps` lists them.
    pub several_stages: bool,
    /// Of stage `source` in a relayed stream: the earlier hop that lost most of them, and their outcome there.
    pub inherited: Option<Inherited>,
    /// Index of its first sample.
    pub first_index: u64,
    /// Number of its samples.
    pub samples: u64,
}

/// Cause of a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GapCause {
    /// The stage that lost the samples.
    Stage(Stage),
    /// No recorder or no publisher was running: no loss.
    Absent,
    /// No evidence for any stage.
    Unexplained,
    /// Evidence is still awaited.
    Unsettled,
}

/// What differs between the pages that are sent the same picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameAddress {
    /// The connection's frames, from 0.
    pub frame: u32,
    /// Number of the view, chosen by the page.
    pub view: u32,
    /// Frames not shown to this viewer since it connected.
    pub dropped_frames: u32,
}

/// Reason why bytes are not a frame, or a view does not fit into a frame.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageFrameError {
    /// The bytes end before their announced length.
    #[error("the frame ends after {actual} bytes, in the middle of its {part}")]
    TooShort {
        /// Name of the truncated part.
        part: &'static str,
        /// Number of bytes.
        actual: usize,
    },
    /// Bytes follow the last part.
    #[error("{0} bytes follow the frame's last part")]
    TooLong(usize),
    /// The bytes are not a frame, or from a newer server.
    #[error("unknown value {value} of `{field}` in version {PAGE_VERSION} of the page's frames")]
    Unknown {
        /// The field, as in `docs/protocol/page.md`.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The limit of a frame is exceeded.
    #[error("a frame holds at most {limit} {what}, not {count}; show less or downsample further")]
    TooMany {
        /// Name of the counted items.
        what: &'static str,
        /// Their number.
        count: u64,
        /// Their maximum number.
        limit: u64,
    },
}

impl GapCause {
    /// Returns the code in a frame: the stage's own, 253, 254 or 255.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Stage(stage) => stage.code(),
            Self::Absent => CAUSE_ABSENT,
            Self::Unexplained => CAUSE_UNEXPLAINED,
            Self::Unsettled => CAUSE_UNSETTLED,
        }
    }

    /// Returns the cause with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            CAUSE_ABSENT => Some(Self::Absent),
            CAUSE_UNEXPLAINED => Some(Self::Unexplained),
            CAUSE_UNSETTLED => Some(Self::Unsettled),
            code => Stage::from_code(code).map(Self::Stage),
        }
    }
}

impl ViewFrame {
    /// Returns the number of bytes that [`ViewFrame::encode`] appends.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        size_of::<layout::Frame>() + self.traces.iter().map(TraceFrame::encoded_bytes).sum::<usize>()
    }

    /// Appends the frame.
    ///
    /// Cost: one pass, at most one allocation.
    ///
    /// # Errors
    /// [`PageFrameError::TooMany`], with nothing appended.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), PageFrameError> {
        within("traces", self.traces.len(), MAX_PAGE_TRACES)?;
        within("columns", self.column_count as usize, MAX_PAGE_COLUMNS as usize)?;
        self.traces.iter().try_for_each(|trace| trace.check(self.column_count))?;
        bytes.reserve(self.encoded_bytes());
        let header = layout::Frame {
            magic: PAGE_MAGIC.into(),
            version: PAGE_VERSION,
            kind: KIND_VIEW,
            frame: self.frame.into(),
            view: self.view.into(),
            trace_count: (self.traces.len() as u16).into(),
            flags: (flag(self.live, FLAG_LIVE) | flag(self.thinned_further, FLAG_THINNED_FURTHER)).into(),
            now_ns: self.now.as_nanos().into(),
            from_ns: self.from.as_nanos().into(),
            column_ns: self.column_ns.into(),
            column_count: self.column_count.into(),
            dropped_frames: self.dropped_frames.into(),
        };
        bytes.extend_from_slice(header.as_bytes());
        self.traces.iter().for_each(|trace| trace.encode(bytes));
        Ok(())
    }

    /// Writes into an encoded frame what differs between the pages that it is sent to.
    ///
    /// # Errors
    /// [`PageFrameError`] for bytes that are shorter than the head of a frame.
    pub fn address(bytes: &mut [u8], to: FrameAddress) -> Result<(), PageFrameError> {
        address(bytes, to, |head: &mut layout::Frame| &mut head.dropped_frames)
    }

    /// Reads a frame; every accepted frame encodes to the same bytes again, except for the bits of a NaN.
    ///
    /// Cost: allocates at most a small multiple of the size of `bytes`.
    ///
    /// # Errors
    /// [`PageFrameError`] for all bytes other than a complete, known frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, PageFrameError> {
        let (mut input, header) = Input::begin::<layout::Frame>(bytes, KIND_VIEW)?;
        let flags = header.flags.get();
        known("flags", flags, flags & !(FLAG_LIVE | FLAG_THINNED_FURTHER) == 0)?;
        let column_count = header.column_count.get();
        within("columns", column_count as usize, MAX_PAGE_COLUMNS as usize)?;
        let trace_count = usize::from(header.trace_count.get());
        within("traces", trace_count, MAX_PAGE_TRACES)?;
        let traces = (0..trace_count).map(|_| TraceFrame::decode(&mut input, column_count));
        let frame = Self {
            frame: header.frame.get(),
            view: header.view.get(),
            live: flags & FLAG_LIVE != 0,
            thinned_further: flags & FLAG_THINNED_FURTHER != 0,
            now: WallTime::from_nanos(header.now_ns.get()),
            from: WallTime::from_nanos(header.from_ns.get()),
            column_ns: header.column_ns.get(),
            column_count,
            dropped_frames: header.dropped_frames.get(),
            traces: traces.collect::<Result<_, _>>()?,
        };
        input.end()?;
        Ok(frame)
    }
}

impl TraceFrame {
    fn encoded_bytes(&self) -> usize {
        let shape = match &self.shape {
            TraceShape::Columns { extremes, means, .. } => {
                extremes.size_bytes() + means.as_ref().map_or(0, |means| means::size_bytes(means.len()))
            }
            TraceShape::Points(points) => points.len() * size_of::<layout::Point>(),
        };
        size_of::<layout::Trace>() + shape + self.gaps.len() * size_of::<layout::Gap>()
    }

    fn check(&self, column_count: u32) -> Result<(), PageFrameError> {
        within("gaps of one trace", self.gaps.len(), MAX_PAGE_GAPS)?;
        match &self.shape {
            TraceShape::Columns { kept, first, extremes, means } => {
                let paired = means.as_ref().is_none_or(|means| means.len() == extremes.len());
                assert!(paired, "every column has a mean, or none has");
                within("kept columns", *kept as usize, *first as usize)?;
                within("columns", *first as usize + extremes.len(), column_count as usize)
            }
            TraceShape::Points(points) => within("points", points.len(), MAX_PAGE_COLUMNS as usize),
        }
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        let (mode, count, first_column, kept_columns) = match &self.shape {
            TraceShape::Columns { kept, first, extremes, means } => {
                (extremes.mode(means.is_some()), extremes.len(), *first, *kept)
            }
            TraceShape::Points(points) => (MODE_POINTS, points.len(), 0, 0),
        };
        let nanos = |time: WallTime| time.as_nanos();
        let header = layout::Trace {
            index: self.index.into(),
            state: self.state as u8,
            mode,
            // Both counts were checked to fit into 32 bits.
            count: (count as u32).into(),
            gap_count: (self.gaps.len() as u32).into(),
            first_column: first_column.into(),
            samples_per_column: self.samples_per_column.into(),
            kept_columns: kept_columns.into(),
            newest_ns: self.newest.map_or(NO_TIME, |(time, _)| nanos(time)).into(),
            newest_value: self.newest.map_or(f64::NAN, |(_, value)| value).into(),
            live_memory_from_ns: self.live_memory_from.map_or(NO_TIME, nanos).into(),
        };
        bytes.extend_from_slice(header.as_bytes());
        match &self.shape {
            TraceShape::Columns { extremes, means, .. } => {
                extremes.encode(bytes);
                if let Some(means) = means {
                    means::encode(means, bytes);
                }
            }
            TraceShape::Points(points) => points.iter().for_each(|point| {
                let point = layout::Point { offset_ns: point.offset_ns.into(), value: point.value.into() };
                bytes.extend_from_slice(point.as_bytes());
            }),
        }
        self.gaps.iter().for_each(|gap| bytes.extend_from_slice(gap.layout().as_bytes()));
    }

    fn decode(input: &mut Input<'_>, column_count: u32) -> Result<Self, PageFrameError> {
        let header: &layout::Trace = input.one("trace")?;
        let count = header.count.get() as usize;
        let gap_count = header.gap_count.get() as usize;
        within("gaps of one trace", gap_count, MAX_PAGE_GAPS)?;
        let time = |nanos: i64| Some(WallTime::from_nanos(nanos)).filter(|_| nanos != NO_TIME);
        let (newest, value) = (time(header.newest_ns.get()), header.newest_value.get());
        known("newest_value", value.to_bits(), newest.is_some() || value.is_nan())?;
        let trace = Self {
            index: header.index.get(),
            state: TraceState::from_code(header.state)?,
            samples_per_column: header.samples_per_column.get(),
            newest: newest.map(|time| (time, value)),
            live_memory_from: time(header.live_memory_from_ns.get()),
            shape: TraceShape::decode(input, header, count)?,
            gaps: input
                .many::<layout::Gap>("gaps", gap_count)?
                .iter()
                .map(PageGap::read)
                .collect::<Result<_, _>>()?,
        };
        trace.check(column_count)?;
        Ok(trace)
    }
}

impl TraceShape {
    fn decode(input: &mut Input<'_>, header: &layout::Trace, count: usize) -> Result<Self, PageFrameError> {
        let (kept, first) = (header.kept_columns.get(), header.first_column.get());
        match header.mode {
            MODE_COLUMNS | MODE_COLUMNS_MEAN => {
                let extremes = input.many::<layout::Extremes>("columns", count)?;
                let extremes = extremes.iter().map(|column| [column.min.get(), column.max.get()]).collect();
                let means = means::decode(input, header.mode == MODE_COLUMNS_MEAN, count)?;
                Ok(Self::Columns { kept, first, extremes: Extremes::Single(extremes), means })
            }
            MODE_COLUMNS_F64 | MODE_COLUMNS_F64_MEAN => {
                let extremes = input.many::<layout::ExtremesF64>("columns", count)?;
                let extremes = extremes.iter().map(|column| [column.min.get(), column.max.get()]).collect();
                let means = means::decode(input, header.mode == MODE_COLUMNS_F64_MEAN, count)?;
                Ok(Self::Columns { kept, first, extremes: Extremes::Double(extremes), means })
            }
            MODE_POINTS => {
                known("first_column", first, first == 0)?;
                known("kept_columns", kept, kept == 0)?;
                let point = |point: &layout::Point| PagePoint {
                    offset_ns: point.offset_ns.get(),
                    value: point.value.get(),
                };
                Ok(Self::Points(input.many("points", count)?.iter().map(point).collect()))
            }
            mode => Err(PageFrameError::Unknown { field: "mode", value: mode.into() }),
        }
    }
}

impl TraceState {
    fn from_code(code: u8) -> Result<Self, PageFrameError> {
        let states = [Self::Ok, Self::Unknown, Self::Stale, Self::Ended];
        let unknown = PageFrameError::Unknown { field: "state", value: code.into() };
        states.get(usize::from(code)).copied().ok_or(unknown)
    }
}

impl PageGap {
    fn layout(&self) -> layout::Gap {
        let several = if self.several_stages { GAP_SEVERAL_STAGES } else { 0 };
        layout::Gap {
            from_ns: self.from.as_nanos().into(),
            to_ns: self.to.as_nanos().into(),
            lost_elements: self.lost_elements.into(),
            stage: self.cause.code(),
            gap_flags: if self.apportioned { GAP_APPORTIONED | several } else { several },
            inherited_hop: self.inherited.map_or(0, |it| it.hop + 1),
            inherited_outcome: self.inherited.map_or(0, |it| outcome_code(it.outcome)),
            gap_reserved: [0; 4],
            first_index: self.first_index.into(),
            samples: self.samples.into(),
        }
    }

    fn read(gap: &layout::Gap) -> Result<Self, PageFrameError> {
        let cause = GapCause::from_code(gap.stage);
        known("gap_flags", gap.gap_flags, gap.gap_flags & !(GAP_APPORTIONED | GAP_SEVERAL_STAGES) == 0)?;
        known("gap_reserved", u64::from(gap.gap_reserved != [0; 4]), gap.gap_reserved == [0; 4])?;
        let inherited = read_inherited(gap)?;
        Ok(Self {
            from: WallTime::from_nanos(gap.from_ns.get()),
            to: WallTime::from_nanos(gap.to_ns.get()),
            lost_elements: gap.lost_elements.get(),
            cause: cause.ok_or(PageFrameError::Unknown { field: "stage", value: gap.stage.into() })?,
            apportioned: gap.gap_flags & GAP_APPORTIONED != 0,
            several_stages: gap.gap_flags & GAP_SEVERAL_STAGES != 0,
            inherited,
            first_index: gap.first_index.get(),
            samples: gap.samples.get(),
        })
    }
}

/// Returns the code of an outcome, the same as that of a gap's cause.
const fn outcome_code(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Lost(stage) => stage.code(),
        Outcome::Unexplained => CAUSE_UNEXPLAINED,
        Outcome::Unsettled => CAUSE_UNSETTLED,
    }
}

/// Reads the earlier hop of a gap: one that there can be, and only of stage `source`.
fn read_inherited(gap: &layout::Gap) -> Result<Option<Inherited>, PageFrameError> {
    let (hop, code) = (gap.inherited_hop, gap.inherited_outcome);
    let is_hop = hop == 0 || usize::from(hop) <= MAX_HOPS && gap.stage == Stage::Source.code();
    known("inherited_hop", hop, is_hop)?;
    let Some(hop) = hop.checked_sub(1) else {
        known("inherited_outcome", code, code == 0)?;
        return Ok(None);
    };
    let outcome = match code {
        CAUSE_UNSETTLED => Some(Outcome::Unsettled),
        CAUSE_UNEXPLAINED => Some(Outcome::Unexplained),
        code => Stage::from_code(code).map(Outcome::Lost),
    };
    let unknown = PageFrameError::Unknown { field: "inherited_outcome", value: code.into() };
    Ok(Some(Inherited { hop, outcome: outcome.ok_or(unknown)?, cause: None }))
}

/// The unread rest of a frame.
struct Input<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Input<'a> {
    /// Begins to read a frame of this kind; returns its head, too.
    fn begin<T: FromBytes + Immutable + KnownLayout>(
        bytes: &'a [u8],
        kind: u8,
    ) -> Result<(Self, &'a T), PageFrameError> {
        let mut input = Self { rest: bytes, total: bytes.len() };
        let header = input.one("header")?;
        let head: &layout::Head = Self { rest: bytes, total: bytes.len() }.one("header")?;
        known("magic", head.magic.get(), head.magic == PAGE_MAGIC)?;
        known("version", head.version, head.version == PAGE_VERSION)?;
        known("kind", head.kind, head.kind == kind)?;
        Ok((input, header))
    }

    fn one<T: FromBytes + Immutable + KnownLayout>(
        &mut self,
        part: &'static str,
    ) -> Result<&'a T, PageFrameError> {
        let too_short = PageFrameError::TooShort { part, actual: self.total };
        let (value, rest) = T::ref_from_prefix(self.rest).map_err(|_| too_short)?;
        self.rest = rest;
        Ok(value)
    }

    fn many<T: FromBytes + Immutable + KnownLayout>(
        &mut self,
        part: &'static str,
        count: usize,
    ) -> Result<&'a [T], PageFrameError> {
        let too_short = PageFrameError::TooShort { part, actual: self.total };
        let (values, rest) = <[T]>::ref_from_prefix_with_elems(self.rest, count).map_err(|_| too_short)?;
        self.rest = rest;
        Ok(values)
    }

    /// Reads the zeros that fill up a part of so many bytes.
    fn filling(&mut self, part: &'static str, size: usize) -> Result<(), PageFrameError> {
        let rest = self.many::<u8>(part, filling(size))?;
        known(part, u64::from(rest.iter().any(|byte| *byte != 0)), rest.iter().all(|byte| *byte == 0))
    }

    fn end(self) -> Result<(), PageFrameError> {
        if self.rest.is_empty() { Ok(()) } else { Err(PageFrameError::TooLong(self.rest.len())) }
    }
}

/// Returns the number of zeros that follow a part of so many bytes: the next one begins at a multiple of 8.
const fn filling(size: usize) -> usize {
    size.next_multiple_of(8) - size
}

/// Fills up what a part of so many bytes has appended.
fn fill(bytes: &mut Vec<u8>, size: usize) {
    bytes.resize(bytes.len() + filling(size), 0);
}

/// Writes into an encoded frame what differs between the pages that it is sent to; `dropped` is that field of the head.
fn address<T: FromBytes + IntoBytes + KnownLayout>(
    bytes: &mut [u8],
    to: FrameAddress,
    dropped: impl FnOnce(&mut T) -> &mut zerocopy::little_endian::U32,
) -> Result<(), PageFrameError> {
    let too_short = PageFrameError::TooShort { part: "header", actual: bytes.len() };
    let (header, _) = T::mut_from_prefix(bytes).map_err(|_| too_short)?;
    *dropped(header) = to.dropped_frames.into();
    let (head, _) = layout::Head::mut_from_prefix(bytes).expect("every header begins with it");
    (head.frame, head.view) = (to.frame.into(), to.view.into());
    Ok(())
}

const fn flag(set: bool, bit: u16) -> u16 {
    if set { bit } else { 0 }
}

fn known(field: &'static str, value: impl Into<u64>, is_known: bool) -> Result<(), PageFrameError> {
    if is_known { Ok(()) } else { Err(PageFrameError::Unknown { field, value: value.into() }) }
}

const fn within(what: &'static str, count: usize, limit: usize) -> Result<(), PageFrameError> {
    if count <= limit {
        Ok(())
    } else {
        Err(PageFrameError::TooMany { what, count: count as u64, limit: limit as u64 })
    }
}
