//! Goodput over loss and round trip, for each control.

use serde::Serialize;

use crate::report::SweepReport;
use crate::{Comparison, Path, Standing};

/// One comparison at each loss and each round trip.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Comparisons, one for each round trip, with the same controls.
    pub comparisons: Vec<Comparison>,
    /// Loss probabilities of each packet.
    pub losses: Vec<f64>,
}

/// Result of a control at one loss and one round trip.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cell {
    /// Name of the control.
    pub cc: String,
    /// Options; empty if there are none.
    pub options: String,
    /// Loss probability of each packet.
    pub loss: f64,
    /// Round-trip time without queueing.
    pub round_trip_seconds: f64,
    /// Queue capacity before the bottleneck. Units: bytes on the wire.
    pub queue_bytes: u64,
    /// Goodput, median over the seeds.
    pub goodput_bits_per_second: f64,
    /// Goodput as a share of the maximum.
    pub utilisation: f64,
}

impl Sweep {
    /// Plays all comparisons; the cells are ordered by round trip, then loss, then control. `None` if `goes_on`
    /// returns false.
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
