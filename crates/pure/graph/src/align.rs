//! Several inputs on the time grid of the first, row by row, holes kept.
//!
//! Every sample of the first input, missing ones included, is one instant of the grid. The value of every other
//! input at that instant follows from [`Matching`], never across a hole. A row in which any input has no value is a
//! hole. Rows wait until each input has a value, a hole, or a horizon behind them. Nothing is released by a timer, but
//! an input that has ended or is absent is not waited for. Samples that arrive behind their horizon are left out, and
//! counted.

use std::sync::Arc;

use ledger::Stage;
use sample::{Schema, StreamName};
use units::WallTime;

use crate::intake::{Missing, Piece, Run};
use crate::track::{Lookup, Moment, Track};
use crate::{Input, InputError, Matching};

/// Time span of the other inputs' data that is kept while the grid's input is absent, for its first block.
const KEPT_NS: i64 = 2_000_000_000;

/// Settings of the alignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AlignConfig {
    /// Method by which the inputs other than the first get their values.
    pub matching: Matching,
    /// Maximum number of samples of an input that wait; 4,194,304 (32 MiB) by default. Beyond that, the oldest rows
    /// become holes of stage `late` of the input that is behind.
    pub waiting: usize,
}

impl Default for AlignConfig {
    fn default() -> Self {
        Self { matching: Matching::Nearest, waiting: 1 << 22 }
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
/// `handle` takes what the inputs tell; then `poll` until `None`. Waiting data are bounded by
/// [`AlignConfig::waiting`] and one block of each input.
#[derive(Clone, Debug)]
pub struct Aligner {
    config: AlignConfig,
    grid: Track,
    others: Vec<Track>,
    /// Number of finished samples in the grid's first run.
    done: usize,
    next_index: u64,
    /// Latest time of a block of the other inputs.
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
        if let (Input::Block(block), 1..) = (what, input) {
            self.latest_ns = self.latest_ns.max(block.t0.as_nanos());
        }
        // While the grid's input is silent, the others keep only data that it may still need.
        if self.grid.intake.pieces().is_empty() {
            let kept_ns = self.latest_ns.saturating_sub(KEPT_NS);
            let asked_ns = if self.grid.has_ended() { kept_ns } else { self.grid.horizon_ns() };
            let most = self.config.waiting;
            for track in &mut self.others {
                track.forget_before(asked_ns);
                track.forget_above(most);
            }
        }
        Ok(())
    }

    /// Returns the next run of the grid, `None` until more is known.
    pub fn poll(&mut self) -> Option<Aligned> {
        loop {
            match self.grid.intake.pop()? {
                Piece::Missing(missing) => {
                    if let Some(hole) = self.hole_of_the_grid(&missing) {
                        return Some(hole);
                    }
                }
                Piece::Run(run) => return self.poll_run(run),
            }
        }
    }

    /// Returns the schema of input number `input`, known since its first block.
    ///
    /// # Panics
    /// If there is no such input.
    #[must_use]
    pub fn schema(&self, input: usize) -> Option<&Arc<Schema>> {
        self.track(input).intake.schema()
    }

    /// Returns the stream of input number `input`.
    ///
    /// # Panics
    /// If there is no such input.
    #[must_use]
    pub fn stream(&self, input: usize) -> &Arc<StreamName> {
        self.track(input).intake.stream()
    }

    /// Returns the index of the next instant; all before it were a row's or a hole's.
    #[must_use]
    pub const fn next_index(&self) -> u64 {
        self.next_index
    }

    /// Returns the number of samples of all inputs that came behind their horizon: they are left out.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.grid.intake.late() + self.others.iter().map(|track| track.intake.late()).sum::<u64>()
    }

    fn track(&self, input: usize) -> &Track {
        input.checked_sub(1).map_or(&self.grid, |other| &self.others[other])
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
        // The first rows of the run, up to this one, wait for too long.
        let surplus = (self.grid.intake.waiting() + run.values.len()).saturating_sub(self.config.waiting);
        let verdict = self.verdict(moment(first), first < surplus, &mut columns);
        let mut end = first;
        if verdict != Verdict::Wait {
            end += 1;
            while end < run.values.len() && self.verdict(moment(end), end < surplus, &mut columns) == verdict
            {
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
        if count > 0 {
            let last = moment(end - 1);
            let last_ns = last.base_ns.saturating_add(last.offset_ns as i64);
            self.others.iter_mut().for_each(|track| track.answered(last_ns));
        }
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
            self.grid.intake.put_back(Piece::Run(run));
        } else {
            self.done = 0;
        }
        aligned
    }

    /// Looks one instant up in all other inputs; only a full row is appended to the columns.
    fn verdict(&self, moment: Moment, is_surplus: bool, columns: &mut [Vec<f64>]) -> Verdict {
        let rows = columns.last().map_or(0, Vec::len);
        let mut verdict = Verdict::Row;
        for (other, track) in self.others.iter().enumerate() {
            match track.lookup(moment) {
                Lookup::Value(value) => columns[other + 1].push(value),
                Lookup::Missing(stage) => {
                    verdict = Verdict::Hole { input: other + 1, stage };
                    break;
                }
                Lookup::Later if is_surplus => {
                    verdict = Verdict::Hole { input: other + 1, stage: Some(Stage::Late) };
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
