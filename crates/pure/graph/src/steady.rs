//! One stream's samples as values at a steady rate, for operators that compute from neighbours.
//!
//! A piece is a run of values that follow each other, or a boundary over which nothing is computed. What makes a boundary is
//! decided here: a hole, a sample that is not whole, a jump of the samples' times, another epoch.

use ledger::Stage;
use sample::{Block, Dtype, ElementReader, SampleBuffer, Schema};
use units::{RangeSet, SampleRate, WallTime};

use crate::intake::JITTER_PERIODS;
use crate::outputs::Outputs;
use crate::{Channels, Inherited, Input, InputError, Operator, Output};

/// A piece of the input. Indices count from the start of the epoch.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Piece {
    /// The first epoch begins, or another one: nothing before belongs to what follows.
    Begun {
        /// Index of the first sample that is read.
        index: u64,
        /// Time of that sample.
        t0: WallTime,
    },
    /// Values of consecutive samples.
    Run(Run),
    /// A boundary: the samples before index `to` that are not there. There are none where time jumped.
    Missing {
        /// Index one behind the last.
        to: u64,
        stage: Option<Stage>,
    },
}

/// Values of consecutive samples.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Run {
    /// Index of the first sample.
    pub(crate) first_index: u64,
    /// Time of the first sample.
    pub(crate) t0: WallTime,
    pub(crate) samples: u64,
    /// Values in their channels' units. Shape: `[elements][samples]`.
    pub(crate) columns: Vec<Vec<f64>>,
}

/// Turns blocks into pieces.
#[derive(Clone, Debug)]
pub(crate) struct Steady {
    /// Gives the input's whole samples and holes.
    whole: Channels,
    line: Option<Line>,
}

#[derive(Clone, Debug)]
struct Line {
    /// A block without samples, of the input.
    input: Block,
    readers: Vec<ElementReader>,
    next_index: u64,
    /// Time at which the next sample is due; `None` after a boundary.
    due: Option<WallTime>,
}

/// What an operator makes of the pieces.
pub(crate) trait Follower {
    /// Goes to the first sample of an epoch.
    fn begin(&mut self, index: u64, t0: WallTime);

    /// Returns the time at which the next sample of the output is due.
    fn due(&mut self) -> WallTime;

    /// Returns the schema of the output.
    fn schema(&self) -> &Schema;

    /// Returns where holes come from.
    fn inherited(&self) -> &Inherited;

    /// Takes a run of values, and puts out the samples that are decided by it.
    fn take(&mut self, run: Run, outputs: &mut Outputs);

    /// Leaves out what is due before sample `to` of the input, or needs one before it, and is not decided yet.
    fn leave_out(&mut self, to: u64, stage: Option<Stage>, outputs: &mut Outputs);

    /// Takes a piece. `is_first`: no epoch has begun before.
    fn follow(&mut self, piece: Piece, is_first: bool, outputs: &mut Outputs) {
        match piece {
            Piece::Begun { index, t0 } if is_first => self.begin(index, t0),
            Piece::Begun { index, t0 } => {
                let due = self.due();
                self.begin(index, t0);
                // A hole between two epochs of the publisher, at least one sample long.
                let next = self.due();
                let samples = next.nanos_since(due) as f64 * self.schema().rate.as_hz() / 1e9;
                let samples = samples.round().max(1.0) as u64;
                outputs.push_hole(due.min(next), samples, self.inherited(), Some(Stage::Source));
            }
            Piece::Run(run) => self.take(run, outputs),
            Piece::Missing { to, stage } => self.leave_out(to, stage, outputs),
        }
    }
}

/// Refuses streams without a steady rate, and elements that are no real numbers.
pub(crate) fn check(block: &Block, purpose: &'static str) -> Result<(), InputError> {
    let stream = || (*block.stream).clone();
    if block.schema.has_own_times() {
        return Err(InputError::OwnTimes { stream: stream() });
    }
    match block.schema.dtype {
        dtype @ (Dtype::Bool | Dtype::C8 | Dtype::C16) => {
            Err(InputError::NoReal { stream: stream(), dtype, purpose })
        }
        _ => Ok(()),
    }
}

impl Steady {
    pub(crate) fn new() -> Self {
        Self { whole: Channels::all(), line: None }
    }

