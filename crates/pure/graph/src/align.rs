//! Several inputs on the time grid of the first, row by row, holes kept.
//!
//! Every sample of the first input, missing ones included, is one instant of the grid. The value of every other
//! input at that instant follows from [`Matching`], never across a hole. A row in which any input has no value is a
//! hole. Rows wait for the slowest input up to the patience: data that have not arrived by then count as missing and
//! are ignored if they arrive later.

use core::time::Duration;
use std::sync::Arc;

use ledger::Stage;
use sample::{Schema, StreamName};
use units::WallTime;

use crate::intake::{Missing, Piece, Run};
use crate::track::{Lookup, Moment, Track};
use crate::{Input, InputError, Matching};

/// Settings of the alignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AlignConfig {
    /// Method by which the inputs other than the first get their values.
    pub matching: Matching,
    /// Maximum length of data that wait for a silent input; 2 s by default.
    pub patience: Duration,
    /// Stage to which a hole is assigned when the patience ends; `late` by default.
    pub overdue: Stage,
}

impl Default for AlignConfig {
    fn default() -> Self {
        let patience = Duration::from_secs(2);
        Self { matching: Matching::Nearest, patience, overdue: Stage::Late }
    }
}

/// Consecutive instants of the grid.
#[derive(Clone, PartialEq, Debug)]
pub enum Aligned {
    /// All inputs have values.
    Rows {
        /// Index of the first instant on the grid.
        first_index: u64,
        /// Time of the first instant.
        t0: WallTime,
        /// Shape: `[input][instant]`.
        columns: Vec<Vec<f64>>,
    },
    /// At least one input has no value.
    Hole {
        /// Index of the first instant on the grid.
        first_index: u64,
        /// Time of the first instant.
        t0: WallTime,
        /// Number of instants.
        samples: u64,
        /// First input, in their order, that has no value.
        input: usize,
        /// Stage of the loss, if known.
        stage: Option<Stage>,
    },
}

/// Aligns inputs.
///
/// `handle` takes the inputs' data, `advance` the time; then `poll` until `None`. Waiting data are
/// bounded by the patience and one block of each input.
#[derive(Clone, Debug)]
pub struct Aligner {
    config: AlignConfig,
    grid: Track,
    others: Vec<Track>,
    /// Number of finished samples in the grid's first run.
    done: usize,
    next_index: u64,
    /// Latest time known from the inputs and the clock.
    latest_ns: i64,
}

/// State of all inputs at one instant.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Verdict {
    Row,
    Hole { input: usize, stage: Option<Stage> },
    Wait,
}

impl Aligner {
    /// Makes the machine for the given channels; the first gives the grid.
    ///
    /// # Panics
    /// If there is no input.
    #[must_use]
    pub fn new(config: AlignConfig, inputs: impl IntoIterator<Item = (StreamName, String)>) -> Self {
        let mut tracks =
            inputs.into_iter().map(|(stream, channel)| Track::new(stream, channel, config.matching));
        let grid = tracks.next().expect("at least one input");
        let others = tracks.collect();
        Self { config, grid, others, done: 0, next_index: 0, latest_ns: i64::MIN }
    }

    /// Takes data of input number `input`.
    ///
    /// # Errors
    /// [`InputError`] if the block does not fit this input; the block is ignored.
    ///
    /// # Panics
    /// If there is no such input.
    pub fn handle(&mut self, input: usize, what: Input<'_>) -> Result<(), InputError> {
        self.track_mut(input).handle(what)?;
        if let Input::Block(block) = what {
            // The block's start: a block longer than the patience must not make its own beginning overdue.
            self.latest_ns = self.latest_ns.max(block.t0.as_nanos());
            // While the grid's input is silent, the others keep only data that it may still need.
            let patience = i64::try_from(self.config.patience.as_nanos()).unwrap_or(i64::MAX);
            let oldest_ns = self.latest_ns.saturating_sub(patience);
            if self.grid.intake.pieces.is_empty() {
                self.others.iter_mut().for_each(|track| track.forget_before(oldest_ns));
            }
        }
        Ok(())
    }

    /// Advances the inputs' clock to `now` and gives up on data that waited longer than the patience.
    pub fn advance(&mut self, now: WallTime) {
        self.latest_ns = self.latest_ns.max(now.as_nanos());
    }

    /// Returns the next run of the grid, `None` until more is known.
    pub fn poll(&mut self) -> Option<Aligned> {
        loop {
            match self.grid.intake.pieces.pop_front()? {
                Piece::Missing(missing) => {
                    if let Some(hole) = self.hole_of_the_grid(&missing) {
                        return Some(hole);
                    }
                }
                Piece::Run(run) => return self.poll_run(run),
            }
        }
    }

