//! The runs that an operator of one stream has decided, in order, and their account.

use std::collections::VecDeque;

use ledger::Stage;
use sample::SampleBuffer;
use units::WallTime;

use crate::{Inherited, Output, Totals};

/// Runs waiting to be polled; adjacent samples are one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    runs: VecDeque<Output>,
    next_index: u64,
    totals: Totals,
}

impl Outputs {
    /// Adds samples, of which the first is due at `t0`, as a run of their own.
    pub(crate) fn push_samples(&mut self, t0: WallTime, samples: u64, data: SampleBuffer) {
        let first_index = self.take(samples);
        self.runs.push_back(Output::Samples { first_index, t0, samples, data });
    }

    /// Adds one sample, one period after the sample before it if that waits here, too.
    pub(crate) fn push_row(&mut self, t0: WallTime, row: &[u8]) {
        match self.runs.back_mut() {
            Some(Output::Samples { samples, data, .. }) => {
                *samples += 1;
                data.extend_from_bytes(row);
                self.take(1);
            }
            _ => self.push_samples(t0, 1, SampleBuffer::from_bytes(row)),
        }
    }

    /// Adds a hole; one without samples is none.
    pub(crate) fn push_hole(
        &mut self,
        t0: WallTime,
        samples: u64,
        inherited: &Inherited,
        stage: Option<Stage>,
    ) {
        if samples > 0 {
            let (first_index, stream) = (self.take(samples), inherited.stream.clone());
            let inherited = Inherited { stream, stage };
            self.runs.push_back(Output::Hole { first_index, t0, samples, inherited });
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Output> {
        let output = self.runs.pop_front()?;
        match &output {
            Output::Samples { samples, .. } => self.totals.delivered += samples,
            Output::Hole { samples, .. } => self.totals.source += samples,
        }
        self.totals.offered = self.totals.delivered + self.totals.source;
        Some(output)
    }

    pub(crate) const fn totals(&self) -> Totals {
        self.totals
    }

    const fn take(&mut self, samples: u64) -> u64 {
        let first_index = self.next_index;
        self.next_index += samples;
        first_index
    }
}
