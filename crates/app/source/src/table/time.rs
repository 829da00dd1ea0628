//! Time column of a table with typed columns: its unit, and its time zone.
//!
//! A type of times gives both. Of numbers the user names the unit, else the heading or the column's name, else the size of
//! the first number, as in tables of text.

use sample::{Channel, Dtype};

use super::layout::{Leaf, Nesting};
use super::meaning::{Meaning, TimesZone};
use super::{ColumnFile, Rows, TableError, flat};
use crate::columns::unit_told;
use crate::csv::Zone;
use crate::grid::{NANOS_PER_SECOND, nanos_by_size};
use crate::{FileOptions, GridError, TimeUnit};

/// Time column.
pub(super) struct TimeColumn {
    pub(super) leaf: usize,
    /// Type of times that are numbers.
    dtype: Option<Dtype>,
    /// `None` until it follows from the size of the first time.
    nanos_per_unit: Option<i128>,
    /// Number of parts of a unit that a value counts, if it is a decimal.
    divisor: i128,
    /// Time zone of local times, if one was named.
    zone: Option<Zone>,
}

impl TimeColumn {
    /// Examines a time column.
    pub(super) fn new(
        at: usize,
        leaf: &Leaf,
        heading: &Channel,
        options: &FileOptions,
    ) -> Result<Self, TableError> {
        let name = || heading.name.clone();
        let zone = options.time_zone.as_deref();
        let not_times = |holds: String| TableError::NotTimes { column: name(), holds };
        match &leaf.meaning {
            Meaning::Times { .. } if options.time_unit.is_some() => Err(TableError::UnitGiven(name())),
            Meaning::Times { zone: TimesZone::Local, nanos_per_unit } => {
                let zone = zone.map(|zone| Zone::open(Some(zone))).transpose()?;
                Ok(Self { leaf: at, dtype: None, nanos_per_unit: Some(*nanos_per_unit), divisor: 1, zone })
            }
            _ if zone.is_some() => Err(TableError::NotLocal(name())),
            Meaning::Times { nanos_per_unit, .. } => Ok(Self {
                leaf: at,
                dtype: None,
                nanos_per_unit: Some(*nanos_per_unit),
                divisor: 1,
                zone: None,
            }),
            Meaning::Numbers { decimals, dtype } => {
                let nanos_per_unit = match options.time_unit {
                    Some(TimeUnit::Nanos(nanos)) => Some(nanos),
                    Some(_) => return Err(TableError::NotText(name())),
                    None => unit_told(heading)?,
                };
                let divisor = 10_i128.checked_pow(*decimals);
                let divisor =
                    divisor.ok_or_else(|| not_times("decimals of more than 38 digits".to_owned()))?;
                Ok(Self { leaf: at, dtype: Some(*dtype), nanos_per_unit, divisor, zone: None })
            }
            Meaning::Other(holds) => Err(not_times(holds.clone())),
        }
    }

    /// Derives the unit from the size of the first time, if nothing else gives it.
    pub(super) fn settled(mut self, file: &dyn ColumnFile) -> Result<Self, TableError> {
        if self.nanos_per_unit.is_none() {
            let mut rows = file.begin(&[self.leaf])?;
            rows.advance(1)?;
            let first = self.read(&mut *rows, 0, 0)?;
            let nanos = first.first().map(|first| nanos_by_size(*first)).transpose();
            self.nanos_per_unit = nanos.map_err(|source| TableError::Time { row: 0, source })?;
        }
        Ok(self)
    }

    /// Reads the times of a run. Units: nanoseconds.
    pub(super) fn read(
        &self,
        rows: &mut dyn Rows,
        place: usize,
        rows_before: u64,
    ) -> Result<Vec<i128>, TableError> {
        let nanos_per_unit = self.nanos_per_unit.unwrap_or(NANOS_PER_SECOND);
        let numbers = flat(rows.read(place, Nesting::FLAT)?).widened(self.dtype);
        let times = numbers.times(nanos_per_unit, self.divisor);
        let not_time = || GridError::NotTime("null or not finite".to_owned());
        let mut times = all_told(times, rows_before, not_time)?;
        if let Some(zone) = &self.zone {
            for (row, time) in times.iter_mut().enumerate() {
                let at = |source| TableError::Time { row: rows_before + row as u64, source };
                *time = zone.nanos_of_local(*time).map_err(at)?;
            }
        }
        Ok(times)
    }
}

/// Returns what all rows have, or the number of the first row without it as an error.
pub(super) fn all_told<T>(
    told: Vec<Option<T>>,
    rows_before: u64,
    otherwise: impl Fn() -> GridError,
) -> Result<Vec<T>, TableError> {
    let place = |(row, told): (usize, Option<T>)| {
        told.ok_or_else(|| TableError::Time { row: rows_before + row as u64, source: otherwise() })
    };
    told.into_iter().enumerate().map(place).collect()
}
