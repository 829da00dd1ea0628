//! Level of an archive's disk, and the alarm before the disk is full.

use crate::store::{Store, StoreError};

/// Share of the disk in use from which on there is an alarm; as in the audit of `tallycast doctor audit`.
const ALARM_FROM: f64 = 0.8;
/// Share in use below which the alarm ends: a level that moves around the threshold is reported once.
const ALARM_UNTIL: f64 = 0.75;

/// Level of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskLevel {
    /// Number of bytes that can still be written.
    pub free_bytes: u64,
    /// Size of the whole disk, in bytes.
    pub size_bytes: u64,
}

impl DiskLevel {
    /// Reads the level of a store's disk.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn of(store: &dyn Store) -> Result<Self, StoreError> {
        Ok(Self { free_bytes: store.space_bytes()?, size_bytes: store.capacity_bytes()? })
    }

    /// Returns the share in use, 0 to 1; space that is reserved for root counts as used.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    pub fn used_share(&self) -> f64 {
        let used = self.size_bytes.saturating_sub(self.free_bytes);
        used as f64 / self.size_bytes.max(1) as f64
    }

    /// Returns the share in use, in whole percent.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    pub fn used_percent(&self) -> u8 {
        (self.used_share() * 100.0) as u8
    }
}

/// Alarm with hysteresis: on from 80 % in use, off again below 75 %.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskAlarm {
    is_on: bool,
}

impl DiskAlarm {
    /// Takes a level; returns whether the alarm went on (`true`) or off (`false`), if it changed.
    pub fn take(&mut self, level: &DiskLevel) -> Option<bool> {
        let limit = if self.is_on { ALARM_UNTIL } else { ALARM_FROM };
        let is_on = level.used_share() >= limit;
        (core::mem::replace(&mut self.is_on, is_on) != is_on).then_some(is_on)
    }

    /// Returns whether the alarm is on.
    #[must_use]
    pub const fn is_on(self) -> bool {
        self.is_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alarm_goes_on_at_80_percent_and_off_below_75() {
        let mut alarm = DiskAlarm::default();
        let mut take = |used: u64| alarm.take(&DiskLevel { free_bytes: 1_000 - used, size_bytes: 1_000 });
        assert_eq!([799, 800, 801, 790, 750].map(&mut take), [None, Some(true), None, None, None]);
        assert_eq!([749, 799, 800].map(&mut take), [Some(false), None, Some(true)]);
        assert!(alarm.is_on());
    }

    #[test]
    fn an_empty_disk_and_none_at_all_are_not_full() {
        let share = |free_bytes, size_bytes| DiskLevel { free_bytes, size_bytes }.used_share();
        assert_eq!([share(u64::MAX, u64::MAX), share(0, 0), share(9, 3)], [0.0; 3]);
        assert_eq!(DiskLevel { free_bytes: 1, size_bytes: 5 }.used_percent(), 80);
    }
}
