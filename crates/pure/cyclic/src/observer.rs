//! State of one app, judged by its status stream alone.

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;

use units::Instant;

use crate::{Registration, StatusRow};

/// Number of periods without a status row after which an app is gone.
const SILENT_PERIODS: u32 = 2;
/// Shortest pause that counts as silence: a busy host may delay any program for this long.
const MIN_SILENCE: Duration = Duration::from_millis(20);
/// Number of rows that determine the state: a counter must have grown in each of the two cycles
/// between them.
const ROWS: usize = 3;

/// State of an app.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppState {
    /// Every cycle ran in time, with the samples it needs.
    Running,
    /// A cycle of the last two overran, or an input was late.
    Late,
    /// An input missed its sample in both of the last two cycles.
    Starving,
    /// Its stream has ended, or no row arrived for two periods.
    Gone,
}

impl AppState {
    /// Returns the state's name, as it is used everywhere.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Late => "late",
            Self::Starving => "starving",
            Self::Gone => "gone",
        }
    }
}

impl fmt::Display for AppState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Knowledge of an app from its status stream.
#[derive(Clone, Debug)]
pub struct Observer {
    registration: Registration,
    station: String,
    heard: Instant,
    ended: bool,
    /// The newest rows with the indices of their cycles.
    rows: VecDeque<(u64, StatusRow)>,
}

/// Snapshot of an app.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppLook {
    /// Registration that the app publishes.
    pub registration: Registration,
    /// Station at which it runs.
    pub station: String,
    /// State of the app.
    pub state: AppState,
    /// For each input, whether it starves.
    pub starving: Vec<bool>,
    /// Its newest cycle, with its index.
    pub newest: Option<(u64, StatusRow)>,
}

impl Observer {
    /// Begins to observe an app whose status stream was joined at `now`.
    #[must_use]
    pub const fn new(registration: Registration, station: String, now: Instant) -> Self {
        Self { registration, station, heard: now, ended: false, rows: VecDeque::new() }
    }

    /// Takes the status row of a cycle.
    pub fn told(&mut self, now: Instant, index: u64, row: StatusRow) {
        if row.inputs.len() != self.registration.inputs.len() {
            return;
        }
        (self.heard, self.ended) = (now, false);
        if self.rows.len() == ROWS {
            self.rows.pop_front();
        }
        self.rows.push_back((index, row));
    }

    /// Notes that the app's status stream has ended.
    pub const fn ended(&mut self) {
        self.ended = true;
    }

    /// Returns when the app becomes gone if no further row arrives.
    #[must_use]
    pub fn silent_at(&self) -> Option<Instant> {
        let silence = (self.registration.beat.period * SILENT_PERIODS).max(MIN_SILENCE);
        (!self.ended).then_some(self.heard + silence)
    }

    /// Returns a snapshot of the app.
    #[must_use]
    pub fn look(&self, now: Instant) -> AppLook {
        let starving = (0..self.registration.inputs.len()).map(|input| self.starves(input)).collect();
        AppLook {
            registration: self.registration.clone(),
            station: self.station.clone(),
            state: self.state(now),
            starving,
            newest: self.rows.back().cloned(),
        }
    }

    /// Returns the state of the app.
    #[must_use]
    pub fn state(&self, now: Instant) -> AppState {
        let inputs = 0..self.registration.inputs.len();
        if self.silent_at().is_none_or(|at| now > at) {
            AppState::Gone
        } else if inputs.clone().any(|input| self.starves(input)) {
            AppState::Starving
        } else if self.has_grown(|row| row.skipped)
            || inputs.into_iter().any(|it| self.has_grown(|row| row.inputs[it].late))
        {
            AppState::Late
        } else {
            AppState::Running
        }
    }

    /// Returns whether an input missed its sample in each of the last two cycles.
    fn starves(&self, input: usize) -> bool {
        let missed = self.rows.iter().map(|(_, row)| row.inputs[input].missed);
        self.rows.len() == ROWS && missed.clone().zip(missed.skip(1)).all(|(before, after)| after > before)
    }

    fn has_grown(&self, count: impl Fn(&StatusRow) -> u64) -> bool {
        let ends = self.rows.front().zip(self.rows.back());
        ends.is_some_and(|((_, first), (_, last))| count(last) > count(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InputStatus;
    use crate::registration::tests::registration;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn observer() -> Observer {
        Observer::new(registration("engine", &["pedal"], &["torque"]), "rig".to_owned(), at(0))
    }

    fn row(missed: u64, late: u64, skipped: u64) -> StatusRow {
        let input = InputStatus { missed, late, ..InputStatus::default() };
        StatusRow { skipped, inputs: vec![input], ..StatusRow::default() }
    }

    /// Creates an observer that received these rows in the last cycles.
    fn after(rows: &[StatusRow]) -> Observer {
        let mut observer = observer();
        for (index, row) in rows.iter().enumerate() {
            observer.told(at(10 * index as u64), index as u64, row.clone());
        }
        observer
    }

    #[test]
    fn an_app_is_gone_after_two_periods_of_silence_and_not_before() {
        let mut observer = after(&[row(0, 0, 0)]);
        assert_eq!(observer.state(at(20)), AppState::Running);
        assert_eq!(observer.state(at(20) + Duration::from_nanos(1)), AppState::Gone);
        observer.told(at(50), 5, row(0, 0, 0));
        assert_eq!(observer.state(at(60)), AppState::Running, "it is back");
        observer.ended();
        assert_eq!(observer.state(at(50)), AppState::Gone, "an end is no silence: it is said");
    }

    #[test]
    fn a_fast_app_is_not_gone_before_a_busy_host_could_have_let_it_run() {
        let mut told = registration("fast", &[], &[]);
        told.beat.period = Duration::from_millis(1);
        let observer = Observer::new(told, String::new(), at(0));
        assert_eq!((observer.state(at(20)), observer.state(at(21))), (AppState::Running, AppState::Gone));
    }

    #[test]
    fn an_app_starves_when_an_input_misses_two_cycles_in_a_row() {
        let starved = after(&[row(0, 0, 0), row(1, 0, 0), row(2, 0, 0)]);
        assert_eq!((starved.state(at(20)), starved.look(at(20)).starving), (AppState::Starving, vec![true]));
        assert_eq!(after(&[row(0, 0, 0), row(1, 0, 0), row(1, 0, 0)]).state(at(20)), AppState::Running);
        assert_eq!(
            after(&[row(1, 0, 0), row(2, 0, 0)]).state(at(20)),
            AppState::Running,
            "one cycle is known"
        );
        let recovered = [row(0, 0, 0), row(1, 0, 0), row(2, 0, 0), row(2, 0, 0)];
        assert_eq!(after(&recovered).state(at(30)), AppState::Running);
    }

    #[test]
    fn an_app_is_late_when_it_or_its_input_was() {
        assert_eq!(after(&[row(0, 0, 0), row(0, 0, 3)]).state(at(10)), AppState::Late);
        assert_eq!(after(&[row(0, 0, 3), row(0, 1, 3)]).state(at(10)), AppState::Late);
        assert_eq!(after(&[row(0, 1, 3), row(0, 1, 3), row(0, 1, 3)]).state(at(20)), AppState::Running);
    }
}
