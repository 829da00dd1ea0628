//! Inputs and outputs of an operator.

use core::ops::Range;
use std::sync::Arc;

use ledger::Stage;
use sample::{Block, Dtype, SampleBuffer, Schema, SchemaError, StreamName};
use units::{Epoch, SampleRate, WallTime};

use crate::{
    FilterError, Horizon, MAX_FASTER, MAX_FILTERED_ELEMENTS, MAX_KEPT_VALUES, MAX_RATIO_TERM, TriggerError,
};

/// An event of one input of an operator.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Samples that arrived. Missing indices between two blocks of one epoch are a hole.
    Block(&'a Block),
    /// Cause of missing samples, before or after the block that follows them.
    Hole(&'a Hole),
    /// Position and time before which nothing more will come: a sign of an input that sends no samples.
    Horizon(Horizon),
    /// The input's publisher ended its stream, or the input is absent. It may return.
    Ended,
}

/// Missing elements of an input and their leading stage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hole {
    /// Publisher's epoch that they belong to.
    pub epoch: Epoch,
    /// The missing elements' positions since the epoch began.
    pub positions: Range<u64>,
    /// Stage at which most of them were lost; `None` while unsettled, or if unexplained.
    pub stage: Option<Stage>,
}

/// Origin of a hole in an output. In the output's own account it is `source`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inherited {
    /// The input that has the hole.
    pub stream: Arc<StreamName>,
    /// Stage at which the input lost its samples, if known.
    pub stage: Option<Stage>,
}

/// A run of an operator's output, samples or a hole. Indices count from 0 and continue without a break.
#[derive(Clone, Debug)]
pub enum Output {
    /// Consecutive samples.
    Samples {
        /// Index of the first.
        first_index: u64,
        /// Time of the first sample.
        t0: WallTime,
        /// Number of samples.
        samples: u64,
        /// Samples, laid out by the output's schema.
        data: SampleBuffer,
    },
    /// Samples that cannot be.
    Hole {
        /// Index of the first.
        first_index: u64,
        /// Time at which the first sample was due.
        t0: WallTime,
        /// Number of samples.
        samples: u64,
        /// Origin of the hole.
        inherited: Inherited,
    },
}

