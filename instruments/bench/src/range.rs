//! Range checks of options.

use std::ops::RangeInclusive;

/// Error of a number that is out of its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} must be from {least} to {most}, not {asked}\nchoose one in that range")]
pub struct OutOfRange {
    /// Name of the option.
    pub what: &'static str,
    /// The given value.
    pub asked: u128,
    /// The minimum.
    pub least: u128,
    /// The maximum.
    pub most: u128,
}

/// Checks that an option is within its range.
pub(crate) fn in_range(
    what: &'static str,
    asked: u128,
    range: RangeInclusive<u128>,
) -> Result<(), OutOfRange> {
    let (least, most) = range.into_inner();
    if (least..=most).contains(&asked) { Ok(()) } else { Err(OutOfRange { what, asked, least, most }) }
}
