//! Numbers of options that lie within what can be measured.

use std::ops::RangeInclusive;

/// Says that a number is out of its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} must be from {least} to {most}, not {asked}\nchoose one in that range")]
pub struct OutOfRange {
    /// Which option.
    pub what: &'static str,
    /// What was asked for.
    pub asked: u128,
    /// The least it may be.
    pub least: u128,
    /// The most it may be.
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
