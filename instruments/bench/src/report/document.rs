//! A report for people: the same parts as text and as a page.

use std::fmt;

use drawing::{Chart, FigureError, Page, Tone};
use units::text::hanging;

use super::conclusion::{self, Conclusion, citation, write_conclusions};
use super::noise;
use super::reference::{Figures, ReferenceFigure};
use super::table::Table;

/// Columns of the text.
pub(crate) const TEXT_WIDTH: usize = 80;

/// A report of a test; [`forms!`](crate::report::forms) makes its text, page, picture and CSV of it.
pub(crate) trait Report {
    /// Returns the parts for people.
    fn document(&self) -> Document;

    /// Writes what was measured as CSV.
    fn csv(&self) -> String;
}

/// Parts of a report for people.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// Name of the test.
    pub(crate) title: String,
    /// Subject of the measurement.
    pub(crate) heading: String,
    /// Hosts and settings.
    pub(crate) circumstances: String,
    /// True if the circumstances were printed when the measurement began: text does not repeat them.
    pub(crate) is_announced: bool,
    /// More about the hosts, for the page.
    pub(crate) details: String,
    /// Reasons why the measurement is unreliable; empty if undisturbed.
    pub(crate) noise: Vec<String>,
    /// The same in one line, for a picture and the top of the page, if there may be many.
    pub(crate) noise_in_short: Option<String>,
    pub(crate) charts: Vec<Chart>,
    pub(crate) sections: Vec<Section>,
    pub(crate) notes: Vec<String>,
    /// Description of the missing part; none if nothing is missing.
    pub(crate) missing: Option<&'static str>,
}

/// Part of a report below a heading. One without content is not written.
#[derive(Debug)]
pub(crate) struct Section {
    heading: String,
    remark: &'static str,
    body: Body,
    is_in_text: bool,
}

#[derive(Debug)]
enum Body {
    Table(Table),
    Lines(Vec<String>),
    Figures(Figures),
    Conclusions(Vec<Conclusion>),
}

impl Section {
    pub(crate) fn table(heading: &str, table: Table) -> Self {
        Self::new(heading, Body::Table(table))
    }

    pub(crate) fn lines(heading: &str, lines: Vec<String>) -> Self {
        Self::new(heading, Body::Lines(lines))
    }

    /// Compares published figures with ours.
    pub(crate) fn figures(heading: &str, figures: &[ReferenceFigure]) -> Self {
        Self::new(heading, Body::Figures(Figures(figures.to_vec())))
    }

    /// Compares the conclusions of a published document with ours.
    pub(crate) fn conclusions(document: &str, conclusions: &[Conclusion]) -> Self {
        let heading = format!("Conclusions of {}, and of this host", citation(document));
        Self::new(&heading, Body::Conclusions(conclusions.to_vec()))
    }

    fn new(heading: &str, body: Body) -> Self {
        Self { heading: heading.to_owned(), remark: "", body, is_in_text: true }
    }

    pub(crate) fn headed(self, heading: &str) -> Self {
        Self { heading: heading.to_owned(), ..self }
    }

    /// Explains the section.
    pub(crate) fn remark(self, remark: &'static str) -> Self {
        Self { remark, ..self }
    }

    /// Leaves the section out of the text.
    pub(crate) fn on_page(self) -> Self {
        Self { is_in_text: false, ..self }
    }

    const fn is_empty(&self) -> bool {
        match &self.body {
            Body::Table(table) => table.is_empty(),
            Body::Lines(lines) => lines.is_empty(),
            Body::Figures(figures) => figures.is_empty(),
            Body::Conclusions(conclusions) => conclusions.is_empty(),
        }
    }

    fn add_to(&self, page: &mut Page) {
        page.heading(&self.heading);
        if !self.remark.is_empty() {
            page.paragraph(self.remark);
        }
        match &self.body {
            Body::Table(table) => table.add_to(page),
            Body::Lines(lines) => page.paragraph(&lines.join("\n")),
            Body::Figures(figures) => figures.table().add_to(page),
            Body::Conclusions(conclusions) => conclusion::table(conclusions).add_to(page),
        }
    }
}

