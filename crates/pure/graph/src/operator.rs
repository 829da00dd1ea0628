//! The interface that all operators of the graph share, and their account.

use std::sync::Arc;

use sample::Schema;

use crate::{Input, InputError, Output};

/// A node's processing: blocks and holes in, runs of samples and holes out.
///
/// After each `handle`, `poll` until `None`. No operator has a clock: what its inputs tell decides everything.
pub trait Operator: Send {
    /// Takes an event of input number `input`. A stream that serves as two inputs is passed twice.
    ///
    /// # Errors
    /// [`InputError`] if the block does not fit this input; the block is ignored, and the rest goes on.
    ///
    /// # Panics
    /// If there is no such input.
    fn handle(&mut self, input: usize, what: Input<'_>) -> Result<(), InputError>;

    /// Returns the next run of the output, `None` until more is known.
    fn poll(&mut self) -> Option<Output>;

    /// Returns the output's schema, known since the first block (of the first input, if there are several).
    fn schema(&self) -> Option<Arc<Schema>>;

    /// Returns how often it computes with each value that it reads.
    fn passes(&self) -> f64 {
        1.0
    }

    /// Returns the samples polled so far.
    fn totals(&self) -> Totals;
}

/// An operator's samples so far: `offered = delivered + source`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Samples of the output that were decided.
    pub offered: u64,
    /// Those that became samples.
    pub delivered: u64,
    /// Those in inherited holes.
    pub source: u64,
    /// Samples of inputs that came behind their horizon, after what they would have decided.
    pub late: u64,
}
