//! What goes into an operator and what comes out of it.

use core::ops::Range;
use std::sync::Arc;

use ledger::Stage;
use sample::{Block, SampleBuffer, StreamName};
use units::{Epoch, SampleRate, WallTime};

/// What an operator is told about one of its inputs.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Samples came. Indices between two blocks of one epoch are a hole.
    Block(&'a Block),
    /// Why samples are missing, before or after the block behind them came.
    Hole(&'a Hole),
    /// The input's publisher said goodbye, or the input is given up.
    Ended,
}

/// Missing elements of an input and their leading stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hole {
    /// The publisher's epoch that they belong to.
    pub epoch: Epoch,
    /// The missing elements' positions since the epoch began.
    pub positions: Range<u64>,
    /// Where most of them were lost; `None` while unsettled, or unexplained.
    pub stage: Option<Stage>,
}

/// Where a hole in an output comes from. In the output's own account it is `source`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inherited {
    /// The input that has the hole.
    pub stream: Arc<StreamName>,
    /// Where the input lost its samples, as far as was known.
    pub stage: Option<Stage>,
}

/// A run of an operator's output. Indices count from 0 and go on without a seam: sample or hole.
#[derive(Clone, Debug)]
pub enum Output {
    /// Consecutive samples.
    Samples {
        /// Index of the first.
        first_index: u64,
        /// When the first was taken.
        t0: WallTime,
        /// How many there are.
        samples: u64,
        /// The samples, as the output's schema says.
        data: SampleBuffer,
    },
    /// Samples that cannot be.
    Hole {
        /// Index of the first.
        first_index: u64,
        /// When the first was due.
        t0: WallTime,
        /// How many there are.
        samples: u64,
        /// Why.
        inherited: Inherited,
    },
}

/// Says why a block cannot be an operator's input.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A channel that the stream does not have.
    #[error("stream `{stream}` has no channel `{channel}`; it has {known}")]
    UnknownChannel {
        /// The stream.
        stream: StreamName,
        /// What was asked for.
        channel: String,
        /// What there is.
        known: String,
    },
    /// A channel with more than one value per sample.
    #[error(
        "channel `{channel}` of stream `{stream}` has {elements} values per sample; an expression takes one"
    )]
    ManyElements {
        /// The stream.
        stream: StreamName,
        /// The channel.
        channel: String,
        /// How many values a sample of it has.
        elements: usize,
    },
    /// The publisher came back with another schema, which the output's cannot follow.
    #[error(
        "stream `{stream}` came back with another schema ({before} before, {now} now); restart the operator"
    )]
    SchemaChanged {
        /// The stream.
        stream: StreamName,
        /// The rate it had.
        before: SampleRate,
        /// The rate it has.
        now: SampleRate,
    },
}
