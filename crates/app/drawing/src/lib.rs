//! Charts and pages for reports: SVG and PNG of the same drawing, and self-contained HTML.
//!
//! A report that people look at has these [`Forms`]. Start with [`Chart`] and [`Page`]; who draws something of its own finds
//! font, colours and header in [`canvas`]. What is drawn is the business of whoever measured it.

pub mod canvas;
mod chart;
mod forms;
mod page;

pub use canvas::FigureError;
pub use chart::{Axis, COLOURS, Chart, Point, Scale, Series, png, svgs};
pub use forms::Forms;
pub use page::{Column, Page, Tone};
