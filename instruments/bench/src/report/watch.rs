//! The observer of a measurement.

use sys::Cancellation;

/// Observer of a measurement, such as a terminal.
pub trait Watch: Send {
    /// Receives the progress, in a line.
    fn progress(&mut self, _words: &dyn Fn() -> String) {}

    /// Receives a note before the measurement begins.
    fn say(&mut self, _words: &str) {}

    /// Returns the request to end; what was measured so far is reported.
    fn cancellation(&self) -> &Cancellation;
}

/// Reports the progress of a part, under its name, to the observer of the whole.
pub(crate) struct PartOf<'a> {
    pub(crate) watch: &'a mut dyn Watch,
    pub(crate) part: String,
}

impl Watch for PartOf<'_> {
    fn progress(&mut self, words: &dyn Fn() -> String) {
        let part = &self.part;
        self.watch.progress(&|| format!("{part}, {}", words()));
    }

    fn cancellation(&self) -> &Cancellation {
        self.watch.cancellation()
    }
}
