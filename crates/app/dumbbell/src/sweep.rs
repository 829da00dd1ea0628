//! Goodput over loss and round trip, for each control.

use serde::Serialize;

use crate::report::SweepReport;
use crate::{Comparison, Path, Standing};

/// One comparison at each loss and each round trip.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// One for each round trip, with the same controls.
    pub comparisons: Vec<Comparison>,
    /// The probabilities of each packet to be lost.
    pub losses: Vec<f64>,
}

/// What a control got at one loss and one round trip.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cell {
    /// Its name.
    pub cc: String,
    /// Its options; empty if it has none.
    pub options: String,
    /// The probability of each packet to be lost.
    pub loss: f64,
    /// The round trip without any queue.
    pub round_trip_seconds: f64,
    /// What waits before the bottleneck at most. Units: bytes on the wire.
    pub queue_bytes: u64,
    /// What it got, the median over the seeds.
    pub goodput_bits_per_second: f64,
    /// What that is of what a flow could have got.
    pub utilisation: f64,
}

impl Sweep {
    /// Plays all of it; the cells come by round trip, then loss, then control. None if `goes_on` says no.
    ///
    /// # Panics
    /// If there is no comparison.
    pub fn play(&self, goes_on: impl Fn(f64) -> bool + Sync) -> Option<SweepReport> {
        let total = (self.losses.len() * self.comparisons.len()) as f64;
        let mut cells = Vec::new();
        let mut done = 0.0;
        for comparison in &self.comparisons {
            for loss in &self.losses {
                let path = Path { loss: *loss, ..comparison.path.clone() };
                let comparison = Comparison { against_reno: false, path, ..comparison.clone() };
                let report = comparison.play(|part| goes_on((done + part) / total))?;
                done += 1.0;
                cells.extend(
                    report.standings.into_iter().map(|standing| Cell::of(standing, &comparison.path)),
                );
            }
        }
        Some(SweepReport::new(self, cells))
    }
}

impl Cell {
    fn of(standing: Standing, path: &Path) -> Self {
        Self {
            cc: standing.cc,
            options: standing.options,
            loss: path.loss,
            round_trip_seconds: path.round_trip.as_secs_f64(),
            queue_bytes: path.queue_bytes,
            goodput_bits_per_second: standing.goodput_bits_per_second,
            utilisation: standing.utilisation,
        }
    }

    /// Returns the control's name with its options.
    #[must_use]
    pub fn label(&self) -> String {
        crate::compare::label(&self.cc, &self.options)
    }
}
