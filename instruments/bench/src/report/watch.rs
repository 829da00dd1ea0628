//! The observer of a measurement.

use sys::Cancellation;

/// Observer of a measurement, such as a terminal.
pub trait Watch: Send {
    /// Receives the progress, in a line.
    fn progress(&mut self, words: &dyn Fn() -> String);

    /// Receives a note before the measurement begins.
    fn say(&mut self, _words: &str) {}

    /// Returns the request to end; what was measured so far is reported.
    fn cancellation(&self) -> &Cancellation;
}
