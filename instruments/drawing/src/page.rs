//! Self-contained HTML page: what was measured where, figures, tables.

use std::fmt::Write as _;

use crate::canvas::{STYLE, escaped};

/// A page that is written from top to bottom.
#[derive(Debug)]
pub struct Page(String);

/// A column of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Column {
    /// Numbers, right-aligned.
    Number(&'static str),
    /// Words, left-aligned.
    Word(&'static str),
    /// Warnings.
    Warning(&'static str),
}

/// Tone of a remark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    /// Nothing to worry about.
    Quiet,
    /// Needs attention.
    Warning,
}

impl Column {
    /// Returns the heading.
    #[must_use]
    pub const fn heading(&self) -> &'static str {
        match self {
            Self::Number(heading) | Self::Word(heading) | Self::Warning(heading) => heading,
        }
    }
}

impl Page {
    /// Begins a page with a window title and a heading.
    #[must_use]
    pub fn new(title: &str, heading: &str) -> Self {
        Self(format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title><style>{STYLE}</style>\
             </head><body>\n<h1>{}</h1>\n",
            escaped(title),
            escaped(heading)
        ))
    }

    /// Adds text; line breaks are kept.
    pub fn paragraph(&mut self, text: &str) {
        let _ = writeln!(self.0, "<p>{}</p>", escaped(text).replace('\n', "<br>\n"));
    }

    /// Adds a remark on the reliability of the results.
    pub fn remark(&mut self, text: &str, tone: Tone) {
        let class = match tone {
            Tone::Quiet => "quiet",
            Tone::Warning => "noisy",
        };
        let _ = writeln!(self.0, "<p class=\"{class}\">{}</p>", escaped(text));
    }

    /// Adds figures in a row.
    pub fn figures(&mut self, svgs: &[String]) {
        let _ = writeln!(self.0, "<figure>{}</figure>", svgs.concat());
    }

    /// Begins a section.
    pub fn heading(&mut self, heading: &str) {
        let _ = writeln!(self.0, "<h2>{}</h2>", escaped(heading));
    }

    /// Adds a table; in a row with fewer cells than columns, the last cell spans the rest.
    pub fn table(&mut self, columns: &[Column], rows: impl IntoIterator<Item = Vec<String>>) {
        self.0 += "<table><tr>";
        for column in columns {
            let class = if matches!(column, Column::Number(_)) { "" } else { " class=\"word\"" };
            let _ = write!(self.0, "<th{class}>{}</th>", escaped(column.heading()));
        }
        self.0 += "</tr>\n";
        for row in rows {
            self.row(columns, &row);
        }
        self.0 += "</table>\n";
    }

    fn row(&mut self, columns: &[Column], cells: &[String]) {
        self.0 += "<tr>";
        for (index, (cell, column)) in cells.iter().zip(columns).enumerate() {
            let rest = columns.len() - index;
            let is_over_the_rest = index + 1 == cells.len() && rest > 1;
            let attributes = match column {
                _ if is_over_the_rest => format!(" class=\"word\" colspan=\"{rest}\""),
                Column::Number(_) => String::new(),
                Column::Word(_) => " class=\"word\"".to_owned(),
                Column::Warning(_) => " class=\"word noisy\"".to_owned(),
            };
            let _ = write!(self.0, "<td{attributes}>{}</td>", escaped(cell));
        }
        self.0 += "</tr>\n";
    }

    /// Adds the notes and ends the page.
    #[must_use]
    pub fn end(mut self, notes: &[String]) -> String {
        for note in notes {
            self.paragraph(note);
        }
        self.0 + "</body></html>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_escapes_its_text_and_is_self_contained() {
        let mut page = Page::new("A <title>", "A & B");
        page.paragraph("a <host>\nanother");
        page.remark("load > 1", Tone::Warning);
        page.table(&[Column::Word("a"), Column::Number("b")], [vec!["<x>".to_owned(), "1".to_owned()]]);
        let page = page.end(&["a \"note\"".to_owned()]);
        for escaped in ["A &lt;title&gt;", "A &amp; B", "a &lt;host&gt;<br>", "load &gt; 1", "&lt;x&gt;"] {
            assert!(page.contains(escaped), "{escaped} in {page}");
        }
        assert!(page.contains("class=\"noisy\"") && page.contains("a &quot;note&quot;"));
        for outside in ["<script", "<link", "src=", "href=", "NaN"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_short_row_ends_over_the_rest_of_the_columns() {
        let mut page = Page::new("", "");
        let columns = [Column::Number("a"), Column::Number("b"), Column::Warning("c")];
        page.table(&columns, [vec!["1".to_owned(), "unknown".to_owned()]]);
        let page = page.end(&[]);
        assert!(page.contains("<tr><td>1</td><td class=\"word\" colspan=\"2\">unknown</td></tr>"), "{page}");
    }
}
