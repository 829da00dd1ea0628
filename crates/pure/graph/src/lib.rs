//! Operators of the monitor: streams calibrated, thinned, summarised, aligned and combined.
//!
//! Operators are pure: blocks and holes go in, runs of samples and holes come out, and time is an input. No operator
//! bridges a hole: every instant of an output's grid is a sample or part of a hole, which names the input it was
//! inherited from. The monitor publishes the output.
//!
//! Start with [`Derivation`] (one stream from several by an expression) and [`Reduction`] (thinning).

mod align;
mod calibrate;
mod derivation;
mod expression;
mod input;
mod intake;
mod reasons;
mod reduction;
#[cfg(test)]
mod scene;
mod track;

pub use align::{AlignConfig, Aligned, Aligner};
pub use calibrate::{calibrate, calibrated_schema};
pub use derivation::{Derivation, DerivationConfig, DerivationTotals, DeriveError, DerivedInput};
pub use expression::{Expression, ExpressionError, MAX_EXPRESSION_CHARS, MAX_VARIABLES};
pub use input::{Hole, Inherited, Input, InputError, Output};
pub use reduction::{Reduction, ReductionError, Statistic};
pub use track::Matching;
