//! A small picture of a span: for wikis, mails and terminals that cannot run a page.
//!
//! Drawn like the page draws: minimum to maximum in every column, holes hatched in their stage's colour, no
//! line across a hole. Start with [`to_png`].

use ledger::Stage;
use wire::GapCause;

use crate::range::Span;

/// The largest picture.
pub(crate) const MAX_SIDE: u32 = 2_048;

type Colour = [u8; 3];

const BACKGROUND: Colour = [0x10, 0x14, 0x1a];
const MIDDLE: Colour = [0x26, 0x2d, 0x36];
const TRACE: Colour = [0x5a, 0xc8, 0xfa];
/// Distance between two lines of a hatching, in pixels.
const HATCH: u32 = 6;
/// Room above and below the trace, as a share of the height.
const MARGIN: f64 = 0.08;

/// Returns the span as a PNG of one pixel column for each of its columns.
///
/// # Errors
/// Error of the PNG library, which does not occur for a picture in memory.
pub(crate) fn to_png(span: &Span, height: u32) -> Result<Vec<u8>, png::EncodingError> {
    let mut canvas = Canvas::new(span.columns.len() as u32, height.max(1));
    for x in 0..canvas.width {
        canvas.set(x, canvas.height / 2, MIDDLE);
    }
    hatch(span, &mut canvas);
    trace(span, &mut canvas);
    canvas.encode()
}

/// Hatches every hole over the full height; one narrower than a pixel still has its pixel.
fn hatch(span: &Span, canvas: &mut Canvas) {
    for gap in &span.gaps {
        let (first, end) = (column_of(span, gap.from.as_nanos()), column_of(span, gap.to.as_nanos()));
        let colour = colour_of(gap.cause());
        for x in first..end.max(first + 1).min(canvas.width) {
            for y in (0..canvas.height).filter(|y| (x + y).is_multiple_of(HATCH)) {
                canvas.set(x, y, colour);
            }
        }
    }
}

fn trace(span: &Span, canvas: &mut Canvas) {
    let Some(scale) = Scale::of(span, canvas.height) else { return };
    // Where samples are rarer than pixels, a sample at most this far behind its predecessor is joined to it.
    let reach = (1.5 / span.samples_per_column.max(f32::MIN_POSITIVE)).max(1.0);
    let mut before: Option<(u32, f32, f32)> = None;
    for (x, column) in (0..).zip(&span.columns).filter(|(_, column)| column.min.is_finite()) {
        let (mut top, mut bottom) = (scale.y(column.max), scale.y(column.min));
        if let Some((at, upper, lower)) = before.filter(|(at, ..)| (x - at) as f32 <= reach) {
            let hole = span.columns[at as usize..=x as usize].iter().any(|between| between.has_hole());
            if x - at == 1 && !hole {
                // Neighbours touch, so that a steep flank is one line.
                (top, bottom) = (top.min(lower), bottom.max(upper));
            } else if !hole {
                canvas.line((at, (upper + lower) / 2.0), (x, (top + bottom) / 2.0));
            }
        }
        canvas.vertical(x, top, bottom);
        before = Some((x, scale.y(column.max), scale.y(column.min)));
    }
}

fn column_of(span: &Span, nanos: i64) -> u32 {
    let offset = nanos.saturating_sub(span.grid.from.as_nanos()).max(0).unsigned_abs();
    u32::try_from(offset / span.grid.column_ns).unwrap_or(u32::MAX - 1)
}

/// Same colours per stage as on the page.
fn colour_of(cause: GapCause) -> Colour {
    match cause {
        GapCause::Unexplained => [0xf2, 0xf2, 0xf2],
        GapCause::Unsettled | GapCause::Absent => [0x70, 0x78, 0x82],
        GapCause::Stage(Stage::Injected) => [0x2f, 0xb3, 0x7a],
        GapCause::Stage(stage) => match stage {
            Stage::Source | Stage::PublisherQueue | Stage::PublisherPaused => [0x3d, 0x8b, 0xe0],
            Stage::SenderSocket | Stage::SenderIp | Stage::SenderQdisc | Stage::SenderNic => {
                [0xe6, 0x9f, 0x00]
            }
            Stage::Network => [0xe3, 0x4a, 0x33],
            Stage::ReaderLag | Stage::Deadline => [0xe8, 0xd0, 0x3a],
            Stage::Browser | Stage::ArchiveWrite => [0x9a, 0xa2, 0xac],
            _ => [0xa9, 0x7b, 0xd6],
        },
    }
}

/// Values to rows: the largest on top, with some room.
struct Scale {
    max: f64,
    per_unit: f64,
    margin: f64,
}

