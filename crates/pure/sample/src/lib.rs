//! Parts of a stream: schemas, blocks of samples, and their reduction for display.
//!
//! Start with [`Schema`] (meaning of the samples) and [`Block`] (a run of them in the reader's memory).

mod block;
mod buffer;
mod dtype;
mod envelope;
mod pattern;
mod picture;
mod plane;
mod schema;
mod selection;
mod waterfall;

pub use block::{Block, WrongElement};
pub use buffer::{Foreign, SampleBuffer, SparePool};
pub use dtype::{Dtype, Element, UnknownDtype};
pub use envelope::{Column, ColumnGrid, ElementReader, Envelope, EnvelopeConfig, Kept, Point};
pub use pattern::{PatternError, StreamPattern};
pub use picture::{Matrix, MatrixShape, Picture, Pixels, Reduction};
pub use plane::Plane;
pub use schema::{Channel, Schema, SchemaError, StreamName, UnknownEntries};
pub use schema::{
    MAX_CHANNELS, MAX_ELEMENTS_PER_SAMPLE, MAX_NAME_BYTES, OWN_TIMES, PRIORITY_LABEL, TIMES_LABEL,
};
pub use selection::Selection;
pub use waterfall::{BinReader, StreamPlace, Waterfall, WaterfallColumn, WaterfallConfig, narrowest_column};
