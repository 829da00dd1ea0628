//! Whoever looks on while something is measured.

/// A terminal, or nobody.
pub trait Watch: Send {
    /// Is told what is being done, in a line.
    fn progress(&mut self, words: &dyn Fn() -> String);

    /// Is told what is to be known before it begins.
    fn say(&mut self, _words: &str) {}

    /// Tells whether the measurement is to end; what was measured so far is reported.
    fn is_wanted_to_end(&self) -> bool;
}
