//! A frame that shows vectors over time: the columns that the page does not have yet.
//!
//! Start with [`WaterfallFrame`]; what a column is, is decided by [`sample::WaterfallColumn`].

use std::sync::Arc;

use sample::{Plane, WaterfallColumn};
use units::WallTime;
use zerocopy::IntoBytes;

use super::{
    FrameAddress, Input, KIND_WATERFALL, MAX_PAGE_COLUMNS, NO_TIME, PAGE_MAGIC, PAGE_VERSION, PageFrameError,
    TraceState, address, fill, flag, known, layout, within,
};

/// Maximum number of values of a frame: 1 MB, half a second of what a viewer gets.
pub const MAX_WATERFALL_VALUES: u32 = 1 << 18;

const FLAG_LIVE: u8 = 1;
const FLAG_THINNED_FURTHER: u8 = 2;
const FLAG_ANEW: u8 = 4;
const FLAG_SHORT: u8 = 8;
const FLAG_NEAREST: u8 = 16;

/// The columns of a waterfall that are new or have changed, and its window.
#[derive(Clone, PartialEq, Debug)]
pub struct WaterfallFrame {
    /// Number of the frame in its connection, from 0; the page's credit refers to it.
    pub frame: u32,
    /// The view requested by the page.
    pub view: u32,
    /// State of its stream.
    pub state: TraceState,
    /// True if the view follows the newest data.
    pub live: bool,
    /// True if its columns are wider than its size asks for, because the viewer is slow.
    pub thinned_further: bool,
    /// True if the page is to forget the columns that it has.
    pub anew: bool,
    /// True if fewer columns are kept than usual, because other waterfalls take the memory.
    pub short_of_memory: bool,
    /// Time by the server's clock.
    pub now: WallTime,
    /// Number of the window's first column: column `n` is the time from `n · column_ns` up to, not including, its
    /// successor.
    pub first: i64,
    /// The width of a column in nanoseconds.
    pub column_ns: u64,
    /// Number of columns of the window.
    pub count: u32,
    /// Number of bins of a column; 0 of an unknown channel.
    pub bins: u32,
    /// Number of neighbouring elements that are one bin.
    pub block: u32,
    /// Number of elements of a row.
    pub elements: u32,
    /// Number of rows of which a bin is the maximum.
    pub rows: u32,
    /// Number of matrices in a sample.
    pub planes: u32,
    /// The one of them that is shown.
    pub plane: Plane,
    /// Number of frames not sent to this viewer since it connected.
    pub dropped_frames: u32,
    /// Time from which live memory has these columns; older ones come from the archive.
    pub live_memory_from: Option<WallTime>,
    /// Columns of the window that the page does not have, in the order of time.
    pub columns: Vec<WaterfallColumn>,
}

