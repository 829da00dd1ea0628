//! Line charts: series of points over a linear or a logarithmic axis, with the extremes of repeats as whiskers.
//!
//! One drawing is rendered as SVG for pages and as PNG below the state of the hosts.

use plotters::chart::{ChartBuilder, LabelAreaPosition};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::element::{Circle, PathElement};
use plotters::prelude::{
    BitMapBackend, DashedLineSeries, DrawingBackend, IntoDrawingArea, LineSeries, SVGBackend,
};
use plotters::style::{Color, FontStyle, IntoFont, RGBColor, ShapeStyle, TRANSPARENT, WHITE};

use crate::canvas::{
    self, FigureError, GRID, INK, LETTER, LINE, PIXELS, ROOM, draw_header, use_font, wrapped,
};
use crate::legend::{DASH, Legend, is_dashed};

/// Size of a chart. Units: pixels of the drawing.
const WIDTH: u32 = 560;
const HEIGHT: u32 = 360;

/// Number of charts per row of a picture.
const COLUMNS: usize = 2;

/// Ratio of a linear y axis to its largest point: the legend needs the room above the lines.
const HEADROOM: f64 = 1.3;

/// Maximum number of decades at which a logarithmic axis also shows 2 and 5 of each.
const FEW_DECADES: i32 = 2;

/// Maximum number of points at which a line has dots.
const MOST_DOTS: usize = 60;

/// Colours that people with any colour vision can distinguish. Source: Okabe and Ito, "Color universal design"
/// (2008).
pub const COLOURS: [RGBColor; 7] = [
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x33, 0x33, 0x33),
];

/// A chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// Title above the chart.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Lines, in drawing and legend order.
    pub series: Vec<Series>,
}

/// An axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// Quantity, with its unit in brackets.
    pub title: String,
    /// Scale of the axis.
    pub scale: Scale,
    /// Beginning of a linear axis.
    pub from: f64,
    /// Minimum extent of a linear axis, which needs a length even if all values are zero.
    pub shortest: f64,
}

/// Scale of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Linear.
    Linear,
    /// Logarithmic; values that are not above zero are left out.
    Logarithmic,
}

/// One line.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Name in the legend; empty if another line of this colour has it.
    pub name: String,
    /// One of [`COLOURS`].
    pub colour: RGBColor,
    /// Points, in the order of the line.
    pub points: Vec<Point>,
}

/// One point of a line.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Point {
    /// Position on the x axis.
    pub x: f64,
    /// Value; NaN where there is a hole, across which the line is not drawn.
    pub y: f64,
    /// Smallest and largest of the repeats that the point represents.
    pub extremes: Option<(f64, f64)>,
    /// True if its dot is hollow: it stands out from the others.
    pub is_hollow: bool,
}

impl Chart {
    /// Returns a chart of lines, each in the next of [`COLOURS`]; none if no line has a point.
    #[must_use]
    pub fn of_lines(
        title: impl Into<String>,
        x: Axis,
        y: Axis,
        lines: impl IntoIterator<Item = (String, Vec<Point>)>,
    ) -> Option<Self> {
        let lines = lines.into_iter().zip(COLOURS.into_iter().cycle());
        let series = lines.map(|((name, points), colour)| Series { name, colour, points });
        let series: Vec<Series> = series.filter(|series| !series.points.is_empty()).collect();
        (!series.is_empty()).then(|| Self { title: title.into(), x, y, series })
    }
}

impl Point {
    /// Returns a median with its extremes.
    #[must_use]
    pub const fn spread(x: f64, median: f64, least: f64, most: f64) -> Self {
        Self { extremes: Some((least, most)), ..Self::plain(x, median) }
    }

    /// Returns a point without extremes.
    #[must_use]
    pub const fn plain(x: f64, y: f64) -> Self {
        Self { x, y, extremes: None, is_hollow: false }
    }
}

impl Axis {
    /// Returns a linear axis from zero that extends at least to `shortest`.
    pub fn linear(title: impl Into<String>, shortest: f64) -> Self {
        Self::linear_from(0.0, title, shortest)
    }

