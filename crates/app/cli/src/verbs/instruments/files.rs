//! The files a report is written into.

use std::path::PathBuf;

use clap::Args;
use drawing::Forms;

use super::pending::Pending;

/// Files that a report is written to.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct FileArguments {
    /// Write figures, tables and accounts into a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the figures as an image
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Write the measurements as a table for other programs
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Files that are being written.
pub(crate) struct Files {
    csv: Option<Pending>,
    html: Option<Pending>,
    png: Option<Pending>,
}

impl Files {
    /// Opens them before the measurement, so that a folder that cannot be written is reported now.
    pub(crate) fn begin(arguments: &FileArguments) -> anyhow::Result<Self> {
        let begin = |path: &Option<PathBuf>| path.as_deref().map(Pending::new).transpose();
        let FileArguments { csv, html, png } = arguments;
        Ok(Self { csv: begin(csv)?, html: begin(html)?, png: begin(png)? })
    }

    /// Writes each for itself: what one disk cannot take is no reason to lose the others.
    pub(crate) fn write(self, report: &impl Forms) -> anyhow::Result<()> {
        let written = [
            self.csv.map_or(Ok(()), |csv| csv.write(report.to_csv().as_bytes())),
            self.html.map_or(Ok(()), |html| html.write(report.to_html()?.as_bytes())),
            self.png.map_or(Ok(()), |png| png.write_picture(report.to_png())),
        ];
        written.into_iter().collect()
    }
}
