//! Figures of a measurement: the rate over time, as sent and as received, and what was missing; every run a line.

use plotters::chart::{ChartBuilder, LabelAreaPosition, SeriesLabelPosition};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::element::PathElement;
use plotters::prelude::{BitMapBackend, DrawingBackend, IntoDrawingArea, LineSeries, SVGBackend};
use plotters::style::{Color, FontStyle, IntoFont, RGBColor, ShapeStyle, TRANSPARENT, WHITE};

use super::report::{Figures, Report};
use crate::drawing::{
    self, FigureError, GRID, INK, LETTER, LINE, PIXELS, ROOM, draw_header, use_font, wrapped,
};

/// Size of a figure. Units: pixels of the drawing.
const WIDTH: u32 = 560;
const HEIGHT: u32 = 360;

/// How much longer than its largest point the y axis is: what explains the lines stands above them.
const HEADROOM: f64 = 1.3;

/// Colours that people with any colour vision tell apart. Source: Okabe and Ito, "Color universal design" (2008).
const COLOURS: [RGBColor; 4] = [
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0xd5, 0x5e, 0x00),
];

/// One figure.
struct Chart {
    title: &'static str,
    y_desc: &'static str,
    lines: Vec<Line>,
}

/// What one run saw of one sum.
struct Line {
    /// What it is called; empty for all runs but the first.
    name: String,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
}

/// What is drawn of a sum.
struct Quantity {
    title: &'static str,
    y_desc: &'static str,
    value: fn(&Figures) -> Option<f64>,
}

const QUANTITIES: [Quantity; 2] = [
    Quantity { title: "Rate", y_desc: "payload [Mbit/s]", value: |it| Some(it.bits_per_second / 1e6) },
    Quantity { title: "Missing so far", y_desc: "datagrams lost [%]", value: |it| it.lost_percent },
];

impl Report {
    /// Draws all figures as SVG elements for a page; none where nothing was seen.
    ///
    /// # Errors
    /// [`FigureError::Drawing`], only on a defect.
    pub fn to_svgs(&self) -> Result<Vec<String>, FigureError> {
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
        self.charts().iter().map(draw).collect()
    }

    /// Draws all figures as one picture in PNG, below the state of both hosts.
    ///
    /// # Errors
    /// [`FigureError`]; above all if nothing was seen.
    pub fn to_png(&self) -> Result<Vec<u8>, FigureError> {
        let charts = self.charts();
        let columns = u32::try_from(charts.len()).expect("there are few figures");
        if columns == 0 {
            return Err(FigureError::Empty);
        }
        let header = format!("{}\n{}", self.start.in_words(), self.noise_in_words());
        let lines = wrapped(&header, columns * WIDTH / LETTER);
        let header_height =
            (u32::try_from(lines.len()).expect("a header has few lines") * LINE + ROOM) * PIXELS;
        let size = (WIDTH * columns * PIXELS, HEIGHT * PIXELS + header_height);
        let mut pixels = vec![0xff; size.0 as usize * size.1 as usize * 3];
        {
            use_font();
            let failed = |error: DrawingAreaErrorKind<_>| FigureError::Drawing(error.to_string());
            let area = BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area();
            let (header, figures) = area.split_vertically(header_height);
            draw_header(&header, &lines).map_err(failed)?;
            for (cell, chart) in figures.split_evenly((1, charts.len())).iter().zip(&charts) {
                chart.draw(cell, PIXELS).map_err(failed)?;
            }
            area.present().map_err(failed)?;
        }
        drawing::encode(&pixels, size)
    }

    /// Says what disturbed the measurement, in a line.
    pub(super) fn noise_in_words(&self) -> String {
        match self.end.noise.is_empty() {
            true => "quiet while it was measured".to_owned(),
            false => format!("noisy, not to be relied on: {}", self.end.noise.join("; ")),
        }
    }

    fn charts(&self) -> Vec<Chart> {
        QUANTITIES.iter().filter_map(|quantity| self.chart(quantity)).collect()
    }

    fn chart(&self, quantity: &Quantity) -> Option<Chart> {
        let mut lines: Vec<Line> = Vec::new();
        for run in self.intervals.iter().map(|it| it.run).collect::<std::collections::BTreeSet<_>>() {
            for (index, colour) in COLOURS.into_iter().enumerate() {
                let intervals = self.intervals.iter().filter(|it| it.run == run);
                let figures = intervals.filter_map(|it| it.sums.all()[index].0).filter(|it| !it.omitted);
                let points: Vec<_> =
                    figures.filter_map(|it| Some((it.end, (quantity.value)(&it)?))).collect();
                if !points.is_empty() {
                    let known = lines.iter().any(|line| line.colour == colour);
                    let name = if known { String::new() } else { NAMES[index].to_owned() };
                    lines.push(Line { name, colour, points });
                }
            }
        }
        (!lines.is_empty()).then_some(Chart { title: quantity.title, y_desc: quantity.y_desc, lines })
    }
}

/// What the four sums are called, in their order.
const NAMES: [&str; 4] = ["sent", "received", "sent, the way back", "received, the way back"];

impl Chart {
    fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        scale: u32,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        area.fill(&WHITE)?;
        let points = || self.lines.iter().flat_map(|line| line.points.iter().copied());
        let until = points().map(|(x, _)| x).fold(0.001, f64::max);
        // Where nothing was missing, an empty axis still needs a length.
        let top = points().map(|(_, y)| y).fold(0.01, f64::max) * HEADROOM;
        let mut chart = ChartBuilder::on(area)
            .margin(14 * scale)
            .caption(self.title, ("sans-serif", 16 * scale, FontStyle::Bold).into_font().color(&INK))
            .set_label_area_size(LabelAreaPosition::Left, 72 * scale)
            .set_label_area_size(LabelAreaPosition::Bottom, 42 * scale)
            .build_cartesian_2d(0.0..until, 0.0..top)?;
        let thin = |colour: RGBColor| ShapeStyle { color: colour.into(), filled: false, stroke_width: scale };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(thin(GRID))
            .light_line_style(TRANSPARENT)
            .axis_style(thin(INK))
            .label_style(("sans-serif", 12 * scale).into_font().color(&INK))
            .axis_desc_style(("sans-serif", 13 * scale).into_font().color(&INK))
            .x_desc("time in the run [s]")
            .y_desc(self.y_desc)
            .draw()?;
        for line in &self.lines {
            let style = ShapeStyle { color: line.colour.into(), filled: false, stroke_width: 2 * scale };
            // A run of one interval still shows as a dot.
            let series = LineSeries::new(line.points.iter().copied(), style).point_size(2 * scale);
            let drawn = chart.draw_series(series)?;
            if !line.name.is_empty() {
                drawn
                    .label(line.name.clone())
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 16 * scale as i32, y)], style));
            }
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .margin(8 * scale)
            .legend_area_size(22 * scale)
            .background_style(WHITE.mix(0.85))
            .border_style(thin(GRID))
            .label_font(("sans-serif", 12 * scale).into_font().color(&INK))
            .draw()
    }
}
