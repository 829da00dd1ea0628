//! Meaning of a column with a type: numbers, times, or something that is no channel.

use sample::Dtype;

/// Number of nanoseconds in a day of dates.
pub(super) const NANOS_PER_DAY: i128 = 86_400_000_000_000;

/// Meaning of a column's values.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Meaning {
    /// Numbers of a dtype; decimals are integers times a power of ten.
    Numbers { dtype: Dtype, decimals: u32 },
    /// Times since 1970, or since midnight.
    Times { nanos_per_unit: i128, zone: TimesZone },
    /// Description of anything else.
    Other(String),
}

/// Time zone of a column of times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TimesZone {
    /// UTC, or none because they are times of day.
    Utc,
    /// Unknown: clocks of a place. They are taken for UTC unless a zone is named.
    Local,
}

impl Meaning {
    /// Returns the dtype of plain numbers.
    pub(super) const fn plain_dtype(&self) -> Option<Dtype> {
        if let Self::Numbers { dtype, decimals: 0 } = self { Some(*dtype) } else { None }
    }

    /// Returns the meaning of plain numbers.
    pub(super) const fn plain(dtype: Dtype) -> Self {
        Self::Numbers { dtype, decimals: 0 }
    }

    /// Returns the meaning of times that need no zone.
    pub(super) const fn times(nanos_per_unit: i128) -> Self {
        Self::Times { nanos_per_unit, zone: TimesZone::Utc }
    }

    /// Returns the meaning of decimals: their digits as an integer of a dtype, whose scale is the channel's.
    pub(super) fn decimals(dtype: Dtype, scale: i32) -> Self {
        match u32::try_from(scale) {
            Ok(decimals) => Self::Numbers { dtype, decimals },
            Err(_) => Self::Other("decimals with a negative scale".to_owned()),
        }
    }
}