    /// Returns a linear axis that begins at `from`.
    pub fn linear_from(from: f64, title: impl Into<String>, shortest: f64) -> Self {
        Self { title: title.into(), scale: Scale::Linear, from, shortest }
    }

    /// Returns a logarithmic axis.
    pub fn logarithmic(title: impl Into<String>) -> Self {
        Self { title: title.into(), scale: Scale::Logarithmic, from: 0.0, shortest: 0.0 }
    }

    /// Returns the part of the axis that contains all values, with room above the largest on a linear one.
    fn extent(&self, values: impl Iterator<Item = f64>, room: f64) -> Extent {
        let scale = self.scale;
        match scale {
            Scale::Linear => {
                let most = values.fold(self.shortest, f64::max) * room;
                Extent { least: self.from, most, scale }
            }
            Scale::Logarithmic => {
                let (least, most) = values
                    .filter(|value| scale.has(*value))
                    .fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), value| {
                        (least.min(value), most.max(value))
                    });
                let (least, most) = if least > most { (1.0, 10.0) } else { (least, most) };
                let (first, last) = (decade_below(least), most.log10().ceil() as i32);
                Extent { least: decade(first), most: decade(last.max(first + 1)), scale }
            }
        }
    }
}

impl Scale {
    /// Returns whether a value has a position on this scale.
    fn has(self, value: f64) -> bool {
        value.is_finite() && (self == Self::Linear || value > 0.0)
    }

    /// Returns a value's position on the axis.
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Logarithmic => value.max(f64::MIN_POSITIVE).log10(),
        }
    }
}

/// Draws charts as SVG elements for a page.
///
/// # Errors
/// [`FigureError::Drawing`], only on a defect.
pub fn svgs(charts: &[Chart]) -> Result<Vec<String>, FigureError> {
    use_font();
    let draw = |chart: &Chart| {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
            chart.draw(&area, 1).map_err(|error| FigureError::Drawing(error.to_string()))?;
            area.present().map_err(|error| FigureError::Drawing(error.to_string()))?;
        }
        Ok(svg)
    };
    charts.iter().map(draw).collect()
}

/// Draws charts as one PNG picture, below a header that says where and how they were measured.
///
/// # Errors
/// [`FigureError`]; above all [`FigureError::Empty`] if there is no chart.
///
/// # Panics
/// If the charts exceed the pixel range.
pub fn png(charts: &[Chart], header: &str) -> Result<Vec<u8>, FigureError> {
    png_of_rows(&charts.chunks(COLUMNS).collect::<Vec<_>>(), header)
}

/// Draws charts as [`png()`] does, in given rows.
///
/// # Errors
/// [`FigureError`]; above all [`FigureError::Empty`] if there is no chart.
///
/// # Panics
/// If the charts exceed the pixel range.
pub fn png_of_rows(rows: &[&[Chart]], header: &str) -> Result<Vec<u8>, FigureError> {
    let small = |count: usize| u32::try_from(count).expect("a picture has few charts and lines");
    let columns =
        rows.iter().map(|row| row.len()).max().filter(|most| *most > 0).ok_or(FigureError::Empty)?;
    let lines = wrapped(header, small(columns) * WIDTH / LETTER);
    let header_height = (small(lines.len()) * LINE + ROOM) * PIXELS;
    let size = (WIDTH * small(columns) * PIXELS, HEIGHT * small(rows.len()) * PIXELS + header_height);
    let mut pixels = vec![0xff; size.0 as usize * size.1 as usize * 3];
    {
        use_font();
        let failed = |error: DrawingAreaErrorKind<_>| FigureError::Drawing(error.to_string());
        let area = BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area();
        let (header, figures) = area.split_vertically(header_height);
        draw_header(&header, &lines).map_err(failed)?;
        for (cells, row) in figures.split_evenly((rows.len(), columns)).chunks(columns).zip(rows) {
            cells.iter().zip(*row).try_for_each(|(cell, chart)| chart.draw(cell, PIXELS)).map_err(failed)?;
        }
        area.present().map_err(failed)?;
    }
    canvas::encode(&pixels, size)
}

