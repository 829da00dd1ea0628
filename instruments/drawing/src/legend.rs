//! Legend of a chart: within the plot where it covers the fewest points, or beside it if it is long.

use plotters::chart::SeriesLabelPosition;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::element::PathElement;
use plotters::prelude::{DrawingBackend, Text};
use plotters::style::{IntoFont, ShapeStyle, WHITE};

use crate::canvas::{INK, LETTER, wrapped};
use crate::chart::Series;

/// Largest number of names within the plot.
const MOST_WITHIN: usize = 4;
/// Height of a name. Units: pixels of the drawing.
const LINE: u32 = 16;
/// Line of the first name, below the height of the chart's title.
const FIRST_LINE: u32 = 3;
/// Length of the sample of a line, and the space around it. Units: pixels of the drawing.
const SAMPLE: u32 = 16;
const SPACE: u32 = 8;
/// Width of the longest legend: a longer name is broken between words. Units: pixels of the drawing.
const WIDEST: u32 = 220;
/// Length of a dash, and of the space behind it. Units: pixels of the drawing.
pub(crate) const DASH: u32 = 5;

/// Number of samples of a line between two points.
const SAMPLES: u32 = 12;

/// Corners of the plot, the usual one first: whether they are at its right, and at its bottom.
const CORNERS: [(SeriesLabelPosition, bool, bool); 4] = [
    (SeriesLabelPosition::UpperLeft, false, false),
    (SeriesLabelPosition::UpperRight, true, false),
    (SeriesLabelPosition::LowerRight, true, true),
    (SeriesLabelPosition::LowerLeft, false, true),
];

/// Named lines of a chart.
pub(crate) struct Legend<'a>(Vec<(&'a Series, bool)>);

impl<'a> Legend<'a> {
    pub(crate) fn of(series: &'a [Series]) -> Self {
        let named = series.iter().enumerate().filter(|(_, it)| !it.name.is_empty());
        Self(named.map(|(index, it)| (it, is_dashed(series, index))).collect())
    }

    /// Returns the width of the legend beside the plot; none if it has no names, or stands within. Units: pixels of the
    /// drawing.
    pub(crate) fn width_beside(&self) -> Option<u32> {
        let letters = self.0.iter().map(|(it, _)| it.name.chars().count()).max()?;
        let letters = u32::try_from(letters).unwrap_or(u32::MAX);
        let width = letters.saturating_mul(LETTER).saturating_add(SAMPLE + 3 * SPACE);
        (self.0.len() > MOST_WITHIN).then_some(width.min(WIDEST))
    }