impl fmt::Display for Section {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.remark.is_empty() { "" } else { ": " };
        writeln!(formatter, "\n{}{colon}{}", self.heading, self.remark)?;
        match &self.body {
            Body::Table(table) => table.fmt(formatter),
            Body::Lines(lines) => lines.iter().try_for_each(|line| write_hanging(formatter, "  ", line)),
            Body::Figures(figures) => figures.fmt(formatter),
            Body::Conclusions(conclusions) => write_conclusions(formatter, conclusions),
        }
    }
}

impl fmt::Display for Document {
    /// Writes the hosts, the sections, and how far they can be relied on.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_announced {
            write_hanging(formatter, "", &self.circumstances)?;
        }
        let sections = self.sections.iter().filter(|section| section.is_in_text && !section.is_empty());
        sections.into_iter().try_for_each(|section| section.fmt(formatter))?;
        if !self.noise.is_empty() {
            writeln!(formatter, "\n~ noisy, not to be relied on:")?;
            self.noise.iter().try_for_each(|noise| write_hanging(formatter, "  ", noise))?;
        }
        if !self.notes.is_empty() || self.missing.is_some() {
            writeln!(formatter)?;
        }
        self.notes.iter().try_for_each(|note| write_hanging(formatter, "note: ", note))?;
        self.missing.map_or(Ok(()), |words| writeln!(formatter, "{words}"))
    }
}

/// Writes a head and sentences behind it, broken between words.
pub(super) fn write_hanging(formatter: &mut fmt::Formatter<'_>, head: &str, text: &str) -> fmt::Result {
    writeln!(formatter, "{}", hanging(head, text, TEXT_WIDTH))
}

impl Document {
    /// Writes the page, with figures of the charts.
    pub(crate) fn to_html(&self) -> Result<String, FigureError> {
        let svgs = drawing::svgs(&self.charts)?;
        Ok(self.page(|page| page.figures(&svgs)))
    }

    /// Writes the page, with the figures that `add_figures` adds.
    pub(crate) fn page(&self, add_figures: impl FnOnce(&mut Page)) -> String {
        let mut page = Page::new(&self.title, &self.heading);
        page.paragraph(format!("{}\n{}", self.circumstances, self.details).trim_end());
        let tone = if self.noise.is_empty() { Tone::Quiet } else { Tone::Warning };
        page.remark(&self.reliability(), tone);
        self.missing.iter().for_each(|words| page.remark(words, Tone::Warning));
        add_figures(&mut page);
        self.sections.iter().filter(|section| !section.is_empty()).for_each(|it| it.add_to(&mut page));
        if self.noise_in_short.is_some() {
            Section::lines("Noisy, not to be relied on", self.noise.clone()).add_to(&mut page);
        }
        page.end(&self.notes)
    }

    /// Draws the charts as one picture.
    pub(crate) fn to_png(&self) -> Result<Vec<u8>, FigureError> {
        drawing::png(&self.charts, &format!("{}\n{}", self.circumstances, self.reliability()))
    }

    fn reliability(&self) -> String {
        let short = self.noise_in_short.as_ref().map(std::slice::from_ref);
        noise::in_words(short.unwrap_or(&self.noise))
    }
}

/// Gives a [`Report`] all its forms.
macro_rules! forms {
    ($report:ty) => {
        impl std::fmt::Display for $report {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&$crate::report::Report::document(self), formatter)
            }
        }

        impl $crate::report::Forms for $report {
            fn to_html(&self) -> Result<String, drawing::FigureError> {
                $crate::report::Report::document(self).to_html()
            }

            fn to_png(&self) -> Result<Vec<u8>, drawing::FigureError> {
                $crate::report::Report::document(self).to_png()
            }

            fn to_csv(&self) -> String {
                $crate::report::Report::csv(self)
            }
        }
    };
}

pub(crate) use forms;
