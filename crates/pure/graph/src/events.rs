//! Streams of events: one sample per event, at the event's own time.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use ledger::Stage;
use sample::{Channel, Dtype, OWN_TIMES, SampleBuffer, Schema, StreamName, TIMES_LABEL, UnknownEntries};
use units::{Epoch, SampleRate, WallTime};

use crate::outputs::Outputs;
use crate::plan::Every;
use crate::{Inherited, Output, Totals};

/// A step back that makes events late instead of early: a publisher of [`OWN_TIMES`] refuses it, and begins another epoch
/// if times step back further.
const MAX_STEP_BACK: Duration = Duration::from_secs(1);

/// Least time between two events of one kind and channel at a steady rate, so that noise in a fast stream does not become a
/// datagram for every sample.
pub(crate) const LEAST_DISTANCE: Every = Every::Time(Duration::from_millis(1));

/// Events that wait to be polled.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    outputs: Outputs,
    newest: Option<WallTime>,
}

impl Events {
    /// Adds an event.
    pub(crate) fn push(&mut self, time: WallTime, row: SampleBuffer) {
        let time = self.in_order(time);
        self.outputs.push_samples(time, 1, row);
    }

    /// Adds an event that cannot be told, because of a hole in `stream`.
    pub(crate) fn push_hole(&mut self, time: WallTime, stream: &Arc<StreamName>, stage: Option<Stage>) {
        let time = self.in_order(time);
        let inherited = Inherited { stream: stream.clone(), stage: None };
        self.outputs.push_hole(time, 1, &inherited, stage);
    }

    pub(crate) fn pop(&mut self) -> Option<Output> {
        self.outputs.pop()
    }

    pub(crate) const fn totals(&self) -> Totals {
        self.outputs.totals()
    }

    /// Returns `time`, or that of the newest event if the input's clock was corrected to before it.
    fn in_order(&mut self, time: WallTime) -> WallTime {
        let newest = self.newest.unwrap_or(time);
        let back = Duration::from_nanos(u64::try_from(newest.nanos_since(time)).unwrap_or(0));
        let time = if back <= MAX_STEP_BACK { newest.max(time) } else { time };
        self.newest = Some(time);
        time
    }
}

/// Returns the schema of events: `f8`, times of their own, one a second expected.
pub(crate) fn event_schema(
    channels: Vec<Channel>,
    labels: impl IntoIterator<Item = (String, String)>,
) -> Schema {
    let mut labels: BTreeMap<_, _> = labels.into_iter().collect();
    labels.insert(TIMES_LABEL.to_owned(), OWN_TIMES.to_owned());
    let rate = SampleRate::hz(1).expect("one a second is a rate");
    Schema { dtype: Dtype::F8, rate, channels, labels, unknown: UnknownEntries::new() }
}

/// Returns the sample with these values.
pub(crate) fn event_row(values: impl IntoIterator<Item = f64>) -> SampleBuffer {
    SampleBuffer::from_bytes(&values.into_iter().flat_map(f64::to_le_bytes).collect::<Vec<u8>>())
}

/// Returns the start of an epoch in two parts, both exact: seconds since 1970 UTC, and nanoseconds.
pub(crate) const fn epoch_parts(epoch: Epoch) -> [f64; 2] {
    [(epoch.start_ns / 1_000_000_000) as f64, (epoch.start_ns % 1_000_000_000) as f64]
}
