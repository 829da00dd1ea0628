//! An input's value at any instant of another input's grid, or the reason why there is none.

use ledger::Stage;
use sample::StreamName;

use crate::intake::{Intake, JITTER_PERIODS, Missing, Piece, Run};
use crate::{Input, InputError};

/// An instant this close to a sample is that sample: both times were rounded to whole nanoseconds.
const SNAP_NS: f64 = 2.0;

/// Method by which an input gets its value at an instant between two of its samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Matching {
    /// The sample nearest in time, half a period away at most.
    Nearest,
    /// The straight line between the two samples around the instant; both must be there.
    Linear,
}

/// Result of looking up an input at an instant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Lookup {
    Value(f64),
    /// There is a hole.
    Missing(Option<Stage>),
    /// Undecided until more data arrive.
    Later,
}

/// An instant as a base that is exact and an offset that is small, because an f64 counts days in 256 ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) base_ns: i64,
    pub(crate) offset_ns: f64,
}

/// The part of an input's line that later instants can still need.
#[derive(Clone, Debug)]
pub(crate) struct Track {
    pub(crate) intake: Intake,
    matching: Matching,
    ended: bool,
    /// No sample from before this time will come, as far as is known.
    horizon_ns: i64,
}

impl Moment {
    /// Returns how long after `start_ns` this is.
    pub(crate) fn since(self, start_ns: i64) -> f64 {
        (self.base_ns.saturating_sub(start_ns)) as f64 + self.offset_ns
    }
}

impl Track {
    pub(crate) fn new(stream: StreamName, channel: String, matching: Matching) -> Self {
        Self { intake: Intake::new(stream, channel), matching, ended: false, horizon_ns: i64::MIN }
    }

    pub(crate) fn handle(&mut self, input: Input<'_>) -> Result<(), InputError> {
        match input {
            Input::Block(block) => {
                self.ended = false;
                if block.t0.as_nanos() < self.horizon_ns {
                    // It came later than any before: nothing is known until the next horizon.
                    self.horizon_ns = i64::MIN;
                }
                self.intake.take(block)
            }
            Input::Hole(hole) => {
                self.intake.explain(hole);
                Ok(())
            }
            Input::Horizon(horizon) => {
                self.ended = false;
                self.intake.reach(&horizon);
                if let Some(before) = horizon.before {
                    self.horizon_ns = before.as_nanos();
                }
                Ok(())
            }
            Input::Ended => {
                self.ended = true;
                Ok(())
            }
        }
    }

    /// Returns whether its publisher ended it, or it is absent.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns the time before which no sample will come, as far as is known.
    pub(crate) const fn horizon_ns(&self) -> i64 {
        self.horizon_ns
    }

    /// Takes note that all instants up to this one are decided: a sample that could have decided one comes too late.
    pub(crate) fn answered(&mut self, instant_ns: i64) {
        let reach_ns = (self.reach_periods() * self.intake.period_ns()).floor() as i64;
        self.intake.answered(instant_ns.saturating_add(reach_ns));
    }

    /// Drops the pieces that end before an instant, because no earlier instant will be requested.
    pub(crate) fn forget_before(&mut self, instant_ns: i64) {
        // A run's last sample still counts for the instants up to the next piece.
        while self.intake.pieces().get(1).is_some_and(|next| next.start_ns() < instant_ns) {
            self.intake.pop();
        }
    }

    /// Drops the oldest pieces until no more samples are left than `most`, or one piece.
    pub(crate) fn forget_above(&mut self, most: usize) {
        while self.intake.waiting() > most && self.intake.pieces().len() > 1 {
            self.intake.pop();
        }
    }

