//! Live traffic, watched for a window at a time.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use diagnose::{Place, Plan, Plans, Tunables, Window, passed};

use super::{FixError, FixUser};
use crate::{Wanted, Watcher, tunables};

/// Snapshots in a window.
const SNAPSHOTS_PER_WINDOW: u32 = 5;

/// Traffic of this host.
pub(super) struct Traffic {
    watcher: Watcher,
    window: Duration,
    is_over: bool,
}

impl Traffic {
    /// Takes the first snapshot.
    pub(super) fn begin(wanted: Wanted, window: Duration) -> Result<Self, FixError> {
        Ok(Self { watcher: Watcher::begin(wanted, None)?, window, is_over: false })
    }

    /// Assigns losses up to now to the time before.
    pub(super) fn begin_anew(&mut self) -> Result<(), FixError> {
        self.watcher.take_snapshot()?;
        Ok(())
    }

    /// Returns the number of watched sockets.
    pub(super) fn sockets(&self) -> usize {
        self.watcher.sockets()
    }

    /// Returns whether the user has ended the last measurement.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Watches for a window; returns the losses and their remedies.
    pub(super) fn watch<U: FixUser>(&mut self, user: &mut U) -> Result<Observation, U::Error> {
        user.on_begin();
        let seen = self.watch_window(user).map_err(FixError::from);
        user.on_end()?;
        Ok(seen?)
    }

    fn watch_window<U: FixUser>(&mut self, user: &mut U) -> io::Result<Observation> {
        let (mut window, mut processed, mut plans) = (Window::default(), 0, Plans::default());
        let mut read = vec![tunables(&BTreeSet::new())];
        for _ in 0..SNAPSHOTS_PER_WINDOW {
            let goes_on = self.watcher.wait(self.window / SNAPSHOTS_PER_WINDOW, |time| user.wait(time))?;
            let seen = self.watcher.take_snapshot()?;
            seen.losses.findings.iter().for_each(|finding| plans.take(finding));
            read.push(tunables(&plans.starved().collect()));
            window = window.and(Window { time: seen.time, delivered: seen.losses.delivered, lost: 0 });
            processed += seen.losses.processed;
            self.is_over = !goes_on;
            if self.is_over {
                break;
            }
        }
        Ok(Observation { window, processed, plans: plans.into_plans(&read), tunables: read })
    }
}

/// Observation of a window.
pub(super) struct Observation {
    pub(super) window: Window,
    /// Number of packets received by the whole host.
    processed: u64,
    /// The largest loss first.
    pub(super) plans: Vec<Plan>,
    /// The tunables at each snapshot.
    tunables: Vec<Tunables>,
}

impl Observation {
    /// Returns the window with the losses of one kind, and the passed packets where these are counted; losses of the
    /// whole host may have been addressed to other namespaces.
    pub(super) fn window_of(&self, plan: &Plan) -> Window {
        let passed = passed(plan.stage, &plan.place, &self.tunables);
        let of_all = if plan.place == Place::Host { self.processed } else { self.window.delivered };
        let lost = self.plans.iter().find(|it| it.key() == plan.key()).map_or(0, |it| it.lost);
        Window { lost, delivered: passed.unwrap_or(of_all), ..self.window }
    }
}
