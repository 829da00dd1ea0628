//! Cycles of one app: due times and counters.

use core::time::Duration;

use units::{Instant, WallTime};

use crate::schedule::{Beat, Due, PeriodError, Schedule};
use crate::status::{InputStatus, NEVER, StatusRow};
use crate::{AppCounters, Freshness, InputCounters, News};

/// Knowledge of an input before its stream has been received.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct InputPlan {
    /// Interval between its samples; `None` while it is unknown.
    pub period: Option<Duration>,
}

/// Result of a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The cycle.
    pub due: Due,
    /// Number of cycles after it that are skipped; above 0 the cycle is an overrun.
    pub skipped: u64,
    /// Number of alarms that the timer rule raised.
    pub alarms: u64,
}

/// The cycles of one app.
///
/// For each cycle: wait until [`due`](Self::due), then call [`begun`](Self::begun),
/// [`looked`](Self::looked) for each input, the function itself, and [`ended`](Self::ended). The
/// machine owns no clock; a step of the wall clock after its creation has no effect.
#[derive(Clone, Debug)]
pub struct CycleMachine {
    schedule: Schedule,
    counters: AppCounters,
    inputs: Vec<InputPlan>,
    begun: Instant,
    row: StatusRow,
}

impl CycleMachine {
    /// Creates the machine of an app with `inputs` inputs; `clocks` are both clocks read at one
    /// moment.
    ///
    /// # Errors
    /// [`PeriodError`] if the period is too short or is not a sample rate, or the phase is not
    /// within it.
    pub fn new(beat: Beat, inputs: usize, clocks: (Instant, WallTime)) -> Result<Self, PeriodError> {
        let schedule = Schedule::aligned(beat, clocks)?;
        let counters =
            AppCounters { inputs: vec![InputCounters::default(); inputs], ..AppCounters::default() };
        let row = StatusRow { inputs: vec![InputStatus::default(); inputs], ..StatusRow::default() };
        let inputs = vec![InputPlan::default(); inputs];
        Ok(Self { schedule, counters, inputs, begun: schedule.due().at, row })
    }

    /// Sets the process in which the app runs, as its status reports it.
    #[must_use]
    pub fn in_process(mut self, pid: u32) -> Self {
        self.row.pid = u64::from(pid);
        self
    }

    /// Returns the next cycle, or the current one until it has ended.
    #[must_use]
    pub fn due(&self) -> Due {
        self.schedule.due()
    }