    /// Takes an event of the input, and returns the pieces that it decides.
    ///
    /// # Errors
    /// [`InputError`] if the publisher restarted with another schema.
    fn handle(&mut self, what: Input<'_>) -> Result<Vec<Piece>, InputError> {
        let before = self.line.as_ref().map(|line| line.input.epoch);
        self.whole.handle(0, what)?;
        let mut pieces = Vec::new();
        if let Input::Block(block) = what
            && before.is_none_or(|before| block.epoch > before)
        {
            if before.is_some() {
                // The hole that marks the boundary: its length is one of samples, and not of the output's.
                let boundary = self.whole.poll();
                debug_assert!(matches!(boundary, Some(Output::Hole { .. })), "an epoch ends with a hole");
            }
            self.line = Some(Line::new(block));
            pieces.push(Piece::Begun { index: block.first_index, t0: block.t0 });
        }
        let Some(line) = &mut self.line else { return Ok(pieces) };
        while let Some(output) = self.whole.poll() {
            match output {
                Output::Samples { t0, samples, data, .. } => line.run(t0, samples, data, &mut pieces),
                Output::Hole { samples, inherited, .. } => {
                    line.next_index += samples;
                    line.due = None;
                    pieces.push(Piece::Missing { to: line.next_index, stage: inherited.stage });
                }
            }
        }
        Ok(pieces)
    }

    /// Passes what an event of the input decides to an operator, if it has begun.
    ///
    /// # Errors
    /// As [`handle`](Self::handle).
    pub(crate) fn pass(
        &mut self,
        what: Input<'_>,
        follower: Option<&mut impl Follower>,
        outputs: &mut Outputs,
    ) -> Result<(), InputError> {
        let is_first = self.line.is_none();
        let pieces = self.handle(what)?;
        let Some(follower) = follower else { return Ok(()) };
        let end = matches!(what, Input::Ended).then(|| self.end()).flatten();
        pieces.into_iter().chain(end).for_each(|piece| follower.follow(piece, is_first, outputs));
        Ok(())
    }

    /// Returns the boundary at the end of the samples that were read: nothing after it is computed with them.
    fn end(&mut self) -> Option<Piece> {
        let line = self.line.as_mut()?;
        line.due = None;
        Some(Piece::Missing { to: line.next_index, stage: Some(Stage::Source) })
    }
}

impl Line {
    fn new(block: &Block) -> Self {
        let elements = 0..block.schema.elements_per_sample() as usize;
        Self {
            input: Block {
                samples: 0,
                data: SampleBuffer::zeroed(0),
                missing: RangeSet::new(),
                ..block.clone()
            },
            readers: elements.filter_map(|element| ElementReader::new(&block.schema, element)).collect(),
            next_index: block.first_index,
            due: None,
        }
    }

    fn run(&mut self, t0: WallTime, samples: u64, data: SampleBuffer, pieces: &mut Vec<Piece>) {
        let rate = self.input.schema.rate;
        let first_index = self.next_index;
        let late_ns = self.due.map_or(0, |due| t0.nanos_since(due).unsigned_abs());
        if late_ns as f64 > JITTER_PERIODS * 1e9 / rate.as_hz() {
            pieces.push(Piece::Missing { to: first_index, stage: Some(Stage::Source) });
        }
        self.next_index += samples;
        self.due = Some(rate.time_of(samples, 0, t0));
        let block = Block { samples, data, t0, ..self.input.clone() };
        let columns = self.readers.iter().map(|reader| {
            let mut values = Vec::with_capacity(samples as usize);
            reader.read(&block, &mut values);
            values
        });
        pieces.push(Piece::Run(Run { first_index, t0, samples, columns: columns.collect() }));
    }
}

/// Times of an output's samples: those of a steady rate, as long as the input's times are those of one, too.
///
/// Times by the input are rounded down to the nanosecond wherever a block begins; on the grid, they are a whole number of
/// periods of the output apart, to the nanosecond.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grid {
    rate: SampleRate,
    /// Number and time of a sample of the output.
    anchor: (u64, WallTime),
}

/// Largest difference that is rounding. Units: nanoseconds.
const ROUNDING_NS: u64 = 2;

impl Grid {
    /// Begins with sample `number` of the output at `time`.
    pub(crate) const fn new(rate: SampleRate, number: u64, time: WallTime) -> Self {
        Self { rate, anchor: (number, time) }
    }

    /// Returns the time of a sample, which is at `by_input` by the input's clock.
    pub(crate) fn time_of(&mut self, number: u64, by_input: WallTime) -> WallTime {
        let (anchor, time) = self.anchor;
        let by_grid = self.rate.time_of(number, anchor, time);
        if by_grid.nanos_since(by_input).unsigned_abs() <= ROUNDING_NS {
            return by_grid;
        }
        self.anchor = (number, by_input);
        by_input
    }
}
