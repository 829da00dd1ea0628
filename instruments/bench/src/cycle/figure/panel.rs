//! One panel: axes, the points of one or more transports, their medians.

use drawing::FigureError;
use drawing::canvas::{GRID, INK};
use plotters::chart::{ChartBuilder, LabelAreaPosition, SeriesLabelPosition};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::DrawingArea;
use plotters::element::{EmptyElement, PathElement};
use plotters::prelude::{Cartesian2d, ChartContext, Circle, DashedLineSeries, DrawingBackend, LineSeries};
use plotters::style::{Color, FontStyle, IntoFont, RGBColor, ShapeStyle};
use units::text::grouped;

use crate::cycle::report::{Found, Report};
use crate::cycle::transport::Transport;

/// Size of a panel. Units: pixels of the drawing.
pub(super) const WIDTH: u32 = 560;
pub(super) const HEIGHT: u32 = 400;

/// Distance between the points of two transports, so that neither hides the other. Units: parts of the x axis.
const APART: f64 = 0.006;

/// Factor from the largest point to the end of the y axis: the legend is above the points.
const HEADROOM: f64 = 1.3;

/// Content of one panel.
#[derive(Clone, PartialEq, Debug)]
pub struct Panel {
    title: String,
    cpus: Option<f64>,
    curves: Vec<Curve>,
    /// The limit of the search, where it was reached. Units: elements.
    limit: Option<f64>,
}

/// Points of one transport.
#[derive(Clone, PartialEq, Debug)]
struct Curve {
    transport: Transport,
    columns: Vec<Column>,
}

/// Results at one cycle time.
#[derive(Clone, PartialEq, Debug)]
struct Column {
    cycle_time_ms: f64,
    median: f64,
    sizes: Vec<f64>,
    noisy: bool,
}

impl Panel {
    /// Returns the panels of one quota: all transports together, then each alone.
    pub(super) fn of_quota(report: &Report, cpus: Option<f64>) -> Vec<Self> {
        let curves: Vec<Curve> =
            Transport::ALL.iter().filter_map(|it| Curve::of(report, cpus, *it)).collect();
        let limit = |transports: &[Transport]| {
            let points =
                report.points.iter().filter(|it| it.cpus == cpus && transports.contains(&it.transport));
            let reached = points.flat_map(|point| point.searches()).any(|it| it.found == Found::Limit);
            reached.then(|| f64::from(report.start.options.limit))
        };
        let panel = |curves: &[Curve]| {
            let transports: Vec<Transport> = curves.iter().map(|curve| curve.transport).collect();
            let names: Vec<String> = transports.iter().map(|it| it.name().to_uppercase()).collect();
            let quota = cpus.map_or("without a CPU quota".to_owned(), |cpus| format!("at {cpus} CPUs"));
            let title = format!("{} {quota}", names.join(" and "));
            Self { title, cpus, curves: curves.to_vec(), limit: limit(&transports) }
        };
        match &curves[..] {
            [] => Vec::new(),
            [_] => vec![panel(&curves)],
            _ => std::iter::once(panel(&curves)).chain(curves.chunks(1).map(panel)).collect(),
        }
    }

    /// Returns the title of the panel.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns the quota of the panel; `None` without one.
    pub(in crate::cycle) const fn cpus(&self) -> Option<f64> {
        self.cpus
    }