impl Chart {
    /// Draws the chart; `scale` is the number of pixels of the area per pixel of the drawing.
    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        scale: u32,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        area.fill(&WHITE)?;
        let legend = Legend::of(&self.series);
        let (area, beside) = match legend.width_beside() {
            Some(width) => {
                let (plot, beside) = area.split_horizontally(area.dim_in_pixel().0 - width * scale);
                (plot, Some(beside))
            }
            None => (area.clone(), None),
        };
        let points = || self.series.iter().flat_map(|series| &series.points);
        let ys = points().flat_map(|point| {
            let (least, most) = point.extremes.unwrap_or((point.y, point.y));
            [point.y, least, most]
        });
        let (x_extent, y_extent) =
            (self.x.extent(points().map(|point| point.x), 1.0), self.y.extent(ys, HEADROOM));
        let mut chart = ChartBuilder::on(&area)
            .margin(14 * scale)
            .caption(&self.title, ("sans-serif", 16 * scale, FontStyle::Bold).into_font().color(&INK))
            .set_label_area_size(LabelAreaPosition::Left, 72 * scale)
            .set_label_area_size(LabelAreaPosition::Bottom, 42 * scale)
            .build_cartesian_2d(x_extent, y_extent)?;
        let thin = |colour: RGBColor| ShapeStyle { color: colour.into(), filled: false, stroke_width: scale };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(thin(GRID))
            .light_line_style(TRANSPARENT)
            .axis_style(thin(INK))
            .label_style(("sans-serif", 12 * scale).into_font().color(&INK))
            .axis_desc_style(("sans-serif", 13 * scale).into_font().color(&INK))
            .x_desc(&self.x.title)
            .y_desc(&self.y.title)
            .x_label_formatter(&|value| short(*value))
            .y_label_formatter(&|value| short(*value))
            .draw()?;
        for (number, series) in self.series.iter().enumerate() {
            let is_dashed = is_dashed(&self.series, number);
            let style = ShapeStyle { color: series.colour.into(), filled: false, stroke_width: 2 * scale };
            for (index, piece) in series.pieces().enumerate() {
                let places = self.placed(piece).map(|point| (point.x, point.y));
                // A line of one point needs a dot to be visible; on a curve of many points the dots would hide the line.
                let dot = if piece.len() <= MOST_DOTS { 2 * scale } else { 0 };
                let drawn = if is_dashed {
                    let places: Vec<(f64, f64)> = places.collect();
                    let dots = places
                        .clone()
                        .into_iter()
                        .filter(|_| dot > 0)
                        .map(|place| Circle::new(place, dot, style.color.filled()));
                    chart.draw_series(dots)?;
                    let (dash, space) = (DASH * scale, DASH * scale);
                    chart.draw_series(DashedLineSeries::new(places, dash, space, style))?
                } else {
                    chart.draw_series(LineSeries::new(places, style).point_size(dot))?
                };
                if index == 0 && !series.name.is_empty() {
                    drawn
                        .label(series.name.clone())
                        .legend(move |(x, y)| PathElement::new([(x, y), (x + 16 * scale as i32, y)], style));
                }
            }
            let whiskers = self.placed(&series.points).filter_map(|Point { x, extremes, .. }| {
                let (least, most) = extremes.filter(|(least, _)| self.y.scale.has(*least))?;
                Some(PathElement::new([(x, least), (x, most)], thin(series.colour)))
            });
            chart.draw_series(whiskers)?;
            let hollow = self.placed(&series.points).filter(|point| point.is_hollow);
            let dots = hollow.flat_map(|Point { x, y, .. }| {
                let dot = |size: u32, colour: RGBColor| Circle::new((x, y), size * scale, colour.filled());
                [dot(4, series.colour), dot(3, WHITE)]
            });
            chart.draw_series(dots)?;
        }
        if let Some(beside) = beside {
            return legend.draw(&beside, scale);
        }
        if self.series.iter().all(|series| series.name.is_empty()) {
            // Without names the legend would be an empty box.
            return Ok(());
        }
        let (width, height) = chart.plotting_area().dim_in_pixel();
        let line = |series: &Series| {
            let share = |point: Point| (x_extent.share(point.x), 1.0 - y_extent.share(point.y));
            self.placed(&series.points).map(share).collect()
        };
        let lines: Vec<Vec<(f64, f64)>> = self.series.iter().map(line).collect();
        chart
            .configure_series_labels()
            .position(legend.corner(&lines, (width / scale, height / scale)))
            .margin(8 * scale)
            .legend_area_size(22 * scale)
            .background_style(WHITE.mix(0.85))
            .border_style(thin(GRID))
            .label_font(("sans-serif", 12 * scale).into_font().color(&INK))
            .draw()
    }

    /// Returns the points that have a position on both axes.
    fn placed<'a>(&'a self, points: &'a [Point]) -> impl Iterator<Item = Point> + 'a {
        points.iter().copied().filter(|point| self.x.scale.has(point.x) && self.y.scale.has(point.y))
    }
}

