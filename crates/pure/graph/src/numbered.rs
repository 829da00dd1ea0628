//! Some channels of one stream as whole samples that keep their epoch and index, and the holes between them.
//!
//! [`Channels`] decides which samples are whole and what a hole is; its output has a numbering of its own. Operators whose
//! events name samples of the input read them here.

use std::sync::Arc;

use ledger::Stage;
use sample::{Block, StreamName};
use units::{Epoch, RangeSet, WallTime};

use crate::{Channels, Input, InputError, Operator, Output};

/// A sample of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) epoch: Epoch,
    /// Index since the epoch began.
    pub(crate) index: u64,
}

/// A part of the input, in order.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// Whole samples of the selected channels, under the input's index.
    Samples(Block),
    Missing(Missing),
}

/// Samples that are missing, or the time between two epochs of the publisher.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Missing {
    /// The first of them.
    pub(crate) place: Place,
    /// Time at which it was due.
    pub(crate) t0: WallTime,
    pub(crate) stage: Option<Stage>,
}

/// Numbers the samples of the selected channels.
#[derive(Clone, Debug)]
pub(crate) struct Numbered {
    channels: Channels,
    stream: Option<Arc<StreamName>>,
    /// The next sample.
    next: Option<Place>,
    /// First sample of the epoch that begins behind the next hole.
    begins: Option<Place>,
}

impl Numbered {
    pub(crate) fn new(channels: Vec<String>) -> Self {
        Self { channels: Channels::select(channels), stream: None, next: None, begins: None }
    }

    /// Takes an event of the input. Poll until `None` before the next.
    pub(crate) fn handle(&mut self, what: Input<'_>) -> Result<(), InputError> {
        self.channels.handle(0, what)?;
        if let Input::Block(block) = what {
            let first = Place { epoch: block.epoch, index: block.first_index };
            match self.next {
                None => {
                    self.stream = Some(block.stream.clone());
                    self.next = Some(first);
                }
                Some(next) if first.epoch > next.epoch => self.begins = Some(first),
                Some(_) => {}
            }
        }
        Ok(())
    }

    pub(crate) fn poll(&mut self) -> Option<Piece> {
        let output = self.channels.poll()?;
        let place = self.next.expect("known since the first block");
        let samples = match &output {
            Output::Samples { samples, .. } | Output::Hole { samples, .. } => *samples,
        };
        // The hole between two epochs comes first, and belongs to neither.
        let next = Place { index: place.index + samples, ..place };
        self.next = Some(self.begins.take().unwrap_or(next));
        Some(match output {
            Output::Samples { t0, samples, data, .. } => Piece::Samples(Block {
                stream: self.stream.clone().expect("known since the first block"),
                schema: self.channels.schema().expect("known since the first block"),
                epoch: place.epoch,
                first_index: place.index,
                t0,
                samples,
                data,
                missing: RangeSet::new(),
            }),
            Output::Hole { t0, inherited, .. } => {
                Piece::Missing(Missing { place, t0, stage: inherited.stage })
            }
        })
    }

    /// Returns the sample that is due next, known since the first block.
    pub(crate) const fn next(&self) -> Option<Place> {
        self.next
    }
}