/// Reason why a block cannot be an operator's input.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A channel that the stream does not have.
    #[error("stream `{stream}` has no channel `{channel}`; it has {known}")]
    UnknownChannel {
        /// The stream.
        stream: StreamName,
        /// Channel that was requested.
        channel: String,
        /// Channels of the stream.
        known: String,
    },
    /// A channel with more than one value per sample.
    #[error(
        "channel `{channel}` of stream `{stream}` has {elements} values per sample; this operator takes one"
    )]
    ManyElements {
        /// The stream.
        stream: StreamName,
        /// The channel.
        channel: String,
        /// Number of values per sample of the channel.
        elements: usize,
    },
    /// The publisher restarted with another schema, which does not fit the output's.
    #[error(
        "stream `{stream}` restarted with another schema ({before} before, {now} now); restart the operator"
    )]
    SchemaChanged {
        /// The stream.
        stream: StreamName,
        /// Previous rate.
        before: SampleRate,
        /// The rate it has.
        now: SampleRate,
    },
    /// The publisher restarted with the same rate, but another schema, which does not fit the output's.
    #[error("stream `{stream}` restarted with other channels, labels or another dtype; restart the operator")]
    LayoutChanged {
        /// The stream.
        stream: StreamName,
    },
    /// An output rate too low for a fraction of 32-bit numbers.
    #[error(
        "the rate of one in {samples} samples of stream `{stream}` at {rate} samples per second cannot be \
         represented; use fewer samples"
    )]
    Rate {
        /// The stream.
        stream: StreamName,
        /// Samples of the input for each of the output.
        samples: u32,
        /// The input's rate.
        rate: SampleRate,
    },
    /// A window of more values than a quantile may keep.
    #[error(
        "a quantile keeps the values of its window: {values} of stream `{stream}`, and {MAX_KEPT_VALUES} at most; use a \
         shorter window, or select fewer channels before"
    )]
    Kept {
        /// The stream.
        stream: StreamName,
        /// Values of a window.
        values: u64,
    },
    /// A filter that does not fit the stream's rate.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// A stretch that does not fit the stream's samples.
    #[error(transparent)]
    Trigger(#[from] TriggerError),
    /// More elements than a filter has states for.
    #[error(
        "a sample of stream `{stream}` has {elements} values, and a filter takes {MAX_FILTERED_ELEMENTS} at most; select \
         fewer channels before"
    )]
    Wide {
        /// The stream.
        stream: StreamName,
        /// Values of a sample.
        elements: u32,
    },
    /// A stream without a steady rate, for an operator that needs one.
    #[error(
        "the samples of stream `{stream}` have times of their own; this operator needs samples at a \
         steady rate"
    )]
    OwnTimes {
        /// The stream.
        stream: StreamName,
    },
    /// Elements that are no real numbers.
    #[error(
        "the elements of stream `{stream}` are {dtype}, and {purpose} needs integers or real numbers; take another \
         stream, or a channel that `derive` makes of this one"
    )]
    NoReal {
        /// The stream.
        stream: StreamName,
        /// Type of its elements.
        dtype: Dtype,
        /// What needs numbers.
        purpose: &'static str,
    },
    /// A segment of more values than a spectrum may keep.
    #[error(
        "a spectrum keeps the values of its segment: {values} of stream `{stream}`, and {MAX_KEPT_VALUES} at most; use a \
         shorter segment, or select fewer channels before"
    )]
    Segment {
        /// The stream.
        stream: StreamName,
        /// Values of a segment.
        values: u64,
    },
    /// Two rates without a simple ratio, or too far apart.
    #[error(
        "stream `{stream}` has {rate} samples per second, and cannot be resampled to {resampled} at once: the ratio may have \
         numbers up to {MAX_RATIO_TERM} in lowest terms, and be {MAX_FASTER} at most; take two steps, or a rate near by"
    )]
    Ratio {
        /// The stream.
        stream: StreamName,
        /// Its rate.
        rate: SampleRate,
        /// Rate of the output.
        resampled: SampleRate,
    },
    /// A filter that reaches over more values than resampling may keep.
    #[error(
        "resampling keeps the values around a sample: {values} of stream `{stream}`, and {MAX_KEPT_VALUES} at most; \
         resample in two steps, or select fewer channels before"
    )]
    Reach {
        /// The stream.
        stream: StreamName,
        /// Values around a sample.
        values: u64,
    },
    /// An output that a stream cannot be, for instance for having too many channels.
    #[error("the output of stream `{stream}` cannot be described")]
    Schema {
        /// The stream.
        stream: StreamName,
        /// Error in its description.
        #[source]
        error: SchemaError,
    },
}

impl InputError {
    /// Returns the error of a publisher that restarted with another schema.
    pub(crate) fn changed(stream: &StreamName, before: &Schema, now: &Schema) -> Self {
        let (stream, before, now) = (stream.clone(), before.rate, now.rate);
        if before == now {
            Self::LayoutChanged { stream }
        } else {
            Self::SchemaChanged { stream, before, now }
        }
    }

    /// Returns the error of a channel that the stream does not have.
    pub(crate) fn unknown_channel(stream: &StreamName, channel: &str, schema: &Schema) -> Self {
        let known: Vec<&str> = schema.channels.iter().map(|channel| channel.name.as_str()).collect();
        Self::UnknownChannel { stream: stream.clone(), channel: channel.to_owned(), known: known.join(", ") }
    }

    /// Returns whether a new operator of the same configuration would take the block.
    #[must_use]
    pub const fn is_restart(&self) -> bool {
        matches!(self, Self::SchemaChanged { .. } | Self::LayoutChanged { .. })
    }
}
