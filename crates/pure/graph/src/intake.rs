//! One channel of one input as a line of runs and holes in time, across restarts of its publisher.

use core::ops::Range;
use std::collections::VecDeque;
use std::sync::Arc;

use ledger::Stage;
use sample::{Block, ElementReader, Schema, StreamName};
use units::{Epoch, RangeSet};

use crate::reasons::{Reasons, overlap};
use crate::{Hole, Horizon, InputError};

/// A block whose time is this many periods from where it is expected moved by jitter; beyond that, time
/// jumped, and nothing joins the two sides.
pub(crate) const JITTER_PERIODS: f64 = 2.0;

/// Number of ranges that are remembered of the indices that a horizon told to be missing; beyond it, the oldest are forgotten.
const MAX_LEFT_OUT: usize = 256;

/// A piece of an input's line. Two adjacent runs belong together.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Piece {
    Run(Run),
    Missing(Missing),
}

/// Samples received, one period apart.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Run {
    /// Time of the first sample. Units: nanoseconds since 1970 UTC.
    pub(crate) start_ns: i64,
    pub(crate) values: Vec<f64>,
}

/// A time without samples.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Missing {
    /// Time at which the first missing sample was due.
    pub(crate) from_ns: i64,
    /// Time of the first sample after the hole.
    pub(crate) to_ns: i64,
    /// Number of missing samples; zero if time jumped between two samples.
    pub(crate) samples: u64,
    pub(crate) stage: Option<Stage>,
    /// Their indices, for causes reported later; empty at the boundary of two epochs.
    indices: Range<u64>,
}

/// Turns an input's blocks into pieces.
#[derive(Clone, Debug)]
pub(crate) struct Intake {
    stream: Arc<StreamName>,
    channel: String,
    line: Option<Line>,
    reasons: Reasons,
    pieces: VecDeque<Piece>,
    /// Number of samples in the pieces.
    waiting: usize,
    /// Indices of the epoch that a horizon told to be missing.
    left_out: RangeSet,
    /// Time before which a sample is of no use, because everything that it could decide has been.
    answered_ns: i64,
    /// Samples that came behind their horizon.
    late: u64,
}

/// Current position of the line.
#[derive(Clone, Debug)]
struct Line {
    schema: Arc<Schema>,
    reader: ElementReader,
    period_ns: f64,
    epoch: Epoch,
    next_index: u64,
    /// Time at which the next sample is due.
    due_ns: i64,
}

impl Piece {
    pub(crate) const fn start_ns(&self) -> i64 {
        match self {
            Self::Run(run) => run.start_ns,
            Self::Missing(missing) => missing.from_ns,
        }
    }

    /// Returns the samples that it keeps; a hole takes the memory of a few.
    const fn samples(&self) -> usize {
        match self {
            Self::Run(run) => run.values.len(),
            Self::Missing(_) => 1,
        }
    }
}

impl Intake {
    pub(crate) fn new(stream: StreamName, channel: String) -> Self {
        let stream = Arc::new(stream);
        let (reasons, pieces, left_out) = (Reasons::default(), VecDeque::new(), RangeSet::new());
        let (line, waiting, answered_ns, late) = (None, 0, i64::MIN, 0);
        Self { stream, channel, line, reasons, pieces, waiting, left_out, answered_ns, late }
    }

    pub(crate) const fn stream(&self) -> &Arc<StreamName> {
        &self.stream
    }

    /// Returns the stream's schema, known since its first block.
    pub(crate) fn schema(&self) -> Option<&Arc<Schema>> {
        self.line.as_ref().map(|line| &line.schema)
    }

    /// Returns the period of the samples in nanoseconds, 1 while it is unknown.
    pub(crate) fn period_ns(&self) -> f64 {
        self.line.as_ref().map_or(1.0, |line| line.period_ns)
    }