impl Scale {
    fn of(span: &Span, height: u32) -> Option<Self> {
        let drawn = || span.columns.iter().filter(|column| column.min.is_finite() && column.max.is_finite());
        let min = drawn().map(|column| column.min).reduce(f64::min)?;
        let max = drawn().map(|column| column.max).reduce(f64::max)?;
        let height = f64::from(height.saturating_sub(1));
        // A constant is drawn in the middle.
        let (max, extent) = if max > min { (max, max - min) } else { (max + 0.5, 1.0) };
        Some(Self { max, per_unit: height * (1.0 - 2.0 * MARGIN) / extent, margin: height * MARGIN })
    }

    fn y(&self, value: f64) -> f32 {
        // Differences first: what is left fits a picture's side.
        ((self.max - value) * self.per_unit + self.margin) as f32
    }
}

struct Canvas {
    width: u32,
    height: u32,
    pixels: Vec<u8>,
}

impl Canvas {
    fn new(width: u32, height: u32) -> Self {
        Self { width, height, pixels: BACKGROUND.repeat((width * height) as usize) }
    }

    fn set(&mut self, x: u32, y: u32, colour: Colour) {
        if x < self.width && y < self.height {
            let start = ((y * self.width + x) * 3) as usize;
            self.pixels[start..start + 3].copy_from_slice(&colour);
        }
    }

    fn vertical(&mut self, x: u32, top: f32, bottom: f32) {
        // Float to integer saturates: values outside are cut at the edge.
        for y in top.round() as u32..=(bottom.round() as u32).min(self.height) {
            self.set(x, y, TRACE);
        }
    }

    fn line(&mut self, from: (u32, f32), to: (u32, f32)) {
        let slope = (to.1 - from.1) / (to.0 - from.0).max(1) as f32;
        for x in from.0..=to.0 {
            let y = from.1 + slope * (x - from.0) as f32;
            self.vertical(x, y.min(y + slope), y.max(y + slope));
        }
    }

    fn encode(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.pixels)?;
        writer.finish()?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gap_map::KnownGap;
    use crate::scene;
    use ledger::StageCounts;
    use sample::{Column, ColumnGrid};
    use std::sync::Arc;
    use units::WallTime;

    fn pixels(png: &[u8]) -> Vec<Vec<Colour>> {
        let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        let colour = |pixel: &[u8]| [pixel[0], pixel[1], pixel[2]];
        bytes.chunks(info.width as usize * 3).map(|row| row.chunks(3).map(colour).collect()).collect()
    }

    fn span(values: &[f64]) -> Span {
        let column = |value: &f64| {
            let mut column = Column::EMPTY;
            if !value.is_nan() {
                column.take(&[*value]);
            }
            column
        };
        Span {
            unit: String::new(),
            grid: ColumnGrid { from: WallTime::from_nanos(0), column_ns: 10, count: values.len() as u32 },
            samples_per_column: 1.0,
            columns: values.iter().map(column).collect(),
            gaps: Vec::new(),
            origin: "live",
        }
    }

    #[test]
    fn the_largest_value_is_on_top_and_neighbours_touch() {
        let picture = pixels(&to_png(&span(&[0.0, 10.0, 0.0]), 50).unwrap());
        let drawn: Vec<usize> = (0..50).filter(|row| picture[*row][1] == TRACE).collect();
        assert_eq!((drawn[0], drawn.len()), (4, 42), "from the peak down to both neighbours");
        assert_eq!((picture.len(), picture[0].len()), (50, 3));
    }

    #[test]
    fn a_small_signal_on_a_large_offset_keeps_its_shape() {
        let rows = |offset: f64| {
            let values: Vec<f64> =
                [0.0, 1.0, 2.0, 1.0, 0.0].iter().map(|step| offset + step / 1_024.0).collect();
            pixels(&to_png(&span(&values), 50).unwrap())
        };
        assert_eq!(rows(499_654_096.0), rows(0.0));
    }

    #[test]
    fn a_hole_is_hatched_and_nothing_is_drawn_across_it() {
        let mut span = span(&[5.0, f64::NAN, f64::NAN, 5.0]);
        let info = scene::info("lab/x", 1);
        let mut gap = KnownGap::from(&scene::gap(&info, 1, 0..2, StageCounts::of(Stage::Injected, 2)));
        (gap.from, gap.to) = (WallTime::from_nanos(10), WallTime::from_nanos(30));
        span.gaps.push(Arc::new(gap));
        let picture = pixels(&to_png(&span, 20).unwrap());
        let has = |x: usize, colour| picture.iter().any(|row| row[x] == colour);
        let injected = colour_of(GapCause::Stage(Stage::Injected));
        assert!(has(1, injected) && has(2, injected) && !has(0, injected) && !has(3, injected));
        assert!(has(0, TRACE) && has(3, TRACE) && !has(1, TRACE) && !has(2, TRACE));
    }

    #[test]
    fn an_empty_span_is_a_picture_too() {
        let picture = pixels(&to_png(&span(&[f64::NAN; 8]), 8).unwrap());
        assert!(picture.iter().flatten().all(|pixel| *pixel != TRACE));
    }
}
