//! One line on a terminal with the elapsed time; silent without a terminal.
//!
//! Other text on standard error goes through [`StatusLine::say`] while the line is shown.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

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

    /// Shows a text if an update is due; makes it only then.
    pub(crate) fn show(&mut self, text: impl FnOnce() -> String) {
        if !self.watched || Instant::now() < self.due {
            return;
        }
        self.due = Instant::now() + INTERVAL;
        self.shown = true;
        // A terminal that is gone is no reason to end the work.
        drop(write!(std::io::stderr(), "{CLEAR}{}", text()));
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

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Formats a size: `12.3 MB`.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn size_text(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1_000.0 && unit + 1 < units.len() {
        value /= 1_000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_at_a_glance() {
        assert_eq!(size_text(999), "999 B");
        assert_eq!(size_text(1_000), "1.0 kB");
        assert_eq!(size_text(12_345_678), "12.3 MB");
        assert_eq!(size_text(u64::MAX), "18446744.1 TB");
    }
}
