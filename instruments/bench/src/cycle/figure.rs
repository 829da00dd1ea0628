//! Figures of a report: the largest array over the cycle time, with a dot for every search and a line through
//! the medians.
//!
//! Drawn like figures 2 to 8 of Scollo: for each processor quota one panel with all transports, and one for
//! each transport alone, where its spread is visible. The same drawing becomes SVG for pages and PNG for all
//! other uses.

mod panel;

use plotters::prelude::{BitMapBackend, IntoDrawingArea, SVGBackend};

pub use panel::Panel;

use super::report::Report;
use drawing::FigureError;
use drawing::canvas::{self, LETTER, LINE, PIXELS, ROOM, draw_header, use_font, wrapped};
use panel::{HEIGHT, WIDTH};

impl Report {
    /// Returns the panels of each processor quota, in the order of measuring; quotas without a measured point
    /// have none.
    #[must_use]
    pub fn panels(&self) -> Vec<Vec<Panel>> {
        let cpus = &self.start.options.cpus;
        cpus.iter().map(|cpus| Panel::of_quota(self, *cpus)).filter(|panels| !panels.is_empty()).collect()
    }

    /// Returns the header of a picture, as on a page: every figure names its host and its rules.
    fn header(&self) -> String {
        let noise = self.noise_in_short().map(|points| format!("; {points} are noisy (hollow medians)"));
        let noise = noise.unwrap_or_default();
        format!("{}\n{}{noise}", self.host_in_words(), self.rules_in_words())
    }
}

/// Draws all panels as one picture in PNG, a row for each quota.
///
/// # Errors
/// [`FigureError`]; above all if nothing was measured.
pub(super) fn picture(report: &Report) -> Result<Vec<u8>, FigureError> {
    let rows = report.panels();
    let columns = rows.iter().map(Vec::len).max().ok_or(FigureError::Empty)?;
    let count = |len: usize| u32::try_from(len).expect("a report has few quotas and fewer transports");
    let (width, height) = (WIDTH * PIXELS, HEIGHT * PIXELS);
    let lines = wrapped(&report.header(), count(columns) * WIDTH / LETTER);
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
    canvas::encode(&pixels, size)
}

impl Panel {
    /// Draws it as an SVG element for a page.
    ///
    /// # Errors
    /// [`FigureError::Drawing`], only for a defect.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycle::report::tests::example;
    use crate::report::Forms as _;

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
        let medians = report.points.iter().filter(|point| point.elements().is_some()).count();
        // In the example all points are noisy: a median is a dot with a hole.
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
    fn nothing_measured_is_said() {
        let mut report = example();
        report.points.clear();
        assert_eq!(report.to_png(), Err(FigureError::Empty));
    }
}
