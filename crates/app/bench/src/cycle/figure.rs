//! Figures of a report: the largest array over the cycle time, every search a point, medians joined.
//!
//! Made as document 004 makes its figures 2 to 8: for each processor quota one panel with all transports, and one for each
//! transport alone, where its spread can be seen. The same drawing becomes SVG for pages and PNG for everything
//! else.

mod panel;
mod png_file;

use std::sync::OnceLock;

use plotters::prelude::{BitMapBackend, IntoDrawingArea, SVGBackend};
use plotters::style::{FontStyle, register_font};

pub use panel::Panel;

use super::report::Report;
use panel::{HEIGHT, WIDTH};

/// How many pixels of a PNG stand for one of the drawing: sharp on fine screens and on paper.
const PIXELS: u32 = 2;

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
        let size = (width * count(columns), height * count(rows.len()));
        let mut pixels = vec![0xff; size.0 as usize * size.1 as usize * 3];
        {
            use_font();
            let area = BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area();
            let cells = area.split_evenly((rows.len(), columns));
            for (row, panels) in cells.chunks(columns).zip(&rows) {
                row.iter().zip(panels).try_for_each(|(cell, panel)| panel.draw(cell, PIXELS))?;
            }
            area.present().map_err(|error| FigureError::Drawing(error.to_string()))?;
        }
        png_file::encode(&pixels, size)
    }
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
        let in_legend = 2;
        assert_eq!(svg.matches("<circle").count(), searches + medians + in_legend);
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
