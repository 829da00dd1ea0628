//! Operators of the monitor: streams calibrated, thinned, summarised, aligned and combined.
//!
//! Operators are pure: blocks, holes and horizons go in, runs of samples and holes come out. No operator
//! bridges a hole: every instant of an output's grid is a sample or part of a hole, which names the input it was
//! inherited from. The monitor publishes the output.
//!
//! Start with [`Graph`], the nodes that run, or with [`Operator`], which all of them have: [`Derivation`] (one stream from several by an expression),
//! [`Alignment`] (several side by side), [`Reduction`] (thinning, statistics), [`Channels`] (selection, calibration),
//! [`Filter`] (bands of frequencies), [`Resample`] (another rate), [`Spectrum`] (power by frequency), and with events as
//! output [`Alarm`] (limits) and [`Trigger`] (crossings of a level).

mod alarm;
mod align;
mod alignment;
mod channels;
mod derivation;
mod events;
mod expression;
mod filter;
mod horizon;
mod input;
mod intake;
mod numbered;
mod operator;
mod outputs;
mod reasons;
mod reduction;
mod resample;
mod running;
#[cfg(test)]
mod scene;
mod spectrum;
mod steady;
mod track;
mod trigger;
mod value;

pub mod plan;

pub use alarm::{Alarm, AlarmConfig, AlarmError};
pub use align::{AlignConfig, Aligned, Aligner};
pub use alignment::{AlignError, Alignment, MAX_ALIGNED};
pub use channels::{Calibration, Channels, calibrated};
pub use derivation::{Derivation, DerivationConfig, DeriveError, DerivedInput};
pub use expression::{Expression, ExpressionError, MAX_EXPRESSION_CHARS, MAX_VARIABLES};
pub use filter::{Filter, FilterError, MAX_FILTERED_ELEMENTS, MAX_ORDER, Response};
pub use horizon::{ABSENT_AFTER, End, Horizon, Horizons, Path};
pub use input::{Hole, Inherited, Input, InputError, Output};
pub use operator::{Operator, Totals};
pub use reduction::{MAX_KEPT_VALUES, Percent, Reduction, ReductionError, Statistic, UnknownStatistic};
pub use resample::{MAX_FASTER, MAX_RATIO_TERM, Resample};
pub use running::{
    Applied, Change, Graph, GraphError, MAX_UNDO, NodeStatus, PlannedChannel, PlannedStream, Publishing,
    Told, check_graph,
};
pub use spectrum::{
    MAX_AVERAGED_SEGMENTS, MAX_SEGMENT_SAMPLES, SpectralWindow, Spectrum, SpectrumConfig, SpectrumError,
    SpectrumScale,
};
pub use track::Matching;
pub use trigger::{Edge, MAX_STRETCH_BYTES, Trigger, TriggerConfig, TriggerError};