impl WaterfallFrame {
    /// Appends the frame.
    ///
    /// Cost: one pass, at most one allocation.
    ///
    /// # Errors
    /// [`PageFrameError::TooMany`], with nothing appended.
    ///
    /// # Panics
    /// If a column is not of the window, comes before the one before it, or has another number of bins.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), PageFrameError> {
        within("columns", self.count as usize, MAX_PAGE_COLUMNS as usize)?;
        within("columns", self.columns.len(), self.count as usize)?;
        let values: usize = self.columns.iter().map(|column| column.bins.len()).sum();
        within("values", values, MAX_WATERFALL_VALUES as usize)?;
        let flags = flag(self.live, FLAG_LIVE.into())
            | flag(self.thinned_further, FLAG_THINNED_FURTHER.into())
            | flag(self.anew, FLAG_ANEW.into())
            | flag(self.short_of_memory, FLAG_SHORT.into())
            | flag(self.plane.is_nearest, FLAG_NEAREST.into());
        let header = layout::Waterfall {
            magic: PAGE_MAGIC.into(),
            version: PAGE_VERSION,
            kind: KIND_WATERFALL,
            frame: self.frame.into(),
            view: self.view.into(),
            state: self.state as u8,
            waterfall_flags: flags as u8,
            waterfall_reserved: 0.into(),
            now_ns: self.now.as_nanos().into(),
            first_column: self.first.into(),
            column_ns: self.column_ns.into(),
            column_count: self.count.into(),
            sent_columns: (self.columns.len() as u32).into(),
            bins: self.bins.into(),
            bin_elements: self.block.into(),
            elements: self.elements.into(),
            rows: self.rows.into(),
            planes: self.planes.into(),
            dropped_frames: self.dropped_frames.into(),
            live_memory_from_ns: self.live_memory_from.map_or(NO_TIME, WallTime::as_nanos).into(),
            plane: self.plane.number.into(),
            plane_reserved: 0.into(),
        };
        bytes.extend_from_slice(header.as_bytes());
        let mut least = 0;
        for column in &self.columns {
            let place = u32::try_from(column.number - self.first).expect("a column of the window");
            assert!((least..self.count).contains(&place), "columns in the order of time");
            let bins = if column.present == 0 { 0 } else { self.bins as usize };
            assert_eq!(column.bins.len(), bins, "the window's bins");
            least = place + 1;
            let of = layout::WaterfallColumn {
                place: place.into(),
                present: u32::try_from(column.present).unwrap_or(u32::MAX).into(),
                expected: u32::try_from(column.expected).unwrap_or(u32::MAX).into(),
                column_reserved: 0.into(),
            };
            bytes.extend_from_slice(of.as_bytes());
        }
        let all = self.columns.iter().flat_map(|column| column.bins.iter());
        bytes.extend(all.flat_map(|value| value.to_le_bytes()));
        fill(bytes, values * size_of::<f32>());
        Ok(())
    }

    /// Writes into an encoded frame what differs between the pages that it is sent to.
    ///
    /// # Errors
    /// [`PageFrameError`] for bytes that are shorter than the head of a frame.
    pub fn address(bytes: &mut [u8], to: FrameAddress) -> Result<(), PageFrameError> {
        address(bytes, to, |head: &mut layout::Waterfall| &mut head.dropped_frames)
    }

    /// Reads a frame; every accepted frame encodes to the same bytes again, except for the bits of a NaN.
    ///
    /// # Errors
    /// [`PageFrameError`] for all bytes other than a complete, known frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, PageFrameError> {
        let (mut input, header) = Input::begin::<layout::Waterfall>(bytes, KIND_WATERFALL)?;
        let flags = header.waterfall_flags;
        let all = FLAG_LIVE | FLAG_THINNED_FURTHER | FLAG_ANEW | FLAG_SHORT | FLAG_NEAREST;
        known("waterfall_flags", flags, flags & !all == 0)?;
        known("waterfall_reserved", header.waterfall_reserved.get(), header.waterfall_reserved == 0)?;
        let (bins, block, elements) = (header.bins.get(), header.bin_elements.get(), header.elements.get());
        known("bins", bins, block > 0 && elements.div_ceil(block) == bins)?;
        let (count, sent) = (header.column_count.get(), header.sent_columns.get() as usize);
        within("columns", count as usize, MAX_PAGE_COLUMNS as usize)?;
        within("columns", sent, count as usize)?;
        let first = header.first_column.get();
        known("first_column", first.cast_unsigned(), first.checked_add(count.into()).is_some())?;
        let plane = Plane { number: header.plane.get(), is_nearest: flags & FLAG_NEAREST != 0 };
        let is_there = plane.number < header.planes.get() || plane == Plane::default();
        known("plane", plane.number, is_there)?;
        known("plane_reserved", header.plane_reserved.get(), header.plane_reserved == 0)?;
        let columns = read_columns(&mut input, header)?;
        input.end()?;
        let from = header.live_memory_from_ns.get();
        Ok(Self {
            frame: header.frame.get(),
            view: header.view.get(),
            state: TraceState::from_code(header.state)?,
            live: flags & FLAG_LIVE != 0,
            thinned_further: flags & FLAG_THINNED_FURTHER != 0,
            anew: flags & FLAG_ANEW != 0,
            short_of_memory: flags & FLAG_SHORT != 0,
            now: WallTime::from_nanos(header.now_ns.get()),
            first,
            column_ns: header.column_ns.get(),
            count,
            bins,
            block,
            elements,
            rows: header.rows.get(),
            planes: header.planes.get(),
            plane,
            dropped_frames: header.dropped_frames.get(),
            live_memory_from: Some(WallTime::from_nanos(from)).filter(|_| from != NO_TIME),
            columns,
        })
    }
}