    /// Returns the schema of the grid's stream, known since its first block.
    #[must_use]
    pub fn grid_schema(&self) -> Option<&Arc<Schema>> {
        self.grid.intake.schema()
    }

    /// Returns the stream of input number `input`.
    ///
    /// # Panics
    /// If there is no such input.
    #[must_use]
    pub fn stream(&self, input: usize) -> &Arc<StreamName> {
        let track = input.checked_sub(1).map_or(&self.grid, |other| &self.others[other]);
        track.intake.stream()
    }

    /// Returns the index of the next instant; all before it were a row's or a hole's.
    #[must_use]
    pub const fn next_index(&self) -> u64 {
        self.next_index
    }

    fn track_mut(&mut self, input: usize) -> &mut Track {
        match input.checked_sub(1) {
            None => &mut self.grid,
            Some(other) => &mut self.others[other],
        }
    }

    fn hole_of_the_grid(&mut self, missing: &Missing) -> Option<Aligned> {
        if missing.samples == 0 {
            return None;
        }
        let (samples, stage) = (missing.samples, missing.stage);
        Some(self.hole(WallTime::from_nanos(missing.from_ns), samples, 0, stage))
    }

    fn hole(&mut self, t0: WallTime, samples: u64, input: usize, stage: Option<Stage>) -> Aligned {
        let first_index = self.next_index;
        self.next_index += samples;
        Aligned::Hole { first_index, t0, samples, input, stage }
    }

    /// Takes the leading instants with the same verdict from the run and puts the rest back.
    fn poll_run(&mut self, run: Run) -> Option<Aligned> {
        let period_ns = self.grid.intake.period_ns();
        let moment = |place: usize| Moment { base_ns: run.start_ns, offset_ns: place as f64 * period_ns };
        let mut columns = vec![Vec::new(); 1 + self.others.len()];
        let first = self.done;
        let verdict = self.verdict(moment(first), &mut columns);
        let mut end = first;
        if verdict != Verdict::Wait {
            end += 1;
            while end < run.values.len() && self.verdict(moment(end), &mut columns) == verdict {
                end += 1;
            }
        }
        let start_ns = moment(first);
        let t0 = WallTime::from_nanos(start_ns.base_ns.saturating_add(start_ns.offset_ns.round() as i64));
        let jitter_ns = (crate::intake::JITTER_PERIODS * period_ns) as i64;
        // The next run may begin slightly before the end of this one, because clocks are corrected.
        let asked_from = t0.as_nanos().saturating_sub(jitter_ns);
        self.others.iter_mut().for_each(|track| track.forget_before(asked_from));
        let count = end - first;
        self.done = end;
        let aligned = match verdict {
            Verdict::Wait => None,
            Verdict::Hole { input, stage } => Some(self.hole(t0, count as u64, input, stage)),
            Verdict::Row => {
                // A different verdict behind the last row left nothing in the columns.
                columns[0].extend_from_slice(&run.values[first..end]);
                let first_index = self.next_index;
                self.next_index += count as u64;
                Some(Aligned::Rows { first_index, t0, columns })
            }
        };
        if end < run.values.len() {
            self.grid.intake.pieces.push_front(Piece::Run(run));
        } else {
            self.done = 0;
        }
        aligned
    }

    fn is_overdue(&self, moment: Moment) -> bool {
        -moment.since(self.latest_ns) > self.config.patience.as_nanos() as f64
    }

    /// Looks one instant up in all other inputs; only a full row is appended to the columns.
    fn verdict(&self, moment: Moment, columns: &mut [Vec<f64>]) -> Verdict {
        let rows = columns.last().map_or(0, Vec::len);
        let mut verdict = Verdict::Row;
        for (other, track) in self.others.iter().enumerate() {
            match track.lookup(moment) {
                Lookup::Value(value) => columns[other + 1].push(value),
                Lookup::Missing(stage) => {
                    verdict = Verdict::Hole { input: other + 1, stage };
                    break;
                }
                Lookup::Later if self.is_overdue(moment) => {
                    verdict = Verdict::Hole { input: other + 1, stage: Some(self.config.overdue) };
                    break;
                }
                Lookup::Later => {
                    verdict = Verdict::Wait;
                    break;
                }
            }
        }
        if verdict != Verdict::Row {
            columns[1..].iter_mut().for_each(|column| column.truncate(rows));
        }
        verdict
    }
}
