//! Crossings of a level: a comparator with hysteresis, and the place between two samples at which they cross.

use core::fmt;

use serde::{Deserialize, Serialize};

/// Direction in which a level is crossed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Edge {
    /// From below to the level or above.
    #[default]
    Rising,
    /// From above to the level or below.
    Falling,
    /// Both.
    Either,
}

/// A crossing between a sample and the one before.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Crossing {
    pub(super) rising: bool,
    /// From the sample back to the crossing. Units: samples, above -1 and at most 0.
    pub(super) offset: f64,
}

/// Finds the crossings of a level.
///
/// A value that is farther than the hysteresis from the level arms it; the level, reached from there, is a crossing. A
/// value that is not finite disarms it.
#[derive(Clone, Debug)]
pub(super) struct Comparator {
    level: f64,
    hysteresis: f64,
    edge: Edge,
    /// Armed for a rising and for a falling crossing.
    armed: [bool; 2],
    previous: f64,
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rising => "rising",
            Self::Falling => "falling",
            Self::Either => "either",
        })
    }
}

impl Comparator {
    pub(super) const fn new(level: f64, hysteresis: f64, edge: Edge) -> Self {
        Self { level, hysteresis, edge, armed: [false; 2], previous: f64::NAN }
    }

    /// Forgets the past.
    pub(super) const fn reset(&mut self) {
        self.armed = [false; 2];
    }

    /// Takes the next value; returns whether it has crossed the level.
    pub(super) fn take(&mut self, value: f64) -> Option<Crossing> {
        if !value.is_finite() {
            self.reset();
            return None;
        }
        let previous = core::mem::replace(&mut self.previous, value);
        let [rising, falling] = self.armed;
        let crosses_up = rising && value >= self.level;
        let crosses_down = falling && value <= self.level;
        let (below, above) = (value < self.level - self.hysteresis, value > self.level + self.hysteresis);
        self.armed = [
            (rising && !crosses_up || below) && self.edge != Edge::Falling,
            (falling && !crosses_down || above) && self.edge != Edge::Rising,
        ];
        (crosses_up || crosses_down)
            .then(|| Crossing { rising: crosses_up, offset: offset(previous, self.level, value) })
    }
}

/// Returns how far from `value`, the later of two samples, the straight line between them crosses the level.
///
/// Units: samples, above -1 and at most 0. One is on the one side of the level, the other at or beyond it.
fn offset(previous: f64, level: f64, value: f64) -> f64 {
    // Halves: the distance of two values may be beyond the range of floats.
    let (previous, level, value) = (previous / 2.0, level / 2.0, value / 2.0);
    let back = (value - level) / (value - previous);
    // Rounding must not make it the sample before.
    0.0 - back.min(1.0 - f64::EPSILON / 2.0)
}