    /// Returns the time at which the next sample is due, if there was one.
    pub(crate) fn due_ns(&self) -> Option<i64> {
        self.line.as_ref().map(|line| line.due_ns)
    }

    /// Returns the pieces that wait, the oldest first.
    pub(crate) const fn pieces(&self) -> &VecDeque<Piece> {
        &self.pieces
    }

    /// Returns the number of samples in the pieces that wait.
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the number of samples that came behind their horizon, so that nothing could be decided by them any more.
    pub(crate) const fn late(&self) -> u64 {
        self.late
    }

    /// Takes note that everything that a sample before this time could decide has been.
    pub(crate) const fn answered(&mut self, before_ns: i64) {
        if before_ns > self.answered_ns {
            self.answered_ns = before_ns;
        }
    }

    /// Takes the oldest piece.
    pub(crate) fn pop(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        self.waiting -= piece.samples();
        Some(piece)
    }

    /// Puts a piece back that was taken.
    pub(crate) fn put_back(&mut self, piece: Piece) {
        self.waiting += piece.samples();
        self.pieces.push_front(piece);
    }

    /// Takes a block; skips one of an older epoch and one already seen.
    pub(crate) fn take(&mut self, block: &Block) -> Result<(), InputError> {
        let mut line = match self.line.take() {
            None => self.begin(block)?,
            Some(line) => {
                let kept = line.clone();
                let line = self.follow(line, block);
                // A refused block must not change the known state.
                line.inspect_err(|_| self.line = Some(kept))?
            }
        };
        if line.epoch == block.epoch {
            self.count_left_out(&line, block);
            if block.next_index() > line.next_index {
                self.push(&mut line, block);
            }
        }
        self.line = Some(line);
        Ok(())
    }

    /// Counts as missing everything below a horizon that has not come.
    pub(crate) fn reach(&mut self, horizon: &Horizon) {
        let Some(mut line) = self.line.take() else { return };
        if line.epoch == horizon.epoch && horizon.next_index > line.next_index {
            let samples = horizon.next_index - line.next_index;
            let due_ns = line.due_ns.saturating_add((samples as f64 * line.period_ns).round() as i64);
            self.left_out.insert(line.next_index..horizon.next_index);
            if self.left_out.range_count() > MAX_LEFT_OUT
                && let Some(oldest) = self.left_out.first()
            {
                self.left_out.remove(oldest);
            }
            self.leave_out(&mut line, horizon.next_index, due_ns);
        }
        self.line = Some(line);
    }

    /// Records the cause of missing samples.
    pub(crate) fn explain(&mut self, hole: &Hole) {
        let (Some(line), Some(stage)) = (&self.line, hole.stage) else { return };
        if line.epoch != hole.epoch {
            return;
        }
        let per_sample = u64::from(line.schema.elements_per_sample());
        let element = line.reader.element() as u64;
        // First sample whose element is at or behind a position.
        let sample = |position: u64| position.saturating_sub(element).div_ceil(per_sample);
        let indices = sample(hole.positions.start)..sample(hole.positions.end);
        for piece in &mut self.pieces {
            match piece {
                Piece::Missing(missing) if overlap(&missing.indices, &indices) => {
                    missing.stage = missing.stage.or(Some(stage));
                }
                Piece::Missing(_) | Piece::Run(_) => {}
            }
        }
        self.reasons.note(indices, stage);
    }

    fn begin(&self, block: &Block) -> Result<Line, InputError> {
        Ok(Line {
            schema: block.schema.clone(),
            reader: self.reader(&block.schema)?,
            period_ns: 1e9 / block.schema.rate.as_hz(),
            epoch: block.epoch,
            next_index: block.first_index,
            due_ns: block.t0.as_nanos(),
        })
    }