    /// Returns the period.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.schedule.period()
    }

    /// Returns the UTC time of a moment, by the wall clock as it was when the machine was created.
    #[must_use]
    pub fn time_at(&self, now: Instant) -> WallTime {
        self.schedule.time_at(now)
    }

    /// Returns the counters.
    #[must_use]
    pub const fn counters(&self) -> &AppCounters {
        &self.counters
    }

    /// Sets the interval between the samples of an input.
    pub fn input_known(&mut self, input: usize, period: Duration) {
        self.inputs[input].period = Some(period);
    }

    /// Begins the cycle that is due.
    pub fn begun(&mut self, now: Instant) {
        self.begun = now;
        self.counters.lateness.record(now.since(self.due().at));
    }

    /// Counts the samples and losses that the cycle found at an input.
    pub fn looked(&mut self, input: usize, news: &News) -> Freshness {
        // An input is assumed to have the app's period until its own is known.
        let own = self.inputs[input].period.unwrap_or(self.period());
        let (due, span) = (self.due().time, self.period() + own);
        self.counters.inputs[input].looked(due, span, news)
    }

    /// Ends the cycle: the next one is the first that is due now or later.
    pub fn ended(&mut self, now: Instant) -> Ended {
        let due = self.due();
        let run_time = now.since(self.begun);
        self.row.lateness_ns = nanos(self.begun.since(due.at));
        self.row.run_time_ns = nanos(run_time);
        let skipped = self.schedule.ended(now);
        self.counters.cycles += 1;
        self.counters.overruns += u64::from(skipped > 0);
        self.counters.skipped += skipped;
        self.counters.run_time.record(run_time);
        let alarms = self.counters.timer.elapsed(1 + skipped);
        self.counters.timer.finished();
        Ended { due, skipped, alarms }
    }

    /// Returns the status row of the cycle that has just ended.
    pub fn status(&mut self) -> &StatusRow {
        let (row, counters) = (&mut self.row, &self.counters);
        row.overruns = counters.overruns;
        row.skipped = counters.skipped;
        row.alarms = counters.timer.alarms();
        for (status, input) in row.inputs.iter_mut().zip(&counters.inputs) {
            *status = InputStatus {
                age_ns: input.age_ns.map_or(NEVER, |age| u64::try_from(age).unwrap_or(0)),
                samples: input.samples,
                lost_elements: input.lost_elements,
                missed: input.missed,
                late: input.late,
            };
        }
        row
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BEAT: Beat = Beat { period: Duration::from_millis(10), phase: Duration::ZERO };

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    fn machine(inputs: usize) -> CycleMachine {
        CycleMachine::new(BEAT, inputs, (at(0), WallTime::from_nanos(0))).unwrap()
    }

    #[test]
    fn a_cycle_that_overruns_is_counted_and_what_it_covered_is_left_out() {
        let mut machine = machine(0);
        machine.begun(at(30));
        let ended = machine.ended(at(25_000));
        assert_eq!((ended.due.index, ended.skipped, machine.due().index), (0, 2, 3));
        let status = machine.status().clone();
        assert_eq!((status.lateness_ns, status.run_time_ns), (30_000, 24_970_000));
        machine.begun(at(30_000));
        machine.ended(at(31_000));
        let counters = machine.counters();
        assert_eq!((counters.cycles, counters.overruns, counters.skipped, machine.due().index), (2, 1, 2, 4));
    }

    #[test]
    fn a_step_of_the_wall_clock_moves_no_cycle_but_those_of_apps_that_start_after_it() {
        let mut before = machine(0);
        before.begun(at(0));
        before.ended(at(1_000));
        // 3 ms before the second cycle the clock is set back by one hour, 4 ms and 1 ns.
        let stepped = WallTime::from_nanos(7_000_000 - 3_600_004_000_001);
        assert_eq!((before.due().at, before.due().time), (at(10_000), WallTime::from_nanos(10_000_000)));
        assert_eq!(before.time_at(at(7_000)), WallTime::from_nanos(7_000_000));
        let after = CycleMachine::new(BEAT, 0, (at(7_000), stepped)).unwrap();
        assert_eq!(after.due().time.as_nanos() % 10_000_000, 0);
        assert_eq!(after.due().at, at(7_000) + Duration::from_nanos(7_000_001), "aligned to the new time");
    }

    #[test]
    fn a_function_that_blocked_for_a_second_raises_the_timers_alarm() {
        let mut machine = machine(0);
        machine.begun(at(0));
        // 100 pending cycles raise no alarm: the 100 that were skipped; one more raises one.
        assert_eq!(machine.clone().ended(at(1_000_000)).alarms, 0);
        assert_eq!(machine.ended(at(1_000_001)).alarms, 1);
        assert_eq!(machine.status().alarms, 1);
    }

    #[test]
    fn an_input_of_its_own_rate_is_due_at_that_rate() {
        let mut machine = machine(1);
        let old = News { samples: 0, newest: Some(WallTime::from_nanos(-50_000_000)), lost_elements: 0 };
        assert_eq!(
            machine.looked(0, &old),
            Freshness::Missed,
            "as fast as the app, as long as nothing is known"
        );
        machine.input_known(0, Duration::from_millis(100));
        assert_eq!(machine.looked(0, &old), Freshness::Held, "a slow input is not due in every cycle");
        assert_eq!(machine.status().inputs[0].missed, 1);
    }

    proptest! {
        /// Every cycle ran or was skipped, and the counters show which.
        #[test]
        fn every_index_ran_or_was_skipped(runs in prop::collection::vec((0_u64..15_000, 0_u64..40_000), 1..60)) {
            let mut machine = machine(0);
            for (late, run) in runs {
                let begun = machine.due().at + Duration::from_micros(late);
                machine.begun(begun);
                machine.ended(begun + Duration::from_micros(run));
                let counters = machine.counters();
                prop_assert_eq!(machine.due().index, counters.cycles + counters.skipped);
                prop_assert_eq!(counters.lateness.count(), counters.cycles);
                prop_assert!(counters.overruns <= counters.skipped);
            }
        }
    }
}
