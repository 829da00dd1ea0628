//! Quantities that are types of their own as arguments of the command; others are read by `units::text`.

use std::fmt;
use std::str::FromStr;

use units::text::{QuantityError, probability};

/// A probability, written `0.01` or `1%`.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub(crate) struct Probability(pub(crate) f64);

impl FromStr for Probability {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        probability(text).map(Self)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}