    /// Draws the legend beside the plot.
    pub(crate) fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        scale: u32,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        area.fill(&WHITE)?;
        let font = ("sans-serif", 12 * scale).into_font().color(&INK);
        let pixels = |drawing: u32| i32::try_from(drawing * scale).expect("a chart is small");
        let (width, room) = area.dim_in_pixel();
        let letters = (width / scale).saturating_sub(SAMPLE + 3 * SPACE) / LETTER;
        let names: Vec<Vec<String>> = self.0.iter().map(|(it, _)| wrapped(&it.name, letters)).collect();
        let count = u32::try_from(names.iter().map(Vec::len).sum::<usize>()).unwrap_or(u32::MAX);
        let height = LINE.min(room / scale / count.saturating_add(FIRST_LINE + 1));
        let mut line = FIRST_LINE;
        for ((series, is_dashed), name) in self.0.iter().zip(&names) {
            let y = pixels(line * height);
            let style = ShapeStyle { color: series.colour.into(), filled: false, stroke_width: 2 * scale };
            let pieces =
                if *is_dashed { vec![(0, DASH), (SAMPLE - DASH, SAMPLE)] } else { vec![(0, SAMPLE)] };
            for (from, to) in pieces {
                area.draw(&PathElement::new([(pixels(SPACE + from), y), (pixels(SPACE + to), y)], style))?;
            }
            for part in name {
                let place = (pixels(2 * SPACE + SAMPLE), pixels(line * height) - pixels(LINE / 2 - 2));
                area.draw(&Text::new(part.as_str(), place, font.clone()))?;
                line += 1;
            }
        }
        Ok(())
    }

    /// Returns the corner of the plot in which the legend covers the least of the lines.
    ///
    /// Units: `lines` are shares of the plot, from its left and from its top; `plot` is its size in pixels of the drawing.
    pub(crate) fn corner(&self, lines: &[Vec<(f64, f64)>], plot: (u32, u32)) -> SeriesLabelPosition {
        let letters = self.0.iter().map(|(it, _)| it.name.chars().count()).max().unwrap_or(0);
        let width = (letters as f64 * f64::from(LETTER) + f64::from(SAMPLE + 3 * SPACE)) / f64::from(plot.0);
        let height = (self.0.len() as f64 * f64::from(LINE) + f64::from(2 * SPACE)) / f64::from(plot.1);
        let covered = |right: bool, bottom: bool| {
            let is_within =
                |share: f64, size: f64, far: bool| if far { share > 1.0 - size } else { share < size };
            let places = lines.iter().flat_map(|line| samples(line));
            places.filter(|(x, y)| is_within(*x, width, right) && is_within(*y, height, bottom)).count()
        };
        let least = CORNERS.into_iter().min_by_key(|(_, right, bottom)| covered(*right, *bottom));
        least.map_or(SeriesLabelPosition::UpperLeft, |(corner, ..)| corner)
    }
}

/// Returns places along a line.
fn samples(line: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> + '_ {
    let between = line.windows(2).flat_map(|ends| {
        let [(x, y), (to_x, to_y)] = [ends[0], ends[1]];
        (1..SAMPLES).map(move |step| {
            let share = f64::from(step) / f64::from(SAMPLES);
            (x + (to_x - x) * share, y + (to_y - y) * share)
        })
    });
    line.iter().copied().chain(between)
}

/// Returns whether a line is dashed: an earlier one with a name has its colour.
pub(crate) fn is_dashed(series: &[Series], index: usize) -> bool {
    let it = &series[index];
    !it.name.is_empty()
        && series[..index].iter().any(|other| !other.name.is_empty() && other.colour == it.colour)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::COLOURS;

    fn named(count: usize) -> Vec<Series> {
        let colours = COLOURS.into_iter().cycle().take(count).enumerate();
        let one = |(index, colour)| Series { name: format!("line {index}"), colour, points: Vec::new() };
        colours.map(one).collect()
    }

    #[test]
    fn a_legend_stands_in_the_corner_without_lines() {
        let series = named(2);
        let legend = Legend::of(&series);
        let corner = |line: &[(f64, f64)]| legend.corner(&[line.to_vec()], (450, 280));
        let is = |corner, expected: SeriesLabelPosition| format!("{corner:?}") == format!("{expected:?}");
        assert!(is(corner(&[]), SeriesLabelPosition::UpperLeft));
        assert!(is(corner(&[(0.0, 1.0), (1.0, 0.0)]), SeriesLabelPosition::UpperLeft), "it rises");
        assert!(is(corner(&[(0.0, 0.0), (1.0, 1.0)]), SeriesLabelPosition::UpperRight), "it falls");
        assert!(is(corner(&[(0.0, 0.05), (1.0, 0.05)]), SeriesLabelPosition::LowerRight), "it is high");
    }

    #[test]
    fn many_names_stand_beside_and_a_colour_comes_again_in_dashes() {
        let series = named(9);
        assert_eq!(Legend::of(&series[..4]).width_beside(), None);
        assert_eq!(Legend::of(&series).width_beside(), Some(6 * LETTER + 40));
        let dashed: Vec<bool> = (0..9).map(|index| is_dashed(&series, index)).collect();
        assert_eq!(dashed, [false, false, false, false, false, false, false, true, true]);
    }
}