impl Series {
    /// Returns the segments between holes; a line without holes is one segment.
    fn pieces(&self) -> impl Iterator<Item = &[Point]> {
        self.points.split(|point| point.y.is_nan())
    }
}

/// Part of an axis that is shown.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Extent {
    least: f64,
    most: f64,
    scale: Scale,
}

impl Ranged for Extent {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        first + (f64::from(last - first) * self.share(*value)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self.scale {
            Scale::Linear => RangedCoordf64::from(self.least..self.most).key_points(hint),
            Scale::Logarithmic => self.magnitudes(hint.max_num_points()),
        }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.least..self.most
    }
}

impl Extent {
    /// Returns the part of the axis before a value.
    fn share(&self, value: f64) -> f64 {
        let place = |value| self.scale.place(value);
        (place(value) - place(self.least)) / (place(self.most) - place(self.least))
    }

    /// Returns the labels of a logarithmic axis: powers of ten, and 2 and 5 of each if there are few decades.
    fn magnitudes(&self, at_most: usize) -> Vec<f64> {
        let (first, last) = (self.least.log10().round() as i32, self.most.log10().round() as i32);
        let steps: &[f64] = if last - first <= FEW_DECADES { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let all: Vec<f64> = (first..=last)
            .flat_map(|power| steps.iter().map(move |step| step * decade(power)))
            .filter(|value| *value <= self.most)
            .collect();
        let every = all.len().div_ceil(at_most.max(1)).max(1);
        all.into_iter().step_by(every).collect()
    }
}

fn decade(power: i32) -> f64 {
    10_f64.powi(power)
}

fn decade_below(value: f64) -> i32 {
    value.log10().floor() as i32
}

/// Formats an axis value without the residue of binary fractions, large ones with a magnitude.
fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        1e9.. => (value / 1e9, "G"),
        1e6.. => (value / 1e6, "M"),
        1e4.. => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = if value.abs() < 0.01 { 6 } else { 3 };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Scale) -> Chart {
        let axis = |title: &str| Axis { title: title.to_owned(), scale, from: 0.0, shortest: 0.01 };
        let point = |x, y: f64| Point::spread(x, y, y * 0.5, y * 2.0);
        let series = Series {
            name: "a <line>".to_owned(),
            colour: COLOURS[0],
            points: vec![point(1.0, 3.0), point(1_000_000.0, 40.0), Point::plain(0.0, 0.0)],
        };
        Chart { title: "A chart".to_owned(), x: axis("size [B]"), y: axis("time [ms]"), series: vec![series] }
    }

    #[test]
    fn an_svg_has_its_axes_a_legend_and_a_dot_for_every_point_that_has_a_place() {
        for (scale, places) in [(Scale::Linear, 3), (Scale::Logarithmic, 2)] {
            let svg = svgs(&[chart(scale)]).unwrap().remove(0);
            assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
            assert!(svg.contains("size [B]") && svg.contains("time [ms]") && svg.contains("a &lt;line&gt;"));
            assert_eq!(svg.matches("<circle").count(), places, "{scale:?}");
        }
    }

    #[test]
    fn a_curve_of_many_points_is_a_line_without_dots() {
        let mut chart = chart(Scale::Linear);
        chart.series[0].points = (0..200).map(|x| Point::plain(f64::from(x), 1.0)).collect();
        assert_eq!(svgs(&[chart]).unwrap()[0].matches("<circle").count(), 0);
    }

    #[test]
    fn what_has_no_name_has_no_legend() {
        let mut chart = chart(Scale::Linear);
        let boxes = |chart: &Chart| svgs(std::slice::from_ref(chart)).unwrap()[0].matches("<rect").count();
        let named = boxes(&chart);
        chart.series[0].name.clear();
        assert!(boxes(&chart) < named);
    }

    #[test]
    fn a_line_is_not_drawn_across_a_hole() {
        let mut chart = chart(Scale::Linear);
        let lines =
            |chart: &Chart| svgs(std::slice::from_ref(chart)).unwrap()[0].matches("<polyline").count();
        let whole = lines(&chart);
        chart.series[0].points.insert(1, Point::plain(500.0, f64::NAN));
        chart.series[0].points.push(Point::plain(700.0, 3.0));
        assert_eq!(lines(&chart), whole + 1, "one piece on each side");
    }

    #[test]
    fn a_logarithmic_axis_begins_and_ends_with_a_power_of_ten() {
        let axis = Axis::logarithmic("size");
        let extent = |values: &[f64]| {
            let Extent { least, most, .. } = axis.extent(values.iter().copied(), 1.0);
            (least, most)
        };
        assert_eq!(extent(&[1.0, 9_288_586.0]), (1.0, 1e7));
        assert_eq!(extent(&[20.0, 30.0]), (10.0, 100.0));
        assert_eq!(extent(&[100.0]), (100.0, 1_000.0));
        assert_eq!(extent(&[0.0, -3.0]), (1.0, 10.0), "nothing has a place");
        let shown = axis.extent([1.0, 1e7].into_iter(), 1.0);
        assert_eq!(shown.magnitudes(20).len(), 8);
        assert_eq!(
            (shown.map(&1.0, (0, 700)), shown.map(&1e3, (0, 700)), shown.map(&1e7, (0, 700))),
            (0, 300, 700)
        );
        assert!(shown.magnitudes(3).len() <= 3);
    }

    #[test]
    fn a_linear_axis_where_all_is_zero_still_has_a_length_and_begins_where_it_is_told() {
        let extent = Axis::linear("lost", 0.01).extent([0.0].into_iter(), HEADROOM);
        assert!(extent.most > 0.0);
        assert_eq!(extent.map(&0.0, (10, 20)), 10);
        let from = Axis::linear_from(9.0, "time", 15.0).extent([10.0].into_iter(), 1.0);
        assert_eq!((from.range(), from.map(&9.0, (10, 20))), (9.0..15.0, 10));
    }

    #[test]
    fn a_hollow_dot_is_white_within_its_rim() {
        let mut chart = chart(Scale::Linear);
        chart.series[0].points[0].is_hollow = true;
        let svg = svgs(&[chart]).unwrap().remove(0);
        assert_eq!(svg.matches("<circle").count(), 3 + 2);
    }

    #[test]
    fn a_picture_of_several_charts_is_one_and_nothing_has_none() {
        let picture = png(&vec![chart(Scale::Logarithmic); 3], "where it was measured\nand how").unwrap();
        assert_eq!(&picture[1..4], b"PNG");
        assert!(picture.len() > 10_000, "{} bytes", picture.len());
        assert_eq!(png(&[], "nowhere"), Err(FigureError::Empty));
    }

    #[test]
    fn values_of_an_axis_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (0.000_2, "0.0002"),
            (100.0, "100"),
            (2_000.0, "2000"),
            (10_000.0, "10k"),
            (5_000_000.0, "5M"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