    /// Draws the panel; `scale` is the number of pixels of the area for one of the drawing.
    pub(super) fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        scale: u32,
    ) -> Result<(), FigureError> {
        let failed = |error: plotters::drawing::DrawingAreaErrorKind<B::ErrorType>| {
            FigureError::Drawing(error.to_string())
        };
        area.fill(&plotters::style::WHITE).map_err(failed)?;
        let (times, top) = (self.cycle_times(), self.top());
        let mut chart = ChartBuilder::on(area)
            .margin(14 * scale)
            .caption(&self.title, ("sans-serif", 16 * scale, FontStyle::Bold).into_font().color(&INK))
            .set_label_area_size(LabelAreaPosition::Left, 82 * scale)
            .set_label_area_size(LabelAreaPosition::Bottom, 42 * scale)
            .build_cartesian_2d(times.clone(), 0.0..top)
            .map_err(failed)?;
        let thin = |colour: RGBColor| ShapeStyle { color: colour.into(), filled: false, stroke_width: scale };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(thin(GRID))
            .light_line_style(plotters::style::TRANSPARENT)
            .axis_style(thin(INK))
            .label_style(("sans-serif", 12 * scale).into_font().color(&INK))
            .axis_desc_style(("sans-serif", 13 * scale).into_font().color(&INK))
            .x_desc("cycle time [ms]")
            .y_desc("largest array [u32 elements]")
            .x_labels(15)
            .y_labels(9)
            .x_label_formatter(&|value| short(*value))
            .y_label_formatter(&|value| grouped(*value))
            .draw()
            .map_err(failed)?;
        if let Some(limit) = self.limit {
            let line = [(times.start, limit), (times.end, limit)];
            let dashes = DashedLineSeries::new(line, 6 * scale, 5 * scale, thin(INK));
            chart
                .draw_series(dashes)
                .map_err(failed)?
                .label("limit of the search")
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16 * scale as i32, y)], thin(INK)));
        }
        for (index, curve) in self.curves.iter().enumerate() {
            // The middle one of an odd number is at its exact place.
            let place = index as f64 - (self.curves.len() - 1) as f64 / 2.0;
            let aside = place * 2.0 * APART * (times.end - times.start);
            curve.draw(&mut chart, aside, scale).map_err(failed)?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .margin(8 * scale)
            .legend_area_size(22 * scale)
            .background_style(plotters::style::WHITE.mix(0.85))
            .border_style(thin(GRID))
            .label_font(("sans-serif", 12 * scale).into_font().color(&INK))
            .draw()
            .map_err(failed)
    }

    /// Returns the range of the x axis, with half a step of room on both sides.
    fn cycle_times(&self) -> std::ops::Range<f64> {
        let times = || self.columns().map(|column| column.cycle_time_ms);
        let (least, most) = (times().fold(f64::MAX, f64::min), times().fold(0.0, f64::max));
        let room = if most > least { (most - least) * 0.06 } else { least * 0.5 };
        (least - room).max(0.0)..most + room
    }

    /// Returns the end of the y axis.
    fn top(&self) -> f64 {
        let sizes = self.columns().flat_map(|column| column.sizes.iter().copied());
        // Where nothing held, an empty axis still needs a length.
        sizes.chain(self.limit).fold(10.0, f64::max) * HEADROOM
    }

    fn columns(&self) -> impl Iterator<Item = &Column> {
        self.curves.iter().flat_map(|curve| &curve.columns)
    }
}

impl Curve {
    /// Collects a transport's points in the order of cycle times; `None` if there are none.
    fn of(report: &Report, cpus: Option<f64>, transport: Transport) -> Option<Self> {
        let points = report.points.iter().filter(|it| it.cpus == cpus && it.transport == transport);
        #[expect(clippy::cast_precision_loss, reason = "sizes and times are far below 2^53")]
        let mut columns: Vec<Column> = points
            .filter_map(|point| {
                Some(Column {
                    cycle_time_ms: point.cycle_time_ns as f64 / 1e6,
                    median: point.elements()?.median,
                    noisy: !point.noise().is_empty(),
                    sizes: point.searches().iter().map(|search| search.elements as f64).collect(),
                })
            })
            .collect();
        columns.sort_by(|a, b| a.cycle_time_ms.total_cmp(&b.cycle_time_ms));
        (!columns.is_empty()).then_some(Self { transport, columns })
    }

    fn draw<'a, B: DrawingBackend + 'a>(
        &self,
        chart: &mut ChartContext<'a, B, Cartesian2d<RangedCoordf64, RangedCoordf64>>,
        aside: f64,
        scale: u32,
    ) -> Result<(), plotters::drawing::DrawingAreaErrorKind<B::ErrorType>> {
        let colour = colour(self.transport);
        let medians = || self.columns.iter().map(move |column| (column.cycle_time_ms + aside, column.median));
        let line = ShapeStyle { color: colour.into(), filled: false, stroke_width: 2 * scale };
        chart.draw_series(LineSeries::new(medians(), line))?;
        let searches = self
            .columns
            .iter()
            .flat_map(|column| column.sizes.iter().map(move |size| (column.cycle_time_ms + aside, *size)));
        let faint = colour.mix(0.4).filled();
        chart.draw_series(searches.map(|place| Circle::new(place, 3 * scale, faint)))?;
        // A noisy median is hollow: white on the line, then its rim.
        let noisy =
            || medians().zip(&self.columns).filter(|(_, column)| column.noisy).map(|(place, _)| place);
        let hollow = noisy().map(|place| Circle::new(place, 3 * scale, plotters::style::WHITE.filled()));
        let dots = medians().map(|place| Circle::new(place, 4 * scale, colour.filled()));
        let name = format!("{}: medians, and every search", self.transport.name().to_uppercase());
        chart.draw_series(dots)?.label(name).legend(move |(x, y)| {
            EmptyElement::at((x, y))
                + PathElement::new([(0, 0), (16 * scale as i32, 0)], line)
                + Circle::new((8 * scale as i32, 0), 4 * scale, colour.filled())
        });
        chart.draw_series(hollow)?;
        Ok(())
    }
}

/// Colours that people with any colour vision tell apart. Source: Okabe and Ito, "Color universal design" (2008).
const fn colour(transport: Transport) -> RGBColor {
    match transport {
        Transport::Udp => RGBColor(0x00, 0x72, 0xb2),
        Transport::Shm => RGBColor(0xd5, 0x5e, 0x00),
    }
}

/// Formats a cycle time without rounding errors of binary fractions.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
