//! One line on a terminal with the elapsed time; silent without a terminal.
//!
//! Other text on standard error goes through [`StatusLine::say`] while the line is shown.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::layout;

/// Interval at which the line is rewritten.
const INTERVAL: Duration = Duration::from_secs(1);
/// Back to the first column, and everything behind it cleared.
const CLEAR: &str = "\r\x1b[K";

/// A line that is written over itself.
#[derive(Debug)]
pub(crate) struct StatusLine {
    watched: bool,
    due: Instant,
    shown: bool,
}

impl StatusLine {
    /// Begins a line on standard error; a `quiet` one is not shown.
    pub(crate) fn new(quiet: bool) -> Self {
        let watched = !quiet && std::io::stderr().is_terminal();
        Self { watched, due: Instant::now() + INTERVAL, shown: false }
    }

    /// Returns whether there is a terminal to show it on.
    pub(crate) const fn is_watched(&self) -> bool {
        self.watched
    }

    /// Returns whether there is a terminal, and the line is to be rewritten.
    pub(crate) fn is_due(&self) -> bool {
        self.watched && Instant::now() >= self.due
    }

    /// Shows a text if an update is due; makes it only then.
    pub(crate) fn show(&mut self, text: impl FnOnce() -> String) {
        if !self.is_due() {
            return;
        }
        self.due = Instant::now() + INTERVAL;
        self.shown = true;
        // A terminal that is gone is no reason to end the work.
        drop(write!(std::io::stderr(), "{CLEAR}{}", cut(&text(), layout::terminal_width())));
    }

    /// Removes the line, so that other text can be written.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            drop(write!(std::io::stderr(), "{CLEAR}"));
        }
    }

    /// Writes a permanent line.
    pub(crate) fn say(&mut self, text: &str) {
        self.clear();
        eprintln!("{text}");
    }
}

/// Returns what of a text fits one line: of a longer one only the last line could be written over.
fn cut(text: &str, width: usize) -> &str {
    let fits = |end: &usize| layout::columns(&text[..*end]) < width;
    let ends = text.char_indices().map(|(start, letter)| start + letter.len_utf8());
    &text[..ends.take_while(fits).last().unwrap_or(0)]
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_before_the_last_column() {
        assert_eq!(cut("2 streams, 9 µs", 80), "2 streams, 9 µs");
        assert_eq!(cut("9 µs, 8", 5), "9 µs");
    }
}
