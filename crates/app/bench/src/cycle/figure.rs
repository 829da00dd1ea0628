//! Figures of a report: the largest array over the cycle time, every search a point, medians joined.
//!
//! Made as document 004 makes its figures 2 to 8: for each processor quota one panel with all transports, and one for each
//! transport alone, where its spread can be seen. The same drawing becomes SVG for pages and PNG for everything
//! else.

mod panel;
mod png_file;

use std::sync::OnceLock;

use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::prelude::{BitMapBackend, DrawingBackend, IntoDrawingArea, SVGBackend, Text};
use plotters::style::{FontStyle, IntoFont, WHITE, register_font};

pub use panel::Panel;

use super::report::Report;
use panel::{HEIGHT, INK, WIDTH};

/// How many pixels of a PNG stand for one of the drawing: sharp on fine screens and on paper.
const PIXELS: u32 = 2;

/// Height of a line of what stands above a picture's figures, and of the room around it.
const LINE: u32 = 18;
const ROOM: u32 = 14;
/// How wide a letter of those lines is at most on average.
const LETTER: u32 = 7;

/// Says why a figure could not be drawn.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FigureError {
    /// Nothing was measured.
    #[error("there is nothing to draw: no point was measured\nsee the table for the reasons")]
    Empty,
    /// The drawing failed: a defect of this program.
    #[error("a figure could not be drawn: {0}\nplease report it with the output of --json")]
    Drawing(String),
}

impl Report {
    /// Returns the panels of each processor quota, in the order of measuring; quotas of which no point was
    /// measured have none.
    #[must_use]
    pub fn panels(&self) -> Vec<Vec<Panel>> {
        let cpus = &self.start.options.cpus;
        cpus.iter().map(|cpus| Panel::of_quota(self, *cpus)).filter(|panels| !panels.is_empty()).collect()
    }

    /// Draws all panels as one picture in PNG, a row for each quota.
    ///
    /// # Errors
    /// [`FigureError`]; above all if nothing was measured.
    pub fn to_png(&self) -> Result<Vec<u8>, FigureError> {
        let rows = self.panels();
        let columns = rows.iter().map(Vec::len).max().ok_or(FigureError::Empty)?;
        let count = |len: usize| u32::try_from(len).expect("a report has few quotas and fewer transports");
        let (width, height) = (WIDTH * PIXELS, HEIGHT * PIXELS);
        let lines = wrapped(&self.header(), count(columns) * WIDTH / LETTER);
        let header_height = (count(lines.len()) * LINE + ROOM) * PIXELS;
        let size = (width * count(columns), height * count(rows.len()) + header_height);
        let mut pixels = vec![0xff; size.0 as usize * size.1 as usize * 3];
        {
            use_font();
            let area = BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area();
            let (header, figures) = area.split_vertically(header_height);
            draw_header(&header, &lines).map_err(|error| FigureError::Drawing(error.to_string()))?;
            let cells = figures.split_evenly((rows.len(), columns));
            for (row, panels) in cells.chunks(columns).zip(&rows) {
                row.iter().zip(panels).try_for_each(|(cell, panel)| panel.draw(cell, PIXELS))?;
            }
            area.present().map_err(|error| FigureError::Drawing(error.to_string()))?;
        }
        png_file::encode(&pixels, size)
    }

    /// Returns what stands above a picture, as it does on a page: no figure without its host and its rules.
    fn header(&self) -> String {
        let noisy = self.points.iter().filter(|point| !point.noise().is_empty()).count();
        let noise = format!("; {noisy} of {} points are noisy (hollow medians)", self.points.len());
        let noise = if noisy > 0 { noise.as_str() } else { "" };
        format!("{}\n{}{noise}", self.host_in_words(), self.rules_in_words())
    }
}

fn draw_header<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    lines: &[String],
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    area.fill(&WHITE)?;
    let font = ("sans-serif", 12 * PIXELS).into_font().color(&INK);
    let pixels = |drawing: u32| i32::try_from(drawing * PIXELS).expect("a header has few lines");
    for (line, index) in lines.iter().zip(0..) {
        let place = (pixels(ROOM), pixels(ROOM + index * LINE));
        area.draw(&Text::new(line.as_str(), place, font.clone()))?;
    }
    Ok(())
}

/// Breaks text into lines of at most so many letters, where words end.
fn wrapped(text: &str, letters: u32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        lines.push(String::new());
        for word in paragraph.split(' ') {
            let line = lines.last_mut().expect("every paragraph begins a line");
            if line.is_empty() {
                word.clone_into(line);
            } else if line.len() + 1 + word.len() <= letters as usize {
                line.push(' ');
                line.push_str(word);
            } else {
                lines.push(word.to_owned());
            }
        }
    }
    lines
}

impl Panel {
    /// Draws it as an SVG element for a page.
    ///
    /// # Errors
    /// [`FigureError::Drawing`], only on a defect.
    pub fn to_svg(&self) -> Result<String, FigureError> {
        use_font();
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
            self.draw(&area, 1)?;
            area.present().map_err(|error| FigureError::Drawing(error.to_string()))?;
        }
        Ok(svg)
    }
}

/// Gives the drawing a font of its own, so that pictures do not depend on what is installed.
fn use_font() {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    REGISTERED.get_or_init(|| {
        let fonts = [(FontStyle::Normal, dejavu::sans::regular()), (FontStyle::Bold, dejavu::sans::bold())];
        for (style, bytes) in fonts {
            // A font that could not be read would show as an error of the first text that is drawn.
            let _ = register_font("sans-serif", style, bytes);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::report::tests::example;

    #[test]
    fn a_quota_has_a_panel_for_all_and_one_for_each_transport() {
        let titles: Vec<Vec<String>> = example()
            .panels()
            .into_iter()
            .map(|panels| panels.into_iter().map(|panel| panel.title().to_owned()).collect())
            .collect();
        assert_eq!(titles, [["UDP and SHM at 0.3 CPUs", "UDP at 0.3 CPUs", "SHM at 0.3 CPUs"]]);
    }

    #[test]
    fn an_svg_has_its_axes_with_units_and_a_mark_for_every_search() {
        let report = example();
        let svg = report.panels()[0][0].to_svg().unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("cycle time [ms]") && svg.contains("largest array [u32 elements]"));
        let searches: usize = report.points.iter().map(|point| point.searches().len()).sum();
        let medians = report.points.iter().filter(|point| point.multiplicity().is_some()).count();
        // In the example all are noisy: a median is a dot with a hole.
        let in_legend = 2;
        assert_eq!(svg.matches("<circle").count(), searches + 2 * medians + in_legend);
    }

    #[test]
    fn a_png_is_one_and_is_not_empty() {
        let png = example().to_png().unwrap();
        assert_eq!(&png[1..4], b"PNG");
        assert!(png.len() > 10_000, "{} bytes", png.len());
    }

    #[test]
    fn lines_break_between_words_and_words_stay_whole() {
        assert_eq!(wrapped("one two three\nfour", 7), ["one two", "three", "four"]);
        assert_eq!(wrapped("unbreakable", 3), ["unbreakable"]);
    }

    #[test]
    fn nothing_measured_is_said() {
        let mut report = example();
        report.points.clear();
        assert_eq!(report.to_png(), Err(FigureError::Empty));
    }
}