fn read_columns(
    input: &mut Input<'_>,
    header: &layout::Waterfall,
) -> Result<Vec<WaterfallColumn>, PageFrameError> {
    let (count, bins) = (header.column_count.get(), header.bins.get() as usize);
    let of = input.many::<layout::WaterfallColumn>("columns", header.sent_columns.get() as usize)?;
    let mut least = 0;
    for column in of {
        let place = column.place.get();
        known("place", place, place >= least && place < count)?;
        let (present, expected) = (column.present.get(), column.expected.get());
        known("present", present, present <= expected)?;
        known("column_reserved", column.column_reserved.get(), column.column_reserved == 0)?;
        least = place + 1;
    }
    let values = of.iter().filter(|column| column.present > 0).count().saturating_mul(bins);
    within("values", values, MAX_WATERFALL_VALUES as usize)?;
    let all = input.many::<zerocopy::byteorder::little_endian::F32>("values", values)?;
    input.filling("values", values * size_of::<f32>())?;
    let mut parts = all.chunks_exact(bins.max(1));
    let column = |column: &layout::WaterfallColumn| {
        let part = if column.present > 0 { parts.next() } else { None };
        let bins: Arc<[f32]> = part.unwrap_or_default().iter().map(|value| value.get()).collect();
        WaterfallColumn {
            number: header.first_column.get() + i64::from(column.place.get()),
            present: column.present.get().into(),
            expected: column.expected.get().into(),
            bins,
        }
    };
    Ok(of.iter().map(column).collect())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Coded, NOON, assert_cut_is_refused, assert_golden};
    use super::*;
    use units::Random;

    const COLUMNS: &str = include_str!("../../../../../docs/protocol/golden/waterfall-columns.hex");
    const UNKNOWN: &str = include_str!("../../../../../docs/protocol/golden/waterfall-unknown.hex");

    fn column(number: i64, present: u64, expected: u64, bins: &[f32]) -> WaterfallColumn {
        WaterfallColumn { number, present, expected, bins: bins.into() }
    }

    /// A following view of spectra of 5 bins, two of which are one; the second column of three is a hole.
    fn columns() -> WaterfallFrame {
        let first = NOON.as_nanos() >> 30;
        WaterfallFrame {
            frame: 41,
            view: 7,
            state: TraceState::Ok,
            live: true,
            thinned_further: false,
            anew: true,
            short_of_memory: false,
            now: NOON,
            first,
            column_ns: 1 << 30,
            count: 600,
            bins: 3,
            block: 2,
            elements: 5,
            rows: 1,
            planes: 4,
            plane: Plane { number: 3, is_nearest: true },
            dropped_frames: 3,
            live_memory_from: Some(NOON.offset(-60_000_000_000)),
            columns: vec![
                column(first, 10, 11, &[20.5, f32::NAN, -3.25]),
                column(first + 1, 0, 11, &[]),
                column(first + 599, 1, 1, &[0.0, f32::NEG_INFINITY, 1.0]),
            ],
        }
    }

    fn unknown() -> WaterfallFrame {
        WaterfallFrame {
            state: TraceState::Unknown,
            live: false,
            thinned_further: true,
            short_of_memory: true,
            bins: 0,
            block: 1,
            elements: 0,
            rows: 0,
            planes: 0,
            plane: Plane::default(),
            live_memory_from: None,
            columns: Vec::new(),
            ..columns()
        }
    }

    #[test]
    fn golden_frames_are_written_and_read_byte_for_byte() {
        assert_golden(&[(columns(), COLUMNS), (unknown(), UNKNOWN)]);
    }

    #[test]
    fn a_frame_addressed_to_a_page_is_the_frame_made_for_it() {
        let mut bytes = columns().encoded();
        WaterfallFrame::address(&mut bytes, FrameAddress { frame: 7, view: 3, dropped_frames: 11 }).unwrap();
        assert_eq!(bytes, WaterfallFrame { frame: 7, view: 3, dropped_frames: 11, ..columns() }.encoded());
    }

    #[test]
    fn a_frame_cut_anywhere_is_refused() {
        assert_cut_is_refused(&[columns(), unknown()]);
    }

    #[test]
    fn a_plane_that_is_not_there_is_refused() {
        for (frame, number) in [(columns(), 4), (unknown(), 1)] {
            let mut bytes = frame.encoded();
            bytes[80] = number;
            assert!(WaterfallFrame::decode(&bytes).unwrap_err().to_string().contains("`plane`"));
        }
    }

    #[test]
    fn every_accepted_frame_is_written_again_as_it_was() {
        let whole = columns().encoded();
        let mut random = Random::new(3);
        let mut accepted = 0;
        for _ in 0..20_000 {
            let mut changed = whole.clone();
            changed[random.below(whole.len() as u64) as usize] ^= 1 << random.below(8);
            if let Ok(frame) = WaterfallFrame::decode(&changed) {
                accepted += 1;
                assert_eq!(frame.encoded(), changed);
            }
        }
        assert!(accepted > 1_000);
    }

    #[test]
    fn both_sides_of_the_limits() {
        let bins = MAX_WATERFALL_VALUES / 4;
        let of = |count: i64| {
            let number = |place: i64| columns().first + place;
            let each = |place| column(number(place), 1, 1, &vec![0.0; bins as usize]);
            WaterfallFrame {
                bins,
                block: 1,
                elements: bins,
                columns: (0..count).map(each).collect(),
                ..columns()
            }
        };
        assert!(of(4).encode(&mut Vec::new()).is_ok());
        assert!(of(5).encode(&mut Vec::new()).is_err());
        let wide = WaterfallFrame { count: MAX_PAGE_COLUMNS, ..columns() };
        assert!(wide.encode(&mut Vec::new()).is_ok());
        let wider = WaterfallFrame { count: MAX_PAGE_COLUMNS + 1, ..columns() };
        assert!(wider.encode(&mut Vec::new()).is_err());
    }
}