    /// Returns the line before the block, followed by a hole at the boundary of two epochs.
    fn follow(&mut self, mut line: Line, block: &Block) -> Result<Line, InputError> {
        if block.epoch > line.epoch {
            if block.schema.rate != line.schema.rate {
                let (before, now) = (line.schema.rate, block.schema.rate);
                let stream = (*self.stream).clone();
                return Err(InputError::SchemaChanged { stream, before, now });
            }
            let due_ns = line.due_ns;
            line = self.begin(block)?;
            let to_ns = block.t0.as_nanos();
            // One missing sample marks the boundary, however fast the publisher restarted and whatever its clock shows.
            let samples = ((to_ns.saturating_sub(due_ns)) as f64 / line.period_ns).round().max(1.0);
            let from_ns = due_ns.min(to_ns);
            let (stage, indices) = (Some(Stage::Source), 0..0);
            let missing = Missing { from_ns, to_ns, samples: samples as u64, stage, indices };
            self.push_back(Piece::Missing(missing));
            self.reasons.clear();
            self.left_out = RangeSet::new();
        }
        Ok(line)
    }

    fn push(&mut self, line: &mut Line, block: &Block) {
        let seen = line.next_index.saturating_sub(block.first_index);
        let first_index = block.first_index + seen;
        self.leave_out(line, first_index, block.time_of(first_index).as_nanos());
        let mut values = Vec::new();
        line.reader.read(block, &mut values);
        let seen = seen as usize;
        for run in line.reader.present(block) {
            let run = run.start.max(seen)..run.end.max(seen);
            if run.is_empty() {
                continue;
            }
            let index = block.first_index + run.start as u64;
            let start_ns = block.time_of(index).as_nanos();
            self.leave_out(line, index, start_ns);
            line.next_index = index + run.len() as u64;
            line.due_ns = block.time_of(line.next_index).as_nanos();
            let behind = (self.answered_ns.saturating_sub(start_ns) as f64 / line.period_ns).ceil();
            self.late += (behind.max(0.0) as u64).min(run.len() as u64);
            self.push_back(Piece::Run(Run { start_ns, values: values[run].to_vec() }));
        }
        self.leave_out(line, block.next_index(), block.time_of(block.next_index()).as_nanos());
    }

    /// Counts the samples of a block that a horizon told to be missing.
    fn count_left_out(&mut self, line: &Line, block: &Block) {
        if self.left_out.first().is_none_or(|first| first.start >= block.next_index()) {
            return;
        }
        for run in line.reader.present(block) {
            let first = block.first_index + run.start as u64;
            self.late += self.left_out.remove(first..first + run.len() as u64);
        }
    }

    fn push_back(&mut self, piece: Piece) {
        self.waiting += piece.samples();
        self.pieces.push_back(piece);
    }

    /// Leaves out the samples before `index`, which is due at `to_ns`.
    fn leave_out(&mut self, line: &mut Line, index: u64, to_ns: i64) {
        let indices = line.next_index..index;
        let jumped = (to_ns.saturating_sub(line.due_ns)) as f64 > JITTER_PERIODS * line.period_ns;
        if !indices.is_empty() || jumped {
            // Time that passes without an index is the device's.
            let stage = if indices.is_empty() { Some(Stage::Source) } else { self.reasons.of(&indices) };
            let samples = indices.end - indices.start;
            let missing = Missing { from_ns: line.due_ns.min(to_ns), to_ns, samples, stage, indices };
            self.push_back(Piece::Missing(missing));
        }
        line.next_index = index;
        line.due_ns = to_ns;
    }

    fn reader(&self, schema: &Schema) -> Result<ElementReader, InputError> {
        let Some(index) = schema.channel_index(&self.channel) else {
            return Err(InputError::unknown_channel(&self.stream, &self.channel, schema));
        };
        let elements = schema.channel_elements(index);
        if elements.len() != 1 {
            let (stream, channel) = ((*self.stream).clone(), self.channel.clone());
            return Err(InputError::ManyElements { stream, channel, elements: elements.len() });
        }
        Ok(ElementReader::new(schema, elements.start).expect("a channel is within its sample"))
    }
}
