//! Output formats of a report.

use std::fmt::Display;

use serde::Serialize;

use crate::FigureError;

/// A report: one object for programs, text for people, and self-contained files.
pub trait Forms: Serialize + Display {
    /// Writes the report as one page of HTML.
    ///
    /// # Errors
    /// [`FigureError::Drawing`], only on a defect.
    fn to_html(&self) -> Result<String, FigureError>;

    /// Draws its figures as one PNG picture, below the state of the hosts.
    ///
    /// # Errors
    /// [`FigureError`]; above all if nothing was measured.
    fn to_png(&self) -> Result<Vec<u8>, FigureError>;

    /// Writes the measurements as CSV, with a header.
    fn to_csv(&self) -> String;
}