    /// Returns what the input has at `moment`.
    pub(crate) fn lookup(&self, moment: Moment) -> Lookup {
        let pieces = self.intake.pieces();
        let begun = |piece: &Piece| moment.since(piece.start_ns()) >= 0.0;
        // Pieces before the requested range were dropped, so the piece is among the first.
        let after = pieces.iter().take_while(|piece| begun(piece)).count();
        let next = pieces.get(after);
        match after.checked_sub(1).map(|at| &pieces[at]) {
            // Before the first known piece there will be no data.
            None => match next {
                Some(Piece::Run(next)) => self.before(next, moment).unwrap_or(Lookup::Missing(None)),
                Some(Piece::Missing(missing)) => Lookup::Missing(missing.stage),
                None => self.nothing_yet(moment),
            },
            Some(Piece::Missing(missing)) => match next {
                Some(Piece::Run(next)) => self.before(next, moment).unwrap_or(Lookup::Missing(missing.stage)),
                Some(Piece::Missing(_)) => Lookup::Missing(missing.stage),
                None if self.is_within(missing, moment) => Lookup::Missing(missing.stage),
                None => self.nothing_yet(moment),
            },
            Some(Piece::Run(run)) => self.within(run, moment).unwrap_or_else(|| match next {
                Some(Piece::Run(next)) => {
                    self.before(next, moment).unwrap_or_else(|| self.between(run, next, moment))
                }
                Some(Piece::Missing(missing)) => Lookup::Missing(missing.stage),
                None => self.nothing_yet(moment),
            }),
        }
    }

    /// Returns the maximum distance, in periods, at which a sample's value still applies.
    fn reach_periods(&self) -> f64 {
        match self.matching {
            Matching::Nearest => 0.5,
            Matching::Linear => SNAP_NS / self.intake.period_ns(),
        }
    }

    /// Decides behind the last piece.
    fn nothing_yet(&self, moment: Moment) -> Lookup {
        if self.ended || self.is_decided(moment) {
            Lookup::Missing(Some(Stage::Source))
        } else {
            Lookup::Later
        }
    }

    /// Returns whether the samples still to come are too late for `moment`, and begin behind a hole.
    fn is_decided(&self, moment: Moment) -> bool {
        let period_ns = self.intake.period_ns();
        let ahead_ns = -moment.since(self.horizon_ns);
        // A sample within the jitter of its due time would be joined to the last one.
        let is_hole = self
            .intake
            .due_ns()
            .is_none_or(|due_ns| self.horizon_ns.saturating_sub(due_ns) as f64 > JITTER_PERIODS * period_ns);
        is_hole && ahead_ns > self.reach_periods() * period_ns
    }

    /// Returns whether `moment` is in a hole even if the first sample behind it comes early.
    fn is_within(&self, missing: &Missing, moment: Moment) -> bool {
        -moment.since(missing.to_ns) > JITTER_PERIODS * self.intake.period_ns()
    }

    /// Decides by a run that began, if it can alone.
    fn within(&self, run: &Run, moment: Moment) -> Option<Lookup> {
        let place = moment.since(run.start_ns) / self.intake.period_ns();
        let last = run.values.len() - 1;
        let nearest = place.round();
        if nearest <= last as f64 && (place - nearest).abs() <= self.reach_periods() {
            return Some(Lookup::Value(run.values[nearest as usize]));
        }
        if place >= last as f64 {
            return None;
        }
        let (left, share) = (place.floor() as usize, place.fract());
        Some(Lookup::Value(line(run.values[left], run.values[left + 1], share)))
    }

    /// Decides by a run that did not begin yet, if the instant is close enough.
    fn before(&self, next: &Run, moment: Moment) -> Option<Lookup> {
        let ahead = -moment.since(next.start_ns) / self.intake.period_ns();
        (ahead <= self.reach_periods()).then(|| Lookup::Value(next.values[0]))
    }

    /// Chooses between two runs of which the second's clock was slightly corrected.
    fn between(&self, run: &Run, next: &Run, moment: Moment) -> Lookup {
        let last = run.values.len() - 1;
        let behind = moment.since(run.start_ns) - last as f64 * self.intake.period_ns();
        let ahead = -moment.since(next.start_ns);
        match self.matching {
            Matching::Nearest => Lookup::Value(next.values[0]),
            Matching::Linear => {
                Lookup::Value(line(run.values[last], next.values[0], behind / (behind + ahead)))
            }
        }
    }
}

fn line(left: f64, right: f64, share: f64) -> f64 {
    left + (right - left) * share
}
