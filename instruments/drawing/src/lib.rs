//! Charts and pages for reports: SVG and PNG of the same drawing, and self-contained HTML.
//!
//! A report for people implements [`Forms`]. Start with [`Chart`] and [`Page`]. What to draw is decided by the crate
//! that measured it.

mod canvas;
mod chart;
mod forms;
mod legend;
mod page;

pub use canvas::FigureError;
pub use chart::{Axis, COLOURS, Chart, Point, Scale, Series, png, png_of_rows, svgs};
pub use forms::Forms;
pub use page::{Column, Page, Tone};
